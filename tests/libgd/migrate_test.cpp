// The schema comes and goes: alone, with company, in any schema, and never over
// what is not ours.

#define CAF_SUITE migrate

#include "support/database.hpp"

#include <gd/client.hpp>
#include <gd/migrate.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <vector>

namespace migrate_suite {

using namespace std::literals;

using gd::errc;
using gd::newest_schema;
using gd::test::quoted_name;
using gd::test::session;
using gd::test::temporary_database;

namespace {

template <class T>
errc code_of(const gd::result<T>& x) {
  return x ? errc{} : x.error().code;
}

template <class T>
std::string message_of(const gd::result<T>& x) {
  return x ? "" : x.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// -1: an error.
int count_of(const gd::result<int>& x) {
  return x ? *x : -1;
}

gd::schema_status status_of(const gd::pq::options& opts) {
  auto x = gd::migration_status(opts);
  CAF_REQUIRE(x);
  return *x;
}

/// Tables, columns, indexes, constraints and types of a schema, as text.
std::string shape_of(temporary_database& db) {
  std::string out;
  auto rows = db.rows(
    "select format('%s.%s %s %s %s', table_name, column_name, data_type,"
    "   is_nullable, column_default)"
    " from information_schema.columns where table_schema = $1"
    " union all select indexdef from pg_indexes where schemaname = $1"
    " union all select pg_get_constraintdef(oid) from pg_constraint"
    "   where connamespace::regnamespace::text = quote_ident($1)"
    " union all select typname from pg_type"
    "   where typnamespace::regnamespace::text = quote_ident($1)"
    " union all select relname || ' ' || array_to_string(reloptions, ' ')"
    "   from pg_class where reloptions is not null"
    "   and relnamespace::regnamespace::text = quote_ident($1)"
    " order by 1",
    {db.schema()});
  for (const auto& row : rows)
    out += row.front().value_or("null") + "\n";
  return out;
}

/// A role of the cluster, gone with this object.
struct temporary_role {
  explicit temporary_role(const temporary_database& db)
    : admin(db.conninfo()), name(db.name() + "_role") {
    admin.exec("create role " + quoted_name(name) + " login");
  }

  ~temporary_role() {
    admin.exec("drop owned by " + quoted_name(name) + " cascade; drop role "
               + quoted_name(name));
  }

  session admin;
  std::string name;
};

} // namespace

CAF_TEST(every migration is applied once) {
  temporary_database db;
  CAF_CHECK_EQUAL(status_of(db.options()).installed, 0);
  CAF_CHECK(!status_of(db.options()).usable());
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), newest_schema());
  auto now = status_of(db.options());
  CAF_CHECK_EQUAL(now.installed, newest_schema());
  CAF_CHECK_EQUAL(now.newest, newest_schema());
  CAF_CHECK_EQUAL(static_cast<int>(now.names.size()), newest_schema());
  CAF_CHECK(now.usable());
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), 0);
  CAF_CHECK(gd::client::connect(db.options()));
}

CAF_TEST(the table is vacuumed by what has changed and not by its size) {
  temporary_database db;
  db.migrate();
  auto option = [&db](const std::string& name) {
    return db.scalar("select option_value from pg_class,"
                     " pg_options_to_table(reloptions)"
                     " where oid = 'gen_durable'::regclass"
                     " and option_name = '"
                     + name + "'");
  };
  CAF_CHECK_EQUAL(option("autovacuum_vacuum_scale_factor"), "0");
  CAF_CHECK_EQUAL(option("autovacuum_vacuum_threshold"), "20000");
  // Nor does it leave the indexes alone because few pages have changed.
  CAF_CHECK_EQUAL(option("vacuum_index_cleanup"), "on");
}

CAF_TEST(migrations stop at the one that was asked for) {
  temporary_database db;
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options(), 1)), 1);
  CAF_CHECK_EQUAL(status_of(db.options()).installed, 1);
  CAF_CHECK(!status_of(db.options()).usable());
  CAF_CHECK_EQUAL(code_of(gd::client::connect(db.options())),
                  errc::schema_mismatch);
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), newest_schema() - 1);
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options(), 1)), 0);
}

CAF_TEST(any name will do for a schema) {
  for (auto name : {R"(we"ird ö)"s, "Select"s, R"(it's \ a 'b'.c)"s,
                    ":\"schema\""s, std::string(63, 'x')}) {
    CAF_MESSAGE(name);
    temporary_database db{name};
    CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), newest_schema());
    CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), 0);
    auto client = gd::client::connect(db.options());
    CAF_REQUIRE(client);
    auto row = client->insert({.fsm = "m", .step = "s", .queue = "q"});
    CAF_REQUIRE(row);
    auto sent = client->signal({.target = row->id, .name = "n"});
    CAF_REQUIRE(sent);
    auto found = client->look_up(row->id);
    CAF_REQUIRE(found);
    CAF_CHECK_EQUAL(found->inbox, 1);
    CAF_CHECK_EQUAL(count_of(gd::migrate_down(db.options(), 0, true)),
                    newest_schema());
    CAF_CHECK_EQUAL(shape_of(db), "");
  }
}

CAF_TEST(a name that cannot be a schema is refused) {
  temporary_database db;
  for (auto name : {""s, std::string(64, 'x'), "a\nb"s, "\xff"s}) {
    auto opts = db.options();
    opts.schema = name;
    CAF_CHECK_EQUAL(code_of(gd::migrate_up(opts)), errc::invalid_argument);
    CAF_CHECK_EQUAL(code_of(gd::migrate_down(opts, 0)), errc::invalid_argument);
    CAF_CHECK_EQUAL(code_of(gd::migration_status(opts)),
                    errc::invalid_argument);
    CAF_CHECK_EQUAL(code_of(gd::client::connect(opts)), errc::invalid_argument);
  }
}

CAF_TEST(a version that does not exist is refused) {
  temporary_database db;
  for (auto to : {-1, 0, newest_schema() + 1})
    CAF_CHECK_EQUAL(code_of(gd::migrate_up(db.options(), to)),
                    errc::invalid_argument);
  for (auto to : {-1, newest_schema() + 1})
    CAF_CHECK_EQUAL(code_of(gd::migrate_down(db.options(), to)),
                    errc::invalid_argument);
  CAF_CHECK_EQUAL(shape_of(db), "");
}

CAF_TEST(a role needs no more than a schema of its own) {
  temporary_database db{"own"};
  temporary_role role{db};
  db.rows("create schema own authorization " + quoted_name(role.name));
  auto opts = db.options();
  opts.database = db.conninfo(role.name);
  CAF_CHECK_EQUAL(message_of(gd::migrate_up(opts)), "");
  auto client = gd::client::connect(opts);
  CAF_REQUIRE(client);
  CAF_CHECK(client->insert({.fsm = "m", .step = "s", .queue = "q"}));
  CAF_CHECK_EQUAL(count_of(gd::migrate_down(opts, 0, true)), newest_schema());
}

CAF_TEST(a role without rights is told so and leaves nothing behind) {
  temporary_database db{"nobody_s"};
  temporary_role role{db};
  auto opts = db.options();
  opts.database = db.conninfo(role.name);
  auto answer = gd::migrate_up(opts);
  CAF_CHECK_EQUAL(code_of(answer), errc::sql);
  CAF_CHECK(!answer && answer.error().sqlstate == "42501");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from pg_namespace where nspname = 'nobody_s'"),
    "0");
}

CAF_TEST(of several migrators one migrates while the others wait) {
  temporary_database db{"shared"};
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec(
    "select pg_advisory_xact_lock(hashtext('gen_durable migration'),"
    " hashtext('shared'))");
  std::vector<std::future<gd::result<int>>> migrators;
  for (int i = 0; i < 3; ++i)
    migrators.push_back(std::async(
      std::launch::async, [&db] { return gd::migrate_up(db.options()); }));
  db.wait_until("select count(*) from pg_locks where not granted"
                " and locktype = 'advisory' and database ="
                "   (select oid from pg_database where datname = "
                "    current_database())",
                "3");
  stranger.wait_until_someone_is_blocked();
  stranger.exec("commit");
  std::vector<int> counts;
  for (auto& x : migrators)
    counts.push_back(count_of(x.get()));
  std::sort(counts.begin(), counts.end());
  CAF_CHECK_EQUAL(counts, (std::vector<int>{0, 0, newest_schema()}));
}

CAF_TEST(migrators of different schemas do not wait for each other) {
  temporary_database db{"mine"};
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec(
    "select pg_advisory_xact_lock(hashtext('gen_durable migration'),"
    " hashtext('other'))");
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), newest_schema());
}

CAF_TEST(no timeout ends a migration) {
  temporary_database db;
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec(
    "select pg_advisory_xact_lock(hashtext('gen_durable migration'),"
    " hashtext('public'))");
  auto opts = db.options();
  opts.statement_timeout = opts.lock_timeout = 1ms;
  auto migrator = std::async(std::launch::async,
                             [opts] { return gd::migrate_up(opts); });
  db.wait_until("select exists (select from pg_stat_activity"
                " where wait_event = 'advisory'"
                "   and datname = current_database()"
                "   and clock_timestamp() - query_start > interval '100 ms')",
                "t");
  stranger.exec("commit");
  CAF_CHECK_EQUAL(message_of(migrator.get()), "");
}

CAF_TEST(down and up again makes the same schema) {
  temporary_database db{"there and back"};
  db.migrate();
  auto before = shape_of(db);
  CAF_CHECK(contains(before, "gen_durable_pick"));
  for (int to = newest_schema() - 1; to >= 0; --to) {
    CAF_CHECK_EQUAL(count_of(gd::migrate_down(db.options(), to)), 1);
    CAF_CHECK_EQUAL(status_of(db.options()).installed, to);
    CAF_CHECK_EQUAL(count_of(gd::migrate_down(db.options(), to)), 0);
  }
  CAF_CHECK_EQUAL(shape_of(db), "");
  for (int to = 1; to <= newest_schema(); ++to)
    CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options(), to)), 1);
  CAF_CHECK_EQUAL(shape_of(db), before);
}

CAF_TEST(instances and their inboxes survive going down and up) {
  temporary_database db;
  db.migrate();
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE(client);
  auto row = client->insert({.fsm = "m",
                             .state = gd::json::raw(R"({"n": 1})"),
                             .step = "s",
                             .queue = "q"});
  CAF_REQUIRE(row);
  CAF_REQUIRE(client->signal({.target = row->id, .name = "kept"}));
  CAF_REQUIRE(
    client->signal({.target = row->id, .name = "consumed", .dedup_key = "k"}));
  db.rows("update signals set consumed_at = now() where name = 'consumed'");
  CAF_REQUIRE(gd::migrate_down(db.options(), 1, true));
  CAF_CHECK_EQUAL(db.scalar("select string_agg(name, ' ') from signals"),
                  "kept");
  CAF_REQUIRE(gd::migrate_up(db.options()));
  auto found = client->look_up(row->id);
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->state.text(), R"({"n": 1})");
  CAF_CHECK_EQUAL(found->inbox, 1);
}

CAF_TEST(older libraries keep the index that they pick by until the schema is
           activated) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), 7));
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  auto of = "select string_agg(indexdef, '; ') from pg_indexes where indexname "
            "= 'gen_durable_pick'"s;
  auto before = db.scalar(of);
  CAF_REQUIRE(gd::migrate_up(db.options()));
  CAF_CHECK_EQUAL(db.scalar(of), before);
  CAF_REQUIRE(gd::migrate_activate(db.options()));
  CAF_CHECK_EQUAL(db.scalar(of), "");
  CAF_REQUIRE(gd::migrate_down(db.options(), 8, true));
  CAF_CHECK_EQUAL(db.scalar(of), before);
}

CAF_TEST(a table that is not ours is left alone) {
  temporary_database db;
  db.rows("create table gen_durable (mine text)");
  auto before = shape_of(db);
  for (auto comment : {""s, "a table of the accounting department"s,
                       "gen_durable schema 1, works with libraries from 0"s}) {
    if (!comment.empty())
      db.rows("comment on table gen_durable is '" + comment + "'");
    auto up = gd::migrate_up(db.options());
    CAF_CHECK_EQUAL(code_of(up), errc::schema_mismatch);
    CAF_CHECK(contains(message_of(up), "schema public: "));
    CAF_CHECK(contains(message_of(up), "not ours"));
    CAF_CHECK_EQUAL(code_of(gd::migrate_down(db.options(), 0)),
                    errc::schema_mismatch);
    CAF_CHECK_EQUAL(code_of(gd::migration_status(db.options())),
                    errc::schema_mismatch);
    CAF_CHECK_EQUAL(code_of(gd::client::connect(db.options())),
                    errc::schema_mismatch);
  }
  CAF_CHECK_EQUAL(shape_of(db), before);
}

CAF_TEST(a newer schema that still works with this library is left alone) {
  temporary_database db;
  db.migrate();
  auto newer = newest_schema() + 1;
  db.note_version(newer, newest_schema());
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), 0);
  CAF_CHECK(status_of(db.options()).usable());
  CAF_CHECK(gd::client::connect(db.options()));
  auto down = gd::migrate_down(db.options(), 1);
  CAF_CHECK_EQUAL(code_of(down), errc::schema_mismatch);
  CAF_CHECK(contains(message_of(down), "version " + std::to_string(newer)));
  CAF_CHECK_EQUAL(db.scalar("select version from gen_durable_schema"),
                  std::to_string(newer));
}

CAF_TEST(a newer schema that needs a newer library refuses this one) {
  temporary_database db;
  db.migrate();
  db.note_version(newest_schema() + 1, newest_schema() + 1);
  CAF_CHECK(!status_of(db.options()).usable());
  auto up = gd::migrate_up(db.options());
  CAF_CHECK_EQUAL(code_of(up), errc::schema_mismatch);
  CAF_CHECK(contains(message_of(up), "update the program"));
  CAF_CHECK_EQUAL(code_of(gd::migrate_down(db.options(), 0)),
                  errc::schema_mismatch);
  CAF_CHECK_EQUAL(code_of(gd::client::connect(db.options())),
                  errc::schema_mismatch);
}

CAF_TEST(a migration that fails takes all of its run with it) {
  temporary_database db;
  db.rows("create table gen_durable_machines (in_the_way int)");
  auto before = shape_of(db);
  auto answer = gd::migrate_up(db.options());
  CAF_CHECK_EQUAL(code_of(answer), errc::sql);
  CAF_CHECK(contains(message_of(answer), "migration 2 waits up: "));
  CAF_CHECK_EQUAL(shape_of(db), before);
  db.rows("drop table gen_durable_machines");
  CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options())), newest_schema());
}

// -- the way back -------------------------------------------------------------

CAF_TEST(nothing is taken back while there are instances unless it is meant) {
  temporary_database db;
  db.migrate();
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  auto before = shape_of(db);
  for (auto to : {0, newest_schema() - 1}) {
    auto down = gd::migrate_down(db.options(), to);
    CAF_CHECK_EQUAL(code_of(down), errc::invalid_argument);
    CAF_CHECK(contains(message_of(down), "there are instances"));
  }
  CAF_CHECK_EQUAL(shape_of(db), before);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "1");
  CAF_CHECK_EQUAL(count_of(gd::migrate_down(db.options(), newest_schema())), 0);
  CAF_CHECK_EQUAL(count_of(gd::migrate_down(db.options(), 0, true)),
                  newest_schema());
}

CAF_TEST(an instance that is being made counts as one when all is taken back) {
  temporary_database db;
  db.migrate();
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("insert into gen_durable (fsm, step) values ('m', 's')");
  auto down = std::async(std::launch::async,
                         [&db] { return gd::migrate_down(db.options(), 0); });
  stranger.wait_until_someone_is_blocked();
  stranger.exec("commit");
  CAF_CHECK_EQUAL(code_of(down.get()), errc::invalid_argument);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "1");
}

// -- older libraries ----------------------------------------------------------

CAF_TEST(
  a schema with instances works with older libraries until it is activated) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), newest_schema() - 1));
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  CAF_REQUIRE(gd::migrate_up(db.options()));
  CAF_CHECK_LESS(status_of(db.options()).works_from, newest_schema());
  CAF_CHECK(gd::migrate_activate(db.options()));
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, newest_schema());
  CAF_CHECK_EQUAL(status_of(db.options()).installed, newest_schema());
  CAF_CHECK(gd::migrate_activate(db.options()));
  CAF_CHECK(gd::client::connect(db.options()));
}

CAF_TEST(a schema without instances is activated at once) {
  temporary_database db;
  db.migrate();
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, newest_schema());
}

CAF_TEST(nothing is activated while a node of an older library lives) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), newest_schema() - 1));
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  auto too_early = gd::migrate_activate(db.options());
  CAF_CHECK_EQUAL(code_of(too_early), errc::schema_mismatch);
  CAF_REQUIRE(gd::migrate_up(db.options()));
  const std::string add_node
    = "insert into gen_durable_nodes (incarnation, node, host, process, "
      "library, lease, slots, queues, machines, knows) values ($1, $2, 'web3', "
      "412, '0.0.9', interval '1 min', 1, '[]', '[]', $3::int)";
  db.rows(add_node, {"old/0", "old", std::nullopt});
  db.rows(add_node, {"new/0", "new", std::to_string(newest_schema())});
  db.rows(add_node, {"gone/0", "gone", std::nullopt});
  session nodes{db.conninfo()};
  nodes.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
             "hashtext(x)) from unnest('{old/0,new/0}'::text[]) x");
  auto refused = gd::migrate_activate(db.options());
  CAF_CHECK_EQUAL(code_of(refused), errc::busy);
  CAF_CHECK(contains(message_of(refused),
                     "old (host web3, process 412, library 0.0.9)"));
  CAF_CHECK(!contains(message_of(refused), "new ("));
  CAF_CHECK(!contains(message_of(refused), "gone ("));
  CAF_CHECK_LESS(status_of(db.options()).works_from, newest_schema());
  CAF_CHECK(gd::migrate_activate(db.options(), true));
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, newest_schema());
}

CAF_TEST(an activation that waits for a transaction holds up nobody and gives
           up) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), newest_schema() - 1));
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  CAF_REQUIRE(gd::migrate_up(db.options()));
  auto before = shape_of(db);
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable");
  auto activation = std::async(
    std::launch::async, [&db] { return gd::migrate_activate(db.options()); });
  session writer{db.conninfo()};
  writer.exec("set statement_timeout = '3 min'"); // a guard against hangs
  using real = std::chrono::steady_clock;
  auto until = real::now() + gd::test::patience;
  int inserted = 0;
  while (activation.wait_for(0s) != std::future_status::ready) {
    CAF_REQUIRE(real::now() < until);
    writer.exec("insert into gen_durable (fsm, step) values ('m', 's')");
    ++inserted;
  }
  CAF_MESSAGE(inserted << " rows were inserted meanwhile");
  CAF_CHECK_GREATER(inserted, 1); // the first may have begun before
  auto refused = activation.get();
  CAF_CHECK_EQUAL(code_of(refused), errc::busy);
  CAF_CHECK(contains(message_of(refused),
                     "in use by a transaction that does not end; nothing was "
                     "changed; try again"));
  CAF_CHECK_LESS(status_of(db.options()).works_from, newest_schema());
  CAF_CHECK_EQUAL(shape_of(db), before);
  stranger.exec("commit");
  CAF_CHECK_EQUAL(message_of(gd::migrate_activate(db.options())), "");
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, newest_schema());
}

CAF_TEST(an activation goes on when the transaction that it waits for ends) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), newest_schema() - 1));
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  CAF_REQUIRE(gd::migrate_up(db.options()));
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable");
  auto activation = std::async(
    std::launch::async, [&db] { return gd::migrate_activate(db.options()); });
  stranger.wait_until_someone_is_blocked();
  stranger.exec("commit");
  CAF_CHECK_EQUAL(message_of(activation.get()), "");
}

// -- rows that nobody could run -----------------------------------------------

CAF_TEST(rows that nobody could ever run are failed by the migration and told) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), 8));
  db.rows("set gd.checks_json = 'on';"
          "insert into gen_durable (fsm, step, status) values"
          " ('m', 's', 'executing'), ('m', 's', 'awaiting_signal');"
          "insert into gen_durable (fsm, step, status, locked_by) values"
          " ('m', 's', 'executing', 'n/1/1');"
          "insert into gen_durable (fsm, step, state) values"
          " ('m', 's', '[1]'), ('m', 's', '{}');"
          "insert into gen_durable (fsm, step, status, state) values"
          " ('m', 's', 'done', '[1]')");
  std::vector<gd::unrunnable> failed;
  CAF_CHECK_EQUAL(
    count_of(gd::migrate_up(db.options(), newest_schema(), &failed)),
    newest_schema() - 8);
  std::sort(failed.begin(), failed.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  CAF_REQUIRE_EQUAL(failed.size(), 4u);
  for (std::size_t i = 0; i < failed.size(); ++i)
    CAF_CHECK_EQUAL(failed[i].id, static_cast<std::int64_t>(i) + 1);
  CAF_CHECK_EQUAL(failed[0].why,
                  "it executed without a lease token, or without an end of its "
                  "lease");
  CAF_CHECK_EQUAL(failed[1].why, "it waited for a signal without a name");
  CAF_CHECK_EQUAL(failed[3].why, "its state is no object");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(status::text, ' ' order by id) "
                            "from gen_durable"),
                  "failed failed failed failed runnable done");
  CAF_CHECK_EQUAL(db.scalar("select last_error from gen_durable where id = 2"),
                  "nobody could ever run it: it waited for a signal without a "
                  "name");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from pg_constraint where not "
                            "convalidated"),
                  "0");
}

CAF_TEST(a row that is failed for what it is lets go of a key that is taken) {
  temporary_database db;
  CAF_REQUIRE(gd::migrate_up(db.options(), 8));
  db.rows("insert into gen_durable (fsm, step, status, unique_key, "
          "unique_scope) values ('m', 's', 'awaiting_signal', 'k', '{failed}'),"
          " ('m', 's', 'failed', 'k', '{failed}')");
  CAF_REQUIRE(gd::migrate_up(db.options()));
  CAF_CHECK_EQUAL(db.scalar("select string_agg(status || ' ' || "
                            "unique_scope::text, ', ' order by id) from "
                            "gen_durable"),
                  "failed {}, failed {failed}");
}

CAF_TEST(
  what a migration that was cut off has not looked at the next one does) {
  temporary_database db;
  db.migrate();
  db.rows("alter table gen_durable drop constraint gen_durable_awaiting;"
          "insert into gen_durable (fsm, step, status) values ('m', 's', "
          "'awaiting_signal');"
          "alter table gen_durable add constraint gen_durable_awaiting check "
          "(status <> 'awaiting_signal' or awaits is not null) not valid");
  std::vector<gd::unrunnable> failed;
  CAF_CHECK_EQUAL(
    count_of(gd::migrate_up(db.options(), newest_schema(), &failed)), 0);
  CAF_CHECK_EQUAL(failed.size(), 1u);
}

CAF_TEST(nobody stores a row that nobody could run) {
  temporary_database db;
  db.migrate();
  for (const auto& values : {"'executing', null, null, null, '{}'"s,
                             "'executing', 'n/1/1', null, null, '{}'"s,
                             "'executing', null, now(), null, '{}'"s,
                             "'awaiting_signal', null, null, null, '{}'"s,
                             "'runnable', null, null, null, '[1]'"s}) {
    CAF_MESSAGE(values);
    std::string state;
    try {
      db.rows("insert into gen_durable (fsm, step, status, locked_by, "
              "lease_expires_at, awaits, state) values ('m', 's', "
              + values + ")");
    } catch (const gd::test::sql_error& e) {
      state = e.sqlstate();
    }
    CAF_CHECK(state == "23514" || state == "22023");
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "0");
}

} // namespace migrate_suite
