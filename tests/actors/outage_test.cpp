// What living steps survive: outages of the database, long functions, and
// strangers who hold on to what they have locked.

#define CAF_SUITE outage

#include "actors/harness.hpp"
#include "support/pooler.hpp"

#include <caf/test/unit_test.hpp>

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>
#include <semaphore>
#include <set>

namespace outage_suite {

using namespace gd::test;
using gd::errc;
namespace events = gd::events;

namespace {

/// Steps wait at a gate of their row's own.
struct gates {
  std::map<std::int64_t, std::unique_ptr<gate>> of;

  explicit gates(int rows) {
    for (int id = 1; id <= rows; ++id)
      of[id] = std::make_unique<gate>();
  }

  probe machine() {
    probe x;
    x.first = [this](probe_context& ctx) -> gd::outcome {
      of.at(ctx.id)->pass();
      return gd::done();
    };
    return x;
  }

  void open_all() {
    for (auto& [id, one] : of)
      one->open();
  }

  ~gates() {
    open_all();
  }
};

struct fixture : engine_fixture {
  session outside{server()};

  /// To the server, but to none of its databases that a test has shut.
  std::string server() const {
    return db.conninfo() + " dbname=postgres";
  }

  ~fixture() {
    allow_connections(true);
  }

  /// Leases end when a test says so. Between a reconnect and the first row that is
  /// reaped there are seconds, within which the beat that waits for the connection is
  /// sent: no stall of the machine is taken for a death.
  gd::config slow_beats(std::vector<gd::machine> machines,
                        std::string node = "a") {
    auto x = options(std::move(machines), std::move(node));
    x.heartbeat = beat;
    return x;
  }

  static constexpr auto beat = 4s;

  void allow_connections(bool yes) {
    outside.exec("alter database " + quoted_name(db.name())
                 + " allow_connections " + (yes ? "true" : "false"));
  }

  /// No connection to the database, until `heal`.
  void cut() {
    allow_connections(false);
    outside.exec("select pg_terminate_backend(pid, 10000) from "
                 "pg_stat_activity where application_name like 'gen_durable%' "
                 "and datname = $1",
                 {db.name()});
  }

  /// The engine knows that it cannot connect.
  void wait_until_away() {
    // That sessions were ended, and then that the database is shut.
    CAF_REQUIRE(log.wait_for<events::disconnected>(2));
  }

  void heal() {
    allow_connections(true);
  }

  /// As if the outage had lasted for as long as they do. A beat waits by then.
  void let_leases_end() {
    outside.exec("select pg_sleep(" + std::to_string(beat.count()) + " + 0.5)");
    db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
            "where status = 'executing'");
  }

  /// The first two rows, in a transaction of the caller's that goes on.
  void lock_until_leases_are_over(session& caller) {
    const std::string left = " from gen_durable where id in (1, 2)";
    // A few seconds are left of theirs when they are locked, unless a beat comes first.
    do
      caller.exec(
        "rollback; begin; update gen_durable set lease_expires_at = "
        "clock_timestamp() + interval '3 s' where id in (1, 2); "
        "commit; begin; select from gen_durable where id in (1, 2) for "
        "update");
    while (caller.scalar("select max(lease_expires_at) > clock_timestamp() + "
                         "interval '3 s'"
                         + left)
           == "t");
    db.wait_until("select max(lease_expires_at) < clock_timestamp() - interval "
                  "'500 ms'"
                    + left,
                  "t");
  }

  /// The machine may stand still for longer than an engine's patience.
  void insert_at_last(const gd::actors::engine& engine, std::string key) {
    auto give_up = std::chrono::steady_clock::now() + patience;
    for (;;) {
      auto answer = ask<gd::inserted>(
        engine,
        gd::insert{.fsm = "Probe",
                   .unique_key = key,
                   .unique_scope = {"runnable", "executing", "awaiting_signal",
                                    "done", "failed"}});
      if (answer)
        return;
      if (answer.error().code != errc::unavailable
          || std::chrono::steady_clock::now() > give_up)
        CAF_FAIL(answer.error().message);
    }
  }

  void wait_until_leases_live(int count) {
    wait_until_count("status = 'executing' and lease_expires_at > "
                     "clock_timestamp() + interval '1 s'",
                     count);
  }

  void check_each_ran_once(std::size_t rows) {
    auto begun = starts();
    CAF_CHECK_EQUAL(begun.size(), rows);
    CAF_CHECK(std::all_of(begun.begin(), begun.end(),
                          [](const auto& x) { return x.second == 1; }));
    CAF_CHECK_EQUAL(count("attempt > 0"), "0");
    CAF_CHECK(log.all<events::reaped>().empty());
    CAF_CHECK(log.all<events::outcome_stale>().empty());
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(outage_tests, fixture)

// -- the database is away -----------------------------------------------------

CAF_TEST(an outage that is longer than a lease runs no living step again) {
  insert(1);
  gates at{1};
  auto engine = start(slow_beats({at.machine()}));
  CAF_REQUIRE(at.of[1]->wait_for(1));
  cut();
  let_leases_end();
  heal();
  wait_until_leases_live(1);
  at.open_all();
  wait_until_count("status = 'done'", 1);
  check_each_ran_once(1);
}

CAF_TEST(an outcome that is returned during an outage is committed after it) {
  insert(1);
  gates at{1};
  auto engine = start(slow_beats({at.machine()}));
  CAF_REQUIRE(at.of[1]->wait_for(1));
  cut();
  at.open_all();
  let_leases_end();
  heal();
  wait_until_count("status = 'done'", 1);
  check_each_ran_once(1);
}

CAF_TEST(after an outage no node takes the living steps of another for dead) {
  insert(4);
  gates at{4};
  auto serve = [&](std::string name) {
    auto opts = slow_beats({at.machine()}, std::move(name));
    opts.queues = {{"default", 2, 0}};
    return start(std::move(opts));
  };
  auto a = serve("a");
  auto b = serve("b");
  for (auto& [id, one] : at.of)
    CAF_REQUIRE(one->wait_for(1));
  // Whoever comes back first, and by how much: chance.
  for (int round = 0; round < 3; ++round) {
    cut();
    let_leases_end(); // waits between attempts to connect have grown long
    heal();
    wait_until_leases_live(4);
  }
  at.open_all();
  wait_until_count("status = 'done'", 4);
  check_each_ran_once(4);
}

CAF_TEST(
  however many requests there are each waits no longer than its patience) {
  constexpr int requests = 5'000;
  auto opts = options({probe{}});
  opts.patience = 2s;
  auto engine = start(std::move(opts));
  insert_at_last(engine, "before");
  cut();
  wait_until_away();
  caf::scoped_actor self{sys};
  auto begin = std::chrono::steady_clock::now();
  int unavailable = 0;
  std::set<std::string> reasons;
  auto note = [&](const caf::error& raw) {
    auto why = gd::actors::from_caf(sys, raw);
    unavailable += why.code == errc::unavailable ? 1 : 0;
    reasons.insert(why.message);
  };
  auto send = [&](auto what) {
    return self->request(engine.gateway(), patience, std::move(what));
  };
  std::vector<decltype(send(gd::insert{}))> inserting;
  std::vector<decltype(send(gd::signal{}))> signalling;
  for (int i = 0; i < requests; ++i)
    if (i % 10 == 0)
      signalling.push_back(send(gd::signal{.target = 1, .name = "x"}));
    else
      inserting.push_back(send(gd::insert{.fsm = "Probe"}));
  for (auto& x : inserting)
    x.receive([](gd::inserted) { CAF_ERROR("inserted"); }, note);
  for (auto& x : signalling)
    x.receive([](gd::signalled) { CAF_ERROR("signalled"); }, note);
  auto took = std::chrono::steady_clock::now() - begin;
  CAF_CHECK_EQUAL(unavailable, requests);
  CAF_CHECK_EQUAL(reasons.size(), 1u);
  CAF_CHECK(reasons.begin()->find("is not currently accepting connections")
            != std::string::npos);
  // One after the other, groups would have taken five times as long.
  CAF_CHECK(took >= 2s);
  std::chrono::duration<double> seconds = took;
  CAF_MESSAGE(requests << " requests with a patience of 2 s were given up in "
                       << seconds.count() << " s");
  heal();
  // Whoever comes now comes behind what was given up.
  CAF_REQUIRE(log.wait_for<events::connected>(8));
  insert_at_last(engine, "after");
  CAF_CHECK_EQUAL(count("true"), "2");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "0");
}

CAF_TEST(
  an engine that is given a time to connect in gives up with the reason) {
  auto opts = options({probe{}});
  opts.database = db.conninfo("nobody");
  opts.connect_within = 200ms;
  auto engine = start(std::move(opts));
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  CAF_REQUIRE(log.wait_for<events::node_stopped>());
  auto why = engine.failed();
  CAF_REQUIRE(why);
  CAF_CHECK(why->code == errc::unavailable);
  CAF_CHECK(why->message.find("\"nobody\" does not exist")
            != std::string::npos);
  CAF_CHECK_EQUAL(log.all<events::disconnected>().size(), 1u);
}

// -- another server -----------------------------------------------------------

CAF_TEST(
  an engine tells that its server was promoted and goes on with other ids) {
  auto engine = start(options({probe{}}));
  auto before = ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"});
  CAF_REQUIRE(before);
  CAF_CHECK(log.all<events::ids_raised>().empty());
  db.rows("select setval('gen_durable_timeline', 0)");
  db.terminate_engines();
  CAF_REQUIRE(log.wait_for<events::ids_raised>());
  auto told = log.all<events::ids_raised>();
  CAF_CHECK_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(told.front().timeline, 1);
  CAF_CHECK_GREATER(told.front().first_id, before->id + 1'000'000'000);
  // The first may have an id that was drawn before.
  CAF_REQUIRE(ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"}));
  auto next = ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"});
  CAF_REQUIRE(next);
  CAF_CHECK_GREATER_OR_EQUAL(next->id, told.front().first_id);
}

// -- what a role is set to ----------------------------------------------------

CAF_TEST(expired leases are reaped where idle sessions are ended soon) {
  db.rows("alter role current_user in database " + quoted_name(db.name())
          + " set idle_session_timeout = '300ms'");
  insert(1);
  db.rows("update gen_durable set status = 'executing', locked_by = 'n/1/1', "
          "lease_expires_at = now() - interval '1 s'");
  auto opts = options({probe{}});
  opts.poll = 1h;
  opts.heartbeat = 1s;
  opts.reaper = 700ms;
  auto engine = start(std::move(opts));
  CAF_CHECK(log.wait_for<events::reaped>());
  wait_until_count("status = 'done'", 1);
}

CAF_TEST(steps run for a role whose transactions are read-only by default) {
  insert(1);
  db.rows("alter role current_user in database " + quoted_name(db.name())
          + " set default_transaction_read_only = on");
  auto engine = start(options({probe{}}));
  wait_until_count("status = 'done'", 1);
  CAF_CHECK(ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"}));
  wait_until_count("status = 'done'", 2);
}

// -- reading much -------------------------------------------------------------

CAF_TEST(no insert waits for who counts all instances) {
  auto engine = start(options({probe{}}));
  CAF_REQUIRE(ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"}));
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable in access exclusive mode");
  auto counting = std::async(std::launch::async, [&] {
    return ask<gd::stats>(engine, gd::stats_query{});
  });
  auto waits = "from pg_stat_activity where datname = '" + db.name()
               + "' and wait_event_type = 'Lock' and query like '%over "
                 "(partition by g.partition_key%'";
  session observer{server()};
  auto give_up = std::chrono::steady_clock::now() + patience;
  while (observer.scalar("select count(*) " + waits) != "1")
    CAF_REQUIRE(std::chrono::steady_clock::now() < give_up);
  // What it waits for becomes free, but it does not go on.
  auto pid = static_cast<pid_t>(
    std::stoll(observer.scalar("select pid " + waits)));
  CAF_REQUIRE_EQUAL(kill(pid, SIGSTOP), 0);
  stranger.exec("rollback");
  auto inserting = std::async(std::launch::async, [&] {
    return ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"});
  });
  auto inserted = inserting.get();
  kill(pid, SIGCONT);
  CAF_CHECK(inserted);
  auto stats = counting.get();
  CAF_REQUIRE(stats);
  CAF_CHECK(!stats->rows.empty());
}

// -- functions that take long -------------------------------------------------

struct two_threads : system_config {
  two_threads() {
    set("scheduler.max-threads", 2u);
  }
};

CAF_TEST(
  long functions on all threads of steps do not keep heartbeats from beating) {
  insert(4);
  gate all;
  probe x;
  x.first = [&](probe_context&) {
    all.pass();
    return gd::done();
  };
  two_threads few;
  caf::actor_system small{few};
  auto opts = options({x});
  opts.queues = {{"default", 4, 0}};
  auto engine = gd::actors::start(small, std::move(opts));
  CAF_REQUIRE(engine);
  // One runs, and one waits for the only thread. The others are released: no
  // more is ahead than can run at once.
  CAF_REQUIRE(all.wait_for(1));
  wait_until_count("status = 'executing'", 2);
  for (int beats = 0; beats < 6; ++beats) {
    auto end = db.scalar("select max(lease_expires_at) from gen_durable");
    db.wait_until("select min(lease_expires_at) > '" + end
                    + "' from gen_durable where status = 'executing'",
                  "t");
  }
  CAF_CHECK_EQUAL(count("status = 'executing'"), "2");
  all.open();
  wait_until_count("status = 'done'", 4);
  check_each_ran_once(4);
}

// -- strangers ----------------------------------------------------------------

CAF_TEST(rows that a caller keeps locked for longer than their lease are delayed
           and nothing else) {
  insert(4);
  gates at{4};
  auto serve = [&](std::string name) {
    auto opts = slow_beats({at.machine()}, std::move(name));
    opts.queues = {{"default", 2, 0}};
    return start(std::move(opts));
  };
  auto a = serve("a");
  auto b = serve("b");
  for (auto& [id, one] : at.of)
    CAF_REQUIRE(one->wait_for(1));
  session caller{db.conninfo()};
  for (int round = 0; round < 3; ++round) {
    lock_until_leases_are_over(caller);
    // The others live on, and work is done.
    CAF_CHECK_EQUAL(count("id in (3, 4) and status = 'executing' and "
                          "lease_expires_at < clock_timestamp()"),
                    "0");
    if (round == 0) {
      at.of[3]->open();
      wait_until_count("id = 3 and status = 'done'", 1);
    }
    caller.exec("commit");
    wait_until_leases_live(3);
  }
  at.open_all();
  wait_until_count("status = 'done'", 4);
  check_each_ran_once(4);
}

CAF_TEST(many rows that a caller keeps locked let no other lease run out) {
  constexpr int locked = 60;
  constexpr int others = 10;
  insert(locked + others);
  gate all;
  auto wait = [&](probe_context&) {
    all.pass();
    return gd::done();
  };
  auto end = [](probe_context&) { return gd::done(); };
  auto opts = options({gd::define<probe_state, probe_step>("Probe", 1)
                         .step(probe_step::first, {.blocking = true}, wait)
                         .step(probe_step::second, end)
                         .step(probe_step::third, end)});
  opts.queues = {{"default", locked + others, 0}};
  auto engine = start(std::move(opts));
  CAF_REQUIRE(all.wait_for(locked + others));
  session caller{db.conninfo()};
  caller.exec("begin");
  caller.exec("select from gen_durable where id <= $1::int for update",
              {std::to_string(locked)});
  auto others_end = "from gen_durable where id > " + std::to_string(locked);
  for (int beats = 0; beats < 20; ++beats) {
    auto before = db.scalar("select max(lease_expires_at) " + others_end);
    db.wait_until(
      "select min(lease_expires_at) > '" + before + "' " + others_end, "t");
    CAF_REQUIRE_EQUAL(db.scalar("select min(lease_expires_at) > "
                                "clock_timestamp() "
                                + others_end),
                      "t");
  }
  caller.exec("commit");
  wait_until_leases_live(locked + others);
  all.open();
  wait_until_count("status = 'done'", locked + others);
  check_each_ran_once(locked + others);
}

CAF_TEST(an outcome waits for a caller who has locked its row and holds up none) {
  insert(4);
  gates at{4};
  auto engine = start(slow_beats({at.machine()}));
  for (auto& [id, one] : at.of)
    CAF_REQUIRE(one->wait_for(1));
  session caller{db.conninfo()};
  lock_until_leases_are_over(caller);
  at.open_all();
  wait_until_count("id in (3, 4) and status = 'done'", 2);
  caller.exec("rollback");
  wait_until_count("status = 'done'", 4);
  check_each_ran_once(4);
}

CAF_TEST(an uncommitted insert of a unique key holds up its own key alone) {
  auto engine = start(options({probe{}}));
  auto keyed = gd::insert{.fsm = "Probe", .unique_key = "key"};
  for (const std::string end : {"rollback", "commit"}) {
    db.rows("delete from gen_durable");
    session stranger{db.conninfo()};
    stranger.exec("begin");
    auto theirs = stranger.scalar(
      "insert into gen_durable (fsm, step, queue, unique_key, unique_scope) "
      "values ('Probe', 'first', 'nobody''s', 'key', '{runnable}') "
      "returning id");
    auto waiting = std::async(std::launch::async,
                              [&] { return ask<gd::inserted>(engine, keyed); });
    stranger.wait_until_someone_is_blocked();
    // Some lock timeouts, and not until the stranger has ended.
    for (int i = 0; i < 5; ++i)
      CAF_CHECK(ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"}));
    CAF_CHECK(waiting.wait_for(0s) == std::future_status::timeout);
    wait_until_count("fsm = 'Probe' and status = 'done'", 5);
    stranger.exec(end);
    auto answer = waiting.get();
    CAF_REQUIRE(answer);
    bool duplicate = end == "commit";
    CAF_CHECK_EQUAL(answer->duplicate, duplicate);
    CAF_CHECK_EQUAL(std::to_string(answer->id) == theirs, duplicate);
  }
}

// -- stops --------------------------------------------------------------------

CAF_TEST(a stop while the server is away ends when its grace is over) {
  auto opts = options({probe{}});
  opts.stop_grace = 100ms;
  auto engine = start(std::move(opts));
  CAF_REQUIRE(log.wait_for<events::connected>(4));
  cut();
  wait_until_away();
  auto stopped = std::async(std::launch::async, [&] { engine.stop(); });
  CAF_CHECK(stopped.wait_for(patience) == std::future_status::ready);
  heal();
}

CAF_TEST(a stop while the server is away and nothing runs ends at once) {
  auto opts = options({probe{}});
  opts.stop_grace = 10min;
  opts.patience = 1s;
  auto engine = start(std::move(opts));
  CAF_REQUIRE(log.wait_for<events::connected>(4));
  cut();
  wait_until_away();
  // What has that much patience is given up after twenty polls: a pick, which has
  // no end of it, waits for a connection by then.
  CAF_REQUIRE(!ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"}));
  auto stopped = std::async(std::launch::async, [&] { engine.stop(); });
  CAF_CHECK(stopped.wait_for(patience) == std::future_status::ready);
  heal();
}

// -- poolers ------------------------------------------------------------------

CAF_TEST(an engine behind a transaction pooler gives up and says why) {
  transaction_pooler pooler;
  auto opts = options({probe{}});
  opts.database = pooler.conninfo(db.name());
  auto engine = start(std::move(opts));
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  CAF_REQUIRE(log.wait_for<events::node_stopped>());
  auto why = engine.failed();
  CAF_REQUIRE(why);
  CAF_CHECK(why->code == errc::schema_mismatch);
  CAF_CHECK_EQUAL(why->message,
                  "a connection pooler stands between this program and the "
                  "server: expected a direct connection, whose session is ours "
                  "alone");
  CAF_CHECK(!ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"}));
  CAF_CHECK(log.all<events::node_started>().empty());
  CAF_CHECK(log.all<events::disconnected>().empty());
}

CAF_TEST(
  what waits while the table is locked is bounded and more is refused at once) {
  auto opts = options({probe{}});
  opts.patience = patience;
  auto engine = start(std::move(opts));
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable");
  constexpr int all = 200;
  constexpr int fit = 37; // nine sixteenths of 64 MiB
  std::atomic<int> stored = 0;
  std::atomic<int> refused = 0;
  std::atomic<int> others = 0;
  std::counting_semaphore<> answers{0};
  sys.spawn([&, to = engine.gateway()](caf::event_based_actor* self) {
    gd::insert row{.fsm = "Other",
                   .state = gd::json::raw(
                     R"({"x": ")" + std::string(1'000'000, 'x') + "\"}"),
                   .step = "s",
                   .queue = "nobody's"};
    for (int i = 0; i < all; ++i)
      gd::actors::request_from(self, to, caf::infinite, row)
        .then(
          [&](const gd::inserted&) {
        ++stored;
        answers.release();
          },
          [&](const caf::error& why) {
        ++(gd::actors::from_caf(sys, why).code == errc::overloaded ? refused
                                                                   : others);
        answers.release();
        });
  });
  auto wait_for = [&](int count) {
    while (count > 0 && answers.try_acquire_for(patience))
      --count;
    CAF_CHECK_EQUAL(count, 0);
  };
  CAF_MESSAGE("while it is locked");
  wait_for(all - fit);
  CAF_CHECK_EQUAL(refused.load(), all - fit);
  CAF_CHECK_EQUAL(stored.load(), 0);
  stranger.exec("rollback");
  wait_for(fit);
  CAF_CHECK_EQUAL(others.load(), 0);
  CAF_CHECK_EQUAL(refused.load(), all - fit);
  CAF_CHECK_EQUAL(count("true"), std::to_string(fit));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace outage_suite
