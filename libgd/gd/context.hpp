#pragma once

#include <gd/cipher.hpp>
#include <gd/effect.hpp>
#include <gd/error.hpp>
#include <gd/json.hpp>
#include <gd/outcome.hpp>
#include <gd/state.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

/// \file
/// What a step and the error handler get.
namespace gd {

class lease;

/// A signal as it lies in the inbox.
struct raw_signal {
  std::int64_t id = 0;   ///< unique in the schema
  std::string name{};    ///< the signal's
  std::string payload{}; ///< JSON text
  /// The W3C traceparent that it was sent with; empty: none.
  std::string traceparent{};

  GD_FIELDS(id, name, payload, traceparent);
};

/// Thrown by `take` and `peek` when a payload does not decode.
class undecodable_signal : public std::exception {
public:
  /// The signal's name and number, and what does not decode.
  undecodable_signal(std::string_view name, std::int64_t id, const error& why);

  /// "signal <name> (<number>): <what does not decode>"
  const char* what() const noexcept override {
    return what_.c_str();
  }

private:
  std::string what_{};
};

/// Thrown by `at` for a step of another machine's enum: the same step throws it again.
class foreign_step : public std::invalid_argument {
public:
  using std::invalid_argument::invalid_argument;
};

/// What the context knows apart from the typed state.
class context_base {
public:
  std::int64_t id = 0;          ///< the instance
  std::string fsm{};            ///< the machine's name
  std::int32_t fsm_version = 1; ///< the machine's version
  std::string step{};           ///< the step that runs
  /// How often this step has been tried before, since it last got anywhere: 0 in
  /// its first execution, and again after each `next` and `await`. A `replay` counts
  /// as a failure, and forgets the ends of processes before it.
  std::int32_t attempt = 0;

  /// The database's clock when the row was picked, whatever this machine's clock
  /// shows. Of what runs without a pick of its own (a row that begins as it is inserted,
  /// a step that runs ahead) what that clock showed last, and the time since. In a test,
  /// the test kit's clock.
  std::chrono::sys_time<std::chrono::microseconds> now() const noexcept {
    return now_;
  }

  /// Whether `which` is the step that runs, for functions that several steps, or the
  /// handler, share. It is of the machine's GD_ENUM: one of another throws `foreign_step`.
  template <class Step>
  bool at(Step which) const {
    static_assert(detail::named_enum<Step>, "a step is of a GD_ENUM");
    if (step_type_ != typeid(void) && step_type_ != typeid(Step))
      throw_other_enum();
    return enum_from<Step>(step) == which;
  }

  /// How many of these tries ended with their process, whoever was to blame for
  /// that: another step, a power failure, a deploy.
  std::int32_t crashes() const noexcept {
    return crashes_;
  }

  /// How many of these tries the step itself has failed: what a handler compares
  /// when it gives up, and what `backoff` takes.
  std::int32_t failures() const noexcept {
    return attempt - crashes_;
  }

  /// Whether the deadline of the last `await`, and not a signal, has woken the
  /// instance. Truthful also after a crash.
  bool timed_out() const noexcept {
    return wake_reason_ == "timeout";
  }

  /// The W3C traceparent of what this step runs for: that of the oldest unread signal that
  /// has one, else that of the instance's insert; empty: none. Where the step calls others
  /// it is to be their parent.
  const std::string& traceparent() const noexcept {
    return traceparent_;
  }

  /// Hands out the oldest signal of that name and marks it consumed: it is
  /// removed with the outcome. Throws `undecodable_signal`.
  template <class T>
  std::optional<T> take(std::string_view name) {
    return decode<T>(name, find(name, mark::consumed));
  }

  /// Looks at the oldest signal of that name and leaves it in the inbox. An
  /// `await` does not wake for it again. Throws `undecodable_signal`.
  template <class T>
  std::optional<T> peek(std::string_view name) {
    return decode<T>(name, find(name, mark::seen));
  }

  /// `take` without decoding. It throws where the machine's cipher does not decrypt.
  std::optional<raw_signal> take_raw(std::string_view name);

  /// Looks at all signals of that name, oldest first. It throws as `take_raw` does.
  std::vector<raw_signal> peek_all(std::string_view name);

  /// Marks the oldest signal of that name consumed, whatever it holds. False:
  /// there was none.
  bool discard(std::string_view name);

  /// Unique to this execution, ordered by nothing: a fencing token for systems
  /// that compare for equality.
  const std::string& lease_token() const noexcept;

  /// Whether another node may be running this step by now: the outcome will be
  /// dropped. Turns true at any time.
  bool lease_lost() const noexcept;

  /// Asked to stop when nobody waits for the outcome any more: the step's time
  /// limit is over, its lease is lost, or the engine has stopped. Callbacks run
  /// on a thread of their own.
  std::stop_token stop_token() const;

private:
  friend class held_row;
  friend class run;

  enum class mark : std::uint8_t { none, seen, consumed };
  struct entry {
    raw_signal content;
    mark state = mark::none;
  };

  entry* find(std::string_view name, mark as);
  [[noreturn]] void throw_other_enum() const;

  /// As the machine's cipher decrypts it. Throws `undecodable_signal`.
  raw_signal plain(const raw_signal& x) const;

  template <class T>
  std::optional<T> decode(std::string_view name, const entry* from) const {
    if (from == nullptr)
      return std::nullopt;
    const auto& payload = from->content.payload;
    auto x = cipher_ ? from_json<T>(json::raw(payload), *cipher_)
                     : from_json<T>(payload);
    if (!x)
      throw undecodable_signal{
        name, from->content.id,
        is_encrypted(payload) ? detail::without_content(x.error()) : x.error()};
    return std::move(*x);
  }

  std::int32_t crashes_ = 0;
  std::chrono::sys_time<std::chrono::microseconds> now_{};
  std::type_index step_type_ = typeid(void); ///< of the machine's steps
  std::string wake_reason_{};
  std::string traceparent_{};
  std::vector<entry> inbox_{};
  std::shared_ptr<const lease> lease_;
  std::shared_ptr<const cipher> cipher_; ///< the machine's; null: it has none
};

/// The argument of steps and handlers.
template <class State>
class context : public context_base {
public:
  /// As picked. Changes count only when an outcome carries them.
  State state;

  /// A `gd::to` of this state, for functions that name what they return: an outcome with
  /// another state does not compile.
  template <auto... Steps>
  using to = carries<gd::to<Steps...>, State>;

  /// Made by the engine and by the test kit.
  context(context_base base, State decoded)
    : context_base(std::move(base)), state(std::move(decoded)) {
    // nop
  }
};

/// Why the handler is called.
class failure {
public:
  /// Why, what was thrown, and whether it is permanent; for tests of handlers.
  explicit failure(std::string message, std::exception_ptr thrown = nullptr,
                   bool permanent = false,
                   std::optional<effect_refused> refused = std::nullopt)
    : message_(std::move(message)),
      thrown_(std::move(thrown)),
      permanent_(permanent),
      refused_(std::move(refused)) {
    // nop
  }

  /// What went wrong: what the exception says, which limit is over, what cannot be
  /// carried out.
  const std::string& message() const noexcept {
    return message_;
  }

  /// What the step has thrown; null if it returned an outcome that cannot be
  /// carried out.
  const std::exception_ptr& thrown() const noexcept {
    return thrown_;
  }

  /// Whether the same step fails with the same inputs again: it returned an outcome
  /// that cannot be carried out, took a signal that does not decode, or asked for a step of
  /// another machine. What `machine_builder::retry` declares leaves these out.
  bool permanent() const noexcept {
    return permanent_;
  }

  /// Which effect of the outcome was refused, and why; null: it was not that.
  const effect_refused* refused() const noexcept {
    return refused_ ? &*refused_ : nullptr;
  }

private:
  std::string message_{};
  std::exception_ptr thrown_;
  bool permanent_ = false;
  std::optional<effect_refused> refused_;
};

} // namespace gd
