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
#include <numeric>
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
  {"add", "insert"},    {"cancel", "stop"},       {"count", "stats"},
  {"delete", "erase"},  {"describe", "show"},     {"get", "show"},
  {"info", "show"},     {"init", "migrate up"},   {"kill", "stop"},
  {"log", "history"},   {"logs", "history"},      {"ls", "list"},
  {"ps", "list"},       {"remove", "erase"},      {"restart", "retry"},
  {"rm", "erase"},      {"send", "signal"},       {"status", "show"},
  {"submit", "insert"}, {"version", "--version"},
}};

/// By how many letters two words differ: one left out, added or another, or two that have
/// changed places. The same as in _gd_distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<std::size_t> now{i + 1};
    for (std::size_t j = 0; j < b.size(); ++j) {
      auto same = last[j] + (a[i] == b[j] ? 0u : 1u);
      now.push_back(std::min({now[j] + 1, last[j + 1] + 1, same}));
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        now.back() = std::min(now.back(), before[j - 1] + 1);
    }
    before = std::exchange(last, std::move(now));
  }
  return last.back();
}

/// Of a word that is no command; `then` is one that stands beside it.
std::string no_command(const CLI::App& app, const std::string& word,
                       const std::string& then) {
  auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  std::string meant;
  if (word == "help") {
    meant = then.empty() ? "--help" : then + " --help";
  } else if (auto habit = std::find_if(
               habits.begin(), habits.end(),
               [&](const auto& x) { return x.first == word; });
             habit != habits.end()) {
    meant = habit->second;
  } else if (!commands.empty()) {
    auto far = [&](const CLI::App* x) { return distance(word, x->get_name()); };
    auto nearest = *std::min_element(commands.begin(), commands.end(),
                                     [&](const auto* a, const auto* b) {
      return far(a) < far(b);
    });
    if (far(nearest) <= std::max<std::size_t>(1, word.size() / 3))
      meant = nearest->get_name();
  }
  return word + ": expected a command"
         + (meant.empty() ? "" : "; did you mean gdctl " + meant + '?');
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
  auto given = app.get_subcommands();
  if (auto rest = app.remaining();
      !rest.empty() && (given.empty() || rest.front() == "help"))
    message = no_command(app, rest.front(),
                         given.empty() ? "" : given.front()->get_name());
  if (gdctl::may_tell_a_secret(message))
    message = "an argument was not expected; a connection string with spaces "
              "needs quotes";
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
