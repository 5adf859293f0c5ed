#pragma once

#include <gd/options.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

struct pg_conn;

/// What tests need of PostgreSQL besides the library under test: databases of
/// their own, and plain sessions that interfere with it. Everything throws where
/// it cannot do as it is told.
namespace gd::test {

/// A guard against hangs: how long waiting for something goes on before it counts as
/// a failure. Far longer than a slow machine takes; no test says how fast it is.
inline constexpr std::chrono::seconds patience{180};

/// Locks of partition keys in this database; suites share the server. The locks
/// that say that nodes live are of two integers.
inline constexpr auto count_locks
  = "select count(*) from pg_locks where locktype = 'advisory' and objsubid = "
    "1 "
    "and database = "
    "(select oid from pg_database where datname = current_database())";

/// A cell is nullopt where the column is null.
using row = std::vector<std::optional<std::string>>;
using row_list = std::vector<row>;

/// The server's answer to a statement that fails.
class sql_error : public std::runtime_error {
public:
  sql_error(std::string sqlstate, const std::string& message)
    : std::runtime_error(message), sqlstate_(std::move(sqlstate)) {
    // nop
  }

  const std::string& sqlstate() const noexcept {
    return sqlstate_;
  }

private:
  std::string sqlstate_;
};

/// A connection like that of some program that shares the database: raw SQL,
/// transactions left open, statements that wait.
class session {
public:
  using parameters = std::vector<std::optional<std::string>>;

  explicit session(std::string conninfo);
  session(session&&) noexcept = default;

  /// Runs a statement, or, without parameters, several at once, and returns the
  /// rows of the last.
  row_list exec(const std::string& sql, const parameters& params = {});

  /// The only cell of the only row; null is an empty string.
  std::string scalar(const std::string& sql, const parameters& params = {});

  /// Sends a statement and returns at once; `finish` waits for its end.
  void start(const std::string& sql, const parameters& params = {});
  row_list finish();
  /// Whether the started statement has ended. Does not wait.
  bool finished();

  /// The server's process.
  std::int64_t pid() const noexcept {
    return pid_;
  }

  /// For what works on a connection that it does not own.
  pg_conn* handle() const noexcept {
    return handle_.get();
  }

  /// Waits until the started statement waits for what `pid` holds.
  void wait_until_blocked_by(std::int64_t pid);
  void wait_until_blocked_by(const session& other) {
    wait_until_blocked_by(other.pid());
  }

  /// Waits until some other connection waits for what this one holds, and
  /// returns its process.
  std::int64_t wait_until_someone_is_blocked();

  /// Ends another connection.
  void terminate(std::int64_t pid);

private:
  struct closer {
    void operator()(pg_conn* handle) const noexcept;
  };

  /// Looks again and again, over a connection of its own.
  session& observer();

  std::string conninfo_;
  std::unique_ptr<pg_conn, closer> handle_;
  std::int64_t pid_ = 0;
  std::unique_ptr<session> observer_;
};

/// The SQLSTATE with which a statement fails, and its sentence. Empty: it does not.
std::string why_refused(session& in, const std::string& sql,
                        const session::parameters& params = {});

std::string sqlstate_of(session& in, const std::string& sql,
                        const session::parameters& params = {});

/// Counts statements of a database that have waited for a lock for longer than a
/// second, each once.
class long_lock_waits {
public:
  explicit long_lock_waits(std::string conninfo);
  ~long_lock_waits();

  /// Until now, when it stops to look.
  std::size_t end();

private:
  std::atomic<bool> ended_ = false;
  std::set<std::string> seen_;
  std::thread looks_;
};

/// A new, empty database on the server of GD_DATABASE, gone with this object
/// and whatever is still connected to it.
class temporary_database {
public:
  explicit temporary_database(std::string schema = "public");
  ~temporary_database();
  temporary_database(const temporary_database&) = delete;
  temporary_database& operator=(const temporary_database&) = delete;

  /// A connection string, for `session` and for other programs. `user` and
  /// `password` replace those of GD_DATABASE if not empty.
  std::string conninfo(const std::string& user = {},
                       const std::string& password = {}) const;
  const std::string& name() const {
    make();
    return name_;
  }
  const std::string& schema() const noexcept {
    return schema_;
  }

  /// What the library wants to know to connect.
  pq::options options() const;

  /// Installs the newest schema: of a database that nobody has asked for anything yet, by
  /// making it a copy of one that has it.
  void migrate();
  /// Has the schema tell that it is of that version, and works with libraries from that.
  void note_version(int version, int works_from);

  /// For assertions, on a session of the database's own. Names are not
  /// qualified by themselves: the search path is the schema.
  std::string scalar(const std::string& sql,
                     const session::parameters& params = {});
  row_list rows(const std::string& sql, const session::parameters& params = {});

  /// Waits until a query's only cell is `expected`.
  void wait_until(const std::string& sql, std::string_view expected);

  /// Ends the sessions of all engines in this very database: suites share the
  /// server.
  void terminate_engines();

  /// Makes a session known as that of a node which has been silent for long.
  void add_silent_node(const std::string& incarnation, std::int64_t pid);

private:
  /// Once, when it is asked for.
  void make(const std::string& like = "template1") const;
  session& inspector();

  std::string schema_;
  std::string name_;
  mutable bool made_ = false;
  std::unique_ptr<session> inspector_;
};

/// A name in SQL's double quotes.
std::string quoted_name(std::string_view name);

/// A role of the cluster, gone with this object.
struct temporary_role {
  explicit temporary_role(const temporary_database& db)
    : admin(db.conninfo()), name(db.name() + "_role") {
    admin.exec("create role " + quoted_name(name) + " login");
  }

  ~temporary_role() {
    admin.exec("drop owned by " + quoted_name(name) + " cascade; drop role "
               + quoted_name(name));
  }

  session admin;
  std::string name;
};

} // namespace gd::test
