#define CAF_SUITE key

// Partition keys (spec section 7, [A9]) and picks that cost what they take
// ([A5]): forced interleavings of the statements, and the turn that sends them.

#include <gd/engine/queue/key.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <support/opened.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace key_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;
namespace store = gd::store;

using gd::test::count_locks;
using gd::test::session;
using gd::test::temporary_database;
using clock_type = gd::turn::clock;
using ids = std::vector<std::int64_t>;
using verdict = gd::turn::flushed::verdict;

/// One queue of one node, driven by hand: a turn with its connection.
struct queue {
  std::unique_ptr<pq::connection> on;
  std::shared_ptr<gd::key_table> keys;
  gd::turn work;
  clock_type::time_point now = clock_type::now();
  struct held_row {
    store::picked_row row;
    std::string token;
  };
  std::vector<held_row> holding;
  bool primed = false;

  queue(const temporary_database& db, const std::string& node,
        std::shared_ptr<gd::key_table> shared = nullptr,
        const std::string& name = "default")
    : on(std::make_unique<pq::connection>(options_of(db, node))),
      keys(shared ? std::move(shared) : std::make_shared<gd::key_table>()),
      work({.queue = name,
            .incarnation = node + "/0123",
            .first_pick = 1,
            .machines = {{"Order", 1}},
            .keys = keys,
            .transactions = 2}) {
    CAF_REQUIRE(on->wait_ready());
  }

  static pq::options options_of(const temporary_database& db,
                                const std::string& node) {
    auto x = db.options();
    x.application_name = "gen_durable/0123 " + node;
    return x;
  }

  gd::turn::report run(std::int32_t want, std::int32_t pass_on = 0) {
    auto unit = work.begin(want, now, 0, true, pass_on);
    CAF_REQUIRE(unit);
    return finish(on->run(unit->work));
  }

  gd::turn::report finish(const pq::reply& reply) {
    auto report = work.finish(0, reply, now);
    for (auto& row : report.picked)
      holding.push_back({row, report.token});
    return report;
  }

  /// The first pick may only learn that there are keys.
  ids pick(std::int32_t want = 100) {
    ids got;
    for (int i = primed ? 1 : 0; i < 2; ++i) {
      now += 10s; // whatever was locked elsewhere is looked at again
      auto report = run(want);
      CAF_CHECK(!report.failure);
      for (const auto& row : report.picked)
        got.push_back(row.id);
    }
    primed = true;
    return got;
  }

  /// The outcome of the oldest row that it holds is to be written.
  held_row report_one(store::write_kind what = store::write_kind::done) {
    auto one = std::move(holding.front());
    holding.erase(holding.begin());
    auto out = std::make_unique<store::outcome_row>();
    out->id = one.row.id;
    out->token = one.token;
    out->what = what;
    out->step = "ship";
    out->state = "{}";
    out->result = "{}";
    work.add(std::move(out), 1, store::hold_of(one.row));
    return one;
  }

  /// Ends the oldest row that it holds. Returns the rows that its key, and others, passed
  /// on to, at most `pass_on`.
  ids finish_one(store::write_kind what = store::write_kind::done,
                 std::int32_t pass_on = 0) {
    auto row = report_one(what).row;
    auto report = run(0, pass_on);
    CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
    const auto& done = report.rows.front();
    CAF_CHECK(done.what == verdict::applied);
    if (row.partition_key && !done.key_passed_on)
      work.unlock({*row.partition_key, row.key_session});
    ids got;
    for (const auto& x : report.picked)
      got.push_back(x.id);
    CAF_CHECK_EQUAL(done.key_passed_on, !got.empty());
    return got;
  }
};

struct fixture : gd::test::opened_database {
  std::int64_t insert(const std::optional<std::string>& key, int priority = 0,
                      const std::string& eligible = "now()",
                      const std::string& fsm = "Order",
                      const std::string& queue = "default") {
    return std::stoll(db.scalar(
      "insert into gen_durable (fsm, step, partition_key, priority, queue, "
      "eligible_at) values ($1, 'collect', $2, $3, $4, "
        + eligible + ") returning id",
      {fsm, key, std::to_string(priority), queue}));
  }

  std::string locks() {
    return db.scalar(count_locks);
  }

  std::string executing() {
    return db.scalar(
      "select count(*) from gen_durable where status = 'executing'");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(key_tests, fixture)

CAF_TEST(of a key one row is picked and the others follow in pick order) {
  auto third = insert("k", 1);
  auto first = insert("k", 0, "now() - interval '2 s'");
  auto second = insert("k", 0, "now() - interval '1 s'");
  auto other = insert("l", 5);
  queue node{db, "a"};
  auto got = node.pick();
  CAF_CHECK_EQUAL(got, (ids{first, other}));
  CAF_CHECK_EQUAL(node.pick(), ids{});
  node.finish_one();
  CAF_CHECK_EQUAL(node.pick(), ids{second});
  std::rotate(node.holding.begin(), node.holding.end() - 1, node.holding.end());
  node.finish_one();
  CAF_CHECK_EQUAL(node.pick(), ids{third});
}

CAF_TEST(a key whose first row is foreign waits for the node that knows it) {
  // Of an unknown machine, of another queue; a future one is not first.
  insert("foreign", 0, "now() - interval '1 s'", "Unknown");
  insert("foreign");
  insert("elsewhere", 0, "now() - interval '1 s'", "Order", "other");
  insert("elsewhere");
  insert("future", -5, "now() + interval '1 hour'");
  auto eligible = insert("future", 3);
  queue node{db, "a"};
  CAF_CHECK_EQUAL(node.pick(), ids{eligible});
  CAF_MESSAGE("and stats tell of them");
  auto rows = store::read<gd::stats_row>(
    node.on->run({{store::stats()}, false}).results.front());
  std::int64_t held_back = 0;
  for (const auto& x : rows)
    held_back += x.held_back;
  CAF_CHECK_EQUAL(held_back, 2);
}

CAF_TEST(two picks that do not see each other take one row of a key) {
  // The second pick's snapshot is older than the first's commit; its candidate
  // is another row of the key, for the first row is locked.
  auto first = insert("k", 0, "now() - interval '2 s'");
  auto second = insert("k", 0, "now() - interval '1 s'");
  auto pick_of = [](const std::string& token) {
    return store::pick({.queue = "default",
                        .limit = 10,
                        .machines = {{"Order", 1}},
                        .token = token,
                        .lease = 60s,
                        .keyed = true});
  };
  pq::connection a{queue::options_of(db, "a")};
  pq::connection b{queue::options_of(db, "b")};
  CAF_REQUIRE(a.wait_ready());
  CAF_REQUIRE(b.wait_ready());
  auto say = [](pq::connection& on, pq::call what) {
    auto reply = on.run({{std::move(what)}, false});
    CAF_REQUIRE(reply.ok());
    return std::move(reply.results.front());
  };
  say(b, {&sql::begin, {}});
  // As if b's snapshot had been taken when the first row was not there.
  db.rows(
    "update gen_durable set eligible_at = now() + interval '1 hour' where "
    "id = $1",
    {std::to_string(first)});
  auto of_b = store::read_pick(say(b, pick_of("b/0/1")));
  CAF_REQUIRE_EQUAL(of_b.rows.size(), 1u);
  CAF_CHECK_EQUAL(of_b.rows.front().id, second);
  db.rows(
    "update gen_durable set eligible_at = now() - interval '1 hour' where "
    "id = $1",
    {std::to_string(first)});
  auto reply = a.run({{pick_of("a/0/1"), store::lock_keys(),
                       store::check_keys(), store::hold_keys()}});
  CAF_REQUIRE(reply.ok());
  CAF_CHECK_EQUAL(store::read<store::held_key>(reply.results[3]).size(), 1u);
  CAF_MESSAGE("naively both would run: a sees nothing of b's row");
  CAF_CHECK_EQUAL(executing(), "1"); // and b's, uncommitted
  say(b, store::lock_keys());
  auto lost = store::read<store::lost_key>(say(b, store::check_keys()));
  CAF_REQUIRE_EQUAL(lost.size(), 1u);
  CAF_CHECK_EQUAL(lost.front().partition_key, "k");
  CAF_CHECK(lost.front().elsewhere);
  CAF_CHECK_EQUAL(
    store::read<store::held_key>(say(b, store::hold_keys())).size(), 0u);
  say(b, {&sql::commit, {}});
  CAF_CHECK_EQUAL(executing(), "1");
  CAF_CHECK_EQUAL(db.scalar("select status from gen_durable where id = $1",
                            {std::to_string(first)}),
                  "executing");
}

CAF_TEST(without locks and checks two picks run two rows of a key) {
  // The same interleaving with the pick alone: what the locks are for.
  insert("k", 0, "now() - interval '2 s'");
  insert("k", 0, "now() - interval '1 s'");
  auto naive = [&](session& on, const std::string& token) {
    on.exec("begin");
    on.exec("update gen_durable set status = 'executing', locked_by = $1, "
            "lease_expires_at = now() + interval '1 min' where id = (select id "
            "from gen_durable g where status = 'runnable' and "
            "not exists (select from gen_durable o where o.partition_key = "
            "g.partition_key and o.status = 'executing') order by priority, "
            "eligible_at limit 1 for update skip locked)",
            {token});
  };
  session a{db.conninfo()};
  session b{db.conninfo()};
  naive(a, "a");
  naive(b, "b");
  a.exec("commit");
  b.exec("commit");
  CAF_CHECK_EQUAL(executing(), "2");
}

CAF_TEST(a winner of the lock that is no longer first is released and one that
           still is first stays) {
  auto early = insert("k", 0, "now() - interval '2 s'");
  auto late = insert("k", 0, "now() - interval '1 s'");
  pq::connection b{queue::options_of(db, "b")};
  CAF_REQUIRE(b.wait_ready());
  auto say = [&b](pq::call what) {
    auto reply = b.run({{std::move(what)}, false});
    CAF_REQUIRE(reply.ok());
    return std::move(reply.results.front());
  };
  auto between = insert("k", -1);
  struct {
    std::string early;    ///< what has become of it by then
    bool between = false; ///< is there by then
    bool first = false;   ///< the late one still is
  } cases[] = {
    {"status = 'executing', locked_by = 'node/9/1', lease_expires_at = now()"},
    {"status = 'runnable'"},
    {"status = 'runnable', eligible_at = now() + interval '1 h'", false, true},
    {"status = 'runnable', priority = -3"},
    {"status = 'runnable', priority = -3, eligible_at = now() + interval '1 h'",
     false, true},
    {"status = 'runnable', priority = -3, eligible_at = now() + interval '1 h'",
     true},
    {"status = 'runnable', priority = 3", false, true},
  };
  for (const auto& x : cases) {
    CAF_MESSAGE(x.early << (x.between ? ", another is between them" : ""));
    db.rows("update gen_durable set status = 'done', priority = 0, "
            "eligible_at = now() - interval '2 s' where id = $1",
            {std::to_string(early)});
    db.rows("update gen_durable set status = 'done' where id = $1",
            {std::to_string(between)});
    say({&sql::begin, {}});
    auto picked = store::read_pick(say(store::pick({.queue = "default",
                                                    .limit = 10,
                                                    .machines = {{"Order", 1}},
                                                    .token = "b/0/1",
                                                    .lease = 60s,
                                                    .keyed = true})));
    CAF_REQUIRE_EQUAL(picked.rows.size(), 1u);
    CAF_CHECK_EQUAL(picked.rows.front().id, late);
    db.rows("update gen_durable set " + x.early + " where id = $1",
            {std::to_string(early)});
    if (x.between)
      db.rows("update gen_durable set status = 'runnable' where id = $1",
              {std::to_string(between)});
    say(store::lock_keys());
    auto lost = store::read<store::lost_key>(say(store::check_keys()));
    if (x.first) {
      CAF_CHECK_EQUAL(lost.size(), 0u);
      say({&sql::rollback, {}});
      continue;
    }
    CAF_REQUIRE_EQUAL(lost.size(), 1u);
    CAF_CHECK(!lost.front().elsewhere);
    CAF_CHECK_EQUAL(
      store::read<store::held_key>(say(store::hold_keys())).size(), 0u);
    say({&sql::commit, {}});
    CAF_CHECK_EQUAL(
      db.scalar("select status::text || attempt from gen_durable where "
                "id = $1",
                {std::to_string(late)}),
      "runnable0");
    CAF_CHECK_EQUAL(locks(), "0");
  }
}

CAF_TEST(a pick that is rolled back leaves no lock behind) {
  insert("k");
  insert("l");
  queue node{db, "a"};
  node.run(10); // learns that there are keys
  auto unit = node.work.begin(10, node.now);
  CAF_REQUIRE(unit);
  CAF_MESSAGE("whatever fails behind the locks ends the session with them");
  auto at = unit->work.leaves_traces_from;
  CAF_REQUIRE(at < unit->work.calls.size());
  unit->work.calls.push_back(store::lock_timeout(-5ms));
  auto report = node.work.finish(0, node.on->run(unit->work), node.now);
  CAF_CHECK(report.failure);
  CAF_CHECK(node.on->state() == pq::connection::phase::dead);
  db.wait_until(count_locks, "0");
  CAF_CHECK_EQUAL(executing(), "0");
  CAF_MESSAGE("what fails before them does not");
  queue other{db, "b"};
  other.run(10);
  unit = other.work.begin(10, other.now);
  CAF_REQUIRE(unit);
  unit->work.calls.insert(unit->work.calls.begin(), store::lock_timeout(-5ms));
  ++unit->work.leaves_traces_from;
  static_cast<void>(other.work.finish(0, other.on->run(unit->work), other.now));
  CAF_CHECK(other.on->state() == pq::connection::phase::idle);
  CAF_CHECK_EQUAL(locks(), "0");
}

CAF_TEST(
  rows with a key are picked where their locks live and overtaken by nobody) {
  insert("k");
  queue node{db, "a"};
  node.run(10); // learns that there are keys
  auto first = node.work.begin(10, node.now);
  CAF_REQUIRE(first);
  CAF_CHECK_EQUAL(first->transaction, 0u);
  CAF_CHECK(first->picks);
  for (std::size_t i = 0; i < gd::turn::settings{}.worth_a_transaction; ++i) {
    store::outcome_row lost;
    lost.id = 1'000'000 + static_cast<std::int64_t>(i);
    lost.token = "a/0123/0";
    node.work.add(std::move(lost));
  }
  node.work.unlock({"l", "of nobody"});
  auto second = node.work.begin(10, node.now);
  CAF_REQUIRE(second);
  CAF_CHECK_EQUAL(second->transaction, 1u);
  CAF_CHECK(!second->picks);
  CAF_CHECK_EQUAL(second->work.calls.size(), 1u);
  CAF_CHECK(second->work.calls.front().what == &sql::flush);
  auto report = node.work.finish(0, node.on->run(first->work), node.now);
  CAF_CHECK_EQUAL(report.picked.size(), 1u);
  queue other{db, "b"}; // the second transaction's connection
  node.work.finish(1, other.on->run(second->work), node.now);
  first = node.work.begin(0, node.now);
  CAF_REQUIRE(first);
  CAF_CHECK_EQUAL(first->transaction, 0u);
  CAF_CHECK(first->work.calls.front().what == &sql::unlock_keys);
}

CAF_TEST(a role that may connect can hold a key and one that may not cannot) {
  auto id = insert("k");
  auto role = db.name() + "_stranger";
  auto quoted = gd::test::quoted_name(role);
  db.rows("create role " + quoted + " login");
  {
    session stranger{db.conninfo(role)};
    stranger.exec("select pg_advisory_lock(hashtext('k'))");
    CAF_CHECK_EQUAL(queue(db, "a").pick(), ids{});
  }
  db.rows("revoke connect on database " + gd::test::quoted_name(db.name())
          + " from public");
  std::string refusal;
  try {
    session{db.conninfo(role)};
  } catch (const std::exception& why) {
    refusal = why.what();
  }
  CAF_CHECK(refusal.find("permission denied for database")
            != std::string::npos);
  db.rows("drop role " + quoted);
  db.wait_until(count_locks, "0");
  CAF_CHECK_EQUAL(queue(db, "b").pick(), ids{id});
}

CAF_TEST(a key that a stranger has locked is left alone and holds up nobody) {
  insert("k", -1);
  auto other = insert("l");
  auto free = insert(std::nullopt);
  session stranger{db.conninfo()};
  stranger.exec("select pg_advisory_lock(hashtext('k'))");
  queue node{db, "a"};
  node.run(10);
  auto report = node.run(10);
  CAF_CHECK_EQUAL(report.picked.size() + node.holding.size(), 3u);
  ids got;
  for (const auto& x : node.holding)
    got.push_back(x.row.id);
  std::sort(got.begin(), got.end());
  CAF_CHECK_EQUAL(got, (ids{other, free}));
  CAF_MESSAGE("for a while it is not even tried, then less and less often");
  auto tried = [&] {
    auto unit = node.work.begin(10, node.now);
    CAF_REQUIRE(unit);
    auto reply = node.on->run(unit->work);
    if (!reply.ok())
      CAF_FAIL(gd::to_string(*reply.failure));
    bool was = false;
    for (std::size_t i = 0; i < unit->work.calls.size(); ++i)
      if (unit->work.calls[i].what == &sql::check_keys)
        was = !store::read<store::lost_key>(reply.results[i]).empty();
    node.work.finish(0, std::move(reply), node.now);
    return was;
  };
  int tries = 0;
  for (int i = 0; i < 1'000; ++i) {
    node.now += 10ms;
    tries += tried() ? 1 : 0;
  }
  CAF_CHECK_GREATER_OR_EQUAL(tries, 3);
  CAF_CHECK_LESS_OR_EQUAL(tries, 10);
  stranger.exec("select pg_advisory_unlock_all()");
  node.now += 1min;
  CAF_CHECK_EQUAL(node.pick().size(), 1u);
}

CAF_TEST(a key passes from row to row with their outcomes in pick order) {
  auto third = insert("k", 1);
  auto first = insert("k", 0, "now() - interval '2 s'");
  auto second = insert("k", 0, "now() - interval '1 s'");
  insert("k", -1, "now() + interval '1 hour'");
  queue node{db, "a"};
  CAF_CHECK_EQUAL(node.pick(), ids{first});
  CAF_MESSAGE("one that goes on comes behind those that waited");
  CAF_CHECK_EQUAL(node.finish_one(store::write_kind::next, 10), ids{second});
  CAF_CHECK_EQUAL(locks(), "1");
  CAF_CHECK_EQUAL(executing(), "1");
  CAF_CHECK_EQUAL(queue(db, "b").pick(), ids{});
  CAF_CHECK_EQUAL(node.finish_one(store::write_kind::done, 10), ids{first});
  CAF_CHECK_EQUAL(node.finish_one(store::write_kind::done, 10), ids{third});
  CAF_CHECK_EQUAL(node.finish_one(store::write_kind::done, 10), ids{});
  node.run(0); // unlocks
  CAF_CHECK_EQUAL(locks(), "0");
}

CAF_TEST(no snapshot shows a key free that passes on) {
  insert("k", 0, "now() - interval '2 s'");
  auto second = insert("k", 0, "now() - interval '1 s'");
  queue node{db, "a"};
  node.pick();
  auto before = node.report_one();
  auto unit = node.work.begin(0, node.now, 0, true, 10);
  CAF_REQUIRE(unit);
  CAF_CHECK(unit->work.transaction);
  CAF_MESSAGE("not even where the lock is lost: others go by rows, too");
  session{db.conninfo()}.exec(
    "select pg_terminate_backend(pid) from pg_locks where locktype = "
    "'advisory' and objid = (hashtext('k')::bigint & 4294967295)::oid");
  db.wait_until(count_locks, "0");
  pq::connection on{queue::options_of(db, "a")};
  CAF_REQUIRE(on.wait_ready());
  auto say = [&on](pq::call what) {
    auto reply = on.run({{std::move(what)}, false});
    CAF_REQUIRE(reply.ok());
    return std::move(reply.results.front());
  };
  auto nobody_picks = [&] {
    queue other{db, "b"};
    CAF_CHECK_EQUAL(other.pick(), ids{});
    CAF_CHECK_EQUAL(locks(), "0");
  };
  pq::reply reply;
  say({&sql::begin, {}});
  for (auto& call : unit->work.calls) {
    nobody_picks();
    reply.results.push_back(say(std::move(call)));
  }
  nobody_picks();
  say({&sql::commit, {}});
  nobody_picks();
  auto report = node.finish(reply);
  CAF_REQUIRE_EQUAL(report.picked.size(), 1u);
  CAF_CHECK_EQUAL(report.picked.front().id, second);
  CAF_CHECK_EQUAL(report.picked.front().key_session, before.row.key_session);
}

CAF_TEST(an outcome that is not applied leaves its key alone) {
  auto first = insert("k", 0, "now() - interval '2 s'");
  insert("k", 0, "now() - interval '1 s'");
  for (const auto* meanwhile :
       {"status = 'runnable', eligible_at = now() + interval '1 h'",
        "status = 'done'", "locked_by = 'other/1/1'"}) {
    CAF_MESSAGE(meanwhile);
    db.rows("update gen_durable set status = 'runnable', eligible_at = now() - "
            "interval '2 s' where id = $1",
            {std::to_string(first)});
    queue node{db, "a"};
    CAF_REQUIRE_EQUAL(node.pick(), ids{first});
    db.rows("update gen_durable set "s + meanwhile + " where id = $1",
            {std::to_string(first)});
    node.report_one();
    auto report = node.run(0, 10);
    CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
    CAF_CHECK(report.rows.front().what == verdict::stale);
    CAF_CHECK(!report.rows.front().key_passed_on);
    CAF_CHECK_EQUAL(report.picked.size(), 0u);
  }
}

CAF_TEST(a key passes on to what this queue may run and to nothing else) {
  auto first = insert("k", 0, "now() - interval '2 s'");
  std::string second;
  struct {
    std::string what;
    std::string how;
  } cases[] = {
    {"of another queue", "queue = 'other'"},
    {"of an unknown version", "fsm_version = 2"},
    {"of an unknown machine", "fsm = 'Unknown'"},
    {"a suspect", "crashes = 2"},
    {"not due", "eligible_at = now() + interval '1 h'"},
    {"of another key", "partition_key = 'l'"},
    {"of none", "partition_key = null"},
  };
  for (const auto& x : cases) {
    CAF_MESSAGE(x.what);
    db.rows("delete from gen_durable where id <> $1", {std::to_string(first)});
    db.rows("update gen_durable set status = 'runnable' where id = $1",
            {std::to_string(first)});
    queue node{db, "a"};
    CAF_REQUIRE_EQUAL(node.pick(), ids{first});
    db.rows("update gen_durable set " + x.how + " where id = $1",
            {std::to_string(insert("k"))});
    CAF_CHECK_EQUAL(node.finish_one(store::write_kind::done, 10), ids{});
    node.run(0); // unlocks
    CAF_CHECK_EQUAL(locks(), "0");
  }
  CAF_MESSAGE("a stranger's row is not waited for");
  db.rows("delete from gen_durable where id <> $1", {std::to_string(first)});
  db.rows("update gen_durable set status = 'runnable' where id = $1",
          {std::to_string(first)});
  queue node{db, "a"};
  CAF_REQUIRE_EQUAL(node.pick(), ids{first});
  auto held = insert("k");
  session stranger{db.conninfo()};
  stranger.exec("begin; select from gen_durable where id = "
                + std::to_string(held) + " for update");
  CAF_CHECK_EQUAL(node.finish_one(store::write_kind::done, 10), ids{});
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(node.pick(), ids{held});
}

CAF_TEST(an outcome does not wait for a next row that cannot be picked) {
  db.rows("create function refuse() returns trigger language plpgsql as $$ "
          "begin if new.status = 'executing' then raise exception 'not this "
          "one'; end if; return new; end $$; create trigger refuse before "
          "update on gen_durable for each row when (new.step = 'poison') "
          "execute function refuse()");
  auto first = insert("k", 0, "now() - interval '2 s'");
  auto poison = std::to_string(insert("k"));
  auto third = insert("k");
  db.rows("update gen_durable set step = 'poison' where id = $1", {poison});
  queue node{db, "a"};
  CAF_REQUIRE_EQUAL(node.pick(), ids{first});
  auto before = node.report_one();
  auto report = node.run(0, 10);
  CAF_CHECK(report.failure);
  CAF_CHECK(report.rows.empty());
  report = node.run(0, 10);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::applied);
  CAF_CHECK(!report.rows.front().key_passed_on);
  node.work.unlock(store::hold_of(before.row).value());
  CAF_MESSAGE("a pick comes across it, and those behind it go on");
  for (int i = 0; i < 5; ++i)
    insert(std::nullopt);
  auto has_third = [&] {
    return std::any_of(node.holding.begin(), node.holding.end(),
                       [third](const auto& x) { return x.row.id == third; });
  };
  for (int i = 0; i < 60 && !has_third(); ++i) {
    node.now += 1s;
    node.run(10);
  }
  CAF_CHECK(has_third());
  CAF_CHECK_EQUAL(
    db.scalar("select status from gen_durable where id = $1", {poison}),
    "failed");
}

CAF_TEST(a key stays for so many rows and for so long) {
  for (int i = 0; i < 10; ++i)
    insert("k");
  auto stay = [&](queue& node, std::chrono::milliseconds each) {
    CAF_REQUIRE_EQUAL(node.pick().size(), 1u);
    int rows = 1;
    while (!node.finish_one(store::write_kind::next, 10).empty()) {
      ++rows;
      node.now += each;
    }
    CAF_MESSAGE("another node has it as soon as it is unlocked");
    queue other{db, "b"};
    CAF_CHECK_EQUAL(other.pick().size(), 0u);
    node.run(0);
    CAF_CHECK_EQUAL(other.pick().size(), 1u);
    other.finish_one();
    other.run(0);
    return rows;
  };
  queue node{db, "a"};
  CAF_CHECK_EQUAL(stay(node, 0ms), 100);
  CAF_CHECK_EQUAL(stay(node, 25ms), 5);
  CAF_CHECK_EQUAL(stay(node, 100ms), 2);
}

CAF_TEST(no more keys pass on than may) {
  for (const auto* key : {"k", "l", "m"})
    for (int i = 0; i < 2; ++i)
      insert(key);
  queue node{db, "a"};
  CAF_REQUIRE_EQUAL(node.pick().size(), 3u);
  for (int i = 0; i < 3; ++i)
    node.report_one();
  auto report = node.run(0, 2);
  CAF_CHECK_EQUAL(report.picked.size(), 2u);
  CAF_CHECK_EQUAL(std::count_if(report.rows.begin(), report.rows.end(),
                                [](const auto& x) { return x.key_passed_on; }),
                  2);
  CAF_CHECK_EQUAL(executing(), "2");
}

CAF_TEST(
  no key starves behind keys that stay with three nodes and a skewed backlog) {
  constexpr int keys = 100;
  constexpr auto each = 5ms; // a transaction takes so long
  std::map<std::string, int> left;
  for (int i = 0; i < keys; ++i)
    for (int n = 0; n < 1 + 400 / (i + 1); ++n) {
      auto key = "key " + std::to_string(i);
      ++left[key];
      insert(key, 0,
             "now() - interval '1 h' + " + std::to_string(n)
               + " * interval '1 s'");
    }
  // Of each key: since when nobody has run a row, and who had it since when.
  struct service {
    int last = 0;
    const queue* by = nullptr;
    int since = 0;
  };
  std::map<std::string, service> served;
  std::vector<std::unique_ptr<queue>> nodes;
  for (const auto* name : {"a", "b", "c"})
    nodes.push_back(std::make_unique<queue>(db, name));
  int longest_wait = 0;
  int longest_stay = 0;
  int round = 0;
  for (; !left.empty() && round < 10'000; ++round)
    for (auto& node : nodes) {
      node->now += each;
      auto want = 20 - static_cast<std::int32_t>(node->holding.size());
      std::vector<queue::held_row> ended;
      while (!node->holding.empty())
        ended.push_back(node->report_one());
      auto unit = node->work.begin(want, node->now, 0, true, 20);
      if (!unit)
        continue;
      auto report = node->finish(node->on->run(unit->work));
      CAF_REQUIRE(!report.failure);
      CAF_REQUIRE_EQUAL(report.rows.size(), ended.size());
      for (std::size_t i = 0; i < ended.size(); ++i) {
        const auto& key = *ended[i].row.partition_key;
        CAF_CHECK_EQUAL(report.rows[i].row->id, ended[i].row.id);
        if (!report.rows[i].key_passed_on) {
          node->work.unlock(store::hold_of(ended[i].row).value());
          served[key].by = nullptr;
        }
        if (--left[key] == 0)
          left.erase(key);
      }
      for (const auto& row : report.picked) {
        auto& x = served[*row.partition_key];
        if (x.by != node.get()) {
          CAF_CHECK(x.by == nullptr);
          x.by = node.get();
          x.since = round;
        }
        longest_wait = std::max(longest_wait, round - x.last);
        longest_stay = std::max(longest_stay, round - x.since);
        x.last = round;
      }
    }
  CAF_CHECK(left.empty());
  CAF_MESSAGE(round << " rounds of " << each.count() << " ms; longest wait: "
                    << longest_wait << ", longest stay: " << longest_stay);
  CAF_CHECK_LESS_OR_EQUAL(longest_stay, 100ms / each);
  // Two thirds of the keys can be had at once: a stay of others, and one more.
  CAF_CHECK_LESS_OR_EQUAL(longest_wait, 2 * (100ms / each) + 5);
}

CAF_TEST(two queues of one session exclude each other) {
  auto shared = std::make_shared<gd::key_table>();
  insert("k", 0, "now() - interval '1 s'");
  insert("k", 0, "now()", "Order", "other");
  queue first{db, "a", shared};
  queue second{db, "a", shared, "other"};
  second.on = nullptr;
  CAF_REQUIRE_EQUAL(first.pick().size(), 1u);
  std::swap(first.on, second.on); // one connection for both
  CAF_CHECK_EQUAL(second.pick().size(), 0u);
  CAF_MESSAGE("even if the outcome is committed while the function runs on");
  std::swap(first.on, second.on);
  auto [row, token] = first.holding.front();
  store::outcome_row out;
  out.id = row.id;
  out.token = token;
  out.what = store::write_kind::done;
  out.result = "{}";
  first.work.add(out, 1);
  first.run(0);
  std::swap(first.on, second.on);
  CAF_CHECK_EQUAL(second.pick().size(), 0u);
  std::swap(first.on, second.on);
  first.work.unlock({*row.partition_key, row.key_session});
  first.run(0);
  std::swap(first.on, second.on);
  CAF_CHECK_EQUAL(second.pick().size(), 1u);
  CAF_CHECK_EQUAL(locks(), "1");
}

CAF_TEST(a lock is released once in the session that holds it) {
  // Two keys of one hash: the session holds their lock twice.
  session helper{db.conninfo()};
  auto twins = helper.exec(
    "with k as (select 'key ' || n as key, hashtext('key ' || n) as hash from "
    "generate_series(1, 400000) n) select min(key), max(key) from k group by "
    "hash having count(*) > 1 limit 1");
  CAF_REQUIRE_EQUAL(twins.size(), 1u);
  insert(twins.front()[0]);
  insert(twins.front()[1]);
  queue node{db, "a"};
  CAF_REQUIRE_EQUAL(node.pick().size(), 2u);
  CAF_CHECK_EQUAL(locks(), "1");
  node.finish_one();
  node.run(0);
  CAF_MESSAGE("one of the two is still held");
  CAF_CHECK_EQUAL(locks(), "1");
  auto left = node.holding.front().row;
  node.finish_one();
  node.run(0);
  CAF_CHECK_EQUAL(locks(), "0");
  CAF_MESSAGE("what another session held is not taken from this one");
  insert("k");
  CAF_REQUIRE_EQUAL(node.pick().size(), 1u);
  node.work.unlock({"k", left.key_session + " of another session"});
  node.keys->add("k");
  node.run(0);
  CAF_CHECK_EQUAL(locks(), "1");
}

CAF_TEST(a row keeps its key to itself when its connection is lost) {
  insert("k", 0, "now() - interval '1 s'");
  insert("k");
  queue node{db, "a"};
  CAF_REQUIRE_EQUAL(node.pick().size(), 1u);
  session{db.conninfo()}.terminate(node.on->backend());
  db.wait_until(count_locks, "0");
  queue other{db, "b"};
  CAF_CHECK_EQUAL(other.pick().size(), 0u);
  CAF_CHECK_EQUAL(executing(), "1");
}

CAF_TEST(the keys of a node that is silent for longer than its lease are free
           again whatever executes) {
  // Stopped between the commit of an outcome and the unlock: no row executes.
  insert("k", 0, "now() - interval '1 s'");
  insert("k");
  queue stopped{db, "a"};
  CAF_REQUIRE_EQUAL(stopped.pick().size(), 1u);
  stopped.finish_one();
  CAF_REQUIRE_EQUAL(executing(), "0");
  queue living{db, "b"};
  CAF_CHECK_EQUAL(living.pick().size(), 0u); // the stopped one has the lock
  auto silent = [&] {
    auto reply = living.on->run({{store::silent_sessions("b/0123")}, false});
    CAF_REQUIRE(reply.ok());
    return store::read<store::silent_session>(reply.results.front());
  };
  CAF_CHECK(silent().empty());
  db.add_silent_node("a/0123", stopped.on->backend());
  auto found = silent();
  CAF_REQUIRE_EQUAL(found.size(), 1u);
  CAF_CHECK(found.front().may_end);
  CAF_MESSAGE("nobody is judged who says that it lives, or is about to");
  auto end = [&] {
    auto reply = living.on->run(
      {{store::end_silent_session(found.front())}, false});
    CAF_REQUIRE(reply.ok());
    return reply.results.front().size();
  };
  session node{db.conninfo()};
  node.exec("begin");
  node.exec("update gen_durable_nodes set seen_at = now()");
  CAF_CHECK_EQUAL(end(), 0u);
  node.exec("commit");
  CAF_CHECK_EQUAL(end(), 0u);
  CAF_CHECK(silent().empty());
  node.exec("update gen_durable_nodes set seen_at = now() - interval '1 h'");
  CAF_MESSAGE("nor another session that has the process's number by now");
  auto before = found;
  found.front().began = "2020-01-01 00:00:00Z";
  CAF_CHECK_EQUAL(end(), 0u);
  found = before;
  CAF_CHECK_EQUAL(end(), 1u);
  db.wait_until(count_locks, "0");
  CAF_CHECK_EQUAL(living.pick().size(), 1u);
}

CAF_TEST(a stranger that holds the key of a silent node is not ended) {
  insert("k");
  queue gone{db, "a"};
  CAF_REQUIRE_EQUAL(gone.pick().size(), 1u);
  db.add_silent_node("a/0123", gone.on->backend());
  gone.on.reset();
  db.wait_until(count_locks, "0");
  session stranger{db.conninfo()};
  stranger.exec("select pg_advisory_lock(hashtext('k'))");
  queue living{db, "b"};
  auto found = living.on->run({{store::silent_sessions("b/0123")}, false});
  CAF_REQUIRE(found.ok());
  CAF_CHECK_EQUAL(found.results.front().size(), 0u);
  CAF_CHECK_EQUAL(stranger.scalar("select 1"), "1");
}

CAF_TEST(the session of another role is told and not ended) {
  auto role = db.name() + "_other";
  auto name = gd::test::quoted_name(role);
  db.rows("create role " + name + " login");
  {
    session other{db.conninfo(role)};
    db.add_silent_node("a/0123", other.pid());
    auto mine = db.name() + "_mine";
    auto me = gd::test::quoted_name(mine);
    db.rows("create role " + me
            + " login; grant select, insert, update on "
              "gen_durable_nodes to "
            + me);
    auto opts = db.options();
    opts.database = db.conninfo(mine);
    {
      pq::connection on{opts};
      CAF_REQUIRE(on.wait_ready());
      auto reply = on.run({{store::silent_sessions("b/0123"),
                            store::foreign_sessions("b/0123")}});
      CAF_REQUIRE(reply.ok());
      auto found = store::read<store::silent_session>(reply.results[0]);
      CAF_REQUIRE_EQUAL(found.size(), 1u);
      CAF_CHECK(!found.front().may_end);
      auto foreign = store::read<store::foreign_session>(reply.results[1]);
      CAF_REQUIRE_EQUAL(foreign.size(), 1u);
      CAF_CHECK_EQUAL(foreign.front().node, "silent");
      CAF_MESSAGE("nor by a role that cannot see when it began");
      db.rows("grant pg_signal_backend to " + me);
      auto ask = [&] {
        reply = on.run({{store::silent_sessions("b/0123"),
                         store::foreign_sessions("b/0123")}});
        CAF_REQUIRE(reply.ok());
        found = store::read<store::silent_session>(reply.results[0]);
        CAF_REQUIRE_EQUAL(found.size(), 1u);
      };
      ask();
      CAF_CHECK(!found.front().may_end);
      CAF_CHECK_EQUAL(reply.results[1].size(), 1u);
      CAF_MESSAGE("with both rights it is as any other");
      db.rows("grant pg_read_all_stats to " + me);
      ask();
      CAF_CHECK(found.front().may_end);
      CAF_CHECK_EQUAL(reply.results[1].size(), 0u);
      reply = on.run({{store::end_silent_session(found.front())}, false});
      CAF_REQUIRE(reply.ok());
      CAF_CHECK_EQUAL(reply.results[0].size(), 1u);
      db.wait_until("select count(*) from pg_stat_activity where usename = '"
                      + role + "'",
                    "0");
    }
    db.rows("drop owned by " + me + "; drop role " + me);
  }
  db.wait_until("select count(*) from pg_stat_activity where usename = '" + role
                  + "'",
                "0");
  db.rows("drop role " + name);
}

CAF_TEST(no key is starved by the backlogs of others) {
  // Backlogs that fill every walk, and more keys behind than one visit takes.
  db.rows("insert into gen_durable (fsm, step, partition_key, eligible_at) "
          "select 'Order', 'collect', 'hot', now() - interval '1 hour' from "
          "generate_series(1, 500)");
  db.rows("insert into gen_durable (fsm, step, partition_key, eligible_at) "
          "select 'Order', 'collect', 'key ' || n, now() - interval '1 minute' "
          "from generate_series(1, 90) n");
  queue node{db, "a"};
  std::set<std::string> seen;
  for (int i = 0; i < 40 && seen.size() < 91; ++i)
    for (auto id : node.pick(10))
      seen.insert(db.scalar("select partition_key from gen_durable where id = "
                            "$1",
                            {std::to_string(id)}));
  CAF_CHECK_EQUAL(seen.size(), 91u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace key_suite
