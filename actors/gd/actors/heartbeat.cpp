#include <gd/actors/heartbeat.hpp>

#include <gd/store.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t regular = 0;
constexpr std::uint64_t retry = 1;
/// Rows in one statement.
constexpr std::size_t chunk = 5'000;
/// How often a row that a stranger keeps locked is tried.
constexpr milliseconds busy_interval{1'000};
/// How long each such try waits.
constexpr milliseconds alone_wait{100};

} // namespace

heartbeat_actor::heartbeat_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg), home_(std::move(home)) {
  // nop
}

caf::behavior heartbeat_actor::make_behavior() {
  send_self_after(this, home_->config.heartbeat, tick{regular});
  send_self_after(this, busy_interval, tick{retry});
  return {
    [this](tick x) {
    if (x.generation == regular) {
      send_self_after(this, home_->config.heartbeat, tick{regular});
      extend_all();
    } else {
      send_self_after(this, busy_interval, tick{retry});
      extend_busy();
    }
    },
    [this](unit_done& x) { finish(x.ticket, std::move(*x.reply)); },
    };
}

void heartbeat_actor::extend_all() {
  // While the database does not answer, one beat waits for it: enough.
  bool waiting = std::any_of(under_way_.begin(), under_way_.end(),
                             [](const auto& x) { return !x.second.alone; });
  if (waiting)
    return;
  auto all = home_->leases.all();
  // Each id once per statement: a node may hold a dead and a living lease of it.
  std::map<std::int64_t, int> seen;
  std::map<int, std::vector<lease_ptr>> rounds;
  for (auto& one : all)
    rounds[seen[one->id]++].push_back(std::move(one));
  for (auto& [round, leases] : rounds)
    for (std::size_t i = 0; i < leases.size(); i += chunk) {
      auto end = std::min(leases.size(), i + chunk);
      submit_beat({{leases.begin() + static_cast<std::ptrdiff_t>(i),
                    leases.begin() + static_cast<std::ptrdiff_t>(end)},
                   false});
    }
}

void heartbeat_actor::extend_busy() {
  for (auto& one : std::exchange(busy_, {}))
    submit_beat({{std::move(one)}, true});
}

void heartbeat_actor::submit_beat(beat_under_way what) {
  pq::unit work;
  if (what.alone) {
    work.calls.push_back(store::lock_timeout(alone_wait));
    work.calls.push_back(store::lock({what.leases.front()->id}));
  }
  work.calls.push_back(store::heartbeat(what.leases, home_->config.lease));
  auto ticket = ++tickets_;
  under_way_.emplace(ticket, std::move(what));
  submit(this, *home_->db, database::control_lane, std::move(work), ticket);
}

void heartbeat_actor::finish(std::uint64_t ticket, pq::reply reply) {
  auto node = under_way_.extract(ticket);
  if (node.empty())
    return;
  auto& beat = node.mapped();
  if (!reply.ok()) {
    if (reply.failure->code != errc::stopped)
      home_->tell(events::sweep_failed{"heartbeat", *reply.failure});
    // Soon again, one by one or all together; a fence makes that harmless.
    if (beat.alone)
      busy_.push_back(std::move(beat.leases.front()));
    else if (retryable(reply.failure->code))
      extend_all();
    return;
  }
  std::map<std::pair<std::int64_t, std::string>, bool> answers;
  for (auto& x : store::read_heartbeat(reply.results.back()))
    answers.emplace(std::pair{x.id, std::move(x.token)}, x.extended);
  for (auto& one : beat.leases) {
    auto found = answers.find({one->id, one->token});
    if (found == answers.end()) {
      // Locked by a stranger; or, tried alone, deleted.
      if (beat.alone)
        lose(one);
      else
        busy_.push_back(std::move(one));
    } else if (!found->second) {
      lose(one);
    }
  }
}

void heartbeat_actor::lose(const lease_ptr& one) {
  // Its outcome may have been committed in the meantime: then nobody minds.
  if (!home_->leases.contains(one.get()))
    return;
  one->lost = true;
  home_->leases.remove(one.get());
  home_->tell(events::lease_lost{one->id, one->token});
}

} // namespace gd::actors
