#pragma once

#include <gd/actors/messages.hpp>

#include <gd/testing.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <memory>
#include <optional>

/// For tests of machines with asynchronous steps: actors, and their timers, without
/// threads and without waiting.
namespace gd::actors::testing {

/// A `gd::testing::simulation` that runs asynchronous steps, too. Its actor system has no
/// threads: actors run in the calling one, in the order of their messages, and CAF's
/// clock is the simulated one. So delays and timeouts of requests take no time, and every
/// run is the same.
///
/// A step runs to its outcome before another one begins, and the clock moves on as far as
/// its actors need for that: to the end of a delay, of a request's timeout, or of the
/// step's time limit. Actors run between steps, too, and while time passes.
///
/// Actors that have a thread of their own (`detached`, blocking ones) have no place here.
class simulation : public gd::testing::simulation {
public:
  /// With a configuration of its own for the actors, or with yours, which needs neither
  /// `add_to` nor a scheduler; with CAF 1.x, its settings are taken. Machines come by
  /// `add`, when their actors are there.
  explicit simulation(std::unique_ptr<caf::actor_system_config> cfg = nullptr,
                      gd::testing::simulation_settings how = {});

  simulation(simulation&&) = delete;
  simulation& operator=(simulation&&) = delete;

  /// Ends what still runs.
  ~simulation() override;

  /// For what the machines' steps talk to. Handles of its actors have to go before the
  /// simulation.
  caf::actor_system& system() noexcept;

  /// In the place of an engine's, for actors that talk to one: what it is sent, the
  /// simulation does, at once; an `await_result` is answered when its instance has ended, or
  /// its time is over by the simulated clock. A simulation counts nothing and keeps no history, so that
  /// `stats_query`, `history_query`, `in_step_query` and `why_query` are answered
  /// `invalid_argument`.
  const actors::gateway& gateway() const noexcept;

private:
  struct world;
  class door;
  class delivery;
  class step_actor;

  gd::result<bool> run_one() override;
  gd::result<outcome_row> run_async(gd::run& what) override;
  gd::result<void> pass(std::chrono::microseconds by) override;
  gd::result<std::optional<std::chrono::microseconds>> next_due() override;

  /// Runs actors until none has a message. An error: they go on for ever.
  gd::result<void> settle();

  std::unique_ptr<world> world_;
};

} // namespace gd::actors::testing
