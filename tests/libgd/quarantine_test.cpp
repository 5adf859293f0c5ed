// How many suspects a process begins at once, and who runs alone.

#define CAF_SUITE quarantine

#include <gd/engine/queue/quarantine.hpp>

#include <caf/test/dsl.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarantine_suite {

using namespace std::literals;

namespace {

using numbers = std::vector<std::int32_t>;
using clock_type = gd::quarantine::clock;

struct fixture {
  gd::quarantine here;
  clock_type::time_point now{1h};
  std::vector<std::string> told;
  std::int64_t ids = 0;

  void enter(const std::string& queue, std::int32_t slots) {
    here.enter(queue, slots, 20s, [this, queue] { told.push_back(queue); });
  }

  /// Takes so many, each with so many crashes, and begins with them.
  std::vector<std::int64_t> take(const std::string& queue, int count,
                                 std::int32_t crashes = 2) {
    CAF_REQUIRE(here.begin_pick(queue, now));
    std::vector<gd::quarantine::taken> rows;
    std::vector<std::int64_t> out;
    for (int i = 0; i < count; ++i) {
      rows.push_back({++ids, crashes});
      out.push_back(ids);
    }
    here.picked(queue, rows, now);
    for (auto id : out)
      here.began(id, now);
    return out;
  }

  numbers most(const std::string& queue = "a") {
    auto x = here.begin_pick(queue, now);
    if (x)
      here.picked(queue, {}, now);
    return x.value_or(numbers{});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(quarantine_tests, fixture)

CAF_TEST(of suspects an eighth of the slots begins at once and of others less) {
  enter("a", 500);
  enter("b", 12);
  CAF_CHECK_EQUAL(most(), (numbers{64, 8, 1}));
  take("a", 10);
  CAF_CHECK_EQUAL(most("b"), (numbers{54, 0, 1}));
}

CAF_TEST(a process with few slots tries suspects one by one) {
  enter("a", 8);
  CAF_CHECK_EQUAL(most(), numbers{1});
  gd::quarantine nobody;
  CAF_CHECK(nobody.begin_pick("a", now) == numbers{1});
}

CAF_TEST(each suspect that ends well doubles the number) {
  enter("a", 16);
  CAF_CHECK_EQUAL(most(), (numbers{2, 1}));
  here.ended(take("a", 1).front(), true);
  CAF_CHECK_EQUAL(most(), (numbers{4, 1}));
  here.ended(take("a", 1).front(), false);
  CAF_CHECK_EQUAL(most(), (numbers{4, 1}));
  for (int i = 0; i < 10; ++i)
    here.ended(take("a", 1).front(), true);
  CAF_CHECK_EQUAL(most(), (numbers{16, 4, 1}));
}

CAF_TEST(a suspect that has run for a heartbeat makes room and doubles the number
           once) {
  enter("a", 16);
  auto long_ones = take("a", 2);
  CAF_CHECK_EQUAL(most(), (numbers{0, 1}));
  now += 19s;
  CAF_CHECK_EQUAL(most(), (numbers{0, 1}));
  now += 1s;
  CAF_CHECK_EQUAL(most(), (numbers{8, 1}));
  now += 20s;
  for (auto id : long_ones)
    here.ended(id, true);
  CAF_CHECK_EQUAL(most(), (numbers{8, 1}));
}

CAF_TEST(one queue looks at a time and nobody while a suspect has a trial) {
  enter("a", 8);
  enter("b", 0);
  CAF_REQUIRE(here.begin_pick("a", now));
  CAF_CHECK(!here.begin_pick("b", now));
  CAF_CHECK(!here.held());
  auto on_trial = here.picked("a", {{1, 2}}, now);
  CAF_CHECK_EQUAL(on_trial.value(), 0u);
  CAF_CHECK(here.held());
  CAF_CHECK_EQUAL(told, (std::vector{"a"s, "b"s}));
  CAF_CHECK(!here.begin_pick("b", now));
  here.ended(1, true);
  here.end_trial();
  CAF_CHECK(!here.held());
  CAF_CHECK_EQUAL(most("b"), (numbers{2, 1}));
}

CAF_TEST(who is to wait for the look of another queue is told when it is over) {
  enter("a", 8);
  enter("b", 8);
  CAF_REQUIRE(here.begin_pick("a", now));
  here.picked("a", {}, now);
  CAF_CHECK(told.empty());
  CAF_REQUIRE(here.begin_pick("a", now));
  CAF_CHECK(!here.begin_pick("b", now));
  here.picked("a", {}, now);
  CAF_CHECK_EQUAL(told, (std::vector{"a"s, "b"s}));
}

CAF_TEST(all are told when a suspect has run for a heartbeat) {
  enter("a", 16);
  CAF_CHECK(here.clears_at() == clock_type::time_point::max());
  take("a", 1);
  now += 5s;
  take("a", 1);
  CAF_CHECK(here.clears_at() == now + 15s);
  auto before = here.changes();
  here.clear(now + 14s);
  CAF_CHECK(told.empty());
  CAF_CHECK_EQUAL(here.changes(), before);
  here.clear(now + 15s);
  CAF_CHECK_EQUAL(told, std::vector{"a"s});
  CAF_CHECK(here.changes() != before);
  CAF_CHECK(here.clears_at() == now + 20s);
}

CAF_TEST(a trial begins when all queues are at rest and after a heartbeat at the
           latest) {
  enter("a", 4);
  enter("b", 4);
  CAF_CHECK(here.begins_at() == clock_type::time_point::max());
  CAF_REQUIRE(here.begin_pick("a", now));
  here.picked("a", {{1, 3}}, now);
  CAF_CHECK(here.begins_at() == now + 20s);
  here.rests("a", clock_type::time_point::min());
  CAF_CHECK(here.begins_at() == now + 20s);
  told.clear();
  here.rests("b", now + 5s);
  here.rests("b", now + 5s); // nothing new
  CAF_CHECK_EQUAL(told, std::vector{"a"s});
  CAF_CHECK(here.begins_at() == now + 5s);
}

CAF_TEST(a queue that goes takes its suspects and its trial along) {
  enter("a", 64);
  enter("b", 64);
  take("a", 5);
  CAF_CHECK_EQUAL(most("b"), (numbers{11, 0, 1}));
  CAF_REQUIRE(here.begin_pick("a", now));
  here.leave("a");
  CAF_CHECK_EQUAL(most("b"), (numbers{8, 1}));
  enter("a", 8);
  CAF_REQUIRE(here.begin_pick("a", now));
  here.picked("a", {{100, 9}}, now);
  here.leave("a");
  CAF_CHECK(!here.held());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace quarantine_suite
