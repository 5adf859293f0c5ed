#pragma once

#include <gd/machine.hpp>

#include <cstdint>
#include <string>

/// Orders that fill the program's own outbox: the mail that tells of an order, the entry of
/// its account and the order itself are written in one transaction, by the outcome of a step.

// clang-format off
GD_ENUM(order_step, place, ship);

struct order_state {
  std::string account;
  std::int64_t amount = 0;
  std::string refused{};
  GD_STATE(order_state, account, amount, refused);
};

// [place]
/// Books the amount, if the account has it, and leaves the mail to whoever sends mail.
inline gd::outcome place(gd::context<order_state>& ctx) {
  return gd::next(order_step::ship, ctx.state)
    .sql("update app.accounts set balance = balance - $2 where name = $1 and balance >= $2",
         ctx.state.account, ctx.state.amount)
    .expect_rows(1)
    .sql("insert into app.outbox (order_id, recipient, text) values ($1, $2, $3)",
         ctx.id, ctx.state.account, "your order is placed");
}
// [/place]

// [ship]
/// Makes an instance for the parcel, and tells the warehouse, which is known by its key.
inline gd::outcome ship(gd::context<order_state>& ctx) {
  return gd::done(ctx.state)
    .insert({.fsm = "Parcel", .state = gd::to_json(ctx.state)})
    .signal({.name = "parcel_due", .payload = gd::to_json(ctx.state), .key = "warehouse"});
}
// [/ship]

// [refused]
/// An account that has not enough is no reason to try again.
inline gd::outcome on_refusal(const gd::failure& why, gd::context<order_state>& ctx) {
  if (const auto* refused = why.refused(); refused && refused->kind == gd::effect_kind::sql) {
    ctx.state.refused = refused->message();
    return gd::done(ctx.state);
  }
  return gd::stop(why.message());
}
// [/refused]

inline gd::machine order_machine() {
  return gd::define<order_state, order_step>("Order", /*version*/ 1)
    .step(order_step::place, place)
    .step(order_step::ship, ship)
    .on_error(on_refusal);
}

GD_ENUM(parcel_step, pack);

inline gd::machine parcel_machine() {
  return gd::define<order_state, parcel_step>("Parcel", /*version*/ 1)
    .step(parcel_step::pack, [](gd::context<order_state>&) { return gd::done(); });
}

GD_ENUM(warehouse_step, wait);

inline gd::machine warehouse_machine() {
  return gd::define<order_state, warehouse_step>("Warehouse", /*version*/ 1)
    .step(warehouse_step::wait, [](gd::context<order_state>& ctx) -> gd::outcome {
      while (auto due = ctx.take<order_state>("parcel_due"))
        ctx.state.amount += due->amount;
      return gd::await("parcel_due", ctx.state);
    });
}
// clang-format on
