#define CAF_SUITE moves

// Transitions through the gateway: answered once, sent once, and what they lead to
// begins at once.

#include "actors/stepped.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/messages.hpp>
#include <gd/store/nodes.hpp>

#include <caf/test/dsl.hpp>

#include <string>
#include <utility>
#include <vector>

namespace moves_suite {

using namespace gd::test;
using namespace gd::actors;
using gd::errc;
namespace events = gd::events;

namespace {

constexpr auto moved = "begin gd_transition commit";

gd::machine resting_probe() {
  return gd::define<probe_state, probe_step>("Probe", 1)
    .rest(probe_step::first, {probe_step::second})
    .step(probe_step::second,
          [](probe_context& ctx) { return gd::done(word{ctx.state.note}); })
    .final(probe_step::third);
}

/// A picker that has found nothing, and a gateway beside it.
struct move_fixture : picker_fixture {
  caf::actor gateway;
  std::vector<gd::result<gd::transitioned>> answers;

  move_fixture() {
    other = resting_probe();
    gd::pq::connection on{rows.options()};
    CAF_REQUIRE(
      on.run({{gd::store::register_machines(gd::store::known({*other}))}})
        .ok());
    auto picker = spawn_picker({"default", 2, 0});
    home->children.set(role::picker, "default", picker);
    gateway = caf::actor_cast<caf::actor>(sys.spawn<gateway_backend>(home));
    actors.push_back(gateway);
    finish_all();
  }

  ~move_fixture() {
    home->children.clear();
  }

  std::int64_t resting() {
    return std::stoll(
      rows.scalar("insert into gen_durable (fsm, step, status, awaits) values "
                  "('Probe', 'first', 'awaiting_signal', '') returning id"));
  }

  void ask(std::int64_t id) {
    actors.push_back(sys.spawn([=, this](caf::event_based_actor* user) {
      user
        ->request(gateway, caf::infinite,
                  gd::transition{.target = id, .to = "second"})
        .then([this](gd::transitioned& x) { answers.push_back(x); },
              [this](const caf::error& why) {
        answers.push_back(from_caf(sys, why));
        });
    }));
    sched.run();
  }

  errc only_answer() const {
    CAF_REQUIRE_EQUAL(answers.size(), 1u);
    return answers.front() ? errc{} : answers.front().error().code;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(move_tests, move_fixture)

CAF_TEST(a transition wakes the picker of the queue in which its row is due) {
  auto id = resting();
  ask(id);
  CAF_CHECK_EQUAL(db->next(), moved);
  CAF_CHECK(answers.empty());
  turn();
  CAF_CHECK_EQUAL(only_answer(), errc{});
  CAF_CHECK_EQUAL(answers.front()->seq, 1);
  CAF_CHECK_EQUAL(answers.front()->status, "runnable");
  CAF_CHECK_EQUAL(db->next(), "gd_pick "); // no poll was due
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done' and step = 'second'"), "1");
}

CAF_TEST(a transition of unknown fate is answered so and not sent again) {
  for (bool committed : {true, false}) {
    auto id = resting();
    answers.clear();
    ask(id);
    CAF_CHECK_EQUAL(db->next(), moved);
    auto before = db->submitted;
    if (committed)
      db->run_one_and_lose_the_answer();
    else
      db->drop_one(errc::unknown_fate);
    sched.run();
    CAF_CHECK_EQUAL(only_answer(), errc::unknown_fate);
    CAF_CHECK_EQUAL(db->submitted, before);
    pass(5s);
    CAF_CHECK_EQUAL(rows.scalar("select seq from gen_durable where id = $1",
                                {std::to_string(id)}),
                    committed ? "2" : "0");
  }
}

CAF_TEST(a transition that was not sent in time is given up
         and has not happened) {
  ask(resting());
  CAF_CHECK_EQUAL(db->next(), moved);
  sched.advance_time(home->config.patience);
  sched.run();
  CAF_CHECK(answers.empty()); // it may yet be sent
  while (db->next() != moved)
    turn();
  db->drop_one(errc::unavailable);
  sched.run();
  CAF_CHECK_EQUAL(only_answer(), errc::unavailable);
  pass(5s);
  CAF_CHECK_EQUAL(count("step = 'first'"), "1");
}

CAF_TEST(a gateway that dies answers that a transition may have happened) {
  ask(resting());
  anon_send_exit(gateway, caf::exit_reason::kill);
  sched.run();
  CAF_CHECK_EQUAL(only_answer(), errc::unknown_fate);
}

CAF_TEST(transitions of several senders share a commit and those of an instance
           take turns) {
  auto one = resting();
  auto two = resting();
  ask(one);
  for (auto id : {two, one, two})
    ask(id);
  turn(); // the first one was sent at once
  while (db->waiting() || answers.size() < 4) {
    sched.advance_time(1us);
    sched.run();
    if (db->waiting())
      turn();
  }
  int moves = 0;
  for (const auto& x : answers)
    moves += x ? 1 : 0;
  CAF_CHECK_EQUAL(moves, 2);
  CAF_CHECK_EQUAL(count("seq >= 1"), "2");
}

CAF_TEST_FIXTURE_SCOPE_END()

CAF_TEST_FIXTURE_SCOPE(moving_engine_tests, engine_fixture)

CAF_TEST(an instance that rests goes on where a transition leads it) {
  auto opts = options({resting_probe()});
  opts.poll = 60s; // only the hint can tell
  auto engine = start(opts);
  auto id = std::stoll(db.scalar(
    "insert into gen_durable (fsm, step, status, awaits, state) values "
    "('Probe', 'first', 'awaiting_signal', '', '{\"note\": \"old\"}') "
    "returning id"));
  auto answer = ask<gd::transitioned>(
    engine, gd::transition{.target = id,
                           .to = "second",
                           .from = "first",
                           .state = gd::to_json(probe_state{.note = "new"})});
  CAF_REQUIRE(answer);
  CAF_CHECK_EQUAL(answer->seq, 1);
  wait_until_count("status = 'done' and result ->> 'text' = 'new'", 1);
  auto again = ask<gd::transitioned>(
    engine, gd::transition{.target = id, .to = "second"});
  CAF_REQUIRE(!again);
  CAF_CHECK_EQUAL(again.error().code, errc::transition_conflict);
}

CAF_TEST(an instance is named by the unique key that it has) {
  gd::machine other = gd::define<probe_state, probe_step>("Other", 1)
                        .rest(probe_step::first, {probe_step::second})
                        .final(probe_step::second)
                        .final(probe_step::third);
  auto engine = start(options({resting_probe(), other}));
  gd::insert row{.fsm = "Probe", .unique_key = "order 42"};
  auto made = ask<gd::inserted>(engine, row);
  CAF_REQUIRE(made);
  row.fsm = "Other";
  auto refused = ask<gd::inserted>(engine, row);
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().code, errc::key_of_another_machine);
  auto all = ask<gd::inserted_all>(engine, gd::insert_all{{row}});
  CAF_REQUIRE(all);
  CAF_CHECK_EQUAL(all->rows[0].code, errc::key_of_another_machine);
  auto shown = ask<gd::instance>(engine, gd::look_up{.key = "order 42"});
  CAF_REQUIRE(shown);
  CAF_CHECK_EQUAL(shown->id, made->id);
  CAF_CHECK_EQUAL(shown->unique_key.value_or(""), "order 42");
  CAF_CHECK(
    ask<gd::signalled>(engine, gd::signal{.name = "x", .key = "order 42"}));
  auto page = ask<gd::history_page>(engine,
                                    gd::history_query{.key = "order 42"});
  CAF_REQUIRE(page);
  CAF_CHECK(page->rows.empty()); // it keeps none
  auto moved = ask<gd::transitioned>(
    engine, gd::transition{.to = "second", .key = "order 42"});
  CAF_REQUIRE(moved);
  wait_until_count("status = 'done'", 1);
  CAF_MESSAGE("nobody has it any more");
  for (auto code :
       {ask<gd::instance>(engine, gd::look_up{.key = "order 42"}).error().code,
        ask<gd::instance>(engine, gd::look_up{.id = 7, .key = "k"})
          .error()
          .code,
        ask<gd::signalled>(engine, gd::signal{.name = "x", .key = "order 42"})
          .error()
          .code,
        ask<gd::transitioned>(engine,
                              gd::transition{.to = "second", .key = "order 42"})
          .error()
          .code})
    CAF_CHECK(code == errc::not_found || code == errc::invalid_argument
              || code == errc::no_such_target);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace moves_suite
