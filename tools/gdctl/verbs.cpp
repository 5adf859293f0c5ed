// What operators do with instances: one of them, or all that fit a filter.

#include "args.hpp"
#include "common.hpp"
#include "filter.hpp"
#include "service.hpp"

#include <gd/client.hpp>
#include <gd/json.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl {

namespace {

struct verb_options {
  address which;
  filter_options many;
  gd::bulk_command all;
  std::int16_t priority = 0;
  std::vector<std::string> steps; ///< OLD=NEW
  bool detach = false;
};

constexpr const char* force_help
  = "Also for names that nobody has: they are meant";

struct verb {
  gd::act what;
  std::string_view name;
  std::string_view help;
  std::string_view effect;
  std::vector<std::string_view> examples;
};

int act_on_one(const globals& global, const address& which, gd::command& what) {
  if (auto ok = read_address(which, what.target, what.key); !ok)
    return fail(ok.error());
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto now = db->operate(what);
  if (!now)
    return fail(now.error());
  auto line = json_line(*now);
  return print(*line, ok, fmt::format("it is done with instance {}", now->id));
}

gd::result<void> read_steps(verb_options& opts) {
  for (const auto& x : opts.steps) {
    auto at = x.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == x.size())
      return gd::error{gd::errc::invalid_argument,
                       "--map: expected OLD=NEW, got " + gd::printable(x),
                       {}};
    opts.all.what.to_steps.emplace(x.substr(0, at), x.substr(at + 1));
  }
  return {};
}

int act_on_many(const globals& global, verb_options& opts) {
  if (auto ok = read_filter(opts.many); !ok)
    return fail(ok.error());
  if (auto ok = read_steps(opts); !ok)
    return fail(ok.error());
  auto& what = opts.all.what;
  if (opts.many.empty()) // an upgrade of one
    if (auto ok = read_address(opts.which, what.target, what.key); !ok)
      return fail(ok.error());
  opts.all.which = opts.many.which;
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto job = db->begin_job(opts.all);
  if (!job)
    return fail(job.error());
  if (opts.detach) {
    if (auto made = db->job(*job))
      tell_doers(*made);
    return print(fmt::format("{{\"job\":{}}}\n", *job), ok,
                 fmt::format("job {} has been made", *job));
  }
  return run_job(*db, *job);
}

void add_verb(parser& app, const verb& x) {
  auto opts = std::make_shared<verb_options>();
  opts->all.what.what = x.what;
  auto sub = app.add_command(std::string{x.name}, std::string{x.help});
  add_address(sub, opts->which);
  add_filter(sub, opts->many);
  std::optional<option> priority;
  if (x.what == gd::act::move) {
    sub.add_option("--to", opts->all.what.queue, "The queue that they go to");
    priority = sub
                 .add_option("--priority", opts->priority,
                             "The priority that they get; lower is more "
                             "urgent")
                 .whole(-32'768, 32'767);
  }
  bool upgrades = x.what == gd::act::upgrade;
  if (upgrades) {
    sub
      .add_option("--to-version", opts->all.what.to_version,
                  "The version of their machine that they go to")
      .version()
      .required();
    sub
      .add_option("--map", opts->steps,
                  "OLD=NEW: a step that has another name there; may be given "
                  "several times")
      .again();
  }
  sub.add_option("--reason", opts->all.what.reason, "Why, for the history");
  sub.add_option("--by", opts->all.what.by,
                 "Who does it, for the history; default: the database's user");
  sub.add_flag("--dry-run", opts->all.dry_run,
               "Only count those that fit a filter");
  sub.add_flag("--force", opts->all.what.force, force_help);
  sub.add_flag("--detach", opts->detach,
               "Leave those that fit a filter to the nodes: see gdctl jobs");
  sub.describe(
    fmt::format("{}\nPrints {{\"id\":7,\"seq\":4,\"status\":\"...\","
                "\"executed\":false}}. Without ID or key, it is a job "
                "for all\ninstances that fit the filter and are there "
                "now, worked off in batches: should gdctl end\nbefore "
                "it has, a node goes on with it.",
                x.effect),
    x.examples);
  auto checked = [=] {
    if (priority && priority->given())
      opts->all.what.priority = opts->priority;
    bool many = !opts->many.empty();
    if (many && (opts->which.by_key() || !opts->which.id.empty()))
      bad_option("filter", "expected an instance or a filter");
    if (!many && !upgrades && (opts->all.dry_run || opts->detach))
      bad_option("filter", "--dry-run and --detach expect one");
    if (!many)
      take_id(opts->which);
  };
  sub.runs(
    [opts, upgrades](const globals& global) {
    return upgrades || !opts->many.empty()
             ? act_on_many(global, *opts)
             : act_on_one(global, opts->which, opts->all.what);
    },
    checked);
}

struct repair_options {
  address which;
  gd::command what;
  std::string signal;
  std::string payload;
};

int repair(const globals& global, repair_options& opts) {
  auto number = parse_number("SIGNAL: expected a signal's", opts.signal);
  if (!number)
    return fail(number.error());
  opts.what.signal = *number;
  if (opts.what.what == gd::act::replace)
    opts.what.payload = gd::json::raw(opts.payload);
  return act_on_one(global, opts.which, opts.what);
}

parser add_repair(parser& app, const std::shared_ptr<repair_options>& opts,
                  const char* name, const char* help) {
  auto sub = app.add_command(name, help);
  add_address(sub, opts->which);
  sub.add_option("SIGNAL", opts->signal, "Its number, as gdctl inbox tells");
  sub.add_option("--reason", opts->what.reason, "Why, for the history");
  sub.add_option("--by", opts->what.by,
                 "Who does it, for the history; default: the database's user");
  sub.runs(opts, repair,
           [opts] { take_id(opts->which, &opts->signal, "SIGNAL"); });
  return sub;
}

void add_repairs(parser& app) {
  auto gone = std::make_shared<repair_options>();
  gone->what.what = gd::act::discard;
  add_repair(app, gone, "discard", "Take a signal out of an inbox")
    .describe("As if a step had consumed it: a dedup key is remembered. Of an "
              "instance that does not\nexecute, and is not done; one that has "
              "failed for it can be tried again then.\nPrints "
              "{\"id\":7,\"seq\":4,\"status\":\"...\",\"executed\":false}.",
              {"gdctl discard 7 12 --reason 'sent twice' --by ann"});

  auto mended = std::make_shared<repair_options>();
  mended->what.what = gd::act::replace;
  auto replace = add_repair(app, mended, "replace",
                            "Give a signal in an inbox another payload");
  replace.add_option("--payload", mended->payload, "JSON").required();
  replace.describe(
    "It stays where it is, with its name and dedup key. Of an instance "
    "that does not execute,\nand is not done; one that waits for its "
    "name wakes, and one that has failed for it can be\ntried again "
    "then. Prints {\"id\":7,\"seq\":4,\"status\":\"...\","
    "\"executed\":false}.",
    {"gdctl replace 7 12 --payload '{\"amount\": 100}' --reason 'a "
     "text in the place of a number'",
     "gdctl retry 7"});
}

void add_erase(parser& app) {
  auto opts = std::make_shared<repair_options>();
  opts->what.what = gd::act::erase;
  auto sub = app.add_command("erase", "Delete an instance for good");
  add_address(sub, opts->which);
  sub
    .add_option("--reason", opts->what.reason,
                "Why: it stays, so let it name nobody")
    .required();
  sub.add_option("--by", opts->what.by,
                 "Who does it, which stays, too; default: the database's user");
  sub.describe(
    "With its signals and its history, at once. Of an instance that does "
    "not execute: stop it\nfirst. What stays is its number, its machine, "
    "status and seq, when, by whom and why: gdctl why\ntells that. Other "
    "instances, backups and logs keep what they have of it.\nPrints "
    "{\"id\":7,\"seq\":4,\"status\":\"erased\",\"executed\":false}.",
    {"gdctl erase 7 --reason 'request 2024-17' --by ann",
     "gdctl erase --key 'order 42' --reason 'request 2024-17'"});
  sub.runs(
    [opts](const globals& global) {
    return act_on_one(global, opts->which, opts->what);
    },
    [opts] { take_id(opts->which); });
}

int pause(const globals& global, const gd::command& what) {
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  if (auto ok = db->pause(what.queue, what.reason, what.by, what.force); !ok)
    return fail(ok.error());
  return print(fmt::format("queue {} is paused: nothing begins there; what "
                           "runs ends\n",
                           gd::printable(what.queue)));
}

int resume(const globals& global, const gd::command& what) {
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  auto was = db->resume(what.queue, what.force);
  if (!was)
    return fail(was.error());
  return print(fmt::format("queue {} {}\n", gd::printable(what.queue),
                           *was ? "goes on" : "was not paused"));
}

} // namespace

void add_verbs(parser& app) {
  add_verb(app,
           {gd::act::retry,
            "retry",
            "Let failed instances try again",
            "A failed instance is due now, with the inputs that it failed on; "
            "attempt, crashes and\ntrials begin anew.",
            {"gdctl retry 7 --reason 'the bank is back' --by ann",
             "gdctl retry --machine Checkout --failure 'no stock' --dry-run"}});
  add_verb(app,
           {gd::act::stop,
            "stop",
            "Fail instances that have not ended",
            "It fails, with the reason. If it executes, its lease is taken "
            "away: its step is told at\nthe next heartbeat, and its outcome "
            "changes nothing; what it does elsewhere, its slot and\nits "
            "partition key last until its function returns.",
            {"gdctl stop 7 --reason 'poison' --by ann",
             "gdctl stop --machine Checkout --step await_pay --older 90d"}});
  add_verb(app,
           {gd::act::run_now,
            "run-now",
            "Let instances begin that are to later",
            "What is to begin later, or to be tried again later, is due now.",
            {"gdctl run-now 7",
             "gdctl run-now --queue mail --failure 'connection refused'"}});
  add_verb(app, {gd::act::move,
                 "move",
                 "Give instances another queue or priority",
                 "Of an instance that does not execute, and is not done.",
                 {"gdctl move 7 --to slow",
                  "gdctl move --queue default --machine Report --to slow "
                  "--priority 10"}});
  add_verb(
    app,
    {gd::act::upgrade,
     "upgrade",
     "Take instances to another version",
     "Of an instance that does not execute, and is not done. A node does it, "
     "at once, that has the\nnew version and converts states of the old one "
     "(.from), or has both: which ones is told. An\ninstance whose state it "
     "cannot decode is left as it is; the others wait there as they did.\nWhat "
     "executes is passed over, and listed: run it again. With --dry-run, "
     "\"fit\" "
     "tells how\nmany would decode.",
     {"gdctl upgrade 7 --to-version 2",
      "gdctl upgrade --machine Order --machine-version 1 --to-version 2 "
      "--map charge=pay --dry-run"}});
  add_repairs(app);
  add_erase(app);
}

void add_pause(parser& app) {
  auto opts = std::make_shared<gd::command>();
  auto sub = app.add_command("pause", "Let nothing begin in a queue");
  sub.add_option("QUEUE", opts->queue, "Its name").required();
  sub.add_option("--reason", opts->reason, "Why");
  sub.add_option("--by", opts->by, "Who; default: the database's user");
  sub.add_flag("--force", opts->force, force_help);
  sub.describe(
    "On all nodes, until gdctl resume. Steps that run end; what they "
    "lead to waits.\nA queue that no node serves and nothing is in is "
    "refused, unless --force says that\nit is meant.",
    {"gdctl pause mail --reason 'the relay is down'"});
  sub.runs(opts, pause);
}

void add_resume(parser& app) {
  auto opts = std::make_shared<gd::command>();
  auto sub = app.add_command("resume", "Let a paused queue go on");
  sub.add_option("QUEUE", opts->queue, "Its name").required();
  sub.add_flag("--force", opts->force, force_help);
  sub.describe("", {"gdctl resume mail"});
  sub.runs(opts, resume);
}

} // namespace gdctl
