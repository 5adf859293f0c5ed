// What roles of others may do: the scripts that give them rights are run, what they are for works, by SQL and by the library, and
// nothing else does.

#define CAF_SUITE rights

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/migrate.hpp>
#include <gd/migrations.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/text.hpp>
#include <gd/store/migrator.hpp>
#include <gd/store/nodes.hpp>
#include <gd/transaction.hpp>

#include <caf/test/dsl.hpp>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace rights_suite {

using namespace std::literals;

using gd::errc;
using gd::test::contains;
using gd::test::quoted_name;
using gd::test::refusal;
using gd::test::session;
using gd::test::sql_error;
using gd::test::sqlstate_of;
using gd::test::temporary_database;
namespace store = gd::store;

namespace {

struct order {
  int n = 0;
  GD_STATE(order, n);
};

GD_ENUM(order_step, pay, submitted, closed);

gd::machine order_machine() {
  using enum order_step;
  return gd::define<order, order_step>("Order", 1)
    .step(pay,
          [](gd::context<order>& ctx) { return gd::await("paid", ctx.state); })
    .rest(submitted, {closed})
    .final(closed);
}

std::string replaced(std::string in, std::string_view what,
                     std::string_view by) {
  for (auto at = in.find(what); at != std::string::npos;
       at = in.find(what, at + by.size()))
    in.replace(at, what.size(), by);
  return in;
}

/// A schema with an odd name, an instance of somebody else's, and a role.
struct fixture {
  temporary_database db{"odd \"name"};
  session admin{db.conninfo()};
  std::string role = db.name() + "_role";
  std::string schema = quoted_name(db.schema());
  std::string api_name = "api of \"" + role;
  std::string api = quoted_name(api_name);
  std::string foreign;

  fixture() {
    db.migrate();
    gd::pq::connection on{db.options()};
    CAF_REQUIRE(on.wait_ready());
    CAF_REQUIRE(
      on.run({{store::register_machines(store::known({order_machine()}))}})
        .ok());
    admin.exec("create role " + quoted_name(role + " engine"));
    admin.exec("create role " + quoted_name(role)
               + " login; set search_path = " + schema);
    foreign = admin.scalar("insert into gen_durable (fsm, step, status, awaits,"
                           " state) values ('Order', 'pay', 'awaiting_signal',"
                           " 'paid', '{\"secret\": 1}') returning id");
    admin.exec(
      "insert into gen_durable_signals (target_id, name) values ($1, 'other')",
      {foreign});
  }

  ~fixture() {
    admin.exec("drop owned by " + quoted_name(role + " engine") + "; drop role "
               + quoted_name(role + " engine"));
    admin.exec("drop owned by " + quoted_name(role) + " cascade; drop role "
               + quoted_name(role));
  }

  /// As psql does it.
  void grant(const std::string& name) {
    std::ifstream file{GD_SOURCE_DIR "/sql/grants/"s + name + ".sql"};
    std::stringstream text;
    text << file.rdbuf();
    CAF_REQUIRE(!text.str().empty());
    auto script = gd::pq::substitute_schema(text.str(), db.schema());
    script = replaced(script, ":\"role\"", quoted_name(role));
    script = replaced(script, ":\"engine\"", quoted_name(role + " engine"));
    script = replaced(script, ":\"api\"", api);
    admin.exec(replaced(script, ":'api'", "'" + api_name + "'"));
  }

  /// Of names in these schemas.
  session connect(const std::string& path) const {
    session x{db.conninfo(role)};
    x.exec("set search_path = " + path);
    return x;
  }

  session connect() const {
    return connect(schema);
  }

  gd::pq::options options() const {
    auto x = db.options();
    x.database = db.conninfo(role);
    return x;
  }

  std::string status(const std::string& id) {
    return admin.scalar("select status from gen_durable where id = $1", {id});
  }

  /// The next one who draws ids raises their sequences, which it may not set.
  void promote() {
    admin.exec("select setval('gen_durable_timeline', 0)");
  }

  void park(const std::string& id) {
    admin.exec("update gen_durable set status = 'awaiting_signal', awaits = "
               "'paid' where id = $1",
               {id});
  }

  void rest(const std::string& id) {
    admin.exec("update gen_durable set status = 'awaiting_signal', step = "
               "'submitted', awaits = '' where id = $1",
               {id});
  }

  /// By the functions, whoever's rights they have.
  void insert_and_signal_by_sql(session by) {
    promote();
    auto id = by.scalar("select id from gd_insert('Order', '{\"n\": 1}')");
    auto keyed = "select id from gd_insert('Order', unique_key => 'k',"
                 " partition_key => 'p', delay => '1 h', unique_scope =>"
                 " '{awaiting_signal}')"s;
    by.exec(keyed);
    by.exec("select id from gd_insert('Order', unique_key => 'l')");
    CAF_CHECK_EQUAL(by.scalar("select duplicate from gd_insert('Order',"
                              " unique_key => 'l')"),
                    "t");
    park(id);
    auto signal = "select gd_signal("s + id + ", 'paid', '{}', 'once')";
    CAF_CHECK_EQUAL(by.scalar(signal), "accepted");
    CAF_CHECK_EQUAL(by.scalar(signal), "duplicate");
    CAF_CHECK_EQUAL(status(id), "runnable");
    CAF_CHECK_EQUAL(by.scalar("select gd_signal(0, 'paid')"), "no_such_target");
  }

  /// What neither kind of rights lets a role do.
  std::vector<std::string> forbidden() const {
    std::vector<std::string> out;
    for (const auto* set :
         {"state = '{}'", "step = 'closed'", "result = '{}'",
          "locked_by = 'me'", "lease_expires_at = now()", "attempt = 0",
          "crashes = 0", "trials = 9", "last_error = 'x'", "seq = 9",
          "queue = 'mine'", "priority = -9", "deadline = now()",
          "unique_key = 'x'", "partition_key = 'x'", "history = 2"})
      out.push_back("update gen_durable set "s + set);
    for (const auto* column :
         {"state", "result", "last_error", "locked_by", "step", "*"})
      out.push_back("select "s + column + " from gen_durable");
    for (const auto* text :
         {"delete from gen_durable",
          "truncate gen_durable cascade",
          "insert into gen_durable (fsm, step, status, locked_by, "
          "lease_expires_at) values ('Order', 'pay', 'executing', 'me', now())",
          "select payload from gen_durable_signals",
          "select name from gen_durable_signals",
          "delete from gen_durable_signals",
          "update gen_durable_signals set consumed_at = now()",
          "update gen_durable_signals set payload = '{}'",
          "select * from gen_durable_ledger",
          "insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt) values (1, 9, now(), 1, 'next', 'pay', "
          "0)",
          "delete from gen_durable_ledger",
          "update gen_durable_machines set pinned = true",
          "delete from gen_durable_machines",
          "insert into gen_durable_machines (fsm, version, initial_step, "
          "queue, steps) values ('Mine', 1, 's', 'q', '{s}')",
          "select * from gen_durable_nodes",
          "delete from gen_durable_nodes",
          "select * from gen_durable_timeline",
          "select setval('gen_durable_timeline', 1)",
          "select setval('gen_durable_id_seq', 1)",
          "alter table gen_durable disable trigger all",
          "create function mine() returns int language sql as 'select 1'"})
      out.emplace_back(text);
    for (const auto* call :
         {"gd_status(1)", "gd_history(1)", "gd_in_step('Order', 'pay')",
          "gd_rewind(1, 0)", "gd_fork(1, 0)"})
      out.push_back("select * from "s + call);
    return out;
  }

  void check_refused(std::vector<std::string> texts) {
    auto by = connect();
    for (const auto& text : texts)
      if (auto said = sqlstate_of(by, text); said != "42501")
        CAF_FAIL(text << ": expected 42501, got '" << said << "'");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(rights_tests, fixture)

CAF_TEST(columns suffice to insert and to signal and for no more than is said) {
  grant("insert");
  insert_and_signal_by_sql(connect());
  {
    auto by = connect();
    by.exec("select id from gd_insert('Order', step => 'submitted')");
    by.exec("select id from gd_insert('Order', step => 'closed')");
  }
  {
    auto by = connect();
    by.exec("begin");
    gd::transaction tx{by.handle(), {.schema = db.schema()}};
    auto made = tx.insert_all({{.fsm = "Order"},
                               {.fsm = "Order", .unique_key = "m"},
                               {.fsm = "Order", .unique_key = "m"}});
    for (const auto& x : made)
      CAF_CHECK_EQUAL(refusal(x), "");
    CAF_CHECK_EQUAL(refusal(tx.signal({made[0]->id, "paid"})), "");
    CAF_CHECK_EQUAL(refusal(tx.signal({std::stoll(foreign), "paid"})), "");
    CAF_MESSAGE("but not where no function runs: that statement has entries");
    auto rests = tx.insert({.fsm = "Order", .step = "submitted"});
    CAF_REQUIRE(!rests);
    CAF_CHECK_EQUAL(rests.error().sqlstate, "42501");
    by.exec("commit");
    CAF_CHECK_EQUAL(status(foreign), "runnable");
  }
  auto client = gd::client::connect(options());
  CAF_REQUIRE_EQUAL(refusal(client), "");
  promote();
  auto made = client->insert({.fsm = "Order"});
  CAF_CHECK_EQUAL(refusal(made), "");
  CAF_CHECK_EQUAL(refusal(client->signal({made->id, "paid", {}, "once"})), "");
  CAF_CHECK(client->signal({made->id, "paid", {}, "once"})->duplicate);
  check_refused(forbidden());
  check_refused({"select gd_transition(1, 'closed')"});
  CAF_MESSAGE("which the guide does not hide");
  auto by = connect();
  CAF_CHECK_EQUAL(sqlstate_of(by, "update gen_durable set status = 'done'"),
                  "");
  CAF_CHECK_EQUAL(status(foreign), "done");
  CAF_CHECK_EQUAL(sqlstate_of(by,
                              "insert into gen_durable (fsm, step, status,"
                              " result) values ('Order', 'x', 'done', '{}')"),
                  "");
}

CAF_TEST(functions suffice to insert and to signal and to move and for nothing else) {
  grant("functions");
  insert_and_signal_by_sql(connect(api));
  auto by = connect(api);
  auto id = by.scalar("select id from gd_insert('Order', unique_key => 'o')");
  rest(id);
  by.exec("select gd_transition(" + id + ", 'closed', 'submitted', 0)");
  CAF_CHECK_EQUAL(status(id), "done");
  CAF_CHECK_EQUAL(sqlstate_of(by, "select " + schema + ".gd_announce()"),
                  "42501");
  CAF_MESSAGE("nor if there is a way into the schema");
  admin.exec("grant usage on schema " + schema + " to " + quoted_name(role));
  check_refused(forbidden());
  check_refused(
    {"select id from gen_durable", "select id from gen_durable_signals",
     "select fsm from gen_durable_machines",
     "update gen_durable set status = 'done'",
     "update gen_durable set eligible_at = now()",
     "insert into gen_durable (fsm, step) values ('Order', 'pay')",
     "insert into gen_durable_signals (target_id, name) values (1, 'paid')",
     "select nextval('gen_durable_id_seq')", "select gd_insert('Order')",
     "select gd_signal(1, 'paid')", "select gd_transition(1, 'closed')"});
  CAF_MESSAGE("the library writes to the tables itself");
  {
    auto own = connect();
    own.exec("begin");
    gd::transaction tx{own.handle(), {.schema = db.schema()}};
    CAF_CHECK(!tx.insert({.fsm = "Order"}));
    own.exec("rollback");
  }
  CAF_MESSAGE("what wakes nodes does nothing for whom nothing is due");
  auto drawn = [this] {
    return admin.scalar("select last_value from gen_durable_signals_id_seq");
  };
  auto before = drawn();
  by.exec("select " + schema + ".gd_announce()");
  CAF_CHECK_EQUAL(drawn(), before);
  CAF_MESSAGE("nobody else may call them");
  auto other_role = quoted_name(role + "2");
  admin.exec("create role " + other_role + " login; grant usage on schema "
             + api + " to " + other_role);
  {
    session other{db.conninfo(role + "2")};
    for (const auto* call : {".gd_insert('Order')", ".gd_signal(1, 'paid')",
                             ".gd_transition(1, 'closed')", ".gd_status('o')"})
      CAF_CHECK_EQUAL(sqlstate_of(other, "select " + api + call), "42501");
  }
  admin.exec("drop owned by " + other_role + "; drop role " + other_role);
}

CAF_TEST(functions have no argument by which states or steps could be chosen) {
  grant("functions");
  auto by = connect(api + ", " + schema);
  auto id = by.scalar("select id from gd_insert('Order')");
  rest(id);
  for (const auto* call :
       {"gd_insert('Order', step => 'closed')",
        "gd_insert('Order', priority => -32768)",
        "gd_insert('Order', version => 1)", "gd_insert('Order', queue => 'q')",
        "gd_insert('Order', eligible_at => 'epoch')",
        "gd_transition(1, 'closed', state => '{}')",
        "gd_transition(1, 'closed', by => 'chief clerk')", "gd_status(1)",
        "gd_status(target => 1)"})
    CAF_CHECK_EQUAL(sqlstate_of(by, "select * from "s + api + "." + call),
                    "42883");
  CAF_CHECK_EQUAL(sqlstate_of(by, "select gd_insert('Order', delay => '-1 h')"),
                  "22023");
  CAF_CHECK_EQUAL(sqlstate_of(by, "select gd_insert('Nobody')"), "42704");
  CAF_CHECK_EQUAL(admin.scalar("select count(*) from gen_durable"), "2");
}

CAF_TEST(who moves by functions is the one who has logged in) {
  admin.exec("update gen_durable_machines set history = 1");
  grant("functions");
  auto by = connect(api);
  auto id = by.scalar("select id from gd_insert('Order')");
  rest(id);
  by.exec("select gd_transition(" + id
          + ", 'closed', reason => 'asked', metadata => '{\"n\": 1}')");
  CAF_CHECK_EQUAL(
    admin.scalar("select by || ' ' || reason || ' ' || (metadata ->> 'n') from "
                 "gen_durable_ledger where instance_id = $1 and seq = 1",
                 {id}),
    role + " asked 1");
  CAF_CHECK_EQUAL(
    admin.scalar("select state from gen_durable where id = $1", {id}), "{}");
}

CAF_TEST(answers of functions tell nothing of instances but what is said) {
  grant("functions");
  auto by = connect(api);
  auto check_says_little = [&](const std::string& sql, const char* code) {
    std::string said;
    try {
      by.exec(sql);
    } catch (const sql_error& why) {
      CAF_CHECK_EQUAL(why.sqlstate(), code);
      said = why.what();
    }
    CAF_CHECK(!said.empty());
    for (const auto* word :
         {"Order", "pay", "awaiting", "submitted", "seq 0", "secret"})
      if (said.find(word) != std::string::npos)
        CAF_FAIL(sql << ": " << said << " tells " << word);
    if (said.find("nstance " + foreign) != std::string::npos)
      CAF_FAIL(sql << ": " << said);
  };
  auto move = "select gd_transition(" + foreign;
  check_says_little(move + ", 'x', seq => 999)", "MV003");
  check_says_little(move + ", 'x')", "42704");
  check_says_little(move + ", 'closed')", "MV004");
  check_says_little(move + ", 'closed', from_step => 'x')", "42704");
  admin.exec("insert into gen_durable_machines (fsm, version, initial_step,"
             " queue, steps) values ('Other', 1, 's', 'q', '{s}')");
  admin.exec("update gen_durable set unique_key = 'k', unique_scope ="
             " '{awaiting_signal}' where id = $1",
             {foreign});
  check_says_little("select gd_insert('Other', unique_key => 'k')", "MV005");
  CAF_CHECK_EQUAL(by.scalar("select status || ' ' || step from gd_status('k')"),
                  "awaiting_signal pay");
  CAF_CHECK_EQUAL(
    by.scalar("select status || ' ' || step from gd_status(key_bytes => 'k')"),
    "awaiting_signal pay");
  CAF_CHECK_EQUAL(by.scalar("select count(*) from gd_status('l')"), "0");
  CAF_CHECK_EQUAL(sqlstate_of(by, "select gd_status('k', 'k')"), "22023");
}

CAF_TEST(functions run as the owner of the tables) {
  auto owner = quoted_name(role + "3");
  admin.exec("create role " + owner + "; grant create on database "
             + quoted_name(db.name()) + " to " + owner + "; alter schema "
             + schema + " owner to " + owner);
  admin.exec("alter table gen_durable owner to " + owner
             + "; alter function gd_insert owner to " + owner
             + "; alter function gd_signal owner to " + owner
             + "; alter function gd_transition owner to " + owner);
  grant("functions");
  CAF_CHECK_EQUAL(admin.scalar("select string_agg(distinct"
                               " pg_get_userbyid(p.proowner)::text, ',') from"
                               " pg_proc p where p.pronamespace ="
                               " $1::regnamespace",
                               {api}),
                  role + "3");
  admin.exec("reassign owned by " + owner + " to current_user; drop owned by "
             + owner + "; drop role " + owner);
}

CAF_TEST(who looks reads all and changes nothing) {
  grant("read");
  auto by = gd::client::connect(options());
  CAF_REQUIRE_EQUAL(refusal(by), "");
  auto id = std::stoll(foreign);
  CAF_CHECK_EQUAL(refusal(by->why({.id = id})), "");
  CAF_CHECK_EQUAL(refusal(by->look_up(id)), "");
  CAF_CHECK_EQUAL(refusal(by->list({})), "");
  CAF_CHECK_EQUAL(refusal(by->queues()), "");
  CAF_CHECK_EQUAL(refusal(by->jobs()), "");
  CAF_CHECK_EQUAL(refusal(by->nodes()), "");
  auto refused = by->operate({.what = gd::act::stop, .target = id});
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().sqlstate, "42501");
  refused = by->operate(
    {.what = gd::act::erase, .target = id, .reason = "request 17"});
  CAF_REQUIRE(!refused);
  CAF_CHECK_EQUAL(refused.error().sqlstate, "42501");
  CAF_CHECK(contains(refusal(by->look_up({.id = 12345})), "no instance 12345"));
  CAF_CHECK(!by->pause("default"));
  CAF_CHECK(
    !by->begin_job({.what = {.what = gd::act::stop}, .which = {.fsm = "x"}}));
  check_refused({"update gen_durable set state = '{}'",
                 "delete from gen_durable", "delete from gen_durable_signals",
                 "insert into gen_durable_queues values ('q', now())",
                 "delete from gen_durable_jobs",
                 "select gd_signal(" + foreign + ", 'paid')"});
}

CAF_TEST(who operates has the verbs and is named by them) {
  grant("read");
  grant("operate");
  auto by = gd::client::connect(options());
  CAF_REQUIRE_EQUAL(refusal(by), "");
  auto id = std::stoll(foreign);
  admin.exec("update gen_durable set history = 1, ledger_step = step");
  CAF_CHECK_EQUAL(refusal(by->operate({.what = gd::act::stop, .target = id})),
                  "");
  CAF_CHECK_EQUAL(refusal(by->operate({.what = gd::act::retry, .target = id})),
                  "");
  CAF_CHECK_EQUAL(admin.scalar("select string_agg(by, ' ' order by seq) from"
                               " gen_durable_ledger"),
                  role + " " + role);
  CAF_CHECK_EQUAL(refusal(by->pause("default")), "");
  CAF_CHECK_EQUAL(refusal(by->resume("default")), "");
  auto job = by->begin_job(
    {.what = {.what = gd::act::move, .queue = "q", .force = true},
     .which = {.fsm = "Order"}});
  CAF_REQUIRE_EQUAL(refusal(job), "");
  CAF_CHECK_EQUAL(refusal(by->work_on(*job)), "");
  CAF_CHECK_EQUAL(admin.scalar("select queue from gen_durable"), "q");
  check_refused({"update gen_durable set state = '{}'",
                 "delete from gen_durable",
                 "select gd_signal(" + foreign + ", 'paid')",
                 "insert into gen_durable_queues values ('q', now())"});
  // What is no verb, which would be an entry of its name.
  auto direct = connect();
  for (const auto* what :
       {"'done'", "'insert'", "null", "'upgrade'", "repeat('x', 300000)"})
    CAF_CHECK_EQUAL(sqlstate_of(direct, "select _gd_operate("s + what + ", "
                                          + foreign
                                          + ", null, null, null, null, null, "
                                            "'ceo')"),
                    "22023");
  CAF_CHECK_EQUAL(sqlstate_of(direct, "select gd_begin_job('retry', failure => "
                                      "repeat('x', 10000))"),
                  "22023");
  // Who works off jobs still may.
  admin.exec("grant usage on schema " + schema + " to "
             + quoted_name(role + " engine")
             + "; grant select, insert, update "
               "on all tables in schema "
             + schema + " to " + quoted_name(role + " engine") + "; set role "
             + quoted_name(role + " engine"));
  CAF_CHECK_EQUAL(sqlstate_of(admin, "select _gd_work_on_job(1)"), "");
  admin.exec("reset role");
  // It goes with the rights of the owner, and what is left names the role.
  check_refused({"select _gd_erase(" + foreign + ", null, 'x', 'y')"});
  CAF_CHECK_EQUAL(
    refusal(by->operate(
      {.what = gd::act::erase, .target = id, .reason = "request 17"})),
    "");
  CAF_CHECK_EQUAL(admin.scalar("select by from gen_durable_erased"), role);
  CAF_CHECK_EQUAL(admin.scalar("select count(*) from gen_durable"), "0");
  CAF_CHECK(contains(refusal(by->look_up(id)), "by " + role + ": request 17"));
  check_refused({"update gen_durable_erased set reason = 'x'",
                 "delete from gen_durable_erased"});
}

CAF_TEST(
  no search path leads functions that have rights of their own elsewhere) {
  grant("functions");
  auto by = connect(api);
  by.exec(
    "create temporary table gen_durable (id bigint, fsm text);"
    "create temporary table gen_durable_signals (id bigint);"
    "create temporary table gen_durable_machines (fsm text);"
    "create function pg_temp._gd_address(text, bigint, text, bytea) returns"
    " bytea language sql as 'select null::bytea';"
    "set search_path = pg_temp, "
    + api);
  auto id = by.scalar("select id from gd_insert('Order', unique_key => 'u')");
  CAF_CHECK_EQUAL(by.scalar("select gd_signal(" + id + ", 'x')"), "accepted");
  CAF_CHECK_EQUAL(by.scalar("select step from gd_status('u')"), "pay");
  rest(id);
  by.exec("select gd_transition(" + id + ", 'closed')");
  CAF_CHECK_EQUAL(status(id), "done");
  CAF_CHECK_EQUAL(by.scalar("select count(*) from pg_temp.gen_durable"), "0");
}

CAF_TEST(nobody may create functions where those of others look for theirs) {
  admin.exec("grant create on schema " + schema + " to public");
  grant("functions");
  auto by = connect();
  CAF_CHECK_EQUAL(
    sqlstate_of(by, "create function " + schema
                      + ".gd_insert(fsm text, state jsonb) returns"
                        " bigint language sql as 'select 1::bigint'"),
    "42501");
}

CAF_TEST(a migration that makes a function anew takes nothing from the role) {
  grant("functions");
  std::vector known(std::begin(gd::sql::migrations),
                    std::end(gd::sql::migrations));
  auto next = gd::newest_schema() + 1;
  known.push_back({next, "anew", 0,
                   R"(set local search_path = :"schema";
                      do $$ declare x text := pg_get_functiondef('gd_signal'::regproc);
                      begin drop function gd_signal; execute x; end $$;)",
                   ""});
  auto applied = gd::migrator{db.options(), known}.up(next, false);
  CAF_CHECK_EQUAL(applied ? "" : applied.error().message, "");
  auto by = connect(api);
  auto id = by.scalar("select id from gd_insert('Order')");
  CAF_CHECK_EQUAL(by.scalar("select gd_signal(" + id + ", 'x')"), "accepted");
}

CAF_TEST(a schema of functions is not that of the tables) {
  api_name = db.schema();
  api = schema;
  std::string said;
  try {
    grant("functions");
  } catch (const sql_error& why) {
    said = why.sqlstate();
    admin.exec("rollback");
  }
  CAF_CHECK_EQUAL(said, "22023");
}

CAF_TEST(who may not draw ids of signals moves all the same) {
  auto me = quoted_name(role);
  admin.exec("grant usage on schema " + schema + " to " + me
             + "; grant select, update on gen_durable to " + me
             + "; grant select on gen_durable_machines to " + me
             + "; update gen_durable set step = 'submitted', awaits = ''");
  admin.exec("update gen_durable_machines set outside = jsonb_set(outside,"
             " '{submitted,to}', '[\"pay\", \"closed\"]')");
  auto drawn = [this] {
    return admin.scalar("select last_value from gen_durable_signals_id_seq");
  };
  auto before = drawn();
  auto by = connect();
  by.exec("select gd_transition(" + foreign + ", 'pay')");
  CAF_CHECK_EQUAL(status(foreign), "runnable");
  CAF_CHECK_EQUAL(drawn(), before);
  CAF_MESSAGE("and who may lets others know");
  admin.exec("grant usage on sequence gen_durable_signals_id_seq to " + me
             + "; update gen_durable set status = 'awaiting_signal', step = "
               "'submitted', awaits = ''");
  by.exec("select gd_transition(" + foreign + ", 'pay')");
  CAF_CHECK(drawn() != before);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace rights_suite
