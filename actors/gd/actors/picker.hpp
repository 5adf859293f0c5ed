#pragma once

#include <gd/actors/node.hpp>
#include <gd/actors/runner.hpp>

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
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd::actors {

/// Keeps a queue's slots full: picks, hands plain steps to its runners and spawns
/// the actors of others, collects their outcomes, drives the queue's turn (spec
/// section 6).
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

  /// What a step needs that has a time limit, or is asynchronous.
  struct supervision {
    std::string step;
    std::chrono::milliseconds limit{0};
    /// max(): it has not begun.
    clock::time_point due = clock::time_point::max();
    bool asynchronous = false;
    /// Its function runs on one of CAF's threads.
    bool pooled = false;
  };

  /// A row that is with the runners, whose step has begun elsewhere, or which is
  /// being given back. It stays until its outcome is settled and its step's actor
  /// is down.
  struct begun_row {
    lease_ptr under;
    /// Null: it is down, there never was one, or it is the runner's.
    caf::actor step{};
    std::unique_ptr<supervision> care{};
    /// Calls the handler when the step's own actor cannot: it is down when its
    /// function has returned.
    execution_ptr spare{};
    /// The actor that does, with `spare`.
    caf::actor deputy{};
    /// The function has not returned: it has a slot, or waits for a runner.
    bool running = false;
    /// An outcome is with the turn.
    bool reported = false;
    bool handled = false;
    /// Its outcome is one after which it goes on at once.
    bool advancing = false;
    /// Its outcome is committed or lost.
    bool settled = false;
    /// To be unlocked when it is over.
    std::optional<store::key_hold> key{};
    /// Of what was picked, until there is an outcome; and of that, until it is
    /// written.
    std::size_t bytes = 0;
    std::size_t unwritten = 0;
  };

  /// Rows that an insert has claimed, and behind which pick they come.
  struct claimed_rows {
    std::uint64_t behind = 0;
    std::vector<execution_ptr> rows{};
  };

  using begun_rows = std::unordered_map<std::uint64_t, begun_row>;

  clock::time_point now();
  void drive();
  /// Begins a transaction, if there is something to do; whether it did.
  bool look();
  void look_again();
  void collect_claims();
  /// Whether this pick is under way, or one that began before it.
  bool picking(std::uint64_t last) const;
  void release_claims(std::uint64_t pick);
  std::int32_t wanted() const;
  /// Nothing waits for a slot, and some are free.
  bool idle() const;
  void hold(const execution& x);
  void let_go(const execution& x);
  /// Bytes that may be picked or shown.
  std::int64_t room() const;
  void finish(std::size_t flight, pq::reply reply);
  std::vector<execution_ptr> lease_all(std::vector<store::picked_row> rows,
                                       const std::string& token);
  void take(std::vector<execution_ptr> rows);
  void put_ahead(execution_ptr row);
  void collect_shown(turn::report& report);
  void end_unusable(execution_ptr row, const error& why,
                    const std::string& reason);
  void drop(const execution& x);
  void give_back_late_rows();
  void take_back(const step_queue::job& x);
  void settle(turn::settled& x);
  void start_steps();
  void begin(execution_ptr what, const machine::step_definition& defined,
             std::size_t bytes);
  void collect_ended();
  void give_back(const execution& x);
  void let_go(begun_row& row);
  void collect(step_outcome& x);
  void add_outcome(begun_rows::iterator which, execution::row_ptr outcome,
                   bool handled, execution_ptr after);
  void stop_running(begun_row& row);
  void begun(const step_begun& x);
  void step_down(std::uint64_t tag, const caf::error& why);
  void deputy_down(std::uint64_t tag, const caf::error& why);
  void end_late_steps(clock::time_point t);
  caf::actor appoint(std::uint64_t tag, begun_row& row);
  void crash(begun_rows::iterator which, const caf::error& why);
  void settled(begun_rows::iterator which);
  void forget_if_over(begun_rows::iterator which);
  void unlock(store::key_hold key);
  void free_slot();
  void start_draining(std::chrono::milliseconds grace);
  void stop_if_drained();
  void schedule();

  node_ptr home_;
  queue_config queue_;
  /// By flight of the turn.
  std::vector<std::size_t> lanes_;
  turn turn_;
  watcher watcher_;
  std::shared_ptr<step_queue> steps_;
  std::vector<caf::actor> runners_;
  /// Picked, and not begun.
  std::deque<execution_ptr> ahead_;
  /// Picked, or running ahead, and not shown yet: by id and token.
  std::map<std::pair<std::int64_t, std::string>, execution_ptr> hidden_;
  /// By tag.
  begun_rows begun_;
  /// When time limits end, with tags.
  std::set<std::pair<clock::time_point, std::uint64_t>> limits_;
  std::uint64_t tags_ = 0;
  /// Rows that are with the runners, or have a slot.
  std::int32_t running_ = 0;
  /// Of these, steps beside the runners that need one of CAF's threads.
  std::size_t pooled_ = 0;
  /// Rows that go on when their outcome is committed.
  std::int32_t advancing_ = 0;
  /// Picked rows that are not ahead yet.
  std::int32_t coming_ = 0;
  pace pace_;
  /// By flight, the number of the pick under way there, by the desk where inserts
  /// claim rows; zero: there is none.
  std::array<std::uint64_t, 2> picks_{};
  /// There may be more to pick than the last pick took.
  bool look_again_ = true;
  /// A transaction that does not pick is to be followed by one that does.
  bool pick_follows_ = false;
  /// The last pick that has ended left nothing that it could have taken.
  bool drained_ = false;
  /// Committed before the pick has ended behind which they come.
  std::vector<claimed_rows> claimed_;
  clock::time_point poll_at_;
  clock::time_point wake_at_ = clock::time_point::max();
  std::uint64_t generation_ = 0;
  /// Set while draining: where to tell, until when to wait.
  caf::strong_actor_ptr drain_for_;
  clock::time_point drain_by_;
  drained left_;
};

} // namespace gd::actors
