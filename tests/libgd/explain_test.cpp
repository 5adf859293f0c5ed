#define CAF_SUITE explain

// What the hot statements read of a table with a million rows: a small multiple
// of their batch, by index, whatever plan the server makes.

#include <gd/pq/text.hpp>
#include <gd/sql.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace explain_suite {

using namespace std::literals;

namespace {

namespace sql = gd::sql;

using gd::test::session;
using gd::test::temporary_database;

constexpr int batch = 500;

// -- a million rows -----------------------------------------------------------

/// Of each 100 rows 30 are runnable (3 of them later), 1 executes, 29 wait (14
/// with a deadline), 30 are done, 10 have failed. They are of two machines. Most of the rows that wait or
/// execute have signals, some are tombstones.
constexpr auto fill_instances = R"(
  insert into gen_durable (fsm, fsm_version, step, status, state, awaits, queue, priority,
                           eligible_at, locked_by, lease_expires_at, deadline, partition_key, history,
                           ledger_step)
  select case when n % 11 > 0 then 'Order' else 'Other' end, case when n % 11 > 0 then 1 else 7 end,
    'collect', kind::gen_durable_status, '{"n": 1}',
    case when kind = 'awaiting_signal' then 'paid' end,
    case when n % 5 = 0 then 'rare' else 'default' end, n / 100 % 3,
    now() + case when n % 100 in (17, 42, 66) then interval '1 hour' else interval '-1 hour' end
          + n % 1000000 * interval '1 microsecond',
    case when kind = 'executing' then 'node/1/' || n / 100 % 50 end,
    case when kind = 'executing' then now() + (n / 100 % 10 - 1) * interval '1 hour' end,
    case when kind = 'awaiting_signal' and n % 2 = 0
         then now() + (n / 100 % 10 - 1) * interval '1 hour' + n * interval '1 ms' end,
    case when n % 7 = 0 then 'key ' || n % 10000 end,
    case when kind = 'executing' then 1 else n % 3 end, case when kind = 'executing' or n % 3 > 0 then 'collect' end
  from (
    select n, case when n * 37 % 100 < 30 then 'runnable' when n * 37 % 100 < 31 then 'executing'
                   when n * 37 % 100 < 60 then 'awaiting_signal' when n * 37 % 100 < 90 then 'done'
                   else 'failed' end as kind
    from generate_series(1, $1::int) n
  ) numbered
)";
constexpr auto fill_signals = R"(
  insert into gen_durable_signals (target_id, name, payload, dedup_key, consumed_at)
  select g.id, case when k = 1 then 'paid' else 'noted' end,
    '{"order": "0123456789abcdef0123456789abcdef", "amount": "1234567.89", "currency": "EUR"}',
    case when (g.id + k) % 3 = 0 then 'evt-' || k end,
    case when (g.id + k) % 6 = 0 then now() end
  from gen_durable g cross join generate_series(1, 3) k
  where g.status = 'executing' or (g.status = 'awaiting_signal' and g.id % 3 = 0)
)";
/// Of one instance in ten, ten entries.
constexpr auto fill_ledger = R"(
  insert into gen_durable_ledger (instance_id, seq, at, fsm_version, outcome, to_step, attempt, state)
  select g.id, -k, now(), 1, 'next', 'collect', 0, '{"n": 1}'
  from gen_durable g cross join generate_series(1, 10) k
  where g.id % 10 = 7
)";

std::string list(const std::vector<std::string>& xs) {
  std::string out = "'{";
  for (const auto& x : xs)
    out += (out.size() > 2 ? "," : "") + x;
  return out + "}'";
}

/// A thousand, all over the table.
std::string awaited_ids() {
  std::vector<std::string> xs;
  for (int id = 1; id < 700'000; id += 700)
    xs.push_back(std::to_string(id));
  return list(xs);
}

/// The same value for every row of the batch.
std::string each(const std::string& value, const std::string& type) {
  return "array_fill(" + value + "::" + type + ", array["
         + std::to_string(batch) + "])";
}

// -- what a plan tells --------------------------------------------------------

struct costs {
  std::string scanned;       ///< large tables that were read from end to end
  std::int64_t sorted = 0;   ///< rows into the largest sort
  std::int64_t filtered = 0; ///< rows read in vain
  std::int64_t buffers
    = 0; ///< pages of the shared buffers, read or found there
};

/// Adds up an `explain (analyze, buffers, format json)`. A data-modifying WITH
/// that nobody reads runs after the main plan: its pages are not the root's. How many locks
/// and sessions a server has, which its functions tell, is no cost of a statement.
constexpr auto read_plan = R"(
  with node as (
    select n, (n ->> 'Actual Loops')::numeric as loops,
      (n ->> 'Shared Hit Blocks')::bigint + (n ->> 'Shared Read Blocks')::bigint as buffers
    from jsonb_path_query($1::jsonb, 'strict $.** ? (exists(@."Node Type"))') n
  )
  select
    (select coalesce(string_agg(n ->> 'Relation Name', ','), '') from node
     where n ->> 'Node Type' = 'Seq Scan'
       and n ->> 'Relation Name' not in ('gen_durable_nodes', 'gen_durable_machines', 'gen_durable_queues',
         'gen_durable_crashes', 'gen_durable_leases', 'pg_database')),
    (select coalesce(max((input ->> 'Actual Rows')::numeric * (input ->> 'Actual Loops')::numeric), 0)::bigint
     from node, jsonb_array_elements(n -> 'Plans') input
     where n ->> 'Node Type' in ('Sort', 'Incremental Sort')),
    (select coalesce(sum(value::numeric * loops), 0)::bigint from node, jsonb_each_text(n)
     where key like 'Rows Removed by %'
       and coalesce(n ->> 'Function Name', '') not in ('pg_lock_status', 'pg_stat_get_activity')),
    (select sum(buffers) from node
     where not n ? 'Parent Relationship'
       or (n ->> 'Node Type' = 'ModifyTable' and n ->> 'Subplan Name' not in (
             select 'CTE ' || (s.n ->> 'CTE Name') from node s where s.n ? 'CTE Name')))
)";

// -- statements ---------------------------------------------------------------

struct measured {
  /// Of a batch of rows, each of which may touch so many pages; what runs `first` is in the
  /// same transaction.
  measured(const sql::statement& statement, std::string with, int pages,
           std::string first = {})
    : what(&statement),
      arguments(std::move(with)),
      pages_per_row(pages),
      before(std::move(first)) {
    // nop
  }

  measured of(int n) && {
    rows = n;
    return std::move(*this);
  }

  /// So many for each.
  measured reads_in_vain(int n) && {
    filtered_per_row = n;
    return std::move(*this);
  }

  /// Reads a part of what it reads from end to end: its pages are its limit.
  measured that_stops() && {
    stops = true;
    return std::move(*this);
  }

  const sql::statement* what;
  std::string arguments;
  int pages_per_row;
  std::string before;
  int rows = batch;
  int filtered_per_row = 4;
  bool stops = false;
};

/// Those that are about one table's definition, or no table, or all of it.
const std::vector exempt{&sql::begin,        &sql::release_savepoint,
                         &sql::commit,       &sql::rollback_to_savepoint,
                         &sql::rollback,     &sql::lock_timeout,
                         &sql::savepoint,    &sql::create_schema,
                         &sql::borrow,       &sql::schema_exists,
                         &sql::restore,      &sql::schema_version,
                         &sql::session,      &sql::version_place,
                         &sql::namesakes,    &sql::migration_lock,
                         &sql::machines,     &sql::note_version,
                         &sql::nodes,        &sql::lock_version,
                         &sql::retire,       &sql::lock_instances,
                         &sql::unpin,        &sql::any_instance,
                         &sql::pin,          &sql::older_nodes,
                         &sql::node_lock,    &sql::find_machines,
                         &sql::remote_nodes, &sql::machines_lock,
                         &sql::check,        &sql::refuse_other_steps,
                         &sql::repair,       &sql::register_machines,
                         &sql::check_ids,    &sql::replaced_machines,
                         &sql::stats,        &sql::mark_served,
                         &sql::graph,        &sql::sweep_lock,
                         &sql::activity,     &sql::end_session,
                         &sql::last_ids,     &sql::register_session,
                         &sql::pause,        &sql::leave_nodes,
                         &sql::resume,       &sql::follow_timeline,
                         &sql::begin_job,    &sql::forget_nodes,
                         &sql::lock_job,     &sql::note_refused,
                         &sql::unlock_job,   &sql::open_crashes,
                         &sql::cancel_job,   &sql::silent_sessions,
                         &sql::jobs,         &sql::end_silent_session,
                         &sql::upgrade,      &sql::foreign_sessions,
                         &sql::open_job,     &sql::paused_queues,
                         &sql::pick_summary, &sql::bring_older,
                         &sql::state_faults, &sql::clean_session,
                         &sql::enter_step,   &sql::leave_step,
                         &sql::xact_status,  &sql::check_constraints,
                         &sql::users_session};

bool is_exempt(const sql::statement& x) {
  return std::find(exempt.begin(), exempt.end(), &x) != exempt.end();
}

std::string execute(const sql::statement& what, const std::string& arguments) {
  auto text = "execute " + std::string{what.name};
  return arguments.empty() ? text : text + " (" + arguments + ")";
}

struct million_rows {
  temporary_database db;
  /// Prepared everything, in generic plans, when the tables were empty.
  std::unique_ptr<session> early;

  explicit million_rows(int rows = 1'000'000) {
    db.migrate();
    // Before anything is prepared: plans are made anew after it.
    db.rows("alter table gen_durable set (autovacuum_enabled = off);"
            "alter table gen_durable_due set (autovacuum_enabled = off);"
            "alter table gen_durable_leases set (autovacuum_enabled = off);"
            "alter table gen_durable_signals set (autovacuum_enabled = off);"
            "alter table gen_durable_ledger set (autovacuum_enabled = off)");
    early = std::make_unique<session>(db.conninfo());
    pin(*early);
    prepare(*early, "force_generic_plan");
    for (const auto& x : statements())
      early->exec("begin; " + (x.before.empty() ? "" : x.before + "; ")
                  + execute(*x.what, x.arguments) + "; rollback");
    fill(rows);
  }

  void fill(int rows) {
    // All are listed together, and not by a call of a trigger for each.
    db.rows("set gd.trusted = 'all'");
    db.rows(fill_instances, {std::to_string(rows)});
    db.rows("reset gd.trusted; select _gd_list_again()");
    db.rows(fill_signals);
    db.rows(fill_ledger);
  }

  void pin(session& s) {
    s.exec(text(sql::session),
           {"30s", "10s", "5s", std::to_string(s.pid()), "0"});
  }

  void prepare(session& s, const std::string& mode) {
    s.exec("set plan_cache_mode = " + mode);
    for (const auto* x : sql::all)
      if (!is_exempt(*x))
        s.exec("prepare " + std::string{x->name} + " as " + text(*x));
  }

  std::string text(const sql::statement& what) {
    return gd::pq::substitute_schema(what.text, db.schema());
  }

  std::vector<std::string> column(const std::string& query) {
    std::vector<std::string> xs;
    for (const auto& row : db.rows(query))
      xs.push_back(row.front().value_or("NULL"));
    return xs;
  }

  /// Ids from all over the table, in no order.
  std::vector<std::string> some(const std::string& status) {
    return column("select id from gen_durable where status = '" + status
                  + "' and awaits is not distinct from case when status = "
                    "'awaiting_signal' then 'paid' end"
                    " order by md5(id::text) limit "
                  + std::to_string(batch));
  }

  std::vector<measured> statements() {
    auto running = list(some("executing"));
    auto waiting = list(some("awaiting_signal"));
    auto tokens = list(column("select g.locked_by from unnest(" + running
                              + "::bigint[]) with ordinality x (id, n) join "
                                "gen_durable g using (id) order by n"));
    auto consumed = list(
      column("select id from gen_durable_signals where target_id = any("
             + running + "::bigint[])"));
    auto any_id = list(
      column("select n * 1999 from generate_series(1, 500) n"));
    auto new_id = list(
      column("select 2000000 + n from generate_series(1, 500) n"));
    // Of every kind, in turn.
    auto kinds = list(column("select (array['next', 'replay', 'await', 'done', "
                             "'stop', 'release'])[1 + n % 6]"
                             " from generate_series(1, 500) n"));
    auto keys = list(column("select case when n % 2 = 0 then 'new-' || n end "
                            "from generate_series(1, 500) n"));
    auto unique = list(column("select 'unique ' || n"
                              " from generate_series(1, 500) n"));
    auto nothing = each("null", "bigint");
    auto versions = each("'Order'", "text") + ", " + each("1", "int") + ", "
                    + each("0", "int");
    auto keyed_ids = list(column("select id from gen_durable where status = "
                                 "'runnable' and partition_key is not null"
                                 " order by md5(id::text) limit 500"));
    auto keyed_executing = list(
      column("select g.id from gen_durable g join gen_durable_due d "
             "using (id) where d.executes order by g.id limit 500"));
    auto keyed_tokens = list(
      column("select g.locked_by from gen_durable g join "
             "gen_durable_due d using (id) where d.executes order by "
             "g.id limit 500"));
    auto keyed = "select set_config('gd.keyed', " + keyed_ids + ", true)";
    auto due = list(column("select id from gen_durable where status = "
                           "'runnable' and partition_key is null and "
                           "eligible_at < now() order by md5(id::text) limit "
                           "500"));
    auto looking = [](const std::string& queue, const std::string& machines) {
      return "'node/1/99', 1000, 60000000, '" + queue + "', 500, " + machines
             + ", '{-32768}', '{-1}', '{-1}', 1000";
    };
    const auto* suspects = "'node/1/99', 1000, 60000000, 'default', 500, "
                           "'{Order,Other}', '{1,7}', '{500}', '{}', '{}'";
    auto suspected
      = "update " + db.schema()
        + ".gen_durable set crashes = 2, crashed_in = '{1,2}' where id = any("
        + due + "::bigint[])";
    // One with a unique key and a history; once, it has been done before.
    auto kept = "insert into " + db.schema()
                + ".gen_durable (id, fsm, step, unique_key, unique_scope, "
                  "unique_guard, history) overriding system value values "
                  "(5000000, 'Order', 'collect', 'k', '{runnable,executing}', "
                  "'k', 2); insert into "
                + db.schema()
                + ".gen_durable_ledger (instance_id, seq, at, fsm_version, "
                  "outcome, to_step, attempt, state) values (5000000, 0, "
                  "now(), 1, 'insert', 'collect', 0, '{}'); ";
    // The first is in that status, and half of the queue has its partition key.
    auto first = column("select coalesce(min(id), 1) from gen_durable").front();
    auto why_of = [this, first](const std::string& status) {
      auto executes = status == "executing";
      return "update " + db.schema() + ".gen_durable set status = '" + status
             + "', partition_key = 'hot', awaits = "
             + (status == "awaiting_signal" ? "'paid'" : "null")
             + ", locked_by = " + (executes ? "'n/1/1'" : "null")
             + ", lease_expires_at = " + (executes ? "now()" : "null")
             + " where id = " + first + "; update " + db.schema()
             + ".gen_durable set partition_key = 'hot' where id < " + first
             + " + 3000 and status = 'runnable'";
    };
    auto job_of = [this](const std::string& status) {
      return "truncate " + db.schema()
             + ".gen_durable_jobs restart identity; select " + db.schema()
             + ".gd_begin_job('move', fsm => 'Order', status => '" + status
             + "', to_queue => 'rare', to_priority => 1, force => true)";
    };
    // As lock_job has left it.
    const auto* held_job = "; select set_config('gd.job', '1', true)";
    auto upgrade_job = "truncate " + db.schema()
                       + ".gen_durable_jobs restart identity; insert into "
                       + db.schema()
                       + ".gen_durable_jobs (what, fsm, to_version, dry_run,"
                         " made_by, highest_id) values ('upgrade', 'Order', 9,"
                         " false, 'ann', 5000000)";
    // What is not there is refused, also before the table is filled.
    auto there = "insert into " + db.schema()
                 + ".gen_durable (id, fsm, step) overriding system value values"
                   " (777777, 'Order', 'collect') on conflict do nothing";
    // Every other one of those that wait by the unique key that it has.
    auto key_of = "case when id % 2 = 0 then 'key ' || id end"s;
    auto of_waiting = " from unnest(" + waiting
                      + "::bigint[]) with ordinality x (id, n) order by n";
    auto half = list(
      column("select case when id % 2 = 1 then id end" + of_waiting));
    auto occupied = list(column("select coalesce('\"key ' || case when id % 2 ="
                                " 0 then id end || '\"', 'null')"
                                + of_waiting));
    auto named
      = "update " + db.schema() + ".gen_durable set unique_key = (" + key_of
        + ")::bytea, unique_guard = (" + key_of
        + ")::bytea, unique_scope = '{awaiting_signal}' where id = any("
        + waiting + "::bigint[])";
    auto sent = each("'paid'", "text") + ", " + each("'{\"a\": 1}'", "text")
                + ", " + keys + ", 1000, '{}'";
    auto moved = each("'pay'", "text") + ", " + each("'collect'", "text")
                 + ", '{}', " + each("'{\"n\": 2}'", "text")
                 + ", '{}', '{}', '{}'";
    auto movable = "insert into " + db.schema()
                   + ".gen_durable_machines (fsm, version, initial_step, queue,"
                     " steps, outside) select x.fsm, x.version, 'collect',"
                     " 'default', '{collect,pay}', '{\"collect\": {\"to\":"
                     " [\"pay\"]}}' from (values ('Order', 1), ('Other', 7))"
                     " x (fsm, version)";
    auto outcomes = [&](const std::string& kind, const std::string& signals,
                        const std::string& names = "'{}'") {
      return running + ", " + tokens + ", " + each("'ship'", "text") + ", "
             + each("'{\"n\": 2}'", "text") + ", " + signals + ", " + kind
             + ", " + each("'{\"n\": 2}'", "text") + ", " + each("5", "bigint")
             + ", " + each("'paid'", "text") + ", " + nothing + ", " + nothing
             + ", " + each("'reason'", "text") + ", " + names;
    };
    if (running == "'{}'") // while the tables are empty
      tokens = kinds = keys = unique = "'{}'";
    auto inserted = new_id + ", " + each("'Order'", "text") + ", "
                    + each("1", "int") + ", " + each("'collect'", "text") + ", "
                    + each("'{}'", "text") + ", " + each("'default'", "text")
                    + ", " + each("1", "smallint") + ", " + versions + ", "
                    + nothing + ", " + nothing + ", " + keys;
    auto parking = execute(sql::flush,
                           outcomes(each("'await'", "text"), "'{}'"));
    auto parking_of_several = execute(
      sql::flush, outcomes(each("'await'", "text"), "'{}'",
                           each("'[\"a\", \"noted\", \"b\"]'", "text")));
    auto waiting_for_others = "update " + db.schema()
                              + ".gen_durable set awaits = 'a', awaits_also = "
                                "'{b,paid}' where id = any("
                              + waiting + "::bigint[]); ";
    auto forgetting = "insert into " + db.schema()
                      + ".gen_durable_machines (fsm, version, initial_step,"
                        " queue, steps, forget_dedup_after) select x.fsm,"
                        " x.version, 'collect', 'default', '{collect}', '1 us'"
                        " from (values ('Order', 1), ('Other', 7))"
                        " x (fsm, version)";
    auto over = list(some("done"));
    auto end_of_time = "update " + db.schema()
                       + ".gen_durable set expires_at = now() - interval '1 s' "
                         "where id = any("
                       + over + "::bigint[])";
    auto old = "update " + db.schema()
               + ".gen_durable set inserted_at = now() - interval '1 h' where "
                 "id = any("
               + running + "::bigint[])";
    auto ends = [&](const std::string& keep_us) {
      return outcomes(each("'done'", "text"), consumed) + ", '{}', '{}', "
             + each(keep_us, "bigint") + ", 18000000";
    };
    return {
      {sql::pick, looking("default", "'{Order,Other}', '{1,7}'"), 40},
      // Of one machine: claimed as they are read.
      {sql::pick, looking("default", "'{Order}', '{1}'"), 40},
      // With the rows of partition keys among them.
      {sql::pick_keyed,
       looking("default", "'{Order,Other}', '{1,7}'")
         + ", '{}', '', false, '{}'",
       100},
      // Those in turn.
      {sql::pick_keyed,
       looking("default", "'{Order,Other}', '{1,7}'")
         + ", '{}', 'key 5', true, '{}'",
       150},
      // A smaller backlog, which it may look cheaper to read and sort.
      {sql::pick, looking("rare", "'{Order,Other}', '{1,7}'"), 40},
      {sql::candidates,
       looking("default", "'{Order,Other}', '{1,7}'")
         + ", '{}', '', false, '{}'",
       60},
      {sql::pick_these, "'node/1/99', 1000, 60000000, " + due + ", '{}'", 60},
      {sql::pick_suspects, suspects, 60, suspected},
      {sql::suspect_candidates, suspects, 60, suspected},
      {sql::note_trials,
       running + ", " + tokens + ", " + each("1", "int") + ", "
         + each("'a worker'", "text") + ", 777777",
       60},
      {sql::show, running + ", 1000, " + tokens + ", 100000000, 16777216", 40},
      measured{sql::fail_row, "777777, '(0,1)', 'a reason'", 20}.of(1),
      {sql::pick_next_of_keys,
       "'node/1/99', 1000, 60000000, 'hot', '{Order,Other}', '{1,7}', "
         + keyed_executing,
       80, execute(sql::flush_done, keyed_executing + ", " + keyed_tokens)},
      {sql::lock_keys, "", 10, keyed},
      {sql::check_keys, "", 60, keyed + "; " + execute(sql::lock_keys, "")},
      {sql::hold_keys, "", 10,
       "select set_config('gd.kept', " + keyed_ids + ", true)"},
      measured{sql::unlock_keys, "'{a,b}', '{x,y}'", 1}.of(2),
      // Rows: kinds of machine, version and queue.
      measured{sql::not_served, "100", 100}.of(10),
      // What is applied is read for each that follows.
      measured{sql::flush, outcomes(kinds, consumed), 100}.reads_in_vain(10),
      measured{sql::flush_ledger,
               outcomes(each("'next'", "text"), consumed) + ", '{}', "
                 + each("'{\"a\": 1}'", "text"),
               120}
        .reads_in_vain(10),
      {sql::flush_done, running + ", " + tokens, 60},
      {sql::flush_done_keep, running + ", " + tokens + ", 1000000, 18000000",
       80},
      measured{sql::flush_keep, ends("1000000"), 120}.reads_in_vain(10),
      // All of its signals are too old.
      measured{sql::flush_erase, ends("0"), 120, old}.reads_in_vain(16),
      {sql::expired, "500, 0, 0", 8, end_of_time},
      {sql::erase, over + ", -1, ''", 60, end_of_time},
      {sql::put_off, over, 100, end_of_time},
      {sql::prunable, "500000, 500, '', 0, '', 60000000", 5},
      {sql::flush_next,
       running + ", " + tokens + ", " + each("'ship'", "text") + ", "
         + each("'{\"n\": 2}'", "text"),
       60},
      {sql::flush_done_ledger, running + ", " + tokens, 100},
      {sql::flush_next_ledger,
       running + ", " + tokens + ", " + each("'ship'", "text") + ", "
         + each("'{\"n\": 2}'", "text") + ", " + each("'{\"a\": 1}'", "text"),
       100},
      {sql::flush_advance,
       running + ", " + tokens + ", " + each("'ship'", "text") + ", "
         + each("'{\"n\": 2}'", "text") + ", " + consumed + ", 'node/1/99'",
       60},
      {sql::flush_advance_ledger,
       running + ", " + tokens + ", " + each("'ship'", "text") + ", "
         + each("'{\"n\": 2}'", "text") + ", " + consumed + ", 'node/1/99', "
         + each("'{\"a\": 1}'", "text"),
       100},
      {sql::inbox, waiting + ", 1000", 20},
      {sql::recheck, running + ", " + consumed, 40, parking},
      {sql::recheck, running + ", '{}'", 40, parking},
      {sql::recheck, running + ", '{}'", 50, parking_of_several},
      {sql::heartbeat, running + ", " + tokens + ", 60000000", 40},
      // Of so many the leases are over here.
      measured{sql::end_leases, "500, 0, 0", 10}.of(1'000),
      {sql::locked_leases, "500, 30000000, 0, 0", 40},
      {sql::reap, "500, '{}', 5", 40},
      {sql::exonerate, "'{1,2}', -9223372036854775808, 0, '-infinity', 0, 100",
       60, suspected},
      {sql::trim_ledger, "'Order', 'collect', 500000, 500, 100", 40},
      // A page of which some are to go, and one of which nobody forgets any.
      {sql::forget_dedup, "100000, 500", 20, forgetting},
      {sql::forget_dedup, "0, 500", 1},
      {sql::wake_due, "500", 40},
      measured{sql::returning, "20, false, 0, 0, 0", 5}.of(20),
      {sql::due, "500", 5},
      measured{sql::return_row, "777777, true, 5", 30}.of(1),
      // Finds rows by token among those that execute: once in a while, after a
      // connection was lost. 10,000 execute here.
      measured{sql::release_lost, "'{node/1/7,node/1/8}'", 60}.of(400),
      measured{sql::lock, "'{777777}'", 20}.of(1),
      {sql::lock_targets, waiting, 15},
      {sql::signal, sent + ", " + waiting, 80,
       execute(sql::lock_targets, waiting)},
      {sql::signal, sent + ", " + waiting, 80,
       waiting_for_others + execute(sql::lock_targets, waiting)},
      {sql::lock_named, half + ", " + occupied + ", false", 60, named},
      // Looked for twice, and locked by both.
      {sql::lock_named, half + ", " + occupied + ", true", 90, named},
      {sql::signal_named, sent, 80,
       named + "; "
         + execute(sql::lock_named, half + ", " + occupied + ", false")},
      {sql::transition, waiting + ", " + moved, 120, movable},
      {sql::transition_named, half + ", " + moved + ", " + occupied + ", false",
       160, movable + "; " + named},
      {sql::transition_named, half + ", " + moved + ", " + occupied + ", true",
       200, movable + "; " + named},
      {sql::draw_ids, "500", 10},
      {sql::insert_new,
       inserted + ", '{}', '{}', '{0}', " + each("'00-'", "text"), 60},
      {sql::insert_new_ledger,
       inserted + ", '{}', '{}', '{0}', '{}', " + new_id
         + ", '{}', '{Order}', '{1}', '{collect}', "
           "'{awaiting_signal}', '{60000000}'",
       80},
      {sql::insert_ledger,
       inserted + ", " + unique + ", " + each("'runnable,executing'", "text")
         + ", '{0}', '{}', " + new_id + ", " + new_id
         + ", '{}', '{}', '{}', '{}', '{}'",
       80},
      {sql::insert_claimed,
       new_id + ", " + each("'Order'", "text") + ", " + each("1", "int") + ", "
         + each("'collect'", "text") + ", " + each("'{}'", "text") + ", "
         + each("'default'", "text") + ", " + each("1", "smallint") + ", "
         + versions + ", " + each("'node/1/99'", "text")
         + ", 60000000, '{0}', '{}'",
       60},
      {sql::insert,
       inserted + ", " + unique + ", " + each("'runnable,executing'", "text")
         + ", '{0}', '{}'",
       60},
      {sql::insert_effects,
       each("'Order'", "text") + ", '{}', '{}', " + each("'collect'", "text")
         + ", " + each("'{}'", "text") + ", " + each("'default'", "text") + ", "
         + each("1", "smallint") + ", '{}', '{}', '{}', " + unique + ", "
         + each("'runnable,executing'", "text") + ", '{}'",
       80},
      {sql::note_effects, running + ", " + each("2", "bigint"), 40},
      {sql::key_holders, each("'k'", "bytea"), 10},
      {sql::inserted,
       any_id + ", " + each("'k'", "bytea") + ", " + each("0", "bigint"), 10},
      measured{sql::unread, "777777, 100, 4096, 16384, false", 16}.of(10),
      measured{sql::history, "777777, -9, 100, false, '{}'", 12}.of(10),
      measured{sql::history, "0, -9, 100, false, '{k}'", 12, kept}.of(10),
      measured{sql::history, "777777, 100, 100, true, '{}'", 12}.of(10),
      measured{sql::in_step, "'Order', 'collect', 'runnable', 700000, 20", 40}
        .of(20),
      measured{sql::look_up, "777777, 16777216, '{}'", 20}.of(1),
      measured{sql::look_up, "0, 16777216, '{k}'", 20, kept}.of(1),
      measured{sql::gone, "777777", 4}.of(1),
      // Of a thousand that are awaited, and of one more by its key.
      measured{sql::awaited,
               awaited_ids() + ", 16777216, '{k}', false, 8388608", 12}
        .of(1'001),
      // The names of 7,000 rows, 3,200 pages; while nobody has analyzed the table, all of it.
      measured{sql::unknown, "'{rare}', '{Order}', '{1}', '{}'", 16}.of(7'000),
      measured{sql::unknown, "'{rear}', '{}', '{}', '{}'", 16}.of(7'000),
      measured{sql::signal_faults, "'{777777}', '{}', '{paid}', '{3}'", 12}.of(
        1),
      measured{sql::operate,
               "'stop', 777777, '{}', '', '{}', 'why', 'who', false, 0, '{}'",
               150, there}
        .of(1),
      measured{sql::operate,
               "'erase', 777777, '{}', '', '{}', 'why', 'who', false, 0, '{}'",
               150, there}
        .of(1),
      measured{sql::operate,
               "'move', 0, '{k}', 'rare', '{1}', 'why', 'who', true, 0, '{}'",
               150, kept}
        .of(1),
      // Of what is due, and of what is later, 10,000 of all queues.
      measured{sql::queues, "10000, '[]'", 3}.of(20'000),
      // Of what is runnable 2,000 of all versions, of suspects, and of what executes or has
      // failed, two hundred each.
      measured{sql::counts, "50, '', 0, 200", 2}.of(2'600).that_stops(),
      measured{sql::counts, "50, 'Order', 1, 200", 3}.of(800).that_stops(),
      // The same, of each status.
      measured{sql::status_counts, "10000", 2}.of(30'000).that_stops(),
      // A page, one of what is rare, and one of what has failed.
      {sql::list,
       "'{}', '{}', '{}', '{}', '{}', '{}', '{}', 700000, 500, 10000", 3},
      measured{
        sql::list,
        "'{None}', '{}', '{}', '{}', '{}', '{}', '{}', 700000, 500, 10000", 2}
        .of(10'000),
      {sql::list,
       "'{}', '{}', '{}', '{failed}', '{}', '{}', '{}', 700000, "
       "500, 10000",
       4},
      // So many execute here.
      measured{sql::list,
               "'{}', '{}', '{}', '{executing}', '{}', '{}', '{}', "
               "700000, 500, 10000",
               5}
        .of(10'000),
      // A batch looks at 2,000, and changes 200.
      measured{sql::work_on_job, "1", 20, job_of("failed") + held_job}.of(
        2'000),
      measured{sql::work_on_job, "1", 20, job_of("runnable") + held_job}.of(
        2'000),
      // A page looks at 2,000, and shows 100.
      measured{sql::upgrade_page, "1, 1000000, 2000", 4, upgrade_job}.of(2'000),
      // Of each kind of index, of each version: of those it takes the first 100.
      measured{sql::older_page,
               "'{Order,Other}', '{1,7}', '{9,9}', '{default}', 1000000, '{}'",
               10}
        .of(600),
      // Of each status, and of a backlog of its partition key: of those before it a
      // thousand are counted.
      measured{sql::why, first + ", '{}'", 400, why_of("runnable")}
        .of(1)
        .reads_in_vain(2'000),
      measured{sql::why, first + ", '{}'", 400, why_of("executing")}
        .of(1)
        .reads_in_vain(2'000),
      measured{sql::why, first + ", '{}'", 400, why_of("awaiting_signal")}
        .of(1)
        .reads_in_vain(2'000),
      measured{sql::why, "0, '{k}'", 2, kept}.of(1'000),
      measured{sql::rewind, "5000000, 0, 'why', 'who', '{}'", 80,
               kept + execute(sql::rewind, "5000000, 0, '', '', '{}'")}
        .of(1),
      measured{sql::rewind, "0, 0, 'why', 'who', '{k}'", 80,
               kept + execute(sql::rewind, "5000000, 0, '', '', '{}'")}
        .of(1),
      measured{sql::fork, "5000000, 0, 'rare', 'why', 'who', '{}'", 80,
               kept + execute(sql::fork, "5000000, 0, '', '', '', '{}'")}
        .of(1),
      measured{sql::fork, "0, 0, 'rare', 'why', 'who', '{k}'", 80,
               kept + execute(sql::fork, "5000000, 0, '', '', '', '{}'")}
        .of(1),
    };
  }

  /// What is about one row is run once before: a function's statements are planned when they
  /// run, and what that reads of catalogs depends on what others have changed in theirs.
  ///
  /// What earlier statements have rolled back is taken off a page when that is read, and makes
  /// room there for the next version; but a session believes that whoever is in a transaction,
  /// in whichever database, still sees it, until it looks that up for a vacuum of any table.
  costs measure(session& s, const measured& x) {
    s.exec("vacuum " + db.schema() + ".gen_durable_queues");
    if (x.rows == 1)
      run(s, x);
    return run(s, x);
  }

  costs run(session& s, const measured& x) {
    s.exec("begin");
    if (!x.before.empty())
      s.exec(x.before);
    auto plan = s.scalar("explain (analyze, buffers, format json) "
                         + execute(*x.what, x.arguments));
    s.exec("rollback");
    auto row = db.rows(read_plan, {plan}).front();
    return {row[0].value(), std::stoll(row[1].value()),
            std::stoll(row[2].value()), std::stoll(row[3].value())};
  }

  void check_all(session& s, const std::string& how) {
    for (const auto& x : statements()) {
      auto cost = measure(s, x);
      // Told only where it is too much: a log may be cut after its first lines.
      if ((!x.stops && !cost.scanned.empty())
          || cost.buffers > x.rows * x.pages_per_row || cost.sorted > 4 * x.rows
          || cost.filtered > x.filtered_per_row * x.rows)
        CAF_MESSAGE(x.what->name << " for " << x.rows << " rows, " << how
                                 << ": " << cost.buffers << " buffers, "
                                 << cost.sorted << " sorted, " << cost.scanned
                                 << " scanned, " << cost.filtered
                                 << " filtered");
      if (!x.stops)
        CAF_CHECK_EQUAL(cost.scanned, ""s);
      CAF_CHECK_LESS_OR_EQUAL(cost.buffers, x.rows * x.pages_per_row);
      // Signals are several for each row.
      CAF_CHECK_LESS_OR_EQUAL(cost.sorted, 4 * x.rows);
      CAF_CHECK_LESS_OR_EQUAL(cost.filtered, x.filtered_per_row * x.rows);
    }
  }
};

} // namespace

CAF_TEST(statements cost what their batch costs in a table of a million rows) {
  // Somebody's transaction, on which nothing is to depend.
  temporary_database elsewhere;
  session stranger{elsewhere.conninfo()};
  stranger.exec("begin; select pg_current_xact_id()");
  million_rows table;
  auto hot = table.statements();
  for (const auto* x : sql::all) {
    bool known = is_exempt(*x)
                 || std::any_of(hot.begin(), hot.end(),
                                [x](const auto& m) { return m.what == x; });
    if (!known)
      CAF_MESSAGE(x->name << " is neither measured nor exempt for a reason");
    CAF_CHECK(known);
  }
  // Before anybody has analyzed them, the tables have grown from nothing.
  table.check_all(*table.early, "planned when empty");
  table.early.reset();
  table.db.rows("analyze");
  for (bool pinned : {true, false})
    for (const auto* mode : {"force_custom_plan", "force_generic_plan"}) {
      session s{table.db.conninfo()};
      if (pinned)
        table.pin(s);
      table.prepare(s, mode);
      // What was rolled back has left dead rows: an update finds no room on its page
      // then, and writes to each index.
      table.db.rows("vacuum gen_durable, gen_durable_due, "
                    "gen_durable_leases, gen_durable_signals");
      table.check_all(s,
                      (pinned ? "pinned, "s : "server's defaults, "s) + mode);
    }
}

namespace {

/// Of an `explain (format json)`: what reads a table or an index from end to
/// end. Whoever stops at the first entries of an index does not.
constexpr auto read_from_end_to_end = R"(
  select coalesce(string_agg(coalesce(n ->> 'Index Name', n ->> 'Relation Name'), ', '), '')
  from jsonb_path_query($1::jsonb, 'strict $.** ? (exists(@."Node Type"))') n
  where n ->> 'Node Type' = 'Seq Scan' and n ->> 'Relation Name' <> all($2::text[])
    or (n ->> 'Node Type' in ('Index Scan', 'Index Only Scan', 'Bitmap Index Scan') and not n ? 'Index Cond'
        and n ->> 'Index Name' <> all($2::text[])
        and (n ? 'Filter' or n not in (
          select jsonb_path_query($1::jsonb, 'strict $.** ? (@."Node Type" == "Limit")."Plans"[*]'))))
)";

/// Of an `explain (verbose, format json)`: what searches a list of the caller's
/// from its beginning, for each row. A batch of them is quadratic.
constexpr auto searched_for_each_row = R"(
  select coalesce(string_agg(distinct value #>> '{}', ', '), '')
  from jsonb_path_query($1::jsonb, 'strict $.** ? (exists(@."Node Type"))') n,
    jsonb_path_query(jsonb_build_array(n -> 'Filter', n -> 'Join Filter', n -> 'Output'), 'lax $[*][*]') value
  where value #>> '{}' ~ '(ANY|ALL) [(]([$]|[(]current_setting)'
)";

} // namespace

CAF_TEST(plans made for small tables do not read more when those have grown
         and no plan searches a list for each row) {
  million_rows table{0};
  auto hot = table.statements();
  for (int rows : {0, 1, 3, 10, 30, 100, 300, 1'000, 3'000})
    for (bool analyzed : {false, true}) {
      table.db.rows("truncate gen_durable, gen_durable_ledger cascade");
      table.fill(rows);
      // The small tables beside them, too, as autovacuum does when it likes.
      if (analyzed)
        table.db.rows("vacuum analyze");
      session s{table.db.conninfo()};
      table.pin(s);
      table.prepare(s, "force_generic_plan");
      for (const auto& x : hot) {
        s.exec("begin");
        if (!x.before.empty())
          s.exec(x.before);
        auto plan = s.scalar("explain (verbose, format json) "
                             + execute(*x.what, x.arguments));
        s.exec("rollback");
        auto searched = table.db.scalar(searched_for_each_row, {plan});
        // What executes and what is owed is little, as are nodes and machines.
        auto read = x.stops ? ""s
                            : table.db.scalar(
                              read_from_end_to_end,
                              {plan, "{gen_durable_leases_end,"
                                     "gen_durable_owed,gen_durable_nodes,"
                                     "gen_durable_nodes_pkey,"
                                     "gen_durable_machines,"
                                     "gen_durable_machines_pkey,"
                                     "gen_durable_queues,"
                                     "gen_durable_queues_pkey}"});
        // Told only where it is too much: a log may be cut after its first lines.
        if (!searched.empty() || !read.empty())
          CAF_MESSAGE(x.what->name << ", " << rows << " rows, "
                                   << (analyzed ? "analyzed" : "not analyzed")
                                   << ": " << plan);
        CAF_CHECK_EQUAL(searched, ""s);
        CAF_CHECK_EQUAL(read, ""s);
      }
    }
}

namespace {

/// The tables of spec [A5], a queue each; what can be picked stands behind what
/// cannot. Rows of one statement share their time of eligibility.
constexpr auto in_the_way = R"(
  set gd.trusted = 'all';
  insert into gen_durable (fsm, fsm_version, step, queue)
  select 'Order', 2, 'collect', 'unknown' from generate_series(1, 500000);
  insert into gen_durable (fsm, step, queue)
  select 'Order', 'collect', 'unknown' from generate_series(1, 2000);
  insert into gen_durable (fsm, step, queue, priority, eligible_at)
  select 'Order', 'collect', 'future', -10, now() + interval '1 day' from generate_series(1, 500000);
  insert into gen_durable (fsm, step, queue)
  select 'Order', 'collect', 'future' from generate_series(1, 2000);
  insert into gen_durable (fsm, step, queue)
  select 'Order', 'collect', 'once' from generate_series(1, 500000);
  insert into gen_durable (fsm, step, queue, partition_key, status, locked_by, lease_expires_at)
  values ('Order', 'collect', 'hot', 'hot', 'executing', 'node/1/1', now() + interval '1 hour');
  insert into gen_durable (fsm, step, queue, partition_key)
  select 'Order', 'collect', 'hot', 'hot' from generate_series(1, 50000);
  insert into gen_durable (fsm, step, queue, partition_key)
  select 'Order', 'collect', 'hot', 'key ' || n from generate_series(1, 1000) n;
  insert into gen_durable (fsm, step, queue, crashes)
  select 'Order', 'collect', 'suspects', 2 from generate_series(1, 200000);
  insert into gen_durable (fsm, step, queue)
  select 'Order', 'collect', 'suspects' from generate_series(1, 2000);
  insert into gen_durable (fsm, step, queue, eligible_at)
  select 'Order', 'collect', 'worked off', now() - interval '1 minute' from generate_series(1, 200000);
  select _gd_list_again();
  update gen_durable set status = 'done' where queue = 'worked off';
  delete from gen_durable_due where queue = 'worked off';
  insert into gen_durable (fsm, step, queue)
  select 'Order', 'collect', 'worked off' from generate_series(1, 20);
  select _gd_list_again();
  reset gd.trusted;
  analyze gen_durable, gen_durable_due, gen_durable_leases;
)";

/// The original's index and pick, with the conditions that it lacks.
constexpr auto naive_index = R"(
  create index naive_pick on gen_durable (queue, priority, eligible_at) where status = 'runnable'
)";
constexpr auto naive_pick = R"(
  select id from gen_durable g
  where status = 'runnable' and eligible_at <= now() and queue = $1 and fsm = 'Order' and fsm_version = 1
    and (partition_key is null or not exists (
      select from gen_durable o where o.partition_key = g.partition_key and o.status = 'executing'))
  order by priority, eligible_at, id limit 10 for no key update skip locked
)";

} // namespace

CAF_TEST(a pick costs what it takes whatever stands in its way) {
  temporary_database db;
  db.migrate();
  db.rows("alter table gen_durable set (autovacuum_enabled = off);"
          "alter table gen_durable_due set (autovacuum_enabled = off)");
  db.rows(in_the_way);
  session s{db.conninfo()};
  s.exec(gd::pq::substitute_schema(sql::session.text, db.schema()),
         {"30s", "10s", "5s", std::to_string(s.pid()), "0"});
  s.exec("set search_path = public");
  s.exec("set plan_cache_mode = force_generic_plan");
  for (const auto* x : {&sql::pick, &sql::pick_keyed})
    s.exec("prepare " + std::string{x->name} + " as "
           + gd::pq::substitute_schema(x->text, db.schema()));
  auto buffers = [&](const std::string& statement) {
    s.exec("begin");
    auto plan = s.scalar("explain (analyze, buffers, format json) "
                         + statement);
    s.exec("rollback");
    return std::stoll(db.rows(read_plan, {plan}).front()[3].value());
  };
  auto picked = [&](const std::string& queue, int rows, bool keyed) {
    return buffers("execute "s + (keyed ? "gd_pick_keyed" : "gd_pick")
                   + " ('node/1/2', 1000, 60000000, '" + queue + "', "
                   + std::to_string(rows)
                   + ", '{Order}', '{1}', '{-32768}', '{-1}', '{-1}', "
                   + std::to_string(2 * rows)
                   + (keyed ? ", '{}', '', false, '{}'" : "") + ")");
  };
  for (const auto* queue : {"unknown", "future", "once", "hot", "suspects"}) {
    bool keyed = queue == "hot"s;
    for (int rows : {10, 100, 500}) {
      auto cost = picked(queue, rows, keyed);
      CAF_MESSAGE(queue << ", " << rows << " rows: " << cost << " buffers");
      CAF_CHECK_LESS_OR_EQUAL(cost, (keyed ? 80 : 40) * rows);
    }
  }
  CAF_MESSAGE("nor does it pass again over what was worked off before it");
  auto of_worked_off = [&](const std::string& from) {
    return buffers("execute gd_pick ('node/1/2', 1000, 60000000, 'worked "
                   "off', 10, '{Order}', '{1}', "
                   + from + ", 20)");
  };
  auto everything = of_worked_off("'{-32768}', '{-1}', '{-1}'");
  auto first = db.scalar("select (extract(epoch from min(eligible_at) - "
                         "'2000-01-01 00:00Z') * 1000000)::bigint from "
                         "gen_durable where queue = 'worked off' and status = "
                         "'runnable'");
  auto behind = of_worked_off("'{-32768,0}', '{-1," + first + "}', '{-1,-1}'");
  CAF_MESSAGE(everything << " buffers, and then " << behind);
  CAF_CHECK_GREATER_OR_EQUAL(everything, 1'000);
  CAF_CHECK_LESS_OR_EQUAL(behind, 400);
  CAF_MESSAGE("nor does who looks at the queues again");
  auto looking = gd::pq::substitute_schema(sql::queues.text, db.schema());
  s.exec("prepare gd_queues as " + looking);
  auto fronts = db.rows(looking, {"10", "[]"}).back().back().value();
  auto first_look = buffers("execute gd_queues (10, '[]')");
  auto next_look = buffers("execute gd_queues (10, '" + fronts + "')");
  CAF_MESSAGE(first_look << " buffers, and then " << next_look);
  CAF_CHECK_GREATER_OR_EQUAL(first_look, 1'000);
  CAF_CHECK_LESS_OR_EQUAL(next_look, 400);
  CAF_MESSAGE("with the original's index the same cost the whole backlog");
  db.rows(naive_index);
  s.exec("prepare naive as "s + naive_pick);
  auto version = std::stoi(db.scalar("show server_version_num")) / 10'000;
  for (const auto* queue : {"unknown", "future", "once", "hot"}) {
    auto cost = buffers("execute naive ('"s + queue + "')");
    CAF_MESSAGE(queue << ", 10 rows, naively: " << cost << " buffers");
    // From 18 on, a scan skips from one priority to the next and finds that nothing is due.
    if (queue == "future"s && version >= 18)
      CAF_CHECK_LESS(cost, 400);
    else
      CAF_CHECK_GREATER_OR_EQUAL(cost, 400);
  }
}

} // namespace explain_suite
