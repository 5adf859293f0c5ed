// Whether anything may begin in a queue, and why not.

#define CAF_SUITE gate

#include <gd/engine/queue/gate.hpp>
#include <gd/machine.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gate_suite {

using namespace std::literals;
using gd::gate;
using reason = gate::reason;

GD_ENUM(crate_phase, pack);

struct crate {
  std::int64_t number = 0;

  GD_STATE(crate, number);
};

namespace {

gd::machine crates(std::int32_t version) {
  return gd::define<crate, crate_phase>("Crate", version)
    .step(crate_phase::pack, [](gd::context<crate>&) { return gd::done(); });
}

std::vector<gd::machine> both_versions() {
  std::vector<gd::machine> xs;
  xs.push_back(crates(1));
  xs.push_back(crates(2));
  return xs;
}

struct fixture {
  std::shared_ptr<const gd::registry> machines
    = std::make_shared<const gd::registry>(both_versions());
  std::shared_ptr<gd::quarantine> suspects = std::make_shared<gd::quarantine>();
  gate under_test{
    {.slots = 4, .max_crashes = 5, .machines = machines, .suspects = suspects}};
  gd::store::picked_row row{.id = 1, .fsm = "Crate", .fsm_version = 1};

  fixture() {
    suspects->enter("default", 4, 20s, [] {});
  }

  void begin_trial() {
    suspects->begin_pick("default", {});
    CAF_REQUIRE(suspects->picked("default", {{7, 9}}, {}));
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(gate_tests, fixture)

CAF_TEST(nothing begins in a queue that drains or is paused) {
  CAF_CHECK(!under_test.why_not_pick());
  CAF_CHECK(!under_test.why_not_begin(row));
  CAF_CHECK(!under_test.pause(true));
  CAF_CHECK(under_test.why_not_pick() == reason::paused);
  CAF_CHECK(under_test.why_not_claim() == reason::paused);
  CAF_CHECK(under_test.why_not_begin(row) == reason::paused);
  CAF_CHECK(under_test.why_not_begin(row, true) == reason::paused);
  CAF_CHECK(under_test.pause(false));
  CAF_CHECK(!under_test.why_not_begin(row));
  CAF_CHECK(!under_test.why_not_claim());
  under_test.drain();
  CAF_CHECK(under_test.why_not_pick() == reason::draining);
  CAF_CHECK(under_test.why_not_begin(row) == reason::draining);
  CAF_CHECK(under_test.why_not_begin(row, true) == reason::draining);
}

CAF_TEST(beside a trial nothing begins but what is on trial) {
  begin_trial();
  CAF_CHECK(under_test.why_not_pick() == reason::trial);
  CAF_CHECK(under_test.why_not_claim() == reason::trial);
  CAF_CHECK(under_test.why_not_begin(row) == reason::trial);
  CAF_CHECK(!under_test.why_not_begin(row, true));
  suspects->end_trial();
  CAF_CHECK(!under_test.why_not_pick());
  CAF_CHECK(!under_test.why_not_claim());
  CAF_CHECK(!under_test.why_not_begin(row));
}

CAF_TEST(rows of a machine that is withdrawn do not begin and others do) {
  auto other = row;
  other.fsm_version = 2;
  machines->withdraw("Crate", 1);
  under_test.withdraw();
  CAF_CHECK(under_test.why_not_begin(row) == reason::withdrawn);
  CAF_CHECK(under_test.why_not_begin(row, true) == reason::withdrawn);
  CAF_CHECK(!under_test.why_not_begin(other));
  CAF_CHECK(!under_test.why_not_pick());
}

CAF_TEST(a queue without machines picks nothing) {
  machines->withdraw("Crate", 1);
  machines->withdraw("Crate", 2);
  under_test.withdraw();
  CAF_CHECK(under_test.why_not_pick() == reason::withdrawn);
  gate empty{
    {.machines = std::make_shared<const gd::registry>(), .suspects = suspects}};
  CAF_CHECK(empty.why_not_pick() == reason::withdrawn);
}

CAF_TEST(a row that has had its last trial is not run again even alone) {
  row.attempt = 9;
  row.trials = 4;
  CAF_CHECK(!under_test.why_not_begin(row, true));
  row.trials = 5;
  CAF_CHECK(under_test.why_not_begin(row) == reason::crashes);
  CAF_CHECK(under_test.why_not_begin(row, true) == reason::crashes);
  // It goes back to the queue as it is where nothing begins at all.
  under_test.pause(true);
  CAF_CHECK(under_test.why_not_begin(row) == reason::paused);
  under_test.pause(false);
  row.attempt = 0; // begun anew by hand
  CAF_CHECK(!under_test.why_not_begin(row));
  row.attempt = 9;
  gate any{{.machines = machines, .suspects = suspects}};
  CAF_CHECK(!any.why_not_begin(row));
}

CAF_TEST(all slots are taken unless a worker is idle) {
  CAF_CHECK(!under_test.why_no_slot(3));
  CAF_CHECK(under_test.why_no_slot(4) == reason::no_slot);
  CAF_CHECK(under_test.why_no_slot(5) == reason::no_slot);
  CAF_CHECK(!under_test.why_no_slot(5, true));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace gate_suite
