#pragma once

#include <gd/event.hpp>
#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// One execution of a picked row: calls the step, turns what it throws into a
/// call of the handler, validates and encodes the outcome. Whatever user code does, the result is an outcome that SQL can
/// carry out.
class execution {
public:
  execution(std::shared_ptr<const machine> of, store::picked_row row,
            lease_ptr under, limits bounds);

  /// Large: made once, and handed on.
  using row_ptr = std::unique_ptr<store::outcome_row>;

  /// Runs the step, and the handler if need be.
  row_ptr run();

  /// The same where something else may decide first, a time limit for example:
  /// then null, and what the step returns or throws counts for nothing.
  row_ptr run_unless_decided();

  // Steps that deliver their outcome later take these in `run`'s place.

  /// What such a step gets; once.
  context_base begin();

  row_ptr finish(outcome x, const context_base& ctx);

  /// The step has thrown this.
  row_ptr fail(const std::exception_ptr& thrown);

  /// It has failed without throwing.
  row_ptr fail(const failure& why);

  /// What can call the handler while the step itself still runs.
  execution without_inbox();

  /// "step ship took longer than 30s".
  static std::string over_limit(const std::string& step,
                                std::chrono::milliseconds limit);

  /// It is not to be run: its row holds what cannot be used. `told`: the same without
  /// what is stored.
  row_ptr fail_unrun(const std::string& why, const std::string& told) {
    return give_up(why, told);
  }

  /// What was not shown when it was picked.
  void show(store::shown_row content) {
    row_.state = std::move(*content.state);
    row_.inbox = std::move(content.inbox);
    row_.shown = true;
    note_trace();
  }

  /// The database has refused the row that `run` (or `refused`) returned, and it
  /// alone: the handler's turn, and if it was its outcome already, the end.
  /// Null: the end has been refused, too. `told`: the error's message without what is
  /// stored.
  row_ptr refused(const error& why, const std::string& told);
  row_ptr refused(const error& why) {
    return refused(why, without_data(why).message);
  }

  /// Fills in what an outcome has of its row and machine.
  void complete(store::outcome_row& row) const;

  /// Its row goes elsewhere: keeps what tells which one it was.
  void strip() {
    row_.state = {};
    row_.inbox = {};
  }

  /// What is known of one that has run elsewhere, for events.
  struct account {
    bool handled = false;
    std::string failure{};
    std::string end{};
    std::chrono::microseconds took{0};
  };
  void ran(account how);
  account told() const;

  /// Whether its instance may go on at once after a `next`.
  bool may_run_ahead() const noexcept {
    return !row_.partition_key && row_.steps_ahead < machine_->run_ahead;
  }

  /// What goes on under the token when this outcome, an `advance` to the step with the
  /// state, is committed. Without an inbox it is not shown yet.
  execution after(std::string step, std::string state, std::string token,
                  std::optional<std::vector<raw_signal>> inbox) const;

  /// Null: the machine has no such step.
  const machine::step_definition* step() const noexcept {
    return step_;
  }

  const store::picked_row& row() const noexcept {
    return row_;
  }

  const lease_ptr& under() const noexcept {
    return lease_;
  }

  /// Whether the handler was called.
  bool failed() const noexcept {
    return handling_;
  }

  /// The step begins: `took` counts from here.
  void started() noexcept {
    began_ = clock::now();
    ended_ = {};
  }

  /// For how long the step ran until it had an outcome or failed; until now, if it has
  /// done neither. Zero: it has not begun.
  std::chrono::microseconds took() const;

  // What events tell of it: nothing that is stored.

  events::step_run which() const;

  /// When its lease has begun.
  events::step_started start_told() const;

  /// `outcome`: what the failure has led to.
  events::step_failed failure_told(const store::outcome_row& outcome) const;

  events::instance_failed end_told(const store::outcome_row& stop) const;

private:
  using clock = std::chrono::steady_clock;

  context_base make_context() const;
  void note_trace();
  row_ptr begin_row() const;
  outcome call(context_base& ctx);
  row_ptr handle(const failure& why, std::string told);
  row_ptr wait_for_key(std::string why, std::string told);
  row_ptr give_up(const std::string& reason, std::string told);
  row_ptr give_up(const error& undecodable);
  row_ptr give_up_handled(const char* how, const std::string& why,
                          const std::string& told);
  /// The outcome as a row, or why it cannot be carried out.
  result<row_ptr> encode(outcome x, const context_base& ctx,
                         bool by_handler) const;
  /// The same, but for its metadata.
  result<row_ptr> encode_main(outcome x, const context_base& ctx,
                              bool by_handler) const;
  /// What `await` waits for; or why it cannot be.
  std::optional<error> encode_await(outcome& x, store::outcome_row& row) const;
  /// Where `next` goes, and what the row does there; or why it cannot be.
  std::optional<std::string> encode_next(outcome& x, bool by_handler,
                                         store::outcome_row& row) const;
  /// Why `next` may not go there, if it may not.
  std::optional<std::string> not_declared(const std::string& target,
                                          bool by_handler) const;

  std::shared_ptr<const machine> machine_;
  store::picked_row row_;
  std::string traceparent_{};            ///< of what the step runs for
  const machine::step_definition* step_; ///< the machine's
  lease_ptr lease_;
  limits limits_;
  clock::time_point began_{};
  clock::time_point ended_{};
  bool handling_ = false;
  bool failing_ = false;
  /// What the handler was given, and what events tell of that.
  std::string failure_;
  std::string failure_told_;
  /// What events tell of the reason why the instance fails.
  std::string end_told_;
};

using execution_ptr = std::shared_ptr<execution>;

} // namespace gd
