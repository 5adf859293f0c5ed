// How many rows a queue takes ahead, by the steps that have ended lately and by what
// rows weigh.

#define CAF_SUITE pace

#include <gd/engine/queue/held_bytes.hpp>
#include <gd/engine/queue/pace.hpp>

#include <caf/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>

namespace pace_suite {

using namespace std::literals;

namespace {

constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max();

/// Steps that end one after the other, each after as long.
struct steps {
  gd::pace pace{{.window = 1s}};
  std::chrono::nanoseconds in_use{0};

  void run(int count, std::chrono::nanoseconds each) {
    for (int i = 0; i < count; ++i) {
      in_use += each;
      pace.ended();
      pace.note(in_use);
    }
  }

  /// One that does not end, looked at again and again.
  void hang(std::chrono::nanoseconds time) {
    for (std::chrono::nanoseconds t{0}; t < time; t += 10ms)
      pace.note(in_use += 10ms);
  }
};

} // namespace

CAF_TEST(what other queues hold leaves each its share) {
  gd::pace x{{.slots = 1, .bytes = 1'000, .share = 100, .bytes_at_once = 600}};
  CAF_CHECK_EQUAL(x.room({.of_others = 700}), 300);
  CAF_CHECK_EQUAL(x.room({.of_others = 2'000}), 100);
  CAF_CHECK_EQUAL(x.room({.bytes = 60, .of_others = 2'000}), 40);
  CAF_CHECK_EQUAL(x.room({.bytes = 300, .of_others = 200}), 500);
  CAF_CHECK_EQUAL(
    x.room({.slot_to_fill = true, .bytes = 300, .of_others = 800}), 1);
}

CAF_TEST(a queue is full with the process but never with nothing of its own) {
  auto all = std::make_shared<std::atomic<std::int64_t>>(0);
  gd::held_bytes x{all, 1'000, 100};
  {
    gd::held_bytes other{all, 1'000, 100};
    other.add(1'500);
    CAF_CHECK(other.full());
    CAF_CHECK(!x.full());
    x.set(99);
    CAF_CHECK(!x.full());
    x.add(1);
    CAF_CHECK(x.full());
    CAF_CHECK_EQUAL(x.of_others(), 1'500);
  }
  CAF_MESSAGE("what has gone holds nothing");
  CAF_CHECK(!x.full());
  CAF_CHECK(x.has_share());
  CAF_CHECK_EQUAL(all->load(), 100);
  gd::held_bytes without_share{all, 50, 0};
  CAF_CHECK(!without_share.full());
}

CAF_TEST(as many as there are may wait until a window has passed) {
  steps x;
  CAF_CHECK_EQUAL(x.pace.most_within(1h), any);
  x.pace.note(0s);
  x.run(9, 100ms);
  CAF_CHECK_EQUAL(x.pace.most_within(10s), any);
  x.run(1, 100ms);
  CAF_CHECK_LESS(x.pace.most_within(10s), any);
}

CAF_TEST(as many may wait as begin within the time at the speed of late) {
  steps x;
  x.pace.note(0s);
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
  x.pace.note(0s);
  x.run(100'000, 10us);
  CAF_CHECK_GREATER(x.pace.most_within(10s), 900'000);
  x.run(2, 1s);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.most_within(10s), 20);
  x.run(130'000, 10us);
  CAF_CHECK_GREATER(x.pace.most_within(10s), 900'000);
}

CAF_TEST(the longer nothing ends the fewer may wait) {
  steps x;
  x.pace.note(0s);
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
  x.pace.note(0s);
  x.run(100, 10ms);
  for (int day = 0; day < 7; ++day)
    for (int minute = 0; minute < 24 * 60; ++minute)
      x.pace.note(x.in_use += 1min);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.samples(), 20u);
  // And when it has ended, what follows counts, and not those days.
  x.run(200, 10ms);
  CAF_CHECK_GREATER(x.pace.most_within(10s), 900);
}

// -- how many to pick ---------------------------------------------------------

namespace {

struct demand {
  gd::pace pace{{.window = 1s,
                 .in_time = 10s,
                 .slots = 10,
                 .prefetch = 100,
                 .bytes = 1'000,
                 .bytes_at_once = 600}};
  gd::pace::time_point now{1h};
  std::chrono::nanoseconds in_use{0};

  /// Steps end, each after as long, and behind them a transaction.
  void turn(int count, std::chrono::nanoseconds each,
            std::chrono::nanoseconds transaction) {
    pace.began(0, now);
    for (int i = 0; i < count; ++i) {
      in_use += each;
      pace.ended();
    }
    pace.note(in_use);
    now += transaction;
    pace.finished(0, now, in_use);
  }
};

} // namespace

CAF_TEST(a queue of which nothing is known fills its slots) {
  demand x;
  CAF_CHECK_EQUAL(x.pace.wanted({}), 10);
  CAF_CHECK_EQUAL(x.pace.wanted({.running = 4, .coming = 3}), 3);
  CAF_CHECK_LESS(x.pace.wanted({.running = 10, .coming = 3}), 0);
}

CAF_TEST(ahead are four times as many as end in a transaction) {
  demand x;
  x.turn(5, 1ms, 5ms);
  CAF_CHECK_EQUAL(x.pace.wanted({.running = 10}), 4 * 5);
  // So many would have ended had there been more, but that is not trusted further.
  x.turn(5, 1ms, 1s);
  CAF_CHECK_EQUAL(x.pace.wanted({.running = 10}), 4 * 4 * 5);
  x.turn(50, 1ms, 1s);
  CAF_CHECK_EQUAL(x.pace.wanted({.running = 10}), 100); // and never more
  x.turn(1, 1ms, 1us);
  CAF_CHECK_EQUAL(x.pace.wanted({.running = 10}), 0);
  x.pace.ended();
  x.pace.ended();
  x.pace.hurry(x.in_use += 1us);
  CAF_CHECK_EQUAL(x.pace.wanted({.running = 10}), 4 * 2);
}

CAF_TEST(nothing is ahead that begins too late) {
  demand x;
  x.pace.note(0s);
  for (int i = 0; i < 3; ++i)
    x.turn(1, 5s, 100s);
  // Of those that take 5 s, two or three begin within 10 s.
  CAF_CHECK_LESS_OR_EQUAL(x.pace.wanted({.running = 10}), 4);
  CAF_CHECK_EQUAL(x.pace.most_waiting(), 10); // they have slots of their own
  x.pace.run_at_once(1);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.most_waiting(), 4);
  CAF_CHECK_LESS_OR_EQUAL(x.pace.wanted({.running = 2, .waiting = 1}), 3);
}

CAF_TEST(as much is picked as there is memory for and for a free slot a row) {
  demand x;
  x.pace.picked(2, 200);
  CAF_CHECK_EQUAL(x.pace.room({}), 600);
  CAF_CHECK_EQUAL(x.pace.wanted({}), 6);
  CAF_CHECK_EQUAL(x.pace.wanted({.bytes = 800}), 2);
  CAF_CHECK_EQUAL(x.pace.room({.bytes = 1'600}), 0);
  CAF_CHECK_EQUAL(x.pace.wanted({.bytes = 1'600}), 0);
  CAF_CHECK_EQUAL(x.pace.wanted({.slot_to_fill = true, .bytes = 1'600}), 1);
  x.pace.picked(0, 0); // tells nothing
  CAF_CHECK_EQUAL(x.pace.wanted({}), 6);
  x.pace.picked(10, 10); // smaller ones are believed by halves
  CAF_CHECK_EQUAL(x.pace.wanted({}), 10);
  x.pace.shown(1, 300);
  CAF_CHECK_EQUAL(x.pace.wanted({}), 2);
}

} // namespace pace_suite
