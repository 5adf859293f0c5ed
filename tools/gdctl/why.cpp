#include "common.hpp"
#include "pages.hpp"
#include "service.hpp"

#include <gd/client.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <string>

namespace gdctl {

namespace {

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

int why(const globals& global, const address& which, bool as_json) {
  gd::why_query what;
  if (auto ok = read_address(which, what.id, what.key); !ok)
    return fail(ok.error());
  auto db = open_service(global, does::read);
  if (!db)
    return fail(db.error());
  auto found = (*db)->why(what);
  if (!found)
    return fail(found.error());
  if (!as_json)
    return print(text_of(*found));
  auto line = json_line(*found);
  return line ? print(*line) : fail(line.error());
}

} // namespace

void add_why(CLI::App& app, const globals& global, action& chosen) {
  struct options {
    address which;
    bool as_json = false;
  };
  auto opts = std::make_shared<options>();
  auto* sub = app.add_subcommand(
    "why", "Tell why an instance is where it is, and what to do");
  add_address(*sub, opts->which);
  sub->add_flag("--json", opts->as_json,
                "One JSON object: cause, sentence, details");
  describe(*sub,
           "Who executes it, what it waits for, or what is in its way, with "
           "its last failure.",
           {"gdctl why 7", "gdctl why --key 'order 42'",
            "gdctl why 7 --json | jq .cause"});
  sub->callback([=, &global, &chosen] {
    take_id(opts->which);
    chosen = [opts, &global] {
      return why(global, opts->which, opts->as_json);
    };
  });
}

} // namespace gdctl
