#define CAF_SUITE crash_sweep

// Suspects of whose crashes another row is known to be guilty.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/crash_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace crash_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

constexpr auto page = "exonerate | ";

struct fixture : gd::test::swept_database {
  gd::crash_sweep sweep{here, "leases"};

  /// So many, each charged with the ends of two processes, of which that is known.
  void insert_suspects(int n) {
    insert(n);
    db.rows("update gen_durable set attempt = 2, crashes = 2, crashed_in = "
            "'{1,2}'; insert into gen_durable_crashes (process, instance_id, "
            "known, open) values (1, 99, true, true), (2, 99, true, true)");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(crash_sweep_tests, fixture)

CAF_TEST(where no crash is known nothing is done) {
  insert(1);
  db.rows("update gen_durable set crashes = 2, crashed_in = '{1,2}'");
  CAF_CHECK_EQUAL(round(sweep), "open_crashes | ");
}

CAF_TEST(suspects are exonerated page by page and their queues are woken) {
  how.queues = {{"default"}, {"other"}};
  insert_suspects(1'200);
  CAF_CHECK_EQUAL(round(sweep), "open_crashes | "s + page + page);
  auto exonerated = all<events::exonerated>();
  CAF_REQUIRE_EQUAL(exonerated.size(), 1u);
  CAF_CHECK_EQUAL(exonerated.front().rows, 1'200u);
  CAF_CHECK_EQUAL(woken, "default other ");
  CAF_CHECK_EQUAL(count("crashes = 0 and excused = 2"), "1200");
  CAF_CHECK_EQUAL(round(sweep), "open_crashes | ");
  CAF_CHECK_EQUAL(all<events::exonerated>().size(), 1u);
}

CAF_TEST(what is left when the time is over waits for the next round) {
  insert_suspects(1'200);
  takes = 20s;
  CAF_CHECK_EQUAL(round(sweep), "open_crashes | "s + page);
  CAF_CHECK_EQUAL(count("crashes = 0"), "1000");
  CAF_CHECK_EQUAL(round(sweep), "open_crashes | "s + page);
  CAF_CHECK_EQUAL(count("crashes = 0"), "1200");
}

CAF_TEST(a page that fails is told and not the end of the round) {
  insert_suspects(1);
  fail("exonerate", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), "open_crashes | "s + page);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
  CAF_CHECK(all<events::exonerated>().empty());
  failing.clear();
  round(sweep);
  CAF_CHECK_EQUAL(count("crashes = 0"), "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace crash_sweep_suite
