/// Tests of the checkout machine, as a program's own tests might be: no
/// database, no engine, and no waiting.

#include "checkout.hpp"

#include <gd/testing.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

namespace {

using namespace std::chrono_literals;

int failures = 0;

/// Stands for what the test framework of your choice has.
#define CHECK(what) \
  if (!(what))      \
  std::cerr << __FILE__ << ':' << __LINE__ << ": " << #what << '\n', ++failures

std::int64_t order(gd::testing::simulation& sim) {
  gd::insert x{.fsm = "Checkout",
               .state = gd::to_json(checkout_state{.order = 42})};
  return sim.insert(std::move(x))->id;
}

gd::signal paid(std::int64_t id) {
  return {id, "payment_confirmed", gd::to_json(payment{100}), "evt-7"};
}

// [paid]
void a_paid_order_is_shipped() {
  gd::testing::simulation sim{{checkout()}};
  auto id = order(sim);
  CHECK(sim.drain());
  CHECK(sim.instance(id)->awaits == "payment_confirmed");
  CHECK(sim.signal(paid(id)));
  CHECK(sim.drain());
  CHECK(sim.result<receipt>(id)->shipped);
  // The payment is delivered again, as webhooks do: once is enough.
  CHECK(sim.signal(paid(id))->duplicate);
}
// [/paid]

// [timeout]
void an_order_that_is_not_paid_in_time_is_cancelled() {
  gd::testing::simulation sim{{checkout(24h)}};
  auto id = order(sim);
  CHECK(sim.run_for(24h - 1us));
  CHECK(sim.instance(id)->status == "awaiting_signal");
  CHECK(sim.run_for(1us));
  CHECK(sim.instance(id)->last_error == "not paid in time");
}
// [/timeout]

void a_payment_that_cannot_be_read_is_given_up_at_once() {
  gd::testing::simulation sim{{checkout()}};
  auto id = order(sim);
  auto broken = paid(id);
  broken.payload = gd::json::raw(R"({"amount": "much"})");
  CHECK(sim.signal(std::move(broken)));
  CHECK(sim.drain());
  CHECK(sim.instance(id)->status == "failed");
  CHECK(sim.instance(id)->inbox == 1); // what fails consumes nothing
  CHECK(sim.history(id).size() == 2);  // start, and await_pay: no retry helps
}

// [crash]
void a_crash_in_any_step_changes_nothing() {
  for (int steps_before = 0; steps_before < 3; ++steps_before) {
    gd::testing::simulation sim{{checkout()}};
    auto id = order(sim);
    CHECK(sim.signal(paid(id)));
    for (int i = 0; i < steps_before; ++i)
      CHECK(*sim.step());
    sim.crash_next(id);
    CHECK(sim.drain());
    CHECK(sim.result<receipt>(id)->shipped);
    CHECK(sim.state<checkout_state>(id)->n == 1);
  }
}
// [/crash]

} // namespace

int main() {
  a_paid_order_is_shipped();
  an_order_that_is_not_paid_in_time_is_cancelled();
  a_payment_that_cannot_be_read_is_given_up_at_once();
  a_crash_in_any_step_changes_nothing();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
