// The schema comes and goes: alone, with company, in any schema, and never over
// what is not ours.

#define CAF_SUITE migrate

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/migrate.hpp>
#include <gd/migrations.hpp>
#include <gd/store/migrator.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace migrate_suite {

using namespace std::literals;

using gd::errc;
using gd::newest_schema;
using gd::test::code_of;
using gd::test::contains;
using gd::test::message_of;
using gd::test::quoted_name;
using gd::test::session;
using gd::test::temporary_database;
using gd::test::temporary_role;

namespace {

/// The documents for those who write machines, and for those who run them.
std::string told_to_users() {
  std::vector<std::filesystem::path> files;
  for (const auto* folder : {"guide", "run"})
    for (const auto& entry :
         std::filesystem::directory_iterator{GD_SOURCE_DIR "/docs/"s + folder})
      files.push_back(entry.path());
  std::string told;
  for (const auto& name : files) {
    std::ifstream file{name};
    told.append(std::istreambuf_iterator<char>{file}, {});
  }
  return told;
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

/// The library's migrations, and two of the test's own: one that adds a column, and one
/// that takes away what libraries before it need.
std::vector<gd::migration> two_more() {
  std::vector known(std::begin(gd::sql::migrations),
                    std::end(gd::sql::migrations));
  auto next = newest_schema() + 1;
  known.push_back(
    {next, "colour", 0,
     R"(alter table :"schema".gen_durable add column colour text)",
     R"(alter table :"schema".gen_durable drop column colour)"});
  known.push_back(
    {next + 1, "no_owed", next + 1, R"(drop index :"schema".gen_durable_owed)",
     R"(create index gen_durable_owed on :"schema".gen_durable (id)
                      where awaits is not null and wake_reason is not null)"});
  return known;
}

gd::result<int> up_with_two_more(const gd::pq::options& opts, int to,
                                 bool force = false) {
  auto known = two_more();
  return gd::migrator{opts, known}.up(to, force);
}

gd::result<int> down_with_two_more(const gd::pq::options& opts, int to) {
  auto known = two_more();
  return gd::migrator{opts, known}.down(to, true);
}

/// Tables, columns, indexes, constraints, functions and types of a schema, as text.
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
    " union all select pg_get_functiondef(oid) from pg_proc"
    "   where pronamespace::regnamespace::text = quote_ident($1)"
    " union all select relname || ' ' || array_to_string(reloptions, ' ')"
    "   from pg_class where reloptions is not null"
    "   and relnamespace::regnamespace::text = quote_ident($1)"
    " order by 1",
    {db.schema()});
  for (const auto& row : rows)
    out += row.front().value_or("null") + "\n";
  return out;
}

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

CAF_TEST(tables are vacuumed by what has changed and not by their size) {
  temporary_database db;
  db.migrate();
  auto option = [&db](const std::string& table, const std::string& name) {
    return db.scalar("select option_value from pg_class,"
                     " pg_options_to_table(reloptions)"
                     " where oid = '"
                     + table + "'::regclass and option_name = '" + name + "'");
  };
  for (const auto* table :
       {"gen_durable", "gen_durable_due", "gen_durable_leases"})
    CAF_CHECK_EQUAL(option(table, "autovacuum_vacuum_scale_factor"), "0");
  CAF_CHECK_EQUAL(option("gen_durable", "autovacuum_vacuum_threshold"),
                  "50000");
  CAF_CHECK_EQUAL(option("gen_durable_due", "autovacuum_vacuum_threshold"),
                  "10000");
  // Nor are the indexes of picks left alone because few pages have changed.
  CAF_CHECK_EQUAL(option("gen_durable_due", "vacuum_index_cleanup"), "on");
}

CAF_TEST(migrations stop at the one that was asked for) {
  temporary_database db;
  auto newest = newest_schema();
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest + 1)),
                  newest + 1);
  CAF_CHECK_EQUAL(status_of(db.options()).installed, newest + 1);
  CAF_CHECK(gd::client::connect(db.options()));
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest + 2)), 1);
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest)), 0);
  CAF_CHECK_EQUAL(status_of(db.options()).installed, newest + 2);
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
  CAF_CHECK(contains(before, "gen_durable_due_free"));
  CAF_CHECK(contains(before, "gd_insert"));
  auto newest = newest_schema() + 2;
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest)), 2);
  for (int to = newest - 1; to >= 0; --to) {
    CAF_CHECK_EQUAL(count_of(down_with_two_more(db.options(), to)), 1);
    CAF_CHECK_EQUAL(status_of(db.options()).installed, to);
    CAF_CHECK_EQUAL(count_of(down_with_two_more(db.options(), to)), 0);
    if (to == newest_schema())
      CAF_CHECK_EQUAL(shape_of(db), before);
  }
  CAF_CHECK_EQUAL(shape_of(db), "");
  for (int to = 1; to <= newest_schema(); ++to)
    CAF_CHECK_EQUAL(count_of(gd::migrate_up(db.options(), to)), 1);
  CAF_CHECK_EQUAL(shape_of(db), before);
}

CAF_TEST(instances and their inboxes survive going up and down) {
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
  db.rows("update gen_durable_signals set consumed_at = now() where name = "
          "'consumed'");
  CAF_REQUIRE(up_with_two_more(db.options(), newest_schema() + 1));
  CAF_REQUIRE(down_with_two_more(db.options(), newest_schema()));
  CAF_CHECK_EQUAL(
    db.scalar(
      "select string_agg(name, ' ' order by id) from gen_durable_signals"),
    "kept consumed");
  auto found = client->look_up(row->id);
  CAF_REQUIRE(found);
  CAF_CHECK_EQUAL(found->state.text(), R"({"n": 1})");
  CAF_CHECK_EQUAL(found->inbox, 1);
}

CAF_TEST(a table that is not ours is left alone) {
  temporary_database db;
  db.rows("create table gen_durable (mine text)");
  auto before = shape_of(db);
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
  CAF_CHECK(contains(message_of(answer), "migration 1 durable up: "));
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
  auto refused = gd::migrate_down(db.options(), 0);
  CAF_CHECK_EQUAL(code_of(refused), errc::invalid_argument);
  CAF_CHECK(contains(message_of(refused), "there are instances"));
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

// -- what older libraries need ------------------------------------------------

CAF_TEST(a migration that libraries before it work beside leaves them alone) {
  temporary_database db;
  db.migrate();
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, 1);
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest_schema() + 1)),
                  1);
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, 1);
  CAF_CHECK(gd::client::connect(db.options()));
}

CAF_TEST(a migration that takes away what older libraries need
           refuses while nodes of theirs live) {
  temporary_database db;
  db.migrate();
  auto newest = newest_schema() + 2;
  auto add_node = [&](const std::string& name, std::optional<int> knows) {
    gd::test::row row{name + "/0", name, std::nullopt};
    if (knows)
      row[2] = std::to_string(*knows);
    db.rows("insert into gen_durable_nodes (incarnation, node, host, process, "
            "library, lease, slots, queues, machines, knows) values ($1, $2, "
            "'web3', 412, '0.0.9', interval '1 min', 1, '[]', '[]', $3::int)",
            row);
  };
  add_node("old", newest - 1);
  add_node("dumb", std::nullopt);
  add_node("new", newest);
  add_node("gone", newest - 1);
  auto live = [&](const std::string& incarnations) {
    auto nodes = std::make_unique<session>(db.conninfo());
    nodes->exec("select pg_advisory_lock(hashtext('gen_durable node'), "
                "hashtext(x)) from unnest('{"
                + incarnations + "}'::text[]) x");
    return nodes;
  };
  auto nodes = live("old/0,dumb/0,new/0");
  auto before = shape_of(db);
  auto refused = up_with_two_more(db.options(), newest);
  CAF_CHECK_EQUAL(code_of(refused), errc::busy);
  CAF_CHECK(contains(message_of(refused),
                     "dumb (host web3, process 412, library 0.0.9), old "
                     "(host web3, process 412, library 0.0.9)"));
  CAF_CHECK(!contains(message_of(refused), "new ("));
  CAF_CHECK(!contains(message_of(refused), "gone ("));
  CAF_CHECK_EQUAL(status_of(db.options()).installed, newest - 2);
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, 1);
  CAF_CHECK_EQUAL(shape_of(db), before);

  CAF_MESSAGE("unless it is forced");
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest, true)), 2);
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, newest);
  CAF_CHECK_EQUAL(code_of(gd::client::connect(db.options())),
                  errc::schema_mismatch);

  CAF_MESSAGE("on the way back older libraries are let in again");
  CAF_CHECK_EQUAL(count_of(down_with_two_more(db.options(), newest - 1)), 1);
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, 1);
  CAF_CHECK(gd::client::connect(db.options()));

  CAF_MESSAGE("and who has gone holds up nothing");
  nodes = nullptr;
  nodes = live("new/0");
  db.wait_until("select count(*) from pg_locks where locktype = 'advisory' and"
                " database = (select oid from pg_database where datname ="
                " current_database())",
                "1");
  CAF_CHECK_EQUAL(message_of(up_with_two_more(db.options(), newest)), "");
}

CAF_TEST(a schema that is new to a database needs no older library) {
  temporary_database db;
  auto newest = newest_schema() + 2;
  CAF_CHECK_EQUAL(count_of(up_with_two_more(db.options(), newest)), newest);
  CAF_CHECK_EQUAL(status_of(db.options()).works_from, newest);
}

CAF_TEST(who connects while older libraries are left behind is told so) {
  temporary_database db;
  db.migrate();
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("insert into gen_durable (fsm, step) values ('m', 's')");
  auto migration = std::async(std::launch::async, [&db] {
    return up_with_two_more(db.options(), newest_schema() + 2);
  });
  stranger.wait_until_someone_is_blocked();
  auto client = std::async(std::launch::async, [&db] {
    return code_of(gd::client::connect(db.options()));
  });
  db.wait_until("select count(*) from pg_locks where not granted and relation ="
                " 'gen_durable_schema'::regclass",
                "1");
  stranger.exec("commit");
  CAF_CHECK_EQUAL(message_of(migration.get()), "");
  CAF_CHECK_EQUAL(client.get(), errc::schema_mismatch);
}

// -- functions ----------------------------------------------------------------

CAF_TEST(functions for users are those that the documentation tells with all
           arguments) {
  auto told = told_to_users();
  temporary_database db;
  db.migrate();
  std::set<std::string> names;
  for (const auto& row : db.rows(
         "select proname, array_to_string(proargnames[1:pronargs], ', ') from"
         " pg_proc where pronamespace = 'public'::regnamespace and proname ~"
         " '^gd_'")) {
    names.insert(*row[0]);
    auto call = "`" + *row[0] + "(" + row[1].value_or("") + ")`";
    CAF_MESSAGE(call);
    CAF_CHECK(contains(told, call));
  }
  CAF_CHECK_EQUAL(names.size(), 22u);
  std::regex call{"[^A-Za-z0-9_:](_?gd_[a-z_]+)[(`]"};
  for (std::sregex_iterator x{told.begin(), told.end(), call}, end; x != end;
       ++x)
    if (auto name = (*x)[1].str(); !names.contains(name))
      CAF_ERROR(name << " is told, and not for users");
}

// -- rows that nobody could run -----------------------------------------------

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
