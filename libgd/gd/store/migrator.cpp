#include <gd/store/migrator.hpp>

#include <gd/instance.hpp>
#include <gd/sql.hpp>
#include <gd/store/store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gd {

namespace {

/// PostgreSQL cuts longer names off, and would then find another one's schema.
constexpr std::size_t longest_schema_name = 63;

/// What to do where names of the library's are taken.
constexpr std::string_view in_the_way
  = "rename what is in the way, or keep the library's tables in a schema of "
    "their own (--schema)";

/// A migration takes as long as its table is large.
pq::options without_timeouts(pq::options opts) {
  opts.statement_timeout = opts.lock_timeout = std::chrono::milliseconds{0};
  return opts;
}

} // namespace

migrator::migrator(pq::options opts, std::span<const migration> known)
  : known_(known),
    schema_(opts.schema),
    db_(without_timeouts(std::move(opts))) {
  // nop
}

result<int> migrator::up(int to, bool force) {
  if (to < 1 || to > newest())
    return error{
      errc::invalid_argument,
      fmt::format("up: expected a version from 1 to {}, got {}", newest(), to),
      {}};
  return transaction(
    [&](const store::schema_state& now) { return install(now, to, force); });
}

result<int> migrator::down(int to, bool with_instances) {
  if (to < 0 || to > newest())
    return error{errc::invalid_argument,
                 fmt::format("down: expected a version from 0 to {}, got {}",
                             newest(), to),
                 {}};
  return transaction([&](const store::schema_state& now) -> result<int> {
    if (now.version > newest())
      return refuse(fmt::format("it has version {}, this library knows {}: "
                                "only a library that knows a migration can "
                                "take it back",
                                now.version, newest()));
    if (now.version > to && !with_instances)
      if (auto ok = expect_no_instance(); !ok)
        return ok.error();
    int applied = 0;
    for (auto x = known_.rbegin(); x != known_.rend(); ++x)
      if (x->number <= now.version && x->number > to) {
        if (auto ok = apply(*x, x->down, "down"); !ok)
          return ok.error();
        ++applied;
      }
    if (applied > 0 && to > 0)
      if (auto ok = note_version(to); !ok)
        return ok.error();
    return applied;
  });
}

result<schema_status> migrator::status() {
  if (auto ok = check_name("schema", schema_, {.name = longest_schema_name});
      !ok)
    return ok.error();
  auto now = installed();
  if (!now)
    return now.error();
  schema_status x{now->version, now->works_from, newest(), {}};
  for (const auto& migration : known_)
    x.names.emplace_back(migration.name);
  return x;
}

int migrator::works_from(int number) const {
  int found = 1;
  for (const auto& x : known_)
    if (x.number <= number)
      found = std::max(found, x.works_from);
  return found;
}

result<int> migrator::install(const store::schema_state& now, int to,
                              bool force) {
  if (now.works_from > newest())
    return refuse(fmt::format("it has version {} and works with libraries "
                              "from {}, this library knows {}: update the "
                              "program",
                              now.version, now.works_from, newest()));
  if (now.version >= to)
    return 0;
  if (now.version == 0) {
    if (auto ok = create_schema(); !ok)
      return ok.error();
  } else if (works_from(to) > now.works_from && !force) {
    if (auto ok = expect_no_older_node(works_from(to)); !ok)
      return ok.error();
  }
  if (auto ok = expect_no_namesake(now.version > 0); !ok)
    return ok.error();
  int applied = 0;
  for (const auto& x : known_)
    if (x.number > now.version && x.number <= to) {
      if (auto ok = apply(x, x.up, "up"); !ok)
        return ok.error();
      ++applied;
    }
  if (auto ok = note_version(to); !ok)
    return ok.error();
  return applied;
}

result<void> migrator::expect_no_instance() {
  if (auto ok = db_.execute(sql::lock_instances.text); !ok)
    return ok;
  auto any = ask({&sql::any_instance, {}});
  if (!any)
    return any.error();
  if (!any->boolean(0, 0))
    return {};
  return error{errc::invalid_argument,
               fmt::format("schema {}: there are instances, and going back "
                           "takes from them what the older version does not "
                           "have; with 0 they all go: expected to be told that "
                           "this is meant (--with-instances)",
                           schema_),
               {}};
}

/// One of the name of a function of ours that takes other arguments: calls could mean
/// either.
result<void> migrator::expect_no_namesake(bool installed) {
  auto rows = ask(store::namesakes(installed));
  if (!rows)
    return rows.error();
  std::string names;
  for (std::size_t i = 0; i < rows->size(); ++i)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rows->text(i, 0));
  if (names.empty())
    return {};
  return refuse(
    fmt::format("functions whose names begin with gd_ or _gd_ are the "
                "library's, and there are {}: {}",
                names, in_the_way));
}

/// Of libraries that the schema does not work with any more. Who asks for its version waits
/// until this transaction ends, and is told the new one.
result<void> migrator::expect_no_older_node(int works_from) {
  if (auto ok = db_.execute(sql::lock_version.text); !ok)
    return ok;
  auto rows = ask(store::older_nodes(works_from));
  if (!rows)
    return rows.error();
  std::string names;
  for (const auto& x : store::read<store::older_node>(*rows))
    names += fmt::format("{}{} (host {}, process {}, library {})",
                         names.empty() ? "" : ", ", x.node, x.host, x.process,
                         x.library);
  if (names.empty())
    return {};
  return error{errc::busy,
               fmt::format("schema {}: works with libraries from {} from then "
                           "on, and nodes with older ones live: {}: replace "
                           "them first (--force cuts them off)",
                           schema_, works_from, names),
               {}};
}

result<int> migrator::transaction(const body& run) {
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
  auto applied = run(*now);
  if (!applied)
    return applied;
  if (auto ok = db_.execute(sql::commit.text); !ok)
    return ok.error();
  return applied;
}

result<store::schema_state> migrator::installed() {
  auto place = ask({&sql::version_place, {}});
  if (!place)
    return place.error();
  if (place->size() == 0)
    return store::schema_state{};
  if (!place->boolean(0, 0))
    return refuse("there is a table gen_durable, and no gen_durable_schema "
                  "that tells its version: it is not ours, or was not made by "
                  "gdctl migrate: keep the library's tables in a schema of "
                  "their own (--schema)");
  auto now = store::read_schema_version(
    db_.run({{store::schema_version()}, false}));
  if (!now && now.error().code == errc::schema_mismatch)
    return refuse(now.error().message);
  return now;
}

result<void> migrator::create_schema() {
  auto exists = ask({&sql::schema_exists, {}});
  if (!exists)
    return exists.error();
  if (exists->boolean(0, 0))
    return {};
  return db_.execute(sql::create_schema.text);
}

result<void> migrator::apply(const migration& x, std::string_view text,
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
      why.message += fmt::format(", and is not the library's: {}", in_the_way);
  return why;
}

result<void> migrator::note_version(int number) {
  auto noted = ask(store::note_version(number, works_from(number)));
  return noted ? result<void>{} : noted.error();
}

result<pq::rows> migrator::ask(pq::call what) {
  auto reply = db_.run({{std::move(what)}, false});
  if (!reply.ok())
    return *reply.failure;
  return reply.results.front();
}

error migrator::refuse(std::string why) const {
  return {
    errc::schema_mismatch, fmt::format("schema {}: {}", schema_, why), {}};
}

} // namespace gd
