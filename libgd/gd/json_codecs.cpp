#include <gd/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>

namespace gd {

result<void> json_codec<json>::write(std::string& out, const json& x,
                                     const json_path& at) {
  if (auto why = x.failure()) {
    // Its own path, if it has one, goes on from here.
    std::string_view tail = why->message;
    if (!tail.starts_with('$'))
      return at.expected("a value with a JSON form", tail);
    tail.remove_prefix(1);
    return error{why->code, at.to_string().append(tail), why->sqlstate};
  }
  if (auto doc = detail::parse_json(x.text(), at); !doc)
    return doc.error();
  out += x.text();
  return {};
}

namespace detail {

// -- numbers ------------------------------------------------------------------

template <class T>
result<T> read_integer(const json_value& in, T min, T max) {
  auto token = in.raw();
  auto end = token.data() + token.size();
  T x{};
  auto [stop, why] = std::from_chars(token.data(), end, x);
  if (in.type() != json_type::number || why != std::errc{} || stop != end
      || x < min || x > max)
    return in.expected(fmt::format("integer in [{}, {}]", min, max));
  return x;
}

template result<std::int64_t> read_integer(const json_value&, std::int64_t,
                                           std::int64_t);
template result<std::uint64_t> read_integer(const json_value&, std::uint64_t,
                                            std::uint64_t);

template <class T>
result<void> write_number(std::string& out, T x, const json_path& at) {
  if (!std::isfinite(x))
    return at.expected("finite number", fmt::to_string(x));
  fmt::format_to(std::back_inserter(out), "{}", x);
  return {};
}

template result<void> write_number(std::string&, float, const json_path&);
template result<void> write_number(std::string&, double, const json_path&);

template <class T>
result<void> read_number(const json_value& in, T& x) {
  if (in.type() != json_type::number)
    return in.expected("number");
  auto token = in.raw();
  auto res = std::from_chars(token.data(), token.data() + token.size(), x);
  if (res.ec == std::errc::result_out_of_range) {
    // Too large, or too small, which is as good as zero.
    if (!is_below_one(token))
      return in.expected(fmt::format("number of magnitude up to {}",
                                     std::numeric_limits<T>::max()));
    x = 0;
  }
  return {};
}

template result<void> read_number(const json_value&, float&);
template result<void> read_number(const json_value&, double&);

// -- text ---------------------------------------------------------------------

result<void> write_string(std::string& out, std::string_view x,
                          const json_path& at) {
  if (!simdjson::validate_utf8(x))
    return at.expected("UTF-8 text", "invalid bytes");
  out += '"';
  while (!x.empty()) {
    auto special = std::find_if(x.begin(), x.end(), [](unsigned char c) {
      return c < 0x20 || c == '"' || c == '\\';
    });
    auto plain = static_cast<std::size_t>(special - x.begin());
    out += x.substr(0, plain);
    x.remove_prefix(plain);
    if (x.empty())
      break;
    if (x[0] == '\0') // jsonb refuses \u0000
      return at.expected("text without NUL", "a NUL byte");
    if (x[0] == '"' || x[0] == '\\')
      (out += '\\') += x[0];
    else
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", x[0]);
    x.remove_prefix(1);
  }
  out += '"';
  return {};
}

std::string one_of(std::span<const std::string_view> names) {
  if (names.empty())
    return "none";
  return fmt::format("one of {}", fmt::join(names, "|"));
}

// -- times --------------------------------------------------------------------

result<void> write_time(std::string& out, json_time x, const json_path& at) {
  using namespace std::chrono;
  auto day = floor<days>(x);
  if (day < sys_days{year{0} / 1 / 1} || day >= sys_days{year{10000} / 1 / 1})
    return at.expected(
      "time in the years 0 to 9999",
      fmt::format("{} microseconds after 1970", x.time_since_epoch().count()));
  year_month_day date{day};
  hh_mm_ss time{x - day};
  fmt::format_to(
    std::back_inserter(out), "\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z\"",
    static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
    static_cast<unsigned>(date.day()), time.hours().count(),
    time.minutes().count(), time.seconds().count(), time.subseconds().count());
  return {};
}

static constexpr std::string_view all_digits = "0123456789";

/// Takes a number of exactly `n` digits that follows `before`.
static bool take_field(std::string_view& text, std::string_view before,
                       std::size_t n, int& x) {
  if (!text.starts_with(before))
    return false;
  auto digits = text.substr(before.size(), n);
  if (digits.size() < n || digits.find_first_not_of(all_digits) != digits.npos)
    return false;
  std::from_chars(digits.data(), digits.data() + n, x);
  text.remove_prefix(before.size() + n);
  return true;
}

/// Parses RFC 3339 text, which may be of any offset.
static std::optional<json_time> parse_time(std::string_view text) {
  using namespace std::chrono;
  int y = 0, mon = 0, d = 0, h = 0, min = 0, s = 0, off_h = 0, off_min = 0;
  if (!take_field(text, "", 4, y) || !take_field(text, "-", 2, mon)
      || !take_field(text, "-", 2, d) || !take_field(text, "T", 2, h)
      || !take_field(text, ":", 2, min) || !take_field(text, ":", 2, s))
    return std::nullopt;
  std::int64_t us = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    auto digits = text.substr(0, text.find_first_not_of(all_digits));
    if (digits.empty())
      return std::nullopt;
    text.remove_prefix(digits.size());
    for (std::size_t i = 0; i < 6; ++i)
      us = us * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  bool west = text.starts_with('-');
  if (text == "Z")
    text = {};
  else if (!take_field(text, west ? "-" : "+", 2, off_h)
           || !take_field(text, ":", 2, off_min))
    return std::nullopt;
  year_month_day date{year{y}, month{static_cast<unsigned>(mon)},
                      day{static_cast<unsigned>(d)}};
  if (!text.empty() || !date.ok() || h > 23 || min > 59 || s > 59 || off_h > 23
      || off_min > 59)
    return std::nullopt;
  auto offset = hours{off_h} + minutes{off_min};
  return sys_days{date} + hours{h} + minutes{min} + seconds{s}
         + microseconds{us} - (west ? -offset : offset);
}

result<json_time> read_time(const json_value& in, std::chrono::microseconds min,
                            std::chrono::microseconds max) {
  auto x = parse_time(in.text());
  if (!x)
    return in.expected("time like \"2024-02-29T12:00:00.000000Z\"");
  if (auto t = x->time_since_epoch(); t < min || t > max)
    return in.expected("time within the range of the clock");
  return *x;
}

// -- containers ---------------------------------------------------------------

result<void> check_depth(const json_path& at) {
  if (at.depth >= max_json_depth)
    return at.expected(fmt::format("at most {} levels", max_json_depth),
                       "more");
  return {};
}

result<void> open(std::string& out, char bracket, const json_path& at) {
  out += bracket;
  return check_depth(at);
}

void separate(std::string& out, char bracket) {
  if (out.back() != bracket)
    out += ',';
}

result<void> write_key(std::string& out, std::string_view key,
                       const json_path& at) {
  separate(out, '{');
  auto res = write_string(out, key, at);
  out += ':';
  return res;
}

error unknown_key(const json_value& in,
                  std::span<const std::string_view> names) {
  return {errc::codec,
          fmt::format("{}: unknown key, expected {}", in.path().to_string(),
                      one_of(names)),
          {}};
}

error repeated_key(const json_value& in) {
  return in.path().expected("a key once", "it again");
}

} // namespace detail

} // namespace gd
