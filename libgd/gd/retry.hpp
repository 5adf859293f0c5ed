#pragma once

#include <gd/error.hpp>
#include <gd/transaction.hpp>

#include <type_traits>
#include <utility>

/// \file
/// Again, where another was first.
namespace gd {

/// \cond
namespace detail {

/// Whether doing all of it again, with what is there now, may succeed.
bool is_conflict(errc code) noexcept;

/// Longer each time, with jitter, so that two that met do not meet again.
void pause_before_retry(int tries);

/// A transaction on the caller's connection, which is rolled back unless it is
/// committed.
class attempt {
public:
  explicit attempt(pg_conn* on) : on_(on) {
    // nop
  }
  ~attempt();
  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;

  result<void> begin();
  result<void> commit();

private:
  pg_conn* on_;
  bool open_ = false;
};

} // namespace detail
/// \endcond

/// Calls `f`, which returns a `gd::result`, and again while it ends in a conflict:
/// `transition_conflict`, or `conflict` (40001, 40P01). At most `times` more, after a
/// pause that grows and has jitter. `f` looks at things anew each time, or it meets the
/// same conflict again. What it returns last is returned.
template <class F>
std::invoke_result_t<F&> retry_conflicts(int times, F f) {
  for (int tries = 0;; ++tries) {
    auto answer = f();
    if (answer || tries >= times || !detail::is_conflict(answer.error().code))
      return answer;
    detail::pause_before_retry(tries);
  }
}

/// The same in transactions, READ COMMITTED, on a connection on which none is open:
/// each call of `f` gets a new one, as a `gd::transaction&`, for what it does on the
/// connection with it or without. It is committed if `f` succeeds, else rolled back, also
/// if `f` throws. Errors, beside those of `f`: `unknown_fate`, if the connection is lost
/// during the commit, after which nothing is tried again; `invalid_argument` and
/// `unavailable`, for the connection; `sql` and others, for a transaction that cannot be
/// committed.
template <class F>
std::invoke_result_t<F&, transaction&>
retry_conflicts(int times, pg_conn* connection, F f,
                transaction_settings how = {}) {
  transaction tx{connection, std::move(how)};
  return retry_conflicts(times,
                         [&]() -> std::invoke_result_t<F&, transaction&> {
                           detail::attempt one{connection};
                           if (auto ok = one.begin(); !ok)
                             return ok.error();
                           auto answer = f(tx);
                           if (answer)
                             if (auto ok = one.commit(); !ok)
                               return ok.error();
                           return answer;
                         });
}

} // namespace gd
