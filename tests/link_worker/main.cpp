/// A worker without a database, in a process of its own, for tests that kill, stop and
/// cut it. Prints "joined NODE STANDS", "lost WHY", "begin ID STEP ATTEMPT" and "stale ID",
/// "holds N" when it gets SIGUSR1, and leaves when it gets SIGTERM.

#include "../support/secret.hpp"
#include "machines.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

namespace {

struct config : caf::actor_system_config {
  config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
    set("scheduler.max-threads", 8u);
  }
};

void print(const gd::event& what) {
  if (auto* x = std::get_if<gd::events::engine_joined>(&what))
    std::printf("joined %s %zu\n", x->node.c_str(), x->resumed);
  else if (auto* y = std::get_if<gd::events::engine_lost>(&what))
    std::printf("lost %s\n", y->why.c_str());
  else if (auto* z = std::get_if<gd::events::step_started>(&what))
    std::printf("begin %lld %s %d\n", static_cast<long long>(z->id),
                z->step.c_str(), z->attempt);
  else if (auto* s = std::get_if<gd::events::outcome_stale>(&what))
    std::printf("stale %lld\n", static_cast<long long>(s->id));
  else if (auto* e = std::get_if<gd::events::lease_lost>(&what))
    std::printf("ends %lld\n", static_cast<long long>(e->id));
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(
      stderr, "usage: gd_link_worker RELEASE_FILE VERSION SLOTS ADDRESS...\n");
    return 2;
  }
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGTERM);
  sigaddset(&asked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &asked, nullptr); // all threads that follow, too
  config cfg;
  caf::actor_system sys{cfg};
  std::vector<std::string> addresses{argv + 4, argv + argc};
  gd::actors::join_options how;
  how.node = "worker";
  how.secret = gd::test::port_secret();
  how.first_pause = std::chrono::milliseconds{20};
  how.longest_pause = std::chrono::milliseconds{200};
  how.patience = std::chrono::milliseconds{2'000};
  how.stop_grace = std::chrono::milliseconds{3'000};
  how.on_event = print;
  auto slots = std::atoi(argv[3]);
  auto worker = gd::actors::join(
    sys, addresses, {gd::test::link_machine(argv[1], std::atoi(argv[2]))},
    {{.name = "default", .slots = slots, .prefetch = slots}}, how);
  if (!worker) {
    std::fprintf(stderr, "%s\n", to_string(worker.error()).c_str());
    return EXIT_FAILURE;
  }
  int signal = 0;
  while (sigwait(&asked, &signal) == 0 && signal == SIGUSR1) {
    std::printf("holds %zu\n", worker->status().holds);
    std::fflush(stdout);
  }
  worker->leave();
  return EXIT_SUCCESS;
}
