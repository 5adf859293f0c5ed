// What lies in an instance's inbox, and what is done with a signal that no step can take.

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

struct repair_options {
  address which;
  gd::command what;
  std::string signal;
  std::string payload;
};

int repair(const globals& global, repair_options& opts) {
  auto& what = opts.what;
  if (auto ok = read_address(opts.which, what.target, what.key); !ok)
    return fail(ok.error());
  auto number = parse_number("SIGNAL: expected a signal's", opts.signal);
  if (!number)
    return fail(number.error());
  what.signal = *number;
  if (what.what == gd::act::replace)
    what.payload = gd::json::raw(opts.payload);
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto now = db->operate(what);
  if (!now)
    return fail(now.error());
  auto line = json_line(*now);
  return print(*line, ok, fmt::format("it is done with instance {}", now->id));
}

CLI::App* add_repair(CLI::App& app, const globals& global, action& chosen,
                     const std::shared_ptr<repair_options>& opts,
                     const char* name, const char* help) {
  auto* sub = app.add_subcommand(name, help);
  add_address(*sub, opts->which);
  sub->add_option("SIGNAL", opts->signal, "Its number, as gdctl inbox tells");
  sub->add_option("--reason", opts->what.reason, "Why, for the history");
  sub->add_option("--by", opts->what.by,
                  "Who does it, for the history; default: the database's user");
  sub->callback([=, &global, &chosen] {
    take_id(opts->which, &opts->signal, "SIGNAL");
    chosen = [opts, &global] { return repair(global, *opts); };
  });
  return sub;
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

  auto gone = std::make_shared<repair_options>();
  gone->what.what = gd::act::discard;
  describe(*add_repair(app, global, chosen, gone, "discard",
                       "Take a signal out of an inbox"),
           "As if a step had consumed it: a dedup key is remembered. Of an "
           "instance that does not\nexecute, and is not done; one that has "
           "failed for it can be tried again then.\nPrints "
           "{\"id\":7,\"seq\":4,\"status\":\"...\",\"executed\":false}.",
           {"gdctl discard 7 12 --reason 'sent twice' --by ann"});

  auto mended = std::make_shared<repair_options>();
  mended->what.what = gd::act::replace;
  auto* replace = add_repair(app, global, chosen, mended, "replace",
                             "Give a signal in an inbox another payload");
  replace->add_option("--payload", mended->payload, "JSON")->required();
  describe(*replace,
           "It stays where it is, with its name and dedup key. Of an instance "
           "that does not execute,\nand is not done; one that waits for its "
           "name wakes, and one that has failed for it can be\ntried again "
           "then. Prints {\"id\":7,\"seq\":4,\"status\":\"...\","
           "\"executed\":false}.",
           {"gdctl replace 7 12 --payload '{\"amount\": 100}' --reason 'a "
            "text in the place of a number'",
            "gdctl retry 7"});
}

} // namespace gdctl
