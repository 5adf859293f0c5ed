/// Tests of the machine of purchase.hpp: no database, no engine, no threads, and no
/// waiting, however long the bank takes.

#include "purchase.hpp"

#include <gd/actors/testing.hpp>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

int failures = 0;

/// Stands for what the test framework of your choice has.
#define CHECK(what) \
  if (!(what))      \
  std::cerr << __FILE__ << ':' << __LINE__ << ": " << #what << '\n', ++failures

// clang-format off
std::int64_t order(gd::testing::harness& run, std::int64_t amount) {
  return run.insert({.fsm = "Purchase",
                     .state = gd::to_json(purchase_state{.amount = amount})})->id;
}

// [paid]
void a_purchase_is_paid_printed_and_shipped() {
  gd::actors::testing::simulation sim;
  CHECK(sim.add(purchase(sim.system().spawn(bank))));
  auto id = order(sim, 42);
  CHECK(sim.drain());
  CHECK(sim.result<purchase_state>(id)->receipt_number == 420);
}
// [/paid]

void what_the_bank_refuses_is_tried_again_and_fails() {
  gd::actors::testing::simulation sim;
  CHECK(sim.add(purchase(sim.system().spawn(bank))));
  auto id = order(sim, 5'000);
  CHECK(sim.run_for(1min));
  CHECK(sim.instance(id)->status == "failed");
  CHECK(sim.instance(id)->last_error->find("not covered") != std::string::npos);
  CHECK(sim.history(id).size() == 4);
}

// [silent]
void a_bank_that_never_answers_is_given_up() {
  gd::actors::testing::simulation sim;
  auto silent = [](caf::event_based_actor* self) -> caf::behavior {
    using promise = caf::typed_response_promise<charged>;
    return {[self, made = std::vector<promise>{}](const charge&) mutable {
      return made.emplace_back(self->make_response_promise<charged>());
    }};
  };
  CHECK(sim.add(purchase(sim.system().spawn(silent))));
  auto id = order(sim, 42);
  CHECK(sim.step()); // until the request's timeout
  CHECK(sim.now() == gd::testing::simulation_settings{}.start + 10s);
  CHECK(sim.history(id)[0].outcome == "replay" && sim.history(id)[0].handled);
}
// [/silent]

// [gateway]
/// An actor of the program, which is given the engine's gateway.
void buyer(caf::event_based_actor* self, const gd::actors::gateway& gateway) {
  gd::insert what{.fsm = "Purchase", .state = gd::to_json(purchase_state{.amount = 42}),
                  .unique_key = "purchase/7"};
  self->request(gateway, 10s, what).then([](const gd::inserted&) {});
}

void what_an_actor_buys_is_paid() {
  gd::actors::testing::simulation sim;
  CHECK(sim.add(purchase(sim.system().spawn(bank))));
  sim.system().spawn(buyer, sim.gateway());
  CHECK(sim.drain());
  CHECK(sim.look_up({.key = "purchase/7"}).error().code == gd::errc::not_found); // it has left it
  CHECK(sim.result<purchase_state>(1)->receipt_number == 420);
}
// [/gateway]
// clang-format on

} // namespace

int main() {
  // CAF 1.x knows them from here on, for all systems.
  caf::actor_system_config types;
  gd::actors::register_types<caf::id_block::purchase>(types);
  a_purchase_is_paid_printed_and_shipped();
  what_the_bank_refuses_is_tried_again_and_fails();
  a_bank_that_never_answers_is_given_up();
  what_an_actor_buys_is_paid();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
