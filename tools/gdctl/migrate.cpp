#include "common.hpp"

#include <gd/instance.hpp>
#include <gd/migrate.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <string>

namespace gdctl {

namespace {

std::string versions(const gd::schema_status& now) {
  if (now.installed == 0)
    return fmt::format("nothing installed, version {} could be", now.newest);
  return fmt::format(
    "version {}, works with libraries from {}; this one knows {}",
    now.installed, now.works_from, now.newest);
}

int report(const globals& global, const gd::result<int>& count) {
  if (!count)
    return fail(count.error());
  auto now = gd::migration_status(global.connection());
  if (!now)
    return fail(now.error());
  return print(fmt::format("schema {}: {} migration{}; {}\n",
                           gd::printable(global.schema), *count,
                           *count == 1 ? "" : "s", versions(*now)));
}

int status(const globals& global) {
  auto now = gd::migration_status(global.connection());
  if (!now)
    return fail(now.error());
  auto text = fmt::format("schema {}: {}\n", gd::printable(global.schema),
                          versions(*now));
  int number = 0;
  for (const auto& name : now->names) {
    ++number;
    text += fmt::format("  {:3} {:20} {}\n", number, name,
                        number <= now->installed ? "installed" : "missing");
  }
  return print(text, now->usable() ? ok : bad_schema);
}

} // namespace

void add_migrate(CLI::App& app, const globals& global, action& chosen) {
  auto to = std::make_shared<int>(gd::newest_schema());
  auto* sub = app.add_subcommand("migrate",
                                 "Install, update or remove the schema");
  sub->require_subcommand(1);
  sub->footer("A migration runs in one transaction, and only one at a time.\n"
              "\n"
              "Examples:\n"
              "  gdctl migrate status\n"
              "  gdctl migrate up\n"
              "  gdctl --schema workflows migrate up\n"
              "  gdctl migrate down --to 0     (drops all instances)\n"
              "\n"
              + std::string{exit_code_help});
  auto* up = sub->add_subcommand("up", "Install what is missing");
  up->add_option("--to", *to, "The last migration to install")
    ->capture_default_str();
  up->footer("Example: gdctl migrate up\n\n" + std::string{exit_code_help});
  up->callback([=, &global, &chosen] {
    chosen = [to, &global] {
      return report(global, gd::migrate_up(global.connection(), *to));
    };
  });
  auto* down = sub->add_subcommand("down", "Take migrations back");
  down
    ->add_option("--to", *to,
                 "The last migration to keep; 0 removes everything, with "
                 "all instances")
    ->required();
  down->footer("Example: gdctl migrate down --to 1\n\n"
               + std::string{exit_code_help});
  down->callback([=, &global, &chosen] {
    chosen = [to, &global] {
      return report(global, gd::migrate_down(global.connection(), *to));
    };
  });
  auto* now = sub->add_subcommand("status", "Tell what is installed");
  now->footer("Ends with 4 if this gdctl cannot work with what is there.\n\n"
              "Example: gdctl migrate status\n\n"
              + std::string{exit_code_help});
  now->callback(
    [&global, &chosen] { chosen = [&global] { return status(global); }; });
}

} // namespace gdctl
