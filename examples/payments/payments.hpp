#pragma once

#include <gd/machine.hpp>

#include <chrono>
#include <cstdint>
#include <string>

/// Payments that banks take days for: a table of the application's own, whose state
/// machine is ours. No step has a function, so nothing runs by itself but the deadline.

// clang-format off
// [machine]
GD_ENUM(payment_step, pending_submission, submitted, paid, cancelled, failed);

struct payment_state {
  std::int64_t amount = 0;

  GD_STATE(payment_state, amount);
};

/// What is kept of the transition to submitted.
struct submission {
  std::string submission_id;

  GD_STATE(submission, submission_id);
};

inline gd::machine payments() {
  using enum payment_step;
  return gd::define<payment_state, payment_step>("Payment", 1)
    .rest(pending_submission, {submitted, cancelled})
    .rest(submitted, {paid, failed}, {.after = std::chrono::days{30}, .then = failed})
    .final(paid)
    .final(cancelled)
    .final(failed)
    .history(gd::history::steps);
}
// [/machine]
// clang-format on
