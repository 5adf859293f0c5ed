#include <gd/outcome.hpp>

namespace gd {

std::string_view to_string(outcome_kind kind) noexcept {
  switch (kind) {
    case outcome_kind::next:
      return "next";
    case outcome_kind::replay:
      return "replay";
    case outcome_kind::await:
      return "await";
    case outcome_kind::done:
      return "done";
    case outcome_kind::stop:
      return "stop";
  }
  return "unknown";
}

error outcome::out_of_range(std::string_view what) {
  return {errc::invalid_argument,
          std::string{what} + ": expected 0 to 100 years",
          {}};
}

error outcome::out_of_years(std::string_view what) {
  return {errc::invalid_argument,
          std::string{what} + ": expected the years 0 to 9999",
          {}};
}

error outcome::not_next() {
  return {errc::invalid_argument, "after: expected an outcome of next", {}};
}

effects& outcome::to_carry() {
  // A `to` may be made from what `replay` returns.
  if (kind == outcome_kind::replay)
    problem = error{errc::invalid_argument, "replay carries nothing", {}};
  if (!carried)
    carried.emplace();
  return *carried;
}

void outcome::add(gd::insert what) {
  to_carry().inserts.push_back(std::move(what));
}

void outcome::add(gd::signal what) {
  to_carry().signals.push_back({.what = std::move(what)});
}

void outcome::add(sql_statement what) {
  to_carry().statements.push_back(std::move(what));
}

void outcome::make_last_signal_fail() {
  if (carried && !carried->signals.empty())
    carried->signals.back().or_fail = true;
  else
    problem = error{
      errc::invalid_argument, "or_fail: expected a signal before it", {}};
}

void outcome::expect_of_last(std::int64_t rows) {
  if (carried && !carried->statements.empty() && rows >= 0)
    carried->statements.back().rows = rows;
  else
    problem = error{errc::invalid_argument,
                    "expect_rows: expected a statement before it, and a number "
                    "that is not negative",
                    {}};
}

error parked::no_names() {
  return {errc::invalid_argument, "names: expected 1 to 16, got nothing", {}};
}

} // namespace gd
