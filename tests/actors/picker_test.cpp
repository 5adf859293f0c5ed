#define CAF_SUITE picker

#include "actors/stepped.hpp"

#include <gd/actors/async.hpp>
#include <gd/actors/node/node.hpp>
#include <gd/actors/queue/picker.hpp>
#include <gd/actors/queue/step.hpp>
#include <gd/actors/sweep/heartbeat.hpp>
#include <gd/actors/sweep/reaper.hpp>
#include <gd/sql.hpp>

#include <caf/test/dsl.hpp>

#include <deque>
#include <limits>
#include <optional>
#include <set>

namespace picker_suite {

using namespace std::literals;
using namespace gd::test;
using namespace gd::actors;
using gd::errc;
namespace events = gd::events;

namespace {

struct fixture : picker_fixture {
  template <class Actor>
  void spawn() {
    actors.push_back(sys.spawn<Actor>(home));
    sched.run();
  }

  void spawn_reaper() {
    home->config.jitter = 0;
    spawn<reaper_actor>();
  }

  /// So many execute under leases of another node, which are over.
  void insert_expired(int n) {
    prepare();
    insert(n);
    rows.rows("update gen_durable set status = 'executing', locked_by = "
              "'b/0/1', lease_expires_at = now() - interval '1 s'");
  }

  /// So many, from id 1 on, execute under leases of this node.
  void insert_held(int n) {
    prepare();
    insert(n);
    rows.rows("update gen_durable set status = 'executing', locked_by = "
              "'a/0/1', lease_expires_at = clock_timestamp() + interval '5 s'");
    for (int id = 1; id <= n; ++id)
      home->leases.add(std::make_shared<gd::lease>(id, "a/0/1"));
  }

  std::string extended() {
    return count("lease_expires_at > clock_timestamp() + interval '50 s'");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(picker_tests, fixture)

CAF_TEST(a killed step actor frees its slot at once and its row waits for its lease) {
  begin_with({.limit = 1h}, [](probe_context&) { return gd::done(); });
  insert(2);
  auto picker = spawn_picker({"default", 1, 0});
  db->run_one();
  sched.run_once(); // the picker has the row, the step has not run
  CAF_REQUIRE_EQUAL(home->leases.all().size(), 1u);
  auto& step = sched.next_job<step_actor>();
  // Urgent, or it would run first: a kill waits its turn in the mailbox.
  anon_send<caf::message_priority::high>(
    caf::actor_cast<caf::actor>(&step),
    caf::exit_msg{step.address(), caf::exit_reason::kill});
  sched.run();
  CAF_CHECK(log.exactly<events::step_crashed>(1));
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK(home->leases.all().empty());
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "1");
  // The slot is free: the other row runs.
  CAF_REQUIRE(db->waiting());
  turn();
  CAF_REQUIRE(db->waiting());
  turn();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "1");
  // The row comes back with its lease.
  auto reaper = sys.spawn<reaper_actor>(home);
  actors.push_back(reaper);
  sched.run();
  rows.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
            "where status = 'executing'");
  db->since = sched.clock().now() - 1h;
  finish_all();
  pass(40s); // looks
  pass(3s);
  CAF_CHECK(log.exactly<events::reaped>(1));
  CAF_CHECK_EQUAL(count("attempt = 1"), "1");
  CAF_CHECK_EQUAL(handled, 0);
}

CAF_TEST(a plain step without an outcome frees its slot at once and its row waits
           for its lease) {
  insert(2);
  spawn_picker({"default", 1, 0});
  db->run_one();
  sched.run_once(); // the picker has the row, the step has not run
  CAF_REQUIRE_EQUAL(home->leases.all().size(), 1u);
  home->leases.all().front()->decide(gd::decider::death);
  sched.run();
  CAF_CHECK(log.exactly<events::step_crashed>(1));
  CAF_CHECK(home->leases.all().empty());
  finish_all();
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "1");
}

CAF_TEST(a plain step whose lease is lost before it begins does not run) {
  machine.first = [](probe_context&) -> gd::outcome {
    CAF_FAIL("the step ran");
    return gd::done();
  };
  insert(1);
  spawn_picker({"default", 1, 0});
  db->run_one();
  sched.run_once(); // the picker has the row, the step has not run
  CAF_REQUIRE_EQUAL(home->leases.all().size(), 1u);
  home->leases.all().front()->lost = true;
  sched.run();
  finish_all();
  CAF_CHECK(log.all<events::step_started>().empty());
  CAF_CHECK(home->leases.all().empty());
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "1");
}

CAF_TEST(plain steps and others share the slots in the order of the picks) {
  std::vector<async_context<probe_state>> open;
  std::vector<std::int64_t> begun;
  auto end = [](probe_context&) { return gd::done(); };
  other = gd::define<probe_state, probe_step>("Probe", 1)
            .step(
              probe_step::first,
              [&](probe_context& ctx) {
    begun.push_back(ctx.id);
    return gd::done();
              })
    .step(probe_step::second, async([&](async_context<probe_state> ctx) {
            begun.push_back(ctx->id);
            open.push_back(ctx);
            ctx.self->become([](int) {});
          }))
    .step(probe_step::third, end)
    .on_error(machine.handler);
  rows.rows("insert into gen_durable (fsm, step) select 'Probe', case when i "
            "in (3, 4, 5) then 'second' else 'first' end from "
            "generate_series(1, 8) i");
  spawn_picker({"default", 2, 8});
  finish_all();
  // Two asynchronous steps have both slots.
  CAF_CHECK_EQUAL(begun, (std::vector<std::int64_t>{1, 2, 3, 4}));
  for (std::size_t i = 0; i < 3; ++i) {
    CAF_REQUIRE(i < open.size());
    open[i].finish(gd::done());
    sched.run();
    finish_all();
  }
  CAF_CHECK_EQUAL(begun, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  CAF_CHECK_EQUAL(count("status = 'done'"), "8");
}

CAF_TEST(a runner that dies takes its picker along) {
  insert(3);
  auto picker = spawn_picker({"default", 2, 10});
  bool down = false;
  actors.push_back(sys.spawn([&](caf::event_based_actor* me) -> caf::behavior {
    me->monitor(picker);
    me->set_down_handler([&](const caf::down_msg&) { down = true; });
    return {[](int) {}};
  }));
  sched.run();
  db->run_one();
  sched.run_once(); // the picker has two rows, no step has run
  CAF_REQUIRE_EQUAL(home->leases.all().size(), 2u);
  auto& runner = sched.next_job<runner_actor>();
  anon_send<caf::message_priority::high>(
    caf::actor_cast<caf::actor>(&runner),
    caf::exit_msg{runner.address(), caf::exit_reason::kill});
  sched.run();
  CAF_CHECK(down);
  CAF_CHECK(home->leases.all().empty());
  CAF_CHECK_EQUAL(count("status = 'executing'"), "2");
}

CAF_TEST(a crashed picker takes its steps along and their rows wait for their leases) {
  machine.first = [](probe_context&) -> gd::outcome { return gd::done(); };
  insert(5);
  auto picker = spawn_picker({"default", 2, 10});
  db->run_one();
  sched.run_once();
  CAF_CHECK_EQUAL(home->leases.all().size(), 2u);
  anon_send_exit(picker, caf::exit_reason::kill);
  sched.run();
  CAF_CHECK(home->leases.all().empty());
  CAF_CHECK_EQUAL(count("status = 'executing'"), "2");
}

CAF_TEST(an idle queue asks once per poll interval) {
  spawn_picker({"default", 10, 10});
  turn();
  auto before = db->submitted;
  for (int i = 0; i < 10; ++i) {
    sched.advance_time(1s);
    sched.run();
    CAF_CHECK_EQUAL(db->next(), "gd_pick ");
    finish_all();
  }
  CAF_CHECK_EQUAL(db->submitted - before, 10);
}

CAF_TEST(a hint wakes an idle queue before its poll) {
  auto picker = spawn_picker({"default", 10, 10});
  turn();
  CAF_CHECK(!db->waiting());
  insert(1);
  anon(picker, hint{});
  sched.run();
  CAF_REQUIRE(db->waiting());
  turn();
  turn();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(a row from before the last pick is seen with a hint that says so
         or the poll) {
  auto picker = spawn_picker({"default", 10, 10});
  auto insert_at = [&](const std::string& when) {
    rows.rows("insert into gen_durable (fsm, step, eligible_at) values "
              "('Probe', 'first', $1)",
              {when});
  };
  auto wake = [&](hint x) {
    anon(picker, x);
    sched.run();
    CAF_CHECK(db->waiting());
    finish_all();
  };
  finish_all();
  insert_at("2026-01-01 00:00:10Z");
  wake(hint{});
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  insert_at("2026-01-01 00:00:09Z");
  wake(hint{});
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  wake(hint{true});
  CAF_CHECK_EQUAL(count("status = 'done'"), "2");
  insert_at("2026-01-01 00:00:08Z");
  wake(hint{});
  CAF_CHECK_EQUAL(count("status = 'done'"), "2");
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST(a step is told that it is done only after its commit) {
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  // The step has reported; its outcome is on its way.
  CAF_CHECK(log.all<events::step_committed>().empty());
  CAF_CHECK_EQUAL(home->leases.all().size(), 1u);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  turn();
  CAF_CHECK(log.exactly<events::step_committed>(1));
  CAF_CHECK(home->leases.all().empty());
}

CAF_TEST(a lone outcome that leaves nothing to pick does not wait for a pick) {
  insert(1);
  spawn_picker({"default", 10, 10});
  turn();
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush_done commit");
  turn();
  CAF_CHECK(log.exactly<events::step_committed>(1));
  CAF_CHECK_EQUAL(db->next(), "gd_pick "); // what else has come
  turn();
  CAF_CHECK_EQUAL(db->next(), "nothing");
}

CAF_TEST(a step is picked by the transaction that has made it runnable) {
  machine.first = [](probe_context& ctx) {
    return gd::next(probe_step::second, ctx.state);
  };
  machine.second = [](probe_context&) -> gd::outcome { return gd::done(); };
  insert(1);
  spawn_picker({"default", 10, 10});
  turn();
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush_next gd_pick commit");
  turn();
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush_done commit");
}

CAF_TEST(what comes in during a turn shares the next one) {
  insert(50);
  spawn_picker({"default", 50, 0});
  turn();
  auto before = db->submitted;
  // The first outcome goes alone, or with what is there, then all others.
  for (int i = 0; i < 2 && db->waiting(); ++i)
    turn();
  CAF_CHECK_EQUAL(count("status = 'done'"), "50");
  CAF_CHECK(db->submitted - before <= 2);
}

CAF_TEST(quick steps let the queue pick further ahead from turn to turn) {
  insert(500);
  spawn_picker({"default", 4, 64});
  turn();
  CAF_CHECK_EQUAL(count("status = 'executing'"), "4");
  turn();
  turn();
  CAF_CHECK(home->leases.all().size() > 4u);
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "500");
  // Although they end before the next transaction begins: 4 a turn would take
  // more than a hundred.
  CAF_CHECK(db->submitted < 40);
}

CAF_TEST(as much is prefetched as would have ended had there been more) {
  fill_and_spawn(100us);
  CAF_CHECK_EQUAL(started_in(1ms), 4u);
  // They took 400 us, so ten might end in the next transaction if that takes as
  // long as the last one. Four times as many are prefetched.
  CAF_CHECK_EQUAL(started_in(800us), 4u + 4u * 10);
  // Of these, eight would have ended in 800 us.
  CAF_CHECK_EQUAL(started_in(0us), 4u + 4u * 8);
}

CAF_TEST(
  a few quick steps are not trusted further than four times their number) {
  fill_and_spawn(1us);
  CAF_CHECK_EQUAL(started_in(0us), 4u);
  CAF_CHECK_EQUAL(started_in(1s), 4u);
  CAF_CHECK_EQUAL(started_in(0us), 4u * 16);
}

CAF_TEST(rows ahead are released when the steps turn slow) {
  std::chrono::microseconds step = 10us;
  machine.first = [this, &step](probe_context&) {
    sched.clock().current_time += step;
    if (step > 1s)
      linger();
    return gd::done();
  };
  insert(2'000);
  spawn_picker({"default", 4, 1'000});
  auto prefetched = [&] { return std::stoi(count("status = 'executing'")); };
  for (int i = 0; i < 100 && prefetched() < 200; ++i)
    started_in(10ms);
  CAF_REQUIRE(prefetched() >= 200);
  CAF_CHECK(log.all<events::rows_released>().empty());
  step = 20s;
  auto before = log.all<events::step_started>().size();
  for (int i = 0; i < 1'000 && prefetched() > 8; ++i)
    run_in_turn();
  // A quarter of the lease has no room for more than one after the other, and all
  // that is known of the new speed are the steps that have been slow.
  CAF_CHECK_LESS_OR_EQUAL(prefetched(), 8);
  CAF_CHECK_LESS(log.all<events::step_started>().size() - before, 20u);
  CAF_CHECK(!log.all<events::rows_released>().empty());
  CAF_CHECK_EQUAL(count("attempt > 0"), "0");
}

CAF_TEST(slots that plain steps have no thread for hold no rows for long) {
  machine.first = [this](probe_context&) {
    sched.clock().current_time += 20s;
    linger();
    return gd::done();
  };
  insert(300);
  spawn_picker({"default", 200, 0});
  db->run_one();
  sched.run_once();
  // Nothing is known of them.
  CAF_CHECK_EQUAL(count("status = 'executing'"), "200");
  for (int i = 0; i < 100; ++i)
    run_in_turn();
  // As many as its threads can begin, and those that they run.
  auto threads = static_cast<int>(runners_at_most(sys));
  CAF_CHECK_LESS_OR_EQUAL(std::stoi(count("status = 'executing'")),
                          2 * threads);
  CAF_CHECK_EQUAL(count("attempt > 0"), "0");
}

CAF_TEST(nothing is prefetched of steps that take long) {
  std::deque<async_context<probe_state>> open;
  begin_with({}, async([&](async_context<probe_state> ctx) {
               open.push_back(ctx);
               ctx.self->become([](int) {});
             }));
  insert(20);
  spawn_picker({"default", 2, 64});
  turn();
  for (int i = 0; i < 10; ++i) {
    pass(10s);
    CAF_REQUIRE_EQUAL(open.size(), 2u);
    CAF_CHECK_EQUAL(count("status = 'executing'"), "2");
    open.front().finish(gd::done());
    open.pop_front();
    sched.run();
    finish_all();
  }
  CAF_CHECK_EQUAL(count("status = 'done'"), "10");
}

CAF_TEST(an outcome whose commit was not answered is sent again
         and applied once) {
  machine.first = [](probe_context& ctx) { return gd::replay(ctx.state, 1h); };
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  db->run_one_and_lose_the_answer();
  sched.run();
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
  CAF_CHECK(log.exactly<events::outcome_unknown>(1));
  CAF_CHECK(log.all<events::outcome_stale>().empty());
}

CAF_TEST(
  what a pick of unknown fate took is released with its attempt unchanged) {
  insert(10);
  spawn_picker({"default", 4, 0});
  db->run_one_and_lose_the_answer();
  sched.run();
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "4");
  CAF_CHECK(log.exactly<events::pick_lost>(1));
  for (int i = 0; i < 100 && count("status = 'done'") != "10"; ++i) {
    pass(100ms);
  }
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "10");
}

CAF_TEST(an outage keeps outcomes and leases until the database is back) {
  insert(3);
  spawn_picker({"default", 3, 0});
  turn();
  for (int i = 0; i < 20; ++i) {
    if (db->waiting())
      db->drop_one(errc::unavailable);
    sched.run();
    sched.advance_time(1s);
    sched.run();
  }
  CAF_CHECK_EQUAL(home->leases.all().size(), 3u);
  for (int i = 0; i < 20; ++i) {
    finish_all();
    sched.advance_time(1s);
    sched.run();
  }
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "3");
}

CAF_TEST(after a reconnect nothing is reaped for one heartbeat interval) {
  insert_expired(1);
  db->since = sched.clock().now();
  home->config.heartbeat = 20s;
  home->config.reaper = 1s;
  spawn_reaper();
  auto tick_through = [&](int seconds) {
    for (int i = 0; i < seconds; ++i)
      pass(1s);
  };
  tick_through(19);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  tick_through(2);
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1");
  // And no reaping at all while there is no connection.
  rows.rows("update gen_durable set status = 'executing', locked_by = 'b/0/1', "
            "lease_expires_at = now() - interval '1 s'");
  db->since = std::nullopt;
  tick_through(30);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
}

CAF_TEST(
  steps whose rows a stranger has locked are not reaped however many they are) {
  insert_expired(2'500);
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id <= 2400 for update");
  db->since = sched.clock().now() - 1h;
  home->config.reaper = 1s;
  spawn_reaper();
  for (int sweep = 0; sweep < 3; ++sweep)
    pass(1s);
  sched.advance_time(1s);
  sched.run();
  // The stranger ends after the look at what is locked, and before the rows move.
  while (db->next().find("gd_reap") == std::string::npos)
    turn();
  stranger.exec("rollback");
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "100");
  CAF_CHECK_EQUAL(count("status = 'runnable' and id <= 2400"), "0");
}

CAF_TEST(wake - ups that nobody holds up come however many others are held up) {
  prepare();
  insert(200);
  // Each might collide: its unique key is free while it waits.
  rows.rows("update gen_durable set status = 'awaiting_signal', awaits = 'x', "
            "deadline = now() - interval '1 s', unique_key = int8send(id), "
            "unique_scope = '{runnable,executing}'");
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id <= 150 for update");
  db->since = sched.clock().now() - 1h;
  home->config.poll = 1s;
  spawn_reaper();
  for (int sweep = 0; sweep < 10; ++sweep)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable' and id > 150"), "50");
  stranger.exec("rollback");
  for (int sweep = 0; sweep < 10; ++sweep)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "200");
}

CAF_TEST(a beat that is refused for one row extends all others) {
  insert_held(300);
  rows.rows("create function refuse() returns trigger language plpgsql as $$ "
            "begin raise exception 'not this one'; end $$; "
            "create trigger refuse before update on gen_durable for each row "
            "when (new.id = 123) execute function refuse()");
  spawn<heartbeat_actor>();
  pass(20s);
  CAF_CHECK_EQUAL(extended(), "299");
  auto told = log.all<events::sweep_failed>();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(home->leases.all().size(), 300u);
}

CAF_TEST(a beat that fails at once is tried again at growing intervals) {
  insert_held(1);
  spawn<heartbeat_actor>();
  sched.advance_time(20s);
  sched.run();
  // As with a full disk.
  for (int i = 0; i < 19 * 50; ++i) {
    while (db->waiting())
      db->drop_one(errc::unavailable);
    sched.advance_time(20ms);
    sched.run();
  }
  // After 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 and 12.7 s.
  CAF_CHECK_EQUAL(log.all<events::sweep_failed>().size(), 8u);
  pass(0s);
  pass(20s);
  CAF_CHECK_EQUAL(extended(), "1");
}

CAF_TEST(an outcome that has just been committed is not told as a lost lease) {
  insert_held(2);
  for (const auto& x : home->leases.all())
    if (x->id == 1)
      CAF_REQUIRE(x->decide(gd::decider::step));
  spawn<heartbeat_actor>();
  // The commit that ends the first comes before the beat; its answer after it.
  rows.rows("update gen_durable set status = 'done', locked_by = null, "
            "lease_expires_at = null");
  pass(20s);
  auto lost = log.all<events::lease_lost>();
  CAF_REQUIRE_EQUAL(lost.size(), 1u);
  CAF_CHECK_EQUAL(lost.front().id, 2);
}

CAF_TEST(
  a lease whose row a stranger keeps locked is tried alone every second) {
  insert_held(2);
  home->config.heartbeat = 20s;
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = 1 for update");
  spawn<heartbeat_actor>();
  pass(20s);
  CAF_CHECK_EQUAL(
    count("id = 2 and lease_expires_at > clock_timestamp() + interval '50 s'"),
    "1");
  CAF_CHECK_EQUAL(home->leases.all().size(), 2u);
  stranger.exec("rollback");
  pass(1s);
  CAF_CHECK_EQUAL(extended(), "2");
  CAF_CHECK(log.all<events::lease_lost>().empty());
}

CAF_TEST(a consumed signal that a stranger locks holds back no other row) {
  machine.first = [](probe_context& ctx) {
    return ctx.discard("say") ? gd::done() : gd::stop("no signal");
  };
  insert(8);
  rows.rows("insert into gen_durable_signals (target_id, name) select id, "
            "'say' from gen_durable");
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec(
    "select from gen_durable_signals where target_id = 3 for update");
  spawn_picker({"default", 8, 0});
  for (int i = 0; i < 100 && count("status = 'done'") != "7"; ++i) {
    finish_all();
    sched.advance_time(10ms);
    sched.run();
  }
  CAF_CHECK_EQUAL(count("status = 'done'"), "7");
  CAF_CHECK_EQUAL(count("status = 'executing' and id = 3"), "1");
  stranger.exec("rollback");
  for (int i = 0; i < 100 && count("status = 'done'") != "8"; ++i) {
    finish_all();
    sched.advance_time(100ms);
    sched.run();
  }
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "8");
  CAF_CHECK_EQUAL(rows.scalar("select count(*) from gen_durable_signals"), "0");
}

CAF_TEST(an asynchronous step has five minutes if nothing else is said) {
  std::vector<async_context<probe_state>> kept;
  begin_with({}, async([&](async_context<probe_state> ctx) {
               kept.push_back(std::move(ctx));
             }));
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  pass(299s);
  CAF_CHECK_EQUAL(handled, 0);
  pass(1s);
  CAF_CHECK_EQUAL(handled, 1);
  CAF_CHECK_EQUAL(
    count("status = 'failed' and last_error = 'step first took longer than "
          "300s'"),
    "1");
}

CAF_TEST(a time limit holds while no answer comes from the database) {
  std::vector<async_context<probe_state>> kept;
  begin_with({.limit = 1500ms}, async([&](async_context<probe_state> ctx) {
               kept.push_back(std::move(ctx));
             }));
  insert(1);
  spawn_picker({"default", 2, 0});
  turn();
  sched.advance_time(1s); // a poll, which is not answered
  sched.run();
  CAF_REQUIRE(db->waiting());
  CAF_CHECK_EQUAL(handled, 0);
  sched.advance_time(500ms);
  sched.run();
  CAF_CHECK_EQUAL(handled, 1);
  finish_all();
  CAF_CHECK_EQUAL(count("last_error = 'step first took longer than 1500ms'"),
                  "1");
}

CAF_TEST(
  a step that cannot end has its slot after its limit and until it is down) {
  auto promises = std::make_shared<std::vector<caf::response_promise>>();
  actors.push_back(
    sys.spawn([promises](caf::event_based_actor* me) -> caf::behavior {
      return {
        [me, promises](int) {
      promises->push_back(me->make_response_promise());
      return promises->back();
        },
        [promises](caf::ok_atom) {
      for (auto& x : std::exchange(*promises, {}))
        x.deliver(1);
      },
        };
    }));
  auto deaf = actors.back();
  int begun = 0;
  begin_with({.limit = 30s}, async([&](async_context<probe_state> ctx) {
               ++begun;
               // It does not even see that it is to end.
               ctx.self->request(deaf, caf::infinite, 1).await([ctx](int) {});
             }));
  insert(2);
  spawn_picker({"default", 1, 0});
  turn();
  pass(29s);
  CAF_CHECK_EQUAL(handled, 0);
  pass(1s);
  CAF_CHECK_EQUAL(handled, 1);
  CAF_CHECK_EQUAL(count("status = 'failed'"), "1");
  for (int i = 0; i < 10; ++i)
    pass(1s);
  CAF_CHECK_EQUAL(begun, 1);
  CAF_CHECK(log.all<events::step_returned_late>().empty());
  anon(deaf, caf::ok_atom::value);
  pass(1s);
  CAF_CHECK(log.exactly<events::step_returned_late>(1));
  CAF_CHECK_EQUAL(begun, 2);
  CAF_CHECK_EQUAL(count("status = 'failed'"), "1");
  anon(deaf, caf::ok_atom::value);
  sched.run();
}

CAF_TEST(the limit of a plain step counts from when it begins to run) {
  int ran = 0;
  begin_with({.limit = 30s}, [&](probe_context&) {
    ++ran;
    return gd::done();
  });
  insert(1);
  take_all_permits();
  spawn_picker({"default", 1, 0});
  turn();
  pass(60s);
  CAF_CHECK_EQUAL(ran, 0);
  CAF_CHECK(log.all<events::step_started>().empty());
  return_permits();
  pass(0s);
  CAF_CHECK_EQUAL(ran, 1);
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "1");
}

CAF_TEST(a step whose lease is lost while it waits for a thread does not run) {
  begin_with({.limit = 30s}, [](probe_context&) -> gd::outcome {
    CAF_FAIL("the step ran");
    return gd::done();
  });
  insert(1);
  take_all_permits();
  spawn_picker({"default", 1, 0});
  turn();
  CAF_REQUIRE_EQUAL(home->leases.all().size(), 1u);
  home->leases.all().front()->lost = true;
  return_permits();
  pass(0s);
  CAF_CHECK(home->leases.all().empty());
  CAF_CHECK(log.all<events::step_crashed>().empty());
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "1");
}

CAF_TEST(no plain step begins while too much is to be written) {
  begin_while_nothing_is_written({});
}

CAF_TEST(no step with a limit begins while too much is to be written) {
  begin_while_nothing_is_written({.limit = 1h});
}

CAF_TEST(a runner gives its thread back after a slow step) {
  machine.first = [](probe_context&) {
    linger();
    return gd::done();
  };
  insert(3);
  spawn_picker({"default", 3, 0});
  db->run_one();
  sched.run_once(); // the picker has three rows, no step has run
  auto& runner = sched.next_job<runner_actor>();
  sched.jobs.pop_front();
  // As CAF's threads do: until it has nothing more to do.
  caf::scoped_execution_unit thread{&sys};
  auto after = runner.resume(&thread, std::numeric_limits<std::size_t>::max());
  CAF_CHECK_EQUAL(log.all<events::step_started>().size(), 1u);
  CAF_REQUIRE(after == caf::resumable::resume_later);
  sched.jobs.push_back(&runner);
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST(draining releases what was prefetched and takes no more) {
  machine.first = [](probe_context& ctx) {
    return gd::next(probe_step::second, ctx.state);
  };
  insert(30);
  auto picker = spawn_picker({"default", 2, 20});
  turn();
  turn(); // ended steps let it pick ahead
  CAF_REQUIRE(db->waiting());
  auto sink = sys.spawn([]() -> caf::behavior { return {[](drained&) {}}; });
  actors.push_back(sink);
  caf::send_as(sink, caf::actor_cast<caf::actor>(picker), drain{10s});
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'executing'"), "0");
  CAF_CHECK_EQUAL(count("attempt = 0"), "30");
  CAF_CHECK(home->leases.all().empty());
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- running ahead ------------------------------------------------------------

struct ahead_fixture : picker_fixture {
  std::vector<std::string> tokens;
  std::vector<std::string> inboxes;

  /// Three steps, of which each says what it has been given.
  void run_ahead(std::int32_t steps) {
    auto go = [this](std::optional<probe_step> to) {
      return [this, to](probe_context& ctx) -> gd::outcome {
        tokens.push_back(ctx.lease_token());
        std::string inbox;
        for (const auto& x : ctx.peek_all("mail"))
          inbox += x.payload;
        if (ctx.take_raw("mail"))
          inbox += "!";
        inboxes.push_back(inbox);
        if (to)
          return gd::next(*to, ctx.state);
        return gd::done();
      };
    };
    other = gd::define<probe_state, probe_step>("Probe", 1)
              .step(probe_step::first, go(probe_step::second))
              .step(probe_step::second, go(probe_step::third))
              .step(probe_step::third, go(std::nullopt))
              .run_ahead(steps);
  }

  void send(const std::string& payload) {
    rows.rows("insert into gen_durable_signals (target_id, name, payload) "
              "select id, 'mail', $1::text::jsonb from gen_durable",
              {payload});
  }
};

CAF_TEST_FIXTURE_SCOPE(ahead_tests, ahead_fixture)

CAF_TEST(a row that runs ahead goes on after each commit under a new token) {
  run_ahead(10);
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  CAF_CHECK_EQUAL(tokens.size(), 1u);
  CAF_CHECK_EQUAL(count("step = 'first'"), "1"); // nothing is committed yet
  for (const auto* step : {"second", "third"}) {
    turn();
    CAF_CHECK_EQUAL(count("status = 'executing' and step = '"
                          + std::string{step} + "' and locked_by = '"
                          + tokens.back() + "'"),
                    "1");
    CAF_REQUIRE_EQUAL(home->leases.all().size(), 1u);
    CAF_CHECK_EQUAL(home->leases.all().front()->token, tokens.back());
  }
  turn();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK(home->leases.all().empty());
  CAF_REQUIRE_EQUAL(tokens.size(), 3u);
  CAF_CHECK_EQUAL((std::set<std::string>{tokens.begin(), tokens.end()}).size(),
                  3u);
  CAF_CHECK(log.exactly<events::step_committed>(3));
}

CAF_TEST(a row takes its place in the queue again after as many steps as may run
           ahead) {
  run_ahead(1);
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  turn();
  CAF_CHECK_EQUAL(count("status = 'executing' and step = 'second'"), "1");
  CAF_REQUIRE_EQUAL(tokens.size(), 2u);
  rows.rows("insert into gen_durable (fsm, step, priority) values ('Probe', "
            "'third', -1)");
  turn(); // what is more urgent goes first
  CAF_CHECK_EQUAL(count("status = 'runnable' and step = 'third'"), "1");
  CAF_CHECK_EQUAL(count("status = 'executing' and priority = -1"), "1");
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "2");
}

CAF_TEST(rows with a partition key do not run ahead) {
  run_ahead(10);
  rows.rows("insert into gen_durable (fsm, step, partition_key) values "
            "('Probe', 'first', 'k'), ('Probe', 'first', 'k')");
  spawn_picker({"default", 1, 0});
  while (tokens.empty())
    turn();
  turn();
  CAF_MESSAGE("whoever has waited longer has the key next");
  CAF_CHECK_EQUAL(count("status = 'runnable' and step = 'second'"), "1");
  CAF_CHECK_EQUAL(count("status = 'executing' and step = 'first'"), "1");
}

CAF_TEST(a step that ran ahead is shown what came and not what was taken) {
  run_ahead(10);
  insert(1);
  send("1");
  spawn_picker({"default", 1, 0});
  turn();
  send("2");
  turn();
  turn();
  turn();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK_EQUAL(inboxes, (std::vector<std::string>{"1!", "2!", ""}));
}

CAF_TEST(
  an advance whose commit was not answered is released under its new token) {
  run_ahead(10);
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  db->run_one_and_lose_the_answer();
  sched.run();
  CAF_CHECK_EQUAL(count("status = 'executing' and step = 'second'"), "1");
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "1");
  CAF_CHECK(log.exactly<events::outcome_unknown>(1));
  CAF_CHECK_EQUAL(tokens.size(), 3u); // no step twice
}

CAF_TEST(an advance that was lost before its commit is sent again) {
  run_ahead(10);
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  db->drop_one(errc::unknown_fate);
  sched.run();
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "1");
  CAF_CHECK_EQUAL(tokens.size(), 3u);
}

CAF_TEST(a killed picker releases what an advance was moving) {
  run_ahead(10);
  insert(1);
  auto picker = spawn_picker({"default", 1, 0});
  turn();
  CAF_REQUIRE(db->waiting()); // the advance
  anon_send_exit(picker, caf::exit_reason::kill);
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'runnable' and step = 'second' and attempt = "
                        "0"),
                  "1");
}

CAF_TEST(a queue that drains releases what would run ahead) {
  run_ahead(10);
  insert(1);
  auto picker = spawn_picker({"default", 1, 0});
  turn();
  CAF_REQUIRE(db->waiting()); // the advance
  auto sink = sys.spawn([]() -> caf::behavior { return {[](drained&) {}}; });
  actors.push_back(sink);
  caf::send_as(sink, caf::actor_cast<caf::actor>(picker), drain{10s});
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'runnable' and step = 'second' and attempt = "
                        "0"),
                  "1");
  CAF_CHECK(home->leases.all().empty());
}

CAF_TEST(a stale worker that runs ahead changes nothing and stops) {
  run_ahead(10);
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  rows.rows("update gen_durable set locked_by = 'b/0/1'");
  turn();
  CAF_CHECK(log.exactly<events::outcome_stale>(1));
  CAF_CHECK_EQUAL(count("step = 'first' and locked_by = 'b/0/1'"), "1");
  CAF_CHECK_EQUAL(tokens.size(), 1u);
  CAF_CHECK(home->leases.all().empty());
}

CAF_TEST(a queue with a row that can be neither picked nor failed
           is not polled in a loop) {
  insert(1);
  rows.rows("alter table gen_durable add constraint never "
            "check (step <> 'first') not valid");
  spawn_picker({"default", 1, 0});
  finish_all();
  for (int i = 0; i < 70; ++i)
    pass(1s);
  // Twice in a minute it is tried, in seven transactions.
  CAF_CHECK_GREATER_OR_EQUAL(log.all<events::row_unusable>().size(), 1u);
  CAF_CHECK_LESS_OR_EQUAL(log.all<events::row_unusable>().size(), 2u);
  CAF_CHECK_LESS_OR_EQUAL(db->submitted, 1 + 2 * 7 + 70);
  using fate = events::row_unusable::fate;
  for (const auto& x : log.all<events::row_unusable>())
    CAF_CHECK(x.what == fate::left_out);
  CAF_MESSAGE("and what comes is run in the next poll");
  rows.rows("insert into gen_durable (fsm, step) values ('Probe', 'second')");
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(a row that makes each pick fail is failed and the others run) {
  for (const auto* key : {"null", "'key ' || i"}) {
    rows.rows("truncate gen_durable cascade; drop function if exists refuse "
              "cascade; insert into gen_durable (fsm, step, partition_key) "
              "select 'Probe', case i when 30 then 'third' else 'second' end, "s
              + key
              + " from generate_series(1, 50) i; create function refuse() "
                "returns trigger language plpgsql as $$ begin raise exception "
                "'not this one'; end $$; create trigger refuse before update "
                "on gen_durable for each row when (new.step = 'third' and "
                "new.status = 'executing') execute function refuse()");
    auto picker = spawn_picker({"default", 20, 20});
    finish_all();
    for (int i = 0; i < 5; ++i)
      pass(1s);
    CAF_CHECK_EQUAL(count("status = 'done'"), "49");
    CAF_CHECK_EQUAL(count("status = 'failed' and last_error = 'its row cannot "
                          "be picked: not this one'"),
                    "1");
    CAF_CHECK(home->keys->all().empty());
    anon_send_exit(picker, caf::exit_reason::kill);
    sched.run();
    finish_all();
  }
  auto unusable = log.all<events::row_unusable>();
  auto ends = log.all<events::instance_failed>();
  CAF_REQUIRE_EQUAL(unusable.size(), 2u);
  CAF_REQUIRE_EQUAL(ends.size(), 2u);
  CAF_CHECK_EQUAL(ends.front().step, "third"s);
  CAF_CHECK_EQUAL(ends.front().fsm, "Probe"s);
  CAF_CHECK_EQUAL(ends.front().id, unusable.front().id);
  CAF_CHECK(ends.front().why.starts_with("its row cannot be picked: "));
}

CAF_TEST(rows that cannot be read end failed and the others run) {
  auto unprintable = "(select jsonb_build_object('n', jsonb_agg("
                     "'1e131071'::numeric)) from generate_series(1, 9000))"s;
  auto too_long = "jsonb_build_object('text', repeat('x', 17000000))"s;
  insert(8);
  rows.rows("set gd.trusted = 'json'; update gen_durable set state = "
            + unprintable
            + " where id = 2; update gen_durable set state = " + too_long
            + " where id = 4; insert into gen_durable_signals (target_id, "
              "name, payload) "
              "select 7, 'x', "
            + too_long);
  machine.first = [](probe_context&) { return gd::done(); };
  spawn_picker({"default", 8, 0});
  finish_all();
  for (int i = 0; i < 5; ++i)
    pass(1s);
  CAF_CHECK_EQUAL(count("status = 'done' and id in (1, 3, 5, 6, 8)"), "5");
  CAF_CHECK_EQUAL(count("status = 'failed' and last_error like 'its row cannot "
                        "be read: %' and id = 2"),
                  "1");
  CAF_CHECK_EQUAL(count("status = 'failed' and last_error = 'its state is "
                        "longer than 16777216 bytes, or has a number of more "
                        "than 400 characters' and id = 4"),
                  "1");
  CAF_CHECK_EQUAL(count("status = 'failed' and last_error = 'a signal''s "
                        "payload is longer than 16777216 bytes, or has a "
                        "number of more than 400 characters' and id = 7"),
                  "1");
  CAF_CHECK_EQUAL(handled, 0);
  CAF_CHECK_EQUAL(log.all<events::row_unusable>().size(), 3u);
  CAF_CHECK(log.exactly<events::instance_failed>(3));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace picker_suite
