// Steps without a function at an engine: it parks and ends instances there, and
// goes on when a deadline has passed.

#define CAF_SUITE resting_nodes

#include "actors/harness.hpp"

#include <gd/actors/messages.hpp>

#include <caf/test/dsl.hpp>

#include <string>
#include <string_view>

namespace resting_nodes_suite {

using namespace gd::test;
using namespace std::string_literals;
namespace events = gd::events;

GD_ENUM(trip_step, pack, walk, camp, home);

namespace {

/// Packs, walks, camps for an hour, walks, and is at home.
gd::machine trip(std::int32_t run_ahead) {
  auto x = gd::define<probe_state, trip_step>("Trip", 1)
             .step(
               trip_step::pack,
               [](probe_context& ctx) {
    return gd::next(trip_step::walk, ctx.state);
               })
    .step(
      trip_step::walk,
      [](probe_context& ctx) {
    auto to = ctx.state.n++ == 0 ? trip_step::camp : trip_step::home;
    return gd::next(to, ctx.state);
      })
    .rest(trip_step::camp, {trip_step::home},
          {.after = 1h, .then = trip_step::walk})
    .final(trip_step::home);
  return run_ahead > 0 ? std::move(x).run_ahead(run_ahead) : std::move(x);
}

const std::string camps
  = "step = 'camp' and status = 'awaiting_signal' and awaits = '' and "
    "deadline between now() and now() + interval '1 h' and locked_by is null "
    "and attempt = 0 and state ->> 'n' = '1'";

struct fixture : engine_fixture {
  void pass_an_hour() {
    db.rows("update gen_durable set deadline = deadline - interval '1 h'");
  }

  /// How often that step has been committed by now, with that outcome.
  std::size_t committed(const std::string& step, std::string_view outcome) {
    std::size_t n = 0;
    for (const auto& x : log.all<events::step_committed>())
      n += x.step == step && x.outcome == outcome ? 1 : 0;
    return n;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(resting_nodes_tests, fixture)

CAF_TEST(
  instances rest without a lease and go on when their deadline has passed) {
  for (auto run_ahead : {0, 100}) {
    CAF_MESSAGE("running ahead by " << run_ahead);
    auto engine = start(options({trip(run_ahead)}));
    insert(20, "Trip", "pack");
    wait_until_count(camps, 20);
    pass_an_hour();
    wait_until_count("step = 'home' and status = 'done' and result = '{}' and "
                     "state ->> 'n' = '2' and seq = 4",
                     20);
    db.rows("delete from gen_durable");
  }
  CAF_CHECK(log.exactly<events::step_committed>(160));
  CAF_CHECK_EQUAL(committed("camp", "next"), 40u);
  CAF_CHECK_EQUAL(committed("walk", "next"), 80u);
  CAF_CHECK(log.all<events::step_failed>().empty());
}

CAF_TEST(an insert through the gateway rests at once and no engine runs it) {
  auto engine = start(options({trip(0)}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto parked = ask<gd::inserted>(
    engine, gd::insert{.fsm = "Trip",
                       .state = gd::to_json(probe_state{1, {}}),
                       .step = "camp"});
  auto ended = ask<gd::inserted>(engine,
                                 gd::insert{.fsm = "Trip", .step = "home"});
  CAF_REQUIRE(parked && ended);
  CAF_CHECK_EQUAL(count(camps), "1");
  CAF_CHECK_EQUAL(count("step = 'home' and status = 'done'"), "1");
  CAF_MESSAGE("nor does a signal change that");
  CAF_REQUIRE(ask<gd::signalled>(
    engine, gd::signal{.target = parked->id, .name = "home"}));
  insert(1, "Trip", "walk");
  wait_until_count(camps, 2);
  CAF_CHECK(log.exactly<events::step_committed>(1));
  CAF_CHECK_EQUAL(committed("camp", "next"), 0u);
  CAF_CHECK_EQUAL(committed("walk", "next"), 1u);
}

CAF_TEST(what others have left where none runs is put in its place) {
  CAF_MESSAGE("a stranger's insert");
  db.rows("insert into gen_durable (fsm, step, state) values ('Trip', 'camp',"
          " '{\"n\": 1}'), ('Trip', 'home', '{\"n\": 2}')");
  CAF_MESSAGE("a deadline whose node has died with it");
  db.rows("insert into gen_durable (fsm, step, state, status, wake_reason,"
          " locked_by, lease_expires_at) values ('Trip', 'camp', '{\"n\": 1}',"
          " 'executing', 'timeout', 'gone/0/1', now() - interval '1 s')");
  auto engine = start(options({trip(0)}));
  wait_until_count(camps, 1);
  wait_until_count("step = 'home' and status = 'done'", 2);
  CAF_CHECK(log.exactly<events::step_committed>(4));
  CAF_CHECK_EQUAL(committed("camp", "await"), 1u);
  CAF_CHECK_EQUAL(committed("home", "done"), 1u);
  CAF_CHECK_EQUAL(committed("camp", "next"), 1u);
  CAF_CHECK_EQUAL(committed("walk", "next"), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace resting_nodes_suite
