#define CAF_SUITE engine

#include "actors/harness.hpp"

#include <caf/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <set>

namespace engine_suite {

using namespace gd::test;
using gd::errc;
namespace events = gd::events;

namespace {

gd::insert probe_insert(std::int64_t n = 0) {
  return {.fsm = "Probe", .state = gd::to_json(probe_state{n, {}})};
}

/// first -> second -> third -> done, counting.
probe chain() {
  probe x;
  x.first = [](probe_context& ctx) {
    ++ctx.state.n;
    return gd::next(probe_step::second, ctx.state);
  };
  x.second = [](probe_context& ctx) {
    ++ctx.state.n;
    return gd::next(probe_step::third, ctx.state);
  };
  x.third = [](probe_context& ctx) { return gd::done(ctx.state); };
  return x;
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(engine_tests, engine_fixture)

CAF_TEST(
  an inserted instance runs to its end with the state that each step returned) {
  auto engine = start(options({chain()}));
  auto row = ask<gd::inserted>(engine, probe_insert(40));
  CAF_REQUIRE(row);
  wait_until_count("status = 'done'", 1);
  auto x = ask<gd::instance>(engine, gd::look_up{row->id});
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->status, "done");
  CAF_CHECK_EQUAL(x->attempt, 0);
  auto result = x->result_as<probe_state>();
  CAF_REQUIRE(result);
  CAF_CHECK_EQUAL(result->n, 42);
}

CAF_TEST(a history has every step whether they run ahead or not ) {
  int done = 0;
  for (std::int32_t ahead : {0, 100}) {
    gd::machine kept = chain();
    kept.history = gd::history::with_state;
    kept.run_ahead = ahead;
    auto engine = start(options({kept}));
    auto row = ask<gd::inserted>(engine, probe_insert(40));
    CAF_REQUIRE(row);
    wait_until_count("status = 'done'", ++done);
    auto page = ask<gd::history_page>(engine, gd::history_query{.id = row->id});
    CAF_REQUIRE(page);
    std::string told;
    for (const auto& x : page->rows)
      told += std::to_string(x.seq) + " " + x.outcome + " " + x.to_step + ", ";
    CAF_CHECK_EQUAL(told, "0 insert first, 1 next second, 2 next third, "
                          "3 done third, ");
    auto found = ask<gd::in_step_page>(
      engine, gd::in_step_query{.fsm = "Probe", .step = "third"});
    CAF_REQUIRE(found);
    CAF_CHECK_EQUAL(found->rows.size(), static_cast<std::size_t>(done));
    CAF_CHECK_EQUAL(found->rows.front().id, row->id);
    CAF_CHECK(!ask<gd::history_page>(
      engine, gd::history_query{.id = row->id, .limit = 0}));
  }
}

CAF_TEST(entries that are there already keep neither their row nor the group
           from going on) {
  gd::machine kept = chain();
  kept.history = gd::history::steps;
  insert(20);
  db.rows("update gen_durable set history = 1, ledger_step = step");
  // Of each outcome that the one in the middle is to have.
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version,"
          " outcome, to_step, attempt) select g.id, n, now(), 1, 'old', 'x', 0"
          " from (select id from gen_durable order by id offset 10 limit 1) g,"
          " generate_series(1, 3) n");
  auto engine = start(options({kept}));
  wait_until_count("status = 'done' and attempt = 0 and seq = 3", 20);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(distinct format('%s %s>%s', "
                            "outcome, from_step, to_step), ' ') from "
                            "gen_durable_ledger where seq > 0"),
                  "done third>third next first>second next second>third");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_ledger"), "60");
}

CAF_TEST(two engines in one process share the work and run no row
           twice while leases live) {
  insert(600);
  gate both;
  auto gated = chain();
  gated.first = [&](probe_context& ctx) {
    both.pass();
    return gd::next(probe_step::second, ctx.state);
  };
  auto serve = [&](std::string name) {
    auto opts = options({gated}, std::move(name));
    opts.queues = {{"default", 3, 64}};
    return start(std::move(opts));
  };
  auto a = serve("a");
  auto b = serve("b");
  // More than one of them can run at a time.
  CAF_REQUIRE(both.wait_for(4));
  both.open();
  wait_until_count("status = 'done'", 600);
  auto begun = starts();
  CAF_CHECK_EQUAL(begun.size(), 1800u);
  CAF_CHECK(std::all_of(begun.begin(), begun.end(),
                        [](const auto& x) { return x.second == 1; }));
  std::set<char> nodes;
  for (const auto& x : log.all<events::step_started>())
    nodes.insert(x.token.front());
  CAF_CHECK_EQUAL(nodes.size(), 2u);
}

CAF_TEST(a step that takes long holds back no other outcome and no other step) {
  gate slow;
  probe x;
  x.first = [&](probe_context& ctx) {
    if (ctx.id % 100 == 50)
      slow.pass();
    return gd::done();
  };
  insert(300);
  auto opts = options({x});
  opts.queues = {{"default", 4, 64}};
  auto engine = start(std::move(opts));
  CAF_REQUIRE(slow.wait_for(3)); // of four slots
  wait_until_count("status = 'done'", 297);
  slow.open();
  wait_until_count("status = 'done' and attempt = 0", 300);
}

CAF_TEST(an unknown machine or version waits for a node that knows it untouched) {
  insert(3, "Probe", "first", 2);
  insert(3, "Other");
  insert(1);
  auto before = db.rows("select * from gen_durable where fsm_version = 2 or "
                        "fsm = 'Other' order by id");
  auto a = start(options({chain()}, "a"));
  wait_until_count("status = 'done'", 1);
  auto after = db.rows("select * from gen_durable where fsm_version = 2 or fsm "
                       "= 'Other' order by id");
  CAF_CHECK(before == after);
  auto b = start(
    options({chain().named("Probe", 2), chain().named("Other", 1)}, "b"));
  wait_until_count("status = 'done'", 7);
}

CAF_TEST(a signal wakes an instance and is gone when the outcome is committed) {
  probe x;
  x.first = [](probe_context& ctx) -> gd::outcome {
    if (auto said = ctx.take<word>("say")) {
      ctx.state.note += said->text;
      return gd::done(ctx.state);
    }
    return gd::await("say", ctx.state);
  };
  auto engine = start(options({x}));
  auto row = ask<gd::inserted>(engine, probe_insert());
  CAF_REQUIRE(row);
  wait_until_count("status = 'awaiting_signal'", 1);
  auto other = ask<gd::signalled>(
    engine, gd::signal{row->id, "other", gd::to_json(word{"x"})});
  CAF_CHECK(other);
  auto first = ask<gd::signalled>(
    engine, gd::signal{row->id, "say", gd::to_json(word{"hello"}), "evt-1"});
  CAF_REQUIRE(first);
  CAF_CHECK(!first->duplicate);
  wait_until_count("status = 'done'", 1);
  CAF_CHECK_EQUAL(db.scalar("select result ->> 'note' from gen_durable"),
                  "hello");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(name, ',') from "
                            "gen_durable_signals where consumed_at is null"),
                  "other");
  auto late = ask<gd::signalled>(
    engine, gd::signal{row->id, "say", gd::to_json(word{"more"})});
  CAF_REQUIRE(!late);
  CAF_CHECK(late.error().code == errc::target_finished);
  auto nobody = ask<gd::signalled>(
    engine, gd::signal{row->id + 1, "say", gd::to_json(word{"more"})});
  CAF_REQUIRE(!nobody);
  CAF_CHECK(nobody.error().code == errc::no_such_target);
}

CAF_TEST(a signal that came before the await wakes it) {
  gate arrived;
  probe x;
  x.first = [&](probe_context& ctx) -> gd::outcome {
    if (ctx.take<word>("say"))
      return gd::done();
    arrived.pass();
    return gd::await("say", ctx.state);
  };
  auto engine = start(options({x}));
  auto row = ask<gd::inserted>(engine, probe_insert());
  CAF_REQUIRE(row);
  CAF_REQUIRE(arrived.wait_for(1));
  CAF_CHECK(ask<gd::signalled>(
    engine, gd::signal{row->id, "say", gd::to_json(word{"x"})}));
  arrived.open();
  wait_until_count("status = 'done'", 1);
}

CAF_TEST(a step that peeks and awaits again sleeps until something new comes) {
  std::atomic<int> runs = 0;
  probe x;
  x.first = [&](probe_context& ctx) -> gd::outcome {
    ++runs;
    auto seen = ctx.peek_all("say");
    if (seen.size() == 2)
      return gd::done();
    return gd::await("say", ctx.state);
  };
  auto engine = start(options({x}));
  auto row = ask<gd::inserted>(engine, probe_insert());
  CAF_REQUIRE(row);
  CAF_REQUIRE(log.wait_for<events::step_committed>(1));
  CAF_CHECK(ask<gd::signalled>(
    engine, gd::signal{row->id, "say", gd::to_json(word{"1"})}));
  CAF_REQUIRE(log.wait_for<events::step_committed>(2));
  // It is parked on a signal that it has; another instance shows that the
  // engine has had turns since.
  CAF_CHECK_EQUAL(count("status = 'awaiting_signal'"), "1");
  auto after = ask<gd::inserted>(engine, probe_insert());
  CAF_REQUIRE(after);
  CAF_REQUIRE(log.wait_for<events::step_committed>(3));
  CAF_CHECK_EQUAL(runs.load(), 3);
  CAF_CHECK(ask<gd::signalled>(
    engine, gd::signal{row->id, "say", gd::to_json(word{"2"})}));
  wait_until_count("status = 'done'", 1);
  CAF_CHECK_EQUAL(runs.load(), 4);
}

CAF_TEST(a deadline wakes once and the step learns that it was the timeout also
           after a crash) {
  gate crash_here;
  std::atomic<int> runs = 0;
  probe x;
  x.first = [&](probe_context& ctx) -> gd::outcome {
    if (!ctx.timed_out())
      return gd::await("say", ctx.state).timeout(60 * 24h);
    if (++runs == 1)
      crash_here.pass();
    ctx.state.note = "late";
    return gd::done(ctx.state);
  };
  auto engine = start(options({x}, "a"));
  CAF_REQUIRE(ask<gd::inserted>(engine, probe_insert()));
  wait_until_count(
    "status = 'awaiting_signal' and deadline > now() + interval '59 days'", 1);
  db.rows("update gen_durable set deadline = now() - interval '1 s'");
  CAF_REQUIRE(crash_here.wait_for(1));
  // Its lease ends, as if the process had died.
  db.rows("update gen_durable set locked_by = 'somebody/else/1', "
          "lease_expires_at = now() - interval '1 s'");
  wait_until_count("status = 'done'", 1);
  CAF_CHECK_EQUAL(db.scalar("select result ->> 'note' from gen_durable"),
                  "late");
  CAF_CHECK_EQUAL(db.scalar("select attempt from gen_durable"), "1");
  crash_here.open();
  CAF_CHECK(log.wait_for<events::outcome_stale>());
  CAF_CHECK(log.exactly<events::deadlines_fired>(1));
}

CAF_TEST(a worker whose lease was reaped and picked again cannot write
         or consume) {
  gate slow;
  std::atomic<int> runs = 0;
  probe x;
  x.first = [&](probe_context& ctx) -> gd::outcome {
    auto said = ctx.take<word>("say");
    if (++runs == 1) {
      slow.pass();
      ctx.state.note = "the zombie";
      return gd::done(ctx.state);
    }
    ctx.state.note = said ? said->text : "nothing";
    return gd::replay(ctx.state, 1h);
  };
  insert(1);
  db.rows("insert into gen_durable_signals (target_id, name, payload) select "
          "id, 'say', "
          "'{\"text\": \"kept\"}' from gen_durable");
  auto engine = start(options({x}, "a"));
  CAF_REQUIRE(slow.wait_for(1));
  db.rows("update gen_durable set locked_by = 'somebody/else/1', "
          "lease_expires_at = now() - interval '1 s'");
  // This very node picks it again, under another token.
  wait_until_count("status = 'runnable' and attempt = 1 and crashes = 0", 1);
  auto before = db.rows("select * from gen_durable");
  slow.open();
  CAF_CHECK(log.wait_for<events::outcome_stale>());
  CAF_CHECK(db.rows("select * from gen_durable") == before);
  CAF_CHECK_EQUAL(db.scalar("select state ->> 'note' from gen_durable"),
                  "kept");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "1");
}

CAF_TEST(a lost lease is told to the step) {
  gate slow;
  std::atomic<bool> told = false;
  probe x;
  x.first = [&](probe_context& ctx) -> gd::outcome {
    slow.pass();
    told = ctx.lease_lost();
    return gd::done();
  };
  insert(1);
  auto engine = start(options({x}));
  CAF_REQUIRE(slow.wait_for(1));
  db.rows("update gen_durable set locked_by = 'somebody/else/1'");
  CAF_REQUIRE(log.wait_for<events::lease_lost>());
  slow.open();
  CAF_CHECK(log.wait_for<events::outcome_stale>());
  CAF_CHECK(told);
}

CAF_TEST(heartbeats keep a lease alive for as long as the step runs) {
  gate slow;
  probe x;
  x.first = [&](probe_context&) -> gd::outcome {
    slow.pass();
    return gd::done();
  };
  insert(1);
  auto engine = start(options({x}));
  CAF_REQUIRE(slow.wait_for(1));
  // Nearly over, and extended before it is.
  db.rows("update gen_durable set lease_expires_at = clock_timestamp() + "
          "interval '5 s'");
  wait_until_count("lease_expires_at > clock_timestamp() + interval '50 s'", 1);
  slow.open();
  wait_until_count("status = 'done'", 1);
  CAF_CHECK(log.all<events::reaped>().empty());
}

CAF_TEST(what a step throws reaches the handler with the state as picked) {
  probe x;
  x.first = [](probe_context& ctx) -> gd::outcome {
    ctx.state.n = -1;
    throw 42;
  };
  x.handler = [](const gd::failure& why, probe_context& ctx) -> gd::outcome {
    ctx.state.note = why.message();
    return gd::next(probe_step::second, ctx.state);
  };
  x.second = [](probe_context& ctx) { return gd::done(ctx.state); };
  auto engine = start(options({x}));
  CAF_REQUIRE(ask<gd::inserted>(engine, probe_insert(7)));
  wait_until_count("status = 'done'", 1);
  CAF_CHECK_EQUAL(db.scalar("select result ->> 'n' from gen_durable"), "7");
  CAF_CHECK_EQUAL(db.scalar("select result ->> 'note' from gen_durable"),
                  "something that is no std::exception was thrown");
}

CAF_TEST(an undecodable state fails its instance with the path and leaves the
           state alone) {
  insert(1);
  db.rows("update gen_durable set state = '{\"n\": \"seven\"}'");
  auto engine = start(options({chain()}));
  wait_until_count("status = 'failed'", 1);
  CAF_CHECK_EQUAL(db.scalar("select state ->> 'n' from gen_durable"), "seven");
  CAF_CHECK_EQUAL(
    db.scalar(
      "select last_error like '%$.n: expected integer%' from gen_durable"),
    "t");
}

CAF_TEST(an outcome that the database refuses reaches the handler and spoils no
           neighbour) {
  // A constraint of the user's own stands for whatever data can do wrong.
  db.rows("alter table gen_durable add constraint no_thirteen check (state ->> "
          "'n' is distinct from '13')");
  probe x = chain();
  x.first = [](probe_context& ctx) {
    ctx.state.n = ctx.id == 50 ? 13 : 1;
    return gd::next(probe_step::third, ctx.state);
  };
  insert(100);
  auto engine = start(options({x}));
  wait_until_count("status = 'done'", 99);
  wait_until_count("status = 'failed' and id = 50", 1);
  CAF_CHECK(log.exactly<events::outcome_refused>(1));
  auto begun = starts();
  CAF_CHECK(std::all_of(begun.begin(), begun.end(),
                        [](const auto& y) { return y.second == 1; }));
}

CAF_TEST(a graceful stop commits what runs and releases what has not begun) {
  gate slow;
  probe x;
  x.first = [&](probe_context& ctx) -> gd::outcome {
    slow.pass();
    return gd::next(probe_step::second, ctx.state);
  };
  insert(20);
  auto opts = options({x});
  opts.queues = {{"default", 4, 0}};
  opts.stop_grace = patience;
  auto engine = start(std::move(opts));
  CAF_REQUIRE(slow.wait_for(4));
  auto stopping = std::async(std::launch::async, [&] { engine.stop(); });
  slow.open();
  stopping.get();
  // However far it came before it was told to stop.
  CAF_CHECK_EQUAL(count("status = 'executing'"), "0");
  CAF_CHECK_EQUAL(count("attempt > 0"), "0");
  CAF_CHECK_EQUAL(log.all<events::step_started>().size(),
                  log.all<events::step_committed>().size());
  auto end = log.all<events::node_stopped>();
  CAF_CHECK_EQUAL(end.size(), 1u);
  CAF_REQUIRE(!end.empty());
  CAF_CHECK_EQUAL(end.front().abandoned, 0u);
}

CAF_TEST(a stop under load loses nothing and runs nothing twice) {
  for (int round = 0; round < 5; ++round) {
    insert(400);
    auto engine = start(options({chain()}));
    CAF_REQUIRE(log.wait_for<events::step_committed>(
      log.all<events::step_committed>().size() + 200));
    engine.stop();
    CAF_CHECK_EQUAL(count("status = 'executing'"), "0");
    CAF_CHECK_EQUAL(count("attempt > 0"), "0");
  }
  auto engine = start(options({chain()}));
  wait_until_count("status = 'done'", 2'000);
  auto begun = starts();
  CAF_CHECK_EQUAL(begun.size(), 6'000u);
  CAF_CHECK(std::all_of(begun.begin(), begun.end(),
                        [](const auto& x) { return x.second == 1; }));
}

CAF_TEST(a step that outlives the stop waits for its lease and is not released) {
  gate slow;
  probe x;
  x.first = [&](probe_context&) -> gd::outcome {
    slow.pass();
    return gd::done();
  };
  insert(1);
  auto opts = options({x});
  opts.stop_grace = 10ms;
  auto engine = start(std::move(opts));
  CAF_REQUIRE(slow.wait_for(1));
  auto stopping = std::async(std::launch::async, [&] { engine.stop(); });
  CAF_REQUIRE(log.wait_for<events::node_stopped>());
  auto end = log.all<events::node_stopped>().front();
  CAF_CHECK_EQUAL(end.abandoned, 1u);
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "1");
  slow.open();
  stopping.get();
}

CAF_TEST(connections that are cut again and again lose nothing) {
  auto engine = start(options({chain()}));
  std::size_t committed = 0;
  for (int round = 0; round < 15; ++round) {
    insert(200);
    CAF_REQUIRE(log.wait_for<events::step_committed>(committed + 100));
    committed = log.all<events::step_committed>().size();
    db.terminate_engines();
  }
  // Outcomes of unknown fate may have been applied by the first try.
  wait_until_count("status = 'done'", 3'000);
  CAF_CHECK_EQUAL(count("attempt > 0"), "0");
  CAF_CHECK(!log.all<events::disconnected>().empty());
}

CAF_TEST(
  wrong options are refused at start with the field and what was expected) {
  auto refused = [&](gd::config x) {
    auto engine = gd::actors::start(sys, std::move(x));
    return engine ? std::string{"accepted"} : engine.error().message;
  };
  auto opts = options({chain()});
  opts.heartbeat = 30s;
  CAF_CHECK_EQUAL(
    refused(opts),
    "heartbeat: expected less than half of the lease (60000 ms), got 30000 ms");
  opts = options({chain(), chain()});
  CAF_CHECK_EQUAL(refused(opts), "machines: Probe v1 is registered twice");
  opts = options({chain()});
  opts.queues = {{"a", 0}};
  CAF_CHECK_EQUAL(refused(opts), "queue a: slots: expected 1 to 10000, got 0");
  opts = options({chain()});
  opts.database = "host=x password='secret";
  CAF_CHECK_EQUAL(refused(opts).find("secret"), std::string::npos);
  opts = options({gd::define<probe_state, probe_step>("Half", 1).step(
    probe_step::first, chain().first)});
  CAF_CHECK_EQUAL(
    refused(opts),
    "Half v1: step second has no function, expected .step(second, ...), "
    ".rest(...) or .final(...)");
}

CAF_TEST(an incompatible schema stops the engine with a clear error) {
  db.note_version(99, 98);
  auto engine = start(options({chain()}));
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  CAF_REQUIRE(log.wait_for<events::node_stopped>());
  auto why = engine.failed();
  CAF_REQUIRE(why);
  CAF_CHECK(why->code == errc::schema_mismatch);
  auto answer = ask<gd::inserted>(engine, probe_insert());
  CAF_CHECK(!answer);
}

CAF_TEST(a node that no migration can have seen sees the migration) {
  session stranger{db.conninfo()};
  stranger.exec("begin; lock table gen_durable_nodes in share mode");
  insert(1);
  auto engine = start(options({chain()}));
  // It has read the version, and is not known.
  db.wait_until("select count(*) > 0 from pg_locks where not granted and "
                "relation = 'gen_durable_nodes'::regclass",
                "t");
  CAF_CHECK_EQUAL(stranger.scalar("select count(*) from gen_durable_nodes"),
                  "0");
  db.note_version(99, 98);
  stranger.exec("commit");
  CAF_REQUIRE(log.wait_for<events::node_stopped>());
  auto why = engine.failed();
  CAF_REQUIRE(why);
  CAF_CHECK(why->code == errc::schema_mismatch);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
}

CAF_TEST(an insert into the past begins at once) {
  auto opts = options({chain()});
  opts.poll = 1h;
  auto engine = start(std::move(opts));
  auto row = probe_insert();
  for (std::int64_t at : {1'000'000'000, 10'000'000, 0}) {
    row.eligible_at_us = at * 1'000'000;
    CAF_REQUIRE(ask<gd::inserted>(engine, row));
    CAF_REQUIRE(ask<gd::inserted>(engine, probe_insert()));
  }
  wait_until_count("status = 'done'", 6);
}

CAF_TEST(inserts are answered row by row in the order given) {
  auto engine = start(options({chain()}));
  gd::insert_all all;
  for (int i = 0; i < 1'200; ++i) {
    all.rows.push_back(probe_insert(i));
    if (i % 100 == 7)
      all.rows.back().fsm = "Nobody";
    if (i % 100 == 8)
      all.rows.back().state = gd::json::raw("{\"n\": 1, \"colour\": 2}");
    if (i % 100 == 9)
      all.rows.back().partition_key = "";
  }
  auto answer = ask<gd::inserted_all>(engine, all);
  CAF_REQUIRE(answer);
  CAF_REQUIRE_EQUAL(answer->rows.size(), 1'200u);
  for (int i = 0; i < 1'200; ++i) {
    const auto& x = answer->rows[static_cast<std::size_t>(i)];
    auto expected = i % 100 == 7   ? errc::unknown_machine
                    : i % 100 == 8 ? errc::codec
                    : i % 100 == 9 ? errc::invalid_argument
                                   : errc{};
    if (x.code != expected || x.id.has_value() != (expected == errc{}))
      CAF_ERROR("row " << i << ": " << x.message);
  }
  wait_until_count("status = 'done'", 1'164);
  CAF_CHECK_EQUAL(
    db.scalar("select sum((result ->> 'n')::int - 2) from gen_durable"),
    db.scalar("select sum(i) from generate_series(0, 1199) i where i % 100 not "
              "in (7, 8, 9)"));
  auto none = ask<gd::inserted_all>(engine, gd::insert_all{});
  CAF_REQUIRE(none);
  CAF_CHECK(none->rows.empty());
}

CAF_TEST(many senders share commits) {
  auto engine = start(options({chain()}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  caf::scoped_actor self{sys};
  for (int i = 0; i < 500; ++i) {
    auto row = probe_insert(i);
    row.queue = "nobody's"; // untouched, a row keeps its transaction's number
    self->send(engine.gateway(), row);
  }
  int answers = 0;
  self->receive_for(answers, 500)([&](gd::inserted) {});
  CAF_CHECK_EQUAL(count("true"), "500");
  CAF_CHECK_EQUAL(
    db.scalar("select count(distinct xmin::text) < 100 from gen_durable"), "t");
}

CAF_TEST(the gateway tells why and names who is not there) {
  auto engine = start(options({chain()}));
  insert(1, "Probe", "first", 2);
  auto id = std::stoll(db.scalar("select id from gen_durable"));
  auto x = ask<gd::why>(engine, gd::why_query{.id = id});
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->cause, "version_unknown");
  x = ask<gd::why>(engine, gd::why_query{.id = id + 1});
  CAF_REQUIRE(!x);
  CAF_CHECK_EQUAL(x.error().message,
                  "there is no instance " + std::to_string(id + 1));
  CAF_CHECK(x.error().code == errc::not_found);
  x = ask<gd::why>(engine, gd::why_query{.key = "order 42"});
  CAF_REQUIRE(!x);
  CAF_CHECK(x.error().message.find("order 42") != std::string::npos);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace engine_suite
