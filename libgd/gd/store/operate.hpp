#pragma once

#include <gd/instance.hpp>
#include <gd/operate.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

/// What `store` is for instances and signals, for what operators ask and do.
namespace gd::store {

/// Read as `gd::why`.
pq::call why(const why_query& what);
/// Read as `inbox_row`.
pq::call unread(std::int64_t instance, std::int32_t limit, bool consumed);

// -- one instance -------------------------------------------------------------

/// Read as `commanded`.
pq::call operate(const command& what);

// -- queues -------------------------------------------------------------------

pq::call pause(const std::string& queue,
               const std::optional<std::string>& reason,
               const std::optional<std::string>& by, bool force);
/// Its only cell: whether the queue was paused.
pq::call resume(const std::string& queue, bool force);
/// Which of a filter's names nobody has.
pq::call unknown(const filter& names);
std::optional<std::string> read_unknown(const pq::rows& rows);
/// What is wrong with one of some rows, if anything is.
struct fault_row {
  std::optional<std::string> fault{};

  GD_FIELDS(fault);
};
/// Read as `fault_row`, one for each.
pq::call state_faults(const std::vector<gd::insert>& rows);
pq::call signal_faults(const std::vector<gd::signal>& rows);
/// A queue, or, if `fronts` is there, what the next scan may begin with.
struct scanned_queue : queue_row {
  std::optional<std::string> fronts{};

  GD_FIELDS(queue, nodes, slots, due, more_due, later, more_later, executing,
            more_executing, oldest_due_us, paused, paused_at_us, paused_by,
            reason, fronts);
};
/// Looks at the queues again and again: from the beginning of each once a minute. Of any
/// number of threads.
class queue_scans {
public:
  pq::call ask(std::int32_t most);
  std::vector<queue_row> read(const pq::rows& rows);

private:
  std::mutex mutex_;
  std::string fronts_;
  std::optional<std::chrono::steady_clock::time_point> from_beginning_;
};
/// Read as `status_count`.
pq::call status_counts(std::int32_t most);

// -- counts -------------------------------------------------------------------

/// An empty `fsm`: of all machines.
pq::call counts(const std::string& fsm, std::int32_t version);
counted read_counts(const pq::rows& rows);
/// Read as `activity`.
pq::call activity();

// -- many instances -----------------------------------------------------------

pq::call list(const list_query& what);
list_page read_list(const pq::rows& rows);
/// An instance, or, if its id is 0, where the next page begins.
struct listed_row : list_row {
  std::optional<std::int64_t> next{};

  GD_FIELDS(id, fsm, version, step, status, queue, priority, attempt,
            updated_at_us, last_error, next);
};

/// Read by `read_ids`.
pq::call begin_job(const bulk_command& what);
/// Who works on a job: of upgrades, nodes alone.
enum class job_owner : std::uint8_t { client, node };
/// Its only cell: whether the session has the job's lock.
pq::call lock_job(std::int64_t job, job_owner by);
/// But not if it is that one.
pq::call unlock_job(std::int64_t unless = 0);
/// Its only cell: false, if another works on it, or it has ended.
pq::call work_on_job(std::int64_t job);
/// Its only cell: whether there is one that had not ended.
pq::call cancel_job(std::int64_t job);
/// Read as `job_row`; 0: all.
pq::call jobs(std::int64_t job = 0);
/// The first one behind that which nobody works on, and which a node can that judges these.
pq::call open_job(const std::vector<version_change>& upgrades,
                  std::int64_t after = 0);
struct open_job_row {
  std::int64_t id = 0;
  bool upgrades = false;

  GD_FIELDS(id, upgrades);
};

// -- upgrades -----------------------------------------------------------------

/// What the job comes to next, with so many bytes of states, or one state.
pq::call upgrade_page(std::int64_t job, std::int64_t bytes);
/// An instance; or, if its id is 0, where the page begins and what it reaches.
struct upgrade_row {
  std::int64_t id = 0;
  std::string fsm{};
  std::int32_t version = 0;
  std::string step{};
  std::int64_t seq = 0;
  std::int32_t to_version = 0;
  std::string to_step{};
  std::optional<std::string> state{}; ///< none: it executes
  std::int64_t after = 0;
  std::int64_t upto = 0;

  GD_FIELDS(id, fsm, version, step, seq, to_version, to_step, state, after,
            upto);
};

/// A page, as it has been judged.
struct upgrade_batch {
  std::int64_t after = 0;
  std::int64_t upto = 0;
  std::vector<std::int64_t> ids{};
  std::vector<std::int64_t> seqs{};
  std::vector<std::string> faults{};                ///< empty: it can go there
  std::vector<std::string> steps{};                 ///< where it stands then
  std::vector<std::optional<std::string>> states{}; ///< nullopt: as it is
};
/// Its only cell: whether it has been worked off, or its beginning.
pq::call upgrade(std::int64_t job, const upgrade_batch& what);

/// Of those that come to another version as they are due.
struct older_row : upgrade_row {
  std::string place{};

  GD_FIELDS(id, fsm, version, step, seq, to_version, to_step, state, place);
};
/// In these queues, with so many bytes of states, or one state; without these ids.
pq::call older_page(const std::vector<version_change>& changes,
                    const std::vector<std::string>& queues, std::int64_t bytes,
                    const std::vector<std::int64_t>& without);
/// What is to become of one of them.
struct brought_row {
  std::int64_t id = 0;
  std::int64_t seq = 0;
  std::int32_t version = 0;
  std::string step{};
  std::string state{};
};
pq::call bring_older(const std::vector<brought_row>& rows,
                     const std::string& by);
struct brought {
  std::int64_t id = 0;
  std::string answer{}; ///< done; else it is as it was
  std::optional<std::string> detail{};

  GD_FIELDS(id, answer, detail);
};

/// Read as `transitioned`.
pq::call rewind(const gd::rewind& what);
/// Read by `read_ids`.
pq::call fork(const gd::fork& what);

pq::call look_up(const gd::look_up& what);
std::optional<instance> read_instance(const pq::rows& rows);
/// Whoever has ended, or is not there, of these ids and, behind them, of who has these
/// keys; `all`: whoever goes on, too. `bytes`: of results, as far as they are longer.
pq::call awaited(const std::vector<std::int64_t>& ids,
                 const std::vector<std::string>& keys, bool all,
                 std::size_t bytes);
struct awaited_row {
  std::int64_t n = 0;               ///< which one that was asked for, from 1
  std::optional<std::int64_t> id{}; ///< nullopt: it is not there
  std::string fsm{};
  std::int32_t version = 0;
  std::string status{};
  std::int64_t seq = 0;
  /// It has ended; its result did not fit any more.
  bool left_out = false;
  std::optional<json> result{};
  std::optional<std::string> failure{};

  bool ends() const noexcept {
    return status == "done" || status == "failed";
  }

  GD_FIELDS(n, id, fsm, version, status, seq, left_out, result, failure);
};
/// Where nobody was read.
error no_instance(std::int64_t id, const std::optional<std::string>& key);
/// Asks the same: it may have been erased.
pq::call gone(std::int64_t id);
struct gone_row {
  std::string told{};
  bool erased = false;

  GD_FIELDS(told, erased);
};
/// `erased`, or `not_found`.
error told_gone(const pq::rows& rows);
/// Read as `ledger_entry`, `in_step_row`, `stats_row`.
pq::call history(const history_query& what);
pq::call in_step(const in_step_query& what);
pq::call stats();

} // namespace gd::store
