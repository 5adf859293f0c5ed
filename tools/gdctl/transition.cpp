#include "args.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "service.hpp"

#include <gd/json.hpp>

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace gdctl {

namespace {

struct transition_options {
  address which;
  gd::transition what;
  std::optional<std::string> state;
  std::optional<std::string> metadata;
};

int run_transition(const globals& global, transition_options opts) {
  auto& what = opts.what;
  if (auto ok = read_address(opts.which, what.target, what.key); !ok)
    return fail(ok.error());
  auto named = address_json("target", what.target, what.key);
  for (auto [given, json] : {std::pair{&opts.state, &what.state},
                             std::pair{&opts.metadata, &what.metadata}})
    if (*given) {
      drop_mark(**given);
      *json = gd::json::raw(std::move(**given));
    }
  auto db = open_service(global);
  if (!db)
    return fail(db.error());
  auto answer = (*db)->transition(std::move(what));
  if (!answer) {
    // What is wrong is the transition, not how gdctl was called.
    auto code = fail(answer.error());
    return code == usage ? refused : code;
  }
  return print(fmt::format("{{{},\"seq\":{},\"status\":{}}}\n", named,
                           answer->seq, json_string(answer->status)),
               ok, "the instance has moved");
}

} // namespace

void add_transition(parser& app) {
  auto opts = std::make_shared<transition_options>();
  auto& x = opts->what;
  auto sub = app.add_command("transition", "Move an instance to another step");
  add_address(sub, opts->which);
  sub.add_option("STEP", x.to, "Where to");
  sub.add_option("--from", x.from, "Only if it is in this step");
  sub
    .add_option("--seq", x.seq,
                "Only if it has made so many transitions, as gdctl show says")
    .whole();
  sub.add_option("--state", opts->state, "Its new state, JSON");
  sub.add_option("--metadata", opts->metadata, "For its history, JSON");
  sub.add_option("--reason", x.reason, "Why, for its history");
  sub.add_option("--by", x.by, "Who, for its history");
  sub.describe(
    "From a step where its machine lets others do that, to one that it "
    "names; not\nwhile it executes.",
    {"gdctl transition 7 cancelled --from submitted --by alice --reason "
     "'asked for it'",
     "gdctl transition --key 'order 42' cancelled"});
  sub.runs(opts, run_transition,
           [opts] { take_id(opts->which, &opts->what.to, "STEP"); });
}

} // namespace gdctl
