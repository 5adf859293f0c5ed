#pragma once

#include <gd/operate.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/store.hpp>
#include <gd/pq/unit.hpp>

#include <cstdint>
#include <optional>
#include <string>

/// What `store` is for instances and signals, for what operators ask and do.
namespace gd::store {

/// Read as `gd::why`.
pq::call why(const why_query& what);

// -- one instance -------------------------------------------------------------

/// Read as `commanded`.
pq::call operate(const command& what);

// -- queues -------------------------------------------------------------------

pq::call pause(const std::string& queue,
               const std::optional<std::string>& reason,
               const std::optional<std::string>& by);
/// Its only cell: whether the queue was paused.
pq::call resume(const std::string& queue);
/// Read as `queue_row`.
pq::call queues();

// -- many instances -----------------------------------------------------------

pq::call list(const list_query& what);
list_page read_list(const pq::rows& rows);
/// An instance, or, if its id is 0, where the next page begins.
struct listed_row : list_row {
  std::optional<std::int64_t> next{};

  GD_COLUMNS(id, fsm, version, step, status, queue, priority, attempt,
             updated_at_us, last_error, next);
};

/// Read by `read_ids`.
pq::call begin_job(const bulk_command& what);
/// Its only cell: whether the session has the job's lock.
pq::call lock_job(std::int64_t job);
/// But not if it is that one.
pq::call unlock_job(std::int64_t unless = 0);
/// Its only cell: false, if another works on it, or it has ended.
pq::call work_on_job(std::int64_t job);
/// Its only cell: whether there is one that had not ended.
pq::call cancel_job(std::int64_t job);
/// Read as `job_row`; 0: all.
pq::call jobs(std::int64_t job = 0);
/// Read by `read_ids`: one that nobody works on, behind that one.
pq::call open_job(std::int64_t behind);

} // namespace gd::store
