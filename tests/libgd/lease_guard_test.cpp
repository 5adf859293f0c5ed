#define CAF_SUITE lease_guard

// When a lease that is over may be taken as such.

#include <gd/engine/sweep/lease_guard.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace lease_guard_suite {

using namespace std::literals;

namespace {

using ids = std::vector<std::int64_t>;

struct fixture {
  gd::config how;
  gd::lease_guard::clock::time_point now{100h};
  std::optional<gd::lease_guard::clock::time_point> since = now - 1h;
  gd::lease_guard guard{how, [this] { return since; }};

  fixture() {
    how.lease = 60s;
    how.heartbeat = 20s;
  }

  bool may_reap() const {
    return guard.may_reap(now);
  }

  void probe(const ids& locked = {}, bool any = true) {
    guard.probed(locked, any, now);
  }

  /// It knows who is locked.
  void know() {
    probe();
    now += 3s;
    probe();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(lease_guard_tests, fixture)

CAF_TEST(nothing is reaped before it is known who is locked) {
  CAF_CHECK(!may_reap());
  probe({}, false);
  CAF_CHECK(!may_reap());
  now += 2'999ms;
  probe({}, false);
  CAF_CHECK(!may_reap());
  now += 1ms;
  CAF_CHECK(may_reap());
  guard.forget();
  CAF_CHECK(!may_reap());
}

CAF_TEST(
  what a stranger has let go is left alone until its node can extend it) {
  probe({7});
  now += 3s;
  probe({7, 8});
  CAF_CHECK(guard.locked() == (ids{7, 8}));
  now += 1s;
  probe({8});
  CAF_CHECK(guard.locked(7));
  now += 2'999ms;
  probe({8});
  CAF_CHECK(guard.locked(7));
  now += 1ms;
  probe();
  CAF_CHECK(!guard.locked(7));
  CAF_CHECK(guard.locked(8));
  now += 3s;
  probe();
  CAF_CHECK(guard.locked().empty());
}

CAF_TEST(behind a reconnect and a late answer all get a heartbeat) {
  know();
  since = now;
  CAF_CHECK(!may_reap());
  now += 20s;
  CAF_CHECK(may_reap());
  guard.answered(now - 19'999ms, now);
  CAF_CHECK(may_reap());
  guard.answered(now - 20s, now);
  CAF_CHECK(!guard.may_probe(now));
  CAF_CHECK(!may_reap());
  now += 20s;
  CAF_CHECK(may_reap());
  since.reset();
  CAF_CHECK(!guard.may_probe(now));
}

CAF_TEST(a process that stood still does not know who was locked) {
  know();
  CAF_CHECK_EQUAL(guard.pause(10s, now).count(), 10'000);
  now += 10s + 30s;
  guard.begin(now);
  CAF_CHECK(guard.knows_locks(now));
  now += 1ms;
  guard.begin(now);
  CAF_CHECK(!guard.knows_locks(now));
}

CAF_TEST(where heartbeats wait for a standby a probe has to be recent) {
  know();
  guard.note_standby(true);
  CAF_CHECK(may_reap());
  now += 40s;
  CAF_CHECK(may_reap());
  now += 1ms;
  CAF_CHECK(!may_reap());
  CAF_MESSAGE("and behind one that is not all get a heartbeat");
  probe();
  CAF_CHECK(!may_reap());
  now += 20s;
  probe();
  CAF_CHECK(may_reap());
  CAF_MESSAGE("what finds no lease does not wait for any");
  now += 21s;
  probe({}, false);
  now += 20s;
  CAF_CHECK(!may_reap());
}

CAF_TEST(the next probe comes as soon as it is needed) {
  CAF_CHECK_EQUAL(guard.pause(60s, now).count(), 60'000);
  probe();
  now += 1s;
  CAF_CHECK_EQUAL(guard.pause(60s, now).count(), 2'000);
  CAF_CHECK_EQUAL(guard.pause(1s, now).count(), 1'000);
  now += 2s;
  CAF_CHECK_EQUAL(guard.pause(60s, now).count(), 60'000);
  guard.probe_soon();
  CAF_CHECK_EQUAL(guard.pause(60s, now).count(), 20'000);
  CAF_CHECK_EQUAL(guard.pause(60s, now).count(), 60'000);
  guard.probe_soon();
  guard.note_standby(true);
  CAF_CHECK_EQUAL(guard.pause(60s, now).count(), 10'000);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace lease_guard_suite
