#define CAF_SUITE ledger_sweep

// Old entries of histories: a page of instances in each round.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/ledger_sweep.hpp>

#include <caf/test/dsl.hpp>

#include <string>

namespace ledger_sweep_suite {

namespace {

struct fixture : gd::test::swept_database {
  gd::ledger_sweep sweep{here, "leases"};

  std::string left() {
    return db.scalar("select count(*) from gen_durable_ledger where seq = 0");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(ledger_sweep_tests, fixture)

CAF_TEST(each round goes on where the last one ended and begins anew) {
  db.rows("insert into gen_durable_machines (fsm, version, initial_step, "
          "queue, steps, history_keep) values ('Probe', 1, 'first', 'default', "
          "'{first}', '1 h')");
  insert(1'200);
  db.rows("update gen_durable set history = 1, ledger_step = step, seq = 1");
  auto enter = [this] {
    db.rows("insert into gen_durable_ledger (instance_id, seq, at, "
            "fsm_version, outcome, to_step, attempt) select g.id, n, now() - "
            "interval '2 h', 1, 'next', 'first', 0 from gen_durable g, "
            "generate_series(0, 1) n on conflict do nothing");
  };
  enter();
  CAF_CHECK_EQUAL(round(sweep), "trim_ledger | ");
  CAF_CHECK_EQUAL(left(), "200");
  round(sweep);
  CAF_CHECK_EQUAL(left(), "0");
  enter();
  round(sweep); // behind the last page
  CAF_CHECK_EQUAL(left(), "1200");
  round(sweep);
  CAF_CHECK_EQUAL(left(), "200");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace ledger_sweep_suite
