#pragma once

#include <gd/actors/node.hpp>

#include <gd/turn.hpp>

#include <caf/event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace gd::actors {

/// Keeps a queue's slots full: picks, spawns step actors, collects their
/// outcomes, drives the queue's turn (spec section 6).
class picker_actor : public caf::event_based_actor {
public:
  picker_actor(caf::actor_config& cfg, node_ptr home, queue_config queue,
               std::size_t lane);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.picker";
  }

private:
  using clock = turn::clock;

  /// A row that was picked and has not begun.
  struct waiting_row {
    store::picked_row row;
    lease_ptr under;
  };

  /// A row whose step has begun, or which is being given back.
  struct begun_row {
    lease_ptr under;
    caf::actor step;
    /// Its outcome is with the turn; the slot is free.
    bool reported = false;
    bool handled = false;
  };

  clock::time_point now();
  void drive();
  std::int32_t wanted() const;
  void finish(pq::reply reply);
  void take(std::vector<store::picked_row> picked, const std::string& token);
  void settle(turn::settled& x);
  void start_steps();
  void begin(waiting_row x);
  void give_back(const waiting_row& x);
  void collect(step_outcome& x);
  void step_down(std::uint64_t tag, const caf::error& why);
  void free_slot();
  void start_draining(std::chrono::milliseconds grace);
  void stop_if_drained();
  void schedule();

  node_ptr home_;
  queue_config queue_;
  std::size_t lane_;
  turn turn_;
  watcher watcher_;
  std::deque<waiting_row> ahead_;
  /// By tag.
  std::unordered_map<std::uint64_t, begun_row> begun_;
  std::uint64_t tags_ = 0;
  std::int32_t running_ = 0;
  /// Steps that ended since the last pick: as many are picked ahead.
  std::int32_t ended_ = 0;
  /// There may be more to pick than the last pick took.
  bool look_again_ = true;
  clock::time_point poll_at_;
  clock::time_point wake_at_ = clock::time_point::max();
  std::uint64_t generation_ = 0;
  /// Set while draining: where to tell, until when to wait.
  caf::strong_actor_ptr drain_for_;
  clock::time_point drain_by_;
  drained left_;
};

} // namespace gd::actors
