#define CAF_SUITE rewind

// Rewind and fork: an instance goes back to an entry of its history, or another begins
// there. What is refused changes nothing, and the ledger has no gap whoever is in the way.

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>

#include <support/database.hpp>
#include <support/ledger.hpp>
#include <support/opened.hpp>
#include <support/traps.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

namespace rewind_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace store = gd::store;

using gd::errc;
using gd::test::refusal;
using gd::test::session;
using gd::test::sql_error;
using gd::test::temporary_database;
using gd::test::text;
using gd::test::why_refused;
using store::outcome_row;
using store::write_kind;

struct order {
  int n = 0;
  GD_STATE(order, n);
};

GD_ENUM(order_step, collect, pay, ship, submitted, closed);

gd::machine order_machine(gd::history how = gd::history::with_state) {
  using enum order_step;
  return gd::define<order, order_step>("Order", 1)
    .history(how)
    .step(
      collect,
      [](gd::context<order>& ctx) {
    ctx.state.n += 1;
    return gd::next(pay, ctx.state);
      })
    .step(pay,
          [](gd::context<order>& ctx) -> gd::outcome {
            if (auto paid = ctx.take<order>("paid")) {
              ctx.state.n += paid->n;
              return gd::next(ship, ctx.state);
            }
            return gd::await("paid", ctx.state);
          })
    .step(ship, [](gd::context<order>& ctx) { return gd::done(ctx.state); })
    .rest(submitted, {collect, closed}, {.after = 1h, .then = closed})
    .final(closed);
}

/// The only cell of what was started there.
std::string answer_of(session& in) {
  return in.finish().front().front().value();
}

struct fixture : gd::test::opened_database {
  fixture() {
    run(connect(), store::register_machines(store::known({order_machine()})));
  }

  gd::testing::in_database engine() {
    return engine_of(order_machine());
  }

  /// An instance that has collected, waited for its payment and come to ship; with
  /// all that an instance can have in that status.
  std::int64_t instance(const std::string& status, const std::string& key = {},
                        const std::string& scope = "{}") {
    auto id = db.scalar(
      "insert into gen_durable (fsm, step, status, state, queue, priority,"
      " partition_key, seq, history, ledger_step, awaits, deadline,"
      " wake_reason, eligible_at, attempt, crashes, excused, trials, "
      "last_error, result,"
      " locked_by, lease_expires_at, unique_key, unique_scope)"
      " select 'Order', 'ship', s, '{\"n\": 3}', 'default', 7, 'customer', 3,"
      " 2, 'ship', case s when 'awaiting_signal' then 'paid' end,"
      " now() + interval '1 h', case when s <> 'awaiting_signal' then"
      " 'timeout' end, now() + interval '2 h', 4, 2, 1, 1, 'no stock', case s"
      " when 'done' then jsonb '{\"ok\": true}' end, case s when 'executing'"
      " then 'node/1/1' end, case s when 'executing' then now() + interval"
      " '1 min' end, nullif($2, '')::bytea, $3::gen_durable_status[]"
      " from (values ($1::gen_durable_status)) x (s) returning id",
      {status, key, scope});
    db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version,"
            " outcome, from_step, to_step, attempt, state)"
            " select $1::bigint, v.seq, now(), 1, o, f, t,"
            " case v.seq when 3 then 4 else 0 end, s::jsonb from (values"
            " (0, 'insert', null, 'collect', '{\"n\": 0}'),"
            " (1, 'next', 'collect', 'pay', '{\"n\": 1}'),"
            " (2, 'await', 'pay', 'pay', '{\"n\": 2}'),"
            " (3, 'next', 'pay', 'ship', '{\"n\": 3}')) v (seq, o, f, t, s)",
            {id});
    return std::stoll(id);
  }

  /// Makes it so that its entry 2 led to that step.
  void lead_to(std::int64_t id, const std::string& step) {
    db.rows("update gen_durable_ledger set"
            " to_step = case seq when 2 then $2 else to_step end,"
            " from_step = case seq when 3 then $2 else from_step end"
            " where instance_id = $1::bigint",
            {text(id), step});
  }

  /// Everything that is stored but for the sequences.
  std::string everything() {
    return db.scalar(
      "select concat((select string_agg(g::text, '; ' order by id) from"
      " gen_durable g), (select string_agg(l::text, '; ' order by"
      " instance_id, seq) from gen_durable_ledger l), (select"
      " string_agg(s::text, '; ' order by id) from gen_durable_signals s))");
  }

  /// An instance's entries from one on, but for their times.
  std::string entries(std::int64_t id, int from = 0) {
    return db.scalar(
      "select string_agg(concat_ws(' ', seq, outcome, coalesce(from_step, '-')"
      " || '>' || to_step, attempt, token, wake_reason, 'by ' || by, reason,"
      " metadata, state), '; ' order by seq) from gen_durable_ledger"
      " where instance_id = $1 and seq >= $2::int",
      {text(id), std::to_string(from)});
  }
};

outcome_row next_row(std::int64_t id) {
  outcome_row x{.id = id, .token = "node/1/1", .what = write_kind::next};
  x.step = "pay";
  x.state = R"({"n": 9})";
  x.has_history = true;
  return x;
}

constexpr auto rewind_to = "select gd_rewind($1::bigint, $2::bigint)";
constexpr auto fork_from = "select gd_fork($1::bigint, $2::bigint)";

} // namespace

CAF_TEST_FIXTURE_SCOPE(rewind_tests, fixture)

// -- rewind -------------------------------------------------------------------

CAF_TEST(who is due or parked or finished is put back and begins anew there) {
  auto by = client();
  for (const auto* status : {"runnable", "awaiting_signal", "done", "failed"}) {
    CAF_MESSAGE(status);
    auto id = instance(status);
    auto kept = "concat_ws(' ', queue, priority, partition_key, history,"
                " fsm_version, inserted_at)";
    auto before = of(id, kept);
    auto now = by.rewind(
      {.target = id, .seq = 1, .reason = "wrong address", .by = "ann"});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->seq, 4);
    CAF_CHECK_EQUAL(now->status, "runnable");
    CAF_CHECK_EQUAL(
      of(id, "concat_ws(' ', status, step, ledger_step, state, seq, attempt,"
             " crashes, excused, trials)"),
      "runnable pay pay {\"n\": 1} 4 0 0 0");
    CAF_CHECK_EQUAL(
      of(id, "num_nulls(result, last_error, awaits, deadline, wake_reason,"
             " locked_by, lease_expires_at)"),
      "7");
    CAF_CHECK_EQUAL(of(id, "eligible_at <= now() and updated_at <= now()"),
                    "t");
    CAF_CHECK_EQUAL(of(id, kept), before);
    CAF_CHECK_EQUAL(entries(id, 4), "4 rewind ship>pay 0 by ann wrong address "
                                    "{\"seq\": 1} {\"n\": 1}");
  }
  check_path();
}

CAF_TEST(an engine goes on from there and the ledger has no gap) {
  auto kit = engine();
  auto id = kit.insert({.fsm = "Order", .state = gd::to_json(order{})})->id;
  CAF_REQUIRE(kit.drain());
  CAF_REQUIRE(kit.signal({id, "paid", gd::to_json(order{10})}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(+kit.result<order>(id)->n, 11);
  CAF_REQUIRE(client().rewind({.target = id, .seq = 1}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, step, awaits, state)"),
                  "awaiting_signal pay paid {\"n\": 1}");
  CAF_REQUIRE(kit.signal({id, "paid", gd::to_json(order{20})}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(+kit.result<order>(id)->n, 21);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(outcome, ' ' order by seq) from"
                            " gen_durable_ledger where instance_id = $1",
                            {text(id)}),
                  "insert next await next done rewind await next done");
  check_path();
}

CAF_TEST(signals that were consumed do not come back and are duplicates) {
  auto kit = engine();
  auto id = kit.insert({.fsm = "Order", .state = gd::to_json(order{})})->id;
  gd::signal webhook{id, "paid", gd::to_json(order{10}), "evt-1"};
  gd::signal unnamed{id, "paid", gd::to_json(order{20})};
  CAF_REQUIRE(kit.drain());
  CAF_REQUIRE(kit.signal(webhook));
  CAF_REQUIRE(kit.drain());
  CAF_REQUIRE(client().rewind({.target = id, .seq = 1}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(of(id, "status"), "awaiting_signal");
  auto again = kit.signal(webhook);
  CAF_REQUIRE(again);
  CAF_CHECK(again->duplicate);
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(of(id, "status"), "awaiting_signal");
  CAF_MESSAGE("one without a key, or with another, is new");
  CAF_REQUIRE(kit.signal(unnamed));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(+kit.result<order>(id)->n, 21);
  check_path();
}

CAF_TEST(a rewind is in the transaction of its caller) {
  auto id = instance("done");
  auto before = everything();
  session caller{db.conninfo()};
  caller.exec("begin");
  CAF_CHECK_EQUAL(caller.scalar(rewind_to, {text(id), "1"}), "4");
  CAF_CHECK_EQUAL(
    caller.scalar("select status from gen_durable where id = $1", {text(id)}),
    "runnable");
  caller.exec("rollback");
  CAF_CHECK_EQUAL(everything(), before);
}

// -- refusals -----------------------------------------------------------------

CAF_TEST(what cannot be done is refused with a sentence and nothing changes) {
  auto good = instance("done");
  auto executing = instance("executing");
  auto older = instance("failed");
  db.rows("update gen_durable_ledger set fsm_version = 2 where seq = 1 and"
          " instance_id = $1",
          {text(older)});
  lead_to(older, "pack");
  auto plain = instance("done");
  db.rows("update gen_durable_ledger set state = null where instance_id = $1",
          {text(plain)});
  db.rows("update gen_durable set history = 1 where id = $1", {text(plain)});
  auto none = db.scalar("insert into gen_durable (fsm, step) values"
                        " ('Order', 'collect') returning id");
  auto by = client();
  session caller{db.conninfo()};
  auto before = everything();
  struct refused {
    std::int64_t id;
    std::int64_t seq;
    std::string code;
    std::string state;
    std::string why;
    bool also_forks = true;
  };
  for (const auto& x : std::vector<refused>{
         {executing, 1, "transition_conflict", "MV003",
          "instance " + text(executing) + " is executing, step ship, seq 3",
          false},
         {404, 1, "not_found", "P0002", "there is no instance 404"},
         {good, 4, "not_found", "P0002",
          "the history of instance " + text(good) + " has no entry 4"},
         {good, -1, "not_found", "P0002",
          "the history of instance " + text(good) + " has no entry -1"},
         {std::stoll(none), 0, "not_found", "P0002",
          "the history of instance " + none + " has no entry 0"},
         {plain, 1, "not_allowed", "MV004",
          "entry 1 of instance " + text(plain)
            + " has no state; expected a machine whose history is with_state"},
         {older, 1, "not_allowed", "MV004",
          "entry 1 is of Order v2, and instance " + text(older) + " is of v1",
          false},
         {older, 2, "unknown_step", "42704",
          "step: expected one of collect|pay|ship|submitted|closed of Order "
          "v1, got pack"}}) {
    CAF_MESSAGE(x.why);
    CAF_CHECK_EQUAL(refusal(by.rewind({.target = x.id, .seq = x.seq})),
                    x.code + ": " + x.why);
    session::parameters which{text(x.id), text(x.seq)};
    CAF_CHECK_EQUAL(why_refused(caller, rewind_to, which),
                    x.state + " " + x.why);
    if (x.also_forks) {
      CAF_CHECK_EQUAL(refusal(by.fork({.target = x.id, .seq = x.seq})),
                      x.code + ": " + x.why);
      CAF_CHECK_EQUAL(why_refused(caller, fork_from, which),
                      x.state + " " + x.why);
    }
  }
  for (const auto* function : {"gd_rewind", "gd_fork"}) {
    auto call = [&](const std::string& arguments) {
      return why_refused(caller, "select "s + function + "(" + arguments + ")");
    };
    auto id = text(good);
    CAF_CHECK_EQUAL(call("null, 1"), "P0002 there is no instance <NULL>");
    CAF_CHECK_EQUAL(call(id + ", null"), "P0002 the history of instance " + id
                                           + " has no entry <NULL>");
    CAF_CHECK_EQUAL(call(id + ", 1, reason => repeat('x', 8193)"),
                    "22023 reason: expected at most 8192 bytes, got 8193");
    CAF_CHECK_EQUAL(call(id + ", 1, by => E'a\\tb'"),
                    "22023 by: expected 1 to 255 bytes of UTF-8 without "
                    "control characters, got byte 0x09 at offset 1");
    CAF_CHECK_EQUAL(call(id + ", 1, by => ''"),
                    "22023 by: expected 1 to 255 bytes of UTF-8 without "
                    "control characters, got nothing");
  }
  CAF_CHECK_EQUAL(why_refused(caller, "select gd_fork($1::bigint, 1, E'a\\tb')",
                              {text(good)}),
                  "22023 queue: expected 1 to 255 bytes of UTF-8 without "
                  "control characters, got byte 0x09 at offset 1");
  CAF_CHECK_EQUAL(
    refusal(by.rewind({.target = good, .seq = 1, .by = ""})).substr(0, 20),
    "invalid_argument: by");
  CAF_CHECK_EQUAL(
    refusal(by.fork({.target = good, .seq = 1, .by = "a\tb"})).substr(0, 20),
    "invalid_argument: by");
  CAF_CHECK_EQUAL(
    refusal(by.fork({.target = good, .seq = 1, .queue = "a\tb"})).substr(0, 23),
    "invalid_argument: queue");
  CAF_CHECK_EQUAL(everything(), before);
}

CAF_TEST(a rewind is refused outside of read committed and a fork is not ) {
  auto id = instance("done");
  auto before = everything();
  session caller{db.conninfo()};
  caller.exec("begin isolation level repeatable read");
  CAF_CHECK_EQUAL(why_refused(caller, rewind_to, {text(id), "1"}),
                  "25000 gd_rewind: expected isolation level read committed, "
                  "got repeatable read");
  caller.exec("rollback");
  CAF_CHECK_EQUAL(everything(), before);
  caller.exec("begin isolation level repeatable read");
  auto made = std::stoll(caller.scalar(fork_from, {text(id), "1"}));
  caller.exec("commit");
  CAF_CHECK_EQUAL(of(made, "step"), "pay");
}

CAF_TEST(an entry that was trimmed is no entry and the last one stays) {
  auto machine = order_machine();
  machine.history_keep = 24h;
  auto& on = connect();
  run(on, store::register_machines(store::known({machine})));
  auto id = instance("done");
  db.rows("update gen_durable_ledger set at = now() - interval '25 h'");
  run(on, store::trim_ledger({}, 10, 100));
  auto before = everything();
  auto by = client();
  for (std::int64_t seq : {0, 1, 2})
    CAF_CHECK_EQUAL(refusal(by.rewind({.target = id, .seq = seq})),
                    "not_found: the history of instance " + text(id)
                      + " has no entry " + text(seq));
  CAF_CHECK_EQUAL(everything(), before);
  CAF_CHECK(by.rewind({.target = id, .seq = 3}));
}

CAF_TEST(a reason of a program is cut to what is stored) {
  auto by = client();
  auto id = instance("done");
  std::string reason(10'000, 'x');
  reason[5] = '\0';
  CAF_REQUIRE(by.rewind({.target = id, .seq = 1, .reason = reason}));
  auto made = by.fork({.target = id, .seq = 1, .reason = reason});
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(concat_ws(' ',"
                            " octet_length(reason), left(reason, 7),"
                            " right(reason, 7)), ', ') from gen_durable_ledger"
                            " where reason is not null"),
                  "8192 xxxxx?x x [...], 8192 xxxxx?x x [...]");
}

CAF_TEST(a state over the default limits goes back by a program
         and not by SQL) {
  auto id = instance("done");
  db.rows("update gen_durable_ledger set state = jsonb_build_object('n', 1,"
          " 'text', repeat('x', 2000000)) where seq = 1");
  auto before = everything();
  session caller{db.conninfo()};
  for (const auto* call : {rewind_to, fork_from})
    CAF_CHECK_EQUAL(why_refused(caller, call, {text(id), "1"}),
                    "22023 state: expected at most 1048576 bytes of JSON, got "
                    "2000020");
  CAF_CHECK_EQUAL(everything(), before);
  auto by = client();
  CAF_CHECK(by.rewind({.target = id, .seq = 1}));
  CAF_CHECK(by.fork({.target = id, .seq = 1}));
}

// -- unique keys --------------------------------------------------------------

CAF_TEST(who has lost its unique key meanwhile is not put back) {
  auto by = client();
  for (const auto* scope : {"{runnable,executing,awaiting_signal}",
                            "{runnable,executing}", "{awaiting_signal}"}) {
    CAF_MESSAGE(scope);
    auto rests = scope == "{awaiting_signal}"s;
    auto id = instance("done", scope, scope);
    if (rests)
      lead_to(id, "submitted");
    auto other = db.scalar(
      "insert into gen_durable (fsm, step, unique_key,"
      " unique_scope, status, awaits) values ('m', 's',"
      " $1::bytea, $3::gen_durable_status[], case when $2::bool"
      " then 'awaiting_signal' else 'runnable' end"
      "::gen_durable_status, 'x') returning id",
      {scope, rests ? "true" : "false", scope});
    auto before = everything();
    gd::rewind what{.target = id, .seq = rests ? 2 : 1};
    auto why = "unique_key: instance " + other + " has it";
    CAF_CHECK_EQUAL(refusal(by.rewind(what)), "key_taken: " + why);
    session caller{db.conninfo()};
    CAF_CHECK_EQUAL(why_refused(caller, rewind_to, {text(id), text(what.seq)}),
                    "MV006 " + why);
    CAF_CHECK_EQUAL(everything(), before);
    CAF_MESSAGE("when it is free again, it is taken");
    db.rows("update gen_durable set status = 'done' where id = $1", {other});
    CAF_CHECK(by.rewind(what));
    CAF_CHECK_EQUAL(of(id, "unique_guard is not null"), "t");
  }
  check_path();
}

CAF_TEST(a key that somebody is about to take is waited for) {
  for (bool committed : {true, false}) {
    auto key = "k"s + (committed ? "1" : "2");
    auto id = instance("done", key, "{runnable,executing,awaiting_signal}");
    session stranger{db.conninfo()};
    session caller{db.conninfo()};
    stranger.exec("begin");
    stranger.exec("insert into gen_durable (fsm, step, unique_key,"
                  " unique_scope) values ('m', 's', $1::bytea,"
                  " '{runnable,executing,awaiting_signal}')",
                  {key});
    caller.start(rewind_to, {text(id), "1"});
    caller.wait_until_blocked_by(stranger);
    stranger.exec(committed ? "commit" : "rollback");
    try {
      caller.finish();
      CAF_CHECK(!committed);
    } catch (const sql_error& why) {
      CAF_CHECK(committed);
      CAF_CHECK_EQUAL(why.sqlstate(), "MV006");
    }
    CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, seq)"),
                    committed ? "done 3" : "runnable 4");
  }
  check_path();
}

// -- steps where nothing runs -------------------------------------------------

CAF_TEST(a step that rests is gone back to parked until its deadline) {
  auto by = client();
  for (const auto* status : {"runnable", "awaiting_signal", "done", "failed"}) {
    auto id = instance(status);
    lead_to(id, "submitted");
    auto now = by.rewind({.target = id, .seq = 2});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->status, "awaiting_signal");
    auto made = by.fork({.target = id, .seq = 2});
    CAF_REQUIRE(made);
    for (auto x : {id, made->id}) {
      CAF_CHECK_EQUAL(of(x, "concat(status, ' ', step, ' <', awaits, '> ',"
                            " round(extract(epoch from deadline - updated_at)),"
                            " ' ', state)"),
                      "awaiting_signal submitted <> 3600 {\"n\": 2}");
      CAF_CHECK_EQUAL(of(x, "num_nulls(result, wake_reason, last_error)"), "3");
    }
  }
  check_path();
}

CAF_TEST(a step that ends an instance is gone back to done) {
  auto by = client();
  for (const auto* status : {"runnable", "awaiting_signal", "done", "failed"}) {
    auto id = instance(status);
    lead_to(id, "closed");
    auto now = by.rewind({.target = id, .seq = 2});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->status, "done");
    auto made = by.fork({.target = id, .seq = 2});
    CAF_REQUIRE(made);
    for (auto x : {id, made->id}) {
      CAF_CHECK_EQUAL(of(x, "concat_ws(' ', status, step, result, state)"),
                      "done closed {} {\"n\": 2}");
      CAF_CHECK_EQUAL(of(x, "num_nulls(awaits, deadline, wake_reason)"), "3");
    }
  }
  check_path();
}

CAF_TEST(where nobody has told of resting steps or of the machine it is due) {
  auto by = client();
  auto id = instance("done");
  lead_to(id, "submitted");
  db.rows("update gen_durable_machines set outside = null");
  CAF_REQUIRE(by.rewind({.target = id, .seq = 2}));
  CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, step)"), "runnable submitted");
  db.rows("delete from gen_durable_machines");
  CAF_REQUIRE(by.rewind({.target = id, .seq = 1}));
  CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, step)"), "runnable pay");
  CAF_CHECK(by.fork({.target = id, .seq = 1}));
  check_path();
}

// -- forced races -------------------------------------------------------------

CAF_TEST(of a rewind and a pick the second finds what the first has made) {
  CAF_MESSAGE("picked first: the rewind waits, and is a conflict");
  auto first = instance("runnable");
  db.rows("update gen_durable set eligible_at = now(), crashes = 0");
  auto& engine = connect();
  session caller{db.conninfo()};
  run(engine, {&gd::sql::begin, {}}, false);
  CAF_REQUIRE_EQUAL(
    store::read_pick(run(engine, store::pick(pick_under("node/1/1")), false))
      .rows.size(),
    1u);
  caller.start(rewind_to, {text(first), "1"});
  caller.wait_until_blocked_by(engine.backend());
  run(engine, {&gd::sql::commit, {}}, false);
  try {
    caller.finish();
    CAF_ERROR("not refused");
  } catch (const sql_error& why) {
    CAF_CHECK_EQUAL(why.sqlstate(), "MV003");
  }
  CAF_CHECK_EQUAL(of(first, "concat_ws(' ', status, step, seq)"),
                  "executing ship 3");
  CAF_MESSAGE("rewound first: a pick passes over it until it is committed");
  db.rows("delete from gen_durable");
  auto second = instance("runnable");
  db.rows("update gen_durable set eligible_at = now(), crashes = 0");
  caller.exec("begin");
  caller.scalar(rewind_to, {text(second), "1"});
  CAF_CHECK(store::read_pick(run(engine, store::pick(pick_under("node/1/2"))))
              .rows.empty());
  caller.exec("commit");
  auto picked = store::read_pick(
    run(engine, store::pick(pick_under("node/1/3"))));
  CAF_REQUIRE_EQUAL(picked.rows.size(), 1u);
  CAF_CHECK_EQUAL(picked.rows.front().step, "pay");
  CAF_CHECK_EQUAL(picked.rows.front().state, "{\"n\": 1}");
  CAF_CHECK_EQUAL(of(second, "seq"), "4");
}

CAF_TEST(of a rewind and an outcome neither is lost nor overwrites the other) {
  CAF_MESSAGE(
    "behind an outcome that is being written, it goes back from there");
  auto id = instance("executing");
  auto& engine = connect();
  session caller{db.conninfo()};
  run(engine, {&gd::sql::begin, {}}, false);
  auto outcome = next_row(id);
  CAF_CHECK(store::read_flush(
              run(engine,
                  store::write_outcomes(
                    {store::writer::any, store::follow::history}, {outcome}),
                  false))
              .front()
              .applied);
  caller.start(rewind_to, {text(id), "0"});
  caller.wait_until_blocked_by(engine.backend());
  run(engine, {&gd::sql::commit, {}}, false);
  CAF_CHECK_EQUAL(answer_of(caller), "5");
  CAF_CHECK_EQUAL(entries(id, 4),
                  "4 next ship>pay 0 node/1/1 timeout {\"n\": 9}; "
                  "5 rewind pay>collect 0 {\"seq\": 0} {\"n\": 0}");
  CAF_MESSAGE("and the same outcome again is stale");
  CAF_CHECK(
    !store::read_flush(
       run(engine, store::write_outcomes(
                     {store::writer::any, store::follow::history}, {outcome})))
       .front()
       .applied);
  CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, step, seq)"),
                  "runnable collect 5");
  CAF_MESSAGE("before it, it is a conflict, and the outcome is written");
  auto other = instance("executing");
  CAF_CHECK_EQUAL(why_refused(caller, rewind_to, {text(other), "1"}),
                  "MV003 instance " + text(other)
                    + " is executing, step ship, seq 3");
  outcome.id = other;
  CAF_CHECK(
    store::read_flush(
      run(engine, store::write_outcomes(
                    {store::writer::any, store::follow::history}, {outcome})))
      .front()
      .applied);
  check_path();
}

CAF_TEST(of two rewinds the second goes back from where the first has put it) {
  auto id = instance("done");
  session first{db.conninfo()};
  session second{db.conninfo()};
  first.exec("begin");
  first.scalar(rewind_to, {text(id), "0"});
  second.start(rewind_to, {text(id), "1"});
  second.wait_until_blocked_by(first);
  first.exec("commit");
  CAF_CHECK_EQUAL(answer_of(second), "5");
  CAF_CHECK_EQUAL(entries(id, 4),
                  "4 rewind ship>collect 0 {\"seq\": 0} {\"n\": 0}; "
                  "5 rewind collect>pay 0 {\"seq\": 1} {\"n\": 1}");
  check_path();
}

CAF_TEST(a row that a stranger holds is busy and nothing has happened) {
  auto id = instance("done");
  auto before = everything();
  session stranger{db.conninfo()};
  stranger.exec("begin; select from gen_durable for update");
  auto by = client(50ms);
  auto answer = by.rewind({.target = id, .seq = 1});
  CAF_REQUIRE(!answer);
  CAF_CHECK_EQUAL(to_string(answer.error().code), "busy");
  CAF_CHECK_EQUAL(everything(), before);
}

CAF_TEST(what may have happened is not sent again) {
  auto id = instance("done");
  auto before = everything();
  session stranger{db.conninfo()};
  for (bool fork : {false, true}) {
    stranger.exec(fork ? "begin; lock gen_durable"
                       : "begin; select from gen_durable for update");
    auto answer = std::async(std::launch::async, [&] {
      auto by = client(0ms);
      return fork ? refusal(by.fork({.target = id, .seq = 1}))
                  : refusal(by.rewind({.target = id, .seq = 1}));
    });
    stranger.terminate(stranger.wait_until_someone_is_blocked());
    CAF_CHECK_EQUAL(answer.get().substr(0, 12), "unknown_fate");
    stranger.exec("rollback");
    CAF_CHECK_EQUAL(everything(), before);
  }
}

// -- fork ---------------------------------------------------------------------

CAF_TEST(a fork begins at that step and state and is on its own) {
  auto by = client();
  for (const auto* status :
       {"runnable", "executing", "awaiting_signal", "done", "failed"}) {
    CAF_MESSAGE(status);
    auto id = instance(status, status, "{runnable,executing,awaiting_signal}");
    auto before = of(id, "gen_durable::text") + entries(id);
    auto made = by.fork(
      {.target = id, .seq = 1, .reason = "what if", .by = "ann"});
    CAF_REQUIRE(made);
    CAF_CHECK(!made->duplicate);
    CAF_CHECK(made->id != id);
    CAF_CHECK_EQUAL(
      of(made->id,
         "concat_ws(' ', fsm, fsm_version, status, step, ledger_step,"
         " state, seq, attempt, crashes, excused, trials, queue, priority,"
         " partition_key, history)"),
      "Order 1 runnable pay pay {\"n\": 1} 0 0 0 0 default 7 customer 2");
    CAF_CHECK_EQUAL(of(made->id, "num_nulls(result, last_error, awaits,"
                                 " deadline, wake_reason, locked_by,"
                                 " unique_key)"),
                    "7");
    CAF_CHECK_EQUAL(
      of(made->id, "eligible_at <= now() and unique_scope = '{}'"), "t");
    CAF_CHECK_EQUAL(entries(made->id),
                    "0 fork ->pay 0 by ann what if {\"id\": " + text(id)
                      + ", \"seq\": 1} {\"n\": 1}");
    CAF_CHECK_EQUAL(of(id, "gen_durable::text") + entries(id), before);
  }
  auto queued = by.fork(
    {.target = instance("done"), .seq = 1, .queue = "slow"});
  CAF_REQUIRE(queued);
  CAF_CHECK_EQUAL(of(queued->id, "queue"), "slow");
  check_path();
}

CAF_TEST(a fork and its original go on without each other) {
  auto kit = engine();
  auto id = kit.insert({.fsm = "Order", .state = gd::to_json(order{})})->id;
  gd::signal paid{id, "paid", gd::to_json(order{10}), "evt-1"};
  CAF_REQUIRE(kit.drain());
  auto by = client();
  auto made = by.fork({.target = id, .seq = 1});
  CAF_REQUIRE(made);
  CAF_REQUIRE(kit.signal(paid));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(+kit.result<order>(id)->n, 11);
  CAF_CHECK_EQUAL(of(made->id, "concat_ws(' ', status, step, state)"),
                  "awaiting_signal pay {\"n\": 1}");
  CAF_MESSAGE("a signal with the same key is another one to it");
  CAF_REQUIRE(kit.signal({made->id, "paid", gd::to_json(order{20}), "evt-1"}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(+kit.result<order>(made->id)->n, 21);
  CAF_MESSAGE("it can be put back, and forked, as any other");
  CAF_REQUIRE(by.rewind({.target = made->id, .seq = 0}));
  CAF_CHECK(by.fork({.target = made->id, .seq = 0}));
  CAF_REQUIRE(kit.drain());
  check_path();
  CAF_MESSAGE(
    "it stays when the original is deleted, which none can be made of");
  db.rows("delete from gen_durable where id = $1", {text(id)});
  CAF_CHECK(kit.instance(made->id));
  CAF_CHECK_EQUAL(refusal(by.fork({.target = id, .seq = 1})),
                  "not_found: there is no instance " + text(id));
  CAF_CHECK_EQUAL(refusal(by.rewind({.target = id, .seq = 1})),
                  "not_found: there is no instance " + text(id));
}

CAF_TEST(a retired version takes no forks and its instances are put back) {
  auto by = client();
  auto id = instance("done");
  CAF_REQUIRE(by.retire("Order", 1));
  auto before = everything();
  CAF_CHECK_EQUAL(refusal(by.fork({.target = id, .seq = 1})),
                  "version_retired: version: Order v1 is retired");
  session caller{db.conninfo()};
  CAF_CHECK_EQUAL(why_refused(caller, fork_from, {text(id), "1"}),
                  "MV002 version: Order v1 is retired");
  CAF_CHECK_EQUAL(everything(), before);
  CAF_CHECK(by.rewind({.target = id, .seq = 1}));
}

CAF_TEST(a fork is of the version of its entry) {
  auto id = instance("done");
  db.rows("update gen_durable_ledger set fsm_version = 2 where seq = 1");
  auto made = client().fork({.target = id, .seq = 1});
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(of(made->id, "fsm_version"), "2");
}

// -- the functions ------------------------------------------------------------

CAF_TEST(a role needs the rights that are documented and no others) {
  auto name = db.name() + "_role";
  auto app = gd::test::quoted_name(name);
  db.rows("create role " + app + " login");
  auto id = instance("done");
  db.rows("grant usage on schema public to " + app
          + "; grant select, insert, update on gen_durable to " + app
          + "; grant select, insert on gen_durable_ledger to " + app
          + "; grant select on gen_durable_machines to " + app);
  {
    session caller{db.conninfo(name)};
    CAF_CHECK_EQUAL(caller.scalar(rewind_to, {text(id), "1"}), "4");
    caller.scalar(fork_from, {text(id), "1"});
    db.rows("revoke insert on gen_durable_ledger from " + app);
    auto before = everything();
    for (const auto* call : {rewind_to, fork_from})
      CAF_CHECK_EQUAL(why_refused(caller, call, {text(id), "1"}).substr(0, 5),
                      "42501");
    CAF_CHECK_EQUAL(everything(), before);
  }
  db.rows("drop owned by " + app + " cascade; drop role " + app);
}

CAF_TEST(no search path leads the functions elsewhere and any schema will do) {
  temporary_database other{"odd \"name"};
  other.migrate();
  auto schema = gd::test::quoted_name(other.schema());
  auto client = gd::client::connect(other.options());
  CAF_REQUIRE(client);
  pq::connection on{other.options()};
  CAF_REQUIRE(on.wait_ready());
  run(on, store::register_machines(store::known({order_machine()})));
  auto made = client->insert({.fsm = "Order", .version = 1});
  CAF_REQUIRE(made);
  session caller{other.conninfo()};
  caller.exec("create schema mine;"
              "create table mine.gen_durable (id bigint);"
              "create table mine.gen_durable_ledger (instance_id bigint);"
              "create temporary table gen_durable_machines (fsm text);"
              "set search_path = mine, public");
  for (const auto* function : {"rewind", "fork"})
    caller.exec("select " + schema + ".gd_" + function + "($1::bigint, 0)",
                {text(made->id)});
  CAF_CHECK(client->rewind({.target = made->id, .seq = 0}));
  CAF_CHECK(client->fork({.target = made->id, .seq = 0}));
  CAF_CHECK_EQUAL(other.scalar("select string_agg(format('%s %s', outcome,"
                               " seq), ', ' order by instance_id, seq) from"
                               " gen_durable_ledger"),
                  "insert 0, rewind 1, rewind 2, fork 0, fork 0");
}

CAF_TEST(what a trigger does not let through leaves no entry) {
  auto id = instance("done");
  db.rows("create function refuse() returns trigger language plpgsql as"
          " 'begin return null; end'");
  db.rows("create trigger refusing before update on gen_durable for each row"
          " execute function refuse()");
  auto before = everything();
  auto said = "a trigger lets no update of instance " + text(id) + " through";
  session caller{db.conninfo()};
  CAF_CHECK_EQUAL(why_refused(caller, rewind_to, {text(id), "1"}),
                  "P0001 " + said);
  CAF_CHECK_EQUAL(refusal(client().rewind({.target = id, .seq = 1})),
                  "rejected: " + said);
  CAF_CHECK(everything() == before);
  db.rows("drop trigger refusing on gen_durable");
  CAF_CHECK_EQUAL(db.scalar(rewind_to, {text(id), "1"}), "4");
  check_path();
}

CAF_TEST(what others define in the schema is not run by who rewinds) {
  auto id = instance("done");
  gd::test::define_traps(db);
  CAF_CHECK_EQUAL(db.scalar(rewind_to, {text(id), "1"}), "4");
  CAF_CHECK(!db.scalar(fork_from, {text(id), "1"}).empty());
  CAF_CHECK_EQUAL(db.scalar("select count(*) from trapped"), "0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace rewind_suite
