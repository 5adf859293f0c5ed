#pragma once

#include <gd/instance.hpp>
#include <gd/json.hpp>
#include <gd/state.hpp>

#include <cstdint>
#include <optional>
#include <string>

/// \file
/// What operators ask and do: plain structs, as those of `gd/instance.hpp`.
namespace gd {

/// Asks why an instance is where it is.
struct why_query {
  std::int64_t id = 0; ///< the instance; or `key`
  /// In the place of `id`: the instance that has this unique key now.
  std::optional<std::string> key{};

  GD_STATE(why_query, id, key);
};

/// Why an instance is where it is.
struct why {
  std::int64_t id = 0;      ///< the instance
  std::string fsm{};        ///< its machine's name
  std::int32_t version = 0; ///< its machine's
  std::string step{};       ///< that runs next, or ran last
  std::string status{};     ///< as in `instance`
  /// finished, failed; executes, left_behind, lease_over; owed; waits, overdue, rests;
  /// delayed, no_node, version_unknown, queue_unserved, queue_paused, row_locked, behind,
  /// key_locked, suspect or due.
  std::string cause{};
  std::string sentence{}; ///< the same for people; it also says what to do
  json details{};         ///< what the sentence tells, as members of an object
  std::int32_t attempt = 0;                ///< as in `instance`
  std::int32_t crashes = 0;                ///< the same
  std::int32_t trials = 0;                 ///< the same
  std::optional<std::string> last_error{}; ///< the same; its beginning

  GD_STATE(why, id, fsm, version, step, status, cause, sentence, details,
           attempt, crashes, trials, last_error);
};

} // namespace gd
