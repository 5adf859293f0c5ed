#pragma once

#include <gd/error.hpp>
#include <gd/json.hpp>
#include <gd/time.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>

namespace gd {

/// What a step or a handler can return.
enum class outcome_kind : std::uint8_t {
  next,   ///< goes on with a step
  replay, ///< the same step again, with the same inputs, after a delay
  await,  ///< waits for a signal, or for a deadline
  done,   ///< the end, with a result
  stop    ///< the end, as failed
};

/// The name that SQL and logs know it by.
std::string_view to_string(outcome_kind kind) noexcept;

/// The result of a step. Made by `next`, `replay`, `await`, `done` and `stop`;
/// checked by the engine before anything reaches the database: an outcome that
/// cannot be carried out counts as an exception of the step.
class outcome {
public:
  outcome_kind kind{}; ///< which of the five
  /// State (next, replay, await) or result (done), encoded.
  json value{};
  /// Type of the encoded state, to be compared with the machine's.
  std::type_index state_type = typeid(void);
  /// Where `next` goes.
  std::string step{};
  std::type_index step_type = typeid(void); ///< of the enumerator of `step`
  /// Delay of `replay`, in microseconds.
  std::int64_t delay_us = 0;
  /// The signal that `await` waits for. Times are in microseconds, since 1970 for
  /// points in time.
  std::string awaits{};
  std::optional<std::int64_t> timeout_us{}; ///< how long `await` waits
  std::optional<std::int64_t> until_us{};   ///< until when it does
  /// Why `stop` stops.
  std::string reason{};
  /// An argument that could not be used.
  std::optional<error> problem{};

  /// For `await`: wakes the instance with `ctx.timed_out()` when no signal has
  /// come after `d` (up to 100 years), by the database's clock.
  template <class Rep, class Period>
  outcome timeout(std::chrono::duration<Rep, Period> d) && {
    timeout_us = to_microseconds(d);
    if (!timeout_us)
      problem = out_of_range("the timeout of await");
    return std::move(*this);
  }

  /// For `await`: as `timeout`, at a point in time.
  outcome until(std::chrono::system_clock::time_point t) && {
    until_us = to_microseconds(t);
    return std::move(*this);
  }

  /// The problem of a duration that is none, or longer than `longest_delay`.
  static error out_of_range(std::string_view what);
};

/// Goes on with `step`, at once.
template <class Step, class State>
outcome next(Step step, const State& state) {
  return {.kind = outcome_kind::next,
          .value = to_json(state),
          .state_type = typeid(State),
          .step = to_string(step),
          .step_type = typeid(Step)};
}

/// Runs the same step again, with the same inputs, after `delay` (up to 100
/// years). Consumes no signal.
template <class State, class Rep = std::int64_t, class Period = std::ratio<1>>
outcome replay(const State& state, std::chrono::duration<Rep, Period> delay
                                   = std::chrono::duration<Rep, Period>{}) {
  outcome x{.kind = outcome_kind::replay,
            .value = to_json(state),
            .state_type = typeid(State)};
  if (auto us = to_microseconds(delay))
    x.delay_us = *us;
  else
    x.problem = outcome::out_of_range("the delay of replay");
  return x;
}

/// Parks the instance until a signal of that name comes; the same step runs
/// again then. May take `.timeout(duration)` or `.until(time)`.
template <class State>
outcome await(std::string_view name, const State& state) {
  return {.kind = outcome_kind::await,
          .value = to_json(state),
          .state_type = typeid(State),
          .awaits = std::string{name}};
}

/// Ends the instance well, with `result`.
template <class Result>
outcome done(const Result& result) {
  return {.kind = outcome_kind::done, .value = to_json(result)};
}

/// Ends the instance well, with the result `{}`.
inline outcome done() {
  return {.kind = outcome_kind::done, .value = {}};
}

/// Ends the instance as failed, with `reason` as its `last_error`: clean UTF-8, cut to
/// `limits::reason`.
inline outcome stop(std::string reason) {
  return {.kind = outcome_kind::stop, .value = {}, .reason = std::move(reason)};
}

} // namespace gd
