#define CAF_SUITE checkout

#include "../../examples/checkout/checkout.hpp"
#include "actors/harness.hpp"

#include <caf/test/unit_test.hpp>

namespace checkout_suite {

using namespace gd::test;

namespace {

struct checkout_fixture : engine_fixture {
  gd::actors::engine engine = start_checkout();

  gd::actors::engine start_checkout() {
    auto opts = options({checkout()});
    opts.queues = {{"checkout", 5}};
    return start(std::move(opts));
  }

  /// An order that waits for its payment.
  std::int64_t order() {
    auto row = ask<gd::inserted>(
      engine, gd::insert{.fsm = "Checkout",
                         .state = gd::to_json(checkout_state{.order = 42})});
    if (!row)
      throw std::runtime_error(to_string(row.error()));
    wait_until_count("status = 'awaiting_signal' and deadline > now()", 1);
    return row->id;
  }

  bool pay(std::int64_t id, gd::json payload) {
    auto answer = ask<gd::signalled>(
      engine, gd::signal{id, "payment_confirmed", std::move(payload), "evt-7"});
    return answer && !answer->duplicate;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(checkout_tests, checkout_fixture)

CAF_TEST(a paid order is shipped) {
  auto id = order();
  CAF_CHECK(pay(id, gd::to_json(payment{100})));
  wait_until_count("status = 'done' and result = '{\"shipped\": true}'", 1);
  // The payment is delivered again, as webhooks do: once is enough.
  CAF_CHECK(!pay(id, gd::to_json(payment{100})));
}

CAF_TEST(an order that is not paid in time is cancelled) {
  order();
  db.rows("update gen_durable set deadline = now()");
  wait_until_count("status = 'failed' and last_error = 'not paid in time'", 1);
}

CAF_TEST(a payment that cannot be read is given up at once and shipped when it
           is mended) {
  auto id = order();
  CAF_CHECK(pay(id, gd::json::raw("{\"amount\": \"much\"}")));
  wait_until_count(
    "status = 'failed' and attempt = 0 and last_error like 'signal "
    "payment_confirmed (%): $.amount: expected integer%'",
    1);
  // Nothing was consumed by what failed.
  auto signal = db.scalar(
    "select id from gen_durable_signals where consumed_at is null");
  db.scalar("select gd_replace($1, $2, '{\"amount\": 100}', 'a text')",
            {std::to_string(id), signal});
  db.scalar("select gd_retry($1)", {std::to_string(id)});
  wait_until_count("status = 'done' and result = '{\"shipped\": true}'", 1);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace checkout_suite
