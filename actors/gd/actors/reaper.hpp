#pragma once

#include <gd/actors/node.hpp>

#include <caf/event_based_actor.hpp>

#include <chrono>
#include <cstdint>

namespace gd::actors {

/// Returns rows whose lease is over, and wakes rows whose deadline has passed:
/// two sweeps with jittered intervals and bounded batches (spec section 6).
class reaper_actor : public caf::event_based_actor {
public:
  reaper_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  const char* name() const override {
    return "gd.reaper";
  }

private:
  enum sweep : std::uint64_t { leases, deadlines };

  std::chrono::milliseconds interval(sweep what) const;
  void run(sweep what);
  void finish(sweep what, const pq::reply& reply);
  bool may_reap();

  node_ptr home_;
};

} // namespace gd::actors
