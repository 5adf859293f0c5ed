#pragma once

#include <gd/instance.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/store.hpp>
#include <gd/pq/unit.hpp>

#include <cstdint>
#include <string>

/// What `store` is for the rest, for transitions from outside.
namespace gd::store {

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

  GD_COLUMNS(answer, status, seq, queue, detail);
};

} // namespace gd::store
