#define CAF_SUITE session_sweep

// Sessions of nodes that are silent for longer than their lease.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/session_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <memory>
#include <string>

namespace session_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

constexpr auto probe = "silent_sessions | ";
constexpr auto end = "end_silent_session | ";

struct fixture : gd::test::swept_database {
  gd::session_sweep sweep{here, "leases"};
  gd::test::session stopped{db.conninfo()};

  std::string lives() {
    return db.scalar("select count(*) from pg_stat_activity where pid = $1",
                     {std::to_string(stopped.pid())});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(session_sweep_tests, fixture)

CAF_TEST(who is silent gets another heartbeat) {
  db.add_silent_node("b/0", stopped.pid());
  CAF_CHECK_EQUAL(round(sweep), probe);
  CAF_CHECK_EQUAL(here.leases.pause(30s, now).count(), 20'000);
  now += 20s - 1ms;
  CAF_CHECK_EQUAL(round(sweep), probe);
  now += 1ms;
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + end);
  db.wait_until("select count(*) from pg_stat_activity where pid = "
                  + std::to_string(stopped.pid()),
                "0");
  auto ended = all<events::sessions_ended>();
  CAF_REQUIRE_EQUAL(ended.size(), 1u);
  CAF_CHECK_EQUAL(ended.front().count, 1u);
}

CAF_TEST(whoever has been cut off itself waits for as long again) {
  db.add_silent_node("b/0", stopped.pid());
  round(sweep);
  now += 20s;
  sweep.forget();
  CAF_CHECK_EQUAL(round(sweep), probe);
  now += 20s;
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + end);
}

CAF_TEST(a session that cannot be ended is told once) {
  gd::test::temporary_role other{db};
  db.add_silent_node("b/0", stopped.pid());
  auto how_to = db.options();
  other.admin.exec("grant all on all tables in schema public to "
                   + gd::test::quoted_name(other.name));
  how_to.database = db.conninfo(other.name);
  auto by_other = std::make_unique<gd::pq::connection>(how_to);
  CAF_REQUIRE(by_other->wait_ready());
  engine = by_other.get();
  CAF_CHECK_EQUAL(round(sweep), probe);
  CAF_CHECK_EQUAL(round(sweep), probe);
  auto told_of = all<events::sessions_not_ended>();
  CAF_REQUIRE_EQUAL(told_of.size(), 1u);
  CAF_CHECK_EQUAL(told_of.front().node, "silent");
}

CAF_TEST(an attempt that fails is told and not the end of the round) {
  gd::test::session another{db.conninfo()};
  db.add_silent_node("b/0", stopped.pid());
  db.add_silent_node("c/0", another.pid());
  round(sweep);
  now += 20s;
  fail("end_silent_session", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + end + end);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 2u);
  CAF_CHECK(all<events::sessions_ended>().empty());
  CAF_CHECK_EQUAL(lives(), "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace session_sweep_suite
