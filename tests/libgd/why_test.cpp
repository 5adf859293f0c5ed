#define CAF_SUITE why

// Why an instance is where it is: each cause is brought about, told in one sentence that says
// what to do, and as data. What comes first to be mended is told first.

#include <gd/client.hpp>
#include <gd/migrate.hpp>
#include <gd/pq/text.hpp>

#include <support/database.hpp>
#include <support/server.hpp>
#include <support/traps.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>

namespace why_suite {

using namespace std::literals;

namespace {

using gd::errc;
using gd::test::contains;
using gd::test::session;
using gd::test::temporary_database;
using gd::test::text;

struct fixture {
  temporary_database db;
  /// Each lives as long as its session.
  std::map<std::string, std::unique_ptr<session>> nodes;

  fixture() {
    db.migrate();
    db.rows("insert into gen_durable_machines (fsm, version, initial_step,"
            " queue, steps, outside, served) values ('Order', 1, 'pay',"
            " 'default', '{pay,ship,submitted,sealed}', '{\"submitted\":"
            " {\"to\": [\"paid\", \"cancelled\"], \"rests\": true, \"then\":"
            " \"expired\"}}', true), ('Order', 2, 'pay', 'default', '{pay}',"
            " null, false)");
  }

  /// A node that lives, with that machine and queue.
  void start(const std::string& name, const std::string& queue = "default",
             const std::string& version = "1") {
    auto incarnation = name + "/aa";
    auto& on = nodes[name] = std::make_unique<session>(db.conninfo());
    on->exec("select pg_advisory_lock(hashtext('gen_durable node'),"
             " hashtext($1))",
             {incarnation});
    db.rows("insert into gen_durable_nodes (incarnation, node, host, process,"
            " library, lease, slots, queues, machines, sessions) values ($1,"
            " $2, 'earth', 42, '1', '1 min', 4, jsonb_build_array("
            "jsonb_build_object('name', $3::text)), jsonb_build_array("
            "jsonb_build_object('name', 'Order', 'version', $4::int)),"
            " jsonb_build_array(jsonb_build_object('process', $5::int)))",
            {incarnation, name, queue, version, std::to_string(on->pid())});
  }

  /// Columns and values of a row of Order v1 at step pay.
  std::int64_t add(const std::string& columns = "fsm_version",
                   const std::string& values = "1") {
    return std::stoll(db.scalar("insert into gen_durable (fsm, step, " + columns
                                + ") values ('Order', 'pay', " + values
                                + ") returning id"));
  }

  std::int64_t executing(const std::string& node, const std::string& until,
                         const std::string& more = "",
                         const std::string& values = "") {
    return add("status, locked_by, lease_expires_at" + more,
               "'executing', '" + node + "/aa/7', now() + interval '" + until
                 + "'" + values);
  }

  gd::why why(std::int64_t id) {
    auto client = gd::client::connect(db.options());
    CAF_REQUIRE(client);
    auto found = client->why({.id = id});
    CAF_REQUIRE(found);
    CAF_MESSAGE(found->sentence);
    CAF_MESSAGE(found->details.text());
    return *found;
  }

  std::string detail(const gd::why& of, const std::string& name) {
    return db.scalar("select $1::jsonb ->> $2", {of.details.text(), name});
  }

  /// The cause, or what its sentence lacks.
  std::string cause(std::int64_t id, std::initializer_list<std::string> parts) {
    auto x = why(id);
    for (const auto& part : parts)
      if (!contains(x.sentence, part))
        return x.cause + " without " + part + ": " + x.sentence;
    return x.cause;
  }

  std::string cause(std::int64_t id, const std::string& part) {
    return cause(id, std::initializer_list<std::string>{part});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(why_tests, fixture)

CAF_TEST(finished and failed instances say since when and why) {
  auto done = add("status", "'done'");
  CAF_CHECK_EQUAL(cause(done, {"done since 20", "there is nothing to do"}),
                  "finished");
  auto failed = add("status, last_error, attempt", "'failed', 'no stock', 3");
  CAF_CHECK_EQUAL(cause(failed, {"failed at step pay", "no stock",
                                 "gdctl retry " + text(failed)}),
                  "failed");
  auto x = why(failed);
  CAF_CHECK_EQUAL(x.last_error.value_or(""), "no stock");
  CAF_CHECK_EQUAL(x.attempt, 3);
  auto bare = add("status", "'failed'");
  CAF_CHECK_EQUAL(cause(bare, "no reason was given"), "failed");
  // What another one has by now keeps it from coming back.
  auto left = add("status, unique_key, unique_scope",
                  "'failed', 'k', '{runnable}'");
  auto has = add("unique_key, unique_scope", "'k', '{runnable}'");
  CAF_CHECK_EQUAL(cause(left, "instance " + text(has) + " has its unique key"),
                  "failed");
}

CAF_TEST(an instance that executes names its node and its lease) {
  start("mars");
  auto id = executing("mars", "1 min");
  CAF_CHECK_EQUAL(
    cause(id, {"executes step pay on node mars (host earth,"
               " process 42)",
               "under a lease until 20", "gdctl stop " + text(id)}),
    "executes");
  auto x = why(id);
  CAF_CHECK_EQUAL(detail(x, "node"), "mars");
  CAF_CHECK_EQUAL(detail(x, "node_lives"), "true");
  CAF_CHECK_EQUAL(
    cause(executing("mars", "-1 s"),
          {"which lives", "has let its lease end", "gdctl nodes"}),
    "lease_over");
  // What has ended processes is named, whatever has become of it since.
  CAF_CHECK_EQUAL(cause(executing("mars", "1 min", ", crashes", ", 3"),
                        "its process has ended 3 times while it ran"),
                  "executes");
}

CAF_TEST(an instance whose node is gone waits for its lease and for a sweep) {
  auto id = executing("venus", "1 min");
  CAF_CHECK_EQUAL(cause(id, {"node venus, which is gone", "no node lives"}),
                  "left_behind");
  start("mars");
  CAF_CHECK_EQUAL(cause(id, {"node venus, which is gone", ": wait"}),
                  "left_behind");
  nodes.erase("mars");
  db.wait_until("select count(*) from pg_locks where locktype = 'advisory'"
                " and database = (select oid from pg_database where datname ="
                " current_database())",
                "0");
  auto late = executing("mars", "-1 s");
  CAF_CHECK_EQUAL(
    cause(late, {"node mars, which is gone",
                 "if its process has surely ended, gdctl stop " + text(late)}),
    "left_behind");
  CAF_CHECK_EQUAL(detail(why(late), "node_lives"), "false");
}

CAF_TEST(a parked instance tells what it waits for and what lies in its inbox) {
  auto id = add("status, awaits", "'awaiting_signal', 'paid'");
  CAF_CHECK_EQUAL(
    cause(id, {"waits for signal paid at step pay", "without a deadline",
               "gdctl signal " + text(id) + " paid"}),
    "waits");
  db.rows(
    "insert into gen_durable_signals (target_id, name) values ($1, 'payed'),"
    " ($1, 'payed')",
    {text(id)});
  CAF_CHECK_EQUAL(cause(id, "unread in its inbox: payed (2)"), "waits");
  auto several = add("status, awaits, awaits_also, deadline",
                     "'awaiting_signal', 'paid', '{late,off}',"
                     " now() + interval '1 h'");
  CAF_CHECK_EQUAL(cause(several, {"for signal paid|late|off", "until 20"}),
                  "waits");
  auto due = add("status, awaits, deadline",
                 "'awaiting_signal', 'paid', now() - interval '1 s'");
  CAF_CHECK_EQUAL(cause(due, "no node lives: start one"), "overdue");
  start("mars");
  CAF_CHECK_EQUAL(cause(due, "wakes it: wait"), "overdue");
}

CAF_TEST(a resting instance tells where it may be moved) {
  auto rest = [this](const std::string& step, const std::string& deadline) {
    return std::stoll(
      db.scalar("insert into gen_durable (fsm, step, status, awaits, deadline)"
                " values ('Order', $1, 'awaiting_signal', '', now() +"
                " $2::interval) returning id",
                {step, deadline}));
  };
  auto id = rest("submitted", "1 h");
  CAF_CHECK_EQUAL(
    cause(id, {"rests at step submitted since 20", "and goes to expired then",
               "gdctl transition " + text(id) + " STEP; to cancelled|paid"}),
    "rests");
  CAF_CHECK_EQUAL(detail(why(id), "moves_to"), "cancelled|paid");
  CAF_CHECK_EQUAL(
    cause(rest("sealed", "1 h"), "its machine lets nobody move it"), "rests");
  CAF_CHECK_EQUAL(cause(rest("submitted", "-1 s"), "is to run since"),
                  "overdue");
}

CAF_TEST(what is owed its wake names who has the unique key) {
  start("mars");
  auto parked = add("status, awaits, wake_reason, unique_key, unique_scope",
                    "'awaiting_signal', 'paid', 'signal', 'order 42',"
                    " '{runnable}'");
  CAF_CHECK_EQUAL(cause(parked, ": wait"), "overdue"); // a sweep comes
  auto has = add("unique_key, unique_scope", "'order 42', '{runnable}'");
  CAF_CHECK_EQUAL(
    cause(parked, {"instance " + text(has) + " has its unique key order 42",
                   "gdctl why " + text(has)}),
    "owed");
  auto reaped = executing("mars", "-1 s", ", unique_key, unique_scope",
                          ", 'order 42', '{runnable}'");
  CAF_CHECK_EQUAL(cause(reaped, "instance " + text(has)), "owed");
  CAF_CHECK_EQUAL(detail(why(reaped), "instance"), text(has));
}

CAF_TEST(what is due says who picks it or why nobody does) {
  auto id = add();
  CAF_CHECK_EQUAL(cause(id, "no node lives: start one that has Order v1 and"
                            " serves queue default"),
                  "no_node");
  start("venus", "default", "2");
  CAF_CHECK_EQUAL(
    cause(id, {"no node that lives has Order v1", "served are v1"}),
    "version_unknown");
  start("mars", "slow");
  CAF_CHECK_EQUAL(cause(id, {"no node that has Order v1 serves its queue"
                             " default, but mars (slow)",
                             "gdctl move " + text(id) + " --to QUEUE"}),
                  "queue_unserved");
  start("earth");
  CAF_CHECK_EQUAL(cause(id, "one of 1 node picks it (earth): wait"), "due");
  auto last = add();
  CAF_CHECK_EQUAL(cause(last, "behind 1 others"), "due");
  CAF_CHECK_EQUAL(detail(why(last), "before"), "1");
  db.rows("insert into gen_durable_queues values ('default', now(), 'ann',"
          " 'the bank is down')");
  CAF_CHECK_EQUAL(
    cause(id, {"queue default is paused since 20", "by ann, the bank is down",
               "gdctl resume default"}),
    "queue_paused");
}

CAF_TEST(what is not due says until when and what will be in its way then) {
  start("mars");
  auto id = add("eligible_at, attempt, last_error",
                "now() + interval '1 h', 4, 'no stock'");
  CAF_CHECK_EQUAL(cause(id, {"is not due until 20", "after 4 tries (no stock)",
                             "gdctl run-now " + text(id)}),
                  "delayed");
  db.rows("insert into gen_durable_queues values ('default', now())");
  CAF_CHECK_EQUAL(detail(why(id), "also"), "[\"queue_paused\"]");
  CAF_CHECK_EQUAL(cause(add("eligible_at", "'infinity'"), "until infinity"),
                  "delayed");
}

CAF_TEST(an instance behind another of its partition key names that one) {
  start("mars");
  auto first = add("partition_key", "'customer 7'");
  auto second = add("partition_key", "'customer 7'");
  auto urgent = add("partition_key, priority", "'customer 7', -1");
  CAF_CHECK_EQUAL(cause(urgent, "picks it"), "due");
  CAF_CHECK_EQUAL(cause(first, {"instance " + text(urgent)
                                  + " of its partition key customer 7",
                                "comes first", "gdctl why " + text(urgent)}),
                  "behind");
  db.rows("update gen_durable set eligible_at = now() + interval '1 h' where"
          " id = $1",
          {text(urgent)});
  CAF_CHECK_EQUAL(cause(first, "picks it"), "due");
  CAF_CHECK_EQUAL(cause(second, "instance " + text(first)), "behind");
  auto runs = executing("mars", "1 min", ", partition_key", ", 'customer 7'");
  CAF_CHECK_EQUAL(cause(first, "instance " + text(runs)
                                 + " of its partition key customer 7 executes"),
                  "behind");
}

CAF_TEST(
  a partition key that a session keeps is told with whose session it is) {
  start("mars");
  start("venus");
  auto id = add("partition_key", "'customer 7'");
  auto holder = [&](session& on) {
    on.exec("select pg_advisory_lock(hashtext('customer 7'))");
    return "session " + text(on.pid());
  };
  auto by_node = holder(*nodes["venus"]);
  CAF_CHECK_EQUAL(cause(id, by_node + " (node venus), which lives"),
                  "key_locked");
  auto told = why(id).sentence;
  CAF_CHECK(!contains(told, "pg_terminate_backend"));
  nodes["venus"]->exec("select pg_advisory_unlock_all()");
  CAF_CHECK_EQUAL(cause(id, "picks it"), "due");
  session stranger{db.conninfo()};
  stranger.exec("set application_name = 'nightly job'");
  CAF_CHECK_EQUAL(cause(id, holder(stranger) + " (nightly job)"), "key_locked");
  // Of two integers: another lock.
  stranger.exec("select pg_advisory_unlock_all(); select pg_advisory_lock(-1,"
                " hashtext('customer 7'))");
  CAF_CHECK_EQUAL(cause(id, "picks it"), "due");
}

CAF_TEST(a row that a transaction keeps locked is told with its session) {
  start("mars");
  auto id = add();
  session stranger{db.conninfo()};
  stranger.exec("set application_name = 'bob'");
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update", {text(id)});
  CAF_CHECK_EQUAL(cause(id, "a transaction of session " + text(stranger.pid())
                              + " (bob) has locked its row"),
                  "row_locked");
  CAF_CHECK_EQUAL(detail(why(id), "session"), text(stranger.pid()));
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(cause(id, "picks it"), "due");
  // Who is about to pick it is no stranger.
  auto& node = *nodes["mars"];
  node.exec("begin");
  node.exec("select from gen_durable where id = $1 for update", {text(id)});
  CAF_CHECK_EQUAL(cause(id, "picks it"), "due");
}

CAF_TEST(of several who have locked a row the one is told that is in the way) {
  start("mars");
  auto id = add();
  session refers{db.conninfo()};
  refers.exec("begin");
  refers.exec("select from gen_durable where id = $1 for key share",
              {text(id)});
  session holds{db.conninfo()};
  holds.exec("begin");
  holds.exec("select from gen_durable where id = $1 for no key update",
             {text(id)});
  CAF_CHECK_EQUAL(
    cause(id, {"a transaction of session " + text(holds.pid()),
               "has locked its row: wait for its end, or end it"}),
    "row_locked");
  holds.exec("rollback");
  // Whoever merely refers to it, next to another who did, keeps nobody from picking it.
  CAF_CHECK_EQUAL(cause(id, "picks it"), "due");
}

CAF_TEST(a lock behind a savepoint is told with whoever may have it) {
  start("mars");
  auto id = add();
  session holds{db.conninfo()};
  auto lock = [&](session& by, std::int64_t which) {
    by.exec("begin; savepoint s");
    by.exec("select from gen_durable where id = $1 for update", {text(which)});
    by.exec("release s");
  };
  lock(holds, id);
  CAF_CHECK_EQUAL(cause(id, "session " + text(holds.pid())), "row_locked");
  CAF_CHECK_EQUAL(detail(why(id), "session"), text(holds.pid()));
  session other{db.conninfo()};
  lock(other, add());
  CAF_CHECK_EQUAL(
    cause(id, {"session " + text(holds.pid()), "session " + text(other.pid()),
               "one of these, ", "a lock behind a savepoint tells no more"}),
    "row_locked");
}

CAF_TEST(
  a prepared transaction that has locked a row is told with what ends it) {
  auto own = gd::test::server::make("max_prepared_transactions = 2");
  CAF_REQUIRE(gd::migrate_up({.database = own.conninfo()}));
  session by{own.conninfo()};
  auto id = std::stoll(by.scalar("insert into gen_durable (fsm, step, status,"
                                 " awaits) values ('Order', 'pay',"
                                 " 'awaiting_signal', 'x') returning id"));
  auto hold = [&](const std::string& name, const std::string& first) {
    by.exec("begin; " + first + "select from gen_durable where id = " + text(id)
            + " for update");
    by.exec("prepare transaction '" + name + "'");
  };
  auto client = gd::client::connect(
    {.database = own.conninfo(), .lock_timeout = 50ms});
  CAF_REQUIRE(client);
  for (const auto* first : {"", "savepoint s; "}) {
    hold("left behind", first);
    auto told = client->why({.id = id});
    CAF_REQUIRE(told);
    CAF_CHECK_EQUAL(told->cause, "waits");
    for (const auto* part :
         {"the prepared transaction 'left behind' of role postgres",
          "in database postgres (rollback prepared 'left behind'"})
      CAF_CHECK(contains(told->sentence, part));
    CAF_CHECK(contains(told->details.text(), "\"prepared\": \"left behind\""));
    auto refused = client->operate({.what = gd::act::stop, .target = id});
    CAF_REQUIRE(!refused);
    CAF_CHECK_EQUAL(refused.error().code, errc::busy);
    CAF_CHECK(
      contains(refused.error().message, "rollback prepared 'left behind'"));
    by.exec("rollback prepared 'left behind'");
  }
  CAF_CHECK(client->operate({.what = gd::act::stop, .target = id}));
}

CAF_TEST(a verb that a stranger is in the way of says who that is) {
  auto id = add("status", "'failed'");
  session stranger{db.conninfo()};
  stranger.exec("set application_name = 'bob'");
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update", {text(id)});
  auto how = db.options();
  how.lock_timeout = 50ms;
  auto client = gd::client::connect(how);
  CAF_REQUIRE(client);
  for (auto what : {gd::act::retry, gd::act::move}) {
    auto refused = client->operate(
      {.what = what, .target = id, .queue = "slow", .force = true});
    CAF_REQUIRE(!refused);
    CAF_CHECK_EQUAL(refused.error().code, errc::busy);
    CAF_CHECK(contains(refused.error().message,
                       "session " + text(stranger.pid()) + " (bob)"));
  }
  CAF_CHECK_EQUAL(cause(id, {"has failed", "(bob) has locked its row"}),
                  "failed");
}

CAF_TEST(what a stranger keeps from being woken or reaped is told as locked) {
  start("mars");
  auto overdue = add("status, awaits, deadline",
                     "'awaiting_signal', 'paid', now() - interval '1 s'");
  auto over = executing("venus", "-1 s");
  session stranger{db.conninfo()};
  stranger.exec("begin; select from gen_durable for no key update");
  auto by = "a transaction of session " + text(stranger.pid());
  CAF_CHECK_EQUAL(cause(overdue, {"is to run since 20", by}), "row_locked");
  CAF_CHECK_EQUAL(cause(over, {"node venus, which is gone", by}), "row_locked");
}

CAF_TEST(what is owed is told as that although its node is gone) {
  start("mars");
  auto has = add("unique_key, unique_scope", "'order 42', '{runnable}'");
  auto keyed = [&](const std::string& node, const std::string& until) {
    return executing(node, until, ", unique_key, unique_scope, wake_reason",
                     ", 'order 42', '{runnable}', 'signal'");
  };
  // Sweeps extend its lease for as long as it is.
  CAF_CHECK_EQUAL(cause(keyed("venus", "4 s"), "instance " + text(has)),
                  "owed");
  // It executes well, whoever has the key that it has left.
  CAF_CHECK_EQUAL(cause(keyed("mars", "1 min"), "executes step pay"),
                  "executes");
  auto due = add("status, awaits, deadline, unique_key, unique_scope",
                 "'awaiting_signal', 'x', now() - interval '1 s', 'order 42',"
                 " '{runnable}'");
  CAF_CHECK_EQUAL(cause(due, "instance " + text(has)), "owed");
}

CAF_TEST(what the database refuses is told in the words of the server) {
  start("mars");
  auto overdue = add("status, awaits, deadline",
                     "'awaiting_signal', 'paid', now() - interval '1 s'");
  auto due = add();
  auto refuse = [this](std::int64_t id, const std::string& ago) {
    db.rows("update gen_durable_nodes set refused = jsonb_build_array("
            "jsonb_build_object('id', $1::bigint, 'why', 'the sweep of"
            " deadlines: not this one [P0001]', 'at_us', _gd_us(now() -"
            " $2::interval)))",
            {text(id), ago});
  };
  refuse(overdue, "0 s");
  CAF_CHECK_EQUAL(
    cause(overdue, {"is to run since 20", "as node mars was told",
                    "(the sweep of deadlines: not this one [P0001])"}),
    "refused");
  refuse(due, "0 s");
  CAF_CHECK_EQUAL(cause(due, "not this one"), "refused");
  refuse(due, "1 min"); // before its row was changed last
  CAF_CHECK_EQUAL(cause(due, "picks it"), "due");
  refuse(due, "0 s");
  nodes.erase("mars"); // and what it knew with it
  start("venus");
  db.wait_until("select cause from gd_why(" + text(due) + ")", "due");
}

CAF_TEST(an outcome that waits for what it carries is told) {
  start("mars");
  auto id = executing("mars", "1 min");
  db.rows(
    "update gen_durable_nodes set refused = jsonb_build_array("
    "jsonb_build_object('id', $1::bigint, 'why', 'what it carries: signal 1:"
    " target 7: another transaction holds the row', 'at_us', _gd_us(now())))",
    {text(id)});
  CAF_CHECK_EQUAL(
    cause(id, {"has executed step pay on node mars",
               "(what it carries: signal 1: target 7: another transaction"}),
    "held_up");
}

CAF_TEST(a command that is shown is one for a shell whatever its names are) {
  auto hostile = [this](const std::string& name) {
    return db.scalar("select _gd_shell_text($1)", {name});
  };
  for (const auto* plain : {"mail", "a-b_c.d/e:f@g%h+i,j=k"})
    CAF_CHECK_EQUAL(hostile(plain), plain);
  CAF_CHECK_EQUAL(hostile("q; touch /x #"), "'q; touch /x #'");
  CAF_CHECK_EQUAL(hostile("it's $(x)"), "'it'\\''s $(x)'");
  CAF_CHECK_EQUAL(hostile(""), "''");
  start("mars", "q; touch /x #");
  auto id = add("queue", "'q; touch /x #'");
  db.rows("select gd_pause('q; touch /x #')");
  CAF_CHECK_EQUAL(cause(id, "(gdctl resume 'q; touch /x #')"), "queue_paused");
}

CAF_TEST(a suspect waits for its trial) {
  start("mars");
  auto id = add("crashes, trials, attempt", "4, 2, 4");
  CAF_CHECK_EQUAL(cause(id, {"its process has ended 4 times while it ran, 2 of"
                             " them alone",
                             "nodes (mars)", "gdctl stop " + text(id)}),
                  "suspect");
  auto x = why(id);
  CAF_CHECK_EQUAL(x.crashes, 4);
  CAF_CHECK_EQUAL(x.trials, 2);
}

CAF_TEST(an instance is asked for by its key and refused by name) {
  auto id = add("unique_key, unique_scope", "'order 42', '{runnable}'");
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto found = client->why({.key = "order 42"});
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->id, id);
  auto nobody = client->why({.key = "order 43"});
  CAF_REQUIRE(!nobody);
  CAF_CHECK_EQUAL(nobody.error().code, errc::not_found);
  CAF_CHECK(contains(nobody.error().message, "order 43"));
  auto both = client->why({.id = 7, .key = "order 42"});
  CAF_REQUIRE(!both);
  CAF_CHECK_EQUAL(both.error().code, errc::invalid_argument);
  CAF_CHECK_EQUAL(db.scalar("select id from gd_why(key => 'order 42')"),
                  text(id));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gd_why(12345)"), "0");
}

CAF_TEST(what was erased says by whom and why and nothing that was in it) {
  auto id = add("state, unique_key, unique_scope, last_error",
                "'{\"name\": \"secret\"}', 'secret', '{runnable}', 'secret'");
  db.rows("select gd_erase($1, 'request 17', 'ann')", {text(id)});
  CAF_CHECK_EQUAL(cause(id, {"Instance " + text(id) + " was erased at 20",
                             "Z by ann: request 17"}),
                  "erased");
  auto x = why(id);
  CAF_CHECK_EQUAL(x.id, id);
  CAF_CHECK_EQUAL(x.fsm, "Order");
  CAF_CHECK_EQUAL(x.version, 1);
  CAF_CHECK_EQUAL(x.step, "");
  CAF_CHECK_EQUAL(x.status, "erased");
  CAF_CHECK_EQUAL(detail(x, "was"), "runnable");
  CAF_CHECK_EQUAL(detail(x, "seq"), "0");
  CAF_CHECK_EQUAL(detail(x, "erased_by"), "ann");
  CAF_CHECK_EQUAL(detail(x, "reason"), "request 17");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gd_why($1) w where w::text ~"
                            " 'secret'",
                            {text(id)}),
                  "0");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gd_why(key => 'secret')"),
                  "0");
}

CAF_TEST(
  nothing that anybody has written into the tables keeps it from answering) {
  start("mars");
  auto id = add("partition_key, last_error", "E'a\\tb', E'x\\ny'");
  db.rows("insert into gen_durable_nodes (incarnation, node, host, process,"
          " library, lease, slots, queues, machines, sessions) values ('x', '',"
          " '', 0, '', '-1 s', 0, '7', '\"a\"', '{}')");
  db.rows("update gen_durable_nodes set refused = '[7, {\"id\": \"x\","
          " \"at_us\": \"y\"}]'");
  db.rows("update gen_durable_machines set outside = '[1]'");
  CAF_CHECK_EQUAL(cause(id, "picks it"), "due");
  auto rests = add("status, awaits", "'awaiting_signal', ''");
  CAF_CHECK_EQUAL(cause(rests, "lets nobody move it"), "rests");
  auto odd = add("status, locked_by, lease_expires_at",
                 "'executing', 'x', 'infinity'");
  CAF_CHECK_EQUAL(cause(odd, "at infinity"), "left_behind");
}

CAF_TEST(functions that fit better than those of PostgreSQL are not called) {
  start("mars");
  auto id = add("partition_key", "'customer 7'");
  gd::test::define_traps(db);
  why(id);
  session on{db.conninfo()};
  on.exec("set search_path = " + db.schema() + ", pg_catalog");
  on.exec("select * from " + db.schema() + ".gd_why($1)", {text(id)});
  CAF_CHECK_EQUAL(db.scalar("select count(*) from trapped"), "0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace why_suite
