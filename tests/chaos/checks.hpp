#pragma once

#include "chaos/world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gd::chaos {

/// What the table says at the end.
struct verdict {
  std::int64_t inserts = 0; ///< accepted
  std::int64_t signals = 0; ///< accepted
  std::int64_t lost = 0;
  std::int64_t duplicated = 0;
  std::int64_t stuck = 0;
  /// Executions beside the one that counted.
  std::int64_t repeated = 0;
  /// Sentences, each with examples. Empty: nothing is wrong.
  std::vector<std::string> wrong;
};

/// Compares what was accepted with the table and the effects. Executions may be
/// repeated from `since` on, a point in time of the database.
verdict check(world& w, const std::string& since);

} // namespace gd::chaos
