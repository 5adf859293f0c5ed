#include "common.hpp"

#include "lines.hpp"

#include <gd/cipher.hpp>
#include <gd/instance.hpp>
#include <gd/json.hpp>
#include <gd/operate.hpp>
#include <gd/time.hpp>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <utility>

namespace gdctl {

namespace {

using std::chrono::microseconds;
using time_point = std::chrono::sys_time<microseconds>;

} // namespace

exit_code exit_code_of(gd::errc code) noexcept {
  switch (code) {
    case gd::errc::invalid_argument:
      return usage;
    case gd::errc::unavailable:
    case gd::errc::unknown_fate:
      return unreachable;
    case gd::errc::schema_mismatch:
      return bad_schema;
    case gd::errc::not_found:
    case gd::errc::erased:
      return not_found;
    case gd::errc::timed_out:
      return timed_out;
    default:
      return refused;
  }
}

void complain(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int fail(const gd::error& why) {
  auto state = why.sqlstate.empty() ? "" : fmt::format(" [{}]", why.sqlstate);
  if (why.sqlstate == gd::unknown_name)
    state = "; --force does it all the same";
  complain(fmt::format("gdctl: {}{}\n", gd::printable(why.message), state));
  return exit_code_of(why.code);
}

int print(std::string_view text, int code, std::string_view told) {
  auto number = write_out(text);
  if (number == 0)
    return code;
  if (number == EPIPE && told.empty()) // as with any command before `head`
    interruptions::die_of(SIGPIPE);
  auto why = system_error("stdout", number);
  if (!told.empty())
    why.message += fmt::format("; {}", told);
  code = fail(why);
  if (number == EPIPE)
    interruptions::die_of(SIGPIPE);
  return code;
}

gd::error bad_usage(std::string text) {
  return {gd::errc::invalid_argument, std::move(text), {}};
}

bool may_tell_a_secret(std::string_view text) noexcept {
  // CLI11's own messages say " = ".
  for (auto i = text.find('='); i != text.npos; i = text.find('=', i + 1))
    if (i == 0 || text[i - 1] != ' ')
      return true;
  return text.find("://") != text.npos;
}

gd::result<gd::pq::options> globals::connection() const {
  if (!gateway.empty())
    return bad_usage("--gateway: this command needs the database itself, which "
                     "no gateway hands on: expected --database");
  return gd::pq::options{
    .database = database, .schema = schema, .application_name = "gdctl"};
}

gd::result<std::int64_t> parse_number(std::string_view what,
                                      std::string_view text) {
  std::int64_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(),
                                       number);
  if (failed == std::errc{} && end == text.data() + text.size())
    return number;
  return bad_usage(fmt::format("{} number, got {}", what,
                               may_tell_a_secret(text) ? "something else"
                                                       : json_string(text)));
}

gd::result<std::int64_t> parse_id(std::string_view text) {
  return parse_number("ID: expected an instance's", text);
}

static gd::result<std::string> parse_hex(std::string_view text) {
  if (text.starts_with("\\x"))
    text.remove_prefix(2);
  std::string bytes;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    unsigned char byte = 0;
    auto [end, failed] = std::from_chars(text.data(), text.data() + 2, byte,
                                         16);
    if (failed != std::errc{} || end != text.data() + 2)
      break;
    bytes += static_cast<char>(byte);
  }
  if (!text.empty())
    return bad_usage("--key-hex: expected pairs of hexadecimal digits");
  return bytes;
}

gd::result<void> read_address(const address& which, std::int64_t& id,
                              std::optional<std::string>& key) {
  if (which.key_hex) {
    auto bytes = parse_hex(*which.key_hex);
    if (!bytes)
      return bytes.error();
    key = std::move(*bytes);
  } else if (which.key) {
    key = which.key;
  } else {
    auto number = parse_id(which.id);
    if (!number)
      return number.error();
    id = *number;
  }
  return {};
}

std::string address_json(std::string_view id_name, std::int64_t id,
                         const std::optional<std::string>& key) {
  return key ? fmt::format("\"key\":{}", json_string(gd::key_text(*key)))
             : fmt::format("\"{}\":{}", id_name, id);
}

gd::result<std::int64_t> parse_delay(std::string_view what,
                                     std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 6> units{{
    {"us", 1},
    {"ms", 1'000},
    {"s", 1'000'000},
    {"m", 60'000'000},
    {"h", 3'600'000'000},
    {"d", 86'400'000'000},
  }};
  std::int64_t count = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(),
                                       count);
  if (failed == std::errc{} && count >= 0)
    for (auto [name, us] : units)
      if (std::string_view{end, text.data() + text.size()} == name
          && count <= gd::longest_delay.count() / us)
        return count * us;
  return bad_usage(fmt::format("{}: expected a whole number with a unit (us, "
                               "ms, s, m, h, d), at most 100 years, got {}",
                               what, json_string(text)));
}

gd::result<std::int64_t> parse_time(std::string_view what,
                                    std::string_view text) {
  auto time = gd::from_json_strict<time_point>(json_string(text));
  if (time && time->time_since_epoch().count() >= 0)
    return std::int64_t{time->time_since_epoch().count()};
  return bad_usage(fmt::format("{}: expected a time since 1970 like "
                               "2030-01-31T12:00:00Z, got {}",
                               what, json_string(text)));
}

std::string time_text(std::int64_t us) {
  auto text = gd::to_json(time_point{microseconds{us}}).text();
  return text.size() > 2 ? text.substr(1, text.size() - 2)
                         : fmt::format("{} us since 1970", us);
}

std::string json_string(std::string_view text) {
  constexpr auto all = std::numeric_limits<std::size_t>::max();
  return gd::printable(gd::to_json(gd::clean_text(text, all)).text());
}

std::string content_text(std::string_view text) {
  auto how = gd::encryption_of(text);
  if (!how)
    return std::string{text};
  return fmt::format("(encrypted with key {}, {}{} bytes)", how->key,
                     how->whole ? "" : "more than ", how->bytes);
}

std::string content_text(const gd::json& x) {
  return x.ok() ? content_text(x.text()) : '(' + x.failure()->message + ')';
}

} // namespace gdctl
