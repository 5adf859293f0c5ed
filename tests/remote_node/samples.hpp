#pragma once

#include <gd/instance.hpp>
#include <gd/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// What the test and its peer, two processes, both know: values for all fields
/// of the gateway's messages, whatever these are, and a text that shows them.
namespace gd::test {

// -- texts --------------------------------------------------------------------

/// The first and the last two code points of every plane of Unicode.
inline std::string every_plane() {
  std::string text;
  auto add = [&text](char32_t c) {
    auto tail = [&](int shift) {
      text += static_cast<char>(0x80 | (c >> shift & 0x3F));
    };
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xC0 | c >> 6);
      tail(0);
    } else if (c < 0x10000) {
      text += static_cast<char>(0xE0 | c >> 12);
      tail(6);
      tail(0);
    } else {
      text += static_cast<char>(0xF0 | c >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  };
  for (char32_t c : {0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000})
    add(c);
  for (char32_t plane = 0; plane <= 16; ++plane)
    for (char32_t c : {0x0021, 0x1234, 0xFFFE, 0xFFFF})
      add(plane << 16 | c);
  return text;
}

/// A document of a mebibyte.
inline std::string mebibyte() {
  std::string text = R"({"note": ")";
  auto planes = every_plane();
  planes.erase(0, planes.find('!')); // the control character is no JSON
  while (text.size() + planes.size() + 2 < 1 << 20)
    text += planes;
  text.append((1 << 20) - 2 - text.size(), '.');
  return text + "\"}";
}

inline const std::vector<std::string>& sample_texts() {
  using namespace std::string_literals;
  static const std::vector<std::string> xs{
    ""s,
    "plain"s,
    "\"quoted\\ \t\r\n"s,
    "a\0b"s,
    "\xff\xfe\x80 no UTF-8"s,
    every_plane(),
    std::string(70'000, 'x'),
  };
  return xs;
}

inline const std::vector<json>& sample_documents() {
  static const std::vector<json> xs{
    {},
    json::raw("[]"),
    json::raw("null"),
    json::raw("[-9223372036854775808, 9223372036854775807, 2e19]"),
    json::raw("[1e100, -0.0, 5e-324, 1.7976931348623157e308, 0.1]"),
    to_json(std::vector<double>{0.1, -0.0, 5e-324, 1.7976931348623157e308}),
    to_json(std::numeric_limits<double>::infinity()), // holds an error
    json::failed({errc::codec, every_plane(), {}}),
    json::raw(mebibyte()),
    json::raw("{no JSON"),
  };
  return xs;
}

// -- samples ------------------------------------------------------------------

/// The first one leaves everything empty, the second one nothing.
class sampler {
public:
  explicit sampler(unsigned seed) : seed_(seed), random_(seed) {
    // nop
  }

  template <class T>
  void fill(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      x = below(2) == 1;
    } else if constexpr (std::is_same_v<T, json>) {
      x = sample_documents()[below(sample_documents().size())];
    } else if constexpr (std::is_enum_v<T>) {
      x = static_cast<T>(1 + below(3));
    } else if constexpr (std::is_integral_v<T>) {
      using limits = std::numeric_limits<T>;
      std::array<T, 5> xs{limits::min(), limits::max(), T{0}, T{1},
                          static_cast<T>(-1)};
      x = xs[below(xs.size())];
    } else if constexpr (std::is_floating_point_v<T>) {
      using limits = std::numeric_limits<T>;
      std::array<T, 5> xs{limits::infinity(), -limits::infinity(), T{-0.0},
                          limits::denorm_min(), limits::max()};
      x = xs[below(xs.size())];
    } else if constexpr (std::is_same_v<T, std::string>) {
      x = sample_texts()[below(sample_texts().size())];
    } else if constexpr (gd::detail::is_optional<T>) {
      x.reset();
      if (filled())
        fill(x.emplace());
    } else if constexpr (gd::detail::sequence<T>) {
      x.clear();
      if (filled())
        for (x.resize(1 + below(3)); auto& item : x)
          fill(item);
    } else {
      std::apply([this](auto&... fields) { (fill(fields), ...); },
                 gd::detail::fields_of(x));
    }
  }

private:
  std::size_t below(std::size_t n) {
    return random_() % n;
  }

  bool filled() {
    return seed_ == 1 || (seed_ > 1 && below(2) == 1);
  }

  unsigned seed_;
  std::mt19937 random_;
};

/// The same in every process.
template <class T>
T sample(unsigned seed) {
  T x{};
  sampler{seed}.fill(x);
  return x;
}

inline constexpr unsigned samples_of_each = 40;

/// All codes that there are.
inline std::vector<errc> every_code() {
  std::vector<errc> xs;
  for (std::uint8_t n = 1; to_string(static_cast<errc>(n)) != "unknown"; ++n)
    xs.push_back(static_cast<errc>(n));
  return xs;
}

// -- showing ------------------------------------------------------------------

/// A line that is the same for equal values only.
template <class T>
std::string show(const T& x) {
  if constexpr (std::is_same_v<T, std::string>) {
    std::string text = "\"";
    for (unsigned char c : x) {
      if (c >= ' ' && c < 0x7F && c != '"' && c != '\\') {
        text += static_cast<char>(c);
      } else {
        char code[5];
        std::snprintf(code, sizeof(code), "\\x%02x", c);
        text += code;
      }
    }
    return text + '"';
  } else if constexpr (std::is_same_v<T, json>) {
    if (auto* why = x.failure())
      return "failed(" + std::to_string(static_cast<int>(why->code)) + ", "
             + show(why->message) + ")";
    return "json(" + show(x.text()) + ")";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<int>(x));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(x);
  } else if constexpr (gd::detail::is_optional<T>) {
    return x ? show(*x) : "none";
  } else if constexpr (gd::detail::sequence<T>) {
    std::string text = "[";
    for (const auto& item : x)
      text += (text.size() > 1 ? ", " : "") + show(item);
    return text + "]";
  } else {
    std::string text = "{";
    auto name = gd::detail::names_of<T>.begin();
    auto add = [&](const auto& field) {
      text += (text.size() > 1 ? ", " : "") + std::string{*name++} + ": "
              + show(field);
    };
    std::apply([&](const auto&... fields) { (add(fields), ...); },
               gd::detail::fields_of(x));
    return text + "}";
  }
}

inline std::string show(const error& why) {
  return "! " + std::string{to_string(why.code)} + " " + show(why.message) + " "
         + why.sqlstate;
}

template <class T>
std::string show(const result<T>& x) {
  return x ? "= " + show(*x) : show(x.error());
}

} // namespace gd::test
