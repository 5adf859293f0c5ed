#pragma once

#include <gd/error.hpp>
#include <gd/pq/unit.hpp>

#include <string>

struct pg_conn;

namespace gd::pq {

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
