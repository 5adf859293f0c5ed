#pragma once

#include <gd/client.hpp>
#include <gd/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// \file
/// What the database knows of all nodes together, as metrics: names and units are those that
/// Prometheus wants, whoever shows them.
namespace gd {

/// A value of a gauge.
struct gauge_point {
  /// Names and values.
  std::vector<std::pair<std::string, std::string>> labels{};
  double value = 0; ///< in the gauge's unit
};

/// A gauge: a name, and its values by labels.
struct gauge {
  std::string_view name{};           ///< "gen_durable_instances"
  std::string_view help{};           ///< a sentence
  std::vector<gauge_point> points{}; ///< no two with the same labels
};

/// Asks for all of them: some statements that take milliseconds, whatever there is. Queues
/// beyond so many, first those that are served, count together as "other". The errors are
/// the client's.
result<std::vector<gauge>> read_gauges(client& from,
                                       std::size_t most_queues = 100);

} // namespace gd
