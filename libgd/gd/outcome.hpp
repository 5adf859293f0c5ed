#pragma once

#include <gd/effect.hpp>
#include <gd/error.hpp>
#include <gd/json.hpp>
#include <gd/state.hpp>
#include <gd/time.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

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

/// The result of a step. Made by `next`, `replay`, `await`, `done` and `stop`,
/// each of which has a type of its own that converts to it; checked by the engine
/// before anything reaches the database: an outcome that cannot be carried out
/// counts as an exception of the step.
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
  /// Delay of `replay`, and of `next`, in microseconds.
  std::int64_t delay_us = 0;
  /// The signal that `await` waits for. Times are in microseconds, since 1970 for
  /// points in time.
  std::string awaits{};
  /// The others, where it waits for any of several.
  std::vector<std::string> awaits_also{};
  std::optional<std::int64_t> timeout_us{}; ///< how long `await` waits
  std::optional<std::int64_t> until_us{};   ///< until when it does
  /// Why `stop` stops.
  std::string reason{};
  /// What `with` has attached, encoded.
  std::optional<json> metadata{};
  /// An argument that could not be used.
  std::optional<error> problem{};
  /// Its state is what was picked, as it is stored: of what is not the user's.
  bool unchanged = false;
  /// What it carries; mostly nothing.
  std::optional<gd::effects> carried{};

  /// The problem of a duration that is none, or longer than `longest_delay`.
  static error out_of_range(std::string_view what);

  /// The problem of a point in time that the database does not keep.
  static error out_of_years(std::string_view what);

  /// The problem of `after` for anything but `next`.
  static error not_next();

  /// See `detail::sends`.
  void add(gd::insert what);
  void add(gd::signal what);              ///< the same
  void add(sql_statement what);           ///< the same
  void make_last_signal_fail();           ///< the same
  void expect_of_last(std::int64_t rows); ///< the same

private:
  effects& to_carry();
};

namespace detail {

/// What all of the types below can do.
template <class Self>
class attaches {
public:
  /// Attaches `x`, a struct with GD_STATE, to the transition: its entry in the
  /// history has it, in at most `limits::metadata` bytes of JSON. Of an instance
  /// without history nobody keeps it. Of several calls the last one counts.
  template <class T>
  Self with(const T& x) && {
    attach(x);
    return static_cast<Self&&>(*this);
  }

protected:
  template <class T>
  void attach(const T& x) {
    static_assert(described<T>, "metadata needs GD_STATE(...)");
    static_cast<Self&>(*this).metadata = to_json(x);
  }
};

/// What those can carry that do not run the same step again. All of it happens in the
/// transaction that commits the outcome, or not at all: exactly once. What the database
/// refuses goes to the handler, as an outcome that cannot be carried out, with
/// `failure::refused`.
template <class Self>
class sends {
public:
  /// Makes an instance. A unique key that an instance of the same machine has is no
  /// error: nothing is made then.
  Self insert(gd::insert what) && {
    auto& self = static_cast<Self&>(*this);
    self.add(std::move(what));
    return std::move(self);
  }

  /// Sends a signal, to an id or to a key, which may be one that the same outcome
  /// inserts. A dedup key that the target has seen is no error; nor is a target that has
  /// ended, where the signal is dropped and counted.
  Self signal(gd::signal what) && {
    auto& self = static_cast<Self&>(*this);
    self.add(std::move(what));
    return std::move(self);
  }

  /// Of the last signal: a target that has ended refuses it.
  Self or_fail() && {
    auto& self = static_cast<Self&>(*this);
    self.make_last_signal_fail();
    return std::move(self);
  }

  /// Runs one statement, that begins with insert, update, delete, merge, select or with;
  /// `values` are bound to $1, $2 and so on.
  template <class... Values>
  Self sql(std::string text, const Values&... values) && {
    add_statement(std::move(text), values...);
    return static_cast<Self&&>(*this);
  }

  /// Of the last statement: refused, if it does not affect, or return, so many rows.
  Self expect_rows(std::int64_t rows) && {
    static_cast<Self&>(*this).expect_of_last(rows);
    return static_cast<Self&&>(*this);
  }

protected:
  template <class... Values>
  void add_statement(std::string text, const Values&... values) {
    auto& self = static_cast<Self&>(*this);
    sql_statement what{.text = std::move(text)};
    (what.values.push_back(
       bind_value<std::decay_t<const Values>>(values, self.problem)),
     ...);
    self.add(std::move(what));
  }
};

/// What those can do that go on with a step.
template <class Self>
class delays {
public:
  /// The step is due only after `delay` (up to 100 years), by the database's clock;
  /// meanwhile other instances of its partition key may run. Not to a step where
  /// instances rest or end. Without a delay it is due at once.
  template <class Rep, class Period>
  Self after(std::chrono::duration<Rep, Period> delay) && {
    put_off(delay);
    return static_cast<Self&&>(*this);
  }

protected:
  template <class Rep, class Period>
  void put_off(std::chrono::duration<Rep, Period> delay) {
    auto& self = static_cast<Self&>(*this);
    auto us = to_microseconds(delay);
    self.delay_us = us.value_or(0);
    if (self.kind != outcome_kind::next) // a `to` made from another outcome
      self.problem = outcome::not_next();
    else if (!us)
      self.problem = outcome::out_of_range("the delay of next");
  }
};

} // namespace detail

// -- their types --------------------------------------------------------------

// Only the functions below make them, in place; as an `outcome` they are moved.

template <class Outcome, class State>
class carries;

/// What `next(step, state)` returns: goes on with a step of the enum `Step`.
template <class Step>
class moved : public outcome,
              public detail::attaches<moved<Step>>,
              public detail::sends<moved<Step>>,
              public detail::delays<moved<Step>> {
  static_assert(detail::named_enum<Step>, "a step is of a GD_ENUM");

  template <class State>
  moved(Step target, const State& state)
    : outcome{.kind = outcome_kind::next,
              .value = to_json(state),
              .state_type = typeid(State),
              .step = to_string(target),
              .step_type = typeid(Step)} {
    // nop
  }

  template <class, class>
  friend class carries;
};

class again;

/// Runs the same step again, with the same inputs, after `delay` (up to 100
/// years). Consumes no signal.
template <class State, class Rep = std::int64_t, class Period = std::ratio<1>>
carries<again, State> replay(const State& state,
                             std::chrono::duration<Rep, Period> delay
                             = std::chrono::duration<Rep, Period>{});

/// What `replay` returns: the same step again.
class again : public outcome, public detail::attaches<again> {
  template <class State>
  again(const State& state, std::optional<std::int64_t> delay)
    : outcome{.kind = outcome_kind::replay,
              .value = to_json(state),
              .state_type = typeid(State),
              .delay_us = delay.value_or(0)} {
    if (!delay)
      problem = out_of_range("the delay of replay");
  }

  template <class, class>
  friend class carries;
};

namespace detail {

/// Several names; not one, which is a range of characters.
template <class T>
concept names_range = std::ranges::input_range<const T> && std::convertible_to<
  std::ranges::range_reference_t<const T>,
  std::string_view> && !std::convertible_to<const T&, std::string_view>;

} // namespace detail

/// What `await` returns: waits for a signal.
class parked : public outcome,
               public detail::attaches<parked>,
               public detail::sends<parked> {
public:
  /// Wakes the instance with `ctx.timed_out()` when no signal has come after `d`
  /// (up to 100 years), by the database's clock.
  template <class Rep, class Period>
  parked timeout(std::chrono::duration<Rep, Period> d) && {
    wait_for(d);
    return std::move(*this);
  }

  /// As `timeout`, at a point in time, of the years 0 to 9999, with microseconds. (A
  /// `system_clock::time_point` itself ends in the year 2262: later times are a
  /// `sys_time` of microseconds, or `sys_days`.)
  template <class Duration>
  parked until(std::chrono::sys_time<Duration> t) && {
    wait_until(t);
    return std::move(*this);
  }

private:
  template <class Rep, class Period>
  void wait_for(std::chrono::duration<Rep, Period> d) {
    timeout_us = to_microseconds(d);
    if (!timeout_us)
      problem = out_of_range("the timeout of await");
  }

  template <class Duration>
  void wait_until(std::chrono::sys_time<Duration> t) {
    until_us = to_microseconds(t);
    if (!until_us)
      problem = outcome::out_of_years("the time of await");
  }

  template <class State>
  parked(std::string_view name, const State& state)
    : outcome{.kind = outcome_kind::await,
              .value = to_json(state),
              .state_type = typeid(State),
              .awaits = std::string{name}} {
    // nop
  }

  template <std::ranges::input_range Names, class State>
  parked(const Names& names, const State& state)
    : outcome{.kind = outcome_kind::await,
              .value = to_json(state),
              .state_type = typeid(State)} {
    for (std::string_view name : names)
      awaits_also.emplace_back(name);
    if (awaits_also.empty()) {
      problem = no_names();
    } else {
      awaits = std::move(awaits_also.front());
      awaits_also.erase(awaits_also.begin());
    }
  }

  static error no_names();

  template <class, class>
  friend class carries;
};

/// What `done` and `stop` return: the end.
class ended : public outcome,
              public detail::attaches<ended>,
              public detail::sends<ended> {
  ended(outcome_kind how, json result, std::string why)
    : outcome{
      .kind = how, .value = std::move(result), .reason = std::move(why)} {
    // nop
  }

  template <class Result>
  friend ended done(const Result& result);
  friend ended done();
  friend ended stop(std::string reason);
};

template <auto... Steps>
class to;

namespace detail {

template <auto Step>
struct step_constant;

template <auto Step, auto... Steps>
concept among
  = (std::same_as<step_constant<Step>, step_constant<Steps>> || ...);

/// Whether a `to<Steps...>` is made from it.
template <class Outcome, auto... Steps>
struct leads_to : std::false_type {};
template <auto... Steps>
struct leads_to<again, Steps...> : std::true_type {};
template <auto... Steps>
struct leads_to<parked, Steps...> : std::true_type {};
template <auto... Steps>
struct leads_to<ended, Steps...> : std::true_type {};
template <auto... Fewer, auto... Steps>
struct leads_to<to<Fewer...>, Steps...>
  : std::bool_constant<(among<Fewer, Steps...> && ...)> {};

template <class Outcome, class State, auto... Steps>
struct leads_to<carries<Outcome, State>, Steps...>
  : leads_to<Outcome, Steps...> {};

template <class T>
concept some_outcome = std::derived_from<std::remove_cvref_t<T>, outcome>;

template <class T, auto... Steps>
concept leading_to
  = some_outcome<T> && leads_to<std::remove_cvref_t<T>, Steps...>::value;

/// Whether it may be an outcome of the machine whose steps are of `Enum`, as far
/// as its type tells.
template <class Outcome, class Enum>
struct stays_in : std::true_type {};
template <class Step, class Enum>
struct stays_in<moved<Step>, Enum> : std::is_same<Step, Enum> {};
template <auto... Steps, class Enum>
struct stays_in<to<Steps...>, Enum>
  : std::bool_constant<(std::same_as<decltype(Steps), Enum> && ...)> {};
template <class Outcome, class State, class Enum>
struct stays_in<carries<Outcome, State>, Enum> : stays_in<Outcome, Enum> {};

/// Whether its state may be a `State`, as far as its type tells.
template <class Outcome, class State>
struct may_carry : std::true_type {};
template <class Outcome, class Other, class State>
struct may_carry<carries<Outcome, Other>, State> : std::is_same<Other, State> {
};

} // namespace detail

/// Goes on with one of these steps, or with none. What `next<step>(state)`
/// returns is a `to<step>`; functions that return several kinds of outcome can
/// name their type so: a `to<ship, cancelled>` is made from `next<ship>(state)`,
/// from `next<cancelled>(state)`, from what `replay`, `await`, `done` and `stop`
/// return, and from nothing else. As what a step or a handler returns it declares
/// that no other step follows.
template <auto... Steps>
class to : public outcome,
           public detail::attaches<to<Steps...>>,
           public detail::sends<to<Steps...>>,
           public detail::delays<to<Steps...>> {
  static_assert((detail::named_enum<decltype(Steps)> && ...),
                "a step is of a GD_ENUM");

public:
  /// From what leads to no other steps.
  template <detail::leading_to<Steps...> Outcome>
  to(Outcome&& x) : outcome(std::forward<Outcome>(x)) {
    // nop
  }

  /// From nothing else.
  template <detail::some_outcome Outcome>
  to(Outcome&&) = delete; // it may go to a step that this gd::to does not name

private:
  template <class Step, class State>
  to(Step target, const State& state)
    : outcome{.kind = outcome_kind::next,
              .value = to_json(state),
              .state_type = typeid(State),
              .step = to_string(target),
              .step_type = typeid(Step)} {
    // nop
  }

  template <class, class>
  friend class carries;
};

/// What those functions return that take a state: an `Outcome` (`moved`, `to`, `again`,
/// `parked`) that also tells the state's type. As what a step or a handler returns it is of
/// the machine's state, or does not compile. `context<State>::to<ship, cancelled>` is such a
/// `to`: made from what carries that state, or none, and from nothing else.
template <class Outcome, class State>
class carries : public Outcome {
public:
  /// From what leads to no other steps, and carries that state.
  template <class Other>
    requires std::constructible_from<Outcome, Other&&>
    carries(carries<Other, State>&& x)
      : Outcome(static_cast<Other&&>(std::move(x))) {
      // nop
    }

    /// From an end, which carries none.
    carries(ended&& x) requires std::constructible_from<Outcome, ended&&>
      : Outcome(std::move(x)) {
      // nop
    }

    /// See `attaches::with`.
    template <class T>
    carries with(const T& x) && {
      this->attach(x);
      return std::move(*this);
    }

    /// See `sends`.
    carries insert(gd::insert what)
      && requires std::derived_from<Outcome, detail::sends<Outcome>> {
      this->add(std::move(what));
      return std::move(*this);
    }

    /// See `sends`.
    carries signal(gd::signal what)
      && requires std::derived_from<Outcome, detail::sends<Outcome>> {
      this->add(std::move(what));
      return std::move(*this);
    }

    /// See `sends`.
    carries or_fail()
      && requires std::derived_from<Outcome, detail::sends<Outcome>> {
      this->make_last_signal_fail();
      return std::move(*this);
    }

    /// See `sends`.
    template <class... Values>
      requires std::derived_from<Outcome, detail::sends<Outcome>>
        carries sql(std::string text, const Values&... values) && {
        this->add_statement(std::move(text), values...);
        return std::move(*this);
      }

      /// See `sends`.
      carries expect_rows(std::int64_t rows)
        && requires std::derived_from<Outcome, detail::sends<Outcome>> {
        this->expect_of_last(rows);
        return std::move(*this);
      }

      /// See `delays::after`.
      template <class Delay>
        requires requires(Outcome x, Delay d) {
          std::move(x).after(d);
        }
      carries after(Delay delay) && {
        this->put_off(delay);
        return std::move(*this);
      }

      /// See `parked::timeout`.
      template <class Time>
        requires requires(Outcome x, Time d) {
          std::move(x).timeout(d);
        }
      carries timeout(Time d) && {
        this->wait_for(d);
        return std::move(*this);
      }

      /// See `parked::until`.
      template <class Time>
        requires requires(Outcome x, Time t) {
          std::move(x).until(t);
        }
      carries until(Time t) && {
        this->wait_until(t);
        return std::move(*this);
      }

    private:
      template <class... Args>
      explicit carries(std::in_place_t, Args&&... args)
        : Outcome(std::forward<Args>(args)...) {
        // nop
      }

      template <class Step, class Any>
      friend carries<moved<Step>, Any> next(Step step, const Any& state);
      template <auto Step, class Any>
      friend carries<to<Step>, Any> next(const Any& state);
      template <class Any, class Rep, class Period>
      friend carries<again, Any>
      replay(const Any& state, std::chrono::duration<Rep, Period> delay);
      template <class Any>
      friend carries<parked, Any> await(std::string_view name,
                                        const Any& state);
      template <class Any>
      friend carries<parked, Any>
      await(std::initializer_list<std::string_view> names, const Any& state);
      template <detail::names_range Names, class Any>
      friend carries<parked, Any> await(const Names& names, const Any& state);
};

// -- what steps return --------------------------------------------------------

/// Goes on with `step`, at once; or later: `next(step, state).after(10min)`.
template <class Step, class State>
carries<moved<Step>, State> next(Step step, const State& state) {
  return carries<moved<Step>, State>{std::in_place, step, state};
}

/// The same where the step is known when it is compiled: `next<ship>(state)`. Its
/// type names the step.
template <auto Step, class State>
carries<to<Step>, State> next(const State& state) {
  return carries<to<Step>, State>{std::in_place, Step, state};
}

template <class State, class Rep, class Period>
carries<again, State> replay(const State& state,
                             std::chrono::duration<Rep, Period> delay) {
  return carries<again, State>{std::in_place, state, to_microseconds(delay)};
}

/// Parks the instance until a signal of that name comes; the same step runs
/// again then. May take `.timeout(duration)` or `.until(time)`.
template <class State>
carries<parked, State> await(std::string_view name, const State& state) {
  return carries<parked, State>{std::in_place, name, state};
}

/// The same for any of several signals, at most 16: `await({"paid", "cancelled"},
/// state)`. The first to come wakes the instance, once; which it was, the step sees by
/// taking.
template <class State>
carries<parked, State> await(std::initializer_list<std::string_view> names,
                             const State& state) {
  return carries<parked, State>{std::in_place, names, state};
}

/// The same with a container of strings.
template <detail::names_range Names, class State>
carries<parked, State> await(const Names& names, const State& state) {
  return carries<parked, State>{std::in_place, names, state};
}

/// Ends the instance well, with `result`.
template <class Result>
ended done(const Result& result) {
  return {outcome_kind::done, to_json(result), {}};
}

/// Ends the instance well, with the result `{}`.
inline ended done() {
  return {outcome_kind::done, {}, {}};
}

/// Ends the instance as failed, with `reason` as its `last_error`: clean UTF-8, cut to
/// `limits::reason`.
inline ended stop(std::string reason) {
  return {outcome_kind::stop, {}, std::move(reason)};
}

} // namespace gd
