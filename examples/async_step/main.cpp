/// An asynchronous step: a machine that asks an actor of the program.

#include "purchase.hpp"

#include <gd/actors/engine.hpp>

#include <caf/all.hpp>

#include <iostream>
#include <string>

namespace {

struct config : caf::actor_system_config {
  std::string database;

  config() {
    gd::actors::add_to(*this);
    gd::actors::register_types<caf::id_block::purchase>(*this);
    opt_group{custom_options_, "global"}.add(database, "database",
                                             "libpq connection string");
  }
};

/// Buys something, and is told when it is over.
void customer(caf::event_based_actor* self,
              const gd::actors::gateway& gateway) {
  auto failed = [self](const caf::error& why) {
    std::cerr << gd::actors::render(self->system(), why) << '\n';
  };
  gd::insert order{.fsm = "Purchase",
                   .state = gd::to_json(purchase_state{.amount = 42})};
  self->request(gateway, 10s, order)
    .then(
      [self, gateway, failed](const gd::inserted& row) {
    std::cout << "instance " << row.id << std::endl;
    self->request(gateway, caf::infinite, gd::await_result{row.id})
      .then(
        [](const gd::awaited& x) {
      std::cout << x.status << ": "
                << (x.result ? x.result->text() : *x.failure) << std::endl;
        },
        failed);
      },
      failed);
}

void caf_main(caf::actor_system& sys, const config& cfg) {
  auto bank = sys.spawn(::bank);
  auto engine = gd::actors::start(
    sys, {.database = cfg.database, .machines = {purchase(bank)}});
  if (!engine) {
    std::cerr << to_string(engine.error()) << '\n';
    return;
  }
  sys.spawn(customer, engine->gateway());
  if (auto ended = engine->run_until_signal(); !ended) // SIGINT or SIGTERM
    std::cerr << to_string(ended.error()) << '\n';
}

} // namespace

CAF_MAIN()
