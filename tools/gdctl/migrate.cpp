#include "args.hpp"
#include "common.hpp"

#include <gd/instance.hpp>
#include <gd/migrate.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gdctl {

namespace {

std::string versions(const gd::schema_status& now) {
  if (now.installed == 0)
    return fmt::format("nothing installed, version {} could be", now.newest);
  return fmt::format(
    "version {}, works with libraries from {}; this one knows {}",
    now.installed, now.works_from, now.newest);
}

int report(const gd::pq::options& where, const gd::result<int>& count) {
  if (!count)
    return fail(count.error());
  auto now = gd::migration_status(where);
  if (!now)
    return fail(now.error());
  return print(fmt::format("schema {}: {} migration{}; {}\n",
                           gd::printable(where.schema), *count,
                           *count == 1 ? "" : "s", versions(*now)));
}

int status(gd::pq::options where) {
  where.standby_will_do = true;
  auto now = gd::migration_status(where);
  if (!now)
    return fail(now.error());
  auto text = fmt::format("schema {}: {}\n", gd::printable(where.schema),
                          versions(*now));
  int number = 0;
  for (const auto& name : now->names) {
    ++number;
    text += fmt::format("  {:3} {:20} {}\n", number, name,
                        number <= now->installed ? "installed" : "missing");
  }
  return print(text, now->usable() ? ok : bad_schema);
}

template <class F>
action on_database(F run) {
  return [run](const globals& global) {
    auto where = global.connection();
    return where ? run(*where) : fail(where.error());
  };
}

} // namespace

void add_migrate(parser& app) {
  auto to = std::make_shared<int>(gd::newest_schema());
  auto sub = app.add_command("migrate", "Install, update or remove the schema");
  sub.requires_command();
  sub.describe("A migration runs in one transaction, and only one at a time.",
               {"gdctl migrate status", "gdctl migrate up",
                "gdctl --schema workflows migrate up",
                "gdctl migrate down --to 0 --with-instances   (drops all)"});
  auto up = sub.add_command("up", "Install what is missing");
  up.add_option("--to", *to, "The last migration to install")
    .whole(0, gd::newest_schema())
    .shows_default();
  auto force = std::make_shared<bool>(false);
  up.add_flag("--force", *force,
              "Also while nodes live that know too little for it");
  up.describe("", {"gdctl migrate up"});
  up.runs(on_database([=](const auto& where) {
    return report(where, gd::migrate_up(where, *to, *force));
  }));
  auto down = sub.add_command("down", "Take migrations back");
  down
    .add_option("--to", *to,
                "The last migration to keep; 0 removes everything, with "
                "all instances")
    .whole(0, gd::newest_schema())
    .required();
  auto with_instances = std::make_shared<bool>(false);
  down.add_flag("--with-instances", *with_instances,
                "Also if there are instances");
  down.describe("", {"gdctl migrate down --to 1"});
  down.runs(on_database([=](const auto& where) {
    return report(where, gd::migrate_down(where, *to, *with_instances));
  }));
  auto now = sub.add_command("status", "Tell what is installed");
  now.describe("Ends with 4 if this gdctl cannot work with what is there.",
               {"gdctl migrate status"});
  now.runs(on_database(status));
}

} // namespace gdctl
