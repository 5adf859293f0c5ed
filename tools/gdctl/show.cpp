#include "common.hpp"
#include "pages.hpp"
#include "service.hpp"

#include <gd/json.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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
    line(name, json.ok() ? json.text() : '(' + json.failure()->message + ')');
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

int show(const globals& global, const address& which, bool as_json) {
  gd::look_up what;
  if (auto ok = read_address(which, what.id, what.key); !ok)
    return fail(ok.error());
  auto db = open_service(global, does::read);
  if (!db)
    return fail(db.error());
  auto found = (*db)->look_up(what);
  if (!found)
    return fail(found.error());
  if (!as_json)
    return print(text_of(*found));
  auto line = json_line(*found);
  return line ? print(*line) : fail(line.error());
}

} // namespace

void add_show(CLI::App& app, const globals& global, action& chosen) {
  struct options {
    address which;
    bool as_json = false;
  };
  auto opts = std::make_shared<options>();
  auto* sub = app.add_subcommand("show", "Show an instance");
  add_address(*sub, opts->which);
  sub->add_flag("--json", opts->as_json,
                "One JSON object; times in microseconds since 1970");
  describe(*sub,
           "A unique key is shown as it is, if it is text; else as \\x and "
           "hexadecimal digits.",
           {"gdctl show 7", "gdctl show 7 --json | jq .state",
            "gdctl show --key 'order 42'"});
  sub->callback([=, &global, &chosen] {
    take_id(opts->which);
    chosen = [opts, &global] {
      return show(global, opts->which, opts->as_json);
    };
  });
}

} // namespace gdctl
