// What the library finds where its tables live: another server, sessions that are set up
// differently, row security, tables, columns, functions and triggers of others.

#define CAF_SUITE surroundings

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/migrate.hpp>
#include <gd/migrations.hpp>
#include <gd/pq/text.hpp>
#include <gd/store/migrator.hpp>
#include <gd/testing.hpp>
#include <gd/transaction.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::literals;

namespace surroundings {

GD_ENUM(order_step, pack, wait, hold, gone);

struct order {
  std::int64_t n = 0;
  GD_STATE(order, n);
};

} // namespace surroundings

namespace surroundings_suite {

namespace {

using gd::errc;
using gd::test::contains;
using gd::test::refusal;
using gd::test::session;
using gd::test::sql_error;
using gd::test::temporary_database;
using surroundings::order;
using surroundings::order_step;

using context = gd::context<order>;

/// Its instances wait for a signal, rest, and fail where the state says so.
gd::machine order_machine() {
  using enum order_step;
  return gd::define<order, order_step>("Order", 1)
    .history(gd::history::with_state)
    .step(pack,
          [](context& ctx) -> gd::outcome {
            if (ctx.state.n == 7)
              return gd::stop("no stock");
            return gd::next(wait, order{ctx.state.n + 1}).with(order{1});
          })
    .step(wait,
          [](context& ctx) -> gd::outcome {
            if (ctx.discard("paid"))
              return gd::next(hold, ctx.state);
            return gd::await({"paid", "cancelled"}, ctx.state);
          })
    .rest(hold, {gone}, {.after = 24h, .then = pack})
    .final(gone);
}

/// All that anybody may call, and what it says that does not depend on the clock. The
/// machine is known, and no node lives.
const std::vector<std::string> calls{
  "select * from gd_insert('Order', '{\"n\": 1}', unique_key => 'a\\b',"
  " unique_scope => '{runnable,executing,awaiting_signal,failed}')",
  "select * from gd_insert('Order', unique_key => 'a\\b')",
  "select * from gd_insert('Order', delay => '1 mon 2 days 03:04:05',"
  " partition_key => 'p')",
  "select * from gd_insert('Order', eligible_at => '2999-12-31 23:59:59.5+00',"
  " priority => 3)",
  "select id, duplicate from gd_insert('Order', step => 'hold')",
  "select gd_announce()",
  "select gd_signal(1, 'paid', '{\"amount\": 100.25}', 'evt-1')",
  "select gd_signal(key => 'a\\b', name => 'paid', dedup_key => 'evt-1')",
  "select gd_signal(99, 'paid')",
  "select gd_transition(5, 'gone', 'hold', metadata => '{\"by\": \"ann\"}',"
  " reason => 'it''s gone')",
  "select id, fsm, version, step, status, state, awaits, queue, priority,"
  " attempt, inbox, partition_key, encode(unique_key, 'hex'), unique_key_text"
  " from gd_status(1)",
  "select id, step, status from gd_status(key => 'a\\b')",
  "select id, step, status from gd_status(5)",
  "select seq, fsm_version, outcome, from_step, to_step, attempt, by, reason,"
  " metadata, state from gd_history(5)",
  "select seq, outcome from gd_history(key => 'a\\b', newest_first => true)",
  "select id, version, status, seq from gd_in_step('Order', 'pack')",
  "select id, cause, regexp_replace(sentence, '[0-9-]{10}T[0-9:]{8}Z', 'T',"
  " 'g') from gd_why(1)",
  "select id, cause, regexp_replace(sentence, '20[0-9-]{8}T[0-9:]{8}Z', 'T',"
  " 'g') from gd_why(3)",
  "select id, cause from gd_why(key => 'a\\b')",
  "select gd_requeue(1, 'other', 5, 'moved', 'ann', force => true)",
  "select gd_run_now(3, 'now', 'ann')",
  "select gd_stop(3, 'enough', 'ann')",
  "select gd_retry(3, 'again', 'ann')",
  "select gd_rewind(5, 0, 'back', 'ann')",
  "select gd_fork(1, 0, 'repairs', 'what if', 'ann')",
  "select gd_pause('other', 'broken', 'ann')",
  "select gd_resume('other')",
  "select gd_begin_job('retry', fsm => 'Order', older_than => '1 hour 30 min',"
  " reason => 'all', by => 'ann')",
  "select _gd_work_on_job(1)",
  "select gd_begin_job('stop', queue => 'default', dry_run => true)",
  "select gd_cancel_job(2)",
  "select seq, outcome, by, reason from gd_history(1)",
  "select gd_erase(3, 'request 17', 'ann')",
  "select id, cause, regexp_replace(sentence, '20[0-9-]{8}T[0-9:]{8}Z', 'T',"
  " 'g') from gd_why(3)",
};

std::string as_text(const gd::test::row_list& rows) {
  std::string out;
  for (const auto& row : rows) {
    for (const auto& cell : row)
      out += cell.value_or("null") + "|";
    out += "\n";
  }
  return out;
}

/// What each of them says, or how it fails.
std::vector<std::string> call_all(session by) {
  std::vector<std::string> out;
  for (const auto& one : calls)
    try {
      out.push_back(as_text(by.exec(one)));
    } catch (const sql_error& e) {
      out.push_back(e.sqlstate() + " " + e.what());
    }
  return out;
}

void check_same(const std::vector<std::string>& there,
                const std::vector<std::string>& here) {
  CAF_REQUIRE_EQUAL(there.size(), here.size());
  for (std::size_t i = 0; i < there.size(); ++i)
    if (there[i] != here[i])
      CAF_FAIL(calls[i] << ": expected '" << here[i] << "', got '" << there[i]
                        << "'");
}

void make_known(const temporary_database& db) {
  auto nodes = gd::testing::in_database::connect(db.options(),
                                                 {order_machine()});
  CAF_REQUIRE_EQUAL(refusal(nodes), "");
}

/// As a session finds it that nobody has set anything for.
std::vector<std::string> undisturbed() {
  temporary_database db;
  db.migrate();
  make_known(db);
  return call_all(session{db.conninfo()});
}

/// A role of the cluster, gone with this object.
struct temporary_role {
  explicit temporary_role(const temporary_database& db,
                          const std::string& rights = "")
    : admin(db.conninfo()), name(db.name() + "_role") {
    admin.exec("create role " + name + " login " + rights
               + "; grant create, usage on schema public to " + name);
  }

  ~temporary_role() {
    admin.exec("drop owned by " + name + " cascade; drop role " + name);
  }

  session admin;
  std::string name;
};

/// Settings that a role may carry, with values that few have. Those with a version are
/// known from that one on.
struct setting {
  std::string name;
  std::string value;
  int from = 15;
};

const std::vector<setting> odd_settings{
  {"array_nulls", "off"},
  {"backslash_quote", "on"},
  {"bytea_output", "escape"},
  {"check_function_bodies", "off"},
  {"client_encoding", "LATIN1"},
  {"client_min_messages", "error"},
  {"constraint_exclusion", "off"},
  {"cursor_tuple_fraction", "0.9"},
  {"datestyle", "\"SQL, DMY\""},
  {"default_statistics_target", "1"},
  {"default_table_access_method", "heap"},
  {"default_toast_compression", "pglz"},
  {"default_transaction_deferrable", "on"},
  {"enable_bitmapscan", "on"},
  {"enable_hashagg", "off"},
  {"enable_hashjoin", "off"},
  {"enable_indexonlyscan", "off"},
  {"enable_indexscan", "off"},
  {"enable_material", "off"},
  {"enable_memoize", "off"},
  {"enable_mergejoin", "off"},
  {"enable_nestloop", "off"},
  {"enable_sort", "off"},
  {"enable_tidscan", "off"},
  {"escape_string_warning", "on"},
  {"extra_float_digits", "-15"},
  {"from_collapse_limit", "1"},
  {"geqo_threshold", "2"},
  {"idle_in_transaction_session_timeout", "1h"},
  {"intervalstyle", "sql_standard"},
  {"jit_above_cost", "0"},
  {"join_collapse_limit", "1"},
  {"lc_monetary", "C"},
  {"lc_numeric", "C"},
  {"lc_time", "C"},
  {"lock_timeout", "20min"},
  {"parallel_setup_cost", "0"},
  {"plan_cache_mode", "force_custom_plan"},
  {"quote_all_identifiers", "on"},
  {"row_security", "off"},
  {"search_path", "nowhere"},
  {"standard_conforming_strings", "off"},
  {"stats_fetch_consistency", "snapshot"},
  {"synchronous_commit", "off"},
  {"temp_buffers", "100"},
  {"timezone", "Asia/Kathmandu"},
  {"transform_null_equals", "on"},
  {"work_mem", "64"},
  {"xmlbinary", "hex"},
  {"xmloption", "document"},
  {"event_triggers", "on", 17},
  {"debug_parallel_query", "on", 16},
};

/// What nobody bears who works by hand: the library's connections do.
const std::vector<setting> hostile_settings{
  {"default_transaction_isolation", "serializable"},
  {"default_transaction_read_only", "on"},
  {"exit_on_error", "on"},
  {"idle_in_transaction_session_timeout", "1"},
  {"idle_session_timeout", "1"},
  {"lock_timeout", "1"},
  {"session_replication_role", "replica"},
  {"statement_timeout", "1"},
  // Shorter ones may end a session while the server still makes it.
  {"transaction_timeout", "200", 17},
};

void carry(temporary_role& who, const std::vector<setting>& these) {
  auto version = std::stoi(who.admin.scalar("show server_version_num")) / 10000;
  for (const auto& x : these)
    if (x.from <= version)
      who.admin.exec("alter role " + who.name + " set " + x.name + " = "
                     + (x.value.front() == '"'
                          ? x.value.substr(1, x.value.size() - 2)
                          : "'" + x.value + "'"));
}

void check_works(const gd::pq::options& opts) {
  CAF_REQUIRE_EQUAL(refusal(gd::migrate_up(opts)), "");
  CAF_REQUIRE_EQUAL(refusal(gd::migrate_down(opts, 0, true)), "");
  CAF_REQUIRE_EQUAL(refusal(gd::migrate_up(opts)), "");
  auto nodes = gd::testing::in_database::connect(opts, {order_machine()});
  CAF_REQUIRE_EQUAL(refusal(nodes), "");
  auto made = nodes->insert({.fsm = "Order", .unique_key = "k\\é"});
  CAF_REQUIRE_EQUAL(refusal(made), "");
  CAF_REQUIRE_EQUAL(refusal(nodes->drain()), "");
  CAF_REQUIRE_EQUAL(refusal(nodes->signal({made->id, "paid"})), "");
  CAF_REQUIRE_EQUAL(refusal(nodes->drain()), "");
  auto client = gd::client::connect(opts);
  CAF_REQUIRE_EQUAL(refusal(client), "");
  CAF_REQUIRE_EQUAL(
    refusal(client->transition({.target = made->id, .to = "gone"})), "");
  auto found = client->look_up({.id = made->id});
  CAF_REQUIRE_EQUAL(refusal(found), "");
  CAF_CHECK_EQUAL(found->status, "done");
  auto entries = client->history({.id = made->id});
  CAF_REQUIRE_EQUAL(refusal(entries), "");
  CAF_CHECK_EQUAL(entries->size(), 5u);
  CAF_CHECK_EQUAL(refusal(client->why({.id = made->id})), "");
  CAF_CHECK_EQUAL(refusal(client->list({})), "");
  CAF_CHECK_EQUAL(refusal(client->queues()), "");
  CAF_CHECK_EQUAL(refusal(client->machines()), "");
  CAF_CHECK_EQUAL(refusal(client->nodes()), "");
  CAF_CHECK_EQUAL(refusal(client->stats()), "");
}

} // namespace

// -- servers ------------------------------------------------------------------

CAF_TEST(a server that no test has run on is refused with both versions) {
  CAF_CHECK_EQUAL(refusal(gd::pq::check_server(14'00'23)),
                  "schema_mismatch: the server is PostgreSQL 14, expected "
                  "15 to 18: upgrade the server");
  CAF_CHECK_EQUAL(refusal(gd::pq::check_server(19'00'00)),
                  "schema_mismatch: the server is PostgreSQL 19, expected "
                  "15 to 18: this program is older than the server: update it");
  CAF_CHECK_EQUAL(refusal(gd::pq::check_server(15'00'00)), "");
  CAF_CHECK_EQUAL(refusal(gd::pq::check_server(18'00'99)), "");
}

// -- sessions -----------------------------------------------------------------

CAF_TEST(whatever a role has set the library works as ever) {
  temporary_database db;
  temporary_role role{db};
  carry(role, odd_settings);
  auto opts = db.options();
  opts.database = db.conninfo(role.name);
  check_works(opts);
}

CAF_TEST(no setting of a role keeps the library from its work) {
  temporary_database db;
  temporary_role role{db, "superuser"};
  carry(role, hostile_settings);
  auto opts = db.options();
  opts.database = db.conninfo(role.name);
  check_works(opts);
}

CAF_TEST(a role that may not end its replication role is refused) {
  temporary_database db;
  db.migrate();
  temporary_role role{db};
  carry(role, {{"session_replication_role", "replica"}});
  auto opts = db.options();
  opts.database = db.conninfo(role.name);
  CAF_CHECK(
    contains(refusal(gd::client::connect(opts)), "session_replication_role"));
}

CAF_TEST(options of a connection string count but for what is pinned) {
  temporary_database db;
  db.migrate();
  auto opts = db.options();
  opts.database += " options='-c statement_timeout=1 -c work_mem=1234 -c "
                   "search_path=nowhere'";
  auto client = gd::client::connect(opts);
  CAF_REQUIRE_EQUAL(refusal(client), "");
  CAF_CHECK_EQUAL(refusal(client->stats()), "");
  CAF_CHECK_EQUAL(
    refusal(client->insert({.fsm = "m", .step = "s", .queue = "q"})), "");
  setenv("PGOPTIONS", "-c default_transaction_isolation=nonsense", 1);
  auto refused = gd::client::connect(db.options());
  unsetenv("PGOPTIONS");
  CAF_CHECK(contains(refusal(refused), "default_transaction_isolation"));
}

CAF_TEST(functions say the same to sessions that are set up differently) {
  auto expected = undisturbed();
  for (const auto& one : expected)
    CAF_CHECK(!one.empty() || &one == &expected[5]);
  temporary_database db;
  db.migrate();
  make_known(db);
  temporary_role role{db, "superuser"};
  // What literals of one's own mean is one's own affair.
  auto mine = odd_settings;
  std::erase_if(mine, [](const auto& x) {
    return x.name == "standard_conforming_strings" || x.name == "search_path"
           || x.name == "client_encoding";
  });
  carry(role, mine);
  check_same(call_all(session{db.conninfo(role.name)}), expected);
}

CAF_TEST(functions say the same where backslashes escape in literals) {
  auto expected = undisturbed();
  temporary_database db;
  db.migrate();
  make_known(db);
  session by{db.conninfo()};
  std::vector<std::string> there;
  for (const auto& one : calls) {
    auto escaped = one;
    for (std::size_t i = 0; (i = escaped.find('\\', i)) != std::string::npos;
         i += 2)
      escaped.insert(i, 1, '\\');
    by.exec("set standard_conforming_strings = off; set search_path = public;"
            "set escape_string_warning = off");
    try {
      there.push_back(as_text(by.exec(escaped)));
    } catch (const sql_error& e) {
      there.push_back(e.sqlstate() + " " + e.what());
    }
  }
  check_same(there, expected);
}

CAF_TEST(what a role says of synchronous_commit is left as it is) {
  temporary_database db;
  db.migrate();
  temporary_role role{db, "superuser"};
  db.rows("create table seen (setting text);"
          "create function see() returns trigger language plpgsql as $$ begin "
          "insert into public.seen values (current_setting("
          "'synchronous_commit')); return null; end $$;"
          "create trigger see after insert on gen_durable for each row execute "
          "function see()");
  for (auto value : {"off", "local", "remote_apply"}) {
    carry(role, {{"synchronous_commit", value}});
    auto opts = db.options();
    opts.database = db.conninfo(role.name);
    auto client = gd::client::connect(opts);
    CAF_REQUIRE_EQUAL(refusal(client), "");
    CAF_CHECK_EQUAL(
      refusal(client->insert({.fsm = "m", .step = "s", .queue = "q"})), "");
    CAF_CHECK_EQUAL(db.scalar("delete from seen returning setting"), value);
  }
}

// -- row security -------------------------------------------------------------

CAF_TEST(row security that hides rows is told and never taken for their
           absence) {
  temporary_database db;
  db.migrate();
  make_known(db);
  temporary_role role{db};
  db.rows("grant all on all tables in schema public to " + role.name
          + "; grant all on all sequences in schema public to " + role.name);
  auto opts = db.options();
  opts.database = db.conninfo(role.name);
  CAF_CHECK_EQUAL(refusal(gd::client::connect(opts)), "");
  for (const auto& [table, hidden] :
       {std::pair{"gen_durable"s, "row security keeps rows of gen_durable from "
                                  "role "
                                    + role.name},
        std::pair{"gen_durable_signals"s,
                  "row security keeps rows of gen_durable_signals from role "
                    + role.name},
        std::pair{"gen_durable_schema"s,
                  "query would be affected by row-level security policy for "
                  "table \"gen_durable_schema\""s}}) {
    db.rows("alter table " + table + " enable row level security");
    auto refused = gd::client::connect(opts);
    CAF_REQUIRE(!refused);
    // What only rights keep from it may be granted while an engine waits.
    auto code = table == "gen_durable_schema" ? errc::sql
                                              : errc::schema_mismatch;
    CAF_CHECK(refused.error().code == code);
    CAF_CHECK(contains(refused.error().message, hidden));
    CAF_CHECK(contains(refused.error().message, "row level security")
              || contains(refused.error().message, "row security"));
    session by{db.conninfo(role.name)};
    by.exec("begin");
    gd::transaction tx{by.handle()};
    auto in_theirs = tx.insert({.fsm = "Order"});
    CAF_REQUIRE(!in_theirs);
    CAF_CHECK(in_theirs.error().code == errc::schema_mismatch);
    CAF_CHECK(contains(in_theirs.error().message, "row security keeps rows of "
                                                    + table + " from role "
                                                    + role.name));
    by.exec("rollback"); // or its locks are in the way
    db.rows("alter table " + table + " disable row level security");
  }
  CAF_CHECK_EQUAL(refusal(gd::client::connect(opts)), "");
  db.rows("alter table gen_durable enable row level security;"
          "alter table gen_durable_jobs enable row level security;"
          "alter table gen_durable_queues enable row level security;"
          "alter table gen_durable_ledger enable row level security");
  auto there = call_all(session{db.conninfo(role.name)});
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!contains(calls[i], "gd_announce"))
      if (!there[i].starts_with("42501 "))
        CAF_FAIL(calls[i] << ": expected 42501, got '" << there[i] << "'");
}

// -- tables, types, functions and columns of others -----------------------------

CAF_TEST(a name that is taken is told with the way out) {
  for (const auto& [made, name] :
       {std::pair{"create table gen_durable_signals (a int)"s,
                  "\"gen_durable_signals\""s},
        std::pair{"create view gen_durable_queues as select 1 as a"s,
                  "\"gen_durable_queues\""s},
        std::pair{"create table other (a int); create index "
                  "gen_durable_deadline on other (a)"s,
                  "\"gen_durable_deadline\""s},
        std::pair{"create sequence gen_durable_timeline"s,
                  "\"gen_durable_timeline\""s},
        std::pair{"create type gen_durable_status as enum ('a')"s,
                  "\"gen_durable_status\""s},
        std::pair{"create function gd_status(int) returns int language sql as "
                  "'select 1'"s,
                  "gd_status(integer)"s}}) {
    temporary_database db;
    db.rows(made);
    auto refused = gd::migrate_up(db.options());
    CAF_REQUIRE(!refused);
    CAF_CHECK(contains(refused.error().message, name));
    CAF_CHECK(contains(refused.error().message,
                       "rename what is in the way, or keep the library's "
                       "tables in a schema of their own (--schema)"));
    auto elsewhere = db.options();
    elsewhere.schema = "theirs";
    CAF_CHECK_EQUAL(refusal(gd::migrate_up(elsewhere)), "");
  }
}

CAF_TEST(a schema keeps tables and types of its own that are named
           signals and durable_status) {
  temporary_database db;
  db.rows("create table signals (a int); insert into signals values (7);"
          "create type durable_status as enum ('theirs')");
  db.migrate();
  CAF_CHECK_EQUAL(refusal(gd::client::connect(db.options())), "");
  CAF_CHECK_EQUAL(refusal(gd::migrate_down(db.options(), 0)), "");
  CAF_CHECK_EQUAL(db.scalar("select a from signals"), "7");
  CAF_CHECK_EQUAL(db.scalar("select enum_first(null::durable_status)"),
                  "theirs");
}

CAF_TEST(another function of the name of one is found before a migration) {
  temporary_database db;
  db.migrate();
  db.rows("create function gd_status(int) returns int language sql as 'select "
          "1'");
  std::vector known(std::begin(gd::sql::migrations),
                    std::end(gd::sql::migrations));
  auto next = gd::newest_schema() + 1;
  known.push_back({next, "next", 0, "select 1", "select 1"});
  auto go_up = [&] {
    return refusal(gd::migrator{db.options(), known}.up(next, false));
  };
  CAF_CHECK(contains(go_up(), "gd_status(integer)"));
  db.rows("drop function gd_status(int)");
  CAF_CHECK_EQUAL(go_up(), "");
}

CAF_TEST(a column that somebody adds to a table changes nothing) {
  auto expected = undisturbed();
  temporary_database db;
  db.migrate();
  session before{db.conninfo()}; // plans are made by then
  before.exec("select * from gd_status(1)");
  auto tables = db.rows("select tablename from pg_tables where schemaname = "
                        "'public'");
  CAF_CHECK_EQUAL(tables.size(), 12u);
  for (const auto& table : tables)
    db.rows("alter table " + *table.front()
            + " add column note text default 'n', add column \"at\\\" int");
  make_known(db);
  check_same(call_all(std::move(before)), expected);
  temporary_database other;
  other.migrate();
  for (const auto& table : tables)
    other.rows("alter table " + *table.front() + " add column note text");
  check_works(other.options());
}

// -- triggers -----------------------------------------------------------------

CAF_TEST(a trigger finds what it names itself and no search path leads it) {
  temporary_database db;
  db.migrate();
  db.rows("create schema app; create table app.audit (id bigint);"
          "create function app.note(bigint) returns void language sql as "
          "'insert into app.audit values ($1)';"
          "create function app.on_insert() returns trigger language plpgsql "
          "as $$ begin perform note(new.id); return null; end $$;"
          "create trigger audit after insert on gen_durable for each row "
          "execute function app.on_insert();"
          "set search_path = app, public;");
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE_EQUAL(refusal(client), "");
  gd::insert row{.fsm = "m", .step = "s", .queue = "q"};
  auto refused = refusal(client->insert(row));
  CAF_CHECK(contains(refused, "function note(bigint) does not exist"));
  db.rows("alter function app.on_insert() set search_path = app");
  CAF_CHECK_EQUAL(refusal(client->insert(row)), "");
  db.rows("select gd_insert('m', step => 's', queue => 'q')");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from app.audit"), "2");
}

CAF_TEST(a trigger has the row security that it sets itself) {
  temporary_database db;
  db.migrate();
  temporary_role role{db};
  db.rows("grant all on all tables in schema public to " + role.name
          + "; grant all on all sequences in schema public to " + role.name
          + ";create table audit (id bigint); grant all on audit to "
          + role.name
          + ";alter table audit enable row level security;"
            "create policy mine on audit using (true);"
            "create function on_insert() returns trigger language plpgsql set "
            "search_path = public as $$ begin insert into audit values "
            "(new.id); return null; end $$;"
            "create trigger audit after insert on gen_durable for each row "
            "execute function on_insert()");
  auto insert = "select gd_insert('m', step => 's', queue => 'q')"s;
  session by{db.conninfo(role.name)};
  std::string refused;
  try {
    by.exec(insert);
  } catch (const sql_error& e) {
    refused = e.sqlstate();
  }
  CAF_CHECK_EQUAL(refused, "42501");
  db.rows("alter function on_insert() set row_security = on");
  by.exec(insert);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from audit"), "1");
}

} // namespace surroundings_suite
