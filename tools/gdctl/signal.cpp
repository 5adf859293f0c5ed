#include "args.hpp"
#include "bulk.hpp"
#include "common.hpp"
#include "lines.hpp"
#include "service.hpp"

#include <gd/json.hpp>
#include <gd/state.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace gdctl {

namespace {

/// What a line, or the command line, says about a signal.
struct row {
  std::optional<std::int64_t> target;
  std::optional<std::string> key;
  std::optional<std::string> ref;
  std::optional<std::string> name;
  gd::json payload = gd::json::raw({});
  std::optional<std::string> dedup;
  std::optional<std::string> traceparent;

  GD_STATE(row, target, key, ref, name, payload, dedup, traceparent);
};

/// All that is read of a line that is refused.
struct label {
  std::optional<std::string> ref;

  GD_STATE(label, ref);
};

/// A line of what `gdctl insert` prints.
struct inserted_line {
  std::optional<std::string> ref;
  std::optional<std::int64_t> id;

  GD_STATE(inserted_line, ref, id);
};

/// Ids by ref; 0: there is none, or there are several.
using target_map = std::unordered_map<std::string, std::int64_t>;

struct signal_options {
  row one;
  address which;
  std::string name;
  std::optional<std::string> payload;
  std::string file;
  std::string targets;
  bool progress = false;
  bool force = false;
};

gd::result<target_map> read_targets(const std::string& path) {
  auto input = line_reader::open(path);
  if (!input)
    return input.error();
  target_map ids;
  for (;;) {
    auto lines = input->next_batch(batch_rows, batch_bytes);
    for (const auto& line : lines) {
      auto x = gd::from_json<inserted_line>(line.text);
      if (!x)
        return bad_usage(fmt::format(
          "{}: line {}: expected a line as gdctl insert prints it: {}", path,
          line.number, x.error().message));
      if (!x->ref)
        continue;
      auto id = x->id.value_or(0);
      auto [pos, added] = ids.emplace(*x->ref, id);
      if (!added && pos->second != id)
        pos->second = 0;
    }
    if (lines.empty())
      break;
  }
  if (input->failure())
    return *input->failure();
  return ids;
}

gd::result<gd::signal> complete(row x, const signal_options& opts,
                                const target_map& ids) {
  auto given = x.target.has_value() + x.key.has_value() + x.ref.has_value();
  if (given != 1)
    return bad_usage(
      fmt::format("target, key and ref: expected one of them, got {}",
                  given > 0 ? "several" : "none"));
  gd::signal made;
  if (x.target) {
    made.target = *x.target;
  } else if (x.key) {
    made.key = std::move(x.key);
  } else {
    auto found = ids.find(*x.ref);
    if (found == ids.end())
      return bad_usage(
        fmt::format("ref: {} is not in --targets{}", json_string(*x.ref),
                    opts.targets.empty() ? ", which is not given" : ""));
    if (found->second == 0)
      return bad_usage(
        fmt::format("ref: expected one instance in --targets, {} "
                    "has none, or several",
                    json_string(*x.ref)));
    made.target = found->second;
  }
  made.name = std::move(x.name).value_or("");
  if (x.payload.text().empty())
    made.payload = opts.one.payload;
  else
    made.payload = std::move(x.payload);
  made.dedup_key = std::move(x.dedup);
  made.traceparent = std::move(x.traceparent);
  if (!made.traceparent)
    made.traceparent = opts.one.traceparent;
  return made;
}

parsed_line<gd::signal> parse(std::string_view text, const signal_options& opts,
                              const target_map& ids) {
  auto x = gd::from_json_strict<row>(text);
  if (!x) {
    auto known = gd::from_json<label>(text);
    return {known ? known->ref : std::nullopt, x.error()};
  }
  auto ref = x->ref;
  return {std::move(ref), complete(std::move(*x), opts, ids)};
}

std::string target_label(const gd::signal& x) {
  return ',' + address_json("target", x.target, x.key);
}

std::string answer_text(const gd::signalled& x) {
  return fmt::format(",\"answer\":\"{}\"",
                     x.duplicate ? "duplicate" : "accepted");
}

/// What lies in an inbox until somebody takes it may be there for ever: tells what the
/// instance waits for in its place, which may be what was meant.
void tell_awaited(service& db, const gd::look_up& whom,
                  const std::string& name) {
  auto now = db.look_up(whom);
  if (!now || now->status != "awaiting_signal" || !now->awaits)
    return;
  auto names = now->awaits_also;
  names.insert(names.begin(), *now->awaits);
  if (std::find(names.begin(), names.end(), name) != names.end())
    return;
  complain(fmt::format(
    "gdctl: {} is stored, and instance {} {}: it lies in the inbox until a "
    "step takes it\n",
    gd::printable(name), now->id,
    now->awaits->empty()
      ? "rests at step " + gd::printable(now->step)
      : "waits for "
          + gd::printable(fmt::format("{}", fmt::join(names, "|")))));
}

/// What the instance's machine cannot mean is refused, unless it is forced.
std::vector<gd::result<gd::signalled>>
signal_sound(service& db, std::vector<gd::signal> signals, bool force) {
  return send_sound<gd::signalled>(db, std::move(signals), force,
                                   [&db](std::vector<gd::signal> sound) {
    return db.signal_all(std::move(sound));
  });
}

int send_one(service& db, const signal_options& opts) {
  auto request = complete(opts.one, opts, {});
  if (!request)
    return fail(request.error());
  auto head = target_label(*request).substr(1);
  gd::look_up whom{.id = request->target, .key = request->key};
  auto name = request->name;
  std::vector<gd::signal> one;
  one.push_back(std::move(*request));
  auto answer = std::move(signal_sound(db, std::move(one), opts.force).front());
  if (!answer) {
    // What is wrong is the signal, not how gdctl was called.
    auto code = fail(answer.error());
    return code == usage ? refused : code;
  }
  if (!answer->duplicate)
    tell_awaited(db, whom, name);
  return print(fmt::format("{{{}{}}}\n", head, answer_text(*answer)), ok,
               answer->duplicate ? "the signal is a duplicate"
                                 : "the signal is accepted");
}

int run_signal(const globals& global, signal_options opts) {
  auto payload = opts.payload.value_or("{}");
  drop_mark(payload);
  opts.one.payload = gd::json::raw(std::move(payload));
  if (opts.file.empty()) {
    std::int64_t id = 0;
    auto& one = opts.one;
    if (auto ok = read_address(opts.which, id, one.key); !ok)
      return fail(ok.error());
    if (!one.key)
      one.target = id;
    one.name = opts.name;
  }
  target_map ids;
  if (!opts.targets.empty()) {
    auto read = read_targets(opts.targets);
    if (!read)
      return fail(read.error());
    ids = std::move(*read);
  }
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
  if (!input)
    return send_one(**db, opts);
  bulk_job<gd::signal, gd::signalled> job{
    [&](std::string_view text) { return parse(text, opts, ids); },
    [&](std::vector<gd::signal> rows) {
    return signal_sound(**db, std::move(rows), opts.force);
    },
    target_label,
    answer_text,
    };
  return run_bulk(std::move(*input), opts.progress, job);
}

} // namespace

void add_signal(parser& app) {
  auto opts = std::make_shared<signal_options>();
  auto& x = opts->one;
  auto sub = app.add_command("signal", "Send one signal, or many");
  auto whom = add_address(sub, opts->which);
  auto name = sub.add_option("NAME", opts->name, "The signal's name");
  sub.add_option("--payload", opts->payload, "JSON; default: {}");
  auto dedup = sub.add_option("--dedup", x.dedup,
                              "At most one signal with this key ever reaches "
                              "the instance");
  sub.add_option("--traceparent", x.traceparent,
                 "The W3C traceparent that its step runs for; for lines "
                 "without one, too");
  auto file = sub
                .add_option("--file", opts->file,
                            "Many signals, as JSON Lines; - is stdin")
                .type_name("FILE")
                .excludes(whom.id)
                .excludes(whom.key)
                .excludes(whom.key_hex)
                .excludes(name)
                .excludes(dedup);
  sub
    .add_option("--targets", opts->targets,
                "What gdctl insert printed, to find instances by their ref")
    .type_name("FILE")
    .needs(file);
  sub.add_flag("--force", opts->force,
               "Also a name, or a payload, that the instance's machine does "
               "not know: it is meant");
  sub.add_flag("--progress", opts->progress,
               "Tell the progress even if stderr is no terminal");
  sub.describe(
    "A line of FILE is an object:\n  {\"target\": 7, \"name\": "
    "\"payment_confirmed\", \"payload\": {\"amount\": 100},\n   \"dedup\": "
    "\"evt-7\", \"traceparent\": \"00-...\"}\nwithout line breaks; in the "
    "place of \"target\", \"key\" "
    "names an instance by the unique\nkey that it has now, and \"ref\" by the "
    "ref that it was inserted with. --payload is\nfor lines without one.\nFor "
    "each line, in order, there is a line on stdout: {\"line\": 1, \"target\": "
    "7,\n\"answer\": \"accepted\"} (or \"duplicate\"), or \"error\" and "
    "\"code\" in the place of\n\"answer\": a bad line is refused by itself. "
    "Blank lines are skipped.\n\nWhat a machine tells of its signals "
    "(.signal<T>(name)) is asked before: a name that it\ndoes not know, and "
    "a payload that no step can read, are refused. Where it tells\nnothing, "
    "so is a name that is almost the one that the instance waits for.",
    {"gdctl signal 7 payment_confirmed --payload '{\"amount\": 100}' --dedup "
     "evt-7",
     "gdctl signal --key 'order 42' payment_confirmed",
     "gdctl signal --file payments.jsonl --targets inserted.jsonl"});
  sub.runs(opts, run_signal, [=] {
    if (!file.given() && !name.given() && !opts->which.by_key())
      missing("ID and NAME, or --file");
    if (!file.given())
      take_id(opts->which, &opts->name, "NAME");
    if (opts->file == "-" && opts->targets == "-")
      bad_option("--targets", "stdin cannot be --file as well");
  });
}

} // namespace gdctl
