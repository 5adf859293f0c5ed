#define CAF_SUITE event

// What events say of themselves, and how a log stays short.

#include <gd/engine/queue/alike_events.hpp>
#include <gd/event.hpp>
#include <gd/pq/text.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace event_suite {

using namespace std::literals;

namespace events = gd::events;

namespace {

using clock_type = gd::alike_events::clock;

events::step_failed failure(std::string step = "charge", std::int64_t id = 7) {
  return {{.id = id, .fsm = "Billing", .version = 2, .step = std::move(step)},
          "no stock",
          "replay",
          1500ms,
          1234us};
}

/// A sink that is written to from several threads.
class notes {
public:
  gd::event_sink sink() {
    return [this](const gd::event& what) {
      std::lock_guard guard{mutex_};
      all_.push_back(what);
      changed_.notify_all();
    };
  }

  template <class T>
  std::vector<T> all() {
    std::lock_guard guard{mutex_};
    return collect<T>();
  }

  /// Waits until so many ends of instances have been told or counted.
  bool wait_for_ends(std::size_t count) {
    std::unique_lock guard{mutex_};
    return changed_.wait_for(guard, gd::test::patience, [&] {
      auto n = collect<events::instance_failed>().size();
      for (const auto& x : collect<events::more_like_it>())
        n += x.times;
      return n == count;
    });
  }

private:
  template <class T>
  std::vector<T> collect() const {
    std::vector<T> xs;
    for (const auto& x : all_)
      if (const auto* one = std::get_if<T>(&x))
        xs.push_back(*one);
    return xs;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<gd::event> all_;
};

} // namespace

CAF_TEST(what is not tried again is not said to be) {
  gd::error why{gd::errc::conflict, "x", {}};
  auto again = "will be tried again"s;
  CAF_CHECK(gd::describe(events::turn_failed{"a", why}).find(again)
            != std::string::npos);
  why.code = gd::errc::machine_differs;
  CAF_CHECK(gd::describe(events::turn_failed{"a", why}).find(again)
            == std::string::npos);
}

CAF_TEST(what a server or libpq says is one line without tabs) {
  CAF_CHECK_EQUAL(gd::pq::one_line("no such file\n\tIs it running?\nNo.\n"),
                  "no such file Is it running? No.");
  CAF_CHECK_EQUAL(gd::pq::one_line(nullptr), "");
}

CAF_TEST(a failure says which run of which step has failed and what follows) {
  auto x = failure();
  x.attempt = 3;
  x.seq = 12;
  CAF_CHECK(gd::level_of(x) == gd::severity::warning);
  CAF_CHECK_EQUAL(
    gd::describe(x),
    "instance 7: step charge of Billing v2, attempt 3, seq 12: failed "
    "after 1.234 ms: no stock; what follows: replay in 1500 ms");
  x.outcome = "next";
  CAF_CHECK(gd::describe(x).ends_with("; what follows: next"));
  events::instance_failed end{x, "enough"};
  CAF_CHECK(gd::level_of(end) == gd::severity::warning);
  CAF_CHECK_EQUAL(
    gd::describe(end),
    "instance 7: step charge of Billing v2, attempt 3, seq 12: the "
    "instance has failed: enough");
}

CAF_TEST(what steps throw makes one line) {
  auto x = failure();
  x.why = "first\nsecond\x1b[2J";
  CAF_CHECK(gd::describe(x).find_first_of("\n\x1b") == std::string::npos);
  CAF_CHECK(gd::describe({events::instance_failed{x, x.why}}).find('\n')
            == std::string::npos);
}

CAF_TEST(a slow step is told how to be declared) {
  events::step_slow x{failure(), 25ms};
  CAF_CHECK(gd::level_of(x) == gd::severity::warning);
  CAF_CHECK(gd::describe(x).find("25 ms") != std::string::npos);
  CAF_CHECK(gd::describe(x).find(".step(charge, {.blocking = true}, ...)")
            != std::string::npos);
}

CAF_TEST(what happens all the time is told in figures and for debugging) {
  auto says = [](const gd::event& what, std::string_view text) {
    CAF_CHECK(gd::level_of(what) == gd::severity::debug);
    CAF_CHECK_EQUAL(gd::describe(what), text);
  };
  says(events::step_started{failure(), "t", 1500us},
       "instance 7: step charge of Billing v2, attempt 0, seq 0: begins, due "
       "for 1.5 ms");
  says(
    events::turn_ended{"mail", 5, 9, 3ms, 4, 10},
    "queue mail: turn after 3 ms, 5 outcomes written, 9 rows picked, 4 of 10 "
    "slots in use");
  says(events::sweep_ended{"the sweep of leases", 2ms},
       "the sweep of leases: ended after 2 ms");
  says(events::requests_answered{"signal", "accepted", 8},
       "8 requests of the kind signal answered: accepted");
}

CAF_TEST(a trial says which run of which step it is and what it has done) {
  events::trial_begun x{failure(), 4, 2};
  CAF_CHECK(gd::level_of(x) == gd::severity::warning);
  CAF_CHECK_EQUAL(
    gd::describe(x),
    "instance 7: step charge of Billing v2, attempt 0, seq 0: runs "
    "alone, its process has ended 4 times while it ran, and 2 "
    "times while it ran alone");
}

CAF_TEST(of events that are alike the first of a window are told and the others
           are counted) {
  gd::alike_events some{10, 10s};
  clock_type::time_point begin{1h};
  int told = 0;
  for (int i = 0; i < 1'210; ++i)
    told += some.note(failure("charge", i), begin + i * 1ms) ? 1 : 0;
  CAF_CHECK_EQUAL(told, 10);
  CAF_CHECK(some.due() == begin + 10s);
  CAF_CHECK(some.take(begin + 9s).empty());
  auto more = some.take(begin + 10s);
  CAF_REQUIRE_EQUAL(more.size(), 1u);
  CAF_CHECK_EQUAL(more.front().times, 1'200u);
  CAF_CHECK(more.front().within == 10s);
  CAF_CHECK_EQUAL(more.front().example, gd::describe(failure("charge", 10)));
  CAF_CHECK(gd::describe(more.front())
              .starts_with("1200 more like it in the last 10 s, such as "
                           "instance 10: step charge"));
  CAF_MESSAGE("and the next window begins anew");
  CAF_CHECK(some.due() == clock_type::time_point::max());
  CAF_CHECK(some.note(failure(), begin + 11s));
}

CAF_TEST(few that are alike are all told however long it takes) {
  gd::alike_events some{2, 10s};
  clock_type::time_point begin{1h};
  for (int i = 0; i < 100; ++i)
    CAF_CHECK(some.note(failure(), begin + i * 5s));
  CAF_CHECK(some.take(begin + 1'000s).empty());
}

CAF_TEST(a storm hides no other event) {
  gd::alike_events some{1, 10s};
  clock_type::time_point now{1h};
  CAF_CHECK(some.note(failure("charge"), now));
  CAF_CHECK(!some.note(failure("charge"), now));
  auto other_version = failure("charge");
  other_version.version = 3;
  CAF_CHECK(some.note(other_version, now));
  CAF_CHECK(some.note(failure("ship"), now));
  CAF_CHECK(some.note(events::instance_failed{failure("charge"), "x"}, now));
  CAF_CHECK(some.note(events::turn_failed{"a", {}}, now));
  CAF_CHECK(some.note(events::turn_failed{"b", {}}, now));
  CAF_CHECK(some.note(events::sweep_failed{"leases", {}}, now));
  CAF_CHECK(some.note(events::sweep_failed{"deadlines", {}}, now));
  CAF_CHECK(!some.note(events::sweep_failed{"deadlines", {}}, now));
  CAF_CHECK_EQUAL(some.take(now, true).size(), 2u);
}

CAF_TEST(kinds without number are counted together) {
  gd::alike_events some{1, 10s};
  clock_type::time_point now{1h};
  for (int i = 0; i < 3'000; ++i)
    some.note(failure(std::to_string(i)), now);
  std::size_t left_out = 0;
  for (const auto& x : some.take(now, true))
    left_out += x.times;
  CAF_CHECK_EQUAL(left_out, 3'000u - 1'001u);
}

CAF_TEST(a storm makes few lines and none of its events is forgotten) {
  notes log;
  auto tell = gd::aggregated(log.sink(), 10, 1h);
  for (int i = 0; i < 10'001; ++i)
    tell(events::instance_failed{failure(), "enough"});
  CAF_CHECK_EQUAL(log.all<events::instance_failed>().size(), 10u);
  CAF_MESSAGE("what is still counted when the sink goes is told then");
  tell = nullptr;
  auto more = log.all<events::more_like_it>();
  CAF_REQUIRE_EQUAL(more.size(), 1u);
  CAF_CHECK_EQUAL(more.front().times, 9'991u);
}

CAF_TEST(
  what was left out is told when the storm is over and nothing else happens) {
  notes log;
  auto tell = gd::aggregated(log.sink(), 1, 20ms);
  std::size_t sent = 0;
  for (std::size_t storm = 1; storm <= 3; ++storm) {
    while (log.all<events::more_like_it>().size() < storm) {
      tell(events::instance_failed{failure(), "enough"});
      ++sent;
    }
    CAF_CHECK(log.wait_for_ends(sent));
  }
}

CAF_TEST(what is no warning is passed on whatever there is of it) {
  notes log;
  auto tell = gd::aggregated(log.sink(), 1, 1h);
  for (int i = 0; i < 100; ++i) {
    tell(events::step_started{failure(), "a/0/1"});
    tell(events::node_failed{});
    tell(events::rows_released{"default", 1});
  }
  CAF_CHECK_EQUAL(log.all<events::step_started>().size(), 100u);
  CAF_CHECK_EQUAL(log.all<events::node_failed>().size(), 100u);
  CAF_CHECK_EQUAL(log.all<events::rows_released>().size(), 100u);
}

} // namespace event_suite
