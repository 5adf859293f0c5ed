#pragma once

#include <gd/state.hpp>

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What a measurement is told, what it finds, and how that is read off the
/// process and the server.
namespace gd::bench {

using clock = std::chrono::steady_clock;

/// A guard against hangs: so long nothing may happen.
inline constexpr std::chrono::seconds patience{180};

/// Everything that a single measurement can be told.
struct parameters {
  std::string database{}; ///< its own, freshly made
  std::int64_t rows = 20'000;
  std::int64_t steps = 1;
  std::int64_t keys = 0;     ///< partition keys; 0: none
  std::int64_t unique = 0;   ///< 1: each row has a unique key
  std::int64_t machines = 1; ///< that the rows are a mixture of
  std::int64_t processes = 1;
  std::int64_t joined = 0; ///< workers without a database
  std::int64_t clients = 1;
  // floor
  std::int64_t turn = 1'000;
  std::int64_t floor_connections = 2;
  // engine; 0: its default
  std::int64_t slots = 0;
  std::int64_t prefetch = -1; ///< -1: its default
  std::int64_t rows_per_turn = 0;
  std::int64_t connections = 0;
  std::int64_t run_ahead = 0; ///< steps; 0: not at all
  std::int64_t history = 0;   ///< of the instances: a `gd::history`
  std::int64_t keep = -1;     ///< seconds behind the end; -1: for ever
  std::int64_t step_ms = 50;
  std::int64_t queues = 1;
  std::int64_t probe_ms = -1; ///< -1: its default
  std::int64_t metrics = 0;   ///< of drain: 1: kept for Prometheus
  /// Of drain: what each end carries: 1: inserts, 2: signals, 3: statements.
  std::int64_t effect = 0;
  std::int64_t carried = 1;  ///< so many of them
  std::int64_t snapshot = 0; ///< of drain: 1: a transaction is as old as it
  std::int64_t hints = 1;    ///< of elsewhere: whether nodes exchange them
  // round_trip
  std::int64_t listen = 0;   ///< where the gateway is published; 0: anywhere
  std::int64_t connect = -1; ///< -1: not remote; 0: there; else that port
  // senders
  std::int64_t senders = 64;
  std::int64_t window = 1;
  // soak, ends and idle
  double seconds = 10;
  std::int64_t rate = 3'000;
};

/// What a measurement has found. `steps` is what `seconds` and the costs are
/// divided by; zero if the figures in `more` are all that there is.
struct sample {
  double steps = 0;
  double seconds = 0;
  double client_cpu = 0; ///< seconds, user and system
  double server_cpu = 0;
  double wal_bytes = 0;
  double commits = 0;
  double statements = 0;
  double peak_mb = 0; ///< resident memory of this process
  std::map<std::string, double> more{};
  std::vector<double> series{}; ///< soak: instances done per second

  double per_second() const {
    return seconds > 0 ? steps / seconds : 0;
  }

  GD_STATE(sample, steps, seconds, client_cpu, server_cpu, wal_bytes, commits,
           statements, peak_mb, more, series);
};

/// The connection string of a database of the server in GD_DATABASE; empty: the
/// one that is named there.
std::string conninfo(const std::string& database = {});

/// A plain connection. Whatever fails is thrown.
class session {
public:
  explicit session(const std::string& database = {});

  PGconn* get() const {
    return handle_.get();
  }
  void run(const std::string& text);
  /// The first cell.
  std::string scalar(const std::string& text);
  double number(const std::string& text);

private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> handle_;
};

/// Makes room for what ends carry, where nobody picks it: a table, and instances to signal,
/// of which each has about one signal. The first one's id, or 0.
std::int64_t make_room(const parameters& how);

/// A transaction that keeps the snapshot of now, if that is to be measured: what
/// goes from now on is not taken away.
std::optional<session> old_snapshot(const parameters& how);

/// "name" in kB, as in /proc/self/status, in MB.
double own_memory(std::string_view name);

/// Reads off clock, processes and server what a piece of work costs. Counters of
/// the server are exact only when whoever was counted has disconnected: nobody
/// is connected to the database before it is made and after `finish`.
class meter {
public:
  explicit meter(std::string database);

  void start();
  void stop();
  /// Waits until nobody is connected any more.
  sample finish(double steps);
  /// Pages of the shared buffers that picks have read for each row that they have
  /// found, updates included.
  double pages_per_pick();

private:
  struct reading {
    clock::time_point time{};
    double client_cpu = 0;
    double server_cpu = 0;
    double wal_bytes = 0;
  };

  reading read();
  void wait_alone();
  std::string own_statements() const;
  double commits();

  std::string database_;
  session db_;
  double commits_ = 0;
  reading began_{};
  reading ended_{};
};

/// Of an unsorted list that is not empty; `part` is 0.5 for the median.
double quantile(std::vector<double> xs, double part);

} // namespace gd::bench
