/// A worker with metrics for Prometheus: `metrics <connection string> [<address>]`, and
/// http://127.0.0.1:9464/metrics.

#include "../checkout/checkout.hpp"

#include <gd/actors/engine.hpp>
#include <gd/metrics.hpp>

#include <caf/all.hpp>

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <exception>
#include <iostream>
#include <memory>
#include <string>

namespace {

// clang-format off
// [metrics]
gd::result<void> run(caf::actor_system& sys, gd::config config, const std::string& address) {
  auto registry = std::make_shared<prometheus::Registry>();
  auto sink = gd::metrics::sink(registry, {.machines = config.machines});
  if (!sink)
    return sink.error();
  config.on_event = gd::all_of({*sink, gd::log_to_stderr()});
  auto database = gd::metrics::database({.database = config.connection_options()});

  prometheus::Exposer exposer{address};
  exposer.RegisterCollectable(registry);
  exposer.RegisterCollectable(database);

  auto engine = gd::actors::start(sys, std::move(config));
  if (!engine)
    return engine.error();
  return engine->run_until_signal();
}
// [/metrics]
// clang-format on

} // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: metrics <connection string> [<address>]\n";
    return 2;
  }
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  try {
    auto ended = run(sys, {.database = argv[1], .machines = {checkout()}},
                     argc > 2 ? argv[2] : "127.0.0.1:9464");
    if (ended)
      return 0;
    std::cerr << to_string(ended.error()) << '\n';
  } catch (const std::exception& e) { // of the exposer: the address is taken
    std::cerr << "metrics: " << e.what() << '\n';
  }
  return 1;
}
