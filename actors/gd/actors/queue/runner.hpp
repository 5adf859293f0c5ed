#pragma once

#include <gd/actors/node/node.hpp>

#include <gd/engine/step/run.hpp>

#include <caf/actor_clock.hpp>
#include <caf/event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gd::actors {

/// A step that has ended, on its way to whoever writes outcomes.
struct ended_step {
  /// That one's number for it.
  std::uint64_t tag = 0;
  /// Nullopt: the step has not begun, because its lease was lost.
  std::optional<gd::run> what{};
  /// Null: the step's actor died without an outcome, for this reason.
  outcome_ptr row{};
  caf::error why{};
};

/// The plain steps of a queue, between its picker and the runners: what is to be
/// run, what has ended, and the slots. A lock instead of messages: those would
/// wake a thread or two for each step.
class step_queue {
public:
  struct job {
    /// The picker's number for it.
    std::uint64_t tag = 0;
    held_row_ptr what;
  };

  using clock = caf::actor_clock;

  /// Nothing begins while `home` has too many bytes of outcomes that are to be written.
  step_queue(std::size_t slots, const node& home, const clock& time)
    : slots_(slots), time_(time), bytes_(home.hold(home.of_outcomes)) {
    // nop
  }

  // What the picker calls.

  /// Whom to tell of ends, and the runners, all at rest.
  void open(caf::actor picker, std::vector<caf::actor> runners);

  void put(std::vector<job> jobs);

  /// For a step that no runner runs. False: all slots are taken, and a
  /// `steps_ended` comes when one may be free; or too much is to be written.
  bool take_slot();
  void free_slot();

  std::vector<ended_step> take_ended();

  /// For how long any slot has been in use so far.
  clock::duration_type time_in_use();

  /// A `steps_ended` comes when so many have ended; once. True: they have.
  bool tell_at(std::size_t count);

  /// An outcome that no runner has brought is to be written.
  void add_unwritten(std::size_t bytes);

  /// An outcome of so many bytes is committed or lost.
  void written(std::size_t bytes);

  struct load {
    std::size_t waiting = 0;    ///< jobs that have not begun
    std::int64_t unwritten = 0; ///< bytes of outcomes that are to be written
  };
  load now();

  std::size_t waiting() {
    return now().waiting;
  }

  /// The last of the jobs that have not begun, all but `but`: to be released.
  std::vector<job> take_waiting(std::size_t but = 0);

  /// Nothing more begins, and nobody is told.
  void close();

  // What a runner calls.

  /// With what has become of the job before; nullopt: the runner rests.
  std::optional<job> next(const caf::actor& runner,
                          std::optional<ended_step>&& last);

  void report(ended_step&& x);

private:
  using guard = std::unique_lock<std::mutex>;

  void use_slot();
  void leave_slot();
  void wake_runners(guard held);
  void add(guard& held, ended_step&& x);
  void tell(guard& held);

  static constexpr auto never = std::numeric_limits<std::size_t>::max();

  std::mutex mutex_;
  const std::size_t slots_;
  const clock& time_;
  /// By steps that run elsewhere, and by the runners that do not rest.
  std::size_t used_ = 0;
  /// Of outcomes that are to be written.
  held_bytes bytes_;
  clock::time_point used_since_{};
  clock::duration_type in_use_{0};
  std::vector<caf::actor> resting_;
  std::deque<job> jobs_;
  std::vector<ended_step> ended_;
  caf::actor picker_;
  std::size_t tell_at_ = never;
  /// Somebody waits for a slot.
  bool tell_rest_ = false;
};

/// Runs plain steps one after the other, each in an actor of its own, which it
/// resumes itself, without a scheduler in between: for a millisecond, or one step,
/// at a time.
class runner_actor : public yielding<caf::event_based_actor> {
public:
  runner_actor(caf::actor_config& cfg, node_ptr home,
               std::shared_ptr<step_queue> jobs);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.runner";
  }

private:
  void run_some();
  ended_step run_one(step_queue::job x);

  node_ptr home_;
  std::shared_ptr<step_queue> jobs_;
};

} // namespace gd::actors
