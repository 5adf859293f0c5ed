// A queue's rows that have not begun, and in which order they go on or back.

#define CAF_SUITE waiting_rows

#include <gd/engine/queue/waiting_rows.hpp>

#include <gd/machine.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace waiting_rows_suite {

using gd::held_row_ptr;
using gd::waiting_rows;
using reason = waiting_rows::reason;

GD_ENUM(bale_phase, press);

struct bale {
  std::int64_t number = 0;

  GD_STATE(bale, number);
};

namespace {

using ids = std::vector<std::int64_t>;

constexpr auto none = std::numeric_limits<std::uint64_t>::max();

struct fixture {
  std::shared_ptr<const gd::machine> machine
    = std::make_shared<const gd::machine>(
      gd::define<bale, bale_phase>("Bale", 1).step(
        bale_phase::press, [](gd::context<bale>&) { return gd::done(); }));
  waiting_rows under_test;

  held_row_ptr row(std::int64_t id, std::string token = "node/1/1") {
    return std::make_shared<gd::held_row>(
      machine, gd::store::picked_row{.id = id, .fsm = "Bale", .step = "press"},
      std::make_shared<gd::lease>(id, std::move(token)), gd::limits{});
  }

  void add(const ids& which, reason why) {
    for (auto id : which)
      under_test.add(row(id), why);
  }

  void add_claimed(std::uint64_t behind, const ids& which) {
    std::vector<held_row_ptr> rows;
    for (auto id : which)
      rows.push_back(row(id));
    under_test.add_claimed(behind, std::move(rows));
  }

  static ids of(const std::vector<held_row_ptr>& rows) {
    ids out;
    for (const auto& x : rows)
      out.push_back(x->under()->id);
    return out;
  }

  /// Those that go on; those that came too early are negative.
  ids end_pick(std::uint64_t ended, bool has_backlog,
               std::uint64_t next = none) {
    ids out;
    for (const auto& x : under_test.end_pick(ended, has_backlog, next))
      for (auto id : of(x.rows))
        out.push_back(x.too_early ? -id : id);
    return out;
  }

  ids begin_all() {
    ids out;
    while (under_test.any_prefetched())
      out.push_back(under_test.take_next()->under()->id);
    return out;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(waiting_rows_tests, fixture)

CAF_TEST(rows begin in the order of the picks and a trial before them) {
  add({3, 1, 2}, reason::slot);
  under_test.add_first(row(9));
  CAF_CHECK_EQUAL(begin_all(), (ids{9, 3, 1, 2}));
  CAF_CHECK_EQUAL(under_test.size(), 0u);
}

CAF_TEST(a row waits for one thing at a time and each is counted) {
  add({1, 2}, reason::slot);
  add({3, 4, 5}, reason::content);
  add({6}, reason::trial);
  add_claimed(1, {7, 8});
  add_claimed(2, {9});
  CAF_CHECK_EQUAL(under_test.count(reason::slot), 2u);
  CAF_CHECK_EQUAL(under_test.count(reason::content), 3u);
  CAF_CHECK_EQUAL(under_test.count(reason::trial), 1u);
  CAF_CHECK_EQUAL(under_test.count(reason::pick), 3u);
  CAF_CHECK_EQUAL(under_test.size(), 9u);
  CAF_CHECK_EQUAL(of(under_test.take_all()), (ids{1, 2, 3, 4, 5, 7, 8, 9, 6}));
  CAF_CHECK_EQUAL(under_test.size(), 0u);
}

CAF_TEST(content is for the execution that waits for it and for no other) {
  under_test.add(row(1, "node/1/1"), reason::content);
  under_test.add(row(1, "node/1/2"), reason::content);
  CAF_CHECK(!under_test.take({1, "node/1/3"}));
  CAF_CHECK(under_test.contains({1, "node/1/2"}));
  auto x = under_test.take({1, "node/1/2"});
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->under()->token, "node/1/2");
  CAF_CHECK(!under_test.take({1, "node/1/2"}));
  CAF_CHECK(under_test.contains({1, "node/1/1"}));
  CAF_CHECK_EQUAL(under_test.size(), 1u);
}

CAF_TEST(claims wait until no pick is under way that began before them) {
  add_claimed(2, {1});
  add_claimed(3, {2});
  CAF_CHECK_EQUAL(end_pick(1, false, 2), ids{});
  CAF_CHECK_EQUAL(end_pick(2, false, 3), ids{1});
  CAF_CHECK_EQUAL(end_pick(3, false), ids{2});
  CAF_CHECK_EQUAL(under_test.size(), 0u);
}

CAF_TEST(claims go back if a pick before them has left something) {
  add_claimed(2, {1, 2});
  add_claimed(3, {3});
  add_claimed(1, {4}); // got in before the pick began
  CAF_CHECK_EQUAL(end_pick(2, true, 3), (ids{-1, -2, -3, 4}));
  CAF_CHECK_EQUAL(under_test.size(), 0u);
}

CAF_TEST(bytes count from when a row comes until it goes on or back) {
  using bytes = std::size_t;
  auto add_sized = [&](std::int64_t id, reason why) {
    auto x = row(id);
    x->show({.state = std::string(100, ' ')});
    under_test.add(std::move(x), why);
  };
  for (std::int64_t id : {1, 2, 3})
    add_sized(id, reason::slot);
  add_sized(4, reason::content);
  add_sized(5, reason::trial);
  auto claimed = row(6);
  claimed->show({.state = std::string(10, ' ')});
  under_test.add_claimed(1, {claimed});
  CAF_CHECK_EQUAL(under_test.bytes(), bytes{510});
  under_test.end_pick(1, false, none);
  CAF_CHECK_EQUAL(under_test.bytes(), bytes{500});
  under_test.add_first(under_test.take_trial());
  CAF_CHECK_EQUAL(under_test.bytes(), bytes{500});
  under_test.take_next();
  under_test.take({4, "node/1/1"});
  CAF_CHECK_EQUAL(under_test.bytes(), bytes{300});
  under_test.take_last(1);
  under_test.take_picked(nullptr);
  CAF_CHECK_EQUAL(under_test.bytes(), bytes{0});
  add_sized(7, reason::content);
  under_test.take_all();
  CAF_CHECK_EQUAL(under_test.bytes(), bytes{0});
}

CAF_TEST(those that have come last go back first and no claims) {
  add({1, 2, 3}, reason::slot);
  add({8, 7}, reason::content);
  add_claimed(1, {9});
  CAF_CHECK_EQUAL(of(under_test.take_last(1)), ids{8});
  CAF_CHECK_EQUAL(of(under_test.take_last(2)), (ids{7, 3}));
  CAF_CHECK_EQUAL(of(under_test.take_last(9)), (ids{2, 1}));
  CAF_CHECK_EQUAL(under_test.count(reason::pick), 1u);
}

CAF_TEST(all that were picked go back but for what is on trial) {
  add({1, 2, 3}, reason::slot);
  auto alone = under_test.next().under();
  add({4, 5}, reason::content);
  add({6}, reason::trial);
  add_claimed(1, {7});
  CAF_CHECK_EQUAL(of(under_test.take_picked(alone)), (ids{2, 3, 4, 5}));
  CAF_CHECK_EQUAL(begin_all(), ids{1});
  CAF_CHECK_EQUAL(under_test.count(reason::trial), 1u);
  CAF_CHECK_EQUAL(under_test.count(reason::pick), 1u);
  under_test.add(row(8), reason::content);
  auto unloaded = under_test.take({8, "node/1/1"});
  under_test.add(unloaded, reason::content);
  CAF_CHECK_EQUAL(of(under_test.take_picked(unloaded->under())), ids{});
  CAF_CHECK(under_test.contains({8, "node/1/1"}));
}

CAF_TEST(a row that waits for its trial is taken once) {
  CAF_CHECK(!under_test.take_trial());
  add({1}, reason::trial);
  CAF_CHECK(!under_test.any_prefetched());
  auto x = under_test.take_trial();
  CAF_REQUIRE(x);
  CAF_CHECK_EQUAL(x->under()->id, 1);
  CAF_CHECK(!under_test.take_trial());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace waiting_rows_suite
