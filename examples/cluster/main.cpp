/// One node with the database, and workers without one: draws frames in three steps.
///
///     cluster engine DATABASE SOCKET
///     cluster worker NAME ADDRESS...

#include <gd/actors/engine.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

GD_ENUM(frame_step, sketch, draw, colour);

/// What is known of a frame between its steps.
struct frame {
  std::int64_t number = 0;
  std::int64_t pixels = 0;
  /// Who has done which step: the node's name, once each.
  std::vector<std::string> by{};
  GD_STATE(frame, number, pixels, by);
};

namespace {

using namespace std::chrono_literals;
using enum frame_step;

/// The same for everybody; `who` is only written down.
gd::machine drawing(const std::string& who) {
  auto work = [who](gd::context<frame>& ctx, std::int64_t pixels) {
    std::this_thread::sleep_for(
      60ms); // as if it computed, or waited for someone
    ctx.state.pixels += pixels;
    ctx.state.by.push_back(who);
  };
  return gd::define<frame, frame_step>("Frame", 1)
    .step(sketch, {.blocking = true},
          [work](gd::context<frame>& ctx) -> gd::to<draw> {
            work(ctx, ctx.state.number);
            return gd::next<draw>(ctx.state);
          })
    .step(draw, {.blocking = true},
          [work](gd::context<frame>& ctx) -> gd::to<colour> {
            work(ctx, 10 * ctx.state.number);
            return gd::next<colour>(ctx.state);
          })
    .step(colour, {.blocking = true},
          [work](gd::context<frame>& ctx) -> gd::ended {
            work(ctx, 100 * ctx.state.number);
            return gd::done(ctx.state);
          });
}

int fail(const gd::error& why) {
  std::cerr << to_string(why) << '\n';
  return EXIT_FAILURE;
}

/// Has the database, and hands out what its own two slots do not take.
int run_engine(caf::actor_system& sys, const std::string& database,
               const std::string& socket) {
  gd::config options{.database = database,
                     .node = "engine",
                     .machines = {drawing("engine")},
                     .queues = {{.slots = 2}},
                     .lease = 5s,
                     .heartbeat = 1s,
                     .reaper = 1s,
                     .worker_ping = 250ms,
                     .worker_silence = 1s};
  options.on_event = gd::log_to_stderr(gd::severity::info);
  auto engine = gd::actors::start(sys, std::move(options));
  if (!engine)
    return fail(engine.error());
  auto published = gd::actors::publish(*engine, {.socket = socket});
  if (!published)
    return fail(published.error());
  std::cout << "published at " << *published << std::endl;
  auto ended = engine->run_until_signal();
  return ended ? EXIT_SUCCESS : fail(ended.error());
}

/// Has no database: joins one of the engines, whichever is there.
int run_worker(caf::actor_system& sys, const std::string& name,
               std::vector<std::string> addresses) {
  gd::actors::join_options how;
  how.node = name;
  how.on_event = gd::log_to_stderr(gd::severity::info);
  auto worker = gd::actors::join(sys, std::move(addresses), {drawing(name)},
                                 {{.slots = 6, .prefetch = 6}}, std::move(how));
  if (!worker)
    return fail(worker.error());
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  int signal = 0;
  sigwait(&ends, &signal);
  worker->leave(); // what runs ends, what has not begun goes back
  return EXIT_SUCCESS;
}

struct config : caf::actor_system_config {
  config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
  }
};

} // namespace

int main(int argc, char** argv) {
  std::string_view what = argc > 1 ? argv[1] : "";
  std::vector<std::string> more{argv + std::min(argc, 2), argv + argc};
  if (more.size() < 2
      || (what == "engine" ? more.size() > 2 : what != "worker")) {
    std::cerr << "usage: cluster engine DATABASE SOCKET\n"
                 "       cluster worker NAME ADDRESS...\n";
    return 2;
  }
  if (what == "worker") { // `sigwait` takes them, before any other thread
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  }
  config cfg;
  caf::actor_system sys{cfg};
  if (what == "engine")
    return run_engine(sys, more[0], more[1]);
  return run_worker(sys, more[0], {more.begin() + 1, more.end()});
}
