#pragma once

#include <gd/instance.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What `store` is for the rest, for transitions from outside, and where what is sent names
/// its targets by their unique keys.
namespace gd::store {

/// Whom a signal or a transition is for.
struct target_name {
  std::int64_t target = 0;
  std::optional<std::string> key{};
};
/// Locks them. `waits`: for strangers.
pq::call lock_named(const std::vector<target_name>& targets, bool waits);
/// The same of signals, for `send_signals`.
pq::call lock_named(const row_refs<signal>& signals, bool waits);

/// Each target once, and none of them with a key.
pq::call move_targets(const row_refs<transition>& xs);
/// With keys, too. `waits`: for strangers.
pq::call move_named(const row_refs<transition>& xs, bool waits);

/// `unknown`: none of the others, the instance may have moved.
GD_ENUM(transition_answer, unknown, moved, no_such_target, conflict,
        unknown_step, not_allowed, taken, locked, unsure);

/// In the order of the transitions.
struct transition_row {
  transition_answer answer = transition_answer::locked;
  std::string status{};
  std::int64_t seq = 0;
  std::string queue{};  ///< not empty: the instance is runnable
  std::string detail{}; ///< the sentence of what is refused

  GD_FIELDS(answer, status, seq, queue, detail);
};

} // namespace gd::store
