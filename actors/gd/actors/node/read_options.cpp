#include <gd/actors/node/read_options.hpp>

#include <caf/settings.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

std::optional<std::string> refusal_of(std::string_view expected,
                                      const caf::config_value& got) {
  return fmt::format("expected {}, got {}", expected, to_string(got));
}

template <std::integral T>
std::optional<std::string> read_integer(const caf::config_value& from, T& to) {
  auto x = value_as<T>(from);
  if (!x)
    return refusal_of(std::is_signed_v<T> ? fmt::format(
                        "a whole number of {} bits", 8 * sizeof(T))
                                          : "a whole number, not below 0",
                      from);
  to = *x;
  return {};
}

bool read_number(std::string_view text, std::int32_t& to) {
  auto* end = text.data() + text.size();
  auto [read_to, problem] = std::from_chars(text.data(), end, to);
  return problem == std::errc{} && read_to == end;
}

} // namespace

std::string option_name(std::string_view group, std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return fmt::format("{}.{}", group, field);
}

given_options::given_options(const caf::actor_system_config& cfg,
                             const std::string& group, queue_config usual)
  : usual_(std::move(usual)) {
  if (auto* all = caf::get_if(&caf::content(cfg), group))
    collect(group, *all);
}

/// What stands in a group and in the groups in it.
void given_options::collect(const std::string& name,
                            const caf::config_value& value) {
  if (auto* group = caf::get_if<caf::settings>(&value))
    for (const auto& [key, member] : *group)
      collect(fmt::format("{}.{}", name, key), member);
  else
    values_.emplace(name, &value);
}

void given_options::refuse(const std::string& name, const std::string& why) {
  if (!wrong_)
    wrong_ = error{errc::invalid_argument, name + ": " + why, {}};
}

std::optional<error> given_options::wrong() {
  for (const auto& [name, value] : values_)
    refuse(name, "there is no such option");
  return wrong_;
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 std::string& to) const {
  auto x = value_as<std::string>(from);
  if (!x) // it may be a password: not shown
    return "expected a string, got another type";
  to = *x;
  return {};
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 bool& to) const {
  auto x = value_as<bool>(from);
  if (!x)
    return refusal_of("true or false", from);
  to = *x;
  return {};
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 double& to) const {
  auto x = value_as<double>(from);
  if (auto whole = value_as<std::int64_t>(from); whole && !x)
    x = static_cast<double>(*whole);
  if (!x)
    return refusal_of("a number", from);
  to = *x;
  return {};
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 std::int32_t& to) const {
  return read_integer(from, to);
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 std::int64_t& to) const {
  return read_integer(from, to);
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 std::size_t& to) const {
  return read_integer(from, to);
}

given_options::refusal given_options::read_value(const caf::config_value& from,
                                                 milliseconds& to) const {
  auto x = value_as<caf::timespan>(from);
  auto whole = std::chrono::duration_cast<milliseconds>(
    x.value_or(caf::timespan{0}));
  if (!x || *x != whole)
    return refusal_of("a time in whole milliseconds, as 250ms, 5s or 10min",
                      from);
  to = whole;
  return {};
}

given_options::refusal
given_options::read_value(const caf::config_value& from,
                          std::vector<std::string>& to) const {
  auto texts = value_as<std::vector<std::string>>(from);
  if (!texts)
    return refusal_of("a list of texts", from);
  to = std::move(*texts);
  return {};
}

/// "name", "name:slots" or "name:slots:prefetch".
std::optional<queue_config>
given_options::queue_of(std::string_view text) const {
  auto queue = usual_;
  auto colon = text.find(':');
  queue.name = text.substr(0, colon);
  for (auto* number : {&queue.slots, &queue.prefetch}) {
    if (colon == std::string_view::npos)
      break;
    text.remove_prefix(colon + 1);
    colon = text.find(':');
    if (!read_number(text.substr(0, colon), *number))
      return std::nullopt;
  }
  if (colon != std::string_view::npos || queue.name.empty())
    return std::nullopt;
  return queue;
}

given_options::refusal
given_options::read_value(const caf::config_value& from,
                          std::vector<queue_config>& to) const {
  auto texts = value_as<std::vector<std::string>>(from);
  if (!texts)
    return refusal_of("a list such as [\"mail:10\", \"default\"]", from);
  std::vector<queue_config> queues;
  for (const auto& text : *texts) {
    auto queue = queue_of(text);
    if (!queue)
      return fmt::format(
        "expected name, name:slots or name:slots:prefetch, got "
        "\"{}\"",
        text);
    queues.push_back(std::move(*queue));
  }
  to = std::move(queues);
  return {};
}

} // namespace gd::actors
