#pragma once

#include <gd/context.hpp>
#include <gd/event.hpp>
#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/registry.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gd {

/// Large: made once, and handed on.
using outcome_ptr = std::unique_ptr<store::outcome_row>;

/// A row under a lease, and the machine that it is of. It outlives its runs: it may wait
/// for one, go elsewhere, go back or be failed without any.
class held_row {
public:
  /// `known`: the machines of the program, for what outcomes insert; it outlives this.
  held_row(std::shared_ptr<const machine> of, store::picked_row row,
           lease_ptr under, limits bounds, const registry* known = nullptr);

  const machine& of() const noexcept {
    return *machine_;
  }
  const store::picked_row& row() const noexcept {
    return row_;
  }
  const lease_ptr& under() const noexcept {
    return lease_;
  }
  const limits& bounds() const noexcept {
    return limits_;
  }
  /// Null: nothing is known of other machines.
  const registry* known() const noexcept {
    return known_;
  }
  /// Null: the machine has no such step.
  const machine::step_definition* step() const noexcept {
    return step_;
  }

  // -- what becomes of it -----------------------------------------------------

  /// What was not shown when it was picked. Returns why that cannot be used; empty: it
  /// can.
  std::string show(store::shown_row content);

  /// What its step gets; once. It takes the inbox.
  context_base begin();

  /// Its state as functions take it: what was picked, or, where that is encrypted, what
  /// `room` has then. Throws undecodable_state.
  const std::string& state(std::string& room) const;

  /// What its handler gets, which has looked at nothing and consumes nothing: no inbox.
  context_base context() const;

  /// It goes elsewhere: keeps what tells which one it was.
  void strip() {
    row_.state = {};
    row_.inbox = {};
  }

  /// Whether its instance may go on at once after a `next`.
  bool may_run_ahead() const noexcept {
    return !row_.partition_key && row_.steps_ahead < machine_->run_ahead;
  }

  /// What goes on there, under the token, when its `advance` is committed. Without an
  /// inbox it is not shown yet.
  held_row after(std::string step, std::string state, std::string token,
                 std::optional<std::vector<raw_signal>> inbox) const;

  // -- how it ends ------------------------------------------------------------

  /// Of this row, and nothing else yet.
  outcome_ptr begin_outcome(store::write_kind what) const;

  /// Fills in what an outcome has of its row and machine.
  void complete(store::outcome_row& to) const;

  /// It goes back unrun: nobody decides about it any more.
  outcome_ptr release();

  /// Its instance fails.
  outcome_ptr stop(const std::string& reason) const;

  // -- what events tell of it: nothing that is stored -------------------------

  events::step_run which() const;

  /// When its lease has begun.
  events::step_started start_told() const;

private:
  void note_trace();

  std::shared_ptr<const machine> machine_;
  store::picked_row row_;
  std::string traceparent_{};            ///< of what the step runs for
  const machine::step_definition* step_; ///< the machine's
  lease_ptr lease_;
  limits limits_;
  const registry* known_;
};

using held_row_ptr = std::shared_ptr<held_row>;

} // namespace gd
