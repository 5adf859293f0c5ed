#define CAF_SUITE served_sweep

// Which machines are served, and what waits for nobody.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/served_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace served_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

constexpr auto unit = "lock_timeout machines_lock mark_served not_served | ";

struct fixture : gd::test::swept_database {
  gd::served_sweep sweep{here, "leases"};
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(served_sweep_tests, fixture)

CAF_TEST(what waits for nobody is told and again after a minute) {
  insert(2);
  CAF_CHECK_EQUAL(round(sweep), unit);
  CAF_REQUIRE_EQUAL(not_served.size(), 1u);
  CAF_CHECK_EQUAL(not_served.front().fsm, "Probe");
  CAF_CHECK_EQUAL(not_served.front().queue, "default");
  now += 59s;
  round(sweep);
  CAF_CHECK_EQUAL(not_served.size(), 1u);
  now += 1s;
  round(sweep);
  CAF_CHECK_EQUAL(not_served.size(), 2u);
}

CAF_TEST(a machine that nobody serves any more is marked) {
  db.rows("insert into gen_durable_machines (fsm, version, initial_step, "
          "queue, steps, served) values ('Probe', 1, 'first', 'default', "
          "'{first}', true)");
  round(sweep);
  CAF_CHECK_EQUAL(db.scalar("select served from gen_durable_machines"), "f");
}

CAF_TEST(a node that registers itself comes first and other failures are told) {
  fail("machines_lock", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), unit);
  CAF_CHECK(all<events::sweep_failed>().empty());
  fail("machines_lock", errc::rejected);
  CAF_CHECK_EQUAL(round(sweep), unit);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace served_sweep_suite
