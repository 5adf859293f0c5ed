#define CAF_SUITE expiry_sweep

// Instances whose time is over: deleted in pages, by one node, whatever refers to some.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/expiry_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace expiry_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

constexpr auto probe = "sweep_lock expired | ";
constexpr auto erase = "lock_timeout erase | ";

struct fixture : gd::test::swept_database {
  gd::expiry_sweep sweep{here, "ended"};

  void insert_ended(int n) {
    db.rows("insert into gen_durable (fsm, step, status, expires_at) select "
            "'Probe', 'first', 'done', now() - interval '1 s' from "
            "generate_series(1, $1::int)",
            {std::to_string(n)});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(expiry_sweep_tests, fixture)

CAF_TEST(pages are deleted and there may soon be more) {
  insert_ended(1'500);
  CAF_CHECK_EQUAL(sweep.interval().count(), 30'000);
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + erase + probe + erase);
  CAF_CHECK_EQUAL(count("true"), "0");
  auto told_of = all<events::instances_deleted>();
  CAF_REQUIRE_EQUAL(told_of.size(), 1u);
  CAF_CHECK_EQUAL(told_of.front().deleted, 1'500u);
  CAF_CHECK(sweep.found());
  CAF_CHECK_EQUAL(sweep.interval().count(), 1'000);
  CAF_CHECK_EQUAL(round(sweep), probe);
  CAF_CHECK(!sweep.found());
  CAF_CHECK_EQUAL(sweep.interval().count(), 30'000);
  CAF_CHECK_EQUAL(all<events::instances_deleted>().size(), 1u);
}

CAF_TEST(another node does it) {
  insert_ended(1);
  gd::test::session another{db.conninfo()};
  another.exec("select pg_advisory_lock(hashtext('gen_durable expiry'), "
               "hashtext('public'))");
  CAF_CHECK_EQUAL(round(sweep), probe);
  CAF_CHECK_EQUAL(count("true"), "1");
  another.exec("select pg_advisory_unlock_all()");
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + erase);
  CAF_CHECK_EQUAL(count("true"), "0");
}

CAF_TEST(what something refers to is found by halves and put off) {
  insert_ended(8);
  db.rows("create table app_orders (instance bigint references gen_durable);"
          "insert into app_orders values (3)");
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + erase + erase + erase + erase
                                  + erase + "put_off | " + erase + erase);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(id::text, ' ') from "
                            "gen_durable where expires_at > now()"),
                  "3");
  auto told_of = all<events::instances_deleted>();
  CAF_REQUIRE_EQUAL(told_of.size(), 1u);
  CAF_CHECK_EQUAL(told_of.front().deleted, 7u);
  CAF_CHECK_EQUAL(told_of.front().put_off, 1u);
  CAF_CHECK_EQUAL(all<events::row_refused>().size(), 1u);
  CAF_CHECK(all<events::sweep_failed>().empty());
}

CAF_TEST(what cannot even be put off holds up nobody) {
  insert_ended(2);
  fail("erase", errc::busy);
  fail("put_off", errc::rejected);
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + erase + erase + "put_off | "
                                  + erase + "put_off | ");
  CAF_CHECK(all<events::row_refused>().empty());
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 2u);
}

CAF_TEST(what is left when the time is over waits for the next round) {
  insert_ended(1'500);
  takes = 10s;
  CAF_CHECK_EQUAL(round(sweep), probe + ""s + erase + probe);
  CAF_CHECK_EQUAL(count("true"), "500");
  takes = 0s;
  round(sweep);
  CAF_CHECK_EQUAL(count("true"), "0");
}

CAF_TEST(a probe that fails ends the round and is told) {
  insert_ended(1);
  fail("expired", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), probe + "last"s);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
  CAF_CHECK(!sweep.found());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace expiry_sweep_suite
