#define CAF_SUITE node_keys

// Partition and unique keys with whole engines.

#include "harness.hpp"

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace node_keys_suite {

using namespace gd::test;
using namespace std::string_literals;

namespace {

/// Watches the steps of each key.
struct watch {
  std::mutex mutex;
  std::map<std::string, int> running;
  std::map<std::string, std::vector<std::int64_t>> order;
  int overlaps = 0;
  std::size_t most = 0;

  void enter(const probe_context& ctx) {
    std::lock_guard guard{mutex};
    if (++running[ctx.state.note] > 1)
      ++overlaps;
    order[ctx.state.note].push_back(ctx.id);
    auto now = std::count_if(running.begin(), running.end(),
                             [](const auto& x) { return x.second > 0; });
    most = std::max(most, static_cast<std::size_t>(now));
  }

  void leave(const probe_context& ctx) {
    std::lock_guard guard{mutex};
    --running[ctx.state.note];
  }
};

struct fixture : engine_fixture {
  /// `count` rows on `keys` keys, in turn.
  void insert_keyed(int count, int keys) {
    db.rows("insert into gen_durable (fsm, step, partition_key, state) select "
            "'Probe', 'first', 'key ' || n % $2::int, jsonb_build_object('n', "
            "n, 'note', 'key ' || n % $2::int) from generate_series(1, "
            "$1::int) n",
            {std::to_string(count), std::to_string(keys)});
  }

  void wait_until_unlocked() {
    db.wait_until(count_locks, "0");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(node_keys_tests, fixture)

CAF_TEST(two engines run the steps of a key one at a time and in pick order) {
  watch seen;
  gate all_keys;
  probe machine;
  machine.first = [&](probe_context& ctx) {
    seen.enter(ctx);
    all_keys.pass();
    seen.leave(ctx);
    return gd::done();
  };
  insert_keyed(200, 5);
  auto one = start(options({machine}, "a"));
  auto other = start(options({machine}, "b"));
  CAF_MESSAGE("the keys run in parallel");
  CAF_REQUIRE(all_keys.wait_for(5));
  all_keys.open();
  wait_until_count("status = 'done'", 200);
  CAF_CHECK_EQUAL(seen.overlaps, 0);
  CAF_CHECK_EQUAL(seen.most, 5u);
  CAF_CHECK_EQUAL(starts().size(), 200u);
  for (auto& [key, ids] : seen.order) {
    CAF_CHECK_EQUAL(ids.size(), 40u);
    CAF_CHECK(std::is_sorted(ids.begin(), ids.end()));
  }
  wait_until_unlocked();
}

CAF_TEST(instances of a key take turns step by step) {
  watch seen;
  probe machine;
  machine.first = [&](probe_context& ctx) {
    seen.enter(ctx);
    seen.leave(ctx);
    return gd::next(probe_step::second, ctx.state);
  };
  machine.second = [&](probe_context& ctx) {
    seen.enter(ctx);
    seen.leave(ctx);
    return gd::done();
  };
  insert_keyed(30, 2);
  auto one = start(options({machine}, "a"));
  auto other = start(options({machine}, "b"));
  wait_until_count("status = 'done'", 30);
  CAF_CHECK_EQUAL(seen.overlaps, 0);
  CAF_MESSAGE(
    "all first steps come before the second ones: who has just run is "
    "last");
  for (auto& [key, ids] : seen.order) {
    CAF_REQUIRE_EQUAL(ids.size(), 30u);
    CAF_CHECK(std::is_sorted(ids.begin(), ids.begin() + 15));
    CAF_CHECK(std::equal(ids.begin(), ids.begin() + 15, ids.begin() + 15));
  }
  wait_until_unlocked();
}

CAF_TEST(a connection that is lost in the middle of steps lets no other in) {
  watch seen;
  gate inside;
  probe machine;
  machine.first = [&](probe_context& ctx) {
    seen.enter(ctx);
    inside.pass();
    seen.leave(ctx);
    return gd::done();
  };
  insert_keyed(20, 4);
  auto one = start(options({machine}, "a"));
  auto other = start(options({machine}, "b"));
  CAF_REQUIRE(inside.wait_for(4));
  CAF_REQUIRE(log.wait_for<gd::events::connected>(8)); // four each
  db.terminate_engines();
  wait_until_unlocked();
  CAF_REQUIRE(log.wait_for<gd::events::connected>(16));
  insert_keyed(4, 4);
  // Rows without a key show that both have picked since.
  insert(20, "Probe", "second");
  wait_until_count("partition_key is null and status = 'done'", 20);
  CAF_CHECK_EQUAL(seen.order.size(), 4u);
  for (auto& [key, ids] : seen.order)
    CAF_CHECK_EQUAL(ids.size(), 1u);
  inside.open();
  wait_until_count("status = 'done'", 44);
  for (auto& [key, ids] : seen.order)
    CAF_CHECK_EQUAL(ids.size(), 6u);
  wait_until_unlocked();
}

CAF_TEST(a function that overruns its limit keeps its key until it returns) {
  gate late;
  std::atomic<int> began = 0;
  auto machine = [&]() -> gd::machine {
    return gd::define<probe_state, probe_step>("Probe", 1)
      .step(
        probe_step::first, {.blocking = true, .limit = 100ms},
        [&](probe_context& ctx) {
      ++began;
      if (ctx.state.n == 1)
        late.pass();
      return gd::done();
        })
      .step(probe_step::second, [](probe_context&) { return gd::done(); })
      .step(probe_step::third, [](probe_context&) { return gd::done(); });
  };
  insert_keyed(2, 1);
  auto engine = start(options({machine()}, "a"));
  CAF_REQUIRE(late.wait_for(1));
  wait_until_count("status = 'failed'", 1);
  insert(1);
  wait_until_count("partition_key is null and status = 'done'", 1);
  CAF_CHECK_EQUAL(began.load(), 2); // and not the second of the key
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  late.open();
  wait_until_count("status = 'done'", 2);
  wait_until_unlocked();
}

CAF_TEST(an engine that stops has released all of its keys) {
  gate hold;
  std::atomic<int> began = 0;
  probe machine;
  machine.first = [&](probe_context&) {
    if (++began == 1)
      hold.pass();
    return gd::done();
  };
  insert_keyed(3, 1);
  {
    auto engine = start(options({machine}, "a"));
    CAF_REQUIRE(hold.wait_for(1));
    hold.open();
    wait_until_count("status = 'done'", 3);
  }
  wait_until_unlocked();
  CAF_CHECK_EQUAL(began.load(), 3);
}

CAF_TEST(an outcome that collides calls the handler with the winner) {
  gate inside;
  probe machine;
  machine.first = [&](probe_context& ctx) {
    inside.pass();
    return gd::next(probe_step::second, ctx.state);
  };
  machine.handler = [](const gd::failure& why,
                       probe_context& ctx) -> gd::outcome {
    if (ctx.state.n == 1)
      return gd::stop("handled: " + why.message());
    return gd::replay(ctx.state);
  };
  for (int n : {1, 2})
    db.rows("insert into gen_durable (fsm, step, unique_key, unique_scope, "
            "state) values ('Probe', 'first', $1::bytea, '{runnable}', "
            "jsonb_build_object('n', $2::int))",
            {"k" + std::to_string(n), std::to_string(n)});
  auto engine = start(options({machine}, "a"));
  CAF_REQUIRE(inside.wait_for(2));
  std::map<int, std::string> winners;
  for (int n : {1, 2})
    winners[n] = db.scalar(
      "insert into gen_durable (fsm, step, queue, unique_key, unique_scope) "
      "values ('Probe', 'first', 'elsewhere', $1::bytea, '{runnable}') "
      "returning id",
      {"k" + std::to_string(n)});
  inside.open();
  wait_until_count("status = 'failed'", 2);
  auto told = [&](int n) {
    return db.scalar("select last_error from gen_durable where status = "
                     "'failed' and state ->> 'n' = $1",
                     {std::to_string(n)});
  };
  CAF_CHECK_EQUAL(told(1),
                  "handled: the database refused the outcome: instance "
                    + winners[1] + " has its unique key");
  CAF_MESSAGE("whose own outcome may collide, too");
  CAF_CHECK_NOT_EQUAL(
    told(2).find("instance " + winners[2] + " has its unique key"),
    std::string::npos);
}

CAF_TEST(rows that the engine returns wait for their unique key) {
  gate inside;
  probe machine;
  machine.first = [&](probe_context& ctx) {
    if (ctx.attempt == 0)
      inside.pass();
    return gd::done();
  };
  db.rows("insert into gen_durable (fsm, step, status, awaits, deadline, "
          "unique_key, unique_scope) values ('Probe', 'second', "
          "'awaiting_signal', 'paid', now(), 'w', '{runnable}')");
  db.rows(
    "insert into gen_durable (fsm, step, status, locked_by, "
    "lease_expires_at, unique_key, unique_scope) values ('Probe', 'second', "
    "'executing', 'dead/1/1', now() - interval '1 s', 'r', '{runnable}')");
  for (const auto* key : {"w", "r"})
    db.rows("insert into gen_durable (fsm, step, queue, unique_key, "
            "unique_scope) values ('Probe', 'first', 'elsewhere', $1::bytea, "
            "'{runnable}')",
            {key});
  auto engine = start(options({machine}, "a"));
  CAF_REQUIRE(log.wait_for<gd::events::returned>(1));
  CAF_CHECK_EQUAL(count("queue = 'default' and status = 'done'"), "0");
  db.rows("update gen_durable set status = 'done' where queue = 'elsewhere'");
  wait_until_count("queue = 'default' and status = 'done'", 2);
  inside.open();
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace node_keys_suite
