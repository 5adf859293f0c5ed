#pragma once

#include "measure.hpp"

#include <cstdint>
#include <string>

namespace gd::bench {

/// Measures transitions, each `how.steps` of `how.rows` instances, in transactions
/// of `how.turn`: statesman, ahead or picked.
sample measure_transitions(const std::string& kind, const parameters& how);

/// What a page of a history costs, and one of the instances in a step, where there
/// are `rows` instances and twice as many entries. Prints the plans. False: a
/// page has read more than is in proportion to its length.
bool measure_ledger_queries(std::int64_t rows, const std::string& database);

/// How long the calls of those who look take where there are so many instances, on a quiet
/// table and beside a drain, and what they cost the server. False: one takes too long.
bool measure_operator_queries(std::int64_t rows, const std::string& database);

} // namespace gd::bench
