#include <gd/actors/queue/picker.hpp>

#include <gd/actors/queue/step.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

gate::settings gate_settings(const node& home, const queue_config& queue) {
  return {.slots = queue.slots,
          .max_crashes = home.config.max_crashes,
          .machines = home.machines,
          .suspects = home.isolation};
}

pace::settings pace_settings(const config& cfg, const queue_config& queue) {
  auto how = pace::for_lease(cfg.lease);
  how.slots = queue.slots;
  how.ahead = queue.ahead;
  how.bytes = cfg.bytes_ahead;
  how.bytes_at_once = cfg.bytes_per_turn;
  return how;
}

turn::settings turn_settings(node& home, const queue_config& queue,
                             std::size_t flights) {
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
          .suspects = home.isolation,
          .flights = flights};
}

} // namespace

picker_actor::picker_actor(caf::actor_config& cfg, node_ptr home,
                           queue_config queue, std::vector<std::size_t> lanes)
  : stepper_actor(cfg, std::move(home), std::move(queue)),
    lanes_(std::move(lanes)),
    turn_(turn_settings(*home_, queue_, lanes_.size())),
    gate_(gate_settings(*home_, queue_)),
    trials_({.heartbeat = home_->config.heartbeat,
             .lease = home_->config.lease,
             .suspects = home_->isolation}),
    pace_(pace_settings(home_->config, queue_)) {
  // nop
}

caf::behavior picker_actor::make_behavior() {
  watcher_.install(this);
  open();
  auto self = caf::actor_cast<caf::actor>(this);
  home_->claims->enter(queue_.name, [self] { anon(self, rows_claimed{}); });
  home_->isolation->enter(queue_.name, queue_.slots, home_->config.heartbeat,
                          [self] { anon(self, suspects_changed{}); });
  see_workers();
  gate_.pause(home_->paused.contains(queue_.name));
  poll_at_ = now();
  anon(self, tick{});
  return {
    [this](tick x) { on_tick(x); },
    [this](hint x) { on_hint(x); },
    [this](rows_claimed) { on_rows_claimed(); },
    [this](unit_done& x) {
    if (x.ticket == notes_ticket)
      on_notes_written(*x.reply);
    else
      on_unit_done(x.ticket, *x.reply);
    },
    [this](suspects_changed) { on_suspects_changed(); },
    [this](workers_changed) { on_workers_changed(); },
    [this](steps_ended) { on_steps_ended(); },
    [this](step_begun x) { on_step_begun(x); },
    [this](step_outcome& x) { on_step_outcome(x); },
    [this](machines_withdrawn) { on_machines_withdrawn(); },
    [this](pauses_changed) {
    see_pauses();
    drive();
  },
    [this](drain x) { on_drain(x); },
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
  auto leave_row = [&](const execution& x) {
    home_->leases.remove(x.under());
    if (const auto& key = x.row().partition_key)
      keys.push_back(*key);
  };
  for (const auto& x : waiting_.take_all())
    leave_row(*x);
  home_->isolation->leave(queue_.name);
  for (auto& x : home_->claims->leave(queue_.name))
    turn_.lose(std::move(x.token), now());
  auto left = turn_.abandon();
  keys.insert(keys.end(), left.keys.begin(), left.keys.end());
  for (const auto& key : keys)
    home_->keys->remove(key);
  auto leave = [this](std::size_t lane, pq::unit work) {
    home_->db->submit(
      lane, std::move(work), [](const pq::reply&) {},
      database::patience::on::this_one);
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (left.release[i])
      leave(lanes_[i], std::move(*left.release[i]));
  // Nobody else knows which of the session's locks were this picker's.
  if (!keys.empty() || left.locks)
    leave(lanes_.front(), {{store::end_session()}, false});
  begun_ = {};
  draining_.reset();
}

// -- messages -----------------------------------------------------------------

void picker_actor::on_tick(tick x) {
  if (alarm_.rings(x))
    drive();
}

void picker_actor::on_hint(hint x) {
  if (x.anywhere)
    turn_.look_everywhere();
  if (x.for_others && wanted() <= 0)
    home_->leave_to_others(queue_.name, x.anywhere);
  look_again();
  drive();
}

void picker_actor::on_steps_ended() {
  start_steps();
  drive();
}

void picker_actor::on_unit_done(std::size_t flight, const pq::reply& reply) {
  collect_ended();
  auto t = now();
  auto took = t - sent_at_[flight];
  auto report = turn_.finish(flight, reply, t);
  bool unpicked = false;
  std::size_t written = 0;
  for (auto& x : report.rows) {
    if (x.what == turn::flushed::verdict::applied
        && x.row->what != store::verb::release)
      ++written;
    // A row that was locked before is written when nobody expects it to be picked.
    if (x.row->what == store::verb::next && picks_[flight] == 0) {
      look_again();
      unpicked = unpicked || x.row->delay_us == 0;
    }
    collect_flushed(x);
  }
  if (unpicked && wanted() <= 0)
    home_->leave_to_others(queue_.name, false);
  collect_shown(report);
  for (const auto& x : report.unpickable) {
    auto why = without_data(x.why);
    home_->tell(events::row_unusable{x.row.id, why, x.what});
    if (x.what != events::row_unusable::fate::failed)
      home_->refused.note(x.row.id, "a pick", x.why, system().clock().now());
    if (x.what == events::row_unusable::fate::failed)
      home_->tell(events::instance_failed{x.run, "its row cannot be picked: "
                                                   + why.message});
  }
  if (report.failure)
    home_->tell(
      events::turn_failed{queue_.name, without_data(*report.failure)});
  if (report.lost_pick)
    home_->tell(events::pick_lost{queue_.name, *report.lost_pick});
  if (report.released > 0) {
    home_->tell(events::pick_recovered{queue_.name, report.released});
    look_again();
  }
  if (report.full)
    look_again();
  auto pick = std::exchange(picks_[flight], 0);
  if (pick > 0) {
    pick_follows_ = !report.picked.empty(); // there may be more rows
    exhausted_ = report.exhausted;
    due_at_ = report.due_in ? t + *report.due_in : clock::time_point::max();
    if (!exhausted_)
      home_->claims->close(queue_.name);
    else if (!picking(pick)) // else rows were locked that it has not seen
      home_->claims->open(queue_.name, pick);
  }
  pace_.finished(flight, t, steps_->time_in_use());
  // The server need not wait until what was picked is with the runners.
  coming_ = static_cast<std::int32_t>(report.picked.size());
  if (turn_.plenty())
    begin_transactions();
  coming_ = 0;
  auto picked = report.picked.size();
  auto rows = lease_all(std::move(report.picked), report.token);
  if (report.suspects)
    take_suspects(std::move(rows), report.on_trial);
  else
    take(std::move(rows));
  if (pick > 0)
    take_claimed(pick);
  if (!report.failure)
    tell_turn(took, written, picked); // before the drive: that may be the end
  drive();
}

void picker_actor::tell_turn(clock::duration took, std::size_t written,
                             std::size_t picked) {
  // What the runners have not begun begins at once, up to so many.
  home_->tell(events::turn_ended{
    queue_.name, written, picked,
    std::chrono::duration_cast<std::chrono::microseconds>(took),
    std::min(begun_.running(), queue_.slots), queue_.slots});
}

// -- driving ------------------------------------------------------------------

std::int32_t picker_actor::wanted() const {
  if (gate_.why_not_pick())
    return 0;
  auto coming = static_cast<std::int64_t>(waiting_.size()) + coming_
                + begun_.advancing() + turn_.wanted()
                + home_->claims->under_way(queue_.name);
  auto want = pace_.wanted({.running = begun_.running(),
                            .waiting = steps_->waiting(),
                            .coming = coming,
                            .slot_to_fill = has_slot_to_fill()});
  return has_worker() ? want + workers_->room(queue_.name) : want;
}

bool picker_actor::has_slot_to_fill() const {
  return !waiting_.any_ahead() && !gate_.why_no_slot(begun_.running());
}

std::int64_t picker_actor::room() const {
  return pace_.room(has_slot_to_fill());
}

void picker_actor::look_again() {
  look_again_ = true;
  home_->claims->close(queue_.name);
}

void picker_actor::drive() {
  do { // again, if more has ended meanwhile than the turn waits for
    collect_ended();
    expire_limits();
    release_late();
    if (turn_.sees_suspects())
      home_->isolation->clear(now());
    if (suspects_wait_ && may_run_suspects()) {
      suspects_wait_ = false;
      look_again();
    }
    see_to_trials();
    begin_transactions();
  } while (steps_->tell_at(turn_.missing()));
  // A pick under way will hardly take what it wants: the last one did not. (If only
  // a pick's end opened the desk, each insert would have to be picked, and that pick
  // would keep the desk closed for the next insert.)
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
      look_again();
      turn_.look_everywhere();
      poll_at_ = t + home_->config.poll;
    }
    if (t >= due_at_) {
      look_again();
      due_at_ = clock::time_point::max();
    }
    pace_.hurry(steps_->time_in_use());
    // A flush takes a pick along: it costs little in a transaction anyway. But
    // a few outcomes that leave nothing to pick need not wait for it.
    bool pick = look_again_ || turn_.crowded() || turn_.plenty();
    bool suspects = turn_.sees_suspects() && may_run_suspects();
    suspects_wait_ = turn_.sees_suspects() && !suspects;
    auto next = turn_.begin(pick ? std::max(wanted(), 0) : 0, t, room(),
                            suspects);
    if (!next)
      return;
    look_again_ = next->leaves_suspects
                  || (!next->picks && (look_again_ || pick_follows_));
    pace_.began(next->flight, t);
    sent_at_[next->flight] = t;
    picks_[next->flight] = next->picks ? home_->claims->look(queue_.name) : 0;
    submit(this, *home_->db, lanes_[next->flight], std::move(next->work),
           next->flight);
  }
}

/// Sees to a tick for what is to be done without any other message.
void picker_actor::arm() {
  auto t = now();
  auto at = begun_.due();
  if (!turn_.occupied()) // else a flight's end drives on
    at = std::min({at, poll_at_, due_at_, turn_.due(t, room() > 0)});
  if (draining_) // the last unit may wait for a connection
    at = std::min(at, draining_->by);
  at = std::min(at, trials_.due());
  if (turn_.sees_suspects())
    at = std::min(at, home_->isolation->clears_at());
  alarm_.set(this, at);
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
  release_ahead();
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
  abandon_trial();
  anon(caf::actor_cast<caf::actor>(draining_->who), draining_->left);
  quit();
}

} // namespace gd::actors
