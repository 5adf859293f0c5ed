#include "chaos/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace gd::chaos {

namespace {

/// What senders have noted, as arrays of the database's.
struct notes {
  struct list {
    std::string text = "{";
    std::int64_t count = 0;

    void add(std::int64_t x) {
      text += (count++ > 0 ? "," : "") + std::to_string(x);
    }
    std::string all() const {
      return text + "}";
    }
  };
  list numbers, ids;  ///< of inserts
  list targets, keys; ///< of signals
  list own;           ///< ids of the workers' inserts
  list refused;       ///< targets of signals that are not there
  std::vector<std::string> wrong{};
};

notes read_log(const world& w) {
  notes out;
  std::ifstream log{w.accepted_log()};
  for (std::string line; std::getline(log, line);) {
    std::istringstream words{line};
    std::string what;
    std::int64_t first = 0;
    std::int64_t second = 0;
    words >> what >> first >> second;
    if (what == "insert") {
      out.numbers.add(first);
      out.ids.add(second);
    } else if (what == "signal") {
      out.targets.add(first);
      out.keys.add(second);
    } else if (what == "own") {
      out.own.add(first);
    } else if (line.starts_with("refused signal ")) {
      out.refused.add(std::stoll(line.substr(sizeof("refused signal"))));
      out.wrong.push_back(line);
    } else if (what != "ended") {
      out.wrong.push_back(line);
    }
  }
  return out;
}

/// Whether a server may have taken accepted work with it.
bool may_lose(const world& w) {
  return w.options().standby && !w.options().synchronous;
}

/// Puts the sender's log into tables.
void load_log(world& w, verdict& out) {
  auto told = read_log(w);
  out.inserts = told.numbers.count;
  out.signals = told.targets.count;
  w.rows("create table accepted as select * from unnest($1::bigint[], "
         "$2::bigint[]) as x (number, id)",
         {told.numbers.all(), told.ids.all()});
  w.rows("create table accepted_signals as select * from unnest($1::bigint[], "
         "$2::bigint[]) as x (id, number)",
         {told.targets.all(), told.keys.all()});
  w.rows("create table accepted_own as select unnest($1::bigint[]) as id",
         {told.own.all()});
  // Of instances that are lost, their senders are told so.
  if (may_lose(w)
      && w.scalar("select count(*) from gen_durable where id = any($1)",
                  {told.refused.all()})
           == "0")
    std::erase_if(told.wrong, [](const auto& line) {
      return line.starts_with("refused signal ");
    });
  out.wrong = std::move(told.wrong);
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
    "'trail') with ordinality as t (x, n);"
    // The entries of those with history, each with what was before it, and which
    // of the committed steps it is about.
    "create materialized view entry as "
    "select l.*, i.fsm, i.history, lag(l.to_step) over earlier as before, "
    "count(*) filter (where l.outcome in ('next', 'await', 'done')) over "
    "earlier - 1 as number "
    "from instance i join gen_durable_ledger l on l.instance_id = i.id "
    "window earlier as (partition by i.id order by l.seq);"
    "create index on entry (instance_id, seq);"
    // What machines with history do; anything may also be replayed or reaped.
    "create table edge as "
    "select 'Kept' as fsm, * from (values ('insert', null, 'one'), "
    "('next', 'one', 'two'), ('next', 'two', 'three'), "
    "('next', 'three', 'four'), ('done', 'four', 'four')) "
    "as x (outcome, from_step, to_step) "
    "union all select 'Inbox', * from (values ('insert', null, 'collect'), "
    "('await', 'collect', 'collect'), ('done', 'collect', 'collect')) x "
    "union all select 'Timer', * from (values ('insert', null, 'sleep'), "
    "('await', 'sleep', 'sleep'), ('next', 'sleep', 'wake'), "
    "('done', 'wake', 'wake')) x "
    "union all select 'Wild', x.* from unnest(array['plain', 'blocking', "
    "'asynchronous']) s, lateral (values ('insert', null, s), ('done', s, s)) "
    "x";

struct rule {
  const char* what;
  std::int64_t verdict::*count;
  /// Rows that break it.
  const char* sql;
  /// What a server takes with it, if its standby did not have all; unset: nothing.
  std::int64_t verdict::*taken = nullptr;
  /// Effects that were noted with a server are gone with it.
  bool of_effects = false;
};

constexpr rule rules[] = {
  {"accepted inserts are not in the table", &verdict::lost,
   "select a.number from accepted a where not exists (select from instance i "
   "where i.id = a.id and i.number = a.number)",
   &verdict::lost_inserts},
  {"ids that were told to two", &verdict::duplicated,
   "select id from (select id from accepted union all select id from "
   "accepted_own) x group by id having count(*) > 1 union all select i.id from "
   "instance i join accepted a using (id) where i.number is distinct from "
   "a.number union all select i.id from instance i join accepted_own o using "
   "(id) where i.number is not null"},
  {"rows that nobody was told of", &verdict::duplicated,
   "select i.id from instance i where i.number is not null and not exists "
   "(select from accepted a where a.id = i.id)"},
  {"a worker's own inserts that were accepted are not in the table",
   &verdict::lost, "select id from accepted_own except select id from instance",
   &verdict::lost_inserts},
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
   "e.token = c.token and e.step = c.step)",
   nullptr, true},
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
   "> x.began or x.ended is null",
   nullptr, true},
  {"a key's first steps are not in pick order", nullptr,
   "select partition_key, id from (select c.*, i.inserted_at, "
   "lag(i.inserted_at) over (partition by "
   "c.partition_key order by e.began) as before from committed c join effects "
   "e "
   "on e.instance = c.id and e.token = c.token and e.number = c.number "
   "join instance i on i.id = c.id and i.result ->> 'replays' = '0' where "
   "c.partition_key is not null and c.number = 0) x where x.before > "
   "x.inserted_at"},
  {"instances have another history than their machine asks for", nullptr,
   "select i.id, i.fsm, i.history from instance i join gen_durable_machines m "
   "on (m.fsm, m.version) = (i.fsm, i.fsm_version) where i.history <> "
   "m.history "
   "union all select l.instance_id, null, null from gen_durable_ledger l where "
   "not exists (select from entry e where e.instance_id = l.instance_id)"},
  {"histories have gaps", nullptr,
   "select i.id, i.seq, n.least, n.most, n.entries from instance i, lateral "
   "(select min(e.seq) as least, max(e.seq) as most, count(*) as entries from "
   "entry e where e.instance_id = i.id) n where i.history > 0 and (n.least, "
   "n.most, n.entries) is distinct from (0, i.seq, i.seq + 1)"},
  {"entries do not begin where those before them ended", nullptr,
   "select instance_id, seq, before, from_step from entry where before is "
   "distinct from from_step"},
  {"entries are not what their machine does", nullptr,
   "select e.instance_id, e.seq, e.fsm, e.outcome, e.from_step, e.to_step from "
   "entry e where not case when e.outcome in ('replay', 'reap') then "
   "e.from_step = e.to_step and e.attempt > 0 else exists (select from edge m "
   "where m.fsm = e.fsm and m.outcome = e.outcome and m.to_step = e.to_step "
   "and m.from_step is not distinct from e.from_step) end"},
  {"leases ended more than once", nullptr,
   "select instance_id, token from entry group by 1, 2 having count(*) > 1"},
  {"last entries are not their rows", nullptr,
   "select i.id, e.outcome, e.to_step, i.step from instance i join entry e on "
   "e.instance_id = i.id and e.seq = i.seq where (e.outcome, e.to_step, "
   "e.attempt, e.fsm_version, i.ledger_step) is distinct from (i.status::text, "
   "i.step, i.attempt, i.fsm_version, i.step)"},
  {"states of entries are not those of their steps", nullptr,
   "select e.instance_id, e.seq from entry e join instance i on "
   "i.id = e.instance_id where case when e.history = 2 then (e.seq = i.seq and "
   "e.state <> i.state) or jsonb_array_length(e.state -> 'trail') is distinct "
   "from e.number + case when e.outcome = 'done' then 0 else 1 end else "
   "e.state "
   "is not null end"},
  {"entries and committed steps differ", nullptr,
   "select coalesce(c.id, e.instance_id), c.number, e.seq from (select c.* "
   "from committed c join instance i on i.id = c.id and i.history > 0) c full "
   "join (select * from entry where outcome in ('next', 'await', 'done')) e on "
   "e.instance_id = c.id and e.number = c.number where (c.step, c.token) is "
   "distinct from (e.from_step, e.token)"},
  {"replays were not entered, or others", nullptr,
   "select i.id, n.entered, i.result ->> 'replays' from instance i, lateral "
   "(select count(*) as entered from entry e where e.instance_id = i.id and "
   "e.outcome = 'replay') n where i.history > 0 and i.status = 'done' and "
   "n.entered <> (i.result ->> 'replays')::bigint"},
  {"committed steps and replays are more than transitions", nullptr,
   "select i.id, i.seq, n.steps from instance i, lateral (select count(*) as "
   "steps from committed c where c.id = i.id) n where i.status = 'done' and "
   "i.seq < n.steps + (i.result ->> 'replays')::bigint"},
  {"leases are still in force", &verdict::stuck,
   "select id from instance where locked_by is not null"},
  {"executions were repeated before anything happened", nullptr,
   "select instance, number from effects where began < $1::timestamptz group "
   "by "
   "1, 2 having count(*) > 1"},
};

} // namespace

/// Outcomes that the server which has died had committed, and its successor has not.
static std::int64_t count_lost_outcomes(world& w) {
  constexpr auto steps
    = "select i.id, t.n, t.x ->> 'token' from gen_durable i, "
      "jsonb_array_elements(coalesce(i.result, i.state) -> 'trail') with "
      "ordinality as t (x, n)";
  auto now = w.rows(steps);
  std::set<test::row> kept{now.begin(), now.end()};
  auto before = w.rows_of_the_dead(steps);
  return std::count_if(before.begin(), before.end(),
                       [&](const auto& x) { return !kept.contains(x); });
}

std::int64_t send_lost_signals(world& w) {
  auto told = read_log(w);
  constexpr auto lost
    = "select x.target, x.key from unnest($1::bigint[], $2::bigint[]) as x "
      "(target, key) where not exists (select from signals s where s.target_id "
      "= x.target and s.dedup_key = x.key::text)";
  auto found = w.rows(lost, {told.targets.all(), told.keys.all()});
  for (const auto& x : found)
    w.rows("select gd_signal(g.id, 'number', jsonb_build_object('number', "
           "$2::text::bigint), $2::text) from gen_durable g where g.id = "
           "$1::bigint",
           x);
  return static_cast<std::int64_t>(found.size());
}

verdict check(world& w, const std::string& since) {
  verdict out;
  load_log(w, out);
  w.rows(tables);
  if (may_lose(w))
    out.lost_outcomes = count_lost_outcomes(w);
  for (const auto& one : rules) {
    if (one.of_effects && may_lose(w))
      continue;
    std::string sql{one.sql};
    auto wants_time = sql.find("$1") != std::string::npos;
    auto found = w.rows(sql, wants_time ? test::session::parameters{since}
                                        : test::session::parameters{});
    if (found.empty())
      continue;
    if (one.taken != nullptr && may_lose(w)) {
      out.*one.taken += static_cast<std::int64_t>(found.size());
      continue;
    }
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
