#define CAF_SUITE job_sweep

// Jobs of operators that nobody works on.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/job_sweep.hpp>

#include <gd/machine.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace job_sweep_suite {

using namespace std::literals;

namespace events = gd::events;
using gd::errc;

GD_ENUM(probe_step, first);

namespace {

constexpr auto batch = "lock_job work_on_job jobs | ";

struct probe {
  int n = 0;
  GD_STATE(probe, n);
};

gd::machine machine(std::int32_t version) {
  return gd::define<probe, probe_step>("Probe", version)
    .step(probe_step::first, [](gd::context<probe>&) { return gd::done(); });
}

struct fixture : gd::test::swept_database {
  gd::job_sweep sweep{here, "a job"};

  fixture() {
    here.machines = std::make_shared<gd::registry>(
      std::vector<gd::machine>{machine(1), machine(2)});
  }

  std::int64_t begin_job(const gd::bulk_command& what) {
    auto made = client().begin_job(what);
    CAF_REQUIRE(made);
    return *made;
  }

  /// All units of a batch.
  std::string work() {
    std::string out;
    for (std::optional<gd::pq::unit> work = sweep.begin_batch(); work;) {
      out += names(*work) + "| ";
      work = sweep.finish_batch(answer(*work));
    }
    return out;
  }

  void insert_failed(int n) {
    insert(n);
    db.rows("update gen_durable set status = 'failed', last_error = 'torn'");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(job_sweep_tests, fixture)

CAF_TEST(where there is no job nothing is done) {
  CAF_CHECK_EQUAL(round(sweep), "open_job | ");
  CAF_CHECK(!sweep.is_new());
  CAF_CHECK(!sweep.open());
}

CAF_TEST(a job that nobody works on is worked off batch by batch) {
  insert_failed(300);
  begin_job({.what = {.what = gd::act::retry}, .which = {.status = "failed"}});
  round(sweep);
  CAF_CHECK(sweep.is_new());
  CAF_CHECK(!sweep.is_new());
  CAF_CHECK_EQUAL(work(), batch);
  CAF_CHECK(sweep.open());
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "200");
  CAF_MESSAGE("another round does not begin it again");
  round(sweep);
  CAF_CHECK(!sweep.is_new());
  while (sweep.open())
    CAF_CHECK_EQUAL(work(), batch);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "300");
  round(sweep);
  CAF_CHECK(!sweep.is_new());
}

CAF_TEST(a job that fails is left to a later round) {
  insert_failed(1);
  begin_job({.what = {.what = gd::act::retry}, .which = {.status = "failed"}});
  round(sweep);
  fail("work_on_job", errc::busy);
  CAF_CHECK_EQUAL(work(), batch);
  CAF_CHECK(!sweep.open());
  auto failed = all<events::sweep_failed>();
  CAF_REQUIRE_EQUAL(failed.size(), 1u);
  CAF_CHECK_EQUAL(failed.front().what, "a job");
  fail("work_on_job", errc::unavailable);
  round(sweep);
  CAF_CHECK(sweep.is_new());
  work();
  CAF_CHECK_EQUAL(all<events::sweep_failed>().size(), 1u);
  failing.clear();
  round(sweep);
  while (sweep.open())
    work();
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
}

CAF_TEST(an upgrade is judged by a node that has both versions) {
  insert(3);
  db.rows("update gen_durable set state = '{\"n\": \"no number\"}' where id = "
          "2; update gen_durable set state = '{\"n\": 1}' where id <> 2");
  run(*engine,
      gd::store::register_machines(gd::store::known({machine(1), machine(2)})));
  begin_job({.what = {.what = gd::act::upgrade, .to_version = 2},
             .which = {.fsm = "Probe", .version = 1}});
  round(sweep);
  CAF_REQUIRE(sweep.is_new());
  CAF_CHECK_EQUAL(work(), "lock_job upgrade_page | lock_job upgrade jobs | ");
  while (sweep.open())
    work();
  CAF_CHECK_EQUAL(db.scalar("select string_agg(id::text, ' ' order by id) from "
                            "gen_durable where fsm_version = 2"),
                  "1 3");
  CAF_MESSAGE("and by nobody else");
  begin_job({.what = {.what = gd::act::upgrade, .to_version = 1},
             .which = {.fsm = "Probe", .version = 2}});
  here.machines = std::make_shared<gd::registry>(
    std::vector<gd::machine>{machine(1)});
  round(sweep);
  CAF_CHECK(!sweep.is_new());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace job_sweep_suite
