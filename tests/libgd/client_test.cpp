// What programs without actors rely on: an answer for every row, in order, and
// nothing twice when a connection goes.

#define CAF_SUITE client

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/intake/target_intake.hpp>
#include <gd/migrate.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/database.hpp>
#include <gd/sql.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace client_suite {

using namespace std::literals;

using gd::errc;
using gd::json;
using gd::test::code_of;
using gd::test::codes_of;
using gd::test::contains;
using gd::test::message_of;
using gd::test::session;
using gd::test::temporary_database;
using clock_type = gd::database::clock;

namespace {

/// An insert that needs no machine.
gd::insert row(std::string state = "{}") {
  return {.fsm = "m",
          .state = json::raw(std::move(state)),
          .step = "s",
          .queue = "q"};
}

struct fixture {
  fixture() {
    db.migrate();
  }

  gd::client connect(gd::client_settings how = {}) {
    return connect(db.options(), std::move(how));
  }

  gd::client connect(gd::pq::options opts, gd::client_settings how = {}) {
    auto x = gd::client::connect(std::move(opts), std::move(how));
    CAF_REQUIRE(x);
    return std::move(*x);
  }

  std::int64_t insert_one(gd::client& client) {
    auto x = client.insert(row());
    CAF_REQUIRE(x);
    return x->id;
  }

  std::string count() {
    return db.scalar("select count(*) from gen_durable");
  }

  /// Until a client that waits for ends has been told of a look.
  void wait_until_looked() {
    db.wait_until("select count(*) from pg_stat_activity where datname = "
                  "current_database() and state = 'idle' and query like "
                  "'%as left_out%'",
                  "1");
  }

  /// Its connection's process.
  std::string looker() {
    return db.scalar("select max(pid) from pg_stat_activity where datname = "
                     "current_database() and query like '%as left_out%' and "
                     "pid <> pg_backend_pid()");
  }

  temporary_database db;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(client_tests, fixture)

// -- inserts ------------------------------------------------------------------

CAF_TEST(ten thousand rows go in one call and are answered in order) {
  auto client = connect();
  std::vector<gd::insert> rows;
  for (int i = 0; i < 10'000; ++i)
    rows.push_back(row("{\"n\": " + std::to_string(i) + "}"));
  auto answers = client.insert_all(std::move(rows));
  CAF_REQUIRE_EQUAL(answers.size(), 10'000u);
  std::vector<std::pair<std::string, std::string>> answered;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CAF_REQUIRE(answers[i]);
    answered.emplace_back(std::to_string(answers[i]->id), std::to_string(i));
  }
  std::vector<std::pair<std::string, std::string>> stored;
  for (auto& x : db.rows("select id, state ->> 'n' from gen_durable"
                         " order by (state ->> 'n')::int"))
    stored.emplace_back(x[0].value(), x[1].value());
  CAF_CHECK(answered == stored);
}

CAF_TEST(no rows are no work) {
  auto client = connect();
  CAF_CHECK(client.insert_all({}).empty());
  CAF_CHECK(client.signal_all({}).empty());
}

CAF_TEST(a known machine gives version and step and queue) {
  db.rows("insert into gen_durable_machines values"
          " ('Order', 1, 'old', 'slow', '{old}'),"
          " ('Order', 10, 'start', 'fast', '{start,ship}'),"
          " ('Order', 9, 'middle', 'fast', '{middle}')");
  auto client = connect();
  auto newest = client.insert({.fsm = "Order"});
  CAF_REQUIRE(newest);
  auto x = client.look_up(newest->id);
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->version, 10);
  CAF_CHECK_EQUAL(x->step, "start");
  CAF_CHECK_EQUAL(x->queue, "fast");
  CAF_CHECK_EQUAL(x->status, "runnable");
  auto chosen = client.insert(
    {.fsm = "Order", .version = 1, .step = "old", .queue = "other"});
  CAF_REQUIRE(chosen);
  x = client.look_up(chosen->id);
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->version, 1);
  CAF_CHECK_EQUAL(x->queue, "other");
}

CAF_TEST(rows that are refused stand among those that are not ) {
  db.rows("insert into gen_durable_machines values"
          " ('Order', 1, 'start', 'fast', '{start,ship}')");
  auto deep = std::string(600, '[') + std::string(600, ']');
  auto with = [](auto change) {
    auto x = row();
    change(x);
    return x;
  };
  std::vector<std::pair<gd::insert, errc>> cases{
    {row(), {}},
    {{.fsm = "Nobody"}, errc::unknown_machine},
    {{.fsm = "Order", .version = 7}, errc::unknown_machine},
    {{.fsm = "Order", .step = "strat"}, errc::unknown_step},
    {{.fsm = "Order", .step = "ship"}, {}},
    {{.fsm = ""}, errc::invalid_argument},
    {{.fsm = "a\tb"}, errc::invalid_argument},
    {{.fsm = std::string(256, 'x')}, errc::invalid_argument},
    {row(R"({"a": "\u0000"})"), errc::codec},
    {row(R"({"\u0000": 1})"), errc::codec},
    {row(R"({"a": "\ud800"})"), errc::codec},
    {row(R"({"a": "\udc00\ud800"})"), errc::codec},
    {row("{\"a\": \"\xff\"}"), errc::codec},
    {row(R"({"a": 1e400000})"), errc::codec},
    {row(R"({"a": )" + deep + "}"), errc::codec},
    {row("{"), errc::codec},
    {row(""), errc::codec},
    {row("[1]"), errc::codec},
    {row("{} {}"), errc::codec},
    {row(R"({"big": ")" + std::string(5 << 20, 'x') + "\"}"),
     errc::invalid_argument},
    {with([](auto& x) {
       x.state = json::failed({errc::codec, "$: no", {}});
     }),
     errc::codec},
    {with([](auto& x) { x.version = -1; }), errc::invalid_argument},
    {with([](auto& x) { x.delay_us = -1; }), errc::invalid_argument},
    {with([](auto& x) { x.delay_us = gd::longest_delay.count() + 1; }),
     errc::invalid_argument},
    {with([](auto& x) { x.delay_us = gd::longest_delay.count(); }), {}},
    {with([](auto& x) {
       x.delay_us = 1;
       x.eligible_at_us = 1;
     }),
     errc::invalid_argument},
    {row(R"({"emoji": "\ud83d\ude00", "big": 1e100})"), {}},
    {row(" \n{}"), {}},
  };
  auto client = connect();
  std::vector<gd::insert> rows;
  for (const auto& [x, expected] : cases)
    rows.push_back(x);
  auto answers = client.insert_all(std::move(rows));
  CAF_REQUIRE_EQUAL(answers.size(), cases.size());
  std::set<std::int64_t> ids;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAF_MESSAGE("row " << i);
    CAF_CHECK_EQUAL(code_of(answers[i]), cases[i].second);
    if (answers[i])
      ids.insert(answers[i]->id);
    else
      CAF_CHECK(!answers[i].error().message.empty());
  }
  CAF_CHECK_EQUAL(std::to_string(ids.size()), count());
}

CAF_TEST(what the server refuses of one row does not touch its neighbours) {
  db.rows("alter table gen_durable add check (step <> 'poison')");
  auto client = connect();
  std::vector<gd::insert> rows(1'234, row());
  for (auto guilty : {0u, 617u, 618u, 1'233u})
    rows[guilty].step = "poison";
  auto answers = client.insert_all(rows);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (code_of(answers[i])
        != (rows[i].step == "poison" ? errc::rejected : errc{}))
      CAF_FAIL("row " << i << " got the wrong answer");
  CAF_CHECK_EQUAL(count(), "1230");
}

CAF_TEST(a delay counts from the insert and a time is kept to the microsecond) {
  auto client = connect();
  auto x = row();
  x.delay_us = 3'600'000'000;
  auto y = row();
  y.eligible_at_us = 4'102'444'800'000'001;
  auto answers = client.insert_all({x, y});
  CAF_REQUIRE(answers[0] && answers[1]);
  CAF_CHECK_EQUAL(
    db.scalar("select eligible_at - inserted_at between '1 hour' and"
              " '1 hour 1 minute' from gen_durable where id = $1::bigint",
              {std::to_string(answers[0]->id)}),
    "t");
  auto found = client.look_up(answers[1]->id);
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->eligible_at_us, 4'102'444'800'000'001);
}

// -- signals ------------------------------------------------------------------

CAF_TEST(every signal gets its own answer) {
  auto client = connect({.limits = {.inbox = 3}});
  auto open = insert_one(client);
  auto full = insert_one(client);
  auto done = insert_one(client);
  auto failed = insert_one(client);
  db.rows("update gen_durable set status = 'done' where id = $1::bigint",
          {std::to_string(done)});
  db.rows("update gen_durable set status = 'failed' where id = $1::bigint",
          {std::to_string(failed)});
  auto to = [](std::int64_t target, std::optional<std::string> key = {}) {
    return gd::signal{.target = target, .name = "n", .dedup_key = key};
  };
  auto answers = client.signal_all(
    {to(open),
     to(open, "k"),
     to(open, "k"),
     to(999'999),
     to(done),
     to(failed),
     to(full),
     to(full),
     to(full),
     to(full),
     {.target = open, .name = ""},
     {.target = open, .name = "n", .payload = json::raw("\"\\u0000\"")}});
  CAF_CHECK_EQUAL(codes_of(answers), (std::vector<errc>{{},
                                                        {},
                                                        {},
                                                        errc::no_such_target,
                                                        errc::target_finished,
                                                        errc::target_finished,
                                                        {},
                                                        {},
                                                        {},
                                                        errc::inbox_full,
                                                        errc::invalid_argument,
                                                        errc::codec}));
  CAF_CHECK(!answers[1]->duplicate);
  CAF_CHECK(answers[2]->duplicate);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "5");
}

CAF_TEST(signals of one call reach an instance in the order given) {
  auto client = connect({.rows = 70});
  std::vector<std::int64_t> targets{insert_one(client), insert_one(client)};
  std::vector<gd::signal> signals;
  for (int i = 0; i < 200; ++i)
    signals.push_back({.target = targets[(i / 3) % 2],
                       .name = "n",
                       .payload = json::raw(std::to_string(i))});
  for (const auto& x : client.signal_all(signals))
    CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(
    db.scalar("select bool_and(mine > before) from (select payload::int as"
              " mine, lag(payload::int, 1, -1) over (partition by target_id"
              " order by id) as before from gen_durable_signals) x"),
    "t");
}

CAF_TEST(a stranger who holds a target delays nobody but its own signal) {
  auto client = connect();
  auto held = insert_one(client);
  auto open = insert_one(client);
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1::bigint for update",
                {std::to_string(held)});
  auto answers = std::async(std::launch::async, [&] {
    return client.signal_all(
      {{.target = held, .name = "n"}, {.target = open, .name = "n"}});
  });
  db.wait_until("select count(*) from gen_durable_signals", "1");
  stranger.wait_until_someone_is_blocked();
  stranger.exec("commit");
  for (const auto& x : answers.get())
    CAF_CHECK(x);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "2");
}

// -- reading ------------------------------------------------------------------

CAF_TEST(an instance that is not there is not found) {
  auto client = connect();
  CAF_CHECK_EQUAL(code_of(client.look_up(42)), errc::not_found);
}

CAF_TEST(stats count what is there) {
  auto client = connect();
  CAF_CHECK(client.stats()->empty());
  auto later = row();
  later.delay_us = 3'600'000'000;
  client.insert_all({row(), row(), later});
  db.rows("update gen_durable set status = 'failed' where id ="
          " (select min(id) from gen_durable)");
  auto rows = client.stats();
  CAF_REQUIRE(rows);
  CAF_REQUIRE_EQUAL(rows->size(), 2u);
  CAF_CHECK(rows->at(0)
            == (gd::stats_row{.queue = "q",
                              .fsm = "m",
                              .version = 1,
                              .status = "runnable",
                              .instances = 2,
                              .future = 1}));
  CAF_CHECK_EQUAL(rows->at(1).status, "failed");
}

// -- ends ---------------------------------------------------------------------

CAF_TEST(ends are awaited together and told in order with their reasons) {
  auto client = connect({.poll = 20ms});
  std::vector<gd::insert> some(5, row());
  some.back().unique_key = "k";
  auto made = client.insert_all(std::move(some));
  auto id = [&made](std::size_t i) { return made.at(i)->id; };
  auto done = [&](std::size_t i) {
    db.rows(
      "update gen_durable set status = 'done', result = '{\"n\": 1}', seq "
      "= 3 where id = $1::bigint",
      {std::to_string(id(i))});
  };
  done(0);
  db.rows(
    "update gen_durable set status = 'failed', last_error = 'why' where id "
    "= $1::bigint",
    {std::to_string(id(1))});
  auto answers = std::async(std::launch::async, [&] {
    return client.await_result_all({{.id = id(0)},
                                    {.id = id(1)},
                                    {.id = id(2)},
                                    {.id = id(3)},
                                    {.key = "k"},
                                    {.id = 4'711},
                                    {.key = "nobody"},
                                    {},
                                    {.id = id(2), .within_us = 0}});
  });
  wait_until_looked();
  done(2);
  db.rows("delete from gen_durable where id = $1::bigint",
          {std::to_string(id(3))});
  done(4);
  auto told = answers.get();
  CAF_CHECK(told.at(0)
            && *told.at(0)
                 == (gd::awaited{.id = id(0),
                                 .fsm = "m",
                                 .version = 1,
                                 .status = "done",
                                 .result = json::raw("{\"n\": 1}"),
                                 .seq = 3}));
  CAF_CHECK(told.at(1) && told.at(1)->status == "failed"
            && told.at(1)->failure == "why" && !told.at(1)->result);
  CAF_CHECK(told.at(2) && told.at(2)->status == "done");
  CAF_CHECK_EQUAL(code_of(told.at(3)), errc::erased);
  CAF_CHECK(told.at(4) && told.at(4)->id == id(4));
  CAF_CHECK_EQUAL(code_of(told.at(5)), errc::no_such_target);
  CAF_CHECK_EQUAL(code_of(told.at(6)), errc::no_such_target);
  CAF_CHECK_EQUAL(code_of(told.at(7)), errc::invalid_argument);
  CAF_CHECK_EQUAL(code_of(told.at(8)), errc::timed_out);
  CAF_CHECK_EQUAL(message_of(told.at(1)->result_as<std::int64_t>()),
                  "instance " + std::to_string(id(1))
                    + " has no result: it has failed: why");
  CAF_CHECK(client.await_result_all({}).empty());
}

CAF_TEST(an end is awaited over connections that are lost) {
  auto client = connect({.poll = 20ms});
  auto id = insert_one(client);
  auto answer = std::async(std::launch::async,
                           [&] { return client.await_result({.id = id}); });
  for (int i = 0; i < 3; ++i) {
    wait_until_looked();
    auto pid = looker();
    db.rows("select pg_terminate_backend($1::int)", {pid});
    db.wait_until("select count(*) from pg_stat_activity where pid = " + pid,
                  "0");
  }
  wait_until_looked();
  db.rows("update gen_durable set status = 'done', result = '7'");
  auto told = answer.get();
  CAF_REQUIRE(told);
  auto result = told->result_as<std::int64_t>();
  CAF_CHECK(result && *result == 7);
}

// -- lost connections ---------------------------------------------------------

CAF_TEST(a connection lost in the middle of inserts duplicates nothing) {
  auto client = connect({.rows = 100});
  std::vector<gd::insert> rows;
  for (int i = 0; i < 1'000; ++i)
    rows.push_back(row("{\"n\": " + std::to_string(i) + "}"));
  // A trigger holds the fifth group up, whose connection is then cut.
  db.rows("create function stall() returns trigger language plpgsql as $$"
          " begin"
          "   if new.state ->> 'n' = '450' then"
          "     perform pg_advisory_xact_lock(1);"
          "   end if;"
          "   return new;"
          " end $$");
  db.rows("create trigger stall before insert on gen_durable"
          " for each row execute function public.stall()");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select pg_advisory_xact_lock(1)");
  auto answers = std::async(std::launch::async,
                            [&] { return client.insert_all(rows); });
  for (int i = 0; i < 3; ++i)
    stranger.terminate(stranger.wait_until_someone_is_blocked());
  stranger.exec("commit");
  std::set<std::int64_t> ids;
  for (const auto& x : answers.get()) {
    CAF_REQUIRE(x);
    ids.insert(x->id);
  }
  CAF_CHECK_EQUAL(ids.size(), 1'000u);
  CAF_CHECK_EQUAL(count(), "1000");
  CAF_CHECK_EQUAL(db.scalar("select count(distinct state ->> 'n')"
                            " from gen_durable"),
                  "1000");
}

/// Runs what comes before: a look at the machines, and the draw of ids.
gd::pq::unit begin_insert(gd::insert_intake& intake, gd::pq::connection& on,
                          clock_type::time_point now) {
  while (auto unit = intake.begin(now)) {
    for (const auto& call : unit->calls)
      if (call.what == &gd::sql::insert_new || call.what == &gd::sql::insert)
        return std::move(*unit);
    CAF_REQUIRE(intake.finish(on.run(*unit), now).answers.empty());
  }
  throw std::runtime_error{"there is nothing to insert"};
}

CAF_TEST(an insert that was committed unheard is not stored again) {
  gd::insert_intake intake{{}};
  gd::pq::connection conn{db.options()};
  for (std::uint64_t i = 0; i < 3; ++i)
    CAF_REQUIRE(intake.add(i, row()));
  gd::pq::reply lost{{}, gd::error{errc::unknown_fate, "cut", {}}, 0};
  auto now = clock_type::now();
  auto first = begin_insert(intake, conn, now);
  CAF_REQUIRE(conn.run(first).ok());
  CAF_CHECK(intake.finish(lost, now).answers.empty());
  CAF_CHECK(!intake.begin(now)); // not in a hot loop
  now = intake.due(now);
  auto second = intake.begin(now);
  CAF_REQUIRE(second);
  auto report = intake.finish(conn.run(*second), now);
  CAF_REQUIRE_EQUAL(report.answers.size(), 3u);
  for (const auto& x : report.answers)
    CAF_CHECK(x.answer);
  CAF_CHECK(intake.idle());
  CAF_CHECK_EQUAL(count(), "3");
}

CAF_TEST(the row of another under an id that was drawn again is not taken for
           ones own) {
  gd::pq::connection conn{db.options()};
  gd::pq::reply lost{{}, gd::error{errc::unknown_fate, "cut", {}}, 0};
  for (auto key : {std::optional<std::string>{}, std::optional{"k"s}}) {
    db.rows("truncate gen_durable cascade");
    gd::insert_intake intake{{}};
    auto now = clock_type::now();
    auto mine = row();
    mine.unique_key = key;
    CAF_REQUIRE(intake.add(1, mine));
    auto first = begin_insert(intake, conn, now);
    // As after a failover: the sequence is back where it was, nothing that was sent
    // has been committed, and a row just like it takes the place.
    auto id = db.scalar("select last_value from gen_durable_id_seq");
    db.rows("select setval('gen_durable_id_seq', $1::bigint, false)", {id});
    CAF_REQUIRE_EQUAL(db.scalar("insert into gen_durable (fsm, step, queue) "
                                "values ('F', 's', 'q') returning id"),
                      id);
    // One with a key asks the first time, too.
    auto answers = intake.finish(key ? conn.run(first) : lost, now).answers;
    for (int i = 0; i < 10 && answers.empty(); ++i) {
      now = intake.due(now);
      auto unit = intake.begin(now);
      CAF_REQUIRE(unit);
      answers = intake.finish(conn.run(*unit), now).answers;
    }
    CAF_REQUIRE_EQUAL(answers.size(), 1u);
    CAF_REQUIRE(answers.front().answer);
    CAF_CHECK(!answers.front().answer->duplicate);
    CAF_CHECK_NOT_EQUAL(std::to_string(answers.front().answer->id), id);
    CAF_CHECK_EQUAL(count(), "2");
  }
}

CAF_TEST(a scope has each status once at the most) {
  auto repeating = row();
  repeating.unique_key = "k";
  repeating.unique_scope.assign(6, "runnable");
  auto refused = gd::insert_intake{{}}.add(1, repeating);
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().message,
                  "unique_scope: expected at most 5 statuses, got 6");
}

CAF_TEST(a late insert is told its own reason) {
  auto now = clock_type::now();
  auto table_locked = gd::error{errc::busy, "the table is locked", "55P03"};
  for (bool with_key : {false, true})
    for (bool gives_up : {false, true}) {
      gd::pq::connection conn{db.options()};
      gd::insert_intake intake{{}};
      auto x = row();
      if (with_key)
        x.unique_key = "k";
      CAF_REQUIRE(intake.add(1, x));
      auto answers = decltype(intake.give_up(1, {}, now)){};
      for (int i = 0; i < 100 && answers.empty(); ++i) {
        now = std::max(now, intake.due(now));
        begin_insert(intake, conn, now);
        answers = intake.finish({{}, table_locked, 0}, now).answers;
        if (gives_up)
          answers = intake.give_up(
            1, {errc::unavailable, "it has waited too long", {}}, now);
      }
      CAF_REQUIRE_EQUAL(answers.size(), 1u);
      CAF_REQUIRE(!answers.front().answer);
      CAF_CHECK_EQUAL(answers.front().answer.error().message,
                      with_key   ? "unique_key: another transaction is "
                                   "inserting it"
                      : gives_up ? "it has waited too long"
                                 : "the table is locked");
    }
}

CAF_TEST(an insert of which the database tells nothing is not stored again) {
  gd::pq::connection conn{db.options()};
  gd::insert_intake intake{{}};
  auto now = clock_type::now();
  auto x = row();
  x.unique_key = "k";
  CAF_REQUIRE(intake.add(1, x));
  auto unit = begin_insert(intake, conn, now);
  auto reply = conn.run(unit);
  CAF_REQUIRE(reply.ok());
  for (std::size_t i = 0; i < unit.calls.size(); ++i)
    if (unit.calls[i].what == &gd::sql::inserted)
      reply.results[i] = {};
  auto answers = intake.finish(std::move(reply), now).answers;
  CAF_REQUIRE_EQUAL(answers.size(), 1u);
  CAF_CHECK_EQUAL(code_of(answers.front().answer), errc::unknown_fate);
  CAF_CHECK(intake.idle());
  CAF_CHECK_EQUAL(count(), "1");
}

CAF_TEST(new rows wake their queues unless they are delayed and from the past
           everywhere) {
  gd::pq::connection conn{db.options()};
  auto stored = [&](gd::insert what) {
    gd::insert_intake intake{{}};
    auto now = clock_type::now();
    CAF_REQUIRE(intake.add(1, std::move(what)));
    auto report = intake.finish(conn.run(begin_insert(intake, conn, now)), now);
    CAF_REQUIRE_EQUAL(report.answers.size(), 1u);
    CAF_CHECK(report.answers.front().answer);
    return report;
  };
  auto report = stored(row());
  CAF_CHECK_EQUAL(report.queues, std::vector<std::string>{"q"});
  CAF_CHECK(!report.anywhere);
  auto delayed = row();
  delayed.delay_us = 1'000'000;
  CAF_CHECK(stored(delayed).queues.empty());
  auto past = row();
  past.eligible_at_us = 1;
  report = stored(past);
  CAF_CHECK_EQUAL(report.queues, std::vector<std::string>{"q"});
  CAF_CHECK(report.anywhere);
}

CAF_TEST(an insert whose ids are taken draws others) {
  auto client = connect();
  for (int i = 0; i < 3; ++i)
    insert_one(client);
  // As after a failover that has lost the last moments.
  db.rows("alter table gen_durable alter id restart with 3");
  db.rows("update gen_durable set priority = 7");
  auto late = connect();
  std::set<std::int64_t> ids;
  for (const auto& x : late.insert_all({row(), row(), row()})) {
    CAF_REQUIRE(x);
    ids.insert(x->id);
  }
  CAF_CHECK(ids == (std::set<std::int64_t>{6, 7, 8}));
  CAF_CHECK_EQUAL(count(), "6");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"
                            " where priority = 7"),
                  "3");
}

CAF_TEST(an insert that is always a duplicate is refused alone) {
  db.rows("create unique index on gen_durable ((state ->> 'n'))");
  auto client = connect();
  auto numbered = [](int n) {
    return row("{\"n\": " + std::to_string(n) + "}");
  };
  CAF_REQUIRE(client.insert(numbered(1)));
  auto answers = client.insert_all({numbered(2), numbered(1), numbered(3)});
  CAF_CHECK(answers[0]);
  CAF_REQUIRE(!answers[1]);
  CAF_CHECK(answers[1].error().code == errc::rejected);
  CAF_CHECK(answers[2]);
  CAF_CHECK_EQUAL(count(), "3");
}

CAF_TEST(an insert draws ids for the next one and they outlive its connection) {
  gd::insert_intake intake{{}};
  auto now = clock_type::now();
  std::uint64_t tickets = 0;
  std::set<std::int64_t> ids;
  // On a connection of their own; returns how many units it took. The first one
  // looks the machine up; then it may draw.
  auto insert = [&](int rows) {
    gd::pq::connection conn{db.options()};
    for (int i = 0; i < rows; ++i)
      CAF_REQUIRE(intake.add(++tickets, row()));
    int units = 0;
    while (auto unit = intake.begin(now)) {
      ++units;
      for (auto& x : intake.finish(conn.run(*unit), now).answers) {
        CAF_REQUIRE(x.answer);
        CAF_CHECK(ids.insert(x.answer->id).second);
      }
    }
    return units;
  };
  auto drawn = [&] {
    return std::stoll(db.scalar("select last_value from gen_durable_id_seq"));
  };
  CAF_CHECK_EQUAL(insert(3), 3);
  CAF_CHECK_EQUAL(drawn(), 6);
  CAF_CHECK_EQUAL(insert(3), 2);
  CAF_CHECK_EQUAL(drawn(), 9);
  CAF_CHECK_EQUAL(insert(1), 2); // two are left
  CAF_CHECK_EQUAL(drawn(), 9);
  CAF_CHECK_EQUAL(insert(3), 3); // one is missing
  CAF_CHECK_EQUAL(drawn(), 13);
  now += 2s; // what is left is forgotten
  CAF_CHECK_EQUAL(insert(3), 3);
  CAF_CHECK_EQUAL(drawn(), 19);
  CAF_CHECK_EQUAL(ids.size(), 13u);
  CAF_CHECK_EQUAL(count(), "13");
}

CAF_TEST(a signal with a dedup key that was committed unheard is no duplicate) {
  auto client = connect();
  auto id = insert_one(client);
  gd::signal_intake intake{{}};
  gd::pq::connection conn{db.options()};
  CAF_REQUIRE(intake.add(1, {.target = id, .name = "n", .dedup_key = "k"}));
  gd::pq::reply lost{{}, gd::error{errc::unknown_fate, "cut", {}}, 0};
  auto now = clock_type::now();
  auto first = intake.begin(now);
  CAF_REQUIRE(first);
  CAF_REQUIRE(conn.run(*first).ok());
  CAF_CHECK(intake.finish(lost, now).answers.empty());
  now = intake.due(now);
  auto second = intake.begin(now);
  CAF_REQUIRE(second);
  auto report = intake.finish(conn.run(*second), now);
  CAF_REQUIRE_EQUAL(report.answers.size(), 1u);
  CAF_REQUIRE(report.answers[0].answer);
  CAF_CHECK(!report.answers[0].answer->duplicate);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "1");
}

CAF_TEST(an unknown fate stays unknown when the next attempt finds no server) {
  gd::pq::reply lost{{}, gd::error{errc::unknown_fate, "cut", {}}, 0};
  gd::pq::reply none{{}, gd::error{errc::unavailable, "no server", {}}, 0};
  gd::pq::connection conn{db.options()};
  auto now = clock_type::now();
  gd::insert_intake intake{{}};
  CAF_REQUIRE(intake.add(1, row()));
  // Drawing ids stores nothing.
  CAF_REQUIRE(intake.begin(now));
  auto report = intake.finish(none, now);
  CAF_REQUIRE_EQUAL(report.answers.size(), 1u);
  CAF_CHECK_EQUAL(code_of(report.answers[0].answer), errc::unavailable);
  CAF_REQUIRE(intake.add(2, row()));
  begin_insert(intake, conn, now);
  CAF_CHECK(intake.finish(lost, now).answers.empty());
  now = intake.due(now);
  CAF_REQUIRE(intake.begin(now));
  report = intake.finish(none, now);
  CAF_REQUIRE_EQUAL(report.answers.size(), 1u);
  CAF_CHECK_EQUAL(code_of(report.answers[0].answer), errc::unknown_fate);
  // A signal that was never sent cannot have happened.
  gd::signal_intake signals{{}};
  CAF_REQUIRE(signals.add(1, {.target = 1, .name = "n"}));
  CAF_REQUIRE(signals.begin(now));
  auto sent = signals.finish(none, now);
  CAF_REQUIRE_EQUAL(sent.answers.size(), 1u);
  CAF_CHECK_EQUAL(code_of(sent.answers[0].answer), errc::unavailable);
}

CAF_TEST(a connection lost while idle is made again without a word) {
  auto client = connect();
  auto id = insert_one(client);
  session stranger{db.conninfo()};
  auto cut = [&] {
    for (auto& x : db.rows("select pid from pg_stat_activity where"
                           " application_name = 'gen_durable' and datname ="
                           " current_database()"))
      stranger.terminate(std::stoll(x[0].value()));
  };
  cut();
  CAF_CHECK(client.look_up(id));
  cut();
  CAF_CHECK(client.stats());
  cut();
  CAF_CHECK(client.insert(row()));
  cut();
  CAF_CHECK(client.signal({.target = id, .name = "n"}));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "1");
  CAF_CHECK_EQUAL(count(), "2");
}

CAF_TEST(a server process that stands still is given up) {
  auto opts = db.options();
  opts.statement_timeout = 2s; // the next server process has it, too
  opts.application_name = "stands still";
  auto client = connect(opts);
  auto pid = static_cast<pid_t>(
    std::stoll(db.scalar("select pid from pg_stat_activity where"
                         " application_name = 'stands still'")));
  CAF_REQUIRE_EQUAL(kill(pid, SIGSTOP), 0);
  auto answer = client.insert(row());
  kill(pid, SIGCONT);
  CAF_CHECK(answer);
  CAF_CHECK_EQUAL(count(), "1");
}

CAF_TEST(who wants no patience is told at once that nobody is there) {
  auto opts = db.options();
  opts.application_name = "impatient";
  auto client = gd::client::connect(opts, {.reconnects = 1});
  CAF_REQUIRE(client);
  auto patient = gd::client::connect(opts);
  CAF_REQUIRE(patient);
  temporary_database elsewhere;
  session above{elsewhere.conninfo()};
  auto name = gd::test::quoted_name(db.name());
  above.exec("alter database " + name + " allow_connections false");
  above.exec("select pg_terminate_backend(pid) from pg_stat_activity where"
             " application_name = 'impatient'");
  // Others, who have asked before, wait for some seconds.
  auto waiting = std::async(std::launch::async,
                            [&] { return patient->jobs(); });
  auto gone = client->jobs();
  CAF_CHECK(waiting.wait_for(0s) == std::future_status::timeout);
  above.exec("alter database " + name + " allow_connections true");
  CAF_CHECK_EQUAL(code_of(gone), errc::unavailable);
  CAF_CHECK(waiting.get());
  CAF_CHECK(client->jobs());
}

// -- what waits ---------------------------------------------------------------

CAF_TEST(the signals that wait are listed the oldest first and cut) {
  auto client = connect();
  auto id = insert_one(client);
  CAF_REQUIRE(client.signal({.target = id, .name = "a", .dedup_key = "k"}));
  CAF_REQUIRE(
    client.signal({.target = id,
                   .name = "b",
                   .payload = json::raw('"' + std::string(9'000, 'x') + '"')}));
  db.rows("set gd.trusted = 'json'"); // as one whose numbers nobody has checked
  db.rows("insert into gen_durable_signals (target_id, name, payload) select "
          "$1::bigint,"
          " 'c', to_jsonb(array(select 1e131071 from generate_series(1, 9)))",
          {std::to_string(id)});
  db.rows(
    "insert into gen_durable_signals (target_id, name, consumed_at) values"
    " ($1::bigint, 'read', now())",
    {std::to_string(id)});
  auto all = client.inbox(id);
  CAF_REQUIRE(all);
  CAF_REQUIRE_EQUAL(all->size(), 3u);
  const auto& first = all->front();
  CAF_CHECK_EQUAL(first.name, "a");
  CAF_CHECK(first.dedup_key == "k");
  CAF_CHECK(first.payload == "{}");
  CAF_CHECK((*all)[1].payload == '"' + std::string(4'095, 'x'));
  CAF_CHECK(!all->back().payload); // it would print a megabyte
  auto one = client.inbox(id, 1);
  CAF_CHECK(one && one->size() == 1 && one->front() == first);
  auto with_read = client.inbox(id, 100, true);
  CAF_REQUIRE(with_read && with_read->size() == 4);
  CAF_CHECK(with_read->back().consumed_at_us && !first.consumed_at_us);
  auto none = client.inbox(999'999);
  CAF_CHECK(none && none->empty());
  CAF_CHECK_EQUAL(code_of(client.inbox(id, 0)), errc::invalid_argument);
}

CAF_TEST(
  of signals that wait it is told which was seen and which does not decode) {
  auto client = connect();
  auto id = insert_one(client);
  for (const auto* name : {"paid", "late", "noise"})
    CAF_REQUIRE(client.signal({.target = id, .name = name}));
  auto told = [&] {
    std::string out;
    auto all = client.inbox(id);
    CAF_REQUIRE(all);
    for (const auto& x : *all)
      out += x.name + (x.seen ? " seen" : "")
             + (x.undecodable ? ": " + *x.undecodable : "") + '\n';
    return out;
  };
  CAF_CHECK_EQUAL(told(), "paid\nlate\nnoise\n");
  CAF_MESSAGE("of those that it waits for");
  db.rows("update gen_durable set status = 'awaiting_signal', awaits = 'paid', "
          "awaits_also = '{late}'");
  CAF_CHECK_EQUAL(told(), "paid seen\nlate seen\nnoise\n");
  CAF_MESSAGE("a wake-up is owed: that one was not seen");
  db.rows("update gen_durable set wake_reason = 'signal'");
  CAF_CHECK_EQUAL(told(), "paid\nlate\nnoise\n");
  CAF_MESSAGE("what failed last names its number");
  db.rows("update gen_durable g set status = 'failed', awaits = null, "
          "awaits_also = '{}', wake_reason = null, last_error = format('signal "
          "late (%s): $.n: expected number', s.id) from gen_durable_signals s "
          "where s.name = 'late'");
  CAF_CHECK_EQUAL(told(), "paid\nlate: $.n: expected number\nnoise\n");
}

// -- connecting ---------------------------------------------------------------

CAF_TEST(a schema that is not there is told at the start) {
  auto opts = db.options();
  opts.schema = "elsewhere";
  auto x = gd::client::connect(opts);
  CAF_REQUIRE(!x);
  CAF_CHECK_EQUAL(x.error().code, errc::schema_mismatch);
  CAF_CHECK(contains(x.error().message, "elsewhere"));
}

CAF_TEST(a server that is not there is told at the start) {
  auto x = gd::client::connect({.database = "host=127.0.0.1 port=1"});
  CAF_CHECK_EQUAL(code_of(x), errc::unavailable);
}

CAF_TEST(no message repeats a malformed connection string) {
  // The password is hun?ter2, with something that ends it too early.
  for (auto text :
       {"postgresql://user:hun/ter2@127.0.0.1:1/db"s,
        "postgresql://user:hun@ter2@127.0.0.1:1/db"s,
        "postgresql://user:hun%ter2@127.0.0.1:1/db"s,
        "postgresql://user:hun%zzter2@127.0.0.1/db"s,
        "postgresql://user:hunter2@127.0.0.1:port/db"s,
        "postgresql://user:hunter2@[::1/db"s,
        "postgresql://user:hunter2@127.0.0.1:1/db?ter2=x"s,
        "postgres:/user:hunter2@127.0.0.1/db?sslmode=disable"s,
        "http://user:hunter2@127.0.0.1/db"s, "user:hunter2@127.0.0.1"s,
        "host=127.0.0.1 port=1 password=hun ter2"s,
        "host=127.0.0.1 port=1 password=hun ter2=x"s,
        "host=127.0.0.1 port=1 password='hunter2"s,
        "host=127.0.0.1 port=1 password='hun'ter2'"s,
        "host=127.0.0.1 port=1 pasword=hunter2"s,
        "host=127.0.0.1 port=1 password = hunter2"s, "hunter2"s}) {
    CAF_MESSAGE(text);
    for (const auto& why : {gd::client::connect({.database = text}).error(),
                            gd::migration_status({.database = text}).error()}) {
      CAF_CHECK(!why.message.empty());
      CAF_CHECK(!contains(to_string(why), "hun"));
      CAF_CHECK(!contains(to_string(why), "ter2"));
    }
  }
}

CAF_TEST(a read waits for a lock once and not as often as for a server) {
  session stranger{db.conninfo()};
  stranger.exec("begin; lock table gen_durable in access exclusive mode");
  auto opts = db.options();
  opts.lock_timeout = 2s;
  auto client = connect(opts);
  gd::test::long_lock_waits waits{db.conninfo()};
  auto rows = client.queues();
  CAF_REQUIRE(!rows);
  CAF_CHECK(rows.error().code == errc::busy);
  CAF_CHECK_LESS_OR_EQUAL(waits.end(), 1u);
  stranger.exec("rollback");
  CAF_CHECK(client.queues());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace client_suite
