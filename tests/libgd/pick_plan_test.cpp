// What a queue's next pick asks for, by what those before have answered.

#define CAF_SUITE pick_plan

#include <gd/engine/queue/lost.hpp>
#include <gd/engine/queue/pick_plan.hpp>

#include <caf/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace pick_plan_suite {

using namespace std::literals;
using gd::pick_plan;
namespace store = gd::store;

namespace {

constexpr std::int64_t second_us = 1'000'000;

struct fixture {
  pick_plan plan;
  pick_plan::clock::time_point now{1h};
  std::int64_t now_us2000 = 100 * second_us;

  pick_plan::one begin(std::int32_t want, bool keyed = false) {
    return plan.begin(want, keyed, now);
  }

  store::pick_request ask(const pick_plan::one& x) const {
    store::pick_request out;
    plan.ask(out, x, now);
    return out;
  }

  store::pick_request next(std::int32_t want = 10, bool keyed = false) {
    return ask(begin(want, keyed));
  }

  store::pick_answer found(std::size_t count) const {
    return {.rows = std::vector<store::picked_row>(count),
            .summary = {.now_us2000 = now_us2000}};
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(pick_plan_tests, fixture)

CAF_TEST(
  a pick begins where the one before did and no later than a second ago) {
  auto answer = found(2);
  answer.first = {{0, now_us2000 - 5 * second_us, 7}, {1, now_us2000, 8}};
  plan.note(begin(10), answer);
  auto from = next().from;
  CAF_REQUIRE_EQUAL(from.size(), 2u);
  CAF_CHECK_EQUAL(from[0].since_us2000, now_us2000 - 5 * second_us);
  CAF_CHECK_EQUAL(from[0].id, 7);
  CAF_CHECK_EQUAL(from[1].since_us2000, now_us2000 - second_us);
  CAF_CHECK_EQUAL(from[1].id, store::mark{}.id); // all of that moment
}

CAF_TEST(
  a pick that began before everything was to be looked at leaves no mark) {
  auto answer = found(1);
  answer.first = {{0, 1, 1}};
  auto before = begin(10);
  plan.scan_everything();
  plan.note(before, answer);
  CAF_CHECK(next().from.empty());
  plan.note(begin(10), answer);
  CAF_CHECK_EQUAL(next().from.size(), 1u);
  now += 1'999ms;
  CAF_CHECK_EQUAL(next().from.size(), 1u);
  now += 1ms; // nobody has asked for it
  CAF_CHECK(next().from.empty());
}

CAF_TEST(of many priorities some have a mark) {
  auto answer = found(1);
  for (std::int32_t priority = 0; priority < 100; ++priority)
    answer.first.push_back({priority, 1, 1});
  plan.note(begin(10), answer);
  auto count = next().from.size();
  CAF_CHECK_GREATER(count, 0u);
  CAF_CHECK_LESS(count, 10u);
}

CAF_TEST(there may be more behind a pick that is full or has met locks
         or keys) {
  CAF_CHECK(!plan.note(begin(10), found(9)));
  CAF_CHECK(!plan.plenty());
  CAF_CHECK(plan.note(begin(10), found(10)));
  CAF_CHECK(plan.plenty());
  auto locked = found(3);
  locked.summary.deeper = true;
  CAF_CHECK(plan.note(begin(10), locked));
  CAF_CHECK(!plan.plenty());
  auto keyed = found(3);
  keyed.summary.keyed_rows = true;
  CAF_CHECK(!plan.keyed());
  CAF_CHECK(plan.note(begin(10), keyed)); // which it did not take
  CAF_CHECK(plan.keyed());
  CAF_CHECK(!plan.note(begin(10, true), keyed));
  CAF_CHECK(plan.note(begin(10), found(10)));
  plan.failed();
  CAF_CHECK(!plan.plenty());
}

CAF_TEST(the more strangers have locked the deeper picks look until they find) {
  auto locked = found(0);
  locked.summary.deeper = true;
  CAF_CHECK_EQUAL(next().depth, 10);
  std::int32_t last = 10;
  for (int i = 0; i < 5; ++i) {
    plan.note(begin(10, true), locked);
    auto asked = next();
    CAF_CHECK_GREATER(asked.depth, last);
    CAF_CHECK(asked.visit);
    last = asked.depth;
  }
  for (int i = 0; i < 10; ++i)
    plan.note(begin(10, true), found(1));
  CAF_CHECK_EQUAL(next().depth, 10);
  plan.scan_everything();
  CAF_CHECK(!next().visit);
  for (int i = 0; i < 100; ++i)
    plan.note(begin(10, true), locked);
  CAF_CHECK_GREATER(next().depth, 1'000'000); // and it does not overflow
}

CAF_TEST(a pick with keys wants little more than the last one has found) {
  CAF_CHECK_EQUAL(begin(500, true).wanted, 500);
  plan.note(begin(500, true), found(0));
  auto least = begin(500, true).wanted;
  CAF_CHECK_LESS(least, 50);
  CAF_CHECK_EQUAL(begin(500).wanted, 500); // where there are none
  auto wanted = least;
  while (wanted < 500) { // full, again and again
    auto one = begin(500, true);
    plan.note(one, found(static_cast<std::size_t>(one.wanted)));
    CAF_CHECK_GREATER(begin(500, true).wanted, wanted);
    wanted = begin(500, true).wanted;
  }
  plan.note(begin(500, true), found(100));
  CAF_CHECK_EQUAL(begin(500, true).wanted, 125);
}

CAF_TEST(a key that somebody else has locked is left alone for longer each time) {
  auto left = [this] { return next(10, true).keys_to_leave; };
  std::chrono::milliseconds last{0};
  for (int i = 0; i < 5; ++i) {
    plan.note_locked({"k"}, now);
    CAF_CHECK_EQUAL(left(), std::vector<std::string>{"k"});
    CAF_CHECK(next().keys_to_leave.empty()); // no matter to others
    auto since = now;
    while (!left().empty())
      now += 10ms;
    CAF_CHECK(now - since > last);
    last = std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
  }
  plan.note_locked({"k"}, now);
  plan.note_free("k");
  CAF_CHECK(left().empty());
}

CAF_TEST(a key that was locked long ago is as good as one that never was) {
  for (int i = 0; i < 20; ++i)
    plan.note_locked({"k"}, now);
  now += 1min;
  plan.note_locked({"k"}, now);
  now += 200ms;
  CAF_CHECK(next(10, true).keys_to_leave.empty());
}

CAF_TEST(lost picks are looked for until their lease has passed) {
  gd::lost_picks lost;
  CAF_CHECK(lost.due() == pick_plan::clock::time_point::max());
  lost.add("a", now + 1s);
  CAF_CHECK(lost.due() <= now);
  CAF_CHECK_EQUAL(lost.take(now), std::vector<std::string>{"a"});
  CAF_CHECK(lost.take(now).empty()); // just now
  lost.add("b", now + 10s);
  CAF_CHECK_EQUAL(lost.take(now), (std::vector<std::string>{"a", "b"}));
  lost.refused(now);
  now += lost.again_after - 1ms;
  CAF_CHECK(lost.take(now).empty());
  now += 1ms;
  CAF_CHECK_EQUAL(lost.take(now), std::vector<std::string>{"b"});
  now += 1min;
  CAF_CHECK(lost.take(now).empty());
  CAF_CHECK(lost.due() == pick_plan::clock::time_point::max());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace pick_plan_suite
