// Sweeps on a simulated clock: rows that are returned one by one.

#define CAF_SUITE reaper

#include "actors/stepped.hpp"

#include <gd/actors/node/node.hpp>
#include <gd/actors/sweep/heartbeat.hpp>
#include <gd/actors/sweep/reaper.hpp>

#include <support/server.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace reaper_suite {

using namespace gd::test;
using namespace gd::actors;
namespace events = gd::events;

namespace {

struct fixture : picker_fixture {
  fixture() {
    prepare();
    home->config.jitter = 0;
    db->since = sched.clock().now() - 1h;
  }

  void spawn_reaper() {
    actors.push_back(sys.spawn<reaper_actor>(home));
    sched.run();
  }

  /// So many have ended, and their time is over.
  void insert_ended(int n) {
    rows.rows("insert into gen_durable (fsm, step, status, expires_at) select "
              "'Probe', 'first', 'done', now() - interval '1 s' from "
              "generate_series(1, $1::int)",
              {std::to_string(n)});
  }

  /// These execute under leases of another node, which are over.
  void expire(const std::string& which = "true") {
    rows.rows("update gen_durable set status = 'executing', locked_by = "
              "'b/0/1', lease_expires_at = now() - interval '1 s' where "
              + which);
  }

  bool next_is(std::string_view name) {
    return db->next().find(name) != std::string::npos;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(reaper_tests, fixture)

CAF_TEST(
  leases that nobody holds up are returned however many others are held up) {
  insert(200);
  // Each might collide: its unique key is free while it executes.
  rows.rows("update gen_durable set status = 'executing', locked_by = 'b/0/1', "
            "lease_expires_at = now() - interval '1 s', unique_key = "
            "int8send(id), unique_scope = '{runnable}'");
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id <= 150 for update");
  home->config.poll = 1s;
  home->config.reaper = 3s;
  spawn_reaper();
  for (int sweep = 0; sweep < 10; ++sweep)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1 and id > 150"),
                  "50");
  stranger.exec("rollback");
  for (int sweep = 0; sweep < 10; ++sweep)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "200");
}

CAF_TEST(a sweep of leases sends no sweep of deadlines back to its beginning) {
  home->config.poll = 1s;
  home->config.reaper = 1s;
  spawn_reaper();
  for (int sweep = 0; sweep < 4; ++sweep)
    pass(1s); // it knows whom strangers have locked
  insert(2);
  // A wake-up that is owed to one whose key another has, and a lease that is over
  // of one that a trigger keeps as it is.
  rows.rows("update gen_durable set status = 'awaiting_signal', awaits = 'x', "
            "wake_reason = 'timeout', unique_key = 'k', unique_scope = "
            "'{runnable}' where id = 1");
  rows.rows("insert into gen_durable (fsm, step, queue, unique_key, "
            "unique_scope) values ('Probe', 'first', 'elsewhere', 'k', "
            "'{runnable}')");
  expire("id = 2");
  rows.rows("create function refuse() returns trigger language plpgsql as $$ "
            "begin raise exception 'not this one'; end $$; "
            "create trigger refuse before update on gen_durable for each row "
            "when (new.id = 2) execute function refuse()");
  sched.advance_time(1s);
  sched.run();
  // The wake-up is tried, and the lease is given up, before the answer is there.
  while (!next_is("gd_return_row"))
    turn();
  db->run_one_and_hold();
  sched.run();
  finish_all();
  CAF_CHECK(!log.all<events::row_refused>().empty());
  db->deliver();
  sched.run();
  CAF_CHECK_EQUAL(db->next(), "gd_end_leases "); // what follows it
  auto told = log.all<events::returned>();
  CAF_REQUIRE(!told.empty());
  CAF_CHECK_EQUAL(told.back().blocked, 1u);
}

CAF_TEST(what a trigger refuses is told once in the words of the server) {
  insert(3);
  rows.rows("update gen_durable set status = 'awaiting_signal', awaits = 'x', "
            "deadline = now() - interval '1 s' where id <= 2");
  expire("id = 3");
  rows.rows("insert into gen_durable_nodes (incarnation, node, host, process, "
            "library, lease, slots, queues, machines) values ($1, 'a', 'h', 1, "
            "'1', '1 min', 4, '[]', '[]')",
            {home->incarnation});
  rows.rows("create function refuse() returns trigger language plpgsql as $$ "
            "begin raise exception 'not this one'; end $$; "
            "create trigger refuse before update on gen_durable for each row "
            "when (new.id <> 2) execute function refuse()");
  home->config.poll = 1s;
  home->config.reaper = 1s;
  spawn_reaper();
  for (int sweep = 0; sweep < 40; ++sweep)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  auto told = log.all<events::row_refused>();
  CAF_REQUIRE_EQUAL(told.size(), 2u); // one of each sweep, in this minute
  for (const auto& x : told) {
    CAF_CHECK_EQUAL(x.why.sqlstate, "P0001");
    CAF_CHECK(x.why.message.find("not this one") == std::string::npos);
    CAF_CHECK(x.id != 2);
  }
  CAF_CHECK(log.all<events::sweep_failed>().empty());
  for (const auto& x : log.all<events::returned>())
    CAF_CHECK_EQUAL(x.blocked, 0u);
  CAF_CHECK_LESS(log.all<events::returned>().size(), 5u);
  // And to whoever asks why.
  CAF_CHECK_EQUAL(
    rows.scalar("select string_agg(r ->> 'id' || ' ' || (r ->> 'why'), ', ' "
                "order by r ->> 'id') from gen_durable_nodes n cross join "
                "jsonb_array_elements(n.refused) r where n.incarnation = $1",
                {home->incarnation}),
    "1 the sweep of deadlines: not this one [P0001], "
    "3 the sweep of leases: not this one [P0001]");
  for (int sweep = 0; sweep < 60; ++sweep)
    pass(1s);
  CAF_REQUIRE_EQUAL(log.all<events::row_refused>().size(), 4u);
  CAF_CHECK_GREATER(+log.all<events::row_refused>().back().times, 10u);
}

CAF_TEST(a sweep of leases forgets as many pages of dedup keys as are old) {
  insert(1);
  rows.rows("insert into gen_durable_machines (fsm, version, initial_step, "
            "queue, steps, forget_dedup_after) values ('Probe', 1, 'first', "
            "'default', '{first}', '1 h') on conflict (fsm, version) do update "
            "set forget_dedup_after = '1 h'");
  rows.rows(
    "insert into gen_durable_signals (target_id, name, dedup_key, inserted_at, "
    "consumed_at) select 1, 'paid', n::text, now() - interval '3 h', "
    "case when n % 3 > 0 then now() - interval '2 h' end from "
    "generate_series(1, 12000) n");
  home->config.reaper = 1s;
  spawn_reaper();
  pass(1s);
  CAF_CHECK_EQUAL(rows.scalar("select count(*) from gen_durable_signals"),
                  "4000");
}

CAF_TEST(who is convicted exonerates in the same sweep all that shared it) {
  insert(1'200);
  rows.rows("update gen_durable set attempt = 2, crashes = 2, crashed_in = "
            "array(select hashtextextended(x, 0) from unnest('{b/1,b/2}'::"
            "text[]) x)");
  rows.rows("update gen_durable set status = 'executing', trials = 5, attempt "
            "= 6, locked_by = 'b/3/1', lease_expires_at = now() - interval "
            "'1 s' where id = 1000");
  home->config.reaper = 1s;
  spawn_reaper();
  for (int sweep = 0; sweep < 4; ++sweep)
    pass(1s);
  auto told = log.all<events::exonerated>();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(told.front().rows, 1'199u);
  CAF_CHECK_EQUAL(count("crashes = 0 and excused = 2 and attempt = 2"), "1199");
  CAF_CHECK_EQUAL(count("crashes = 3 and excused is null and id = 1000"), "1");
  CAF_MESSAGE("and nobody looks for them again");
  pass(10s);
  CAF_CHECK_EQUAL(log.all<events::exonerated>().size(), 1u);
}

CAF_TEST(who is exonerated is picked without a poll) {
  insert(20);
  rows.rows("update gen_durable set attempt = 2, crashes = 2, crashed_in = "
            "'{1,2}'; insert into gen_durable_crashes (process, instance_id, "
            "known, open) values (1, 99, true, true), (2, 99, true, true)");
  home->config.reaper = 1s;
  home->config.poll = 1h;
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable for update");
  home->children.set(role::picker, "default", spawn_picker({"default", 4, 10}));
  finish_all();
  stranger.exec("rollback");
  spawn_reaper();
  pass(1s);
  CAF_CHECK_EQUAL(log.all<events::exonerated>().size(), 1u);
  CAF_CHECK_EQUAL(count("status = 'done'"), "20");
  home->children.clear();
}

CAF_TEST(where some were deleted a sweep looks again soon) {
  insert_ended(1);
  home->config.poll = 1s;
  home->config.reaper = 10s;
  spawn_reaper();
  pass(10s);
  CAF_CHECK_EQUAL(rows.scalar("select count(*) from gen_durable"), "0");
  insert_ended(1);
  pass(1s);
  CAF_CHECK_EQUAL(rows.scalar("select count(*) from gen_durable"), "0");
  pass(1s); // finds nothing
  insert_ended(1);
  pass(5s);
  CAF_CHECK_EQUAL(rows.scalar("select count(*) from gen_durable"), "1");
}

CAF_TEST(a signal that a stranger has locked puts off its instance alone) {
  insert_ended(30);
  rows.rows(
    "insert into gen_durable_signals (target_id, name) values (5, 'paid')");
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable_signals for update");
  home->config.reaper = 1s;
  spawn_reaper();
  pass(1s);
  CAF_CHECK_EQUAL(rows.scalar("select string_agg(id::text, ' ') from "
                              "gen_durable"),
                  "5");
}

CAF_TEST(whichever sweep is cut off none reaps before it knows who is locked) {
  home->config.poll = 1s;
  home->config.reaper = 1s;
  spawn_reaper();
  for (int sweep = 0; sweep < 4; ++sweep)
    pass(1s);
  sched.advance_time(1s);
  sched.run();
  while (!next_is("gd_wake_due"))
    turn();
  db->drop_one(gd::errc::unavailable);
  sched.run();
  finish_all();
  insert(1);
  expire();
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  for (int sweep = 0; sweep < 4; ++sweep)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
}

// -- answers that come late ---------------------------------------------------

CAF_TEST(
  behind an answer that came late nobody reaps before a heartbeat is over) {
  insert(1);
  expire();
  home->config.poll = 1h;
  home->config.reaper = 1s;
  home->config.heartbeat = 5s;
  spawn_reaper();
  sched.advance_time(1s);
  sched.run();
  // All nodes wait for a standby, which comes back: their heartbeats, too.
  CAF_REQUIRE(next_is("locked_leases"));
  db->run_one_and_hold();
  sched.advance_time(5s);
  sched.run();
  db->deliver();
  sched.run();
  while (db->waiting()) { // other sweeps
    CAF_CHECK(!next_is("reap"));
    turn();
  }
  for (int second = 0; second < 4; ++second)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
}

CAF_TEST(a heartbeat whose answer came late is followed by the next at once) {
  insert(1);
  rows.rows("update gen_durable set status = 'executing', locked_by = 'a/0/1', "
            "lease_expires_at = now() + interval '1 s'");
  auto id = std::stoll(rows.scalar("select id from gen_durable"));
  home->leases.add(std::make_shared<gd::lease>(id, "a/0/1"));
  home->config.heartbeat = 5s;
  actors.push_back(sys.spawn<heartbeat_actor>(home));
  sched.run();
  auto begin_beat = [this] {
    sched.advance_time(5s);
    sched.run();
    CAF_REQUIRE(next_is("heartbeat"));
    db->run_one_and_hold();
    finish_all();
  };
  begin_beat();
  db->deliver();
  sched.run();
  CAF_CHECK_EQUAL(db->next(), "nothing");
  begin_beat();
  sched.advance_time(5s);
  sched.run();
  while (db->waiting()) // says that it lives
    turn();
  db->deliver();
  sched.run();
  CAF_CHECK(next_is("heartbeat"));
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- where there is a synchronous standby --------------------------------------

namespace {

/// Says that commits wait for a standby, and has them wait for none.
struct pretending_server {
  server one = server::make("synchronous_standby_names = 'gone'\n"
                            "synchronous_commit = local");
  std::string before = std::getenv("GD_DATABASE");

  pretending_server() {
    setenv("GD_DATABASE", one.conninfo().c_str(), 1);
  }

  ~pretending_server() {
    setenv("GD_DATABASE", before.c_str(), 1);
  }
};

struct standby_fixture : pretending_server, fixture {};

} // namespace

CAF_TEST_FIXTURE_SCOPE(reaper_standby_tests, standby_fixture)

CAF_TEST(leases are reaped a heartbeat behind the first look whatever the
           intervals are) {
  home->config.poll = 1h;
  home->config.lease = 60s;
  for (auto [heartbeat, reaper] : {std::pair{25s, 20s}, std::pair{29s, 1s},
                                   std::pair{29s, 300s}, std::pair{1s, 20s}}) {
    CAF_MESSAGE("heartbeat " << heartbeat.count() << " s, reaper "
                             << reaper.count() << " s");
    home->config.heartbeat = heartbeat;
    home->config.reaper = reaper;
    rows.rows("truncate gen_durable cascade");
    insert(1);
    expire();
    spawn_reaper();
    pass(reaper);
    // Or as long as one gets whom a stranger may have locked.
    for (auto time = 1s; time < std::max(heartbeat, 3s); time += 1s)
      pass(1s);
    CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
    for (auto time = 0s; time <= heartbeat / 2; time += 1s)
      pass(1s);
    CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
    anon_send_exit(actors.back(), caf::exit_reason::kill);
    sched.run();
    sched.clock().current_time += 1h; // no alarm of it is left
  }
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace reaper_suite
