// Steps in transactions: what a step writes is committed with its outcome or not at all,
// whatever the step, the database and strangers do.

#define CAF_SUITE in_transaction

#include "support/database.hpp"
#include "support/opened.hpp"
#include "support/words.hpp"

#include <gd/engine/step/step_sessions.hpp>
#include <gd/engine/step/step_transaction.hpp>
#include <gd/testing.hpp>
#include <gd/transaction.hpp>
#include <gd/transaction_step.hpp>

#include <caf/test/dsl.hpp>

#include <libpq-fe.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace in_transaction_suite {

using namespace std::literals;

using gd::test::contains;
using gd::test::must;
using gd::test::session;
using gd::test::temporary_role;
using gd::test::text;

GD_ENUM(book_step, book, pay, resting);

struct trip {
  std::int64_t seat = 0;
  std::string note{};
  GD_STATE(trip, seat, note);
};

namespace {

using context = gd::transaction_context<trip>;
using function = std::function<gd::outcome(context&)>;
using handler
  = std::function<gd::outcome(const gd::failure&, gd::context<trip>&)>;

/// Runs a statement, or throws what the server says.
std::string query(PGconn* on, const char* sql) {
  std::unique_ptr<PGresult, decltype(&PQclear)> answer{PQexec(on, sql),
                                                       PQclear};
  auto status = PQresultStatus(answer.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw std::runtime_error{PQresultErrorMessage(answer.get())};
  return PQntuples(answer.get()) > 0 ? PQgetvalue(answer.get(), 0, 0) : "";
}

gd::outcome tell(const gd::failure& why, gd::context<trip>&) {
  return gd::stop((why.permanent() ? "permanent: " : "") + why.message());
}

gd::outcome end_well(gd::context<trip>& ctx) {
  return gd::done(ctx.state);
}

/// A machine whose first step is this, in a transaction.
gd::machine booking(function book, gd::history kept = gd::history::none) {
  return gd::define<trip, book_step>("Booking", 1)
    .history(kept)
    .step(book_step::book, gd::in_transaction(std::move(book)))
    .step(book_step::pay, end_well)
    .rest(book_step::resting, {book_step::pay})
    .on_error(tell);
}

/// Stores the seat.
void take_seat(context& ctx) {
  query(ctx.db(),
        ("insert into seats values (" + std::to_string(ctx.state.seat) + ")")
          .c_str());
}

gd::outcome take_and_pay(context& ctx) {
  take_seat(ctx);
  return gd::next(book_step::pay, ctx.state);
}

gd::insert seat(std::int64_t n, std::optional<std::string> key = {}) {
  gd::insert x{.fsm = "Booking", .state = gd::to_json(trip{.seat = n})};
  x.unique_key = std::move(key);
  return x;
}

/// Stands between libpq and its server, and cuts the connection when the client commits:
/// before the server hears of it, or when it has answered.
class cutter {
public:
  cutter(PGconn* of, bool hears) : server_(dup(PQsocket(of))) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
      throw std::runtime_error{"no sockets"};
    dup2(ends[0], PQsocket(of));
    close(ends[0]);
    client_ = ends[1];
    thread_ = std::thread{[this, hears] { serve(hears); }};
  }

  ~cutter() {
    thread_.join();
  }

private:
  void serve(bool hears) {
    bool commits = false;
    while (true) {
      std::array at{pollfd{client_, POLLIN, 0}, pollfd{server_, POLLIN, 0}};
      poll(at.data(), at.size(), -1);
      if (at[0].revents != 0) {
        auto said = receive(client_);
        commits = commits || contains(said, "gd_commit");
        if (said.empty() || (commits && !hears))
          break;
        send_all(server_, said);
      }
      if (at[1].revents != 0) {
        auto said = receive(server_);
        if (said.empty() || commits)
          break;
        send_all(client_, said);
      }
    }
    close(server_);
    close(client_);
  }

  static std::string receive(int from) {
    std::string buffer(1 << 16, '\0');
    auto n = read(from, buffer.data(), buffer.size());
    buffer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return buffer;
  }

  static void send_all(int to, std::string_view what) {
    while (!what.empty()) {
      auto n = send(to, what.data(), what.size(), MSG_NOSIGNAL);
      if (n <= 0)
        return;
      what.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  int server_;
  int client_ = -1;
  std::thread thread_;
};

struct fixture : gd::test::opened_database {
  fixture() {
    db.rows("create table seats (number bigint primary key)");
  }

  gd::testing::in_database engine(gd::machine what,
                                  gd::effect_settings how = {}) {
    auto made = gd::testing::in_database::connect(
      db.options(), {std::move(what)}, {.effects = std::move(how)});
    CAF_REQUIRE(made);
    return std::move(*made);
  }

  /// Runs one instance's first step; what has become of it.
  std::string ran(gd::testing::harness& by, std::int64_t n = 1,
                  std::optional<std::string> key = {}) {
    auto row = by.insert(seat(n, std::move(key)));
    CAF_REQUIRE(row);
    id = row->id;
    do
      CAF_REQUIRE(must(by.step())); // perhaps one that has gone on
    while (by.history().back().id != id);
    const auto& last = by.history().back();
    return last.outcome + (last.detail.empty() ? "" : " " + last.detail);
  }

  std::string ran(function book, std::int64_t n = 1) {
    auto by = engine(booking(std::move(book)));
    return ran(by, n);
  }

  std::string seats() {
    return db.scalar("select count(*) from seats");
  }

  std::string status() {
    return of(id, "status");
  }

  std::int64_t id = 0;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(in_transaction_tests, fixture)

// -- together or not at all ---------------------------------------------------

CAF_TEST(what a step writes is committed with its outcome) {
  session other{db.conninfo()};
  auto by = engine(booking([&](context& ctx) {
    take_seat(ctx);
    CAF_CHECK_EQUAL(other.scalar("select count(*) from seats"), "0");
    return gd::next(book_step::pay, ctx.state);
  }));
  CAF_CHECK_EQUAL(ran(by), "next pay");
  CAF_CHECK_EQUAL(seats(), "1");
  CAF_CHECK_EQUAL(status(), "runnable");
  CAF_CHECK_EQUAL(of(id, "step"), "pay");
  CAF_CHECK_EQUAL(must(by.drain()), 1u);
  CAF_CHECK_EQUAL(status(), "done");
}

CAF_TEST(an exception rolls back what the step wrote and the handler decides) {
  CAF_CHECK_EQUAL(ran([](context& ctx) -> gd::outcome {
                    take_seat(ctx);
                    throw std::runtime_error{"no more"};
                  }),
                  "stop no more");
  CAF_CHECK_EQUAL(seats(), "0");
  CAF_CHECK_EQUAL(status(), "failed");
}

CAF_TEST(an outcome that cannot be carried out rolls back) {
  auto by = engine(gd::define<trip, book_step>("Booking", 1)
                     .step(book_step::book, {.to = {book_step::resting}},
                           gd::in_transaction(take_and_pay))
                     .step(book_step::pay, end_well)
                     .rest(book_step::resting, {book_step::pay})
                     .on_error(tell));
  CAF_CHECK(contains(ran(by), "declares no transition from book to pay"));
  CAF_CHECK_EQUAL(seats(), "0");
}

CAF_TEST(the transaction is over when the handler is called) {
  session other{db.conninfo()};
  auto by = engine(gd::define<trip, book_step>("Booking", 1)
                     .step(book_step::book,
                           gd::in_transaction([](context& ctx) -> gd::outcome {
                             take_seat(ctx);
                             throw std::runtime_error{"no more"};
                           }))
                     .step(book_step::pay, end_well)
                     .rest(book_step::resting, {book_step::pay})
                     .on_error([&](const gd::failure&, gd::context<trip>&) {
                       // It would wait for the other one's end.
                       other.exec("insert into seats values (1)");
                       return gd::stop("handled");
                     }));
  CAF_CHECK_EQUAL(ran(by), "stop handled");
  CAF_CHECK_EQUAL(seats(), "1");
}

CAF_TEST(a stale outcome rolls back what the step wrote) {
  session other{db.conninfo()};
  auto by = engine(booking([&](context& ctx) {
    take_seat(ctx);
    // As a reaper and another node's pick do.
    other.exec("update gen_durable set locked_by = 'b/1/1' where id = $1",
               {text(ctx.id)});
    return gd::next(book_step::pay, ctx.state);
  }));
  CAF_CHECK_EQUAL(ran(by), "stale pay");
  CAF_CHECK_EQUAL(seats(), "0");
  CAF_CHECK_EQUAL(of(id, "locked_by"), "b/1/1");
  CAF_CHECK_EQUAL(status(), "executing");
}

CAF_TEST(
  an outcome that is lost with its process takes what the step wrote along) {
  auto by = engine(booking(take_and_pay));
  auto row = must(by.insert(seat(1)));
  by.crash_next(row.id);
  CAF_REQUIRE(must(by.step()));
  CAF_CHECK_EQUAL(seats(), "0");
  CAF_CHECK_EQUAL(of(row.id, "attempt"), "1");
  CAF_REQUIRE(must(by.step()));
  CAF_CHECK_EQUAL(seats(), "1");
}

// -- what the step must not do ------------------------------------------------

CAF_TEST(a commit through the connection fails the step for good) {
  auto became = ran([](context& ctx) {
    take_seat(ctx);
    query(ctx.db(), "commit");
    return gd::next(book_step::pay, ctx.state);
  });
  CAF_CHECK_EQUAL(became, "stop permanent: step book of Booking v1 has ended "
                          "the transaction of its outcome: what it did before "
                          "that is stored or rolled back, as it wanted");
  CAF_CHECK_EQUAL(seats(), "1");
}

CAF_TEST(a rollback through the connection fails the step) {
  CAF_CHECK(contains(ran([](context& ctx) {
                       take_seat(ctx);
                       query(ctx.db(), "rollback");
                       return gd::next(book_step::pay, ctx.state);
                     }),
                     "has ended the transaction of its outcome"));
  CAF_CHECK_EQUAL(seats(), "0");
}

CAF_TEST(a commit that begins another transaction is noticed) {
  for (const auto* again : {"commit; begin", "commit and chain",
                            "rollback; begin", "commit; begin; select 1"}) {
    db.rows("truncate seats");
    auto became = ran([again](context& ctx) {
      query(ctx.db(), again);
      // Without the settings of the first one.
      query(ctx.db(), "insert into public.seats values (1)");
      return gd::next(book_step::pay, ctx.state);
    });
    CAF_CHECK(contains(became, "and begun another"));
    CAF_CHECK_EQUAL(seats(), "0"); // of the other
    CAF_CHECK_EQUAL(status(), "failed");
  }
}

CAF_TEST(an outcome in spite of a failed statement is none) {
  auto became = ran([](context& ctx) {
    take_seat(ctx);
    PQclear(PQexec(ctx.db(), "select 1 / 0"));
    return gd::next(book_step::pay, ctx.state);
  });
  CAF_CHECK(contains(became, "a statement has failed in its transaction"));
  CAF_CHECK_EQUAL(seats(), "0");
}

CAF_TEST(a statement may fail within a savepoint) {
  CAF_CHECK_EQUAL(ran([](context& ctx) {
                    query(ctx.db(), "savepoint mine");
                    PQclear(PQexec(ctx.db(), "select 1 / 0"));
                    query(ctx.db(), "rollback to mine");
                    take_seat(ctx);
                    return gd::next(book_step::pay, ctx.state);
                  }),
                  "next pay");
  CAF_CHECK_EQUAL(seats(), "1");
}

CAF_TEST(a command that is left under way fails the step and the next one has a
           session) {
  auto by = engine(booking([](context& ctx) {
    take_seat(ctx);
    if (ctx.state.seat == 1)
      PQsendQuery(ctx.db(), "select generate_series(1, 100000)");
    return gd::next(book_step::pay, ctx.state);
  }));
  CAF_CHECK(contains(ran(by, 1), "a command is under way on the connection"));
  CAF_CHECK_EQUAL(ran(by, 2), "next pay");
  CAF_CHECK_EQUAL(db.scalar("select number from seats"), "2");
}

CAF_TEST(a pipeline that is read to its end may be left open) {
  CAF_CHECK_EQUAL(ran([](context& ctx) {
                    take_seat(ctx);
                    PQenterPipelineMode(ctx.db());
                    PQsetnonblocking(ctx.db(), 1);
                    return gd::next(book_step::pay, ctx.state);
                  }),
                  "next pay");
  CAF_CHECK_EQUAL(seats(), "1");
}

// -- settings and rights ------------------------------------------------------

CAF_TEST(a step has the role and the search path of the settings) {
  temporary_role role{db};
  db.rows("create schema app; create table app.seats (number bigint);"
          "grant usage on schema app to "
          + gd::test::quoted_name(role.name)
          + "; grant insert, select on app.seats to "
          + gd::test::quoted_name(role.name));
  auto by = engine(booking([&](context& ctx) {
                     CAF_CHECK_EQUAL(query(ctx.db(), "select current_user"),
                                     role.name);
                     take_seat(ctx);
                     return gd::next(book_step::pay, ctx.state);
                   }),
                   {.search_path = "app", .role = role.name});
  CAF_CHECK_EQUAL(ran(by), "next pay");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from app.seats"), "1");
  CAF_CHECK_EQUAL(seats(), "0");
}

CAF_TEST(
  a role without rights writes neither the applications rows nor the engines) {
  temporary_role role{db};
  for (const auto* sql : {"insert into public.seats values (1)",
                          "update public.gen_durable set status = 'done'"}) {
    auto by = engine(booking([sql](context& ctx) {
                       query(ctx.db(), sql);
                       return gd::next(book_step::pay, ctx.state);
                     }),
                     {.role = role.name});
    CAF_CHECK(contains(ran(by), "permission denied"));
  }
}

CAF_TEST(what is checked at the end is checked with the steps role) {
  temporary_role role{db};
  db.rows("create function who() returns trigger language plpgsql as $$ begin"
          " insert into public.told values (current_user); return null; end $$;"
          "create table told (who text);"
          "create constraint trigger at_the_end after insert on seats"
          " deferrable initially deferred for each row execute function who();"
          "grant insert on told, seats to "
          + gd::test::quoted_name(role.name));
  auto by = engine(booking(take_and_pay),
                   {.search_path = "public", .role = role.name});
  CAF_CHECK_EQUAL(ran(by), "next pay");
  CAF_CHECK_EQUAL(db.scalar("select who from told"), role.name);
}

CAF_TEST(a role that is not there fails the step with its name) {
  auto by = engine(booking(take_and_pay), {.role = "nobody_here"});
  auto became = ran(by);
  CAF_CHECK(contains(became, "cannot begin"));
  CAF_CHECK(contains(became, "nobody_here"));
}

CAF_TEST(statements and waits for locks are bounded) {
  session other{db.conninfo()};
  other.exec("begin; lock table seats");
  auto waits = engine(booking([](context& ctx) {
                        take_seat(ctx);
                        return gd::next(book_step::pay, ctx.state);
                      }),
                      {.statement_timeout = 20ms});
  CAF_CHECK(contains(ran(waits), "canceling statement due to"));
  other.exec("rollback");
  auto by = engine(booking([](context& ctx) {
                     query(ctx.db(), "select pg_sleep(60)");
                     return gd::next(book_step::pay, ctx.state);
                   }),
                   {.statement_timeout = 20ms});
  CAF_CHECK(contains(ran(by), "statement timeout"));
}

CAF_TEST(a session keeps nothing of the step before) {
  auto by = engine(booking([](context& ctx) {
    auto* on = ctx.db();
    CAF_CHECK_EQUAL(query(on, "show search_path"), "\"$user\", public");
    CAF_CHECK_EQUAL(query(on, "show enable_seqscan"), "on");
    CAF_CHECK_EQUAL(query(on, "show gd.trusted"), "");
    query(on, "create temp table mine (n int)");
    query(on, "set application_name = 'mine'");
    query(on, "set enable_seqscan = off");
    query(on, "select pg_advisory_lock(7)");
    query(on, "listen mine");
    query(on, "declare mine cursor with hold for select 1");
    PQclear(PQprepare(on, "mine", "select 1", 0, nullptr));
    CAF_CHECK_EQUAL(
      query(on,
            "select count(*) from pg_prepared_statements where name = 'mine'"),
      "1");
    take_seat(ctx);
    return gd::next(book_step::pay, ctx.state);
  }));
  for (int n = 1; n < 4; ++n)
    CAF_CHECK_EQUAL(ran(by, n), "next pay");
  CAF_CHECK_EQUAL(db.scalar(gd::test::count_locks), "0");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from pg_stat_activity where"
                            " application_name = 'mine'"),
                  "0");
}

CAF_TEST(a session that has ended is replaced before the step begins) {
  auto by = engine(booking(take_and_pay));
  CAF_CHECK_EQUAL(ran(by, 1), "next pay");
  db.rows("select pg_terminate_backend(pid) from pg_stat_activity where"
          " datname = current_database() and pid <> pg_backend_pid()"
          " and query like '%close all%'");
  CAF_CHECK_EQUAL(ran(by, 2), "next pay");
  CAF_CHECK_EQUAL(seats(), "2");
}

CAF_TEST(a session that ends under a step fails it and nothing is stored) {
  session other{db.conninfo()};
  auto became = ran([&](context& ctx) {
    take_seat(ctx);
    other.terminate(PQbackendPID(ctx.db()));
    return gd::next(book_step::pay, ctx.state);
  });
  CAF_CHECK(contains(became, "is lost, and rolled back"));
  CAF_CHECK_EQUAL(seats(), "0");
}

// -- what the database says of the outcome ------------------------------------

CAF_TEST(a deferred constraint that fails goes to the handler) {
  db.rows("create table known (number bigint primary key);"
          "alter table seats add foreign key (number) references known"
          " deferrable initially deferred");
  auto by = engine(booking(take_and_pay));
  CAF_CHECK(contains(ran(by, 1), "violates foreign key constraint"));
  CAF_CHECK_EQUAL(seats(), "0");
  db.rows("insert into known values (2)");
  CAF_CHECK_EQUAL(ran(by, 2), "next pay");
}

CAF_TEST(an outcome that its own table refuses rolls back) {
  db.rows("alter table gen_durable add check (step <> 'pay')");
  auto by = engine(booking(take_and_pay));
  CAF_CHECK(contains(ran(by), "the database refused the outcome"));
  CAF_CHECK_EQUAL(seats(), "0");
}

CAF_TEST(an outcome whose unique key another has by now rolls back) {
  session other{db.conninfo()};
  auto by = engine(booking([&](context& ctx) {
    take_seat(ctx);
    // While this one executes, its key is free.
    other.exec("insert into gen_durable (fsm, step, state, unique_key,"
               " unique_scope, unique_guard, queue) select fsm, step, state,"
               " unique_key, unique_scope, unique_key, 'elsewhere' from"
               " gen_durable where id = $1",
               {text(ctx.id)});
    return gd::next(book_step::pay, ctx.state);
  }));
  auto mine = seat(1, "K");
  mine.unique_scope = {"runnable"};
  auto first = must(by.insert(mine));
  CAF_REQUIRE(must(by.step()));
  CAF_CHECK(contains(by.history().back().detail, "has its unique key"));
  CAF_CHECK_EQUAL(seats(), "0");
  CAF_CHECK_EQUAL(of(first.id, "status"), "failed");
}

CAF_TEST(a signal that comes while the step runs wakes it as it parks) {
  auto by = engine(booking([&](context& ctx) {
    take_seat(ctx);
    auto taken = ctx.take<trip>("first");
    if (!taken)
      return gd::outcome{gd::await("first", ctx.state)};
    auto sender = client();
    CAF_CHECK(sender.signal({.target = ctx.id, .name = "second"}));
    return gd::outcome{gd::await("second", ctx.state)};
  }));
  CAF_CHECK_EQUAL(ran(by), "await first");
  CAF_CHECK_EQUAL(status(), "awaiting_signal");
  db.rows("truncate seats");
  CAF_REQUIRE(
    by.signal({.target = id, .name = "first", .payload = gd::to_json(trip{})}));
  CAF_REQUIRE(must(by.step()));
  CAF_CHECK_EQUAL(status(), "runnable");
  CAF_CHECK_EQUAL(of(id, "wake_reason"), "signal");
  // What it took went with its outcome, and what it did not look at stayed.
  CAF_CHECK_EQUAL(db.scalar("select string_agg(name, ',') from"
                            " gen_durable_signals where consumed_at is null"),
                  "second");
}

CAF_TEST(a history has the outcome and what is not kept is to be deleted) {
  auto by = engine(
    gd::define<trip, book_step>("Booking", 1)
      .history(gd::history::steps)
      .keep(1h)
      .step(book_step::book, gd::in_transaction([](context& ctx) {
              take_seat(ctx);
              return gd::done(ctx.state);
            }))
      .step(book_step::pay, end_well)
      .rest(book_step::resting, {book_step::pay}));
  CAF_CHECK_EQUAL(ran(by), "done");
  CAF_CHECK_EQUAL(db.scalar("select string_agg(outcome, ',' order by seq) from"
                            " gen_durable_ledger where instance_id = "
                            + text(id)),
                  "insert,done");
  CAF_CHECK_EQUAL(db.scalar("select expires_at > now() from gen_durable"), "t");
}

CAF_TEST(a library call on the same transaction is committed with the rest) {
  auto by = engine(booking([](context& ctx) {
    take_seat(ctx);
    gd::transaction tx{ctx.db()};
    CAF_CHECK(tx.insert({.fsm = "Other",
                         .state = gd::json{},
                         .step = "s",
                         .queue = "elsewhere"}));
    return gd::next(book_step::pay, ctx.state);
  }));
  CAF_CHECK_EQUAL(ran(by), "next pay");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where fsm = "
                            "'Other'"),
                  "1");
}

// -- the commit of unknown fate -----------------------------------------------

CAF_TEST(a commit that the server has not heard of is none) {
  std::unique_ptr<cutter> cuts;
  auto by = engine(booking([&](context& ctx) {
    take_seat(ctx);
    if (ctx.state.seat == 1)
      cuts = std::make_unique<cutter>(ctx.db(), false);
    return gd::next(book_step::pay, ctx.state);
  }));
  CAF_CHECK(contains(ran(by, 1), "its commit was not done"));
  CAF_CHECK_EQUAL(seats(), "0");
  CAF_CHECK_EQUAL(status(), "failed");
  CAF_CHECK_EQUAL(ran(by, 2), "next pay");
}

CAF_TEST(a commit whose answer is lost has happened) {
  std::unique_ptr<cutter> cuts;
  auto by = engine(booking([&](context& ctx) {
    take_seat(ctx);
    if (ctx.state.seat == 1)
      cuts = std::make_unique<cutter>(ctx.db(), true);
    return gd::next(book_step::pay, ctx.state);
  }));
  CAF_CHECK_EQUAL(ran(by, 1), "next pay");
  CAF_CHECK_EQUAL(seats(), "1");
  CAF_CHECK_EQUAL(status(), "runnable");
  CAF_CHECK_EQUAL(must(by.drain()), 1u);
}

// -- connections --------------------------------------------------------------

CAF_TEST(a step waits in its turn and a stop ends its waiting) {
  gd::step_sessions some{{.where = db.options(), .how = {.connections = 1}}};
  CAF_CHECK_EQUAL(some.count(), 0u);
  std::stop_source stop;
  auto first = std::make_unique<gd::step_sessions::loan>(
    must(some.take(stop.get_token())));
  CAF_CHECK(*first);
  bool got = true;
  std::thread waits{
    [&] { got = static_cast<bool>(must(some.take(stop.get_token()))); }};
  stop.request_stop();
  waits.join();
  CAF_CHECK(!got);
  std::stop_source none;
  std::thread second{
    [&] { got = static_cast<bool>(must(some.take(none.get_token()))); }};
  first.reset();
  second.join();
  CAF_CHECK(got);
  CAF_CHECK_EQUAL(some.count(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- without a database -------------------------------------------------------

CAF_TEST(a simulation refuses a step in a transaction that it has no connection for) {
  gd::testing::simulation by{{booking(take_and_pay)}};
  must(by.insert(seat(1)));
  auto ran = by.step();
  CAF_CHECK_EQUAL(gd::test::message_of(ran),
                  "instance 1: step book of Booking v1 is in a transaction: "
                  "expected a connection for it (simulation_settings::db), or "
                  "an in_database");
}

CAF_TEST(a simulation commits what a step writes with its outcome
         or not at all) {
  gd::test::temporary_database db;
  db.rows("create table seats (number bigint primary key)");
  session on{db.conninfo()};
  gd::testing::simulation by{{booking([](context& ctx) -> gd::outcome {
                               take_seat(ctx);
                               if (ctx.state.seat == 2)
                                 throw std::runtime_error{"no more"};
                               if (ctx.state.seat == 3)
                                 query(ctx.db(), "commit");
                               return gd::next(book_step::pay, ctx.state);
                             })},
                             {.db = on.handle()}};
  auto ends = [&](std::int64_t n) {
    auto id = must(by.insert(seat(n))).id;
    if (n == 1)
      by.crash_next(id);
    must(by.drain());
    return by.describe(id);
  };
  CAF_CHECK(contains(ends(1), "book: crash"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from seats"), "1");
  CAF_CHECK(contains(ends(2), "stop no more"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from seats"), "1");
  CAF_CHECK(contains(ends(3), "expected an open one"));
  // A deferred constraint refuses it, and the row stays as it was.
  db.rows("create function no() returns trigger language plpgsql as $$ begin"
          " raise 'no'; end $$; create constraint trigger no after insert on"
          " seats deferrable initially deferred for each row"
          " execute function no()");
  CAF_CHECK(contains(ends(4), "the database refused the outcome"));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from seats where number = 4"),
                  "0");
}

} // namespace in_transaction_suite
