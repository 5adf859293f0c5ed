#pragma once

#include <gd/error.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What tests say in words: numbers, results and errors.
namespace gd::test {

inline std::string text(std::int64_t x) {
  return std::to_string(x);
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// No code: it is no error.
template <class T>
errc code_of(const result<T>& x) {
  return x ? errc{} : x.error().code;
}

template <class T>
std::vector<errc> codes_of(const std::vector<result<T>>& xs) {
  std::vector<errc> codes;
  for (const auto& x : xs)
    codes.push_back(code_of(x));
  return codes;
}

/// Empty: it is no error.
template <class T>
std::string message_of(const result<T>& x) {
  return x ? "" : x.error().message;
}

/// The code and the message. Empty: it is no error.
template <class T>
std::string refusal(const result<T>& x) {
  return x ? ""
           : std::string{to_string(x.error().code)} + ": " + x.error().message;
}

/// The value, or the error as a failure of the test.
template <class T>
T must(result<T> x) {
  if (!x)
    throw std::runtime_error{to_string(x.error())};
  return std::move(*x);
}

inline void must(const result<void>& x) {
  if (!x)
    throw std::runtime_error{to_string(x.error())};
}

} // namespace gd::test
