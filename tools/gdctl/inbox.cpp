// What lies in an instance's inbox.

#include "common.hpp"
#include "pages.hpp"
#include "service.hpp"
#include "table.hpp"

#include <gd/client.hpp>
#include <gd/json.hpp>

#include <CLI/CLI.hpp>
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

int show_inbox(const globals& global, const address& which, bool as_json) {
  gd::look_up whom;
  if (auto ok = read_address(which, whom.id, whom.key); !ok)
    return fail(ok.error());
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto now = db->look_up(whom);
  if (!now)
    return fail(now.error());
  auto found = db->inbox(now->id, most_shown);
  if (!found)
    return fail(found.error());
  std::string lines;
  std::vector<cells> rows{{"signal", "name", "dedup key", "since", "payload"}};
  for (const auto& x : *found) {
    if (as_json) {
      auto line = json_line(x);
      if (!line)
        return fail(line.error());
      lines += *line;
    } else {
      rows.push_back({std::to_string(x.id), gd::printable(x.name),
                      gd::printable(x.dedup_key.value_or("-")),
                      time_text(x.inserted_at_us),
                      gd::printable(x.payload.value_or("(very long)"))});
    }
  }
  return print(as_json ? lines : table_of(rows, ">    "));
}

} // namespace

void add_inbox(CLI::App& app, const globals& global, action& chosen) {
  struct options {
    address which;
    bool as_json = false;
  };
  auto opts = std::make_shared<options>();
  auto* sub = app.add_subcommand("inbox", "Show the signals that wait for an "
                                          "instance");
  add_address(*sub, opts->which);
  sub->add_flag("--json", opts->as_json, "JSON, a line for each");
  describe(*sub,
           "Those that no step has consumed, the oldest first, 1,000 at the "
           "most, with the beginnings\nof their payloads.",
           {"gdctl inbox 7", "gdctl inbox --key 'order 42' --json"});
  sub->callback([=, &global, &chosen] {
    take_id(opts->which);
    chosen = [opts, &global] {
      return show_inbox(global, opts->which, opts->as_json);
    };
  });
}

} // namespace gdctl
