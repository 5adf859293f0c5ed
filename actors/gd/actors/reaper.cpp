#include <gd/actors/reaper.hpp>

#include <gd/store.hpp>

#include <caf/all.hpp>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

/// Rows of one statement; a full batch is followed by the next at once.
constexpr std::int32_t batch = 1'000;

} // namespace

reaper_actor::reaper_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg), home_(std::move(home)) {
  // nop
}

caf::behavior reaper_actor::make_behavior() {
  for (auto what : {leases, deadlines})
    send_self_after(this, interval(what), tick{what});
  return {
    [this](tick x) { run(static_cast<sweep>(x.generation)); },
    [this](unit_done& x) { finish(static_cast<sweep>(x.ticket), *x.reply); },
  };
}

std::chrono::milliseconds reaper_actor::interval(sweep what) const {
  thread_local std::minstd_rand random{std::random_device{}()};
  auto base = what == leases ? home_->config.reaper : home_->config.poll;
  std::uniform_real_distribution<double> extra{0, home_->config.jitter};
  return base
         + std::chrono::milliseconds{static_cast<std::int64_t>(
           static_cast<double>(base.count()) * extra(random))};
}

bool reaper_actor::may_reap() {
  // After an outage of the database every lease looks expired: living nodes get
  // one heartbeat to say that they live.
  auto since = home_->db->connected_since(database::control_lane);
  return since && system().clock().now() - *since >= home_->config.heartbeat;
}

void reaper_actor::run(sweep what) {
  if (what == leases && !may_reap())
    return send_self_after(this, interval(what), tick{what});
  pq::unit work;
  work.calls.push_back(what == leases ? store::reap(batch)
                                      : store::wake_due(batch));
  // Without patience: after a reconnect, it has to ask again whether it may.
  submit(this, *home_->db, database::control_lane, std::move(work), what,
         database::clock::duration::zero());
}

void reaper_actor::finish(sweep what, const pq::reply& reply) {
  if (!reply.ok()) {
    if (reply.failure->code != errc::stopped
        && reply.failure->code != errc::unavailable)
      home_->tell(events::sweep_failed{
        what == leases ? "the sweep of leases" : "the sweep of deadlines",
        *reply.failure});
    return send_self_after(this, interval(what), tick{what});
  }
  auto moved = store::read_moved(reply.results.front());
  if (!moved.empty()) {
    if (what == leases)
      home_->tell(events::reaped{moved.size()});
    else
      home_->tell(events::deadlines_fired{moved.size()});
    std::set<std::string> queues;
    for (auto& x : moved)
      queues.insert(std::move(x.queue));
    home_->pickers.wake({queues.begin(), queues.end()});
  }
  if (moved.size() >= static_cast<std::size_t>(batch))
    return run(what);
  send_self_after(this, interval(what), tick{what});
}

} // namespace gd::actors
