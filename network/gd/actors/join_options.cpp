#include <gd/actors/join.hpp>
#include <gd/actors/node/read_options.hpp>

#include <gd/state.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gd::actors {

namespace {

// The fields of join_options that are plain values.
// clang-format off
#define GD_WORKER_OPTIONS(option)                                              \
  option(node, "this worker's name in events")                                 \
  option(secret, "for ports: the file with the secret of their engines")       \
  option(bytes, "bytes of rows without an outcome, and of outcomes")           \
  option(patience, "how long one try to join may take")                        \
  option(first_pause, "between tries, at first")                               \
  option(longest_pause, "between tries, in the end")                           \
  option(stop_grace, "what a leave gives to steps that run")
// clang-format on

constexpr auto worker_group = "gd.worker";

/// Calls `f` with each option's name, the field, and what is said of it.
template <class F>
void for_each_worker_option(worker_settings& x, F f) {
  f(option_name(worker_group, "addresses"), x.addresses,
    "of engines: unix:PATH, or ADDRESS:PORT");
  f(option_name(worker_group, "queues"), x.queues,
    "what this worker serves: name, name:slots, name:slots:prefetch");
#define GD_VISIT(field, text) \
  f(option_name(worker_group, #field), x.how.field, text);
  GD_WORKER_OPTIONS(GD_VISIT)
#undef GD_VISIT
}

/// With `on_event`.
constexpr std::size_t fields_of_how = [] {
  std::size_t n = 1;
#define GD_COUNT(field, text) ++n;
  GD_WORKER_OPTIONS(GD_COUNT)
#undef GD_COUNT
  return n;
}();
static_assert(
  gd::detail::has_fields<join_options>(
    std::make_index_sequence<fields_of_how>{})
    && !gd::detail::has_fields<join_options>(
      std::make_index_sequence<fields_of_how + 1>{}),
  "GD_WORKER_OPTIONS lists each field of join_options but on_event");

} // namespace

void add_worker_options_to(caf::actor_system_config& cfg) {
  worker_settings defaults;
  for_each_worker_option(
    defaults,
    [&]<class T>(const std::string& name, const T&, std::string_view text) {
    add_option<T>(cfg, name, text);
    });
}

result<worker_settings> configured_worker(const caf::actor_system_config& cfg,
                                          worker_settings settings) {
  given_options given{cfg, worker_group, {.prefetch = 20}};
  for_each_worker_option(settings,
                         [&](const std::string& name, auto& field,
                             std::string_view) { given.read(name, field); });
  if (auto why = given.wrong())
    return std::move(*why);
  return settings;
}

} // namespace gd::actors
