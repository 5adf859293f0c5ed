#pragma once

#include <chrono>
#include <string>

/// Connections to PostgreSQL.
namespace gd::pq {

/// How to reach a database, and what to pin on a connection to it.
struct options {
  /// A libpq connection string or URI; empty means libpq's defaults (PG*).
  std::string database{};
  /// Where the tables are; always quoted, so any name will do.
  std::string schema = "public";
  /// Shown in pg_stat_activity.
  std::string application_name = "gen_durable";
  /// By the server, for each statement.
  std::chrono::milliseconds statement_timeout{30'000};
  /// By the server, for each lock that a statement waits for.
  std::chrono::milliseconds lock_timeout{10'000};
  /// For each attempt to connect.
  std::chrono::milliseconds connect_timeout{10'000};
  /// A hot standby will do as well, where all that is asked only reads.
  bool standby_will_do = false;
};

} // namespace gd::pq
