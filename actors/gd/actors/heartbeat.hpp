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
  /// All leases; those that strangers' locks have kept from being extended; one
  /// of these, waiting for the lock.
  enum class kind : std::uint8_t { regular, busy, alone };
  struct beat_under_way {
    std::vector<lease_ptr> leases;
    kind what = kind::regular;
  };

  bool has_under_way(bool of_regular) const;
  void extend_all();
  void extend_busy();
  void extend(std::vector<lease_ptr> which, kind what);
  void submit_beat(beat_under_way what);
  void finish(std::uint64_t ticket, pq::reply reply);
  void lose(std::vector<lease_ptr> which);

  node_ptr home_;
  std::uint64_t tickets_ = 0;
  std::unordered_map<std::uint64_t, beat_under_way> under_way_;
  /// Each once, those first that have waited for their lock longest ago.
  std::vector<lease_ptr> busy_;
};

} // namespace gd::actors
