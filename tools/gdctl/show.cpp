#include "args.hpp"
#include "common.hpp"
#include "service.hpp"

#include <gd/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl {

namespace {

std::string text_of(const gd::instance& x) {
  std::string text;
  auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:14} {}\n", name, gd::printable(value));
  };
  auto maybe =
    [&](std::string_view name, const std::optional<std::string>& value) {
    if (value)
      line(name, *value);
  };
  auto time = [&](std::string_view name, std::optional<std::int64_t> us) {
    if (us)
      line(name, time_text(*us));
  };
  auto value = [&](std::string_view name, const gd::json& json) {
    line(name, content_text(json));
  };
  line("instance", std::to_string(x.id));
  line("machine", fmt::format("{} v{}", x.fsm, x.version));
  line("step", x.step);
  line("status", x.status);
  if (x.awaits && x.awaits->empty())
    line("rests",
         x.deadline_us ? "until moved, or its deadline" : "until moved");
  else if (x.awaits)
    line("awaits",
         fmt::format("{}{}{}", *x.awaits, x.awaits_also.empty() ? "" : ", ",
                     fmt::join(x.awaits_also, ", ")));
  time("deadline", x.deadline_us);
  maybe("woken by", x.wake_reason);
  value("state", x.state);
  if (x.result)
    value("result", *x.result);
  maybe("last error", x.last_error);
  line("seq", std::to_string(x.seq));
  line("attempt", std::to_string(x.attempt));
  if (x.crashes > 0)
    line("crashes", std::to_string(x.crashes));
  if (x.trials > 0)
    line("trials", std::to_string(x.trials));
  line("inbox", fmt::format("{} signal{}", x.inbox, x.inbox == 1 ? "" : "s"));
  line("queue", x.queue);
  line("priority", std::to_string(x.priority));
  maybe("partition key", x.partition_key);
  maybe("unique key", x.unique_key);
  maybe("traceparent", x.traceparent);
  time("eligible at", x.eligible_at_us);
  maybe("lease of", x.locked_by);
  time("lease until", x.lease_expires_at_us);
  time("inserted", x.inserted_at_us);
  time("updated", x.updated_at_us);
  return text;
}

/// The sentence, and below it what always goes with it.
std::string text_of(const gd::why& x) {
  auto text = gd::printable(x.sentence) + ".\n";
  if (x.attempt > 0 || x.crashes > 0 || x.trials > 0)
    text += fmt::format("attempt {}, crashes {}, trials {}\n", x.attempt,
                        x.crashes, x.trials);
  if (x.last_error)
    text += "last error: " + gd::printable(*x.last_error) + '\n';
  return text;
}

/// What is asked of one instance, and how its answer is told.
template <class Query, class Answer>
struct question {
  gd::result<Answer> (service::*ask)(const Query&);
  const char* name;
  const char* title;
  const char* as_json;
  const char* more;
  std::vector<std::string_view> examples;

  int run(const globals& global, const address& which, bool json) const {
    Query what;
    if (auto ok = read_address(which, what.id, what.key); !ok)
      return fail(ok.error());
    auto db = open_service(global, does::read);
    if (!db)
      return fail(db.error());
    auto found = ((**db).*ask)(what);
    if (!found)
      return fail(found.error());
    if (!json)
      return print(text_of(*found));
    auto line = json_line(*found);
    return line ? print(*line) : fail(line.error());
  }

  void add_to(parser& app) const {
    struct options {
      address which;
      bool as_json = false;
    };
    auto opts = std::make_shared<options>();
    auto sub = app.add_command(name, title);
    add_address(sub, opts->which);
    sub.add_flag("--json", opts->as_json, as_json);
    sub.describe(more, examples);
    sub.runs(
      [opts, by = *this](const globals& global) {
      return by.run(global, opts->which, opts->as_json);
      },
      [opts] { take_id(opts->which); });
  }
};

} // namespace

void add_show(parser& app) {
  question<gd::look_up, gd::instance>{
    &service::look_up,
    "show",
    "Show an instance",
    "One JSON object; times in microseconds since 1970",
    "A unique key is shown as it is, if it is text; else as \\x and "
    "hexadecimal digits.",
    {"gdctl show 7", "gdctl show 7 --json | jq .state",
     "gdctl show --key 'order 42'"}}
    .add_to(app);
}

void add_why(parser& app) {
  question<gd::why_query, gd::why>{
    &service::why,
    "why",
    "Tell why an instance is where it is, and what to do",
    "One JSON object: cause, sentence, details",
    "Who executes it, what it waits for, or what is in its way, with "
    "its last failure.",
    {"gdctl why 7", "gdctl why --key 'order 42'",
     "gdctl why 7 --json | jq .cause"}}
    .add_to(app);
}

} // namespace gdctl
