/// The machines of docs/guide.

#include <gd/machine.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// clang-format off
namespace guide {

using namespace std::chrono_literals;

// [state]
GD_ENUM(currency, eur, usd);

struct line_item {
  std::string sku;
  std::int32_t quantity = 1;
  GD_STATE(line_item, sku, quantity);
};

struct order_state {
  std::string customer;
  std::vector<line_item> items;
  currency pays_in = currency::eur;
  std::optional<std::string> voucher;
  std::chrono::sys_time<std::chrono::microseconds> ordered_at{};
  std::map<std::string, std::string> tags;
  GD_STATE(order_state, customer, items, pays_in, voucher, ordered_at, tags);
};
// [/state]

// -- signals ------------------------------------------------------------------

GD_ENUM(parcel_step, collect);

// [take]
struct delivery {
  std::int32_t parcels = 0;
  GD_STATE(delivery, parcels);
};

struct parcel_state {
  std::int32_t expected = 3;
  std::int32_t delivered = 0;
  GD_STATE(parcel_state, expected, delivered);
};

gd::outcome collect(gd::context<parcel_state>& ctx) {
  while (auto some = ctx.take<delivery>("delivered"))
    ctx.state.delivered += some->parcels;
  if (ctx.state.delivered < ctx.state.expected)
    return gd::await("delivered", ctx.state);
  return gd::done(ctx.state);
}
// [/take]

GD_ENUM(review_step, decide);

struct review_state {
  GD_STATE(review_state);
};

// [peek]
gd::outcome decide(gd::context<review_state>& ctx) {
  if (ctx.discard("withdrawn"))
    return gd::stop("withdrawn");
  if (ctx.peek_all("approved").size() < 2) // they stay in the inbox
    return gd::await("approved", ctx.state).timeout(24h);
  return gd::done();
}
// [/peek]

GD_ENUM(booking_step, pay, remind);

struct booking_state {
  std::chrono::sys_time<std::chrono::microseconds> departs{};
  GD_STATE(booking_state, departs);
};

// [any]
gd::machine booking() {
  using enum booking_step;
  using context = gd::context<booking_state>;
  return gd::define<booking_state, booking_step>("Booking", 1)
    .step(pay, [](context& ctx) -> gd::outcome {
      if (ctx.discard("cancelled"))
        return gd::stop("cancelled");
      if (ctx.take_raw("paid"))
        return gd::next(remind, ctx.state).after(24h); // other rows pass meanwhile
      if (ctx.timed_out())
        return gd::stop("not paid in time");
      return gd::await({"paid", "cancelled"}, ctx.state).timeout(1h);
    })
    .step(remind, [](context& ctx) -> gd::outcome {
      if (ctx.now() < ctx.state.departs) // by the database's clock
        return gd::replay(ctx.state, 24h);
      return gd::done();
    })
    .on_error([](const gd::failure& why, context& ctx) -> gd::outcome {
      if (ctx.at(remind)) // the same handler for all steps
        return gd::done();
      return gd::stop(why.message());
    })
    .forget_dedup_after(30 * 24h);
}
// [/any]

GD_ENUM(billing_step, collect_payment, ship);

struct billing_state {
  std::int64_t paid = 0;
  GD_STATE(billing_state, paid);
};

struct payment {
  std::int64_t amount = 0;
  GD_STATE(payment, amount);
};

// [undecodable]
gd::outcome collect_payment(gd::context<billing_state>& ctx) {
  try {
    if (auto some = ctx.take<payment>("payment_confirmed")) {
      ctx.state.paid = some->amount;
      return gd::next(billing_step::ship, ctx.state);
    }
  } catch (const gd::undecodable_signal&) {
    // Taken all the same: the outcome below removes it.
  }
  return gd::await("payment_confirmed", ctx.state);
}
// [/undecodable]

// -- errors and effects -------------------------------------------------------

struct declined : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Stands for another system.
void charge(const std::string& idempotency_key, std::int64_t amount);

// [effect]
gd::outcome ship(gd::context<billing_state>& ctx) {
  // The same key in every execution of this step: charged once.
  charge(std::to_string(ctx.id) + "/" + ctx.step, ctx.state.paid);
  return gd::done();
}
// [/effect]

// [handler]
gd::outcome on_error(const gd::failure& why, gd::context<billing_state>&) {
  try {
    if (why.thrown())
      std::rethrow_exception(why.thrown());
  } catch (const declined&) {
    return gd::stop("the bank has declined: " + why.message());
  } catch (...) {
    // Whatever else it was has been tried for long enough.
  }
  return gd::stop("not paid: " + why.message());
}
// [/handler]

// [machine]
gd::machine billing() {
  using enum billing_step;
  return gd::define<billing_state, billing_step>("Billing", /*version*/ 1)
    .queue("billing")           // default: "default"
    .initial(collect_payment)   // default: the first one
    .step(collect_payment, guide::collect_payment)
    .step(ship, guide::ship)
    .retry({.attempts = 8, .backoff = {500ms, 1min}, .not_for = gd::exceptions<declined>()}) // default: never
    .on_error(guide::on_error); // default: stop(reason)
}
// [/machine]

// -- outcomes by their types --------------------------------------------------

GD_ENUM(trial_step, begin, try_out, bill, close);

struct trial_state {
  std::string customer;
  GD_STATE(trial_state, customer);
};

// [types]
gd::machine trial() {
  using enum trial_step;
  using context = gd::context<trial_state>;
  return gd::define<trial_state, trial_step>("Trial", 1)
    .step(begin, [](context& ctx) { return gd::next(try_out, ctx.state); })
    .step(try_out, [](context& ctx) -> gd::to<bill, close> {
      if (ctx.discard("cancelled"))
        return gd::next<close>(ctx.state);
      if (ctx.timed_out())
        return gd::next<bill>(ctx.state);
      return gd::await("cancelled", ctx.state).timeout(14 * 24h);
    })
    .step(bill, [](context&) { return gd::done(); })
    .step(close, [](context&) { return gd::done(); })
    .retry({.attempts = 9});
}
// [/types]

// -- declared transitions -----------------------------------------------------

GD_ENUM(refund_step, review, pay_back, refused, closed);

struct refund_state {
  std::int64_t amount = 0;
  GD_STATE(refund_state, amount);
};

gd::outcome pay_back(gd::context<refund_state>& ctx) {
  charge(std::to_string(ctx.id) + "/" + ctx.step, -ctx.state.amount);
  return gd::next(refund_step::closed, ctx.state);
}

// [declared]
gd::machine refund() {
  using enum refund_step;
  using context = gd::context<refund_state>;
  return gd::define<refund_state, refund_step>("Refund", 1)
    .step(review, [](context& ctx) -> gd::to<pay_back, refused> {
      if (ctx.discard("approved"))
        return gd::next<pay_back>(ctx.state);
      if (ctx.timed_out())
        return gd::next<refused>(ctx.state);
      return gd::await("approved", ctx.state).timeout(24h);
    })
    .step(pay_back, {.blocking = true, .to = {closed}}, guide::pay_back)
    .step(refused, [](context&) { return gd::stop("refused"); })
    .step(closed, [](context&) { return gd::done(); })
    .retry({.attempts = 9})
    .on_error({.to = {refused}}, [](const gd::failure&, context& ctx) {
      return gd::next(refused, ctx.state);
    })
    .declared_only();
}
// [/declared]

// -- resting steps ------------------------------------------------------------

GD_ENUM(order_step, check, submitted, reminded, paid, cancelled);

struct order_form {
  std::int64_t total = 0;
  GD_STATE(order_form, total);
};

// [resting]
gd::machine order() {
  using enum order_step;
  using context = gd::context<order_form>;
  return gd::define<order_form, order_step>("Order", 1)
    .step(check, [](context& ctx) -> gd::to<submitted, cancelled> {
      if (ctx.state.total == 0)
        return gd::next<cancelled>(ctx.state);
      return gd::next<submitted>(ctx.state);
    })
    .rest(submitted, {paid, cancelled}, {.after = 30 * 24h, .then = reminded})
    .rest(reminded, {paid, cancelled})
    .final(paid)
    .final(cancelled);
}
// [/resting]

// -- history ------------------------------------------------------------------

GD_ENUM(dispatch_step, pack, send);

struct dispatch_state {
  std::string customer;
  GD_STATE(dispatch_state, customer);
};

// [history]
struct packed {
  std::string parcel;
  GD_STATE(packed, parcel);
};

gd::machine dispatch() {
  using enum dispatch_step;
  using context = gd::context<dispatch_state>;
  return gd::define<dispatch_state, dispatch_step>("Dispatch", 1)
    .history(gd::history::with_state, {.keep = 90 * 24h})
    .step(pack, [](context& ctx) {
      return gd::next(send, ctx.state).with(packed{"P-17"});
    })
    .step(send, [](context&) { return gd::done(); });
}
// [/history]

GD_ENUM(newsletter_step, deliver);

// [keep]
gd::machine newsletter() {
  using context = gd::context<dispatch_state>;
  return gd::define<dispatch_state, newsletter_step>("Newsletter", 1)
    .keep(7 * 24h)                            // well or not
    .keep(gd::final_status::failed, 90 * 24h) // who wants to know why
    .step(newsletter_step::deliver, [](context&) { return gd::done(); });
}
// [/keep]

gd::machine parcels() {
  return gd::define<parcel_state, parcel_step>("Parcels", 1)
    .step(parcel_step::collect, guide::collect);
}

gd::machine review() {
  return gd::define<review_state, review_step>("Review", 1)
    .step(review_step::decide, guide::decide);
}

} // namespace guide
// clang-format on
