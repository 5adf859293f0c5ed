#include <gd/testing.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace gd::testing {

namespace {

// With the text as it was sent, a step would see other values than in a database:
// an integer field reads 1000 but not 1e3, and repeated keys and -0 do not come
// back. A test that shows states would need two texts.

/// PostgreSQL's numeric keeps the digits behind the point, and has no exponent.
std::string as_numeric(std::string_view raw) {
  bool negative = raw.front() == '-';
  if (negative)
    raw.remove_prefix(1);
  int exponent = 0;
  if (auto e = raw.find_first_of("eE"); e != raw.npos) {
    auto digits = raw.substr(e + 1);
    if (digits.front() == '+')
      digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    raw = raw.substr(0, e);
  }
  auto point = std::min(raw.find('.'), raw.size());
  std::string digits{raw.substr(0, point)};
  if (point < raw.size())
    digits += raw.substr(point + 1);
  auto at = static_cast<int>(point) + exponent;
  if (at <= 0) {
    digits.insert(0, static_cast<std::size_t>(1 - at), '0');
    at = 1;
  }
  if (auto whole = static_cast<std::size_t>(at); digits.size() < whole)
    digits.append(whole - digits.size(), '0');
  auto zero = digits.find_first_not_of('0') == digits.npos;
  auto lead = std::min(digits.find_first_not_of('0'),
                       static_cast<std::size_t>(at) - 1);
  auto out = (negative && !zero ? "-" : "")
             + digits.substr(lead, static_cast<std::size_t>(at) - lead);
  if (digits.size() > static_cast<std::size_t>(at))
    out += "." + digits.substr(static_cast<std::size_t>(at));
  return out;
}

std::string as_string(std::string_view text) {
  constexpr std::string_view special = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  std::string out = "\"";
  for (char c : text)
    if (auto i = special.find(c); i != special.npos)
      (out += '\\') += letters[i];
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  return out += '"';
}

struct by_length {
  bool operator()(std::string_view a, std::string_view b) const {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }
};

std::string as_jsonb(const json_value& x) {
  std::string out;
  auto append = [&out](const std::string& piece) {
    if (out.size() > 1)
      out += ", ";
    out += piece;
  };
  switch (x.type()) {
    case json_type::number:
      return as_numeric(x.raw());
    case json_type::string:
      return as_string(x.text());
    case json_type::array:
      out = "[";
      (void)x.each([&](const json_value& child) -> result<void> {
        append(as_jsonb(child));
        return {};
      });
      return out += ']';
    case json_type::object: {
      std::map<std::string, std::string, by_length> members;
      (void)x.each([&](const json_value& child) -> result<void> {
        members.insert_or_assign(std::string{child.key()}, as_jsonb(child));
        return {};
      });
      out = "{";
      for (const auto& [key, value] : members)
        append(as_string(key) + ": " + value);
      return out += '}';
    }
    default:
      return std::string{x.raw()};
  }
}

/// What a jsonb column returns of this text, which has been checked.
std::string as_jsonb(std::string text) {
  if (auto doc = detail::parse_json(text, {}))
    return as_jsonb(json_value{doc->nodes.front(), {}, false});
  return text;
}

} // namespace

json simulation::as_stored(std::string text) {
  return json::raw(as_jsonb(std::move(text)));
}

} // namespace gd::testing
