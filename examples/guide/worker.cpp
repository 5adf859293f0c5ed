/// The worker without a database of docs/distributed/workers.md.

#include <gd/actors/engine.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <utility>

// clang-format off
namespace guide {

gd::machine billing();
void wait_for_sigterm();

// [worker]
struct worker_config : caf::actor_system_config {
  worker_config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
  }
};

int run_worker() {
  worker_config cfg;
  caf::actor_system sys{cfg};
  // Where engines are published: they are tried in turn, and need not be there yet.
  auto worker = gd::actors::join(sys, {"unix:/run/shop/a", "unix:/run/shop/b"}, {billing()},
                                 {{.name = "billing", .slots = 8, .prefetch = 16}});
  if (!worker)
    return 1; // a wrong address, machine or queue
  wait_for_sigterm();
  worker->leave(); // what runs ends, what has not begun goes back
  return 0;
}
// [/worker]

/// With what the command line and the file say: --gd.worker.stop-grace=5s
gd::result<gd::actors::worker> join_as_told(caf::actor_system& sys) {
  auto settings = gd::actors::configured_worker(sys.config(), {.machines = {billing()}});
  if (!settings)
    return settings.error();
  return gd::actors::join(sys, std::move(*settings));
}

} // namespace guide
// clang-format on
