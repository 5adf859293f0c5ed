/// Tests of the recipes: months pass in no time.

#include "recipes.hpp"

#include <gd/testing.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using simulation = gd::testing::simulation;
using texts = std::vector<std::string>;

int failures = 0;

/// Stands for what the test framework of your choice has.
#define CHECK(what) \
  if (!(what))      \
  std::cerr << __FILE__ << ':' << __LINE__ << ": " << #what << '\n', ++failures

const auto midnight = gd::testing::simulation_settings{}.start;

template <class State>
std::int64_t insert(simulation& sim, const std::string& fsm,
                    const State& state) {
  return sim.insert({.fsm = fsm, .state = gd::to_json(state)})->id;
}

// clang-format off
// -- every day at 03:00 -------------------------------------------------------

// [recurring]
void every_night_has_its_run_at_three_however_long_they_take() {
  std::vector<instant> nights;
  simulation sim;
  CHECK(sim.add(nightly([&](instant night) {
    nights.push_back(night);
    CHECK(sim.advance(7min)); // it takes its time
  })));
  auto id = insert(sim, "Nightly", nightly_state{});
  CHECK(sim.run_for(29 * 24h + 12h));
  CHECK(nights.size() == 30);
  for (std::size_t i = 0; i < nights.size(); ++i)
    CHECK(nights[i] == midnight + i * 24h + 3h);
  CHECK(sim.signal({id, "stop"}));
  CHECK(sim.run_for(30 * 24h));
  CHECK(sim.result<nightly_state>(id)->runs == 30);
}
// [/recurring]

void a_night_that_fails_is_given_up_and_not_the_next_one() {
  int tried = 0;
  simulation sim{{nightly([&](instant night) {
    ++tried;
    if (night < midnight + 24h)
      throw std::runtime_error("no disk");
  })}};
  auto id = insert(sim, "Nightly", nightly_state{});
  CHECK(sim.run_for(2 * 24h));
  CHECK(tried == 6 + 1);
  CHECK(sim.state<nightly_state>(id)->runs == 1);
  CHECK(sim.state<nightly_state>(id)->due == midnight + 2 * 24h + 3h);
}

void nights_in_which_nobody_ran_are_left_out() {
  std::vector<instant> nights;
  simulation sim{{nightly([&](instant night) { nights.push_back(night); })}};
  insert(sim, "Nightly", nightly_state{});
  CHECK(sim.drain());
  CHECK(sim.advance(3 * 24h + 12h)); // all nodes were down
  CHECK(sim.run_for(24h));
  CHECK((nights == std::vector{instant{midnight + 3h}, instant{midnight + 4 * 24h + 3h}}));
}

// -- a reminder ---------------------------------------------------------------

void a_customer_is_reminded_each_day_for_a_week() {
  int reminders = 0;
  simulation sim{{survey([&](const std::string&) { ++reminders; })}};
  auto id = insert(sim, "Survey", survey_state{.customer = "ann"});
  CHECK(sim.run_for(7 * 24h - 1us));
  CHECK(reminders == 6);
  CHECK(sim.run_for(24h));
  CHECK(reminders == 6);
  CHECK(sim.instance(id)->last_error == "no answer");
}

void an_answer_ends_the_reminders() {
  int reminders = 0;
  simulation sim{{survey([&](const std::string&) { ++reminders; })}};
  auto id = insert(sim, "Survey", survey_state{.customer = "ann"});
  CHECK(sim.run_for(36h));
  CHECK(sim.signal({id, "answered"}));
  CHECK(sim.run_for(7 * 24h));
  CHECK(reminders == 1);
  CHECK(sim.instance(id)->status == "done");
}

// -- signals ------------------------------------------------------------------

void whatever_comes_first_ends_an_offer() {
  for (const std::string name : {"accepted", "withdrawn", "time"}) {
    simulation sim{{offer()}};
    auto id = insert(sim, "Offer", offer_state{});
    CHECK(sim.run_for(24h));
    if (name != "time")
      CHECK(sim.signal({id, name}));
    CHECK(sim.run_for(14 * 24h));
    CHECK(sim.result<offer_state>(id)->ended_by == name);
  }
}

void a_parcel_is_shipped_when_all_is_ready_in_whatever_order() {
  texts names{"invoiced", "labelled", "packed"};
  do {
    simulation sim{{parcel()}};
    auto id = insert(sim, "Parcel", parcel_state{7});
    for (const auto& name : names) {
      CHECK(sim.drain());
      CHECK(sim.instance(id)->status == "awaiting_signal");
      CHECK(sim.signal({id, name}));
    }
    CHECK(sim.drain());
    CHECK(sim.instance(id)->status == "done");
    CHECK(sim.instance(id)->inbox == 0);
  } while (std::next_permutation(names.begin(), names.end()));
}

void a_parcel_that_lacks_one_fails_in_time() {
  simulation sim{{parcel()}};
  auto id = insert(sim, "Parcel", parcel_state{7});
  CHECK(sim.signal({id, "invoiced"}));
  CHECK(sim.signal({id, "labelled"}));
  CHECK(sim.run_for(24h));
  CHECK(sim.instance(id)->last_error == "not ready in time");
}

// -- a saga -------------------------------------------------------------------

/// Has what is booked, and refuses one of it.
struct counter {
  std::set<std::string> booked;
  std::string refuses;
  int deaf = 0; ///< so many cancellations fail

  agency make() {
    return {[this](const std::string&, const std::string& what) {
              if (what == refuses)
                throw std::runtime_error(what + " is full");
              booked.insert(what);
            },
            [this](const std::string&, const std::string& what) {
              if (deaf-- > 0)
                throw std::runtime_error("call again");
              booked.erase(what);
            }};
  }
};

void a_trip_is_booked_wholly() {
  counter at{};
  simulation sim{{trip(at.make())}};
  auto id = insert(sim, "Trip", trip_state{});
  CHECK(sim.drain());
  CHECK(sim.instance(id)->status == "done");
  CHECK((at.booked == std::set<std::string>{"flight", "hotel", "payment"}));
}

// [saga]
void a_trip_that_cannot_be_booked_wholly_is_not_booked() {
  for (const std::string full : {"flight", "hotel", "payment"}) {
    counter at{.booked = {}, .refuses = full, .deaf = 5};
    simulation sim{{trip(at.make())}};
    auto id = insert(sim, "Trip", trip_state{});
    CHECK(sim.run_for(1h));
    CHECK(at.booked.empty());
    CHECK(sim.instance(id)->last_error == full + " is full");
  }
}

void a_crash_anywhere_leaves_no_half_of_a_trip() {
  for (int before = 0; before < 10; ++before) {
    counter at{.booked = {}, .refuses = "payment"};
    simulation sim{{trip(at.make())}};
    auto id = insert(sim, "Trip", trip_state{});
    for (int i = 0; i < before; ++i)
      while (!*sim.step())
        CHECK(*sim.advance_to_next());
    sim.crash_next(id);
    CHECK(sim.run_for(1h));
    CHECK(at.booked.empty() && sim.instance(id)->status == "failed");
  }
}
// [/saga]

// -- limits -------------------------------------------------------------------

void however_many_scans_there_are_they_have_three_lanes() {
  std::set<std::string> lanes;
  int done = 0;
  simulation sim{{scan([&](std::int64_t) { ++done; })}};
  for (std::int64_t n = 0; n < 10; ++n) {
    auto row = sim.insert(scan_of(n));
    lanes.insert(*sim.instance(row->id)->partition_key);
  }
  CHECK(sim.drain());
  CHECK(done == 10 && lanes.size() == 3);
}

void mails_are_sent_at_their_pace_and_each_once() {
  std::vector<instant> times;
  simulation sim;
  CHECK(sim.add(mailer([&](const std::string&, const mail&) {
    times.push_back(sim.now());
  })));
  auto id = sim.insert(the_mailer())->id;
  CHECK(sim.insert(the_mailer())->duplicate);
  for (int n = 0; n < 20; ++n)
    for (int again = 0; again < 2; ++again)
      CHECK(sim.signal({id, "mail", gd::to_json(mail{"ann"}), std::to_string(n)}));
  CHECK(sim.run_for(10s));
  CHECK(times.size() == 20);
  for (std::size_t i = 1; i < times.size(); ++i)
    CHECK(times[i] - times[i - 1] >= 100ms);
  CHECK(sim.instance(id)->status == "awaiting_signal");
}

void a_report_that_is_cancelled_is_cleaned_up() {
  int written = 0;
  int removed = 0;
  simulation sim{{report([&](std::int32_t) { ++written; }, [&] { ++removed; })}};
  auto id = insert(sim, "Report", report_state{});
  for (int i = 0; i < 4; ++i)
    CHECK(*sim.step());
  CHECK(sim.signal({id, "cancel"}));
  CHECK(sim.drain());
  CHECK(written == 4 && removed == 1);
  CHECK(sim.instance(id)->last_error == "cancelled");
  auto other = insert(sim, "Report", report_state{});
  CHECK(sim.drain());
  CHECK(sim.instance(other)->status == "done" && written == 14);
}

void an_order_is_found_by_its_number_whatever_has_become_of_it() {
  bool broke = false;
  simulation sim{{order([&](std::int64_t) {
    if (broke)
      throw std::runtime_error("no money");
  })}};
  CHECK(status_of(sim, 42) == "unknown");
  CHECK(sim.insert(order_of(42)));
  CHECK(sim.insert(order_of(42))->duplicate);
  CHECK(status_of(sim, 42) == "to be paid");
  CHECK(sim.drain());
  CHECK(status_of(sim, 42) == "paid, to be packed");
  CHECK(sim.signal({.name = "packed", .key = key_of(42)}));
  CHECK(sim.drain());
  CHECK(status_of(sim, 42) == "shipped");
  broke = true;
  CHECK(sim.insert(order_of(43)));
  CHECK(sim.drain());
  CHECK(status_of(sim, 43) == "we will call you");
}
// clang-format on

} // namespace

int main() {
  every_night_has_its_run_at_three_however_long_they_take();
  a_night_that_fails_is_given_up_and_not_the_next_one();
  nights_in_which_nobody_ran_are_left_out();
  a_customer_is_reminded_each_day_for_a_week();
  an_answer_ends_the_reminders();
  whatever_comes_first_ends_an_offer();
  a_parcel_is_shipped_when_all_is_ready_in_whatever_order();
  a_parcel_that_lacks_one_fails_in_time();
  a_trip_is_booked_wholly();
  a_trip_that_cannot_be_booked_wholly_is_not_booked();
  a_crash_anywhere_leaves_no_half_of_a_trip();
  however_many_scans_there_are_they_have_three_lanes();
  mails_are_sent_at_their_pace_and_each_once();
  a_report_that_is_cancelled_is_cleaned_up();
  an_order_is_found_by_its_number_whatever_has_become_of_it();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
