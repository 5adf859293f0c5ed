// A transaction pooler between a program and the server takes the session away
// that everything relies on: it is noticed at the start, and refused.

#define CAF_SUITE pooler

#include "support/database.hpp"
#include "support/pooler.hpp"

#include <gd/client.hpp>
#include <gd/event.hpp>
#include <gd/migrate.hpp>
#include <gd/pq/reactor.hpp>

#include <caf/test/dsl.hpp>

#include <future>
#include <memory>
#include <string>
#include <vector>

namespace pooler_suite {

using gd::errc;
using gd::test::patience;
using gd::test::session;
using gd::test::temporary_database;
using gd::test::transaction_pooler;

namespace {

constexpr auto refusal
  = "a connection pooler stands between this program and the server: expected "
    "a direct connection, whose session is ours alone";

struct fixture {
  temporary_database db;
  transaction_pooler pooler;

  fixture() {
    db.migrate();
  }

  gd::pq::options options() const {
    return {.database = pooler.conninfo(db.name())};
  }

  template <class T>
  static void check_refused(const gd::result<T>& x) {
    CAF_REQUIRE(!x);
    CAF_CHECK(x.error().code == errc::schema_mismatch);
    CAF_CHECK_EQUAL(x.error().message, refusal);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(pooler_tests, fixture)

CAF_TEST(a client refuses a pooler and names it) {
  // More than once: they meet in one session of the server.
  for (int i = 0; i < 3; ++i)
    check_refused(gd::client::connect(options()));
}

CAF_TEST(migrations refuse a pooler and leave the schema alone) {
  for (int i = 0; i < 2; ++i) {
    check_refused(gd::migrate_down(options(), 0));
    check_refused(gd::migrate_up(options()));
    check_refused(gd::migration_status(options()));
  }
  CAF_CHECK_EQUAL(db.scalar("select to_regclass('gen_durable') is not null"),
                  "t");
}

CAF_TEST(a node of many connections refuses a pooler once and tries no more) {
  std::promise<gd::error> told;
  std::atomic<int> times = 0;
  std::atomic<int> retries = 0;
  gd::reactor reactor{options(), 4,
                      [&](const gd::event& what) {
    if (std::holds_alternative<gd::events::disconnected>(what))
      ++retries;
                      },
                      [&](gd::error why) {
    if (++times == 1)
      told.set_value(std::move(why));
  }};
  auto future = told.get_future();
  CAF_REQUIRE(future.wait_for(patience) == std::future_status::ready);
  auto why = future.get();
  CAF_CHECK(why.code == errc::schema_mismatch);
  CAF_CHECK_EQUAL(why.message, refusal);
  std::promise<gd::pq::reply> answer;
  reactor.submit(
    0, {}, [&](gd::pq::reply x) { answer.set_value(std::move(x)); },
    gd::database::clock::duration::max());
  auto reply = answer.get_future().get();
  CAF_REQUIRE(reply.failure);
  CAF_CHECK_EQUAL(reply.failure->message, refusal);
  reactor.stop();
  CAF_CHECK_EQUAL(times.load(), 1);
  CAF_CHECK_EQUAL(retries.load(), 0);
}

CAF_TEST(who is refused leaves nothing behind in the session of others) {
  auto settings = [&] {
    session other{pooler.conninfo(db.name())};
    return other.exec(
      "select pg_backend_pid()::text, current_setting('search_path'), "
      "current_setting('statement_timeout'), current_setting('enable_seqscan'),"
      " (select count(*)::text from pg_prepared_statements)");
  };
  auto before = settings();
  check_refused(gd::client::connect(options()));
  CAF_CHECK(settings() == before);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace pooler_suite
