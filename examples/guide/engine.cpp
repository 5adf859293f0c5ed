/// The configuration of docs/run/configuration.md and docs/run/events.md.

#include <gd/config.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <variant>

// clang-format off
namespace guide {

using namespace std::chrono_literals;

gd::machine billing();

// [config]
gd::config settings() {
  gd::config x;
  x.database = "dbname=shop";
  x.machines = {billing()};
  x.queues = {{.name = "billing", .slots = 4}, {.name = "default"}};
  x.lease = 30s;
  x.heartbeat = 10s;
  return x;
}
// [/config]

// [events]
std::atomic<std::uint64_t> reaped_rows = 0;

gd::event_sink sink() {
  return [log = gd::log_to_stderr(gd::severity::info)](const gd::event& what) {
    if (auto* x = std::get_if<gd::events::reaped>(&what))
      reaped_rows += x->rows;
    log(what);
  };
}
// [/events]

} // namespace guide
// clang-format on
