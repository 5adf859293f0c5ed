#include <gd/actors/picker.hpp>

#include <gd/actors/step.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

/// Numbers that one picker can use before it meets the next one's range.
constexpr std::uint64_t pick_range = std::uint64_t{1} << 40;

turn::settings turn_settings(node& home, const queue_config& queue) {
  const auto& cfg = home.config;
  return {.queue = queue.name,
          .incarnation = home.incarnation,
          .first_pick = home.pick_ranges++ * pick_range + 1,
          .machines = home.machines->keys(),
          .lease = cfg.lease,
          .rows = static_cast<std::size_t>(cfg.rows_per_turn),
          .bytes = static_cast<std::size_t>(cfg.bytes_per_turn),
          .inbox = cfg.limits.inbox};
}

} // namespace

picker_actor::picker_actor(caf::actor_config& cfg, node_ptr home,
                           queue_config queue, std::size_t lane)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    queue_(std::move(queue)),
    lane_(lane),
    turn_(turn_settings(*home_, queue_)) {
  left_.queue = queue_.name;
}

caf::behavior picker_actor::make_behavior() {
  watcher_.install(this);
  poll_at_ = now();
  anon(caf::actor_cast<caf::actor>(this), tick{generation_});
  return {
    [this](tick x) {
    if (x.generation != generation_)
      return;
    wake_at_ = clock::time_point::max();
    drive();
    },
    [this](hint) {
    look_again_ = true;
    drive();
  },
    [this](unit_done& x) { finish(std::move(*x.reply)); },
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
  for (auto& [tag, row] : begun_) {
    home_->leases.remove(row.under.get());
    if (row.step)
      caf::anon_send_exit(row.step, caf::exit_reason::user_shutdown);
  }
  for (auto& row : ahead_)
    home_->leases.remove(row.under.get());
  begun_.clear();
  ahead_.clear();
  drain_for_ = nullptr;
}

picker_actor::clock::time_point picker_actor::now() {
  return system().clock().now();
}

// -- turns --------------------------------------------------------------------

std::int32_t picker_actor::wanted() const {
  if (drain_for_ || home_->machines->empty())
    return 0;
  return queue_.slots - running_ + std::min(queue_.ahead, ended_)
         - static_cast<std::int32_t>(ahead_.size());
}

void picker_actor::drive() {
  auto t = now();
  if (!turn_.under_way()) {
    if (t >= poll_at_) {
      look_again_ = true;
      poll_at_ = t + home_->config.poll;
    }
    // A flush takes a pick along: it costs little in a transaction anyway.
    auto want = std::max(wanted(), 0);
    bool pick = look_again_ || turn_.due(t) <= t;
    if (auto work = turn_.begin(pick ? want : 0, t)) {
      if (pick && want > 0) {
        look_again_ = false;
        ended_ = 0;
      }
      submit(this, *home_->db, lane_, std::move(*work), 0);
    }
  }
  stop_if_drained();
  schedule();
}

void picker_actor::schedule() {
  if (turn_.under_way())
    return; // its end drives on
  auto t = now();
  auto at = std::min(poll_at_, turn_.due(t));
  if (drain_for_)
    at = std::min(at, drain_by_);
  if (at >= wake_at_)
    return;
  wake_at_ = at;
  send_self_after(this, std::max(at - t, clock::duration::zero()),
                  tick{++generation_});
}

void picker_actor::finish(pq::reply reply) {
  auto report = turn_.finish(std::move(reply), now());
  for (auto& x : report.rows)
    settle(x);
  if (report.failure)
    home_->tell(events::turn_failed{queue_.name, *report.failure});
  if (report.lost_pick)
    home_->tell(events::pick_lost{queue_.name, *report.lost_pick});
  if (report.recovered > 0) {
    home_->tell(events::pick_recovered{queue_.name, report.recovered});
    look_again_ = true;
  }
  if (report.full)
    look_again_ = true;
  take(std::move(report.picked), report.token);
  drive();
}

void picker_actor::take(std::vector<store::picked_row> picked,
                        const std::string& token) {
  for (auto& row : picked) {
    auto under = std::make_shared<lease>(row.id, token);
    home_->leases.add(under);
    ahead_.push_back({std::move(row), std::move(under)});
  }
  if (drain_for_) {
    for (const auto& x : ahead_)
      give_back(x);
    ahead_.clear();
  }
  start_steps();
}

void picker_actor::give_back(const waiting_row& x) {
  store::outcome_row row;
  row.id = x.under->id;
  row.token = x.under->token;
  row.what = store::verb::release;
  turn_.add(std::move(row), ++tags_);
  begun_[tags_] = {x.under, {}, true, false};
  ++left_.given_back;
}

void picker_actor::settle(turn::settled& x) {
  using verdict = turn::settled::verdict;
  auto found = begun_.find(x.tag);
  if (found == begun_.end())
    return;
  auto& row = found->second;
  switch (x.what) {
    case verdict::applied:
      if (x.row.what != store::verb::release)
        home_->tell(events::step_committed{
          x.row.id, store::to_string(x.row.what), row.handled});
      break;
    case verdict::stale:
      home_->tell(events::outcome_stale{x.row.id, x.row.token});
      break;
    case verdict::unknown:
      home_->tell(events::outcome_unknown{x.row.id, x.row.token});
      break;
    case verdict::refused:
      home_->tell(events::outcome_refused{x.row.id, x.why});
      if (row.step) {
        row.reported = false;
        ++running_;
        anon(row.step, step_refused{x.why});
        return;
      }
      break;
  }
  home_->leases.remove(row.under.get());
  if (row.step)
    anon(row.step, step_settled{});
  begun_.erase(found);
}

// -- steps --------------------------------------------------------------------

void picker_actor::start_steps() {
  while (running_ < queue_.slots && !ahead_.empty()) {
    auto next = std::move(ahead_.front());
    ahead_.pop_front();
    if (next.under->lost)
      continue; // somebody else's by now
    begin(std::move(next));
  }
}

void picker_actor::begin(waiting_row x) {
  auto tag = ++tags_;
  auto machine = home_->machines->find(x.row.fsm, x.row.fsm_version);
  home_->tell(events::step_started{x.row.id, x.row.fsm, x.row.fsm_version,
                                   x.row.step, x.row.attempt, x.under->token});
  execution what{std::move(machine), std::move(x.row), x.under,
                 home_->config.limits};
  auto step = spawn<step_actor>(home_, caf::actor_cast<caf::actor>(this), tag,
                                std::move(what));
  ++running_;
  begun_[tag] = {std::move(x.under), step, false, false};
  watcher_.watch(this, step,
                 [this, tag](const caf::error& why) { step_down(tag, why); });
  anon(step, run_step{});
}

void picker_actor::collect(step_outcome& x) {
  auto found = begun_.find(x.tag);
  if (found == begun_.end() || found->second.reported)
    return;
  found->second.reported = true;
  found->second.handled = x.handled;
  turn_.add(std::move(*x.row), x.tag);
  free_slot();
}

void picker_actor::step_down(std::uint64_t tag, const caf::error& why) {
  auto found = begun_.find(tag);
  if (found == begun_.end())
    return;
  if (found->second.reported) {
    // The outcome goes its way without the actor.
    found->second.step = nullptr;
    return;
  }
  const auto& under = found->second.under;
  home_->tell(events::step_crashed{under->id, render(system(), why)});
  home_->leases.remove(under.get());
  begun_.erase(found);
  free_slot();
}

void picker_actor::free_slot() {
  --running_;
  ++ended_;
  start_steps();
  drive();
}

// -- the end ------------------------------------------------------------------

void picker_actor::start_draining(std::chrono::milliseconds grace) {
  drain_by_ = now() + grace;
  for (const auto& x : ahead_)
    give_back(x);
  ahead_.clear();
  drive();
}

void picker_actor::stop_if_drained() {
  if (!drain_for_)
    return;
  bool all = running_ == 0 && begun_.empty() && turn_.drained();
  if (!all && now() < drain_by_)
    return;
  // What still runs waits for its lease: giving it back would run it twice.
  left_.abandoned = static_cast<std::size_t>(
    std::count_if(begun_.begin(), begun_.end(), [](const auto& x) {
      return static_cast<bool>(x.second.step);
    }));
  anon(caf::actor_cast<caf::actor>(drain_for_), left_);
  quit();
}

} // namespace gd::actors
