#include <gd/pq/store_nodes.hpp>

#include <gd/migrations.hpp>
#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>

namespace gd::store {

using pq::column;
using pq::make_call;

// -- machines -----------------------------------------------------------------

std::vector<known_machine> known(const std::vector<machine>& machines) {
  std::vector<known_machine> xs;
  for (const auto& x : machines) {
    xs.push_back({.fsm = x.name,
                  .version = x.version,
                  .initial_step = x.initial_step,
                  .queue = x.queue,
                  .history = static_cast<std::int16_t>(x.history)});
    if (x.history_keep)
      xs.back().keep_us = x.history_keep->count();
    for (const auto& step : x.steps)
      xs.back().steps.push_back(step.name);
  }
  return xs;
}

static std::string joined_steps(const known_machine& x) {
  return fmt::format("{}", fmt::join(x.steps, ","));
}

pq::call machines_lock() {
  return make_call(sql::machines_lock);
}

pq::call refuse_other_steps(const std::string& incarnation,
                            const std::vector<known_machine>& machines) {
  return make_call(
    sql::refuse_other_steps, incarnation, column(machines, &known_machine::fsm),
    column(machines, &known_machine::version), column(machines, joined_steps));
}

pq::call register_machines(const std::vector<known_machine>& machines) {
  return make_call(
    sql::register_machines, column(machines, &known_machine::fsm),
    column(machines, &known_machine::version),
    column(machines, &known_machine::initial_step),
    column(machines, &known_machine::queue), column(machines, joined_steps),
    column(machines, &known_machine::history),
    column(machines, &known_machine::keep_us));
}

pq::call replaced_machines(const std::vector<known_machine>& machines) {
  return make_call(
    sql::replaced_machines, column(machines, &known_machine::fsm),
    column(machines, &known_machine::version), column(machines, joined_steps));
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

// -- nodes --------------------------------------------------------------------

/// As a node's row has it.
struct served_machine {
  std::string name;
  std::int32_t version = 0;
  std::vector<std::string> steps;

  GD_STATE(served_machine, name, version, steps);
};

pq::call register_session(const node_record& what) {
  std::vector<served_machine> machines;
  for (const auto& x : what.machines)
    machines.push_back({x.fsm, x.version, x.steps});
  return make_call(sql::register_session, what.incarnation, what.node,
                   what.host, what.process, what.library, what.lease,
                   what.slots, what.queues, to_json(machines).text(),
                   static_cast<std::int32_t>(std::size(sql::migrations)));
}

pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait) {
  return make_call(sql::node_lock, incarnation, std::int64_t{wait.count()});
}

pq::call leave_nodes(const std::string& incarnation) {
  return make_call(sql::leave_nodes, incarnation);
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

// -- migrations ---------------------------------------------------------------

pq::call older_nodes(int version) {
  return make_call(sql::older_nodes, std::int32_t{version});
}

// -- the schema ---------------------------------------------------------------

pq::call schema_version() {
  return make_call(sql::schema_version);
}

result<void> check_schema(const pq::rows& rows, std::string_view schema) {
  auto newest = std::size(sql::migrations);
  auto refuse = [&](std::string why) {
    return error{
      errc::schema_mismatch, fmt::format("schema {}: {}", schema, why), {}};
  };
  auto installed = read_schema_version(rows);
  if (!installed)
    return refuse(installed.error().message);
  if (installed->version == 0)
    return refuse("there is no table gen_durable, expected version "
                  + std::to_string(newest) + " (gdctl migrate up)");
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

result<schema_state> read_schema_version(const pq::rows& rows) {
  if (rows.size() == 0)
    return schema_state{};
  auto text = rows.text(0, 0);
  constexpr std::string_view before = "gen_durable schema ";
  constexpr std::string_view between = ", works with libraries from ";
  schema_state x;
  auto number = [&text](int& to) {
    auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(),
                                         to);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return failed == std::errc{} && to > 0;
  };
  auto skip = [&text](std::string_view prefix) {
    if (!text.starts_with(prefix))
      return false;
    text.remove_prefix(prefix.size());
    return true;
  };
  if (skip(before) && number(x.version) && skip(between) && number(x.works_from)
      && text.empty())
    return x;
  return error{errc::schema_mismatch,
               "there is a table gen_durable whose comment does not tell its "
               "version: it is not ours, or was not made by gdctl migrate",
               {}};
}

} // namespace gd::store
