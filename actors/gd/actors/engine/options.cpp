#include <gd/actors/engine.hpp>
#include <gd/actors/node/read_options.hpp>

#include <gd/state.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gd::actors {

namespace {

// The fields of gd::config that are plain values, and those of its limits.
// clang-format off
#define GD_ENGINE_OPTIONS(option)                                              \
  option(database, "libpq connection string or URI")                           \
  option(schema, "where the tables are")                                       \
  option(node, "this node's name in lease tokens and logs")                    \
  option(queues, "what this node serves: name, name:slots, name:slots:prefetch")  \
  option(lease, "how long a row stays with a node that has gone silent")       \
  option(heartbeat, "how often leases are extended")                           \
  option(poll, "how often an idle queue looks for work")                       \
  option(probe, "how often, between these, a node looks for rows that are due") \
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
  option(bytes_held, "bytes of prefetched rows, and of outcomes that wait") \
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
  option(limits.inbox, "signals of an instance that are not consumed")         \
  option(limits.effects, "inserts, signals and statements of an outcome")      \
  option(limits.effect_bytes, "bytes of all that an outcome carries")          \
  option(effects.connections, "of steps in transactions")                      \
  option(effects.search_path, "where statements of steps find names")          \
  option(effects.role, "whose rights statements of steps have")                \
  option(effects.statement_timeout, "by the server, for each of these")        \
  option(effects.lock_timeout, "how long one of an outcome waits for a lock")
// clang-format on

constexpr auto engine_group = "gd.engine";

/// Calls `f` with each option's name, the field, and what is said of it.
template <class F>
void for_each_option(config& x, F f) {
#define GD_VISIT(field, text) \
  f(option_name(engine_group, #field), x.field, text);
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
/// Those of `effects`.
constexpr std::size_t effect_options = 5;
/// With `machines` and `on_event`, and `limits` and `effects` in the place of their own
/// fields.
constexpr auto fields_in_all = options_in_all
                               - gd::detail::count_fields<limits>()
                               - effect_options + 4;
static_assert(
  gd::detail::has_fields<config>(std::make_index_sequence<fields_in_all>{})
    && !gd::detail::has_fields<config>(
      std::make_index_sequence<fields_in_all + 1>{}),
  "GD_ENGINE_OPTIONS lists each field of gd::config but machines "
  "and on_event");
static_assert(gd::detail::has_fields<effect_settings>(
                std::make_index_sequence<effect_options>{})
                && !gd::detail::has_fields<effect_settings>(
                  std::make_index_sequence<effect_options + 1>{}),
              "GD_ENGINE_OPTIONS lists each field of gd::effect_settings");

} // namespace

void add_options_to(caf::actor_system_config& cfg) {
  config defaults;
  for_each_option(defaults, [&]<class T>(const std::string& name, const T&,
                                         std::string_view text) {
    add_option<T>(cfg, name, text);
  });
}

result<config> configured(const caf::actor_system_config& cfg,
                          config settings) {
  given_options given{cfg, engine_group};
  for_each_option(settings, [&](const std::string& name, auto& field,
                                std::string_view) { given.read(name, field); });
  if (auto why = given.wrong())
    return std::move(*why);
  return settings;
}

} // namespace gd::actors
