// What outcomes carry, through an engine: of steps of each kind, of handlers, of what runs
// ahead.

#define CAF_SUITE carried

#include "actors/harness.hpp"

#include <gd/actors/async.hpp>

#include <caf/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace carried_suite {

using namespace gd::test;
namespace events = gd::events;

namespace {

using async_probe = gd::actors::async_context<probe_state>;

/// Inserts, signals and books; to whom the note tells.
template <class Outcome>
Outcome send(Outcome x, std::int64_t id, const probe_state& state) {
  return std::move(x)
    .insert({.fsm = "Child", .state = gd::to_json(probe_state{.n = id})})
    .signal(
      {.name = "word", .payload = gd::to_json(word{"sent"}), .key = state.note})
    .sql("insert into sent values ($1)", id)
    .expect_rows(1);
}

gd::outcome handle(const gd::failure& why, probe_context& ctx) {
  const auto* refused = why.refused();
  if (refused == nullptr)
    return gd::stop(why.message());
  ctx.state.note = "target";
  ++ctx.state.n;
  return send(gd::done(ctx.state), ctx.id, ctx.state);
}

template <class First>
gd::machine sender(const std::string& name, gd::step_options how, First first) {
  return gd::define<probe_state, probe_step>(name, 1)
    .step(probe_step::first, how, std::move(first))
    .step(probe_step::second,
          [](probe_context& ctx) { return gd::done(ctx.state); })
    .step(probe_step::third,
          [](probe_context& ctx) { return gd::done(ctx.state); })
    .on_error(handle);
}

struct fixture : engine_fixture {
  std::vector<gd::machine> machines() {
    auto plain = [](probe_context& ctx) -> gd::outcome {
      return send(gd::next(probe_step::second, ctx.state), ctx.id, ctx.state);
    };
    auto later = [](const async_probe& ctx) {
      ctx.finish(
        send(gd::next(probe_step::second, ctx->state), ctx->id, ctx->state));
    };
    gd::machine ahead
      = gd::define<probe_state, probe_step>("Ahead", 1)
          .run_ahead(10)
          .step(probe_step::first, plain)
          .step(probe_step::second,
                [](probe_context& ctx) -> gd::outcome {
                  return send(gd::next(probe_step::third, ctx.state), ctx.id,
                              ctx.state);
                })
          .step(probe_step::third,
                [](probe_context& ctx) { return gd::done(ctx.state); })
          .on_error(handle);
    probe child;
    return {sender("Plain", {}, plain),
            sender("Limited", {.limit = 10s}, plain),
            sender("Blocking", {.blocking = true}, plain),
            sender("Later", {}, gd::actors::async(later)),
            ahead,
            child.named("Child", 1),
            child.named("Target", 1)};
  }

  gd::actors::engine start() {
    db.rows("create table sent (id bigint); insert into gen_durable (fsm, "
            "step, status, awaits, "
            "unique_key, unique_scope, unique_guard) values ('Target', "
            "'second', 'awaiting_signal', 'never', "
            "'target', '{awaiting_signal}', 'target')");
    auto how = options(machines());
    how.effects.search_path = "public";
    return engine_fixture::start(std::move(how));
  }

  void insert(const std::string& fsm, const std::string& to) {
    db.rows("insert into gen_durable (fsm, step, state) values ($1, 'first', "
            "jsonb_build_object('n', 0, 'note', $2::text))",
            {fsm, to});
  }

  std::string sent(const std::string& fsm) {
    return db.scalar("select count(*) from sent s join gen_durable g on g.id = "
                     "s.id where g.fsm = $1",
                     {fsm});
  }
};

const std::vector<std::string> kinds{"Plain", "Limited", "Blocking", "Later",
                                     "Ahead"};

} // namespace

CAF_TEST_FIXTURE_SCOPE(carried_tests, fixture)

CAF_TEST(steps of each kind carry what they return ) {
  auto engine = start();
  for (const auto& fsm : kinds)
    insert(fsm, "target");
  db.wait_until("select count(*) from gen_durable where status = 'done'", "11");
  for (const auto& fsm : kinds)
    CAF_CHECK_EQUAL(sent(fsm), fsm == "Ahead" ? "2" : "1");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "6");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable where fsm = 'Child'"), "6");
  engine.stop();
  std::size_t inserts = 0, signals = 0, statements = 0;
  for (const auto& x : log.all<events::effects_done>()) {
    inserts += x.inserts;
    signals += x.signals;
    statements += x.statements;
  }
  CAF_CHECK_EQUAL(inserts, 6u);
  CAF_CHECK_EQUAL(signals, 6u);
  CAF_CHECK_EQUAL(statements, 6u);
}

CAF_TEST(handlers of each kind are told and carry instead) {
  auto engine = start();
  for (const auto& fsm : kinds)
    insert(fsm, "nobody");
  db.wait_until("select count(*) from gen_durable where status = 'done' and "
                "result ->> 'n' = '1'",
                "5");
  for (const auto& fsm : kinds)
    CAF_CHECK_EQUAL(sent(fsm), "1");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable where fsm = 'Child'"), "5");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "5");
  engine.stop();
  CAF_CHECK(log.exactly<events::outcome_refused>(5));
}

CAF_TEST(an outcome waits for its target and its instance keeps its lease) {
  auto engine = start();
  session stranger{db.conninfo()};
  stranger.exec(
    "begin; select from gen_durable where fsm = 'Target' for update");
  insert("Plain", "target");
  CAF_CHECK(log.wait_for<events::outcome_held_up>());
  CAF_CHECK_EQUAL(
    db.scalar("select status from gen_durable where fsm = 'Plain'"),
    "executing");
  db.wait_until("select w.cause from gen_durable g, gd_why(g.id) w where g.fsm "
                "= 'Plain'",
                "held_up");
  stranger.exec("commit");
  db.wait_until(
    "select count(*) from gen_durable where fsm = 'Plain' and status = 'done'",
    "1");
  engine.stop();
  CAF_CHECK(log.exactly<events::outcome_held_up>(1));
}

CAF_TEST(a history tells how many effects an entry has carried) {
  auto engine = start();
  db.rows("insert into gen_durable (fsm, step, state, history, ledger_step) "
          "select x, 'first', '{\"n\": 0, \"note\": \"target\"}', 1, 'first' "
          "from unnest('{Plain,Ahead}'::text[]) x");
  db.wait_until("select count(*) from gen_durable where fsm in ('Plain', "
                "'Ahead') and status = 'done'",
                "2");
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(l.outcome || coalesce(l.effects, 0), ' ' "
              "order by g.fsm, l.seq) from "
              "gen_durable_ledger l join gen_durable g on g.id = l.instance_id "
              "where g.fsm in ('Plain', 'Ahead') and l.seq > 0"),
    "next3 next3 done0 next3 done0");
  engine.stop();
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace carried_suite
