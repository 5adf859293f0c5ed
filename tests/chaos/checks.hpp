#pragma once

#include "chaos/world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gd::chaos {

/// What the table says at the end.
struct findings {
  std::int64_t inserts = 0; ///< accepted
  std::int64_t signals = 0; ///< accepted
  std::int64_t lost = 0;
  std::int64_t duplicated = 0;
  std::int64_t stuck = 0;
  /// With a server whose standby did not have everything: accepted inserts and
  /// signals, and outcomes that were committed there.
  std::int64_t lost_inserts = 0;
  std::int64_t lost_signals = 0;
  std::int64_t lost_outcomes = 0;
  /// Executions beside the one that counted.
  std::int64_t repeated = 0;
  /// Sentences, each with examples. Empty: nothing is wrong.
  std::vector<std::string> wrong;
};

/// Whether a server may have taken accepted work with it.
bool may_lose(const world& w);

/// A query for what a server has of inserts, signals and outcomes, as one cell.
std::string facts_as_json();

/// What the standby had when it took the server's place.
void note_facts_of_standby(world& w, const std::string& facts);

/// Sends those accepted signals again that a server has taken with it, as their sender
/// would who was told of it.
void send_lost_signals(world& w);

/// Compares what was accepted with the table and the effects. Executions may be
/// repeated from `since` on, a point in time of the database.
findings check(world& w, const std::string& since);

} // namespace gd::chaos
