#pragma once

#include <gd/machine.hpp>

#include <chrono>
#include <cstdint>

// clang-format off
// [shown]
GD_ENUM(checkout_step, start, await_pay, ship); // stored by name

struct checkout_state {
  std::int64_t order = 0;
  int n = 0;
  GD_STATE(checkout_state, order, n); // once: jsonb, CAF messages, ==
};

struct payment {
  std::int64_t amount = 0;
  GD_STATE(payment, amount);
};

struct receipt {
  bool shipped = false;
  GD_STATE(receipt, shipped);
};

inline gd::machine checkout(std::chrono::milliseconds pay_within
                            = std::chrono::hours{24}) {
  using enum checkout_step;
  using context = gd::context<checkout_state>;
  return gd::define<checkout_state, checkout_step>("Checkout", /*version*/ 1)
    .queue("checkout")
    .initial(start)
    .step(start,
          [](context& ctx) {
            ctx.state.n += 1;
            return gd::next(await_pay, ctx.state);
          })
    .step(await_pay,
          [pay_within](context& ctx) -> gd::outcome {
            if (auto paid = ctx.take<payment>("payment_confirmed"))
              return gd::next(ship, ctx.state);
            if (ctx.timed_out())
              return gd::stop("not paid in time");
            return gd::await("payment_confirmed", ctx.state).timeout(pay_within);
          })
    .step(ship, [](context&) { return gd::done(receipt{.shipped = true}); })
    .retry({.attempts = 6}); // with a delay that grows; then it has failed
}
// [/shown]
// clang-format on
