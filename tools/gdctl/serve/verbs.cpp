#include "serve/verbs.hpp"

#include "common.hpp"
#include "filter.hpp"
#include "lines.hpp"
#include "serve/query.hpp"
#include "serve/shape.hpp"

#include <gd/instance.hpp>
#include <gd/operate.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gdctl::serve {

/// As in `gd::filter`, with a time as people write it.
struct filter_shape {
  std::string machine{};
  std::int32_t version = 0;
  std::string step{};
  std::string status{};
  std::string queue{};
  std::string older{};
  std::string failure{};

  GD_STATE(filter_shape, machine, version, step, status, queue, older, failure);
};

/// What is sent: which of these a verb takes, `verb_takes` says.
struct verb_shape {
  std::string verb{};
  std::optional<std::string> id{};
  std::optional<std::string> key{};
  std::optional<std::string> key_hex{};
  std::optional<filter_shape> filter{};
  std::optional<std::string> queue{};
  std::optional<std::int16_t> priority{};
  std::optional<std::int32_t> to_version{};
  std::optional<std::map<std::string, std::string>> to_steps{};
  std::optional<std::int64_t> seq{};
  std::optional<std::string> name{};
  std::optional<std::string> payload{};
  std::optional<std::string> dedup_key{};
  std::optional<std::string> signal{};
  std::optional<std::string> job{};
  std::optional<std::string> reason{};
  std::optional<std::string> by{};
  std::optional<bool> dry_run{};
  std::optional<bool> force{};

  GD_STATE(verb_shape, verb, id, key, key_hex, filter, queue, priority,
           to_version, to_steps, seq, name, payload, dedup_key, signal, job,
           reason, by, dry_run, force);
};

namespace {

using made = gd::result<response>;

made ok_with(const gd::result<std::string>& body) {
  if (!body)
    return body.error();
  return response{.body = *body + '\n'};
}

template <class T>
made ok_with(const gd::result<T>& x) {
  if (!x)
    return x.error();
  return ok_with(shape_of(*x));
}

/// The members that a verb takes beside its own name.
const std::map<std::string, std::set<std::string_view>, std::less<>> verb_takes{
  {"retry", {"target", "filter", "why", "force"}},
  {"stop", {"target", "filter", "why", "force"}},
  {"run-now", {"target", "filter", "why", "force"}},
  {"move", {"target", "filter", "why", "queue", "priority", "force"}},
  {"upgrade", {"target", "filter", "why", "to_version", "to_steps", "force"}},
  {"discard", {"target", "why", "signal"}},
  {"replace", {"target", "why", "signal", "payload"}},
  {"erase", {"target", "why"}},
  {"rewind", {"target", "why", "seq"}},
  {"signal", {"target", "name", "payload", "dedup_key", "force"}},
  {"pause", {"queue", "why", "force"}},
  {"resume", {"queue", "force"}},
  {"cancel", {"job"}},
};

/// Ok: it takes all that is given.
gd::result<void> check_members(const verb_shape& x) {
  auto found = verb_takes.find(x.verb);
  if (found == verb_takes.end())
    return bad_usage("verb: expected retry, stop, run-now, move, upgrade, "
                     "discard, replace, erase, rewind, signal, pause, resume "
                     "or cancel, got "
                     + json_string(x.verb));
  struct given {
    std::string_view name;
    std::string_view part; ///< of `verb_takes`
    bool is;
  };
  const std::array<given, 18> all{
    {{"id", "target", x.id.has_value()},
     {"key", "target", x.key.has_value()},
     {"key_hex", "target", x.key_hex.has_value()},
     {"filter", "filter", x.filter.has_value()},
     {"queue", "queue", x.queue.has_value()},
     {"priority", "priority", x.priority.has_value()},
     {"to_version", "to_version", x.to_version.has_value()},
     {"to_steps", "to_steps", x.to_steps.has_value()},
     {"seq", "seq", x.seq.has_value()},
     {"name", "name", x.name.has_value()},
     {"payload", "payload", x.payload.has_value()},
     {"dedup_key", "dedup_key", x.dedup_key.has_value()},
     {"signal", "signal", x.signal.has_value()},
     {"job", "job", x.job.has_value()},
     {"reason", "why", x.reason.has_value()},
     {"by", "why", x.by.has_value()},
     {"dry_run", "filter", x.dry_run.has_value()},
     {"force", "force", x.force.has_value()}}};
  for (const auto& one : all)
    if (one.is && !found->second.contains(one.part))
      return bad_usage(
        fmt::format("{}: expected none with {}", one.name, x.verb));
  auto targets = x.id.has_value() + x.key.has_value() + x.key_hex.has_value();
  bool many = x.filter.has_value();
  if (found->second.contains("target") && targets + many != 1)
    return bad_usage(
      fmt::format("{}: expected one of id, key, key_hex{}", x.verb,
                  found->second.contains("filter") ? ", filter" : ""));
  if (x.dry_run.value_or(false) && !many && x.verb != "upgrade")
    return bad_usage("dry_run: expected a filter");
  return {};
}

/// What is there, but for a verb's own members.
gd::result<void> require(bool is, std::string_view name) {
  if (is)
    return {};
  return bad_usage(fmt::format("{}: expected it", name));
}

/// Whom it is about. Nobody: it has a filter.
template <class Request>
gd::result<void> read_target(const verb_shape& from, Request& to) {
  if (from.filter)
    return {};
  auto ok = read_address(
    {.id = from.id.value_or(""), .key = from.key, .key_hex = from.key_hex},
    to.target, to.key);
  return ok ? ok : of_parameter(ok.error());
}

/// An empty field of a form says nothing.
std::optional<std::string> said(const std::optional<std::string>& x) {
  return x && !x->empty() ? x : std::nullopt;
}

template <class Request>
void read_why(const verb_shape& from, Request& to) {
  to.reason = said(from.reason);
  to.by = said(from.by);
}

gd::result<gd::filter> read_many(const filter_shape& x) {
  filter_options opts;
  opts.which = {.fsm = x.machine,
                .version = x.version,
                .step = x.step,
                .status = x.status,
                .queue = x.queue,
                .failure = x.failure};
  opts.older = x.older;
  if (auto ok = check_status(x.status); !ok)
    return ok.error();
  if (auto ok = read_filter(opts); !ok)
    return of_parameter(ok.error());
  if (opts.empty())
    return bad_usage("filter: expected at least one of its members");
  return opts.which;
}

gd::result<gd::bulk_command> read_command(const verb_shape& x) {
  gd::bulk_command out{.dry_run = x.dry_run.value_or(false)};
  auto& what = out.what;
  what.what = x.verb == "retry"     ? gd::act::retry
              : x.verb == "stop"    ? gd::act::stop
              : x.verb == "move"    ? gd::act::move
              : x.verb == "upgrade" ? gd::act::upgrade
              : x.verb == "erase"   ? gd::act::erase
                                    : gd::act::run_now;
  if (auto ok = read_target(x, what); !ok)
    return ok.error();
  if (x.filter) {
    auto which = read_many(*x.filter);
    if (!which)
      return which.error();
    out.which = std::move(*which);
  }
  read_why(x, what);
  what.force = x.force.value_or(false);
  what.queue = x.queue.value_or("");
  what.priority = x.priority;
  if (what.what == gd::act::move)
    if (auto ok = require(!what.queue.empty() || what.priority,
                          "queue, or priority");
        !ok)
      return ok.error();
  if (what.what == gd::act::upgrade)
    if (auto ok = require(x.to_version.value_or(0) > 0, "to_version"); !ok)
      return ok.error();
  what.to_version = x.to_version.value_or(0);
  what.to_steps = x.to_steps.value_or(std::map<std::string, std::string>{});
  return out;
}

gd::result<database_call> command_of(const verb_shape& x, job_runner& runner) {
  auto what = read_command(x);
  if (!what)
    return what.error();
  bool upgrades = what->what.what == gd::act::upgrade;
  if (!x.filter && !upgrades)
    return database_call{
      [one = what->what](gd::client& db) { return ok_with(db.operate(one)); }};
  return database_call{
    [what = *what, upgrades, &runner](gd::client& db) -> made {
      auto job = db.begin_job(what);
      if (!job)
        return job.error();
      if (!upgrades) // nodes do those: they have the machines
        runner.take(*job, what.dry_run);
      return response{.status = 202,
                      .body = fmt::format("{{\"job\":\"{}\"}}\n", *job)};
    }};
}

gd::result<database_call> repair_of(const verb_shape& x) {
  gd::command what{.what = x.verb == "discard" ? gd::act::discard
                                               : gd::act::replace};
  if (auto ok = read_target(x, what); !ok)
    return ok.error();
  auto signal = parse_number("signal: expected a signal's",
                             x.signal.value_or(""));
  if (!signal)
    return signal.error();
  what.signal = *signal;
  if (what.what == gd::act::replace) {
    if (auto ok = require(x.payload.has_value(), "payload"); !ok)
      return ok.error();
    what.payload = gd::json::raw(*x.payload);
  }
  read_why(x, what);
  return database_call{
    [what](gd::client& db) { return ok_with(db.operate(what)); }};
}

gd::result<database_call> rewind_of(const verb_shape& x) {
  gd::rewind what;
  if (auto ok = require(x.seq.has_value(), "seq"); !ok)
    return ok.error();
  if (auto ok = read_target(x, what); !ok)
    return ok.error();
  what.seq = *x.seq;
  read_why(x, what);
  return database_call{
    [what](gd::client& db) { return ok_with(db.rewind(what)); }};
}

gd::result<database_call> signal_of(const verb_shape& x) {
  gd::signal what;
  if (auto ok = read_target(x, what); !ok)
    return ok.error();
  what.name = x.name.value_or("");
  if (auto payload = said(x.payload))
    what.payload = gd::json::raw(std::move(*payload));
  what.dedup_key = said(x.dedup_key);
  if (auto ok = gd::check(what, {}); !ok)
    return ok.error();
  bool force = x.force.value_or(false);
  return database_call{[what, force](gd::client& db) -> made {
    if (!force) {
      auto faults = db.faults(std::vector{what});
      if (!faults)
        return faults.error();
      if (const auto& fault = faults->front())
        return gd::error{gd::errc::invalid_argument, *fault,
                         std::string{gd::unknown_name}};
    }
    return ok_with(db.signal(what));
  }};
}

gd::result<database_call> queue_of(const verb_shape& x) {
  auto queue = x.queue.value_or("");
  if (auto ok = require(!queue.empty(), "queue"); !ok)
    return ok.error();
  bool pause = x.verb == "pause";
  gd::command why;
  read_why(x, why);
  why.force = x.force.value_or(false);
  return database_call{[=](gd::client& db) -> made {
    bool changed = true;
    if (pause) {
      if (auto ok = db.pause(queue, why.reason, why.by, why.force); !ok)
        return ok.error();
    } else {
      auto was = db.resume(queue, why.force);
      if (!was)
        return was.error();
      changed = *was;
    }
    return response{
      .body = fmt::format("{{\"queue\":{},\"paused\":{},\"changed\":{}}}\n",
                          json_string(queue), pause, changed)};
  }};
}

gd::result<database_call> cancel_of(const verb_shape& x) {
  auto job = parse_number("job: expected a job's", x.job.value_or(""));
  if (!job)
    return job.error();
  return database_call{
    [id = *job](gd::client& db) { return ok_with(db.cancel_job(id)); }};
}

} // namespace

gd::result<database_call> read_verb(std::string_view json, job_runner& runner) {
  if (json.starts_with(byte_order_mark))
    json.remove_prefix(byte_order_mark.size());
  auto x = gd::from_json_strict<verb_shape>(json);
  if (!x)
    return x.error();
  if (auto ok = check_members(*x); !ok)
    return ok.error();
  if (x->verb == "discard" || x->verb == "replace")
    return repair_of(*x);
  if (x->verb == "rewind")
    return rewind_of(*x);
  if (x->verb == "signal")
    return signal_of(*x);
  if (x->verb == "pause" || x->verb == "resume")
    return queue_of(*x);
  if (x->verb == "cancel")
    return cancel_of(*x);
  return command_of(*x, runner);
}

} // namespace gdctl::serve
