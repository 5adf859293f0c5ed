#include <gd/time.hpp>

#include <fmt/format.h>

namespace gd {

result<void> check_time(std::string_view setting,
                        std::chrono::milliseconds value,
                        std::chrono::milliseconds least,
                        std::chrono::milliseconds most) {
  if (value >= least && value <= most)
    return {};
  return error{errc::invalid_argument,
               fmt::format("{}: expected {} to {} ms, got {}", setting,
                           least.count(), most.count(), value.count()),
               {}};
}

} // namespace gd
