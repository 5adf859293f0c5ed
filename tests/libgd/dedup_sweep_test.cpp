#define CAF_SUITE dedup_sweep

// Dedup keys that are old enough to be forgotten.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/dedup_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace dedup_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

constexpr auto page = "forget_dedup | ";

struct fixture : gd::test::swept_database {
  gd::dedup_sweep sweep{here, "leases"};

  fixture() {
    insert(1);
    db.rows("insert into gen_durable_machines (fsm, version, initial_step, "
            "queue, steps, forget_dedup_after) values ('Probe', 1, 'first', "
            "'default', '{first}', '1 h')");
  }

  void insert_signals(int n, const std::string& consumed) {
    db.rows("insert into gen_durable_signals (target_id, name, dedup_key, "
            "inserted_at, "
            "consumed_at) select 1, 'paid', gen_random_uuid(), now() - "
            "interval '3 h', now() - $2::interval from generate_series(1, "
            "$1::int)",
            {std::to_string(n), consumed});
  }

  std::string left() {
    return db.scalar(
      "select count(*) from gen_durable_signals where dedup_key is not "
      "null");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(dedup_sweep_tests, fixture)

CAF_TEST(pages that forget something follow each other) {
  insert_signals(12'000, "2 h");
  CAF_CHECK_EQUAL(round(sweep), page + ""s + page + page);
  CAF_CHECK_EQUAL(left(), "0");
}

CAF_TEST(a page that forgets nothing is the last of its round) {
  insert_signals(6'000, "1 min");
  insert_signals(1'000, "2 h");
  CAF_CHECK_EQUAL(round(sweep), page);
  CAF_CHECK_EQUAL(left(), "7000");
  CAF_CHECK_EQUAL(round(sweep), page);
  CAF_CHECK_EQUAL(left(), "6000");
  CAF_CHECK_EQUAL(round(sweep), page);
}

CAF_TEST(there is an end to the pages of a round) {
  insert_signals(6'000, "2 h");
  sweep.start(now);
  auto what = sweep.begin(now);
  CAF_REQUIRE(what.work);
  auto full = answer(*what.work);
  int pages = 0;
  for (; what.work; ++pages)
    what = sweep.finish(full, now);
  CAF_CHECK_EQUAL(pages, 20);
  CAF_CHECK(!what.last);
}

CAF_TEST(a page that fails is told and not the end of the round) {
  insert_signals(1, "2 h");
  fail("forget_dedup", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), page);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
  failing.clear();
  round(sweep);
  CAF_CHECK_EQUAL(left(), "0");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace dedup_sweep_suite
