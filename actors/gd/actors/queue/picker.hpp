#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/actors/node/self.hpp>
#include <gd/actors/queue/stepper.hpp>

#include <gd/engine/queue/elsewhere.hpp>
#include <gd/engine/queue/gate.hpp>
#include <gd/engine/queue/pace.hpp>
#include <gd/engine/queue/trials.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/engine/queue/waiting_rows.hpp>
#include <gd/engine/step/execution.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

/// Keeps a queue's slots full, and its workers: picks, hands rows out, collects their
/// outcomes, drives the queue's turn.
class picker_actor final : public stepper_actor {
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
  using waits_for = waiting_rows::reason;

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
  void on_machines_withdrawn();
  void on_unit_done(std::size_t flight, const pq::reply& reply);
  void on_steps_ended();
  void on_workers_changed();
  void on_suspects_changed();
  void on_drain(drain how);

  // Driving.
  void drive() override;
  void begin_transactions();
  void tell_turn(clock::duration took, std::size_t written, std::size_t picked);
  void arm() override;
  void look_again();
  std::int32_t wanted() const;
  /// A slot is free, and no row waits for it.
  bool has_slot_to_fill() const;
  /// Bytes that may be picked or shown.
  std::int64_t room() const;

  // Rows that were picked, and have not begun: picker_rows.cpp.
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
  void release_all(const std::vector<execution_ptr>& rows);
  void see_pauses();
  void release_late();
  void release_ahead();

  // Claims.
  /// Whether pick `last` is under way, or one that began before it.
  bool picking(std::uint64_t last) const {
    return first_pick() <= last;
  }
  /// The first that is under way; max(): none is.
  std::uint64_t first_pick() const;
  void take_claimed(std::uint64_t pick);

  // Steps: picker_steps.cpp.
  void start_steps();
  void release_job(const step_queue::job& x);
  void add_outcome(entry& x, execution::row_ptr outcome, bool handled,
                   execution_ptr after) override;
  void collect_flushed(turn::flushed& x);
  void go_on(const entry& x, turn::flushed& written);
  void free_slot() override;
  void let_go(entry& x);
  void crash(entry& x, const execution& what, const std::string& why) override;
  void skip(entry& x) override {
    settle(x);
  }
  bool drives_when_down(const entry& x) const override {
    return draining_ || x.key.has_value(); // the key's other rows wait
  }
  void note_end() override {
    pace_.ended();
  }
  void tell_of(const execution& what, const store::outcome_row& outcome);
  void settle(entry& x, bool well = false);
  void forget_if_over(entry& x) override;
  void unlock(store::key_hold key);

  // Workers: picker_links.cpp.
  void see_workers();
  bool has_worker() const {
    return workers_ && workers_->any();
  }
  bool has_idle_worker() const {
    return has_worker() && workers_->idle(queue_.name);
  }
  bool goes_elsewhere(const execution_ptr& what);
  bool hand_out(const execution_ptr& what, bool alone);
  void read_report(elsewhere::report& x);
  void add_late(elsewhere::report& x);
  bool go_on_there(const entry& x, const execution_ptr& after,
                   turn::flushed& written);
  void answer(const entry& x, const turn::flushed& of);

  // Suspects: picker_trials.cpp.
  void take_suspects(std::vector<execution_ptr> rows,
                     std::optional<std::size_t> on_trial);
  void fail_unrun(execution_ptr row);
  void see_to_trials();
  bool may_run_suspects();
  clock::time_point rests_at();
  void note_trial();
  void begin_trial();
  void cancel_trial();
  void abandon_trial();
  void write_notes(const trials::written& what);
  void on_notes_written(const pq::reply& reply);

  void stop_if_drained();

  /// Behind those of the turn's flights.
  static constexpr std::uint64_t notes_ticket = 2;

  /// Of the database, by flight of the turn.
  std::vector<std::size_t> lanes_;
  turn turn_;
  gate gate_;
  waiting_rows waiting_;
  trials trials_;
  pace pace_;
  /// Null: this node lets none in, so far.
  std::shared_ptr<elsewhere> workers_;
  /// Rows of a reply that are not ahead yet.
  std::int32_t coming_ = 0;
  /// By flight, the desk's number of the pick under way; zero: there is none.
  std::array<std::uint64_t, 2> picks_{};
  /// By flight, when it was sent.
  std::array<clock::time_point, 2> sent_at_{};
  /// There may be more to pick than the last pick took.
  bool look_again_ = true;
  /// Suspects wait for a slot.
  bool suspects_wait_ = false;
  /// A transaction that does not pick is to be followed by one that does.
  bool pick_follows_ = false;
  /// The last pick that has ended left nothing that could have been taken.
  bool exhausted_ = false;
  clock::time_point poll_at_;
  /// When the next row is due, as far as the last pick has seen.
  clock::time_point due_at_ = clock::time_point::max();
  alarm alarm_;
  /// Outcomes of executions that nobody here knows, on their way.
  std::size_t late_ = 0;
  std::optional<draining> draining_{};
};

} // namespace gd::actors
