#include <gd/migrate.hpp>

#include <gd/migrations.hpp>
#include <gd/store/migrator.hpp>

#include <iterator>
#include <utility>

namespace gd {

int newest_schema() noexcept {
  return static_cast<int>(std::size(sql::migrations));
}

result<int> migrate_up(pq::options opts, int to, bool force) {
  return migrator{std::move(opts), sql::migrations}.up(to, force);
}

result<int> migrate_down(pq::options opts, int to, bool with_instances) {
  return migrator{std::move(opts), sql::migrations}.down(to, with_instances);
}

result<schema_status> migration_status(pq::options opts) {
  return migrator{std::move(opts), sql::migrations}.status();
}

} // namespace gd
