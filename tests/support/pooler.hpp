#pragma once

#include <string>

#include <sys/types.h>

namespace gd::test {

/// A PgBouncer of the test's own in front of the server of GD_DATABASE, in
/// transaction mode, on a socket in a directory of its own. All its clients
/// share one connection to the server.
class transaction_pooler {
public:
  /// Throws if it does not start; tools/setup installs it.
  transaction_pooler();
  ~transaction_pooler();
  transaction_pooler(const transaction_pooler&) = delete;
  transaction_pooler& operator=(const transaction_pooler&) = delete;

  /// A connection string that leads through it.
  std::string conninfo(const std::string& database) const;

private:
  void stop();

  std::string directory_;
  pid_t process_ = -1;
};

} // namespace gd::test
