#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// Durable state machines on PostgreSQL: machines, and programs without actors.
namespace gd {

/// What went wrong. Policy (retry, isolate, give up) is a function of this
/// code alone; the message is for people.
enum class errc : std::uint8_t {
  invalid_argument = 1, ///< an option, name, size or value that cannot be used
  codec,           ///< JSON that does not decode, a value without JSON form
  unknown_machine, ///< no such (fsm, version)
  unknown_step,    ///< the machine has no such step
  unavailable, ///< no connection, or a server that is full, read-only or stopping; nothing has happened
  unknown_fate, ///< the connection died before the answer: may or may not have happened
  conflict, ///< serialization failure or deadlock: harmless to try again
  busy,     ///< a stranger's transaction holds the row
  rejected, ///< the server refuses the data of one row (SQLSTATE class 22, 23, 54, P0)
  sql,             ///< any other answer of the server
  schema_mismatch, ///< the installed schema is missing, too old or too new
  no_such_target,  ///< a signal to an instance that does not exist
  target_finished, ///< a signal to a terminal instance
  inbox_full,      ///< a signal to an instance with a full inbox
  not_found,       ///< no such instance, or no such entry of its history
  stopped,         ///< the engine is shutting down
  overloaded, ///< too much waits already: nothing has happened, and later there may be room
  /// A node that lives has other steps, or declares other transitions, under that
  /// machine's version.
  machine_differs,
  version_retired, ///< an insert of a version that takes no more of them
  /// A transition of an instance that has moved meanwhile, or executes: the message tells
  /// its status, step and seq.
  transition_conflict,
  /// A transition that its machine does not open to those outside; or an entry of a
  /// history from which an instance cannot go on.
  not_allowed,
  /// An insert whose unique key an instance of another machine has: the message names it.
  key_of_another_machine,
  /// An instance that would come back to a unique key which another one has by now: the
  /// message names it. Nothing has changed.
  key_taken,
  /// An instance that was awaited has been deleted before its end was seen; one that is
  /// looked for was erased: the message tells by whom and why.
  erased,
  timed_out, ///< an instance that is awaited has not ended in the time that there was
  cipher, ///< what a user's cipher does not encrypt or decrypt; what is encrypted, without one
};

/// The code's name, for logs and for programs that print errors.
std::string_view to_string(errc code) noexcept;

/// Whether trying the same thing again, later, can succeed.
bool retryable(errc code) noexcept;

/// The one error type: a code, a sentence, and the server's SQLSTATE where
/// there was one (five characters, else empty).
struct error {
  errc code{};          ///< what went wrong; what programs decide by
  std::string message;  ///< a sentence, for people
  std::string sqlstate; ///< five characters, or empty

  /// Whether code, message and SQLSTATE are equal.
  bool operator==(const error&) const = default;
};

/// "gd::<code>: <message>", with the SQLSTATE in brackets where there is one.
std::string to_string(const error& why);

/// The code that an SQLSTATE stands for: 40001 and 40P01 are `conflict`, 55P03
/// is `busy`, classes 22, 23, 54 and P0 (a trigger's own) are `rejected`, MV001 to
/// MV006 are our own `machine_differs`, `version_retired`, `transition_conflict`,
/// `not_allowed`, `key_of_another_machine` and `key_taken`, the rest is `sql`.
errc code_of_sqlstate(std::string_view sqlstate) noexcept;

/// Thrown by who uses a `result` as what it is not: a mistake of the program, which has
/// not asked before.
class bad_result : public std::logic_error {
public:
  /// A value was used, and there is this error: "gd::result: used, but it is an error:
  /// gd::<code>: <message>".
  explicit bad_result(const error& why);

  /// Its error was asked for, and there is none.
  bad_result();
};

namespace detail {

[[noreturn]] void throw_bad_result(const error* why);

} // namespace detail

/// A value or an error; what libgd returns wherever something can fail.
template <class T>
class [[nodiscard]] result {
public:
  /// A value.
  result(T value) : data_(std::in_place_index<0>, std::move(value)) {
    // nop
  }
  /// An error.
  result(gd::error why) : data_(std::in_place_index<1>, std::move(why)) {
    // nop
  }

  /// Whether there is a value.
  explicit operator bool() const noexcept {
    return data_.index() == 0;
  }

  /// The value. Throws bad_result, with the error's text, if there is none.
  T& operator*() & {
    return value_of(*this);
  }
  /// The same.
  const T& operator*() const& {
    return value_of(*this);
  }
  /// The same, to be moved from.
  T&& operator*() && {
    return std::move(value_of(*this));
  }
  /// The value's members. Throws bad_result, with the error's text, if there is none.
  T* operator->() {
    return &value_of(*this);
  }
  /// The same.
  const T* operator->() const {
    return &value_of(*this);
  }

  /// Why there is no value. Throws bad_result if there is one.
  const gd::error& error() const {
    if (auto* why = std::get_if<1>(&data_))
      return *why;
    detail::throw_bad_result(nullptr);
  }

private:
  template <class Self>
  static auto& value_of(Self& self) {
    if (auto* x = std::get_if<0>(&self.data_)) [[likely]]
      return *x;
    detail::throw_bad_result(std::get_if<1>(&self.data_));
  }

  std::variant<T, gd::error> data_;
};

/// Success, or an error.
template <>
class [[nodiscard]] result<void> {
public:
  /// Success.
  result() = default;
  /// An error.
  result(gd::error why) : why_(std::in_place_index<1>, std::move(why)) {
    // nop
  }

  /// Whether it succeeded.
  explicit operator bool() const noexcept {
    return why_.index() == 0;
  }

  /// Why it failed. Throws bad_result if it succeeded.
  const gd::error& error() const {
    if (auto* why = std::get_if<1>(&why_))
      return *why;
    detail::throw_bad_result(nullptr);
  }

private:
  std::variant<std::monostate, gd::error> why_;
};

} // namespace gd
