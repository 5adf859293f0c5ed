#include "args.hpp"
#include "common.hpp"
#include "machine_line.hpp"
#include "service.hpp"
#include "table.hpp"

#include <gd/client.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::literals;

namespace gdctl {

std::vector<machine_line> machine_lines(std::vector<gd::machine_row> known,
                                        const gd::counted& counts) {
  std::vector<machine_line> lines;
  lines.reserve(known.size());
  for (auto& x : known)
    lines.push_back({.machine = std::move(x)});
  for (const auto& x : counts.rows) {
    auto found = std::find_if(lines.begin(), lines.end(), [&x](const auto& y) {
      return y.machine.fsm == x.fsm && y.machine.version == x.version;
    });
    if (found == lines.end())
      found = lines.insert(lines.end(),
                           {.machine = {.fsm = x.fsm, .version = x.version}});
    found->instances[x.status] += x.instances;
    if (x.estimated)
      found->estimated.insert(x.status);
  }
  if (counts.sampled) // no index counts these: few may have been overlooked
    for (auto& x : lines)
      x.estimated.insert({"awaiting_signal", "done"});
  return lines;
}

namespace {

std::string yes_or_no(bool x) {
  return x ? "yes" : "no";
}

template <class T>
std::string lines_of(const std::vector<T>& rows) {
  std::string lines;
  for (const auto& x : rows)
    lines += *json_line(x);
  return lines;
}

std::string joined(const std::vector<std::string>& xs) {
  if (xs.empty())
    return "-";
  return gd::printable(fmt::format("{}", fmt::join(xs, ", ")));
}

// -- stats --------------------------------------------------------------------

std::string text_of(const std::vector<gd::stats_row>& rows) {
  std::vector<cells> table{{"queue", "machine", "version", "status",
                            "instances", "future", "held back", "served"}};
  for (const auto& x : rows)
    table.push_back({gd::printable(x.queue), gd::printable(x.fsm),
                     std::to_string(x.version), x.status,
                     std::to_string(x.instances), std::to_string(x.future),
                     std::to_string(x.held_back), yes_or_no(x.served)});
  return table_of(table, "<<><>>><");
}

int stats(const globals& global, bool as_json) {
  auto db = open_service(global, does::read);
  if (!db)
    return fail(db.error());
  auto rows = (*db)->stats();
  if (!rows)
    return fail(rows.error());
  return print(as_json ? lines_of(*rows) : text_of(*rows));
}

// -- nodes --------------------------------------------------------------------

std::string text_of(const std::vector<gd::node_row>& rows) {
  std::vector<cells> table{{"node", "lives", "host", "process", "slots",
                            "queues", "machines", "library", "started",
                            "last seen"}};
  for (const auto& x : rows)
    table.push_back({gd::printable(x.node), yes_or_no(x.lives),
                     gd::printable(x.host), std::to_string(x.process),
                     std::to_string(x.slots), joined(x.queues),
                     joined(x.machines), gd::printable(x.library),
                     time_text(x.started_at_us), time_text(x.seen_at_us)});
  return table_of(table, "<<<>><<<<<");
}

std::string text_of(const std::vector<gd::not_served_row>& rows) {
  std::string text;
  for (const auto& x : rows)
    text += fmt::format("{} v{} in queue {} is served by nobody: {}\n",
                        gd::printable(x.fsm), x.version, gd::printable(x.queue),
                        x.version_served
                          ? "nodes that have it serve other queues"
                          : "no node that lives has it");
  return text;
}

int nodes(const globals& global, bool as_json) {
  auto db = open_database(global, does::read);
  if (!db)
    return fail(db.error());
  auto rows = db->nodes();
  if (!rows)
    return fail(rows.error());
  if (as_json)
    return print(lines_of(*rows));
  auto nobody = db->not_served();
  if (!nobody)
    return fail(nobody.error());
  return print(text_of(*rows) + text_of(*nobody));
}

// -- queues -------------------------------------------------------------------

int queues(const globals& global, bool as_json) {
  auto db = open_database(global, does::read);
  if (!db)
    return fail(db.error());
  auto rows = db->queues();
  if (!rows)
    return fail(rows.error());
  return print(as_json ? lines_of(*rows) : table_of(*rows));
}

// -- machines -----------------------------------------------------------------

std::string served_by(const gd::machine_row& x) {
  if (x.nodes > 0)
    return fmt::format("{} node{}", x.nodes, x.nodes == 1 ? "" : "s");
  if (x.last_served_us)
    return "nobody since " + time_text(*x.last_served_us);
  return "nobody yet";
}

std::string text_of(const std::vector<machine_line>& lines) {
  std::vector<cells> table{{"machine", "version", "inserts", "served by",
                            "runnable", "executing", "awaiting", "done",
                            "failed"}};
  for (const auto& [x, instances, estimated] : lines) {
    auto& row = table.emplace_back(cells{gd::printable(x.fsm),
                                         std::to_string(x.version),
                                         x.pinned    ? "pinned"
                                         : x.retired ? "retired"
                                                     : "",
                                         served_by(x)});
    for (const auto& status : statuses) {
      auto found = instances.find(status);
      auto count = found != instances.end() ? found->second : 0;
      row.push_back((estimated.contains(status) ? "~" : "")
                    + std::to_string(count));
    }
  }
  return table_of(table, "<><<>>>>>");
}

int machines(const globals& global, bool as_json) {
  auto db = open_database(global, does::read);
  if (!db)
    return fail(db.error());
  auto known = db->machines();
  if (!known)
    return fail(known.error());
  auto counts = db->counts();
  if (!counts)
    return fail(counts.error());
  auto lines = machine_lines(std::move(*known), *counts);
  return print(as_json ? lines_of(lines) : text_of(lines));
}

struct named_version {
  std::string fsm{};
  std::int32_t version = 0;
  bool undo = false;
};

int retire(const globals& global, const named_version& what) {
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  if (auto ok = db->retire(what.fsm, what.version, !what.undo); !ok)
    return fail(db->unknown({.fsm = what.fsm, .version = what.version}),
                ok.error());
  return print(fmt::format("{} v{} {}\n", gd::printable(what.fsm), what.version,
                           what.undo
                             ? "takes inserts again"
                             : "takes no more inserts; its instances go on"));
}

int pin(const globals& global, const named_version& what) {
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  if (auto ok = db->pin(what.fsm, what.undo ? 0 : what.version); !ok)
    return fail(db->unknown({.fsm = what.fsm, .version = what.version}),
                ok.error());
  auto takes = what.undo ? "what is served" : fmt::format("v{}", what.version);
  return print(fmt::format("{}: inserts that name no version take {}\n",
                           gd::printable(what.fsm), takes));
}

void add_retire(parser& to) {
  auto opts = std::make_shared<named_version>();
  auto sub = to.add_command("retire", "Let a version take no more inserts");
  sub.add_option("MACHINE,--machine", opts->fsm, "Its name").required();
  sub.add_option("VERSION", opts->version, "Its version").required().version();
  sub.add_flag("--undo", opts->undo, "Let it take them again");
  sub.describe("Its instances go on.", {"gdctl machines retire Checkout 2"});
  sub.runs(opts, retire);
}

void add_pin(parser& to) {
  auto opts = std::make_shared<named_version>();
  auto sub = to.add_command("pin",
                            "Let inserts that name no version take this one");
  sub.add_option("MACHINE,--machine", opts->fsm, "Its name").required();
  auto version
    = sub.add_option("VERSION", opts->version, "Its version").version();
  auto undo = sub.add_flag("--undo", opts->undo,
                           "Let them take what is served");
  sub.describe(
    "Until it is undone, also on programs that have a newer one.",
    {"gdctl machines pin Checkout 1", "gdctl machines pin Checkout --undo"});
  sub.runs(opts, pin, [=] {
    if (!version.given() && !undo.given())
      bad_option("pin", "expected a VERSION, or --undo");
    if (version.given() && undo.given())
      bad_option("pin", "expected --undo without a VERSION: a "
                        "machine has one pin at most");
  });
}

} // namespace

void add_stats(parser& app) {
  auto as_json = std::make_shared<bool>(false);
  auto sub = app.add_command(
    "stats", "Count the instances by queue, machine and status");
  sub.add_flag("--json", *as_json, "A JSON object for each line of the table");
  sub.describe(
    "Reads the whole table. \"future\": of the instances, those that are\nnot "
    "to start yet. \"held back\": those that wait for another of their "
    "partition key.\n\"served\": whether a node that lives runs them.",
    {"gdctl stats", "gdctl stats --json | jq 'select(.status == \"failed\")'"});
  sub.runs(as_json, stats);
}

void add_nodes(parser& app) {
  auto as_json = std::make_shared<bool>(false);
  auto sub = app.add_command("nodes",
                             "List the nodes, and what none of them serves");
  sub.add_flag("--json", *as_json, "A JSON object for each node");
  sub.describe(
    "A node that stops leaves the list; one that was killed is in it "
    "for a day.",
    {"gdctl nodes", "gdctl nodes --json | jq 'select(.lives)'"});
  sub.runs(as_json, nodes);
}

void add_queues(parser& app) {
  auto as_json = std::make_shared<bool>(false);
  auto sub = app.add_command(
    "queues",
    "List the queues that are served, paused, or have something to do");
  sub.add_flag("--json", *as_json, "A JSON object for each queue");
  sub.describe(
    "Counts at most 10,000 that are due, are to begin later, or execute "
    "(two queues\nor more share 10,000): then with a +. What awaits signals "
    "no index has by queue:\ngdctl machines estimates it by version.",
    {"gdctl queues", "gdctl queues --json | jq 'select(.paused)'"});
  sub.runs(as_json, queues);
}

void add_machines(parser& app) {
  auto as_json = std::make_shared<bool>(false);
  auto sub = app.add_command(
    "machines", "List the machines' versions, or choose what inserts take");
  sub.add_flag("--json", *as_json, "A JSON object for each version");
  sub.requires_command(false);
  sub.describe(
    "Inserts that name no version take the pinned one; else the newest "
    "that a\nnode which lives serves; else the one that was served "
    "last. Exact counts\nwhere there are few, or the table is small; "
    "~ is an estimate: gdctl stats counts all.",
    {"gdctl machines", "gdctl machines pin Checkout 1",
     "gdctl machines retire Checkout 2"});
  add_retire(sub);
  add_pin(sub);
  sub.runs(as_json, machines);
}

} // namespace gdctl
