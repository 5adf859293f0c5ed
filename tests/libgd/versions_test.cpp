// Which version of a machine an insert means, wherever it comes from.

#define CAF_SUITE versions

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/pq/connection.hpp>
#include <gd/registry.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/transaction.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace versions_suite {

using namespace std::literals;

using gd::errc;
using gd::test::code_of;
using gd::test::session;
using gd::test::temporary_database;
namespace store = gd::store;

GD_ENUM(order_step, start, ship);

struct order_state {
  std::int64_t order = 0;
  GD_STATE(order_state, order);
};

namespace {

gd::machine order(std::int32_t version) {
  auto end = [](gd::context<order_state>&) { return gd::done(); };
  return gd::define<order_state, order_step>("Order", version)
    .step(order_step::start, end)
    .step(order_step::ship, end);
}

std::shared_ptr<const gd::registry> registry_of(std::vector<gd::machine> xs) {
  return std::make_shared<gd::registry>(std::move(xs));
}

struct fixture {
  temporary_database db;

  fixture() {
    db.migrate();
    db.rows("insert into gen_durable_machines select 'Order', n, 'start', 'q', "
            "'{start,ship}' from generate_series(1, 3) n");
  }

  /// As if a node had come and gone.
  void serve(int version, bool still) {
    db.rows("update gen_durable_machines set served = $2::bool, last_served = "
            "clock_timestamp() where version = $1::int",
            {std::to_string(version), still ? "t" : "f"});
  }

  gd::client connect(std::vector<gd::machine> own = {}) {
    auto x = gd::client::connect(db.options(),
                                 {.machines = registry_of(std::move(own))});
    CAF_REQUIRE(x);
    return std::move(*x);
  }

  std::string version_of(std::int64_t id) {
    return db.scalar(
      "select fsm_version from gen_durable where id = $1::bigint",
      {std::to_string(id)});
  }

  /// The version of what a program without the machine inserts.
  std::string by_client() {
    auto x = connect().insert({.fsm = "Order"});
    return x ? version_of(x->id) : std::string{to_string(x.error().code)};
  }

  std::string by_sql(const std::string& arguments = "'Order'") {
    try {
      return version_of(
        std::stoll(db.scalar("select id from gd_insert(" + arguments + ")")));
    } catch (const gd::test::sql_error& e) {
      return e.sqlstate();
    }
  }

  void check_both(const std::string& expected) {
    CAF_CHECK_EQUAL(by_client(), expected);
    CAF_CHECK_EQUAL(by_sql(), expected);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(versions_tests, fixture)

// -- what is served -----------------------------------------------------------

CAF_TEST(an insert without a version takes the newest that is served) {
  CAF_MESSAGE("where none ever was the newest that is known");
  check_both("3");
  serve(1, true);
  check_both("1");
  serve(2, true);
  check_both("2");
}

CAF_TEST(after a rollback inserts take what is served and not what was) {
  serve(2, true);
  serve(2, false);
  serve(1, true);
  check_both("1");
}

CAF_TEST(where nothing is served inserts take what was served last) {
  serve(3, false);
  serve(2, false);
  serve(1, false);
  check_both("1");
  serve(2, false);
  check_both("2");
}

CAF_TEST(a program that has the machine takes its own newest version) {
  serve(1, true);
  auto client = connect({order(1), order(2)});
  auto made = client.insert({.fsm = "Order"});
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(version_of(made->id), "2");
}

// -- pins ---------------------------------------------------------------------

CAF_TEST(a pinned version comes before everything but one that is named) {
  serve(3, true);
  auto client = connect({order(2)});
  CAF_REQUIRE(client.pin("Order", 1));
  check_both("1");
  for (int i = 0; i < 2; ++i) { // also when it is known to be so
    auto own = client.insert({.fsm = "Order"});
    CAF_REQUIRE(own);
    CAF_CHECK_EQUAL(version_of(own->id), "1");
  }
  auto named = client.insert({.fsm = "Order", .version = 2});
  CAF_REQUIRE(named);
  CAF_CHECK_EQUAL(version_of(named->id), "2");
  CAF_CHECK_EQUAL(by_sql("'Order', version => 3"), "3");
  CAF_MESSAGE("and one at a time");
  CAF_REQUIRE(client.pin("Order", 2));
  check_both("2");
  CAF_REQUIRE(client.pin("Order", 0));
  check_both("3");
  auto own = client.insert({.fsm = "Order"});
  CAF_REQUIRE(own);
  CAF_CHECK_EQUAL(version_of(own->id), "2");
}

CAF_TEST(an insert that runs into a new pin follows it with all of its group) {
  auto client = connect({order(2)});
  CAF_REQUIRE(client.insert({.fsm = "Order"}));
  CAF_REQUIRE(connect().pin("Order", 3));
  std::vector<gd::insert> rows(50, {.fsm = "Order"});
  rows[7].version = 2;
  rows[9].unique_key = "k";
  auto answers = client.insert_all(std::move(rows));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CAF_REQUIRE(answers[i]);
    CAF_CHECK_EQUAL(version_of(answers[i]->id), i == 7 ? "2" : "3");
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "51");
}

CAF_TEST(what cannot be pinned is told) {
  auto client = connect();
  CAF_CHECK_EQUAL(code_of(client.pin("Order", 7)), errc::unknown_machine);
  CAF_CHECK_EQUAL(code_of(client.pin("Nobody", 0)), errc::unknown_machine);
  CAF_REQUIRE(client.pin("Order", 1));
  CAF_REQUIRE(client.retire("Order", 2));
  CAF_CHECK_EQUAL(code_of(client.pin("Order", 2)), errc::version_retired);
  CAF_MESSAGE("and leaves what is pinned");
  check_both("1");
  CAF_CHECK_EQUAL(code_of(client.retire("Order", 1)), errc::invalid_argument);
  check_both("1");
}

CAF_TEST(of two that pin at the same time the later one counts) {
  session first{db.conninfo()};
  first.exec("begin");
  first.exec("select pg_advisory_xact_lock(hashtext('gen_durable machines'), "
             "hashtext('public'))");
  first.exec("update gen_durable_machines set pinned = true where version = 1");
  auto client = connect();
  auto second = std::async(std::launch::async,
                           [&client] { return client.pin("Order", 2); });
  first.wait_until_someone_is_blocked();
  first.exec("commit");
  CAF_CHECK(second.get());
  check_both("2");
}

// -- retired versions ---------------------------------------------------------

CAF_TEST(a retired version takes no inserts and its instances go on) {
  serve(2, true);
  auto client = connect({order(2)});
  auto before = client.insert({.fsm = "Order"});
  CAF_REQUIRE(before);
  CAF_REQUIRE(client.retire("Order", 2));
  CAF_CHECK_EQUAL(code_of(client.insert({.fsm = "Order", .version = 2})),
                  errc::version_retired);
  CAF_CHECK_EQUAL(by_sql("'Order', version => 2"), "MV002");
  CAF_CHECK_EQUAL(
    by_sql("'Order', version => 2, step => 'start', queue => 'q'"), "MV002");
  CAF_CHECK_EQUAL(code_of(connect().insert(
                    {.fsm = "Order", .version = 2, .step = "s", .queue = "q"})),
                  errc::version_retired);
  check_both("3");
  CAF_CHECK(client.signal({.target = before->id, .name = "n"}));
  CAF_REQUIRE(client.retire("Order", 2, false));
  CAF_CHECK(client.insert({.fsm = "Order", .version = 2}));
  check_both("2");
}

CAF_TEST(a program whose newest version is retired takes the next of its own) {
  auto client = connect({order(1), order(2)});
  CAF_REQUIRE(client.retire("Order", 2));
  auto made = client.insert({.fsm = "Order"});
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(version_of(made->id), "1");
}

CAF_TEST(where all versions are retired the insert is refused and told so) {
  auto client = connect({order(2)});
  for (int version = 1; version <= 3; ++version)
    CAF_REQUIRE(client.retire("Order", version));
  auto refused = client.insert({.fsm = "Order"});
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().code, errc::version_retired);
  CAF_CHECK_EQUAL(refused.error().message,
                  "version: all versions of Order are retired: 1|2|3");
  CAF_CHECK_EQUAL(by_sql(), "MV002");
  CAF_CHECK_EQUAL(code_of(client.retire("Order", 9)), errc::unknown_machine);
}

CAF_TEST(in a group only the rows of the retired version are refused) {
  auto client = connect({order(1), order(2)});
  CAF_REQUIRE(client.retire("Order", 1));
  std::vector<gd::insert> rows;
  for (int i = 0; i < 20; ++i)
    rows.push_back({.fsm = "Order", .version = 1 + i % 2});
  auto answers = client.insert_all(std::move(rows));
  for (std::size_t i = 0; i < answers.size(); ++i)
    CAF_CHECK_EQUAL(code_of(answers[i]),
                    i % 2 == 0 ? errc::version_retired : errc{});
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "10");
}

CAF_TEST(pins and retired versions hold in the transaction of a caller) {
  auto client = connect();
  CAF_REQUIRE(client.pin("Order", 1));
  CAF_REQUIRE(client.retire("Order", 3));
  session caller{db.conninfo()};
  caller.exec("begin");
  gd::transaction tx{caller.handle(), {.machines = registry_of({order(2)})}};
  auto made = tx.insert({.fsm = "Order"});
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(code_of(tx.insert({.fsm = "Order", .version = 3})),
                  errc::version_retired);
  caller.exec("commit");
  CAF_CHECK_EQUAL(version_of(made->id), "1");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "1");
}

// -- who keeps it up ----------------------------------------------------------

CAF_TEST(what is served is what nodes that live have said) {
  auto on = std::make_unique<gd::pq::connection>(db.options());
  CAF_REQUIRE(on->wait_ready());
  auto mark = [&](const std::string& leaving, bool also_not) {
    CAF_CHECK(
      on->run({{store::machines_lock(), store::mark_served(leaving, also_not)}})
        .ok());
    return db.scalar("select coalesce(string_agg(version::text, ' ' order by "
                     "version), '') from gen_durable_machines where served");
  };
  db.rows(
    "insert into gen_durable_nodes (incarnation, node, host, process, "
    "library, lease, slots, queues, machines) values ('n/0', 'n', 'h', 1, "
    "'0', interval '1 min', 1, '[{\"name\": \"q\"}]', '[{\"name\": "
    "\"Order\", \"version\": 2, \"steps\": []}, 7, {\"name\": null}]')");
  CAF_CHECK_EQUAL(mark("", true), "");
  auto node = std::make_unique<session>(db.conninfo());
  node->exec("select pg_advisory_lock(hashtext('gen_durable node'), "
             "hashtext('n/0'))");
  CAF_CHECK_EQUAL(mark("", true), "2");
  auto since = db.scalar("select last_served from gen_durable_machines where "
                         "served");
  CAF_CHECK_EQUAL(mark("", true), "2");
  CAF_MESSAGE("which is not written again");
  CAF_CHECK_EQUAL(db.scalar("select last_served from gen_durable_machines "
                            "where served"),
                  since);
  CAF_MESSAGE("one that leaves does not count");
  CAF_CHECK_EQUAL(mark("n/0", true), "");
  CAF_CHECK_EQUAL(mark("", true), "2");
  CAF_MESSAGE(
    "nor one that is dead, but who has just come back does not judge");
  node.reset();
  db.wait_until(
    "select count(*) from pg_locks where locktype = 'advisory' and "
    "objsubid = 2 and database = (select oid from pg_database where "
    "datname = current_database())",
    "0");
  CAF_CHECK_EQUAL(mark("", false), "2");
  CAF_CHECK_EQUAL(mark("", true), "");
}

CAF_TEST(what waits and nobody serves is found whatever lies in the table) {
  db.rows("insert into gen_durable (fsm, fsm_version, step, queue) select "
          "'Order', 1 + n % 2, 'start', 'q' from generate_series(1, 1000) n");
  db.rows("insert into gen_durable (fsm, fsm_version, step, queue, "
          "partition_key) select 'Order', 2, 'start', 'keyed', 'k' from "
          "generate_series(1, 10)");
  db.rows("insert into gen_durable (fsm, step, queue, status) values ('Old', "
          "'s', 'q', 'done')");
  auto client = connect();
  auto found = [&client] {
    std::string text;
    auto rows = client.not_served();
    CAF_REQUIRE(rows);
    for (const auto& x : *rows)
      text += x.queue + ' ' + x.fsm + std::to_string(x.version)
              + (x.version_served ? " elsewhere, " : ", ");
    return text;
  };
  CAF_CHECK_EQUAL(found(), "keyed Order2, q Order1, q Order2, ");
  db.rows(
    "insert into gen_durable_nodes (incarnation, node, host, process, "
    "library, lease, slots, queues, machines) values ('n/0', 'n', 'h', 1, "
    "'0', interval '1 min', 1, '[{\"name\": \"q\"}]', '[{\"name\": "
    "\"Order\", \"version\": 2}]')");
  session node{db.conninfo()};
  node.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
            "hashtext('n/0'))");
  CAF_CHECK_EQUAL(found(), "keyed Order2 elsewhere, q Order1, ");
  auto stats = client.stats();
  CAF_REQUIRE(stats);
  for (const auto& x : *stats)
    CAF_CHECK_EQUAL(x.served,
                    x.fsm == "Order" && x.version == 2 && x.queue == "q");
  CAF_MESSAGE("and what inserts would go to");
  db.rows("delete from gen_durable; update gen_durable_machines set served = "
          "version = 2, queue = 'lost'");
  CAF_CHECK_EQUAL(found(), "lost Order2 elsewhere, ");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace versions_suite
