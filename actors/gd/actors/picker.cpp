#include <gd/actors/picker.hpp>

#include <gd/actors/step.hpp>

#include <gd/pq/expect.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

/// Whether its function runs on one of CAF's threads until it has an outcome.
bool is_pooled(const machine::step_definition& x) {
  return !x.start && !x.how.blocking;
}

/// Whether a runner can run it: it is on time whatever it does, and returns its
/// outcome.
bool is_plain(const machine::step_definition& x) {
  return is_pooled(x) && !x.limit();
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
          .keys = home.keys,
          .flights = flights};
}

} // namespace

picker_actor::picker_actor(caf::actor_config& cfg, node_ptr home,
                           queue_config queue, std::vector<std::size_t> lanes)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    queue_(std::move(queue)),
    lanes_(std::move(lanes)),
    turn_(turn_settings(*home_, queue_, lanes_.size())),
    steps_(std::make_shared<step_queue>(
      queue_.slots, static_cast<std::size_t>(home_->config.bytes_ahead),
      system().clock())),
    pace_(pace_settings(home_->config, queue_)) {
  left_.queue = queue_.name;
}

caf::behavior picker_actor::make_behavior() {
  watcher_.install(this);
  auto count = std::min(static_cast<std::size_t>(queue_.slots),
                        runners_at_most(system()));
  for (std::size_t i = 0; i < count; ++i) {
    runners_.push_back(spawn<runner_actor, caf::lazy_init>(home_, steps_));
    // What it ran is lost: as if this actor had crashed.
    watcher_.watch(this, runners_.back(),
                   [this](const caf::error& why) { quit(why); });
  }
  auto self = caf::actor_cast<caf::actor>(this);
  steps_->open(self, runners_);
  home_->claims->enter(queue_.name, [self] { anon(self, rows_claimed{}); });
  poll_at_ = now();
  anon(caf::actor_cast<caf::actor>(this), tick{generation_});
  return {
    [this](tick x) {
    if (x.generation != generation_)
      return;
    wake_at_ = clock::time_point::max();
    drive();
    },
    [this](hint x) {
    if (x.anywhere)
      turn_.look_everywhere();
    look_again();
    drive();
  },
    [this](rows_claimed) {
    collect_claims();
    drive();
    }, [this](unit_done& x) { finish(x.ticket, std::move(*x.reply)); },
    [this](steps_ended) {
    start_steps();
    drive();
    }, [this](step_begun x) { begun(x); },
    [this](step_outcome& x) { collect(x); },
    [this](drain x) {
    drain_for_ = current_sender();
    start_draining(x.grace);
    },
    };
}

void picker_actor::on_exit() {
  // However it ended: its steps go with it, and their rows wait for their
  // leases, as after a crash of the process.
  steps_->close();
  for (const auto& x : runners_)
    caf::anon_send_exit(x, caf::exit_reason::kill);
  runners_.clear();
  std::vector<lease_ptr> running;
  std::vector<std::string> keys;
  for (auto& [tag, row] : begun_) {
    if (row.key)
      keys.push_back(row.key->key);
    home_->leases.remove(row.under);
    if (row.running)
      running.push_back(row.under);
    if (row.step)
      caf::anon_send_exit(row.step, caf::exit_reason::kill);
    if (row.deputy)
      caf::anon_send_exit(row.deputy, caf::exit_reason::kill);
  }
  stop_steps(system(), running);
  for (const auto& x : claimed_)
    for (const auto& row : x.rows)
      home_->leases.remove(row->under());
  claimed_.clear();
  for (const auto& x : ahead_) {
    home_->leases.remove(x->under());
    if (const auto& key = x->row().partition_key)
      keys.push_back(*key);
  }
  for (const auto& [which, x] : hidden_) {
    home_->leases.remove(x->under());
    if (const auto& key = x->row().partition_key)
      keys.push_back(*key);
  }
  for (auto& x : home_->claims->leave(queue_.name))
    turn_.lose(std::move(x.token), now());
  auto left = turn_.abandon();
  keys.insert(keys.end(), left.keys.begin(), left.keys.end());
  for (const auto& key : keys)
    home_->keys->remove(key);
  auto leave = [this](std::size_t lane, pq::unit work) {
    home_->db->submit(
      lane, std::move(work), [](const pq::reply&) {}, clock::duration::zero());
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (left.release[i])
      leave(lanes_[i], std::move(*left.release[i]));
  // Nobody else knows which of the session's locks were this picker's.
  if (!keys.empty() || left.locks)
    leave(lanes_.front(), {{store::end_session()}, false});
  begun_.clear();
  ahead_.clear();
  hidden_.clear();
  drain_for_ = nullptr;
}

picker_actor::clock::time_point picker_actor::now() {
  return system().clock().now();
}

// -- turns --------------------------------------------------------------------

std::int32_t picker_actor::wanted() const {
  if (drain_for_ || home_->machines->empty())
    return 0;
  auto waiting = ahead_.size() + hidden_.size();
  for (const auto& x : claimed_)
    waiting += x.rows.size();
  auto coming = static_cast<std::int64_t>(waiting) + coming_ + advancing_
                + turn_.wanted() + home_->claims->under_way(queue_.name);
  return pace_.wanted({.running = running_,
                       .waiting = steps_->waiting(),
                       .coming = coming,
                       .idle = idle()});
}

bool picker_actor::idle() const {
  return ahead_.empty() && running_ < queue_.slots;
}

std::int64_t picker_actor::room() const {
  return pace_.room(idle());
}

void picker_actor::look_again() {
  look_again_ = true;
  home_->claims->close(queue_.name);
}

void picker_actor::drive() {
  while (look() || steps_->tell_at(turn_.missing()))
    ; // there are two connections
  // What a pick under way wants, it will hardly take: the last one did not. (From
  // the end of such a pick only, one insert behind the other would keep the desk
  // closed: each had to be picked, and that kept it closed for the next.)
  if (drained_)
    home_->claims->offer(queue_.name, wanted() + turn_.wanted());
  stop_if_drained();
  schedule();
}

bool picker_actor::look() {
  auto t = now();
  collect_ended();
  end_late_steps(t);
  give_back_late_rows();
  if (turn_.occupied(wanted()))
    return false;
  if (t >= poll_at_) {
    look_again();
    turn_.look_everywhere();
    poll_at_ = t + home_->config.poll;
  }
  pace_.hurry(steps_->busy());
  // A flush takes a pick along: it costs little in a transaction anyway. But
  // a few outcomes that leave nothing to pick need not wait for it.
  bool pick = look_again_ || turn_.busy() || turn_.plenty();
  auto next = turn_.begin(pick ? std::max(wanted(), 0) : 0, t, room());
  if (!next)
    return false;
  look_again_ = !next->picks && (look_again_ || pick_follows_);
  pace_.began(next->flight, t);
  picks_[next->flight] = next->picks ? home_->claims->look(queue_.name) : 0;
  submit(this, *home_->db, lanes_[next->flight], std::move(next->work),
         next->flight);
  return true;
}

void picker_actor::schedule() {
  auto t = now();
  auto at = limits_.empty() ? clock::time_point::max() : limits_.begin()->first;
  if (!turn_.occupied()) // its end drives on
    at = std::min({at, poll_at_, turn_.due(t, room() > 0)});
  if (drain_for_) // it may be waiting for a connection
    at = std::min(at, drain_by_);
  if (at >= wake_at_)
    return;
  wake_at_ = at;
  send_self_after(this, std::max(at - t, clock::duration::zero()),
                  tick{++generation_});
}

void picker_actor::finish(std::size_t flight, pq::reply reply) {
  collect_ended();
  auto t = now();
  auto report = turn_.finish(flight, std::move(reply), t);
  for (auto& x : report.rows) {
    // One that was busy before is written when nobody expects it to be picked.
    if (x.row->what == store::verb::next && picks_[flight] == 0)
      look_again();
    settle(x);
  }
  collect_shown(report);
  for (const auto& x : report.unpickable)
    home_->tell(events::row_unusable{x.row.id, without_data(x.why), x.what});
  if (report.failure)
    home_->tell(
      events::turn_failed{queue_.name, without_data(*report.failure)});
  if (report.lost_pick)
    home_->tell(events::pick_lost{queue_.name, *report.lost_pick});
  if (report.recovered > 0) {
    home_->tell(events::pick_recovered{queue_.name, report.recovered});
    look_again();
  }
  if (report.full)
    look_again();
  auto pick = std::exchange(picks_[flight], 0);
  if (pick > 0) {
    pick_follows_ = !report.picked.empty(); // they may not have been alone
    drained_ = report.drained;
    if (!drained_)
      home_->claims->close(queue_.name);
  }
  pace_.finished(flight, t, steps_->busy());
  // The server need not wait until all that it has found is with the runners.
  coming_ = static_cast<std::int32_t>(report.picked.size());
  if (turn_.plenty())
    look();
  coming_ = 0;
  take(lease_all(std::move(report.picked), report.token));
  if (pick > 0)
    release_claims(pick);
  drive();
}

std::vector<execution_ptr>
picker_actor::lease_all(std::vector<store::picked_row> rows,
                        const std::string& token) {
  std::vector<execution_ptr> out;
  out.reserve(rows.size());
  for (auto& row : rows) {
    auto under = std::make_shared<lease>(row.id, token);
    home_->leases.add(under);
    auto machine = home_->machines->find(row.fsm, row.fsm_version);
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
  if (drain_for_)
    return give_back(*row);
  hold(*row);
  const auto& under = row->under();
  if (row->row().shown) {
    ahead_.push_back(std::move(row));
  } else {
    turn_.show({under->id, under->token});
    hidden_.emplace(std::pair{under->id, under->token}, std::move(row));
  }
}

void picker_actor::collect_shown(turn::report& report) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (auto& x : report.shown_rows) {
    auto found = hidden_.extract({x.which.id, x.which.token});
    if (found.empty())
      continue; // given back
    auto& row = found.mapped();
    let_go(*row); // what is shown takes its place
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
                 + " bytes";
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
    auto found = hidden_.find({x.id, x.token});
    if (found == hidden_.end())
      continue;
    if (room() > 0) {
      turn_.show(std::move(x));
    } else {
      let_go(*found->second);
      give_back(*found->second);
      hidden_.erase(found);
    }
  }
}

void picker_actor::end_unusable(execution_ptr row, const error& why,
                                const std::string& reason) {
  home_->tell(events::row_unusable{row->under()->id, why});
  auto [found, added] = begun_.emplace(
    ++tags_,
    begun_row{.under = row->under(), .key = store::hold_of(row->row())});
  auto outcome = row->fail_unrun(reason);
  add_outcome(found, std::move(outcome), false, std::move(row));
}

/// Its lease is somebody else's by now.
void picker_actor::drop(const execution& x) {
  home_->leases.remove(x.under());
  if (auto key = store::hold_of(x.row()))
    unlock(std::move(*key));
}

void picker_actor::give_back_late_rows() {
  pace_.note(steps_->busy());
  auto waiting = static_cast<std::int64_t>(steps_->waiting() + ahead_.size()
                                           + hidden_.size());
  auto late = waiting - pace_.most_waiting();
  if (late <= 0)
    return;
  auto count = static_cast<std::size_t>(late);
  // Mostly those that have come last.
  std::size_t n = 0;
  for (; n < count && !hidden_.empty(); ++n) {
    auto last = std::prev(hidden_.end());
    let_go(*last->second);
    give_back(*last->second);
    hidden_.erase(last);
  }
  if (n > 0)
    turn_.forget_hidden([this](const auto& row) {
      return !hidden_.contains({row.id, row.token});
    });
  for (; n < count && !ahead_.empty(); ++n) {
    let_go(*ahead_.back());
    give_back(*ahead_.back());
    ahead_.pop_back();
  }
  if (n < count)
    for (const auto& x : steps_->take_back(steps_->waiting() - (count - n))) {
      take_back(x);
      ++n;
    }
  home_->tell(events::given_back{queue_.name, n});
}

/// A job that has not begun.
void picker_actor::take_back(const step_queue::job& x) {
  auto found = begun_.find(x.tag);
  expect(found != begun_.end(), "what a runner gives back was begun");
  let_go(found->second);
  begun_.erase(found);
  --running_;
  give_back(*x.what);
}

void picker_actor::collect_claims() {
  for (auto& x : home_->claims->collect(queue_.name)) {
    if (x.lost) {
      home_->tell(events::pick_lost{queue_.name, x.token});
      turn_.lose(std::move(x.token), now());
    } else if (auto rows = lease_all(std::move(x.rows), x.token);
               picking(x.behind)) {
      for (const auto& row : rows)
        hold(*row);
      claimed_.push_back({x.behind, std::move(rows)});
    } else {
      take(std::move(rows));
    }
  }
}

bool picker_actor::picking(std::uint64_t last) const {
  return std::any_of(picks_.begin(), picks_.end(),
                     [last](auto pick) { return pick > 0 && pick <= last; });
}

/// The pick has ended: they come behind what it has found, and are given back if it
/// has left something, which comes before them, too.
void picker_actor::release_claims(std::uint64_t pick) {
  for (auto& x : std::exchange(claimed_, {})) {
    bool gives_back = !drained_ && pick <= x.behind;
    if (!gives_back && picking(x.behind)) {
      claimed_.push_back(std::move(x));
      continue;
    }
    for (const auto& row : x.rows)
      let_go(*row);
    if (!gives_back)
      take(std::move(x.rows));
    else
      for (const auto& row : x.rows)
        give_back(*row);
  }
}

void picker_actor::give_back(const execution& x) {
  x.under()->decide(decider::returned);
  store::outcome_row row;
  row.id = x.under()->id;
  row.token = x.under()->token;
  row.what = store::verb::release;
  row.may_collide = store::may_collide(x.row(), row.what);
  turn_.add(std::move(row), ++tags_);
  begun_[tags_] = {
    .under = x.under(), .reported = true, .key = store::hold_of(x.row())};
  if (drain_for_)
    ++left_.given_back;
}

void picker_actor::settle(turn::settled& x) {
  using verdict = turn::settled::verdict;
  auto found = begun_.find(x.tag);
  if (found == begun_.end())
    return;
  auto& row = found->second;
  if (std::exchange(row.advancing, false))
    --advancing_;
  if (auto bytes = std::exchange(row.unwritten, 0); bytes > 0)
    steps_->written(bytes);
  switch (x.what) {
    case verdict::applied:
      if (x.row->what != store::verb::release)
        home_->tell(events::step_committed{
          x.row->id, store::to_string(x.row->what), row.handled});
      if (x.row->what == store::verb::advance) {
        auto after = std::make_shared<execution>(row.spare->after(
          std::move(*x.row), std::move(x.next_token), std::move(x.inbox)));
        home_->leases.add(after->under());
        put_ahead(std::move(after));
      }
      break;
    case verdict::stale:
      home_->tell(events::outcome_stale{x.row->id, x.row->token});
      break;
    case verdict::unknown:
      home_->tell(events::outcome_unknown{x.row->id, x.row->token});
      break;
    case verdict::refused:
    case verdict::collided:
      home_->tell(events::outcome_refused{
        x.row->id, x.what == verdict::collided ? x.why : without_data(x.why)});
      if (row.spare) {
        row.reported = false;
        if (!row.deputy)
          row.deputy = appoint(x.tag, row);
        anon(row.deputy, step_refused{x.why});
        return;
      }
      break;
  }
  settled(found);
}

// -- steps --------------------------------------------------------------------

void picker_actor::start_steps() {
  // In the order of the picks: a step that needs a slot of its own waits until
  // the runners have let go of one, and what comes behind it waits with it.
  std::vector<step_queue::job> plain;
  for (; !ahead_.empty(); ahead_.pop_front()) {
    auto& next = ahead_.front();
    auto bytes = next->row().bytes();
    const auto* defined = next->step();
    pace_.run_at_once(defined == nullptr || is_pooled(*defined)
                        ? static_cast<std::int32_t>(runners_.size())
                        : queue_.slots);
    if (defined == nullptr || is_plain(*defined)) {
      begun_[++tags_] = {.under = next->under(),
                         .running = true,
                         .key = store::hold_of(next->row()),
                         .bytes = bytes};
      ++running_;
      plain.push_back({tags_, std::move(next)});
    } else if (next->under()->lost) {
      let_go(*next);
      drop(*next);
    } else {
      steps_->put(std::exchange(plain, {}));
      // No more than can run: others are better off where they can be given back.
      if ((is_pooled(*defined) && pooled_ >= runners_.size())
          || !steps_->take_slot())
        return;
      begin(std::move(next), *defined, bytes);
    }
  }
  steps_->put(std::move(plain));
}

void picker_actor::begin(execution_ptr what,
                         const machine::step_definition& defined,
                         std::size_t bytes) {
  auto tag = ++tags_;
  const auto& row = what->row();
  auto under = what->under();
  auto limit = defined.limit();
  const auto* starter = dynamic_cast<const detail::async_starter*>(
    defined.start.get());
  auto key = store::hold_of(row);
  std::unique_ptr<supervision> care;
  if (limit)
    care = std::make_unique<supervision>(
      supervision{.step = row.step,
                  .limit = *limit,
                  .asynchronous = starter != nullptr,
                  .pooled = is_pooled(defined)});
  execution_ptr spare;
  if (care)
    spare = std::make_shared<execution>(what->without_inbox());
  if (care && !care->pooled) { // it begins now
    care->due = now() + *limit;
    limits_.emplace(care->due, tag);
  }
  auto self = caf::actor_cast<caf::actor>(this);
  caf::actor step;
  if (starter != nullptr)
    step = spawn<async_step_actor>(home_, self, tag, std::move(what), starter);
  else if (defined.how.blocking)
    step = spawn<step_actor, caf::detached>(home_, self, tag, std::move(what),
                                            step_thread::own);
  else // lazily: it is scheduled once, for its message
    step = spawn<step_actor, caf::lazy_init>(home_, self, tag, std::move(what),
                                             step_thread::shared);
  ++running_;
  if (is_pooled(defined))
    ++pooled_;
  begun_[tag] = {.under = std::move(under),
                 .step = step,
                 .care = std::move(care),
                 .spare = std::move(spare),
                 .running = true,
                 .key = std::move(key),
                 .bytes = bytes};
  watcher_.watch(this, step,
                 [this, tag](const caf::error& why) { step_down(tag, why); });
  anon(step, run_step{});
}

void picker_actor::begun(const step_begun& x) {
  auto found = begun_.find(x.tag);
  if (found == begun_.end() || found->second.settled)
    return;
  auto& care = *found->second.care;
  care.due = x.at + care.limit;
  limits_.emplace(care.due, x.tag);
  schedule();
}

/// Its function has returned.
void picker_actor::stop_running(begun_row& row) {
  row.running = false;
  if (row.care && row.care->pooled)
    --pooled_;
}

void picker_actor::collect(step_outcome& x) {
  auto found = begun_.find(x.tag);
  if (found == begun_.end() || found->second.reported)
    return;
  auto& row = found->second;
  if (row.care)
    limits_.erase({row.care->due, x.tag});
  row.unwritten = x.row->bytes();
  steps_->add_unwritten(row.unwritten);
  add_outcome(found, std::make_unique<store::outcome_row>(std::move(*x.row)),
              x.handled, std::move(x.after));
  // An asynchronous step has returned when its actor is down, and one whose
  // handler a deputy has called may be far from it.
  if (!row.deputy && (!row.care || !row.care->asynchronous)) {
    stop_running(row);
    return free_slot();
  }
  drive();
}

void picker_actor::add_outcome(begun_rows::iterator which,
                               execution::row_ptr outcome, bool handled,
                               execution_ptr after) {
  auto& row = which->second;
  let_go(row);
  row.reported = true;
  row.handled = handled;
  row.spare = std::move(after);
  auto& what = outcome->what;
  if (what == store::verb::next && !drain_for_ && row.spare->may_run_ahead()) {
    what = store::verb::advance;
    outcome->may_collide = false; // it executes as before
    row.advancing = true;
    ++advancing_;
  }
  if (what == store::verb::next || what == store::verb::replay)
    look_again(); // for itself
  if (what == store::verb::await)
    pick_follows_ = true; // its signal may be there
  turn_.add(std::move(outcome), which->first);
}

void picker_actor::collect_ended() {
  for (auto& x : steps_->take_ended()) {
    auto found = begun_.find(x.tag);
    expect(found != begun_.end(), "what a runner has ended was begun");
    found->second.running = false;
    --running_;
    pace_.ended();
    if (x.row) {
      auto handled = x.what->failed();
      found->second.unwritten = x.row->bytes();
      add_outcome(found, std::move(x.row), handled, std::move(x.what));
    } else if (x.what) {
      crash(found, x.why);
    } else {
      settled(found);
    }
  }
}

void picker_actor::step_down(std::uint64_t tag, const caf::error& why) {
  auto found = begun_.find(tag);
  if (found == begun_.end())
    return;
  auto& row = found->second;
  row.step = nullptr;
  bool was_running = row.running;
  if (was_running)
    stop_running(row);
  bool keyed = row.key.has_value(); // others wait for its end
  bool late = row.deputy != nullptr;
  if (late && was_running && row.care)
    home_->tell(events::step_returned_late{row.under->id, row.care->step});
  bool waited = row.care && row.care->due == clock::time_point::max();
  if (late || row.reported || row.settled)
    forget_if_over(found);
  else if (waited && row.under->lost) // it has not begun
    settled(found);
  else if (auto failure = row.care && row.care->asynchronous
                            ? failure_of_end(system(), why)
                            : std::nullopt) {
    limits_.erase({row.care->due, tag});
    row.deputy = appoint(tag, row);
    anon(row.deputy, step_failed{"step " + row.care->step + ": " + *failure});
  } else {
    crash(found, why);
  }
  if (was_running)
    free_slot();
  else if (drain_for_ || keyed)
    drive();
}

void picker_actor::deputy_down(std::uint64_t tag, const caf::error& why) {
  auto found = begun_.find(tag);
  if (found == begun_.end() || found->second.reported || found->second.settled)
    return;
  crash(found, why);
  drive();
}

void picker_actor::end_late_steps(clock::time_point t) {
  std::vector<lease_ptr> late;
  while (!limits_.empty() && limits_.begin()->first <= t) {
    auto tag = limits_.begin()->second;
    limits_.erase(limits_.begin());
    auto limited = begun_.find(tag);
    expect(limited != begun_.end(), "what has a time limit was begun");
    auto& row = limited->second;
    if (!row.under->decide(decider::limit))
      continue; // its outcome is on its way
    home_->tell(
      events::step_over_limit{row.under->id, row.care->step, row.care->limit});
    late.push_back(row.under);
    row.deputy = appoint(tag, row);
    anon(row.deputy,
         step_failed{execution::over_limit(row.care->step, row.care->limit)});
    if (row.care->asynchronous)
      caf::anon_send_exit(row.step, caf::exit_reason::kill);
  }
  stop_steps(system(), late);
}

caf::actor picker_actor::appoint(std::uint64_t tag, begun_row& row) {
  if (!row.under->lost)
    home_->leases.add(row.under); // the step's end may have removed it
  auto self = caf::actor_cast<caf::actor>(this);
  // A function that has not returned may keep its thread for ever, and all others
  // may be in the same case: its handler waits for none.
  bool late = row.care && row.running && !row.care->asynchronous;
  auto deputy = late ? spawn<step_actor, caf::detached>(
                  home_, self, tag, row.spare, step_thread::own)
                     : spawn<step_actor>(home_, self, tag, row.spare,
                                         step_thread::shared);
  watcher_.watch(this, deputy,
                 [this, tag](const caf::error& why) { deputy_down(tag, why); });
  return deputy;
}

/// It holds no memory to speak of any more.
void picker_actor::let_go(begun_row& row) {
  pace_.let_go(std::exchange(row.bytes, 0));
}

void picker_actor::crash(begun_rows::iterator which, const caf::error& why) {
  home_->tell(
    events::step_crashed{which->second.under->id, render(system(), why)});
  settled(which);
}

void picker_actor::settled(begun_rows::iterator which) {
  auto& row = which->second;
  row.settled = true;
  let_go(row);
  home_->leases.remove(row.under);
  if (row.care)
    limits_.erase({row.care->due, which->first});
  if (row.deputy)
    anon(row.deputy, step_settled{});
  forget_if_over(which);
}

void picker_actor::forget_if_over(begun_rows::iterator which) {
  if (!which->second.settled || which->second.step)
    return;
  if (which->second.key)
    unlock(std::move(*which->second.key));
  begun_.erase(which);
}

void picker_actor::unlock(store::key_hold key) {
  turn_.unlock(std::move(key));
  look_again(); // for the key's next row
}

void picker_actor::free_slot() {
  --running_;
  pace_.ended();
  steps_->free_slot();
  start_steps();
  drive();
}

// -- the end ------------------------------------------------------------------

void picker_actor::start_draining(std::chrono::milliseconds grace) {
  drain_by_ = now() + grace;
  home_->claims->close(queue_.name);
  for (const auto& x : steps_->take_back())
    take_back(x);
  for (const auto& x : ahead_) {
    let_go(*x);
    give_back(*x);
  }
  ahead_.clear();
  for (const auto& [which, x] : hidden_) {
    let_go(*x);
    give_back(*x);
  }
  hidden_.clear();
  turn_.forget_hidden([](const auto&) { return true; });
  drive();
}

void picker_actor::stop_if_drained() {
  if (!drain_for_)
    return;
  bool all = running_ == 0 && begun_.empty() && turn_.drained()
             && home_->claims->under_way(queue_.name) == 0;
  if (!all && now() < drain_by_)
    return;
  // What still runs waits for its lease: giving it back would run it twice.
  left_.abandoned = static_cast<std::size_t>(
    std::count_if(begun_.begin(), begun_.end(), [](const auto& x) {
      const auto& row = x.second;
      return row.running || (!row.settled && row.spare);
    }));
  anon(caf::actor_cast<caf::actor>(drain_for_), left_);
  quit();
}

} // namespace gd::actors
