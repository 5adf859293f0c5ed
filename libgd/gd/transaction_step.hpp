#pragma once

#include <gd/machine.hpp>

#include <string>
#include <utility>

/// \file
/// Steps that write to the application's tables in the transaction of their outcome:
/// `gd::in_transaction`.
namespace gd {

/// The argument of steps in transactions.
template <class State>
class transaction_context : public context<State> {
public:
  /// Made by the engine and by the test kit.
  transaction_context(context<State> base, pg_conn* db)
    : context<State>(std::move(base)), db_(db) {
    // nop
  }

  /// libpq's connection, a `PGconn*`, with an open transaction, READ COMMITTED. It may be
  /// used with libpq or any library that takes such a connection, until the step returns;
  /// it is not to be closed, and its transaction not to be ended: savepoints are allowed.
  pg_conn* db() const noexcept {
    return db_;
  }

private:
  pg_conn* db_;
};

namespace detail {

template <class F>
class transaction_function {
public:
  explicit transaction_function(F f) : f_(std::move(f)) {
    // nop
  }

  template <class State>
  machine::transaction_body bind() && {
    return [f = std::move(f_)](context_base& base, const std::string& state,
                               pg_conn* db) mutable -> outcome {
      transaction_context<State> ctx{
        typed_context<State>(std::move(base), state), db};
      outcome result = f(ctx);
      base = std::move(ctx); // with its marks on the inbox
      return result;
    };
  }

private:
  F f_;
};

} // namespace detail

/// A step's function, `outcome f(gd::transaction_context<State>&)`, that is called in a
/// transaction of its own: `.step(book, gd::in_transaction(f))`. What it does through
/// `ctx.db()` is committed with its outcome, or not at all: where the function throws, its
/// outcome is that of the handler, or does not count any more, it is rolled back. The step
/// counts as blocking.
///
/// What it does elsewhere may happen again, as with all steps. Connections, search path,
/// role and timeouts: `effect_settings`.
template <class F>
detail::transaction_function<F> in_transaction(F f) {
  return detail::transaction_function<F>{std::move(f)};
}

} // namespace gd
