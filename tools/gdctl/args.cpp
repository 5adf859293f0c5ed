#include "args.hpp"

#include "lines.hpp"

#include <gd/instance.hpp>
#include <gd/migrate.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace gdctl {

// -- options ------------------------------------------------------------------

option& option::required() {
  it_->required();
  return *this;
}

option& option::needs(const option& other) {
  it_->needs(other.it_);
  return *this;
}

option& option::excludes(const option& other) {
  it_->excludes(other.it_);
  return *this;
}

option& option::one_of(const std::vector<std::string>& values) {
  it_->check(CLI::IsMember(values));
  return *this;
}

static std::string check_whole(const std::string& text, std::int64_t low,
                               std::int64_t high, const std::string& expected) {
  if (text.empty()) // as any option that is
    return {};
  auto number = parse_number(expected, text);
  if (number && *number >= low && *number <= high)
    return {};
  return number ? fmt::format("{} number, got {}", expected, *number)
                : number.error().message;
}

option& option::whole() {
  using bounds = std::numeric_limits<std::int64_t>;
  it_->check([](const std::string& text) {
    return check_whole(text, bounds::min(), bounds::max(), "expected a whole");
  });
  return *this;
}

option& option::whole(std::int64_t low, std::int64_t high) {
  auto expected = fmt::format("expected {} to {}, as a whole", low, high);
  it_->check(
    [=](const std::string& text) {
    return check_whole(text, low, high, expected);
    },
    fmt::format("INT in [{} - {}]", low, high));
  return *this;
}

option& option::version() {
  it_->check([](const std::string& text) {
    return check_whole(text, 1, std::numeric_limits<std::int32_t>::max(),
                       "expected a version, 1 or more, as a whole");
  });
  return *this;
}

option& option::type_name(const char* name) {
  it_->type_name(name);
  return *this;
}

option& option::shows_default() {
  it_->capture_default_str();
  return *this;
}

option& option::from_environment(const char* name) {
  it_->envname(name);
  return *this;
}

option& option::separated() {
  it_->delimiter(',');
  return *this;
}

option& option::again(int values) {
  if (values > 1)
    it_->type_size(values);
  it_->allow_extra_args(false);
  return *this;
}

bool option::given() const {
  return it_->count() > 0;
}

// -- commands -----------------------------------------------------------------

parser parser::add_command(const std::string& name, const std::string& title) {
  return parser{*it_->add_subcommand(name, title), *into_};
}

template <class T>
option parser::add_option(const char* name, T& to, const char* help) {
  return option{*it_->add_option(name, to, help)};
}

template option parser::add_option(const char*, std::string&, const char*);
template option parser::add_option(const char*, std::int16_t&, const char*);
template option parser::add_option(const char*, std::int32_t&, const char*);
template option parser::add_option(const char*, std::int64_t&, const char*);
template option parser::add_option(const char*, std::optional<std::string>&,
                                   const char*);
template option parser::add_option(const char*, std::optional<std::int16_t>&,
                                   const char*);
template option parser::add_option(const char*, std::optional<std::int32_t>&,
                                   const char*);
template option parser::add_option(const char*, std::optional<std::int64_t>&,
                                   const char*);
template option parser::add_option(const char*, std::vector<std::string>&,
                                   const char*);
template option parser::add_option(const char*,
                                   std::optional<std::vector<std::string>>&,
                                   const char*);

option parser::add_flag(const char* name, bool& to, const char* help) {
  return option{*it_->add_flag(name, to, help)};
}

void parser::requires_command(bool always) {
  it_->require_subcommand(always ? 1 : 0, 1);
}

void parser::takes_anything() {
  it_->allow_extras();
}

void parser::describe(std::string_view text,
                      const std::vector<std::string_view>& examples,
                      std::string_view exit_codes) {
  it_->footer(fmt::format("{}{}{}  {}\n\n{}", text, text.empty() ? "" : "\n\n",
                          examples_heading, fmt::join(examples, "\n  "),
                          exit_codes));
}

void parser::runs(action what, condition checked) {
  // Those of its commands come first.
  it_->callback(
    [&into = *into_, what = std::move(what), checked = std::move(checked)] {
    if (checked)
      checked();
    if (!into.chosen)
      into.chosen = what;
  });
}

address_options add_address(parser& to, address& which) {
  auto id = to.add_option("ID", which.id, "The instance");
  auto key = to.add_option("--key", which.key,
                           "In the place of ID: the instance that has this "
                           "unique key now");
  auto hex = to.add_option("--key-hex", which.key_hex,
                           "The same, in hexadecimal digits: for bytes that "
                           "are no text")
               .excludes(key);
  return {id, key, hex};
}

void take_id(address& which, std::string* next, const char* name) {
  if (which.by_key() && next != nullptr && next->empty())
    std::swap(which.id, *next);
  if (which.by_key() && !which.id.empty())
    bad_option("--key", "expected one of ID and a key");
  if (!which.by_key() && which.id.empty())
    missing("ID, or --key");
  if (next != nullptr && next->empty())
    missing(name);
}

void bad_option(const char* name, const char* why) {
  throw CLI::ValidationError(name, why);
}

void missing(const char* name) {
  throw CLI::RequiredError(name);
}

// -- the command line ---------------------------------------------------------

namespace {

/// A variable that a shell does not know must not mean "any"; and what is no text would be
/// refused by whom it gets to, in words of its own.
gd::result<void> check_given(const std::string& name,
                             const std::string& value) {
  if (value.empty())
    return bad_usage(name + ": expected a value, got nothing");
  auto clean = gd::clean_text(value, value.size());
  auto at = std::mismatch(value.begin(), value.end(), clean.begin(),
                          clean.end())
              .first;
  if (at == value.end())
    return {};
  return bad_usage(
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
    return print(text.str());
  }
  if (auto ok = check_given(app); !ok)
    return fail(ok.error());
  std::string message = why.what();
  if (auto rest = app.remaining();
      !rest.empty() && app.get_subcommands().empty())
    message = rest.front() + ": expected a command";
  if (may_tell_a_secret(message))
    message = "an argument was not expected; a connection string with spaces "
              "needs quotes";
  else
    message += meant_in(app);
  complain(fmt::format("gdctl: {}\nRun with --help for more.\n",
                       gd::printable(message)));
  return usage;
}

void add_globals(parser& app, globals& to) {
  app
    .add_option("--database", to.database,
                "A libpq connection string or postgresql:// URI; default: "
                "libpq's PG* variables")
    .from_environment("GD_DATABASE");
  app.add_option("--schema", to.schema, "Where the tables are")
    .from_environment("GD_SCHEMA")
    .shows_default();
  app
    .add_option(
      "--gateway", to.gateway,
      "In the place of a database: where an engine has published its "
      "gateway,\nlike unix:/run/shop/engine or 127.0.0.1:4711; several, "
      "if it may be\nelsewhere. For insert, signal, transition, show, "
      "why, history and stats")
    .again()
    .separated();
  app
    .add_option("--secret", to.secret,
                "The file with the secret of the gateway's port; a socket "
                "needs none")
    .from_environment("GD_SECRET")
    .type_name("FILE");
}

} // namespace

int run_command_line(int argc, char** argv,
                     const std::vector<add_command>& commands) {
  CLI::App tree{"Works with instances of durable state machines in PostgreSQL.",
                "gdctl"};
  tree.set_version_flag(
    "--version",
    fmt::format("gdctl {} (schema {})", GD_VERSION, gd::newest_schema()));
  tree.fallthrough();
  asked_for asked;
  parser app{tree, asked};
  add_globals(app, asked.global);
  app.requires_command();
  app.describe(
    "Each command has its own --help, with examples.",
    {"gdctl --database 'host=db dbname=shop' migrate up",
     "gdctl insert Checkout --state '{\"order\": 42}'",
     "gdctl signal 7 payment_confirmed --payload '{\"amount\": 100}'",
     "gdctl show 7"});
  for (auto add : commands)
    add(app);
  try {
    tree.parse(argc, argv);
  } catch (const CLI::ParseError& why) {
    return refuse(tree, why);
  }
  if (auto ok = check_given(tree); !ok)
    return fail(ok.error());
  return asked.chosen(asked.global);
}

} // namespace gdctl
