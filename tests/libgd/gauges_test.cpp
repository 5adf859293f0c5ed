#define CAF_SUITE gauges

// What the database tells for metrics: counted where that is cheap, and estimated, and said
// to be, where it is not.

#include <gd/gauges.hpp>

#include <support/opened.hpp>

#include <caf/test/dsl.hpp>

#include <map>
#include <stdexcept>
#include <string>

namespace gauges_suite {

using namespace std::literals;

namespace {

struct fixture : gd::test::opened_database {
  fixture() {
    db.rows("alter table gen_durable set (autovacuum_enabled = off)");
  }

  std::map<std::string, gd::status_count> counts() {
    auto rows = client().status_counts();
    if (!rows)
      throw std::runtime_error{to_string(rows.error())};
    std::map<std::string, gd::status_count> out;
    for (auto& x : *rows)
      out[x.status] = x;
    return out;
  }

  void insert(int count, const std::string& status = "runnable",
              const std::string& queue = "default", int bytes = 0) {
    db.rows("insert into gen_durable (fsm, step, status, queue, awaits, state,"
            " locked_by, lease_expires_at)"
            " select 'Order', 'pay', $1::gen_durable_status, $2,"
            " case $1 when 'awaiting_signal' then 'paid' end,"
            " jsonb_build_object('x', repeat(md5(n::text), $4::int / 32)),"
            " case $1 when 'executing' then 'n/1/1' end,"
            " case $1 when 'executing' then now() + interval '1 hour' end"
            " from generate_series(1, $3::int) n",
            {status, queue, std::to_string(count), std::to_string(bytes)});
  }

  /// By name and first label's value.
  std::map<std::string, double> gauges(std::size_t most = 100) {
    auto from = client();
    auto read = gd::read_gauges(from, most);
    if (!read)
      throw std::runtime_error{to_string(read.error())};
    std::map<std::string, double> out;
    for (const auto& x : *read)
      for (const auto& point : x.points)
        out[std::string{x.name}
            + (point.labels.empty() ? "" : " " + point.labels.front().second)]
          = point.value;
    return out;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(gauges_tests, fixture)

CAF_TEST(up to ten thousand instances of a status are counted exactly) {
  insert(1, "executing");
  insert(2, "awaiting_signal");
  insert(3, "done");
  insert(4, "failed");
  insert(5);
  db.rows("update gen_durable set partition_key = 'k', crashes = 3 where id in"
          " (select id from gen_durable where status = 'runnable' order by id"
          " limit 1)");
  db.rows("update gen_durable set crashes = 2 where id in (select id from"
          " gen_durable where status = 'runnable' and crashes = 0 order by id"
          " limit 1)");
  auto found = counts();
  CAF_CHECK_EQUAL(found.size(), 5u);
  CAF_CHECK_EQUAL(found["executing"].instances, 1);
  CAF_CHECK_EQUAL(found["awaiting_signal"].instances, 2);
  CAF_CHECK_EQUAL(found["done"].instances, 3);
  CAF_CHECK_EQUAL(found["failed"].instances, 4);
  CAF_CHECK_EQUAL(found["runnable"].instances, 5); // each once
  for (const auto& [status, x] : found)
    CAF_CHECK(!x.estimated);
}

CAF_TEST(more than ten thousand are estimated and said to be) {
  insert(12'000);
  insert(10, "failed");
  auto before
    = counts()["runnable"]; // the server knows nothing of the table yet
  CAF_CHECK(before.estimated);
  CAF_CHECK_EQUAL(before.instances, 10'000);
  db.rows("analyze gen_durable");
  auto found = counts();
  CAF_CHECK(found["runnable"].estimated);
  CAF_CHECK_GREATER(found["runnable"].instances, 11'500);
  CAF_CHECK_LESS(found["runnable"].instances, 12'500);
  CAF_CHECK(!found["failed"].estimated);
  CAF_CHECK_EQUAL(found["failed"].instances, 10);
}

CAF_TEST(what has no index is estimated where the table is large) {
  insert(6'000, "awaiting_signal", "default", 1'600);
  insert(2'000, "done", "default", 1'600);
  db.rows("analyze gen_durable");
  CAF_REQUIRE_EQUAL(
    db.scalar("select pg_relation_size('gen_durable') > 8 << 20"), "t");
  auto found = counts();
  CAF_CHECK(found["awaiting_signal"].estimated);
  CAF_CHECK_GREATER(found["awaiting_signal"].instances, 5'700);
  CAF_CHECK_LESS(found["awaiting_signal"].instances, 6'300);
  CAF_CHECK(found["done"].estimated);
  // The table grows, and nobody analyzes it.
  insert(6'000, "awaiting_signal", "default", 1'600);
  auto grown = counts()["awaiting_signal"].instances;
  CAF_CHECK_GREATER(grown, 9'000);
}

CAF_TEST(the oldest due row of a queue is told by the clock of the database) {
  insert(3);
  insert(2, "runnable", "mail");
  db.rows("update gen_durable set eligible_at = now() + interval '1 hour' where"
          " queue = 'mail'");
  db.rows("update gen_durable set eligible_at = now() - interval '90 s' where"
          " id = (select min(id) from gen_durable)");
  CAF_REQUIRE(client().pause("mail"));
  auto found = gauges();
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances default"], 3);
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances_estimated default"],
                  0);
  auto age = found["gen_durable_queue_oldest_due_seconds default"];
  CAF_CHECK(age >= 90 && age < 90 + 60);
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances mail"], 0);
  CAF_CHECK_EQUAL(found["gen_durable_queue_oldest_due_seconds mail"], 0);
  CAF_CHECK_EQUAL(found["gen_durable_queue_paused mail"], 1);
  CAF_CHECK_EQUAL(found["gen_durable_queue_paused default"], 0);
  CAF_CHECK_EQUAL(found["gen_durable_instances runnable"], 5);
  CAF_CHECK_EQUAL(found["gen_durable_nodes alive"], 0);
  CAF_CHECK_EQUAL(found["gen_durable_not_served"], 2);
}

CAF_TEST(queues beyond so many count together) {
  for (const auto* queue : {"a", "b", "c", "d", "other"})
    insert(2, "runnable", queue);
  auto found = gauges(2);
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances a"], 2);
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances b"], 2);
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances other"], 6);
  CAF_CHECK(!found.contains("gen_durable_queue_due_instances c"));
  found = gauges(5);
  CAF_CHECK_EQUAL(found["gen_durable_queue_due_instances other"], 2);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace gauges_suite
