// What a picker does with suspects: counts those that it has taken, gives way to a
// trial wherever in the process it is, and runs its own.

#include <gd/actors/queue/picker.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace gd::actors {

// -- rows ---------------------------------------------------------------------

void picker_actor::take_suspects(std::vector<execution_ptr> rows,
                                 std::optional<std::size_t> on_trial) {
  for (const auto& x : rows)
    x->under()->suspect = true;
  if (on_trial) {
    const auto& row = rows[*on_trial]->row();
    if (gate_.why_not_begin(row, true))
      home_->isolation->end_trial();
    else
      trials_.add(rows[*on_trial]->under(), row.trials);
  }
  take(std::move(rows));
}

void picker_actor::fail_unrun(execution_ptr row) {
  auto why = "step " + row->row().step + " has taken its process or its actor "
             + "along " + std::to_string(row->row().trials)
             + " times, most of them while nothing else began: it is not run "
               "again (max_crashes)";
  end_unusable(std::move(row), {errc::rejected, why, {}}, why);
}

// -- trials -------------------------------------------------------------------

void picker_actor::on_suspects_changed() {
  if (!home_->isolation->held())
    look_again();
  drive();
}

void picker_actor::see_to_trials() {
  bool held = home_->isolation->held();
  if (!held && trials_.rests())
    return;
  if (held) {
    home_->claims->close(queue_.name);
    release_ahead();
    home_->isolation->rests(queue_.name, rests_at());
  }
  auto t = now();
  if (trials_.begins_at() <= t)
    note_trial();
  else
    trials_.end_survived(t);
  if (auto notes = trials_.write(t))
    write_notes(*notes);
}

/// Whether a slot may be free for a suspect within a heartbeat: not all of them are
/// taken by steps that have run for longer; or a worker may have it.
bool picker_actor::may_run_suspects() {
  if (has_idle_worker())
    return true;
  auto old = now() - home_->config.heartbeat;
  const auto& rows = begun_.all();
  auto taken = std::count_if(rows.begin(), rows.end(), [old](const auto& x) {
    return x.second.has_slot()
           && x.second.under->began() != clock::time_point::min()
           && x.second.under->began() <= old;
  });
  return !gate_.why_no_slot(static_cast<std::int32_t>(taken));
}

/// From when on no step of this queue is younger than a heartbeat; max(): there is
/// still something to be written, or to begin.
picker_actor::clock::time_point picker_actor::rests_at() {
  bool more = waiting_.count(waits_for::pick) > 0 || turn_.wanted() > 0
              || home_->claims->under_way(queue_.name) > 0;
  auto at = clock::time_point::min();
  for (const auto& [tag, x] : begun_.all()) {
    bool begun = x.under->began() != clock::time_point::min();
    bool runs = x.has_slot() || (x.at_worker() && !x.has_outcome());
    if (runs && begun)
      at = std::max(at, x.under->began() + home_->config.heartbeat);
    else
      more = more || runs || x.now() != step_table::state::settled;
  }
  return more ? clock::time_point::max() : at;
}

void picker_actor::note_trial() {
  // Slots are taken by what has run for longer: there is no use in waiting for them.
  if (gate_.why_no_slot(begun_.running(), has_idle_worker())) {
    trials_.end();
    return release_held(*waiting_.take_trial());
  }
  trials_.note_begin(now());
}

void picker_actor::begin_trial() {
  auto what = waiting_.take_trial();
  const auto& row = what->row();
  home_->tell(events::trial_begun{what->which(), row.crashes, row.trials});
  waiting_.add_first(std::move(what));
  start_steps();
}

/// One that does not begin, for now.
void picker_actor::cancel_trial() {
  if (!trials_.cancel())
    return;
  if (auto row = waiting_.take_trial())
    release_held(*row);
}

/// The node stops, and it is not to blame.
void picker_actor::abandon_trial() {
  if (trials_.abandon(now()))
    write_notes(trials_.write_rest());
  if (auto row = waiting_.take_trial()) // it will not begin
    home_->leases.remove(row->under());
}

// -- notes --------------------------------------------------------------------

void picker_actor::write_notes(const trials::written& what) {
  submit(this, *home_->db, lanes_.front(),
         pq::unit{{store::note_trials(what.notes, what.begins)}}, notes_ticket);
}

void picker_actor::on_notes_written(const pq::reply& reply) {
  std::vector<store::noted_row> answers;
  if (reply.ok())
    answers = store::read<store::noted_row>(reply.results.front());
  else if (reply.failure->code != errc::stopped)
    home_->tell(events::turn_failed{queue_.name, without_data(*reply.failure)});
  switch (trials_.finish(answers, now())) {
    case trials::outcome::none:
      break;
    case trials::outcome::noted:
      begin_trial();
      break;
    case trials::outcome::lost: {
      auto row = waiting_.take_trial();
      let_go(*row);
      drop(*row);
      break;
    }
    case trials::outcome::unknown:
      release_held(*waiting_.take_trial());
  }
  drive();
}

} // namespace gd::actors
