// What a picker does with rows that have not begun: those that it has picked, whose
// content is still to be shown, that inserts have claimed; and how they go back.

#include <gd/actors/queue/picker.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace gd::actors {

// -- rows ---------------------------------------------------------------------

std::vector<execution_ptr>
picker_actor::lease_all(std::vector<store::picked_row> rows,
                        const std::string& token) {
  std::vector<execution_ptr> out;
  out.reserve(rows.size());
  for (auto& row : rows) {
    auto under = std::make_shared<lease>(row.id, token);
    home_->leases.add(under);
    auto machine = home_->machines->find_any(row.fsm, row.fsm_version);
    out.push_back(std::make_shared<execution>(std::move(machine),
                                              std::move(row), std::move(under),
                                              home_->config.limits));
  }
  return out;
}

void picker_actor::take(std::vector<execution_ptr> rows) {
  std::size_t bytes = 0;
  for (auto& x : rows) {
    bytes += x->row().bytes();
    put_ahead(std::move(x));
  }
  pace_.picked(rows.size(), bytes);
  start_steps();
}

void picker_actor::hold(const execution& x) {
  pace_.hold(x.row().bytes());
}

void picker_actor::let_go(const execution& x) {
  pace_.let_go(x.row().bytes());
}

void picker_actor::put_ahead(execution_ptr row) {
  const auto& under = row->under();
  bool tried = trials_.is_of(under);
  if (auto why = gate_.why_not_begin(row->row(), tried))
    return why == gate::reason::crashes ? fail_unrun(std::move(row))
                                        : release(*row);
  hold(*row);
  if (!row->row().shown) {
    turn_.show({under->id, under->token});
    waiting_.add(std::move(row), waits_for::content);
  } else if (tried) {
    trials_.show();
    waiting_.add(std::move(row), waits_for::trial);
  } else {
    waiting_.add(std::move(row), waits_for::slot);
  }
}

void picker_actor::collect_shown(turn::report& report) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (auto& x : report.shown_rows) {
    auto row = waiting_.take(x.which);
    if (!row)
      continue;   // released meanwhile
    let_go(*row); // the row comes back with its content
    auto is_long = [](const auto& text) { return text.empty(); };
    if (x.why) {
      end_unusable(std::move(row), without_data(*x.why),
                   "its row cannot be read: " + x.why->message);
    } else if (!x.content) {
      drop(*row);
    } else if (is_long(*x.content->state)
               || std::any_of(x.content->inbox.begin(), x.content->inbox.end(),
                              [&](const auto& s) {
      return is_long(s.payload);
                  })) {
      auto what = is_long(*x.content->state) ? "its state"
                                             : "a signal's payload";
      auto why = what
                 + (" is longer than " + std::to_string(store::longest_text))
                 + " bytes, or has a number of more than "
                 + std::to_string(max_json_number) + " characters";
      end_unusable(std::move(row), {errc::rejected, why, {}}, why);
    } else {
      row->show(std::move(*x.content));
      bytes += row->row().bytes();
      ++count;
      put_ahead(std::move(row));
    }
  }
  pace_.shown(count, bytes);
  for (auto& x : report.still_hidden) {
    if (!waiting_.contains(x))
      continue;
    if (room() > 0)
      turn_.show(std::move(x));
    else
      release_held(*waiting_.take(x));
  }
}

void picker_actor::end_unusable(execution_ptr row, const error& why,
                                const std::string& reason) {
  home_->tell(events::row_unusable{row->under()->id, why});
  auto outcome = row->fail_unrun(reason, why.message);
  auto tag = begun_.draw_tag();
  auto under = row->under();
  auto key = store::hold_of(row->row());
  begun_.add(
    tag,
    {.under = std::move(under), .spare = std::move(row), .key = std::move(key)},
    step_table::state::reported);
  turn_.add(std::move(outcome), tag);
}

// -- rows that leave ----------------------------------------------------------

/// The row's lease is somebody else's by now.
void picker_actor::drop(const execution& x) {
  home_->leases.remove(x.under());
  if (x.under()->suspect)
    home_->isolation->ended(x.under()->id, false);
  if (trials_.is_of(x.under()))
    trials_.end();
  if (auto key = store::hold_of(x.row()))
    unlock(std::move(*key));
}

void picker_actor::release_late() {
  pace_.note(steps_->time_in_use());
  auto waiting = static_cast<std::int64_t>(
    steps_->waiting() + waiting_.count(waits_for::slot)
    + waiting_.count(waits_for::content));
  auto late = waiting - pace_.most_waiting();
  if (late <= 0)
    return;
  auto count = static_cast<std::size_t>(late);
  auto rows = waiting_.take_last(count);
  auto n = rows.size();
  release_all(rows);
  if (n < count)
    for (const auto& x :
         steps_->take_waiting(steps_->waiting() - (count - n))) {
      release_job(x);
      ++n;
    }
  home_->tell(events::given_back{queue_.name, n});
}

/// What runs ends as it is.
void picker_actor::on_machines_withdrawn() {
  gate_.withdraw();
  turn_.serve(home_->machines->keys());
  cancel_trial();
  release_ahead();
  drive();
}

/// What runs ends; what it leads to waits in the table.
void picker_actor::see_pauses() {
  bool paused = home_->paused.contains(queue_.name);
  bool before = gate_.pause(paused);
  if (paused && !before) {
    home_->claims->close(queue_.name);
    cancel_trial();
    release_ahead();
  } else if (before && !paused) {
    turn_.look_everywhere();
    look_again();
  }
}

void picker_actor::on_rows_claimed() {
  for (auto& x : home_->claims->collect(queue_.name)) {
    if (x.lost) {
      home_->tell(events::pick_lost{queue_.name, x.token});
      turn_.lose(std::move(x.token), now());
    } else if (auto rows = lease_all(std::move(x.rows), x.token);
               picking(x.behind)) {
      for (const auto& row : rows)
        hold(*row);
      waiting_.add_claimed(x.behind, std::move(rows));
    } else {
      take(std::move(rows));
    }
  }
  drive();
}

std::uint64_t picker_actor::first_pick() const {
  auto first = std::numeric_limits<std::uint64_t>::max();
  for (auto pick : picks_)
    if (pick > 0)
      first = std::min(first, pick);
  return first;
}

/// The pick has ended: rows that were claimed beside it come behind what it has
/// found, and are released if it has left something, which comes before them, too.
void picker_actor::take_claimed(std::uint64_t pick) {
  for (auto& x : waiting_.end_pick(pick, !exhausted_, first_pick())) {
    for (const auto& row : x.rows)
      let_go(*row);
    if (!x.too_early)
      take(std::move(x.rows));
    else
      for (const auto& row : x.rows)
        release(*row);
  }
}

void picker_actor::release(const execution& x) {
  x.under()->decide(decider::release);
  store::outcome_row row;
  row.id = x.under()->id;
  row.token = x.under()->token;
  row.what = store::verb::release;
  row.may_collide = store::may_collide(x.row(), row.what);
  auto tag = begun_.draw_tag();
  begun_.add(tag, {.under = x.under(), .key = store::hold_of(x.row())},
             step_table::state::reported);
  turn_.add(std::move(row), tag);
  if (draining_)
    ++draining_->left.released;
}

void picker_actor::release_held(const execution& x) {
  let_go(x);
  release(x);
}

void picker_actor::release_all(const std::vector<execution_ptr>& rows) {
  for (const auto& x : rows)
    release_held(*x);
  turn_.forget_hidden(
    [this](const auto& row) { return !waiting_.contains(row); });
}

/// All that has not begun, but for what is to run alone.
void picker_actor::release_ahead() {
  for (const auto& x : steps_->take_waiting()) {
    if (!trials_.is_of(x.what->under()))
      release_job(x);
    else
      steps_->put({x});
  }
  release_all(waiting_.take_picked(trials_.under()));
}

} // namespace gd::actors
