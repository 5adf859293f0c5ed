#include "chaos/checks.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace gd::chaos {

namespace {

/// Puts the sender's log into the tables `accepted` and `accepted_signals`.
void load_log(world& w, verdict& out) {
  w.rows("create table accepted (number bigint primary key, id bigint)");
  w.rows("create table accepted_signals (id bigint, number bigint)");
  w.rows("create table accepted_own (id bigint)");
  std::ifstream log{w.accepted_log()};
  std::string numbers;
  std::string ids;
  std::string targets;
  std::string keys;
  std::string own;
  auto add = [](std::string& list, std::int64_t x) {
    list += (list.empty() ? "{" : ",") + std::to_string(x);
  };
  for (std::string line; std::getline(log, line);) {
    std::istringstream words{line};
    std::string what;
    std::int64_t first = 0;
    std::int64_t second = 0;
    words >> what >> first >> second;
    if (what == "insert") {
      add(numbers, first);
      add(ids, second);
      ++out.inserts;
    } else if (what == "signal") {
      add(targets, first);
      add(keys, second);
      ++out.signals;
    } else if (what == "own") {
      add(own, first);
    } else if (what != "ended") {
      out.wrong.push_back(line);
    }
  }
  if (out.inserts > 0)
    w.rows("insert into accepted select * from unnest($1::bigint[], "
           "$2::bigint[])",
           {numbers + "}", ids + "}"});
  if (out.signals > 0)
    w.rows("insert into accepted_signals select * from unnest($1::bigint[], "
           "$2::bigint[])",
           {targets + "}", keys + "}"});
  if (!own.empty())
    w.rows("insert into accepted_own select unnest($1::bigint[])", {own + "}"});
}

/// Everything that the run was about. Chains without a unique key are the
/// workers' own; scenarios add others.
constexpr auto tables
  = "create view instance as select g.*, "
    "convert_from(g.unique_key, 'UTF8')::bigint as number "
    "from gen_durable g where g.unique_key is not null or g.fsm = 'Chain';"
    // The committed steps, in order, each with the execution that counted.
    "create materialized view committed as "
    "select i.id, i.fsm, i.partition_key, t.n::int - 1 as number, "
    "t.x ->> 'step' as step, t.x ->> 'token' as token "
    "from instance i, jsonb_array_elements(coalesce(i.result, i.state) -> "
    "'trail') with ordinality as t (x, n)";

struct rule {
  const char* what;
  std::int64_t verdict::*count;
  /// Rows that break it.
  const char* sql;
};

constexpr rule rules[] = {
  {"accepted inserts are not in the table", &verdict::lost,
   "select a.number from accepted a where not exists (select from instance i "
   "where i.id = a.id and i.number = a.number)"},
  {"rows that nobody was told of", &verdict::duplicated,
   "select i.id from instance i where i.number is not null and not exists "
   "(select from accepted a where a.id = i.id)"},
  {"a worker's own inserts that were accepted are not in the table",
   &verdict::lost,
   "select id from accepted_own except select id from instance"},
  {"instances are not done", &verdict::stuck,
   "select i.id, i.fsm, i.status, i.step, i.last_error from instance i where "
   "i.status <> 'done'"},
  {"accepted signals were not consumed by a committed step", &verdict::lost,
   "select s.id, s.number from accepted_signals s join instance i using (id) "
   "where not coalesce(i.result, i.state) -> 'signals' @> "
   "to_jsonb(s.number)"},
  {"signals were consumed twice in committed steps", &verdict::duplicated,
   "select i.id from instance i, lateral (select count(*) as n, "
   "count(distinct x) as m from jsonb_array_elements(coalesce(i.result, "
   "i.state) -> 'signals') x) s where s.n <> s.m"},
  {"committed steps that nobody has executed", nullptr,
   "select c.id, c.number, c.step from committed c where not exists (select "
   "from effects e where e.instance = c.id and e.number = c.number and "
   "e.token = c.token and e.step = c.step)"},
  {"committed steps are not a path of the machine", nullptr,
   "select i.id, i.fsm, p.path from instance i, lateral (select "
   "coalesce(string_agg(c.step, ' ' order by c.number), '') as path from "
   "committed c where c.id = i.id) p where i.status = 'done' and p.path !~ "
   "case "
   "i.fsm when 'Chain' then '^one two three four$' when 'Keyed' then '^first "
   "second$' when 'Inbox' then '^(collect ?)+$' when 'Timer' then '^sleep "
   "sleep "
   "wake$' when 'Wild' then '^(plain|blocking|asynchronous)$' end"},
  {"committed steps of a key overlap", nullptr,
   "select partition_key, id, number from (select c.*, e.began, e.ended, "
   "lag(e.ended) over (partition by c.partition_key order by e.began) as "
   "before "
   "from committed c join effects e on e.instance = c.id and e.token = c.token "
   "and e.number = c.number where c.partition_key is not null) x where "
   "x.before "
   "> x.began or x.ended is null"},
  {"a key's first steps are not in pick order", nullptr,
   "select partition_key, id from (select c.*, i.inserted_at, "
   "lag(i.inserted_at) over (partition by "
   "c.partition_key order by e.began) as before from committed c join effects "
   "e "
   "on e.instance = c.id and e.token = c.token and e.number = c.number "
   "join instance i on i.id = c.id and i.result ->> 'replays' = '0' where "
   "c.partition_key is not null and c.number = 0) x where x.before > "
   "x.inserted_at"},
  {"leases are still in force", &verdict::stuck,
   "select id from instance where locked_by is not null"},
  {"executions were repeated before anything happened", nullptr,
   "select instance, number from effects where began < $1::timestamptz group "
   "by "
   "1, 2 having count(*) > 1"},
};

} // namespace

verdict check(world& w, const std::string& since) {
  verdict out;
  load_log(w, out);
  w.rows(tables);
  for (const auto& one : rules) {
    std::string sql{one.sql};
    auto wants_time = sql.find("$1") != std::string::npos;
    auto found = w.rows(sql, wants_time ? test::session::parameters{since}
                                        : test::session::parameters{});
    if (found.empty())
      continue;
    if (one.count != nullptr)
      out.*one.count += static_cast<std::int64_t>(found.size());
    auto text = fmt::format("{}: {}", one.what, found.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i) {
      text += i == 0 ? ", for instance (" : ", (";
      for (const auto& cell : found[i])
        text += cell.value_or("null") + " ";
      text.back() = ')';
    }
    out.wrong.push_back(std::move(text));
  }
  out.repeated = std::stoll(w.scalar(
    "select count(*) from effects e join instance i on i.id = e.instance "
    "where not exists (select from "
    "committed c where c.id = e.instance and c.number = e.number and "
    "c.token = e.token)"));
  if (out.inserts == 0)
    out.wrong.emplace_back("no insert was accepted");
  return out;
}

} // namespace gd::chaos
