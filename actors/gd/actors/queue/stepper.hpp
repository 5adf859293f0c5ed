#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/actors/queue/runner.hpp>
#include <gd/actors/queue/step_table.hpp>

#include <gd/engine/step/run.hpp>

#include <caf/event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gd::actors {

/// Whether the step's function runs on one of CAF's threads until it has an outcome.
bool is_pooled(const machine::step_definition& x);

/// Whether a runner can run the step: it has no time limit, and returns its outcome.
bool is_plain(const machine::step_definition& x);

/// Runs a queue's steps, whoever has given it their rows and whoever takes the outcomes:
/// its runners and the actors of steps, their limits, their ends. What picker and
/// worker have in common.
class stepper_actor : public caf::event_based_actor {
public:
  stepper_actor(caf::actor_config& cfg, node_ptr home, queue_config queue);

protected:
  using clock = database::clock;
  using entry = step_table::entry;

  // -- what is up to the others -----------------------------------------------------

  /// Something has happened.
  virtual void drive() = 0;
  /// See to a tick for what is due without any other message.
  virtual void arm() = 0;
  /// A slot is free that a step had which no runner ran.
  virtual void free_slot() = 0;
  /// `after`: what goes on if the outcome is refused.
  virtual void add_outcome(entry& x, outcome_ptr outcome, gd::run after) = 0;
  /// The step's actor has died without an outcome.
  virtual void crash(entry& x, const gd::run& what, const std::string& why) = 0;
  /// The row's lease was lost before the step began.
  virtual void skip(entry& x) = 0;
  /// The row may be over: its step's actor is down.
  virtual void forget_if_over(entry& x) = 0;
  /// Its own outcome may be far from being there, and nobody waits for it.
  virtual bool drives_when_down(const entry& x) const = 0;
  /// A plain step has ended.
  virtual void note_end() = 0;

  // -- steps ------------------------------------------------------------------------

  clock::time_point now();
  /// First thing in `make_behavior`, but for the watcher.
  void open();
  /// Returns the table's number for it.
  std::uint64_t begin(const held_row_ptr& row,
                      const machine::step_definition& defined);
  void on_step_begun(const step_begun& x);
  void on_step_outcome(ended_step& x);
  void collect_ended();
  void expire_limits();
  /// The database does not take the outcome: the handler's turn.
  void refuse(entry& x, error why, std::string told,
              std::optional<effect_refused> effect = std::nullopt);
  /// The steps go with this actor.
  void end_steps();

  node_ptr home_;
  queue_config queue_;
  watcher watcher_;
  std::shared_ptr<step_queue> steps_;
  std::vector<caf::actor> runners_;
  /// Rows that have begun, or are being released.
  step_table begun_;

private:
  void step_down(std::uint64_t tag, const caf::error& why);
  void handler_actor_down(std::uint64_t tag, const caf::error& why);
  caf::actor start_handler_actor(entry& x);
};

} // namespace gd::actors
