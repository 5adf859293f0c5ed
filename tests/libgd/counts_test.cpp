// How many there are, without reading the whole table: exact where that is said, near
// where it is an estimate.

#define CAF_SUITE counts

#include <gd/client.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace counts_suite {

using gd::test::temporary_database;

namespace {

struct counted {
  std::int64_t instances = 0;
  bool estimated = false;
};

struct fixture {
  temporary_database db;

  fixture() {
    db.migrate();
  }

  gd::client connect(gd::client_settings how = {}) {
    auto x = gd::client::connect(db.options(), std::move(how));
    if (!x)
      CAF_FAIL(x.error().message);
    return std::move(*x);
  }

  /// By machine, step and status.
  std::map<std::string, counted> counts(const std::string& fsm = {},
                                        std::int32_t version = 0) {
    auto client = connect();
    auto x = client.counts(fsm, version);
    CAF_REQUIRE(x);
    sampled = x->sampled;
    std::map<std::string, counted> out;
    for (const auto& row : x->rows)
      out[row.fsm + ' ' + row.step + ' ' + row.status] = {row.instances,
                                                          row.estimated};
    return out;
  }

  void check_exact(const counted& x, std::int64_t instances) {
    CAF_CHECK_EQUAL(x.instances, instances);
    CAF_CHECK(!x.estimated);
  }

  /// Within more than a sample of 50 pages makes likely, of what has a quarter of them.
  void check_near(const counted& x, std::int64_t instances) {
    CAF_MESSAGE(x.instances << " for " << instances);
    CAF_CHECK(x.estimated);
    CAF_CHECK(x.instances > instances / 5);
    CAF_CHECK(x.instances < instances * 5 / 2);
  }

  void fill(const std::string& fsm, const std::string& status, int rows,
            const std::string& more = "null, null, 0, null") {
    db.rows("insert into gen_durable (fsm, step, status, state, queue, "
            "awaits, locked_by, lease_expires_at, crashes, partition_key)"
            " select $1, case when n % 2 = 0 then 'pay' else 'ship' end, "
            "$2::gen_durable_status, json_build_object('x', repeat('x', 700)), "
            "'mail', case when $2 = 'awaiting_signal' then 'paid' end, "
              + more + " from generate_series(1, $3::int) n",
            {fsm, status, std::to_string(rows)});
  }

  bool sampled = false;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(counts_tests, fixture)

CAF_TEST(of a small table all is counted) {
  CAF_CHECK(counts().empty());
  fill("Order", "done", 40);
  fill("Order", "awaiting_signal", 20);
  fill("Other", "runnable", 10, "null, null, 0, case when n > 5 then 'k' end");
  fill("Other", "runnable", 6, "null, null, 2, case when n > 3 then 'k' end");
  auto x = counts();
  CAF_CHECK(!sampled);
  CAF_CHECK_EQUAL(x.size(), 6u);
  check_exact(x["Order pay done"], 20);
  check_exact(x["Order ship awaiting_signal"], 10);
  check_exact(x["Other ship runnable"], 8);
  CAF_CHECK_EQUAL(counts("Other", 1).size(), 2u);
  CAF_CHECK(counts("Other", 2).empty());
}

CAF_TEST(of a large table an index counts what is few and pages speak for the
         rest) {
  fill("Order", "done", 8'000);
  fill("Order", "awaiting_signal", 8'000);
  fill("Order", "failed", 4);
  fill("Order", "executing", 6, "'node/1/1', now() + interval '1 h', 0, null");
  fill("Many", "runnable", 12'000);
  fill("Few", "runnable", 10, "null, null, 0, case when n > 4 then 'k' end");
  fill("Few", "runnable", 6, "null, null, 2, case when n > 3 then 'k' end");
  db.rows("vacuum analyze gen_durable");
  auto x = counts();
  CAF_CHECK(sampled);
  check_near(x["Order pay done"], 4'000);
  check_near(x["Order pay awaiting_signal"], 4'000);
  check_near(x["Many ship runnable"], 6'000);
  check_exact(x["Order pay failed"], 2);
  check_exact(x["Order ship executing"], 3);
  check_exact(x["Few pay runnable"], 8);
  auto of_one = counts("Few", 1);
  CAF_CHECK_EQUAL(of_one.size(), 2u);
  check_exact(of_one["Few ship runnable"], 8);
  auto client = connect();
  auto queues = client.queues();
  CAF_REQUIRE(queues);
  CAF_REQUIRE_EQUAL(queues->size(), 1u);
  auto mail = queues->front();
  CAF_CHECK_EQUAL(mail.due, 10'000);
  CAF_CHECK(mail.more_due);
  CAF_CHECK_EQUAL(mail.later, 0);
  CAF_CHECK_EQUAL(mail.executing, 6);
  CAF_CHECK(!mail.more_executing);
}

CAF_TEST(queues tell what is later and executes) {
  fill("Order", "runnable", 3);
  fill("Order", "executing", 2, "'node/1/1', now() + interval '1 h', 0, null");
  fill("Order", "awaiting_signal", 5);
  db.rows("update gen_durable set eligible_at = now() + interval '1 h' where "
          "status = 'runnable'");
  auto client = connect();
  auto queues = client.queues();
  CAF_REQUIRE(queues);
  CAF_REQUIRE_EQUAL(queues->size(), 1u);
  auto mail = queues->front();
  CAF_CHECK_EQUAL(mail.due, 0);
  CAF_CHECK_EQUAL(mail.later, 3);
  CAF_CHECK(!mail.more_later);
  CAF_CHECK_EQUAL(mail.executing, 2);
  auto before = client.activity();
  CAF_REQUIRE(before);
  CAF_CHECK(before->at_us > 0);
}

CAF_TEST(who looks again begins where the first of what is due was and misses
           nothing else) {
  auto insert = [this](const std::string& ago, const std::string& priority) {
    db.rows("insert into gen_durable (fsm, step, queue, eligible_at, priority) "
            "values ('Order', 'pay', 'mail', now() - $1::interval, $2::int)",
            {ago, priority});
  };
  // How many are due, and for how many minutes the first of them is.
  auto look = [](gd::client& client) {
    auto queues = client.queues();
    CAF_REQUIRE(queues);
    CAF_REQUIRE_EQUAL(queues->size(), 1u);
    auto x = queues->front();
    CAF_REQUIRE(x.oldest_due_us);
    auto now = client.activity();
    CAF_REQUIRE(now);
    return std::pair{x.due,
                     (now->at_us - *x.oldest_due_us + 1'000'000) / 60'000'000};
  };
  using seen = std::pair<std::int64_t, std::int64_t>;
  auto client = connect();
  insert("10 min", "0");
  CAF_CHECK(look(client) == seen(1, 10));
  insert("9 min", "0");
  CAF_CHECK(look(client) == seen(2, 10));
  CAF_MESSAGE("each machine and priority has a beginning of its own");
  insert("20 min", "1");
  CAF_CHECK(look(client) == seen(3, 20));
  CAF_MESSAGE("what has come back in front of it is counted");
  insert("30 min", "0");
  CAF_CHECK(look(client) == seen(4, 20));
  auto other = connect();
  CAF_CHECK(look(other) == seen(4, 30));
  CAF_MESSAGE("and is the first where nothing else is due");
  db.rows("update gen_durable set eligible_at = now() + interval '1 day' "
          "where eligible_at > now() - interval '25 min'");
  CAF_CHECK(look(client) == seen(1, 30));
  CAF_MESSAGE("whoever asks by turns knows the same");
  insert("40 min", "0");
  gd::client_settings how{.queue_scans = gd::share_queue_scans()};
  auto one = connect(how);
  auto next = connect(how);
  CAF_CHECK(look(one) == seen(2, 40));
  insert("50 min", "0");
  CAF_CHECK(look(next) == seen(3, 40));
  CAF_CHECK(look(one) == seen(3, 40));
}

CAF_TEST(no time and no name keeps anyone from looking at the queues) {
  db.rows("insert into gen_durable (fsm, step, queue, eligible_at) "
          "select f, 'pay', q, t from unnest(array['Order', repeat('m', "
          "100000)]) f, unnest(array['mail', repeat('q', 100000)]) q, "
          "unnest('{-infinity,4714-11-24 00:00:00+00 BC,0001-01-01 00:00Z,"
          "1970-01-01 00:00Z,294276-12-31 23:59:59Z,infinity}'::timestamptz[])"
          " t");
  db.rows("insert into gen_durable_queues (queue, paused_at) values "
          "('mail', 'infinity'), ('late', '294276-12-31 23:59:59Z')");
  auto client = connect();
  for (int i = 0; i < 2; ++i) {
    auto queues = client.queues();
    CAF_REQUIRE(queues);
    CAF_REQUIRE_EQUAL(queues->size(), 3u);
    CAF_CHECK_EQUAL((*queues)[1].due, 8);
    CAF_CHECK_EQUAL((*queues)[1].later, 4);
  }
}

CAF_TEST(no page of a sample is read twice) {
  db.rows("insert into gen_durable (fsm, step, status, state) "
          "select 'Order ' || n / 10, 'pay', 'done', "
          "json_build_object('x', repeat('x', 700)) "
          "from generate_series(1, 560) n");
  auto x = counts();
  CAF_CHECK(sampled);
  CAF_CHECK_GREATER_OR_EQUAL(x.size(), 45u); // by chance, some 35
}

CAF_TEST(queues share what is counted) {
  fill("Order", "runnable", 2);
  db.rows("insert into gen_durable (fsm, step, queue) select 'Order', 'pay', "
          "'many ' || n % 199 from generate_series(1, 199 * 150) n");
  db.rows("vacuum analyze gen_durable");
  auto client = connect();
  auto queues = client.queues();
  CAF_REQUIRE(queues);
  CAF_REQUIRE_EQUAL(queues->size(), 200u);
  for (const auto& x : *queues) {
    CAF_CHECK_EQUAL(x.due, x.queue == "mail" ? 2 : 50);
    CAF_CHECK_EQUAL(x.more_due, x.queue != "mail");
  }
}

CAF_TEST(versions share what is counted) {
  db.rows("insert into gen_durable (fsm, fsm_version, step, queue, state) "
          "select 'Order', 1 + n % 20, 'pay', 'mail', "
          "json_build_object('x', repeat('x', 700)) "
          "from generate_series(1, 20 * 99) n");
  fill("Other", "done", 3'000);
  db.rows("vacuum analyze gen_durable");
  auto client = connect();
  auto x = client.counts();
  CAF_REQUIRE(x);
  CAF_CHECK(x->sampled);
  CAF_CHECK_EQUAL(x->rows.size(), 22u);
  for (const auto& row : x->rows)
    if (row.fsm == "Order") {
      CAF_CHECK_EQUAL(row.instances, 99);
      CAF_CHECK(!row.estimated);
    }
  db.rows("insert into gen_durable (fsm, step, queue) "
          "select 'Order', 'pay', 'mail' from generate_series(1, 2)");
  x = client.counts("Order", 1);
  CAF_REQUIRE(x);
  CAF_REQUIRE_EQUAL(x->rows.size(), 1u);
  auto of_one = x->rows.front();
  CAF_CHECK_EQUAL(of_one.instances, 101); // which it shares with nobody
  x = client.counts();
  CAF_REQUIRE(x);
  for (const auto& row : x->rows)
    if (row.fsm == "Order" && row.version == 1)
      CAF_CHECK(row.estimated);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace counts_suite
