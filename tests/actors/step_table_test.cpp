// What a picker knows of the rows whose steps have begun.

#define CAF_SUITE step_table

#include "actors/harness.hpp"

#include <gd/actors/queue/step_table.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace step_table_suite {

using namespace std::literals;
using gd::actors::step_table;

namespace {

struct fixture : test_coordinator_fixture<gd::test::system_config> {
  using state = step_table::state;

  step_table table;
  step_table::clock::time_point now{1h};
  std::optional<gd::store::key_hold> key;

  step_table::entry& add(state begins) {
    return table.add(table.draw_tag(),
                     {.under = std::make_shared<gd::lease>(1, "a/0/1")},
                     begins);
  }

  step_table::entry& add(state begins, step_table::supervision care) {
    return table.add(table.draw_tag(),
                     {.under = std::make_shared<gd::lease>(1, "a/0/1"),
                      .kind = step_table::attended{.care = care}},
                     begins);
  }

  step_table::entry& add_on_worker(bool function) {
    return table.add(
      table.draw_tag(),
      {.under = std::make_shared<gd::lease>(1, "a/0/1"),
       .kind = step_table::on_worker{.from = "w", .function = function}},
      state::running);
  }

  static step_table::supervision pooled() {
    return {.limit = 1s, .pooled = true};
  }

  step_table::supervision due_in(std::chrono::seconds time) const {
    return {.limit = time, .due = now + time};
  }

  void spawn_step(step_table::entry& x) {
    if (!std::holds_alternative<step_table::attended>(x.kind))
      x.kind = step_table::attended{};
    std::get<step_table::attended>(x.kind).step = sys.spawn(
      []() -> caf::behavior { return {[](int) {}}; });
  }

  static void end_step(step_table::entry& x) {
    anon_send_exit(x.actor(), caf::exit_reason::kill);
    std::get<step_table::attended>(x.kind).step = nullptr;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(step_table_tests, fixture)

CAF_TEST(what has not returned has a slot and what is released has none) {
  auto& plain = add(state::queued);
  auto& own = add(state::running);
  add(state::reported);
  CAF_CHECK_EQUAL(table.running(), 2);
  CAF_CHECK_EQUAL(table.pooled(), 0u);
  auto& waits = add(state::queued, pooled());
  CAF_CHECK_EQUAL(table.running(), 3);
  CAF_CHECK_EQUAL(table.pooled(), 1u);
  for (auto* x : {&plain, &own, &waits}) {
    CAF_CHECK(x->has_slot());
    table.leave_slot(*x);
    CAF_CHECK(!x->has_slot());
  }
  CAF_CHECK_EQUAL(table.running(), 0);
  CAF_CHECK_EQUAL(table.pooled(), 0u);
}

CAF_TEST(a row stays until it is completed and its actor is down) {
  auto& x = add(state::running);
  auto tag = x.tag;
  spawn_step(x);
  x.key = gd::store::key_hold{};
  CAF_CHECK(!table.forget(x, key));
  table.report(x, false);
  CAF_CHECK(x.has_outcome());
  CAF_CHECK(!table.forget(x, key));
  table.complete(x);
  CAF_CHECK(x.has_outcome());
  CAF_CHECK(!table.forget(x, key)); // its function goes on
  CAF_CHECK_EQUAL(table.unfinished(), 1u);
  end_step(x);
  table.leave_slot(x);
  CAF_CHECK(!key);
  CAF_CHECK(table.forget(x, key));
  CAF_CHECK(key);
  CAF_CHECK(table.find(tag) == nullptr);
  CAF_CHECK(table.empty());
  sched.run();
}

CAF_TEST(
  a refused row may be reported and refused again until it is completed) {
  auto& x = add(state::queued);
  table.leave_slot(x);
  for (int i = 0; i < 3; ++i) {
    table.report(x, false);
    CAF_CHECK(x.now() == state::reported);
    table.refuse(x);
    CAF_CHECK(!x.has_outcome());
  }
  table.complete(x); // the handler actor is down without an outcome
  CAF_CHECK(table.forget(x, key));
  CAF_CHECK(table.empty());
}

CAF_TEST(
  a late function keeps its slot when its handler actor has long reported) {
  auto& x = add(state::running, due_in(1s));
  spawn_step(x);
  CAF_REQUIRE_EQUAL(table.late(now + 1s).size(), 1u);
  table.report(x, false);
  table.complete(x);
  CAF_CHECK_EQUAL(table.running(), 1);
  CAF_CHECK(!table.forget(x, key));
  end_step(x);
  table.leave_slot(x);
  CAF_CHECK(table.forget(x, key));
  CAF_CHECK_EQUAL(table.running(), 0);
  sched.run();
}

CAF_TEST(a limit counts from the beginning and is told once) {
  auto& waits = add(state::queued, pooled());
  auto& runs = add(state::running, due_in(3s));
  CAF_CHECK(table.late(now + 2s).empty());
  table.begin(waits, now + 1s);
  CAF_CHECK(waits.now() == state::running);
  CAF_CHECK(table.due() == now + 2s);
  auto late = table.late(now + 2s);
  CAF_REQUIRE_EQUAL(late.size(), 1u);
  CAF_CHECK(late.front() == &waits);
  CAF_CHECK(table.due() == now + 3s);
  CAF_CHECK(table.late(now + 2s).empty());
  table.lift_limit(runs);
  CAF_CHECK(table.due() == step_table::clock::time_point::max());
}

CAF_TEST(what has an outcome or will have none has no limit) {
  auto& one = add(state::running, due_in(1s));
  table.report(one, false);
  auto& other = add(state::running, due_in(1s));
  table.complete(other);
  CAF_CHECK(table.late(now + 1h).empty());
  CAF_CHECK(table.due() == step_table::clock::time_point::max());
}

CAF_TEST(a row advances until its outcome is committed or is not ) {
  auto& one = add(state::queued);
  auto& other = add(state::queued);
  table.report(one, true);
  table.report(other, true);
  CAF_CHECK_EQUAL(table.advancing(), 2);
  table.complete(one);
  CAF_CHECK_EQUAL(table.advancing(), 1);
  table.refuse(other);
  CAF_CHECK_EQUAL(table.advancing(), 0);
  table.report(other, false);
  table.complete(other);
  CAF_CHECK_EQUAL(table.advancing(), 0);
}

CAF_TEST(what is taken back from the runners is no longer there) {
  auto tag = table.draw_tag();
  table.add(tag,
            {.under = std::make_shared<gd::lease>(7, "a/0/1"), .bytes = 100},
            state::queued);
  CAF_CHECK_EQUAL(table.bytes(), 100u);
  auto x = table.take_queued(tag);
  CAF_CHECK_EQUAL(x.under->id, 7);
  CAF_CHECK_EQUAL(table.bytes(), 0u);
  CAF_CHECK_EQUAL(table.running(), 0);
  CAF_CHECK(table.find(tag) == nullptr);
}

CAF_TEST(what a worker has takes no slot and stays until its function returns) {
  auto& x = add_on_worker(true);
  auto tag = x.tag;
  CAF_CHECK(!x.has_slot());
  CAF_CHECK_EQUAL(table.running(), 0);
  CAF_CHECK_EQUAL(table.unfinished(), 1u);
  table.complete(x);
  CAF_CHECK_EQUAL(table.unfinished(), 0u);
  CAF_CHECK(!table.forget(x, key));
  std::get<step_table::on_worker>(x.kind).function = false;
  CAF_CHECK(table.forget(x, key));
  CAF_CHECK(table.find(tag) == nullptr);
  auto& back = add_on_worker(true);
  auto taken = table.take_queued(back.tag);
  CAF_CHECK_EQUAL(taken.at_worker()->from, "w");
  CAF_CHECK(table.empty());
  CAF_CHECK_EQUAL(table.running(), 0);
}

CAF_TEST(bytes of picked rows count until there is an outcome or none follows) {
  auto sized = [&](std::size_t bytes) -> step_table::entry& {
    return table.add(
      table.draw_tag(),
      {.under = std::make_shared<gd::lease>(1, "a/0/1"), .bytes = bytes},
      state::queued);
  };
  auto& one = sized(10);
  auto& other = sized(200);
  CAF_CHECK_EQUAL(table.bytes(), 210u);
  table.report(one, false);
  CAF_CHECK_EQUAL(table.bytes(), 200u);
  table.complete(one);
  table.complete(other);
  CAF_CHECK_EQUAL(table.bytes(), 0u);
}

CAF_TEST(
  a queue is at rest when no step is young and nothing is to be written) {
  constexpr auto never = step_table::clock::time_point::max();
  CAF_CHECK(table.rests_at(20s) == step_table::clock::time_point::min());
  auto& old = add(state::running);
  old.under->begin(now);
  auto& there = add_on_worker(true);
  there.under->begin(now + 5s);
  CAF_CHECK(table.rests_at(20s) == now + 25s);
  CAF_CHECK_EQUAL(table.running_since(now), 1); // a worker's has no slot
  CAF_CHECK_EQUAL(table.running_since(now - 1s), 0);
  auto& waits = add(state::queued);
  CAF_CHECK(table.rests_at(20s) == never);
  CAF_CHECK_EQUAL(table.running_since(now), 1);
  table.leave_slot(waits);
  table.report(waits, false);
  CAF_CHECK(table.rests_at(20s) == never);
  table.complete(waits);
  CAF_CHECK(table.rests_at(20s) == now + 25s);
  table.report(there, false);
  CAF_CHECK(table.rests_at(20s) == never);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace step_table_suite
