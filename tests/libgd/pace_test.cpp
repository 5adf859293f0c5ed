// How many rows a queue may hold ahead, by the steps that have ended lately.

#define CAF_SUITE pace

#include <gd/work/pace.hpp>

#include <caf/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

using namespace std::literals;

namespace {

constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max();

/// Steps that end one after the other, each after as long.
struct steps {
  gd::pace pace{1s};
  std::chrono::nanoseconds busy{0};
  std::uint64_t ends = 0;

  void run(int count, std::chrono::nanoseconds each) {
    for (int i = 0; i < count; ++i) {
      busy += each;
      pace.note(busy, ++ends);
    }
  }

  /// One that does not end, looked at again and again.
  void hang(std::chrono::nanoseconds time) {
    for (std::chrono::nanoseconds t{0}; t < time; t += 10ms)
      pace.note(busy += 10ms, ends);
  }
};

} // namespace

CAF_TEST(as many as there are may wait until a window has passed) {
  steps x;
  CAF_CHECK_EQUAL(x.pace.most_within(1h), any);
  x.pace.note(0s, 0);
  x.run(9, 100ms);
  CAF_CHECK_EQUAL(x.pace.most_within(10s), any);
  x.run(1, 100ms);
  CAF_CHECK_LESS(x.pace.most_within(10s), any);
}

CAF_TEST(as many may wait as begin within the time at the speed of late) {
  steps x;
  x.pace.note(0s, 0);
  x.run(1'000, 10ms);
  // One more may end at once.
  auto most = x.pace.most_within(10s);
  CAF_CHECK_GREATER_OR_EQUAL(most, 1'000);
  CAF_CHECK_LESS_OR_EQUAL(most, 1'011);
  CAF_CHECK_EQUAL(x.pace.most_within(0s), 0);
}

CAF_TEST(
  steps that turn slow are believed after a window and quick ones again) {
  steps x;
  x.pace.note(0s, 0);
  x.run(100'000, 10us);
  CAF_CHECK_GREATER(x.pace.most_within(10s), 900'000);
  x.run(2, 1s);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.most_within(10s), 20);
  x.run(130'000, 10us);
  CAF_CHECK_GREATER(x.pace.most_within(10s), 900'000);
}

CAF_TEST(the longer nothing ends the fewer may wait) {
  steps x;
  x.pace.note(0s, 0);
  x.run(1'000, 10ms);
  x.hang(1s);
  // The window begins up to an eighth of it before: with 13 steps that had ended.
  CAF_CHECK_LESS(x.pace.most_within(10s), 150);
  x.hang(9s);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.most_within(10s), 2);
  x.hang(60s);
  CAF_CHECK_EQUAL(x.pace.most_within(10s), 0);
}

CAF_TEST(a step that hangs for days leaves a few samples only) {
  steps x;
  x.pace.note(0s, 0);
  x.run(100, 10ms);
  for (int day = 0; day < 7; ++day)
    for (int minute = 0; minute < 24 * 60; ++minute)
      x.pace.note(x.busy += 1min, x.ends);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.samples(), 20u);
  // And when it has ended, what follows counts, and not those days.
  x.run(200, 10ms);
  CAF_CHECK_GREATER(x.pace.most_within(10s), 900);
}
