#pragma once

/// The machines that chaos runs. Every execution of a step leaves a row in the
/// table `effects`, written by a session that is not the engine's; the state
/// keeps the lease token of every committed step. So a checker can replay what
/// happened, execution by execution, and tell what counted.

#include <gd/actors/async.hpp>
#include <gd/machine.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

GD_ENUM(chain_step, one, two, three, four);
GD_ENUM(keyed_step, first, second);
GD_ENUM(inbox_step, collect);
GD_ENUM(timer_step, sleep, wake);
GD_ENUM(wild_step, plain, blocking, asynchronous);
GD_ENUM(fan_step, split, gather);
GD_ENUM(leaf_step, work);
/// What a step of the machine Wild does at its first attempt.
GD_ENUM(mischief, throw_exception, throw_number, exhaust_memory, overrun,
        never_return, kill_actor, drop_context, abort_process);

/// A committed step and the execution that counted.
struct footprint {
  std::string step{};
  std::string token{};
  GD_STATE(footprint, step, token);
};

struct journey {
  std::vector<footprint> trail{};
  std::vector<std::int64_t> signals{};
  std::optional<mischief> what{};
  /// By the handler: a replay loses its place among the rows of a key.
  int replays = 0;
  GD_STATE(journey, trail, signals, what, replays);
};

struct numbered {
  std::int64_t number = 0;
  GD_STATE(numbered, number);
};

struct fan {
  std::int64_t leaves = 0;
  std::int64_t made = 0;
  std::int64_t counted = 0;
  GD_STATE(fan, leaves, made, counted);
};

struct leaf {
  std::int64_t parent = 0;
  GD_STATE(leaf, parent);
};

namespace gd::chaos {

/// Signals that an instance of the machine Inbox waits for.
inline constexpr std::int64_t expected_signals = 3;

/// Who writes down what is executed. Throws where it cannot.
class witness {
public:
  virtual ~witness() = default;
  /// The `number`-th step of the instance begins.
  virtual void begins(const context_base& ctx, std::size_t number) = 0;
  virtual void ends(const context_base& ctx) = 0;
};

/// Chain: four steps, one after the other. Kept: the same, with a history. Keyed: two,
/// of rows with a partition key. Inbox: waits for `expected_signals`. Timer: waits for
/// a deadline. Wild: does what steps should not do, and ends well at the next attempt.
/// All but Chain and Keyed have a history. Fan: makes leaves, and counts those that report.
/// Leaf: reports, and books from one account to another.
std::vector<machine> machines(witness& seen);

} // namespace gd::chaos
