/// A worker process for tests that kill it. Prints "begin ID STEP ATTEMPT" for
/// each step that begins, and runs until SIGTERM.

#include <gd/actors/engine.hpp>
#include <gd/machine.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <variant>

GD_ENUM(hang_step, hang);
GD_ENUM(walk_step, one, two, three);

struct nothing {
  GD_STATE(nothing);
};

struct attempts {
  int attempt = 0;
  GD_STATE(attempts, attempt);
};

namespace {

/// Its first attempt never ends.
gd::machine hang() {
  return gd::define<nothing, hang_step>("Hang", 1)
    .step(
      hang_step::hang,
      [](gd::context<nothing>& ctx) {
    while (ctx.attempt == 0)
      pause();
    return gd::done(attempts{ctx.attempt});
      })
    .on_error([](const gd::failure&, gd::context<nothing>&) {
      return gd::stop("the handler was called");
    });
}

gd::machine walk() {
  using enum walk_step;
  return gd::define<nothing, walk_step>("Walk", 1)
    .step(one,
          [](gd::context<nothing>& ctx) { return gd::next(two, ctx.state); })
    .step(two,
          [](gd::context<nothing>& ctx) { return gd::next(three, ctx.state); })
    .step(three, [](gd::context<nothing>&) { return gd::done(); });
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gd_test_worker DATABASE NODE\n");
    return 2;
  }
  gd::config options;
  options.database = argv[1];
  options.node = argv[2];
  options.machines = {hang(), walk()};
  options.poll = std::chrono::milliseconds{50};
  options.heartbeat = std::chrono::milliseconds{100};
  options.reaper = std::chrono::milliseconds{50};
  options.on_event = [log = gd::log_to_stderr()](const gd::event& what) {
    if (auto* x = std::get_if<gd::events::step_started>(&what)) {
      std::printf("begin %lld %s %d\n", static_cast<long long>(x->id),
                  x->step.c_str(), x->attempt);
      std::fflush(stdout);
    }
    log(what);
  };
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  cfg.set("scheduler.max-threads", 8u);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys, std::move(options));
  if (!engine || !engine->run_until_signal())
    return EXIT_FAILURE;
  return EXIT_SUCCESS;
}
