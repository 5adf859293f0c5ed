#pragma once

#include <gd/config.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <string>

/// What `store` is for the rest, for steps in transactions.
namespace gd::store {

/// Begins a transaction for a step. `marker`: what it is known by at its end; `idle`: for
/// how long its session may say nothing.
std::vector<pq::call> enter_step(const std::string& marker,
                                 const effect_settings& how,
                                 std::chrono::milliseconds idle);
struct entered_step {
  std::string role{}; ///< that was in force before

  GD_FIELDS(role);
};

/// Behind what the step has done, and before its outcome is written, which may take as long
/// as `each` for a statement. `role`: as `enter_step` has told it.
std::vector<pq::call> leave_step(const std::string& marker,
                                 const std::string& role,
                                 std::chrono::milliseconds each);
struct left_step {
  bool same = false;  ///< it is still the transaction of that marker
  std::string xact{}; ///< its id

  GD_FIELDS(same, xact);
};

/// What writes a step's outcome in a transaction of its own, whose row is locked first.
/// `resend`: nothing is deleted that is younger.
struct lone_outcome {
  std::vector<pq::call> calls{};
  std::size_t written = 0; ///< the position of what `read_flush` reads
};
lone_outcome write_alone(const outcome_row& row,
                         std::chrono::microseconds resend);

pq::call clean_session();
/// One row, one text: committed, aborted, in progress; or null.
pq::call xact_status(const std::string& xact);

} // namespace gd::store
