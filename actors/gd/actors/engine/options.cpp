#include <gd/actors/engine.hpp>

#include <gd/state.hpp>

#include <caf/config_option_adder.hpp>
#include <caf/settings.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

// The fields of gd::config that are plain values, and those of its limits.
// clang-format off
#define GD_ENGINE_OPTIONS(option)                                              \
  option(database, "libpq connection string or URI")                           \
  option(schema, "where the tables are")                                       \
  option(node, "this node's name in lease tokens and logs")                    \
  option(queues, "what this node serves: name, name:slots, name:slots:ahead")  \
  option(lease, "how long a row stays with a node that has gone silent")       \
  option(heartbeat, "how often leases are extended")                           \
  option(poll, "how often an idle queue looks for work")                       \
  option(look, "how often, between these, a node looks for rows that are due") \
  option(reaper, "how often expired leases are looked for")                    \
  option(jitter, "by which part of its interval a sweep may be late")          \
  option(sweep_backoff, "how many times longer intervals grow in vain")        \
  option(single_sweeper, "one node sweeps for all of the schema")              \
  option(max_crashes, "trials that may end with their process")                \
  option(stop_grace, "what a stop gives to steps that run")                    \
  option(patience, "how long a request may wait until it is sent")             \
  option(worker_ping, "how often a worker says that it lives")                 \
  option(worker_silence, "when a worker that says nothing is gone")            \
  option(connections, "of this node, to the database")                         \
  option(statement_timeout, "by the server, for each statement")               \
  option(connect_timeout, "for each attempt to connect")                       \
  option(connect_within, "when a start without any connection gives up")       \
  option(rows_per_turn, "rows in one transaction")                             \
  option(bytes_per_turn, "bytes of states and payloads in one transaction")    \
  option(bytes_ahead, "bytes of rows picked ahead, and of outcomes that wait") \
  option(bytes_waiting, "bytes of requests that wait in the gateway")          \
  option(limits.name, "bytes of names")                                        \
  option(limits.dedup_key, "bytes of a signal's dedup key")                    \
  option(limits.partition_key, "bytes of a partition key")                     \
  option(limits.unique_key, "bytes of a unique key")                           \
  option(limits.state, "bytes of a state")                                     \
  option(limits.result, "bytes of a result")                                   \
  option(limits.payload, "bytes of a signal's payload")                        \
  option(limits.metadata, "bytes of a transition's metadata")                  \
  option(limits.reason, "bytes of an error's text")                            \
  option(limits.inbox, "signals of an instance that are not consumed")
// clang-format on

constexpr auto engine_group = "gd.engine";

/// Calls `f` with each option's name, the field, and what is said of it.
template <class F>
void for_each_option(config& x, F f) {
  auto name_of = [](std::string field) {
    std::replace(field.begin(), field.end(), '_', '-');
    return fmt::format("{}.{}", engine_group, field);
  };
#define GD_VISIT(field, text) f(name_of(#field), x.field, text);
  GD_ENGINE_OPTIONS(GD_VISIT)
#undef GD_VISIT
}

constexpr std::size_t options_in_all = [] {
  std::size_t n = 0;
#define GD_COUNT(field, text) ++n;
  GD_ENGINE_OPTIONS(GD_COUNT)
#undef GD_COUNT
  return n;
}();
/// With `machines` and `on_event`, and `limits` in the place of its own fields.
constexpr auto fields_in_all = options_in_all
                               - gd::detail::count_fields<limits>() + 3;
static_assert(
  gd::detail::has_fields<config>(std::make_index_sequence<fields_in_all>{})
    && !gd::detail::has_fields<config>(
      std::make_index_sequence<fields_in_all + 1>{}),
  "GD_ENGINE_OPTIONS lists each field of gd::config but machines "
  "and on_event");

/// As which of its own types CAF reads a field.
template <class T>
struct read_as : std::type_identity<T> {};
template <>
struct read_as<milliseconds> : std::type_identity<caf::timespan> {};
template <>
struct read_as<std::vector<queue_config>>
  : std::type_identity<std::vector<std::string>> {};

// -- reading values -----------------------------------------------------------

// Why it is no such value; nullopt: it is, and `to` has it now.
using refusal = std::optional<std::string>;

refusal refusal_of(std::string_view expected, const caf::config_value& got) {
  return fmt::format("expected {}, got {}", expected, to_string(got));
}

refusal read_option(const caf::config_value& from, std::string& to) {
  auto x = value_as<std::string>(from);
  if (!x) // it may be a password: not shown
    return "expected a string, got another type";
  to = *x;
  return {};
}

refusal read_option(const caf::config_value& from, bool& to) {
  auto x = value_as<bool>(from);
  if (!x)
    return refusal_of("true or false", from);
  to = *x;
  return {};
}

refusal read_option(const caf::config_value& from, double& to) {
  auto x = value_as<double>(from);
  if (auto whole = value_as<std::int64_t>(from); whole && !x)
    x = static_cast<double>(*whole);
  if (!x)
    return refusal_of("a number", from);
  to = *x;
  return {};
}

template <std::integral T>
refusal read_option(const caf::config_value& from, T& to) {
  auto x = value_as<T>(from);
  if (!x)
    return refusal_of(std::is_signed_v<T> ? fmt::format(
                        "a whole number of {} bits", 8 * sizeof(T))
                                          : "a whole number, not below 0",
                      from);
  to = *x;
  return {};
}

refusal read_option(const caf::config_value& from, milliseconds& to) {
  auto x = value_as<caf::timespan>(from);
  auto whole = std::chrono::duration_cast<milliseconds>(
    x.value_or(caf::timespan{0}));
  if (!x || *x != whole)
    return refusal_of("a time in whole milliseconds, as 250ms, 5s or 10min",
                      from);
  to = whole;
  return {};
}

bool read_number(std::string_view text, std::int32_t& to) {
  auto* end = text.data() + text.size();
  auto [read_to, problem] = std::from_chars(text.data(), end, to);
  return problem == std::errc{} && read_to == end;
}

/// "name", "name:slots" or "name:slots:ahead".
std::optional<queue_config> queue_of(std::string_view text) {
  queue_config queue;
  auto colon = text.find(':');
  queue.name = text.substr(0, colon);
  for (auto* number : {&queue.slots, &queue.ahead}) {
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

refusal read_option(const caf::config_value& from,
                    std::vector<queue_config>& to) {
  auto texts = value_as<std::vector<std::string>>(from);
  if (!texts)
    return refusal_of("a list such as [\"mail:10\", \"default\"]", from);
  std::vector<queue_config> queues;
  for (const auto& text : *texts) {
    auto queue = queue_of(text);
    if (!queue)
      return fmt::format("expected name, name:slots or name:slots:ahead, got "
                         "\"{}\"",
                         text);
    queues.push_back(std::move(*queue));
  }
  to = std::move(queues);
  return {};
}

using given_options = std::map<std::string, const caf::config_value*>;

/// What stands in a group and in the groups in it.
void collect(const std::string& name, const caf::config_value& value,
             given_options& to) {
  if (auto* group = caf::get_if<caf::settings>(&value))
    for (const auto& [key, member] : *group)
      collect(fmt::format("{}.{}", name, key), member, to);
  else
    to.emplace(name, &value);
}

} // namespace

void add_options_to(caf::actor_system_config& cfg) {
  config defaults;
  for_each_option(defaults, [&]<class T>(const std::string& name, const T&,
                                         std::string_view text) {
    auto dot = name.rfind('.');
    auto group = name.substr(0, dot);
    caf::config_option_adder{options_of(cfg), group} //
      .add<typename read_as<T>::type>(name.substr(dot + 1),
                                      {text.data(), text.size()});
  });
}

result<config> configured(const caf::actor_system_config& cfg,
                          config settings) {
  given_options given;
  const std::string whole{engine_group};
  if (auto* group = caf::get_if(&caf::content(cfg), whole))
    collect(whole, *group, given);
  std::optional<error> wrong;
  auto refuse = [&](const std::string& name, const std::string& why) {
    if (!wrong)
      wrong = error{errc::invalid_argument, name + ": " + why, {}};
  };
  for_each_option(settings,
                  [&](const std::string& name, auto& field, std::string_view) {
    if (auto found = given.extract(name))
      if (auto why = read_option(*found.mapped(), field))
        refuse(name, *why);
  });
  for (const auto& [name, value] : given)
    refuse(name, "there is no such option");
  if (wrong)
    return std::move(*wrong);
  return settings;
}

} // namespace gd::actors
