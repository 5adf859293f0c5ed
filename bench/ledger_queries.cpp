#include "ledger.hpp"

#include <gd/pq/text.hpp>
#include <gd/sql.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <regex>
#include <stdexcept>
#include <vector>

namespace gd::bench {

namespace {

constexpr std::int64_t page = 100;
/// Buffers for each row of a page, and for a page without rows.
constexpr std::int64_t most_for_a_row = 15;
constexpr std::int64_t most_for_none = 20;

/// All rows, their first columns.
std::vector<std::string> lines(session& db, const std::string& text) {
  std::unique_ptr<PGresult, decltype(&PQclear)> answer{
    PQexec(db.get(), text.c_str()), PQclear};
  if (PQresultStatus(answer.get()) != PGRES_TUPLES_OK)
    throw std::runtime_error{text + ": " + PQerrorMessage(db.get())};
  std::vector<std::string> xs;
  for (int i = 0; i < PQntuples(answer.get()); ++i)
    xs.emplace_back(PQgetvalue(answer.get(), i, 0));
  return xs;
}

/// Of each ten instances nine are at `pack` and one at `send`, of which ten in all
/// have failed. Each has an entry; one in the middle has a hundred thousand more.
/// The indexes are made behind that.
void fill(session& db, std::int64_t rows) {
  auto indexes = lines(db, "select indexdef from pg_indexes where tablename = "
                           "'gen_durable' and indexname not in (select conname "
                           "from pg_constraint)");
  auto names = lines(db, "select indexname from pg_indexes where tablename = "
                         "'gen_durable' and indexname not in (select conname "
                         "from pg_constraint)");
  db.run("set gd.trusted = 'json'; set maintenance_work_mem = '512MB'; alter "
         "table gen_durable set (autovacuum_enabled = off); alter table "
         "gen_durable_ledger set (autovacuum_enabled = off)");
  for (const auto& name : names)
    db.run("drop index " + name);
  db.run(fmt::format(
    R"(insert into gen_durable (fsm, step, state, status, awaits, history,
         ledger_step, seq)
       select 'Dispatch', s.step, '{{"parcel": "P-17"}}', s.status,
         case when s.status = 'awaiting_signal' then 'go' end, 1, s.step, 0
       from generate_series(1, {}) n
       cross join lateral (
         select case when n % 10 = 0 then 'send' else 'pack' end as step,
           cast(case when n % {} = 0 then 'failed' when n % 3 = 0 then 'done'
                     when n % 3 = 1 then 'awaiting_signal'
                     else 'runnable' end as gen_durable_status) as status) s)",
    rows, rows / 10));
  db.run("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
         "outcome, to_step, attempt) select id, 0, now(), 1, 'insert', step, 0 "
         "from gen_durable");
  db.run(fmt::format("insert into gen_durable_ledger (instance_id, seq, at, "
                     "fsm_version, outcome, from_step, to_step, attempt, "
                     "token) select {}, n, now(), 1, 'next', 'pack', 'pack', "
                     "0, 'node:1/0123456789abcdef/1' from "
                     "generate_series(1, 100000) n",
                     rows / 2));
  for (const auto& text : indexes)
    db.run(text);
  db.run("vacuum analyze gen_durable, gen_durable_ledger");
}

struct query {
  std::string title{};
  std::string text{};
  std::int64_t rows = page;
  /// Whether it reads what it returns; else what it passes over, too.
  bool bounded = true;
};

std::vector<query> queries(std::int64_t rows) {
  constexpr auto newest = std::numeric_limits<std::int64_t>::max();
  auto in_step = [](const char* step, const char* status, std::int64_t before) {
    return fmt::format("execute {} ('Dispatch', '{}', '{}', {}, {})",
                       gd::sql::in_step.name, step, status, before, page);
  };
  auto gd_in_step = [](const std::string& step, const std::string& more) {
    return "select * from gd_in_step('Dispatch', '" + step + "'" + more + ")";
  };
  auto history = [rows](std::int64_t behind, bool newest_first) {
    return fmt::format("execute {} ({}, {}, {}, {}, '{{}}')",
                       gd::sql::history.name, rows / 2, behind, page,
                       newest_first);
  };
  auto gd_history = [rows](const std::string& more) {
    return fmt::format("select * from gd_history({}{})", rows / 2, more);
  };
  auto middle = fmt::format(", before => {}", rows / 2);
  return {
    {"in_step, the newest", in_step("send", "", newest)},
    {"in_step, from the middle on", in_step("pack", "", rows / 2)},
    {"in_step, a status that many have", in_step("send", "done", newest)},
    {"in_step, a status that few have", in_step("send", "failed", newest), 10,
     false},
    {"in_step, a step without instances", in_step("pay", "", newest), 0},
    {"gd_in_step, the newest", gd_in_step("send", "")},
    {"gd_in_step, from the middle on", gd_in_step("pack", middle)},
    {"gd_in_step, a status that many have", gd_in_step("send", ", 'done'")},
    {"gd_in_step, a status that few have", gd_in_step("send", ", 'failed'"), 10,
     false},
    {"gd_in_step, a step without instances", gd_in_step("pay", ""), 0},
    {"history, the first entries", history(-1, false)},
    {"history, from the middle on", history(50'000, false)},
    {"history, the newest entries", history(newest, true)},
    {"gd_history, the first entries", gd_history("")},
    {"gd_history, from the middle on", gd_history(", 50000")},
    {"gd_history, the newest entries", gd_history(", newest_first => true")},
  };
}

/// Of the whole statement: what the first line says that tells of some.
std::int64_t buffers_in(const std::vector<std::string>& plan) {
  static const std::regex pattern{R"( (hit|read)=(\d+))"};
  for (const auto& line : plan) {
    if (line.find("Buffers: shared") == std::string::npos)
      continue;
    std::int64_t sum = 0;
    for (std::sregex_iterator i{line.begin(), line.end(), pattern}, end;
         i != end; ++i)
      sum += std::stoll((*i)[2]);
    return sum;
  }
  throw std::runtime_error{"a plan without buffers"};
}

bool measure(session& db, const query& what) {
  auto explain = "explain (analyze, buffers) " + what.text;
  lines(db, explain); // reads what is not in memory
  auto plan = lines(db, explain);
  std::vector<double> times;
  std::size_t found = 0;
  for (int i = 0; i < (what.bounded ? 9 : 1); ++i) {
    auto began = clock::now();
    found = lines(db, what.text).size();
    times.push_back(
      std::chrono::duration<double, std::milli>(clock::now() - began).count());
  }
  auto buffers = buffers_in(plan);
  auto most = what.rows > 0 ? what.rows * most_for_a_row : most_for_none;
  auto well = found == static_cast<std::size_t>(what.rows)
              && (!what.bounded || buffers <= most);
  fmt::print("\n{}: {:.2f} ms, {} rows, {} buffers{}{}\n", what.title,
             quantile(times, 0.5), found, buffers,
             what.bounded ? "" : ", not bounded by the page",
             well ? ""
                  : fmt::format("; expected {} rows, and at most {} buffers",
                                what.rows, most));
  for (const auto& line : plan)
    fmt::print("  {}\n", line);
  std::fflush(stdout);
  return well;
}

} // namespace

bool measure_ledger_queries(std::int64_t rows, const std::string& database) {
  auto began = clock::now();
  {
    session db{database};
    fill(db, rows);
    fmt::print("{} instances with history, {:.1f} GB, made in {:.0f} s\n", rows,
               db.number("select pg_database_size(current_database())") / 1e9,
               std::chrono::duration<double>(clock::now() - began).count());
  }
  session db{database};
  for (const auto* x : {&gd::sql::in_step, &gd::sql::history})
    db.run(fmt::format("prepare {} as {}", x->name,
                       gd::pq::substitute_schema(x->text, "public")));
  bool well = true;
  for (const auto& x : queries(rows)) {
    // The engine's statements in its sessions, functions in anybody's.
    db.run(x.text.starts_with("execute")
             ? "set enable_seqscan = off; set plan_cache_mode = "
               "force_generic_plan; set jit = off"
             : "reset all");
    well = measure(db, x) && well;
  }
  return well;
}

} // namespace gd::bench
