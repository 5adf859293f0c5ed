#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/json.hpp>
#include <gd/options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl {

enum exit_code : int {
  ok = 0,
  refused = 1,
  usage = 2,
  unreachable = 3,
  bad_schema = 4,
  not_found = 5,
  has_failed = 6,
  timed_out = 7,
};

/// What the help says about them.
inline constexpr std::string_view exit_code_help
  = "Exit codes:\n"
    "  0  all is well\n"
    "  1  refused: some rows, or the whole request, by the database\n"
    "  2  usage: an option, argument or file that cannot be used\n"
    "  3  the database, or the gateway, cannot be reached, or was lost\n"
    "  4  the schema is missing, or this gdctl cannot work with it\n"
    "  5  there is no such instance, entry of its history, or signal in its\n"
    "     inbox; for who sends a signal, or makes a transition, that is 1\n";

exit_code exit_code_of(gd::errc code) noexcept;

/// Prints a text to stderr. If that cannot be written to, nobody can be told.
void complain(std::string_view text);

/// Prints the sentence to stderr and returns the exit code that goes with it.
int fail(const gd::error& why);

/// Prints a text of whole lines to stdout, at once, and returns `code`. If it
/// cannot be written, says so on stderr, together with what must not be lost, and
/// returns the exit code that goes with that. Where its reader has ended and nothing
/// is lost, that is the end, without a word.
int print(std::string_view text, int code = ok, std::string_view told = {});

gd::error bad_usage(std::string text);

/// Whether a text repeats what may be a piece of a connection string, such as
/// one with spaces that was not quoted for the shell.
bool may_tell_a_secret(std::string_view text) noexcept;

/// Of instances.
inline const std::vector<std::string> statuses{
  "runnable", "executing", "awaiting_signal", "done", "failed"};

/// The options of all commands.
struct globals {
  std::string database;
  std::string schema = "public";
  /// Addresses of an engine's gateway, in the place of a database; empty: none.
  std::vector<std::string> gateway;
  /// The file of what is shown at those of them that are ports.
  std::string secret;

  /// The database, for what no gateway answers: an error where one is named.
  gd::result<gd::pq::options> connection() const;
};

/// A whole number, as the command line gives it. `what` begins the error's sentence.
gd::result<std::int64_t> parse_number(std::string_view what,
                                      std::string_view text);

/// An instance's id, as the command line gives it.
gd::result<std::int64_t> parse_id(std::string_view text);

/// Whom a command is about: an instance's number, or the unique key that it has.
struct address {
  std::string id;
  std::optional<std::string> key;
  std::optional<std::string> key_hex;

  bool by_key() const noexcept {
    return key || key_hex;
  }
};

/// Fills in a request's id or key.
gd::result<void> read_address(const address& which, std::int64_t& id,
                              std::optional<std::string>& key);

/// How answers name it: "target":7, or "key":"order 42". `id` is the number's name.
std::string address_json(std::string_view id_name, std::int64_t id,
                         const std::optional<std::string>& key);

/// "250ms", "10s", "5m", "2h" or "60d" in microseconds. `what` begins the
/// error's sentence.
gd::result<std::int64_t> parse_delay(std::string_view what,
                                     std::string_view text);

/// An RFC 3339 time in microseconds since 1970.
gd::result<std::int64_t> parse_time(std::string_view what,
                                    std::string_view text);

/// The reverse, in UTC.
std::string time_text(std::int64_t us);

/// A string's JSON form, whatever it holds.
std::string json_string(std::string_view text);

/// A value as a line of JSON. An error: it has a state that could not be read.
template <class T>
gd::result<std::string> json_line(const T& x) {
  auto json = gd::to_json(x);
  if (!json.ok())
    return *json.failure();
  return gd::printable(json.text()) + '\n';
}

/// What is shown of a stored value's text, which may be cut: it, or how it is encrypted.
std::string content_text(std::string_view text);

/// The same, or why there is none.
std::string content_text(const gd::json& x);

} // namespace gdctl
