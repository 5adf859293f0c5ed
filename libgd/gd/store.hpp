#pragma once

#include <gd/instance.hpp>
#include <gd/lease.hpp>
#include <gd/machine.hpp>
#include <gd/pq.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// One function per sql/*.sql: typed values in, a call out; and for those that
/// answer, a function that reads the rows. What a statement does, and what a
/// missing row means, stands in the SQL file.
namespace gd::store {

// -- picking ------------------------------------------------------------------

struct picked_row {
  std::int64_t id = 0;
  std::string fsm{};
  std::int32_t fsm_version = 1;
  std::string step{};
  std::string state{};
  std::int32_t attempt = 0;
  std::string wake_reason{};
  std::vector<raw_signal> inbox{};
};

pq::call pick(const std::string& queue, std::int32_t limit,
              const std::vector<std::string>& machines,
              const std::string& token, std::chrono::microseconds lease,
              std::int32_t inbox_limit);
std::vector<picked_row> read_pick(const pq::rows& rows);

/// "fsm/version", as `pick` wants it.
std::string machine_key(const machine& x);

// -- outcomes -----------------------------------------------------------------

enum class verb : std::uint8_t { next, replay, await, done, stop, release };

std::string_view to_string(verb x) noexcept;

/// An outcome, encoded and validated, or a give-back.
struct outcome_row {
  std::int64_t id = 0;
  std::string token{};
  verb what = verb::release;
  std::string step{};
  std::string state{};
  std::string result{};
  std::int64_t delay_us = 0;
  std::string awaits{};
  std::optional<std::int64_t> timeout_us{};
  std::optional<std::int64_t> until_us{};
  std::string reason{};
  /// Ids of signals that go with the outcome.
  std::vector<std::int64_t> consumed{};
  /// Ids of signals for which a parked row does not wake.
  std::vector<std::int64_t> seen{};

  std::size_t bytes() const noexcept;
};

/// Of several rows, each id once.
pq::call flush(const std::vector<outcome_row>& rows);
/// Pairs of id and applied (false: stale); rows left out are busy or deleted.
std::vector<std::pair<std::int64_t, bool>> read_flush(const pq::rows& rows);

/// For the `await` rows among these; nullopt if there are none.
std::optional<pq::call> recheck(const std::vector<outcome_row>& rows);
pq::call lock_timeout(std::chrono::milliseconds wait);
pq::call lock(const std::vector<std::int64_t>& ids);
pq::call release_lost(const std::vector<std::string>& tokens);

// -- leases and deadlines -----------------------------------------------------

pq::call heartbeat(const std::vector<lease_ptr>& leases,
                   std::chrono::microseconds duration);

struct beat {
  std::int64_t id = 0;
  std::string token{};
  bool extended = false;
};
std::vector<beat> read_heartbeat(const pq::rows& rows);

pq::call reap(std::int32_t limit);
pq::call wake_due(std::int32_t limit);

struct moved_row {
  std::int64_t id = 0;
  std::string queue{};
};
/// What `reap` and `wake_due` return.
std::vector<moved_row> read_moved(const pq::rows& rows);

// -- machines -----------------------------------------------------------------

pq::call register_machines(const std::vector<machine>& machines);

struct known_machine {
  std::string fsm{};
  std::int32_t version = 1;
  std::string initial_step{};
  std::string queue{};
  std::vector<std::string> steps{};
};
pq::call find_machines(const std::vector<std::string>& names);
std::vector<known_machine> read_machines(const pq::rows& rows);

// -- inserts, signals, reading ------------------------------------------------

/// An insert with everything that it left open filled in.
struct insert_row {
  std::int64_t id = 0;
  std::string fsm{};
  std::int32_t version = 1;
  std::string step{};
  std::string state{};
  std::string queue{};
  std::int16_t priority = 0;
  std::optional<std::int64_t> delay_us{};
  std::optional<std::int64_t> at_us{};
};

pq::call draw_ids(std::int32_t count);
std::vector<std::int64_t> read_ids(const pq::rows& rows);
pq::call insert(const std::vector<insert_row>& rows);
pq::call inserted(const std::vector<std::int64_t>& ids);

pq::call lock_targets(const std::vector<signal>& signals);
/// Behind `lock_targets` in the same transaction.
pq::call send_signals(const std::vector<signal>& signals,
                      std::int32_t inbox_limit);

enum class signal_answer : std::uint8_t {
  accepted,
  duplicate,
  no_such_target,
  target_finished,
  inbox_full,
  busy,
};
struct signal_row {
  signal_answer answer = signal_answer::busy;
  /// Not empty: it woke an instance of this queue.
  std::string woken_queue{};
  /// Not empty: a pick in this queue may have passed over the target.
  std::string runnable_queue{};
};
/// In the order of the signals.
std::vector<signal_row> read_signals(const pq::rows& rows);

pq::call look_up(std::int64_t id);
std::optional<instance> read_instance(const pq::rows& rows);
pq::call stats();
std::vector<stats_row> read_stats(const pq::rows& rows);

// -- the schema ---------------------------------------------------------------

pq::call schema_version();

struct schema_state {
  int version = 0;    ///< 0: not installed
  int works_from = 0; ///< the oldest library version that can work with it
};
result<schema_state> read_schema_version(const pq::rows& rows);

/// Ok: this library can work with what `schema_version` has returned.
result<void> check_schema(const pq::rows& rows, std::string_view schema);

} // namespace gd::store
