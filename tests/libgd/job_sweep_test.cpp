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
/// It has ended: for the next one.
constexpr auto ask = "unlock_job open_job | ";

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

  /// All units until it rests, or has nothing more to do.
  std::string work() {
    return work(sweep.begin_batch());
  }

  std::string work(std::optional<gd::pq::unit> what) {
    std::string out;
    while (what) {
      out += names(*what) + "| ";
      what = sweep.finish_batch(answer(*what));
    }
    return out;
  }

  void begin_retry() {
    begin_job(
      {.what = {.what = gd::act::retry}, .which = {.status = "failed"}});
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
  begin_retry();
  round(sweep);
  CAF_CHECK(sweep.is_new());
  CAF_CHECK(!sweep.is_new());
  CAF_CHECK_EQUAL(work(), batch);
  CAF_CHECK(sweep.open());
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "200");
  CAF_MESSAGE("another round does not begin it again");
  round(sweep);
  CAF_CHECK(!sweep.is_new());
  CAF_CHECK_EQUAL(work(), batch + std::string{ask});
  CAF_CHECK(!sweep.open());
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "300");
  round(sweep);
  CAF_CHECK(!sweep.is_new());
}

CAF_TEST(all jobs that are open are worked off one after the other) {
  insert_failed(1);
  begin_retry();
  begin_retry();
  begin_retry();
  round(sweep);
  auto one = batch + std::string{ask};
  CAF_CHECK_EQUAL(work(), one + one + one);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_jobs where"
                            " ended_at is not null"),
                  "3");
}

CAF_TEST(who is told of a job asks for it at once) {
  CAF_CHECK_EQUAL(work(sweep.ask_again()), "open_job | ");
  insert_failed(1);
  begin_retry();
  auto one = batch + std::string{ask};
  CAF_CHECK_EQUAL(work(sweep.ask_again()), "open_job | " + one);
  CAF_MESSAGE("or when it has done what it knows of");
  begin_retry();
  round(sweep);
  CAF_CHECK(sweep.is_new());
  CAF_CHECK(!sweep.ask_again());
  CAF_CHECK_EQUAL(work(), one + ask);
}

CAF_TEST(a job that another one works on is passed over) {
  insert_failed(1);
  begin_retry();
  begin_retry();
  auto& other = connect();
  run(other, gd::store::lock_job(1, gd::store::job_owner::node));
  CAF_CHECK_EQUAL(work(sweep.ask_again()), "open_job | "s + batch + ask);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(id::text, ' ') from"
                            " gen_durable_jobs where ended_at is null"),
                  "1");
}

CAF_TEST(a job that fails is left to a later round) {
  insert_failed(1);
  begin_retry();
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
  CAF_CHECK_EQUAL(work(),
                  "lock_job upgrade_page | lock_job upgrade jobs | "s + ask);
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
