#define CAF_SUITE refused_rows

// What of the refusals of rows is written down for `why`, and when.

#include <gd/engine/intake/refused_rows.hpp>

#include <caf/test/unit_test.hpp>

#include <string>

namespace refused_rows_suite {

using namespace std::literals;

namespace {

struct fixture {
  gd::refused_rows rows;
  gd::refused_rows::clock::time_point now{};

  void note(std::int64_t id, const std::string& why = "no") {
    rows.note(id, "a pick", {gd::errc::rejected, why, "P0001"}, now);
  }

  /// How many rows are to be written down; -1: nothing is.
  int news() {
    auto x = rows.news(now);
    return x ? static_cast<int>(x->size()) : -1;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(refused_rows_tests, fixture)

CAF_TEST(what is refused is written down once and again when it is older) {
  CAF_CHECK_EQUAL(news(), -1);
  note(7);
  auto told = rows.news(now);
  CAF_REQUIRE(told);
  CAF_CHECK_EQUAL(told->front().id, 7);
  CAF_CHECK_EQUAL(told->front().why, "a pick: no [P0001]");
  CAF_CHECK_EQUAL(told->front().since_us, 0);
  for (int i = 0; i < 29; ++i, now += 1s) {
    note(7);
    CAF_CHECK_EQUAL(news(), -1);
  }
  now += 1s;
  note(7);
  CAF_CHECK_EQUAL(news(), 1);
  note(7, "still no");
  CAF_CHECK_EQUAL(news(), 1);
  rows.not_written();
  CAF_CHECK_EQUAL(news(), 1);
}

CAF_TEST(what is refused no more is forgotten) {
  note(7);
  now += 10min;
  note(8);
  CAF_CHECK_EQUAL(news(), 2);
  now += 2min;
  CAF_CHECK_EQUAL(news(), 1);
  now += 10min;
  CAF_CHECK_EQUAL(news(), 0);
  CAF_CHECK_EQUAL(news(), -1);
}

CAF_TEST(of many rows the last ones are known) {
  for (int i = 1; i <= 1'000; ++i, now += 1ms)
    note(i, std::string(5'000, 'x'));
  auto told = rows.news(now);
  CAF_REQUIRE(told);
  CAF_CHECK_EQUAL(told->size(), 50u);
  CAF_CHECK_EQUAL(told->front().id, 951);
  CAF_CHECK_LESS(told->front().why.size(), 1'100u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace refused_rows_suite
