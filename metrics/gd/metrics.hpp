#pragma once

#include <gd/event.hpp>
#include <gd/machine.hpp>
#include <gd/options.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Collectable;
class Registry;
} // namespace prometheus

/// Metrics for Prometheus, by prometheus-cpp.
namespace gd::metrics {

/// What the metrics of a node go by.
struct options {
  /// Their steps are there from the beginning, with zeros, and do not count against
  /// `most_values`.
  std::vector<machine> machines{};
  /// Added to each metric: for several engines that share a registry.
  std::map<std::string, std::string> labels{};
  /// Steps, queues, tasks and kinds of answers that have metrics of their own, of each so
  /// many: what comes beyond them has "other" for its labels.
  std::size_t most_values = 200;
};

/// For `config::on_event`: keeps the metrics of what a node, or a worker, tells, in this
/// registry, which it keeps alive. Which ones there are, docs/run/metrics.md says. Error:
/// `invalid_argument` (a name or label that Prometheus does not allow, or a name that
/// something else in the registry has).
result<event_sink> sink(const std::shared_ptr<prometheus::Registry>& registry,
                        const options& how = {});

/// What the metrics of the database go by.
struct database_options {
  /// How to reach it. No statement gets more time than `limit`.
  pq::options database{};
  /// A scrape waits so long for an answer, and goes without one then.
  std::chrono::milliseconds limit{1'000};
  /// An answer is shown again for so long, whoever scrapes.
  std::chrono::milliseconds shown_for{5'000};
  /// Queues that have metrics of their own; others share "other".
  std::size_t most_queues = 100;
  /// Is told, as `sweep_failed`, why there is no answer; never after these metrics are gone.
  event_sink on_event = log_to_stderr();
};

/// What `gd::read_gauges` tells, for an exposer: asked for when somebody scrapes, over one
/// connection of its own. `gen_durable_database_up` is 0, and all others are missing, if
/// there is no answer in time. While it waits for the database it has a thread, which may
/// outlive it.
std::shared_ptr<prometheus::Collectable> database(database_options how);

} // namespace gd::metrics
