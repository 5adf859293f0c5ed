#define CAF_SUITE ended_sweep

// Leases under which nothing executes any more.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/ended_sweep.hpp>
#include <gd/store/lease.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace ended_sweep_suite {

using namespace std::literals;

namespace store = gd::store;

namespace {

constexpr auto page = "end_leases | ";

struct fixture : gd::test::swept_database {
  gd::ended_sweep sweep{here, "deadlines"};

  /// So many picks, each of so many rows.
  void pick(int picks, int rows) {
    insert(picks * rows);
    for (int n = 0; n < picks; ++n)
      CAF_REQUIRE(engine
                    ->run({{store::pick({.queue = "default",
                                         .limit = rows,
                                         .machines = {{"Probe", 1}},
                                         .token = "b/0/" + std::to_string(n),
                                         .lease = 60s})}})
                    .ok());
  }

  /// The first probes are due.
  void elapse() {
    db.rows("update gen_durable_leases set expires_at = expires_at - "
            "interval '2 s'");
  }

  void end(const std::string& which) {
    db.rows("update gen_durable set status = 'done', result = '{}', locked_by "
            "= null, lease_expires_at = null where "
            + which);
  }

  std::string leases(const std::string& what) {
    return db.scalar("select " + what + " from gen_durable_leases");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(ended_sweep_tests, fixture)

CAF_TEST(what has ended is looked at soon after its pick and not before) {
  pick(3, 10);
  end("true");
  CAF_CHECK_EQUAL(round(sweep), page);
  CAF_CHECK_EQUAL(leases("count(*)"), "3");
  CAF_CHECK(!sweep.found());
  CAF_CHECK_EQUAL(sweep.pause(1s, now), 1s);
  elapse();
  CAF_CHECK_EQUAL(round(sweep), page);
  CAF_CHECK(sweep.found()); // or the next would come later and later
  CAF_CHECK_EQUAL(sweep.pause(1s, now), 250ms);
  CAF_CHECK_EQUAL(sweep.pause(100ms, now), 100ms);
  CAF_CHECK_EQUAL(leases("count(*)"), "0");
}

CAF_TEST(what still executes stays until the first of it may end) {
  pick(1, 10);
  end("id <> 3");
  elapse();
  round(sweep);
  CAF_CHECK_EQUAL(leases("ids"), "{3}");
  CAF_CHECK_EQUAL(leases("expires_at = (select lease_expires_at from "
                         "gen_durable where id = 3)"),
                  "t");
}

CAF_TEST(a lease that is over is left to who returns its rows) {
  pick(1, 2);
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s'");
  elapse();
  round(sweep);
  CAF_CHECK_EQUAL(leases("cardinality(ids)"), "2");
  auto reaped = store::read<store::reaped_row>(
    engine->run({{store::reap(10)}}).results.front());
  CAF_CHECK_EQUAL(reaped.size(), 2u);
  round(sweep);
  CAF_CHECK_EQUAL(leases("count(*)"), "0");
}

CAF_TEST(what is over and cannot be returned hides nothing behind it) {
  pick(450, 1);
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
          "where id <= 440");
  end("id > 440");
  elapse();
  CAF_CHECK_EQUAL(round(sweep), page + ""s + page + page);
  CAF_CHECK_EQUAL(leases("count(*)"), "440");
}

CAF_TEST(a full page is followed by the next at once) {
  pick(250, 1);
  end("true");
  elapse();
  CAF_CHECK_EQUAL(round(sweep), page + ""s + page);
  CAF_CHECK_EQUAL(leases("count(*)"), "0");
}

CAF_TEST(a probe that fails is told) {
  fail("end_leases", gd::errc::sql);
  CAF_CHECK_EQUAL(round(sweep), page + "last"s);
  CAF_CHECK_EQUAL(all<gd::events::sweep_failed>().size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace ended_sweep_suite
