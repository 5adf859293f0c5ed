#define CAF_SUITE unique

// Unique keys (spec section 8): inserts, and rows that return into a status in
// which another has their key.

#include <gd/client.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/store.hpp>

#include <support/opened.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace unique_suite {

using namespace std::literals;

namespace {

namespace store = gd::store;

using gd::test::session;
using store::write_kind;
using verdict = gd::turn::flushed::verdict;
using scope = std::vector<std::string>;

gd::insert order(std::optional<std::string> key, scope in = {}) {
  return {.fsm = "Order",
          .step = "collect",
          .queue = "default",
          .unique_key = std::move(key),
          .unique_scope = std::move(in)};
}

/// Whether the server refuses what `f` does.
template <class F>
bool refused_by_server(F f) {
  try {
    f();
    return false;
  } catch (const gd::test::sql_error&) {
    return true;
  }
}

struct fixture : gd::test::engine_database {
  gd::turn work{{.queue = "default",
                 .incarnation = "node/1",
                 .machines = {{"Order", 1}},
                 .lease = 60s}};
  gd::turn::clock::time_point now = gd::turn::clock::now();

  std::int64_t row(const std::string& status, const std::string& key,
                   const std::string& in, const std::string& more = "null") {
    return std::stoll(db.scalar(
      "insert into gen_durable (fsm, step, status, unique_key, unique_scope, "
      "locked_by, lease_expires_at, awaits, deadline) values ('Order', "
      "'collect', $1::gen_durable_status, $2::bytea, $3::gen_durable_status[], "
      "case "
      "when $1 = 'executing' then 'node/1/1' end, case when $1 = 'executing' "
      "then now() + interval '1 minute' end, case when $1 = 'awaiting_signal' "
      "then 'paid' end, "
        + more + ") returning id",
      {status, key, in}));
  }

  static store::outcome_row outcome(std::int64_t id, write_kind what,
                                    bool may_collide) {
    store::outcome_row x;
    x.id = id;
    x.token = "node/1/1";
    x.what = what;
    x.step = "ship";
    x.state = "{}";
    x.result = "{}";
    x.awaits = "paid";
    x.reason = "because";
    x.may_collide = may_collide;
    return x;
  }

  /// Runs turns until `count` rows have a verdict.
  std::vector<gd::turn::flushed> flush(std::size_t count) {
    std::vector<gd::turn::flushed> rows;
    for (int i = 0; i < 1'000 && rows.size() < count; ++i) {
      if (auto unit = work.begin(0, now)) {
        auto report = work.finish(0, engine->run(unit->work), now);
        CAF_CHECK(!report.failure);
        for (auto& x : report.rows)
          rows.push_back(std::move(x));
      }
      now += 5ms;
    }
    return rows;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(unique_tests, fixture)

// -- inserts ------------------------------------------------------------------

CAF_TEST(every row of a batch is answered in its place) {
  auto client = this->client();
  auto first = client.insert(order("a"));
  CAF_REQUIRE(first);
  std::vector<gd::insert> rows{
    order("b"), order(std::nullopt),      order("a"),
    order("b"), order("c", {"sleeping"}), order("d")};
  auto answers = client.insert_all(rows);
  CAF_REQUIRE_EQUAL(answers.size(), 6u);
  CAF_REQUIRE(answers[0] && answers[1] && answers[2] && answers[3]
              && answers[5]);
  CAF_CHECK(!answers[1]->duplicate);
  CAF_CHECK(answers[2]->duplicate);
  CAF_CHECK_EQUAL(answers[2]->id, first->id);
  CAF_MESSAGE("within the batch one of two with the same key is made");
  CAF_CHECK_NOT_EQUAL(answers[0]->duplicate, answers[3]->duplicate);
  CAF_CHECK_EQUAL(answers[0]->id, answers[3]->id);
  CAF_CHECK(!answers[5]->duplicate);
  CAF_REQUIRE(!answers[4]);
  CAF_CHECK_EQUAL(answers[4].error().message,
                  "unique_scope: expected some of "
                  "runnable|executing|awaiting_signal|done|failed, got "
                  "sleeping");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "4");
}

CAF_TEST(a key is taken in the statuses of its scope and free in the others) {
  auto client = this->client();
  for (const auto* status :
       {"runnable", "executing", "awaiting_signal", "done", "failed"}) {
    for (const auto& in : {scope{}, scope{"runnable"}, scope{"done", "failed"},
                           scope{"runnable", "executing"}}) {
      db.rows("truncate gen_durable cascade");
      auto made = client.insert(order("k", in));
      CAF_REQUIRE(made);
      db.rows(
        "update gen_durable set status = $1::gen_durable_status, locked_by "
        "= 'node/1/1', lease_expires_at = now(), awaits = 'paid'",
        {status});
      auto effective = in.empty()
                         ? scope{"runnable", "executing", "awaiting_signal"}
                         : in;
      bool taken = std::count(effective.begin(), effective.end(), status) > 0;
      auto again = client.insert(order("k"));
      CAF_REQUIRE(again);
      CAF_CHECK_EQUAL(again->duplicate, taken);
      CAF_CHECK_EQUAL(again->id == made->id, taken);
    }
  }
}

CAF_TEST(whether a row holds its key says its status whoever writes it) {
  auto wrong = [&] {
    return db.scalar(
      "select count(*) from gen_durable where (unique_guard, failed_id) is "
      "distinct from (case when status = any(unique_scope) then unique_key "
      "end, case when status = 'failed' then id end)");
  };
  std::vector<std::string> scopes;
  for (const auto* x : {"", "awaiting_signal", "done", "failed"})
    for (const auto* y : {"", "runnable", "runnable,executing"})
      scopes.push_back("{" + (*x != 0 && *y != 0 ? x + ","s + y : x + ""s + y)
                       + "}");
  CAF_MESSAGE("the library, with what a step makes");
  std::size_t made = 0;
  for (const auto& in : scopes)
    for (auto what :
         {write_kind::next, write_kind::replay, write_kind::await,
          write_kind::done, write_kind::stop, write_kind::release}) {
      auto id = row("executing", "key " + std::to_string(++made), in);
      work.add(std::make_unique<store::outcome_row>(outcome(id, what, true)));
    }
  CAF_CHECK_EQUAL(flush(made).size(), made);
  CAF_CHECK_EQUAL(wrong(), "0");
  CAF_MESSAGE("and with what is done about it from outside");
  db.rows("select gd_stop(target => id) from gen_durable where status <> "
          "'done' and status <> 'failed'");
  CAF_CHECK_EQUAL(wrong(), "0");
  CAF_CHECK_EQUAL(db.scalar("select count(failed_id) > 0 from gen_durable"),
                  "t");
  db.rows("select gd_retry(target => id) from gen_durable where status = "
          "'failed'");
  CAF_CHECK_EQUAL(wrong(), "0");
  CAF_MESSAGE("somebody's own SQL");
  for (const auto* status :
       {"failed", "done", "runnable", "awaiting_signal", "executing"}) {
    db.rows("update gen_durable set status = $1::gen_durable_status, awaits = "
            "'paid', locked_by = 'x', lease_expires_at = now()",
            {status});
    CAF_CHECK_EQUAL(wrong(), "0");
  }
  db.rows("update gen_durable set unique_key = convert_to('other ' || id, "
          "'UTF8'), unique_scope = '{executing,runnable}'");
  CAF_CHECK_EQUAL(wrong(), "0");
  db.rows("update gen_durable set unique_guard = null, failed_id = 7");
  CAF_CHECK_EQUAL(wrong(), "0");
  auto key = db.scalar("select unique_key from gen_durable limit 1");
  CAF_CHECK(refused_by_server([&] { row("runnable", key, "{runnable}"); }));
}

CAF_TEST(a key that a row holds against its status is found and mended) {
  auto first = row("runnable", "k", "{runnable}");
  auto third = row("failed", "other", "{runnable}");
  db.rows("alter table gen_durable disable trigger gen_durable_changed");
  auto second = row("done", "k", "{runnable,done}");
  db.rows("update gen_durable set unique_guard = null, failed_id = null");
  auto told = [&](const std::string& f) {
    return db.scalar("select string_agg(x, '|') from " + f + "() f (x)");
  };
  CAF_CHECK_EQUAL(told("_gd_list_faults"),
                  "gen_durable: 3 instances have another unique_guard or "
                  "failed_id than their status says, among them "
                    + std::to_string(first));
  CAF_CHECK_EQUAL(told("_gd_list_again"),
                  "gen_durable: the unique key of instance "
                    + std::to_string(second)
                    + " is another's: it stays as it is|gen_durable: "
                      "unique_guard and failed_id of 2 rows were written");
  CAF_CHECK_EQUAL(db.scalar("select failed_id from gen_durable where id = $1",
                            {std::to_string(third)}),
                  std::to_string(third));
  CAF_CHECK_EQUAL(db.scalar("select id from gen_durable where unique_guard = "
                            "'k'"),
                  std::to_string(first));
}

CAF_TEST(a key is any bytes and its scope lets in what can run) {
  auto client = this->client();
  auto key = "\0\xff\x80 any"s;
  CAF_REQUIRE(client.insert(order(key)));
  CAF_CHECK(client.insert(order(key))->duplicate);
  CAF_CHECK_EQUAL(
    db.scalar("select encode(unique_key, 'hex') from gen_durable"),
    "00ff8020616e79");
  auto refused = [&](gd::insert what) {
    auto answer = client.insert(std::move(what));
    return answer ? "accepted"s : answer.error().message;
  };
  CAF_CHECK_EQUAL(refused(order("")),
                  "unique_key: expected 1 to 1024 bytes, got 0");
  CAF_CHECK_EQUAL(refused(order(std::string(1025, 'x'))),
                  "unique_key: expected 1 to 1024 bytes, got 1025");
  CAF_CHECK_EQUAL(refused(order(std::nullopt, {"done"})),
                  "unique_scope: expected a unique_key beside it");
  CAF_CHECK_EQUAL(refused(order("x", {"executing"})),
                  "unique_scope: expected runnable beside executing: what has "
                  "been let in must be able to run");
  auto keyed = order("x", {"runnable"});
  keyed.partition_key = "p";
  CAF_CHECK_EQUAL(
    refused(keyed),
    "unique_scope: expected executing beside runnable where there "
    "is a partition_key");
  CAF_MESSAGE("nor does the table let such a row in");
  CAF_CHECK(refused_by_server([&] { row("runnable", "y", "{executing}"); }));
  row("runnable", "y", "{runnable}");
  CAF_CHECK(refused_by_server(
    [&] { db.rows("update gen_durable set partition_key = 'p'"); }));
}

CAF_TEST(two nodes insert the same new keys in opposite order) {
  constexpr int count = 1'000;
  std::vector<gd::insert> forward;
  for (int i = 0; i < count; ++i)
    forward.push_back(order("key " + std::to_string(i)));
  std::vector<gd::insert> backward{forward.rbegin(), forward.rend()};
  auto one = client();
  auto other = client();
  auto answers = std::async(std::launch::async,
                            [&] { return one.insert_all(forward); });
  auto others = other.insert_all(backward);
  auto firsts = answers.get();
  int made = 0;
  for (int i = 0; i < count; ++i) {
    auto& a = firsts[static_cast<std::size_t>(i)];
    auto& b = others[static_cast<std::size_t>(count - 1 - i)];
    CAF_REQUIRE(a);
    CAF_REQUIRE(b);
    CAF_CHECK_EQUAL(a->id, b->id);
    made += (a->duplicate ? 0 : 1) + (b->duplicate ? 0 : 1);
  }
  CAF_CHECK_EQUAL(made, count);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"),
                  std::to_string(count));
}

CAF_TEST(naive batches in opposite order deadlock) {
  session a{db.conninfo()};
  session b{db.conninfo()};
  auto insert = [](const std::string& key) {
    return "insert into gen_durable (fsm, step, unique_key, unique_scope) "
           "values ('Order', 'collect', '"
           + key + "', '{runnable}') on conflict do nothing";
  };
  a.exec("begin");
  b.exec("begin");
  a.exec(insert("x"));
  b.exec(insert("y"));
  a.start(insert("y"));
  a.wait_until_blocked_by(b);
  bool first = refused_by_server([&] { b.exec(insert("x")); });
  bool second = refused_by_server([&] { a.finish(); });
  CAF_CHECK_NOT_EQUAL(first, second);
}

CAF_TEST(an uncommitted insert delays its own key alone) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("insert into gen_durable (fsm, step, unique_key, unique_scope) "
                "values ('Order', 'collect', 'held', '{runnable}')");
  gd::insert_intake intake{{}};
  for (std::uint64_t i = 0; i < 40; ++i)
    CAF_REQUIRE(intake.add(i, order(i == 17 ? "held" : std::to_string(i))));
  CAF_REQUIRE(intake.add(99, order(std::nullopt)));
  std::vector<std::uint64_t> answered;
  auto run = [&](std::size_t until) {
    for (int i = 0; i < 200 && answered.size() < until; ++i) {
      if (auto unit = intake.begin(now))
        for (auto& x : intake.finish(engine->run(*unit), now).answers) {
          CAF_CHECK(x.answer);
          answered.push_back(x.ticket);
        }
      now += 5ms;
    }
  };
  run(40); // while the stranger holds on
  CAF_CHECK_EQUAL(answered.size(), 40u);
  CAF_CHECK_EQUAL(std::count(answered.begin(), answered.end(), 17u), 0);
  stranger.exec("rollback");
  run(41);
  CAF_CHECK_EQUAL(answered.back(), 17u);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "41");
}

CAF_TEST(each unit of a plain insert waits for one of those that a stranger holds up) {
  constexpr std::uint64_t held = 300;
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("insert into gen_durable (fsm, step, unique_key, unique_scope) "
                "select 'Order', 'collect', convert_to('k' || n, 'UTF8'), "
                "'{runnable}' from generate_series(0, $1::int - 1) n",
                {std::to_string(held)});
  gd::insert_intake intake{{}};
  for (std::uint64_t i = 0; i < held; ++i)
    CAF_REQUIRE(intake.add(i, order("k" + std::to_string(i))));
  now = gd::intake_base::clock::now();
  std::uint64_t plain = held;
  std::size_t ended = 0;
  std::chrono::nanoseconds waited{0};
  auto since = now;
  // Beside them there is always a plain insert.
  auto serve_one = [&] {
    CAF_REQUIRE(intake.add(plain, order(std::nullopt)));
    bool was_waiting = false;
    int waits = 0;
    int units
      = 0; // its own: now and then its machine is looked up, or ids are drawn
    for (bool answered = false; !answered;) {
      auto unit = intake.begin(now);
      CAF_REQUIRE(unit);
      bool may_wait = unit->calls.front().what == &gd::sql::lock_timeout;
      auto began = gd::intake_base::clock::now();
      auto reply = engine->run(*unit);
      auto took = gd::intake_base::clock::now() - began;
      // However long the server takes on a busy machine for what waits for nobody.
      now += may_wait ? took : 1ms;
      CAF_CHECK(!(may_wait && was_waiting));
      was_waiting = may_wait;
      (may_wait ? waits : units) += 1;
      if (may_wait)
        waited += took;
      for (auto& x : intake.finish(std::move(reply), now).answers) {
        CAF_CHECK(x.answer);
        answered = answered || x.ticket == plain;
        ended += x.ticket < held ? 1 : 0;
      }
    }
    CAF_CHECK_LESS_OR_EQUAL(waits, units);
    CAF_CHECK_LESS_OR_EQUAL(units, 4);
    ++plain;
  };
  for (int i = 0; i < 500; ++i)
    serve_one();
  CAF_CHECK_EQUAL(ended, 0u);
  CAF_MESSAGE("they have a bounded share of the time");
  CAF_CHECK_GREATER(waited, 0ns);
  CAF_CHECK_LESS(waited, (now - since) / 2);
  stranger.exec("rollback");
  CAF_MESSAGE("and are answered when the stranger has ended");
  for (int i = 0; i < 100'000 && ended < held; ++i)
    serve_one();
  CAF_CHECK_EQUAL(ended, held);
}

CAF_TEST(a group that waits for nobody has the time that its size takes) {
  // The statement's time, in ms, beside that for a lock.
  auto time_of = [this](std::uint64_t rows, std::size_t bytes) {
    gd::insert_intake intake{{}};
    for (std::uint64_t i = 0; i < rows; ++i) {
      auto x = order("k" + std::to_string(i));
      x.state = gd::json::raw(R"({"x": ")" + std::string(bytes, 'x') + "\"}");
      CAF_REQUIRE(intake.add(i, x));
    }
    for (auto at = now;; at = intake.due(at)) {
      auto unit = intake.begin(at);
      CAF_REQUIRE(unit);
      const auto& first = unit->calls.front();
      if (first.what == &gd::sql::lock_timeout) {
        CAF_CHECK_EQUAL(first.args.values().front(), "10ms");
        return std::stoi(first.args.values().back());
      }
      intake.finish(engine->run(*unit), at);
    }
  };
  CAF_CHECK_LESS(time_of(2, 10), 110);
  CAF_CHECK_GREATER(time_of(2'000, 10), 300);
  CAF_CHECK_GREATER(time_of(2'000, 3'000), 1'000);
}

// -- rows that return ---------------------------------------------------------

CAF_TEST(naively one row that returns aborts the outcomes of all) {
  auto mine = row("executing", "k", "{runnable}");
  auto innocent = row("executing", "other", "{runnable}");
  row("runnable", "k", "{runnable}");
  CAF_CHECK(refused_by_server([&] {
    db.rows("update gen_durable set status = 'runnable', "
            "locked_by = null where id in ($1, $2)",
            {std::to_string(mine), std::to_string(innocent)});
  }));
  CAF_CHECK_EQUAL(of(innocent, "status"), "executing");
}

CAF_TEST(an outcome that collides is told the winner and hurts nobody) {
  struct sample {
    write_kind what;
    std::string status;
  };
  for (const auto& [what, status] :
       {sample{write_kind::next, "runnable"},
        sample{write_kind::replay, "runnable"},
        sample{write_kind::release, "runnable"},
        sample{write_kind::await, "awaiting_signal"},
        sample{write_kind::done, "done"},
        sample{write_kind::park, "awaiting_signal"},
        sample{write_kind::finish, "done"},
        sample{write_kind::stop, "failed"}}) {
    CAF_MESSAGE("by " << store::to_string(what));
    db.rows("truncate gen_durable cascade");
    auto in = "{" + status + "}";
    auto winner = row(status, "k", in);
    auto mine = row("executing", "k", in);
    std::vector<std::int64_t> innocent;
    for (int i = 0; i < 20; ++i) {
      innocent.push_back(row("executing", "other " + std::to_string(i), in));
      work.add(outcome(innocent.back(), what, true));
      innocent.push_back(row("executing", "none " + std::to_string(i), "{}"));
      work.add(outcome(innocent.back(), what, false));
    }
    work.add(outcome(mine, what, true));
    auto rows = flush(41);
    CAF_REQUIRE_EQUAL(rows.size(), 41u);
    for (const auto& x : rows) {
      if (x.row->id == mine) {
        CAF_CHECK(x.what == verdict::collided);
        CAF_CHECK_EQUAL(x.holder, winner);
        CAF_CHECK_EQUAL(x.why.message, "instance " + std::to_string(winner)
                                         + " has its unique key");
      } else {
        CAF_CHECK(x.what == verdict::applied);
      }
    }
    CAF_CHECK_EQUAL(of(mine, "status || ' ' || locked_by"),
                    "executing node/1/1");
    for (auto id : innocent)
      CAF_CHECK_EQUAL(of(id, "status"), status);
  }
}

CAF_TEST(an outcome waits alone for an uncommitted insert of its key) {
  auto mine = row("executing", "k", "{runnable}");
  auto same_scope = row("executing", "other", "{runnable}");
  auto innocent = row("executing", "k", "{}");
  for (bool commits : {false, true}) {
    session stranger{db.conninfo()};
    stranger.exec("begin");
    auto theirs = stranger.scalar(
      "insert into gen_durable (fsm, step, unique_key, unique_scope) values "
      "('Order', 'collect', 'k', '{runnable}') returning id");
    work.add(outcome(mine, write_kind::next, true));
    work.add(outcome(same_scope, write_kind::next, true));
    work.add(outcome(innocent, write_kind::next, false));
    auto rows = flush(2);
    CAF_REQUIRE_EQUAL(rows.size(), 2u);
    for (const auto& x : rows)
      CAF_CHECK(x.row->id != mine && x.what == verdict::applied);
    stranger.exec(commits ? "commit" : "rollback");
    rows = flush(1);
    CAF_REQUIRE_EQUAL(rows.size(), 1u);
    CAF_CHECK_EQUAL(rows.front().row->id, mine);
    CAF_CHECK(rows.front().what
              == (commits ? verdict::collided : verdict::applied));
    if (commits)
      CAF_CHECK_EQUAL(std::to_string(rows.front().holder), theirs);
    db.rows("update gen_durable set status = 'executing', locked_by = "
            "'node/1/1', lease_expires_at = now() + interval '1 minute' where "
            "id <> $1",
            {theirs});
  }
}

CAF_TEST(picks go on beside outcomes that a stranger holds up) {
  constexpr int held = 300;
  db.rows("insert into gen_durable (fsm, step, status, unique_key, "
          "unique_scope, locked_by, lease_expires_at) select 'Order', "
          "'collect', 'executing', convert_to('k' || n, 'UTF8'), '{runnable}', "
          "'node/1/1', now() + interval '1 hour' from generate_series(1, "
          "$1::int) n",
          {std::to_string(held)});
  db.rows("insert into gen_durable (fsm, step) select 'Order', 'collect' from "
          "generate_series(1, 10000)");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("insert into gen_durable (fsm, step, unique_key, unique_scope) "
                "select 'Order', 'collect', convert_to('k' || n, 'UTF8'), "
                "'{runnable}' from generate_series(1, $1::int) n",
                {std::to_string(held)});
  for (int i = 1; i <= held; ++i)
    work.add(outcome(i, write_kind::next, true));
  std::size_t ended = 0;
  std::size_t picked = 0;
  std::chrono::nanoseconds waited{0};
  bool was_waiting = false;
  auto turn = [&] {
    auto unit = work.begin(1, now);
    CAF_REQUIRE(unit);
    bool waits = unit->work.calls.front().what == &gd::sql::lock_timeout;
    CAF_CHECK(!(waits && was_waiting));
    was_waiting = waits;
    auto began = gd::turn::clock::now();
    auto reply = engine->run(unit->work);
    auto took = gd::turn::clock::now() - began;
    now += took;
    if (waits)
      waited += took;
    auto report = work.finish(0, std::move(reply), now);
    CAF_CHECK(!report.failure);
    picked += report.picked.size();
    for (const auto& x : report.rows) {
      CAF_CHECK(x.what == verdict::applied);
      ++ended;
    }
  };
  auto since = now;
  for (int i = 0; i < 1'000; ++i)
    turn();
  CAF_CHECK_EQUAL(ended, 0u);
  CAF_CHECK_GREATER(picked, 500u);
  CAF_MESSAGE("those have a bounded share of the time");
  CAF_CHECK_GREATER(waited, 0ns);
  CAF_CHECK_LESS(waited, (now - since) / 2);
  CAF_MESSAGE("and are written when the stranger has ended");
  stranger.exec("rollback");
  for (int i = 0; i < 5'000 && ended < held; ++i)
    turn();
  CAF_CHECK_EQUAL(ended, static_cast<std::size_t>(held));
}

CAF_TEST(a reap leaves what would collide and returns the others) {
  auto winner = row("runnable", "k", "{runnable}");
  auto mine = row("executing", "k", "{runnable}");
  auto innocent = row("executing", "other", "{runnable}");
  auto plain = row("executing", "k", "{}");
  auto closed = row("executing", "c", "{runnable,executing}");
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
          "where status = 'executing'");
  CAF_CHECK_EQUAL(run(store::reap(100)).size(), 2u);
  CAF_CHECK_EQUAL(of(plain, "status"), "runnable");
  CAF_CHECK_EQUAL(of(closed, "status"), "runnable");
  CAF_CHECK_EQUAL(run(store::returning(10, false)).size(), 0u);
  auto waiting = store::read_ids(run(store::returning(10, true)));
  CAF_CHECK_EQUAL(waiting.size(), 2u);
  auto returned = [&](std::int64_t id) {
    auto answer = store::read_one<store::returned_row>(
      run(store::return_row(id, true)));
    return answer && answer->runnable;
  };
  CAF_CHECK(!returned(mine));
  CAF_CHECK(returned(innocent));
  CAF_CHECK_EQUAL(of(innocent, "status::text || attempt"), "runnable1");
  CAF_CHECK_EQUAL(of(mine, "status::text || attempt"), "executing0");
  CAF_MESSAGE("its turn comes again later");
  CAF_CHECK_EQUAL(run(store::returning(10, true)).size(), 0u);
  db.rows("update gen_durable set status = 'done' where id = $1",
          {std::to_string(winner)});
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
          "where id = $1",
          {std::to_string(mine)});
  CAF_CHECK(returned(mine));
  CAF_CHECK_EQUAL(of(mine, "status::text || attempt"), "runnable1");
}

CAF_TEST(the blocked do not stand before those that can return ) {
  row("runnable", "k", "{runnable}");
  for (int i = 0; i < 30; ++i)
    row("awaiting_signal", "k", "{runnable}", "now() - interval '1 s'");
  run(store::wake_due(100));
  auto last = row("awaiting_signal", "free", "{runnable}",
                  "now() - interval '1 s'");
  run(store::wake_due(100));
  std::int64_t from = 0;
  for (int page = 0; page < 2; ++page)
    for (const auto& x : store::read<store::returning_row>(
           run(store::returning(20, true, from)))) {
      run(store::return_row(x.id, true));
      from = x.id;
    }
  CAF_CHECK_EQUAL(of(last, "status"), "runnable");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace unique_suite
