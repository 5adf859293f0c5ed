#pragma once

#include "measure.hpp"

#include <string>

namespace gd::bench {

/// Measures the engine in a workload: drain, bulk, signals, latency, inserts,
/// requests, discovery, elsewhere, round_trip, async, idle, links, ends or soak.
sample measure_engine(const std::string& workload, const parameters& how);

} // namespace gd::bench
