#define CAF_SUITE metrics

// What each event does to the metrics, how many there can be, and that what is documented,
// and what alerts are about, is what there is.

#include "metrics/values.hpp"

#include <gd/gauges.hpp>
#include <gd/metrics.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace metrics_suite {

using namespace std::literals;

namespace events = gd::events;

using gd::test::names_of;
using gd::test::values;
using gd::test::values_of;

namespace {

// -- what each event does -----------------------------------------------------

struct told {
  gd::event what;
  values changes;
};

/// There is none for an event that has been forgotten.
template <class Event>
told example();

#define EXAMPLE(name, ...)       \
  template <>                    \
  told example<events::name>() { \
    return __VA_ARGS__;          \
  }

#define COUNTED(name)            \
  EXAMPLE(name, {events::name{}, \
                 {{"gen_durable_events_total{event=\"" #name "\"}", 1}}})

events::step_run run() {
  return {.id = 7, .fsm = "Order", .version = 2, .step = "pay"};
}

std::string of_step(const std::string& name, const std::string& more = {}) {
  return "gen_durable_" + name + "{machine=\"Order\"," + more + "step=\"pay\"}";
}

const std::string of_queue = "{queue=\"mail\"}";

EXAMPLE(node_started,
        {events::node_started{"a"}, {{"gen_durable_node_running", 1}}})
EXAMPLE(node_stopped, {events::node_stopped{"a", 2, 3},
                       {{"gen_durable_abandoned_steps_total", 3}}})
EXAMPLE(connected, {events::connected{0, 1, true},
                    {{"gen_durable_connections_total", 1},
                     {"gen_durable_reconnects_total", 1}}})
EXAMPLE(disconnected, {events::disconnected{.times = 3},
                       {{"gen_durable_disconnections_total", 3}}})
EXAMPLE(step_started, {events::step_started{run(), "t", 250ms},
                       {{of_step("step_wait_seconds_count"), 1},
                        {of_step("step_wait_seconds_sum"), 0.25}}})
EXAMPLE(step_committed, {events::step_committed{run(), "await", false, 2s},
                         {{of_step("steps_total", "outcome=\"await\","), 1},
                          {of_step("step_duration_seconds_count"), 1},
                          {of_step("step_duration_seconds_sum"), 2}}})
EXAMPLE(step_failed,
        {events::step_failed{run()}, {{of_step("step_failures_total"), 1}}})
EXAMPLE(instance_failed, {events::instance_failed{run()},
                          {{of_step("instances_failed_total"), 1}}})
EXAMPLE(outcome_stale,
        {events::outcome_stale{}, {{"gen_durable_stale_outcomes_total", 1}}})
EXAMPLE(lease_lost,
        {events::lease_lost{}, {{"gen_durable_leases_lost_total", 1}}})
EXAMPLE(turn_ended,
        {events::turn_ended{"mail", 5, 9, 3ms, 4, 10},
         {{"gen_durable_turn_duration_seconds_count" + of_queue, 1},
          {"gen_durable_turn_duration_seconds_sum" + of_queue, 0.003},
          {"gen_durable_turn_rows_count{queue=\"mail\",what=\"written\"}", 1},
          {"gen_durable_turn_rows_sum{queue=\"mail\",what=\"written\"}", 5},
          {"gen_durable_turn_rows_count{queue=\"mail\",what=\"picked\"}", 1},
          {"gen_durable_turn_rows_sum{queue=\"mail\",what=\"picked\"}", 9},
          {"gen_durable_slots" + of_queue, 10},
          {"gen_durable_slots_in_use" + of_queue, 4}}})
EXAMPLE(effects_done, {events::effects_done{"mail", 2, 5, 3, 1},
                       {{"gen_durable_effects_total{effect=\"insert\"}", 2},
                        {"gen_durable_effects_total{effect=\"signal\"}", 4},
                        {"gen_durable_effects_total{effect=\"dropped\"}", 1},
                        {"gen_durable_effects_total{effect=\"sql\"}", 3}}})
EXAMPLE(turn_failed, {events::turn_failed{"mail", {}},
                      {{"gen_durable_turn_failures_total" + of_queue, 1}}})
EXAMPLE(rows_released, {events::rows_released{"mail", 6},
                        {{"gen_durable_released_rows_total" + of_queue, 6}}})
EXAMPLE(sweep_ended,
        {events::sweep_ended{"all", 5ms},
         {{"gen_durable_sweep_duration_seconds_count{sweep=\"all\"}", 1},
          {"gen_durable_sweep_duration_seconds_sum{sweep=\"all\"}", 0.005}}})
EXAMPLE(sweep_failed,
        {events::sweep_failed{"heartbeat", {}},
         {{"gen_durable_task_failures_total{task=\"heartbeat\"}", 1}}})
EXAMPLE(reaped, {events::reaped{4}, {{"gen_durable_reaped_rows_total", 4}}})
EXAMPLE(deadlines_fired, {events::deadlines_fired{4},
                          {{"gen_durable_deadlines_fired_total", 4}}})
EXAMPLE(instances_deleted, {events::instances_deleted{4, 2},
                            {{"gen_durable_deleted_instances_total", 4},
                             {"gen_durable_put_off_instances_total", 2}}})
EXAMPLE(requests_answered,
        {events::requests_answered{"signal", "duplicate", 8},
         {{"gen_durable_requests_total{answer=\"duplicate\",request="
           "\"signal\"}",
           8}}})
EXAMPLE(gateway_connection_cut,
        {events::gateway_connection_cut{"p", "w", 5},
         {{"gen_durable_events_total{event=\"gateway_connection_cut\"}", 5}}})
EXAMPLE(gateway_lost,
        {events::gateway_lost{.times = 2},
         {{"gen_durable_events_total{event=\"gateway_lost\"}", 2}}})
EXAMPLE(more_like_it,
        {events::more_like_it{"x", 9, 1ms},
         {{"gen_durable_events_total{event=\"more_like_it\"}", 9}}})
COUNTED(node_failed)
COUNTED(step_slow)
COUNTED(outcome_unknown)
COUNTED(outcome_refused)
COUNTED(outcome_held_up)
COUNTED(row_unusable)
COUNTED(step_crashed)
COUNTED(step_over_limit)
COUNTED(step_returned_late)
COUNTED(pick_lost)
COUNTED(lost_pick_released)
COUNTED(returned)
COUNTED(row_refused)
COUNTED(sessions_ended)
COUNTED(sessions_not_ended)
COUNTED(not_replicated)
COUNTED(ids_raised)
COUNTED(exonerated)
COUNTED(sweep_skipped)
COUNTED(actor_restarted)
COUNTED(machine_replaced)
COUNTED(machine_changed)
COUNTED(machine_withdrawn)
COUNTED(queue_not_served)
COUNTED(version_not_served)
COUNTED(trial_begun)
COUNTED(worker_joined)
COUNTED(worker_refused)
COUNTED(worker_gone)
COUNTED(engine_joined)
COUNTED(engine_lost)
COUNTED(gateway_reached)

template <class... Events>
std::vector<told> examples_of(std::variant<Events...>*) {
  return {example<Events>()...};
}

std::vector<told> examples() {
  return examples_of(static_cast<gd::event*>(nullptr));
}

struct kept {
  std::shared_ptr<prometheus::Registry> registry
    = std::make_shared<prometheus::Registry>();
  gd::event_sink tell;

  explicit kept(gd::metrics::options how = {})
    : tell(*gd::metrics::sink(registry, std::move(how))) {
    // nop
  }

  /// What is not zero, but for buckets.
  values now() const {
    auto all = values_of(*registry);
    std::erase_if(all, [](const auto& x) {
      return x.second == 0 || x.first.find("_bucket") != std::string::npos;
    });
    return all;
  }
};

// -- documents ----------------------------------------------------------------

std::string file(const std::string& name) {
  std::ifstream in{GD_SOURCE_DIR "/" + name};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// The names that the engine's and the database's metrics have.
std::set<std::string> exported() {
  kept all;
  for (const auto& x : examples())
    all.tell(x.what);
  auto names = names_of(*all.registry);
  gd::test::temporary_database db;
  db.migrate();
  db.rows("insert into gen_durable (fsm, step) values ('Order', 'pay')");
  auto from_database = names_of(*gd::metrics::database(
    {.database = db.options(), .limit = gd::test::patience}));
  names.merge(from_database);
  return names;
}

std::vector<std::string> all_matches(const std::string& text,
                                     const std::string& pattern) {
  std::regex what{pattern};
  std::vector<std::string> out;
  for (std::sregex_iterator i{text.begin(), text.end(), what}, end; i != end;
       ++i)
    out.push_back((*i)[i->size() > 1 ? 1 : 0]);
  return out;
}

std::string anchor_of(std::string heading) {
  std::string out;
  for (char c : heading)
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      out += '-';
  return out;
}

struct alert {
  std::string name, text, expression, runbook;
};

/// Of the form that the file has: a list of rules, each with lines of its own.
std::vector<alert> alerts() {
  std::vector<alert> out;
  auto text = file("docs/run/alerts.yml");
  const auto* begins = "      - alert: ";
  for (auto at = text.find(begins); at != std::string::npos;) {
    auto next = text.find(begins, at + 1);
    auto one = text.substr(at, next - at);
    auto line = [&one](const std::string& key) {
      auto found = all_matches(one, "\n {8,10}" + key + ": ([^\n]+)");
      return found.size() == 1 ? found.front() : std::string{};
    };
    out.push_back({all_matches(one, "- alert: (GenDurable[A-Za-z]+)\n").at(0),
                   one, line("expr"), line("runbook")});
    at = next;
  }
  return out;
}

} // namespace

CAF_TEST(each event changes the metrics that it should and no others) {
  for (const auto& x : examples()) {
    kept all;
    auto before = all.now();
    CAF_CHECK(before.empty());
    all.tell(x.what);
    auto after = all.now();
    CAF_MESSAGE(gd::describe(x.what));
    CAF_CHECK_EQUAL(after, x.changes);
  }
}

CAF_TEST(a node that has stopped does not run) {
  kept all;
  all.tell(events::node_started{"a"});
  all.tell(events::node_stopped{"a"});
  auto now = values_of(*all.registry);
  CAF_CHECK_EQUAL(now["gen_durable_node_running"], 0);
}

CAF_TEST(the first connections are no reconnects) {
  kept all;
  all.tell(events::connected{0, 1});
  auto now = values_of(*all.registry);
  CAF_CHECK_EQUAL(now["gen_durable_connections_total"], 1);
  CAF_CHECK_EQUAL(now["gen_durable_reconnects_total"], 0);
}

CAF_TEST(what takes as long as a bucket says is in it) {
  kept all;
  for (auto took : {9'999us, 10'000us, 10'001us})
    all.tell(events::step_committed{run(), "done", false, took});
  auto now = values_of(*all.registry);
  auto bucket = [&](const std::string& le) {
    return now.at("gen_durable_step_duration_seconds_bucket{le=\"" + le
                  + "\",machine=\"Order\",step=\"pay\"}");
  };
  CAF_CHECK_EQUAL(bucket("0.005"), 0);
  CAF_CHECK_EQUAL(bucket("0.01"), 2);
  CAF_CHECK_EQUAL(bucket("0.05"), 3);
  CAF_CHECK_EQUAL(bucket("inf"), 3);
}

CAF_TEST(values of labels are bounded whatever rows say) {
  gd::machine known;
  known.name = "Known";
  known.steps.push_back(
    {.name = "a", .run = [](auto&, auto&) { return gd::outcome{gd::done()}; }});
  kept all{{.machines = {known}, .most_values = 3}};
  auto begins = [&](const std::string& fsm, const std::string& step) {
    all.tell(events::step_started{{.fsm = fsm, .step = step}, "t"});
  };
  for (int i = 0; i < 1'000; ++i) {
    begins("M", std::to_string(i));
    all.tell(events::turn_failed{"q" + std::to_string(i), {}});
    all.tell(events::sweep_failed{std::to_string(i), {}});
  }
  begins("Known", "a");
  auto now = all.now();
  auto waits = [&](const std::string& fsm, const std::string& step) {
    return now["gen_durable_step_wait_seconds_count{machine=\"" + fsm
               + "\",step=\"" + step + "\"}"];
  };
  CAF_CHECK_EQUAL(waits("M", "0"), 1);
  CAF_CHECK_EQUAL(waits("M", "2"), 1);
  CAF_CHECK_EQUAL(waits("other", "other"), 997);
  CAF_CHECK_EQUAL(waits("Known", "a"), 1);
  CAF_CHECK_EQUAL(now["gen_durable_turn_failures_total{queue=\"other\"}"], 997);
  CAF_CHECK_EQUAL(now["gen_durable_task_failures_total{task=\"other\"}"], 997);
  CAF_CHECK_LESS(values_of(*all.registry).size(), 600u);
}

CAF_TEST(steps of known machines are there from the beginning) {
  gd::machine known;
  known.name = "Known";
  known.steps.push_back(
    {.name = "a", .run = [](auto&, auto&) { return gd::outcome{gd::done()}; }});
  known.steps.push_back({.name = "rests", .run = {}});
  kept all{{.machines = {known}}};
  auto now = values_of(*all.registry);
  CAF_CHECK(now.contains("gen_durable_steps_total{machine=\"Known\",outcome="
                         "\"done\",step=\"a\"}"));
  for (const auto& [name, value] : now)
    CAF_CHECK(name.find("rests") == std::string::npos);
}

CAF_TEST(engines share a registry if their labels differ) {
  auto registry = std::make_shared<prometheus::Registry>();
  auto a = gd::metrics::sink(registry, {.labels = {{"node", "a"}}});
  auto b = gd::metrics::sink(registry, {.labels = {{"node", "b"}}});
  CAF_REQUIRE(a && b);
  (*a)(events::reaped{3});
  (*b)(events::reaped{4});
  auto now = values_of(*registry);
  CAF_CHECK_EQUAL(now["gen_durable_reaped_rows_total{node=\"a\"}"], 3);
  CAF_CHECK_EQUAL(now["gen_durable_reaped_rows_total{node=\"b\"}"], 4);
}

CAF_TEST(what Prometheus would not take is refused before anything happens) {
  auto refused = [](gd::metrics::options how) {
    auto x = gd::metrics::sink(std::make_shared<prometheus::Registry>(),
                               std::move(how));
    return !x && x.error().code == gd::errc::invalid_argument
             ? x.error().message
             : "";
  };
  CAF_CHECK(refused({.labels = {{"queue", "x"}}}).find("has queue")
            != std::string::npos);
  CAF_CHECK(!refused({.labels = {{"1 x", "x"}}}).empty());
  CAF_CHECK(!gd::metrics::sink(nullptr));
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter().Name("gen_durable_slots").Register(*registry);
  CAF_CHECK(!gd::metrics::sink(registry));
}

CAF_TEST(all sinks are told in their order) {
  std::string told;
  auto sink = gd::all_of({[&](const gd::event&) { told += "a"; },
                          [&](const gd::event&) { told += "b"; }});
  sink(events::reaped{1});
  CAF_CHECK_EQUAL(told, "ab");
}

CAF_TEST(the documented metrics are those that there are) {
  auto text = file("docs/run/metrics.md");
  std::set<std::string> documented;
  for (auto& x : all_matches(text, "\n\\| `(gen_durable_[a-z_]+)` \\|"))
    documented.insert(x);
  CAF_CHECK_EQUAL(documented, exported());
}

CAF_TEST(names are as Prometheus wants them) {
  kept all;
  for (const auto& x : examples())
    all.tell(x.what);
  for (const auto& family : all.registry->Collect()) {
    bool counts = family.type == prometheus::MetricType::Counter;
    CAF_CHECK_EQUAL(family.name.ends_with("_total"), counts);
    CAF_CHECK(std::regex_match(family.name, std::regex{"[a-z_]+"}));
    CAF_CHECK(!family.help.empty());
  }
}

CAF_TEST(each alert is about metrics that there are and leads to a chapter) {
  auto known = exported();
  std::set<std::string> chapters;
  auto text = file("docs/run/alerts.md");
  for (auto& x : all_matches(text, "\n#+ ([^\n]+)"))
    chapters.insert("docs/run/alerts.md#" + anchor_of(x));
  auto all = alerts();
  CAF_CHECK_GREATER(all.size(), 10u);
  std::set<std::string> names;
  std::set<std::string> led_to;
  for (const auto& x : all) {
    CAF_MESSAGE(x.name);
    CAF_CHECK(names.insert(x.name).second);
    CAF_CHECK(!x.expression.empty());
    CAF_CHECK_EQUAL(std::count(x.expression.begin(), x.expression.end(), '('),
                    std::count(x.expression.begin(), x.expression.end(), ')'));
    CAF_CHECK(
      all_matches(x.text, "\n          severity: (page|ticket)\n").size() == 1);
    CAF_CHECK(all_matches(x.text, "\n          summary: ([^\n]+)\n").size()
              == 1);
    CAF_CHECK_EQUAL(chapters.count(x.runbook), 1u);
    led_to.insert(x.runbook);
    auto about = all_matches(x.expression, "gen_durable_[a-z_]+");
    CAF_CHECK(!about.empty());
    for (const auto& name : about)
      CAF_CHECK_EQUAL(known.count(std::regex_replace(
                        name, std::regex{"_(bucket|count|sum)$"}, "")),
                      1u);
  }
  auto sections = all_matches(text, "\n## ([^\n]+)");
  CAF_CHECK_GREATER(sections.size(), 10u);
  for (auto& x : sections)
    CAF_CHECK_EQUAL(led_to.count("docs/run/alerts.md#" + anchor_of(x)), 1u);
}

CAF_TEST(what a step costs in the sink) {
  kept all;
  events::step_started begun{run(), "node/0123456789/77", 3ms};
  events::step_committed done{run(), "next", false, 40us};
  const std::vector<gd::event> both{begun, done};
  constexpr int times = 100'000;
  auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i)
    for (const auto& x : both)
      all.tell(x);
  auto took = std::chrono::steady_clock::now() - began;
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  std::printf("metrics of a step: %lld ns\n",
              static_cast<long long>(ns / times));
  auto now = all.now();
  CAF_CHECK_EQUAL(now[of_step("step_wait_seconds_count")], times);
}

} // namespace metrics_suite
