#pragma once

#include "common.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

/// What the command line takes. Commands declare it here; the parser behind it, CLI11, is
/// known to `args.cpp` and `pages.cpp` alone, for its header is dear to compile.
namespace gdctl {

/// What stands above the examples of a command.
inline constexpr std::string_view examples_heading = "Examples:\n";

/// An option, an argument or a flag of a command.
class option {
public:
  explicit option(CLI::Option& it) noexcept : it_(&it) {
    // nop
  }

  option& required();
  option& needs(const option& other);
  option& excludes(const option& other);
  option& one_of(const std::vector<std::string>& values);
  /// A whole number. (CLI11 takes one that is too large for the largest, and of others it
  /// says that it could not convert them.)
  option& whole();
  option& whole(std::int64_t low, std::int64_t high);
  /// A machine's version.
  option& version();
  /// What help calls the value.
  option& type_name(const char* name);
  /// Help tells the default.
  option& shows_default();
  option& from_environment(const char* name);
  /// Several, with commas between them.
  option& separated();
  /// May be given several times, with so many values each.
  option& again(int values = 1);

  /// Whether the command line has it.
  bool given() const;

private:
  CLI::Option* it_;
};

/// What the command line asks for, once all of it is parsed.
using action = std::function<int(const globals&)>;
/// Looks at what has been parsed; throws by `bad_option` or `missing`.
using condition = std::function<void()>;

/// Where all commands put what was asked for.
struct asked_for {
  globals global;
  action chosen;
};

/// A command, or gdctl itself.
class parser {
public:
  parser(CLI::App& it, asked_for& into) noexcept : it_(&it), into_(&into) {
    // nop
  }

  parser add_command(const std::string& name, const std::string& title);

  /// Strings, whole numbers, either as an optional, and lists of strings.
  template <class T>
  option add_option(const char* name, T& to, const char* help);
  option add_flag(const char* name, bool& to, const char* help);

  /// It wants one of its commands, or may have one.
  void requires_command(bool always = true);
  /// Whatever else is given is passed over.
  void takes_anything();

  /// What the options do not say by themselves: text in paragraphs, where lines that begin
  /// with two blanks stay as they are, and examples.
  void describe(std::string_view text,
                const std::vector<std::string_view>& examples,
                std::string_view exit_codes = exit_code_help);

  /// What it does, unless one of its commands was chosen.
  void runs(action what, condition checked = {});

  template <class T, class Arg>
  void runs(const std::shared_ptr<T>& opts, int (*what)(const globals&, Arg),
            condition checked = {}) {
    runs([opts, what](const globals& global) { return what(global, *opts); },
         std::move(checked));
  }
  template <class T, class Arg>
  void runs(const std::shared_ptr<T>& opts, int (*what)(Arg),
            condition checked = {}) {
    runs([opts, what](const globals&) { return what(*opts); },
         std::move(checked));
  }

  /// For those who walk through what it takes.
  const CLI::App& tree() const noexcept {
    return *it_;
  }

private:
  CLI::App* it_;
  asked_for* into_;
};

/// A command is added to gdctl, or to another command.
using add_command = void (*)(parser& to);

void add_migrate(parser& app);
void add_insert(parser& app);
void add_signal(parser& app);
void add_transition(parser& app);
void add_show(parser& app);
void add_wait(parser& app);
void add_why(parser& app);
void add_history(parser& app);
void add_rewind(parser& app);
void add_fork(parser& app);
void add_prune(parser& app);
void add_in_step(parser& app);
void add_stats(parser& app);
void add_machines(parser& app);
void add_graph(parser& app);
void add_nodes(parser& app);
void add_queues(parser& app);
void add_inbox(parser& app);
void add_pause(parser& app);
void add_resume(parser& app);
void add_list(parser& app);
void add_jobs(parser& app);
/// retry, stop, run-now, move, upgrade, discard, replace, erase.
void add_verbs(parser& app);
void add_tls(parser& app);
void add_secret(parser& app);
void add_top(parser& app);
void add_check(parser& app);
void add_serve(parser& app);
/// manual, completion: of all that `app` has when they run.
void add_pages(parser& app);

/// The options of an address; ID is the next positional argument.
struct address_options {
  option id;
  option key;
  option key_hex;
};
address_options add_address(parser& to, address& which);

/// Once all is parsed: with a key there is no ID, and what comes behind it, `next`, has
/// taken its place. Throws if one of them is missing; `name` is what help calls that.
void take_id(address& which, std::string* next = nullptr,
             const char* name = "");

/// What an option says does not go with the others.
[[noreturn]] void bad_option(const char* name, const char* why);
/// An option is needed.
[[noreturn]] void missing(const char* name);

/// Parses, and does what is asked for: the exit code.
int run_command_line(int argc, char** argv,
                     const std::vector<add_command>& commands);

} // namespace gdctl
