// Copies of a database: a dump that leaves out what dumps may leave out, and a hot standby,
// which can be read.

#define CAF_SUITE copies

#include "support/database.hpp"
#include "support/gdctl.hpp"
#include "support/server.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/migrate.hpp>

#include <caf/test/dsl.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace copies_suite {

using namespace std::literals;

using gd::errc;
using gd::newest_schema;
using gd::test::contains;
using gd::test::refusal;
using gd::test::run_command;
using gd::test::server;
using gd::test::session;
using gd::test::temporary_database;

namespace {

/// pg_dump with these options, into another database.
void copy(const temporary_database& from, const temporary_database& to,
          const std::string& options) {
  std::string bin = std::getenv("GD_TEST_POSTGRES_BIN");
  auto file = "/tmp/" + to.name() + ".sql";
  auto done = run_command(bin + "/pg_dump " + options + " -f " + file + " -d '"
                          + from.conninfo() + "' && " + bin
                          + "/psql -qX -v ON_ERROR_STOP=1 -o /dev/null -f "
                          + file + " -d '" + to.conninfo() + "'");
  std::remove(file.c_str());
  CAF_REQUIRE_EQUAL(done.code, 0);
}

/// Everything that is defined in the schema. What is read and printed once more has fewer
/// parentheses.
std::string definitions(temporary_database& db) {
  return db.scalar(
    "select string_agg(x, e'\\n' order by x) from ("
    " select translate(pg_get_functiondef(oid), '()', '') x from pg_proc where "
    "pronamespace ="
    "   'public'::regnamespace"
    " union all select pg_get_indexdef(indexrelid) from pg_index i join"
    "   pg_class c on c.oid = i.indexrelid and c.relnamespace ="
    "   'public'::regnamespace"
    " union all select conname || pg_get_constraintdef(oid) from pg_constraint"
    "   where connamespace = 'public'::regnamespace"
    " union all select pg_get_triggerdef(oid) from pg_trigger where not"
    "   tgisinternal"
    " union all select pg_get_viewdef(oid) from pg_class where relkind = 'v'"
    "   and relnamespace = 'public'::regnamespace"
    " union all select relname || coalesce(array_to_string(reloptions, ' '),"
    "   '') from pg_class where relnamespace = 'public'::regnamespace"
    " union all select format('%s %s %s %s %s %s %s %s', c.relname, a.attname,"
    "   atttypid::regtype, attnotnull, attstorage, attcompression,"
    "   attstattarget, pg_get_expr(adbin, adrelid)) from pg_attribute a join"
    "   pg_class c on c.oid = a.attrelid and c.relnamespace ="
    "   'public'::regnamespace and c.relkind in ('r', 'v') left join"
    "   pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum where attnum"
    "   > 0"
    " union all select stxname from pg_statistic_ext) x");
}

} // namespace

// -- dumps --------------------------------------------------------------------

CAF_TEST(a dump without comments owners and rights is all that there is) {
  temporary_database from;
  from.migrate();
  auto before = gd::client::connect(from.options());
  CAF_REQUIRE_EQUAL(refusal(before), "");
  auto row = before->insert(
    {.fsm = "m", .step = "s", .queue = "q", .unique_key = "k"});
  CAF_REQUIRE_EQUAL(refusal(row), "");
  temporary_database to;
  copy(from, to, "--no-comments --no-owner --no-privileges");
  CAF_CHECK_EQUAL(definitions(to), definitions(from));
  CAF_CHECK_EQUAL(refusal(gd::migrate_up(to.options())), "");
  auto there = gd::client::connect(to.options());
  CAF_REQUIRE_EQUAL(refusal(there), "");
  auto again = there->insert(
    {.fsm = "m", .step = "s", .queue = "q", .unique_key = "k"});
  CAF_REQUIRE_EQUAL(refusal(again), "");
  CAF_CHECK(again->duplicate);
  CAF_CHECK_EQUAL(again->id, row->id);
  auto next = there->insert({.fsm = "m", .step = "s", .queue = "q"});
  CAF_REQUIRE_EQUAL(refusal(next), "");
  CAF_CHECK_GREATER(next->id, row->id);
  CAF_CHECK_EQUAL(refusal(there->signal({row->id, "paid"})), "");
  CAF_CHECK_EQUAL(refusal(gd::migrate_down(to.options(), 0, true)), "");
  CAF_CHECK_EQUAL(to.scalar("select count(*) from pg_class where relnamespace ="
                            " 'public'::regnamespace"),
                  "0");
}

CAF_TEST(a schema without its version says what mends it) {
  temporary_database from;
  from.migrate();
  temporary_database to;
  copy(from, to, "--schema-only");
  for (auto refused : {refusal(gd::client::connect(to.options())),
                       refusal(gd::migrate_up(to.options())),
                       refusal(gd::migrate_down(to.options(), 0)),
                       refusal(gd::migration_status(to.options()))}) {
    CAF_CHECK(contains(refused, "schema_mismatch"));
    CAF_CHECK(contains(refused, "gen_durable_schema has no row, as behind a "
                                "dump without data"));
  }
  session by{to.conninfo()};
  auto version = std::to_string(newest_schema());
  by.exec("insert into gen_durable_schema (version, works_from) values ("
          + version + ", " + version + ")");
  CAF_CHECK_EQUAL(refusal(gd::client::connect(to.options())), "");
  CAF_CHECK_EQUAL(refusal(gd::migrate_up(to.options())), "");
  std::string refused;
  try {
    by.exec("insert into gen_durable_schema (version, works_from) values (1, "
            "1)");
  } catch (const gd::test::sql_error& e) {
    refused = e.sqlstate();
  }
  CAF_CHECK_EQUAL(refused, "23505");
  by.exec("alter table gen_durable_schema drop constraint "
          "gen_durable_schema_pkey; insert into gen_durable_schema (version, "
          "works_from) values (1, 1)");
  CAF_CHECK(contains(refusal(gd::client::connect(to.options())),
                     "gen_durable_schema has 2 rows, expected one"));
  by.exec("alter table gen_durable_schema rename to elsewhere");
  CAF_CHECK(contains(refusal(gd::client::connect(to.options())),
                     "there is no table gen_durable_schema, expected version "
                       + version));
}

// -- a standby ----------------------------------------------------------------

CAF_TEST(a hot standby can be read and who writes there is told what it is) {
  temporary_database db;
  db.migrate();
  auto client = gd::client::connect(db.options());
  CAF_REQUIRE_EQUAL(refusal(client), "");
  CAF_REQUIRE_EQUAL(
    refusal(client->insert({.fsm = "Order", .step = "pay", .queue = "q"})), "");
  // A node of which its session is told here and nowhere else.
  db.rows("insert into gen_durable_nodes (incarnation, node, host, process, "
          "library, lease, slots, queues, machines, knows) values ('web/0', "
          "'web', 'web3', 412, '0.1.0', interval '1 hour', 1, '[{\"name\": "
          "\"q\", \"slots\": 1}]', '[{\"name\": \"Order\", \"version\": 1}]',"
          " 99)");
  auto standby = server::standby_of(server::of_environment(), "read");
  session there{standby.conninfo(db.name())};
  auto on_it = "GD_DATABASE='" + standby.conninfo(db.name())
               + "' " GD_GDCTL " ";
  for (const auto* reads :
       {"show 1", "list", "why 1", "history 1", "stats", "queues", "machines",
        "graph Nobody", "nodes", "jobs", "in-step Order pay", "top --once",
        "migrate status"}) {
    auto done = run_command(on_it + reads);
    CAF_CHECK(!contains(done.said, "standby"));
    CAF_CHECK(!contains(done.said, "read-only"));
    if (reads != "graph Nobody"sv)
      CAF_CHECK_EQUAL(done.code, 0);
  }
  CAF_CHECK(contains(run_command(on_it + "nodes").said, "web"));
  CAF_CHECK(
    contains(run_command(on_it + "why 1").said, "one of 1 node picks it"));
  for (const auto* writes : {"insert Order --version 1 --step pay --queue q",
                             "signal 1 paid", "stop 1", "retry 1", "pause q",
                             "migrate up", "prune --older-than 1d"}) {
    auto done = run_command(on_it + writes);
    CAF_CHECK_NOT_EQUAL(done.code, 0);
    CAF_CHECK(contains(done.said,
                       "the server is a standby, and read-only: expected the "
                       "primary, or that this one is promoted"));
  }
  auto opts = db.options();
  opts.database = standby.conninfo(db.name());
  CAF_CHECK(contains(refusal(gd::client::connect(opts)), "is a standby"));
  opts.standby_will_do = true;
  auto reader = gd::client::connect(opts);
  CAF_REQUIRE_EQUAL(refusal(reader), "");
  auto found = reader->look_up({.id = 1});
  CAF_REQUIRE_EQUAL(refusal(found), "");
  CAF_CHECK(!reader->insert({.fsm = "Order", .step = "pay", .queue = "q"}));
}

} // namespace copies_suite
