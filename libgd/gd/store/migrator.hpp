#pragma once

#include <gd/migrate.hpp>
#include <gd/pq/connection.hpp>
#include <gd/store/nodes.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace gd {

/// One step of the schema's history, with its way back.
struct migration {
  int number;
  std::string_view name;
  int works_from; ///< the oldest library that works beside it; 0: as before
  std::string_view up;
  std::string_view down;
};

/// One connection that migrates. Whatever it has not committed when it goes is
/// rolled back by the server.
class migrator {
public:
  migrator(pq::options opts, std::span<const migration> known);

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
  result<void> apply(const migration& x, std::string_view text,
                     std::string_view direction);
  result<void> note_version(int number);
  result<pq::rows> ask(pq::call what);
  error refuse(std::string why) const;

  std::span<const migration> known_;
  std::string schema_;
  pq::connection db_;
};

} // namespace gd
