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

error parked::no_names() {
  return {errc::invalid_argument, "names: expected 1 to 16, got nothing", {}};
}

} // namespace gd
