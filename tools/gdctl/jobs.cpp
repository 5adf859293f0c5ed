#include "args.hpp"
#include "common.hpp"
#include "filter.hpp"
#include "service.hpp"
#include "table.hpp"

#include <gd/client.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace gdctl {

namespace {

/// How often a job is looked at that another works on.
constexpr std::chrono::milliseconds ask_again{200};
constexpr int bar_width = 30;
/// What no job's place is.
constexpr auto nowhere = std::numeric_limits<std::int64_t>::max();

double done_of(const gd::job_row& x) {
  if (x.ended_at_us || x.highest_id <= 0)
    return 1;
  return static_cast<double>(std::max<std::int64_t>(x.last_id, 0))
         / static_cast<double>(x.highest_id);
}

std::string counts_of(const gd::job_row& x) {
  return fmt::format("{} looked at, {} {}, {} refused", x.examined, x.changed,
                     x.dry_run ? "fit" : "changed", x.refused);
}

void show_progress(const gd::job_row& x) {
  if (isatty(STDERR_FILENO) == 0)
    return;
  auto full = static_cast<int>(done_of(x) * bar_width);
  complain(fmt::format("\r[{:#<{}}{:{}}] {:3.0f}%  {}\x1b[K{}", "", full, "",
                       bar_width - full, done_of(x) * 100, counts_of(x),
                       x.ended_at_us ? "\n" : ""));
}

std::string state_of(const gd::job_row& x) {
  return x.cancelled                                     ? "cancelled"
         : x.ended_at_us                                 ? "ended"
         : x.worked_on                                   ? "runs"
         : x.what == gd::act::upgrade && x.nodes.empty() ? "waits for a node"
                                                         : "waits";
}

std::string text_of(const std::vector<gd::job_row>& rows) {
  std::vector<cells> table{{"job", "what", "filter", "by", "state", "done",
                            "looked at", "changed", "refused", "made"}};
  for (const auto& x : rows)
    table.push_back({std::to_string(x.id),
                     to_string(x.what) + (x.dry_run ? " (dry run)" : ""),
                     gd::printable(x.which), gd::printable(x.by.value_or("")),
                     state_of(x), fmt::format("{:.0f}%", done_of(x) * 100),
                     std::to_string(x.examined), std::to_string(x.changed),
                     std::to_string(x.refused), time_text(x.created_at_us)});
  return table_of(table, "><<<<>>>><");
}

int jobs(const globals& global, bool as_json) {
  auto db = open_database(global, does::read);
  if (!db)
    return fail(db.error());
  auto rows = db->jobs();
  if (!rows)
    return fail(rows.error());
  if (!as_json)
    return print(text_of(*rows));
  std::string lines;
  for (const auto& x : *rows)
    lines += *json_line(x);
  return print(lines);
}

template <class F>
int with_job(const globals& global, const std::string& number, F run) {
  auto job = parse_number("JOB: expected a job's", number);
  if (!job)
    return fail(job.error());
  auto db = open_database(global);
  return db ? run(*db, *job) : fail(db.error());
}

int cancel_job(gd::client& db, std::int64_t job) {
  auto now = db.cancel_job(job);
  if (!now)
    return fail(now.error());
  return print(*json_line(*now));
}

void add_one(parser& to, const char* name, const char* help,
             std::string_view example, int (*run)(gd::client&, std::int64_t)) {
  auto number = std::make_shared<std::string>();
  auto sub = to.add_command(name, help);
  sub.add_option("JOB", *number, "Its number").required();
  sub.describe("", {example});
  sub.runs(
    [=](const globals& global) { return with_job(global, *number, run); });
}

} // namespace

void tell_doers(const gd::job_row& x) {
  if (x.what != gd::act::upgrade || x.ended_at_us)
    return;
  if (x.nodes.empty())
    complain(fmt::format("gdctl: job {} waits: no node that lives has that "
                         "version and converts the states of the other (.from)"
                         ", or has both; it does not need gdctl\n",
                         x.id));
  else
    complain(fmt::format(
      "gdctl: job {} is done by node {}; it does not need "
      "gdctl\n",
      x.id, gd::printable(fmt::format("{}", fmt::join(x.nodes, " or ")))));
}

int run_job(gd::client& db, std::int64_t job) {
  auto before = nowhere;
  while (true) {
    auto now = db.work_on(job);
    if (!now) {
      if (exit_code_of(now.error().code) == unreachable)
        complain(fmt::format("gdctl: job {} goes on: a node works it off, or "
                             "gdctl jobs run {}\n",
                             job, job));
      return fail(now.error());
    }
    if (before == nowhere)
      tell_doers(*now);
    show_progress(*now);
    if (now->ended_at_us) {
      if (now->refused > 0 && now->last_refusal)
        complain(fmt::format("gdctl: {} refused ({}{}), the last one: {}\n",
                             now->refused, fmt::join(now->refused_ids, ", "),
                             now->refused_ids.size()
                                 < static_cast<std::size_t>(now->refused)
                               ? ", ..."
                               : "",
                             gd::printable(*now->last_refusal)));
      return print(
        fmt::format("{{\"job\":{},\"examined\":{},\"{}\":{},\"refused\":{}}}\n",
                    job, now->examined, now->dry_run ? "fit" : "changed",
                    now->changed, now->refused),
        now->refused > 0 || now->cancelled ? refused : ok,
        fmt::format("job {} has ended", job));
    }
    // Another works on it, or none yet: of an upgrade, a node.
    if (now->last_id == before)
      std::this_thread::sleep_for(ask_again);
    before = now->last_id;
  }
}

void add_jobs(parser& app) {
  auto as_json = std::make_shared<bool>(false);
  auto sub = app.add_command(
    "jobs", "List what is being done with many instances, or see to it");
  sub.add_flag("--json", *as_json, "A JSON object for each job");
  sub.requires_command(false);
  sub.describe(
    "Those that go on, and the last hundred that have ended. A job that "
    "nobody works on\nis worked off by a node, or by gdctl jobs run.",
    {"gdctl jobs", "gdctl jobs run 3", "gdctl jobs cancel 3"});
  add_one(sub, "run", "Work on a job until it has ended", "gdctl jobs run 3",
          run_job);
  add_one(sub, "cancel", "Let a job not go on; what it has done stays",
          "gdctl jobs cancel 3", cancel_job);
  sub.runs(as_json, jobs);
}

} // namespace gdctl
