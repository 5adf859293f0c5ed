#define CAF_SUITE strangers

// One stranger's open transaction, one row that nobody can pick, one that nobody
// can read: none of them holds up what is behind it (spec [A7], [A18]).

#include <gd/engine/queue/batch.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/operate.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace strangers_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;
namespace store = gd::store;

using gd::test::session;
using gd::test::temporary_database;
using clock_type = gd::turn::clock;
using ids = std::vector<std::int64_t>;
using fate = gd::events::row_unusable::fate;

struct fixture {
  temporary_database db;
  std::unique_ptr<pq::connection> engine;
  clock_type::time_point now = clock_type::now();
  std::uint64_t picks = 1;

  fixture() {
    db.migrate();
    engine = connect();
  }

  std::unique_ptr<pq::connection> connect() {
    auto x = std::make_unique<pq::connection>(db.options());
    CAF_REQUIRE(x->wait_ready());
    return x;
  }

  gd::turn make_turn() {
    return gd::turn{{.queue = "default",
                     .incarnation = "node/1",
                     .first_pick = picks += 1'000,
                     .machines = {{"A", 1}, {"B", 1}},
                     .lease = 60s}};
  }

  gd::turn::report once(gd::turn& turn, std::int32_t want,
                        std::int64_t room = 0) {
    auto work = turn.begin(want, now, room);
    CAF_REQUIRE(work);
    return turn.finish(0, engine->run(work->work), now);
  }

  /// What comes of one poll: pick follows pick as long as there may be more.
  ids poll(gd::turn& turn, std::int32_t want, int* count = nullptr) {
    now += 1s;
    turn.scan_everything();
    ids got;
    for (int i = 0; i < 200; ++i) {
      auto report = once(turn, want);
      if (count != nullptr)
        ++*count;
      CAF_CHECK(!report.failure);
      for (const auto& x : report.picked)
        got.push_back(x.id);
      if (!report.full)
        break;
    }
    return got;
  }

  /// Of two machines in turn, all eligible since the same time.
  void insert(int n, const std::string& key = "null") {
    db.rows(
      "insert into gen_durable (fsm, step, partition_key) select case n % "
      "2 when 0 then 'A' else 'B' end, 'collect', "
        + key + " from generate_series(1, $1::int) n",
      {std::to_string(n)});
  }

  std::string count(const std::string& where) {
    return db.scalar("select count(*) from gen_durable where " + where);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(stranger_tests, fixture)

CAF_TEST(however many rows at the head of a queue a stranger holds what is
           behind them is picked in the same poll) {
  for (bool keyed : {false, true})
    for (int held : {20, 700}) {
      CAF_MESSAGE((keyed ? "with keys, " : "of two machines, ")
                  << held << " rows held");
      db.rows("truncate gen_durable cascade");
      insert(held + 200, keyed ? "'key ' || n" : "null");
      session stranger{db.conninfo()};
      stranger.exec("begin; select from gen_durable order by id limit "
                    + std::to_string(held) + " for update");
      auto turn = make_turn();
      if (keyed) // the first pick may only learn that there are keys
        once(turn, 1);
      CAF_CHECK_EQUAL(poll(turn, 10).size(), 200u);
      CAF_CHECK_EQUAL(count("status = 'executing'"), "200");
      stranger.exec("commit");
      CAF_CHECK_EQUAL(poll(turn, 10).size(), static_cast<std::size_t>(held));
    }
}

CAF_TEST(rows that strangers hold are passed over once
         and not by each pick until the next poll) {
  // All of them are eligible since the same time: the place of one is its id.
  db.rows("insert into gen_durable (fsm, step, eligible_at) select case n % 2 "
          "when 0 then 'A' else 'B' end, 'collect', '2026-01-01' from "
          "generate_series(1, 5000) n");
  session stranger{db.conninfo()};
  stranger.exec("begin; select from gen_durable order by id limit 4000 for "
                "update");
  auto turn = make_turn();
  int picked = 0;
  CAF_CHECK_EQUAL(poll(turn, 10, &picked).size(), 1000u);
  // Those that went deeper and deeper, and one for each ten rows.
  CAF_CHECK_LESS_OR_EQUAL(picked, 9 + 100 + 1);
  auto work = turn.begin(10, now);
  CAF_REQUIRE(work);
  const auto& args = work->work.calls.front().args.values();
  CAF_CHECK_EQUAL(args[10], "\0\0\0\x0a"s); // ten rows deep
}

CAF_TEST(a queue of which a stranger holds everything is not polled in a loop) {
  for (bool keyed : {false, true}) {
    db.rows("truncate gen_durable cascade");
    insert(200, keyed ? "'key ' || n" : "null");
    session stranger{db.conninfo()};
    stranger.exec("begin; select from gen_durable for update");
    auto turn = make_turn();
    if (keyed)
      once(turn, 1);
    int picked = 0;
    CAF_CHECK(poll(turn, 10, &picked).empty());
    CAF_CHECK_LESS_OR_EQUAL(picked, 12);
  }
}

CAF_TEST(one row with a key in the queue does not make picks stop at rows that
           strangers hold) {
  insert(1, "'a key'");
  insert(300);
  session stranger{db.conninfo()};
  stranger.exec("begin; select from gen_durable where partition_key is null "
                "order by id limit 100 for update");
  auto turn = make_turn();
  once(turn, 1); // it learns that there are keys
  CAF_CHECK_EQUAL(once(turn, 50).picked.size(), 50u);
  CAF_CHECK_EQUAL(count("status = 'executing' and id <= 101"), "1");
}

CAF_TEST(however many keys execute
         or are locked elsewhere those behind them are picked in the same
           poll) {
  for (bool locked : {false, true})
    for (int taken : {40, 300}) {
      CAF_MESSAGE((locked ? "locked, " : "executing, ") << taken << " keys");
      db.rows("truncate gen_durable cascade");
      insert(taken, "'taken ' || n");
      session stranger{db.conninfo()};
      if (locked) {
        stranger.exec(
          "select pg_advisory_lock(hashtext(partition_key)) from gen_durable");
      } else {
        db.rows("update gen_durable set status = 'executing', locked_by = "
                "'other/1', lease_expires_at = now() + interval '1 h'");
        insert(taken, "'taken ' || n");
      }
      insert(200, "'free ' || n");
      auto turn = make_turn();
      once(turn, 1); // may only learn that there are keys
      int count = 0;
      CAF_CHECK_EQUAL(poll(turn, 10, &count).size(), 200u);
      CAF_CHECK_LESS(count, locked ? 100 : 60);
      count = 0;
      CAF_CHECK_EQUAL(poll(turn, 10, &count).size(), 0u);
      CAF_CHECK_LESS(count, locked ? 60 : 20); // they are tried again
    }
}

CAF_TEST(three nodes that pick at the same time take rows of any mixture) {
  for (bool keyed : {false, true}) {
    db.rows("truncate gen_durable cascade");
    insert(600, keyed ? "'key ' || n" : "null");
    // Each of them is in the middle of its pick.
    std::vector<std::unique_ptr<pq::connection>> lines;
    for (int i = 0; i < 3; ++i) {
      lines.push_back(connect());
      pq::connection& on = *lines.back();
      CAF_REQUIRE(on.run({{{&sql::begin, {}}}, false}).ok());
      std::size_t got = 0;
      std::string last_key;
      int tries = 0;
      for (std::int32_t depth = 20; got == 0 && tries < 8; depth *= 2) {
        auto reply = on.run(
          {{store::pick({.queue = "default",
                         .limit = 10,
                         .machines = {{"A", 1}, {"B", 1}},
                         .token = "node/" + std::to_string(i) + "/1",
                         .lease = 60s,
                         .depth = depth,
                         .keyed = keyed,
                         .last_key = last_key,
                         .visit = tries > 0}),
            store::tell_pick()},
           false});
        CAF_REQUIRE(reply.ok());
        got = reply.results.front().size();
        auto told = store::read_one<store::pick_summary>(reply.results.back());
        CAF_REQUIRE(told);
        last_key = told->last_key;
        CAF_CHECK(got == 10 || told->deeper);
        ++tries;
      }
      CAF_CHECK_EQUAL(got, 10u);
    }
  }
}

namespace {

std::string status_and_error(temporary_database& db, std::int64_t id) {
  auto row = db.rows("select status, last_error from gen_durable where id = $1",
                     {std::to_string(id)})
               .front();
  return row[0].value() + ": " + row[1].value_or("-");
}

} // namespace

CAF_TEST(a row that makes each pick fail is failed and the queue goes on) {
  // As some program's trigger or constraint does, or a page that is broken.
  db.rows("create function refuse() returns trigger language plpgsql as $$ "
          "begin if new.status = 'executing' then raise exception 'not this "
          "one'; end if; return new; end $$; create trigger refuse before "
          "update on gen_durable for each row when (new.step = 'poison') "
          "execute function refuse()");
  for (bool keyed : {false, true})
    for (const auto* machine : {"A", "B"}) {
      db.rows("truncate gen_durable cascade");
      insert(70, keyed ? "'key ' || n" : "null");
      auto poison = std::stoll(
        db.scalar("update gen_durable set step = 'poison' where id = (select "
                  "min(id) + 30 from gen_durable where fsm = $1) returning id",
                  {machine}));
      auto turn = make_turn();
      ids got;
      std::vector<gd::pick_bisection::accused> told;
      for (int i = 0; i < 60 && (got.size() < 69 || told.empty()); ++i) {
        now += 100ms;
        auto report = once(turn, 100);
        for (const auto& x : report.picked)
          got.push_back(x.id);
        for (const auto& x : report.unpickable)
          told.push_back(x);
      }
      CAF_CHECK_EQUAL(got.size(), 69u);
      CAF_CHECK_EQUAL(status_and_error(db, poison),
                      "failed: its row cannot be picked: not this one");
      CAF_REQUIRE_EQUAL(told.size(), 1u);
      CAF_CHECK_EQUAL(told.front().row.id, poison);
      CAF_CHECK(told.front().what == fate::failed);
      CAF_MESSAGE("and picks are as they were");
      insert(1);
      auto work = turn.begin(10, now + 1s);
      CAF_REQUIRE(work);
      CAF_CHECK(work->picks);
    }
}

CAF_TEST(a row that cannot even be failed is left out until it can be picked) {
  insert(20);
  db.rows("update gen_durable set step = 'poison' where id = 7; "
          "alter table gen_durable add constraint no_poison "
          "check (step <> 'poison') not valid");
  auto turn = make_turn();
  ids got;
  int told = 0;
  auto run = [&](int n) {
    for (int i = 0; i < n; ++i) {
      now += 100ms;
      auto report = once(turn, 100);
      for (const auto& x : report.picked)
        got.push_back(x.id);
      for (const auto& x : report.unpickable) {
        ++told;
        CAF_CHECK(x.what == fate::unfailing);
        CAF_CHECK_EQUAL(x.row.id, 7);
      }
    }
  };
  run(20);
  CAF_CHECK_EQUAL(got.size(), 19u);
  CAF_CHECK_EQUAL(told, 1);
  CAF_CHECK_EQUAL(status_and_error(db, 7), "runnable: -");
  CAF_MESSAGE("what comes is picked meanwhile");
  insert(5);
  run(4);
  CAF_CHECK_EQUAL(got.size(), 24u);
  CAF_MESSAGE("after the repair it is picked, too");
  db.rows("alter table gen_durable drop constraint no_poison");
  now += 60s;
  run(4);
  CAF_CHECK_EQUAL(got.size(), 25u);
}

CAF_TEST(what refuses each row of a queue fails none of them) {
  insert(20);
  db.rows("create function refuse() returns trigger language plpgsql as $$ "
          "begin raise exception 'none of them'; end $$; "
          "create trigger refuse before update on gen_durable for each row "
          "when (new.status = 'executing') execute function refuse()");
  auto turn = make_turn();
  std::size_t told = 0;
  for (int i = 0; i < 80; ++i) {
    now += 100ms;
    if (auto work = turn.begin(100, now)) {
      auto report = turn.finish(0, engine->run(work->work), now);
      for (const auto& x : report.unpickable)
        CAF_CHECK(x.what == fate::left_out);
      told += report.unpickable.size();
    }
  }
  CAF_CHECK_EQUAL(told, 20u);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "20");
  db.rows("drop trigger refuse on gen_durable");
  now += 60s;
  ids got;
  for (int i = 0; i < 5; ++i) {
    now += 1s;
    for (const auto& x : once(turn, 100).picked)
      got.push_back(x.id);
  }
  CAF_CHECK_EQUAL(got.size(), 20u);
}

CAF_TEST(what is behind rows that can be neither picked nor failed is picked
           with one slot) {
  insert(20);
  db.rows("update gen_durable set step = 'poison' where id in (1, 2); "
          "alter table gen_durable add constraint no_poison "
          "check (step <> 'poison') not valid");
  auto turn = make_turn();
  std::set<std::int64_t> got;
  std::size_t told = 0;
  for (int i = 0; i < 60; ++i) {
    now += 500ms;
    auto work = turn.begin(1, now);
    if (!work)
      continue;
    auto report = turn.finish(0, engine->run(work->work), now);
    for (const auto& x : report.picked)
      got.insert(x.id);
    told += report.unpickable.size();
  }
  CAF_CHECK_EQUAL(got.size(), 18u);
  CAF_CHECK_EQUAL(told, 2u);
}

CAF_TEST(a poisoned row behind rows that a stranger holds is found) {
  db.rows("create function refuse() returns trigger language plpgsql as $$ "
          "begin if new.status = 'executing' then raise exception 'not this "
          "one'; end if; return new; end $$; create trigger refuse before "
          "update on gen_durable for each row when (new.step = 'poison') "
          "execute function refuse()");
  for (bool keyed : {false, true})
    for (const auto* machines : {"fsm", "'A'"})
      for (int held : {20, 300}) {
        CAF_MESSAGE((keyed ? "with keys, " : "") << machines << ", " << held);
        db.rows("truncate gen_durable restart identity cascade");
        insert(held + 30, keyed ? "'key ' || n" : "null");
        auto poison = std::to_string(held + 5);
        db.rows("update gen_durable set fsm = "s + machines
                + ", step = case when id = " + poison
                + " then 'poison' else step end");
        session stranger{db.conninfo()};
        stranger.exec("begin; select from gen_durable order by id limit "
                      + std::to_string(held) + " for update");
        auto turn = make_turn();
        std::size_t got = 0;
        std::size_t told = 0;
        for (int i = 0; i < 200 && got + told < 30; ++i) {
          now += 100ms;
          auto work = turn.begin(10, now);
          if (!work)
            continue;
          auto report = turn.finish(0, engine->run(work->work), now);
          got += report.picked.size();
          told += report.unpickable.size();
        }
        CAF_CHECK_EQUAL(got, 29u);
        CAF_CHECK_EQUAL(status_and_error(db, held + 5),
                        "failed: its row cannot be picked: not this one");
      }
}

CAF_TEST(
  a poisoned row that is alone fails as soon as it is known to be guilty) {
  db.rows("create function refuse() returns trigger language plpgsql as $$ "
          "begin if new.status = 'executing' then raise exception using "
          "errcode = new.state ->> 'code', message = 'not this one'; end if; "
          "return new; end $$; create trigger refuse before update on "
          "gen_durable for each row when (new.step = 'poison') execute "
          "function refuse()");
  auto turn = make_turn();
  auto insert_poison = [this](const std::string& code) {
    db.rows("insert into gen_durable (fsm, step, state) values ('A', 'poison', "
            "jsonb_build_object('code', $1::text))",
            {code});
  };
  auto run = [&] {
    std::vector<gd::pick_bisection::accused> told;
    for (int i = 0; i < 10; ++i) {
      now += 500ms;
      if (auto work = turn.begin(10, now)) {
        auto report = turn.finish(0, engine->run(work->work), now);
        told.insert(told.end(), report.unpickable.begin(),
                    report.unpickable.end());
      }
    }
    return told;
  };
  CAF_MESSAGE("at once, if it is too much for the server");
  insert_poison("54000");
  auto told = run();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(told.front().what == fate::failed);
  CAF_CHECK_EQUAL(status_and_error(db, 1),
                  "failed: its row cannot be picked: not this one");
  CAF_MESSAGE("not for what may refuse all rows");
  insert_poison("P0001");
  told = run();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(told.front().what == fate::left_out);
  now += 1min;
  told = run();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(told.front().what == fate::left_out);
  CAF_MESSAGE("but when another was picked meanwhile");
  insert(1);
  CAF_CHECK(run().empty());
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  now += 1min;
  told = run();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(told.front().what == fate::failed);
}

namespace {

/// Drives a turn as a picker does, with eight slots and steps that end at once: looks
/// again at once as long as there may be more, else once a second. A transaction takes
/// a millisecond.
struct driver {
  fixture& with;
  gd::turn turn = with.make_turn();
  std::set<std::int64_t> got{};
  std::vector<gd::pick_bisection::accused> told{};
  int transactions = 0;
  bool look = true;
  clock_type::time_point poll_at = with.now;

  /// Until so many rows are picked, at the most for so long; returns for how long.
  clock_type::duration run(std::size_t goal, clock_type::duration most) {
    auto began = with.now;
    while (got.size() < goal && with.now < began + most) {
      if (with.now >= poll_at) {
        look = true;
        turn.scan_everything();
        poll_at = with.now + 1s;
      }
      auto work = turn.begin(look ? 8 : 0, with.now);
      if (!work) {
        with.now = poll_at;
        continue;
      }
      if (work->picks)
        look = false;
      ++transactions;
      with.now += 1ms;
      auto report = turn.finish(0, with.engine->run(work->work), with.now);
      look = look || report.full;
      for (const auto& x : report.picked)
        got.insert(x.id);
      told.insert(told.end(), report.unpickable.begin(),
                  report.unpickable.end());
    }
    return with.now - began;
  }
};

} // namespace

CAF_TEST(
  hundreds of rows that refuse each update do not stop what is behind them) {
  for (bool keyed : {false, true}) {
    CAF_MESSAGE((keyed ? "a constraint, with keys" : "a trigger"));
    db.rows("drop function if exists refuse cascade; truncate gen_durable "
            "restart identity cascade");
    insert(600, keyed ? "'key ' || n" : "null");
    insert(200);
    db.rows("update gen_durable set step = 'poison' where id <= 600");
    // Half of the others are as urgent, and half are less.
    db.rows("update gen_durable set priority = 1 where id > 700");
    db.rows(keyed ? "alter table gen_durable add constraint no_poison check "
                    "(step <> 'poison') not valid"
                  : "create function refuse() returns trigger language plpgsql "
                    "as $$ begin raise exception 'no'; end $$; create trigger "
                    "refuse before update on gen_durable for each row when "
                    "(old.step = 'poison') execute function refuse()");
    driver x{*this};
    CAF_CHECK(x.run(200, 60s) < 5s);
    CAF_CHECK_EQUAL(x.got.size(), 200u);
    CAF_MESSAGE("each of them is told once, and none is failed");
    std::set<std::int64_t> told;
    for (const auto& one : x.told)
      told.insert(one.row.id);
    CAF_CHECK_EQUAL(x.told.size(), told.size());
    CAF_CHECK(told.empty() || *told.rbegin() <= 600);
    CAF_CHECK_EQUAL(count("status = 'runnable'"), "600");
    CAF_MESSAGE("and what comes does not wait, also when they are tried again");
    for (std::size_t i = 1; i <= 5; ++i) {
      x.run(1'000, 26s);
      insert(1);
      CAF_CHECK(x.run(200 + i, 60s) < 1'500ms);
      CAF_CHECK_EQUAL(x.got.size(), 200 + i);
    }
    CAF_MESSAGE("after the repair they are picked");
    db.rows(keyed ? "alter table gen_durable drop constraint no_poison"
                  : "drop function refuse cascade");
    CAF_CHECK(x.run(805, 600s) < 70s);
    CAF_CHECK_EQUAL(x.got.size(), 805u);
  }
}

CAF_TEST(
  rows whose updates a trigger drops without a word are told and left out) {
  for (bool keyed : {false, true}) {
    CAF_MESSAGE((keyed ? "with keys" : "without keys"));
    db.rows("drop function if exists drop_it cascade; truncate gen_durable "
            "restart identity cascade");
    insert(300, keyed ? "'key ' || n" : "null");
    insert(100);
    db.rows("update gen_durable set step = 'poison' where id <= 300 and id % "
            "10 > 0; create function drop_it() returns trigger language "
            "plpgsql as $$ begin return null; end $$; create trigger drop_it "
            "before update on gen_durable for each row when (old.step = "
            "'poison') execute function drop_it()");
    driver x{*this};
    CAF_CHECK(x.run(130, 60s) < 5s);
    CAF_CHECK_EQUAL(x.got.size(), 130u);
    std::set<std::int64_t> told;
    for (const auto& one : x.told) {
      told.insert(one.row.id);
      CAF_CHECK(one.what != gd::events::row_unusable::fate::failed);
      CAF_CHECK_EQUAL(one.why.message,
                      "an update of it does nothing: a trigger lets none "
                      "through");
    }
    CAF_CHECK(told.empty() || *told.rbegin() <= 300);
    CAF_CHECK_EQUAL(count("status = 'runnable'"), "270");
    CAF_MESSAGE("not in a loop");
    x.run(1'000, 5s);
    x.transactions = 0;
    x.run(1'000, 20s);
    CAF_CHECK_LESS_OR_EQUAL(x.transactions, 20 * 5);
    CAF_MESSAGE("after the repair they are picked");
    db.rows("drop function drop_it cascade");
    CAF_CHECK(x.run(400, 600s) < 70s);
    CAF_CHECK_EQUAL(x.got.size(), 400u);
  }
}

CAF_TEST(a queue that refuses each update is not tried in a loop) {
  insert(100);
  db.rows("alter table gen_durable add constraint never "
          "check (step <> 'collect') not valid");
  driver x{*this};
  x.run(1, 2s);
  CAF_CHECK_EQUAL(x.told.size(), 100u);
  x.transactions = 0;
  x.run(1, 50s);
  CAF_CHECK_EQUAL(x.told.size(), 100u);
  CAF_CHECK_LESS_OR_EQUAL(x.transactions, 50 * 4);
}

CAF_TEST(what refuses its update again is left out for longer) {
  insert(40);
  db.rows("update gen_durable set step = 'poison' where id <= 20; "
          "alter table gen_durable add constraint no_poison "
          "check (step <> 'poison') not valid");
  driver x{*this};
  auto told_in = [&](int minutes) {
    x.told.clear();
    x.run(1'000, minutes * 60s);
    return x.told.size();
  };
  CAF_CHECK_EQUAL(told_in(1), 20u);
  CAF_CHECK_EQUAL(x.got.size(), 20u);
  CAF_MESSAGE("after one minute and after two more");
  auto n = told_in(3);
  CAF_CHECK_GREATER_OR_EQUAL(n, 20u);
  CAF_CHECK_LESS_OR_EQUAL(n, 45u);
  CAF_MESSAGE("and at last each ten, but for some that tell when it has gone");
  told_in(11);
  n = told_in(10);
  CAF_CHECK_GREATER_OR_EQUAL(n, 20u);
  CAF_CHECK_LESS_OR_EQUAL(n, 60u);
  db.rows("alter table gen_durable drop constraint no_poison");
  CAF_CHECK(x.run(40, 600s) < 70s);
  CAF_CHECK_EQUAL(x.got.size(), 40u);
}

CAF_TEST(a pick that fails for no row of its own is tried again after a while) {
  insert(3);
  auto turn = make_turn();
  db.rows("alter table gen_durable rename column attempt to tries");
  auto report = once(turn, 10);
  CAF_REQUIRE(report.failure);
  CAF_CHECK(!turn.begin(10, now + 999ms));
  db.rows("alter table gen_durable rename column tries to attempt");
  now += 1s;
  CAF_CHECK_EQUAL(once(turn, 10).picked.size(), 3u);
}

// -- rows that are not shown --------------------------------------------------

namespace {

/// Prints as many bytes, and is stored in a few.
std::string wide_state(int bytes) {
  return "jsonb_build_object('s', repeat('x', " + std::to_string(bytes) + "))";
}

/// 81 KB, and 1.2 GB of text: what no text of PostgreSQL can be. From before the
/// database checked, or of somebody who says that he has.
constexpr auto unprintable
  = "('{\"n\": [' || (select string_agg('1e131071', ',') from "
    "generate_series(1, 9000)) || ']}')::jsonb";

} // namespace

CAF_TEST(long states are shown until there is no more room) {
  db.rows("insert into gen_durable (fsm, step, state) select 'A', 'collect', "
          + wide_state(500'000) + " from generate_series(1, 12)");
  db.rows("insert into gen_durable (fsm, step, state) select 'A', 'collect', "
          "'{\"n\": 1}' from generate_series(1, 3)");
  auto turn = make_turn();
  auto report = once(turn, 100);
  CAF_REQUIRE_EQUAL(report.picked.size(), 15u);
  std::size_t unloaded = 0;
  for (const auto& x : report.picked) {
    unloaded += !x.shown;
    CAF_CHECK_EQUAL(x.state.empty(), !x.shown);
    if (!x.shown)
      turn.show({x.id, report.token});
  }
  CAF_CHECK_EQUAL(unloaded, 12u);
  CAF_CHECK(!turn.begin(0, now)); // no room
  report = once(turn, 0, 1'200'000);
  CAF_CHECK_EQUAL(report.shown_rows.size(), 3u);
  CAF_CHECK_EQUAL(report.still_unloaded.size(), 9u);
  for (const auto& x : report.shown_rows) {
    CAF_REQUIRE(x.content);
    CAF_CHECK_EQUAL(x.content->state->size(), 500'009u);
  }
  CAF_MESSAGE("one at least, whatever the room");
  turn.show(report.still_unloaded.front());
  CAF_CHECK_EQUAL(once(turn, 0, 1).shown_rows.size(), 1u);
  CAF_MESSAGE("and not one whose lease is somebody else's");
  db.rows("update gen_durable set locked_by = 'other/1/1'");
  turn.show(report.still_unloaded.back());
  report = once(turn, 0, 1);
  CAF_REQUIRE_EQUAL(report.shown_rows.size(), 1u);
  CAF_CHECK(!report.shown_rows.front().content);
  CAF_CHECK(!report.shown_rows.front().why);
}

CAF_TEST(of an inbox the oldest 8 MiB and one more are printed and no more) {
  db.rows("insert into gen_durable (fsm, step) select 'A', 'collect' from "
          "generate_series(1, 2)");
  db.rows("insert into gen_durable_signals (target_id, name, payload) select "
          "1, 'x' || n, "
          + wide_state(1'000'000) + " from generate_series(1, 9) n");
  // Whoever prints what is behind them fails.
  db.rows("set gd.trusted = 'json'; insert into gen_durable_signals "
          "(target_id, name, "
          "payload) select 1, 'hostile', "s
          + unprintable);
  db.rows(
    "insert into gen_durable_signals (target_id, name, payload) select 2, 'y', "
    "'{\"a\": 1}' from generate_series(1, 5) n");
  auto turn = make_turn();
  auto report = once(turn, 10);
  CAF_REQUIRE_EQUAL(report.picked.size(), 2u);
  CAF_CHECK(!report.picked[0].shown);
  CAF_CHECK(report.picked[1].shown);
  CAF_CHECK_EQUAL(report.picked[1].inbox.size(), 5u);
  turn.show({1, report.token});
  report = once(turn, 0, 1);
  CAF_REQUIRE_EQUAL(report.shown_rows.size(), 1u);
  CAF_REQUIRE(report.shown_rows.front().content);
  const auto& inbox = report.shown_rows.front().content->inbox;
  CAF_REQUIRE_EQUAL(inbox.size(), 9u);
  for (std::size_t i = 0; i < inbox.size(); ++i) {
    CAF_CHECK_EQUAL(inbox[i].name, "x" + std::to_string(i + 1));
    CAF_CHECK_EQUAL(inbox[i].payload.size(), 1'000'009u);
  }
}

CAF_TEST(a row whose short state
         or payload prints many bytes is not shown by a pick) {
  // As many as fit where a state is short. The first is from before the database
  // checked; the second nobody refuses.
  for (const auto* number : {"1e131071", "1e399"}) {
    CAF_MESSAGE(number);
    db.rows("truncate gen_durable restart identity cascade");
    auto many = "(select jsonb_build_object('n', jsonb_agg('"s + number
                + "'::numeric)) from generate_series(1, 120))";
    db.rows(
      "set gd.trusted = 'json'; insert into gen_durable (fsm, step, "
      "state) select 'A', 'collect', case n when 1 then "
      + many
      + " else '{}' end from generate_series(1, 4) n; insert into "
        "gen_durable_signals (target_id, name, payload) select 2, 'x', "
      + many
      + "; insert into gen_durable_signals (target_id, name, payload) values "
        "(1, 'x', '1'), (3, 'x', '1')");
    CAF_CHECK_EQUAL(db.scalar("select bool_and(pg_column_size(state) <= 2000) "
                              "from gen_durable"),
                    "t");
    auto turn = make_turn();
    auto report = once(turn, 10);
    CAF_REQUIRE_EQUAL(report.picked.size(), 4u);
    std::size_t bytes = 0;
    for (const auto& x : report.picked) {
      // Behind what nobody has checked, nothing is printed.
      CAF_CHECK_EQUAL(x.shown, x.id > (number == "1e399"s ? 2 : 3));
      bytes += x.bytes();
    }
    CAF_CHECK_LESS(bytes, 100u);
    turn.show({1, report.token});
    turn.show({2, report.token});
    report = once(turn, 0, 100 << 20);
    CAF_REQUIRE_EQUAL(report.shown_rows.size(), 2u);
    CAF_REQUIRE(report.shown_rows[0].content);
    CAF_REQUIRE(report.shown_rows[1].content);
    CAF_REQUIRE_EQUAL(report.shown_rows[1].content->inbox.size(), 1u);
    auto state = report.shown_rows[0].content->state->size();
    auto payload = report.shown_rows[1].content->inbox.front().payload.size();
    if (number == "1e399"s) {
      CAF_CHECK_GREATER(state, 48'000u);
      CAF_CHECK_GREATER(payload, 48'000u);
    } else {
      CAF_CHECK_EQUAL(state, 0u);
      CAF_CHECK_EQUAL(payload, 0u);
    }
  }
}

CAF_TEST(a state that is stored short and prints long is failed unprinted) {
  // In 2,000 bytes: what may be, and what nobody has checked.
  auto row = [this](int n, const std::string& number) {
    db.rows("set gd.trusted = 'json'; insert into gen_durable (fsm, step, "
            "state) select 'A', 'collect', jsonb_build_object('n', "
            "jsonb_agg(('"
            + number + "')::numeric)) from generate_series(1, "
            + std::to_string(n) + ")");
  };
  row(100, "1e399");
  row(100, "0." + std::string(399, '0') + "1");
  row(100, "1e131071");
  row(100, "0." + std::string(16'000, '0') + "1");
  row(1, "1");
  CAF_CHECK_EQUAL(db.scalar("select bool_and(pg_column_size(state) <= 2000 "
                            "and pg_column_compression(state) is null) from "
                            "gen_durable"),
                  "t");
  auto turn = make_turn();
  auto report = once(turn, 10);
  CAF_REQUIRE_EQUAL(report.picked.size(), 5u);
  for (const auto& x : report.picked) {
    CAF_CHECK(!x.shown); // the last one stands behind some that print so much
    turn.show({x.id, report.token});
  }
  report = once(turn, 0, 1 << 20);
  CAF_REQUIRE_EQUAL(report.shown_rows.size(), 5u);
  for (const auto& x : report.shown_rows) {
    CAF_REQUIRE(x.content);
    auto size = x.content->state->size();
    if (x.which.id <= 2)
      CAF_CHECK_GREATER(size, 40'000u);
    else
      CAF_CHECK_EQUAL(size, x.which.id == 5 ? 10u : 0u);
  }
  CAF_MESSAGE("nor is anything of it sent if it is stored in less");
  row(127, "1e131071");
  report = once(turn, 10);
  turn.show({6, report.token});
  report = once(turn, 0, 1 << 20);
  CAF_REQUIRE_EQUAL(report.shown_rows.size(), 1u);
  CAF_CHECK_EQUAL(report.shown_rows.front().content->state->size(), 0u);
  CAF_MESSAGE("the next pick prints again");
  row(1, "1");
  report = once(turn, 10);
  CAF_REQUIRE_EQUAL(report.picked.size(), 1u);
  CAF_CHECK(report.picked.front().shown);
}

CAF_TEST(names of steps and of signals and scopes of any length are cut
           as they are read) {
  // Longer than any of ours, and short on the disk.
  db.rows(
    "insert into gen_durable (fsm, step, queue, unique_key, unique_scope) "
    "select 'A', case n when 1 then repeat('x', 5000000) else "
    "repeat('s', 255) end, 'default', case when n > 2 then "
    "n::text::bytea end, case n when 3 then array_fill("
    "'done'::gen_durable_status, array[300000]) when 4 then "
    "'{done,failed}' else '{}' end from generate_series(1, 4) n; insert "
    "into gen_durable_signals (target_id, name) select 2, repeat('y', 100000) "
    "|| n "
    "from generate_series(1, 300) n; insert into gen_durable_signals "
    "(target_id, "
    "name) values (4, repeat('z', 255))");
  auto turn = make_turn();
  auto report = once(turn, 10);
  CAF_REQUIRE_EQUAL(report.picked.size(), 4u);
  const auto& rows = report.picked;
  CAF_CHECK_EQUAL(rows[0].step, std::string(1'025, 'x'));
  CAF_CHECK_EQUAL(rows[3].step, std::string(255, 's'));
  CAF_CHECK(!rows[1].shown);
  using scope = std::vector<std::string>;
  CAF_CHECK_EQUAL(rows[1].unique_scope, scope{});
  CAF_CHECK_EQUAL(rows[2].unique_scope,
                  (scope{"runnable", "awaiting_signal", "done", "failed"}));
  CAF_CHECK_EQUAL(rows[3].unique_scope, (scope{"done", "failed"}));
  CAF_REQUIRE_EQUAL(rows[3].inbox.size(), 1u);
  CAF_CHECK_EQUAL(rows[3].inbox.front().name, std::string(255, 'z'));
  turn.show({2, report.token});
  report = once(turn, 0, 1);
  CAF_REQUIRE_EQUAL(report.shown_rows.size(), 1u);
  CAF_REQUIRE(report.shown_rows.front().content);
  const auto& inbox = report.shown_rows.front().content->inbox;
  CAF_CHECK_EQUAL(inbox.size(), 300u);
  for (const auto& x : inbox)
    CAF_CHECK_EQUAL(x.name, std::string(1'025, 'y'));
  CAF_MESSAGE("and so are the others that tell of rows");
  auto run = [this](pq::call what) {
    auto reply = engine->run({{std::move(what)}, false});
    CAF_REQUIRE(reply.ok());
    return std::move(reply.results.front());
  };
  db.rows(
    "alter table gen_durable disable trigger all; update gen_durable "
    "set status = 'done', queue = repeat('q', 5000000), fsm = "
    "repeat('f', 5000000), awaits = step, awaits_also = "
    "array_fill(left(step, 9000), array[2, 10]), last_error = repeat('e', "
    "20000000), locked_by = step, partition_key = step, unique_key = "
    "step::bytea where id = 1");
  auto found = store::read_instance(run(store::look_up({.id = 1})));
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->step.size(), 1'025u);
  CAF_CHECK_EQUAL(found->fsm.size(), 1'025u);
  CAF_CHECK_EQUAL(found->queue.size(), 1'025u);
  CAF_CHECK_EQUAL(found->awaits->size(), 1'025u);
  CAF_CHECK(found->awaits_also
            == std::vector<std::string>(16, std::string(1'025, 'x')));
  CAF_CHECK_EQUAL(found->locked_by->size(), 2'048u);
  CAF_CHECK_EQUAL(found->partition_key->size(), 4'096u);
  CAF_CHECK_EQUAL(found->unique_key->size(), 4'096u);
  CAF_CHECK_EQUAL(found->last_error->size(), 16u << 20);
  for (const auto& x : store::read<gd::stats_row>(run(store::stats()))) {
    CAF_CHECK_LESS_OR_EQUAL(x.queue.size(), 1'025u);
    CAF_CHECK_LESS_OR_EQUAL(x.fsm.size(), 1'025u);
  }
  // What wakes it may tell its queue, for each signal.
  db.rows(
    "update gen_durable set status = 'awaiting_signal', awaits = 'go', fsm "
    "= 'A', queue = repeat('q', 100000), partition_key = repeat('p', "
    "100000), unique_key = null where id = 1");
  gd::signal go{1, "go", gd::json::raw("1"), {}};
  auto reply = engine->run(
    {{store::lock_targets({go}), store::send_signals({go}, 10)}, true});
  CAF_REQUIRE(reply.ok());
  auto answers = store::read<store::signal_row>(reply.results.back());
  CAF_REQUIRE_EQUAL(answers.size(), 1u);
  CAF_CHECK_EQUAL(answers[0].woken_queue.size(), 1'025u);
  db.rows("alter table gen_durable enable trigger all; update gen_durable set "
          "status = 'executing', locked_by = 'n/1/1', "
          "lease_expires_at = now() - interval '1 s' where id = 1");
  auto reaped = store::read<store::reaped_row>(run(store::reap(10)));
  CAF_REQUIRE_EQUAL(reaped.size(), 1u);
  CAF_CHECK_EQUAL(reaped[0].queue.size(), 1'025u);
  CAF_CHECK_LESS_OR_EQUAL(reaped[0].partition_key->size(), 4'096u);
  CAF_CHECK_LESS_OR_EQUAL(reaped[0].token.size(), 2'048u);
}

CAF_TEST(a pick reads no more than some signals of its rows) {
  db.rows("insert into gen_durable (fsm, step) select 'A', 'collect' from "
          "generate_series(1, 3)");
  db.rows("insert into gen_durable_signals (target_id, name, payload) select 1 "
          "+ n % 2, "
          "'x', '1' from generate_series(1, 30000) n");
  auto turn = make_turn();
  auto work = turn.begin(10, now);
  CAF_REQUIRE(work);
  constexpr sql::statement read{
    "read", "select idx_tup_fetch from pg_stat_xact_all_tables where relname = "
            "'gen_durable_signals'"};
  work->work.calls.push_back({&read, {}});
  work->work.transaction = true;
  auto reply = engine->run(work->work);
  CAF_REQUIRE(reply.ok());
  CAF_CHECK_LESS_OR_EQUAL(reply.results.back().integer(0, 0), 10'100);
  reply.results.pop_back();
  auto report = turn.finish(0, std::move(reply), now);
  CAF_REQUIRE_EQUAL(report.picked.size(), 3u);
  for (const auto& x : report.picked) {
    CAF_CHECK(!x.shown);
    turn.show({x.id, report.token});
  }
  report = once(turn, 0, 1 << 20);
  CAF_REQUIRE_EQUAL(report.shown_rows.size(), 3u);
  for (const auto& x : report.shown_rows) {
    CAF_REQUIRE(x.content);
    CAF_CHECK_EQUAL(x.content->inbox.size(), x.which.id < 3 ? 1'000u : 0u);
  }
}

CAF_TEST(rows that cannot be read are told one by one and others are shown) {
  db.rows("insert into gen_durable (fsm, step, state) select 'A', 'collect', "
          + wide_state(5'000) + " from generate_series(1, 9)");
  db.rows("set gd.trusted = 'json'; update gen_durable set state = "s
          + unprintable + " where id = 4");
  auto turn = make_turn();
  auto report = once(turn, 10);
  CAF_REQUIRE_EQUAL(report.picked.size(), 9u);
  for (const auto& x : report.picked)
    turn.show({x.id, report.token});
  ids shown;
  ids unreadable;
  for (int i = 0; i < 20 && shown.size() + unreadable.size() < 9; ++i) {
    auto work = turn.begin(0, now, 1 << 20);
    if (!work)
      continue;
    report = turn.finish(0, engine->run(work->work), now);
    for (const auto& x : report.shown_rows)
      (x.why ? unreadable : shown).push_back(x.which.id);
  }
  CAF_CHECK_EQUAL(shown.size(), 8u);
  CAF_CHECK_EQUAL(unreadable, ids{4});
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- colliders ----------------------------------------------------------------

namespace {

struct entry {
  std::int64_t id = 0;
  bool may_wait = false;
  int locked_tries = 0;
  clock_type::time_point not_before{};

  std::int64_t key() const noexcept {
    return id;
  }
  static std::size_t bytes() noexcept {
    return 1;
  }
  bool unsure() const noexcept {
    return may_wait;
  }
};

} // namespace

CAF_TEST(plain work waits for one collider at the most and has most of the time) {
  gd::batcher<entry> waiting{1'000, 1'000};
  auto now = clock_type::now();
  for (int i = 0; i < 300; ++i)
    waiting.push({.id = i, .may_wait = true});
  std::int64_t next = 1'000;
  std::chrono::milliseconds waited{0};
  std::chrono::milliseconds worked{0};
  std::size_t written = 0;
  bool was_waiting = false;
  while (written < 1'000) {
    waiting.push({.id = next++}); // there is always some
    auto group = waiting.take(now);
    CAF_REQUIRE(!group.entries.empty());
    if (group.unsure()) {
      CAF_CHECK(!was_waiting);
      was_waiting = true;
      // A stranger has the keys of all of them.
      now += 10ms;
      waited += 10ms;
      waiting.ended(group, now);
      if (auto one = waiting.split(std::move(group.entries)))
        waiting.put_locked(std::move(*one), now);
    } else {
      was_waiting = false;
      now += 1ms;
      worked += 1ms;
      waiting.ended(group, now);
      ++written;
    }
  }
  CAF_CHECK(waited.count() > 0);
  CAF_CHECK(waited <= worked / 2);
}

CAF_TEST(colliders have all of the time when there is nothing else) {
  gd::batcher<entry> waiting{1'000, 1'000};
  auto now = clock_type::now();
  for (int i = 0; i < 4; ++i)
    waiting.push({.id = i, .may_wait = true});
  int groups = 0;
  std::set<std::int64_t> alone;
  while (waiting.has_due(now)) {
    auto group = waiting.take(now);
    CAF_REQUIRE(!group.entries.empty());
    ++groups;
    now += 1ms;
    waiting.ended(group, now);
    if (auto one = waiting.split(std::move(group.entries)))
      alone.insert(one->id);
  }
  CAF_CHECK_EQUAL(groups, 7); // four, their halves, and theirs
  CAF_CHECK_EQUAL(alone.size(), 4u);
}

CAF_TEST(poison that is taken apart does not hold up what is not poisoned) {
  gd::batcher<entry> waiting{1'000, 1'000};
  auto now = clock_type::now();
  for (int i = 0; i < 64; ++i)
    waiting.push({.id = i});
  CAF_REQUIRE(!waiting.split(waiting.take(now).entries));
  bool was_half = false;
  for (int i = 0; i < 20; ++i) {
    waiting.push({.id = 100 + i});
    auto group = waiting.take(now);
    CAF_CHECK(group.half != was_half); // in turn
    was_half = group.half;
    if (was_half)
      static_cast<void>(waiting.split(std::move(group.entries)));
  }
}

} // namespace strangers_suite
