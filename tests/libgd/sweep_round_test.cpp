#define CAF_SUITE sweep_round

// Sweeps that follow one another: in which order, who is left out, and when the next round
// begins.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/deadline_sweep.hpp>
#include <gd/engine/sweep/lease_sweep.hpp>
#include <gd/engine/sweep/served_sweep.hpp>
#include <gd/engine/sweep/session_sweep.hpp>
#include <gd/engine/sweep/sweep_round.hpp>

#include <caf/test/dsl.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sweep_round_suite {

using namespace std::literals;

namespace events = gd::events;
namespace store = gd::store;
using gd::errc;

namespace {

/// Says what is asked of it. It has as many units as it is told to.
struct probe : gd::sweep {
  using gd::sweep::sweep;

  std::string log;
  int units = 0;
  bool prepares = false;
  bool finds = false;
  bool ends_round = false;

  static gd::pq::unit unit() {
    return {{store::open_crashes()}, false};
  }

  next go_on() {
    if (units-- > 0)
      return {unit()};
    found_ = finds;
    return {.last = ends_round};
  }

  void prepare(gd::pq::unit& work) override {
    if (prepares)
      ask(work, store::open_crashes());
  }
  void prepared(const gd::pq::reply& reply, clock::time_point) override {
    if (prepares)
      log += "prepared " + std::to_string(reply.results.at(at_).size()) + ' ';
  }
  next begin(clock::time_point) override {
    log += "begin ";
    return go_on();
  }
  next finish(const gd::pq::reply& reply, clock::time_point) override {
    log += reply.ok() ? "ok " : "failed ";
    return go_on();
  }
  void forget() override {
    log += "forget ";
  }
};

struct fixture : gd::test::swept_database {
  std::shared_ptr<probe> first = std::make_shared<probe>(here, "first");
  std::shared_ptr<probe> second = std::make_shared<probe>(here, "first");
  std::shared_ptr<probe> third = std::make_shared<probe>(here, "first");
  gd::sweep_round round{here, {first, second, third}};

  std::string whole(gd::sweep_round& of) {
    std::string out;
    for (auto work = of.begin(now); work;) {
      out += names(*work) + "| ";
      auto reply = answer(*work);
      work = of.finish(reply, now);
    }
    return out;
  }

  static gd::pq::reply failed(errc code) {
    return {.results = {}, .failure = gd::error{code, "by the test", {}}};
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(sweep_round_tests, fixture)

CAF_TEST(one begins when the one before has ended) {
  first->units = 2;
  third->units = 1;
  CAF_CHECK_EQUAL(whole(round),
                  "open_crashes | open_crashes | open_crashes | ");
  CAF_CHECK_EQUAL(first->log, "begin ok ok ");
  CAF_CHECK_EQUAL(second->log, "begin ");
  CAF_CHECK_EQUAL(third->log, "begin ok ");
}

CAF_TEST(those behind the first prepare together when that has ended) {
  db.rows("insert into gen_durable_crashes (process, instance_id, known, open) "
          "values (1, 99, true, true)");
  first->units = 1;
  second->prepares = third->prepares = true;
  third->units = 1;
  CAF_CHECK_EQUAL(whole(round),
                  "open_crashes | open_crashes open_crashes | open_crashes | ");
  CAF_CHECK_EQUAL(second->log, "prepared 1 begin ");
  CAF_CHECK_EQUAL(third->log, "prepared 1 begin ok ");
}

CAF_TEST(a probe that fails ends the round and is told) {
  second->prepares = true;
  fail("open_crashes", errc::busy);
  CAF_CHECK_EQUAL(whole(round), "open_crashes | ");
  CAF_CHECK_EQUAL(second->log, "");
  CAF_CHECK_EQUAL(third->log, "");
  auto told_of = all<events::sweep_failed>();
  CAF_REQUIRE_EQUAL(told_of.size(), 1u);
  CAF_CHECK_EQUAL(told_of.front().what, "first");
}

CAF_TEST(a sweep may end its round) {
  second->ends_round = true;
  whole(round);
  CAF_CHECK_EQUAL(second->log, "begin ");
  CAF_CHECK_EQUAL(third->log, "");
}

CAF_TEST(who is refused goes on and who is cut off does not ) {
  first->units = 1;
  CAF_REQUIRE(round.begin(now));
  CAF_CHECK(!round.finish(failed(errc::rejected), now));
  CAF_CHECK_EQUAL(first->log, "begin failed ");
  CAF_CHECK_EQUAL(second->log, "begin ");
  CAF_CHECK(all<events::sweep_failed>().empty()); // it is the sweep's to tell
  for (auto code : {errc::stopped, errc::unavailable, errc::unknown_fate}) {
    first->units = 1;
    CAF_CHECK(gd::sweep_round::is_cut_off({code, {}, {}}));
    CAF_REQUIRE(round.begin(now));
    CAF_CHECK(!round.finish(failed(code), now));
  }
  CAF_CHECK_EQUAL(first->log, "begin failed begin begin begin ");
  CAF_CHECK_EQUAL(second->log, "begin ");
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u); // unknown fate
  round.forget();
  CAF_CHECK_EQUAL(second->log, "begin forget ");
}

CAF_TEST(pauses grow while nothing is found) {
  how.sweep_backoff = 3;
  CAF_CHECK_EQUAL(round.wait(0.5).count(), 45'000);
  auto pause = [this] {
    whole(round);
    return round.pause(0, now).count();
  };
  CAF_CHECK_EQUAL(pause(), 60'000);
  CAF_CHECK_EQUAL(pause(), 90'000);
  CAF_CHECK_EQUAL(pause(), 90'000);
  first->finds = true;
  CAF_CHECK_EQUAL(pause(), 30'000);
  auto told_of = all<events::sweep_ended>();
  CAF_REQUIRE_EQUAL(told_of.size(), 4u);
  CAF_CHECK_EQUAL(told_of.front().what, "first");
}

CAF_TEST(an answer that came late counts for leases) {
  know_locks();
  takes = 20s;
  first->units = 1;
  CAF_CHECK(here.leases.may_reap(now));
  whole(round);
  CAF_CHECK(!here.leases.may_reap(now));
}

CAF_TEST(where one node sweeps for all others end sessions of the silent alone) {
  how.single_sweeper = true;
  gd::sweep_round leases{here,
                         {std::make_shared<gd::lease_sweep>(here, "leases"),
                          std::make_shared<gd::session_sweep>(here, "leases"),
                          std::make_shared<gd::served_sweep>(here, "leases")}};
  gd::sweep_round deadlines{
    here, {std::make_shared<gd::deadline_sweep>(here, "deadlines")}};
  know_locks();
  auto rest = "silent_sessions | lock_timeout machines_lock "
              "mark_served not_served | "s;
  CAF_CHECK_EQUAL(whole(leases), "sweep_lock | locked_leases | reap | " + rest);
  CAF_CHECK_EQUAL(whole(deadlines), "sweep_lock | wake_due returning | ");
  CAF_CHECK(all<events::sweep_skipped>().empty());
  auto* ours = engine;
  engine = &connect();
  CAF_CHECK_EQUAL(whole(leases), "sweep_lock | " + rest);
  CAF_CHECK(!here.leases.knows_locks(now));
  CAF_CHECK_EQUAL(whole(deadlines), "sweep_lock | ");
  CAF_CHECK_EQUAL(all<events::sweep_skipped>().size(), 2u);
  engine = ours;
  fail("sweep_lock", errc::busy);
  CAF_CHECK_EQUAL(whole(leases), "sweep_lock | ");
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace sweep_round_suite
