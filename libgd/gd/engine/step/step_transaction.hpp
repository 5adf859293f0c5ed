#pragma once

#include <gd/engine/step/run.hpp>
#include <gd/engine/step/step_sessions.hpp>
#include <gd/error.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace gd {

/// One run of a step in a transaction: what the step does there is committed with its
/// outcome. All of it blocks. The session is given back with this.
class step_transaction {
public:
  enum class fate : std::uint8_t {
    none,    ///< something else has decided, or nobody waits any more
    failed,  ///< nothing is stored: the outcome is to be written as others are
    applied, ///< it is committed
    stale,   ///< another lease is in force: all is rolled back
    unknown, ///< its commit may have happened, and nobody could be asked
  };
  struct result_of_run {
    fate what = fate::none;
    outcome_ptr row{}; ///< null: there is no outcome
    /// The database does not take the outcome; the handler's is in its place.
    std::optional<error> refused{};
    /// It is committed, and a synchronous standby may not have it.
    std::optional<error> unreplicated{};
  };

  step_transaction(run& what, step_sessions& on);

  result_of_run execute();

private:
  using report = result_of_run;

  /// Only behind `begin`.
  pq::connection& db() const noexcept {
    return **session_;
  }

  result<bool> begin();
  report run_step();
  report finish(outcome x, const context_base& ctx);
  report write(outcome_ptr row);
  report commit(outcome_ptr row, const std::string& xact);
  report resolve(outcome_ptr row, const std::string& xact, report so_far);
  std::optional<std::string> ask(const std::string& xact);
  void roll_back();
  report fail(outcome_ptr by_handler);
  report refuse(const error& why);
  report lose(const std::string& why);
  bool unwanted() const;
  std::string step_name() const;

  run& what_;
  step_sessions& on_;
  std::stop_token stop_;
  std::optional<step_sessions::loan> session_;
  std::string marker_;
  std::string role_;
};

} // namespace gd
