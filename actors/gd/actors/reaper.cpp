#include <gd/actors/reaper.hpp>

#include <gd/store.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Rows of one statement; a full batch is followed by the next at once.
constexpr std::int32_t batch_rows = 1'000;
/// Rows that are returned one by one in a sweep; and how long each may wait for
/// a stranger.
constexpr std::int32_t single_rows = 20;
constexpr milliseconds single_wait{10};
/// What a heartbeat has for a row that a stranger has let go: it tries every
/// second.
constexpr milliseconds lock_grace{3'000};

template <class Rows>
std::vector<std::string> queues_of(Rows& rows) {
  std::set<std::string> queues;
  for (auto& x : rows)
    queues.insert(x.queue);
  return {queues.begin(), queues.end()};
}

} // namespace

reaper_actor::reaper_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg), home_(std::move(home)) {
  // nop
}

caf::behavior reaper_actor::make_behavior() {
  for (auto what : {leases, deadlines})
    send_self_after(this, interval(what), tick{what});
  return {
    [this](tick x) { start(static_cast<sweep>(x.generation)); },
    [this](unit_done& x) {
    finish(static_cast<sweep>(x.ticket & 1U), static_cast<work>(x.ticket >> 1U),
           *x.reply);
    },
    };
}

std::string_view reaper_actor::title(sweep what) {
  return what == leases ? "the sweep of leases" : "the sweep of deadlines";
}

milliseconds reaper_actor::interval(sweep what) {
  thread_local std::minstd_rand random{std::random_device{}()};
  auto base = (what == leases ? home_->config.reaper : home_->config.poll)
              * progress_[what].pause;
  std::uniform_real_distribution<double> extra{0, home_->config.jitter};
  return base
         + milliseconds{static_cast<std::int64_t>(
           static_cast<double>(base.count()) * extra(random))};
}

bool reaper_actor::may_reap() {
  // After an outage of the database every lease looks expired: living nodes get
  // one heartbeat to say that they live.
  auto since = home_->db->connected_since(database::control_lane);
  return since && system().clock().now() - *since >= home_->config.heartbeat;
}

void reaper_actor::start(sweep what) {
  progress_[what].found = false;
  if (what == leases && !may_reap())
    return send_self_after(this, interval(what), tick{what});
  if (home_->config.single_sweeper)
    send(what, lock, {{store::sweep_lock()}, false});
  else
    run(what);
}

void reaper_actor::run(sweep what) {
  pq::unit unit;
  if (what == leases) {
    end_sessions({});
    std::vector<std::int64_t> leave_alone;
    for (const auto& [id, until] : locked_)
      leave_alone.push_back(id);
    // Half of the lease: what is extended in time has more of it.
    unit.calls = {store::locked_leases(batch_rows, home_->config.lease / 2),
                  store::reap(batch_rows, leave_alone)};
  } else {
    unit.calls = {store::wake_due(batch_rows),
                  store::returning(single_rows, may_reap())};
  }
  send(what, batch, std::move(unit));
}

void reaper_actor::send(sweep what, work kind, pq::unit unit) {
  // Without patience: after a reconnect, it has to ask again whether it may.
  submit(this, *home_->db, database::control_lane, std::move(unit),
         static_cast<std::uint64_t>(kind) << 1U | what,
         database::clock::duration::zero());
}

void reaper_actor::finish(sweep what, work kind, const pq::reply& reply) {
  if (!reply.ok() && reply.failure->code != errc::stopped
      && reply.failure->code != errc::unavailable
      && !(kind == one_row && reply.failure->code == errc::busy))
    home_->tell(
      events::sweep_failed{title(what), without_data(*reply.failure)});
  if (kind == one_row)
    return read_row(what, reply);
  if (kind == sessions) {
    auto asked = std::exchange(ending_, 0);
    if (!reply.ok())
      return; // the next sweep asks again
    holders_.erase(holders_.begin(),
                   holders_.begin() + static_cast<std::ptrdiff_t>(asked));
    if (reply.results.front().size() > 0)
      home_->tell(events::sessions_ended{reply.results.front().size()});
    return end_sessions({});
  }
  if (!reply.ok())
    return pause(what);
  if (kind == lock) {
    if (reply.results.front().boolean(0, 0))
      return run(what);
    home_->tell(events::sweep_skipped{title(what)});
    return pause(what);
  }
  if (what == leases)
    read_leases(reply);
  else
    read_deadlines(reply);
  if (progress_[what].open == 0)
    pause(what);
}

void reaper_actor::remember(const std::vector<std::int64_t>& locked) {
  auto now = system().clock().now();
  for (auto& [id, until] : locked_)
    if (!until)
      until = now + lock_grace;
  std::erase_if(locked_, [now](const auto& x) { return *x.second <= now; });
  for (auto id : locked)
    locked_[id] = std::nullopt;
}

void reaper_actor::read_leases(const pq::reply& reply) {
  remember(store::read_ids(reply.results[0]));
  auto reaped = store::read_reap(reply.results[1]);
  auto& at = progress_[leases];
  at.full = reaped.size() >= static_cast<std::size_t>(batch_rows);
  if (reaped.empty())
    return;
  at.found = true;
  home_->tell(events::reaped{reaped.size()});
  end_sessions(reaped);
  home_->wake(queues_of(reaped), true);
}

void reaper_actor::read_deadlines(const pq::reply& reply) {
  auto woken = store::read_wake_due(reply.results[0]);
  auto& at = progress_[deadlines];
  at.full = woken.size() >= static_cast<std::size_t>(batch_rows);
  if (!woken.empty()) {
    at.found = true;
    home_->tell(events::deadlines_fired{woken.size()});
    home_->wake(queues_of(woken), true);
  }
  for (auto id : store::read_ids(reply.results[1])) {
    ++at.open;
    bool lease_too = may_reap() && !locked_.contains(id);
    send(
      deadlines, one_row,
      {{store::lock_timeout(single_wait), store::return_row(id, lease_too)}});
  }
}

void reaper_actor::read_row(sweep what, const pq::reply& reply) {
  auto& at = progress_[what];
  auto moved = reply.ok() ? store::read_return_row(reply.results.back())
                          : std::nullopt;
  if (moved && moved->runnable) {
    ++at.returned.runnable;
    at.found = true;
    if (moved->row.partition_key)
      end_sessions({moved->row});
    home_->wake({moved->row.queue}, true);
  } else if (moved || (!reply.ok() && reply.failure->code == errc::busy)) {
    ++at.returned.blocked;
  }
  if (--at.open > 0)
    return;
  auto summary = std::exchange(at.returned, {});
  if (summary.runnable + summary.blocked > 0)
    home_->tell(summary);
  pause(what);
}

void reaper_actor::end_sessions(const std::vector<store::reaped_row>& reaped) {
  std::copy_if(reaped.begin(), reaped.end(), std::back_inserter(holders_),
               [](const auto& x) { return x.partition_key.has_value(); });
  if (ending_ > 0 || holders_.empty())
    return;
  ending_ = holders_.size();
  send(leases, sessions, {{store::end_sessions(holders_)}, false});
}

void reaper_actor::pause(sweep what) {
  auto& at = progress_[what];
  if (std::exchange(at.full, false))
    return run(what);
  at.pause = at.found ? 1 : std::min(2 * at.pause, home_->config.sweep_backoff);
  send_self_after(this, interval(what), tick{what});
}

} // namespace gd::actors
