#pragma once

#include <gd/config.hpp>
#include <gd/error.hpp>
#include <gd/machine.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// \file
/// Workers without a database: they run steps for an engine's node, which they join over
/// its published gateway. See docs/distributed/workers.md.
namespace gd::actors {

/// What a worker is, beside its machines and queues. Leases, limits and how often both
/// sides say that they live are the engine's.
struct join_options {
  /// Its name in events; empty means "host:pid".
  std::string node{};
  /// For addresses that are ports: the secret of their engines, a file of mode 0600. Sockets
  /// need none.
  std::string secret{};
  /// Bytes of rows without an outcome, and of outcomes that are not completed.
  std::int64_t bytes = 16 << 20;
  /// How long one try to join may take.
  std::chrono::milliseconds patience{5'000};
  /// Between tries; doubled with each, of which a random half is kept.
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{5'000}; ///< no pause is longer
  /// How long `leave` waits for steps that run.
  std::chrono::milliseconds stop_grace{10'000};
  /// Gets what happens here; the engine tells its own sink of what is committed.
  event_sink on_event = log_to_stderr();
};

/// All that a worker is given.
struct worker_settings {
  /// Of engines: "unix:/run/gd.sock" or "127.0.0.1:4711".
  std::vector<std::string> addresses{};
  std::vector<machine> machines{};                    ///< that it runs
  std::vector<queue_config> queues{{.prefetch = 20}}; ///< that it serves
  join_options how{};                                 ///< all the rest
};

/// Adds an option for each of these that is a plain value, with dashes in the place of
/// underscores: "--gd.worker.stop-grace=5s"; for addresses and queues a list of texts. Call it
/// next to `add_to`.
void add_worker_options_to(caf::actor_system_config& cfg);

/// `settings`, but for what a program's command line and configuration file say of the group
/// `gd.worker`. As `configured` of engine.hpp; a queue without `ahead` has 20.
result<worker_settings> configured_worker(const caf::actor_system_config& cfg,
                                          worker_settings settings);

/// How a worker is at the moment.
struct worker_status {
  bool joined = false;     ///< it gets work
  std::string address{};   ///< of the engine, or where the next try goes
  std::string node{};      ///< the engine's, when it was joined last
  std::size_t holds = 0;   ///< executions that are not completed
  std::uint64_t joins = 0; ///< so far
  std::string why{};       ///< why it is not joined
};

/// The handle of a worker. Leaves when it goes; has to go before the actor system.
class worker {
public:
  /// The other one is a worker no more.
  worker(worker&&) noexcept;
  /// As the end of the one that was here, and a move.
  worker& operator=(worker&&) noexcept;
  ~worker();

  /// How it is now; may be called by any thread.
  worker_status status() const;

  /// Asks for no more work, gives back what has not begun, waits up to
  /// `join_options::stop_grace` until what runs is completed. Blocks; a second call does
  /// nothing.
  void leave();

private:
  friend result<worker> join(caf::actor_system&, std::vector<std::string>,
                             std::vector<machine>, std::vector<queue_config>,
                             join_options);
  struct impl;
  explicit worker(std::unique_ptr<impl> x);

  std::unique_ptr<impl> impl_;
};

/// Joins one of the engines that are published at these addresses ("unix:/run/gd.sock" or
/// "127.0.0.1:4711"), and runs steps of these machines from these queues: up to `slots`
/// at a time, and `ahead` rows that wait for one. Tries each address in turn, with backoff,
/// for as long as the worker lives; so an engine need not be there yet. An error: something
/// cannot work.
///
/// The engine has to have the machines, too, with the same steps under the same version.
result<worker> join(caf::actor_system& sys, std::vector<std::string> addresses,
                    std::vector<machine> machines,
                    std::vector<queue_config> queues = {{.prefetch = 20}},
                    join_options how = {});

/// The same.
result<worker> join(caf::actor_system& sys, worker_settings settings);

} // namespace gd::actors
