#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ratio>

namespace gd {

/// The longest delay or timeout: 100 years.
inline constexpr std::chrono::microseconds longest_delay
  = std::chrono::hours{24} * 36'525;

/// A duration of any type in microseconds, the database's resolution; nullopt
/// if it is negative, not a number, or longer than `longest_delay`.
template <class Rep, class Period>
constexpr std::optional<std::int64_t>
to_microseconds(std::chrono::duration<Rep, Period> d) {
  auto us = std::chrono::duration<long double, std::micro>{d}.count();
  if (!(us >= 0 && us <= static_cast<long double>(longest_delay.count())))
    return std::nullopt;
  return static_cast<std::int64_t>(us);
}

/// Microseconds since 1970.
inline std::int64_t to_microseconds(std::chrono::system_clock::time_point t) {
  return std::chrono::floor<std::chrono::microseconds>(t.time_since_epoch())
    .count();
}

} // namespace gd
