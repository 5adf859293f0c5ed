#include "args.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "service.hpp"

#include <gd/client.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace gdctl {

namespace {

/// As of `gd::prune`.
constexpr std::int64_t shortest_age = 60'000'000;

struct prune_options {
  gd::prune what{};
  std::string older_than{};
  bool progress = false;
};

/// What all pages together have come to, and a word about it on stderr now and then.
class tally {
public:
  explicit tally(bool wanted)
    : terminal_(isatty(STDERR_FILENO) == 1), silent_(!terminal_ && !wanted) {
    // nop
  }

  void add(const gd::pruned& page) {
    sum_.examined += page.examined;
    sum_.found += page.found;
    sum_.deleted += page.deleted;
    sum_.refused += page.refused;
    using namespace std::chrono_literals;
    auto now = std::chrono::steady_clock::now();
    if (silent_ || now - shown_ < (terminal_ ? 200ms : 1s))
      return;
    shown_ = now;
    complain(fmt::format("{}{} looked at, {} found, {} deleted{}",
                         terminal_ ? "\r\033[K" : "", sum_.examined, sum_.found,
                         sum_.deleted, terminal_ ? "" : "\n"));
    spoken_ = terminal_;
  }

  /// The rest of a terminal's line.
  void end() {
    if (spoken_)
      complain("\n");
  }

  std::string line() const {
    return fmt::format(
      "{{\"examined\":{},\"found\":{},\"deleted\":{},\"refused\":{}}}\n",
      sum_.examined, sum_.found, sum_.deleted, sum_.refused);
  }

  bool is_empty() const noexcept {
    return sum_.examined == 0;
  }

  bool found_nothing() const noexcept {
    return sum_.found == 0;
  }

  bool all_well() const noexcept {
    return sum_.refused == 0;
  }

private:
  bool terminal_;
  bool silent_;
  bool spoken_ = false;
  gd::pruned sum_{};
  std::chrono::steady_clock::time_point shown_
    = std::chrono::steady_clock::now();
};

int prune(const globals& global, prune_options& opts) {
  auto age = parse_delay("--older-than", opts.older_than);
  if (!age)
    return fail(age.error());
  if (*age < shortest_age)
    return fail(bad_usage("--older-than: expected 1m at least, got "
                          + json_string(opts.older_than)));
  opts.what.age_us = *age;
  auto db = open_database(global);
  if (!db)
    return fail(db.error());
  interruptions noted;
  tally all{opts.progress};
  for (;;) {
    auto page = db->prune(opts.what);
    if (page)
      all.add(*page);
    else if (page.error().code == gd::errc::invalid_argument)
      return fail(page.error()); // nothing has been begun
    int stopped = interruptions::noted();
    if (page && page->last && stopped == 0) {
      opts.what.after = *page->last;
      continue;
    }
    all.end();
    if (!page && all.is_empty())
      return fail(page.error());
    auto code = print(all.line(), all.all_well() ? ok : refused);
    if (page && all.found_nothing() && code == ok)
      code = nothing_found(
        db->unknown({.fsm = opts.what.fsm, .version = opts.what.version}));
    if (!page)
      return fail(page.error());
    if (stopped != 0)
      interruptions::die_of(stopped);
    return code;
  }
}

} // namespace

void add_prune(parser& app) {
  auto opts = std::make_shared<prune_options>();
  auto sub = app.add_command(
    "prune", "Delete instances that have ended, with signals and histories");
  sub
    .add_option("--older-than", opts->older_than,
                "How long ago they have ended, like 90d; 1m at least")
    .required();
  auto fsm = sub.add_option("MACHINE,--machine", opts->what.fsm,
                            "Of this machine; default: of any");
  sub
    .add_option("--version", opts->what.version,
                "Of this version of it; default: of any")
    .version()
    .needs(fsm);
  sub
    .add_option("--status", opts->what.status,
                "Those that are done, or failed; default: both")
    .one_of({"done", "failed"});
  sub
    .add_option("--page", opts->what.page,
                "How many instances one transaction looks at")
    .whole(1, 10'000)
    .shows_default();
  sub
    .add_option("--after", opts->what.after,
                "Begins behind this instance: to go on with")
    .whole();
  sub.add_flag("--dry-run", opts->what.only_count,
               "Only count them, delete nothing");
  sub.add_flag("--progress", opts->progress,
               "Tell on stderr how far it is, also if that is no terminal");
  sub.describe(
    "Walks through all instances in the order of their ids, in pages, and can "
    "be ended\nand begun again at any time. What a transaction holds meanwhile "
    "is left out, and what\nsomething of your own refers to is refused: run it "
    "again. For what machines say\nthemselves (.keep) nobody need run "
    "it.\nPrints what came of it: {\"examined\": 9000, \"found\": 12, "
    "\"deleted\": 11, \"refused\": 1}.",
    {"gdctl prune --older-than 90d --dry-run",
     "gdctl prune --older-than 30d --machine Checkout --status done"});
  sub.runs(opts, prune);
}

} // namespace gdctl
