#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gd::test {

/// Waits until a process, whosever it is, has ended, up to `patience`; false: it has not.
bool ends_in_time(pid_t pid);

/// A PostgreSQL server beside others, under the directory that tools/private-postgres has
/// made. Throws where it cannot do as it is told.
class server {
public:
  /// That of GD_DATABASE, which goes on when this object ends.
  static server of_environment();
  /// A new one, with these lines in its postgresql.conf.
  static server make(const std::string& settings = {});
  /// A standby of another, which calls itself `name` there, and is a copy of it by now.
  static server standby_of(const server& primary, const std::string& name);

  server(server&& other) noexcept;
  server& operator=(server&&) = delete;
  /// Ends it at once, and deletes it.
  ~server();

  /// Does nothing if it runs.
  void start();
  /// "fast" or "immediate".
  void stop(const std::string& mode);
  /// As a power failure does: all of its processes at the same time.
  void kill();
  void promote();
  /// Sets what a running server can take over, and waits until new sessions have it.
  void set(const std::string& name, const std::string& value);

  /// Where its socket is: libpq's `host`.
  const std::string& host() const noexcept {
    return host_;
  }
  std::string conninfo(const std::string& database = "postgres",
                       const std::string& user = "postgres") const;

private:
  server(std::filesystem::path data, std::string host, bool own);

  bool pg_ctl(const std::vector<std::string>& arguments) const;
  void configure(const std::string& lines) const;

  std::filesystem::path data_;
  std::string host_;
  bool own_;
};

} // namespace gd::test
