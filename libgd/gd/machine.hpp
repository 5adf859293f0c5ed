#pragma once

#include <gd/cipher.hpp>
#include <gd/context.hpp>
#include <gd/error.hpp>
#include <gd/json.hpp>
#include <gd/outcome.hpp>
#include <gd/state.hpp>
#include <gd/time.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

struct pg_conn;

/// \file
/// What a user writes: the steps of a machine, its error handler.
namespace gd {

template <class State>
class transaction_context;

/// What the ledger keeps of a machine's instances, as they are inserted.
enum class history : std::uint8_t {
  none,       ///< nothing
  steps,      ///< each transition
  with_state, ///< each, with the state behind it
};

/// See `machine_builder::history`.
struct history_options {
  /// Entries that are older go, but for an instance's last one; 1 s to 100 years;
  /// unset: none.
  std::optional<std::chrono::microseconds> keep{};
};

/// How an instance has ended.
enum class final_status : std::uint8_t {
  done,   ///< well
  failed, ///< by a `stop`, or because it could not go on
};

/// What `nowhere` is.
struct nowhere_t {};

/// As a list: `next` goes to no step.
inline constexpr nowhere_t nowhere{};

/// The steps of a GD_ENUM that `next` may go to: `{ship, cancelled}`, or `nowhere`.
/// By default, and from `{}`, nothing is declared: it may go anywhere.
struct step_list {
  /// Declares nothing.
  step_list() = default;

  /// Declares that it goes to no step.
  step_list(nowhere_t) : names(std::in_place) {
    // nop
  }

  /// Declares that it goes to these, and to no others.
  template <class Step>
  step_list(std::initializer_list<Step> steps)
    : names(std::in_place), type(typeid(Step)) {
    static_assert(detail::named_enum<Step>, "a list of steps is of a GD_ENUM");
    for (auto step : steps)
      names->push_back(to_string(step));
  }

  std::optional<std::vector<std::string>> names{}; ///< nullopt: any step
  std::type_index type = typeid(void); ///< of the enumerators, if any
};

/// Exceptions of some types, and of those derived from them. Made by `exceptions`.
class exception_list {
public:
  /// None.
  exception_list() = default;

  /// Those for which `are` is true; it is given no null.
  explicit exception_list(bool (*are)(const std::exception_ptr&)) noexcept
    : are_(are) {
    // nop
  }

  /// Whether it is one of them. A null is none.
  bool includes(const std::exception_ptr& thrown) const {
    return are_ != nullptr && thrown && are_(thrown);
  }

private:
  bool (*are_)(const std::exception_ptr&) = nullptr;
};

namespace detail {

template <class E>
bool is_exception(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const E&) {
    return true;
  } catch (...) {
    return false;
  }
}

} // namespace detail

/// The exceptions of these types: `gd::exceptions<declined, std::logic_error>()`.
template <class... Es>
exception_list exceptions() {
  return exception_list{[](const std::exception_ptr& thrown) {
    return (detail::is_exception<Es>(thrown) || ...);
  }};
}

/// What a delay grows with; see `backoff`.
struct backoff_options {
  std::chrono::milliseconds base = std::chrono::seconds{1}; ///< 0 or more
  std::chrono::milliseconds most = std::chrono::minutes{5}; ///< of any delay
};

/// How often a step that fails is run, and when; see `machine_builder::retry`.
struct retry_options {
  /// How often a step is run until it is given up, the first time included: 1 to
  /// 1,000,000. What counts is `context::failures`: not that its process was killed.
  std::int32_t attempts = 5;
  /// The delay behind each failure: `gd::backoff` of those before it.
  backoff_options backoff{};
  /// What is given up at once: `gd::exceptions<declined>()`.
  exception_list not_for{};
};

/// How a step runs, and where it leads.
struct step_options {
  /// It may block, or compute for long: it gets a thread of its own. Otherwise
  /// it runs on a thread that many steps share.
  bool blocking = false;
  /// How long it may take: what takes longer counts as an exception. Unset: any
  /// time, or `default_async_limit`.
  std::optional<std::chrono::milliseconds> limit{};
  /// The steps that its `next` may go to. For asynchronous steps, and those that
  /// return a plain `outcome`: others declare it by their type.
  step_list to{};
  /// How often it is run when it fails; `attempts` of 0: as the machine's `retry`
  /// says.
  retry_options retry{.attempts = 0};
};

/// What a handler declares.
struct handler_options {
  /// The steps that its `next` may go to, whichever step has failed.
  step_list to{};
};

/// The limit of asynchronous steps that have none: an answer that never comes
/// leaves no other trace.
inline constexpr std::chrono::minutes default_async_limit{5};

/// The function of a step that delivers its outcome later: opaque here, started
/// by those who know its kind (gd::actors::async).
class async_function {
public:
  virtual ~async_function() = default;
};

/// A stored state that is not of the machine's type: the instance fails, its
/// state untouched.
struct undecodable_state {
  error why{}; ///< with the path: "$.items[1].quantity: expected ..."
};

/// A machine without its types: what the engine works with. Made by `define`.
class machine {
public:
  /// A step: gets the stored state as JSON text.
  using body = std::function<outcome(context_base&, const std::string& state)>;
  /// A step in a transaction: gets libpq's connection as well.
  using transaction_body = std::function<outcome(
    context_base&, const std::string& state, pg_conn* db)>;
  /// What `on_error` was given: gets the state as it was picked, as JSON text.
  using handler = std::function<outcome(const failure&, context_base&,
                                        const std::string& state)>;

  /// What is done at a step where instances rest, or end.
  struct resting {
    bool ends = false; ///< arriving there ends the instance
    /// How long an instance rests there at the most; unset: for ever.
    std::optional<std::chrono::microseconds> after{};
    std::string then{}; ///< the step with which it goes on after that
  };

  /// A step, as `step`, `rest` or `final` has defined it.
  struct step_definition {
    std::string name{}; ///< its enumerator's
    /// Empty: asynchronous, in a transaction, or defined by nobody.
    body run;
    std::shared_ptr<const async_function> start{}; ///< of an asynchronous step
    transaction_body run_in_transaction{}; ///< of a step in a transaction
    step_options how{};                    ///< how it runs
    /// The steps that its `next` may go to, as its type or its list declares;
    /// nullopt: it declares nothing, and may go anywhere.
    std::optional<std::vector<std::string>> to{};
    /// The steps that others may move an instance to from here.
    std::vector<std::string> outside{};
    /// It has no function of the user's; see `rest` and `final`.
    std::optional<resting> rests{};

    /// Whether it has a function.
    bool defined() const noexcept {
      return run || start || run_in_transaction;
    }

    /// The time limit, with the default of its kind; nullopt: any time.
    std::optional<std::chrono::milliseconds> limit() const;
  };

  std::string name{};            ///< as rows know it
  std::int32_t version = 1;      ///< as rows know it; from 1
  std::string queue = "default"; ///< of inserts that name none
  std::string initial_step{};    ///< of inserts that name none
  /// How many steps of an instance may follow one another at once; 0: after each
  /// step the instance goes back to its queue.
  std::int32_t run_ahead = 0;
  gd::history history
    = gd::history::none; ///< of instances inserted from now on
  /// For how long entries of the ledger are kept; unset: for ever.
  std::optional<std::chrono::microseconds> history_keep{};
  /// For how long dedup keys of consumed signals are remembered; unset: for as long as
  /// their instance is there.
  std::optional<std::chrono::microseconds> forget_dedup_after{};
  /// For how long instances that are done are kept; unset: for ever.
  std::optional<std::chrono::microseconds> keep_done{};
  std::optional<std::chrono::microseconds> keep_failed{}; ///< the same, failed
  std::vector<step_definition> steps{}; ///< in the order of the enumerators
  handler on_error;                     ///< empty: an exception means `stop`
  /// The steps that the handler's `next` may go to; nullopt: anywhere.
  std::optional<std::vector<std::string>> handler_to{};
  bool declared_only = false; ///< all steps, and the handler, have to declare
  /// How instances of an older version come to this one, as `from` has defined it.
  struct conversion {
    std::int32_t version = 0;             ///< whose states it takes
    std::type_index takes = typeid(void); ///< the type of these
    std::type_index gives = typeid(
      void);              ///< of this version, or what another one takes
    bool at_pick = false; ///< see `from_options`
    std::map<std::string, std::string> steps{}; ///< the same
    /// Decodes JSON text strictly, and encodes what is made of it. The function is the
    /// user's: it may throw.
    std::function<result<json>(const std::string& state)> convert{};
  };

  std::vector<conversion> conversions{};     ///< the oldest version first
  std::type_index state_type = typeid(void); ///< of the states of outcomes
  std::type_index step_type = typeid(void);  ///< of the steps of outcomes
  /// Decodes JSON text strictly: what inserts are checked with.
  std::function<result<void>(const std::string&)> check_state;
  /// What encrypts content; null: it is stored as it is.
  std::shared_ptr<const cipher> encrypted_by{};
  /// What states of `state_type` look like, as JSON Schema; empty: anything.
  std::string state_shape{};
  /// The same of the payloads of signals, by name; see `machine_builder::signal`.
  std::map<std::string, std::string> signals{};
  /// What `define` was given that cannot be.
  std::optional<error> problem{};

  /// For how long instances are kept that have ended so; unset: for ever.
  const std::optional<std::chrono::microseconds>&
  kept(final_status how) const noexcept {
    return how == final_status::done ? keep_done : keep_failed;
  }

  /// Null: no such step.
  const step_definition* find_step(std::string_view step) const;

  /// Null: it has none for states of that version.
  const conversion* find_conversion(std::int32_t from) const;

  /// What is stored of what its functions give: encrypted, if it has a cipher; failed, if
  /// that fails.
  json stored(json given) const;

  /// What its functions take of what is stored. The error, `cipher`: its cipher does not
  /// decrypt it.
  result<json> plain(json kept) const;

  /// `check_state` of what is stored.
  result<void> check_stored(const std::string& state) const;

  /// The state of an instance of that version as it is at this one: from conversion to
  /// conversion, or, where there is none, itself, if this version would take it at an
  /// insert. The error says which version's states it is not one of, and where.
  result<json> migrate(std::int32_t from, const std::string& state) const;

  /// "a|b|c", for error messages.
  std::string step_names() const;

  /// "name v2", for error messages.
  std::string title() const;

  /// Whether it can run. An error, `invalid_argument`: what is missing or wrong.
  result<void> validate() const;
};

namespace detail {

template <class State>
context<State> typed_context(context_base base, const std::string& state) {
  auto decoded = from_json<State>(state);
  if (!decoded)
    throw undecodable_state{decoded.error()};
  return {std::move(base), std::move(*decoded)};
}

/// What `gd::actors::async` makes of a function.
template <class F, class State>
concept asynchronous = requires(F f) {
  {
    std::move(f).template bind<State>()
    } -> std::same_as<std::shared_ptr<const async_function>>;
};

/// What `in_transaction` makes of a function.
template <class F>
class transaction_function;

/// The function that a step has been given, and what it is called with.
template <class F, class State>
struct step_function {
  using type = F;
  using argument = context<State>;
  static constexpr bool in_transaction = false;
};
template <class F, class State>
struct step_function<transaction_function<F>, State> {
  using type = F;
  using argument = transaction_context<State>;
  static constexpr bool in_transaction = true;
};

/// The steps that an outcome of that type may go to; nullopt: any.
template <class Outcome>
struct declared_by {
  static std::optional<std::vector<std::string>> names() {
    if constexpr (leads_to<Outcome>::value) // goes to no step
      return std::vector<std::string>{};
    else
      return std::nullopt;
  }
};
template <auto... Steps>
struct declared_by<to<Steps...>> {
  static std::optional<std::vector<std::string>> names() {
    return std::vector<std::string>{to_string(Steps)...};
  }
};

template <class Outcome, class State>
struct declared_by<carries<Outcome, State>> : declared_by<Outcome> {};

/// What `who`, a step or the handler, declares by its type and by a list. What
/// contradicts is a problem of the machine.
std::optional<std::vector<std::string>>
declared(machine& of, const std::string& who,
         std::optional<std::vector<std::string>> by_type,
         const step_list& by_list);

/// A step that is to be defined now. One that is already is a problem of the machine.
machine::step_definition& new_step(machine& of, std::size_t step);

/// Defines a step without a function.
void define_resting(machine& of, std::size_t step, const step_list& to,
                    machine::resting how);

/// Has the handler called for what is given up alone; the rest is tried again, as
/// its step says, or else as `by_default`.
void add_retries(machine& to, const retry_options& by_default);

/// Opens transitions from that step to those outside.
void open_outside(machine& of, std::size_t step, const step_list& to);

/// What is in flight, as text; for a `catch (...)`.
std::string describe_exception();

/// Adds a signal. A name that cannot be, or that is told twice, is a problem of the machine.
void add_signal(machine& to, std::string name, std::string shape);

/// Adds a conversion. A second one of the same version is a problem of the machine.
void add_conversion(machine& to, machine::conversion what);

/// Whether a call goes, as far as its type tells, to no step of another enum.
template <class Step, class F, class... Args>
inline constexpr bool call_stays_in = [] {
  if constexpr (std::is_invocable_v<F, Args...>)
    return stays_in<std::remove_cvref_t<std::invoke_result_t<F, Args...>>,
                    Step>::value;
  else
    return true;
}();

/// Whether the outcome of a call has that state, as far as its type tells.
template <class State, class F, class... Args>
inline constexpr bool call_may_carry = [] {
  if constexpr (std::is_invocable_v<F, Args...>)
    return may_carry<std::remove_cvref_t<std::invoke_result_t<F, Args...>>,
                     State>::value;
  else
    return true;
}();

} // namespace detail

/// Builds a machine; converts to it. See `define`.
template <class State, class Step>
class machine_builder {
public:
  /// See `define`.
  machine_builder(std::string name, std::int32_t version) {
    static_assert(detail::described<State>, "the state needs GD_STATE(...)");
    static_assert(detail::named_enum<Step>, "the steps need GD_ENUM(...)");
    built_.name = std::move(name);
    built_.version = version;
    built_.state_type = typeid(State);
    built_.step_type = typeid(Step);
    for (auto step : detail::enum_names_of<Step>)
      built_.steps.push_back({.name = std::string{step}, .run = {}});
    built_.initial_step = built_.steps.front().name;
    built_.check_state = [](const std::string& text) -> result<void> {
      if (auto x = from_json_strict<State>(text); !x)
        return x.error();
      return {};
    };
    built_.state_shape = detail::shape_of<State>();
  }

  /// Tells of a signal that its steps wait for, and what its payload is:
  /// `.signal<payment>("payment_confirmed")`. Nodes make that known, so that who sends one
  /// by gdctl, the page or `gd_signal(strict => true)` is told of a name, or a payload, that
  /// no step can mean. Steps take and await what they like, whatever is told here.
  template <class Payload>
  machine_builder signal(std::string name) && {
    detail::add_signal(built_, std::move(name), detail::shape_of<Payload>());
    return std::move(*this);
  }

  /// The queue of instances that are inserted without one; "default" if unset.
  machine_builder queue(std::string name) && {
    built_.queue = std::move(name);
    return std::move(*this);
  }

  /// After a `next`, goes on with the next step as soon as it is committed,
  /// instead of giving the row back to its queue: up to `steps` times in a row,
  /// 1 to 10,000. Faster for chains of short steps (docs/internals/performance.md); what
  /// is more urgent waits for so many steps at the most. Not for instances with
  /// a partition key, nor after a `next` of the handler's.
  machine_builder run_ahead(std::int32_t steps = 100) && {
    built_.run_ahead = steps;
    if (steps < 1 || steps > 10'000)
      built_.problem = error{errc::invalid_argument,
                             built_.title() + ": run_ahead of "
                               + std::to_string(steps)
                               + " steps, expected 1 to 10000",
                             {}};
    return std::move(*this);
  }

  /// Keeps a history of each instance that is inserted from now on: `client::history`
  /// reads it. An insert by SQL or by a program without the machine keeps what
  /// the last start of a node has made known.
  machine_builder history(gd::history what, history_options how = {}) && {
    built_.history = what;
    built_.history_keep = how.keep;
    if (how.keep
        && (*how.keep < std::chrono::seconds{1} || *how.keep > longest_delay))
      built_.problem = error{errc::invalid_argument,
                             built_.title()
                               + ": history is kept for 1 s to 100 years",
                             {}};
    return std::move(*this);
  }

  /// Forgets the dedup keys of signals that were consumed so long ago (1 s to 100
  /// years), of all its instances: a signal with such a key is accepted again. For
  /// instances that live for ever; by default keys are remembered for as long as their
  /// instance is there. Engines do that in small portions, some time later.
  template <class Rep, class Period>
  machine_builder
  forget_dedup_after(std::chrono::duration<Rep, Period> age) && {
    auto us = to_microseconds(age);
    built_.forget_dedup_after = std::chrono::microseconds{us.value_or(0)};
    if (*built_.forget_dedup_after < std::chrono::seconds{1})
      built_.problem = error{errc::invalid_argument,
                             built_.title()
                               + ": dedup keys are forgotten after 1 s to 100 "
                                 "years",
                             {}};
    return std::move(*this);
  }

  /// Deletes instances so long after they have ended (0 to 100 years), with their
  /// signals and their history; by default they are kept for ever. With 0 they go as they
  /// end, unless what has made or signalled them may still be sent again: a few times the
  /// `patience` of the configuration.
  template <class Rep, class Period>
  machine_builder keep(std::chrono::duration<Rep, Period> time) && {
    return std::move(*this)
      .keep(final_status::done, time)
      .keep(final_status::failed, time);
  }

  /// The same of those that have ended so: `.keep(gd::final_status::failed, 90 * 24h)`.
  template <class Rep, class Period>
  machine_builder keep(final_status how,
                       std::chrono::duration<Rep, Period> time) && {
    auto us = to_microseconds(time);
    (how == final_status::done ? built_.keep_done : built_.keep_failed)
      = std::chrono::microseconds{us.value_or(0)};
    if (!us)
      built_.problem = error{errc::invalid_argument,
                             built_.title()
                               + ": instances are kept for 0 to 100 years",
                             {}};
    return std::move(*this);
  }

  /// Encrypts what is stored of its instances' content: their states, also those of their
  /// history, their results, and what steps attach to transitions; and decrypts that, and
  /// the payloads of signals, for its steps, its handler and its conversions. What was stored
  /// without stays readable. See `cipher`.
  machine_builder encrypted_by(std::shared_ptr<const cipher> by) && {
    if (!by)
      built_.problem = error{errc::invalid_argument,
                             built_.title()
                               + ": encrypted_by: expected a cipher, got null",
                             {}};
    built_.encrypted_by = std::move(by);
    return std::move(*this);
  }

  /// Where instances begin; the first enumerator if unset.
  machine_builder initial(Step step) && {
    built_.initial_step = to_string(step);
    return std::move(*this);
  }

  /// Insists that all steps, and the handler, declare where they go: by a type as
  /// `gd::to<ship, cancelled>`, or by a list.
  machine_builder declared_only() && {
    built_.declared_only = true;
    return std::move(*this);
  }

  /// Defines a step: `outcome f(context<State>&)`, where any type that converts to
  /// `outcome` will do, or one that delivers its outcome later:
  /// `gd::actors::async(f)`, or one with a transaction: `gd::in_transaction(f)`. Where the type tells of a step of another enum than
  /// `Step`, it does not compile. A type that names steps, or none, declares that
  /// it goes to these alone: `gd::to<ship, cancelled>`, `gd::parked`, `gd::again`,
  /// `gd::ended`.
  template <class F>
  machine_builder step(Step which, F f) && {
    return std::move(*this).step(which, step_options{}, std::move(f));
  }

  /// The same with options: `.step(ship, {.blocking = true, .limit = 30s}, f)`. With
  /// `.to = {delivered, lost}` it declares where it goes: an outcome that goes to
  /// another step counts as an exception.
  template <class F>
  machine_builder step(Step which, step_options how, F f) && {
    using function = detail::step_function<F, State>;
    using call = typename function::type&;
    using argument = typename function::argument&;
    auto& slot = detail::new_step(built_, static_cast<std::size_t>(which));
    slot.to = detail::declared(built_, "step " + slot.name,
                               declared_by_call<call, argument>(), how.to);
    slot.how = std::move(how);
    if constexpr (detail::asynchronous<F, State>) {
      slot.start = std::move(f).template bind<State>();
    } else {
      static_assert(std::is_invocable_r_v<outcome, call, argument>,
                    "a step is an outcome(gd::context<State>&), or, in a "
                    "transaction, an outcome(gd::transaction_context<State>&)");
      static_assert(detail::call_stays_in<Step, call, argument>,
                    "this step goes on with a step of another machine: "
                    "gd::next takes the enum that gd::define was given");
      static_assert(detail::call_may_carry<State, call, argument>,
                    "this step's outcome has a state of another type than the "
                    "one that gd::define was given");
      if constexpr (function::in_transaction) {
        slot.how.blocking = true;
        slot.run_in_transaction = std::move(f).template bind<State>();
      } else {
        slot.run =
          [f = std::move(f)](context_base& base,
                             const std::string& state) mutable -> outcome {
          auto ctx = detail::typed_context<State>(std::move(base), state);
          outcome result = f(ctx);
          base = std::move(ctx); // with its marks on the inbox
          return result;
        };
      }
    }
    return std::move(*this);
  }

  /// How long an instance rests in a step, and with which it goes on then.
  struct rest_deadline {
    std::chrono::microseconds after{}; ///< 1 ms to 100 years
    std::optional<Step> then{};        ///< has to be given
  };

  /// Defines a step without a function, where an instance rests until something outside
  /// moves it (`transaction::transition`, `client::transition`) to one of these steps:
  /// `.rest(submitted, {paid, cancelled})`. It takes no slot of an engine; signals do not
  /// wake it.
  machine_builder rest(Step which, const step_list& to) && {
    detail::define_resting(built_, static_cast<std::size_t>(which), to, {});
    return std::move(*this);
  }

  /// The same with a deadline: `.rest(submitted, {paid}, {.after = 30 * 24h, .then =
  /// expired})`. When it has passed, by the database's clock, an engine goes on with
  /// that step; nothing need be open to others then.
  machine_builder rest(Step which, const step_list& to,
                       rest_deadline deadline) && {
    detail::define_resting(
      built_, static_cast<std::size_t>(which), to,
      {.after = deadline.after,
       .then = deadline.then ? to_string(*deadline.then) : std::string{}});
    return std::move(*this);
  }

  /// Defines a step that ends the instance as soon as it arrives there, well, with the
  /// result `{}`.
  machine_builder final(Step which) && {
    detail::define_resting(built_, static_cast<std::size_t>(which), nowhere,
                           {.ends = true});
    return std::move(*this);
  }

  /// Lets something outside move an instance from this step, which has a function, to
  /// one of these, as long as the function does not run: `.outside(await_pay,
  /// {cancelled})`. By default it can do that from no step but those that rest.
  machine_builder outside(Step which, const step_list& to) && {
    detail::open_outside(built_, static_cast<std::size_t>(which), to);
    return std::move(*this);
  }

  /// See `from`.
  struct from_options {
    /// Nodes that have this machine bring instances of that version that are due to this
    /// one by themselves, as long as no node that lives serves that version.
    bool at_pick = false;
    /// Steps of that version that have another name here, or have gone, and where its
    /// instances stand then: `{{"charge", pay}}`. Others keep their names.
    std::map<std::string, Step> steps{};
  };

  /// Takes states of an older version: `.from<order_v1, 1>([](order_v1 x) { return
  /// order_v2{...}; })`. It gives the state of this version, or what `from` of a later one
  /// takes: then that goes on. Whoever brings an instance from that version to this one
  /// (`gdctl upgrade`) has it converted, by a node that has this machine, and stores what
  /// comes of it; what is not a state of that version, or what the function throws, is a
  /// refusal: the instance stays as it is.
  template <class Old, std::int32_t Version, class F>
  machine_builder from(F f) && {
    return std::move(*this).template from<Old, Version>(from_options{},
                                                        std::move(f));
  }

  /// The same with options: `.from<order_v1, 1>({.at_pick = true}, f)`.
  template <class Old, std::int32_t Version, class F>
  machine_builder from(const from_options& how, F f) && {
    static_assert(detail::described<Old>, "the old state needs GD_STATE(...)");
    static_assert(Version >= 1, "versions begin with 1");
    static_assert(std::is_invocable_v<F&, Old>,
                  "a conversion takes the old state, and returns the new one");
    using made = std::remove_cvref_t<std::invoke_result_t<F&, Old>>;
    static_assert(detail::described<made>,
                  "what a conversion returns needs GD_STATE(...)");
    machine::conversion x{.version = Version,
                          .takes = typeid(Old),
                          .gives = typeid(made),
                          .at_pick = how.at_pick};
    for (const auto& [old, now] : how.steps)
      x.steps.emplace(old, to_string(now));
    x.convert =
      [f = std::move(f)](const std::string& state) mutable -> result<json> {
      auto old = from_json_strict<Old>(state);
      if (!old)
        return old.error();
      return to_json(f(std::move(*old)));
    };
    detail::add_conversion(built_, std::move(x));
    return std::move(*this);
  }

  /// Runs a step that has failed again, with the same inputs: `.retry({.attempts = 8,
  /// .backoff = {500ms, 1min}, .not_for = gd::exceptions<declined>()})`. A step may
  /// say otherwise (`step_options::retry`). What is left goes to the handler, or
  /// ends the instance if there is none: the last attempt, an exception of
  /// `not_for`, and a permanent failure (`failure::permanent`).
  machine_builder retry(retry_options how = {}) && {
    retry_ = how;
    return std::move(*this);
  }

  /// Handles what steps throw: `outcome f(const failure&, context<State>&)`, with
  /// types as those of steps, which declare as those of steps do.
  template <class F>
  machine_builder on_error(F f) && {
    return std::move(*this).on_error(handler_options{}, std::move(f));
  }

  /// The same with a list of the steps that it may go to, whichever step has failed:
  /// `.on_error({.to = {cancelled}}, f)`.
  template <class F>
  machine_builder on_error(const handler_options& how, F f) && {
    static_assert(
      std::is_invocable_r_v<outcome, F&, const failure&, context<State>&>,
      "a handler is an outcome(const gd::failure&, gd::context<State>&)");
    static_assert(
      detail::call_stays_in<Step, F&, const failure&, context<State>&>,
      "this handler goes on with a step of another machine: "
      "gd::next takes the enum that gd::define was given");
    static_assert(
      detail::call_may_carry<State, F&, const failure&, context<State>&>,
      "this handler's outcome has a state of another type than the one that "
      "gd::define was given");
    built_.handler_to = detail::declared(
      built_, "its handler",
      declared_by_call<F&, const failure&, context<State>&>(), how.to);
    built_.on_error =
      [f = std::move(f)](const failure& why, context_base& base,
                         const std::string& state) mutable -> outcome {
      auto ctx = detail::typed_context<State>(std::move(base), state);
      return f(why, ctx);
    };
    return std::move(*this);
  }

  /// The machine. What is wrong with it is told by whoever it is given to.
  operator machine() && {
    detail::add_retries(built_, retry_);
    return std::move(built_);
  }

private:
  template <class F, class... Args>
  static std::optional<std::vector<std::string>> declared_by_call() {
    if constexpr (std::is_invocable_v<F, Args...>)
      return detail::declared_by<
        std::remove_cvref_t<std::invoke_result_t<F, Args...>>>::names();
    else // asynchronous
      return std::nullopt;
  }

  machine built_;
  retry_options retry_{.attempts = 1};
};

/// Begins the definition of a machine with the steps of `Step` (a GD_ENUM) and
/// the state `State` (a struct with GD_STATE). Functions may run on several
/// threads at once.
template <class State, class Step>
machine_builder<State, Step> define(std::string name, std::int32_t version) {
  return {std::move(name), version};
}

/// A delay for a handler: `base` x 2^failures, at most `most`, of which a random
/// half is kept, so that what failed together does not return together.
std::chrono::milliseconds
backoff(std::int32_t failures,
        std::chrono::milliseconds base = std::chrono::seconds{1},
        std::chrono::milliseconds most = std::chrono::minutes{5});

} // namespace gd
