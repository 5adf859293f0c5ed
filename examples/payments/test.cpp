/// Tests of a machine that rests: transitions, what is refused, and the deadline.

#include "payments.hpp"

#include <gd/testing.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>

namespace {

using namespace std::chrono_literals;

int failures = 0;

/// Stands for what the test framework of your choice has.
#define CHECK(what) \
  if (!(what))      \
  std::cerr << __FILE__ << ':' << __LINE__ << ": " << #what << '\n', ++failures

std::int64_t made(gd::testing::simulation& sim) {
  return sim
    .insert({.fsm = "Payment", .state = gd::to_json(payment_state{4200})})
    ->id;
}

// clang-format off
// [transition]
void a_payment_is_paid_only_once_it_is_submitted() {
  gd::testing::simulation sim{{payments()}};
  auto id = made(sim);
  auto early = sim.transition({.target = id, .to = "paid"});
  CHECK(early.error().code == gd::errc::not_allowed);
  CHECK(sim.transition({.target = id, .to = "submitted", .seq = 0})->status == "awaiting_signal");
  auto beaten = sim.transition({.target = id, .to = "cancelled", .seq = 0});
  CHECK(beaten.error().code == gd::errc::transition_conflict);
  CHECK(sim.transition({.target = id, .to = "paid"})->status == "done");
}

void a_payment_that_nobody_confirms_fails() {
  gd::testing::simulation sim{{payments()}};
  auto id = made(sim);
  CHECK(sim.transition({.target = id, .to = "submitted"}));
  CHECK(sim.run_for(30 * 24h - 1us));
  CHECK(sim.instance(id)->step == "submitted");
  CHECK(sim.advance(1us)); // now it is due
  CHECK(sim.instance(id)->step == "submitted");
  CHECK(sim.drain());
  CHECK(sim.instance(id)->step == "failed");
  CHECK(sim.instance(id)->status == "done"); // a final step ends an instance well
  CHECK(sim.history(id).size() == 1);        // the deadline; the transition executed nothing
}
// [/transition]
// clang-format on

} // namespace

int main() {
  a_payment_is_paid_only_once_it_is_submitted();
  a_payment_that_nobody_confirms_fails();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
