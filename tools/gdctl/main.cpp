// gdctl: migrations, inserts, signals, transitions and questions from the command line.

#include "common.hpp"
#include "lines.hpp"
#include "pages.hpp"

#include <gd/instance.hpp>
#include <gd/migrate.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// A variable that a shell does not know must not mean "any"; and what is no text would be
/// refused by whom it gets to, in words of its own.
gd::result<void> check_given(const std::string& name,
                             const std::string& value) {
  if (value.empty())
    return gdctl::bad_usage(name + ": expected a value, got nothing");
  auto clean = gd::clean_text(value, value.size());
  auto at = std::mismatch(value.begin(), value.end(), clean.begin(),
                          clean.end())
              .first;
  if (at == value.end())
    return {};
  return gdctl::bad_usage(
    fmt::format("{}: expected UTF-8, got byte 0x{:02x} at offset {}", name,
                static_cast<unsigned char>(*at), at - value.begin()));
}

gd::result<void> check_given(const CLI::App& command) {
  for (const auto* option : command.get_options())
    for (const auto& value : option->results())
      if (auto ok = check_given(option->get_name(), value); !ok)
        return ok;
  for (const auto* sub : command.get_subcommands())
    if (auto ok = check_given(*sub); !ok)
      return ok;
  return {};
}

/// What others call our commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> habits{{
  {"add", "insert"},    {"cancel", "stop"},
  {"count", "stats"},   {"delete", "erase"},
  {"describe", "show"}, {"get", "show"},
  {"info", "show"},     {"init", "migrate up"},
  {"kill", "stop"},     {"log", "history"},
  {"logs", "history"},  {"ls", "list"},
  {"ps", "list"},       {"remove", "erase"},
  {"restart", "retry"}, {"rm", "erase"},
  {"send", "signal"},   {"status", "show"},
  {"submit", "insert"}, {"version", "gdctl --version"},
}};

/// What may have been meant by the first word that has no meaning where it stands.
std::string meant_in(const CLI::App& app) {
  auto rest = app.remaining(true);
  if (rest.empty())
    return {};
  const auto& typed = rest.front();
  const auto* at = &app;
  auto path = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().back();
    path += ' ' + at->get_name();
  }
  if (typed == "help")
    return fmt::format("; did you mean {} --help?", path);
  auto habit = std::find_if(habits.begin(), habits.end(), [&](const auto& x) {
    return at == &app && x.first == typed;
  });
  if (habit != habits.end())
    return fmt::format("; did you mean {}?", habit->second);
  std::vector<std::string> known;
  if (typed.starts_with('-'))
    for (const auto* of : {at, &app})
      for (const auto* option : of->get_options())
        known.push_back(option->get_name());
  else
    for (const auto* sub :
         at->get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
  return gd::meant(typed, known);
}

int refuse(const CLI::App& app, const CLI::ParseError& why) {
  if (why.get_exit_code() == 0) { // --help, --version
    std::ostringstream text;
    app.exit(why, text);
    return gdctl::print(text.str());
  }
  if (auto ok = check_given(app); !ok)
    return gdctl::fail(ok.error());
  std::string message = why.what();
  if (auto rest = app.remaining();
      !rest.empty() && app.get_subcommands().empty())
    message = rest.front() + ": expected a command";
  if (gdctl::may_tell_a_secret(message))
    message = "an argument was not expected; a connection string with spaces "
              "needs quotes";
  else
    message += meant_in(app);
  gdctl::complain(fmt::format("gdctl: {}\nRun with --help for more.\n",
                              gd::printable(message)));
  return gdctl::usage;
}

} // namespace

int main(int argc, char** argv) {
  gdctl::occupy_streams();
  CLI::App app{"Works with instances of durable state machines in PostgreSQL.",
               "gdctl"};
  gdctl::globals global;
  gdctl::action chosen;
  app
    .add_option("--database", global.database,
                "A libpq connection string or postgresql:// URI; default: "
                "libpq's PG* variables")
    ->envname("GD_DATABASE");
  app.add_option("--schema", global.schema, "Where the tables are")
    ->envname("GD_SCHEMA")
    ->capture_default_str();
  app
    .add_option(
      "--gateway", global.gateway,
      "In the place of a database: where an engine has published its "
      "gateway,\nlike unix:/run/shop/engine or 127.0.0.1:4711; several, "
      "if it may be\nelsewhere. For insert, signal, transition, show, "
      "why, history and stats")
    ->allow_extra_args(false)
    ->delimiter(',');
  app
    .add_option("--secret", global.secret,
                "The file with the secret of the gateway's port; a socket "
                "needs none")
    ->envname("GD_SECRET")
    ->type_name("FILE");
  app.set_version_flag(
    "--version",
    fmt::format("gdctl {} (schema {})", GD_VERSION, gd::newest_schema()));
  app.require_subcommand(1);
  app.fallthrough();
  gdctl::describe(
    app, "Each command has its own --help, with examples.",
    {"gdctl --database 'host=db dbname=shop' migrate up",
     "gdctl insert Checkout --state '{\"order\": 42}'",
     "gdctl signal 7 payment_confirmed --payload '{\"amount\": 100}'",
     "gdctl show 7"});
  for (auto* add :
       {gdctl::add_migrate,    gdctl::add_insert,  gdctl::add_signal,
        gdctl::add_transition, gdctl::add_show,    gdctl::add_why,
        gdctl::add_history,    gdctl::add_rewind,  gdctl::add_fork,
        gdctl::add_prune,      gdctl::add_in_step, gdctl::add_stats,
        gdctl::add_machines,   gdctl::add_graph,   gdctl::add_nodes,
        gdctl::add_queues,     gdctl::add_list,    gdctl::add_verbs,
        gdctl::add_inbox,      gdctl::add_pause,   gdctl::add_resume,
        gdctl::add_jobs,       gdctl::add_top,     gdctl::add_check,
        gdctl::add_serve,      gdctl::add_wait})
    add(app, global, chosen);
  gdctl::add_tls(app, chosen);
  gdctl::add_secret(app, chosen);
  gdctl::add_pages(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& why) {
    return refuse(app, why);
  }
  if (auto ok = check_given(app); !ok)
    return gdctl::fail(ok.error());
  return chosen();
}
