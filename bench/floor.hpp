#pragma once

#include "measure.hpp"

#include <string>

namespace gd::bench {

/// Measures the floor of a workload: drain, bulk, signals or commit.
sample measure_floor(const std::string& workload, const parameters& how);

/// Instances per second, the median of three: inserts `how.rows` into a queue of
/// their own and completes them, whatever else lies in the table.
double floor_rate(const parameters& how);

} // namespace gd::bench
