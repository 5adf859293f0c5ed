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
#include <gd/engine/step/run.hpp>

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
/// outcomes, drives the queue's turn. What may begin, `gate` says, how much, `pace`; which
/// rows wait, and for what, `waiting_rows`; which suspect runs alone, `trials`; what has
/// begun, `step_table`.
class picker_actor final : public stepper_actor {
public:
  /// `connection_slots`: the database's, one or two; locks of keys live on the first.
  picker_actor(caf::actor_config& cfg, node_ptr home, queue_config queue,
               std::vector<std::size_t> connection_slots);

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

  // -- the sequence -----------------------------------------------------------

  void drive() override;
  void begin_transactions();
  void arm() override;
  void on_hint(hint x);
  void on_unit_done(std::size_t transaction, const pq::reply& reply);
  void tell_of(const turn::report& report);
  void pick_again();
  void see_pauses();
  pace::load load();
  std::int32_t wanted();
  /// Bytes that may be picked or shown.
  std::int64_t room() {
    return pace_.room(load());
  }

  // -- rows that come in ------------------------------------------------------

  std::vector<held_row_ptr> lease_all(std::vector<store::picked_row> rows,
                                      const std::string& token,
                                      bool suspects = false);
  void take(std::vector<held_row_ptr> rows);
  void put_prefetched(held_row_ptr row);
  void collect_shown(turn::report& report);
  void end_unusable(held_row_ptr row, const std::string& reason,
                    const error& why);
  void on_rows_claimed();
  void take_claimed(std::uint64_t pick);
  /// Of picks that are under way, by the numbers of `claim_slots`; max(): none is.
  std::uint64_t first_pick() const;

  // -- rows that go back ------------------------------------------------------

  void release(held_row& row);
  void release_all(const std::vector<held_row_ptr>& rows);
  void release_job(const step_queue::job& x);
  void release_late();
  void release_prefetched();
  void drop(const held_row& row);

  // -- steps ------------------------------------------------------------------

  void start_steps();
  void free_slot() override;
  void add_outcome(entry& x, outcome_ptr outcome, gd::run after) override;
  void on_step_written(written_step& x);
  void collect_flushed(turn::flushed& x);
  void go_on(const entry& x, turn::flushed& written);
  void crash(entry& x, const gd::run& what, const std::string& why) override;
  void skip(entry& x) override {
    complete(x, false);
  }
  void complete(entry& x, bool well);
  void end_lease(const lease_ptr& under, bool well);
  void forget_if_over(entry& x) override;
  void unlock(std::optional<store::key_hold> key);
  bool drives_when_down(const entry& x) const override {
    return draining_ || x.key.has_value(); // the key's other rows wait
  }
  void note_end() override {
    pace_.ended();
  }

  // -- workers ----------------------------------------------------------------

  void see_workers();
  void on_workers_changed();
  bool has_worker() const {
    return workers_ && workers_->any();
  }
  bool has_idle_worker() const {
    return has_worker() && workers_->idle(queue_.name);
  }
  bool hand_out_next(bool alone);
  void read_report(elsewhere::report& x);
  void add_late(elsewhere::report& x);
  bool answer(const entry& x, const turn::flushed& of,
              const held_row_ptr& next = nullptr);

  // -- suspects ---------------------------------------------------------------

  bool may_run_suspects();
  void see_to_trials();
  void cancel_trial();
  void write_notes(const trials::written& what);
  void on_notes_written(const pq::reply& reply);

  // -- the end ----------------------------------------------------------------

  void on_drain(drain how);
  void stop_if_drained();

  /// Behind those of the turn's transactions.
  static constexpr std::uint64_t notes_ticket = 2;

  /// Of the database, by transaction of the turn.
  std::vector<std::size_t> connection_slots_;
  turn turn_;
  gate gate_;
  waiting_rows waiting_;
  trials trials_;
  pace pace_;
  /// Null: this node lets none in, so far.
  std::shared_ptr<elsewhere> workers_;
  /// Rows of a reply that are not prefetched yet.
  std::int32_t coming_ = 0;
  /// By transaction in flight, `claim_slots`'s number of the pick under way; zero: there
  /// is none.
  std::array<std::uint64_t, 2> picks_{};
  /// By transaction in flight, bytes that it may show.
  std::array<std::int64_t, 2> showing_{};
  /// Of rows from the pick until their outcomes are written.
  held_bytes bytes_;
  /// By transaction in flight, when it was sent.
  std::array<clock::time_point, 2> sent_at_{};
  /// There may be more to pick than the last pick took.
  bool pick_again_ = true;
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
  /// Outcomes of rows that nobody here knows, on their way.
  std::size_t late_ = 0;
  std::optional<draining> draining_{};
};

} // namespace gd::actors
