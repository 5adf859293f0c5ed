#include "serve/query.hpp"

#include "common.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace gdctl::serve {

namespace {

std::optional<std::string> decode(std::string_view text) {
  std::string out;
  for (; !text.empty(); text.remove_prefix(1)) {
    auto c = text.front();
    if (c == '%') {
      unsigned char byte = 0;
      if (text.size() < 3)
        return std::nullopt;
      auto [end, failed] = std::from_chars(text.data() + 1, text.data() + 3,
                                           byte, 16);
      if (failed != std::errc{} || end != text.data() + 3)
        return std::nullopt;
      out += static_cast<char>(byte);
      text.remove_prefix(2);
    } else {
      out += c == '+' ? ' ' : c;
    }
  }
  return out;
}

} // namespace

gd::result<parameters> read_query(std::string_view text,
                                  const std::vector<std::string_view>& names) {
  parameters out;
  while (!text.empty()) {
    auto part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    auto middle = std::min(part.find('='), part.size());
    auto name = decode(part.substr(0, middle));
    auto value = decode(part.substr(std::min(middle + 1, part.size())));
    if (!name || !value || gd::clean_text(*name, name->size()) != *name
        || gd::clean_text(*value, value->size()) != *value)
      return bad_usage("the query is not well encoded UTF-8, or has a NUL");
    if (std::find(names.begin(), names.end(), *name) == names.end())
      return bad_usage(fmt::format(
        "{}: expected {}", json_string(*name),
        names.empty() ? "no query"
                      : fmt::format("one of {}", fmt::join(names, ", "))));
    if (!out.emplace(std::move(*name), std::move(*value)).second)
      return bad_usage("expected each parameter once");
  }
  return out;
}

gd::error of_parameter(gd::error why) {
  auto& text = why.message;
  auto name = text.substr(0, text.find(':'));
  text.erase(0, name.size());
  name.erase(0, name.find_first_not_of('-'));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(c));
  });
  text.insert(0, name);
  return why;
}

const std::string& value_of(const parameters& these, std::string_view name) {
  static const std::string none;
  auto found = these.find(name);
  return found == these.end() ? none : found->second;
}

} // namespace gdctl::serve
