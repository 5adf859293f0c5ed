#pragma once

#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

/// What `store` is for the rest, for ends of instances that are kept for a time only.
namespace gd::store {

/// How the instance ends by it, if it does.
std::optional<final_status> end_of(write_kind what) noexcept;

/// How a row ends by an outcome that is written; nullopt: it does not. Its result is as
/// its step has encoded it.
std::optional<gd::awaited> ended_by(const picked_row& of, const outcome_row& x);

/// Instances whose time is over, behind a page: rows of `expired_row`.
pq::call expired(std::int32_t limit, const page_end& after = {});
struct expired_row : page_end {
  GD_FIELDS(at_us2000, id);
};
/// Deletes them, if their time is over.
pq::call erase(const std::vector<std::int64_t>& ids);
struct erased_row {
  std::int64_t erased = 0;          ///< how many were deleted
  std::vector<std::int64_t> kept{}; ///< who could not be, by a trigger

  GD_FIELDS(erased, kept);
};
/// Puts the halves of some that were refused together at the end, the first half last.
void push_halves(std::vector<std::vector<std::int64_t>>& to,
                 const std::vector<std::int64_t>& ids);
/// Of these that cannot be deleted: later.
pq::call put_off(const std::vector<std::int64_t>& ids);

/// A page of those that it is about.
pq::call prunable(const prune& what);
struct prunable_row {
  std::optional<std::int64_t> last{}; ///< nullopt: it was the last page
  std::int64_t examined = 0;          ///< at how many
  std::vector<std::int64_t> ids{};

  GD_FIELDS(last, examined, ids);
};
/// Deletes them, if it is still about them.
pq::call erase(const std::vector<std::int64_t>& ids, const prune& what);

} // namespace gd::store
