#define CAF_SUITE names

// Names that nobody has: whoever types one is told so, with the one that may have been meant,
// and nothing is done unless that is what is wanted.

#include <gd/client.hpp>

#include <support/opened.hpp>
#include <support/traps.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace names_suite {

using namespace std::literals;

namespace {

using gd::errc;
using gd::test::contains;
using gd::test::session;
using gd::test::sql_error;

struct fixture : gd::test::opened_database {
  fixture() {
    db.rows("insert into gen_durable_machines (fsm, version, initial_step,"
            " queue, steps, served) values"
            " ('Order', 1, 'pay', 'mail', '{pay,ship}', true),"
            " ('Order', 2, 'pay', 'mail', '{pay,pack}', true),"
            " ('Report', 1, 'print', 'slow', '{print}', true)");
  }

  /// Empty: all are known.
  std::string unknown(const gd::filter& names) {
    auto which = client().unknown(names);
    CAF_REQUIRE(which);
    return which->value_or("");
  }

  std::string refused_by(const std::string& statement) {
    try {
      db.rows(statement);
    } catch (const sql_error& why) {
      return why.sqlstate() + " " + why.what();
    }
    return {};
  }
};

template <class T>
std::string refusal(const gd::result<T>& x) {
  return x ? "" : gd::to_string(x.error());
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(names_tests, fixture)

CAF_TEST(the nearest name is the one that differs by the fewest letters) {
  auto nearest = [this](const std::string& name) {
    return db.scalar("select _gd_nearest($1, '{mail,slow,default,payments}')",
                     {name});
  };
  for (const auto* typed : {"mial", "mai", "maill", "nail", "Mail", "mail "})
    CAF_CHECK_EQUAL(nearest(typed), "mail");
  CAF_CHECK_EQUAL(nearest("defalut"), "default");
  CAF_CHECK_EQUAL(nearest("paymnts"), "payments");
  CAF_CHECK_EQUAL(nearest("mane"), "mail"); // they begin alike
  CAF_CHECK_EQUAL(nearest("teal"), "");
  for (const auto* other : {"x", "zzz", "letters", "mail"}) // itself is none
    CAF_CHECK_EQUAL(nearest(other), "");
  CAF_CHECK_EQUAL(nearest(""), "");
  CAF_CHECK_EQUAL(db.scalar("select _gd_nearest('mial', '{}')"), "");
  CAF_CHECK_EQUAL(db.scalar("select _gd_nearest('mail', null)"), "");
  CAF_CHECK_EQUAL(
    db.scalar("select _gd_nearest(repeat('ä', 255), array[repeat('ä', 250)])"),
    db.scalar("select repeat('ä', 250)"));
}

CAF_TEST(programs are told the same name as SQL tells) {
  std::vector<std::string> known{"mail", "slow", "default", "payments", "Loan"};
  for (const auto* typed :
       {"mial",    "mai",     "maill",
        "nail",    "Mail",    "mail ",
        "mail",    "defalut", "paymnts",
        "paymnst", "Lone",    "lone",
        "x",       "",        "zzz",
        "letters", "mane",    "slwo",
        "swol",    "defauts", "a name that is much longer than all"})
    CAF_CHECK_EQUAL(
      gd::meant(typed, known),
      db.scalar("select _gd_meant($1, '{mail,slow,default,payments,Loan}')",
                {typed}));
  std::string longest(300, 'x');
  CAF_CHECK_EQUAL(gd::meant(longest, {longest + "y"}),
                  "; did you mean " + longest + "y?");
}

CAF_TEST(a name is known that a machine or a node or a row or a pause has) {
  CAF_CHECK_EQUAL(unknown({.queue = "mail"}), "");
  CAF_CHECK_EQUAL(unknown({.fsm = "Order", .version = 2, .step = "pack"}), "");
  CAF_CHECK_EQUAL(unknown({.step = "print"}), "");
  CAF_CHECK_EQUAL(unknown({}), "");
  CAF_CHECK_EQUAL(unknown({.queue = "mial"}),
                  "queue: no node serves mial, and nothing is in it; did you "
                  "mean mail?");
  CAF_CHECK_EQUAL(unknown({.queue = "elsewhere"}),
                  "queue: no node serves elsewhere, and nothing is in it");
  CAF_CHECK(contains(unknown({.fsm = "Odrer"}),
                     "Odrer known, and there is no instance"
                     " of it; did you mean Order?"));
  CAF_CHECK(
    contains(unknown({.fsm = "Order", .version = 3}), "v3 of that machine"));
  CAF_CHECK(
    contains(unknown({.fsm = "Order", .version = 3}), "; known are 1, 2"));
  CAF_CHECK(contains(unknown({.fsm = "Order", .step = "print"}), "print"));
  CAF_CHECK(contains(unknown({.fsm = "Order", .step = "shipp"}),
                     "; did you mean ship?"));
  db.rows("insert into gen_durable_nodes (incarnation, node, host, process,"
          " library, lease, slots, queues, machines) values ('n/a', 'n', 'h',"
          " 1, '1', '1 min', 4, '[{\"name\": \"served\"}]', '[]')");
  CAF_CHECK_EQUAL(unknown({.queue = "served"}), "");
  db.rows("insert into gen_durable_queues values ('paused', now())");
  CAF_CHECK_EQUAL(unknown({.queue = "paused"}), "");
}

CAF_TEST(a queue that only rows are in is known in whatever status they are) {
  for (const auto* columns :
       {"status) values ('Order', 'pay', 'q', 'runnable'",
        "status, partition_key) values ('Order', 'pay', 'q', 'runnable', 'k'",
        "status, crashes) values ('Order', 'pay', 'q', 'runnable', 3",
        "status, awaits) values ('Order', 'pay', 'q', 'awaiting_signal', 'x'",
        "status) values ('Order', 'pay', 'q', 'failed'",
        "status) values ('Order', 'pay', 'q', 'done'",
        "status, locked_by, lease_expires_at) values ('Order', 'pay', 'q',"
        " 'executing', 'n/a/1', now()"}) {
    CAF_CHECK(unknown({.queue = "q"}) != "");
    db.rows("insert into gen_durable (fsm, step, queue, "s + columns + ")");
    CAF_MESSAGE(columns);
    CAF_CHECK_EQUAL(unknown({.queue = "q"}), "");
    db.rows("delete from gen_durable");
  }
  // Old ones among many: those that are to run an index tells, of others what the server
  // knows of the column.
  db.rows("insert into gen_durable (fsm, step, queue) values ('Order', 'pay',"
          " 'old')");
  db.rows("insert into gen_durable (fsm, step, queue, status, awaits) select"
          " 'Order', 'pay', 'parked', 'awaiting_signal', 'x' from"
          " generate_series(1, 3000)");
  db.rows("insert into gen_durable (fsm, step, queue, status) select 'Order',"
          " 'pay', 'mail', 'done' from generate_series(1, 6000)");
  CAF_CHECK_EQUAL(unknown({.queue = "old"}), "");
  db.rows("analyze gen_durable");
  CAF_CHECK_EQUAL(unknown({.queue = "parked"}), "");
}

CAF_TEST(a queue that nobody has is neither paused nor resumed unless meant) {
  auto by = client();
  auto why = refusal(by.pause("mial"));
  CAF_CHECK(contains(why, "gd::not_found: queue: no node serves mial"));
  CAF_CHECK(contains(why, "[MV008]"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_queues"), "0");
  CAF_CHECK(contains(refusal(by.resume("mial")), "did you mean mail?"));
  CAF_CHECK(by.pause("mial", {}, {}, true));
  auto was = by.resume("mial"); // it is known by now
  CAF_REQUIRE(was);
  CAF_CHECK(*was);
  was = by.resume("mial", true);
  CAF_REQUIRE(was);
  CAF_CHECK(!*was);
  was = by.resume("mail");
  CAF_REQUIRE(was);
  CAF_CHECK(!*was);
}

CAF_TEST(the functions of SQL refuse them as well and name what is meant) {
  db.rows("insert into gen_durable (fsm, step) values ('Order', 'pay')");
  for (const auto* call :
       {"gd_pause('mial')", "gd_resume('mial')", "gd_requeue(1, 'mial')",
        "gd_begin_job('retry', queue => 'mial')",
        "gd_begin_job('move', fsm => 'Order', to_queue => 'mial')"}) {
    auto why = refused_by("select "s + call);
    CAF_MESSAGE(call << ": " << why);
    CAF_CHECK(why.starts_with("MV008 "));
    CAF_CHECK(contains(why, "did you mean mail?"));
    auto forced = std::string{call};
    forced.insert(forced.size() - 1, ", force => true");
    CAF_CHECK_EQUAL(refused_by("select " + forced), "");
    db.rows("delete from gen_durable_queues");
    db.rows("update gen_durable set queue = 'default'");
  }
  CAF_CHECK(refused_by("select gd_begin_job('retry', fsm => 'Odrer')")
              .starts_with("MV008 "));
  // What is no name at all is refused for that.
  CAF_CHECK(refused_by("select gd_pause(E'a\\nb')").starts_with("22023 "));
  CAF_CHECK(refused_by("select gd_requeue(1, E'a\\nb')").starts_with("22023 "));
}

CAF_TEST(what is done with instances goes to no queue that nobody has) {
  auto id = std::stoll(db.scalar(
    "insert into gen_durable (fsm, step) values ('Order', 'pay') returning"
    " id"));
  auto by = client();
  gd::command move{.what = gd::act::move, .target = id, .queue = "solw"};
  CAF_CHECK(contains(refusal(by.operate(move)), "did you mean slow?"));
  gd::bulk_command many{.what = {.what = gd::act::stop},
                        .which = {.fsm = "Ordr"}};
  CAF_CHECK(contains(refusal(by.begin_job(many)), "did you mean Order?"));
  move.force = many.what.force = true;
  CAF_CHECK(by.operate(move));
  CAF_CHECK(by.begin_job(many));
  CAF_CHECK_EQUAL(db.scalar("select queue from gen_durable"), "solw");
}

CAF_TEST(names that are no text are refused here and not by the server) {
  auto by = client();
  auto told = [](const auto& x) {
    auto why = refusal(x);
    return why.starts_with("gd::invalid_argument: ") && contains(why, "UTF-8")
           && !contains(why, "[");
  };
  auto bad = "a\xff"s;
  CAF_CHECK(told(by.list({.which = {.fsm = bad}})));
  CAF_CHECK(told(by.list({.which = {.failure = bad}})));
  CAF_CHECK(told(by.unknown({.queue = bad})));
  CAF_CHECK(told(by.begin_job({.which = {.step = bad}})));
  CAF_CHECK(told(by.graph(bad)));
  CAF_CHECK(told(by.in_step({.fsm = bad, .step = "pay"})));
  CAF_CHECK(told(by.pin(bad, 1)));
  CAF_CHECK(told(by.retire(bad, 1)));
  CAF_CHECK(told(by.pause(bad)));
  CAF_CHECK(told(by.resume(bad)));
}

CAF_TEST(functions that fit better than those of PostgreSQL do not tell names) {
  gd::test::define_traps(db);
  session on{db.conninfo()};
  on.exec("set search_path = " + db.schema() + ", pg_catalog");
  on.exec("select " + db.schema() + ".gd_unknown('mial')");
  on.exec("select * from " + db.schema() + "._gd_holder(1)");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from trapped"), "0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace names_suite
