// Waits for an instance to end.

#include "args.hpp"
#include "common.hpp"
#include "service.hpp"

#include <gd/json.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gdctl {

namespace {

constexpr std::string_view wait_exit_codes
  = "Exit codes:\n"
    "  0  it is done\n"
    "  1  refused by the database\n"
    "  2  usage: an option or argument that cannot be used\n"
    "  3  the database, or the gateway, cannot be reached, or was lost\n"
    "  4  the schema is missing, or this gdctl cannot work with it\n"
    "  5  there is no such instance, or it was deleted meanwhile\n"
    "  6  it has failed\n"
    "  7  it has not ended in the time that there was\n";

constexpr std::int64_t longest_wait = 86'400'000'000; // microseconds

struct wait_options {
  address which;
  std::string timeout = "1d";
  bool as_json = false;
};

std::string text_of(const gd::awaited& x) {
  std::string text;
  auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:14} {}\n", name, gd::printable(value));
  };
  line("instance", std::to_string(x.id));
  line("machine", fmt::format("{} v{}", x.fsm, x.version));
  line("status", x.status);
  if (x.result)
    line("result", content_text(*x.result));
  if (x.failure)
    line("failure", *x.failure);
  return text;
}

int wait_for_end(const globals& global, const wait_options& opts) {
  gd::await_result what;
  if (auto ok = read_address(opts.which, what.id, what.key); !ok)
    return fail(ok.error());
  auto within = parse_delay("--timeout", opts.timeout);
  if (!within)
    return fail(within.error());
  if (*within > longest_wait)
    return fail(bad_usage("--timeout: expected at most 1d, got "
                          + json_string(opts.timeout)));
  what.within_us = *within;
  auto db = open_service(global, does::read);
  if (!db)
    return fail(db.error());
  auto end = (*db)->await_result(what);
  if (!end) {
    auto code = fail(end.error());
    return end.error().code == gd::errc::no_such_target ? not_found : code;
  }
  int code = end->status == "done" ? ok : has_failed;
  if (!opts.as_json)
    return print(text_of(*end), code);
  auto line = json_line(*end);
  return line ? print(*line, code) : fail(line.error());
}

} // namespace

void add_wait(parser& app) {
  auto opts = std::make_shared<wait_options>();
  auto sub = app.add_command("wait", "Wait until an instance has ended");
  add_address(sub, opts->which);
  sub.add_option("--timeout", opts->timeout,
                 "How long, like 30s; at most 1d, which is the default");
  sub.add_flag("--json", opts->as_json,
               "One JSON object: id, fsm, version, status, result, failure, "
               "seq");
  sub.describe(
    "Tells how it has ended, at once if it has ended before. A key is "
    "looked for once: it is that\ninstance's end which is awaited, also "
    "where the key goes to another one.",
    {"gdctl wait 7", "gdctl wait --key 'order 42' --timeout 30s",
     "gdctl wait 7 --json | jq .result"},
    wait_exit_codes);
  sub.runs(opts, wait_for_end, [opts] { take_id(opts->which); });
}

} // namespace gdctl
