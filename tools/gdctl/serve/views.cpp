#include "serve/views.hpp"

#include "common.hpp"
#include "filter.hpp"
#include "machine_line.hpp"
#include "serve/shape.hpp"

#include <gd/gauges.hpp>
#include <gd/graph.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace gdctl::serve {

namespace {

constexpr std::int32_t page = 100;
/// Of what is counted for the overview, of all queues and of each status. With 500 it cost
/// the server 4.0 to 5.5 ms beside a drain; 5 ms are what a view may.
constexpr std::int32_t most_counted = 300;

/// Null.
using nothing = std::optional<std::string>;

/// A graph's steps, where times are numbers.
struct step_shape {
  std::string name{};
  std::optional<std::vector<std::string>> to{};
  bool rests = false;
  bool ends = false;
  std::vector<std::string> outside{};
  std::optional<std::int64_t> after_us{};
  std::string then{};
  bool known = true;
  std::map<std::string, std::int64_t> instances{};

  GD_STATE(step_shape, name, to, rests, ends, outside, after_us, then, known,
           instances);
};

struct graph_shape {
  std::string fsm{};
  std::int32_t version = 0;
  std::string initial_step{};
  bool handled = false;
  std::optional<std::vector<std::string>> handler_to{};
  std::set<std::string> estimated{};
  std::vector<step_shape> steps{};

  GD_STATE(graph_shape, fsm, version, initial_step, handled, handler_to,
           estimated, steps);
};

graph_shape shape(gd::machine_graph x) {
  graph_shape out{.fsm = std::move(x.fsm),
                  .version = x.version,
                  .initial_step = std::move(x.initial_step),
                  .handled = x.handled,
                  .handler_to = std::move(x.handler_to),
                  .estimated = std::move(x.estimated)};
  for (auto& step : x.steps)
    out.steps.push_back(
      {.name = std::move(step.name),
       .to = std::move(step.to),
       .rests = step.rests,
       .ends = step.ends,
       .outside = std::move(step.outside),
       .after_us = step.after ? std::optional{std::int64_t{step.after->count()}}
                              : std::nullopt,
       .then = std::move(step.then),
       .known = step.known,
       .instances = std::move(step.instances)});
  return out;
}

/// Builds an object of what may fail, and is not asked for behind what has.
class object {
public:
  /// `ask` returns a result.
  template <class F>
  object& add(std::string_view name, F ask) {
    if (failure_)
      return *this;
    auto value = ask();
    auto text = value ? shape_of(std::move(*value))
                      : gd::result<std::string>{value.error()};
    if (!text) {
      failure_ = text.error();
      return *this;
    }
    text_ += fmt::format("{}\"{}\":{}", text_.empty() ? "" : ",", name, *text);
    return *this;
  }

  gd::result<std::string> text() const {
    if (failure_)
      return *failure_;
    return '{' + text_ + "}\n";
  }

private:
  std::string text_;
  std::optional<gd::error> failure_;
};

/// What is there already.
template <class T>
auto known(T x) {
  return [x = std::move(x)] { return gd::result<T>{x}; };
}

gd::result<std::string> with_line_break(gd::result<std::string> x) {
  if (x)
    *x += '\n';
  return x;
}

/// A whole number, or what is meant where there is none.
template <class T>
gd::result<T> number_of(const parameters& how, std::string_view name, T none) {
  const auto& text = value_of(how, name);
  if (text.empty())
    return none;
  auto number = parse_number(fmt::format("{}: expected a", name), text);
  if (!number)
    return number.error();
  if (!std::in_range<T>(*number))
    return bad_usage(fmt::format("{}: expected a smaller number", name));
  return static_cast<T>(*number);
}

gd::result<gd::list_query> read_list_query(const parameters& how) {
  auto version = number_of<std::int32_t>(how, "version", 0);
  auto limit = number_of<std::int32_t>(how, "limit", page);
  auto before = number_of<std::int64_t>(how, "before", 0);
  if (!version)
    return version.error();
  if (!limit)
    return limit.error();
  if (!before)
    return before.error();
  filter_options which;
  which.which = {.fsm = value_of(how, "machine"),
                 .version = *version,
                 .step = value_of(how, "step"),
                 .status = value_of(how, "status"),
                 .queue = value_of(how, "queue"),
                 .failure = value_of(how, "failure")};
  which.older = value_of(how, "older");
  if (auto ok = read_filter(which); !ok)
    return of_parameter(ok.error());
  if (auto ok = check_status(which.which.status); !ok)
    return ok.error();
  gd::list_query out{.which = which.which, .limit = *limit};
  if (!value_of(how, "before").empty())
    out.before = *before;
  return out;
}

} // namespace

gd::result<std::string> overview(gd::client& db, const rates& lately) {
  auto statuses = db.status_counts(most_counted);
  if (!statuses)
    return statuses.error();
  auto now = statuses->empty() ? std::int64_t{0} : statuses->front().now_us;
  return object{}
    .add("now_us", known(now))
    .add("rates", known(lately))
    .add("statuses", known(std::move(*statuses)))
    .add("queues", [&] { return db.queues(most_counted); })
    .add("nodes", [&] { return db.nodes(); })
    .add("not_served", [&] { return db.not_served(); })
    .text();
}

gd::result<std::string> machines(gd::client& db, const parameters&) {
  auto known_versions = db.machines();
  if (!known_versions)
    return known_versions.error();
  auto counts = db.counts();
  if (!counts)
    return counts.error();
  return object{}
    .add("machines", known(machine_lines(std::move(*known_versions), *counts)))
    .text();
}

gd::result<std::string> machine(gd::client& db, const parameters& how) {
  const auto& name = value_of(how, "name");
  if (name.empty())
    return bad_usage("name: expected a machine's");
  auto version = number_of<std::int32_t>(how, "version", 0);
  if (!version)
    return version.error();
  auto found = db.graph(name, *version, true);
  if (!found)
    return found.error();
  return with_line_break(shape_of(shape(std::move(*found))));
}

gd::result<std::string> instances(gd::client& db, const parameters& how) {
  auto what = read_list_query(how);
  if (!what)
    return what.error();
  auto found = db.list(*what);
  if (!found)
    return found.error();
  auto text = shape_of(*found);
  if (text && found->rows.empty() && !found->next)
    if (auto which = db.unknown(what->which); which && *which)
      *text = with_members(std::move(*text),
                           ",\"unknown\":" + json_string(**which));
  return with_line_break(std::move(text));
}

gd::result<std::string> instance(gd::client& db, const parameters& how) {
  gd::look_up what;
  auto given = [&](std::string_view name) {
    const auto& text = value_of(how, name);
    return text.empty() ? std::nullopt : std::optional{text};
  };
  address which{.id = value_of(how, "id"),
                .key = given("key"),
                .key_hex = given("key_hex")};
  if (how.size() != 1)
    return bad_usage("expected one of id, key and key_hex");
  if (auto ok = read_address(which, what.id, what.key); !ok)
    return of_parameter(ok.error());
  auto found = db.look_up(what);
  bool deleted = !found && !what.key
                 && (found.error().code == gd::errc::not_found
                     || found.error().code == gd::errc::erased);
  if (!found && !deleted)
    return found.error();
  auto id = found ? found->id : what.id;
  auto entries = db.history({.id = id, .limit = page, .newest_first = true});
  if (!entries)
    return entries.error();
  if (deleted && entries->empty())
    return found.error();
  object out;
  if (found)
    out.add("instance", known(std::move(*found)))
      .add("why", [&] { return db.why({.id = id}); })
      .add("inbox", [&] { return db.inbox(id, page); });
  else
    out.add("instance", known(nothing{}))
      .add("why", known(nothing{}))
      .add("inbox", known(std::vector<gd::inbox_row>{}));
  return out.add("history", known(std::move(*entries))).text();
}

gd::result<std::string> history(gd::client& db, const parameters& how) {
  auto id = parse_id(value_of(how, "id"));
  auto limit = number_of<std::int32_t>(how, "limit", page);
  auto before = number_of(how, "before",
                          std::numeric_limits<std::int64_t>::max());
  if (!id)
    return of_parameter(id.error());
  if (!limit)
    return limit.error();
  if (!before)
    return before.error();
  if (*before <= 0)
    return bad_usage("before: expected a seq above 0");
  return object{}
    .add(
      "rows",
      [&] {
    return db.history({.id = *id,
                       .from_seq = *before - 1,
                       .limit = *limit,
                       .newest_first = true});
      })
    .text();
}

gd::result<std::string> jobs(gd::client& db, const parameters&) {
  return object{}.add("jobs", [&] { return db.jobs(); }).text();
}

gd::result<std::string> job(gd::client& db, const parameters& how) {
  auto id = parse_number("id: expected a job's", value_of(how, "id"));
  if (!id)
    return id.error();
  auto found = db.job(*id);
  if (!found)
    return found.error();
  return with_line_break(shape_of(*found));
}

// -- metrics ------------------------------------------------------------------

static std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (char c : text)
    if (c == '\\' || (quotes && c == '"'))
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  return out;
}

/// The text format, version 0.0.4.
static std::string text_of(const gd::gauge& x) {
  auto text = fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", x.name,
                          escaped(x.help, false));
  for (const auto& point : x.points) {
    std::string labels;
    for (const auto& [name, value] : point.labels)
      labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", name,
                            escaped(value, true));
    text += fmt::format("{}{} {}\n", x.name,
                        labels.empty() ? "" : '{' + labels + '}', point.value);
  }
  return text;
}

static std::string up(double value) {
  return text_of({"gen_durable_database_up",
                  "1: the database has answered in time.",
                  {{{}, value}}});
}

std::string metrics_without_database() {
  return up(0);
}

gd::result<std::string> metrics(gd::client& db) {
  auto gauges = gd::read_gauges(db);
  if (!gauges)
    return gauges.error();
  std::string text;
  for (const auto& x : *gauges)
    text += text_of(x);
  return text + up(1);
}

} // namespace gdctl::serve
