// Steps in transactions, in an engine: their connections, their turns, and what becomes of a
// row whose outcome no turn has written.

#define CAF_SUITE transaction_steps

#include "actors/harness.hpp"
#include "support/process.hpp"

#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>
#include <gd/transaction_step.hpp>

#include <caf/test/dsl.hpp>

#include <libpq-fe.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace transaction_steps_suite {

using namespace gd::test;
namespace events = gd::events;

namespace {

using transaction_probe = gd::transaction_context<probe_state>;

void run(PGconn* on, const std::string& sql) {
  std::unique_ptr<PGresult, decltype(&PQclear)> answer{PQexec(on, sql.c_str()),
                                                       PQclear};
  auto status = PQresultStatus(answer.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw std::runtime_error{PQresultErrorMessage(answer.get())};
}

void note(transaction_probe& ctx) {
  run(ctx.db(), "insert into notes values (" + std::to_string(ctx.id) + ")");
}

/// A machine whose first step is this, in a transaction.
gd::machine beginning_with(std::function<gd::outcome(transaction_probe&)> first,
                           gd::step_options how = {}) {
  auto end = [](probe_context& ctx) { return gd::done(ctx.state); };
  return gd::define<probe_state, probe_step>("Probe", 1)
    .step(probe_step::first, std::move(how),
          gd::in_transaction(std::move(first)))
    .step(probe_step::second, end)
    .step(probe_step::third, end)
    .on_error([](const gd::failure& why, probe_context&) {
      return gd::stop(why.message());
    });
}

gd::outcome note_and_go_on(transaction_probe& ctx) {
  note(ctx);
  return gd::next(probe_step::second, ctx.state);
}

struct fixture : engine_fixture {
  fixture() {
    db.rows("create table notes (id bigint primary key)");
  }

  std::string notes() {
    return db.scalar("select count(*) from notes");
  }

  /// Of steps: they have looked last at what was left behind.
  std::string step_sessions() {
    return db.scalar(
      "select count(*) from pg_stat_activity where datname = "
      "current_database() and application_name like 'gen_durable%' and query "
      "like '%close all%'");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(transaction_steps_tests, fixture)

CAF_TEST(instances go on behind a step in a transaction and each is told once) {
  auto engine = start(options({beginning_with(note_and_go_on)}));
  insert(30);
  wait_until_count("status = 'done'", 30);
  CAF_CHECK_EQUAL(notes(), "30");
  CAF_CHECK(log.exactly<events::step_committed>(60));
  CAF_CHECK(log.all<events::outcome_stale>().empty());
  CAF_CHECK(log.all<events::lease_lost>().empty());
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_due"), "0");
}

CAF_TEST(who awaits the end of an instance hears of one in a transaction) {
  auto engine = start(options({beginning_with([](transaction_probe& ctx) {
    note(ctx);
    return gd::done(ctx.state);
  })}));
  insert(1);
  auto end = ask<gd::awaited>(engine, gd::await_result{.id = 1});
  CAF_REQUIRE(end);
  CAF_CHECK_EQUAL(end->status, "done");
}

CAF_TEST(rows of one partition key follow each other through transactions) {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  auto engine = start(options({beginning_with([&](transaction_probe& ctx) {
    auto now = ++inside;
    most = std::max(most.load(), now);
    note(ctx);
    --inside;
    return gd::next(probe_step::second, ctx.state);
  })}));
  db.rows("insert into gen_durable (fsm, step, partition_key) select 'Probe',"
          " 'first', 'K' from generate_series(1, 10)");
  wait_until_count("status = 'done'", 10);
  CAF_CHECK_EQUAL(most.load(), 1);
  db.wait_until(count_locks, "0");
}

CAF_TEST(machines without such steps open no connection and others none before a
           step) {
  auto how = options({probe{}, beginning_with(note_and_go_on)});
  how.machines[0].name = "Other";
  auto engine = start(how);
  insert(5, "Other");
  wait_until_count("status = 'done'", 5);
  CAF_CHECK_EQUAL(step_sessions(), "0");
  insert(1);
  wait_until_count("status = 'done'", 6);
  CAF_CHECK_EQUAL(step_sessions(), "1");
}

CAF_TEST(steps wait for a connection in their turn and keep their leases) {
  session stranger{db.conninfo()};
  stranger.exec("select pg_advisory_lock(1)");
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  auto how = options({beginning_with([&](transaction_probe& ctx) {
    most = std::max(most.load(), ++inside);
    // Not idle in its transaction, which ends a session with its lease.
    run(ctx.db(), "select pg_advisory_xact_lock(1)");
    note(ctx);
    --inside;
    return gd::next(probe_step::second, ctx.state);
  })});
  how.effects.connections = 2;
  how.effects.statement_timeout = patience;
  how.lease = 3s;
  auto engine = start(how);
  insert(8);
  wait_until_count("status = 'executing'", 8);
  // For longer than a lease they have only what the heartbeat gives.
  db.wait_until("select bool_and(lease_expires_at > clock_timestamp()) and "
                "min(updated_at) < clock_timestamp() - interval '4 s' from "
                "gen_durable",
                "t");
  CAF_CHECK_EQUAL(inside.load(), 2);
  stranger.exec("select pg_advisory_unlock(1)");
  wait_until_count("status = 'done'", 8);
  CAF_CHECK_EQUAL(most.load(), 2);
  CAF_CHECK_EQUAL(notes(), "8");
  CAF_CHECK(log.all<events::lease_lost>().empty());
}

CAF_TEST(a step whose lease is lost while it waits for a connection does not run) {
  gate steps;
  auto how = options({beginning_with([&](transaction_probe& ctx) {
    steps.pass();
    note(ctx);
    return gd::next(probe_step::second, ctx.state);
  })});
  how.effects.connections = 1;
  auto engine = start(how);
  insert(1);
  CAF_REQUIRE(steps.wait_for(1));
  insert(1);
  db.wait_until("select status from gen_durable where id = 2", "executing");
  db.rows("update gen_durable set locked_by = 'b/1/1' where id = 2");
  CAF_CHECK(log.wait_for<events::outcome_stale>());
  steps.open();
  wait_until_count("status = 'done'", 1);
  CAF_CHECK_EQUAL(db.scalar("select string_agg(id::text, ',') from notes"),
                  "1");
}

CAF_TEST(a time limit counts while a step waits for a connection) {
  gate steps;
  std::atomic<int> begun = 0;
  auto how = options({beginning_with(
    [&](transaction_probe& ctx) {
    if (begun++ == 0) // whichever has come first
      steps.pass();
    return gd::next(probe_step::second, ctx.state);
    },
    {.limit = 300ms})});
  how.effects.connections = 1;
  auto engine = start(how);
  insert(2);
  wait_until_count("status = 'failed'", 2);
  CAF_CHECK_EQUAL(begun.load(), 1);
  steps.open();
  CAF_CHECK(log.wait_for<events::step_returned_late>());
}

CAF_TEST(a step over its limit stores nothing when it returns) {
  gate steps;
  auto engine = start(options({beginning_with(
    [&](transaction_probe& ctx) {
    note(ctx);
    steps.pass();
    return gd::next(probe_step::second, ctx.state);
    },
    {.limit = 100ms})}));
  insert(1);
  wait_until_count("status = 'failed'", 1);
  steps.open();
  CAF_CHECK(log.wait_for<events::step_returned_late>());
  CAF_CHECK_EQUAL(notes(), "0");
}

CAF_TEST(steps go on when the server has ended their sessions) {
  auto engine = start(options({beginning_with(note_and_go_on)}));
  insert(1);
  wait_until_count("status = 'done'", 1);
  db.terminate_engines();
  insert(1);
  wait_until_count("status = 'done'", 2);
}

CAF_TEST(a stop takes those along that wait for a connection) {
  gate steps;
  auto how = options({beginning_with([&](transaction_probe& ctx) {
    steps.pass();
    return gd::next(probe_step::second, ctx.state);
  })});
  how.effects.connections = 1;
  how.stop_grace = 50ms;
  {
    auto engine = start(how);
    insert(3);
    CAF_REQUIRE(steps.wait_for(1));
    wait_until_count("status = 'executing'", 3);
    engine.stop();
  }
  steps.open();
  CAF_CHECK(log.wait_for<events::node_stopped>());
}

CAF_TEST(a worker without a database refuses a machine with such a step) {
  auto made = gd::actors::join(sys, {"unix:/nowhere"},
                               {beginning_with(note_and_go_on)});
  CAF_REQUIRE(!made);
  CAF_CHECK_EQUAL(made.error().message,
                  "join: step first of Probe v1 is in a transaction, and a "
                  "worker has no database: run this machine on an engine's "
                  "node");
}

// -- the end of the process ---------------------------------------------------

CAF_TEST(a process that is killed before the commit leaves nothing and one
           behind it all) {
  session at_the_end{db.conninfo()};
  session of_the_row{db.conninfo()};
  at_the_end.exec("select pg_advisory_lock(1)");
  db.rows("insert into gen_durable (fsm, step) values ('Note', 'note')");
  {
    process worker{{GD_TEST_WORKER, db.conninfo(), "a", "brief"}};
    at_the_end.wait_until_someone_is_blocked(); // the step, at its end
    of_the_row.exec("begin; select from gen_durable for update");
    at_the_end.exec("select pg_advisory_unlock(1)");
    auto pid = of_the_row.wait_until_someone_is_blocked(); // its outcome
    worker.end(SIGKILL);
    of_the_row.exec("rollback");
    db.wait_until("select count(*) from pg_stat_activity where pid = "
                    + std::to_string(pid),
                  "0");
    CAF_CHECK_EQUAL(notes(), "0");
    CAF_CHECK_EQUAL(db.scalar("select status from gen_durable"), "executing");
  }
  process worker{{GD_TEST_WORKER, db.conninfo(), "b", "brief"}};
  wait_until_count("status = 'done'", 1);
  worker.end(SIGKILL);
  CAF_CHECK_EQUAL(notes(), "1");
  CAF_CHECK_EQUAL(db.scalar("select result ->> 'attempt' from gen_durable"),
                  "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace transaction_steps_suite
