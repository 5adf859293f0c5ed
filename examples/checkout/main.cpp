/// A worker that runs the checkout machine until SIGINT or SIGTERM.

#include "checkout.hpp"
#include "effects.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>

#include <CLI/CLI.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

namespace {

using std::chrono::milliseconds;

struct options {
  gd::config engine;
  milliseconds pay_within = std::chrono::hours{24};
  milliseconds step_time{0};
  bool effects = false;
  gd::actors::publish_options publish;

  bool publishes() const {
    return !publish.socket.empty() || publish.port;
  }
};

/// Seconds on the command line, milliseconds in the configuration.
void add_time(CLI::App& app, const std::string& name, milliseconds& to,
              const std::string& help) {
  app
    .add_option_function<double>(
      name,
      [&to](double seconds) {
    to = milliseconds{static_cast<std::int64_t>(seconds * 1000)};
      },
      help + " (seconds)")
    ->default_str(fmt::format("{}", static_cast<double>(to.count()) / 1000));
}

/// The same machine with steps that take that long: it stands for work, and for
/// something to be killed in.
gd::machine slowed(gd::machine machine, milliseconds step_time) {
  for (auto& step : machine.steps) {
    step.how.blocking = step.how.blocking || step_time > milliseconds{0};
    step.run = [run = std::move(step.run),
                step_time](gd::context_base& ctx, const std::string& state) {
      std::this_thread::sleep_for(step_time);
      return run(ctx, state);
    };
  }
  return machine;
}

} // namespace

int main(int argc, char** argv) {
  options opts;
  opts.engine.queues = {{"checkout", 10}};
  CLI::App app{"Runs the checkout machine until SIGINT or SIGTERM."};
  app
    .add_option("--database", opts.engine.database,
                "libpq connection string or URI; else PG* variables")
    ->envname("GD_DATABASE");
  app.add_option("--schema", opts.engine.schema, "where the tables are")
    ->envname("GD_SCHEMA");
  app.add_option("--node", opts.engine.node, "this node's name [host:pid]");
  add_time(app, "--pay-within", opts.pay_within, "until an order is cancelled");
  add_time(app, "--lease", opts.engine.lease, "lease of a row");
  add_time(app, "--heartbeat", opts.engine.heartbeat, "between heartbeats");
  add_time(app, "--poll", opts.engine.poll, "between looks for work");
  add_time(app, "--reaper", opts.engine.reaper,
           "between looks for dead leases");
  add_time(app, "--step-time", opts.step_time, "how long each step takes");
  app.add_flag("--effects", opts.effects,
               "write a row for each step start, as tools/demo wants");
  app.add_option("--publish", opts.publish.socket,
                 "path of a Unix socket for other CAF nodes of this user");
  app.add_option("--publish-port", opts.publish.port,
                 "or a loopback port, which all users reach; 0: any, printed");
  app.add_option("--secret", opts.publish.secret,
                 "the port's: a file (gdctl secret new)");
  CLI11_PARSE(app, argc, argv);

  opts.engine.machines = {slowed(checkout(opts.pay_within), opts.step_time)};
  std::shared_ptr<effect_log> effects;
  if (opts.effects) {
    effects = std::make_shared<effect_log>(opts.engine.database);
    opts.engine.on_event =
      [effects, log = gd::log_to_stderr()](const gd::event& what) {
      if (auto* step = std::get_if<gd::events::step_started>(&what))
        effects->write(*step);
      log(what);
    };
  }

  const auto& queue = opts.engine.queues.front();
  auto what = opts.engine.machines.front().title() + " in queue " + queue.name
              + ", " + std::to_string(queue.slots) + " slots";

  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  if (opts.publishes())
    gd::actors::add_network_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys, std::move(opts.engine));
  if (!engine) {
    std::cerr << "checkout: " << to_string(engine.error()) << '\n';
    return EXIT_FAILURE;
  }
  if (opts.publishes()) {
    auto place = gd::actors::publish(*engine, opts.publish);
    if (!place) {
      std::cerr << "checkout: " << to_string(place.error()) << '\n';
      return EXIT_FAILURE;
    }
    std::cout << "published at " << *place << std::endl;
  }
  std::cerr << "checkout: runs " << what << "; SIGTERM ends it" << std::endl;
  if (auto ended = engine->run_until_signal(); !ended) {
    std::cerr << "checkout: " << to_string(ended.error()) << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
