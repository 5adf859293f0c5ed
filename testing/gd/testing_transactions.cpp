#include <gd/testing.hpp>

#include <gd/engine/step/run.hpp>
#include <gd/engine/step/step_transaction.hpp>
#include <gd/pq/borrowed.hpp>
#include <gd/store/steps.hpp>

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <utility>

namespace gd::testing {

namespace {

/// For a simulation, whose rows are not there: of the step alone.
std::string refusal(const gd::run& what, const std::string& why) {
  const auto& row = what.held().row();
  return fmt::format("instance {}: step {} of {} v{} is in a transaction: {}",
                     row.id, row.step, row.fsm, row.fsm_version, why);
}

/// The same row, whose step goes by another clock, and may die when it has returned.
std::shared_ptr<held_row> changed(const held_row& of, std::int64_t ahead_us,
                                  bool dies) {
  auto machine = std::make_shared<gd::machine>(of.of());
  for (auto& step : machine->steps)
    if (step.name == of.row().step)
      step.run_in_transaction =
        [body = step.run_in_transaction, under = of.under(), ahead_us,
         dies](context_base& ctx, const std::string& state, pg_conn* db) {
        auto x = body(ctx, state, db);
        if (x.until_us)
          *x.until_us -= ahead_us;
        if (dies)
          under->decide(decider::death);
        return x;
      };
  return std::make_shared<held_row>(std::move(machine), of.row(), of.under(),
                                    of.bounds());
}

} // namespace

gd::result<harness::ended> simulation::run_in_transaction(gd::run& what,
                                                          bool crashes) {
  if (db_ == nullptr)
    return error{errc::invalid_argument,
                 refusal(what, "expected a connection for it "
                               "(simulation_settings::db), or an in_database"),
                 {}};
  pq::borrowed db{db_, "public"};
  if (auto ok = db.begin(); !ok)
    return error{ok.error().code, refusal(what, ok.error().message), {}};
  try {
    auto ctx = what.begin();
    std::string room;
    auto x = what.held().step()->run_in_transaction(
      ctx, what.held().state(room), db_);
    if (crashes) {
      db.roll_back();
      return ended{};
    }
    auto ready = what.check(std::move(x), ctx);
    if (!ready) {
      db.roll_back();
      return ended{what.fail(ready.error())};
    }
    if (auto open = db.check(); !open) {
      db.roll_back();
      return ended{what.fail(
        failure{"the outcome cannot be committed: " + open.error().message})};
    }
    return commit(what, std::move(*ready));
  } catch (...) {
    db.roll_back();
    return ended{what.fail(std::current_exception())};
  }
}

/// The row changes, unless the database does not commit.
gd::result<harness::ended> simulation::commit(gd::run& what,
                                              outcome_row ready) {
  pq::borrowed db{db_, "public"};
  auto& mine = rows_.at(ready->id);
  auto before = mine;
  auto became = apply(*ready);
  if (became.refused) {
    db.roll_back();
    return ended{what.refused(*became.refused)};
  }
  if (auto done = db.commit(); !done) {
    mine = std::move(before);
    return ended{what.refused(done.error())};
  }
  return ended{std::move(ready), true};
}

gd::result<harness::ended> in_database::run_in_transaction(gd::run& what,
                                                           bool crashes) {
  using fate = step_transaction::fate;
  what = gd::run{changed(what.held(), advanced_.count(), crashes)};
  auto x = step_transaction{what, *step_sessions_}.execute();
  switch (x.what) {
    case fate::none:
    case fate::failed:
      return ended{std::move(x.row)};
    case fate::unknown:
      return error{errc::unknown_fate,
                   refusal(what, "nobody knows whether it is committed"),
                   {}};
    default:
      return ended{std::move(x.row), x.what == fate::applied};
  }
}

} // namespace gd::testing
