#define CAF_SUITE verbs

// What operators do with one instance, and with a queue: what each verb leaves, what it
// refuses, and that of a verb and whatever runs against it one truth comes out.

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>

#include <support/database.hpp>
#include <support/ledger.hpp>
#include <support/opened.hpp>
#include <support/traps.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace verbs_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace store = gd::store;

using gd::act;
using gd::errc;
using gd::test::contains;
using gd::test::refusal;
using gd::test::session;
using gd::test::sql_error;
using gd::test::text;
using store::outcome_row;
using store::write_kind;

struct order {
  int n = 0;
  GD_STATE(order, n);
};

GD_ENUM(order_step, pay, ship, submitted, closed);

/// Fails until it has been signalled.
gd::machine order_machine() {
  using enum order_step;
  return gd::define<order, order_step>("Order", 1)
    .history(gd::history::with_state)
    .step(pay,
          [](gd::context<order>& ctx) -> gd::outcome {
            if (auto paid = ctx.take<order>("paid"))
              return gd::next(ship, *paid);
            throw std::runtime_error{"no money"};
          })
    .step(ship, [](gd::context<order>& ctx) { return gd::done(ctx.state); })
    .rest(submitted, {closed}, {.after = 1h, .then = closed})
    .final(closed);
}

/// What a statement that was started has answered: a cell, or its SQLSTATE.
std::string end_of(session& in) {
  try {
    return in.finish().front().front().value_or("null");
  } catch (const sql_error& why) {
    return why.sqlstate();
  }
}

struct fixture : gd::test::opened_database {
  fixture() {
    run(connect(), store::register_machines(store::known({order_machine()})));
  }

  gd::testing::in_database engine() {
    return engine_of(order_machine());
  }

  /// With all that an instance can have in that status, at seq 3.
  std::int64_t instance(const std::string& status,
                        const std::string& step = "pay",
                        const std::string& key = {},
                        const std::string& scope = "{}") {
    auto id = db.scalar(
      "insert into gen_durable (fsm, step, status, state, seq, history,"
      " ledger_step, awaits, awaits_also, deadline, wake_reason, eligible_at,"
      " attempt, crashes, excused, trials, last_error, locked_by, "
      "lease_expires_at,"
      " unique_key, unique_scope) select 'Order', $2, s, '{\"n\": 3}', 3, 2,"
      " $2, case s when 'awaiting_signal' then 'paid' end, case s when"
      " 'awaiting_signal' then '{x}'::text[] end, now() + interval '1 h', case"
      " when s <> 'awaiting_signal' then 'timeout' end, now() + case s when"
      " 'runnable' then interval '2 h' else '-1 h' end, 4, 2, 1, 1, 'no stock',"
      " case s when 'executing' then 'node/1/1' end, case s when 'executing'"
      " then now() + interval '1 min' end, nullif($3, '')::bytea,"
      " $4::gen_durable_status[] from (values ($1::gen_durable_status)) x (s)"
      " returning id",
      {status, step, key, scope});
    db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version,"
            " outcome, from_step, to_step, attempt, state) select $1::bigint,"
            " n, now(), 1, 'replay', case when n > 0 then $2 end, $2, 4,"
            " '{\"n\": 3}' from generate_series(0, 3) n",
            {id, step});
    return std::stoll(id);
  }

  std::string of(std::int64_t id, const std::string& columns) {
    return db.scalar("select concat_ws(' ', " + columns
                       + ") from gen_durable where id = $1",
                     {text(id)});
  }

  std::string entry(std::int64_t id, int seq = 4) {
    return db.scalar("select concat_ws(' ', outcome, from_step || '>' ||"
                     " to_step, attempt, token, 'by ' || by, reason, metadata,"
                     " state) from gen_durable_ledger where instance_id = $1"
                     " and seq = $2::int",
                     {text(id), std::to_string(seq)});
  }

  /// Of an instance: its row, signals, consumed ones too, entries, and what is due.
  std::string rows_of(std::int64_t id) {
    return db.scalar(
      "select concat_ws(' ', (select count(*) from gen_durable where id = $1),"
      " (select count(*) from gen_durable_signals where target_id = $1),"
      " (select count(*) from gen_durable_ledger where instance_id = $1),"
      " (select count(*) from gen_durable_due where id = $1))",
      {text(id)});
  }

  /// What is left of one that was erased.
  std::string trace(std::int64_t id) {
    return db.scalar(
      "select coalesce((select concat_ws(' ', fsm, fsm_version, status, seq,"
      " at between now() - interval '1 h' and clock_timestamp(), by, reason)"
      " from gen_durable_erased where instance_id = $1), 'none')",
      {text(id)});
  }

  /// With a signal in its inbox, and one that a step has consumed.
  std::int64_t instance_with_signals(const std::string& status) {
    auto id = instance(status, "pay", "secret " + status,
                       "{runnable,awaiting_signal,done,failed}");
    received(id, "paid", "evt-1");
    received(id, "paid");
    db.rows("update gen_durable_signals set consumed_at = now() where"
            " target_id = $1 and dedup_key = 'evt-1'",
            {text(id)});
    return id;
  }

  static gd::command erasure(std::int64_t id) {
    return {
      .what = act::erase, .target = id, .reason = "request 17", .by = "ann"};
  }

  /// Writes an outcome of its step under the token that it has.
  std::vector<store::flushed_row> flush(pq::connection& on, std::int64_t id,
                                        bool alone = true) {
    outcome_row row{.id = id, .token = "node/1/1", .what = write_kind::next};
    row.step = "ship";
    row.state = R"({"n": 9})";
    row.has_history = true;
    return store::read_flush(
      run(on,
          store::write_outcomes({store::writer::any, store::follow::history},
                                {row}),
          alone));
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(verbs_tests, fixture)

CAF_TEST(
  a retry leaves a failed instance due with the inputs that it failed on) {
  auto id = instance("failed");
  auto now = client().operate({.what = act::retry,
                               .target = id,
                               .reason = "the bank is back",
                               .by = "ann"});
  CAF_REQUIRE(now);
  CAF_CHECK_EQUAL(now->id, id);
  CAF_CHECK_EQUAL(now->seq, 4);
  CAF_CHECK_EQUAL(now->status, "runnable");
  CAF_CHECK(!now->executed);
  CAF_CHECK_EQUAL(of(id,
                     "status, step, state, attempt, crashes, excused, trials,"
                     " wake_reason, deadline is not null, eligible_at <="
                     " now(), last_error"),
                  "runnable pay {\"n\": 3} 0 0 0 timeout t t no stock");
  CAF_CHECK_EQUAL(entry(id),
                  "retry pay>pay 0 by ann the bank is back {\"n\": 3}");
  check_path();
}

CAF_TEST(an engine goes on with what was tried again) {
  auto kit = engine();
  auto id = kit.insert({.fsm = "Order", .state = gd::to_json(order{})})->id;
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(of(id, "status, last_error"), "failed no money");
  CAF_REQUIRE(client().operate({.what = act::retry, .target = id}));
  CAF_REQUIRE(kit.signal({id, "paid", gd::to_json(order{20})}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(of(id, "status, last_error"), "done");
  check_path();
}

CAF_TEST(a stop fails what has not ended and takes the lease of what executes) {
  auto by = client();
  for (const auto* status : {"runnable", "executing", "awaiting_signal"}) {
    auto id = instance(status);
    CAF_MESSAGE(status);
    auto now = by.operate(
      {.what = act::stop, .target = id, .reason = "poison", .by = "ann"});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->status, "failed");
    CAF_CHECK_EQUAL(now->executed, status == "executing"s);
    CAF_CHECK_EQUAL(of(id, "status, last_error, seq"), "failed poison 4");
    CAF_CHECK_EQUAL(of(id, "num_nulls(locked_by, lease_expires_at, awaits,"
                           " awaits_also), deadline is not null"),
                    "4 t");
    CAF_CHECK_EQUAL(entry(id), "stop pay>pay 4 "s
                                 + (now->executed ? "node/1/1 " : "")
                                 + "by ann poison {\"n\": 3}");
  }
  auto unnamed = instance("runnable");
  CAF_REQUIRE(by.operate({.what = act::stop, .target = unnamed}));
  CAF_CHECK(contains(of(unnamed, "last_error"), "stopped by "));
  check_path();
}

CAF_TEST(a move gives what does not execute another queue or priority) {
  auto by = client();
  for (const auto* status : {"runnable", "awaiting_signal", "failed"}) {
    auto id = instance(status);
    auto now = by.operate({.what = act::move,
                           .target = id,
                           .queue = "slow",
                           .by = "ann",
                           .force = true});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->status, status);
    CAF_CHECK_EQUAL(of(id, "status, queue, priority, seq"),
                    status + " slow 0 4"s);
    CAF_CHECK_EQUAL(entry(id), "move pay>pay 4 by ann {\"queue\": \"slow\","
                               " \"priority\": 0} {\"n\": 3}");
    now = by.operate({.what = act::move, .target = id, .priority = -3});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(of(id, "queue, priority, seq"), "slow -3 5");
    now = by.operate(
      {.what = act::move, .target = id, .queue = "slow", .priority = -3});
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->seq, 5); // it was there
  }
  check_path();
}

CAF_TEST(each verb refuses the statuses that it is not for and changes nothing) {
  auto by = client();
  auto refused = [&](act what, std::vector<std::string> statuses) {
    for (const auto& status : statuses) {
      auto id = instance(status);
      auto before = of(id, "gen_durable::text");
      auto now = by.operate(
        {.what = what, .target = id, .queue = "slow", .force = true});
      CAF_MESSAGE(to_string(what) << " " << status << ": " << refusal(now));
      CAF_REQUIRE(!now);
      CAF_CHECK_EQUAL(now.error().code, errc::transition_conflict);
      CAF_CHECK(contains(now.error().message, "got " + status + " at pay"));
      CAF_CHECK_EQUAL(of(id, "gen_durable::text"), before);
    }
  };
  refused(act::retry, {"runnable", "executing", "awaiting_signal", "done"});
  refused(act::stop, {"done", "failed"});
  refused(act::run_now, {"executing", "awaiting_signal", "done", "failed"});
  refused(act::move, {"executing", "done"});
  refused(act::discard, {"executing", "done"});
  refused(act::replace, {"executing", "done"});
  check_path();
}

CAF_TEST(a signal that its step cannot take is replaced and the step takes it) {
  auto kit = engine();
  auto id = kit.insert({.fsm = "Order", .state = gd::to_json(order{})})->id;
  CAF_REQUIRE(kit.signal({id, "later"}));
  CAF_REQUIRE(
    kit.signal({id, "paid", gd::json::raw(R"({"n": "twenty"})"), "evt-1"}));
  CAF_REQUIRE(kit.drain());
  auto by = client();
  auto inbox = *by.inbox(id);
  CAF_REQUIRE_EQUAL(inbox.size(), 2u);
  auto bad = inbox[1].id;
  auto number = std::to_string(bad);
  CAF_CHECK_EQUAL(of(id, "status, left(last_error, 19 + "
                           + std::to_string(number.size()) + ")"),
                  "failed signal paid (" + number + "): $.n");
  auto why = by.why({.id = id});
  CAF_REQUIRE(why);
  CAF_CHECK(contains(why->sentence, "mend signal " + number + " (gdctl replace "
                                      + text(id) + " " + number));
  auto now = by.operate({.what = act::replace,
                         .target = id,
                         .reason = "a text",
                         .by = "ann",
                         .signal = bad,
                         .payload = gd::to_json(order{20})});
  CAF_REQUIRE(now);
  CAF_CHECK_EQUAL(now->status, "failed");
  CAF_CHECK_EQUAL(
    db.scalar("select concat_ws(' ', outcome, by, reason, metadata) from "
              "gen_durable_ledger where instance_id = $1 and seq = $2",
              {text(id), text(now->seq)}),
    "replace ann a text {\"name\": \"paid\", \"signal\": " + number + "}");
  why = by.why({.id = id});
  CAF_CHECK(contains(why->sentence, "mend signal")); // as long as it is there
  CAF_REQUIRE(by.operate({.what = act::retry, .target = id}));
  CAF_REQUIRE(kit.drain());
  CAF_CHECK_EQUAL(of(id, "status, result"), "done {\"n\": 20}");
  check_path();
}

CAF_TEST(what is discarded is gone for good and its dedup key is remembered) {
  auto by = client();
  for (const auto* status : {"runnable", "awaiting_signal", "failed"}) {
    auto id = instance(status);
    auto other = instance(status);
    auto signal = [&](std::int64_t target, const std::string& dedup) {
      return std::stoll(
        db.scalar("insert into gen_durable_signals (target_id, name, payload, "
                  "dedup_key) values ($1, "
                  "'paid', '{\"n\": \"x\"}', nullif($2, '')) returning id",
                  {text(target), dedup}));
    };
    auto plain = signal(id, "");
    auto keyed = signal(id, "evt-1");
    auto kept = signal(id, "evt-2");
    auto foreign = signal(other, "evt-1");
    auto discard = [&](std::int64_t which) {
      return by.operate({.what = act::discard, .target = id, .signal = which});
    };
    CAF_REQUIRE(discard(plain));
    auto now = discard(keyed);
    CAF_REQUIRE(now);
    CAF_CHECK_EQUAL(now->status, status);
    CAF_CHECK_EQUAL(of(id, "status, seq"), status + " 5"s);
    for (std::int64_t gone : {plain, keyed, foreign, 0LL}) {
      auto x = discard(gone);
      CAF_REQUIRE(!x);
      CAF_CHECK(contains(x.error().message, "in its inbox"));
    }
    CAF_CHECK_EQUAL(of(id, "seq"), "5");
    CAF_CHECK_EQUAL(
      db.scalar("select string_agg(id || case when consumed_at is null then '' "
                "else ' ' || payload::text end, ', ' order by id) from "
                "gen_durable_signals where "
                "target_id in ($1, $2)",
                {text(id), text(other)}),
      text(keyed) + " {}, " + text(kept) + ", " + text(foreign));
    if (status != "failed"s) {
      auto again = by.signal({id, "paid", gd::to_json(order{1}), "evt-1"});
      CAF_REQUIRE(again);
      CAF_CHECK(again->duplicate);
    }
  }
  check_path();
}

CAF_TEST(a replaced signal wakes who waits for its name and nobody else) {
  for (const std::string name : {"paid", "x", "another"}) {
    auto id = instance("awaiting_signal");
    auto signal = db.scalar(
      "insert into gen_durable_signals (target_id, name) values ($1, "
      "$2) returning id",
      {text(id), name});
    db.scalar("select gd_replace($1, $2, '{\"n\": 2}')", {text(id), signal});
    CAF_CHECK_EQUAL(of(id, "status, awaits, wake_reason, seq"),
                    name == "another" ? "awaiting_signal paid 4"
                                      : "runnable signal 4");
    CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_due where id = "
                              "$1 and eligible_at <= clock_timestamp()",
                              {text(id)}),
                    name == "another" ? "0" : "1");
    CAF_CHECK_EQUAL(
      db.scalar("select payload from gen_durable_signals where id = $1",
                {signal}),
      "{\"n\": 2}");
    db.scalar("select gd_discard($1, $2)", {text(id), signal});
    CAF_CHECK_EQUAL(of(id, "seq"), "5");
  }
  CAF_MESSAGE("one that is to wake already keeps its first reason");
  auto overdue = instance("awaiting_signal", "pay", "k", "{runnable}");
  auto holder = instance("runnable", "pay", "k", "{runnable}");
  db.rows("update gen_durable set wake_reason = 'timeout' where id = $1",
          {text(overdue)});
  auto signal_of = [&](std::int64_t id) {
    return db.scalar(
      "insert into gen_durable_signals (target_id, name) values ($1, "
      "'paid') returning id",
      {text(id)});
  };
  auto replace = [&](std::int64_t id, const std::string& signal) {
    return db.scalar("select gd_replace($1, $2, '{\"n\": 2}')",
                     {text(id), signal});
  };
  replace(overdue, signal_of(overdue));
  CAF_CHECK_EQUAL(of(overdue, "status, awaits, wake_reason"),
                  "awaiting_signal paid timeout");
  CAF_MESSAGE("one whose key another has is owed its wake-up");
  db.rows("update gen_durable set wake_reason = null where id = $1",
          {text(overdue)});
  replace(overdue, signal_of(overdue));
  CAF_CHECK_EQUAL(of(overdue, "status, awaits, wake_reason"),
                  "awaiting_signal paid signal");
  CAF_CHECK_EQUAL(of(holder, "status"), "runnable");
  auto x = client().operate({.what = act::replace,
                             .target = instance("runnable"),
                             .payload = gd::json::raw("{")});
  CAF_REQUIRE(!x);
  CAF_CHECK(contains(x.error().message, "payload"));
  check_path();
}

CAF_TEST(a signal that a stranger holds or changes is not said to be mended) {
  auto id = instance("awaiting_signal");
  auto signal = db.scalar(
    "insert into gen_durable_signals (target_id, name) values ($1, "
    "'paid') returning id",
    {text(id)});
  auto by = client();
  auto repair = [&](act what) {
    return by.operate({.what = what,
                       .target = id,
                       .signal = std::stoll(signal),
                       .payload = gd::to_json(order{2})});
  };
  session stranger{db.conninfo()};
  for (auto what : {act::discard, act::replace}) {
    stranger.exec("begin; select from gen_durable_signals for update");
    auto x = repair(what);
    CAF_REQUIRE(!x);
    CAF_CHECK(contains(x.error().message, "holds signal " + signal));
    stranger.exec(
      "update gen_durable_signals set consumed_at = now(); rollback");
    db.rows("create function deaf() returns trigger language plpgsql as "
            "'begin return null; end'");
    db.rows("create trigger deaf before update or delete on "
            "gen_durable_signals for each "
            "row execute function deaf()");
    x = repair(what);
    CAF_REQUIRE(!x);
    CAF_CHECK(contains(x.error().message, "lets no change of signal"));
    db.rows("drop function deaf cascade");
    CAF_CHECK_EQUAL(of(id, "status, seq"), "awaiting_signal 3");
  }
  CAF_MESSAGE("a failure's number is believed only of a signal of that name");
  db.rows("update gen_durable set status = 'failed', failed_id = id, awaits = "
          "null, awaits_also = null, last_error = $2 where id = $1",
          {text(id), "signal other (" + signal + "): $.a (" + signal
                       + "): expected number"});
  CAF_CHECK(!contains(by.why({.id = id})->sentence, "mend signal"));
  db.rows("update gen_durable set last_error = $2 where id = $1",
          {text(id), "signal paid (" + signal + "): $.a (77): bad"});
  CAF_CHECK(contains(by.why({.id = id})->sentence, "mend signal " + signal));
}

CAF_TEST(what is erased leaves a trace without content and nothing else) {
  auto by = client();
  auto other = instance_with_signals("failed");
  db.rows("update gen_durable set unique_key = 'other' where id = $1",
          {text(other)});
  auto others = rows_of(other);
  for (const std::string status :
       {"runnable", "awaiting_signal", "done", "failed"}) {
    CAF_MESSAGE(status);
    auto id = instance_with_signals(status);
    db.rows("update gen_durable_ledger set metadata = jsonb_build_object("
            "'fork_of', $1::bigint) where instance_id = $2",
            {text(id), text(other)});
    auto now = by.operate(erasure(id));
    CAF_REQUIRE_EQUAL(refusal(now), "");
    CAF_CHECK_EQUAL(now->id, id);
    CAF_CHECK_EQUAL(now->seq, 3);
    CAF_CHECK_EQUAL(now->status, "erased");
    CAF_CHECK(!now->executed);
    CAF_CHECK_EQUAL(rows_of(id), "0 0 0 0");
    CAF_CHECK_EQUAL(trace(id), "Order 1 " + status + " 3 t ann request 17");
    CAF_CHECK_EQUAL(rows_of(other), others);
    CAF_MESSAGE("its key is free, and its dedup keys are with nobody");
    auto next = by.insert({.fsm = "Order",
                           .state = gd::to_json(order{}),
                           .unique_key = "secret " + status,
                           .unique_scope = {"runnable"}});
    CAF_REQUIRE_EQUAL(refusal(next), "");
    CAF_CHECK(!next->duplicate);
    auto sent = by.signal({id, "paid", gd::to_json(order{1}), "evt-1"});
    CAF_REQUIRE(!sent);
    CAF_CHECK_EQUAL(sent.error().code, errc::no_such_target);
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_erased e where"
                            " e::text ~ 'secret|evt|stock|pay'"),
                  "0");
  CAF_CHECK_EQUAL(
    db.scalar("select coalesce(string_agg(fault, '; '), '') from _gd_check()"),
    "");
  check_path();
}

CAF_TEST(what executes is erased only when it has been stopped and its late
           outcome changes nothing) {
  auto by = client();
  auto id = instance("executing");
  auto before = of(id, "gen_durable::text");
  auto now = by.operate(erasure(id));
  CAF_REQUIRE(!now);
  CAF_CHECK_EQUAL(now.error().code, errc::transition_conflict);
  CAF_CHECK(contains(now.error().message,
                     "expected runnable|awaiting_signal|done|failed, got "
                     "executing at pay, seq 3: stop it first (gdctl stop "
                       + text(id) + ")"));
  CAF_CHECK_EQUAL(of(id, "gen_durable::text"), before);
  CAF_CHECK_EQUAL(trace(id), "none");
  CAF_REQUIRE(by.operate({.what = act::stop, .target = id}));
  auto& engine = connect();
  session caller{db.conninfo()};
  caller.exec("begin");
  caller.exec("select gd_erase($1, 'request 17', 'ann')", {text(id)});
  CAF_CHECK(flush(engine, id).empty()); // the row is locked: tried again
  caller.exec("commit");
  CAF_CHECK(flush(engine, id).empty()); // nobody has that token
  CAF_CHECK_EQUAL(rows_of(id), "0 0 0 0");
  CAF_CHECK_EQUAL(trace(id), "Order 1 failed 4 t ann request 17");
  CAF_CHECK_EQUAL(run(engine, store::reap(10, {})).size(), 0u);
  check_path();
}

CAF_TEST(nothing is erased without a reason) {
  auto id = instance("failed");
  auto by = client();
  for (const auto& reason : {std::optional<std::string>{}, std::optional{""s},
                             std::optional{" \n"s}}) {
    auto now = by.operate(
      {.what = act::erase, .target = id, .reason = reason, .by = "ann"});
    CAF_REQUIRE(!now);
    CAF_CHECK_EQUAL(now.error().code, errc::invalid_argument);
    CAF_CHECK(contains(now.error().message, "reason: expected why"));
  }
  session direct{db.conninfo()};
  for (const auto* call : {"select gd_erase($1)", "select gd_erase($1, '')",
                           "select gd_erase($1, repeat('x', 9000))",
                           "select gd_erase($1, 'x', E'a\\nb')"})
    CAF_CHECK_EQUAL(sqlstate_of(direct, call, {text(id)}), "22023");
  CAF_CHECK_EQUAL(sqlstate_of(direct, "select gd_erase(reason => 'x')"),
                  "P0002");
  CAF_CHECK_EQUAL(
    sqlstate_of(direct, "begin isolation level repeatable read; select"
                        " gd_erase("
                          + text(id) + ", 'x')"),
    "25000");
  CAF_CHECK_EQUAL(rows_of(id), "1 0 4 0");
  CAF_CHECK_EQUAL(trace(id), "none");
}

CAF_TEST(whoever asks for what was erased is told who has done it) {
  auto id = instance_with_signals("runnable");
  CAF_CHECK_EQUAL(db.scalar("select gd_erase(key => 'secret runnable', reason "
                            "=> 'request 17', by => 'ann')"),
                  "3");
  auto by = client();
  auto check_told = [&](const auto& x, errc code) {
    CAF_REQUIRE(!x);
    CAF_MESSAGE(refusal(x));
    CAF_CHECK_EQUAL(x.error().code, code);
    CAF_CHECK(contains(x.error().message,
                       "instance " + text(id) + " was erased at 20"));
    CAF_CHECK(contains(x.error().message, "Z by ann: request 17"));
  };
  check_told(by.operate(erasure(id)), errc::not_found);
  check_told(by.operate({.what = act::retry, .target = id}), errc::not_found);
  check_told(by.look_up({.id = id}), errc::erased);
  auto why = by.why({.id = id});
  CAF_REQUIRE(why);
  CAF_CHECK_EQUAL(why->status, "erased");
  // Its key says nothing of it: that would be content.
  auto keyed = by.operate(
    {.what = act::erase, .reason = "request 18", .key = "secret runnable"});
  CAF_REQUIRE(!keyed);
  CAF_CHECK(contains(keyed.error().message, "there is no instance with"));
  auto nobody = by.look_up({.id = 12345});
  CAF_REQUIRE(!nobody);
  CAF_CHECK(contains(nobody.error().message, "there is no instance 12345"));
  CAF_CHECK_EQUAL(trace(id), "Order 1 runnable 3 t ann request 17");
}

CAF_TEST(a row of a partition key and a session that is trusted with all leave
           nothing due) {
  auto id = instance("runnable");
  auto suspect = instance("runnable");
  db.rows("update gen_durable set partition_key = 'customer 7' where id = $1",
          {text(id)});
  session trusted{db.conninfo()};
  trusted.exec("set gd.trusted = 'all'");
  for (auto one : {id, suspect}) {
    CAF_CHECK_EQUAL(rows_of(one), "1 0 4 1");
    trusted.exec("begin");
    trusted.exec("select gd_erase($1, 'request 17')", {text(one)});
    CAF_CHECK_EQUAL(trusted.scalar("show gd.trusted"), "all");
    trusted.exec("commit");
    CAF_CHECK_EQUAL(rows_of(one), "0 0 0 0");
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from _gd_check()"), "0");
}

CAF_TEST(who is owed a key that was erased wakes) {
  auto holder = instance("runnable", "pay", "k", "{runnable}");
  auto owed = instance("awaiting_signal", "pay", "k", "{runnable}");
  db.rows("update gen_durable set wake_reason = 'timeout' where id = $1",
          {text(owed)});
  auto& engine = connect();
  run(engine, store::return_row(owed, false));
  CAF_CHECK_EQUAL(of(owed, "status"), "awaiting_signal");
  CAF_REQUIRE(client().operate(erasure(holder)));
  run(engine, store::return_row(owed, false));
  CAF_CHECK_EQUAL(of(owed, "status"), "runnable");
}

CAF_TEST(what somebody refers to or keeps is not erased in part) {
  auto by = client();
  auto id = instance_with_signals("failed");
  auto before = rows_of(id);
  auto check_kept = [&](const std::string& why) {
    auto now = by.operate(erasure(id));
    CAF_REQUIRE(!now);
    CAF_MESSAGE(refusal(now));
    CAF_CHECK_EQUAL(now.error().code, errc::rejected);
    CAF_CHECK(contains(now.error().message, why));
    CAF_CHECK_EQUAL(rows_of(id), before);
    CAF_CHECK_EQUAL(trace(id), "none");
  };
  db.rows("create table orders (n int, instance bigint constraint its_instance"
          " references gen_durable)");
  db.rows("insert into orders values (1, $1)", {text(id)});
  check_kept("rows of orders refer to instance " + text(id)
             + ", or to what is its own (constraint its_instance)");
  db.rows("alter table orders alter constraint its_instance deferrable "
          "initially deferred");
  check_kept("\"its_instance\"");
  db.rows("drop table orders; create table receipts (signal bigint constraint"
          " its_signal references gen_durable_signals); insert into receipts"
          " select id from gen_durable_signals");
  check_kept("(constraint its_signal)");
  db.rows("drop table receipts; create function deaf() returns trigger language"
          " plpgsql as 'begin return null; end'");
  for (const std::string table :
       {"gen_durable", "gen_durable_signals", "gen_durable_ledger"}) {
    db.rows("create trigger deaf before delete on " + table
            + " for each row execute function deaf()");
    check_kept("a trigger ");
    db.rows("drop trigger deaf on " + table);
  }
  CAF_MESSAGE("what is to go with it does");
  db.rows("create table orders (n int, instance bigint references gen_durable "
          "on delete cascade, paid bigint references gen_durable on delete set "
          "null)");
  db.rows("insert into orders values (1, $1, null), (2, null, $1)", {text(id)});
  CAF_REQUIRE(by.operate(erasure(id)));
  CAF_CHECK_EQUAL(rows_of(id), "0 0 0 0");
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(n::text || num_nulls(paid), ' ') from orders"),
    "21");
}

CAF_TEST(arguments that cannot be are refused by name) {
  auto by = client();
  auto id = instance("failed");
  auto code = [](const gd::result<gd::commanded>& x) {
    CAF_MESSAGE(refusal(x));
    return x ? errc{} : x.error().code;
  };
  CAF_CHECK_EQUAL(code(by.operate({.what = act::retry, .target = 12345})),
                  errc::not_found);
  CAF_CHECK_EQUAL(code(by.operate({.what = act::retry, .key = "nobody"})),
                  errc::not_found);
  CAF_CHECK_EQUAL(
    code(by.operate({.what = act::retry, .target = id, .key = "k"})),
    errc::invalid_argument);
  CAF_CHECK_EQUAL(code(by.operate({.what = act::move, .target = id})),
                  errc::invalid_argument);
  CAF_CHECK_EQUAL(
    code(by.operate({.what = act::move, .target = id, .queue = "a\nb"})),
    errc::invalid_argument);
  CAF_CHECK_EQUAL(
    code(by.operate({.what = act::retry, .target = id, .by = "a\nb"})),
    errc::invalid_argument);
  CAF_CHECK_EQUAL(of(id, "seq"), "3");
  // One that is too long is cut, as for a transition.
  CAF_REQUIRE(by.operate(
    {.what = act::retry, .target = id, .reason = std::string(9'000, 'x')}));
}

CAF_TEST(an instance is named by its key and SQL users have the same verbs) {
  auto id = instance("failed", "pay", "order 42", "{runnable,failed}");
  auto by = client();
  auto now = by.operate({.what = act::retry, .key = "order 42"});
  CAF_REQUIRE(now);
  CAF_CHECK_EQUAL(now->id, id);
  CAF_CHECK_EQUAL(db.scalar("select gd_stop(key => 'order 42', by => 'ann')"),
                  "5");
  CAF_CHECK_EQUAL(
    db.scalar("select gd_requeue($1, 'slow', force => true)", {text(id)}), "6");
  CAF_CHECK_EQUAL(db.scalar("select gd_retry($1)", {text(id)}), "7");
  db.rows("update gen_durable set eligible_at = now() + interval '1 h'");
  CAF_CHECK_EQUAL(db.scalar("select gd_run_now(key_bytes => 'order 42')"), "8");
  // Who it was is told, whether he says so or not.
  CAF_CHECK_EQUAL(db.scalar("select by = session_user from gen_durable_ledger"
                            " where instance_id = $1 and seq = 7",
                            {text(id)}),
                  "t");
  check_path();
}

CAF_TEST(a retry names the instance that has its unique key by now) {
  auto id = instance("failed", "pay", "k", "{runnable,executing}");
  auto other = instance("runnable", "pay", "k", "{runnable,executing}");
  auto by = client();
  auto now = by.operate({.what = act::retry, .target = id});
  CAF_REQUIRE(!now);
  CAF_CHECK_EQUAL(now.error().code, errc::key_taken);
  CAF_CHECK(contains(now.error().message, "instance " + text(other)));
  CAF_CHECK_EQUAL(of(id, "status, seq"), "failed 3");
  CAF_REQUIRE(by.operate({.what = act::stop, .target = other}));
  CAF_REQUIRE(by.operate({.what = act::retry, .target = id}));
  // The other way round: one that occupies it when it has failed.
  auto failing = instance("runnable", "pay", "f", "{failed}");
  instance("failed", "pay", "f", "{failed}");
  CAF_CHECK(contains(
    refusal(by.operate({.what = act::stop, .target = failing})), "key_taken"));
  check_path();
}

CAF_TEST(where no function runs an instance that is tried again rests) {
  auto id = instance("awaiting_signal", "submitted");
  db.rows("update gen_durable set awaits = '', awaits_also = null");
  auto by = client();
  CAF_REQUIRE(by.operate({.what = act::stop, .target = id}));
  auto now = by.operate({.what = act::retry, .target = id});
  CAF_REQUIRE(now);
  CAF_CHECK_EQUAL(now->status, "awaiting_signal");
  CAF_CHECK_EQUAL(of(id, "awaits = '', deadline is not null"), "t t");
  CAF_CHECK(by.transition({.target = id, .to = "closed"}));
  check_path();
}

// -- forced races -------------------------------------------------------------

CAF_TEST(of a stop and an outcome the first is the truth) {
  CAF_MESSAGE("stopped first: the outcome is stale");
  auto id = instance("executing");
  auto& engine = connect();
  session caller{db.conninfo()};
  caller.exec("begin");
  caller.exec("select gd_stop($1, 'poison')", {text(id)});
  CAF_CHECK(flush(engine, id).empty()); // the row is locked: tried again
  caller.exec("commit");
  CAF_CHECK(!flush(engine, id).front().applied);
  CAF_CHECK_EQUAL(of(id, "status, step, state, last_error, seq"),
                  "failed pay {\"n\": 3} poison 4");
  CAF_MESSAGE(
    "the outcome first: the stop waits for it, and ends what it left");
  auto other = instance("executing");
  run(engine, {&gd::sql::begin, {}}, false);
  CAF_CHECK(flush(engine, other, false).front().applied);
  caller.start("select gd_stop($1, 'poison')", {text(other)});
  caller.wait_until_blocked_by(engine.backend());
  run(engine, {&gd::sql::commit, {}}, false);
  CAF_CHECK_EQUAL(end_of(caller), "5");
  CAF_CHECK_EQUAL(of(other, "status, step, state, seq"),
                  "failed ship {\"n\": 9} 5");
  check_path();
}

CAF_TEST(of a verb and a pick the second finds what the first has made) {
  CAF_MESSAGE("picked first: a stop takes the lease, a move is a conflict");
  auto first = instance("runnable");
  db.rows("update gen_durable set eligible_at = now(), crashes = 0");
  auto& engine = connect();
  session stop{db.conninfo()};
  session move{db.conninfo()};
  run(engine, {&gd::sql::begin, {}}, false);
  CAF_REQUIRE_EQUAL(
    store::read_pick(run(engine, store::pick(pick_under("node/1/1")), false))
      .rows.size(),
    1u);
  move.start("select gd_requeue($1, 'slow', force => true)", {text(first)});
  move.wait_until_blocked_by(engine.backend());
  run(engine, {&gd::sql::commit, {}}, false);
  CAF_CHECK_EQUAL(end_of(move), "MV003");
  CAF_CHECK_EQUAL(of(first, "status, queue"), "executing default");
  stop.exec("select gd_stop($1)", {text(first)});
  CAF_CHECK(!flush(engine, first).front().applied);
  CAF_MESSAGE("moved first: a pick of the old queue passes over it");
  auto second = instance("runnable");
  db.rows("update gen_durable set eligible_at = now(), crashes = 0 where id ="
          " $1",
          {text(second)});
  move.exec("begin");
  move.exec("select gd_requeue($1, 'slow', force => true)", {text(second)});
  CAF_CHECK(store::read_pick(run(engine, store::pick(pick_under("node/1/2"))))
              .rows.empty());
  move.exec("commit");
  CAF_CHECK(store::read_pick(run(engine, store::pick(pick_under("node/1/3"))))
              .rows.empty());
  auto slow = pick_under("node/1/4");
  slow.queue = "slow";
  CAF_CHECK_EQUAL(store::read_pick(run(engine, store::pick(slow))).rows.size(),
                  1u);
  check_path();
}

CAF_TEST(of a stop and a signal the signal is refused or lies in the inbox) {
  auto id = instance("awaiting_signal");
  session operating{db.conninfo()};
  session sending{db.conninfo()};
  operating.exec("begin");
  operating.exec("select gd_stop($1)", {text(id)});
  sending.start("select gd_signal($1, 'paid')", {text(id)});
  sending.wait_until_blocked_by(operating);
  operating.exec("commit");
  CAF_CHECK_EQUAL(end_of(sending), "target_finished");
  auto other = instance("awaiting_signal");
  sending.exec("begin");
  sending.exec("select gd_signal($1, 'paid')", {text(other)});
  operating.start("select gd_stop($1)", {text(other)});
  operating.wait_until_blocked_by(sending);
  sending.exec("commit");
  CAF_CHECK_EQUAL(end_of(operating), "4");
  CAF_CHECK_EQUAL(of(other, "status, wake_reason"), "failed signal");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable_signals where target_id = $1"
              " and consumed_at is null",
              {text(other)}),
    "1");
  check_path();
}

CAF_TEST(of a stop and a reap one moves the row and the other finds nothing) {
  auto id = instance("executing");
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s'");
  auto& engine = connect();
  session operating{db.conninfo()};
  operating.exec("begin");
  operating.exec("select gd_stop($1)", {text(id)});
  CAF_CHECK_EQUAL(run(engine, store::reap(10, {})).size(), 0u);
  operating.exec("commit");
  CAF_CHECK_EQUAL(run(engine, store::reap(10, {})).size(), 0u);
  CAF_CHECK_EQUAL(of(id, "status, seq"), "failed 4");
  auto other = instance("executing");
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s'"
          " where id = $1",
          {text(other)});
  run(engine, {&gd::sql::begin, {}}, false);
  CAF_CHECK_EQUAL(run(engine, store::reap(10, {}), false).size(), 1u);
  operating.start("select gd_stop($1)", {text(other)});
  operating.wait_until_blocked_by(engine.backend());
  run(engine, {&gd::sql::commit, {}}, false);
  CAF_CHECK_EQUAL(end_of(operating), "5");
  CAF_CHECK_EQUAL(of(other, "status, attempt, seq"), "failed 5 5");
  check_path();
}

CAF_TEST(of two verbs the second judges what the first has made) {
  auto id = instance("failed");
  session first{db.conninfo()};
  session second{db.conninfo()};
  first.exec("begin");
  first.exec("select gd_retry($1)", {text(id)});
  second.start("select gd_retry($1)", {text(id)});
  second.wait_until_blocked_by(first);
  first.exec("commit");
  CAF_CHECK_EQUAL(end_of(second), "MV003");
  CAF_CHECK_EQUAL(of(id, "status, seq"), "runnable 4");
  first.exec("begin");
  first.exec("select gd_stop($1)", {text(id)});
  second.start("select gd_requeue($1, 'slow', force => true)", {text(id)});
  second.wait_until_blocked_by(first);
  first.exec("commit");
  CAF_CHECK_EQUAL(end_of(second), "6");
  CAF_CHECK_EQUAL(of(id, "status, queue"), "failed slow");
  check_path();
}

CAF_TEST(a stranger who is just inserting its unique key wins it) {
  auto id = instance("failed", "pay", "k", "{runnable,executing}");
  session stranger{db.conninfo()};
  session operating{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("insert into gen_durable (fsm, step, unique_key, unique_scope)"
                " values ('Order', 'pay', 'k', '{runnable}')");
  operating.start("select gd_retry($1)", {text(id)});
  operating.wait_until_blocked_by(stranger);
  stranger.exec("commit");
  CAF_CHECK_EQUAL(end_of(operating), "MV006");
  CAF_CHECK_EQUAL(of(id, "status, seq"), "failed 3");
}

CAF_TEST(a row that a stranger holds is busy and one that executes is not waited for) {
  auto id = instance("failed");
  auto runs = instance("executing");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable for update");
  auto by = client(50ms);
  CAF_CHECK(
    contains(refusal(by.operate({.what = act::retry, .target = id})), "busy"));
  CAF_CHECK(contains(refusal(by.operate({.what = act::retry, .target = runs})),
                     "transition_conflict"));
}

CAF_TEST(what a stranger holds of an instance keeps it from being erased) {
  auto id = instance_with_signals("failed");
  auto before = rows_of(id);
  auto by = client(50ms);
  session stranger{db.conninfo()};
  for (const auto* held :
       {"select from gen_durable for update",
        "select from gen_durable for key share",
        "insert into gen_durable_signals (target_id, name) select id, 'paid' "
        "from gen_durable",
        "select from gen_durable_signals for update",
        "select from gen_durable_signals where consumed_at is not null for key "
        "share",
        "select from gen_durable_ledger for share"}) {
    CAF_MESSAGE(held);
    stranger.exec("begin");
    stranger.exec(held);
    auto now = by.operate(erasure(id));
    CAF_REQUIRE(!now);
    CAF_MESSAGE(refusal(now));
    CAF_CHECK_EQUAL(now.error().code, errc::busy);
    CAF_CHECK(contains(now.error().message, "instance " + text(id)));
    stranger.exec("rollback");
    CAF_CHECK_EQUAL(rows_of(id), before);
    CAF_CHECK_EQUAL(trace(id), "none");
  }
  CAF_REQUIRE(by.operate(erasure(id)));
}

CAF_TEST(of an erasure and a signal the signal goes with it or has no target) {
  auto id = instance("awaiting_signal");
  session erasing{db.conninfo()};
  session sending{db.conninfo()};
  CAF_MESSAGE("stored first, by whoever holds no more than a share of the row");
  sending.exec("begin");
  sending.exec("insert into gen_durable_signals (target_id, name) values ($1,"
               " 'paid')",
               {text(id)});
  erasing.start("select gd_erase($1, 'request 17', 'ann')", {text(id)});
  erasing.wait_until_blocked_by(sending);
  sending.exec("commit");
  CAF_CHECK_EQUAL(end_of(erasing), "3");
  CAF_CHECK_EQUAL(rows_of(id), "0 0 0 0");
  CAF_MESSAGE("sent first: it is woken, and erased");
  auto second = instance("awaiting_signal");
  sending.exec("begin");
  sending.exec("select gd_signal($1, 'paid')", {text(second)});
  erasing.start("select gd_erase($1, 'request 17', 'ann')", {text(second)});
  erasing.wait_until_blocked_by(sending);
  sending.exec("commit");
  CAF_CHECK_EQUAL(end_of(erasing), "3");
  CAF_CHECK_EQUAL(rows_of(second), "0 0 0 0");
  CAF_CHECK_EQUAL(trace(second), "Order 1 runnable 3 t ann request 17");
  CAF_MESSAGE("erased first");
  auto third = instance("awaiting_signal");
  auto fourth = instance("awaiting_signal");
  erasing.exec("begin");
  erasing.exec("select gd_erase($1, 'request 17')", {text(third)});
  erasing.exec("select gd_erase($1, 'request 17')", {text(fourth)});
  session inserting{db.conninfo()};
  sending.start("select gd_signal($1, 'paid')", {text(third)});
  inserting.start("insert into gen_durable_signals (target_id, name) values"
                  " ($1, 'paid') returning id",
                  {text(fourth)});
  sending.wait_until_blocked_by(erasing);
  inserting.wait_until_blocked_by(erasing);
  erasing.exec("commit");
  CAF_CHECK_EQUAL(end_of(sending), "no_such_target");
  CAF_CHECK_EQUAL(end_of(inserting), "23503");
  CAF_CHECK_EQUAL(rows_of(third), "0 0 0 0");
  check_path();
}

CAF_TEST(of two erasures one is told of the other and one that is taken back was
           none) {
  auto id = instance("failed", "pay", "k", "{failed}");
  session first{db.conninfo()};
  session second{db.conninfo()};
  first.exec("begin");
  first.exec("select gd_erase($1, 'request 17', 'ann')", {text(id)});
  second.start("select gd_erase(key => 'k', reason => 'request 18')");
  second.wait_until_blocked_by(first);
  first.exec("rollback");
  CAF_CHECK_EQUAL(end_of(second), "3");
  CAF_CHECK(contains(trace(id), "request 18"));
  auto other = instance("failed");
  first.exec("begin");
  first.exec("select gd_erase($1, 'request 17', 'ann')", {text(other)});
  second.start("select gd_erase($1, 'request 18')", {text(other)});
  second.wait_until_blocked_by(first);
  first.exec("commit");
  CAF_CHECK_EQUAL(end_of(second), "P0002");
  CAF_CHECK_EQUAL(trace(other), "Order 1 failed 3 t ann request 17");
  check_path();
}

CAF_TEST(who leaves its key while it is waited for is not erased for it) {
  auto id = instance("failed", "pay", "k", "{failed}");
  session leaving{db.conninfo()};
  session erasing{db.conninfo()};
  leaving.exec("begin");
  leaving.exec("select gd_retry($1)", {text(id)});
  erasing.start("select gd_erase(key => 'k', reason => 'request 17')");
  erasing.wait_until_blocked_by(leaving);
  leaving.exec("commit");
  CAF_CHECK_EQUAL(end_of(erasing), "P0002");
  CAF_CHECK_EQUAL(of(id, "status"), "runnable");
}

CAF_TEST(of an erasure and a pick the second finds what the first has made) {
  auto first = instance("runnable");
  db.rows("update gen_durable set eligible_at = now(), crashes = 0");
  auto& engine = connect();
  session erasing{db.conninfo()};
  run(engine, {&gd::sql::begin, {}}, false);
  CAF_REQUIRE_EQUAL(
    store::read_pick(run(engine, store::pick(pick_under("node/1/1")), false))
      .rows.size(),
    1u);
  erasing.start("select gd_erase($1, 'request 17')", {text(first)});
  erasing.wait_until_blocked_by(engine.backend());
  run(engine, {&gd::sql::commit, {}}, false);
  CAF_CHECK_EQUAL(end_of(erasing), "MV003");
  CAF_CHECK(flush(engine, first).front().applied);
  auto second = instance("runnable");
  db.rows("update gen_durable set eligible_at = now() + case id when $1 then"
          " interval '-1 s' else interval '1 h' end, crashes = 0",
          {text(second)});
  erasing.exec("begin");
  erasing.exec("select gd_erase($1, 'request 17')", {text(second)});
  for (const auto* end : {"", "commit"}) {
    if (*end != '\0')
      erasing.exec(end);
    CAF_CHECK(store::read_pick(run(engine, store::pick(pick_under("node/1/2"))))
                .rows.empty());
  }
  check_path();
}

CAF_TEST(what is tried again or let run is announced to engines that look) {
  auto ids = [this] {
    return db.scalar(
      "select concat(last_value, is_called) from gen_durable_signals_id_seq");
  };
  for (const auto* sql :
       {"select gd_retry($1)", "select gd_stop($1)", "select gd_retry($1)",
        "select gd_requeue($1, 'slow', force => true)"}) {
    static auto id = instance("failed");
    auto before = ids();
    db.rows(sql, {text(id)});
    CAF_CHECK_EQUAL(ids() == before, sql == "select gd_stop($1)"s);
  }
}

CAF_TEST(functions and operators that fit better than those of PostgreSQL
           are not called) {
  auto id = instance("failed", "pay", "k", "{runnable}");
  gd::test::define_traps(db);
  CAF_CHECK_EQUAL(db.scalar("select gd_retry($1)", {text(id)}), "4");
  CAF_CHECK_EQUAL(
    db.scalar("select gd_requeue(key => 'k', queue => 'q', force => true)"),
    "5");
  CAF_CHECK_EQUAL(db.scalar("select gd_stop($1)", {text(id)}), "6");
  db.rows("select gd_pause('q')");
  db.rows("select gd_resume('q')");
  auto job = db.scalar("select gd_begin_job('retry', fsm => 'Order')");
  CAF_CHECK_EQUAL(db.scalar("select _gd_work_on_job($1)", {job}), "t");
  CAF_CHECK_EQUAL(of(id, "status"), "runnable");
  db.rows("select gd_erase(key => 'k', reason => 'request 17')");
  db.rows("select * from gd_why($1)", {text(id)});
  CAF_CHECK_EQUAL(db.scalar("select count(*) from trapped"), "0");
  CAF_CHECK_EQUAL(rows_of(id), "0 0 0 0");
}

// -- queues -------------------------------------------------------------------

CAF_TEST(a queue is paused and resumed and says by whom and why) {
  auto by = client();
  auto id = instance("runnable");
  CAF_REQUIRE(by.pause("default", "the bank is down", "ann"));
  auto why = by.why({.id = id});
  CAF_REQUIRE(why);
  CAF_CHECK_EQUAL(db.scalar("select concat_ws(' ', queue, paused_at <= now(),"
                            " paused_by, reason) from gen_durable_queues"),
                  "default t ann the bank is down");
  auto rows = by.queues();
  CAF_REQUIRE(rows);
  CAF_REQUIRE_EQUAL(rows->size(), 1u);
  CAF_CHECK(rows->front().paused);
  CAF_CHECK_EQUAL(rows->front().paused_by.value_or(""), "ann");
  CAF_REQUIRE(by.pause("default", {}, "bob"));
  CAF_CHECK_EQUAL(db.scalar("select paused_by from gen_durable_queues"), "bob");
  auto was = by.resume("default");
  CAF_REQUIRE(was);
  CAF_CHECK(*was);
  was = by.resume("default");
  CAF_REQUIRE(was);
  CAF_CHECK(!*was);
  CAF_CHECK(contains(refusal(by.pause("a\nb")), "invalid_argument"));
}

CAF_TEST(queues tell what is due in them and who serves them) {
  db.rows("insert into gen_durable (fsm, step, queue, priority, partition_key,"
          " eligible_at, crashes) values ('A', 's', 'a', 0, null, 'epoch', 0),"
          " ('A', 's', 'a', 1, null, now(), 0), ('A', 's', 'a', 0, null, now()"
          " + interval '1 h', 0), ('A', 's', 'a', 0, 'k', now(), 0), ('B', 's',"
          " 'b', 0, null, now() + interval '1 h', 0)");
  session node{db.conninfo()};
  node.exec("select pg_advisory_lock(hashtext('gen_durable node'),"
            " hashtext('n/1'))");
  db.rows("insert into gen_durable_nodes (incarnation, node, host, process,"
          " library, lease, slots, queues, machines) values ('n/1', 'n', 'h',"
          " 1, '1', '1 min', 4, '[{\"name\": \"c\", \"slots\": 4}]', '[]')");
  auto rows = client().queues();
  CAF_REQUIRE(rows);
  std::string told;
  for (const auto& x : *rows)
    told += x.queue + " " + text(x.nodes) + " " + text(x.slots) + " "
            + text(x.due) + " " + text(x.oldest_due_us.value_or(-1)) + "; ";
  CAF_CHECK_EQUAL(told, "a 0 0 3 0; b 0 0 0 -1; c 1 4 0 -1; ");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace verbs_suite
