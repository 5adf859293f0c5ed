#define CAF_SUITE effects

// What outcomes carry: as a turn writes it, with strangers, poison and lost connections; and
// what handlers are told, in both test kits.

#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/testing.hpp>

#include <support/opened.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace effects_suite {

using namespace std::literals;

GD_ENUM(parent_step, send, wait, after);
GD_ENUM(child_step, work, rest);

struct parent_state {
  std::int64_t n = 0;
  std::int64_t target = 0;
  std::string told{};
  GD_STATE(parent_state, n, target, told);
};

struct child_state {
  std::int64_t part = 0;
  GD_STATE(child_state, part);
};

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;
namespace store = gd::store;

using gd::effect_kind;
using gd::test::session;
using store::outcome_row;
using store::write_kind;
using verdict = gd::turn::flushed::verdict;
using clock_type = gd::turn::clock;
using ids = std::vector<std::int64_t>;

// -- the statement's text -----------------------------------------------------

} // namespace

CAF_TEST(a statement is one that cannot end or split its transaction) {
  for (const auto* text :
       {"select 1", "  INSERT into t values ($1)", "update t set x = ';'",
        "with x as (select 1) select * from x;",
        "/* a ; */ -- b ;\n delete from t",
        "merge into t using s on true when matched then delete",
        "select $$ ; $$", "select $a$ ; $$ ; $a$ ;  -- end",
        "select e'\\';', \"a;b\"", "select '\\' ;", "select a$b from t"})
    CAF_CHECK(gd::check_statement(text));
  for (const auto* text :
       {"", "  ", "commit", "begin", "rollback", "set search_path = x",
        "copy t from stdin", "select 1; commit", "select '\\'; drop table t",
        "/* select */ prepare x as select 1", "(select 1)",
        "do $$ begin end $$", "select e'\\''; commit", "select $$ $$; select 1",
        "vacuum", "selective", "savepoint x"}) {
    CAF_MESSAGE(text);
    CAF_CHECK(!gd::check_statement(text));
  }
}

CAF_TEST(values are bound as the texts that PostgreSQL reads) {
  auto x = gd::done().sql(
    "select $1", 7, -1.5, true, "text", "s"s, std::optional<int>{},
    std::nullopt, 90s, std::chrono::sys_days{2026y / 3 / 1}, child_step::rest,
    child_state{3}, gd::json::raw("[1]"));
  std::vector<std::string> texts;
  for (const auto& value : x.carried->statements.front().values)
    texts.push_back(value.null ? "null" : value.text);
  CAF_CHECK_EQUAL(
    texts, (std::vector<std::string>{"7", "-1.5", "true", "text", "s", "null",
                                     "null", "90000000 microseconds",
                                     "2026-03-01 00:00:00.000000+00", "rest",
                                     R"({"part":3})", "[1]"}));
}

// -- a turn -------------------------------------------------------------------

namespace {

struct with_server : gd::test::engine_database {
  clock_type::time_point now = clock_type::now();
  int transactions = 0;

  with_server() {
    db.rows("create table entries (account text primary key, amount int check "
            "(amount > 0)); insert into gen_durable_machines (fsm, version, "
            "initial_step, queue, steps, served) values ('Child', 1, 'work', "
            "'children', '{work,rest}', true)");
  }

  ids executing(int n) {
    ids xs;
    for (auto& x : db.rows("insert into gen_durable (fsm, step, status, "
                           "locked_by, lease_expires_at)"
                           " select 'Order', 'collect', 'executing', "
                           "'node/1/1', now() + interval '1 minute'"
                           " from generate_series(1, $1) returning id",
                           {std::to_string(n)}))
      xs.push_back(std::stoll(x.front().value()));
    return xs;
  }

  std::int64_t parked(const std::string& name = "go") {
    return std::stoll(db.scalar(
      "insert into gen_durable (fsm, step, status, awaits) values ('Order', "
      "'collect', 'awaiting_signal', $1) returning id",
      {name}));
  }

  static gd::turn make_turn() {
    return gd::turn{{.queue = "default",
                     .incarnation = "node/1",
                     .machines = {{"Order", 1}},
                     .lease = 60s,
                     .inbox = 3,
                     .statements = {.search_path = "public"}}};
  }

  static outcome_row next_row(std::int64_t id) {
    outcome_row row;
    row.id = id;
    row.token = "node/1/1";
    row.what = write_kind::next;
    row.step = "ship";
    row.state = R"({"n": 2})";
    row.carried = std::make_shared<gd::effects>();
    return row;
  }

  static outcome_row signals(std::int64_t id, std::int64_t target,
                             bool or_fail = false,
                             const std::string& name = "go") {
    auto row = next_row(id);
    row.carried->signals.push_back(
      {{.target = target, .name = name, .payload = gd::json::raw("{}")},
       or_fail});
    return row;
  }

  static outcome_row inserts(std::int64_t id, gd::insert what) {
    auto row = next_row(id);
    row.carried->inserts.push_back(std::move(what));
    return row;
  }

  static outcome_row runs(std::int64_t id, std::string text,
                          std::vector<std::string> values = {},
                          std::optional<std::int64_t> rows = {}) {
    auto row = next_row(id);
    gd::sql_statement what{.text = std::move(text), .rows = rows};
    for (auto& x : values)
      what.values.push_back({false, std::move(x)});
    row.carried->statements.push_back(std::move(what));
    return row;
  }

  static outcome_row adds_entry(std::int64_t id, const std::string& account,
                                int amount = 1) {
    return runs(id, "insert into entries values ($1, $2)",
                {account, std::to_string(amount)}, 1);
  }

  gd::turn::report once(gd::turn& turn) {
    auto due = turn.due(now);
    CAF_REQUIRE(due != clock_type::time_point::max());
    now = std::max(now, due);
    auto work = turn.begin(0, now);
    CAF_REQUIRE(work);
    ++transactions;
    auto report = turn.finish(0, engine->run(work->work), now);
    CAF_CHECK(engine->state() == pq::connection::phase::idle);
    if (report.failure)
      CAF_FAIL(gd::to_string(*report.failure));
    return report;
  }

  std::map<std::int64_t, gd::turn::flushed> finish_all(gd::turn& turn) {
    std::map<std::int64_t, gd::turn::flushed> xs;
    transactions = 0;
    while (!turn.empty()) {
      CAF_REQUIRE_LESS(transactions, 500);
      for (auto& x : once(turn).rows) {
        auto id = x.row->id;
        CAF_CHECK(xs.emplace(id, std::move(x)).second);
      }
    }
    return xs;
  }

  gd::turn::flushed write(outcome_row row) {
    auto turn = make_turn();
    auto id = row.id;
    turn.add(std::move(row));
    auto fates = finish_all(turn);
    CAF_REQUIRE_EQUAL(fates.size(), 1u);
    return std::move(fates.at(id));
  }

  std::string inbox(std::int64_t id) {
    return db.scalar("select count(*) from gen_durable_signals where target_id "
                     "= $1 and consumed_at is null",
                     {std::to_string(id)});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(carried_with_a_server, with_server)

CAF_TEST(what an outcome carries happens with it and in its order) {
  auto id = executing(1).front();
  auto row = inserts(id, {.fsm = "Child",
                          .state = gd::json::raw(R"({"part": 1})"),
                          .unique_key = "child"});
  row.carried->signals.push_back({{.name = "go", .key = "child"}});
  row.carried->statements.push_back(
    {"insert into entries select payload ->> 'x', count(*) over () from "
     "gen_durable_signals s where name = $1",
     {{false, "go"}},
     1});
  row.carried->signals.front().what.payload = gd::json::raw(R"({"x": "y"})");
  auto turn = make_turn();
  turn.add(std::move(row));
  auto report = once(turn);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::applied);
  CAF_CHECK_EQUAL(report.carried.inserts, 1u);
  CAF_CHECK_EQUAL(report.carried.signals, 1u);
  CAF_CHECK_EQUAL(report.carried.statements, 1u);
  CAF_CHECK_EQUAL(report.queues, (std::set<std::string>{"children"}));
  CAF_CHECK_EQUAL(
    count("fsm = 'Child' and step = 'work' and queue = 'children' "
          "and status = 'runnable'"),
    "1");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable_due where fsm = 'Child'"), "1");
  CAF_CHECK_EQUAL(db.scalar("select account || amount from entries"), "y1");
  CAF_CHECK_EQUAL(count("step = 'ship'"), "1");
}

CAF_TEST(a stale outcome does nothing of what it carries) {
  auto target = parked();
  auto rows = executing(3);
  db.rows("update gen_durable set locked_by = 'node/2/1' where id = $1",
          {std::to_string(rows[1])});
  auto turn = make_turn();
  turn.add(signals(rows[0], target));
  auto late = signals(rows[1], target, false, "late");
  late.carried->statements = adds_entry(rows[1], "late").carried->statements;
  turn.add(std::move(late));
  turn.add(adds_entry(rows[2], "c"));
  auto fates = finish_all(turn);
  CAF_CHECK(fates.at(rows[0]).what == verdict::applied);
  CAF_CHECK(fates.at(rows[1]).what == verdict::stale);
  CAF_CHECK(fates.at(rows[2]).what == verdict::applied);
  CAF_CHECK_EQUAL(inbox(target), "1");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(account, ',') from entries"),
                  "c");
}

CAF_TEST(the refused effect is told and its neighbours commit) {
  auto target = parked();
  auto rows = executing(6);
  auto ended = parked();
  db.rows("update gen_durable set status = 'done', awaits = null where id = $1",
          {std::to_string(ended)});
  auto turn = make_turn();
  turn.add(signals(rows[0], target));
  auto two = signals(rows[1], target);
  two.carried->signals.push_back({{.target = 987654, .name = "go"}});
  turn.add(std::move(two));
  turn.add(signals(rows[2], ended)); // dropped
  turn.add(signals(rows[3], ended, true));
  turn.add(inserts(rows[4], {.fsm = "Nobody"}));
  turn.add(inserts(rows[5], {.fsm = "Child", .step = "play"}));
  auto fates = finish_all(turn);
  auto why = [&](int n) { return fates.at(rows[n]).effect.value(); };
  for (auto n : {0, 2})
    CAF_CHECK(fates.at(rows[n]).what == verdict::applied);
  for (auto n : {1, 3, 4, 5})
    CAF_CHECK(fates.at(rows[n]).what == verdict::refused);
  CAF_CHECK_EQUAL(why(1).number, 2u);
  CAF_CHECK(why(1).kind == effect_kind::signal);
  CAF_CHECK(why(1).why.code == gd::errc::no_such_target);
  CAF_CHECK(why(3).why.code == gd::errc::target_finished);
  CAF_CHECK(why(4).why.code == gd::errc::unknown_machine);
  CAF_CHECK_EQUAL(
    why(5).message(),
    "insert 1: step: expected one of work|rest of Child v1, got play");
  CAF_CHECK_EQUAL(inbox(target), "1");
  CAF_CHECK_EQUAL(inbox(ended), "0");
  CAF_CHECK_EQUAL(count("step = 'ship'"), "2");
}

CAF_TEST(keys that are taken and dedup keys that are known are no errors) {
  auto target = parked();
  auto rows = executing(4);
  for (int i = 0; i < 2; ++i) {
    auto row = inserts(rows[i], {.fsm = "Child", .unique_key = "k"});
    row.carried->signals.push_back(
      {{.target = target, .name = "go", .dedup_key = "d"}});
    CAF_CHECK(write(std::move(row)).what == verdict::applied);
  }
  CAF_CHECK_EQUAL(count("fsm = 'Child'"), "1");
  CAF_CHECK_EQUAL(inbox(target), "1");
  auto other = write(inserts(rows[2], {.fsm = "Order",
                                       .version = 1,
                                       .step = "a",
                                       .queue = "q",
                                       .unique_key = "k"}));
  CAF_CHECK(other.what == verdict::refused);
  CAF_CHECK(other.effect->why.code == gd::errc::key_of_another_machine);
  auto both = inserts(rows[3], {.fsm = "Child", .unique_key = "m"});
  both.carried->inserts.push_back({.fsm = "Child", .unique_key = "m"});
  CAF_CHECK(write(std::move(both)).what == verdict::applied);
  CAF_CHECK_EQUAL(count("fsm = 'Child'"), "2");
}

CAF_TEST(a target that a stranger has locked delays its sender only) {
  auto target = parked();
  auto rows = executing(10);
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update",
                {std::to_string(target)});
  auto turn = make_turn();
  auto free = parked();
  for (auto id : rows)
    turn.add(signals(id, id == rows[4] ? target : free, false,
                     "n" + std::to_string(id % 3)));
  std::size_t written = 0;
  std::size_t told = 0;
  for (int i = 0; i < 12; ++i) {
    auto report = once(turn);
    written += report.rows.size();
    told += report.held_up.size();
  }
  CAF_CHECK_EQUAL(told, 1u + 6u); // three fit into an inbox
  CAF_CHECK_EQUAL(written, 3u);
  CAF_CHECK_EQUAL(count("step = 'collect' and status = 'executing'"), "7");
  stranger.exec("commit");
  db.rows("delete from gen_durable_signals");
  while (!turn.empty() && transactions < 400) {
    db.rows("delete from gen_durable_signals");
    written += once(turn).rows.size();
  }
  CAF_CHECK_EQUAL(written, 10u);
  CAF_CHECK_EQUAL(count("step = 'ship'"), "10");
}

CAF_TEST(who waits for too long is refused) {
  auto target = parked();
  auto id = executing(1).front();
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update",
                {std::to_string(target)});
  auto turn = make_turn();
  turn.add(signals(id, target));
  auto begun = now;
  auto fates = finish_all(turn);
  CAF_CHECK(fates.at(id).what == verdict::refused);
  CAF_CHECK(fates.at(id).effect->why.code == gd::errc::busy);
  CAF_CHECK(now - begun >= 30s);
  CAF_CHECK_EQUAL(inbox(target), "0");
}

CAF_TEST(two that signal each other deadlock nobody) {
  auto rows = executing(2);
  auto& other = connect();
  auto one = make_turn();
  auto two = make_turn();
  one.add(signals(rows[0], rows[1]));
  two.add(signals(rows[1], rows[0]));
  // Both have locked their own row when they ask for the other's.
  auto first = one.begin(0, now);
  auto work = std::move(first->work);
  work.accept = [&](const std::vector<pq::rows>&) {
    auto second = two.begin(0, now);
    auto report = two.finish(0, other.run(second->work), now);
    CAF_CHECK(report.rows.empty()); // busy
    return true;
  };
  auto report = one.finish(0, engine->run(work), now);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::applied);
  CAF_CHECK(finish_all(two).at(rows[1]).what == verdict::applied);
  CAF_CHECK_EQUAL(inbox(rows[0]), "1");
  CAF_CHECK_EQUAL(inbox(rows[1]), "1");
}

CAF_TEST(one poisoned statement of a hundred is told and ninety nine commit) {
  auto rows = executing(100);
  auto guilty = rows[61];
  auto turn = make_turn();
  for (auto id : rows)
    turn.add(adds_entry(id, std::to_string(id), id == guilty ? -1 : 1));
  auto fates = finish_all(turn);
  CAF_CHECK_EQUAL(fates.size(), 100u);
  for (const auto& [id, x] : fates)
    CAF_CHECK(x.what == (id == guilty ? verdict::refused : verdict::applied));
  CAF_CHECK_EQUAL(fates.at(guilty).effect->why.sqlstate, "23514");
  CAF_CHECK_EQUAL(fates.at(guilty).effect->number, 1u);
  CAF_CHECK_LESS_OR_EQUAL(transactions, 4);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from entries"), "99");
  CAF_CHECK_EQUAL(count("step = 'ship'"), "99");
}

CAF_TEST(statements are refused for what they do and how many rows) {
  db.rows(
    "create function angry() returns trigger language plpgsql as $$ "
    "begin raise exception 'not this one'; end $$; create table guarded "
    "(n int); create trigger guard before insert on guarded for each row "
    "execute function angry(); create table late (n int, constraint once "
    "unique (n) deferrable initially deferred); create procedure ends() "
    "language plpgsql as $$ begin commit; end $$; create function "
    "commits() returns void language plpgsql as $$ begin call ends(); end "
    "$$");
  struct example {
    std::string text;
    std::vector<std::string> values;
    std::optional<std::int64_t> rows;
    std::string sqlstate;
    std::size_t number;
  };
  for (const auto& x : std::vector<example>{
         {"insert into guarded values ($1)", {"1"}, {}, "P0001", 1},
         {"insert into nowhere values (1)", {}, {}, "42P01", 1},
         {"select nonsense", {}, {}, "42703", 1},
         {"insert into entries values ($1, $2)", {"a", "many"}, {}, "22P02", 1},
         {"update entries set amount = 2", {}, 1, "", 1},
         {"select generate_series(1, 3)", {}, 2, "", 1},
         {"select pg_sleep(10)", {}, {}, "57014", 1},
         {"insert into late values (1), (1)", {}, {}, "23505", 0},
         {"select commits()", {}, {}, "2D000", 1},
         {"select 1; select 2", {}, {}, "42601", 1}}) {
    CAF_MESSAGE(x.text);
    auto rows = executing(2);
    auto turn = gd::turn{
      {.queue = "default",
       .incarnation = "node/1",
       .machines = {},
       .lease = 60s,
       .statements = {.search_path = "public", .statement_timeout = 50ms}}};
    auto bad = runs(rows[0], x.text, x.values, x.rows);
    bad.carried->patience = 1ms;
    turn.add(std::move(bad));
    turn.add(adds_entry(rows[1], x.text));
    auto fates = finish_all(turn);
    CAF_CHECK(fates.at(rows[0]).what == verdict::refused);
    CAF_CHECK(fates.at(rows[1]).what == verdict::applied);
    CAF_REQUIRE(fates.at(rows[0]).effect);
    const auto& why = *fates.at(rows[0]).effect;
    CAF_CHECK_EQUAL(why.why.sqlstate, x.sqlstate);
    CAF_CHECK_EQUAL(why.number, x.number);
    CAF_CHECK(why.kind == effect_kind::sql);
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from late"), "0");
}

CAF_TEST(a statement that waits for a stranger delays its outcome only) {
  db.rows("insert into entries values ('a', 1)");
  auto rows = executing(2);
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("update entries set amount = 5");
  auto turn = make_turn();
  turn.add(runs(rows[0],
                "update entries set amount = amount + 1 where account = 'a'",
                {}, 1));
  turn.add(adds_entry(rows[1], "b"));
  std::size_t written = 0;
  for (int i = 0; i < 5; ++i)
    written += once(turn).rows.size();
  CAF_CHECK_EQUAL(written, 1u);
  stranger.exec("commit");
  CAF_CHECK(finish_all(turn).at(rows[0]).what == verdict::applied);
  CAF_CHECK_EQUAL(db.scalar("select amount from entries where account = 'a'"),
                  "6");
}

CAF_TEST(
  what passes by itself delays its outcome only whatever the server calls it) {
  db.rows(
    "create table gate (n int); create function enter(code text) returns "
    "void language plpgsql as $$ begin if exists (select from public.gate) "
    "then raise exception using errcode = code; end if; end $$");
  for (const auto* code :
       {"40001", "40P01", "55P03", "57014", "53200", "57P03", "08006"}) {
    CAF_MESSAGE(code);
    db.rows("insert into gate values (1)");
    auto rows = executing(3);
    auto turn = make_turn();
    turn.add(adds_entry(rows[0], code + "a"s));
    turn.add(runs(rows[1], "select enter($1)", {code}, 1));
    turn.add(adds_entry(rows[2], code + "b"s));
    std::size_t written = 0;
    std::size_t told = 0;
    for (int i = 0; i < 4; ++i) {
      auto report = once(turn);
      written += report.rows.size();
      told += report.held_up.size();
    }
    CAF_CHECK_EQUAL(written, 2u);
    CAF_CHECK_EQUAL(told, 1u);
    db.rows("delete from gate");
    CAF_CHECK(finish_all(turn).at(rows[1]).what == verdict::applied);
  }
}

CAF_TEST(a full inbox passes when it is read and else refuses) {
  auto target = parked("never");
  for (const auto& id : executing(3))
    CAF_CHECK(write(signals(id, target)).what == verdict::applied);
  auto rows = executing(2);
  auto turn = make_turn();
  turn.add(signals(rows[0], target));
  auto impatient = signals(rows[1], target);
  impatient.carried->patience = 1s;
  turn.add(std::move(impatient));
  std::map<std::int64_t, gd::turn::flushed> fates;
  while (fates.empty())
    for (auto& x : once(turn).rows)
      fates.emplace(x.row->id, std::move(x));
  CAF_REQUIRE_EQUAL(fates.size(), 1u);
  CAF_CHECK(fates.at(rows[1]).what == verdict::refused);
  CAF_CHECK(fates.at(rows[1]).effect->why.code == gd::errc::inbox_full);
  db.rows("update gen_durable_signals set consumed_at = now()");
  CAF_CHECK(finish_all(turn).at(rows[0]).what == verdict::applied);
  CAF_CHECK_EQUAL(inbox(target), "1");
}

CAF_TEST(senders in a ring deadlock nobody and starve nobody) {
  constexpr std::size_t n = 4;
  auto rows = executing(n);
  std::vector<gd::turn> turns;
  std::vector<pq::connection*> connections;
  for (std::size_t i = 0; i < n; ++i) {
    turns.push_back(make_turn());
    turns[i].add(signals(rows[i], rows[(i + 1) % n]));
    connections.push_back(&connect());
  }
  // Each has locked its own row and the next one's when that one asks.
  std::function<void(std::size_t)> begin = [&](std::size_t i) {
    auto work = std::move(turns[i].begin(0, now)->work);
    work.accept = [&, i, accept = work.accept](const auto& answers) {
      if (i + 1 < n)
        begin(i + 1);
      return accept(answers);
    };
    turns[i].finish(0, connections[i]->run(work), now);
  };
  begin(0);
  CAF_CHECK(std::any_of(turns.begin(), turns.end(),
                        [](const auto& x) { return !x.empty(); }));
  for (auto& x : turns)
    finish_all(x);
  for (auto id : rows)
    CAF_CHECK_EQUAL(inbox(id), "1");
  CAF_CHECK_EQUAL(count("step = 'ship'"), "4");
}

CAF_TEST(statements have the rights and the names that are set for them) {
  gd::test::temporary_role role{db};
  db.rows("create schema app; create table app.mine (n int); grant usage on "
          "schema app to "
          + gd::test::quoted_name(role.name)
          + "; grant insert, select on app.mine to "
          + gd::test::quoted_name(role.name));
  auto turn = gd::turn{
    {.queue = "default",
     .incarnation = "node/1",
     .machines = {},
     .lease = 60s,
     .statements = {.search_path = "app", .role = role.name}}};
  auto rows = executing(3);
  turn.add(runs(rows[0], "insert into mine values (1)", {}, 1));
  turn.add(runs(rows[1], "delete from public.gen_durable", {}));
  turn.add(signals(rows[2], rows[0]));
  auto fates = finish_all(turn);
  CAF_CHECK(fates.at(rows[0]).what == verdict::applied);
  CAF_CHECK_EQUAL(fates.at(rows[1]).effect->why.sqlstate, "42501");
  CAF_CHECK(fates.at(rows[2]).what == verdict::applied);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from app.mine"), "1");
  auto reply = engine->run({{store::lock({rows[0]})}, true});
  CAF_CHECK(reply.ok()); // the session is the engine's again
}

CAF_TEST(a lost connection leaves all of it or nothing) {
  auto target = parked();
  auto rows = executing(1);
  auto row = signals(rows[0], target);
  row.carried->statements = adds_entry(rows[0], "a").carried->statements;
  auto turn = make_turn();
  turn.add(std::move(row));
  CAF_MESSAGE("before the commit");
  auto work = turn.begin(0, now)->work;
  auto accept = work.accept;
  work.accept = [&](const std::vector<pq::rows>& answers) {
    CAF_CHECK(accept(answers));
    db.terminate_engines();
    return true;
  };
  auto report = turn.finish(0, engine->run(work), now);
  CAF_CHECK(report.rows.empty());
  CAF_CHECK_EQUAL(inbox(target), "0");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from entries"), "0");
  CAF_MESSAGE("behind it");
  engine = &connect();
  now += 10s;
  work = turn.begin(0, now)->work;
  auto done = engine->run(work);
  CAF_REQUIRE(done.ok());
  pq::reply lost;
  lost.failure = gd::error{gd::errc::unknown_fate, "made by hand", {}};
  turn.finish(0, lost, now);
  auto fates = finish_all(turn);
  CAF_CHECK(fates.at(rows[0]).what == verdict::unknown);
  CAF_CHECK_EQUAL(inbox(target), "1");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from entries"), "1");
}

CAF_TEST(a connection keeps so many texts prepared) {
  for (int i = 0; i < 300; ++i) {
    auto id = executing(1).front();
    auto text = "select " + std::to_string(i % 290) + " + $1::int";
    CAF_CHECK(write(runs(id, text, {"1"}, 1)).what == verdict::applied);
  }
  auto id = executing(1).front();
  auto kept = runs(id, "insert into entries select 'kept', count(*) from "
                       "pg_prepared_statements where name like 'gd_own_%'");
  CAF_CHECK(write(std::move(kept)).what == verdict::applied);
  auto n = std::stoi(db.scalar("select amount from entries"));
  CAF_CHECK_LESS_OR_EQUAL(n, 257); // the last one is closed with the next
  CAF_CHECK_GREATER(n, 200);
}

CAF_TEST(what runs ahead carries as others do) {
  auto target = parked();
  auto rows = executing(2);
  auto turn = make_turn();
  for (int i = 0; i < 2; ++i) {
    auto row = signals(rows[i], i == 0 ? target : 987654);
    row.what = write_kind::advance;
    turn.add(std::move(row));
  }
  auto fates = finish_all(turn);
  CAF_CHECK(fates.at(rows[0]).what == verdict::applied);
  CAF_CHECK(!fates.at(rows[0]).next_token.empty());
  CAF_CHECK(fates.at(rows[1]).what == verdict::refused);
  CAF_CHECK_EQUAL(db.scalar("select locked_by from gen_durable where id = $1",
                            {std::to_string(rows[0])}),
                  fates.at(rows[0]).next_token);
  CAF_CHECK_EQUAL(db.scalar("select locked_by from gen_durable where id = $1",
                            {std::to_string(rows[1])}),
                  "node/1/1");
}

CAF_TEST(an outcome that carries nothing is written as before) {
  auto rows = executing(2);
  auto turn = make_turn();
  for (auto id : rows) {
    auto row = next_row(id);
    row.carried.reset();
    turn.add(std::move(row));
  }
  auto work = turn.begin(0, now)->work;
  CAF_CHECK_EQUAL(work.calls.size(), 1u);
  CAF_CHECK(!work.accept);
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- both test kits -----------------------------------------------------------

namespace {

using context = gd::context<parent_state>;
using step_function = std::function<gd::outcome(context&)>;

gd::machine parent(
  step_function send,
  std::function<gd::outcome(const gd::failure&, context&)> handler = nullptr) {
  auto x = gd::define<parent_state, parent_step>("Parent", 1)
             .step(parent_step::send, std::move(send))
             .step(parent_step::wait,
                   [](context& ctx) -> gd::outcome {
                     if (ctx.take<child_state>("counted"))
                       ++ctx.state.n;
                     if (ctx.state.n == 2)
                       return gd::done(ctx.state);
                     return gd::await("counted", ctx.state);
                   })
             .step(parent_step::after,
                   [](context& ctx) { return gd::done(ctx.state); });
  if (handler)
    return std::move(x).on_error(std::move(handler));
  return x;
}

gd::machine child() {
  return gd::define<child_state, child_step>("Child", 1)
    .step(child_step::work,
          [](gd::context<child_state>& ctx) -> gd::outcome {
            return gd::done().signal({.name = "counted",
                                      .payload = gd::to_json(ctx.state),
                                      .key = "parent"});
          })
    .step(child_step::rest,
          [](gd::context<child_state>&) -> gd::outcome { return gd::done(); });
}

/// The same in memory and in a database.
struct both_kits : gd::test::opened_database {
  using test = std::function<void(gd::testing::harness&)>;

  void in_both(const std::function<std::vector<gd::machine>()>& machines,
               const test& what) {
    CAF_MESSAGE("in memory");
    gd::testing::simulation memory{machines()};
    what(memory);
    CAF_MESSAGE("in a database");
    auto stored = gd::testing::in_database::connect(db.options(), machines());
    CAF_REQUIRE(stored);
    what(*stored);
  }

  static std::int64_t insert(gd::testing::harness& in) {
    auto made = in.insert({.fsm = "Parent",
                           .state = gd::to_json(parent_state{}),
                           .unique_key = "parent"});
    CAF_REQUIRE(made);
    CAF_REQUIRE(in.drain());
    return made->id;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(carried_in_both_kits, both_kits)

CAF_TEST(a parent makes children that tell it) {
  auto machines = [] {
    return std::vector{
      parent([](context& ctx) -> gd::outcome {
        auto out = gd::next(parent_step::wait, ctx.state);
        for (int i = 0; i < 2; ++i)
          out = std::move(out).insert(
            {.fsm = "Child", .state = gd::to_json(child_state{i})});
        return out;
      }),
      child()};
  };
  in_both(machines, [](auto& kit) {
    auto id = insert(kit);
    CAF_CHECK_EQUAL(kit.template result<parent_state>(id)->n, 2);
  });
}

CAF_TEST(the handler is told which effect is refused and may send others) {
  auto machines = [] {
    return std::vector{
      parent(
        [](context& ctx) {
      return gd::next(parent_step::after, ctx.state)
        .insert({.fsm = "Child", .state = gd::to_json(child_state{})})
        .signal({.target = ctx.id, .name = "self"})
        .signal({.target = 987'654, .name = "go"});
        },
        [](const gd::failure& why, context& ctx) -> gd::outcome {
          const auto* refused = why.refused();
          CAF_REQUIRE(refused != nullptr);
          ctx.state.told = std::string{to_string(refused->kind)}
                           + std::to_string(refused->number)
                           + std::string{gd::to_string(refused->why.code)};
          return gd::done(ctx.state).insert(
            {.fsm = "Child", .state = gd::to_json(child_state{7})});
        }),
      child()};
  };
  in_both(machines, [](auto& kit) {
    auto id = insert(kit);
    auto ended = kit.template result<parent_state>(id);
    CAF_REQUIRE(ended);
    CAF_CHECK_EQUAL(ended->told, "signal2no_such_target");
    std::size_t children = 0;
    for (const auto& x : kit.history())
      children += x.step == "work" ? 1 : 0;
    CAF_CHECK_EQUAL(children, 1u);
    CAF_CHECK_EQUAL(kit.instance(id)->inbox, 0);
  });
}

CAF_TEST(an instance fails whose handler is refused too) {
  auto machines = [] {
    return std::vector{parent(
      [](context& ctx) {
      return gd::next(parent_step::after, ctx.state)
        .signal({.target = 987'654, .name = "go"});
      },
      [](const gd::failure&, context&) -> gd::outcome {
        return gd::done().signal({.target = 987'655, .name = "go"});
      })};
  };
  in_both(machines, [](auto& kit) {
    auto x = kit.instance(insert(kit));
    CAF_CHECK_EQUAL(x->status, "failed");
    CAF_CHECK_EQUAL(*x->last_error,
                    "the outcome was refused: signal 1: target: there is no "
                    "instance 987654; the handler's outcome was then refused: "
                    "signal 1: target: there is no instance 987655");
  });
}

CAF_TEST(what no database need see is refused before) {
  struct example {
    std::string why;
    std::function<gd::ended()> make;
  };
  std::vector<example> examples{
    {"insert 1: state: $: expected object",
     [] {
    return gd::done().insert({.fsm = "Child", .state = gd::json::raw("[]")});
     }},
    {"insert 1: state: $.part: expected",
     [] {
    return gd::done().insert(
      {.fsm = "Child", .state = gd::json::raw(R"({"part": "x"})")});
     }},
    {"insert 2: step: expected one of",
     [] {
    return gd::done()
      .insert({.fsm = "Child", .state = gd::to_json(child_state{})})
      .insert({.fsm = "Child", .step = "play"});
     }},
    {"signal 1: signal name", [] { return gd::done().signal({.target = 1}); }},
    {"sql 1: expected a statement that begins with",
     [] { return gd::done().sql("commit"); }},
    {"sql 1: expected one statement",
     [] { return gd::done().sql("select 1; rollback"); }},
    {"sql 1: values", [] { return gd::done().sql("select $1", "a\0b"s); }},
    {"or_fail: expected a signal", [] { return gd::done().or_fail(); }},
    {"expect_rows: expected a statement",
     [] { return gd::done().expect_rows(1); }},
    {"it carries 1001 effects, expected at most 1000",
     [] {
    auto out = gd::done();
    for (int i = 0; i < 1'001; ++i)
      out = std::move(out).signal({.target = 1, .name = "go"});
    return out;
     }},
    {"expected at most 8388608",
     [] { return gd::done().sql("select $1", std::string(9 << 20, 'x')); }},
    };
  for (const auto& x : examples) {
    gd::testing::simulation kit{
      {parent([&](context&) -> gd::outcome { return x.make(); }), child()}};
    auto id = insert(kit);
    CAF_CHECK_EQUAL(kit.instance(id)->status, "failed");
    auto told = kit.instance(id)->last_error.value_or("");
    if (told.find(x.why) == std::string::npos)
      CAF_FAIL(told << " has no " << x.why);
  }
}

CAF_TEST(a simulation stands for the database of statements) {
  gd::testing::simulation kit{
    {parent([](context& ctx) -> gd::outcome {
       return gd::next(parent_step::after, ctx.state)
         .sql("update t set n = $1", 4)
         .expect_rows(1);
     }),
     child()},
    {.on_sql = [](const gd::sql_statement& x) -> gd::result<std::int64_t> {
      return x.values.front().text == "4" ? 1 : 0;
    }}};
  CAF_CHECK_EQUAL(kit.instance(insert(kit))->status, "done");
  CAF_CHECK_EQUAL(kit.statements().size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace effects_suite
