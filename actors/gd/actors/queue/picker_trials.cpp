// What a picker does with suspects: counts those that it has taken, gives way to a
// trial wherever in the process it is, and runs its own.

#include <gd/actors/queue/picker.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

/// Before notes that a stranger's lock, or a lost connection, has kept from being
/// made are tried again.
constexpr std::chrono::milliseconds note_again_after{100};

} // namespace

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
      trial_.emplace(
        trial{.under = rows[*on_trial]->under(), .trials = row.trials});
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

bool picker_actor::is_on_trial(const lease_ptr& under) const {
  return trial_ && trial_->under == under;
}

// -- trials -------------------------------------------------------------------

void picker_actor::on_suspects_changed() {
  if (!home_->isolation->held())
    look_again();
  drive();
}

void picker_actor::see_to_trials() {
  bool held = home_->isolation->held();
  if (!held && !trial_ && notes_.empty())
    return;
  if (held) {
    home_->claims->close(queue_.name);
    release_ahead();
    home_->isolation->rests(queue_.name, rests_at());
  }
  auto t = now();
  if (trial_begins_at() <= t)
    note_trial();
  else if (trial_ && trial_->now == trial::stage::running && trial_->until <= t)
    survive_trial();
  write_notes();
}

/// max(): there is none, or it waits for something else than time.
picker_actor::clock::time_point picker_actor::trial_begins_at() const {
  if (!trial_ || trial_->now != trial::stage::waiting || !trial_->shown)
    return clock::time_point::max();
  return home_->isolation->begins_at();
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
    bool runs = x.has_slot() || (x.away && !x.has_outcome());
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
    end_trial();
    return release_held(*waiting_.take_trial());
  }
  trial_->now = trial::stage::noting;
  note(*trial_->under, trial_->trials + 1);
  notes_.back().begins = true;
}

void picker_actor::begin_trial() {
  auto what = waiting_.take_trial();
  const auto& row = what->row();
  home_->tell(events::trial_begun{what->which(), row.crashes, row.trials});
  trial_->now = trial::stage::running;
  trial_->until = now() + home_->config.heartbeat;
  waiting_.add_first(std::move(what));
  start_steps();
}

/// It goes on beside others.
void picker_actor::survive_trial() {
  // It may have waited for a thread.
  auto end = trial_->under->began() == clock::time_point::min()
               ? trial_->until
               : trial_->under->began() + home_->config.heartbeat;
  if (end > trial_->until) {
    trial_->until = end;
    return;
  }
  note(*trial_->under, trial_->trials);
  end_trial();
}

void picker_actor::end_trial() {
  trial_.reset();
  home_->isolation->end_trial();
}

/// One that does not begin, for now.
void picker_actor::cancel_trial() {
  if (!trial_ || trial_->now != trial::stage::waiting)
    return;
  end_trial();
  if (auto row = waiting_.take_trial())
    release_held(*row);
}

/// The node stops, and it is not to blame.
void picker_actor::abandon_trial() {
  if (!trial_)
    return;
  if (trial_->now != trial::stage::waiting) {
    note(*trial_->under, trial_->trials);
    send_notes();
  }
  if (waiting_.take_trial()) // it will not begin
    home_->leases.remove(trial_->under);
  end_trial();
}

// -- notes --------------------------------------------------------------------

/// `worker`: whose process has ended.
void picker_actor::note(const lease& of, std::int32_t trials,
                        std::optional<std::string> worker) {
  std::erase_if(notes_, [&of](const auto& x) {
    return x.id == of.id && x.token == of.token;
  });
  notes_.push_back({{of.id, of.token, trials, std::move(worker)},
                    now() + home_->config.lease});
}

void picker_actor::write_notes() {
  if (!notes_.empty() && notes_sent_.empty() && now() >= notes_at_)
    send_notes();
}

void picker_actor::send_notes() {
  // Each row once in a statement: those behind wait for the next.
  std::set<std::int64_t> ids;
  auto behind = std::stable_partition(notes_.begin(), notes_.end(),
                                      [&ids](const auto& x) {
    return ids.insert(x.id).second;
  });
  notes_sent_.assign(notes_.begin(), behind);
  notes_.erase(notes_.begin(), behind);
  auto begins = std::find_if(notes_sent_.begin(), notes_sent_.end(),
                             [](const auto& x) { return x.begins; });
  auto who = begins != notes_sent_.end() ? begins->id : 0;
  submit(this, *home_->db, lanes_.front(),
         pq::unit{
           {store::note_trials({notes_sent_.begin(), notes_sent_.end()}, who)}},
         notes_ticket);
}

void picker_actor::on_notes_written(const pq::reply& reply) {
  std::map<std::int64_t, bool> answers;
  if (reply.ok())
    for (const auto& x : store::read<store::noted_row>(reply.results.front()))
      answers.emplace(x.id, x.fenced);
  else if (reply.failure->code != errc::stopped)
    home_->tell(events::turn_failed{queue_.name, without_data(*reply.failure)});
  for (auto& x : std::exchange(notes_sent_, {})) {
    auto found = answers.find(x.id);
    bool is_of_trial = trial_ && trial_->now == trial::stage::noting
                       && trial_->under->id == x.id
                       && trial_->under->token == x.token;
    if (is_of_trial)
      on_trial_noted(found == answers.end() ? std::nullopt
                                            : std::optional{found->second});
    else if (found == answers.end() && now() < x.until)
      note_again(std::move(x));
  }
  drive();
}

/// Unset: a stranger has locked the row, or nobody knows.
void picker_actor::on_trial_noted(std::optional<bool> fenced) {
  if (fenced.value_or(false))
    return begin_trial();
  auto row = waiting_.take_trial();
  if (fenced) {
    end_trial();
    let_go(*row);
    return drop(*row);
  }
  // The process does not stand still for that.
  note(*trial_->under, trial_->trials);
  end_trial();
  release_held(*row);
}

/// Unless there is a newer one.
void picker_actor::note_again(pending_note x) {
  notes_at_ = now() + note_again_after;
  if (std::none_of(notes_.begin(), notes_.end(), [&x](const auto& y) {
        return x.id == y.id && x.token == y.token;
      }))
    notes_.push_back(std::move(x));
}

} // namespace gd::actors
