// Inserts and signals in a transaction of the caller's: with its data or not at
// all, with the library's rules, and without a trace in its session. From C++,
// and through the functions of the schema.

#define CAF_SUITE transaction

#include "../../examples/checkout/checkout.hpp"
#include "support/opened.hpp"
#include "support/outcomes.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/migrate.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/store.hpp>
#include <gd/testing.hpp>
#include <gd/transaction.hpp>

#include <caf/test/dsl.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <libpq-fe.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace transaction_suite {

using namespace std::literals;

using gd::errc;
using gd::json;
using gd::test::code_of;
using gd::test::codes_of;
using gd::test::contains;
using gd::test::message_of;
using gd::test::quoted_name;
using gd::test::session;
using gd::test::sql_error;
using gd::test::sqlstate_of;
using gd::test::temporary_database;
using gd::test::temporary_role;
using gd::test::text;

namespace {

/// An insert that needs no machine.
gd::insert row(std::string state = "{}") {
  return {.fsm = "m",
          .state = json::raw(std::move(state)),
          .step = "s",
          .queue = "q"};
}

gd::insert keyed(std::string key) {
  auto x = row();
  x.unique_key = std::move(key);
  return x;
}

gd::signal paid(std::int64_t target, std::optional<std::string> key = {}) {
  return {.target = target,
          .name = "paid",
          .payload = json::raw(R"({"a": 1})"),
          .dedup_key = std::move(key)};
}

struct fixture : gd::test::opened_database {
  fixture() {
    db.rows("create table orders (number int primary key)");
  }

  std::int64_t instance(const std::string& status = "runnable",
                        const std::string& awaits = "") {
    return std::stoll(
      db.scalar("insert into gen_durable (fsm, step, queue, status, awaits,"
                " locked_by, lease_expires_at) values ('m', 's', 'q',"
                " $1::gen_durable_status, nullif($2, ''), case when $1 ="
                " 'executing' then 'node/1/1' end, case when $1 = 'executing'"
                " then now() + interval '1 minute' end) returning id",
                {status, awaits}));
  }

  std::string count(const std::string& table = "gen_durable") {
    return db.scalar("select count(*) from " + table);
  }

  /// Whether somebody keeps this session waiting.
  bool blocked(const session& who) {
    return db.scalar("select cardinality(pg_blocking_pids($1::int))",
                     {text(who.pid())})
           != "0";
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(transaction_tests, fixture)

// -- with the caller's data ---------------------------------------------------

CAF_TEST(what is inserted and signalled is committed with the callers data) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  caller.exec("begin");
  caller.exec("insert into orders values (42)");
  auto made = tx.insert(row());
  CAF_REQUIRE(made);
  CAF_CHECK(!made->duplicate);
  // The transaction's own row is a target like any other.
  CAF_REQUIRE(tx.signal(paid(made->id)));
  CAF_CHECK_EQUAL(count(), "0");
  caller.exec("commit");
  CAF_CHECK_EQUAL(count("orders"), "1");
  CAF_CHECK_EQUAL(of(made->id, "status"), "runnable");
  CAF_CHECK_EQUAL(db.scalar("select target_id from gen_durable_signals"),
                  text(made->id));
}

CAF_TEST(what is inserted and signalled is rolled back with the callers data) {
  auto& caller = program();
  auto parked = instance("awaiting_signal", "paid");
  gd::transaction tx{caller.handle()};
  for (const auto* end : {"rollback", "rollback to mine; commit"}) {
    caller.exec("begin; savepoint mine");
    caller.exec("insert into orders values (42)");
    CAF_REQUIRE(tx.insert(row()));
    CAF_REQUIRE(tx.signal(paid(parked)));
    caller.exec(end);
    CAF_CHECK_EQUAL(count("orders"), "0");
    CAF_CHECK_EQUAL(count(), "1");
    CAF_CHECK_EQUAL(count("gen_durable_signals"), "0");
    CAF_CHECK_EQUAL(of(parked, "status"), "awaiting_signal");
  }
}

CAF_TEST(a row that is refused leaves the transaction and its rows usable) {
  db.rows("alter table gen_durable add check (step <> 'poison')");
  db.rows("create function no() returns trigger language plpgsql as"
          " 'begin raise exception ''no''; end'");
  db.rows("create trigger no before insert on gen_durable for each row"
          " when (new.step = 'raise') execute function public.no()");
  db.rows("alter table gen_durable_signals add check (name <> 'poison')");
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  caller.exec("begin");
  caller.exec("insert into orders values (42)");
  caller.exec("savepoint gen_durable"); // its name is the caller's, too
  auto with = [](auto change) {
    auto x = row();
    change(x);
    return x;
  };
  auto answers = tx.insert_all(
    {row(), with([](auto& x) { x.step = "poison"; }), row(),
     with([](auto& x) { x.state = json::raw("{"); }),
     with([](auto& x) { x.state = json::raw(R"({"a": "\u0000"})"); }),
     with([](auto& x) { x.step.clear(); }),
     with([](auto& x) { x.fsm = "a\nb"; }), row()});
  CAF_CHECK_EQUAL(codes_of(answers), (std::vector<errc>{{},
                                                        errc::rejected,
                                                        {},
                                                        errc::codec,
                                                        errc::codec,
                                                        errc::unknown_machine,
                                                        errc::invalid_argument,
                                                        {}}));
  CAF_CHECK_EQUAL(code_of(tx.insert(with([](auto& x) { x.step = "raise"; }))),
                  errc::rejected);
  auto id = answers[0]->id;
  auto signal = paid(id);
  signal.name = "poison";
  auto sent = tx.signal_all({paid(id), signal, paid(999'999), paid(id)});
  CAF_CHECK_EQUAL(
    codes_of(sent),
    (std::vector<errc>{{}, errc::rejected, errc::no_such_target, {}}));
  caller.exec("release gen_durable; commit");
  CAF_CHECK_EQUAL(count("orders"), "1");
  CAF_CHECK_EQUAL(count(), "3");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "2");
}

// -- answers ------------------------------------------------------------------

CAF_TEST(ten thousand rows are answered in order and none are no work) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  // Not even a transaction is asked for.
  CAF_CHECK(tx.insert_all({}).empty());
  CAF_CHECK(tx.signal_all({}).empty());
  std::vector<gd::insert> rows;
  for (int i = 0; i < 10'000; ++i) {
    rows.push_back(row("{\"n\": " + std::to_string(i) + "}"));
    if (i % 3 == 0) // the last comes first
      rows.back().unique_key = "key " + std::to_string(99'999 - i);
  }
  caller.exec("begin");
  auto answers = tx.insert_all(std::move(rows));
  caller.exec("commit");
  std::set<std::pair<std::string, std::string>> answered;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CAF_REQUIRE(answers[i] && !answers[i]->duplicate);
    answered.emplace(text(answers[i]->id), std::to_string(i));
  }
  std::set<std::pair<std::string, std::string>> stored;
  for (auto& x : db.rows("select id, state ->> 'n' from gen_durable"))
    stored.emplace(x[0].value(), x[1].value());
  CAF_CHECK_EQUAL(stored.size(), 10'000u);
  CAF_CHECK(answered == stored);
}

CAF_TEST(a transaction draws no more ids than it inserts rows) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  caller.exec("begin");
  CAF_CHECK(tx.insert_all({row(), row()}).back());
  caller.exec("commit");
  CAF_CHECK_EQUAL(db.scalar("select last_value from gen_durable_id_seq"), "2");
}

CAF_TEST(a duplicate names the holder of its key whoever that is) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto before = client->insert(keyed("before"));
  CAF_REQUIRE(before);
  caller.exec("begin");
  auto mine = tx.insert(keyed("mine"));
  CAF_REQUIRE(mine);
  auto answers = tx.insert_all({keyed("z"), keyed("before"), row(), keyed("a"),
                                keyed("z"), keyed("mine"), keyed("a")});
  for (const auto& x : answers)
    CAF_REQUIRE(x);
  std::vector<bool> duplicates;
  for (const auto& x : answers)
    duplicates.push_back(x->duplicate);
  CAF_CHECK_EQUAL(duplicates, (std::vector<bool>{false, true, false, false,
                                                 true, true, true}));
  CAF_CHECK_EQUAL(answers[1]->id, before->id);
  CAF_CHECK_EQUAL(answers[4]->id, answers[0]->id);
  CAF_CHECK_EQUAL(answers[5]->id, mine->id);
  CAF_CHECK_EQUAL(answers[6]->id, answers[3]->id);
  caller.exec("commit");
  CAF_CHECK_EQUAL(count(), "5");
}

CAF_TEST(every signal gets its own answer in the order given) {
  auto& caller = program();
  gd::transaction tx{caller.handle(), {.limits = {.inbox = 3}}};
  auto open = instance();
  auto full = instance();
  auto done = instance("done");
  auto unnamed = paid(open);
  unnamed.name.clear();
  caller.exec("begin");
  auto answers = tx.signal_all(
    {paid(open), paid(full), paid(open, "k"), unnamed, paid(full),
     paid(open, "k"), paid(999'999), paid(full), paid(done), paid(full)});
  caller.exec("commit");
  CAF_CHECK_EQUAL(codes_of(answers), (std::vector<errc>{{},
                                                        {},
                                                        {},
                                                        errc::invalid_argument,
                                                        {},
                                                        {},
                                                        errc::no_such_target,
                                                        {},
                                                        errc::target_finished,
                                                        errc::inbox_full}));
  CAF_CHECK(!answers[2]->duplicate);
  CAF_CHECK(answers[5]->duplicate);
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "5");
}

CAF_TEST(machines of the program fill in what an insert leaves open) {
  auto& caller = program();
  gd::transaction tx{
    caller.handle(),
    {.machines = std::make_shared<gd::registry>(std::vector{checkout()})}};
  caller.exec("begin");
  auto made = tx.insert(
    {.fsm = "Checkout", .state = gd::to_json(checkout_state{.order = 7})});
  auto step = tx.insert({.fsm = "Checkout", .step = "no such"});
  auto state = tx.insert(
    {.fsm = "Checkout", .state = json::raw(R"({"odrer": 7})")});
  caller.exec("commit");
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(of(made->id, "step || ' ' || queue || ' ' || fsm_version"),
                  "start checkout 1");
  CAF_CHECK_EQUAL(code_of(step), errc::unknown_step);
  CAF_CHECK_EQUAL(code_of(state), errc::codec);
}

// -- what is no transaction for this ------------------------------------------

CAF_TEST(a connection that cannot be worked on is refused with a sentence) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  auto refused = [&](std::string_view part) {
    for (const auto& message :
         {message_of(tx.insert(row())), message_of(tx.signal(paid(1)))}) {
      CAF_MESSAGE(message);
      CAF_CHECK(contains(message, part));
    }
  };
  refused("got none: begin first");
  caller.exec("begin");
  CAF_CHECK_EQUAL(sqlstate_of(caller, "select 1 / 0"), "22012");
  refused("has failed");
  caller.exec("rollback; begin");
  caller.start("select 1");
  refused("has not ended");
  caller.finish();
  CAF_REQUIRE_EQUAL(PQenterPipelineMode(caller.handle()), 1);
  refused("pipeline");
  CAF_REQUIRE_EQUAL(PQexitPipelineMode(caller.handle()), 1);
  caller.exec("set client_encoding = 'LATIN1'");
  refused("got LATIN1");
  caller.exec("set client_encoding = 'UTF8'");
  CAF_CHECK(tx.insert(row()));
  caller.exec("commit");
  gd::transaction nothing{nullptr};
  CAF_CHECK_EQUAL(code_of(nothing.insert(row())), errc::invalid_argument);
  CAF_CHECK_EQUAL(count(), "1");
}

CAF_TEST(a lost connection is unavailable for every row of the call) {
  auto& caller = program();
  auto& stranger = program();
  db.rows("create function stall() returns trigger language plpgsql as"
          " 'begin perform pg_advisory_xact_lock(1); return new; end'");
  db.rows("create trigger stall before insert on gen_durable for each row"
          " when (new.step = 'stall') execute function public.stall()");
  gd::transaction tx{caller.handle()};
  caller.exec("begin");
  CAF_REQUIRE(tx.insert(row()));
  // In the middle of a call: what it has answered before is lost, too.
  stranger.exec("begin");
  stranger.exec("select pg_advisory_xact_lock(1)");
  std::vector<gd::insert> rows(700, row());
  rows[600].step = "stall";
  auto answers = std::async(std::launch::async,
                            [&] { return tx.insert_all(rows); });
  stranger.terminate(stranger.wait_until_someone_is_blocked());
  for (const auto& x : answers.get())
    if (code_of(x) != errc::unavailable)
      CAF_FAIL("a row of a lost transaction got another answer");
  CAF_CHECK_EQUAL(code_of(tx.insert(row())), errc::unavailable);
  CAF_CHECK_EQUAL(count(), "0");
}

CAF_TEST(a schema that does not fit is refused and leaves the transaction) {
  auto& caller = program();
  caller.exec("begin");
  for (auto name : {"elsewhere"s, ""s, std::string(64, 'x')}) {
    gd::transaction tx{caller.handle(), {.schema = name}};
    CAF_CHECK(!tx.insert(row()));
    CAF_CHECK(!tx.signal(paid(1)));
  }
  gd::transaction tx{caller.handle()};
  auto newest = gd::newest_schema();
  db.note_version(newest + 1, newest + 1);
  CAF_CHECK_EQUAL(code_of(tx.insert(row())), errc::schema_mismatch);
  CAF_CHECK_EQUAL(code_of(tx.signal(paid(1))), errc::schema_mismatch);
  db.note_version(newest, 1);
  CAF_CHECK(tx.insert(row()));
  caller.exec("commit");
  CAF_CHECK_EQUAL(count(), "1");
}

CAF_TEST(signals need new snapshots and inserts do not ) {
  auto id = instance();
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  for (auto level : {"repeatable read"s, "serializable"s}) {
    caller.exec("begin isolation level " + level);
    auto sent = tx.signal(paid(id));
    CAF_CHECK_EQUAL(code_of(sent), errc::invalid_argument);
    CAF_CHECK(contains(message_of(sent), "got " + level));
    CAF_CHECK(tx.insert(row()));
    // Inserted since by somebody whom this snapshot does not show.
    CAF_CHECK_EQUAL(caller.scalar("select count(*) from orders"), "0");
    auto client = gd::client::connect(db.options());
    CAF_REQUIRE(client->insert(keyed(level)));
    CAF_CHECK_EQUAL(code_of(tx.insert(keyed(level))), errc::conflict);
    CAF_CHECK(tx.insert(keyed(level + " mine")));
    caller.exec("savepoint s");
    CAF_CHECK_EQUAL(
      sqlstate_of(caller, "select gd_signal($1::bigint, 'paid')", {text(id)}),
      "25000");
    caller.exec("rollback to s");
    CAF_CHECK_EQUAL(sqlstate_of(caller,
                                "select gd_insert('m', step => 's', queue"
                                " => 'q', unique_key => $1)",
                                {level}),
                    "40001");
    caller.exec("rollback to s; commit");
  }
  caller.exec("begin isolation level read uncommitted"); // another name for it
  CAF_CHECK(tx.signal(paid(id)));
  CAF_CHECK_EQUAL(
    caller.scalar("select gd_signal($1::bigint, 'paid')", {text(id)}),
    "accepted");
  caller.exec("commit");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "2");
}

// -- the caller's session -----------------------------------------------------

CAF_TEST(the callers session is as it was) {
  auto& caller = program();
  auto& stranger = program();
  auto id = instance();
  auto held = instance();
  gd::transaction tx{caller.handle()};
  // Operators that would be found first.
  caller.exec("create schema evil;"
              "create function evil.no(bigint, bigint) returns boolean language"
              " plpgsql as 'begin raise exception ''evil''; end';"
              "create function evil.no(text, text) returns boolean language"
              " plpgsql as 'begin raise exception ''evil''; end';"
              "create function evil.set_config(text, text, boolean) returns"
              " text language plpgsql as 'begin raise exception ''evil''; end';"
              "create operator evil.= (function = evil.no, leftarg = bigint,"
              " rightarg = bigint);"
              "create operator evil.= (function = evil.no, leftarg = text,"
              " rightarg = text)");
  constexpr auto settings
    = "select string_agg(name || '=' || setting, ' ' order by name)"
      " from pg_catalog.pg_settings";
  CAF_REQUIRE_EQUAL(PQsetnonblocking(caller.handle(), 1), 0);
  caller.exec("set lock_timeout = '70ms'; set search_path = evil, pg_catalog;"
              "begin; set local work_mem = '5MB'");
  auto inside = caller.scalar(settings);
  CAF_CHECK(tx.insert(row()));
  CAF_CHECK(tx.signal(paid(id)));
  // Successes and refusals, with lock timeouts of ours in between.
  stranger.exec("begin");
  stranger.exec("select public.gd_insert('m', step => 's', queue => 'q',"
                " unique_key => 'held')");
  stranger.exec("select from gen_durable where id = $1 for update",
                {text(held)});
  CAF_CHECK_EQUAL(
    codes_of(tx.insert_all({keyed("a"), keyed("held"), keyed("z"), {}})),
    (std::vector<errc>{{}, errc::busy, {}, errc::invalid_argument}));
  CAF_CHECK_EQUAL(code_of(tx.signal(paid(held))), errc::busy);
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(
    caller.scalar("select public.gd_signal($1::bigint, 'paid')", {text(id)}),
    "accepted");
  CAF_CHECK_EQUAL(caller.scalar("select id > 0 from public.gd_insert('m', step"
                                " => 's', queue => 'q', unique_key => 'a',"
                                " delay => '1 hour')"),
                  "t");
  CAF_CHECK_EQUAL(
    caller.scalar("select id from public.gd_status($1::bigint)", {text(id)}),
    text(id));
  CAF_CHECK_EQUAL(caller.scalar(settings), inside);
  CAF_CHECK_EQUAL(PQisnonblocking(caller.handle()), 1);
  caller.exec("commit");
  CAF_CHECK_EQUAL(caller.scalar("show search_path"), "evil, pg_catalog");
  CAF_CHECK_EQUAL(caller.scalar("show lock_timeout"), "70ms");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "2");
}

CAF_TEST(what the caller sets in its transaction it has after the commit) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  caller.exec("begin; set lock_timeout = '1234ms'; set search_path = a");
  CAF_CHECK(tx.insert(keyed("k")));
  caller.exec("set search_path = b; set local lock_timeout = '1ms'");
  CAF_CHECK(tx.insert(keyed("k")));
  CAF_CHECK_EQUAL(caller.scalar("show lock_timeout"), "1ms");
  caller.exec("commit");
  CAF_CHECK_EQUAL(caller.scalar("show lock_timeout"), "1234ms");
  CAF_CHECK_EQUAL(caller.scalar("show search_path"), "b");
}

CAF_TEST(limits beyond the defaults hold in a transaction and nowhere else) {
  constexpr std::size_t more = 2 << 20;
  gd::limits bounds;
  bounds.state = more;
  bounds.payload = more;
  auto& caller = program();
  gd::transaction tx{caller.handle(), {.limits = bounds}};
  auto long_json = R"({"x": ")" + std::string(1'500'000, 'x') + "\"}";
  auto refused_here = [&] {
    caller.exec("savepoint here");
    auto state = sqlstate_of(
      caller,
      "insert into gen_durable (fsm, step, state) values "
      "('m', 's', $1::jsonb)",
      {long_json});
    caller.exec("rollback to here");
    return state;
  };
  caller.exec("begin");
  auto made = tx.insert(row(long_json));
  CAF_REQUIRE(made);
  CAF_CHECK(tx.signal(
    {.target = made->id, .name = "paid", .payload = json::raw(long_json)}));
  CAF_CHECK_EQUAL(refused_here(), "22023");
  caller.exec("commit");
  CAF_CHECK_EQUAL(count(), "1");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "1");
  CAF_MESSAGE("a caller who checks what is his keeps saying so");
  caller.exec("set gd.trusted = 'json'; begin");
  CAF_CHECK(tx.insert(row()));
  CAF_CHECK_EQUAL(refused_here(), "");
  caller.exec("commit");
  CAF_CHECK_EQUAL(caller.scalar("show gd.trusted"), "json");
}

// -- schemas and roles --------------------------------------------------------

CAF_TEST(any schema will do and a role that owns no more than that) {
  temporary_database own{"we;rd \"schema\""};
  temporary_role role{own};
  own.rows("create schema " + quoted_name(own.schema()) + " authorization "
           + quoted_name(role.name));
  auto opts = own.options();
  opts.database = own.conninfo(role.name);
  CAF_CHECK_EQUAL(message_of(gd::migrate_up(opts)), "");
  session caller{opts.database};
  gd::transaction tx{caller.handle(), {.schema = own.schema()}};
  caller.exec("begin");
  auto made = tx.insert(keyed("k"));
  CAF_CHECK_EQUAL(message_of(made), "");
  CAF_CHECK_EQUAL(message_of(tx.signal(paid(made->id))), "");
  auto function = quoted_name(own.schema()) + ".gd_";
  auto second = caller.scalar("select id from " + function
                              + "insert('m', step => 's', queue => 'q',"
                                " unique_key => 'k2')");
  CAF_CHECK_EQUAL(caller.scalar("select id from " + function
                                + "insert('m', step => 's', queue => 'q',"
                                  " unique_key => 'k2') where duplicate"),
                  second);
  CAF_CHECK_EQUAL(
    caller.scalar("select " + function + "signal($1::bigint, 'paid')",
                  {second}),
    "accepted");
  CAF_CHECK_EQUAL(
    caller.scalar("select inbox from " + function + "status($1::bigint)",
                  {second}),
    "1");
  caller.exec("commit");
}

CAF_TEST(the functions have the rights of whoever calls them) {
  temporary_role role{db};
  auto app = quoted_name(role.name);
  db.rows("grant usage on schema public to " + app
          + ";"
            "grant select, insert, update on gen_durable to "
          + app
          + ";"
            "grant select, insert, update on gen_durable_due to "
          + app
          + ";"
            "grant select, insert on gen_durable_signals to "
          + app
          + ";"
            "grant select on gen_durable_machines, gen_durable_schema to "
          + app
          + ";"
            "grant usage on sequence gen_durable_id_seq,"
            " gen_durable_signals_id_seq to "
          + app);
  session caller{db.conninfo(role.name)};
  gd::transaction tx{caller.handle()};
  caller.exec("begin");
  auto made = tx.insert(keyed("k"));
  CAF_CHECK_EQUAL(message_of(made), "");
  CAF_CHECK_EQUAL(message_of(tx.signal(paid(made->id))), "");
  CAF_CHECK_EQUAL(caller.scalar("select id from gd_insert('m', step => 's',"
                                " queue => 'q', unique_key => 'k')"),
                  text(made->id));
  CAF_CHECK_EQUAL(
    caller.scalar("select gd_signal($1::bigint, 'paid')", {text(made->id)}),
    "accepted");
  CAF_CHECK_EQUAL(
    caller.scalar("select inbox from gd_status($1::bigint)", {text(made->id)}),
    "2");
  // They run with the caller's rights, and with those alone.
  caller.exec("commit");
  db.rows("revoke update on gen_durable from " + app);
  CAF_CHECK_EQUAL(sqlstate_of(caller, "select gd_signal($1::bigint, 'paid')",
                              {text(made->id)}),
                  "42501");
}

// -- strangers ----------------------------------------------------------------

CAF_TEST(an insert waits for a stranger with its unique key) {
  for (bool by_sql : {false, true})
    for (bool committed : {true, false}) {
      auto key = std::to_string(by_sql) + std::to_string(committed);
      auto& caller = program();
      auto& stranger = program();
      stranger.exec("begin");
      auto holder = stranger.scalar("select id from gd_insert('m', step => 's',"
                                    " queue => 'q', unique_key => $1)",
                                    {key});
      caller.exec("begin");
      std::future<gd::result<gd::inserted>> answer;
      if (by_sql)
        caller.start("select id, duplicate from gd_insert('m', step => 's',"
                     " queue => 'q', unique_key => $1)",
                     {key});
      else
        answer = std::async(std::launch::async, [&] {
          return gd::transaction{caller.handle()}.insert(keyed(key));
        });
      wait_until_blocked(caller);
      stranger.exec(committed ? "commit" : "rollback");
      gd::inserted got;
      if (by_sql) {
        auto found = caller.finish().front();
        got = {std::stoll(found[0].value()), found[1] == "t"};
      } else {
        got = *answer.get();
      }
      caller.exec("commit");
      CAF_CHECK_EQUAL(got.duplicate, committed);
      CAF_CHECK_EQUAL(text(got.id) == holder, committed);
    }
  CAF_CHECK_EQUAL(count(), "4");
}

CAF_TEST(what a stranger holds is busy after one wait) {
  auto held = instance();
  auto open = instance();
  auto& caller = program();
  auto& stranger = program();
  gd::transaction tx{caller.handle()};
  stranger.exec("begin");
  stranger.exec("select gd_insert('m', step => 's', queue => 'q',"
                " unique_key => 'key 300')");
  stranger.exec("select from gen_durable where id = $1 for no key update",
                {text(held)});
  caller.exec("begin; set local lock_timeout = '1500ms'");
  std::vector<gd::insert> rows;
  for (int i = 0; i < 500; ++i)
    rows.push_back(keyed("key " + std::to_string(i)));
  gd::test::long_lock_waits waits{db.conninfo()};
  auto answers = tx.insert_all(rows);
  // The halves of the group do not wait as long again, down to the row: that would be
  // nine more.
  CAF_CHECK_LESS(waits.end(), 5u);
  auto sent = tx.signal_all({paid(held), paid(open), paid(held)});
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (code_of(answers[i]) != (i == 300 ? errc::busy : errc{}))
      CAF_FAIL("row " << i << " got the wrong answer");
  CAF_CHECK_EQUAL(codes_of(sent),
                  (std::vector<errc>{errc::busy, {}, errc::busy}));
  caller.exec("savepoint s");
  CAF_CHECK_EQUAL(
    sqlstate_of(caller, "select gd_signal($1::bigint, 'paid')", {text(held)}),
    "55P03");
  caller.exec("rollback to s; commit");
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(count(), "501");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "1");
}

CAF_TEST(two callers in opposite order are a conflict for one of them) {
  auto x = instance();
  auto y = instance();
  auto& a = program();
  auto& b = program();
  for (auto* who : {&a, &b}) {
    who->exec("set deadlock_timeout = '10ms'");
    who->exec("begin");
  }
  gd::transaction first{a.handle()};
  gd::transaction second{b.handle()};
  CAF_REQUIRE(first.signal(paid(x)));
  CAF_REQUIRE(second.signal(paid(y)));
  auto ends = [](session& who, gd::transaction& tx, std::int64_t target) {
    auto sent = tx.signal(paid(target));
    // It is the caller's to begin again; the transaction is still there.
    who.exec(sent ? "commit" : "select 1; rollback");
    return code_of(sent);
  };
  auto other = std::async(std::launch::async,
                          [&] { return ends(b, second, x); });
  std::set<errc> codes{ends(a, first, y), other.get()};
  CAF_CHECK(codes == (std::set<errc>{errc{}, errc::conflict}));
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "2");
}

CAF_TEST(insert all takes unique keys in order and meets no deadlock) {
  auto& a = program();
  auto& b = program();
  gd::transaction first{a.handle()};
  gd::transaction second{b.handle()};
  a.exec("begin");
  b.exec("begin");
  CAF_REQUIRE(first.insert(keyed("a")));
  std::vector<gd::insert> rows{keyed("z")};
  for (int i = 0; i < 1'000; ++i) // more than share a statement
    rows.push_back(keyed("m" + std::to_string(i)));
  rows.push_back(keyed("a"));
  auto waits = std::async(std::launch::async,
                          [&] { return second.insert_all(rows); });
  wait_until_blocked(b);
  // It has not inserted the other one yet.
  auto last = first.insert(keyed("z"));
  CAF_CHECK(last && !last->duplicate);
  a.exec("commit");
  auto answers = waits.get();
  CAF_CHECK(answers.front() && answers.front()->id == last->id);
  CAF_CHECK(answers.back() && answers.back()->duplicate);
  b.exec("commit");
  CAF_CHECK_EQUAL(count(), "1002");
}

CAF_TEST(signal all locks in order and meets no deadlock) {
  auto x = instance();
  auto y = instance();
  auto& a = program();
  auto& b = program();
  gd::transaction first{a.handle()};
  gd::transaction second{b.handle()};
  a.exec("begin");
  b.exec("begin");
  CAF_REQUIRE(first.signal(paid(x)));
  auto waits = std::async(std::launch::async, [&] {
    return second.signal_all({paid(y), paid(x)});
  });
  wait_until_blocked(b);
  // It has not locked the other one yet.
  CAF_CHECK(first.signal(paid(y)));
  a.exec("commit");
  CAF_CHECK_EQUAL(codes_of(waits.get()), (std::vector<errc>{{}, {}}));
  b.exec("commit");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "4");
}

// -- beside an engine ---------------------------------------------------------

namespace {

gd::store::outcome_row parking(std::int64_t id) {
  gd::store::outcome_row x;
  x.id = id;
  x.token = "node/1/1";
  x.what = gd::store::write_kind::await;
  x.state = R"({"n": 2})";
  x.awaits = "paid";
  return x;
}

bool applied(const gd::pq::rows& flushed, std::int64_t id) {
  for (const auto& x : gd::store::read_flush(flushed))
    if (x.id == id)
      return x.applied;
  return false;
}

} // namespace

CAF_TEST(a caller that signals twice meets no deadlock with a flush) {
  auto x = instance("executing");
  auto y = instance("executing");
  auto& caller = program();
  auto& node = connect();
  gd::transaction tx{caller.handle()};
  std::vector outcomes{parking(x), parking(y)};
  auto flush = gd::store::flush(outcomes);
  auto recheck = *gd::store::recheck(outcomes);
  caller.exec("begin");
  CAF_REQUIRE(tx.signal(paid(x)));
  run(node, {&gd::sql::begin, {}}, false);
  auto flushed = run(node, flush, false);
  CAF_CHECK(!applied(flushed, x)); // locked
  CAF_CHECK(applied(flushed, y));
  auto sent = std::async(std::launch::async,
                         [&] { return tx.signal(paid(y)); });
  wait_until_blocked(caller);
  run(node, recheck, false);
  run(node, {&gd::sql::commit, {}}, false);
  CAF_CHECK(sent.get());
  caller.exec("commit");
  CAF_CHECK_EQUAL(of(y, "status"), "runnable");
  auto again = node.run({{flush, recheck}});
  CAF_REQUIRE(again.ok());
  CAF_CHECK(applied(again.results[0], x));
  CAF_CHECK_EQUAL(of(x, "status"), "runnable");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "2");
}

CAF_TEST(an engines flush gives way to a caller that holds its row) {
  auto x = instance("executing");
  auto& caller = program();
  auto& node = connect();
  gd::transaction tx{caller.handle()};
  caller.exec("begin");
  CAF_REQUIRE(tx.signal(paid(x)));
  // As a turn does with a row that stays locked.
  auto alone = node.run(
    {{gd::store::lock_timeout(20ms), gd::store::lock({x})}});
  CAF_CHECK(!alone.ok() && alone.failure->code == errc::busy);
  caller.exec("commit");
}

namespace {

/// A program that signals, from C++ or by SQL; its session tells whether it
/// waits.
class sender {
public:
  sender(session& in, bool by_sql) : in_(in), by_sql_(by_sql) {
    // nop
  }

  void start(std::int64_t target) {
    if (by_sql_)
      in_.start("select gd_signal($1::bigint, 'paid')", {text(target)});
    else
      answer_ = std::async(std::launch::async, [this, target] {
        return gd::transaction{in_.handle()}.signal(paid(target));
      });
  }

  bool ended() {
    return by_sql_ ? in_.finished()
                   : answer_.wait_for(0s) == std::future_status::ready;
  }

  bool accepted() {
    return by_sql_ ? in_.finish().front().front() == "accepted"
                   : static_cast<bool>(answer_.get());
  }

private:
  session& in_;
  bool by_sql_;
  std::future<gd::result<gd::signalled>> answer_;
};

} // namespace

CAF_TEST(a callers signal and a parking step in any order wake up once) {
  db.rows("create table woken (id bigint);"
          "create function count_wake() returns trigger language plpgsql as"
          " 'begin insert into public.woken values (new.id); return new; end';"
          "create trigger count_wake after update on gen_durable for each row"
          " when (old.status = 'awaiting_signal' and new.status = 'runnable')"
          " execute function count_wake()");
  auto& caller = program();
  auto& node = connect();
  int waited = 0;
  int busy = 0;
  for (bool by_sql : {false, true}) {
    auto order
      = "eeeeccc"s; // begin, flush, recheck, commit; begin, signal, commit
    std::sort(order.begin(), order.end());
    do {
      CAF_MESSAGE((by_sql ? "by SQL " : "by C++ ") << order);
      auto id = instance("executing");
      auto outcome = parking(id);
      auto flush = gd::store::flush({outcome});
      auto recheck = *gd::store::recheck({outcome});
      sender sends{caller, by_sql};
      int e = 0;
      int c = 0;
      bool parked = false;
      bool pending = false;
      auto finish = [&] {
        CAF_CHECK(sends.accepted());
        caller.exec("commit");
        pending = false;
      };
      for (char who : order) {
        if (who == 'e')
          switch (e++) {
            case 0:
              run(node, {&gd::sql::begin, {}}, false);
              break;
            case 1:
              parked = applied(run(node, flush, false), id);
              busy += parked ? 0 : 1;
              break;
            case 2:
              run(node, recheck, false);
              break;
            default:
              run(node, {&gd::sql::commit, {}}, false);
          }
        else
          switch (c++) {
            case 0:
              caller.exec("begin");
              break;
            case 1:
              sends.start(id);
              pending = true;
              while (!sends.ended() && !blocked(caller))
                ;
              waited += sends.ended() ? 0 : 1;
              break;
            default:
              if (sends.ended())
                finish(); // else behind the engine's commit
          }
      }
      if (pending)
        finish();
      if (!parked)
        CAF_REQUIRE(node.run({{flush, recheck}}).ok());
      CAF_CHECK_EQUAL(of(id, "status"), "runnable");
      CAF_CHECK_EQUAL(of(id, "wake_reason"), "signal");
      CAF_CHECK_EQUAL(
        db.scalar("select count(*) from woken where id = $1", {text(id)}), "1");
    } while (std::next_permutation(order.begin(), order.end()));
  }
  // Both ways of meeting were among them.
  CAF_CHECK(waited > 0);
  CAF_CHECK(busy > 0);
}

// -- the functions are the library --------------------------------------------

namespace {

constexpr auto call_insert
  = "select id, duplicate from gd_insert($1, $2::jsonb, $3::int, $4, $5,"
    " $6::int, $7::timestamptz, $8::interval, $9, $10, $11::text[])";

session::parameters parameters_of(const gd::insert& x) {
  using cell = std::optional<std::string>;
  auto us = [](std::int64_t n) { return std::to_string(n) + " microseconds"; };
  return {x.fsm,
          x.state.text(),
          x.version == 0 ? cell{} : cell{std::to_string(x.version)},
          x.step,
          x.queue,
          std::to_string(x.priority),
          x.eligible_at_us ? cell{fmt::format("{}.{:06}", "2100-01-01 00:00:00",
                                              *x.eligible_at_us % 1'000'000)
                                  + "Z"}
                           : cell{},
          x.delay_us == 0 ? cell{} : cell{us(x.delay_us)},
          x.partition_key,
          x.unique_key,
          x.unique_scope.empty()
            ? cell{}
            : cell{fmt::format("{{{}}}", fmt::join(x.unique_scope, ","))}};
}

std::string state_of(errc code) {
  switch (code) {
    case errc::invalid_argument:
    case errc::codec:
      return "22023";
    case errc::unknown_machine:
    case errc::unknown_step:
      return "42704";
    default:
      return std::string{to_string(code)};
  }
}

/// The newest row, but for what differs between two inserts of the same.
constexpr auto newest_row
  = "select (to_jsonb(g) - 'id' - 'inserted_at' - 'updated_at' - 'eligible_at'"
    " || jsonb_build_object('history', coalesce(g.history, 0)) || "
    "jsonb_build_object('after', round(extract(epoch from eligible_at -"
    " inserted_at) / 600), 'fraction', case when eligible_at > '2099-01-01' "
    "then"
    " extract(microseconds from eligible_at) end))::text"
    " from gen_durable g order by id desc limit 1";

} // namespace

CAF_TEST(gd insert does what the library does and refuses what it refuses) {
  db.rows("insert into gen_durable_machines values"
          " ('Order', 1, 'old', 'slow', '{old}'),"
          " ('Order', 9, 'middle', 'fast', '{middle}'),"
          " ('Order', 10, 'start', 'fast', '{start,ship}')");
  db.rows("insert into gen_durable (fsm, step, queue, unique_key, unique_scope)"
          " values ('m', 's', 'q', 'taken', '{runnable}')");
  auto nested = [](int levels) {
    auto n = static_cast<std::size_t>(levels - 1);
    return json::raw("{\"a\": " + std::string(n, '[') + std::string(n, ']')
                     + "}");
  };
  std::vector<gd::insert> cases{
    row(),
    row(R"({"b": [1, 2.50, null], "a": {"x": "ü"}})"),
    {.fsm = "Order"},
    {.fsm = "Order", .version = 9},
    {.fsm = "Order", .version = 1, .queue = "other"},
    {.fsm = "Order", .step = "ship", .priority = -7},
    {.fsm = "Order", .step = "middle"},
    {.fsm = "Order", .version = 3},
    {.fsm = "Order", .version = 3, .step = "s"},
    {.fsm = "Order", .version = 3, .step = "s", .queue = "q"},
    {.fsm = "nobody's"},
    {.fsm = "nobody's", .version = 2, .queue = "q"},
    {.fsm = ""},
    {.fsm = std::string(255, 'x'), .step = "s", .queue = "q"},
    {.fsm = std::string(256, 'x'), .step = "s", .queue = "q"},
    {.fsm = "ab\x1f", .step = "s", .queue = "q"},
    {.fsm = "ü\x7f", .step = "s", .queue = "q"},
    {.fsm = "m", .step = "a\nb", .queue = "q"},
    {.fsm = "m", .step = "s", .queue = std::string(256, 'x')},
    row("[]"),
    row("1"),
    row("null"),
    row("{\"a\": \"" + std::string(1 << 20, 'x') + "\"}"),
  };
  auto add = [&cases](auto change) { change(cases.emplace_back(row())); };
  add([&](auto& x) { x.state = nested(512); });
  add([&](auto& x) { x.state = nested(513); });
  add([](auto& x) { x.delay_us = 3'600'000'000; });
  add([](auto& x) { x.eligible_at_us = 4'102'444'800'000'007; });
  add([](auto& x) {
    x.eligible_at_us = 4'102'444'800'000'007;
    x.delay_us = 1;
  });
  add([](auto& x) { x.partition_key = "customer 7"; });
  add([](auto& x) { x.partition_key = ""; });
  add([](auto& x) { x.partition_key = std::string(1025, 'x'); });
  add([](auto& x) { x.partition_key = "a\tb"; });
  add([](auto& x) { x.unique_key = "free"; });
  add([](auto& x) { x.unique_key = "taken"; });
  add([](auto& x) { x.unique_key = "\x01 ü"; });
  add([](auto& x) { x.unique_key = ""; });
  add([](auto& x) { x.unique_key = std::string(1024, 'x'); });
  add([](auto& x) { x.unique_key = std::string(1025, 'x'); });
  add([](auto& x) {
    x.unique_key = "k";
    x.unique_scope = {"runnable", "done"};
  });
  add([](auto& x) {
    x.unique_key = "taken";
    x.unique_scope = {"done"};
  });
  add([](auto& x) {
    x.unique_key = "k";
    x.unique_scope = {"executing"};
  });
  add([](auto& x) {
    x.unique_key = "k";
    x.unique_scope = {"runnable", "asleep"};
  });
  add([](auto& x) {
    x.unique_key = "k";
    x.unique_scope.assign(6, "done");
  });
  add([](auto& x) { x.unique_scope = {"runnable"}; });
  add([](auto& x) {
    x.unique_key = "k";
    x.partition_key = "p";
    x.unique_scope = {"runnable"};
  });
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& x = cases[i];
    CAF_MESSAGE("case " << i << " " << x.fsm.substr(0, 20));
    caller.exec("begin");
    auto by_library = tx.insert(x);
    auto library_row = caller.scalar(newest_row);
    caller.exec("rollback; begin");
    gd::result<gd::inserted> by_sql{gd::inserted{}};
    std::string sql_row;
    try {
      auto got = caller.exec(call_insert, parameters_of(x)).front();
      by_sql = gd::inserted{std::stoll(got[0].value()), got[1] == "t"};
      sql_row = caller.scalar(newest_row);
    } catch (const sql_error& why) {
      by_sql = gd::error{errc::sql, why.what(), why.sqlstate()};
    }
    caller.exec("rollback");
    if (by_library) {
      CAF_REQUIRE_EQUAL(message_of(by_sql), "");
      CAF_CHECK_EQUAL(by_sql->duplicate, by_library->duplicate);
      if (by_library->duplicate)
        CAF_CHECK_EQUAL(by_sql->id, by_library->id);
      CAF_CHECK_EQUAL(sql_row, library_row);
    } else {
      CAF_REQUIRE(!by_sql);
      auto why = by_library.error();
      CAF_CHECK_EQUAL(by_sql.error().sqlstate, state_of(why.code));
      // But for the names of two arguments, and what the server has reworded.
      if (!contains(why.message, "_us")
          && !contains(why.message, "bytes of JSON")
          && !contains(why.message, "levels"))
        CAF_CHECK(contains(by_sql.error().message, why.message));
    }
  }
}

CAF_TEST(gd insert refuses what only SQL can say) {
  auto& caller = program();
  for (const auto* arguments :
       {"null", "'m', null", "'m', version => 0", "'m', version => -1",
        "'m', priority => 32768", "'m', priority => -32769",
        "'m', delay => '-1 s'", "'m', delay => '101 years'",
        "'m', eligible_at => 'infinity'", "'m', eligible_at => '-infinity'",
        "'m', eligible_at => '1969-12-31 23:59:59Z'",
        "'m', unique_key => 'k', unique_scope => array[null]",
        "'m', unique_key => 'k', unique_scope => array['']",
        "'m', unique_key => 'k', unique_scope => array_fill('done'::text, "
        "array[5000000])"})
    CAF_CHECK_EQUAL(sqlstate_of(caller, "select gd_insert("s + arguments + ")"),
                    "22023");
  // What is left out and what is null are the same.
  CAF_CHECK_EQUAL(
    caller.scalar("select not duplicate from gd_insert('m', '{}', null, 's',"
                  " 'q', null, null, null, null, null, null)"),
    "t");
  CAF_CHECK_EQUAL(caller.scalar("select count(*) from gen_durable"), "1");
}

CAF_TEST(numbers that PostgreSQL prints at length are refused at every door) {
  auto& caller = program();
  auto id = caller.scalar(
    "select id from gd_insert('m', step => 's', queue => 'q')");
  caller.exec("insert into gen_durable_signals (target_id, name) values "
              "($1::bigint, 'x')",
              {id});
  auto doors = [&](const std::string& json) {
    std::string states;
    for (const auto& sql :
         {"select gd_insert('m', $1::jsonb, step => 's', queue => 'q')"s,
          "select gd_signal(" + id + ", 'paid', $1::jsonb)",
          "insert into gen_durable (fsm, step, state) values ('m', 's', $1)"s,
          "update gen_durable set state = $1::jsonb"s,
          "insert into gen_durable_signals (target_id, name, payload) values ("
            + id + ", 'x', $1)",
          "update gen_durable_signals set payload = $1::jsonb"s}) {
      caller.exec("begin");
      states += sqlstate_of(caller, sql, {json}) + " ";
      caller.exec("rollback");
    }
    return states;
  };
  auto refused = "22023 22023 22023 22023 22023 22023 "s;
  for (const auto* one : {"1e131071", "1e400", "-1e399", "1e-399", "0.1e-398"})
    CAF_CHECK_EQUAL(doors(R"({"a": [{"n": )"s + one + "}]}"), refused);
  CAF_CHECK_EQUAL(doors(R"({"a": [1e399, -1e398, 1e-398]})"), "      ");
  // Many that are not too long, but are together.
  std::string many = R"({"a": [1e399)";
  for (int i = 0; i < 3'000; ++i)
    many += ",1e399";
  CAF_CHECK_EQUAL(doors(many + "]}"), refused);
  CAF_MESSAGE("what would be a gigabyte is not printed to find out");
  many = R"({"a": [1e131071)";
  for (int i = 1; i < 9'000; ++i)
    many += ",1e131071";
  CAF_CHECK_EQUAL(doors(many + "]}"), refused);
  CAF_MESSAGE("nor what takes more than a mebibyte of text can");
  CAF_CHECK_EQUAL(
    caller.scalar("select _gd_json_fault('x', ('[0' || repeat(',0', 349524) || "
                  "']')::jsonb)"),
    "");
  CAF_CHECK_EQUAL(
    caller.scalar("select _gd_json_fault('x', ('[0' || repeat(',0', 350000) || "
                  "']')::jsonb)"),
    "x: expected at most 1048576 bytes of JSON, got more");
  CAF_MESSAGE("a state is an object");
  CAF_CHECK_EQUAL(sqlstate_of(caller, "update gen_durable set state = '[]'"),
                  "22023");
  CAF_MESSAGE("programs that have checked it themselves are let through");
  caller.exec("set gd.trusted = 'json'");
  CAF_CHECK_EQUAL(
    sqlstate_of(caller, R"(update gen_durable set state = '{"n": 1e400}')"),
    "");
}

CAF_TEST(gd insert takes many rows of a query) {
  auto& caller = program();
  caller.exec("insert into orders select generate_series(1, 1000)");
  CAF_CHECK_EQUAL(
    caller.scalar("select count(distinct i.id) from orders o cross join lateral"
                  " gd_insert('m', jsonb_build_object('order', o.number), step"
                  " => 's', queue => 'q', unique_key => 'order ' || o.number) i"
                  " where not i.duplicate"),
    "1000");
  CAF_CHECK_EQUAL(count(), "1000");
}

CAF_TEST(gd signal does what the library does) {
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  auto answer_of = [](const gd::result<gd::signalled>& x) {
    if (!x)
      return std::string{to_string(x.error().code)};
    return x->duplicate ? "duplicate"s : "accepted"s;
  };
  constexpr auto after
    = "select (select to_jsonb(g) - 'updated_at' - 'eligible_at' from"
      " gen_durable g where id = 1)::text || coalesce((select"
      " string_agg((to_jsonb(s) - 'id' - 'inserted_at')::text, ' ' order by id)"
      " from (select * from gen_durable_signals where name <> 'old' order by "
      "id) s), '')"
      " || (select count(*) from gen_durable_signals)";
  std::set<std::string> seen;
  for (std::string status : {"runnable", "executing", "awaiting_signal", "done",
                             "failed", "missing"})
    for (std::string awaits : {"paid", "other"})
      for (std::string scope :
           {"", "runnable", "runnable,executing,awaiting_signal"})
        for (bool full : {false, true})
          for (std::string key : {"", "fresh", "there", "consumed"}) {
            if (status != "awaiting_signal" && awaits + scope != "paid")
              continue;
            caller.exec("begin");
            if (status != "missing")
              caller.exec(
                "insert into gen_durable (id, fsm, step, status, awaits,"
                " locked_by, lease_expires_at, deadline, unique_key,"
                " unique_scope) overriding system value"
                " values (1, 'm', 's', $1::gen_durable_status, case when $1 ="
                " 'awaiting_signal' then $2 end, case when $1 = 'executing'"
                " then 'node/1/1' end, case when $1 = 'executing' then"
                " '2100-01-01'::timestamptz end, '2100-01-01', case when $3 <>"
                " '' then 'k'::bytea end,"
                " string_to_array($3, ',')::gen_durable_status[])",
                {status, awaits, scope});
            if (status != "missing")
              caller.exec(
                "insert into gen_durable_signals (target_id, name, dedup_key,"
                " consumed_at) select 1, 'old', case n when 1 then"
                " 'there' when 2 then 'consumed' end, case n when 2"
                " then now() end from generate_series(1, $1) n",
                {full ? "1001" : "2"});
            caller.exec("savepoint s");
            auto signal = paid(1);
            if (!key.empty())
              signal.dedup_key = key;
            auto by_library = answer_of(tx.signal(signal));
            auto library_state = caller.exec(after);
            caller.exec("rollback to s");
            auto by_sql = caller.scalar(
              "select gd_signal(1, 'paid', '{\"a\": 1}', nullif($1, ''))",
              {key});
            auto sql_state = caller.exec(after);
            caller.exec("rollback");
            CAF_MESSAGE(status << " " << awaits << " " << scope << " " << full
                               << " " << key << ": " << by_sql);
            CAF_CHECK_EQUAL(by_sql, by_library);
            CAF_CHECK(sql_state == library_state);
            seen.insert(by_sql);
          }
  CAF_CHECK_EQUAL(seen.size(), 5u);
}

CAF_TEST(gd signal refuses what the library refuses) {
  auto id = instance();
  auto& caller = program();
  gd::transaction tx{caller.handle()};
  std::vector<gd::signal> cases(7, paid(id));
  cases[0].name.clear();
  cases[1].name = std::string(256, 'x');
  cases[2].name = "a\rb";
  cases[3].dedup_key = "";
  cases[4].dedup_key = std::string(1025, 'x');
  cases[5].payload = json::raw(std::string(513, '[') + std::string(513, ']'));
  cases[6].payload = json::raw("\"" + std::string(1 << 20, 'x') + "\"");
  for (const auto& x : cases) {
    caller.exec("begin");
    auto by_library = tx.signal(x);
    CAF_CHECK(!by_library);
    CAF_CHECK_EQUAL(
      sqlstate_of(caller, "select gd_signal($1::bigint, $2, $3::jsonb, $4)",
                  {text(x.target), x.name, x.payload.text(), x.dedup_key}),
      state_of(code_of(by_library)));
    caller.exec("rollback");
  }
  for (const auto* arguments : {"1, null", "1, 'n', null"})
    CAF_CHECK_EQUAL(sqlstate_of(caller, "select gd_signal("s + arguments + ")"),
                    "22023");
  CAF_CHECK_EQUAL(caller.scalar("select gd_signal(null, 'n')"),
                  "no_such_target");
  CAF_CHECK_EQUAL(count("gen_durable_signals"), "0");
}

CAF_TEST(gd status shows what a look up shows) {
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto x = keyed("k");
  x.state = json::raw(R"({"n": 1})");
  x.priority = 7;
  x.partition_key = "p";
  auto made = client->insert(x);
  CAF_REQUIRE(made);
  db.rows("update gen_durable set attempt = 3, last_error = 'why', result ="
          " '[1]', awaits = 'paid', locked_by = 'node', wake_reason = 'signal',"
          " deadline = '2100-01-01', lease_expires_at = '2100-01-02'");
  CAF_REQUIRE(client->signal(paid(made->id)));
  auto found = client->look_up(made->id);
  CAF_REQUIRE(found);
  auto shown = db.rows(
    "select id, fsm, version, step, status, state, result, awaits, queue,"
    " priority, attempt, last_error, locked_by, wake_reason, inbox,"
    " partition_key, unique_key_text, (extract(epoch from "
    "eligible_at)"
    " * 1000000)::bigint, (extract(epoch from deadline) * 1000000)::bigint,"
    " (extract(epoch from lease_expires_at) * 1000000)::bigint,"
    " (extract(epoch from inserted_at) * 1000000)::bigint,"
    " (extract(epoch from updated_at) * 1000000)::bigint"
    " from gd_status($1::bigint)",
    {text(made->id)});
  CAF_REQUIRE_EQUAL(shown.size(), 1u);
  gd::test::row expected{text(found->id),
                         found->fsm,
                         std::to_string(found->version),
                         found->step,
                         found->status,
                         found->state.text(),
                         found->result->text(),
                         found->awaits,
                         found->queue,
                         std::to_string(found->priority),
                         std::to_string(found->attempt),
                         found->last_error,
                         found->locked_by,
                         found->wake_reason,
                         text(found->inbox),
                         found->partition_key,
                         found->unique_key,
                         text(found->eligible_at_us),
                         text(found->deadline_us.value()),
                         text(found->lease_expires_at_us.value()),
                         text(found->inserted_at_us),
                         text(found->updated_at_us)};
  CAF_CHECK(shown.front() == expected);
  CAF_CHECK(db.rows("select from gd_status(999999)").empty());
}

// -- the example --------------------------------------------------------------

#ifdef GD_ENQUEUE_ONLY

namespace {

int enqueue_only(std::vector<std::string> args) {
  args.insert(args.begin(), GD_ENQUEUE_ONLY);
  std::vector<char*> argv;
  for (auto& x : args)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0)
    return -1;
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

CAF_TEST(a shop without an engine has orders and instances together) {
  temporary_database shop;
  shop.migrate();
  auto where = shop.conninfo();
  CAF_CHECK_EQUAL(enqueue_only({where}), 2);
  CAF_CHECK_EQUAL(enqueue_only({where, "order", "42"}), 0);
  // The number is taken: the instance goes with the order.
  CAF_CHECK_EQUAL(enqueue_only({where, "order", "42"}), 1);
  CAF_CHECK_EQUAL(shop.scalar("select number || ' ' || id from orders o join"
                              " gen_durable g on g.id = o.instance"),
                  "42 1");
  CAF_CHECK_EQUAL(shop.scalar("select count(*) from gen_durable"), "1");
  CAF_CHECK_EQUAL(enqueue_only({where, "pay", "42", "100"}), 0);
  CAF_CHECK_EQUAL(enqueue_only({where, "pay", "42", "100"}), 1);
  CAF_CHECK_EQUAL(shop.scalar("select count(*) from gen_durable_signals"), "1");
  auto run = gd::testing::in_database::connect(shop.options(), {checkout()});
  CAF_REQUIRE(run);
  CAF_CHECK(run->drain());
  CAF_CHECK(run->result<receipt>(1)->shipped);
}

#endif

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace transaction_suite
