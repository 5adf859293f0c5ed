#define CAF_SUITE promises

// What the article "Use your database to power state machines" promises of transition
// tables, one by one, of the example that stands beside it in the guide.

#include "../../examples/payments/payments.hpp"

#include <gd/client.hpp>
#include <gd/graph.hpp>
#include <gd/retry.hpp>
#include <gd/transaction.hpp>

#include <support/database.hpp>
#include <support/process.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace promises_suite {

using namespace std::literals;

using gd::errc;
using gd::test::code_of;
using gd::test::session;
using gd::test::sql_error;
using gd::test::temporary_database;

namespace {

struct fixture {
  temporary_database db;
  std::optional<gd::client> client;

  fixture() {
    db.migrate();
    auto connected = gd::client::connect(db.options());
    CAF_REQUIRE(connected);
    client.emplace(std::move(*connected));
    CAF_REQUIRE(client->make_known({payments()}));
  }

  std::int64_t pending() {
    auto x = client->insert(
      {.fsm = "Payment", .state = gd::to_json(payment_state{42})});
    CAF_REQUIRE(x);
    return x->id;
  }

  std::string step_of(std::int64_t id) {
    auto x = client->look_up(id);
    CAF_REQUIRE(x);
    return x->step;
  }

  std::string ledger_of(std::int64_t id) {
    return db.scalar("select string_agg(seq || ' ' || to_step, ', ' order by "
                     "seq) from gen_durable_ledger where instance_id = $1",
                     {std::to_string(id)});
  }
};

gd::transition submits(std::int64_t id) {
  return {.target = id, .to = "submitted", .from = "pending_submission"};
}

gd::transition cancels(std::int64_t id) {
  return {.target = id, .to = "cancelled", .from = "pending_submission"};
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(promises_tests, fixture)

CAF_TEST(every transition that a payment has made is captured for later analysis) {
  auto id = pending();
  CAF_CHECK(client->transition(submits(id)));
  CAF_CHECK(client->transition({.target = id, .to = "paid"}));
  CAF_CHECK_EQUAL(ledger_of(id), "0 pending_submission, 1 submitted, 2 paid");
}

CAF_TEST(only a single transition of a payment is its most recent one) {
  std::vector<std::int64_t> ids{pending(), pending(), pending()};
  CAF_CHECK(client->transition(submits(ids[1])));
  CAF_CHECK(client->transition(submits(ids[2])));
  CAF_CHECK(client->transition({.target = ids[2], .to = "paid"}));
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(to_step, ' ' order by instance_id) from "
              "gen_durable_transitions where most_recent"),
    "pending_submission submitted paid");
}

CAF_TEST(transitions of a payment are strictly ordered and no sort key is there
           twice) {
  auto id = pending();
  CAF_CHECK(client->transition(submits(id)));
  CAF_CHECK_EQUAL(db.scalar("select string_agg(sort_key::text, ' ' order by "
                            "sort_key) from gen_durable_transitions"),
                  "0 1");
  try {
    db.rows("insert into gen_durable_ledger select * from gen_durable_ledger "
            "where seq = 1");
    CAF_ERROR("an entry is there twice");
  } catch (const sql_error& e) {
    CAF_CHECK_EQUAL(e.sqlstate(), "23505");
  }
}

CAF_TEST(a transition is only made if it is permitted in the configuration) {
  auto id = pending();
  auto paid = client->transition({.target = id, .to = "paid"});
  CAF_CHECK_EQUAL(code_of(paid), errc::not_allowed);
  CAF_CHECK_EQUAL(step_of(id), "pending_submission");
  CAF_CHECK_EQUAL(ledger_of(id), "0 pending_submission");
  try {
    db.rows("select gd_transition($1, 'paid')", {std::to_string(id)});
    CAF_ERROR("SQL may do what is not permitted");
  } catch (const sql_error& e) {
    CAF_CHECK_EQUAL(e.sqlstate(), "MV004");
  }
}

CAF_TEST(a competing transaction halts until the first has ended and proceeds
           as if it had never occurred if that rolls back) {
  auto id = pending();
  session first{db.conninfo()};
  session second{db.conninfo()};
  first.exec("begin");
  first.exec("select gd_transition($1, 'submitted')", {std::to_string(id)});
  second.start("select gd_transition($1, 'cancelled')", {std::to_string(id)});
  second.wait_until_blocked_by(first);
  first.exec("rollback");
  CAF_CHECK_EQUAL(second.finish().front().front().value_or(""), "1");
  CAF_CHECK_EQUAL(ledger_of(id), "0 pending_submission, 1 cancelled");
}

CAF_TEST(a competing transaction is told of the conflict if the first commits) {
  auto id = pending();
  session first{db.conninfo()};
  session second{db.conninfo()};
  first.exec("begin");
  first.exec("select gd_transition($1, 'submitted')", {std::to_string(id)});
  gd::transaction durable{second.handle()};
  second.exec("begin");
  auto cancelled = std::async(std::launch::async,
                              [&] { return durable.transition(cancels(id)); });
  first.wait_until_someone_is_blocked();
  first.exec("commit");
  auto answer = cancelled.get();
  CAF_CHECK_EQUAL(code_of(answer), errc::transition_conflict);
  CAF_CHECK(answer.error().message.find("at submitted, seq 1")
            != std::string::npos);
  second.exec("rollback");
  CAF_CHECK_EQUAL(ledger_of(id), "0 pending_submission, 1 submitted");
}

CAF_TEST(processes that race are safe if each wraps its code in a retry) {
  auto id = pending();
  int looks = 0;
  session mine{db.conninfo()};
  auto answer = gd::retry_conflicts(
    5, mine.handle(),
    [&](gd::transaction& durable) -> gd::result<gd::transitioned> {
      auto seen = mine.scalar("select seq from gen_durable where id = $1",
                              {std::to_string(id)});
      // Another is faster, once.
      if (++looks == 1)
        CAF_CHECK(client->transition(submits(id)));
      return durable.transition({.target = id,
                                 .to = looks == 1 ? "cancelled" : "paid",
                                 .seq = std::stoll(seen)});
    });
  CAF_REQUIRE(answer);
  CAF_CHECK_EQUAL(looks, 2);
  CAF_CHECK_EQUAL(ledger_of(id), "0 pending_submission, 1 submitted, 2 paid");
}

CAF_TEST(all payments in a state are found by an index) {
  for (int i = 0; i < 3; ++i)
    CAF_CHECK(client->transition(submits(pending())));
  auto other = pending();
  auto found = client->in_step({.fsm = "Payment", .step = "submitted"});
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->size(), 3u);
  found = client->in_step({.fsm = "Payment", .step = "pending_submission"});
  CAF_REQUIRE(found && found->size() == 1);
  CAF_CHECK_EQUAL(found->front().id, other);
}

CAF_TEST(a submission id is kept with the transition that it belongs to) {
  auto id = pending();
  auto what = submits(id);
  what.metadata = gd::to_json(submission{"SUB-1"});
  CAF_CHECK(client->transition(std::move(what)));
  CAF_CHECK(client->transition({.target = id, .to = "paid"}));
  auto found = client->history({.id = id});
  CAF_REQUIRE(found && found->size() == 3);
  CAF_CHECK(!(*found)[0].metadata && !(*found)[2].metadata);
  CAF_REQUIRE((*found)[1].metadata);
  auto kept = gd::from_json<submission>(*(*found)[1].metadata);
  CAF_REQUIRE(kept);
  CAF_CHECK_EQUAL(kept->submission_id, "SUB-1");
}

CAF_TEST(diagrams are drawn of what the database knows) {
  auto graph = client->graph("Payment");
  CAF_REQUIRE(graph);
  auto text = to_mermaid(*graph);
  for (const auto* name :
       {"pending_submission", "submitted", "paid", "cancelled", "failed"})
    CAF_CHECK(text.find(name) != std::string::npos);
}

#ifdef GD_PAYMENTS

CAF_TEST(of two workers that compete for a payment one wins and the other is told) {
  gd::test::process example{{GD_PAYMENTS, db.conninfo()}};
  CAF_CHECK_EQUAL(example.end(0), 0);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "1");
  auto step = db.scalar("select step from gen_durable");
  auto ledger = ledger_of(1);
  if (step == "paid") {
    CAF_CHECK_EQUAL(ledger, "0 pending_submission, 1 submitted, 2 paid");
    CAF_CHECK_EQUAL(db.scalar("select p.submission_id || l.metadata from "
                              "payments p join gen_durable_ledger l on "
                              "l.instance_id = p.id and l.seq = 1"),
                    R"(SUB-1{"submission_id": "SUB-1"})");
  } else {
    CAF_CHECK_EQUAL(ledger, "0 pending_submission, 1 cancelled");
    CAF_CHECK_EQUAL(db.scalar("select submission_id from payments"), "");
  }
  std::string said;
  for (const auto& line : example.lines())
    said += line + '\n';
  CAF_CHECK(said.find("left alone: it is "
                      + (step == "paid" ? "submitted"s : "cancelled"s))
            != std::string::npos);
}

#endif

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace promises_suite
