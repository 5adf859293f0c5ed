#include <gd/actors/queue/picker.hpp>

#include <gd/actors/queue/step.hpp>

#include <gd/pq/ensure.hpp>
#include <gd/store/ends.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace gd::actors {

namespace {

using on_worker = step_table::on_worker;
using state = step_table::state;

/// A step that keeps one of CAF's threads for so long is told.
constexpr std::chrono::milliseconds slow_step{10};

/// Outcomes of rows that nobody here knows, at the same time, at the most.
constexpr std::size_t most_late = 1'000;

gate::settings gate_settings(const node& home, const queue_config& queue) {
  return {.slots = queue.slots,
          .max_crashes = home.config.max_crashes,
          .machines = home.machines,
          .suspects = home.quarantine};
}

pace::settings pace_settings(const node& home, const queue_config& queue) {
  const auto& cfg = home.config;
  auto how = pace::for_lease(cfg.lease);
  how.slots = queue.slots;
  how.prefetch = queue.prefetch;
  how.bytes = cfg.bytes_held;
  how.share = home.bytes_of_queue();
  how.bytes_at_once = cfg.bytes_per_turn;
  return how;
}

turn::settings turn_settings(node& home, const queue_config& queue,
                             std::size_t transactions) {
  const auto& cfg = home.config;
  return {.queue = queue.name,
          .incarnation = home.incarnation,
          .first_pick = home.token_ranges++ * token_range + 1,
          .machines = home.machines->keys(),
          .lease = cfg.lease,
          .rows = static_cast<std::size_t>(cfg.rows_per_turn),
          .bytes = static_cast<std::size_t>(cfg.bytes_per_turn),
          .inbox = cfg.limits.inbox,
          .resend = cfg.resend_window(),
          .keys = home.keys,
          .suspects = home.quarantine,
          .transactions = transactions,
          .statements = cfg.effects};
}

} // namespace

picker_actor::picker_actor(caf::actor_config& cfg, node_ptr home,
                           queue_config queue,
                           std::vector<std::size_t> connection_slots)
  : stepper_actor(cfg, std::move(home), std::move(queue)),
    connection_slots_(std::move(connection_slots)),
    turn_(turn_settings(*home_, queue_, connection_slots_.size())),
    gate_(gate_settings(*home_, queue_)),
    trials_({.heartbeat = home_->config.heartbeat,
             .lease = home_->config.lease,
             .suspects = home_->quarantine}),
    pace_(pace_settings(*home_, queue_)),
    bytes_(home_->hold(home_->of_rows)) {
  // nop
}

caf::behavior picker_actor::make_behavior() {
  watcher_.install(this);
  open();
  auto self = caf::actor_cast<caf::actor>(this);
  home_->claims->enter(queue_.name, [self] { anon(self, rows_claimed{}); });
  home_->quarantine->enter(queue_.name, queue_.slots, home_->config.heartbeat,
                           [self] { anon(self, suspects_changed{}); });
  see_workers();
  gate_.pause(home_->paused.contains(queue_.name));
  poll_at_ = now();
  anon(self, tick{});
  return {
    [this](tick x) {
    if (alarm_.rings(x))
      drive();
    },
    [this](hint x) { on_hint(x); },
    [this](rows_claimed) { on_rows_claimed(); },
    [this](unit_done& x) {
    if (x.ticket == notes_ticket)
      on_notes_written(*x.reply);
    else
      on_unit_done(x.ticket, *x.reply);
  },
    [this](suspects_changed) {
    if (!home_->quarantine->held())
      pick_again();
    drive();
    }, [this](workers_changed) { on_workers_changed(); },
    [this](steps_ended) {
    start_steps();
    drive();
    }, [this](step_begun x) { on_step_begun(x); },
    [this](step_outcome& x) { on_step_outcome(*x.what); },
    [this](step_written& x) { on_step_written(*x.what); },
    [this](machines_withdrawn) { // what runs ends as it is
    gate_.withdraw();
    turn_.serve(home_->machines->keys());
    cancel_trial();
    release_prefetched();
    drive();
    },
    [this](pauses_changed) {
    see_pauses();
    drive();
    }, [this](drain x) { on_drain(x); },
    };
}

void picker_actor::on_exit() {
  // However the picker ended: its steps go with it, and their rows wait for their
  // leases, as after a crash of the process.
  std::vector<std::string> keys;
  for (auto& [tag, x] : begun_.all())
    if (x.key)
      keys.push_back(x.key->key);
  end_steps();
  if (workers_)
    workers_->leave(queue_.name);
  for (const auto& x : waiting_.take_all()) {
    home_->leases.remove(x->under());
    if (const auto& key = x->row().partition_key)
      keys.push_back(*key);
  }
  home_->quarantine->leave(queue_.name);
  for (auto& x : home_->claims->leave(queue_.name))
    turn_.lose(std::move(x.token), now());
  auto left = turn_.abandon();
  keys.insert(keys.end(), left.keys.begin(), left.keys.end());
  for (const auto& key : keys)
    home_->keys->remove(key);
  auto leave = [this](std::size_t connection_slot, pq::unit work) {
    home_->db->submit(
      connection_slot, std::move(work), [](const pq::reply&) {},
      database::patience::on::this_one);
  };
  for (std::size_t i = 0; i < connection_slots_.size(); ++i)
    if (left.release[i])
      leave(connection_slots_[i], std::move(*left.release[i]));
  // Nobody else knows which of the session's locks were this picker's.
  if (!keys.empty() || left.locks)
    leave(connection_slots_.front(), {{store::end_session()}, false});
  begun_ = {};
  draining_.reset();
}

// -- the sequence -------------------------------------------------------------

void picker_actor::drive() {
  do { // again, if more has ended meanwhile than the turn waits for
    collect_ended();
    expire_limits();
    release_late();
    if (turn_.sees_suspects())
      home_->quarantine->clear(now());
    if (suspects_wait_ && may_run_suspects()) {
      suspects_wait_ = false;
      pick_again();
    }
    see_to_trials();
    begin_transactions();
  } while (steps_->tell_at(turn_.missing()));
  // A pick under way will hardly take what it wants: the last one did not. (If only
  // a pick's end opened the slots, each insert would have to be picked, and that pick
  // would keep the slots closed for the next insert.)
  if (exhausted_ && !gate_.why_not_claim())
    home_->claims->offer(queue_.name, wanted() + turn_.wanted());
  stop_if_drained();
  arm();
}

/// As many transactions as the turn accepts.
void picker_actor::begin_transactions() {
  auto t = now();
  while (!turn_.occupied(wanted())) {
    if (t >= poll_at_) {
      see_pauses();
      pick_again();
      turn_.scan_everything();
      poll_at_ = t + home_->config.poll;
    }
    if (t >= due_at_) {
      pick_again();
      due_at_ = clock::time_point::max();
    }
    pace_.hurry(steps_->time_in_use());
    // A flush takes a pick along: it costs little in a transaction anyway. But
    // a few outcomes that leave nothing to pick need not wait for it, nor do those
    // whose keys bring the next rows along.
    bool pick = pick_again_ || turn_.plenty()
                || (turn_.under_load() && !(exhausted_ && turn_.keys_stay()));
    bool suspects = turn_.sees_suspects() && may_run_suspects();
    suspects_wait_ = turn_.sees_suspects() && !suspects;
    auto want = std::max(wanted(), 0);
    auto next = turn_.begin(pick ? want : 0, t, room(), suspects, want);
    if (!next)
      return;
    pick_again_ = next->leaves_suspects
                  || (!next->picks && (pick_again_ || pick_follows_));
    pace_.began(next->transaction, t);
    sent_at_[next->transaction] = t;
    showing_[next->transaction] = next->shows;
    picks_[next->transaction] = next->picks
                                  ? home_->claims->begin_pick(queue_.name)
                                  : 0;
    submit(this, *home_->db, connection_slots_[next->transaction],
           std::move(next->work), next->transaction);
  }
}

/// Sees to a tick for what is to be done without any other message.
void picker_actor::arm() {
  auto t = now();
  auto at = std::min(begun_.due(), trials_.due());
  if (!turn_.occupied()) // else a transaction's end drives on
    at = std::min({at, poll_at_, due_at_, turn_.due(t, room() > 0)});
  if (draining_) // the last unit may wait for a connection
    at = std::min(at, draining_->by);
  if (turn_.sees_suspects())
    at = std::min(at, home_->quarantine->clears_at());
  alarm_.set(this, at);
}

void picker_actor::on_hint(hint x) {
  if (x.anywhere)
    turn_.scan_everything();
  if (x.for_others && wanted() <= 0)
    home_->leave_to_others(queue_.name, x.anywhere);
  pick_again();
  drive();
}

/// A transaction has ended: what it has written is completed, what it has shown or picked
/// goes on, and the next one follows.
void picker_actor::on_unit_done(std::size_t transaction,
                                const pq::reply& reply) {
  collect_ended();
  auto t = now();
  auto took = std::chrono::duration_cast<std::chrono::microseconds>(
    t - sent_at_[transaction]);
  auto report = turn_.finish(transaction, reply, t);
  auto pick = std::exchange(picks_[transaction], 0);
  showing_[transaction] = 0;
  bool unpicked = false;
  std::size_t written = 0;
  for (auto& x : report.rows) {
    if (x.what == turn::flushed::verdict::applied
        && x.row->what != store::write_kind::release)
      ++written;
    // A row that was locked before is written when nobody expects it to be picked.
    if (x.row->what == store::write_kind::next && pick == 0
        && !x.key_passed_on) {
      pick_again();
      unpicked = unpicked || x.row->delay_us == 0;
    }
    collect_flushed(x);
  }
  if (unpicked && wanted() <= 0)
    home_->leave_to_others(queue_.name, false);
  collect_shown(report);
  tell_of(report);
  if (report.full || report.released > 0)
    pick_again();
  if (pick > 0) {
    // There may be more rows.
    pick_follows_ = report.picked.size() > report.passed_on;
    exhausted_ = report.exhausted;
    due_at_ = report.due_in ? t + *report.due_in : clock::time_point::max();
    if (!exhausted_)
      home_->claims->close(queue_.name);
    else if (first_pick() > pick) // else rows were locked that it has not seen
      home_->claims->open(queue_.name, pick);
  }
  pace_.finished(transaction, t, steps_->time_in_use());
  // The server need not wait until what was picked is with the runners.
  auto picked = report.picked.size();
  coming_ = static_cast<std::int32_t>(picked);
  if (turn_.plenty())
    begin_transactions();
  coming_ = 0;
  auto rows = lease_all(std::move(report.picked), report.token,
                        report.suspects);
  if (report.on_trial) {
    const auto& alone = *rows[*report.on_trial];
    if (gate_.why_not_begin(alone.row(), true))
      home_->quarantine->end_trial();
    else
      trials_.add(alone.under(), alone.row().trials);
  }
  take(std::move(rows));
  if (pick > 0)
    take_claimed(pick);
  // Before the drive: that may be the end. What the runners have not begun begins at
  // once, up to so many.
  if (!report.failure)
    home_->tell(events::turn_ended{queue_.name, written, picked, took,
                                   std::min(begun_.running(), queue_.slots),
                                   queue_.slots});
  drive();
}

void picker_actor::tell_of(const turn::report& report) {
  using fate = events::row_unusable::fate;
  for (const auto& x : report.unpickable) {
    auto why = without_data(x.why);
    home_->tell(events::row_unusable{x.row.id, why, x.what});
    if (x.what == fate::failed)
      home_->tell(events::instance_failed{x.run, "its row cannot be picked: "
                                                   + why.message});
    else
      home_->refused.note(x.row.id, "a pick", x.why, system().clock().now());
  }
  if (report.failure)
    home_->tell(
      events::turn_failed{queue_.name, without_data(*report.failure)});
  if (report.lost_pick)
    home_->tell(events::pick_lost{queue_.name, *report.lost_pick});
  if (report.released > 0)
    home_->tell(events::lost_pick_released{queue_.name, report.released});
  const auto& sent = report.carried;
  if (sent.inserts + sent.signals + sent.statements > 0)
    home_->tell(events::effects_done{queue_.name, sent.inserts, sent.signals,
                                     sent.statements, sent.dropped});
  for (const auto& x : report.held_up) {
    home_->tell(
      events::outcome_held_up{x.id, x.what.kind, without_data(x.what.why)});
    home_->refused.note(
      x.id, "what it carries",
      {x.what.why.code, x.what.message(), x.what.why.sqlstate},
      system().clock().now());
  }
  if (!report.queues.empty())
    home_->wake({report.queues.begin(), report.queues.end()}, false);
}

void picker_actor::pick_again() {
  pick_again_ = true;
  home_->claims->close(queue_.name);
}

/// What runs ends; what it leads to waits in the table.
void picker_actor::see_pauses() {
  bool paused = home_->paused.contains(queue_.name);
  bool before = gate_.pause(paused);
  if (paused && !before) {
    home_->claims->close(queue_.name);
    cancel_trial();
    release_prefetched();
  } else if (before && !paused) {
    turn_.scan_everything();
    pick_again();
  }
}

pace::load picker_actor::load() {
  auto [waiting, unwritten] = steps_->now();
  bytes_.set(static_cast<std::int64_t>(waiting_.bytes() + begun_.bytes())
             + showing_[0] + showing_[1] + unwritten);
  return {.running = begun_.running(),
          .waiting = waiting,
          .slot_to_fill = waiting == 0 && !waiting_.any_prefetched()
                          && !gate_.why_no_slot(begun_.running()),
          .bytes = bytes_.mine(),
          .of_others = bytes_.of_others()};
}

std::int32_t picker_actor::wanted() {
  if (gate_.why_not_pick())
    return 0;
  auto with = load();
  with.coming = static_cast<std::int64_t>(waiting_.size()) + coming_
                + begun_.advancing() + turn_.wanted()
                + home_->claims->under_way(queue_.name);
  auto want = pace_.wanted(with);
  return has_worker() ? want + workers_->room(queue_.name) : want;
}

// -- rows that come in --------------------------------------------------------

std::vector<held_row_ptr>
picker_actor::lease_all(std::vector<store::picked_row> rows,
                        const std::string& token, bool suspects) {
  std::vector<held_row_ptr> out;
  out.reserve(rows.size());
  for (auto& row : rows) {
    auto under = std::make_shared<lease>(row.id, token);
    under->suspect = suspects;
    home_->leases.add(under);
    auto machine = home_->machines->find_any(row.fsm, row.fsm_version);
    out.push_back(std::make_shared<held_row>(
      std::move(machine), std::move(row), std::move(under),
      home_->config.limits, home_->machines.get()));
  }
  return out;
}

void picker_actor::take(std::vector<held_row_ptr> rows) {
  std::size_t bytes = 0;
  for (auto& x : rows) {
    bytes += x->row().bytes();
    put_prefetched(std::move(x));
  }
  pace_.picked(rows.size(), bytes);
  start_steps();
}

void picker_actor::put_prefetched(held_row_ptr row) {
  const auto& picked = row->row();
  bool tried = trials_.is_of(row->under());
  if (auto why = gate_.why_not_begin(picked, tried)) {
    if (why != gate::reason::crashes)
      return release(*row);
    auto text = "step " + picked.step + " has taken its process or its actor "
                + "along " + std::to_string(picked.trials)
                + " times, most of them while nothing else began: it is not "
                  "run again (max_crashes)";
    return end_unusable(std::move(row), text, {errc::rejected, text, {}});
  }
  if (!picked.shown) {
    turn_.show({picked.id, row->under()->token});
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
      continue; // released meanwhile
    if (x.why) {
      end_unusable(std::move(row), "its row cannot be read: " + x.why->message,
                   without_data(*x.why));
    } else if (!x.content) {
      drop(*row);
    } else if (auto why = row->show(std::move(*x.content)); !why.empty()) {
      end_unusable(std::move(row), why, {errc::rejected, why, {}});
    } else {
      bytes += row->row().bytes();
      ++count;
      put_prefetched(std::move(row));
    }
  }
  pace_.shown(count, bytes);
  for (auto& x : report.still_unloaded) {
    if (!waiting_.contains(x))
      continue;
    if (room() > 0)
      turn_.show(std::move(x));
    else
      release(*waiting_.take(x));
  }
}

/// Its instance fails, and no step runs. `why`: the reason without what is stored.
void picker_actor::end_unusable(held_row_ptr row, const std::string& reason,
                                const error& why) {
  home_->tell(events::row_unusable{row->under()->id, why});
  auto outcome = row->stop(reason);
  auto tag = begun_.draw_tag();
  auto under = row->under();
  auto key = store::hold_of(row->row());
  gd::run none{std::move(row)};
  none.ran({.end = why.message});
  begun_.add(
    tag,
    {.under = std::move(under), .what = std::move(none), .key = std::move(key)},
    state::reported);
  turn_.add(std::move(outcome), tag);
}

void picker_actor::on_rows_claimed() {
  for (auto& x : home_->claims->collect(queue_.name)) {
    if (x.lost) {
      home_->tell(events::pick_lost{queue_.name, x.token});
      turn_.lose(std::move(x.token), now());
      continue;
    }
    auto rows = lease_all(std::move(x.rows), x.token);
    if (first_pick() <= x.behind)
      waiting_.add_claimed(x.behind, std::move(rows));
    else
      take(std::move(rows));
  }
  drive();
}

/// The pick has ended: rows that were claimed beside it come behind what it has
/// found, and are released if it has left something, which comes before them, too.
void picker_actor::take_claimed(std::uint64_t pick) {
  for (auto& x : waiting_.end_pick(pick, !exhausted_, first_pick())) {
    if (!x.too_early)
      take(std::move(x.rows));
    else
      for (const auto& row : x.rows)
        release(*row);
  }
}

std::uint64_t picker_actor::first_pick() const {
  auto first = std::numeric_limits<std::uint64_t>::max();
  for (auto pick : picks_)
    if (pick > 0)
      first = std::min(first, pick);
  return first;
}

// -- rows that go back --------------------------------------------------------

void picker_actor::release(held_row& row) {
  auto tag = begun_.draw_tag();
  begun_.add(tag, {.under = row.under(), .key = store::hold_of(row.row())},
             state::reported);
  turn_.add(row.release(), tag);
  if (draining_)
    ++draining_->left.released;
}

void picker_actor::release_all(const std::vector<held_row_ptr>& rows) {
  for (const auto& x : rows)
    release(*x);
  turn_.forget_unloaded(
    [this](const auto& row) { return !waiting_.contains(row); });
}

/// One that no runner has begun.
void picker_actor::release_job(const step_queue::job& x) {
  begun_.take_queued(x.tag);
  release(*x.what);
}

/// What would not begin in time.
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
  home_->tell(events::rows_released{queue_.name, n});
}

/// All that has not begun, but for what is to run alone.
void picker_actor::release_prefetched() {
  for (const auto& x : steps_->take_waiting()) {
    if (!trials_.is_of(x.what->under()))
      release_job(x);
    else
      steps_->put({x});
  }
  release_all(waiting_.take_picked(trials_.under()));
}

/// The row's lease is somebody else's by now.
void picker_actor::drop(const held_row& row) {
  end_lease(row.under(), false);
  unlock(store::hold_of(row.row()));
}

// -- steps --------------------------------------------------------------------

void picker_actor::start_steps() {
  // In the order of the picks: a step that needs a slot of its own waits until
  // the runners have let go of one, and what comes behind it waits with it.
  std::vector<step_queue::job> plain;
  while (waiting_.any_prefetched()) {
    const auto& next = waiting_.next();
    // What runs here runs soonest; but for a suspect on trial: the end of a worker's
    // process costs less than that of this one.
    bool alone = trials_.is_of(next.under());
    if (has_worker() && (alone || gate_.why_no_slot(begun_.running()))
        && hand_out_next(alone))
      continue;
    const auto* defined = next.step();
    pace_.run_at_once(defined == nullptr || is_pooled(*defined)
                        ? static_cast<std::int32_t>(runners_.size())
                        : queue_.slots);
    if (defined == nullptr || is_plain(*defined)) {
      auto tag = begun_.draw_tag();
      begun_.add(tag,
                 {.under = next.under(),
                  .key = store::hold_of(next.row()),
                  .trials = next.row().trials,
                  .bytes = next.row().bytes()},
                 state::queued);
      plain.push_back({tag, waiting_.take_next()});
    } else if (next.under()->lost) {
      drop(*waiting_.take_next());
    } else {
      steps_->put(std::exchange(plain, {}));
      // No more than can run: the others can be released as long as they are prefetched.
      if ((is_pooled(*defined) && begun_.pooled() >= runners_.size())
          || !steps_->take_slot()) {
        if (has_worker() && hand_out_next(false))
          continue;
        return;
      }
      begin(waiting_.take_next(), *defined);
    }
  }
  steps_->put(std::move(plain));
}

void picker_actor::free_slot() {
  pace_.ended();
  steps_->free_slot();
  start_steps();
  drive();
}

void picker_actor::add_outcome(entry& x, outcome_ptr outcome, gd::run after) {
  const auto& held = after.held();
  const auto* defined = held.step();
  if (after.failed())
    home_->tell(after.failure_told(*outcome));
  if (after.took() >= slow_step && defined != nullptr && is_pooled(*defined)
      && home_->slow_steps.add(held.row()))
    home_->tell(events::step_slow{held.which(), after.took()});
  auto& what = outcome->what;
  // Under another lease than what is on trial.
  bool advances = what == store::write_kind::next && !after.failed()
                  && held.may_run_ahead() && !gate_.why_not_begin(held.row());
  if (advances) {
    what = store::write_kind::advance;
    outcome->may_collide = false; // it executes as before
  }
  x.unwritten = outcome->bytes();
  x.what = std::move(after);
  begun_.report(x, advances);
  // A row with a key is looked for when that is unlocked.
  if (!x.key
      && (what == store::write_kind::next || what == store::write_kind::replay))
    pick_again();
  if (what == store::write_kind::await)
    pick_follows_ = true; // the signal may be there
  turn_.add(std::move(outcome), x.tag,
            x.key && x.is_down() ? x.key : std::nullopt);
}

/// Its outcome is not the turn's to write: the rest is as if it were.
void picker_actor::on_step_written(written_step& x) {
  using fate = step_transaction::fate;
  using verdict = turn::flushed::verdict;
  auto* found = begun_.find(x.tag);
  if (found == nullptr || found->has_outcome())
    return;
  auto what = x.row->what;
  found->what = std::move(x.what);
  begun_.report(*found, false);
  begun_.leave_slot(*found);
  turn::flushed written{.tag = x.tag,
                        .row = std::move(x.row),
                        .what = x.became == fate::applied ? verdict::applied
                                : x.became == fate::stale ? verdict::stale
                                                          : verdict::unknown};
  // It may be due, and no pick of this turn can have seen it.
  if (what == store::write_kind::next || what == store::write_kind::await) {
    pick_again();
    if (wanted() <= 0)
      home_->leave_to_others(queue_.name, false);
  } else if (what == store::write_kind::replay
             || what == store::write_kind::later) {
    pick_again(); // to see when
  }
  collect_flushed(written);
  free_slot();
}

void picker_actor::collect_flushed(turn::flushed& x) {
  using verdict = turn::flushed::verdict;
  auto* found = begun_.find(x.tag);
  ensure(found != nullptr && found->now() == state::reported,
         "what the turn has written was reported");
  if (auto bytes = std::exchange(found->unwritten, 0); bytes > 0)
    steps_->written(bytes);
  if (x.key_passed_on)
    found->key.reset();
  const auto& ran = found->what; // none, if it is released
  switch (x.what) {
    case verdict::applied:
      if (ran)
        home_->tell(events::step_committed{ran->held().which(),
                                           store::to_string(x.row->what),
                                           ran->failed(), ran->took()});
      if (ran && x.row->what == store::write_kind::stop)
        home_->tell(ran->end_told(*x.row));
      if (ran && home_->anybody_awaits(x.row->id))
        if (auto how = store::ended_by(ran->held().row(), *x.row))
          home_->see_end(*how);
      break;
    case verdict::stale:
      home_->tell(events::outcome_stale{x.row->id, x.row->token});
      break;
    case verdict::unknown:
      home_->tell(events::outcome_unknown{x.row->id, x.row->token});
      break;
    case verdict::refused:
    case verdict::collided: {
      auto told = x.what == verdict::collided ? x.why : without_data(x.why);
      if (x.effect)
        told.message = without_data(*x.effect);
      home_->tell(events::outcome_refused{x.row->id, told});
      if (ran && !found->at_worker())
        return refuse(*found, x.why, std::move(told.message),
                      std::move(x.effect));
      if (ran) {
        begun_.refuse(*found);
        answer(*found, x);
        return;
      }
    }
  }
  bool well = x.what == verdict::applied
              && x.row->what != store::write_kind::release;
  if (x.what == verdict::applied && x.row->what == store::write_kind::advance)
    go_on(*found, x);
  else if (found->at_worker())
    answer(*found, x);
  complete(*found, well);
}

/// Its next step, under the next token: where this one was, if that is elsewhere.
void picker_actor::go_on(const entry& x, turn::flushed& written) {
  auto after = std::make_shared<held_row>(x.what->held().after(
    std::move(written.row->step), std::move(written.row->state),
    std::move(written.next_token), std::move(written.inbox)));
  home_->leases.add(after->under());
  if (!x.at_worker() || !answer(x, written, after))
    put_prefetched(std::move(after));
}

void picker_actor::crash(entry& x, const gd::run& what,
                         const std::string& why) {
  home_->tell(events::step_crashed{what.held().which(), why, what.took()});
  if (x.under->began() != clock::time_point::min())
    trials_.note(*x.under, x.trials + 1, now());
  complete(x, false);
}

/// `well`: its outcome is committed.
void picker_actor::complete(entry& x, bool well) {
  begun_.complete(x);
  end_lease(x.under, well);
  if (x.handler_actor)
    anon(x.handler_actor, step_completed{});
  forget_if_over(x);
}

void picker_actor::end_lease(const lease_ptr& under, bool well) {
  home_->leases.remove(under);
  if (under->suspect)
    home_->quarantine->ended(under->id, well);
  if (trials_.is_of(under))
    trials_.end();
}

void picker_actor::forget_if_over(entry& x) {
  std::optional<store::key_hold> key;
  if (begun_.forget(x, key))
    unlock(std::move(key));
}

void picker_actor::unlock(std::optional<store::key_hold> key) {
  if (!key)
    return;
  turn_.unlock(std::move(*key));
  pick_again(); // for the key's next row
}

// -- workers ------------------------------------------------------------------

void picker_actor::see_workers() {
  workers_ = home_->workers.get();
  if (!workers_)
    return;
  auto self = caf::actor_cast<caf::actor>(this);
  workers_->enter(queue_.name, [self] { anon(self, workers_changed{}); });
}

void picker_actor::on_workers_changed() {
  if (!workers_)
    see_workers();
  if (workers_)
    for (auto& x : workers_->collect(queue_.name))
      read_report(x);
  start_steps();
  drive();
}

/// Of those that wait for a slot. `alone`: to a worker that has nothing else.
bool picker_actor::hand_out_next(bool alone) {
  const auto& next = waiting_.next();
  if (next.step() == nullptr || next.under()->lost)
    return false;
  auto tag = begun_.draw_tag();
  auto t = now();
  auto whose = workers_->hand_out(queue_.name, tag, next, home_->config.lease,
                                  alone, t);
  if (!whose)
    return false;
  auto row = waiting_.take_next();
  row->strip();
  home_->begin(*row->under(), t);
  begun_.add(tag,
             {.under = row->under(),
              .kind = on_worker{.from = std::move(*whose)},
              .what = gd::run{row},
              .key = store::hold_of(row->row()),
              .trials = row->row().trials},
             state::running);
  return true;
}

void picker_actor::read_report(elsewhere::report& x) {
  using kind = elsewhere::report::what;
  auto* found = begun_.find(x.tag);
  if (found == nullptr) {
    if (x.kind == kind::outcome)
      add_late(x);
    return;
  }
  auto& there = std::get<on_worker>(found->kind);
  auto& what = *found->what;
  switch (x.kind) {
    case kind::outcome: {
      if (found->has_outcome())
        return;
      if (!x.row) {
        workers_->refuse(x, false, now());
        there.function = false;
        return crash(*found, what, x.why);
      }
      auto outcome = std::make_unique<store::outcome_row>(std::move(*x.row));
      what.held().complete(*outcome);
      what.ran(std::move(x.ran));
      steps_->add_unwritten(outcome->bytes());
      return add_outcome(*found, std::move(outcome), what);
    }
    case kind::crashed:
      what.ran(std::move(x.ran));
      if (!x.told) // the end of a worker is no trial of all that it had
        found->under->begin(clock::time_point::min());
      return crash(*found, what, x.why);
    case kind::released: {
      auto row = begun_.take_queued(x.tag);
      row.under->begin(clock::time_point::min());
      return release(row.what->held());
    }
    case kind::over:
      there.function = false;
      return forget_if_over(*found);
    case kind::suspended: {
      home_->leases.remove(found->under);
      if (!x.process_gone)
        return;
      bool alone = trials_.is_of(found->under);
      trials_.note(*found->under, found->trials + (alone ? 1 : 0), now(),
                   there.from);
      if (alone) // it has not survived it
        trials_.end();
      return;
    }
    case kind::resumed:
      if (found->under->lost)
        return;
      home_->leases.add(found->under);
      trials_.note(*found->under, found->trials, now()); // its process lives
  }
}

/// An outcome of a row that was another engine's, or has been given up: its token tells
/// whether it still counts.
void picker_actor::add_late(elsewhere::report& x) {
  // What goes on here, or at another worker, is not this one's to end.
  bool foreign = home_->leases.contains(x.id, x.token);
  if (!x.row || foreign || late_ >= most_late)
    return workers_->refuse(x, x.row && !foreign, now());
  ++late_;
  // Its row is not known here, so it is not erased with this.
  auto end = store::end_of(x.row->what);
  auto machine = home_->machines->find_any(x.fsm, x.version);
  if (end && machine)
    if (const auto& time = machine->kept(*end))
      x.row->keep_us = time->count();
  auto tag = begun_.draw_tag();
  auto bytes = x.row->bytes();
  begun_.add(
    tag,
    {.under = std::make_shared<lease>(x.id, x.token),
     .kind = on_worker{.from = x.from, .function = false, .tries = x.tries},
     .unwritten = bytes},
    state::reported);
  steps_->add_unwritten(bytes);
  turn_.add(std::move(*x.row), tag);
}

/// Tells the worker what has become of its outcome. Returns whether `next` goes on there.
bool picker_actor::answer(const entry& x, const turn::flushed& of,
                          const held_row_ptr& next) {
  const auto& there = *x.at_worker();
  if (!x.what)
    --late_;
  auto t = now();
  bool may = next && next->row().shown && !gate_.why_not_begin(next->row());
  auto tag = begun_.draw_tag();
  if (!workers_->complete(there.from, of, there.tries,
                          may ? next.get() : nullptr, tag,
                          t + home_->config.lease, t))
    return false;
  next->strip();
  home_->begin(*next->under(), t);
  begun_.add(tag,
             {.under = next->under(),
              .kind = on_worker{.from = there.from},
              .what = gd::run{next}},
             state::running);
  return true;
}

// -- suspects -----------------------------------------------------------------

/// Whether a slot may be free for a suspect within a heartbeat: not all of them are
/// taken by steps that have run for longer; or a worker may have it.
bool picker_actor::may_run_suspects() {
  auto old = now() - home_->config.heartbeat;
  return has_idle_worker() || !gate_.why_no_slot(begun_.running_since(old));
}

/// Gives way to a trial wherever in the process it is, and runs its own.
void picker_actor::see_to_trials() {
  auto& suspects = *home_->quarantine;
  bool held = suspects.held();
  if (!held && trials_.rests())
    return;
  if (held) {
    home_->claims->close(queue_.name);
    release_prefetched();
    bool more = waiting_.count(waits_for::pick) > 0 || turn_.wanted() > 0
                || home_->claims->under_way(queue_.name) > 0;
    suspects.rests(queue_.name, more
                                  ? clock::time_point::max()
                                  : begun_.rests_at(home_->config.heartbeat));
  }
  auto t = now();
  if (trials_.begins_at() > t) {
    trials_.end_survived(t);
  } else if (!gate_.why_no_slot(begun_.running(), has_idle_worker())) {
    trials_.note_begin(t);
  } else { // slots are taken by what has run for longer: waiting is no use
    trials_.end();
    release(*waiting_.take_trial());
  }
  if (auto notes = trials_.write(t))
    write_notes(*notes);
}

/// One that does not begin, for now.
void picker_actor::cancel_trial() {
  if (trials_.cancel())
    if (auto row = waiting_.take_trial())
      release(*row);
}

void picker_actor::write_notes(const trials::written& what) {
  submit(this, *home_->db, connection_slots_.front(),
         pq::unit{{store::note_trials(what.notes, what.begins)}}, notes_ticket);
}

void picker_actor::on_notes_written(const pq::reply& reply) {
  std::vector<store::noted_row> answers;
  if (reply.ok())
    answers = store::read<store::noted_row>(reply.results.front());
  else if (reply.failure->code != errc::stopped)
    home_->tell(events::turn_failed{queue_.name, without_data(*reply.failure)});
  auto of_trial = trials_.finish(answers, now());
  if (of_trial != trials::outcome::none) {
    auto row = waiting_.take_trial();
    const auto& picked = row->row();
    if (of_trial == trials::outcome::lost) {
      drop(*row);
    } else if (of_trial == trials::outcome::unknown) {
      release(*row);
    } else {
      home_->tell(
        events::trial_begun{row->which(), picked.crashes, picked.trials});
      waiting_.add_first(std::move(row));
      start_steps();
    }
  }
  drive();
}

// -- the end ------------------------------------------------------------------

void picker_actor::on_drain(drain how) {
  if (!draining_)
    draining_ = draining{};
  gate_.drain();
  draining_->who = current_sender();
  draining_->by = now() + how.grace;
  draining_->left.queue = queue_.name;
  home_->claims->close(queue_.name);
  cancel_trial();
  release_prefetched();
  drive();
}

void picker_actor::stop_if_drained() {
  if (!draining_)
    return;
  bool all = begun_.empty() && turn_.empty() && trials_.empty()
             && home_->claims->under_way(queue_.name) == 0;
  if (!all && now() < draining_->by)
    return;
  // What still runs waits for its lease: its row, released, would run twice.
  draining_->left.abandoned = begun_.unfinished();
  if (trials_.abandon(now())) // the node stops, and its suspect is not to blame
    write_notes(trials_.write_rest());
  if (auto row = waiting_.take_trial()) // it will not begin
    home_->leases.remove(row->under());
  anon(caf::actor_cast<caf::actor>(draining_->who), draining_->left);
  quit();
}

} // namespace gd::actors
