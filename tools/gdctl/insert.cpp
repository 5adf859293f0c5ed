#include "args.hpp"
#include "bulk.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "service.hpp"

#include <gd/json.hpp>
#include <gd/operate.hpp>
#include <gd/state.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gdctl {

namespace {

/// What a line, or the command line, says about an instance. Empty: nothing.
struct row {
  std::optional<std::string> ref;
  std::optional<std::string> fsm;
  gd::json state = gd::json::raw({});
  std::optional<std::int32_t> version;
  std::optional<std::string> step;
  std::optional<std::string> queue;
  std::optional<std::int16_t> priority;
  std::optional<std::string> delay;
  std::optional<std::string> at;
  std::optional<std::string> partition_key;
  std::optional<std::string> unique_key;
  std::optional<std::vector<std::string>> unique_scope;
  std::optional<std::string> traceparent;

  GD_STATE(row, ref, fsm, state, version, step, queue, priority, delay, at,
           partition_key, unique_key, unique_scope, traceparent);
};

/// All that is read of a line that is refused.
struct label {
  std::optional<std::string> ref;

  GD_STATE(label, ref);
};

/// Which queues somebody has, of those that rows name: each is asked about once.
class known_queues {
public:
  known_queues(service& db, bool force) : db_(db), force_(force) {
    // nop
  }

  /// What nobody has is meant.
  bool force() const noexcept {
    return force_;
  }

  /// What is wrong with a row's queue. Of a machine that nobody knows either, it may be the
  /// first row of all: that is told, and done.
  gd::result<void> check(const gd::insert& x) {
    if (x.queue.empty() || force_ || !told_.insert({x.fsm, x.queue}).second)
      return refusal_of(x);
    auto which = db_.unknown({.queue = x.queue});
    if (!which || !*which)
      return {};
    auto machine = db_.unknown({.fsm = x.fsm});
    if (machine && *machine)
      complain(fmt::format("gdctl: {}\n", gd::printable(**which)));
    else
      refused_.emplace(std::pair{x.fsm, x.queue}, **which);
    return refusal_of(x);
  }

private:
  using names = std::pair<std::string, std::string>;

  gd::result<void> refusal_of(const gd::insert& x) const {
    auto found = refused_.find({x.fsm, x.queue});
    if (found == refused_.end())
      return {};
    return gd::error{gd::errc::not_found, found->second,
                     std::string{gd::unknown_name}};
  }

  service& db_;
  bool force_;
  std::set<names> told_;
  std::map<names, std::string> refused_;
};

struct options {
  row defaults;
  std::optional<std::string> state;
  std::string file;
  bool progress = false;
  bool force = false;
};

template <class T>
std::optional<T> either(std::optional<T> x, const std::optional<T>& otherwise) {
  if (!x)
    x = otherwise;
  return x;
}

template <class T>
T first_of(std::optional<T> x, const std::optional<T>& otherwise) {
  return either(std::move(x), otherwise).value_or(T{});
}

gd::result<gd::insert> complete(row x, const row& defaults) {
  if (!x.delay && !x.at) {
    x.delay = defaults.delay;
    x.at = defaults.at;
  }
  if (x.delay && x.at)
    return bad_usage("delay and at: expected one of them, got both");
  if (!x.fsm && !defaults.fsm)
    return bad_usage("fsm: expected a machine's name, got nothing");
  gd::insert made;
  made.fsm = first_of(std::move(x.fsm), defaults.fsm);
  made.version = first_of(x.version, defaults.version);
  made.step = first_of(std::move(x.step), defaults.step);
  made.queue = first_of(std::move(x.queue), defaults.queue);
  made.priority = first_of(x.priority, defaults.priority);
  made.partition_key = either(std::move(x.partition_key),
                              defaults.partition_key);
  made.unique_key = either(std::move(x.unique_key), defaults.unique_key);
  made.traceparent = either(std::move(x.traceparent), defaults.traceparent);
  made.unique_scope = first_of(std::move(x.unique_scope),
                               defaults.unique_scope);
  if (x.state.text().empty())
    made.state = defaults.state;
  else
    made.state = std::move(x.state);
  if (x.delay) {
    auto us = parse_delay("delay", *x.delay);
    if (!us)
      return us.error();
    made.delay_us = *us;
  }
  if (x.at) {
    auto us = parse_time("at", *x.at);
    if (!us)
      return us.error();
    made.eligible_at_us = *us;
  }
  return made;
}

parsed_line<gd::insert> parse(std::string_view text, const row& defaults,
                              known_queues& queues) {
  auto x = gd::from_json_strict<row>(text);
  if (!x) {
    auto known = gd::from_json<label>(text);
    return {known ? known->ref : std::nullopt, x.error()};
  }
  auto ref = x->ref;
  auto made = complete(std::move(*x), defaults);
  if (made)
    if (auto ok = queues.check(*made); !ok)
      made = ok.error();
  return {std::move(ref), std::move(made)};
}

std::string answer_text(const gd::inserted& x) {
  return fmt::format("\"id\":{}{}", x.id,
                     x.duplicate ? ",\"duplicate\":true" : "");
}

/// What no machine can mean is refused, unless it is forced.
std::vector<gd::result<gd::inserted>>
insert_sound(service& db, std::vector<gd::insert> rows, bool force) {
  return send_sound<gd::inserted>(db, std::move(rows), force,
                                  [&db](std::vector<gd::insert> sound) {
    return db.insert_all(std::move(sound));
  });
}

int insert_one(service& db, const row& what, known_queues& queues) {
  auto request = complete({}, what);
  if (!request)
    return fail(request.error());
  if (auto ok = queues.check(*request); !ok)
    return fail(ok.error());
  auto names = gd::filter{.fsm = request->fsm, .version = request->version};
  std::vector<gd::insert> row;
  row.push_back(std::move(*request));
  auto answer = std::move(
    insert_sound(db, std::move(row), queues.force()).front());
  if (!answer) {
    // What is wrong is the row, not how gdctl was called.
    bool unknown = answer.error().code == gd::errc::unknown_machine;
    auto code = unknown ? fail(db.unknown(names), answer.error())
                        : fail(answer.error());
    return code == usage ? refused : code;
  }
  return print(
    fmt::format("{{{}}}\n", answer_text(*answer)), ok,
    fmt::format("the instance is {}{}", answer->id,
                answer->duplicate ? ", which was there before" : ""));
}

int run(const globals& global, options opts) {
  auto state = opts.state.value_or("{}");
  drop_mark(state);
  opts.defaults.state = gd::json::raw(std::move(state));
  std::optional<line_reader> input;
  if (!opts.file.empty()) {
    auto opened = line_reader::open(opts.file);
    if (!opened)
      return fail(opened.error());
    input.emplace(std::move(*opened));
  }
  auto db = open_service(global);
  if (!db)
    return fail(db.error());
  known_queues queues{**db, opts.force};
  if (!input)
    return insert_one(**db, opts.defaults, queues);
  bulk_job<gd::insert, gd::inserted> job{
    [&](std::string_view text) { return parse(text, opts.defaults, queues); },
    [&](std::vector<gd::insert> rows) {
    return insert_sound(**db, std::move(rows), opts.force);
    },
    [](const gd::insert&) { return std::string{}; },
    [](const gd::inserted& x) { return "," + answer_text(x); },
    };
  return run_bulk(std::move(*input), opts.progress, job);
}

} // namespace

void add_insert(parser& app) {
  auto opts = std::make_shared<options>();
  auto& x = opts->defaults;
  auto sub = app.add_command("insert", "Make one instance, or many");
  auto fsm = sub.add_option("FSM,--machine", x.fsm, "The machine's name");
  sub.add_option("--state", opts->state,
                 "A JSON object; fields left out take their defaults");
  sub
    .add_option(
      "--version", x.version,
      "The machine's version; default: the pinned one, or what is served")
    .version();
  sub.add_option("--step", x.step, "Default: the machine's initial step");
  sub.add_option("--queue", x.queue, "Default: the machine's queue");
  sub.add_option("--priority", x.priority, "Lower is more urgent; default: 0")
    .whole(-32'768, 32'767);
  auto delay = sub.add_option("--delay", x.delay,
                              "Do not start before: 250ms, 10s, 5m, 2h, 60d");
  sub
    .add_option("--at", x.at,
                "Do not start before, a time: 2030-01-31T12:00:00Z")
    .excludes(delay);
  sub.add_option("--partition-key", x.partition_key,
                 "Instances with this key take turns, step by step");
  sub.add_option("--unique-key", x.unique_key,
                 "Make it only if no instance has this key");
  sub
    .add_option("--unique-scope", x.unique_scope,
                "The statuses in which it has its unique key; default: until "
                "it\nis finished")
    .separated()
    .one_of(statuses);
  sub.add_option("--traceparent", x.traceparent,
                 "The W3C traceparent that its steps run for");
  auto file = sub
                .add_option("--file", opts->file,
                            "Many instances, as JSON Lines; - is stdin")
                .type_name("FILE");
  sub.add_flag("--force", opts->force,
               "Also in a queue that nobody has, or with a state that its "
               "machine does not know: it is meant");
  sub.add_flag("--progress", opts->progress,
               "Tell the progress even if stderr is no terminal");
  sub.describe(
    "A line of FILE is an object:\n  {\"fsm\": \"Checkout\", \"state\": "
    "{\"order\": 42}, \"ref\": \"a\"}\nwith any of ref (a string of your own), "
    "fsm, state, version, step, queue,\npriority, delay, at, partition_key, "
    "unique_key, unique_scope (a list), traceparent.\nWhat a line leaves out, "
    "the options "
    "say for all.\nFor each line, in order, there is a line on stdout: "
    "{\"ref\": \"a\", \"line\": 1,\n\"id\": 7}, or \"error\" and \"code\" in "
    "the place of \"id\": a bad line is refused\nby itself. Blank lines are "
    "skipped. Where another instance has the unique\nkey, \"id\" is that "
    "one's, and \"duplicate\" is true.\n\nA machine that no node has made "
    "known is refused, unless step and queue\nare given; so are fields "
    "of a state that it does not have, and types that it cannot\nread.",
    {"gdctl insert Checkout --state '{\"order\": 42}'",
     "gdctl insert Reminder --delay 60d --queue slow",
     "gdctl insert --file orders.jsonl > inserted.jsonl",
     "make-orders | gdctl insert Checkout --file - | tee inserted.jsonl"});
  sub.runs(opts, run, [=] {
    if (!fsm.given() && !file.given())
      missing("FSM or --file");
  });
}

} // namespace gdctl
