#pragma once

#include <gd/engine/step/held_row.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace gd {

/// One call of a held row's step: turns what that throws into a call of the handler,
/// validates and encodes the outcome. Whatever user code does, the result is an outcome
/// that SQL can carry out.
class run {
public:
  /// What events tell of one that is over.
  struct account {
    bool handled = false;
    std::string failure{};
    std::string end{};
    std::chrono::microseconds took{0};
  };

  explicit run(held_row_ptr of) : held_(std::move(of)) {
    // nop
  }

  held_row& held() const noexcept {
    return *held_;
  }

  /// Runs the step, and the handler if need be.
  outcome_ptr execute();

  /// The same where something else may decide first, a time limit for example:
  /// then null, and what the step returns or throws counts for nothing.
  outcome_ptr execute_unless_decided();

  // Steps that deliver their outcome later take these in `execute`'s place.

  /// What such a step gets; once.
  context_base begin();

  outcome_ptr finish(outcome x, const context_base& ctx);

  /// Its step's outcome as a row; an error, for `fail`, is why it cannot be carried out. For
  /// whoever has something to undo before the handler is called.
  result<outcome_ptr> check(outcome x, const context_base& ctx);

  /// The step has thrown this.
  outcome_ptr fail(const std::exception_ptr& thrown);

  /// It has failed without throwing.
  outcome_ptr fail(const failure& why);

  /// Its outcome cannot be carried out.
  outcome_ptr fail(const error& why);

  /// "step ship took longer than 30s".
  static std::string over_limit(const std::string& step,
                                std::chrono::milliseconds limit);

  /// The database has refused the outcome that this has returned, and it alone: the
  /// handler's turn, and if it was its outcome already, the end. Null: the end has been
  /// refused, too. `told`: the error's message without what is stored.
  outcome_ptr refused(const error& why, const std::string& told);
  outcome_ptr refused(const error& why) {
    return refused(why, without_data(why).message);
  }

  /// The same, where the database, or a bound, has refused one of its effects.
  outcome_ptr refused(const effect_refused& what, const std::string& told);

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

  account told() const;

  /// It has been run elsewhere, or is not to be.
  void ran(account how);

  /// `outcome`: what the failure has led to.
  events::step_failed failure_told(const store::outcome_row& outcome) const;

  events::instance_failed end_told(const store::outcome_row& stop) const;

private:
  using clock = std::chrono::steady_clock;

  const store::picked_row& picked() const noexcept {
    return held_->row();
  }
  const limits& bounds() const noexcept {
    return held_->bounds();
  }

  outcome call(context_base& ctx);
  outcome_ptr handle(const failure& why, std::string told);
  outcome_ptr wait_for_key(std::string why, std::string told);
  outcome_ptr give_up(const std::string& reason, std::string told);
  outcome_ptr give_up(const error& undecodable);
  outcome_ptr give_up_handled(const char* how, const std::string& why,
                              const std::string& told);
  /// The outcome as a row, or why it cannot be carried out.
  result<outcome_ptr> encode(outcome x, const context_base& ctx,
                             bool by_handler);
  /// What it carries; or why it cannot be, and `refused_` tells which.
  std::optional<error> encode_effects(effects what, store::outcome_row& row);
  /// What its kind decides; or why it cannot be.
  std::optional<error> encode_kind(outcome& x, bool by_handler,
                                   store::outcome_row& row) const;
  /// What `await` waits for; or why it cannot be.
  std::optional<error> encode_await(outcome& x, store::outcome_row& row) const;
  /// Where `next` goes, and what the row does there; or why it cannot be.
  std::optional<error> encode_next(outcome& x, bool by_handler,
                                   store::outcome_row& row) const;
  /// Why `next` may not go there, if it may not.
  std::optional<std::string> not_declared(const std::string& target,
                                          bool by_handler) const;

  held_row_ptr held_;
  clock::time_point began_{};
  clock::time_point ended_{};
  bool handling_ = false;
  bool failing_ = false;
  /// What the handler was given, and what events tell of that.
  std::string failure_;
  std::string failure_told_;
  /// What events tell of the reason why the instance fails.
  std::string end_told_;
  /// Which effect cannot be carried out of the outcome that was encoded last.
  std::optional<effect_refused> refused_;
};

} // namespace gd
