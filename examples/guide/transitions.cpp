/// Transitions from outside, of docs/guide/inserting-and-keys.md.

#include <gd/machine.hpp>
#include <gd/retry.hpp>
#include <gd/transaction.hpp>

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <string>

// clang-format off
namespace guide {

using namespace std::chrono_literals;

struct invoice_state {
  std::int64_t number = 0;
  GD_STATE(invoice_state, number);
};

GD_ENUM(invoice_step, dunning, submitted, paid, cancelled);

// [outside]
gd::machine invoice() {
  using enum invoice_step;
  using context = gd::context<invoice_state>;
  return gd::define<invoice_state, invoice_step>("Invoice", 1)
    .history(gd::history::steps)
    .rest(submitted, {paid, cancelled}, {.after = 30 * 24h, .then = dunning})
    .step(dunning, [](context& ctx) { return gd::next(submitted, ctx.state); })
    .outside(dunning, {cancelled})
    .final(paid)
    .final(cancelled);
}
// [/outside]

// [transition]
/// The payment and the move are there after the commit, or neither is.
gd::result<gd::transitioned> pay(PGconn* db, std::int64_t invoice, const std::string& payment) {
  return gd::retry_conflicts(3, db, [&](gd::transaction& durable) -> gd::result<gd::transitioned> {
    const char* values[] = {payment.c_str()};
    auto* done = PQexecParams(db, "insert into payments (id) values ($1)", 1, nullptr, values,
                              nullptr, nullptr, 0);
    bool stored = PQresultStatus(done) == PGRES_COMMAND_OK;
    PQclear(done);
    if (!stored)
      return gd::error{gd::errc::rejected, "the payment is known already", {}};
    return durable.transition({.target = invoice, .to = "paid", .from = "submitted",
                               .reason = "payment " + payment, .by = "bank"});
  });
}
// [/transition]

} // namespace guide
