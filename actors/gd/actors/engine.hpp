#pragma once

#include <gd/actors/compat.hpp>
#include <gd/actors/messages.hpp>

#include <gd/config.hpp>
#include <gd/error.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

/// The engine, in an actor system of CAF.
namespace gd::actors {

struct node;
struct publish_options;

/// Registers our message types and errors with a CAF configuration; call it in
/// the constructor of yours. Of the scheduler it sets one thing, its policy, to
/// "sharing", unless you have set that before: the threads of CAF's default, "stealing", wake
/// up all the time to look for work, and cost twice the CPU (docs/internals/decisions). What you set
/// after it stays, as what the command line or the file says.
void add_to(caf::actor_system_config& cfg);

/// Adds an option for each field of gd::config that is a plain value, with dashes in the
/// place of underscores: "--gd.engine.stop-grace=5s", "--gd.engine.limits.state=65536", and
/// for queues a list of texts, as `configured` tells. Call it next to `add_to`.
void add_options_to(caf::actor_system_config& cfg);

/// `settings`, but for what a program's command line and configuration file say of the
/// group `gd.engine`. A queue is "mail", "mail:10" with its slots, or "mail:10:200" with
/// `ahead`, too. The first that cannot be used is an error, with the option's name, its
/// value and what was expected: `invalid_argument`. Bounds are checked by `start`.
result<config> configured(const caf::actor_system_config& cfg, config settings);

/// A node's engine: the handle of what `start` has started. Stops it when it
/// goes; has to go before the actor system.
class engine {
public:
  /// An engine that was moved from can only be destroyed or assigned to.
  engine(engine&&) noexcept;
  /// Stops what it held before.
  engine& operator=(engine&&) noexcept;
  ~engine();

  /// What to send inserts and signals to. For other nodes: `publish` of
  /// remote.hpp, and `reach` of remote_gateway.hpp.
  const actors::gateway& gateway() const;

  /// Ends picking, releases what has not begun, waits up to
  /// `config::stop_grace` for steps that run, and until their outcomes are
  /// committed. Blocks; a second call does nothing.
  void stop();

  /// Why the engine has given up by itself (a schema that does not fit, no
  /// connection in time); nullopt while it runs.
  std::optional<error> failed() const;

  /// Blocks until SIGINT, SIGTERM or SIGHUP (but under nohup) arrives or the engine gives
  /// up, then stops. A second one meanwhile does what it did before: by default it ends the
  /// process at once, and what runs is left to its leases.
  /// An error: it gave up.
  result<void> run_until_signal();

private:
  friend result<engine> start(caf::actor_system&, config);
  friend result<std::string> publish(engine&, const publish_options&);
  friend std::shared_ptr<node> inside(const engine&);
  struct impl;
  explicit engine(std::unique_ptr<impl> x);

  /// What `publish` opens: `close` takes no more connections, `end` answers what
  /// is still open on those that there are.
  struct port {
    std::function<void()> close;
    std::function<void()> end;
  };
  void keep(port x);

  /// Where rows run that this node hands out, who speaks to workers, and who exchanges
  /// hints with other nodes: the first that are given, from now on.
  void let_others_in(std::shared_ptr<elsewhere> where, child_spawner links,
                     child_spawner hints);

  std::unique_ptr<impl> impl_;
};

/// Starts an engine inside an actor system. Wrong options and machines are an
/// error at once; the database is connected to in the background, with backoff,
/// and may be down at first, unless `config::connect_within` says otherwise.
result<engine> start(caf::actor_system& sys, config options);

} // namespace gd::actors
