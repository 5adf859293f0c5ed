#define CAF_SUITE lease_sweep

// Rows whose lease is over: looked at first, reaped together, or one by one.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/lease_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace lease_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

namespace {

struct fixture : gd::test::swept_database {
  gd::lease_sweep sweep{here, "leases"};

  /// So many whose lease is over, from id 1 on.
  void insert_expired(int n) {
    insert(n);
    db.rows("update gen_durable set status = 'executing', locked_by = "
            "'b/0/1', lease_expires_at = now() - interval '1 s'");
  }
};

constexpr auto probe = "locked_leases | ";

} // namespace

CAF_TEST_FIXTURE_SCOPE(lease_sweep_tests, fixture)

CAF_TEST(who is locked is looked at in pages and rows are reaped in batches) {
  insert_expired(1'500);
  CAF_CHECK_EQUAL(round(sweep), "locked_leases | locked_leases | ");
  CAF_CHECK_EQUAL(sweep.pause(30s, now).count(), 3'000);
  now += 3s;
  CAF_CHECK_EQUAL(round(sweep),
                  "locked_leases | locked_leases | reap | reap | ");
  CAF_CHECK(sweep.found());
  auto reaped = all<events::reaped>();
  CAF_REQUIRE_EQUAL(reaped.size(), 2u);
  CAF_CHECK_EQUAL(reaped.front().rows, 1'000u);
  CAF_CHECK_EQUAL(reaped.back().rows, 500u);
  CAF_CHECK_EQUAL(woken, "default default ");
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 1"), "1500");
  CAF_CHECK_EQUAL(round(sweep), "locked_leases | reap | ");
  CAF_CHECK(!sweep.found());
}

CAF_TEST(what strangers have locked is left alone) {
  insert_expired(3);
  gd::test::session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = 2 for update");
  round(sweep);
  now += sweep.pause(30s, now);
  round(sweep);
  stranger.exec("rollback");
  round(sweep);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "1");
  now += 3s;
  round(sweep);
  CAF_CHECK_EQUAL(count("status = 'executing'"), "0");
}

CAF_TEST(without a connection for a heartbeat the round ends with its probe) {
  insert_expired(1);
  know_locks();
  since = now - 19s;
  CAF_CHECK_EQUAL(round(sweep), probe + "last"s);
  CAF_CHECK_EQUAL(sweep.pause(30s, now).count(), 20'000);
  now += 1s;
  CAF_CHECK_EQUAL(round(sweep), probe + "reap | "s);
}

CAF_TEST(a batch that is refused is returned row by row) {
  insert_expired(4);
  know_locks();
  refuse("new.id = 2");
  CAF_CHECK_EQUAL(round(sweep), probe
                                  + "reap | lock_timeout return_row | "
                                    "lock_timeout return_row | lock_timeout "
                                    "return_row | lock_timeout return_row | "s);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "3");
  CAF_CHECK(sweep.found());
  auto returned = all<events::returned>();
  CAF_REQUIRE_EQUAL(returned.size(), 1u);
  CAF_CHECK_EQUAL(returned.front().runnable, 3u);
  CAF_CHECK_EQUAL(returned.front().refused, 1u);
  CAF_CHECK_EQUAL(all<events::row_refused>().size(), 1u);
  CAF_CHECK(all<events::sweep_failed>().empty());
  auto news = refused.news(now);
  CAF_REQUIRE(news);
  CAF_CHECK_EQUAL(news->front().id, 2);
  CAF_MESSAGE("what comes to nothing is not told again at once");
  CAF_CHECK_EQUAL(round(sweep), probe + "reap | lock_timeout return_row | "s);
  CAF_CHECK_EQUAL(all<events::returned>().size(), 2u);
  round(sweep);
  CAF_CHECK_EQUAL(all<events::returned>().size(), 2u);
  CAF_CHECK_EQUAL(all<events::row_refused>().size(), 1u);
}

CAF_TEST(rows are returned one by one for no longer than an interval) {
  insert_expired(10);
  know_locks();
  fail("reap", errc::rejected);
  takes = 10s;
  CAF_CHECK_EQUAL(round(sweep), probe + "reap | lock_timeout return_row | "s);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
}

CAF_TEST(a row that is locked is no failure) {
  insert_expired(2);
  know_locks();
  fail("reap", errc::rejected);
  fail("return_row", errc::busy);
  round(sweep);
  CAF_CHECK(!sweep.found());
  auto returned = all<events::returned>();
  CAF_REQUIRE_EQUAL(returned.size(), 1u);
  CAF_CHECK_EQUAL(returned.front().blocked, 2u);
  CAF_CHECK(all<events::row_refused>().empty());
  CAF_CHECK(all<events::sweep_failed>().empty());
}

CAF_TEST(a round that is cut off among single rows is followed by one like it) {
  insert_expired(2);
  know_locks();
  refuse("new.id = 2");
  sweep.start(now);
  auto what = sweep.begin(now);
  for (int i = 0; i < 2; ++i) {
    CAF_REQUIRE(what.work);
    what = sweep.finish(answer(*what.work), now);
  }
  CAF_REQUIRE(what.work);
  CAF_CHECK_EQUAL(names(*what.work), "lock_timeout return_row ");
  sweep.forget();
  CAF_CHECK_EQUAL(round(sweep), probe); // who is locked is not known
  now += sweep.pause(30s, now);
  round(sweep);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  CAF_CHECK(all<events::sweep_failed>().empty());
}

CAF_TEST(a probe that fails ends the round and is told) {
  know_locks();
  fail("locked_leases", errc::busy);
  CAF_CHECK_EQUAL(round(sweep), probe + "last"s);
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace lease_sweep_suite
