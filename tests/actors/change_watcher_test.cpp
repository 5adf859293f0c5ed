#define CAF_SUITE change_watcher

// What others make due is found between two polls, for a few picks at the most: in
// engines with a poll of an hour, and step by step on the simulated clock.

#include "actors/stepped.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/sweep/change_watcher.hpp>
#include <gd/client.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace change_watcher_suite {

using namespace std::literals;
using namespace gd::test;
using namespace gd::actors;
using gd::errc;
namespace events = gd::events;

namespace {

/// Rests, moves on when it is told to, and can be put back.
gd::machine resting_probe() {
  return gd::define<probe_state, probe_step>("Probe", 1)
    .history(gd::history::with_state)
    .rest(probe_step::first, {probe_step::second})
    .step(probe_step::second, [](probe_context&) { return gd::done(); })
    .final(probe_step::third);
}

struct engine_with_rare_polls : engine_fixture {
  gd::actors::engine serve(gd::machine what) {
    auto how = options({std::move(what)});
    how.poll = 1h;
    auto engine = start(std::move(how));
    if (!log.wait_for<events::node_started>())
      throw std::runtime_error("the node does not start");
    return engine;
  }

  /// Until a query says so. Who commits later than three probes after an id was drawn
  /// waits for a poll, which nobody lives to see here, or for the next one who does the
  /// same: then `again` is done.
  void wait_for(const std::string& query, const std::string& expected,
                const std::function<void()>& again) {
    using clock = std::chrono::steady_clock;
    auto give_up = clock::now() + patience;
    for (auto next = clock::now() + 2s; db.scalar(query) != expected;) {
      CAF_REQUIRE(clock::now() < give_up);
      if (clock::now() < next)
        continue;
      again();
      next = clock::now() + 2s;
    }
  }

  /// Nothing is left to be done.
  void wait_until_all_are_done(const std::function<void()>& again) {
    wait_for("select count(*) from gen_durable where status = 'runnable' or "
             "status = 'executing'",
             "0", again);
  }
};

/// Two idle queues, and who probes for both.
struct change_watcher_fixture : picker_fixture {
  session stranger{rows.conninfo()};
  std::shared_ptr<gd::actors::change_watcher> change_watcher;
  caf::actor gateway;

  change_watcher_fixture() {
    home->config.poll = 1h;
    home->config.queues = {{"default", 2, 0}, {"mail", 2, 0}};
    for (const auto& queue : home->config.queues)
      home->children.set(role::picker, queue.name, spawn_picker(queue));
    gateway = caf::actor_cast<caf::actor>(sys.spawn<gateway_backend>(home));
    actors.push_back(gateway);
    change_watcher = std::make_shared<gd::actors::change_watcher>(home);
    change_watcher->wait();
    sched.run();
    for (int i = 0; i < 4; ++i) // what was there when it began
      probe_once();
  }

  ~change_watcher_fixture() {
    home->children.clear();
  }

  void pass(std::chrono::microseconds time) {
    sched.advance_time(time);
    db->advance_time(time);
    sched.run();
  }

  std::string after(std::chrono::microseconds time) {
    pass(time);
    return finish_all();
  }

  std::string probe_once() {
    return after(home->config.probe);
  }

  std::string probe_times(int count) {
    std::string units;
    for (int i = 0; i < count; ++i)
      units += probe_once();
    return units;
  }

  /// Probes that fail, until the next one.
  std::chrono::milliseconds pause_after(errc code) {
    CAF_REQUIRE_EQUAL(db->next(), "gd_last_ids ");
    db->drop_one(code);
    sched.run();
    auto waited = 0ms;
    for (; !db->waiting(); waited += 50ms)
      pass(50ms);
    return waited;
  }

  static constexpr auto quiet = "gd_last_ids ";
  static constexpr auto told = "gd_last_ids gd_pick gd_pick ";
};

std::string times(int n, const std::string& x) {
  std::string out;
  for (int i = 0; i < n; ++i)
    out += x;
  return out;
}

} // namespace

// -- engines ------------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE(change_watcher_engine_tests, engine_with_rare_polls)

CAF_TEST(what plain SQL inserts does not wait for a poll) {
  auto engine = serve(probe{});
  for (int i = 1; i <= 10; ++i) {
    insert(1);
    wait_until_all_are_done([this] { insert(1); });
  }
}

CAF_TEST(what a signal from SQL wakes does not wait for a poll) {
  probe machine;
  machine.first = [](probe_context& ctx) -> gd::outcome {
    if (ctx.discard("go"))
      return gd::done();
    return gd::await("go", ctx.state);
  };
  auto engine = serve(machine);
  auto signal = [this](const std::string& id, const std::string& name) {
    db.rows("select gd_signal($1::bigint, $2)", {id, name});
  };
  auto insert_another = [this] {
    return db.scalar("select id from gd_insert('Probe')");
  };
  auto other = insert_another();
  for (int i = 1; i <= 5; ++i) {
    auto id = insert_another();
    auto status = "select status from gen_durable where id = " + id;
    wait_for(status, "awaiting_signal", insert_another);
    signal(id, "go");
    wait_for(status, "done", [&] { signal(other, "nothing that it awaits"); });
  }
}

CAF_TEST(what is moved or put back from outside does not wait for a poll) {
  auto engine = serve(resting_probe());
  auto insert_one = [this] {
    return db.scalar("select id from gd_insert('Probe')");
  };
  auto move = [this](const std::string& id) {
    db.rows("select gd_transition($1::bigint, 'second')", {id});
  };
  auto id = insert_one();
  auto is_done = [&](const std::function<void()>& again) {
    wait_for("select status from gen_durable where id = " + id, "done", again);
  };
  auto move_another = [&] { move(insert_one()); };
  move(id);
  is_done(move_another);
  auto another = insert_one();
  move(another);
  wait_until_all_are_done(move_another);
  auto rewind = [this](const std::string& which, int seq) {
    db.rows("select gd_rewind($1::bigint, $2)", {which, std::to_string(seq)});
  };
  for (int i = 0; i < 5; ++i) {
    rewind(id, 1);
    is_done([&] { rewind(another, 1); });
  }
  rewind(id, 0);
  CAF_CHECK_EQUAL(
    db.scalar("select status from gen_durable where id = $1", {id}),
    "awaiting_signal");
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto move_by_client = [&](const std::string& which) {
    CAF_CHECK(
      client->transition({.target = std::stoll(which), .to = "second"}));
  };
  move_by_client(id);
  is_done([&] { move_by_client(insert_one()); });
}

CAF_TEST(an update that says so does not wait for a poll) {
  auto engine = serve(resting_probe());
  auto make_due = [this] {
    auto id = db.scalar("select id from gd_insert('Probe')");
    db.rows("update gen_durable set status = 'runnable', step = 'second', "
            "awaits = null, eligible_at = clock_timestamp() where id = $1",
            {id});
    db.rows("select gd_announce()");
  };
  for (int i = 1; i <= 5; ++i) {
    make_due();
    wait_until_all_are_done(make_due);
  }
}

CAF_TEST(a row that waits for its time is begun at that time) {
  auto engine = serve(probe{});
  db.rows("insert into gen_durable (fsm, step, eligible_at) values ('Probe', "
          "'first', 'infinity')");
  auto insert_later = [this] {
    db.rows("insert into gen_durable (fsm, step, eligible_at) values ('Probe', "
            "'first', clock_timestamp() + interval '300 ms')");
  };
  for (int i = 1; i <= 5; ++i) {
    insert_later();
    wait_for("select count(*) from gen_durable where status <> 'done' and "
             "eligible_at < 'infinity'",
             "0", insert_later);
  }
  CAF_CHECK_EQUAL(count("status = 'done' and updated_at < eligible_at"), "0");
}

CAF_TEST(a role that may not see sequences is told so once and polls go on) {
  auto role = db.name() + "_look";
  auto me = quoted_name(role);
  db.rows("create role " + me
          + " login; grant select, insert, update, delete on all tables in "
            "schema public to "
          + me);
  {
    auto how = options({probe{}});
    how.database = db.conninfo(role);
    auto engine = start(std::move(how));
    CAF_CHECK(log.wait_for<events::sweep_failed>());
    insert(1);
    wait_until_count("status = 'done'", 1);
    auto told = log.all<events::sweep_failed>();
    CAF_CHECK_EQUAL(told.size(), 1u);
    CAF_CHECK_EQUAL(told.front().what, "the probe for what is due");
    CAF_CHECK_EQUAL(told.front().why.sqlstate, "42501");
  }
  db.rows("drop owned by " + me);
  db.wait_until("select count(*) from pg_stat_activity where usename = '" + role
                  + "'",
                "0");
  db.rows("drop role " + me);
}

CAF_TEST(a node probes unless it is told not to) {
  auto sessions = "select count(*) from pg_stat_activity where datname = '"
                  + db.name()
                  + "' and pid <> pg_backend_pid()"
                    " and query like '%pg_sequence_last_value%'"s;
  for (auto [interval, sessions_then] :
       {std::pair{10ms, "1"}, std::pair{0ms, "0"}}) {
    auto how = options({probe{}});
    how.probe = interval;
    auto engine = start(std::move(how));
    insert(1);
    CAF_REQUIRE(log.wait_for<events::step_committed>(1));
    db.wait_until(sessions, sessions_then);
  }
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- step by step -------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE(change_watcher_tests, change_watcher_fixture)

CAF_TEST(who has nothing to do asks once per probe for all of its queues) {
  CAF_CHECK_EQUAL(probe_times(5), times(5, quiet));
}

CAF_TEST(
  what has been drawn lets each queue pick once per probe at four of them) {
  insert(1);
  auto first = probe_once();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK(first.starts_with(told));
  CAF_CHECK_EQUAL(probe_times(5), times(3, told) + times(2, quiet));
}

CAF_TEST(who draws ids all the time costs one pick per probe and queue) {
  for (int i = 0; i < 20; ++i) {
    stranger.exec("select nextval('gen_durable_signals_id_seq')");
    CAF_CHECK_EQUAL(probe_once(), told);
  }
  CAF_CHECK_EQUAL(probe_times(4), times(3, told) + quiet);
}

CAF_TEST(
  what commits within three probes is found by them and later by the poll) {
  auto draw = [this] {
    stranger.exec("begin");
    stranger.exec("insert into gen_durable (fsm, step) values ('Probe', "
                  "'first')");
  };
  draw();
  CAF_CHECK_EQUAL(probe_times(3), times(3, told));
  stranger.exec("commit");
  probe_once();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  draw();
  CAF_CHECK_EQUAL(probe_times(4), times(4, told));
  stranger.exec("commit");
  CAF_CHECK_EQUAL(probe_times(20), times(20, quiet));
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  after(1h);
  CAF_CHECK_EQUAL(count("status = 'done'"), "2");
}

CAF_TEST(a queue without a free slot does not pick until one is free) {
  take_all_permits();
  insert(2);
  probe_times(5);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "2");
  insert(1);
  CAF_CHECK_EQUAL(probe_times(5), times(4, "gd_last_ids gd_pick "s) + quiet);
  return_permits();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST(what the own gateway inserts lets nobody probe) {
  anon(gateway, gd::insert{.fsm = "Probe"});
  after(1us);
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK_EQUAL(probe_times(3), times(3, quiet));
  // But what is due later is to be known to its picker.
  anon(gateway, gd::insert{.fsm = "Probe", .delay_us = 300'000});
  after(1us);
  CAF_CHECK_EQUAL(probe_once(), told);
}

CAF_TEST(probes that fail come at longer intervals and the next one tells all) {
  pass(home->config.probe);
  for (auto pause : {250ms, 500ms, 1'000ms, 1'000ms})
    CAF_CHECK_EQUAL(pause_after(errc::unavailable).count(), pause.count());
  CAF_CHECK(log.all<events::sweep_failed>().empty());
  for (auto pause : {2'000ms, 4'000ms})
    CAF_CHECK_EQUAL(pause_after(errc::sql).count(), pause.count());
  CAF_CHECK_EQUAL(log.all<events::sweep_failed>().size(), 1u);
  insert(1);
  CAF_CHECK(finish_all().starts_with(told));
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  CAF_CHECK_EQUAL(probe_times(5), times(3, told) + times(2, quiet));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace change_watcher_suite
