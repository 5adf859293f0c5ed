#pragma once

#include <gd/actors/node.hpp>
#include <gd/actors/runner.hpp>
#include <gd/actors/step_table.hpp>

#include <gd/work/execution.hpp>
#include <gd/work/pace.hpp>
#include <gd/work/turn.hpp>

#include <caf/event_based_actor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

/// Keeps a queue's slots full: picks, hands plain steps to its runners and spawns
/// the actors of others, collects their outcomes, drives the queue's turn.
class picker_actor : public caf::event_based_actor {
public:
  /// `lanes`: the database's, one or two; locks of keys live on the first.
  picker_actor(caf::actor_config& cfg, node_ptr home, queue_config queue,
               std::vector<std::size_t> lanes);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.picker";
  }

private:
  using clock = turn::clock;
  using entry = step_table::entry;

  /// Rows that an insert has claimed, and behind which pick they come.
  struct claimed_rows {
    std::uint64_t behind = 0;
    std::vector<execution_ptr> rows{};
  };

  /// Where to tell what is left, and until when to wait.
  struct draining {
    caf::strong_actor_ptr who{};
    clock::time_point by{};
    drained left{};
  };

  // What messages do.
  void on_tick(tick x);
  void on_hint(hint x);
  void on_rows_claimed();
  void on_unit_done(std::size_t flight, pq::reply reply);
  void on_steps_ended();
  void on_step_begun(const step_begun& x);
  void on_step_outcome(step_outcome& x);
  void on_drain(drain x);

  // Driving.
  clock::time_point now();
  void drive();
  void begin_transactions();
  void arm();
  void look_again();
  std::int32_t wanted() const;
  /// A slot is free, and no row waits for it.
  bool has_slot_to_fill() const;
  /// Bytes that may be picked or shown.
  std::int64_t room() const;

  // Rows that were picked, and have not begun.
  std::vector<execution_ptr> lease_all(std::vector<store::picked_row> rows,
                                       const std::string& token);
  void take(std::vector<execution_ptr> rows);
  void put_ahead(execution_ptr row);
  void hold(const execution& x);
  void let_go(const execution& x);
  void collect_shown(turn::report& report);
  void end_unusable(execution_ptr row, const error& why,
                    const std::string& reason);
  void drop(const execution& x);
  void release(const execution& x);
  void release_held(const execution& x);
  void release_late();

  // Claims.
  /// Whether pick `last` is under way, or one that began before it.
  bool picking(std::uint64_t last) const;
  void take_claimed(std::uint64_t pick);

  // Steps: picker_steps.cpp.
  void start_steps();
  void begin(execution_ptr what, const machine::step_definition& defined,
             std::size_t bytes);
  void collect_ended();
  void release_job(const step_queue::job& x);
  void add_outcome(entry& x, execution::row_ptr outcome, bool handled,
                   execution_ptr after);
  void collect_flushed(turn::flushed& x);
  void free_slot();
  void step_down(std::uint64_t tag, const caf::error& why);
  void deputy_down(std::uint64_t tag, const caf::error& why);
  void expire_limits();
  caf::actor appoint(entry& x);
  void let_go(entry& x);
  void crash(entry& x, const execution& what, const caf::error& why);
  void tell_of(const execution& what, const store::outcome_row& outcome);
  void settle(entry& x);
  void forget_if_over(entry& x);
  void unlock(store::key_hold key);

  void stop_if_drained();

  node_ptr home_;
  queue_config queue_;
  /// Of the database, by flight of the turn.
  std::vector<std::size_t> lanes_;
  turn turn_;
  watcher watcher_;
  std::shared_ptr<step_queue> steps_;
  std::vector<caf::actor> runners_;
  /// Picked, and not begun.
  std::deque<execution_ptr> ahead_;
  /// Picked, or running ahead, and not shown yet: by id and token.
  std::map<std::pair<std::int64_t, std::string>, execution_ptr> hidden_;
  /// Rows whose insert has committed before the pick has ended behind which they come.
  std::vector<claimed_rows> claimed_;
  /// Rows that have begun, or are being released.
  step_table begun_;
  pace pace_;
  /// Rows of a reply that are not ahead yet.
  std::int32_t coming_ = 0;
  /// By flight, the desk's number of the pick under way; zero: there is none.
  std::array<std::uint64_t, 2> picks_{};
  /// There may be more to pick than the last pick took.
  bool look_again_ = true;
  /// A transaction that does not pick is to be followed by one that does.
  bool pick_follows_ = false;
  /// The last pick that has ended left nothing that could have been taken.
  bool exhausted_ = false;
  clock::time_point poll_at_;
  clock::time_point wake_at_ = clock::time_point::max();
  std::uint64_t generation_ = 0;
  std::optional<draining> draining_{};
};

} // namespace gd::actors
