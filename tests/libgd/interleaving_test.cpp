#define CAF_SUITE interleaving

// Races, forced: transactions of two or three connections go on statement by
// statement, in every order. Where the original's SQL goes wrong, it does so
// here, in the same harness: these tests can fail.

#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <support/opened.hpp>
#include <support/outcomes.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace interleaving_suite {

using namespace std::literals;

namespace {

namespace sql = gd::sql;
namespace store = gd::store;
namespace pq = gd::pq;

using gd::test::session;
using gd::test::temporary_database;
using store::outcome_row;
using store::signal_answer;
using store::write_kind;

using calls = std::vector<pq::call>;

constexpr auto no_inbox_limit = 1'000;

// -- transactions, step by step -----------------------------------------------

/// A transaction whose statements are sent one by one, each with an answer
/// before the next.
class transaction {
public:
  transaction(pq::connection& on, calls statements,
              const sql::statement& begin = sql::begin)
    : on_(on), statements_(std::move(statements)), begin_(begin) {
    // nop
  }

  /// Begin and commit are statements, too.
  std::size_t size() const {
    return statements_.size() + 2;
  }

  bool ended() const {
    return at_ == size();
  }

  /// Runs the next statement. After a failure the rest does nothing.
  void step() {
    if (at_ == 0)
      send({&begin_, {}});
    else if (at_ < size() - 1)
      send(statements_[at_ - 1]);
    else if (failure_)
      on_.run({{{&sql::rollback, {}}}, false});
    else
      send({&sql::commit, {}});
    ++at_;
  }

  void finish() {
    while (!ended())
      step();
  }

  /// Once more from the beginning, as the engine does with a locked row.
  void again() {
    at_ = 0;
    answers_.clear();
    failure_.reset();
    finish();
  }

  /// The answer to a statement, begin not counted.
  const pq::rows& answer(std::size_t i) const {
    return answers_.at(i + 1);
  }

  const std::optional<gd::error>& failure() const {
    return failure_;
  }

private:
  void send(const pq::call& what) {
    if (failure_)
      return;
    auto reply = on_.run({{what}, false});
    if (reply.ok())
      answers_.push_back(std::move(reply.results.front()));
    else
      failure_ = *reply.failure;
  }

  pq::connection& on_;
  calls statements_;
  const sql::statement& begin_;
  std::size_t at_ = 0;
  std::vector<pq::rows> answers_;
  std::optional<gd::error> failure_;
};

/// Every order in which the steps of several can follow each other, as
/// sequences of who is next. `steps` tells how many each has.
std::vector<std::string> all_orders(const std::vector<std::size_t>& steps) {
  std::string order;
  for (std::size_t i = 0; i < steps.size(); ++i)
    order.append(steps[i], static_cast<char>('0' + i));
  std::vector<std::string> orders;
  do
    orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

void run_in(const std::string& order, std::vector<transaction*> parties) {
  for (char who : order)
    parties[static_cast<std::size_t>(who - '0')]->step();
  for (auto* party : parties)
    CAF_REQUIRE(party->ended());
}

// -- the original's SQL, as it stands in its section 10 -----------------------

constexpr sql::statement naive_begin{"naive_begin", "begin"};

constexpr sql::statement naive_pick{
  "naive_pick",
  "with picked as (select id from gen_durable where status = 'runnable' and "
  "eligible_at <= now()"
  " and queue = any($1::text[]) order by priority, eligible_at for update skip "
  "locked limit $2)"
  " update gen_durable g set status = 'executing', locked_by = $3,"
  " lease_expires_at = now() + interval '1 minute', updated_at = now()"
  " from picked where g.id = picked.id returning g.id"};

constexpr sql::statement naive_await{
  "naive_await", "update gen_durable set state = $2::text::jsonb, status = "
                 "'awaiting_signal', awaits = $3::text,"
                 " locked_by = null, lease_expires_at = null, updated_at = "
                 "now() where id = $1::bigint"};

constexpr sql::statement naive_done{
  "naive_done",
  "update gen_durable set status = 'done', result = '{}', locked_by = null,"
  " lease_expires_at = null, updated_at = now() where id = $1::bigint"};

constexpr sql::statement naive_insert_signal{
  "naive_insert_signal",
  "insert into gen_durable_signals (target_id, name, payload, dedup_key) "
  "values "
  "($1::bigint, $2::text, '{}', $3::text)"
  " on conflict (target_id, dedup_key) do nothing returning id"};

constexpr sql::statement naive_wake{
  "naive_wake", "update gen_durable set status = 'runnable', eligible_at = "
                "now(), awaits = null, updated_at = now()"
                " where id = $1::bigint and status = 'awaiting_signal' and "
                "awaits = $2::text returning id"};

/// What a recheck with a high-water mark instead of a set would be [A2].
constexpr sql::statement naive_recheck{
  "naive_recheck",
  "update gen_durable g set status = 'runnable', awaits = "
  "null where g.id = $1::bigint"
  " and exists (select from gen_durable_signals s where s.target_id = "
  "g.id and s.name = g.awaits and s.id > $2::bigint)"};

pq::call call(const sql::statement& what, pq::params args) {
  return {&what, std::move(args)};
}

// -- fixture ------------------------------------------------------------------

struct fixture : gd::test::opened_database {
  fixture() {
    // Counts wake-ups, whoever wakes.
    db.rows(
      "create table woken (id bigint);"
      "create function count_wake() returns trigger language plpgsql as"
      " 'begin insert into public.woken values (new.id); return new; end';"
      "create trigger count_wake after update on gen_durable for each row"
      " when (old.status = 'awaiting_signal' and new.status = 'runnable')"
      " execute function count_wake()");
  }

  /// One that sees names without a schema, for the original's SQL.
  pq::connection& connect_naively() {
    auto& made = connect();
    CAF_REQUIRE(made.execute("set search_path = public"));
    return made;
  }

  /// An instance that `token` executes.
  std::int64_t executing(const std::string& token = "node/1/1") {
    return std::stoll(db.scalar("insert into gen_durable (fsm, step, status, "
                                "state, locked_by, lease_expires_at)"
                                " values ('Order', 'collect', 'executing', "
                                "'{\"n\": 1}', $1, now() + interval '1 minute')"
                                " returning id",
                                {token}));
  }

  std::int64_t runnable() {
    return std::stoll(
      db.scalar("insert into gen_durable (fsm, step, state) values ('Order', "
                "'collect', '{\"n\": 1}') returning id"));
  }

  /// One that waits for "paid", since before `deadline` (SQL) if any.
  std::int64_t parked(const std::string& deadline = "null") {
    return std::stoll(
      db.scalar("insert into gen_durable (fsm, step, status, awaits, deadline)"
                " values ('Order', 'collect', 'awaiting_signal', 'paid', "
                + deadline + ") returning id"));
  }

  std::string whole_row(std::int64_t id) {
    return of(id, "gen_durable::text");
  }

  std::string inbox(std::int64_t id) {
    return db.scalar("select coalesce(string_agg(name, ',' order by id), '') "
                     "from gen_durable_signals"
                     " where target_id = $1 and consumed_at is null",
                     {std::to_string(id)});
  }

  std::string wake_ups(std::int64_t id) {
    return db.scalar("select count(*) from woken where id = $1",
                     {std::to_string(id)});
  }

  /// Parked although what it waits for is there.
  bool hangs(std::int64_t id) {
    return db.scalar(
             "select count(*) from gen_durable g join gen_durable_signals s on "
             "s.target_id = g.id"
             " where g.id = $1 and g.status = 'awaiting_signal' and "
             "(s.name = g.awaits or s.name = any(g.awaits_also))"
             " and s.consumed_at is null",
             {std::to_string(id)})
           != "0";
  }
};

outcome_row next_row(std::int64_t id, std::string token = "node/1/1") {
  outcome_row row;
  row.id = id;
  row.token = std::move(token);
  row.what = write_kind::next;
  row.step = "ship";
  row.state = R"({"n": 2})";
  return row;
}

outcome_row await_row(std::int64_t id, std::string token = "node/1/1") {
  auto row = next_row(id, std::move(token));
  row.what = write_kind::await;
  row.step.clear();
  row.awaits = "paid";
  return row;
}

/// It waits for "paid", "cancelled" or "refunded".
outcome_row await_any_row(std::int64_t id, std::string token = "node/1/1") {
  auto row = await_row(id, std::move(token));
  row.awaits_also = {"cancelled", "refunded"};
  return row;
}

outcome_row done_row(std::int64_t id, std::string token = "node/1/1") {
  outcome_row row;
  row.id = id;
  row.token = std::move(token);
  row.what = write_kind::done;
  row.result = "{}";
  return row;
}

gd::signal paid(std::int64_t target, std::optional<std::string> dedup = {}) {
  return {.target = target,
          .name = "paid",
          .payload = {},
          .dedup_key = std::move(dedup)};
}

gd::signal cancelled(std::int64_t target) {
  return {.target = target, .name = "cancelled", .payload = {}};
}

/// What the engine sends for outcomes.
calls flushing(const std::vector<outcome_row>& rows) {
  auto all = [&rows](auto are) {
    return std::all_of(rows.begin(), rows.end(), are);
  };
  calls xs{all(store::is_plain_done)   ? store::flush_done(rows)
           : all(store::is_plain_next) ? store::flush_next(rows)
                                       : store::flush(rows)};
  if (auto parked = store::recheck(rows))
    xs.push_back(std::move(*parked));
  return xs;
}

/// What the engine sends for signals.
calls sending(const std::vector<gd::signal>& signals) {
  return {store::lock_targets(signals),
          store::send_signals(signals, no_inbox_limit)};
}

calls picking(const std::string& token, std::int32_t limit = 100) {
  return {store::pick({.queue = "default",
                       .limit = limit,
                       .machines = {{"Order", 1}},
                       .token = token,
                       .lease = 60s,
                       .inbox = no_inbox_limit})};
}

calls waking() {
  return {store::wake_due(100)};
}

bool applied(const pq::rows& flushed, std::int64_t id) {
  auto rows = store::read_flush(flushed);
  return std::count_if(rows.begin(), rows.end(),
                       [id](const auto& x) { return x.id == id && x.applied; })
         == 1;
}

bool stale(const pq::rows& flushed, std::int64_t id) {
  auto rows = store::read_flush(flushed);
  return std::count_if(
           rows.begin(), rows.end(),
           [id](const auto& x) {
    return x.id == id && !x.applied && !x.holder;
           })
    == 1;
}

/// Until neither finds a row locked. `flush_at`: which statement flushes.
void retry_locked(transaction& flush, transaction& send,
                  std::size_t flush_at = 0) {
  for (int i = 0; i < 3; ++i) {
    if (store::read_flush(flush.answer(flush_at)).empty())
      flush.again();
    if (store::read<store::signal_row>(send.answer(1)).front().answer
        == signal_answer::locked)
      send.again();
  }
}

gd::turn make_turn() {
  return gd::turn{{.queue = "default",
                   .incarnation = "node/1",
                   .first_pick = 5,
                   .machines = {{"Order", 1}}}};
}

using verdict = gd::turn::flushed::verdict;

pq::reply lost_connection() {
  pq::reply lost;
  lost.failure = gd::error{gd::errc::unknown_fate, "gone", {}};
  return lost;
}

/// Makes every pick wait until this object is gone.
class held_up_picks {
public:
  explicit held_up_picks(temporary_database& db) : stranger_(db.conninfo()) {
    stranger_.exec("select pg_advisory_lock(7)");
    stranger_.exec(
      "create function hold_up() returns trigger language plpgsql as"
      " 'begin perform pg_advisory_xact_lock_shared(7); return new; end';"
      "create trigger hold_up before update on gen_durable for each row"
      " when (new.status = 'executing') execute function hold_up()");
  }

  session& stranger() {
    return stranger_;
  }

  void let_go() {
    stranger_.exec("select pg_advisory_unlock_all()");
  }

private:
  session stranger_;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(interleaving_tests, fixture)

// -- [A2] no lost wake-up -----------------------------------------------------

CAF_TEST(a signal and a parking step in any order are exactly one wake - up) {
  auto& parker = connect();
  auto& sender = connect();
  for (const auto& [name, several] :
       {std::pair{"paid", false}, std::pair{"paid", true},
        std::pair{"cancelled", true}, std::pair{"refunded", true}})
    for (const auto& order : all_orders({4, 4})) {
      CAF_MESSAGE(name << (several ? " of several" : "") << ", order "
                       << order);
      auto id = executing();
      auto signal = paid(id);
      signal.name = name;
      transaction park{parker,
                       flushing({several ? await_any_row(id) : await_row(id)})};
      transaction send{sender, sending({signal})};
      run_in(order, {&park, &send});
      retry_locked(park, send);
      CAF_CHECK(applied(park.answer(0), id));
      auto answer = store::read<store::signal_row>(send.answer(1)).front();
      CAF_CHECK(answer.answer == signal_answer::accepted);
      CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, wake_reason, awaits, "
                             "awaits_also, state)"),
                      "runnable signal {\"n\": 2}");
      CAF_CHECK_EQUAL(inbox(id), name);
      CAF_CHECK_EQUAL(wake_ups(id), "1");
      // And one of the two knows it.
      CAF_CHECK_EQUAL(
        park.answer(1).size() + (answer.woken_queue.empty() ? 0 : 1), 1u);
    }
}

CAF_TEST(with the statements of the original the same orders hang) {
  auto& parker = connect_naively();
  auto& sender = connect_naively();
  std::set<std::string> hanging;
  for (const auto& order : all_orders({3, 4})) {
    auto id = executing();
    pq::params parked;
    parked.add(id).add("{}").add("paid");
    pq::params inserted;
    inserted.add(id).add("paid").add("");
    pq::params woken;
    woken.add(id).add("paid");
    transaction park{parker, {call(naive_await, parked)}};
    transaction send{
      sender, {call(naive_insert_signal, inserted), call(naive_wake, woken)}};
    run_in(order, {&park, &send});
    if (hangs(id))
      hanging.insert(order);
  }
  CAF_CHECK(hanging.contains("1111000"));  // the signal came before the park
  CAF_CHECK(hanging.contains("0011110"));  // they overlap
  CAF_CHECK(!hanging.contains("0001111")); // the signal came after the park
}

CAF_TEST(a database whose default is repeatable read loses no wake
         - up either) {
  db.rows("alter database " + gd::test::quoted_name(db.name())
          + " set default_transaction_isolation = 'repeatable read'");
  auto& parker = connect();
  auto& sender = connect();
  // Not even when the pins of the session are gone: begin says it as well.
  for (auto* unpinned : {&parker, &sender})
    CAF_REQUIRE(unpinned->execute("reset default_transaction_isolation"));
  int went_wrong = 0;
  for (const auto* begin : {&sql::begin, &naive_begin})
    for (const auto& order : all_orders({5, 4})) {
      auto id = executing();
      // A turn may begin with this; it takes the snapshot of a repeatable read.
      auto statements = flushing({await_row(id)});
      statements.insert(statements.begin(), store::release_lost({"node/1/0"}));
      transaction park{parker, std::move(statements), *begin};
      transaction send{sender, sending({paid(id)}), *begin};
      run_in(order, {&park, &send});
      if (begin == &naive_begin) {
        went_wrong += park.failure() || send.failure() || hangs(id);
        continue;
      }
      retry_locked(park, send, 1);
      CAF_CHECK_EQUAL(of(id, "status"), "runnable");
      CAF_CHECK_EQUAL(wake_ups(id), "1");
    }
  CAF_CHECK_GREATER(went_wrong, 0);
}

CAF_TEST(several signals and several parking steps in any order are one wake
         - up each) {
  auto& parker = connect();
  auto& sender = connect();
  for (const auto& order : all_orders({4, 4})) {
    CAF_MESSAGE("order " << order);
    auto x = executing();
    auto y = executing();
    auto z = executing(); // nobody signals it
    std::vector<outcome_row> rows{await_row(y), await_row(x), await_row(z)};
    std::vector<gd::signal> signals{paid(y), paid(x), paid(y)};
    transaction park{parker, flushing(rows)};
    transaction send{sender, sending(signals)};
    run_in(order, {&park, &send});
    // What was locked goes again, alone.
    for (const auto& row : rows)
      if (!applied(park.answer(0), row.id))
        transaction{parker, flushing({row})}.finish();
    auto answers = store::read<store::signal_row>(send.answer(1));
    for (std::size_t i = 0; i < signals.size(); ++i)
      if (answers[i].answer == signal_answer::locked)
        transaction{sender, sending({signals[i]})}.finish();
    CAF_CHECK_EQUAL(of(x, "status") + of(y, "status"), "runnablerunnable");
    CAF_CHECK_EQUAL(wake_ups(x) + wake_ups(y), "11");
    CAF_CHECK_EQUAL(inbox(x) + ";" + inbox(y), "paid;paid,paid");
    CAF_CHECK_EQUAL(of(z, "status"), "awaiting_signal");
  }
}

// -- peeked signals -----------------------------------------------------------

CAF_TEST(a signal with a lower id that commits later than a seen one wakes) {
  auto& parker = connect();
  auto id = executing();
  session late{db.conninfo()};
  late.exec("begin");
  late.exec(
    "insert into gen_durable_signals (target_id, name) values ($1, 'paid')",
    {std::to_string(id)});
  auto seen = received(id, "paid");
  late.exec("commit");
  auto row = await_row(id);
  row.seen = {seen};
  transaction{parker, flushing({row})}.finish();
  CAF_CHECK_EQUAL(of(id, "status"), "runnable");
  CAF_CHECK_EQUAL(of(id, "wake_reason"), "signal");

  // A high-water mark would sleep on.
  db.rows("update gen_durable set status = 'awaiting_signal', awaits = 'paid' "
          "where id = $1",
          {std::to_string(id)});
  pq::params mark;
  mark.add(id).add(seen);
  transaction{connect_naively(), {call(naive_recheck, mark)}}.finish();
  CAF_CHECK_EQUAL(of(id, "status"), "awaiting_signal");
}

// -- any of several names -----------------------------------------------------

CAF_TEST(signals of two awaited names in any order are one wake - up) {
  auto& one = connect();
  auto& other = connect();
  for (const auto& order : all_orders({4, 4})) {
    CAF_MESSAGE("order " << order);
    auto id = executing();
    transaction{one, flushing({await_any_row(id)})}.finish();
    transaction first{one, sending({cancelled(id)})};
    transaction second{other, sending({paid(id)})};
    run_in(order, {&first, &second});
    auto locked = [](const transaction& x) {
      return store::read<store::signal_row>(x.answer(1)).front().answer
             == signal_answer::locked;
    };
    for (auto* x : {&first, &second})
      if (locked(*x))
        x->again();
    CAF_CHECK_EQUAL(of(id, "status"), "runnable");
    CAF_CHECK_EQUAL(of(id, "num_nulls(awaits, awaits_also)"), "2");
    CAF_CHECK_EQUAL(wake_ups(id), "1");
    auto in = inbox(id);
    CAF_CHECK(in == "paid,cancelled" || in == "cancelled,paid");
  }
}

CAF_TEST(a group with two awaited names and a parking step in any order are one
           wake
         - up) {
  auto& parker = connect();
  auto& sender = connect();
  for (const auto& order : all_orders({4, 4})) {
    CAF_MESSAGE("order " << order);
    auto id = executing();
    transaction park{parker, flushing({await_any_row(id)})};
    transaction send{sender, sending({cancelled(id), paid(id)})};
    run_in(order, {&park, &send});
    retry_locked(park, send);
    CAF_CHECK(applied(park.answer(0), id));
    CAF_CHECK_EQUAL(of(id, "status"), "runnable");
    CAF_CHECK_EQUAL(wake_ups(id), "1");
    CAF_CHECK_EQUAL(inbox(id), "cancelled,paid");
  }
}

// -- [A1] fencing -------------------------------------------------------------

CAF_TEST(a stale lease changes nothing whoever holds the row now) {
  auto& zombie = connect();
  for (const auto* successor : {"node2/9/1", "node/1/2"}) {
    for (auto what :
         {write_kind::next, write_kind::replay, write_kind::await,
          write_kind::done, write_kind::stop, write_kind::release}) {
      auto id = executing("node/1/1");
      auto taken = received(id, "paid");
      auto kept = received(id, "paid", "evt-7");
      db.rows(
        "update gen_durable set locked_by = $2, attempt = 1 where id = $1",
        {std::to_string(id), successor});
      auto before = whole_row(id);
      auto row = next_row(id, "node/1/1");
      row.what = what;
      row.awaits = "paid";
      row.result = "{}";
      row.reason = "late";
      row.delay_us = 5;
      row.consumed = {taken, kept};
      transaction flush{zombie, flushing({row})};
      flush.finish();
      CAF_CHECK(stale(flush.answer(0), id));
      CAF_CHECK_EQUAL(whole_row(id), before);
      CAF_CHECK_EQUAL(inbox(id), "paid,paid");
      for (auto write : {store::flush_done, store::flush_next}) {
        CAF_CHECK(stale(run(zombie, write({row})), id));
        CAF_CHECK_EQUAL(whole_row(id), before);
      }

      auto beats = store::read<store::beat>(run(
        zombie,
        store::heartbeat({std::make_shared<gd::lease>(id, "node/1/1")}, 1h)));
      CAF_REQUIRE_EQUAL(beats.size(), 1u);
      CAF_CHECK(!beats.front().extended);
      CAF_CHECK_EQUAL(whole_row(id), before);

      auto released = run(zombie, store::release_lost({"node/1/1"}));
      CAF_CHECK_EQUAL(released.size(), 0u);
      CAF_CHECK_EQUAL(whole_row(id), before);
    }
  }
}

CAF_TEST(a stale lease changes nothing of a row that is parked or finished
         or waiting) {
  auto& zombie = connect();
  for (const auto* status : {"runnable", "awaiting_signal", "done", "failed"}) {
    auto id = executing();
    // Even if the token were still there.
    db.rows("update gen_durable set status = $2::gen_durable_status, awaits = "
            "'paid' where id = $1",
            {std::to_string(id), status});
    auto before = whole_row(id);
    transaction flush{zombie, flushing({next_row(id)})};
    flush.finish();
    CAF_CHECK(stale(flush.answer(0), id));
    auto beats = store::read<store::beat>(
      run(zombie,
          store::heartbeat({std::make_shared<gd::lease>(id, "node/1/1")}, 1h)));
    CAF_REQUIRE_EQUAL(beats.size(), 1u);
    CAF_CHECK(!beats.front().extended);
    CAF_CHECK_EQUAL(whole_row(id), before);
  }
}

CAF_TEST(an outcome and the reaper in any order are one or the other) {
  auto& worker = connect();
  auto& reaper = connect();
  for (const auto& order : all_orders({3, 4})) {
    CAF_MESSAGE("order " << order);
    auto id = executing("node/1/1");
    auto taken = received(id, "paid");
    db.rows("update gen_durable set lease_expires_at = now() - interval '1 "
            "second' where id = $1",
            {std::to_string(id)});
    auto row = next_row(id, "node/1/1");
    row.consumed = {taken};
    transaction flush{worker, flushing({row})};
    transaction reap{reaper, {store::reap(100), picking("node2/9/1").front()}};
    run_in(order, {&flush, &reap});
    if (store::read_flush(flush.answer(0)).empty())
      flush.again();
    bool reaped = reap.answer(0).size() == 1;
    CAF_CHECK_NOT_EQUAL(applied(flush.answer(0), id), reaped);
    CAF_CHECK_EQUAL(of(id, "attempt"), reaped ? "1" : "0");
    CAF_CHECK_EQUAL(of(id, "state"), reaped ? "{\"n\": 1}" : "{\"n\": 2}");
    CAF_CHECK_EQUAL(inbox(id), reaped ? "paid" : "");
    if (reaped) {
      CAF_CHECK_EQUAL(of(id, "locked_by"), "node2/9/1");
      CAF_CHECK_EQUAL(
        store::read_pick(reap.answer(1)).rows.front().inbox.size(), 1u);
    }
    db.rows("delete from gen_durable");
  }
}

CAF_TEST(a heartbeat and the reaper in any order are one or the other) {
  auto& worker = connect();
  auto& reaper = connect();
  for (const auto& order : all_orders({3, 3})) {
    auto id = executing("node/1/1");
    db.rows("update gen_durable set lease_expires_at = now() - interval '1 "
            "second' where id = $1",
            {std::to_string(id)});
    transaction beat{
      worker,
      {store::heartbeat({std::make_shared<gd::lease>(id, "node/1/1")}, 60s)}};
    transaction reap{reaper, {store::reap(100)}};
    run_in(order, {&beat, &reap});
    if (beat.answer(0).size() == 0)
      beat.again();
    bool extended = store::read<store::beat>(beat.answer(0)).front().extended;
    CAF_CHECK_NOT_EQUAL(extended, reap.answer(0).size() == 1);
    CAF_CHECK_EQUAL(of(id, "status"), extended ? "executing" : "runnable");
  }
}

// -- [A3] only consumed signals go --------------------------------------------

CAF_TEST(what a stale neighbour in the group consumed stays) {
  auto& worker = connect();
  auto fresh = executing("node/1/1");
  auto lost = executing("node2/9/9");
  auto row = next_row(fresh);
  row.consumed = {received(fresh, "paid"), received(fresh, "paid", "evt-1")};
  auto late = next_row(lost, "node/1/1");
  late.consumed = {received(lost, "paid"), received(lost, "paid", "evt-1")};
  transaction{worker, flushing({late, row})}.finish();
  CAF_CHECK_EQUAL(inbox(fresh), "");
  CAF_CHECK_EQUAL(inbox(lost), "paid,paid");
}

// -- [A4] a target that finishes while the signal is on its way ---------------

CAF_TEST(a signal is stored before the target finishes or refused) {
  auto& worker = connect();
  auto& sender = connect();
  int refused = 0;
  for (const auto& order : all_orders({3, 4})) {
    CAF_MESSAGE("order " << order);
    auto id = executing();
    transaction finish{worker, flushing({done_row(id)})};
    transaction send{sender, sending({paid(id)})};
    run_in(order, {&finish, &send});
    bool finished_first
      = applied(finish.answer(0), id)
        && store::read<store::signal_row>(send.answer(1)).front().answer
             != signal_answer::accepted;
    retry_locked(finish, send);
    CAF_CHECK(applied(finish.answer(0), id));
    auto answer = store::read<store::signal_row>(send.answer(1)).front().answer;
    CAF_CHECK(answer
              == (finished_first ? signal_answer::target_finished
                                 : signal_answer::accepted));
    CAF_CHECK_EQUAL(inbox(id), finished_first ? "" : "paid");
    refused += finished_first;
  }
  CAF_CHECK_GREATER(refused, 0);
}

CAF_TEST(a sender that waits for a target that finishes is refused) {
  auto& worker = connect();
  auto& sender = connect();
  auto id = executing();
  transaction finish{worker, flushing({done_row(id)})};
  finish.step();
  finish.step();
  // As the engine does after it has found the row locked several times.
  auto signal = paid(id);
  sender.send({{store::lock_timeout(10s), store::lock({id}),
                store::lock_targets({signal}),
                store::send_signals({signal}, no_inbox_limit)}});
  db.wait_until("select " + std::to_string(worker.backend())
                  + " = any(pg_blocking_pids("
                  + std::to_string(sender.backend()) + "))",
                "t");
  finish.finish();
  CAF_REQUIRE(sender.wait_ready());
  auto reply = sender.take_reply();
  CAF_REQUIRE(reply && reply->ok());
  CAF_CHECK(store::read<store::signal_row>(reply->results.back()).front().answer
            == signal_answer::target_finished);
  CAF_CHECK_EQUAL(inbox(id), "");
}

CAF_TEST(a sender that waits for a target that goes away is refused) {
  auto& sender = connect();
  auto id = executing();
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("delete from gen_durable where id = $1", {std::to_string(id)});
  auto signal = paid(id);
  sender.send({{store::lock_timeout(10s), store::lock({id}),
                store::lock_targets({signal}),
                store::send_signals({signal}, no_inbox_limit)}});
  db.wait_until("select " + std::to_string(stranger.pid())
                  + " = any(pg_blocking_pids("
                  + std::to_string(sender.backend()) + "))",
                "t");
  stranger.exec("commit");
  CAF_REQUIRE(sender.wait_ready());
  auto reply = sender.take_reply();
  CAF_REQUIRE(reply && reply->ok());
  CAF_CHECK(store::read<store::signal_row>(reply->results.back()).front().answer
            == signal_answer::no_such_target);
}

CAF_TEST(with the statements of the original a finished target gets an orphan) {
  auto& sender = connect_naively();
  auto id = executing();
  pq::params done;
  done.add(id);
  pq::params inserted;
  inserted.add(id).add("paid").add("");
  pq::params woken;
  woken.add(id).add("paid");
  transaction send{
    sender, {call(naive_insert_signal, inserted), call(naive_wake, woken)}};
  transaction finish{connect_naively(), {call(naive_done, done)}};
  run_in("0111000", {&send, &finish});
  CAF_CHECK(!send.failure());
  CAF_CHECK_EQUAL(of(id, "status"), "done");
  CAF_CHECK_EQUAL(inbox(id), "paid");
}

// -- [A7] nobody waits on a stranger ------------------------------------------

CAF_TEST(a row that a stranger holds is locked and its neighbours are written) {
  auto& worker = connect();
  std::vector<outcome_row> rows;
  std::vector<gd::lease_ptr> leases;
  for (int i = 0; i < 10; ++i) {
    rows.push_back(next_row(executing()));
    leases.push_back(std::make_shared<gd::lease>(rows.back().id, "node/1/1"));
  }
  auto held = rows[3].id;
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update",
                {std::to_string(held)});

  auto beats = store::read<store::beat>(
    run(worker, store::heartbeat(leases, 1h)));
  CAF_CHECK_EQUAL(beats.size(), 9u);
  for (const auto& x : beats)
    CAF_CHECK(x.extended && x.id != held);

  auto flushed = run(worker, store::flush(rows));
  CAF_CHECK_EQUAL(store::read_flush(flushed).size(), 9u);
  for (const auto& x : rows)
    CAF_CHECK_EQUAL(applied(flushed, x.id), x.id != held);
  CAF_CHECK_EQUAL(of(held, "status"), "executing");

  // Signals: the same.
  auto answers = [&] {
    auto reply = worker.run(
      {sending({paid(rows[2].id), paid(held), paid(rows[4].id)})});
    CAF_REQUIRE(reply.ok());
    return store::read<store::signal_row>(reply.results.back());
  };
  auto xs = answers();
  CAF_CHECK(xs[0].answer == signal_answer::accepted);
  CAF_CHECK(xs[1].answer == signal_answer::locked);
  CAF_CHECK(xs[2].answer == signal_answer::accepted);
  CAF_CHECK_EQUAL(inbox(held), "");

  stranger.exec("rollback");
  CAF_CHECK(applied(run(worker, store::flush({rows[3]})), held));
  CAF_CHECK(answers()[1].answer == signal_answer::accepted);
}

CAF_TEST(a row that a stranger holds does not keep others from completing
         or going on) {
  auto& worker = connect();
  for (bool complete : {true, false}) {
    auto write = complete ? store::flush_done : store::flush_next;
    std::vector<outcome_row> rows;
    for (int i = 0; i < 10; ++i)
      rows.push_back(complete ? done_row(executing()) : next_row(executing()));
    auto held = rows[3].id;
    session stranger{db.conninfo()};
    stranger.exec("begin");
    stranger.exec("select from gen_durable where id = $1 for update",
                  {std::to_string(held)});
    auto flushed = run(worker, write(rows));
    CAF_CHECK_EQUAL(store::read_flush(flushed).size(), 9u);
    for (const auto& x : rows) {
      CAF_CHECK_EQUAL(applied(flushed, x.id), x.id != held);
      CAF_CHECK_EQUAL(of(x.id, "status"), x.id == held ? "executing"
                                          : complete   ? "done"
                                                       : "runnable");
    }
    stranger.exec("rollback");
    CAF_CHECK(applied(run(worker, write({rows[3]})), held));
  }
}

CAF_TEST(
  only a row that changes hands between the snapshot and its lock is stale) {
  struct writing {
    pq::call (*write)(const store::row_refs<outcome_row>&);
    std::array<const char*, 3> tokens;
  };
  std::array<const char*, 3> alike{"node/1/1", "node/1/1", "node/1/1"};
  std::array<const char*, 3> unlike{"node/1/3", "node/1/4", "node/1/5"};
  for (auto [write, tokens] :
       {writing{store::flush_done, alike}, writing{store::flush_done, unlike},
        writing{store::flush_next, alike}, writing{store::flush, alike}}) {
    bool complete = write == store::flush_done;
    std::vector<outcome_row> rows;
    for (const auto* token : tokens)
      rows.push_back((complete ? done_row : next_row)(executing(token), token));
    auto what = write(rows);
    // Its snapshot is there when it waits.
    std::string text{what.what->text};
    std::string_view place = complete ? "where g.id = any($1::bigint[])"
                                      : "where g.id = e.id";
    auto at = text.find(place);
    CAF_REQUIRE(at != std::string::npos);
    text.insert(at + place.size(),
                " and (select pg_advisory_xact_lock_shared(7)::text) is not "
                "null");
    gd::sql::statement waiting{"waiting", text};
    what.what = &waiting;
    session stranger{db.conninfo()};
    stranger.exec("select pg_advisory_lock(7)");
    auto& worker = connect();
    worker.send({{what}});
    CAF_CHECK_EQUAL(stranger.wait_until_someone_is_blocked(), worker.backend());
    db.rows("update gen_durable set locked_by = 'node/1/2' where id = $1",
            {std::to_string(rows[1].id)});
    db.rows("update gen_durable set priority = 5 where id = $1",
            {std::to_string(rows[2].id)});
    stranger.exec("select pg_advisory_unlock_all()");
    auto reply = worker.wait_reply();
    CAF_REQUIRE(reply.ok());
    const auto& written = reply.results.front();
    CAF_CHECK(applied(written, rows[0].id));
    CAF_CHECK(stale(written, rows[1].id));
    CAF_CHECK_EQUAL(of(rows[1].id, "status"), "executing");
    // A stranger has changed it otherwise: left for the next try.
    CAF_CHECK(!applied(written, rows[2].id));
    CAF_CHECK(!stale(written, rows[2].id));
    CAF_CHECK_EQUAL(of(rows[2].id, "status"), "executing");
  }
}

CAF_TEST(an outcome under the token of another row of its group is stale) {
  // Given back, picked again under another token, and the late outcome shares a
  // group with one of the new pick.
  auto& worker = connect();
  for (bool complete : {true, false}) {
    auto make = complete ? done_row : next_row;
    std::vector<outcome_row> rows{make(executing("node/1/2"), "node/1/1"),
                                  make(executing("node/1/1"), "node/1/2"),
                                  make(executing("node/1/2"), "node/1/2")};
    for (auto write :
         {complete ? store::flush_done : store::flush_next, store::flush}) {
      auto written = run(worker, write(rows));
      CAF_CHECK(stale(written, rows[0].id));
      CAF_CHECK(stale(written, rows[1].id));
      CAF_CHECK(applied(written, rows[2].id));
      CAF_CHECK_EQUAL(of(rows[0].id, "status"), "executing");
      CAF_CHECK_EQUAL(of(rows[1].id, "status"), "executing");
      rows[2] = make(executing("node/1/2"), "node/1/2");
    }
  }
}

CAF_TEST(with the statements of the original a group waits for the stranger) {
  auto x = executing();
  auto y = executing();
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update",
                {std::to_string(y)});
  session worker{db.conninfo()};
  worker.start("update gen_durable set status = 'runnable', locked_by = null "
               "where id = any($1::bigint[])",
               {"{" + std::to_string(x) + "," + std::to_string(y) + "}"});
  worker.wait_until_blocked_by(stranger);
  stranger.exec("rollback");
  worker.finish();
}

CAF_TEST(sweeps and recoveries pass by what a stranger holds) {
  auto& engine = connect();
  std::vector<std::int64_t> late, due, lost;
  for (int i = 0; i < 3; ++i) {
    late.push_back(executing("node/1/1"));
    db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
            "where id = $1",
            {std::to_string(late.back())});
    due.push_back(parked("now() - interval '1 s'"));
    lost.push_back(executing("node/1/2"));
  }
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = any($1) for no key update",
                {"{" + std::to_string(late[0]) + "," + std::to_string(due[0])
                 + "," + std::to_string(lost[0]) + "}"});
  CAF_CHECK_EQUAL(run(engine, store::reap(100)).size(), 2u);
  CAF_CHECK_EQUAL(run(engine, store::wake_due(100)).size(), 2u);
  CAF_CHECK_EQUAL(run(engine, store::release_lost({"node/1/2"})).size(), 2u);
  CAF_CHECK_EQUAL(run(engine, picking("node/1/3").front()).size(), 6u);
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(run(engine, store::reap(100)).size(), 1u);
  CAF_CHECK_EQUAL(run(engine, store::wake_due(100)).size(), 1u);
  CAF_CHECK_EQUAL(run(engine, store::release_lost({"node/1/2"})).size(), 1u);
  CAF_CHECK_EQUAL(run(engine, picking("node/1/4").front()).size(), 3u);
}

CAF_TEST(who holds an instance waits for no pick that passes over it) {
  // Its place in gen_durable_due goes with whatever he makes of it.
  auto& engine = connect();
  auto held = runnable();
  auto free = runnable();
  session stranger{db.conninfo()};
  stranger.exec("set lock_timeout = '100ms'");
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for no key update",
                {std::to_string(held)});
  transaction pick{engine, picking("node/1/2")};
  pick.step();
  pick.step();
  CAF_REQUIRE(!pick.failure());
  CAF_CHECK_EQUAL(pick.answer(0).size(), 1u);
  stranger.exec("update gen_durable set priority = 7 where id = $1",
                {std::to_string(held)});
  stranger.exec("commit");
  pick.finish();
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(format('%s %s', id, priority), ',') from "
              "gen_durable_due"),
    std::to_string(held) + " 7");
  CAF_CHECK_EQUAL(db.scalar("select status from gen_durable where id = $1",
                            {std::to_string(free)}),
                  "executing");
}

CAF_TEST(a signal that is not yet committed hides its target from nobody) {
  auto& engine = connect();
  auto waiting = runnable();
  auto running = executing();
  auto reapable = executing();
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
          "where id = $1",
          {std::to_string(reapable)});
  auto due = parked("now() - interval '1 s'");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec(
    "insert into gen_durable_signals (target_id, name) select id, 'noted' from "
    "gen_durable");

  // The claim of the original skips it: the foreign key's check locks the row.
  auto& naive = connect_naively();
  pq::params picked;
  picked.add(std::vector<std::string>{"default"})
    .add(std::int64_t{10})
    .add("node");
  transaction pick{naive, {call(naive_pick, picked)}};
  pick.finish();
  CAF_REQUIRE(!pick.failure());
  CAF_CHECK_EQUAL(pick.answer(0).size(), 0u);

  CAF_CHECK_EQUAL(
    run(engine, store::heartbeat(
                  {std::make_shared<gd::lease>(running, "node/1/1")}, 1h))
      .size(),
    1u);
  auto outcome = next_row(running);
  CAF_CHECK(applied(run(engine, store::flush({outcome})), running));
  CAF_CHECK_EQUAL(run(engine, store::reap(10)).size(), 1u);
  CAF_CHECK_EQUAL(run(engine, store::wake_due(10)).size(), 1u);
  auto signals = engine.run({sending({paid(waiting), paid(due)})});
  CAF_REQUIRE(signals.ok());
  for (const auto& x : store::read<store::signal_row>(signals.results.back()))
    CAF_CHECK(x.answer == signal_answer::accepted);
  CAF_CHECK_EQUAL(run(engine, picking("node/1/2").front()).size(), 4u);
  CAF_CHECK(applied(
    run(engine, flushing({done_row(waiting, "node/1/2")}).front()), waiting));
  stranger.exec("rollback");
}

CAF_TEST(
  a caller that signals two instances in its own order deadlocks with nobody) {
  auto& worker = connect();
  auto x = executing();
  auto y = executing();
  for (auto [first, second] : {std::pair{x, y}, std::pair{y, x}}) {
    session caller{db.conninfo()};
    auto lock = [](std::int64_t id) {
      return "select from gen_durable where id = " + std::to_string(id)
             + " for no key update";
    };
    caller.exec("begin");
    caller.exec(lock(first));
    transaction flush{worker, flushing({next_row(y), next_row(x)})};
    flush.step();
    flush.step();
    CAF_CHECK(!applied(flush.answer(0), first));
    CAF_CHECK(applied(flush.answer(0), second));
    // The caller waits for the engine, which waits for nobody.
    caller.start(lock(second));
    caller.wait_until_blocked_by(worker.backend());
    flush.finish();
    CAF_CHECK(!flush.failure());
    caller.finish();
    caller.exec("rollback");
    db.rows(
      "update gen_durable set status = 'executing', locked_by = 'node/1/1', "
      "lease_expires_at = now() + interval '1 min'");
  }
}

CAF_TEST(with statements that wait the same caller deadlocks whatever the order
           of the group) {
  auto x = executing();
  auto y = executing();
  session caller{db.conninfo()};
  session worker{db.conninfo()};
  caller.exec("set deadlock_timeout = '10ms'");
  caller.exec("begin");
  caller.exec("update gen_durable set attempt = 1 where id = $1",
              {std::to_string(y)});
  worker.exec("begin");
  worker.start("select id from gen_durable where id = any($1::bigint[]) order "
               "by id for no key update",
               {"{" + std::to_string(x) + "," + std::to_string(y) + "}"});
  worker.wait_until_blocked_by(caller);
  caller.start("update gen_durable set attempt = 1 where id = $1",
               {std::to_string(x)});
  std::string state;
  try {
    caller.finish();
  } catch (const gd::test::sql_error& e) {
    state = e.sqlstate();
  }
  CAF_CHECK_EQUAL(state, "40P01");
  worker.finish();
}

// -- [A10] dedup outlives consumption -----------------------------------------

CAF_TEST(a dedup key is a duplicate before and after and while its signal is
           consumed) {
  auto& worker = connect();
  auto& sender = connect();
  for (const auto& order : all_orders({3, 4})) {
    CAF_MESSAGE("order " << order);
    auto id = executing();
    auto row = next_row(id);
    row.consumed = {received(id, "paid", "evt-7")};
    transaction consume{worker, flushing({row})};
    transaction send{sender, sending({paid(id, "evt-7")})};
    run_in(order, {&consume, &send});
    retry_locked(consume, send);
    CAF_CHECK(applied(consume.answer(0), id));
    CAF_CHECK(store::read<store::signal_row>(send.answer(1)).front().answer
              == signal_answer::duplicate);
    CAF_CHECK_EQUAL(inbox(id), "");
    CAF_CHECK_EQUAL(db.scalar("select count(*) || ' ' || max(payload::text) "
                              "from gen_durable_signals where target_id = $1",
                              {std::to_string(id)}),
                    "1 {}");
  }
}

// -- timeout and signal -------------------------------------------------------

CAF_TEST(a deadline and a signal in any order are one wake
         - up with its true reason) {
  auto& timer = connect();
  auto& sender = connect();
  for (const auto* name : {"paid", "cancelled"}) {
    std::set<std::string> reasons;
    for (const auto& order : all_orders({3, 4})) {
      CAF_MESSAGE(name << ", order " << order);
      auto id = executing();
      auto row = name == "paid"s ? await_row(id) : await_any_row(id);
      row.until_us = 1'000'000; // has passed
      transaction{timer, flushing({row})}.finish();
      auto signal = paid(id);
      signal.name = name;
      transaction wake{timer, waking()};
      transaction send{sender, sending({signal})};
      run_in(order, {&wake, &send});
      if (store::read<store::signal_row>(send.answer(1)).front().answer
          == signal_answer::locked)
        send.again();
      auto answer = store::read<store::signal_row>(send.answer(1)).front();
      bool by_signal = !answer.woken_queue.empty();
      CAF_CHECK(answer.answer == signal_answer::accepted);
      CAF_CHECK_EQUAL(of(id, "concat_ws(' ', status, wake_reason, awaits, "
                             "awaits_also)"),
                      by_signal ? "runnable signal" : "runnable timeout");
      CAF_CHECK_NOT_EQUAL(wake.answer(0).size() == 1, by_signal);
      CAF_CHECK_EQUAL(wake_ups(id), "1");
      CAF_CHECK_EQUAL(inbox(id), name);
      reasons.insert(of(id, "wake_reason"));
      // A later sweep finds nothing: a stale deadline cannot fire.
      CAF_CHECK_EQUAL(run(timer, store::wake_due(100)).size(), 0u);
    }
    CAF_CHECK_EQUAL(reasons.size(), 2u);
  }
}

CAF_TEST(a park with a passed deadline and a signal and a sweep in any order are
           one wake
         - up) {
  auto& parker = connect();
  auto& sender = connect();
  auto& timer = connect();
  std::set<std::string> reasons;
  // Begin takes no snapshot: it goes with the first statement.
  for (const auto& order : all_orders({3, 3, 2})) {
    auto id = executing();
    auto row = await_row(id);
    row.until_us = 1'000'000;
    transaction park{parker, flushing({row})};
    transaction send{sender, sending({paid(id)})};
    transaction wake{timer, waking()};
    park.step();
    send.step();
    wake.step();
    run_in(order, {&park, &send, &wake});
    retry_locked(park, send);
    wake.again();
    CAF_CHECK(applied(park.answer(0), id));
    CAF_CHECK_EQUAL(of(id, "status"), "runnable");
    CAF_CHECK_EQUAL(wake_ups(id), "1");
    CAF_CHECK_EQUAL(inbox(id), "paid");
    reasons.insert(of(id, "wake_reason"));
  }
  CAF_CHECK_EQUAL(reasons.size(), 2u);
}

// -- [A11] unknown fates ------------------------------------------------------

CAF_TEST(what a lost pick took is released and what it flushed counts once) {
  auto id = executing("node/1/4");
  auto fresh = runnable();
  auto row = next_row(id, "node/1/4");
  row.what = write_kind::replay; // that counts
  received(id, "paid", "evt-7");
  auto turn = make_turn();
  turn.add(row);
  held_up_picks held{db};
  auto now = gd::turn::clock::now();

  auto work = turn.begin(10, now);
  CAF_REQUIRE(work);
  auto& dying = connect();
  dying.send(work->work);
  CAF_CHECK_EQUAL(held.stranger().wait_until_someone_is_blocked(),
                  dying.backend());
  auto backend = std::to_string(dying.backend());
  opened.pop_back(); // the client is gone, its server is still at it
  auto report = turn.finish(0, lost_connection(), now);
  CAF_CHECK(report.lost_pick == "node/1/5");
  CAF_CHECK(report.rows.empty());
  CAF_CHECK(report.failure && report.failure->code == gd::errc::unknown_fate);

  // Not committed yet: there is nothing to release, and the outcome's row is
  // held by what may be a stranger.
  auto& second = connect();
  now += 1s;
  work = turn.begin(10, now);
  CAF_REQUIRE(work);
  report = turn.finish(0, second.run(work->work), now);
  CAF_CHECK(!report.failure);
  CAF_CHECK_EQUAL(report.released, 0u);
  CAF_CHECK(report.picked.empty());
  CAF_CHECK(report.rows.empty());

  held.let_go();
  db.wait_until("select count(*) from pg_stat_activity where pid = " + backend,
                "0");
  CAF_CHECK_EQUAL(of(fresh, "locked_by"), "node/1/5"); // it was committed
  CAF_CHECK_EQUAL(of(id, "locked_by"), "node/1/5");    // and so was the outcome

  now += 1s;
  work = turn.begin(10, now);
  CAF_REQUIRE(work);
  report = turn.finish(0, second.run(work->work), now);
  CAF_CHECK(!report.failure);
  CAF_CHECK_EQUAL(report.released, 2u);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::unknown);
  CAF_REQUIRE_EQUAL(report.picked.size(), 2u);
  for (const auto& x : report.picked)
    CAF_CHECK_EQUAL(x.attempt, x.id == id ? 1 : 0);
  CAF_CHECK_EQUAL(report.token, "node/1/7");
  CAF_CHECK_EQUAL(inbox(id), "paid");
}

CAF_TEST(what a lost pick did not commit is applied when it is sent again) {
  auto id = executing("node/1/4");
  auto fresh = runnable();
  auto turn = make_turn();
  turn.add(next_row(id, "node/1/4"));
  held_up_picks held{db};
  auto now = gd::turn::clock::now();
  auto work = turn.begin(10, now);
  CAF_REQUIRE(work);
  auto& dying = connect();
  dying.send(work->work);
  auto backend = held.stranger().wait_until_someone_is_blocked();
  held.stranger().terminate(backend);
  CAF_CHECK(!dying.wait_ready());
  auto reply = dying.take_reply();
  CAF_REQUIRE(reply && !reply->ok());
  CAF_CHECK(reply->failure->code == gd::errc::unknown_fate);
  auto report = turn.finish(0, std::move(*reply), now);
  CAF_CHECK(report.lost_pick == "node/1/5");
  held.let_go();

  now += 1s;
  work = turn.begin(10, now);
  CAF_REQUIRE(work);
  report = turn.finish(0, connect().run(work->work), now);
  CAF_CHECK(!report.failure);
  CAF_CHECK_EQUAL(report.released, 0u);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::applied);
  CAF_CHECK_EQUAL(report.picked.size(), 2u);
  CAF_CHECK_EQUAL(of(id, "step"), "ship");
  CAF_CHECK_EQUAL(of(fresh, "attempt"), "0");
}

CAF_TEST(what a lost pick took is nobody elses to release) {
  auto& engine = connect();
  auto mine = executing("node/1/5");
  auto other = executing("node/1/50");
  auto done = executing("node/1/5");
  db.rows("update gen_durable set status = 'done' where id = $1",
          {std::to_string(done)});
  auto before = whole_row(other);
  auto lost_attempt = of(mine, "attempt");
  CAF_CHECK_EQUAL(run(engine, store::release_lost({"node/1/5"})).size(), 1u);
  CAF_CHECK_EQUAL(of(mine, "status"), "runnable");
  CAF_CHECK_EQUAL(of(mine, "locked_by"), "");
  CAF_CHECK_EQUAL(of(mine, "attempt"), lost_attempt);
  CAF_CHECK_EQUAL(whole_row(other), before);
  CAF_CHECK_EQUAL(of(done, "status"), "done");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace interleaving_suite
