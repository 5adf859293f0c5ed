#pragma once

#include <gd/error.hpp>
#include <gd/pq/unit.hpp>

#include <string>

struct pg_conn;

namespace gd::pq {

/// A connection that is somebody else's, in a transaction of theirs, or one that is
/// made for them: runs statements there one by one, and waits for each. The
/// connection's modes stay as they are.
class borrowed {
public:
  borrowed(pg_conn* handle, std::string schema);

  /// Whether a statement can be run: a transaction is open, and nothing is
  /// under way.
  result<void> check() const;
  /// Only after a check; prepares nothing.
  result<rows> run(const call& what);

  /// A transaction of ours, READ COMMITTED. Error: there is one already, or the
  /// connection cannot be used.
  result<void> begin();
  /// `unknown_fate`: the connection is lost, and the server may have committed. Any
  /// other error: it has not.
  result<void> commit();
  /// If there is anything to roll back, and a server that could.
  void roll_back() noexcept;

private:
  result<void> check_connection() const;

  pg_conn* handle_;
  std::string schema_;
};

} // namespace gd::pq
