#define CAF_SUITE failover

// What becomes of commits, sessions and ids when a server loses its standby, or a standby
// takes its place. Where plain SQL goes wrong, it does so here: these tests can fail.

#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/migrate.hpp>
#include <gd/pq/connection.hpp>
#include <gd/pq/reactor.hpp>
#include <gd/pq/text.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <support/database.hpp>
#include <support/server.hpp>

#include <caf/test/dsl.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace failover_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;
namespace store = gd::store;

using gd::errc;
using gd::test::server;
using gd::test::session;

constexpr std::int64_t billion = 1'000'000'000;

constexpr sql::statement append_number{
  "append_number", "insert into public.numbers (n) values (1)"};

/// A server whose standby is gone: who does not say otherwise waits for it at each commit.
server& lonely() {
  static auto one = server::make("synchronous_standby_names = 'gone'");
  return one;
}

struct order {
  int n = 0;
  GD_STATE(order, n);
};

GD_ENUM(order_step, pay);

gd::machine order_machine() {
  return gd::define<order, order_step>("Order", 1)
    .step(order_step::pay, [](gd::context<order>&) { return gd::done(); });
}

gd::insert an_order() {
  return {.fsm = "Order", .state = gd::to_json(order{})};
}

std::string without(std::string text, std::string_view part) {
  auto at = text.find(part);
  CAF_REQUIRE(at != std::string::npos);
  return text.erase(at, part.size());
}

std::string text_of(const sql::statement& what) {
  return pq::substitute_schema(what.text, "public");
}

/// Takes connections and never says a word, as a host that is switched off.
class black_hole {
public:
  black_hole() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(here);
    auto* raw = reinterpret_cast<sockaddr*>(&here);
    CAF_REQUIRE(bind(fd_, raw, size) == 0 && listen(fd_, 100) == 0
                && getsockname(fd_, raw, &size) == 0);
    port_ = std::to_string(ntohs(here.sin_port));
  }

  ~black_hole() {
    close(fd_);
  }

  black_hole(const black_hole&) = delete;
  black_hole& operator=(const black_hole&) = delete;

  const std::string& port() const {
    return port_;
  }

private:
  int fd_;
  std::string port_;
};

struct fixture {
  std::string name;
  /// Waits for no standby.
  pq::options quick;
  /// Waits for as long as it takes.
  pq::options patient;
  std::unique_ptr<session> admin;

  fixture() {
    static int count = 0;
    name = "failover_" + std::to_string(++count);
    session{local("postgres")}.exec("create database " + name);
    patient.database = lonely().conninfo(name);
    quick.database = local(name);
    admin = std::make_unique<session>(quick.database);
    CAF_REQUIRE(gd::migrate_up(quick));
    admin->exec("create table numbers (n bigint)");
    pq::connection on{quick};
    CAF_REQUIRE(
      on.run({{store::register_machines(store::known({order_machine()}))}})
        .ok());
    admin->scalar(
      "select nextval('gen_durable_id_seq')"); // and 32 more, in WAL
  }

  static std::string local(const std::string& database) {
    return lonely().conninfo(database)
           + " options='-c synchronous_commit=local'";
  }

  /// Ready. A host that is slow, and no black hole, may be found with the second try.
  static std::unique_ptr<pq::connection>
  connected(const pq::options& opts, pq::predecessor before = {}) {
    auto give_up = std::chrono::steady_clock::now() + gd::test::patience;
    for (;;) {
      auto on = std::make_unique<pq::connection>(opts, before);
      if (on->wait_ready())
        return on;
      CAF_REQUIRE(std::chrono::steady_clock::now() < give_up);
    }
  }

  void until(const std::string& query, const std::string& expected) {
    auto give_up = std::chrono::steady_clock::now() + gd::test::patience;
    while (admin->scalar(query) != expected)
      CAF_REQUIRE(std::chrono::steady_clock::now() < give_up);
  }

  std::string waits(std::int64_t pid) {
    return admin->scalar("select count(*) from pg_stat_activity where pid = $1 "
                         "and wait_event = 'SyncRep'",
                         {std::to_string(pid)});
  }

  void until_waits(std::int64_t pid) {
    until("select count(*) from pg_stat_activity where wait_event = 'SyncRep' "
          "and pid = "
            + std::to_string(pid),
          "1");
  }

  /// Any session in this database that waits, when there is one.
  std::int64_t someone_who_waits() {
    until("select count(*) from pg_stat_activity where wait_event = 'SyncRep' "
          "and datname = current_database()",
          "1");
    return std::stoll(
      admin->scalar("select pid from pg_stat_activity where wait_event = "
                    "'SyncRep' and datname = current_database()"));
  }

  /// That of a node which has said nothing for an hour.
  void make_silent(const std::string& incarnation, std::int64_t pid) {
    admin->exec("insert into gen_durable_nodes (incarnation, node, host, "
                "process, library, lease, slots, queues, machines, sessions, "
                "seen_at) select $1, 'a', 'host', 1, '0', interval '1 s', 1, "
                "'[]', '[]', jsonb_build_array(jsonb_build_object('process', "
                "pid, 'began', backend_start, 'role', usename)), now() - "
                "interval '1 h' from pg_stat_activity where pid = $2::int",
                {incarnation, std::to_string(pid)});
  }

  void cancel(std::int64_t pid) {
    admin->exec("select pg_cancel_backend($1)", {std::to_string(pid)});
  }

  /// Ends the wait of everybody, and has them wait again.
  void come_back_for_a_moment(const std::function<void()>& meanwhile) {
    lonely().set("synchronous_standby_names", "");
    meanwhile();
    lonely().set("synchronous_standby_names", "gone");
    // The server begins with it in its own time.
    for (;;) {
      session any{lonely().conninfo(name)};
      any.start("insert into numbers values (0)");
      while (!any.finished())
        if (waits(any.pid()) == "1")
          return cancel(any.pid());
    }
  }

  /// As after a promotion: the timeline is not that of the last time.
  void begin_another_timeline() {
    admin->exec("select setval('gen_durable_timeline', 0)");
  }

  std::vector<std::int64_t> draw(std::int32_t count) {
    pq::connection on{quick};
    auto reply = on.run(
      {{store::draw_ids(static_cast<std::size_t>(count))}, false});
    CAF_REQUIRE(reply.ok());
    std::vector<std::int64_t> out;
    for (auto& x : store::read<store::drawn_id>(reply.results.front()))
      out.push_back(x.id);
    return out;
  }

  std::int64_t draw_one() {
    return draw(1).front();
  }
};

template <class F>
bool ends_badly(F f) {
  try {
    f();
    return false;
  } catch (const std::runtime_error&) {
    return true;
  }
}

gd::errc code(const pq::reply& x) {
  return x.failure ? x.failure->code : gd::errc{};
}

std::string state_of(const pq::reply& x) {
  return x.failure ? x.failure->sqlstate : "";
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(failover_tests, fixture)

// -- sessions that wait for a standby -----------------------------------------

CAF_TEST(a silent session that waits for a standby is not ended and nothing is
           locked for it) {
  session waiting{lonely().conninfo(name)};
  make_silent("a/1", waiting.pid());
  pq::connection other{quick};
  auto found = store::read<store::silent_session>(
    other.run({{store::silent_sessions("b/1")}, false}).results.at(0));
  CAF_REQUIRE_EQUAL(found.size(), 1u);
  waiting.start("insert into numbers values (1)");
  until_waits(waiting.pid());
  CAF_MESSAGE("who judges it does not wait for the standby, too");
  pq::connection judge{patient};
  auto listed = judge.run({{store::silent_sessions("b/1")}, false});
  CAF_REQUIRE(listed.ok());
  CAF_CHECK_EQUAL(listed.results.front().size(), 0u);
  CAF_MESSAGE("nor if it was found before it began to wait");
  auto ended = judge.run({{store::end_silent_session(found.front())}, false});
  CAF_REQUIRE(ended.ok());
  CAF_CHECK_EQUAL(ended.results.front().size(), 0u);
  CAF_CHECK_EQUAL(waits(waiting.pid()), "1");

  CAF_MESSAGE("without that look");
  session plain{lonely().conninfo(name)};
  plain.start(without(text_of(sql::silent_sessions),
                      "a.wait_event is distinct from 'SyncRep' and"),
              {"b/1"});
  until_waits(plain.pid());
  cancel(plain.pid());
  CAF_CHECK_EQUAL(plain.finish().size(), 1u);
  auto ends = without(without(text_of(sql::end_silent_session),
                              "and a.wait_event is distinct from 'SyncRep'"),
                      "and not exists (select from pg_stat_activity a where "
                      "a.pid = $2::int and a.wait_event = 'SyncRep')");
  admin->exec(ends,
              {"a/1", std::to_string(waiting.pid()), found.front().began});
  CAF_CHECK(ends_badly([&] { waiting.finish(); }));
  CAF_CHECK_EQUAL(admin->scalar("select count(*) from numbers"), "1");
}

CAF_TEST(a new control connection does not end one that waits for a standby) {
  session older{lonely().conninfo(name)};
  make_silent("a/1", older.pid());
  older.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
             "hashtext('a/1'))");
  older.start("insert into numbers values (1)");
  until_waits(older.pid());
  pq::connection next{patient};
  auto held = next.run({{store::node_lock("a/1", 50ms)}, false});
  CAF_REQUIRE(held.ok());
  CAF_CHECK(!held.results.front().boolean(0, 0));
  CAF_CHECK_EQUAL(waits(older.pid()), "1");

  CAF_MESSAGE("without that look");
  admin->exec(without(text_of(sql::node_lock),
                      "a.wait_event is distinct from 'SyncRep' and"),
              {"a/1", "10000"});
  CAF_CHECK(ends_badly([&] { older.finish(); }));
  CAF_CHECK_EQUAL(admin->scalar("select count(*) from numbers"), "1");
}

// -- commits that are not replicated ------------------------------------------

CAF_TEST(a commit whose wait for a standby is cancelled is of unknown fate) {
  CAF_MESSAGE("the server says COMMIT");
  session plain{lonely().conninfo(name)};
  plain.start("insert into numbers values (1)");
  until_waits(plain.pid());
  cancel(plain.pid());
  plain.finish();

  for (bool transaction : {true, false}) {
    CAF_MESSAGE("in a transaction: " << transaction);
    auto opts = patient;
    if (transaction) // whatever a role wants to hear of
      opts.database += " options='-c client_min_messages=error'";
    pq::connection on{opts};
    CAF_REQUIRE(on.wait_ready());
    on.send({{{&append_number, {}}}, transaction});
    until_waits(on.backend());
    cancel(on.backend());
    auto reply = on.wait_reply();
    CAF_CHECK(code(reply) == errc::unknown_fate);
    CAF_CHECK_EQUAL(state_of(reply), "01000");
    CAF_CHECK(reply.unreplicated);
    CAF_CHECK(reply.results.empty());
    CAF_MESSAGE("as is what else it has left: the connection ends");
    CAF_CHECK(on.state() == pq::connection::phase::dead);
    CAF_CHECK(on.why_dead().code == errc::unavailable);
  }
  CAF_MESSAGE("a session that is ended meanwhile says the same");
  pq::connection on{patient};
  CAF_REQUIRE(on.wait_ready());
  on.send({{{&append_number, {}}}});
  until_waits(on.backend());
  admin->terminate(on.backend());
  auto reply = on.wait_reply();
  CAF_CHECK(code(reply) == errc::unknown_fate);
  CAF_CHECK_EQUAL(state_of(reply), "57P01");
  CAF_CHECK(reply.unreplicated);
  CAF_CHECK_EQUAL(admin->scalar("select count(*) from numbers"), "4");
}

CAF_TEST(other warnings at a commit are none of that) {
  admin->exec("create function warn() returns trigger language plpgsql as "
              "'begin raise warning ''cancelled''; return null; end'");
  admin->exec("create constraint trigger warn after insert on numbers "
              "deferrable initially deferred for each row execute function "
              "warn()");
  pq::connection on{quick};
  auto reply = on.run({{{&append_number, {}}}});
  CAF_CHECK(reply.ok());
  CAF_CHECK(!reply.unreplicated);
}

CAF_TEST(the reactor tells a commit that is not replicated) {
  std::promise<gd::events::not_replicated> told;
  std::promise<pq::reply> answered;
  gd::reactor tested{patient, 1,
                     [&told](const gd::event& what) {
    if (auto* x = std::get_if<gd::events::not_replicated>(&what))
      told.set_value(*x);
                     },
                     [](const gd::error&) {}};
  tested.submit(
    0, {{{&append_number, {}}}},
    [&answered](pq::reply x) { answered.set_value(std::move(x)); }, 1min);
  cancel(someone_who_waits());
  auto what = told.get_future().get();
  CAF_CHECK(what.why.code == errc::unknown_fate);
  CAF_CHECK_EQUAL(what.why.sqlstate, "01000");
  CAF_CHECK(gd::describe(what).starts_with(
    "connection 0: committed, but maybe not replicated: "));
  CAF_CHECK(code(answered.get_future().get()) == errc::unknown_fate);
}

CAF_TEST(an insert is answered when the standby has it
         and not when its row is seen) {
  auto client = gd::client::connect(patient);
  CAF_REQUIRE(client);
  auto answer = std::async(std::launch::async,
                           [&] { return client->insert(an_order()); });
  cancel(someone_who_waits());
  until("select count(*) from gen_durable", "1");
  CAF_MESSAGE("it is sent again, and waits again");
  someone_who_waits();
  CAF_CHECK(answer.wait_for(0s) == std::future_status::timeout);

  CAF_MESSAGE("what only looks does not wait");
  auto looks = without(text_of(sql::inserted), "cross join replicated\n");
  auto row = admin->exec("select id, (extract(epoch from inserted_at) * "
                         "1000000)::bigint from gen_durable");
  session plain{lonely().conninfo(name)};
  session::parameters of_row{"{" + *row[0][0] + "}", "{null}",
                             "{" + *row[0][1] + "}"};
  auto seen = plain.exec(looks, of_row);
  CAF_CHECK_EQUAL(seen.at(0).at(1).value(), "t");
  session ours{lonely().conninfo(name)};
  ours.start(text_of(sql::inserted), of_row);
  until_waits(ours.pid());

  come_back_for_a_moment([&] {
    auto done = answer.get();
    CAF_REQUIRE(done);
    CAF_CHECK_EQUAL(std::to_string(done->id), *row[0][0]);
    CAF_CHECK_EQUAL(ours.finish().size(), 1u);
  });
  CAF_CHECK_EQUAL(admin->scalar("select count(*) from gen_durable"), "1");
}

CAF_TEST(a duplicate is told by SQL when the standby has the first) {
  session first{lonely().conninfo(name)};
  first.start("select gd_insert('Order', unique_key => 'k')");
  until_waits(first.pid());
  cancel(first.pid());
  first.finish();
  session again{lonely().conninfo(name)};
  again.start("select duplicate from gd_insert('Order', unique_key => 'k')");
  until_waits(again.pid());
  come_back_for_a_moment([&] {
    auto told = again.finish();
    CAF_CHECK_EQUAL(told.at(0).at(0).value(), "t");
  });
}

CAF_TEST(while a session waits for a standby no other takes its place) {
  auto hasty = patient;
  hasty.statement_timeout = 2s;
  std::promise<pq::reply> first;
  std::promise<pq::reply> second;
  gd::reactor tested{hasty, 1, [](const gd::event&) {}, [](const gd::error&) {},
                     5ms};
  auto submit = [&tested](std::promise<pq::reply>& to) {
    tested.submit(
      0, {{{&append_number, {}}}},
      [&to](pq::reply x) { to.set_value(std::move(x)); }, 1min);
  };
  submit(first);
  CAF_CHECK(code(first.get_future().get()) == errc::unknown_fate);
  submit(second);
  auto give_up = std::chrono::steady_clock::now() + gd::test::patience;
  while (tested.why_waiting(0).message.find("still waits for a synchronous "
                                            "standby")
         == std::string::npos) {
    CAF_REQUIRE(std::chrono::steady_clock::now() < give_up);
    std::this_thread::yield();
  }
  auto waiting = "select count(*) from pg_stat_activity where wait_event = "
                 "'SyncRep' and datname = current_database()";
  CAF_CHECK_EQUAL(admin->scalar(waiting), "1");
  CAF_MESSAGE("nor do those of a client");
  auto client = gd::client::connect(hasty, {.reconnects = 2});
  CAF_REQUIRE(client);
  auto done = client->insert(an_order());
  CAF_REQUIRE(!done);
  CAF_CHECK(done.error().code == errc::unknown_fate);
  done = client->insert(an_order());
  CAF_REQUIRE(!done);
  CAF_CHECK(done.error().code == errc::unavailable);
  CAF_CHECK_EQUAL(admin->scalar(waiting), "2");
  come_back_for_a_moment([&] { CAF_CHECK(second.get_future().get().ok()); });
}

CAF_TEST(an insert whose wait is cancelled again and again is of unknown fate) {
  auto client = gd::client::connect(patient);
  CAF_REQUIRE(client);
  auto answer = std::async(std::launch::async,
                           [&] { return client->insert(an_order()); });
  while (answer.wait_for(2ms) == std::future_status::timeout)
    admin->exec("select pg_cancel_backend(pid) from pg_stat_activity where "
                "wait_event = 'SyncRep' and datname = current_database()");
  auto done = answer.get();
  CAF_REQUIRE(!done);
  CAF_CHECK(done.error().code == errc::unknown_fate);
  CAF_CHECK_EQUAL(done.error().sqlstate, "01000");
  CAF_CHECK_EQUAL(admin->scalar("select count(*) from gen_durable"), "1");
}

// -- ids behind a promotion ---------------------------------------------------

CAF_TEST(ids that are drawn behind a promotion are far from those before) {
  auto before = draw(2);
  CAF_CHECK_EQUAL(before[1], before[0] + 1);
  begin_another_timeline();
  CAF_MESSAGE("the sequence goes on where it was");
  CAF_CHECK_EQUAL(admin->scalar("select nextval('gen_durable_id_seq')"),
                  std::to_string(before[1] + 1));
  auto after = draw(2);
  CAF_CHECK_GREATER(after[0], before[1] + billion);
  CAF_CHECK_LESS(after[0], before[1] + 2 * billion + 10);
  CAF_CHECK_EQUAL(after[1], after[0] + 1);
  CAF_CHECK_GREATER(
    std::stoll(admin->scalar("select nextval('gen_durable_signals_id_seq')")),
    billion);
  CAF_MESSAGE("once");
  CAF_CHECK_EQUAL(draw_one(), after[1] + 1);
}

CAF_TEST(
  whoever raises the ids holds up nobody and a rollback does not undo it) {
  begin_another_timeline();
  session first{quick.database};
  first.exec("begin");
  CAF_CHECK_EQUAL(first.scalar("select raised from _gd_follow_timeline()"),
                  "t");
  auto at = std::stoll(first.scalar("select last_value from "
                                    "gen_durable_id_seq"));
  CAF_CHECK_EQUAL(draw_one(), at + 1);
  first.exec("rollback");
  CAF_CHECK_EQUAL(draw_one(), at + 2);
}

CAF_TEST(who draws while another raises the ids waits and draws behind) {
  begin_another_timeline();
  session other{quick.database}; // raises them just now
  other.exec("select pg_advisory_lock(hashtext('gen_durable timeline'), "
             "hashtext('public'))");
  session one{quick.database};
  one.start(text_of(sql::draw_ids), {"1"});
  one.wait_until_blocked_by(other);
  session two{quick.database};
  two.start(text_of(sql::draw_ids), {"1"});
  two.wait_until_blocked_by(other);
  other.exec("select pg_advisory_unlock_all()");
  auto first = std::stoll(one.finish().at(0).at(0).value());
  auto second = std::stoll(two.finish().at(0).at(0).value());
  CAF_CHECK_GREATER(std::min(first, second), billion);
  CAF_CHECK_EQUAL(std::abs(first - second), 1); // raised once
  CAF_MESSAGE("who fails in the middle of it leaves no lock");
  begin_another_timeline();
  other.exec("begin");
  other.exec("alter sequence gen_durable_signals_id_seq cache 1"); // locked
  session fails{quick.database};
  fails.exec("set lock_timeout = '20ms'");
  CAF_CHECK(ends_badly([&] { fails.exec("select _gd_follow_timeline()"); }));
  CAF_CHECK_EQUAL(admin->scalar("select count(*) from pg_locks where pid = $1 "
                                "and locktype = 'advisory'",
                                {std::to_string(fails.pid())}),
                  "0");
  other.exec("rollback");
  CAF_CHECK_GREATER(draw_one(), first + billion);
}

CAF_TEST(statements of others that draw ids raise them first) {
  auto last = draw_one();
  for (auto sql :
       {"insert into gen_durable (fsm, step) values ('Order', 'pay') returning "
        "id",
        "select id from gd_insert('Order')",
        "insert into gen_durable (fsm, step) select 'Order', 'pay' from "
        "generate_series(1, 2) returning id"}) {
    CAF_MESSAGE(sql);
    begin_another_timeline();
    auto ids = admin->exec(sql);
    for (const auto& row : ids)
      CAF_CHECK_GREATER(std::stoll(*row[0]), last + billion);
    last = std::stoll(*ids.back()[0]);
  }
}

CAF_TEST(signals have ids that none had before) {
  auto target = admin->scalar("select id from gd_insert('Order')");
  auto client = gd::client::connect(quick);
  CAF_REQUIRE(client);
  auto newest = [this] {
    return std::stoll(admin->scalar("select max(id) from gen_durable_signals"));
  };
  std::int64_t last = 0;
  for (bool by_sql : {true, false}) {
    CAF_MESSAGE("by SQL: " << by_sql);
    begin_another_timeline();
    if (by_sql)
      admin->exec("select gd_signal($1, 'paid')", {target});
    else
      CAF_REQUIRE(client->signal({.target = std::stoll(target), .name = "x"}));
    CAF_CHECK_GREATER(newest(), last + billion);
    last = newest();
  }
}

CAF_TEST(two servers of the same past do not begin at the same id) {
  auto at = admin->scalar("select last_value from gen_durable_id_seq");
  auto promoted = [&] {
    begin_another_timeline();
    admin->exec("select setval('gen_durable_id_seq', $1)", {at});
    return draw_one();
  };
  auto one = promoted();
  CAF_CHECK_NOT_EQUAL(one, promoted());
}

CAF_TEST(a new control connection tells whether it has raised the ids) {
  pq::connection on{quick};
  auto follow = [&on] {
    auto reply = on.run({{store::follow_timeline()}});
    CAF_REQUIRE(reply.ok());
    return store::read_one<store::followed_timeline>(reply.results[0]).value();
  };
  auto before = draw_one();
  auto now = follow();
  CAF_CHECK(!now.raised);
  CAF_CHECK_EQUAL(now.timeline, 1);
  CAF_CHECK_EQUAL(now.last_id, 0);
  begin_another_timeline();
  auto then = follow();
  CAF_CHECK(then.raised);
  CAF_CHECK_EQUAL(then.timeline, 1);
  CAF_CHECK_GREATER(then.last_id, before + billion);
  CAF_CHECK(!follow().raised);
  CAF_CHECK_EQUAL(draw_one(), then.last_id + 1);
}

CAF_TEST(a standby that is promoted gives out no id that was lost) {
  auto standby = server::standby_of(lonely(), "other");
  standby.set("primary_conninfo", "host=/nowhere"); // gets nothing more
  until("select count(*) from pg_stat_replication", "0");
  auto lost = draw(500).back();
  standby.promote();
  auto there = quick;
  there.database = standby.conninfo(name)
                   + " options='-c synchronous_commit=local'";
  session look{there.database};
  CAF_CHECK_EQUAL(look.scalar("select _gd_timeline()"), "2");
  CAF_MESSAGE("its sequence would give them out again");
  CAF_CHECK_LESS(std::stoll(look.scalar("select last_value from "
                                        "gen_durable_id_seq")),
                 lost);
  auto client = gd::client::connect(there);
  CAF_REQUIRE(client);
  auto done = client->insert(an_order());
  CAF_REQUIRE(done);
  CAF_CHECK_GREATER(done->id, lost + billion / 2);
}

// -- several hosts ------------------------------------------------------------

CAF_TEST(a host that does not answer does not keep from the next) {
  black_hole off;
  auto opts = quick;
  opts.connect_timeout = 1s; // of the one that answers, too: see `connected`
  opts.database += " host=127.0.0.1," + lonely().host() + " port=" + off.port()
                   + ",5432";
  auto on = connected(opts);
  CAF_CHECK_EQUAL(on->for_next().host, 1u);
  CAF_CHECK(on->run({{{&append_number, {}}}}).ok());
  CAF_MESSAGE("nor does one that comes behind the one that was found last");
  auto next = connected(opts, on->for_next());
  CAF_CHECK_EQUAL(next->for_next().host, 1u);
  CAF_MESSAGE("by a reactor, too");
  std::promise<pq::reply> answered;
  gd::reactor tested{opts, 2, [](const gd::event&) {}, [](const gd::error&) {}};
  tested.submit(
    1, {{{&append_number, {}}}},
    [&answered](pq::reply x) { answered.set_value(std::move(x)); }, 1min);
  CAF_CHECK(answered.get_future().get().ok());
}

CAF_TEST(hosts of the environment and of a service are tried in turn as well) {
  black_hole off;
  auto opts = quick;
  opts.connect_timeout = 1s; // of the one that answers, too: see `connected`
  auto hosts = "127.0.0.1," + lonely().host();
  auto ports = off.port() + ",5432";
  auto rest = "dbname=" + name + " user=postgres";
  auto folder = std::filesystem::temp_directory_path()
                / ("gd_failover_" + std::to_string(getpid()));
  std::ofstream{folder} << "[shop]\nhost=" << hosts << "\nport=" << ports
                        << "\n";
  auto finds = [&opts] { return connected(opts)->for_next().host == 1u; };
  setenv("PGSERVICEFILE", folder.c_str(), 1);
  opts.database = rest + " service=shop";
  CAF_CHECK(finds());
  opts.database = rest;
  setenv("PGSERVICE", "shop", 1);
  CAF_CHECK(finds());
  unsetenv("PGSERVICE");
  unsetenv("PGSERVICEFILE");
  std::filesystem::remove(folder);
  setenv("PGHOST", hosts.c_str(), 1);
  setenv("PGPORT", ports.c_str(), 1);
  CAF_CHECK(finds());
  unsetenv("PGPORT");
  unsetenv("PGHOST");
  CAF_MESSAGE("what libpq refuses it is left to refuse");
  for (auto* text : {"host=a,b hostaddr=127.0.0.1", "host=a port=1,2",
                     "host=a,b port=1,2,3", "host=a service=nobody"}) {
    auto read = pq::read_conninfo(text);
    CAF_REQUIRE(read);
    CAF_CHECK_EQUAL(read->size(), 1u);
  }
}

CAF_TEST(where no host will do each is told with its reason) {
  black_hole off;
  auto opts = quick;
  opts.connect_timeout = 100ms;
  opts.database += " host=127.0.0.1,/nowhere port=" + off.port() + ",5432";
  pq::connection on{opts};
  auto why = on.wait_ready();
  CAF_REQUIRE(!why);
  CAF_CHECK(why.error().code == errc::unavailable);
  auto text = why.error().message;
  CAF_CHECK(text.find("127.0.0.1 " + off.port()
                      + ": the server does not answer the connection attempt")
            == 0);
  CAF_CHECK(text.find("; /nowhere 5432: ") != std::string::npos);
}

CAF_TEST(a standby is passed over and the primary is found wherever it is) {
  auto standby = server::standby_of(lonely(), "other");
  auto with = [&](const std::string& hosts, const std::string& more = "") {
    auto opts = quick;
    opts.database += " host=" + hosts + more;
    return opts;
  };
  for (auto more : {"", " target_session_attrs=read-write"}) {
    pq::connection second{with(standby.host() + "," + lonely().host(), more)};
    CAF_REQUIRE(second.wait_ready());
    CAF_CHECK_EQUAL(second.for_next().host, 1u);
    pq::connection first{with(lonely().host() + "," + standby.host(), more)};
    CAF_REQUIRE(first.wait_ready());
    CAF_CHECK_EQUAL(first.for_next().host, 0u);
    pq::connection around{with(lonely().host() + "," + standby.host(), more),
                          {.host = 1}};
    CAF_REQUIRE(around.wait_ready());
    CAF_CHECK_EQUAL(around.for_next().host, 0u);
  }
  pq::connection none{with(standby.host())};
  auto why = none.wait_ready();
  CAF_REQUIRE(!why);
  CAF_CHECK_EQUAL(to_string(why.error()),
                  "gd::unavailable: the server is a "
                  "standby, and read-only: expected the "
                  "primary, or that this one is promoted "
                  "[25006]");
}

CAF_TEST(a server that has become read - only is left) {
  admin->exec("create function refuse() returns trigger language plpgsql as "
              "'begin raise exception ''read-only'' using errcode = ''25006''; "
              "end'");
  admin->exec("create trigger refuse before insert on numbers for each "
              "statement execute function refuse()");
  for (bool transaction : {true, false}) {
    pq::connection on{quick};
    auto reply = on.run({{{&append_number, {}}}, transaction});
    CAF_CHECK(code(reply) == errc::unavailable);
    CAF_CHECK_EQUAL(state_of(reply), "25006");
    CAF_CHECK(on.state() == pq::connection::phase::dead);
    CAF_CHECK_EQUAL(to_string(on.why_dead()),
                    "gd::unavailable: the server has become read-only [25006]");
  }
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace failover_suite
