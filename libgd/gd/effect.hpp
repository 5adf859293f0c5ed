#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/json.hpp>
#include <gd/state.hpp>
#include <gd/time.hpp>

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// \file
/// What an outcome does beside moving its instance, in the transaction that commits it.
namespace gd {

/// What an outcome carries, beside where its instance goes.
enum class effect_kind : std::uint8_t {
  insert, ///< makes an instance
  signal, ///< sends a signal
  sql,    ///< runs a statement of the user's
};

/// Its name.
std::string_view to_string(effect_kind kind) noexcept;

/// A signal that an outcome sends.
struct sent_signal {
  gd::signal what{};    ///< to whom, and what
  bool or_fail = false; ///< an instance that has ended makes it a refusal

  GD_FIELDS(what, or_fail);
};

/// A value bound to a statement, as PostgreSQL reads it from text.
struct sql_value {
  bool null = false;  ///< there is none
  std::string text{}; ///< in the form of its type

  GD_FIELDS(null, text);
};

/// A statement that an outcome runs.
struct sql_statement {
  std::string text{};              ///< with $1, $2 and so on
  std::vector<sql_value> values{}; ///< what is bound to them
  /// How many rows it is to affect, or to return; empty: any number.
  std::optional<std::int64_t> rows{};

  GD_FIELDS(text, values, rows);
};

/// All that an outcome carries: inserts happen before signals, signals before statements,
/// each kind in this order.
struct effects {
  std::vector<gd::insert> inserts{};       ///< the instances that it makes
  std::vector<sent_signal> signals{};      ///< the signals that it sends
  std::vector<sql_statement> statements{}; ///< the statements that it runs
  /// Of inserts that name no version: the newest one of the program that ran the step, or
  /// 0. In their order.
  std::vector<std::int32_t> newest{};

  /// How long its outcome may wait for what passes by itself; the engine's.
  std::chrono::milliseconds patience{30'000};

  /// How many there are.
  std::size_t size() const noexcept {
    return inserts.size() + signals.size() + statements.size();
  }

  /// About how many bytes they take.
  std::size_t bytes() const noexcept;

  GD_FIELDS(inserts, signals, statements, newest);
};

/// Why an outcome is not carried out: one of its effects is refused, and nothing of the
/// outcome is stored.
struct effect_refused {
  /// Which one of its kind, in the order of the calls, from 1; 0: the database refuses it
  /// with the commit, and does not tell which.
  std::size_t number = 0;
  effect_kind kind{}; ///< of what kind
  error why{};        ///< why: its code, a sentence, and the server's SQLSTATE

  /// "insert 2: fsm: no node has made Part known"
  std::string message() const;
};

/// How statements of steps run: those that outcomes carry (`.sql(...)`), and those of steps in
/// transactions (`gd::in_transaction`).
struct effect_settings {
  /// Where unqualified names are found, as SQL's `search_path` has it; empty: in pg_catalog
  /// alone.
  std::string search_path = "\"$user\", public";
  /// Whose rights they have; empty: the engine's own.
  std::string role{};
  /// By the server, for each statement.
  std::chrono::milliseconds statement_timeout{5'000};
  /// How long a statement that an outcome carries waits for a lock; the outcome is tried again
  /// then. Those of steps in transactions wait until their own timeout.
  std::chrono::milliseconds lock_timeout{100};
  /// Connections of steps in transactions, made when they are first needed: so many of these
  /// steps run at the same time. 1 to 1,000.
  std::int32_t connections = 4;
};

/// Whether a text can be the statement of an effect: one statement, that begins with insert,
/// update, delete, merge, select or with.
result<void> check_statement(std::string_view text);

namespace detail {

std::string timestamp_text(std::int64_t us);

template <class T>
struct is_optional_value : std::false_type {};
template <class T>
struct is_optional_value<std::optional<T>> : std::true_type {};

template <class T>
struct is_time : std::false_type {};
template <class Duration>
struct is_time<std::chrono::sys_time<Duration>> : std::true_type {};

template <class T>
struct is_duration : std::false_type {};
template <class Rep, class Period>
struct is_duration<std::chrono::duration<Rep, Period>> : std::true_type {};

/// A duration or a time; none that the database keeps: a problem.
inline void set_time(sql_value& to, std::optional<std::int64_t> us, bool point,
                     std::optional<error>& problem) {
  if (!us)
    problem = error{
      errc::invalid_argument, "sql: a time or a duration out of range", {}};
  else
    to.text = point ? timestamp_text(*us)
                    : std::to_string(*us) + " microseconds";
}

/// A value as text; what has no such form is a problem.
template <class T>
sql_value bind_value(const T& x, std::optional<error>& problem) {
  sql_value out;
  auto set_json = [&](const json& value) {
    if (const auto* why = value.failure())
      problem = *why;
    out.text = value.text();
  };
  if constexpr (std::is_same_v<
                  T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t>) {
    out.null = true;
  } else if constexpr (is_optional_value<T>::value) {
    if (x)
      return bind_value(*x, problem);
    out.null = true;
  } else if constexpr (std::is_same_v<T, bool>) {
    out.text = x ? "true" : "false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    char room[64];
    auto end = std::to_chars(room, room + sizeof room, x).ptr;
    out.text.assign(room, end);
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    out.text = std::string_view{x};
  } else if constexpr (std::is_same_v<T, json>) {
    set_json(x);
  } else if constexpr (is_time<T>::value) {
    set_time(out, to_microseconds(x), true, problem);
  } else if constexpr (is_duration<T>::value) {
    set_time(out, to_microseconds(x), false, problem);
  } else if constexpr (named_enum<T>) {
    out.text = to_string(x);
  } else {
    static_assert(described<T>,
                  "a value of .sql(...) is a number, a text, a bool, a time, a "
                  "duration, gd::json, of a GD_ENUM, with GD_STATE, or an "
                  "optional of these");
    set_json(to_json(x));
  }
  return out;
}

} // namespace detail

} // namespace gd
