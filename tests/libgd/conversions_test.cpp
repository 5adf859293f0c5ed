#define CAF_SUITE conversions

// States of older versions of a machine become states of newer ones.

#include <gd/engine/step/upgrade.hpp>
#include <gd/json_codecs.hpp>
#include <gd/machine.hpp>
#include <gd/registry.hpp>
#include <gd/testing.hpp>

#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace conversions_suite {

using namespace std::literals;

GD_ENUM(order_step, collect, pay, ship);

/// The first: its buyer is one text, and it has a note.
struct order_v1 {
  std::string buyer;
  std::int64_t total = 0;
  std::string note;
  GD_STATE(order_v1, buyer, total, note);
};

/// The note has gone, and the total is called cents.
struct order_v2 {
  std::string buyer;
  std::int64_t cents = 0;
  GD_STATE(order_v2, buyer, cents);
};

/// The buyer is split.
struct order_v3 {
  std::string first;
  std::string last;
  std::int64_t cents = 0;
  GD_STATE(order_v3, first, last, cents);
};

struct stranger {
  GD_STATE(stranger);
};

namespace {

order_v2 second(order_v1 x) {
  if (x.total < 0)
    throw std::invalid_argument{"total: expected 0 or more, got "
                                + std::to_string(x.total)};
  return {std::move(x.buyer), x.total * 100};
}

order_v3 third(order_v2 x) {
  auto at = x.buyer.find(' ');
  if (at == std::string::npos)
    throw std::invalid_argument{"buyer: expected two names"};
  return {x.buyer.substr(0, at), x.buyer.substr(at + 1), x.cents};
}

template <class State>
gd::machine_builder<State, order_step> orders(std::int32_t version) {
  using context = gd::context<State>;
  auto end = [](context& ctx) { return gd::done(ctx.state); };
  return gd::define<State, order_step>("Order", version)
    .step(order_step::collect, end)
    .step(order_step::pay, end)
    .step(order_step::ship, end);
}

gd::machine newest() {
  return orders<order_v3>(3).from<order_v2, 2>(third).from<order_v1, 1>(
    {.steps = {{"charge", order_step::pay}}}, second);
}

std::string migrated(const gd::machine& to, std::int32_t from,
                     const std::string& state) {
  auto now = to.migrate(from, state);
  return now ? now->text() : now.error().message;
}

std::string problem_of(const gd::machine& x) {
  auto ok = x.validate();
  return ok ? "none"s : ok.error().message;
}

gd::store::upgrade_row stored(std::int32_t version, const std::string& step,
                              const std::string& state) {
  return {.id = 7,
          .fsm = "Order",
          .version = version,
          .step = step,
          .to_version = 3,
          .to_step = step,
          .state = state};
}

struct file {
  std::string path = "/tmp/gd_conversions_" + std::to_string(getpid());

  explicit file(const std::string& text) {
    std::ofstream{path} << text;
  }

  file(const file&) = delete;
  file& operator=(const file&) = delete;

  ~file() {
    std::remove(path.c_str());
  }
};

} // namespace

CAF_TEST(a state goes from conversion to conversion) {
  auto x = newest();
  CAF_CHECK_EQUAL(problem_of(x), "none");
  CAF_MESSAGE("removed, renamed and split fields");
  CAF_CHECK_EQUAL(
    migrated(x, 1, R"({"buyer": "Ada Byron", "total": 5, "note": "soon"})"),
    R"({"first":"Ada","last":"Byron","cents":500})");
  CAF_CHECK_EQUAL(migrated(x, 2, R"({"buyer": "Ada Byron", "cents": 7})"),
                  R"({"first":"Ada","last":"Byron","cents":7})");
  CAF_MESSAGE("what is of this version stays as it is");
  auto same = R"({"first": "Ada",  "last": "Byron"})"s;
  CAF_CHECK_EQUAL(migrated(x, 3, same), same);
}

CAF_TEST(a state that is not one of its version is refused with the field) {
  auto x = newest();
  CAF_CHECK_EQUAL(migrated(x, 1, R"({"buyer": "Ada Byron", "total": "5"})"),
                  "expected one of Order v1 that can be converted: $.total: "
                  "expected integer in [-9223372036854775808, "
                  "9223372036854775807], got string \"5\"");
  CAF_MESSAGE("and what would be lost");
  CAF_CHECK(gd::test::contains(migrated(x, 1, R"({"bayer": "Ada Byron"})"),
                               "v1 that can be converted: $.bayer: "));
  CAF_MESSAGE("what a conversion throws is told with the version");
  CAF_CHECK_EQUAL(migrated(x, 1, R"({"buyer": "Ada Byron", "total": -1})"),
                  "expected one of Order v1 that can be converted: total: "
                  "expected 0 or more, got -1");
  CAF_CHECK_EQUAL(migrated(x, 1, R"({"buyer": "Ada"})"),
                  "expected one of Order v2 that can be converted: buyer: "
                  "expected two names");
  CAF_MESSAGE("without a conversion it has to be one of the new version");
  CAF_CHECK(
    gd::test::contains(migrated(orders<order_v2>(2), 1, R"({"total":1})"),
                       "expected one of Order v2: $.total: "));
}

CAF_TEST(conversions that lead nowhere are a problem of the machine) {
  auto other = [](order_v1) { return stranger{}; };
  CAF_CHECK_EQUAL(problem_of(orders<order_v3>(3).from<order_v1, 1>(other)),
                  "Order v3: from version 1: expected that it gives the state "
                  "of Order v3, or what .from of a later version takes");
  CAF_MESSAGE("not of an earlier one, either");
  CAF_CHECK(
    problem_of(
      orders<order_v3>(3).from<order_v2, 1>(third).from<order_v1, 2>(second))
    != "none");
  CAF_CHECK_EQUAL(problem_of(orders<order_v2>(1).from<order_v1, 1>(second)),
                  "Order v1: from version 1: expected an older version");
  CAF_CHECK_EQUAL(
    problem_of(
      orders<order_v2>(2).from<order_v1, 1>(second).from<order_v1, 1>(second)),
    "Order v2: from version 1 is defined twice");
}

CAF_TEST(an instance is judged by its conversion) {
  gd::registry only_new{{newest()}};
  auto state = R"({"buyer": "Ada Byron", "total": 5})"s;
  auto x = gd::check_upgrade(only_new, {}, stored(1, "charge", state));
  CAF_CHECK_EQUAL(x.fault, "");
  CAF_CHECK_EQUAL(x.step, "pay");
  CAF_CHECK_EQUAL(x.state.value_or(""),
                  R"({"first":"Ada","last":"Byron","cents":500})");
  CAF_MESSAGE("the operator's word counts before the machine's");
  auto told = stored(1, "charge", state);
  told.to_step = "ship";
  CAF_CHECK_EQUAL(gd::check_upgrade(only_new, {}, told).step, "ship");
  CAF_MESSAGE("what is refused names the instance");
  x = gd::check_upgrade(only_new, {}, stored(1, "pay", R"({"total": "5"})"));
  CAF_CHECK_EQUAL(x.fault,
                  "state: instance 7: expected one of Order v1 that can be "
                  "converted: $.total: expected integer in "
                  "[-9223372036854775808, 9223372036854775807], got string "
                  "\"5\"");
  x = gd::check_upgrade(only_new, {.state = 40}, stored(1, "pay", state));
  CAF_CHECK(x.fault.starts_with("state: instance 7: the new one: expected at "
                                "most 40 bytes"));
  CAF_MESSAGE("nobody knows what the states of another version are");
  CAF_CHECK_EQUAL(
    gd::check_upgrade(only_new, {}, stored(4, "pay", state)).fault,
    "version: instance 7: expected one that this node has beside Order v3, or "
    "whose states that converts (.from), got Order v4");
  CAF_CHECK_EQUAL(only_new.upgrades().size(), 2u);
  CAF_CHECK_EQUAL(
    gd::registry(std::vector<gd::machine>{orders<order_v2>(2), newest()})
      .upgrades()
      .size(),
    3u);
}

CAF_TEST(stored states are tried in a test) {
  gd::testing::simulation sim{{newest()}};
  file good{R"({"id": 1, "fsm": "Order", "version": 1, "step": "charge", )"
            R"("state": {"buyer": "Ada Byron"}, "seq": 4})"
            "\n"
            R"({"version": 2, "state": {"buyer": "Ada Byron"}})"
            "\n\n"
            R"({"state": {"first": "Ada", "last": "Byron"}})"
            "\n"
            R"({"id": 2, "version": 1, "status": "done", "state": {"x": 1}})"
            "\n"};
  auto all = sim.decodes(good.path);
  CAF_REQUIRE(all);
  CAF_CHECK_EQUAL(all->states, 3u);
  CAF_CHECK_EQUAL(all->refusals.size(), 0u);
  file bad{R"({"id": 7, "version": 1, "state": {"buyer": 5}})"
           "\n"
           R"({"id": 8, "version": 3, "step": "charge", "state": {}})"
           "\n"};
  auto some = sim.decodes(bad.path);
  CAF_REQUIRE(some);
  CAF_REQUIRE_EQUAL(some->refusals.size(), 2u);
  CAF_CHECK_EQUAL(some->refusals[0],
                  "line 1: state: instance 7: expected one of Order v1 that "
                  "can be converted: $.buyer: expected string, got number 5");
  CAF_CHECK_EQUAL(some->refusals[1],
                  "line 2: step: instance 8: expected a step of Order v3 "
                  "(collect|pay|ship), got charge: map it");
  file no_json{"{\n"};
  CAF_CHECK(!sim.decodes(no_json.path));
  CAF_CHECK(!sim.decodes("/tmp/nowhere/there"));
  file no_machine{R"({"fsm": "Odrer", "state": {}})"};
  CAF_CHECK(!sim.decodes(no_machine.path));
}

} // namespace conversions_suite
