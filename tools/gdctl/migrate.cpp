#include "common.hpp"
#include "pages.hpp"

#include <gd/instance.hpp>
#include <gd/migrate.hpp>

#include <CLI/CLI.hpp>
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
action on_database(const globals& global, F run) {
  return [&global, run] {
    auto where = global.connection();
    return where ? run(*where) : fail(where.error());
  };
}

} // namespace

void add_migrate(CLI::App& app, const globals& global, action& chosen) {
  auto to = std::make_shared<int>(gd::newest_schema());
  auto* sub = app.add_subcommand("migrate",
                                 "Install, update or remove the schema");
  sub->require_subcommand(1);
  describe(*sub, "A migration runs in one transaction, and only one at a time.",
           {"gdctl migrate status", "gdctl migrate up",
            "gdctl --schema workflows migrate up",
            "gdctl migrate down --to 0 --with-instances   (drops all)"});
  auto* up = sub->add_subcommand("up", "Install what is missing");
  up->add_option("--to", *to, "The last migration to install")
    ->check(whole(0, gd::newest_schema()))
    ->capture_default_str();
  auto force = std::make_shared<bool>(false);
  up->add_flag("--force", *force,
               "Also while nodes live that know too little for it");
  describe(*up, "", {"gdctl migrate up"});
  up->callback([=, &global, &chosen] {
    chosen = on_database(global, [=](const auto& where) {
      return report(where, gd::migrate_up(where, *to, *force));
    });
  });
  auto* down = sub->add_subcommand("down", "Take migrations back");
  down
    ->add_option("--to", *to,
                 "The last migration to keep; 0 removes everything, with "
                 "all instances")
    ->check(whole(0, gd::newest_schema()))
    ->required();
  auto with_instances = std::make_shared<bool>(false);
  down->add_flag("--with-instances", *with_instances,
                 "Also if there are instances");
  describe(*down, "", {"gdctl migrate down --to 1"});
  down->callback([=, &global, &chosen] {
    chosen = on_database(global, [=](const auto& where) {
      return report(where, gd::migrate_down(where, *to, *with_instances));
    });
  });
  auto* now = sub->add_subcommand("status", "Tell what is installed");
  describe(*now, "Ends with 4 if this gdctl cannot work with what is there.",
           {"gdctl migrate status"});
  now->callback([&global, &chosen] { chosen = on_database(global, status); });
}

} // namespace gdctl
