// What lies in an instance's inbox.

#include "args.hpp"
#include "common.hpp"
#include "service.hpp"
#include "table.hpp"

#include <gd/client.hpp>
#include <gd/json.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gdctl {

namespace {

/// Signals that are shown at the most.
constexpr std::int32_t most_shown = 1'000;

struct inbox_options {
  address which;
  bool all = false;
  bool as_json = false;
};

std::string is(const gd::inbox_row& x) {
  if (x.consumed_at_us)
    return "consumed " + time_text(*x.consumed_at_us);
  return x.undecodable ? "does not decode" : x.seen ? "seen" : "waits";
}

std::string payload_of(const gd::inbox_row& x) {
  return x.payload ? content_text(*x.payload) : "(very long)";
}

int show_inbox(const globals& global, const inbox_options& how) {
  gd::look_up whom;
  if (auto ok = read_address(how.which, whom.id, whom.key); !ok)
    return fail(ok.error());
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto now = db->look_up(whom);
  if (!now)
    return fail(now.error());
  auto found = db->inbox(now->id, most_shown, how.all);
  if (!found)
    return fail(found.error());
  std::string lines;
  std::vector<cells> rows{
    {"signal", "name", "dedup key", "since", "is", "payload"}};
  for (const auto& x : *found) {
    if (how.as_json) {
      auto line = json_line(x);
      if (!line)
        return fail(line.error());
      lines += *line;
    } else {
      rows.push_back({std::to_string(x.id), gd::printable(x.name),
                      gd::printable(x.dedup_key.value_or("-")),
                      time_text(x.inserted_at_us), is(x),
                      gd::printable(payload_of(x))});
    }
  }
  return print(how.as_json ? lines : table_of(rows, ">     "));
}

} // namespace

void add_inbox(parser& app) {
  auto opts = std::make_shared<inbox_options>();
  auto sub = app.add_command("inbox", "Show the signals that wait for an "
                                      "instance");
  add_address(sub, opts->which);
  sub.add_flag("--all", opts->all,
               "Also those that were consumed and have a dedup key");
  sub.add_flag("--json", opts->as_json, "JSON, a line for each");
  sub.describe(
    "Those that no step has consumed, the oldest first, 1,000 at the "
    "most, with the beginnings\nof their payloads. seen: its step has "
    "looked at it, and awaits another one of that name.\nDoes not "
    "decode: as the last failure tells; whatever waits has not been "
    "tried, or not failed.",
    {"gdctl inbox 7", "gdctl inbox 7 --all",
     "gdctl inbox --key 'order 42' --json | jq .undecodable"});
  sub.runs(opts, show_inbox, [opts] { take_id(opts->which); });
}

} // namespace gdctl
