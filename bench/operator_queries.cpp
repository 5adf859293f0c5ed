#include "ledger.hpp"

#include <gd/actors/engine.hpp>
#include <gd/client.hpp>
#include <gd/gauges.hpp>
#include <gd/machine.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace gd::bench {

GD_ENUM(parcel_step, pack);

struct parcel {
  GD_STATE(parcel);
};

namespace {

/// What each call is to take at the most.

void check(const auto& x) {
  if (!x)
    throw std::runtime_error{to_string(x.error())};
}

/// Most have ended, as of a table that nobody cleans up; the rest is due where nobody
/// serves it, fails, rests, is due later, or waits behind a key. What is drained lies behind
/// it.
void fill(session& db, std::int64_t rows, std::int64_t drained) {
  db.run("set gd.trusted = 'json'; alter table gen_durable set "
         "(autovacuum_enabled = off)");
  db.run(fmt::format(
    R"(insert into gen_durable (fsm, step, state, status, awaits, queue,
         last_error, result, eligible_at, partition_key)
       select 'Dispatch', 'pack', '{{"parcel": "P-17"}}', s.status,
         case when s.status = 'awaiting_signal' then 'go' end,
         case when n % 100 = 3 then 'later' else 'mail' end,
         case when s.status = 'failed' then 'connection refused ' || n % 1000 end,
         case when s.status = 'done' then jsonb '{{}}' end,
         now() + case when n % 100 = 3 then interval '1 day' else interval '-1 hour' end,
         case when n % 100 = 4 then 'customer ' || n % 1000 end
       from generate_series(1, {}) n
       cross join lateral (
         select cast(case n % 100 when 0 then 'failed' when 1 then 'runnable'
                       when 2 then 'awaiting_signal' when 3 then 'runnable'
                       when 4 then 'runnable' else 'done' end as gen_durable_status)
           as status) s)",
    rows));
  db.run(fmt::format("insert into gen_durable (fsm, step, queue) select "
                     "'Drained', 'pack', 'drained' from generate_series(1, {})",
                     drained));
  db.run("insert into gen_durable_machines (fsm, version, initial_step, steps, "
         "queue) select x, 1, 'pack', '{pack}', 'mail' from (values "
         "('Dispatch'), ('Drained')) v (x)");
  db.run("vacuum analyze gen_durable");
}

struct query {
  std::string title{};
  std::function<void(client&)> ask{};
};

std::vector<query> queries() {
  auto list = [](std::string title, auto change) {
    list_query what;
    change(what.which);
    return query{"list, " + title,
                 [what](client& db) { check(db.list(what)); }};
  };
  return {
    {"queues", [](client& db) { check(db.queues()); }},
    {"nodes", [](client& db) { check(db.nodes()); }},
    {"machines", [](client& db) { check(db.machines()); }},
    {"instances by machine and version",
     [](client& db) { check(db.counts()); }},
    {"instances by step", [](client& db) { check(db.counts("Dispatch", 1)); }},
    {"all that a scrape asks for", [](client& db) { check(read_gauges(db)); }},
    {"jobs", [](client& db) { check(db.jobs()); }},
    {"why", [](client& db) { check(db.why({.id = 101})); }},
    {"one instance", [](client& db) { check(db.look_up(101)); }},
    {"its inbox", [](client& db) { check(db.inbox(101)); }},
    {"its history",
     [](client& db) { check(db.history({.id = 101, .newest_first = true})); }},
    {"what nobody serves", [](client& db) { check(db.not_served()); }},
    {"statuses", [](client& db) { check(db.status_counts()); }},
    {"rates", [](client& db) { check(db.activity()); }},
    list("all", [](auto&) {}),
    list("the failed", [](auto& x) { x.status = "failed"; }),
    list(
      "the failed, by a text that few have",
      [](auto& x) {
    x.status = "failed";
    x.failure = "connection refused 900";
      }),
    list("what nobody has", [](auto& x) { x.fsm = "Nobody"; }),
    list("what executes", [](auto& x) { x.status = "executing"; }),
    };
}

/// Of a process, in seconds.
double cpu_of(const std::string& pid) {
  std::ifstream in{"/proc/" + pid + "/stat"};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  std::istringstream fields{text.substr(text.rfind(')') + 2)};
  std::string skipped;
  for (int i = 0; i < 11; ++i)
    fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void measure(client& db, const std::string& backend, const query& what) {
  constexpr int calls = 40;
  what.ask(db); // reads what is not in memory
  std::vector<double> times;
  auto cpu = cpu_of(backend);
  for (int i = 0; i < calls; ++i) {
    auto began = clock::now();
    what.ask(db);
    times.push_back(
      std::chrono::duration<double, std::milli>(clock::now() - began).count());
  }
  cpu = (cpu_of(backend) - cpu) * 1'000 / calls;
  auto median = quantile(times, 0.5);
  fmt::print("{}: {:.2f} ms, at the most {:.2f} ms; the server's CPU {:.2f} "
             "ms\n",
             what.title, median, quantile(times, 1), cpu);
  std::fflush(stdout);
}

} // namespace

bool measure_operator_queries(std::int64_t rows, const std::string& database) {
  constexpr std::int64_t drained = 1'000'000;
  session by_hand{database};
  auto began = clock::now();
  fill(by_hand, rows, std::min(rows, drained));
  fmt::print("{} instances, {:.1f} GB, made in {:.0f} s\n", rows,
             by_hand.number("select pg_database_size(current_database())")
               / 1e9,
             std::chrono::duration<double>(clock::now() - began).count());
  auto db = client::connect(
    {.database = conninfo(database) + " application_name=operator"});
  check(db);
  check(db->jobs()); // there is a connection
  auto backend = by_hand.scalar("select pid from pg_stat_activity where "
                                "application_name = 'operator'");
  caf::actor_system_config cfg;
  actors::add_to(cfg);
  caf::actor_system sys{cfg};
  config how;
  how.database = conninfo(database);
  how.queues = {{"drained"}};
  how.machines = {
    define<parcel, parcel_step>("Drained", 1)
      .step(parcel_step::pack, [](context<parcel>&) { return gd::done(); })};
  for (bool drains : {false, true}) {
    fmt::print("{}:\n",
               drains ? "beside a drain at full speed" : "on a quiet table");
    result<actors::engine> engine = error{};
    if (drains) {
      engine = actors::start(sys, how);
      check(engine);
    }
    for (const auto& x : queries())
      measure(*db, backend, x);
    if (drains) {
      auto left = by_hand.number("select count(*) from gen_durable where fsm = "
                                 "'Drained' and status <> 'done'");
      fmt::print("{:.0f} were not drained at the end\n", left);
    }
  }
  return true;
}

} // namespace gd::bench
