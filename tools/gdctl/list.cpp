#include "args.hpp"
#include "common.hpp"
#include "filter.hpp"
#include "service.hpp"
#include "table.hpp"

#include <gd/client.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gdctl {

bool filter_options::empty() const {
  return which == gd::filter{} && older.empty();
}

void add_filter(parser& to, filter_options& opts, bool placed) {
  to.add_option(placed ? "MACHINE,--machine" : "--machine", opts.which.fsm,
                "Those of this machine");
  to.add_option("--machine-version", opts.which.version, "Of this version")
    .version();
  to.add_option("--step", opts.which.step, "At this step");
  to.add_option("--status", opts.which.status, "In this status")
    .one_of(statuses);
  to.add_option("--queue", opts.which.queue, "In this queue");
  to.add_option("--older", opts.older,
                "Not changed for so long: 90s, 10m, 2h, 7d");
  to.add_option("--failure", opts.which.failure,
                "With this text in their last error");
}

gd::result<void> check_status(const std::string& status) {
  if (status.empty()
      || std::find(statuses.begin(), statuses.end(), status) != statuses.end())
    return {};
  return bad_usage(fmt::format("status: expected one of {}, got {}",
                               fmt::join(statuses, ", "), json_string(status)));
}

gd::result<void> read_filter(filter_options& opts) {
  if (opts.older.empty())
    return {};
  auto us = parse_delay("--older", opts.older);
  if (!us)
    return us.error();
  opts.which.older_than_us = *us;
  return {};
}

namespace {

/// Pages that are asked for until there are enough: each looks at 5,000 instances.
constexpr int most_pages = 40;

struct list_options {
  filter_options which;
  gd::list_query what;
  std::int64_t before = 0;
  bool as_json = false;
};

std::string text_of(const std::vector<gd::list_row>& rows) {
  std::vector<cells> table{{"id", "machine", "step", "status", "queue",
                            "priority", "attempt", "changed", "last error"}};
  for (const auto& x : rows)
    table.push_back(
      {std::to_string(x.id),
       fmt::format("{} v{}", gd::printable(x.fsm), x.version),
       gd::printable(x.step), gd::printable(x.status), gd::printable(x.queue),
       std::to_string(x.priority), std::to_string(x.attempt),
       time_text(x.updated_at_us),
       gd::printable(gd::clean_text(x.last_error.value_or(""), 100))});
  return table_of(table, "><<<<>><<");
}

int list(const globals& global, list_options& opts) {
  if (auto ok = read_filter(opts.which); !ok)
    return fail(ok.error());
  auto db = open_database(global, does::read);
  if (!db)
    return fail(db.error());
  auto ask = opts.what;
  ask.which = opts.which.which;
  std::vector<gd::list_row> rows;
  for (int pages = 0; pages < most_pages; ++pages) {
    auto page = db->list(ask);
    if (!page)
      return fail(page.error());
    rows.insert(rows.end(), page->rows.begin(), page->rows.end());
    ask.before = page->next;
    ask.limit = opts.what.limit - static_cast<std::int32_t>(rows.size());
    if (!ask.before || ask.limit == 0)
      break;
  }
  std::string text;
  if (opts.as_json)
    for (const auto& x : rows)
      text += *json_line(x);
  else
    text = text_of(rows);
  auto code = print(text);
  if (rows.empty() && !ask.before && code == ok)
    return nothing_found(db->unknown(ask.which));
  if (ask.before)
    complain(
      fmt::format("gdctl: there may be more: --before {}\n", *ask.before));
  return code;
}

/// Of a command that lists: what it has beside its filter.
void add_paging(parser& sub, const std::shared_ptr<list_options>& opts) {
  auto before = sub
                  .add_option("--before", opts->before,
                              "Only instances with ids below this one")
                  .whole();
  sub.add_option("--limit", opts->what.limit, "How many, the newest first")
    .whole(1, 1'000)
    .shows_default();
  sub.add_flag("--json", opts->as_json, "A JSON object for each");
  sub.runs(opts, list, [=] {
    if (before.given())
      opts->what.before = opts->before;
  });
}

} // namespace

void add_list(parser& app) {
  auto opts = std::make_shared<list_options>();
  auto sub = app.add_command("list", "List instances, the newest first");
  add_filter(sub, opts->which, true);
  add_paging(sub, opts);
  sub.describe(
    "Looks at some 200,000 instances at the most, and says where to go on. "
    "Those that have\nfailed, or execute, are found among any number.",
    {"gdctl list Checkout --status failed --failure 'no stock'",
     "gdctl list --status runnable --older 10m",
     "gdctl list --machine Checkout --json | jq .id"});
}

void add_in_step(parser& app) {
  auto opts = std::make_shared<list_options>();
  auto sub = app.add_command("in-step", "List the instances in a step");
  sub.add_option("MACHINE,--machine", opts->which.which.fsm, "Its name")
    .required();
  sub.add_option("STEP,--step", opts->which.which.step, "Its step").required();
  sub
    .add_option("--status", opts->which.which.status,
                "Only those in this status")
    .one_of(statuses);
  add_paging(sub, opts);
  sub.describe(
    "As gdctl list with --machine and --step.",
    {"gdctl in-step Checkout await_payment --status awaiting_signal"});
}

} // namespace gdctl
