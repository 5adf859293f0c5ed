#pragma once

#include <gd/actors/async.hpp>
#include <gd/actors/node/node.hpp>

#include <gd/engine/step/run.hpp>
#include <gd/engine/step/step_transaction.hpp>

#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gd::actors {

/// On which thread a step's actor runs user code.
enum class step_thread : std::uint8_t {
  own,
  shared, ///< one of CAF's: with a permit
};

/// A step in a transaction has ended, and what became of its outcome is known.
struct written_step {
  /// The picker's number for it.
  std::uint64_t tag = 0;
  gd::run what;
  outcome_ptr row{};
  step_transaction::fate became = step_transaction::fate::applied;
};

/// Runs one picked row's step, reports its outcome and ends. Or calls the
/// handler in the place of one that cannot any more, and lives until that
/// outcome is durable or lost.
class step_actor : public caf::event_based_actor {
public:
  /// Reports to `picker`, which knows the run as `tag`.
  step_actor(caf::actor_config& cfg, node_ptr home, caf::actor picker,
             std::uint64_t tag, gd::run what, step_thread where);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.step";
  }

private:
  void when_permitted(std::function<void()> what);
  void run_permitted();
  void execute();
  void execute_in_transaction();
  void report(outcome_ptr row);

  node_ptr home_;
  caf::actor picker_;
  std::uint64_t tag_;
  gd::run what_;
  step_thread where_;
  /// Waits for the permit.
  std::function<void()> next_;
};

class async_delivery;

/// Belongs to one run of an asynchronous step, until that has an outcome.
/// All that it is, but for how it starts and ends, is up to the user's code.
class async_step_actor : public caf::event_based_actor {
public:
  async_step_actor(caf::actor_config& cfg, node_ptr home,
                   const caf::actor& picker, std::uint64_t tag, gd::run what,
                   const detail::async_starter* starter);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.async_step";
  }

private:
  node_ptr home_;
  const detail::async_starter* starter_;
  std::shared_ptr<async_delivery> delivery_;
};

/// Whether the end of an asynchronous step for this reason, without an outcome,
/// is an exception of the step: what it says. Nullopt: a crash.
std::optional<std::string> failure_of_end(caf::actor_system& sys,
                                          const caf::error& why);

/// Tells steps to stop. Their callbacks are user code: they run on a thread of
/// their own.
void stop_steps(caf::actor_system& sys, const std::vector<lease_ptr>& which);

} // namespace gd::actors
