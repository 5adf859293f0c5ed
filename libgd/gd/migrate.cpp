#include <gd/migrate.hpp>

#include <gd/instance.hpp>
#include <gd/migrations.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/store.hpp>
#include <gd/pq/store_nodes.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

namespace gd {

namespace {

/// PostgreSQL cuts longer names off, and would then find another one's schema.
constexpr std::size_t longest_schema_name = 63;

/// How an activation waits for the table: so briefly that those who come after it
/// hardly notice, and again and again.
constexpr std::chrono::milliseconds table_wait{200};
constexpr std::chrono::milliseconds table_pause{800};
constexpr int table_tries = 6;
/// Holds up nobody. The server ends an autovacuum that is in the way after its
/// deadlock_timeout, a second.
constexpr std::chrono::milliseconds vacuum_wait{3'000};

/// What to do where names of the library's are taken.
constexpr std::string_view in_the_way
  = "rename what is in the way, or keep the library's tables in a schema of "
    "their own (--schema)";

/// One connection that migrates. Whatever it has not committed when it goes is
/// rolled back by the server.
class migrator {
public:
  explicit migrator(pq::options opts)
    : schema_(opts.schema), db_(without_timeouts(std::move(opts))) {
    // nop
  }

  result<int> up(int to, std::vector<unrunnable>* failed) {
    if (to < 1 || to > newest_schema())
      return error{errc::invalid_argument,
                   fmt::format("up: expected a version from 1 to {}, got {}",
                               newest_schema(), to),
                   {}};
    auto applied = transaction(
      [&](const store::schema_state& now) { return install(now, to); });
    if (!applied)
      return applied;
    // By itself, since it may have to read the whole table.
    auto checked = transaction(
      [&](const store::schema_state& now) { return check_rows(now, failed); });
    return checked ? applied : checked;
  }

  result<int> down(int to, bool with_instances) {
    if (to < 0 || to > newest_schema())
      return error{errc::invalid_argument,
                   fmt::format("down: expected a version from 0 to {}, got {}",
                               newest_schema(), to),
                   {}};
    return transaction([&](const store::schema_state& now) -> result<int> {
      if (now.version > newest_schema())
        return refuse(fmt::format("it has version {}, this library knows {}: "
                                  "only a library that knows a migration can "
                                  "take it back",
                                  now.version, newest_schema()));
      if (now.version > to && !with_instances)
        if (auto ok = expect_no_instance(); !ok)
          return ok.error();
      int applied = 0;
      for (auto x = std::rbegin(sql::migrations);
           x != std::rend(sql::migrations); ++x)
        if (x->number <= now.version && x->number > to) {
          if (auto ok = apply(*x, x->down, "down"); !ok)
            return ok.error();
          ++applied;
        }
      return applied;
    });
  }

  result<void> activate(bool anyway) {
    for (int tries = 1;; ++tries) {
      auto done = try_to_activate(anyway);
      if (done)
        return {};
      if (done.error().sqlstate != "55P03")
        return done.error();
      if (auto ok = db_.execute(sql::rollback.text); !ok)
        return ok;
      if (tries == table_tries)
        return error{errc::busy,
                     fmt::format("schema {}: the table is in use by a "
                                 "transaction that does not end; nothing was "
                                 "changed; try again",
                                 schema_),
                     {}};
      std::this_thread::sleep_for(table_pause);
    }
  }

  result<schema_status> status() {
    if (auto ok = check_name("schema", schema_, {.name = longest_schema_name});
        !ok)
      return ok.error();
    auto now = installed();
    if (!now)
      return now.error();
    schema_status x{now->version, now->works_from, newest_schema(), {}};
    for (const auto& migration : sql::migrations)
      x.names.emplace_back(migration.name);
    return x;
  }

private:
  /// A migration takes as long as its table is large.
  static pq::options without_timeouts(pq::options opts) {
    opts.statement_timeout = opts.lock_timeout = std::chrono::milliseconds{0};
    return opts;
  }

  result<int> install(const store::schema_state& now, int to) {
    if (now.works_from > newest_schema())
      return refuse(fmt::format("it has version {} and works with libraries "
                                "from {}, this library knows {}: update the "
                                "program",
                                now.version, now.works_from, newest_schema()));
    if (now.version == 0)
      if (auto ok = create_schema(); !ok)
        return ok.error();
    if (now.version < to)
      if (auto ok = expect_no_namesake(now.version > 0); !ok)
        return ok.error();
    int applied = 0;
    for (const auto& x : sql::migrations)
      if (x.number > now.version && x.number <= to) {
        if (auto ok = apply(x, x.up, "up"); !ok)
          return ok.error();
        ++applied;
      }
    if (applied == 0 || to < newest_schema())
      return applied;
    auto any = ask({&sql::any_instance, {}});
    if (!any)
      return any.error();
    if (!any->boolean(0, 0))
      if (auto ok = leave_older_behind({}, {}); !ok)
        return ok.error();
    return applied;
  }

  result<int> try_to_activate(bool anyway) {
    return transaction([&](const store::schema_state& now) -> result<int> {
      if (now.version != newest_schema())
        return refuse(
          fmt::format("it has version {}, this library knows {}: "
                      "only the newest version can be activated, by "
                      "a library that knows it",
                      now.version, newest_schema()));
      if (!anyway)
        if (auto ok = expect_no_older_node(); !ok)
          return ok.error();
      if (auto ok = leave_older_behind(vacuum_wait, table_wait); !ok)
        return ok.error();
      return 0;
    });
  }

  /// Libraries that do not know the newest version. Waits no longer than that for
  /// vacuums of the table and for all who use it; zero: for as long as it takes.
  result<void> leave_older_behind(std::chrono::milliseconds vacuums,
                                  std::chrono::milliseconds users) {
    if (auto ok = ask(store::lock_timeout(vacuums)); !ok)
      return ok.error();
    if (auto ok = db_.execute(sql::lock_definition.text); !ok)
      return ok;
    if (auto ok = db_.execute(sql::activate.text); !ok)
      return ok;
    if (auto ok = ask(store::lock_timeout(users)); !ok)
      return ok.error();
    if (auto ok = db_.execute(sql::drop_old_pick.text); !ok)
      return ok;
    return db_.execute(sql::drop_history_default.text);
  }

  /// Those from before rows were checked. How many could never be run.
  result<int> check_rows(const store::schema_state& now,
                         std::vector<unrunnable>* failed) {
    if (now.version < newest_schema())
      return 0;
    auto open = ask({&sql::open_checks, {}});
    if (!open)
      return open.error();
    if (!open->boolean(0, 0))
      return 0;
    auto rows = ask({&sql::fail_unrunnable, {}});
    if (!rows)
      return rows.error();
    for (auto& x : store::read<store::unrunnable_row>(*rows))
      if (failed != nullptr)
        failed->push_back({x.id, std::move(x.why)});
    if (auto ok = db_.execute(sql::validate_checks.text); !ok)
      return ok.error();
    return static_cast<int>(rows->size());
  }

  result<void> expect_no_instance() {
    if (auto ok = db_.execute(sql::lock_instances.text); !ok)
      return ok;
    auto any = ask({&sql::any_instance, {}});
    if (!any)
      return any.error();
    if (!any->boolean(0, 0))
      return {};
    return error{
      errc::invalid_argument,
      fmt::format("schema {}: there are instances, and going back "
                  "takes from them what the older version does not "
                  "have; with 0 they all go: expected to be told that "
                  "this is meant (--with-instances)",
                  schema_),
      {}};
  }

  /// One of the name of a function of ours that takes other arguments: calls could mean
  /// either.
  result<void> expect_no_namesake(bool installed) {
    auto rows = ask(store::namesakes(installed));
    if (!rows)
      return rows.error();
    std::string names;
    for (std::size_t i = 0; i < rows->size(); ++i)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", rows->text(i, 0));
    if (names.empty())
      return {};
    return refuse(fmt::format("functions whose names begin with gd_ are the "
                              "library's, and there are {}: {}",
                              names, in_the_way));
  }

  result<void> expect_no_older_node() {
    auto rows = ask(store::older_nodes(newest_schema()));
    if (!rows)
      return rows.error();
    std::string names;
    for (const auto& x : store::read<store::older_node>(*rows))
      names += fmt::format("{}{} (host {}, process {}, library {})",
                           names.empty() ? "" : ", ", x.node, x.host, x.process,
                           x.library);
    if (names.empty())
      return {};
    return error{
      errc::busy,
      fmt::format("schema {}: nodes with older libraries live, which "
                  "could not connect any more: {}",
                  schema_, names),
      {}};
  }

  template <class F>
  result<int> transaction(F body) {
    if (auto ok = check_name("schema", schema_, {.name = longest_schema_name});
        !ok)
      return ok.error();
    if (auto ok = db_.execute(sql::begin.text); !ok)
      return ok.error();
    if (auto locked = ask({&sql::migration_lock, {}}); !locked)
      return locked.error();
    auto now = installed();
    if (!now)
      return now.error();
    auto applied = body(*now);
    if (!applied)
      return applied;
    if (auto ok = db_.execute(sql::commit.text); !ok)
      return ok.error();
    return applied;
  }

  result<store::schema_state> installed() {
    auto place = ask({&sql::version_place, {}});
    if (!place)
      return place.error();
    if (place->size() == 0)
      return store::schema_state{};
    auto now = place->boolean(0, 0)
                 ? store::read_schema_version(
                   db_.run({{store::schema_version()}, false}))
                 : store::read_schema_comment(place->text(0, 1));
    if (!now && now.error().code == errc::schema_mismatch)
      return refuse(now.error().message);
    return now;
  }

  result<void> create_schema() {
    auto exists = ask({&sql::schema_exists, {}});
    if (!exists)
      return exists.error();
    if (exists->boolean(0, 0))
      return {};
    return db_.execute(sql::create_schema.text);
  }

  result<void> apply(const sql::migration& x, std::string_view text,
                     std::string_view direction) {
    auto ok = db_.execute(text);
    if (ok)
      return ok;
    auto why = ok.error();
    why.message = fmt::format("schema {}: migration {} {} {}: {}", schema_,
                              x.number, x.name, direction, why.message);
    // A relation, a type or a function of that name is there already.
    for (const auto* taken : {"42P07", "42710", "42723"})
      if (why.sqlstate == taken)
        why.message += fmt::format(", and is not the library's: {}",
                                   in_the_way);
    return why;
  }

  result<pq::rows> ask(pq::call what) {
    auto reply = db_.run({{std::move(what)}, false});
    if (!reply.ok())
      return *reply.failure;
    return reply.results.front();
  }

  error refuse(std::string why) const {
    return {
      errc::schema_mismatch, fmt::format("schema {}: {}", schema_, why), {}};
  }

  std::string schema_;
  pq::connection db_;
};

} // namespace

int newest_schema() noexcept {
  return static_cast<int>(std::size(sql::migrations));
}

result<int> migrate_up(pq::options opts, int to,
                       std::vector<unrunnable>* failed) {
  return migrator{std::move(opts)}.up(to, failed);
}

result<int> migrate_down(pq::options opts, int to, bool with_instances) {
  return migrator{std::move(opts)}.down(to, with_instances);
}

result<void> migrate_activate(pq::options opts, bool anyway) {
  return migrator{std::move(opts)}.activate(anyway);
}

result<schema_status> migration_status(pq::options opts) {
  return migrator{std::move(opts)}.status();
}

} // namespace gd
