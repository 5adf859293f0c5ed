#pragma once

#include <gd/actors/node/node.hpp>

#include <gd/engine/sweep/job_sweep.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/engine/sweep/sweep_round.hpp>
#include <gd/pq/unit.hpp>

#include <caf/event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gd::actors {

/// Drives the sweeps, all of them on the connection that heartbeats have: each round again
/// and again, with jittered intervals. What is due beside them (jobs of operators, which rows
/// were refused) it sends as well.
class reaper_actor : public caf::event_based_actor {
public:
  reaper_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.reaper";
  }

private:
  using clock = database::clock;

  clock::time_point now() {
    return system().clock().now();
  }

  std::vector<sweep_round> make_rounds();
  void finish(std::size_t which, const pq::reply& reply);
  void go_on(std::size_t which, std::optional<pq::unit> work);
  void pause(std::size_t which);
  void finish_job(const pq::reply& reply);
  void send_job(pq::unit work);
  void note_refused();

  node_ptr home_;
  sweep_context here_;
  std::shared_ptr<job_sweep> jobs_;
  std::vector<sweep_round> rounds_;
};

} // namespace gd::actors
