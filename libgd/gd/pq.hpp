#pragma once

#include <gd/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

struct pg_conn;
struct pg_result;

namespace gd::sql {
struct statement;
} // namespace gd::sql

/// libpq, wrapped: this file pair is the only one that includes its header.
namespace gd::pq {

// -- parameters ---------------------------------------------------------------

/// The parameters of one statement, in the protocol's binary form. Batches
/// travel as arrays, so that no statement ever has more than a dozen.
class params {
public:
  params& add(bool x);
  params& add(std::int32_t x);
  params& add(std::int64_t x);
  params& add(std::string_view x);
  params& add(const char* x) {
    return add(std::string_view{x});
  }

  params& add(const std::vector<std::int16_t>& xs);
  params& add(const std::vector<std::int32_t>& xs);
  params& add(const std::vector<std::int64_t>& xs);
  params& add(const std::vector<std::string>& xs);
  params& add(const std::vector<std::string_view>& xs);
  params& add(const std::vector<std::optional<std::int64_t>>& xs);
  params& add(const std::vector<std::optional<std::string_view>>& xs);
  /// As bytea[].
  params& add_bytes(const std::vector<std::optional<std::string_view>>& xs);

  const std::vector<std::string>& values() const noexcept {
    return values_;
  }

private:
  std::vector<std::string> values_;
};

// -- results ------------------------------------------------------------------

/// The rows that one statement has returned. Columns are read by position, in
/// the type of the SQL file; null reads as a default value or `nullopt`.
class rows {
public:
  rows() = default;
  explicit rows(pg_result* owned);

  /// Whether every value has the form of its type. Connections give out no rows
  /// whose server breaks its own protocol.
  result<void> check() const;

  std::size_t size() const noexcept;
  bool is_null(std::size_t row, int column) const;

  std::int64_t integer(std::size_t row, int column) const;
  bool boolean(std::size_t row, int column) const;
  /// Valid as long as this object.
  std::string_view text(std::size_t row, int column) const;
  std::optional<std::int64_t> maybe_integer(std::size_t row, int column) const;
  std::optional<std::string> maybe_text(std::size_t row, int column) const;
  std::vector<std::int64_t> integers(std::size_t row, int column) const;
  std::vector<std::string> texts(std::size_t row, int column) const;

private:
  std::shared_ptr<pg_result> result_;
};

// -- units of work ------------------------------------------------------------

/// One statement with its parameters.
struct call {
  const sql::statement* what = nullptr;
  params args;
};

/// What is sent in one go, in one pipeline with one sync: a transaction, or a
/// single statement on its own.
struct unit {
  std::vector<call> calls;
  bool transaction = true;
  /// From this call on, a failure may leave something in the session that a
  /// rollback does not undo: the connection is closed then.
  std::size_t leaves_traces_from = static_cast<std::size_t>(-1);
};

/// What became of a unit.
struct reply {
  /// One entry for each call when there was no failure.
  std::vector<rows> results;
  /// `unknown_fate`: the connection died in between, the server may have
  /// committed. Any other: nothing of the unit has happened.
  std::optional<error> failure;
  /// Which call failed, where one did; `calls.size()` stands for the commit.
  std::size_t failed_call = 0;

  bool ok() const noexcept {
    return !failure;
  }
};

// -- connections --------------------------------------------------------------

/// How to reach a database, and what to pin on a connection to it.
struct options {
  /// A libpq connection string or URI; empty means libpq's defaults (PG*).
  std::string database{};
  /// Where the tables are; always quoted, so any name will do.
  std::string schema = "public";
  /// Shown in pg_stat_activity.
  std::string application_name = "gen_durable";
  std::chrono::milliseconds statement_timeout{30'000};
  std::chrono::milliseconds lock_timeout{10'000};
  std::chrono::milliseconds connect_timeout{10'000};
};

/// Checks a connection string without connecting. The message never repeats
/// what the string says: it may hold a password.
result<void> check_conninfo(const std::string& database);

/// A statement's text with `:"schema"` and `:'schema'` (psql's own syntax)
/// replaced by the quoted name.
std::string substitute_schema(std::string_view text, std::string_view schema);

/// One connection, non-blocking, in pipeline mode; at most one unit at a time.
/// Whoever drives it polls `fd()` for `events()` and calls `pump()`.
class connection {
public:
  enum class phase : std::uint8_t {
    connecting, ///< waits for the server, then pins the session
    idle,       ///< ready for a unit
    working,    ///< a unit is under way
    dead,       ///< lost or refused; `why_dead()` tells
  };

  explicit connection(options opts);
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  phase state() const noexcept {
    return phase_;
  }
  int fd() const;
  /// POLLIN, POLLOUT or both.
  short events() const noexcept;
  const error& why_dead() const noexcept {
    return why_dead_;
  }
  /// The server's process, to be found in pg_stat_activity.
  std::int64_t backend() const noexcept {
    return backend_;
  }
  /// By when the server must have answered a connection attempt.
  std::chrono::steady_clock::time_point connect_by() const noexcept {
    return connect_by_;
  }

  /// Sends a unit. Only when idle.
  void send(const unit& work);
  /// Reads and writes what is ready. A finished unit's reply waits in
  /// `take_reply()`; a connection that dies with a unit under way leaves a reply
  /// of unknown fate there.
  void pump();
  std::optional<reply> take_reply();
  /// Gives up: the connection is dead from now on.
  void abandon(error why);

  // -- for programs that may block: gdctl, the client, migrations -------------

  /// Waits until the connection is idle or dead, which it is when `end_fd` gets
  /// readable.
  result<void> wait_ready(int end_fd = -1);
  /// Waits for the reply of the unit that was sent.
  reply wait_reply();
  /// Sends a unit and waits for its reply.
  reply run(const unit& work);
  /// Runs a text of one or more statements without parameters, such as a
  /// migration. Its results are dropped.
  result<void> execute(std::string_view text);

private:
  enum class expected : std::uint8_t { prepared, result, commit, sync };

  void establish();
  void pin_session();
  void finish_pinning(const reply& pinned);
  bool queue_call(const call& what, expected kind);
  bool send_calls(const unit& work);
  void flush();
  void read_results();
  void take_result(pg_result* raw);
  void finish_pipeline();
  void die(error why);
  error last_error(errc code) const;

  options opts_;
  pg_conn* handle_ = nullptr;
  phase phase_ = phase::connecting;
  bool pinning_ = false;
  bool in_rollback_ = false;
  bool transaction_ = false;
  std::size_t leaves_traces_from_ = 0;
  short events_ = 0;
  std::int64_t backend_ = 0;
  error why_dead_;
  struct awaited {
    expected kind;
    const sql::statement* what;
  };
  std::vector<awaited> awaited_;
  std::size_t next_ = 0;
  reply current_;
  std::optional<reply> done_;
  std::unordered_set<const sql::statement*> prepared_;
  std::chrono::steady_clock::time_point connect_by_;
};

/// A connection that is somebody else's, in a transaction that is somebody
/// else's: runs statements there one by one, and waits for each. The
/// connection's modes stay as they are.
class borrowed {
public:
  borrowed(pg_conn* handle, std::string schema);

  /// Whether a statement can be run: a transaction is open, and nothing is
  /// under way.
  result<void> check() const;
  /// Only after a check; prepares nothing.
  result<rows> run(const call& what);

private:
  pg_conn* handle_;
  std::string schema_;
};

} // namespace gd::pq
