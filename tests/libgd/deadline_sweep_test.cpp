#define CAF_SUITE deadline_sweep

// Rows whose deadline has passed, and all whose unique key might be another's.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/deadline_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace deadline_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

constexpr auto batch = "wake_due returning | ";
constexpr auto one = "lock_timeout return_row | ";

struct fixture : gd::test::swept_database {
  gd::deadline_sweep sweep{here, "deadlines"};

  /// So many whose deadline has passed, from id 1 on.
  void insert_due(int n) {
    insert(n);
    db.rows("update gen_durable set status = 'awaiting_signal', awaits = 'x', "
            "deadline = now() - interval '1 s'");
  }

  /// Each has a unique key, and its wake-up is owed to it, or its lease is over.
  void insert_owed(int parked, int expired) {
    insert(parked + expired);
    db.rows("update gen_durable set status = 'awaiting_signal', awaits = 'x', "
            "wake_reason = 'timeout', unique_key = int8send(id), unique_scope "
            "= '{runnable}' where id <= $1",
            {std::to_string(parked)});
    db.rows("update gen_durable set status = 'executing', locked_by = 'b/0/1', "
            "lease_expires_at = now() - interval '1 s', unique_key = "
            "int8send(id), unique_scope = '{runnable}' where id > $1",
            {std::to_string(parked)});
  }

  static std::string times(int n, const std::string& what) {
    std::string out;
    for (int i = 0; i < n; ++i)
      out += what;
    return out;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(deadline_sweep_tests, fixture)

CAF_TEST(rows are woken in batches) {
  insert_due(1'500);
  CAF_CHECK_EQUAL(sweep.interval().count(), 1'000);
  CAF_CHECK_EQUAL(round(sweep), times(2, batch));
  CAF_CHECK(sweep.found());
  auto fired = all<events::deadlines_fired>();
  CAF_REQUIRE_EQUAL(fired.size(), 2u);
  CAF_CHECK_EQUAL(fired.front().rows, 1'000u);
  CAF_CHECK_EQUAL(fired.back().rows, 500u);
  CAF_CHECK_EQUAL(woken, "default default ");
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1500");
  CAF_CHECK_EQUAL(round(sweep), batch);
  CAF_CHECK(!sweep.found());
}

CAF_TEST(rows with unique keys are returned one by one page by page) {
  insert_owed(25, 0);
  CAF_CHECK_EQUAL(round(sweep),
                  batch + times(20, one) + "returning | " + times(5, one));
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "25");
  CAF_CHECK(sweep.found());
  auto returned = all<events::returned>();
  CAF_REQUIRE_EQUAL(returned.size(), 1u);
  CAF_CHECK_EQUAL(returned.front().runnable, 25u);
}

CAF_TEST(leases that are over are returned only where that is allowed) {
  insert_owed(1, 2);
  CAF_CHECK_EQUAL(round(sweep), batch + times(1, one));
  CAF_CHECK_EQUAL(count("status = 'executing'"), "2");
  know_locks();
  here.leases.probed({3}, true, now);
  CAF_CHECK_EQUAL(round(sweep), batch + times(2, one));
  CAF_CHECK_EQUAL(count("status = 'executing' and id = 3"), "1");
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
}

CAF_TEST(a round goes on where the last one was out of time) {
  insert_owed(45, 0);
  takes = 40ms;
  CAF_CHECK_EQUAL(round(sweep),
                  batch + times(20, one) + "returning | " + times(3, one));
  takes = 0s;
  CAF_CHECK_EQUAL(round(sweep), batch + times(5, one));
  CAF_CHECK_EQUAL(round(sweep), batch + times(17, one));
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "45");
}

CAF_TEST(who has the key blocks a row) {
  insert_owed(2, 0);
  db.rows("insert into gen_durable (fsm, step, unique_key, unique_scope) "
          "values ('Probe', 'first', int8send(1), '{runnable}')");
  round(sweep);
  auto returned = all<events::returned>();
  CAF_REQUIRE_EQUAL(returned.size(), 1u);
  CAF_CHECK_EQUAL(returned.front().runnable, 1u);
  CAF_CHECK_EQUAL(returned.front().blocked, 1u);
}

CAF_TEST(a batch that is refused is listed and returned row by row) {
  insert_due(3);
  refuse("new.id = 2");
  CAF_CHECK_EQUAL(round(sweep),
                  batch + "due | "s + times(3, one) + "returning | ");
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "2");
  CAF_CHECK_EQUAL(all<events::row_refused>().size(), 1u);
  CAF_CHECK(all<events::sweep_failed>().empty());
}

CAF_TEST(what fails but for a row ends the round and is told) {
  insert_due(1);
  fail("wake_due", errc::rejected);
  fail("due", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), batch + "due | last"s);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
  failing.clear();
  fail("wake_due", errc::rejected);
  fail("returning", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), batch + "due | "s + one + "returning | last");
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 2u);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace deadline_sweep_suite
