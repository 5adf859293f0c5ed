// How nodes are known to each other, and what becomes of those that are silent.

#define CAF_SUITE nodes

#include "actors/stepped.hpp"

#include <gd/actors/node/node.hpp>
#include <gd/actors/sweep/heartbeat.hpp>
#include <gd/actors/sweep/reaper.hpp>

#include <caf/test/dsl.hpp>

namespace nodes_suite {

using namespace gd::test;
using namespace gd::actors;
using namespace std::string_literals;
namespace events = gd::events;

namespace {

const std::string take_lock
  = "select pg_advisory_lock(hashtext('gen_durable node'), hashtext('a/0'))";
const std::string give_lock
  = "select pg_advisory_unlock(hashtext('gen_durable node'), hashtext('a/0'))";

/// Who has the lock of node a/0; empty: nobody.
const std::string lock_holder
  = "select pid from pg_locks where locktype = 'advisory' and objsubid = 2 and "
    "classid::bigint = hashtext('gen_durable node')::bigint & 4294967295 and "
    "objid::bigint = hashtext('a/0')::bigint & 4294967295 and granted";

struct fixture : picker_fixture {
  std::unique_ptr<session> stopped = std::make_unique<session>(rows.conninfo());

  fixture() {
    prepare();
    home->config.heartbeat = 20s;
    home->config.reaper = 1s;
    home->config.jitter = 0;
    db->since = sched.clock().now() - 1h;
  }

  void spawn_reaper() {
    actors.push_back(sys.spawn<reaper_actor>(home));
    sched.run();
  }

  void pass_seconds(int count) {
    for (int i = 0; i < count; ++i)
      pass(1s);
  }

  bool lives(const session& who) {
    return rows.scalar("select count(*) from pg_stat_activity where pid = "
                       + std::to_string(who.pid()))
           == "1";
  }

  void wait_until_gone(const session& who) {
    rows.wait_until("select count(*) from pg_stat_activity where pid = "
                      + std::to_string(who.pid()),
                    "0");
  }

  /// One that nobody has heard of for longer than a lease.
  void add_stopped_node() {
    rows.add_silent_node("b/0", stopped->pid());
  }

  std::unique_ptr<gd::pq::connection> connect() {
    auto opts = rows.options();
    opts.lock_timeout = 100ms;
    auto made = std::make_unique<gd::pq::connection>(opts);
    CAF_REQUIRE(made->wait_ready());
    return made;
  }

  gd::pq::reply introduce_by(gd::pq::connection& on,
                             std::chrono::milliseconds wait = 100ms) {
    return on.run(home->known_as->beat(gd::database::control_slot, wait));
  }

  /// How many sessions of node a/0 are known.
  std::string known() {
    return rows.scalar("select coalesce(sum(jsonb_array_length(sessions)), 0) "
                       "from gen_durable_nodes where incarnation = 'a/0'");
  }

  void add_node(const std::string& incarnation, const std::string& host,
                const std::string& silent_for,
                const std::string& sessions = "[]") {
    rows.rows("insert into gen_durable_nodes (incarnation, node, host, "
              "process, library, lease, slots, queues, machines, seen_at, "
              "sessions) values ($1, 'n', $2, 1, '0', interval '1 min', 1, "
              "'[]', '[]', now() - $3::interval, $4::jsonb)",
              {incarnation, host, silent_for, sessions});
  }

  void forget() {
    CAF_REQUIRE(connect()->run({{gd::store::forget_nodes()}, false}).ok());
  }

  std::string nodes(const std::string& condition) {
    return rows.scalar("select count(*) from gen_durable_nodes where "
                       + condition);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(nodes_tests, fixture)

// -- who judges, and when -----------------------------------------------------

CAF_TEST(a node that is silent has its sessions ended after another heartbeat) {
  add_stopped_node();
  spawn_reaper();
  pass_seconds(19);
  CAF_CHECK(lives(*stopped));
  pass_seconds(3);
  wait_until_gone(*stopped);
  // Once more if a look came before it had gone; and no other one.
  auto ended = log.all<events::sessions_ended>();
  CAF_REQUIRE(!ended.empty());
  for (const auto& x : ended)
    CAF_CHECK_EQUAL(x.count, 1u);
}

CAF_TEST(what anybody writes into the rows of nodes hinders no judgement) {
  add_node("c/0", "h", "1 h", "{}");
  add_node("d/0", "h", "1 h", "\"x\"");
  auto pid = std::to_string(stopped->pid());
  add_node("e/0", "h", "1 h",
           "[1, null, [], {\"process\": 1e9000}, {\"process\": " + pid
             + ", \"began\": \"soon\"}]");
  add_node("f/0", "h", "1 h");
  add_node("g/0", "h", "1 h");
  rows.rows("update gen_durable_nodes set lease = '178000000 years' where "
            "incarnation = 'f/0'");
  rows.rows("update gen_durable_nodes set seen_at = '-infinity', lease = "
            "'-178000000 years' where incarnation = 'g/0'");
  add_stopped_node();
  spawn_reaper();
  pass_seconds(22);
  wait_until_gone(*stopped);
  CAF_CHECK(log.all<events::sweep_failed>().empty());
  CAF_MESSAGE("and into its own keeps no node from making itself known");
  rows.rows("update gen_durable_nodes set sessions = '{\"process\": \"x\"}', "
            "lease = '178000000 years'");
  auto on = connect();
  CAF_CHECK(introduce_by(*on).ok());
  rows.rows("update gen_durable_nodes set sessions = '{\"process\": \"x\"}'");
  CAF_CHECK(introduce_by(*on).ok());
}

CAF_TEST(a reaper that seldom looks comes back for who is silent) {
  add_stopped_node();
  home->config.reaper = 1h;
  spawn_reaper();
  pass(1h);
  CAF_CHECK(lives(*stopped));
  pass(20s);
  wait_until_gone(*stopped);
}

CAF_TEST(a node whose row was held has a heartbeat to say that it lives) {
  add_stopped_node();
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable_nodes for update");
  spawn_reaper();
  pass_seconds(60);
  stranger.exec("rollback");
  pass_seconds(19); // its next beat
  CAF_CHECK(lives(*stopped));
  rows.rows("update gen_durable_nodes set seen_at = clock_timestamp()");
  pass_seconds(1);
  CAF_MESSAGE("and it begins anew when it has said so");
  rows.rows("update gen_durable_nodes set seen_at = now() - interval '1 h'");
  pass_seconds(19);
  CAF_CHECK(lives(*stopped));
  CAF_CHECK(log.all<events::sessions_ended>().empty());
  pass_seconds(3);
  wait_until_gone(*stopped);
}

CAF_TEST(after a reconnect nobody is judged for one heartbeat interval) {
  add_stopped_node();
  spawn_reaper();
  pass_seconds(10);
  db->since = sched.clock().now(); // the others come back about now
  pass_seconds(19);
  CAF_CHECK(lives(*stopped));
  rows.rows("update gen_durable_nodes set seen_at = clock_timestamp()");
  pass_seconds(5);
  CAF_CHECK(lives(*stopped));
  CAF_MESSAGE("nor is anybody while there is no connection");
  rows.rows("update gen_durable_nodes set seen_at = now() - interval '1 h'");
  db->since = std::nullopt;
  pass_seconds(60);
  CAF_CHECK(lives(*stopped));
  CAF_CHECK(log.all<events::sessions_ended>().empty());
}

CAF_TEST(who has not looked for long lets those live who may just have been locked) {
  insert(1);
  auto expire = [&] {
    rows.rows("update gen_durable set status = 'executing', locked_by = "
              "'b/0/1', lease_expires_at = now() - interval '1 s'");
  };
  auto is = [&](const std::string& status) {
    return count("status = '" + status + "'") == "1";
  };
  expire();
  spawn_reaper();
  pass_seconds(3); // a stranger had let go of the row just before the first
  CAF_CHECK(is("executing"));
  pass_seconds(1);
  CAF_CHECK(is("runnable"));
  CAF_MESSAGE("from then on it knows");
  expire();
  pass_seconds(1);
  CAF_CHECK(is("runnable"));
  CAF_MESSAGE("until it stands still for longer than half of a lease");
  expire();
  pass(32s);
  CAF_CHECK(is("executing"));
  pass_seconds(2);
  CAF_CHECK(is("executing"));
  pass_seconds(1);
  CAF_CHECK(is("runnable"));
}

CAF_TEST(
  a single sweeper that is stopped does not keep the others from sweeping) {
  insert(1);
  rows.rows("update gen_durable set status = 'executing', locked_by = 'b/0/1', "
            "lease_expires_at = now() - interval '1 s'");
  stopped->exec("select pg_advisory_lock(hashtext('gen_durable sweep'), "
                "hashtext('public'))");
  add_stopped_node();
  home->config.single_sweeper = true;
  spawn_reaper();
  pass_seconds(19);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  pass_seconds(3);
  wait_until_gone(*stopped);
  CAF_MESSAGE("who takes over has not seen whether a stranger had it locked");
  pass_seconds(2);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  pass_seconds(2);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
}

CAF_TEST(what a role may not see of a session it does not end but tells) {
  // Of another's session, the right to end it shows neither when it began nor what it
  // waits for.
  auto theirs = rows.name() + "_other";
  auto mine = rows.name() + "_mine";
  auto me = quoted_name(mine);
  rows.rows("create role " + quoted_name(theirs) + " login; create role " + me
            + " login; grant select, insert, update, delete on all tables in "
              "schema public to "
            + me + "; grant usage on all sequences in schema public to " + me
            + "; grant pg_signal_backend to " + me);
  {
    session foreign{rows.conninfo(theirs)};
    rows.add_silent_node("b/0", foreign.pid());
    rows.rows("update gen_durable_nodes set seen_at = clock_timestamp(), lease "
              "= interval '1 h'");
    engine_fixture whole;
    auto start = [&] {
      auto opts = whole.options({machine});
      opts.database = rows.conninfo(mine);
      return whole.start(std::move(opts));
    };
    {
      auto engine = start();
      CAF_REQUIRE(whole.log.wait_for<events::sessions_not_ended>());
      auto told = whole.log.all<events::sessions_not_ended>();
      CAF_CHECK_EQUAL(told.front().node, "silent");
      CAF_CHECK(lives(foreign));
    }
    rows.rows("grant pg_read_all_stats to " + me);
    rows.rows("update gen_durable_nodes set seen_at = now() - interval '2 h'");
    {
      auto engine = start();
      wait_until_gone(foreign);
    }
    CAF_CHECK_EQUAL(whole.log.all<events::sessions_not_ended>().size(), 1u);
  }
  rows.rows("drop owned by " + me);
  for (const auto& role : {theirs, mine}) {
    rows.wait_until("select count(*) from pg_stat_activity where usename = '"
                      + role + "'",
                    "0");
    rows.rows("drop role " + quoted_name(role));
  }
}

// -- a node's own row and lock ------------------------------------------------

CAF_TEST(a stranger who locks the row of a node costs it no lease) {
  insert(3);
  rows.rows("update gen_durable set status = 'executing', locked_by = 'a/0/1', "
            "lease_expires_at = clock_timestamp() + interval '5 s'");
  for (int id = 1; id <= 3; ++id)
    home->leases.add(std::make_shared<gd::lease>(id, "a/0/1"));
  auto on = connect();
  CAF_REQUIRE(introduce_by(*on).ok());
  rows.rows("update gen_durable_nodes set seen_at = now() - interval '1 h'");
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable_nodes for update");
  actors.push_back(sys.spawn<heartbeat_actor>(home));
  sched.run();
  pass(20s);
  CAF_CHECK_EQUAL(
    count("lease_expires_at > clock_timestamp() + interval '50 s'"), "3");
  CAF_CHECK_EQUAL(home->leases.all().size(), 3u);
  CAF_CHECK_EQUAL(nodes("seen_at < now() - interval '50 min'"), "1");
  CAF_CHECK(log.all<events::sweep_failed>().empty());
  stranger.exec("rollback");
  pass(20s);
  CAF_CHECK_EQUAL(nodes("seen_at < now() - interval '50 min'"), "0");
}

CAF_TEST(a running node holds the lock that says so) {
  engine_fixture whole;
  auto mine = "from gen_durable_nodes n, pg_locks l where l.locktype = "
              "'advisory' and l.objsubid = 2 and l.granted and l.database = "
              "(select oid from pg_database where datname = "
              "current_database()) and l.classid::bigint = "
              "hashtext('gen_durable node')::bigint & 4294967295 and "
              "l.objid::bigint = hashtext(n.incarnation)::bigint & 4294967295";
  {
    auto engine = whole.start(whole.options({machine}));
    whole.db.wait_until("select count(*) "s + mine, "1");
    auto first = whole.db.scalar("select l.pid "s + mine);
    CAF_MESSAGE("also after a reconnect");
    whole.db.terminate_engines();
    whole.db.wait_until("select count(*) "s + mine + " and l.pid <> " + first,
                        "1");
  }
  whole.db.wait_until("select count(*) "s + mine, "0");
}

CAF_TEST(a node that did not get its lock when it began gets it with a beat) {
  session stranger{rows.conninfo()};
  stranger.exec(take_lock);
  {
    auto on = connect();
    CAF_REQUIRE(introduce_by(*on).ok());
    CAF_MESSAGE("it is known nevertheless");
    CAF_CHECK_EQUAL(known(), "1");
  }
  actors.push_back(sys.spawn<heartbeat_actor>(home));
  sched.run();
  pass(20s);
  auto theirs = std::to_string(stranger.pid());
  CAF_CHECK_EQUAL(rows.scalar(lock_holder), theirs);
  stranger.exec(give_lock);
  pass(20s);
  auto holder = rows.scalar(lock_holder);
  CAF_CHECK(!holder.empty() && holder != theirs);
  pass(20s);
  CAF_CHECK_EQUAL(rows.scalar(lock_holder), holder);
  CAF_CHECK(log.all<events::sweep_failed>().empty());
}

CAF_TEST(an older session of the node is ended and no other) {
  auto first = connect();
  CAF_REQUIRE(introduce_by(*first).ok());
  CAF_CHECK_EQUAL(rows.scalar(lock_holder), std::to_string(first->backend()));
  auto second = connect();
  CAF_REQUIRE(introduce_by(*second, patience).ok());
  CAF_CHECK_EQUAL(rows.scalar(lock_holder), std::to_string(second->backend()));
  CAF_REQUIRE(introduce_by(*second).ok());
  CAF_CHECK_EQUAL(known(), "1");
  CAF_CHECK(!first->run({{gd::store::forget_nodes()}, false}).ok());
  CAF_MESSAGE("nor one that has the number of its process by now");
  second.reset();
  rows.wait_until("select count(*) from (" + lock_holder + ") x", "0");
  session stranger{rows.conninfo()};
  stranger.exec(take_lock);
  rows.rows("update gen_durable_nodes set sessions = jsonb_build_array("
            "jsonb_build_object('process', $1::int, 'began', "
            "'2020-01-01 00:00:00Z'))",
            {std::to_string(stranger.pid())});
  auto third = connect();
  CAF_REQUIRE(introduce_by(*third).ok());
  CAF_CHECK_EQUAL(stranger.scalar("select 1"), "1");
}

// -- nodes that have gone -----------------------------------------------------

CAF_TEST(nodes that have gone are forgotten after a day and the last 20 of a
           host are kept until then) {
  for (int i = 0; i < 25; ++i)
    add_node("old/" + std::to_string(i), "one", std::to_string(i + 2) + " min");
  add_node("living/0", "one", "0 s");
  add_node("other/0", "two", "23 h");
  add_node("other/1", "two", "25 h");
  auto me = std::to_string(stopped->pid());
  auto began = rows.scalar(
    "select to_jsonb(backend_start) #>> '{}' from pg_stat_activity where pid = "
    + me);
  add_node("stopped/0", "two", "25 h",
           R"([{"process": )" + me + R"(, "began": ")" + began + "\"}]");
  add_node("number/0", "two", "25 h",
           R"([{"process": )" + me + R"(, "began": "2020-01-01 00:00:00Z"}])");
  forget();
  CAF_CHECK_EQUAL(nodes("host = 'one'"), "20");
  CAF_CHECK_EQUAL(nodes("incarnation = 'old/18'"), "1");
  CAF_CHECK_EQUAL(nodes("incarnation = 'old/19'"), "0");
  CAF_CHECK_EQUAL(nodes("incarnation = 'living/0'"), "1");
  CAF_CHECK_EQUAL(nodes("incarnation = 'other/0'"), "1");
  CAF_CHECK_EQUAL(nodes("incarnation = 'other/1'"), "0");
  CAF_CHECK_EQUAL(nodes("incarnation = 'stopped/0'"), "1");
  CAF_CHECK_EQUAL(nodes("incarnation = 'number/0'"), "0");
}

CAF_TEST(a node that says just then that it lives is not forgotten) {
  add_node("old/0", "one", "25 h");
  // What is deleted, by a cursor: its snapshot is older than the beat, and its
  // locks are younger.
  std::string text{gd::sql::forget_nodes.text};
  auto begin = text.find("select n.incarnation");
  text = text.substr(begin, text.find("\n)\ndelete") - begin);
  const std::string schema = ":\"schema\"";
  for (auto at = text.find(schema); at != std::string::npos;
       at = text.find(schema))
    text.replace(at, schema.size(), "public");
  session judge{rows.conninfo()};
  judge.exec("begin");
  judge.exec("declare gone cursor for " + text);
  rows.rows("update gen_durable_nodes set seen_at = clock_timestamp()");
  CAF_CHECK(judge.exec("fetch all from gone").empty());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace nodes_suite
