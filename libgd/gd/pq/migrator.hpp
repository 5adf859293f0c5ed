#pragma once

#include <gd/migrate.hpp>
#include <gd/migrations.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/store_nodes.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace gd {

/// One connection that migrates. Whatever it has not committed when it goes is
/// rolled back by the server.
class migrator {
public:
  /// Those of the library, unless a test has others.
  explicit migrator(pq::options opts,
                    std::span<const sql::migration> known = sql::migrations);

  // See migrate_up, migrate_down and migration_status.
  result<int> up(int to, bool force);
  result<int> down(int to, bool with_instances);
  result<schema_status> status();

private:
  using body = std::function<result<int>(const store::schema_state&)>;

  int newest() const noexcept {
    return static_cast<int>(known_.size());
  }

  /// The oldest library that works with the schema, once that migration is the last.
  int works_from(int number) const;

  result<int> install(const store::schema_state& now, int to, bool force);
  result<void> expect_no_instance();
  result<void> expect_no_namesake(bool installed);
  result<void> expect_no_older_node(int works_from);
  result<int> transaction(const body& run);
  result<store::schema_state> installed();
  result<void> create_schema();
  result<void> apply(const sql::migration& x, std::string_view text,
                     std::string_view direction);
  result<void> note_version(int number);
  result<pq::rows> ask(pq::call what);
  error refuse(std::string why) const;

  std::span<const sql::migration> known_;
  std::string schema_;
  pq::connection db_;
};

} // namespace gd
