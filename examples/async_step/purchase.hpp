#pragma once

/// A machine that asks another actor, and the actor that it asks.

#include <gd/actors/async.hpp>
#include <gd/machine.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <string>

// clang-format off
using namespace std::chrono_literals;

// -- the bank -----------------------------------------------------------------

struct charge {
  std::string key{}; ///< the same in every execution: charged once
  std::int64_t amount = 0;
  GD_STATE(charge, key, amount);
};

struct charged {
  std::int64_t number = 0;
  GD_STATE(charged, number);
};

CAF_BEGIN_TYPE_ID_BLOCK(purchase, caf::first_custom_type_id) // CAF 1.x wants to know them
CAF_ADD_TYPE_ID(purchase, (charge))
CAF_ADD_TYPE_ID(purchase, (charged))
CAF_END_TYPE_ID_BLOCK(purchase)

/// Stands for another part of the program.
inline caf::behavior bank(caf::event_based_actor*) {
  return {
    [](const charge& x) -> caf::result<charged> {
      if (x.amount > 1'000)
        return caf::make_error(caf::sec::runtime_error, "not covered");
      return charged{x.amount * 10};
    },
  };
}

// -- the machine --------------------------------------------------------------

GD_ENUM(purchase_step, pay, print, ship);

struct purchase_state {
  std::int64_t amount = 0;
  std::int64_t receipt_number = 0;
  std::string document{};
  GD_STATE(purchase_state, amount, receipt_number, document);
};

// [async]
inline void pay(gd::actors::async_context<purchase_state> ctx, const caf::actor& bank) {
  charge what{std::to_string(ctx->id) + "/pay", ctx->state.amount};
  ctx.self->request(bank, 10s, what).then([ctx](const charged& x) {
    ctx->state.receipt_number = x.number;
    ctx.finish(gd::next(purchase_step::print, ctx->state));
  });
}
// [/async]

// [blocking]
inline gd::outcome print(gd::context<purchase_state>& ctx) {
  auto stop = ctx.stop_token();
  for (int page = 1; page <= 3 && !stop.stop_requested(); ++page)
    ctx.state.document += "page " + std::to_string(page) + "; "; // takes its time
  return gd::next(purchase_step::ship, ctx.state);
}
// [/blocking]

// [kinds]
inline gd::machine purchase(const caf::actor& bank) {
  using enum purchase_step;
  using context = gd::context<purchase_state>;
  return gd::define<purchase_state, purchase_step>("Purchase", 1)
    .step(pay, {.limit = 30s}, gd::actors::async([bank](auto ctx) { ::pay(ctx, bank); }))
    .step(print, {.blocking = true, .limit = 10min}, ::print)
    .step(ship, [](context& ctx) { return gd::done(ctx.state); })
    .retry({.attempts = 4, .backoff = {10ms}});
}
// [/kinds]
// clang-format on
