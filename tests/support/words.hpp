#pragma once

#include <gd/error.hpp>

#include <string>
#include <string_view>

namespace gd::test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// No code: it is no error.
template <class T>
errc code_of(const result<T>& x) {
  return x ? errc{} : x.error().code;
}

/// Empty: it is no error.
template <class T>
std::string message_of(const result<T>& x) {
  return x ? "" : x.error().message;
}

} // namespace gd::test
