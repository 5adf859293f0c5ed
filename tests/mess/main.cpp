/// A shop's worker, for tests/mess.sh and the page's tests: orders are reserved, paid and, if
/// they are parcels, delivered. What goes wrong is told by files in the working directory:
/// `relay_down`, nobody can pay; `bug`, an order for a bomb ends the process; `stuck`, an
/// order that is slow does not come back.

#include <gd/actors/engine.hpp>
#include <gd/machine.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

GD_ENUM(order_step, reserve, charge, deliver);

struct order {
  std::string item;
  GD_STATE(order, item);
};

namespace {

bool is_there(const char* file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

/// The warehouse answers when nothing is stuck any more, or nobody waits.
void ask_the_warehouse(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any answered;
  std::unique_lock guard{mutex};
  while (is_there("stuck") && !stop.stop_requested())
    answered.wait_for(guard, stop, 50ms, [] { return false; });
}

gd::machine orders(std::int32_t version) {
  using enum order_step;
  using context = gd::context<order>;
  return gd::define<order, order_step>("Order", version)
    .history(gd::history::with_state)
    .step(reserve, {.blocking = true},
          [](context& ctx) -> gd::outcome {
            if (ctx.state.item == "bomb" && is_there("bug"))
              std::abort();
            if (ctx.state.item == "slow")
              ask_the_warehouse(ctx.stop_token());
            if (ctx.state.item == "rare" && ctx.attempt == 0)
              return gd::replay(ctx.state, 6h); // sold out until tomorrow
            return gd::next(charge, ctx.state);
          })
    .step(charge,
          [](context& ctx) -> gd::outcome {
            if (is_there("relay_down"))
              throw std::runtime_error{"payment: connection refused"};
            if (ctx.state.item == "parcel")
              return gd::next(deliver, ctx.state);
            return gd::done(ctx.state);
          })
    .step(deliver,
          [](context& ctx) -> gd::outcome {
            if (!ctx.discard("delivered"))
              return gd::await("delivered", ctx.state).timeout(14 * 24h);
            return gd::done(ctx.state);
          })
    .on_error([](const gd::failure& why, context& ctx) -> gd::outcome {
      if (ctx.failures() < 2)
        return gd::replay(ctx.state, 10ms);
      return gd::stop(why.message());
    });
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(
      stderr, "usage: gd_mess NODE VERSION[,VERSION] LEASE_SECONDS QUEUE...\n");
    return 2;
  }
  gd::config options;
  if (const char* database = std::getenv("GD_DATABASE"))
    options.database = database;
  options.node = argv[1];
  std::istringstream versions{argv[2]};
  for (std::string version; std::getline(versions, version, ',');)
    options.machines.push_back(orders(std::atoi(version.c_str())));
  options.lease = std::chrono::seconds{std::atoi(argv[3])};
  options.heartbeat = options.lease / 8;
  options.reaper = 200ms;
  options.poll = 100ms;
  options.max_crashes = 1;
  options.queues.clear();
  for (int i = 4; i < argc; ++i)
    options.queues.push_back({argv[i], 8});
  options.on_event = gd::log_to_stderr();
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys, std::move(options));
  return engine && engine->run_until_signal() ? EXIT_SUCCESS : EXIT_FAILURE;
}
