#pragma once

#include <gd/actors/node.hpp>

#include <gd/execution.hpp>

#include <caf/event_based_actor.hpp>

namespace gd::actors {

/// Runs one picked row's step, and lives until its outcome is durable or lost.
class step_actor : public caf::event_based_actor {
public:
  /// Reports to `picker`, which knows the execution as `tag`.
  step_actor(caf::actor_config& cfg, node_ptr home, caf::actor picker,
             std::uint64_t tag, execution what);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.step";
  }

private:
  void report(store::outcome_row row);

  node_ptr home_;
  caf::actor picker_;
  std::uint64_t tag_;
  execution what_;
  bool reported_ = false;
};

} // namespace gd::actors
