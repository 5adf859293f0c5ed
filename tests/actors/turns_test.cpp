// Who comes in first, of several who ask, and how much each may ask for.

#define CAF_SUITE turns

#include "actors/stepped.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/messages.hpp>

#include <caf/test/dsl.hpp>

#include <string>
#include <utility>
#include <vector>

namespace turns_suite {

using namespace gd::test;
using namespace gd::actors;
namespace events = gd::events;

namespace {

/// What somebody has been answered.
struct answers {
  int good = 0;
  std::vector<std::string> refused;
};

/// A gateway, its backend, and several who ask.
struct turns_fixture : picker_fixture {
  gateway gateway_handle;

  void begin(std::int64_t bytes_waiting = 64 << 20) {
    prepare();
    home->config.rows_per_turn = 100;
    home->config.bytes_waiting = bytes_waiting;
    auto backend = sys.spawn<gateway_backend>(home);
    actors.push_back(caf::actor_cast<caf::actor>(backend));
    gateway_handle = caf::actor_cast<gateway>(
      sys.spawn<gateway_server>(home, backend));
    sched.run();
  }

  ~turns_fixture() {
    if (gateway_handle)
      anon(caf::actor_cast<caf::actor>(gateway_handle), close_gateway{});
    sched.run();
  }

  /// Asks so often for the same.
  template <class Answer, class Request>
  std::shared_ptr<answers> ask(int times, const Request& x) {
    auto all = std::make_shared<answers>();
    actors.push_back(sys.spawn(
      [this, all, times, x](caf::event_based_actor* asker) -> caf::behavior {
        for (int i = 0; i < times; ++i)
          asker->request(gateway_handle, caf::infinite, x)
            .then([all](const Answer&) { ++all->good; },
                  [this, all](const caf::error& why) {
          all->refused.push_back(to_string(from_caf(sys, why)));
            });
        return {[](int) {}};
      }));
    sched.run();
    return all;
  }

  static gd::insert row() {
    return {.fsm = "Probe", .delay_us = 3'600'000'000};
  }

  /// What waits is let in, and one unit is answered.
  void one_unit() {
    sched.advance_time(1us);
    sched.run();
    turn();
  }

  void all_units() {
    for (sched.advance_time(1us), sched.run(); db->waiting();
         sched.advance_time(1us), sched.run())
      turn();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(turns_tests, turns_fixture)

CAF_TEST(one insert waits for no more than a group of another sender) {
  begin();
  auto many = ask<gd::inserted>(1'000, row());
  auto one = ask<gd::inserted>(1, row());
  for (int i = 0; i < 4 && one->good == 0; ++i)
    one_unit();
  CAF_CHECK_EQUAL(one->good, 1);
  CAF_CHECK_LESS(many->good, 300);
  all_units();
  CAF_CHECK_EQUAL(many->good, 1'000);
}

CAF_TEST(a list of rows is in the way of nobody) {
  begin();
  auto many = ask<gd::inserted_all>(
    1, gd::insert_all{std::vector<gd::insert>(1'000, row())});
  auto one = ask<gd::inserted>(1, row());
  for (int i = 0; i < 4 && one->good == 0; ++i)
    one_unit();
  CAF_CHECK_EQUAL(one->good, 1);
  CAF_CHECK_EQUAL(many->good, 0);
  all_units();
  CAF_CHECK_EQUAL(many->good, 1);
}

CAF_TEST(what is written waits for nothing that is read) {
  begin();
  insert(1);
  auto looks = ask<gd::instance>(500, gd::look_up{.id = 1});
  ask<gd::inserted>(1, row());
  // Of all looks two are with the database, on a connection of theirs.
  CAF_CHECK_EQUAL(db->newest(), "gd_draw_ids ");
  CAF_CHECK_EQUAL(db->submitted, 3);
  all_units();
  CAF_CHECK_EQUAL(looks->good, 500);
}

CAF_TEST(one look waits for no more than two of another sender) {
  begin();
  insert(2);
  auto many = ask<gd::instance>(500, gd::look_up{.id = 1});
  auto one = ask<gd::instance>(1, gd::look_up{.id = 2});
  for (int i = 0; i < 4 && one->good == 0; ++i)
    turn();
  CAF_CHECK_EQUAL(one->good, 1);
  CAF_CHECK_LESS(many->good, 4);
  all_units();
  CAF_CHECK_EQUAL(many->good, 500);
}

CAF_TEST(a sender that has its share is refused and others are not ) {
  begin(200 << 10);
  auto greedy = ask<gd::inserted>(1'000, row());
  CAF_CHECK_GREATER(greedy->refused.size(), 800u);
  CAF_CHECK(greedy->refused.front().find("overloaded") != std::string::npos);
  auto modest = ask<gd::inserted>(20, row());
  CAF_CHECK(modest->refused.empty());
  all_units();
  CAF_CHECK_EQUAL(modest->good, 20);
  CAF_CHECK_EQUAL(greedy->good + static_cast<int>(greedy->refused.size()),
                  1'000);
  CAF_MESSAGE("what is answered has no part of the room any more");
  auto again = ask<gd::inserted>(20, row());
  all_units();
  CAF_CHECK_EQUAL(again->good, 20);
}

CAF_TEST(whatever is answered gives its room back) {
  begin(200 << 10);
  for (int round = 0; round < 5; ++round) {
    ask<gd::inserted>(50, gd::insert{.fsm = "Nobody's"});
    ask<gd::inserted>(50, gd::insert{.fsm = ""});
    ask<gd::instance>(50, gd::look_up{.id = 77});
    ask<gd::instance>(50, gd::look_up{.id = -1});
    ask<gd::signalled>(50, gd::signal{.target = 77, .name = "go"});
    ask<gd::transitioned>(50, gd::transition{.target = 77, .to = "first"});
    ask<gd::inserted_all>(2,
                          gd::insert_all{std::vector<gd::insert>(20, row())});
    ask<gd::inserted_all>(2, gd::insert_all{});
    all_units();
  }
  CAF_CHECK(home->asked.take(1, 10 << 20)); // as nobody has anything
}

CAF_TEST(a backend that dies keeps no part of the room) {
  begin(200 << 10);
  auto lost = ask<gd::inserted>(500, row());
  anon_send_exit(actors.front(), caf::exit_reason::kill);
  sched.run();
  CAF_CHECK_EQUAL(lost->refused.size(), 500u);
  auto backend = sys.spawn<gateway_backend>(home);
  actors.push_back(caf::actor_cast<caf::actor>(backend));
  anon(caf::actor_cast<caf::actor>(gateway_handle),
       set_backend{caf::actor_cast<caf::actor>(backend)});
  sched.run();
  CAF_CHECK(home->asked.take(1, 10 << 20));
}

CAF_TEST(a gateway that closes answers what it has been asked) {
  begin();
  anon(caf::actor_cast<caf::actor>(gateway_handle), set_backend{});
  anon(caf::actor_cast<caf::actor>(gateway_handle), close_gateway{});
  auto late = ask<gd::inserted>(3, row());
  CAF_REQUIRE_EQUAL(late->refused.size(), 3u);
  CAF_CHECK(home->asked.take(1, 1 << 30));
  gateway_handle = nullptr;
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace turns_suite
