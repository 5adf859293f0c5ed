#include "args.hpp"
#include "common.hpp"
#include "service.hpp"

#include <gd/json.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gdctl {

namespace {

/// How often `--follow` looks for more.
constexpr std::chrono::milliseconds look_again{500};

struct history_options {
  address which;
  bool follow = false;
  bool as_json = false;
};

std::string text_of(const gd::ledger_entry& x) {
  auto text = fmt::format("{:>5}  {}  {:7}", x.seq, time_text(x.at_us),
                          gd::printable(x.outcome));
  text += x.from_step && *x.from_step != x.to_step
            ? fmt::format("  {} -> {}", gd::printable(*x.from_step),
                          gd::printable(x.to_step))
            : "  " + gd::printable(x.to_step);
  if (x.attempt > 0)
    text += fmt::format("  attempt {}", x.attempt);
  if (x.by)
    text += "  by " + gd::printable(*x.by);
  if (x.reason)
    text += "  (" + gd::printable(*x.reason) + ')';
  if (x.effects)
    text += fmt::format("  effects {}", *x.effects);
  for (const auto* json : {&x.metadata, &x.state})
    if (*json)
      text += "  " + gd::printable(content_text(**json));
  return text + '\n';
}

/// Prints the entries from `next` on, as long as there are more.
int print_all(service& db, std::int64_t id, const history_options& how,
              std::int64_t& next) {
  while (true) {
    auto page = db.history({.id = id, .from_seq = next, .limit = 1'000});
    if (!page)
      return fail(page.error());
    if (page->empty())
      return ok;
    next = page->back().seq + 1;
    std::string lines;
    for (const auto& x : *page) {
      auto line = how.as_json ? json_line(x)
                              : gd::result<std::string>{text_of(x)};
      if (!line)
        return fail(line.error());
      lines += *line;
    }
    if (auto code = print(lines); code != ok)
      return code;
  }
}

int history(const globals& global, const history_options& how) {
  gd::look_up what;
  if (auto ok = read_address(how.which, what.id, what.key); !ok)
    return fail(ok.error());
  auto db = open_service(global, does::read);
  if (!db)
    return fail(db.error());
  if (what.key) { // that one is followed, also when it has left its key
    auto found = (*db)->look_up(what);
    if (!found)
      return fail(found.error());
    what.id = found->id;
  }
  std::int64_t next = 0;
  while (true) {
    // Asked first: what it has done until then is printed.
    auto now = (*db)->look_up({.id = what.id});
    if (auto code = print_all(**db, what.id, how, next); code != ok)
      return code;
    if (!now) // of one that is deleted there may be entries
      return next > 0 ? static_cast<int>(ok) : fail(now.error());
    bool ended = now->status == "done" || now->status == "failed";
    if (!how.follow || ended || next == 0) {
      if (next == 0)
        complain(fmt::format("gdctl: instance {} keeps no history\n", what.id));
      return ok;
    }
    std::this_thread::sleep_for(look_again);
  }
}

} // namespace

void add_history(parser& app) {
  auto opts = std::make_shared<history_options>();
  auto sub = app.add_command("history", "Show what an instance has done");
  add_address(sub, opts->which);
  sub.add_flag("--follow", opts->follow, "Go on until it has ended");
  sub.add_flag("--json", opts->as_json,
               "A JSON object per line; times in microseconds since 1970");
  sub.describe(
    "Of machines that ask for history, an entry for each transition. An "
    "instance goes\nback to one of them, or another begins there: see "
    "gdctl rewind and gdctl fork.",
    {"gdctl history 7", "gdctl history --key 'order 42'",
     "gdctl history 7 --follow --json | jq .to_step"});
  sub.runs(opts, history, [opts] { take_id(opts->which); });
}

} // namespace gdctl
