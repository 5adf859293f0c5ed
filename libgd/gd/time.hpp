#pragma once

#include <gd/error.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <string_view>

namespace gd {

/// The longest delay or timeout: 100 years.
inline constexpr std::chrono::microseconds longest_delay
  = std::chrono::hours{24} * 36'525;

/// The longest time of a setting, such as a lease or an interval: a year.
inline constexpr std::chrono::milliseconds longest_setting = std::chrono::hours{
  24 * 365};

/// The longest time that the server allows a statement: some 24 days.
inline constexpr std::chrono::milliseconds longest_statement{
  std::numeric_limits<std::int32_t>::max()};

/// Points in time that the database keeps: those of the years 0 to 9999, as states have
/// them.
inline constexpr std::chrono::sys_time<std::chrono::microseconds> earliest_time
  = std::chrono::sys_days{std::chrono::year{0} / 1 / 1};
/// The last of them.
inline constexpr std::chrono::sys_time<std::chrono::microseconds> latest_time
  = std::chrono::sys_days{std::chrono::year{10'000} / 1 / 1}
    - std::chrono::microseconds{1};

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

/// A point in time of any type in microseconds since 1970; nullopt if it is none that
/// the database keeps.
template <class Duration>
constexpr std::optional<std::int64_t>
to_microseconds(std::chrono::sys_time<Duration> t) {
  using std::chrono::microseconds;
  auto us = std::chrono::duration<long double, std::micro>{t.time_since_epoch()}
              .count();
  auto is_kept = [](auto count) {
    return count >= earliest_time.time_since_epoch().count()
           && count <= latest_time.time_since_epoch().count();
  };
  if (!is_kept(us)) // what follows cannot overflow
    return std::nullopt;
  return std::chrono::floor<microseconds>(t.time_since_epoch()).count();
}

/// Whether a setting is from `least` to `most`.
result<void> check_time(std::string_view setting,
                        std::chrono::milliseconds value,
                        std::chrono::milliseconds least,
                        std::chrono::milliseconds most = longest_setting);

} // namespace gd
