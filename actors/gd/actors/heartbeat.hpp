#pragma once

#include <gd/actors/node.hpp>

#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

namespace gd::actors {

/// Extends all leases of the node, a few statements per interval. Detached, and
/// straight through the reactor: user code on CAF's threads cannot starve it.
class heartbeat_actor : public caf::event_based_actor {
public:
  heartbeat_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  const char* name() const override {
    return "gd.heartbeat";
  }

private:
  struct beat_under_way {
    std::vector<lease_ptr> leases;
    /// One lease that a stranger's lock has kept from being extended.
    bool alone = false;
  };

  void extend_all();
  void extend_busy();
  void submit_beat(beat_under_way what);
  void finish(std::uint64_t ticket, pq::reply reply);
  void lose(const lease_ptr& one);

  node_ptr home_;
  std::uint64_t tickets_ = 0;
  std::unordered_map<std::uint64_t, beat_under_way> under_way_;
  std::vector<lease_ptr> busy_;
};

} // namespace gd::actors
