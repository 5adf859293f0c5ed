#define CAF_SUITE older_sweep

// Instances of versions that nobody serves come to a newer one as they are due.

#include "libgd/swept.hpp"

#include <gd/engine/sweep/older_sweep.hpp>

#include <gd/machine.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace older_sweep_suite {

using namespace std::literals;

namespace events = gd::events;

GD_ENUM(probe_step, first, last);

namespace {

constexpr auto page = "older_page | ";

struct probe_v1 {
  int n = 0;
  GD_STATE(probe_v1, n);
};

struct probe {
  int doubled = 0;
  GD_STATE(probe, doubled);
};

gd::machine machine(bool at_pick) {
  return gd::define<probe, probe_step>("Probe", 2)
    .from<probe_v1, 1>({.at_pick = at_pick},
                       [](probe_v1 x) { return probe{2 * x.n}; })
    .step(probe_step::first, [](gd::context<probe>&) { return gd::done(); })
    .rest(probe_step::last, {probe_step::first});
}

struct fixture : gd::test::swept_database {
  fixture() {
    how.queues = {{.name = "default"}};
    know({machine(true)});
  }

  void know(std::vector<gd::machine> machines) {
    here.machines = std::make_shared<gd::registry>(std::move(machines));
  }

  std::string of(int id, const std::string& what) {
    return db.scalar("select concat_ws(' ', " + what
                       + ") from gen_durable where id = $1",
                     {std::to_string(id)});
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(older_sweep_tests, fixture)

CAF_TEST(what is runnable comes to the version that asks for it) {
  db.rows("insert into gen_durable (fsm, step, state, partition_key, status,"
          " awaits, crashes) values"
          " ('Probe', 'first', '{\"n\": 1}', null, 'runnable', null, 0),"
          " ('Probe', 'first', '{\"n\": 2}', 'k', 'runnable', null, 0),"
          " ('Probe', 'first', '{\"n\": 3}', null, 'runnable', null, 2),"
          " ('Probe', 'first', '{\"n\": 4}', null, 'awaiting_signal', 's', 0),"
          " ('Other', 'first', '{\"n\": 5}', null, 'runnable', null, 0)");
  gd::older_sweep sweep{here, "older"};
  CAF_CHECK(sweep.needed());
  CAF_CHECK_EQUAL(round(sweep), page + "bring_older | "s + page);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(state ->> 'doubled', ' ' order"
                            " by id) from gen_durable where fsm_version = 2"
                            " and seq = 1 and status = 'runnable'"),
                  "2 4 6");
  CAF_CHECK_EQUAL(woken, "default ");
  CAF_CHECK_EQUAL(count("fsm_version = 1 and seq = 0"), "2");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from _gd_list_faults()"), "0");
  CAF_MESSAGE("what wakes later comes when it is due");
  db.rows("select gd_signal(4, 's')");
  round(sweep);
  CAF_CHECK_EQUAL(of(4, "fsm_version, state"), "2 {\"doubled\": 8}");
}

CAF_TEST(what a node serves is left to it) {
  insert(1);
  db.rows("insert into gen_durable_machines (fsm, version, initial_step, queue,"
          " steps, served) values ('Probe', 1, 'first', 'default', '{first}',"
          " true)");
  gd::older_sweep sweep{here, "older"};
  CAF_CHECK_EQUAL(round(sweep), page);
  db.rows("update gen_durable_machines set served = false");
  CAF_CHECK_EQUAL(round(sweep), page + "bring_older | "s + page);
  CAF_CHECK_EQUAL(count("fsm_version = 2"), "1");
}

CAF_TEST(a machine that does not ask for it costs nothing) {
  insert(1);
  know({machine(false)});
  gd::older_sweep sweep{here, "older"};
  CAF_CHECK(!sweep.needed());
  CAF_CHECK_EQUAL(round(sweep), "");
  CAF_MESSAGE("nor does one that is withdrawn");
  know({machine(true)});
  here.machines->withdraw("Probe", 2);
  CAF_CHECK_EQUAL(round(sweep), "");
}

CAF_TEST(what does not decode fails and says why with its state as it was) {
  insert(3);
  db.rows("update gen_durable set state = '{\"m\": 1}' where id = 1;"
          "update gen_durable set step = 'last' where id = 2");
  gd::older_sweep sweep{here, "older"};
  CAF_CHECK_EQUAL(round(sweep),
                  page + "bring_older fail_row fail_row | "s + page);
  CAF_CHECK_EQUAL(of(1, "status, fsm_version, state"), "failed 1 {\"m\": 1}");
  CAF_CHECK(of(1, "last_error")
              .starts_with("state: instance 1: expected one of Probe v1 that "
                           "can be converted: $.m: "));
  CAF_CHECK_EQUAL(of(2, "status, last_error"),
                  "failed step: instance 2: expected a step of Probe v2 that "
                  "runs, got last");
  CAF_CHECK_EQUAL(of(3, "status, fsm_version"), "runnable 2");
  CAF_CHECK_EQUAL(all<events::row_unusable>().size(), 2u);
}

CAF_TEST(what has moved meanwhile stays as it is) {
  insert(2);
  gd::older_sweep sweep{here, "older"};
  sweep.start(now);
  auto page = sweep.begin(now);
  auto shown = answer(*page.work);
  auto bring = sweep.finish(shown, now);
  CAF_REQUIRE(bring.work);
  db.rows(
    "update gen_durable set status = 'executing', locked_by = 'n/1/1',"
    " lease_expires_at = now() + interval '1 h' where id = 1;"
    "update gen_durable set seq = seq + 1, state = '{\"n\": 9}' where id ="
    " 2");
  auto end = sweep.finish(answer(*bring.work), now);
  CAF_CHECK(!end.work);
  CAF_CHECK_EQUAL(count("fsm_version = 1"), "2");
  CAF_CHECK_EQUAL(of(2, "state, seq"), "{\"n\": 9} 1");
}

CAF_TEST(
  what the database refuses is tried alone and the others of its page go on) {
  insert(150);
  db.rows("update gen_durable set state = '{\"n\": 1}';"
          "update gen_durable set state = '{\"m\": 1}' where id = 3");
  refuse("new.id in (2, 3)");
  gd::older_sweep sweep{here, "older"};
  std::string alone;
  for (int i = 100; i > 0; --i)
    alone += i == 3 ? "bring_older fail_row | " : "bring_older | ";
  CAF_CHECK_EQUAL(round(sweep), page + "bring_older fail_row | "s + alone + page
                                  + "bring_older | " + page);
  CAF_CHECK_EQUAL(count("fsm_version = 2 and seq = 1"), "148");
  CAF_CHECK_EQUAL(count("fsm_version = 1 and seq = 0 and status = 'runnable'"),
                  "2");
  auto rows = all<events::row_refused>();
  CAF_REQUIRE_EQUAL(rows.size(), 1u); // alike, for the same reason
  CAF_CHECK_EQUAL(rows.front().id, 3);
  CAF_CHECK_EQUAL(rows.front().what, "older");
  CAF_CHECK(all<events::row_unusable>().empty());
  CAF_CHECK(all<events::sweep_failed>().empty());
  CAF_CHECK_EQUAL(refused.news(now)->size(), 2u);
  CAF_MESSAGE("it costs nobody anything for a while, and comes when it may");
  CAF_CHECK_EQUAL(round(sweep), page);
  db.rows("drop trigger refuse on gen_durable");
  CAF_CHECK_EQUAL(round(sweep), page);
  now += 1min;
  CAF_CHECK_EQUAL(round(sweep), page + "bring_older fail_row | "s + page);
  CAF_CHECK_EQUAL(of(2, "status, fsm_version"), "runnable 2");
  CAF_CHECK_EQUAL(of(3, "status, fsm_version"), "failed 1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace older_sweep_suite
