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
  list after;         ///< of signals: inserts that were accepted before
  list own;           ///< ids of the workers' inserts
  /// Signals whose target was not there: it, and the line that says so.
  std::vector<std::pair<std::string, std::string>> refused{};
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
      out.after.add(out.numbers.count);
    } else if (what == "own") {
      out.own.add(first);
    } else if (line.starts_with("refused signal ")
               && line.find(": there is no instance ") != std::string::npos) {
      std::string target;
      std::istringstream{line.substr(sizeof("refused signal"))} >> target;
      out.refused.emplace_back(target, line);
    } else if (what != "ended") {
      out.wrong.push_back(line);
    }
  }
  return out;
}

/// What a server has. It has no less of any instance later: nothing is deleted.
constexpr auto facts
  = "select 'insert' as kind, id, convert_from(unique_key, 'UTF8')::bigint as "
    "number, extract(epoch from inserted_at)::text as token from gen_durable "
    "union all select 'signal', target_id, dedup_key::bigint, null from "
    "gen_durable_signals where dedup_key is not null union all select "
    "'outcome', i.id, "
    "t.n - 1, t.x ->> 'token' from gen_durable i, jsonb_array_elements("
    "coalesce(i.result, i.state) -> 'trail') with ordinality as t (x, n)";

/// Of servers that are not there any more: none, where nothing may be lost.
constexpr auto had
  = "create table if not exists had (server text, kind text, id bigint, number "
    "bigint, token text, asked timestamptz);"
    "create table if not exists lost_signals (id bigint, number bigint);"
    // What a server may take with it: what it had and its standby had not.
    "create or replace view taken as "
    "select kind, id, number, token from had where server = 'dead' except "
    "select kind, id, number, token from had where server = 'standby';"
    // A new timeline draws its ids behind this one, and after this time.
    "create or replace view bound as "
    "select max(id) + 1000000000 as id, max(asked) as time from had where "
    "server = 'standby' and kind = 'insert'";

void note_facts(world& w, const char* server, const std::string& them) {
  w.rows("insert into had select $1, x.* from jsonb_to_recordset($2::jsonb) as "
         "x (kind text, id bigint, number bigint, token text, asked "
         "timestamptz)",
         {server, them});
}

/// Puts the sender's log into tables.
void load_log(world& w, findings& out) {
  auto told = read_log(w);
  out.inserts = told.numbers.count;
  out.signals = told.targets.count;
  w.rows("create table accepted as select * from unnest($1::bigint[], "
         "$2::bigint[]) with ordinality as x (number, id, nth)",
         {told.numbers.all(), told.ids.all()});
  w.rows("create table accepted_signals as select * from unnest($1::bigint[], "
         "$2::bigint[], $3::bigint[]) as x (id, number, after)",
         {told.targets.all(), told.keys.all(), told.after.all()});
  w.rows("create table accepted_own as select unnest($1::bigint[]) as id",
         {told.own.all()});
  out.wrong = std::move(told.wrong);
  // Of instances that are lost, their senders are told so.
  for (auto& [target, line] : told.refused)
    if (w.scalar("select count(*) from taken where kind = 'insert' and id = $1",
                 {target})
        == "0")
      out.wrong.push_back(std::move(line));
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
  std::int64_t findings::*count;
  /// Rows that break it.
  const char* sql;
  /// Rows that are in `taken` are no fault, and are counted here; unset: all are.
  std::int64_t findings::*taken = nullptr;
};

constexpr rule rules[] = {
  {"what is due or executes is not where it is looked for", nullptr,
   "select f.fault from _gd_list_faults() f (fault)"},
  {"accepted inserts are not in the table", &findings::lost,
   "select a.id, a.number from accepted a where not exists (select from "
   "instance i where i.id = a.id and i.number = a.number)",
   &findings::lost_inserts},
  {"ids that were told to two", &findings::duplicated,
   "select id from (select id from accepted union all select id from "
   "accepted_own) x group by id having count(*) > 1 union all select i.id from "
   "instance i join accepted a using (id) where i.number is distinct from "
   "a.number union all select i.id from instance i join accepted_own o using "
   "(id) where i.number is not null"},
  {"rows that nobody was told of", &findings::duplicated,
   "select i.id from instance i where i.number is not null and not exists "
   "(select from accepted a where a.id = i.id)"},
  {"a worker's own inserts that were accepted are not in the table",
   &findings::lost,
   "select id, null from accepted_own where id not in "
   "(select id from instance)",
   &findings::lost_inserts},
  {"accepted signals are gone that no server took with it", &findings::lost,
   "select id, number from lost_signals except select id, number from taken "
   "where kind = 'signal'"},
  {"signals are gone that the new timeline had accepted", &findings::lost,
   "select s.id, s.number from lost_signals s join accepted_signals t using "
   "(id, number) where t.after >= (select min(a.nth) from accepted a, bound b "
   "where a.id > b.id)"},
  {"the standby had what its server had not", nullptr,
   "select kind, id, number, token from had where server = 'standby' except "
   "select kind, id, number, token from had where server = 'dead'"},
  {"what the standby had is gone", &findings::lost,
   "select kind, id, number, token from had where server = 'standby' except "
   "select * from kept"},
  {"instances have ids that the server which died gave to others", nullptr,
   "select k.id, k.number, d.number from kept k join had d using (kind, id) "
   "where kind = 'insert' and d.server = 'dead' and (k.number, k.token) is "
   "distinct from (d.number, d.token)"},
  // Those that were drawn before are used up.
  {"ids were drawn on the new timeline that may have been given out before",
   nullptr,
   "select i.id, i.number from instance i, bound b where i.id <= b.id and "
   "i.inserted_at > b.time"},
  {"instances are not done", &findings::stuck,
   "select i.id, i.fsm, i.status, i.step, i.last_error from instance i where "
   "i.status <> 'done'"},
  {"accepted signals were not consumed by a committed step", &findings::lost,
   "select s.id, s.number from accepted_signals s join instance i using (id) "
   "where not coalesce(i.result, i.state) -> 'signals' @> "
   "to_jsonb(s.number)"},
  {"signals were consumed twice in committed steps", &findings::duplicated,
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
  {"leases are still in force", &findings::stuck,
   "select id from instance where locked_by is not null"},
  {"executions were repeated before anything happened", nullptr,
   "select instance, number from effects where began < $1::timestamptz group "
   "by "
   "1, 2 having count(*) > 1"},
};

} // namespace

bool may_lose(const world& w) {
  return w.options().standby && !w.options().synchronous;
}

std::string facts_as_json() {
  return fmt::format(
    "select jsonb_agg(x) from (select f.*, clock_timestamp() as "
    "asked from ({}) f) x",
    facts);
}

void note_facts_of_standby(world& w, const std::string& them) {
  w.rows(had);
  note_facts(w, "standby", them);
}

/// What the server had that has died, and the executions that were noted there.
static void note_the_dead(world& w) {
  auto all = w.rows_of_the_dead(fmt::format(
    "select ({}), (select jsonb_agg(e) from effects e)", facts_as_json()));
  note_facts(w, "dead", all.at(0).at(0).value());
  w.rows("insert into effects select x.* from jsonb_populate_recordset("
         "null::effects, $1::jsonb) x on conflict (instance, token, number) do "
         "update set ended = coalesce(effects.ended, excluded.ended)",
         {all.at(0).at(1).value()});
}

void send_lost_signals(world& w) {
  auto told = read_log(w);
  w.rows(
    "insert into lost_signals select x.target, x.key from "
    "unnest($1::bigint[], $2::bigint[]) as x (target, key) where not exists "
    "(select from gen_durable_signals s where s.target_id = x.target and "
    "s.dedup_key = "
    "x.key::text)",
    {told.targets.all(), told.keys.all()});
  w.rows("select gd_signal(g.id, 'number', jsonb_build_object('number', "
         "s.number), s.number::text) from lost_signals s join gen_durable g "
         "using (id)");
}

/// Counts what was lost with the server. Nothing: it was not tried.
static void count_lost(world& w, findings& out) {
  auto count = [&](const char* sql) { return std::stoll(w.scalar(sql)); };
  out.lost_signals = count("select count(*) from lost_signals");
  out.lost_outcomes = count(
    "select count(*) from (select kind, id, number, token from taken "
    "where kind = 'outcome' except select * from kept) x");
  for (auto [what, n] : {std::pair{"insert", out.lost_inserts},
                         std::pair{"signal", out.lost_signals},
                         std::pair{"outcome", out.lost_outcomes}})
    if (n == 0)
      out.wrong.push_back(fmt::format("no {} was lost with the server", what));
}

findings check(world& w, const std::string& since) {
  findings out;
  w.rows(had);
  if (may_lose(w))
    note_the_dead(w);
  w.rows(fmt::format("create view kept as {}", facts));
  load_log(w, out);
  w.rows(tables);
  auto excused = w.rows("select id, number from taken where kind = 'insert'");
  std::set<test::row> taken{excused.begin(), excused.end()};
  for (const auto& one : rules) {
    std::string sql{one.sql};
    auto wants_time = sql.find("$1") != std::string::npos;
    auto found = w.rows(sql, wants_time ? test::session::parameters{since}
                                        : test::session::parameters{});
    if (one.taken != nullptr)
      out.*one.taken += static_cast<std::int64_t>(
        std::erase_if(found, [&](const auto& x) { return taken.contains(x); }));
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
  if (may_lose(w))
    count_lost(w, out);
  return out;
}

} // namespace gd::chaos
