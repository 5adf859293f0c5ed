#include <gd/store/nodes.hpp>

#include <gd/migrations.hpp>
#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace gd::store {

using pq::column;
using pq::make_call;

static const std::string of_handler = "*";

// -- machines -----------------------------------------------------------------

static outside_step opened(const machine::step_definition& of) {
  outside_step x{.to = of.outside};
  std::sort(x.to.begin(), x.to.end());
  x.to.erase(std::unique(x.to.begin(), x.to.end()), x.to.end());
  if (of.rests) {
    x.rests = !of.rests->ends;
    x.ends = of.rests->ends;
    if (of.rests->after) {
      x.after_us = of.rests->after->count();
      x.then = of.rests->then;
    }
  }
  return x;
}

static retention retention_of(const machine& x,
                              std::chrono::microseconds resend) {
  auto us = [&x](final_status how) {
    const auto& time = x.kept(how);
    return time ? std::optional<std::int64_t>{time->count()} : std::nullopt;
  };
  retention out{us(final_status::done), us(final_status::failed)};
  if (out.done || out.failed)
    out.resend = resend.count();
  return out;
}

/// {"state": {...}, "signals": {"paid": {...}}}; of what is not known, nothing.
static std::string shape_of(const machine& x) {
  std::map<std::string, json> parts;
  if (!x.state_shape.empty())
    parts.emplace("state", json::raw(x.state_shape));
  std::map<std::string, json> signals;
  for (const auto& [name, shape] : x.signals)
    signals.emplace(name, json::raw(shape));
  if (!signals.empty())
    parts.emplace("signals", to_json(signals));
  return to_json(parts).text();
}

std::vector<known_machine> known(const std::vector<machine>& machines,
                                 std::chrono::microseconds resend) {
  std::vector<known_machine> xs;
  for (const auto& x : machines) {
    xs.push_back({.fsm = x.name,
                  .version = x.version,
                  .initial_step = x.initial_step,
                  .queue = x.queue,
                  .history = static_cast<std::int16_t>(x.history),
                  .retention = retention_of(x, resend),
                  .shape = shape_of(x)});
    auto& one = xs.back();
    if (x.history_keep)
      one.keep_us = x.history_keep->count();
    if (x.forget_dedup_after)
      one.forget_us = x.forget_dedup_after->count();
    auto declare = [&one](const std::string& from, auto to) {
      if (to) { // a set, whatever its order
        std::sort(to->begin(), to->end());
        to->erase(std::unique(to->begin(), to->end()), to->end());
      }
      one.declared.emplace(from, std::move(to));
    };
    for (const auto& from : x.conversions)
      one.converts.push_back(from.version);
    for (const auto& step : x.steps) {
      one.steps.push_back(step.name);
      declare(step.name, step.to);
      if (step.rests || !step.outside.empty())
        one.open.emplace(step.name, opened(step));
    }
    if (gd::graph(x).handled)
      declare(of_handler, x.handler_to);
  }
  return xs;
}

static std::vector<std::string> edges(const known_machine& x) {
  std::vector<std::string> out;
  for (const auto& [from, to] : x.declared) {
    if (to && to->empty())
      out.push_back(from + " -> (nowhere)");
    else if (to)
      for (const auto& step : *to)
        out.push_back(fmt::format("{} -> {}", from, step));
  }
  for (const auto& [at, what] : x.open) {
    for (const auto& step : what.to)
      out.push_back(fmt::format("{} -> {} (outside)", at, step));
    if (what.ends)
      out.push_back(at + " ends");
    else if (what.after_us)
      out.push_back(fmt::format("{} rests {} us -> {}", at, *what.after_us,
                                what.then.value_or("")));
    else if (what.rests)
      out.push_back(at + " rests");
  }
  return out;
}

std::vector<std::string> definition(const known_machine& x) {
  auto all = x.steps;
  for (auto& edge : edges(x))
    all.push_back(std::move(edge));
  return all;
}

/// Anybody may have written it.
transitions declared_in(const std::string& json) {
  auto read = from_json<transitions>(json);
  return read ? std::move(*read) : transitions{};
}

static std::string joined_steps(const known_machine& x) {
  return fmt::format("{}", fmt::join(x.steps, ","));
}

static std::string joined_edges(const known_machine& x) {
  return fmt::format("{}", fmt::join(edges(x), ","));
}

static std::string declared_json(const known_machine& x) {
  return to_json(x.declared).text();
}

static std::optional<std::string> retention_json(const known_machine& x) {
  const auto& y = x.retention;
  if (!y.done && !y.failed)
    return std::nullopt;
  return to_json(y).text();
}

static std::string open_json(const known_machine& x) {
  return to_json(x.open).text();
}

pq::call machines_lock() {
  return make_call(sql::machines_lock);
}

pq::call refuse_other_steps(const std::string& incarnation,
                            const std::vector<known_machine>& machines) {
  return make_call(
    sql::refuse_other_steps, incarnation, column(machines, &known_machine::fsm),
    column(machines, &known_machine::version), column(machines, joined_steps),
    column(machines, joined_edges));
}

pq::call register_machines(const std::vector<known_machine>& machines) {
  return make_call(
    sql::register_machines, column(machines, &known_machine::fsm),
    column(machines, &known_machine::version),
    column(machines, &known_machine::initial_step),
    column(machines, &known_machine::queue), column(machines, joined_steps),
    column(machines, declared_json), column(machines, &known_machine::history),
    column(machines, &known_machine::keep_us), column(machines, open_json),
    column(machines, &known_machine::forget_us),
    column(machines, retention_json), column(machines, &known_machine::shape));
}

pq::call replaced_machines(const std::vector<known_machine>& machines) {
  return make_call(
    sql::replaced_machines, column(machines, &known_machine::fsm),
    column(machines, &known_machine::version), column(machines, joined_steps),
    column(machines, declared_json), column(machines, open_json));
}

pq::call mark_served(const std::string& leaving, bool also_not) {
  return make_call(sql::mark_served, leaving, also_not);
}

pq::call not_served() {
  return make_call(sql::not_served, std::int32_t{100});
}

pq::call machines() {
  return make_call(sql::machines);
}

pq::call nodes() {
  return make_call(sql::nodes);
}

pq::call graph(const std::string& fsm, std::int32_t version) {
  return make_call(sql::graph, fsm, version);
}

std::optional<machine_graph> read_graph(const pq::rows& rows) {
  auto row = read_one<drawn_machine>(rows);
  if (!row)
    return std::nullopt;
  auto declared = declared_in(row->transitions);
  // Where they tell of other steps, somebody has changed one of the two.
  auto theirs = declared.size() - declared.count(of_handler);
  if (theirs != row->steps.size()
      || !std::all_of(row->steps.begin(), row->steps.end(),
                      [&](const auto& x) { return declared.contains(x); }))
    declared.clear();
  machine_graph out{.fsm = row->fsm,
                    .version = row->version,
                    .initial_step = row->initial_step};
  for (const auto& name : row->steps) {
    auto& step = out.steps.emplace_back(
      machine_graph::step{.name = name, .to = std::move(declared[name])});
    if (auto found = row->open.find(name); found != row->open.end()) {
      auto& open = found->second;
      step.rests = open.rests;
      step.ends = open.ends;
      step.outside = std::move(open.to);
      if (open.after_us)
        step.after = std::chrono::microseconds{*open.after_us};
      step.then = std::move(open.then).value_or("");
    }
  }
  if (auto found = declared.find(of_handler); found != declared.end()) {
    out.handled = true;
    out.handler_to = std::move(found->second);
  }
  return out;
}

pq::call retire(const std::string& fsm, std::int32_t version, bool retired) {
  return make_call(sql::retire, fsm, version, retired);
}

pq::call unpin(const std::string& fsm, std::int32_t version) {
  return make_call(sql::unpin, fsm, version);
}

pq::call pin(const std::string& fsm, std::int32_t version) {
  return make_call(sql::pin, fsm, version);
}

version_answer read_answer(const pq::rows& rows) {
  auto row = read_one<answered_row>(rows);
  return row ? row->answer : version_answer::unknown;
}

pq::call find_machines(const std::vector<std::string>& names) {
  return make_call(sql::find_machines, names);
}

pq::call trim_ledger(const trimmed_to& after, std::int32_t instances,
                     std::int32_t entries) {
  return make_call(sql::trim_ledger, after.fsm, after.step, after.id, instances,
                   entries);
}

pq::call forget_dedup(std::int64_t after, std::int32_t signals) {
  return make_call(sql::forget_dedup, after, signals);
}

// -- nodes --------------------------------------------------------------------

/// As a node's row has it.
struct served_machine {
  std::string name;
  std::int32_t version = 0;
  std::vector<std::string> steps;
  std::vector<std::string> transitions;
  std::vector<std::int32_t> from; ///< versions whose states it takes

  GD_STATE(served_machine, name, version, steps, transitions, from);
};

pq::call register_session(const node_record& what) {
  std::vector<served_machine> machines;
  for (const auto& x : what.machines)
    machines.push_back({x.fsm, x.version, x.steps, edges(x), x.converts});
  return make_call(
    sql::register_session, what.incarnation, what.node, what.host, what.process,
    what.library, what.lease, what.slots, what.queues, to_json(machines).text(),
    static_cast<std::int32_t>(std::size(sql::migrations)), what.address);
}

pq::call note_refused(const std::string& incarnation,
                      const std::vector<refused_row>& rows) {
  return make_call(sql::note_refused, incarnation, to_json(rows).text());
}

pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait) {
  return make_call(sql::node_lock, incarnation, std::int64_t{wait.count()});
}

pq::call leave_nodes(const std::string& incarnation) {
  return make_call(sql::leave_nodes, incarnation);
}

pq::call follow_timeline() {
  return make_call(sql::follow_timeline);
}

pq::call forget_nodes() {
  return make_call(sql::forget_nodes);
}

pq::call silent_sessions(const std::string& incarnation) {
  return make_call(sql::silent_sessions, incarnation);
}

pq::call end_silent_session(const silent_session& which) {
  return make_call(sql::end_silent_session, which.incarnation, which.process,
                   which.began);
}

pq::call foreign_sessions(const std::string& incarnation) {
  return make_call(sql::foreign_sessions, incarnation);
}

pq::call remote_nodes(const std::string& incarnation) {
  return make_call(sql::remote_nodes, incarnation);
}

// -- what is new ---------------------------------------------------------------

pq::call last_ids() {
  return make_call(sql::last_ids);
}

pq::call paused_queues() {
  return make_call(sql::paused_queues);
}

// -- migrations ---------------------------------------------------------------

pq::call older_nodes(int version) {
  return make_call(sql::older_nodes, std::int32_t{version});
}

pq::call note_version(int version, int works_from) {
  return make_call(sql::note_version, std::int32_t{version},
                   std::int32_t{works_from});
}

pq::call namesakes(bool installed) {
  return make_call(sql::namesakes, installed);
}

// -- the schema ---------------------------------------------------------------

pq::call schema_version() {
  return make_call(sql::schema_version);
}

result<void> check_schema(const pq::reply& answer, std::string_view schema) {
  auto newest = std::size(sql::migrations);
  auto refuse = [&](std::string why) {
    return error{
      errc::schema_mismatch, fmt::format("schema {}: {}", schema, why), {}};
  };
  // Of the connection: it says nothing of the schema.
  if (!answer.ok() && answer.failure->code == errc::schema_mismatch)
    return *answer.failure;
  auto installed = read_schema_version(answer);
  if (!installed && installed.error().code != errc::schema_mismatch)
    return installed.error();
  if (!installed)
    return refuse(installed.error().message);
  if (installed->version == 0)
    return refuse(fmt::format("there is no table gen_durable_schema, expected "
                              "version {} (gdctl migrate up)",
                              newest));
  if (installed->version < static_cast<int>(newest))
    return refuse(fmt::format("it has version {}, this library needs {} "
                              "(gdctl migrate up)",
                              installed->version, newest));
  if (installed->works_from > static_cast<int>(newest))
    return refuse(fmt::format("it has version {} and works with libraries from "
                              "{}, this library knows {}: update the program",
                              installed->version, installed->works_from,
                              newest));
  return {};
}

namespace {

error why_no_version(const error& why) {
  if (why.sqlstate == "42703") // no such column
    return {errc::schema_mismatch,
            "there is a table gen_durable_schema that is not ours: keep the "
            "library's tables in a schema of their own (--schema)",
            why.sqlstate};
  if (why.sqlstate == "42501")
    return {why.code,
            why.message
              + ": expected a role with the rights that the scripts of "
                "sql/grants give, and tables without row security",
            why.sqlstate};
  return why;
}

} // namespace

result<schema_state> read_schema_version(const pq::reply& answer) {
  if (answer.failure && answer.failure->sqlstate == "42P01")
    return schema_state{};
  if (answer.failure)
    return why_no_version(*answer.failure);
  auto refuse = [](std::string why) {
    return error{errc::schema_mismatch, std::move(why), {}};
  };
  auto found = read<schema_row>(answer.results.front());
  if (found.size() != 1)
    return refuse(fmt::format("gen_durable_schema has {} rows, expected one: "
                              "delete all but that of the newest migration",
                              found.size()));
  const auto& x = found.front();
  if (!x.hidden.empty())
    return refuse(fmt::format("row security keeps rows of {} from role {}: "
                              "expected it to be off (alter table ... disable "
                              "row level security), or a role that it does not "
                              "hold for (alter role ... bypassrls)",
                              x.hidden, x.role));
  if (x.version == 0)
    return refuse("gen_durable_schema has no row, as behind a dump without "
                  "data: expected one with the version and works_from of where "
                  "the tables come from (gdctl migrate status there): insert "
                  "it");
  return schema_state{x.version, x.works_from};
}

pq::call open_crashes() {
  return make_call(sql::open_crashes);
}

pq::call exonerate(const std::vector<std::int64_t>& processes,
                   const exonerated_page& after, std::int32_t limit) {
  return make_call(sql::exonerate, processes, after.place, after.priority,
                   after.eligible_at, after.id, limit);
}

} // namespace gd::store
