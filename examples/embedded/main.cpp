/// An engine inside a program's own actor system, next to its own actors.

#include "../checkout/checkout.hpp"

#include <gd/actors/engine.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

using namespace std::chrono_literals;

// clang-format off
// [shown]
struct config : caf::actor_system_config {
  std::string database;

  config() {
    gd::actors::add_to(*this); // our messages, errors; scheduler: sharing
    opt_group{custom_options_, "global"}
      .add(database, "database", "libpq connection string");
  }
};

/// An actor of the program: orders something, and pays for it.
void shopper(caf::event_based_actor* self, const gd::actors::gateway& gateway) {
  auto failed = [self](const caf::error& why) {
    std::cerr << to_string(gd::actors::from_caf(self->system(), why)) << '\n';
  };
  gd::insert order{.fsm = "Checkout",
                   .state = gd::to_json(checkout_state{.order = 42})};
  self->request(gateway, 10s, order).then([=](const gd::inserted& row) {
    // Committed: it goes its way from now on, whatever becomes of us.
    gd::signal paid{row.id, "payment_confirmed", gd::to_json(payment{100}), "evt-7"};
    self->request(gateway, 10s, paid).then([=](const gd::signalled&) {
      std::cout << "order 42 is instance " << row.id << ", and paid" << std::endl;
    }, failed);
  }, failed);
}

/// Until SIGINT or SIGTERM. An error: the engine has given up.
gd::result<void> run(caf::actor_system& sys, const config& cfg) {
  auto engine = gd::actors::start(sys, {.database = cfg.database,
                                        .machines = {checkout()},
                                        .queues = {{"default", 10}, {"checkout", 5}}});
  if (!engine)
    return engine.error();
  sys.spawn(shopper, engine->gateway());
  return engine->run_until_signal();
}
// [/shown]

} // namespace

int main(int argc, char** argv) {
  config cfg;
  if (auto why = cfg.parse(argc, argv)) {
    std::cerr << to_string(why) << '\n';
    return EXIT_FAILURE;
  }
  if (cfg.cli_helptext_printed)
    return EXIT_SUCCESS;
  caf::actor_system sys{cfg};
  auto ended = run(sys, cfg);
  if (!ended)
    std::cerr << to_string(ended.error()) << '\n';
  return ended ? EXIT_SUCCESS : EXIT_FAILURE;
}
// clang-format on
