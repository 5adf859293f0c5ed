#pragma once

#include <gd/json.hpp>
#include <gd/state.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

namespace gd {

/// About how many bytes a described value takes when it is sent: of a text its length, of
/// whatever else eight.
template <class T>
std::size_t about_bytes(const T& x) {
  constexpr std::size_t beside = 8;
  if constexpr (std::is_same_v<T, std::string>) {
    return beside + x.size();
  } else if constexpr (std::is_same_v<T, json>) {
    return beside + x.text().size();
  } else if constexpr (detail::described<T>) {
    return std::apply(
      [](const auto&... fields) {
      return (beside + ... + about_bytes(fields));
      },
      x.gd_fields());
  } else if constexpr (requires { x.has_value(); }) {
    return x ? beside + about_bytes(*x) : beside;
  } else if constexpr (requires { x.begin(); }) {
    std::size_t n = beside;
    for (const auto& one : x)
      n += about_bytes(one);
    return n;
  } else {
    return beside;
  }
}

/// A request that waits until something has happened, for as long as it says.
template <class T>
concept waits_long = requires(const T& x) {
  x.within_us;
};

/// Of an answer's message, without what it says; and of an error.
inline constexpr std::size_t bytes_of_message = 256;

} // namespace gd
