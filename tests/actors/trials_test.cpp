// Suspects in a node: few at once, alone where that comes to one, and what is noted
// of it on their rows.

#define CAF_SUITE trials

#include "actors/stepped.hpp"

#include <gd/actors/async.hpp>
#include <gd/actors/queue/picker.hpp>

#include <caf/test/dsl.hpp>

#include <string>
#include <vector>

namespace trials_suite {

using namespace std::literals;
using namespace gd::test;
using namespace gd::actors;
using gd::errc;
namespace events = gd::events;

namespace {

struct trials_fixture : picker_fixture {
  /// Rows that were reaped so often because their process had gone.
  void insert_suspects(int count, int crashes = 2, int trials = 0,
                       const std::string& queue = "default") {
    rows.rows(
      "insert into gen_durable (fsm, step, queue, attempt, crashes, "
      "trials) select 'Probe', 'first', $4, greatest($2::int, $3::int), "
      "$2::int, $3::int from generate_series(1, $1::int)",
      {std::to_string(count), std::to_string(crashes), std::to_string(trials),
       queue});
  }

  /// What happens without time, and with a poll now and then.
  void settle(int polls = 3) {
    for (int i = 0; i < polls; ++i)
      pass(1s);
  }

  std::size_t begun() {
    return log.all<events::step_started>().size();
  }

  /// Every step goes on until the test ends it.
  void begin_with_open_steps() {
    begin_with({.limit = 1h},
               gd::actors::async([this](async_context<probe_state> ctx) {
                 ctx.self->become([](int) {});
                 open.push_back(std::move(ctx));
               }));
  }

  std::vector<async_context<probe_state>> open;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(trials_tests, trials_fixture)

CAF_TEST(a suspect of a small node runs alone and its trial is noted before) {
  std::string noted;
  machine.first = [&](probe_context& ctx) {
    noted = rows.scalar("select concat_ws(' ', status, trials) from "
                        "gen_durable where id = "
                        + std::to_string(ctx.id));
    CAF_CHECK_EQUAL(ctx.crashes(), 2);
    CAF_CHECK_EQUAL(ctx.failures(), 0);
    return gd::done();
  };
  insert_suspects(1);
  spawn_picker({"default", 4, 10});
  settle();
  CAF_CHECK_EQUAL(noted, "executing 1");
  CAF_CHECK(log.exactly<events::trial_begun>(1));
  CAF_CHECK_EQUAL(count("status = 'done' and crashes = 0 and trials = 0"), "1");
  CAF_CHECK(!home->quarantine->held());
}

CAF_TEST(nothing begins beside a trial until it has run for a heartbeat) {
  begin_with_open_steps();
  insert_suspects(1);
  spawn_picker({"default", 4, 10});
  settle();
  CAF_REQUIRE_EQUAL(open.size(), 1u);
  CAF_CHECK(home->quarantine->held());
  insert(3);
  settle(5);
  CAF_CHECK_EQUAL(open.size(), 1u);
  CAF_CHECK_EQUAL(count("trials = 1"), "1");
  pass(home->config.heartbeat);
  settle();
  CAF_CHECK(!home->quarantine->held());
  CAF_CHECK_EQUAL(open.size(), 4u);
  CAF_CHECK_EQUAL(count("trials = 1"), "0");
  open.clear();
}

CAF_TEST(a trial waits for young steps and nothing begins meanwhile) {
  begin_with_open_steps();
  insert(3);
  spawn_picker({"default", 4, 10});
  settle();
  CAF_REQUIRE_EQUAL(open.size(), 3u);
  insert_suspects(1);
  settle(4);
  CAF_CHECK(home->quarantine->held());
  insert(1);
  settle(4);
  CAF_CHECK(log.all<events::trial_begun>().empty());
  CAF_CHECK_EQUAL(begun(), 3u);
  pass(home->config.heartbeat);
  CAF_CHECK(log.exactly<events::trial_begun>(1));
  CAF_CHECK_EQUAL(begun(), 4u);
  open.clear();
}

CAF_TEST(rows ahead go back to their queue before a trial) {
  std::vector<std::int64_t> order;
  machine.first = [&](probe_context& ctx) {
    order.push_back(ctx.id);
    if (ctx.crashes() > 0)
      CAF_CHECK_EQUAL(count("status = 'runnable' and crashes = 0"), "3");
    return gd::done();
  };
  prepare();
  take_all_permits(); // so that nothing begins
  insert(3);
  insert_suspects(1);
  spawn_picker({"default", 10, 20});
  settle();
  CAF_CHECK(home->quarantine->held());
  CAF_CHECK_EQUAL(count("status = 'runnable' and crashes = 0"), "3");
  return_permits();
  settle();
  CAF_CHECK_EQUAL(order, (std::vector<std::int64_t>{4, 1, 2, 3}));
  CAF_CHECK_EQUAL(count("status = 'done'"), "4");
}

CAF_TEST(a node whose slots are all taken for long holds nothing for a suspect) {
  begin_with_open_steps();
  insert(4);
  spawn_picker({"default", 4, 10});
  settle();
  pass(home->config.heartbeat);
  insert_suspects(1);
  auto before = db->submitted;
  settle(5);
  CAF_CHECK(!home->quarantine->held());
  CAF_CHECK_LESS(db->submitted - before, 30);
  CAF_CHECK_EQUAL(count("status = 'runnable' and crashes = 2"), "1");
  open.clear();
}

CAF_TEST(a trial in one queue holds the other queues of the process) {
  begin_with_open_steps();
  insert_suspects(1, 3, 0, "other");
  spawn_picker({"default", 4, 10});
  spawn_picker({"other", 4, 10}, {3});
  settle();
  CAF_REQUIRE_EQUAL(open.size(), 1u);
  insert(2);
  settle(4);
  CAF_CHECK_EQUAL(open.size(), 1u);
  pass(home->config.heartbeat);
  settle();
  CAF_CHECK_EQUAL(open.size(), 3u);
  open.clear();
}

CAF_TEST(a row that was on trial too often is failed unrun with a sentence) {
  machine.first = [](probe_context&) -> gd::outcome {
    CAF_FAIL("the step ran");
    return gd::done();
  };
  insert_suspects(1, 8, 5);
  insert_suspects(1, 0, 5); // its actor has died as often
  spawn_picker({"default", 4, 10});
  settle();
  CAF_CHECK_EQUAL(count("status = 'failed' and last_error like 'step first has "
                        "taken its process or its actor along 5 times%'"),
                  "2");
  CAF_CHECK(log.exactly<events::row_unusable>(2));
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK(!home->quarantine->held());
}

CAF_TEST(trials that are left of another step fail nobody) {
  rows.rows("insert into gen_durable (fsm, step, attempt, crashes, trials) "
            "values ('Probe', 'first', 1, 0, 5)");
  spawn_picker({"default", 4, 10});
  settle();
  CAF_CHECK_EQUAL(count("status = 'done' and trials = 0"), "1");
}

CAF_TEST(without a limit no row is failed for its trials) {
  home->config.max_crashes = 0;
  insert_suspects(1, 8, 100);
  spawn_picker({"default", 4, 10});
  settle();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(the death of a step as an actor counts as a trial) {
  begin_with({.limit = 1h}, async([this](async_context<probe_state> ctx) {
               auto* step = ctx.self;
               open.push_back(std::move(ctx));
               step->quit(caf::exit_reason::kill);
             }));
  insert(1);
  spawn_picker({"default", 4, 10});
  settle();
  CAF_CHECK(log.exactly<events::step_crashed>(1));
  CAF_CHECK_EQUAL(count("status = 'executing' and trials = 1"), "1");
}

CAF_TEST(a stranger who has locked the row of a trial holds up nobody else) {
  insert_suspects(1);
  session stranger{rows.conninfo()};
  machine.first = [](probe_context&) { return gd::done(); };
  spawn_picker({"default", 4, 10});
  while (db->waiting() && db->next().find("note_trials") == std::string::npos)
    turn();
  for (int i = 0; i < 3 && !db->waiting(); ++i) {
    sched.advance_time(1s);
    sched.run();
    while (db->waiting() && db->next().find("note_trials") == std::string::npos)
      turn();
  }
  CAF_REQUIRE(db->next().find("note_trials") != std::string::npos);
  stranger.exec("begin");
  stranger.exec("select from gen_durable for update");
  turn();
  CAF_CHECK_EQUAL(begun(), 0u);
  CAF_CHECK(!home->quarantine->held());
  stranger.exec("rollback");
  settle();
  CAF_CHECK_EQUAL(begun(), 1u);
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(a trial whose lease is lost before it is noted does not begin) {
  insert_suspects(1);
  spawn_picker({"default", 4, 10});
  for (int i = 0; i < 5; ++i) {
    while (db->waiting() && db->next().find("note_trials") == std::string::npos)
      turn();
    if (db->waiting())
      break;
    sched.advance_time(1s);
    sched.run();
  }
  rows.rows("update gen_durable set locked_by = 'b/1/1'");
  turn();
  settle();
  CAF_CHECK_EQUAL(begun(), 0u);
  CAF_CHECK(!home->quarantine->held());
  CAF_CHECK_EQUAL(count("locked_by = 'b/1/1' and trials = 0"), "1");
}

CAF_TEST(a drain that abandons a trial undoes its note) {
  begin_with_open_steps();
  insert_suspects(1);
  auto picker = spawn_picker({"default", 4, 10});
  settle();
  CAF_REQUIRE_EQUAL(open.size(), 1u);
  CAF_CHECK_EQUAL(count("trials = 1"), "1");
  self->send(picker, drain{2s});
  sched.run();
  settle(4);
  CAF_CHECK_EQUAL(count("status = 'executing' and trials = 0"), "1");
  CAF_CHECK(!home->quarantine->held());
  open.clear();
}

CAF_TEST(a picker that ends takes its trial along and others go on) {
  begin_with_open_steps();
  insert_suspects(1);
  auto picker = spawn_picker({"default", 4, 10});
  spawn_picker({"other", 4, 10}, {3});
  settle();
  CAF_CHECK(home->quarantine->held());
  anon_send_exit(picker, caf::exit_reason::kill);
  sched.run();
  CAF_CHECK(!home->quarantine->held());
  open.clear();
}

CAF_TEST(suspects of a large node run beside others and few at once) {
  begin_with_open_steps();
  insert_suspects(20);
  insert(5);
  spawn_picker({"default", 64, 10});
  settle();
  // Eight of them.
  CAF_CHECK_EQUAL(open.size(), 13u);
  CAF_CHECK(log.all<events::trial_begun>().empty());
  pass(home->config.heartbeat);
  settle();
  CAF_CHECK_EQUAL(open.size(), 25u);
  open.clear();
}

CAF_TEST(suspects that have ended let the next begin without a poll) {
  home->config.poll = 1h;
  for (const auto* key : {"null", "'key ' || id % 3"})
    for (int slots : {4, 16}) {
      CAF_MESSAGE(slots << " slots, " << key);
      rows.rows("truncate gen_durable restart identity cascade");
      insert_suspects(60);
      insert_suspects(20, 3);
      rows.rows("update gen_durable set partition_key = "s + key);
      auto picker = spawn_picker({"default", slots, 10});
      finish_all();
      CAF_CHECK_EQUAL(count("status = 'done'"), "80");
      anon_send_exit(picker, caf::exit_reason::kill);
      sched.run();
      finish_all();
    }
}

CAF_TEST(suspects of two queues let each other begin without a poll) {
  home->config.poll = 1h;
  insert_suspects(40);
  insert_suspects(40, 2, 0, "other");
  spawn_picker({"default", 4, 10});
  spawn_picker({"other", 4, 10}, {3});
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "80");
}

CAF_TEST(suspects that have run for a heartbeat let the next begin without a
           poll) {
  begin_with_open_steps();
  home->config.poll = 1h;
  insert_suspects(20);
  spawn_picker({"default", 16, 10});
  finish_all();
  CAF_CHECK_EQUAL(open.size(), 2u);
  pass(home->config.heartbeat);
  CAF_CHECK_EQUAL(open.size(), 10u);
  open.clear();
}

CAF_TEST(suspects that wait for a slot begin without a poll when there is one) {
  begin_with_open_steps();
  home->config.poll = 1h;
  insert(4);
  auto picker = spawn_picker({"default", 4, 10});
  finish_all();
  pass(home->config.heartbeat);
  insert_suspects(1);
  anon(picker, hint{true});
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(open.size(), 4u);
  open.front().finish(gd::done());
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(open.size(), 5u);
  open.clear();
}

CAF_TEST(suspects that cannot be taken are not looked for again and again) {
  insert_suspects(3, 2);
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable for update");
  spawn_picker({"default", 16, 10});
  finish_all();
  CAF_CHECK_LESS(db->submitted, 10);
  stranger.exec("rollback");
  settle();
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST(what ends the process in the middle of a trial is known to be its) {
  begin_with_open_steps();
  insert(1);
  spawn_picker({"default", 4, 10});
  settle();
  pass(home->config.heartbeat); // it may run beside a trial
  insert_suspects(1);
  settle();
  CAF_REQUIRE_EQUAL(open.size(), 2u);
  CAF_CHECK_EQUAL(rows.scalar("select instance_id from gen_durable_crashes "
                              "where not known"),
                  "2");
  pass(home->config.heartbeat);
  CAF_CHECK_EQUAL(rows.scalar("select count(*) from gen_durable_crashes"), "0");
  open.clear();
}

CAF_TEST(a suspect that makes its pick fail is told and those behind it run) {
  for (int slots : {4, 64}) // one at once, or eight
    for (const auto* key : {"null", "'key ' || id"}) {
      CAF_MESSAGE(slots << " slots, " << key);
      rows.rows("truncate gen_durable restart identity cascade");
      insert_suspects(3);
      rows.rows("update gen_durable set partition_key = "s + key);
      rows.rows("drop function if exists refuse cascade; create function "
                "refuse() returns trigger language plpgsql as $$ begin raise "
                "exception 'not this one'; end $$; create trigger refuse "
                "before update on gen_durable for each row when (old.id = 1 "
                "and new.status = 'executing') execute function refuse()");
      auto told = log.all<events::row_unusable>().size();
      auto picker = spawn_picker({"default", slots, 10});
      settle(6);
      CAF_CHECK_EQUAL(count("status = 'done' and id > 1"), "2");
      auto unusable = log.all<events::row_unusable>();
      CAF_REQUIRE_EQUAL(unusable.size(), told + 1);
      CAF_CHECK_EQUAL(unusable.back().id, 1);
      CAF_MESSAGE("at the latest when others were picked that tell that it is");
      settle(70);
      CAF_CHECK_EQUAL(count("status = 'failed' and crashes = 0 and last_error "
                            "= 'its row cannot be picked: not this one'"),
                      "1");
      CAF_CHECK(!home->quarantine->held());
      anon_send_exit(picker, caf::exit_reason::kill);
      settle(1);
    }
}

CAF_TEST(
  a suspect whose updates a trigger drops is told and those behind it run) {
  insert_suspects(3);
  rows.rows("create function drop_it() returns trigger language plpgsql as $$ "
            "begin return null; end $$; create trigger drop_it before update "
            "on gen_durable for each row when (old.id = 1) execute function "
            "drop_it()");
  spawn_picker({"default", 4, 10});
  settle(6);
  CAF_CHECK_EQUAL(count("status = 'done' and id > 1"), "2");
  auto unusable = log.all<events::row_unusable>();
  CAF_REQUIRE_EQUAL(unusable.size(), 1u);
  CAF_CHECK_EQUAL(unusable.front().id, 1);
  CAF_MESSAGE("not in a loop");
  auto before = db->submitted;
  settle(20);
  CAF_CHECK_LESS(db->submitted - before, 20 * 4);
  CAF_MESSAGE("it runs when it can");
  rows.rows("drop function drop_it cascade");
  settle(70);
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST(
  a suspect with a partition key runs when its key is free and it comes first) {
  rows.rows("insert into gen_durable (fsm, step, partition_key, crashes, "
            "attempt) values ('Probe', 'first', 'k', 0, 0), ('Probe', 'first', "
            "'k', 2, 2), ('Probe', 'first', 'k', 0, 0)");
  std::vector<std::int64_t> order;
  machine.first = [&](probe_context& ctx) {
    order.push_back(ctx.id);
    return gd::done();
  };
  spawn_picker({"default", 4, 10});
  settle(6);
  CAF_CHECK_EQUAL(order, (std::vector<std::int64_t>{1, 2, 3}));
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace trials_suite
