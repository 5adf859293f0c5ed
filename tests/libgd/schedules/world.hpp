#pragma once

#include <libgd/schedules/model.hpp>
#include <libgd/schedules/schedule.hpp>

#include <gd/engine/queue/key.hpp>
#include <gd/engine/queue/turn.hpp>
#include <gd/operate.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>
#include <gd/store/ends.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>
#include <gd/store/transitions.hpp>

#include <support/database.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Everybody who works with a database, statement by statement through the real SQL, each
// answer told to the model, and the tables compared with it.
namespace schedules_suite {

namespace pq = gd::pq;
namespace sql = gd::sql;

using gd::test::session;
using gd::test::temporary_database;
using clock_type = gd::turn::clock;
using ids = std::vector<std::int64_t>;
using verdict = gd::turn::flushed::verdict;

inline constexpr std::int32_t inbox_limit = 5;
/// The same of what outcomes carry.
inline constexpr std::int32_t inbox_of_nodes = 100;

// -- statements of the test's own ---------------------------------------------

inline constexpr sql::statement silence_node{
  "test_silence_node",
  "update :\"schema\".gen_durable_nodes n set seen_at = clock_timestamp() - "
  "interval '2 hours' where n.incarnation = $1::text"};

/// The table, the ledger and the inboxes, instances named after their slots.
inline constexpr sql::statement read_all{
  "test_read_all",
  "select format('instance %s: v%s, priority %s, expires %s, %s, %s, n %s, "
  "attempt %s, token [%s], awaits [%s] [%s], woken [%s], deadline %s, seq %s, "
  "history %s, in [%s]', "
  "array_position($1::bigint[], g.id) - 1, g.fsm_version, g.priority, "
  "(g.expires_at is not null)::text::char, g.status, g.step, g.state->>'n', "
  "g.attempt, g.locked_by, g.awaits, array_to_string(g.awaits_also, ','), "
  "g.wake_reason, "
  "(g.deadline is not null)::text::char, g.seq, coalesce(g.history, 0), "
  "g.ledger_step) "
  "from :\"schema\".gen_durable g where g.id = any($1::bigint[]) "
  "union all "
  "select format('instance %s: entry %s: %s, [%s] %s, attempt %s, token [%s], "
  "woken [%s], reason [%s], with [%s], by [%s], n [%s]', "
  "array_position($1::bigint[], l.instance_id) - 1, l.seq, l.outcome, "
  "l.from_step, l.to_step, l.attempt, l.token, l.wake_reason, l.reason, "
  "l.metadata, l.by, l.state->>'n') "
  "from :\"schema\".gen_durable_ledger l "
  "where l.instance_id = any($1::bigint[]) "
  "union all "
  "select format('signal to %s: %s, %s, dedup [%s]', "
  "array_position($1::bigint[], s.target_id) - 1, s.name, "
  "case when s.consumed_at is null then s.payload->>'n' end, s.dedup_key) "
  "from :\"schema\".gen_durable_signals s where s.target_id = "
  "any($1::bigint[]) "
  "union all " // [A22], [A23]: never
  "select format('instance %s: %s and due %s', "
  "array_position($1::bigint[], i.id) - 1, g.status, d) "
  "from unnest($1::bigint[]) i (id) "
  "left join :\"schema\".gen_durable g on g.id = i.id "
  "left join :\"schema\".gen_durable_due d on d.id = i.id "
  "left join lateral (select g.* where g.status = 'runnable' "
  "or g.status = 'executing' and g.partition_key is not null) r on true "
  "where (d.id, d.fsm, d.fsm_version, d.queue, d.partition_key, d.priority, "
  "d.eligible_at, d.crashes, d.executes) is distinct from (r.id, r.fsm, "
  "r.fsm_version, r.queue, r.partition_key, r.priority, r.eligible_at, "
  "r.crashes, r.status = 'executing') "
  "union all "
  "select format('instance %s: executes under %s, in no lease', "
  "array_position($1::bigint[], g.id) - 1, g.locked_by) "
  "from :\"schema\".gen_durable g "
  "where g.id = any($1::bigint[]) and g.status = 'executing' and not exists ("
  "select from :\"schema\".gen_durable_leases l "
  "where l.token = g.locked_by and g.id = any(l.ids)) "
  "union all " // the key, and what has failed, as the status says
  "select format('instance %s: %s, and holds %s, failed %s', "
  "array_position($1::bigint[], g.id) - 1, g.status, g.unique_guard, "
  "g.failed_id) "
  "from :\"schema\".gen_durable g "
  "where g.id = any($1::bigint[]) "
  "and (g.unique_guard, g.failed_id) is distinct from ("
  "case when g.status = any(g.unique_scope) then g.unique_key end, "
  "case when g.status = 'failed' then g.id end)"};

/// The clock of one row and its signals; it waits for nobody. A pick that has passed over
/// the row, for somebody had locked it, may hold its place in gen_durable_due still.
inline constexpr sql::statement elapse_row{
  "test_elapse",
  "with held as (select g.id from :\"schema\".gen_durable g "
  "where g.id = $1::bigint for no key update skip locked), "
  "due as (select d.ctid as tuple from :\"schema\".gen_durable_due d "
  "where d.id in (select h.id from held h) for no key update skip locked), "
  "leases as (select l.ctid as tuple from :\"schema\".gen_durable_leases l "
  "where (select h.id from held h) = any(l.ids) "
  "for no key update skip locked), "
  "free as (select h.id from held h where (select count(*) from due) = "
  "(select count(*) from :\"schema\".gen_durable_due d where d.id = h.id) and "
  "(select count(*) from leases) = (select count(*) from "
  ":\"schema\".gen_durable_leases l where h.id = any(l.ids))), "
  "sent as (update :\"schema\".gen_durable_signals s set "
  "inserted_at = s.inserted_at - interval '2 hours', "
  "consumed_at = s.consumed_at - interval '2 hours' "
  "where s.target_id in (select f.id from free f)), "
  "due_then as (update :\"schema\".gen_durable_due d set "
  "eligible_at = d.eligible_at - interval '2 hours' "
  "where d.id in (select f.id from free f)), "
  "leases_then as (update :\"schema\".gen_durable_leases l set "
  "expires_at = l.expires_at - interval '2 hours' "
  "where (select f.id from free f) = any(l.ids)) "
  "update :\"schema\".gen_durable g set "
  "inserted_at = g.inserted_at - interval '2 hours', "
  "expires_at = g.expires_at - interval '2 hours', "
  "lease_expires_at = g.lease_expires_at - interval '2 hours', "
  "deadline = g.deadline - interval '2 hours', "
  "eligible_at = g.eligible_at - interval '2 hours' "
  "where g.id in (select f.id from free f) returning g.id"};

/// Of these ids, who is there; and what is remembered of signals, committed.
inline constexpr sql::statement who_is_there{
  "test_who_is_there",
  "select g.id from :\"schema\".gen_durable g where g.id = any($1::bigint[])"};
inline constexpr sql::statement dedup_keys{
  "test_dedup_keys",
  "select s.target_id as id, s.dedup_key from :\"schema\".gen_durable_signals "
  "s "
  "where s.dedup_key is not null and s.target_id = any($1::bigint[])"};

/// What nodes would have made known of the machine, in its versions.
inline std::string machines_script() {
  std::string out;
  for (std::size_t i = 0; i < kept_by_version.size(); ++i) {
    auto us = [](int minutes) {
      return std::to_string(minutes * 60'000'000LL);
    };
    auto time = us(kept_by_version[i].minutes);
    out += "insert into gen_durable_machines (fsm, version, initial_step, "
           "queue, steps, outside, retention, forget_dedup_after) "
           "select 'Order', "
           + std::to_string(i + 1)
           + ", 's0', 'default', "
             "array(select 's' || n from generate_series(0, 999) n), "
             "(select jsonb_object_agg('s' || n, case n "
             "when 900 then jsonb_build_object('to', array['s0', 's990'], "
             "'rests', true, 'ends', false, 'after_us', 3600000000) "
             "when 990 then jsonb_build_object('to', array[]::text[], 'rests', "
             "false, 'ends', true) "
             "else jsonb_build_object('to', array['s0', 's900', 's990'], "
             "'rests', false, 'ends', false) end) "
             "from generate_series(0, 999) n where n < 50 or n in (900, 990)), "
           + (i == 0 ? "null, null;"s
                     : "'{\"done\": " + time + ", \"failed\": " + time
                         + ", \"resend\": " + us(young_minutes)
                         + "}', interval '1 hour';");
  }
  return out;
}
/// As if the session had ended and another had begun, but cheaper.
inline constexpr sql::statement renew_session{
  "test_renew_session",
  "select pg_advisory_unlock_all(), "
  "set_config('gd.session', gen_random_uuid()::text, false)"};

inline constexpr sql::statement count_locks{"test_count_locks",
                                            gd::test::count_locks};

/// A statement of the library's, or a function of the schema, with a fault of the kind that
/// it exists to avoid. Its text is the library's, but for one place.
struct mutant {
  std::string title;
  /// Null: it is the function of this name.
  const sql::statement* original = nullptr;
  std::string function{};
  std::string what;
  std::string with;
  std::string text{};
  sql::statement naive{};
  /// From which seed on a schedule is looked for that finds it: a fault that few do
  /// is looked for where one has.
  std::uint64_t seed;
  features about;

  mutant(std::string name, const sql::statement& of, std::string place,
         std::string other, std::uint64_t first = 1, features which = 0)
    : title(std::move(name)),
      original(&of),
      what(std::move(place)),
      with(std::move(other)),
      text(changed(of.text)),
      seed(first),
      about(which) {
    naive = {title, text}; // prepared beside the original
  }
  mutant(std::string name, std::string of, std::string place, std::string other,
         std::uint64_t first, features which)
    : title(std::move(name)),
      function(std::move(of)),
      what(std::move(place)),
      with(std::move(other)),
      seed(first),
      about(which) {
    // nop
  }
  mutant(const mutant&) = delete;
  mutant& operator=(const mutant&) = delete;

  std::string changed(std::string_view of) const {
    std::string out{of};
    auto at = out.find(what);
    if (at == std::string::npos)
      throw std::logic_error{title + ": not in the text: " + what};
    return out.replace(at, what.size(), with);
  }
};

/// The elements of a parameter that is an array, as they travel.
inline std::vector<std::string> elements(const std::string& array) {
  auto number = [&array](std::size_t at) {
    std::size_t x = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      x = x << 8U | static_cast<unsigned char>(array[i]);
    return x;
  };
  std::vector<std::string> xs;
  for (std::size_t at = 20; at < array.size();) {
    auto size = number(at);
    xs.push_back(array.substr(at + 4, size));
    at += 4 + size;
  }
  return xs;
}

inline std::int64_t to_integer(const std::string& bytes) {
  std::uint64_t x = 0;
  for (char c : bytes)
    x = x << 8U | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(x);
}

// -- the world ----------------------------------------------------------------

/// A unit of work on its way through the server.
struct transaction {
  pq::unit work;
  std::size_t at = 0;
  bool begun = false;
  /// While it ran, somebody else may have held a row's lock.
  bool contended = false;
  std::vector<pq::rows> answers{};
  /// Of a sender: serials are drawn when it begins. Those that are named by their key
  /// learn their target by `lock_named`.
  std::vector<signal_model> signals{};
  /// Of whoever is not an engine: what a statement is answered with, as of then, and what
  /// becomes of the instance when that counts.
  std::function<void(const pq::rows&, bool contended)> answered{};
  std::function<void()> applied{};
  /// Whether it may fail so.
  std::function<bool(const gd::error&, bool contended)> may_fail{};
};

struct held_row {
  store::picked_row row;
  std::string token;
  bool decided = false;
  bool said_twice = false; ///< by a worker
  /// The lock of its key is not this picker's to let go.
  bool lockless = false;
};

/// A connection, and what is under way there.
struct line {
  std::unique_ptr<pq::connection> on{};
  std::optional<transaction> open{};
  /// What the client has lost, and the server is still at.
  std::unique_ptr<pq::connection> spare{};
  std::optional<transaction> orphan{};
};

struct party {
  std::string application;
  /// A node has two, for the two transactions of a turn; a sender uses one.
  std::array<line, 2> lines{};

  // Of a node:
  std::string incarnation{};
  std::shared_ptr<gd::quarantine> suspects{};
  std::unique_ptr<gd::turn> work{};
  clock_type::time_point now{};
  std::map<std::uint64_t, held_row> holding{}; // by tag
  /// With workers: their leases are its own.
  std::vector<held_row> elsewhere{};
  std::uint64_t tags = 0;
  std::uint64_t next_pick = 1;
};

/// How often a node has begun a transaction while it had another, in all worlds.
inline std::atomic<int> beside_each_other = 0;
/// How many outcomes were refused for a signal that they carry, and how many transactions have
/// signalled.
inline std::atomic<int> sends_refused = 0;
inline std::atomic<int> sends_committed = 0;
/// How many keys have gone from a row to the next with an outcome.
inline std::atomic<int> keys_passed_on = 0;

/// A database with everybody who works with it.
class world {
public:
  world() {
    db_.migrate();
    // Small tables are planned anew each time otherwise: most of the test's time.
    db_.rows("alter database " + gd::test::quoted_name(db_.name())
             + " set plan_cache_mode = 'force_generic_plan'");
    db_.rows(machines_script());
    control_ = connect("gen_durable/control");
    for (std::size_t i = 0; i < party_count; ++i) {
      auto& x = parties_[i];
      x.incarnation = "n" + std::to_string(i) + "/0123" + std::to_string(i);
      x.application = "gen_durable/0123" + std::to_string(i) + " n";
      for (auto& at : x.lines) {
        at.on = connect(x);
        at.spare = connect(x);
      }
    }
  }

  /// From now on this statement goes in place of the library's.
  void break_with(const mutant& what) {
    if (!mended_.empty())
      db_.rows(std::exchange(mended_, {}));
    fault_ = what.original != nullptr ? &what : nullptr;
    if (what.original != nullptr)
      return;
    mended_ = *db_
                 .rows("select pg_get_functiondef('" + what.function
                       + "'::regproc)")
                 .front()
                 .front();
    db_.rows(what.changed(mended_));
  }

  /// What is wrong with what it leads to, if anything is.
  std::optional<std::string> run(const schedule& what) {
    // A job would do something with the rows of those before.
    bool all = std::any_of(what.begin(), what.end(),
                           [](const auto& x) { return x.what == act::job; });
    if (dirty_ || all || ++runs_ % 500 == 0)
      clean();
    dirty_ = true;
    model_ = {};
    carried_.clear();
    limit_ = inbox_limit;
    versions_ = 1;
    for (const auto& x : what)
      if (x.what == act::insert)
        versions_ = std::max(versions_, version_of(x));
    for (std::size_t i = 0; i < node_count; ++i)
      start(parties_[i]);
    try {
      for (const auto& x : what) {
        apply(x);
        if (x.what != act::outcome) // which is not sent yet
          compare();
      }
      run_all();
    } catch (const violation& x) {
      return x.what();
    }
    dirty_ = false;
    return std::nullopt;
  }

private:
  // -- connections ------------------------------------------------------------

  std::unique_ptr<pq::connection> connect(const std::string& application) {
    auto opts = db_.options();
    opts.application_name = application;
    opts.lock_timeout = 1s; // nothing waits that long but for a fault
    auto x = std::make_unique<pq::connection>(std::move(opts));
    if (auto ok = x->wait_ready(); !ok)
      throw std::runtime_error{gd::to_string(ok.error())};
    return x;
  }

  /// As a session of this node's.
  std::unique_ptr<pq::connection> connect(const party& x) {
    auto made = connect(x.application);
    ask(
      *made,
      store::register_session(
        {.incarnation = x.incarnation, .node = "n", .host = "h", .lease = 1h}));
    return made;
  }

  pq::reply send(pq::connection& on, pq::unit work) const {
    if (fault_ != nullptr)
      for (auto& x : work.calls)
        if (x.what == fault_->original)
          x.what = &fault_->naive;
    return on.run(work);
  }

  /// A single statement, which must not fail.
  pq::rows ask(pq::connection& on, pq::call what) const {
    auto reply = send(on, {{std::move(what)}, false});
    if (!reply.ok())
      throw violation{gd::to_string(*reply.failure)};
    return std::move(reply.results.front());
  }

  void renew(pq::connection& on) const {
    ask(on, {&renew_session, {}});
  }

  static gd::error lost() {
    return {gd::errc::unknown_fate, "the connection is lost", {}};
  }

  /// Whether somebody may hold a row's lock.
  bool anybody_else(const transaction& than) const {
    for (const auto& x : parties_)
      for (const auto& at : x.lines)
        if ((at.open && &*at.open != &than)
            || (at.orphan && &*at.orphan != &than))
          return true;
    return false;
  }

  void rollback(pq::connection& on) const {
    ask(on, {&sql::rollback, {}});
  }

  /// After a failure: whatever is under way goes, and so do all rows.
  void clean() {
    for (auto& x : parties_)
      for (auto& at : x.lines) {
        if (at.open)
          rollback(*at.on);
        if (at.orphan)
          rollback(*at.spare);
        at.open.reset();
        at.orphan.reset();
        renew(*at.on);
        renew(*at.spare);
      }
    db_.rows("truncate gen_durable, gen_durable_ledger, gen_durable_jobs, "
             "gen_durable_queues cascade");
  }

  // -- transactions -----------------------------------------------------------

  /// Runs the next `n` statements (0: all), commits behind the last, and tells
  /// the model. A failure that may be rolls back.
  std::optional<pq::reply> advance(pq::connection& on, transaction& t,
                                   std::size_t n) {
    t.contended = t.contended || anybody_else(t);
    auto size = t.work.calls.size();
    auto until = n == 0 ? size + 1 : std::min(t.at + n, size + 1);
    bool asks = t.work.accept != nullptr && until > size;
    pq::reply reply;
    bool whole = !t.begun && until > size;
    if (whole) {
      reply = send(on, t.work); // just as the library does
    } else {
      pq::unit part{{}, false};
      if (!t.begun)
        part.calls.push_back({&sql::begin, {}});
      for (auto i = t.at; i < std::min(until, size); ++i)
        part.calls.push_back(t.work.calls[i]);
      if (until > size && !asks)
        part.calls.push_back({&sql::commit, {}});
      if (!part.calls.empty())
        reply = send(on, std::move(part));
      if (reply.ok() && !t.begun)
        reply.results.erase(reply.results.begin());
      else if (!t.begun && reply.failed_call > 0)
        --reply.failed_call;
      reply.failed_call += t.at;
    }
    if (!reply.ok()) {
      if (reply.declined)
        return reply;
      check_failure(t, reply);
      require(on.state() == pq::connection::phase::idle, "a dead connection");
      if (!whole)
        rollback(on);
      if (reply.failed_call >= t.work.leaves_traces_from)
        renew(on); // instead of closing it
      return reply;
    }
    t.begun = true;
    for (auto i = t.at; i < std::min(until, size); ++i) {
      t.answers.push_back(std::move(reply.results[i - t.at]));
      if (writes_any(t.work.calls[i]))
        check_holders(t);
      if (t.work.calls[i].what == &sql::lock_named)
        find_named(t);
      else if (t.answered && i + 1 == size)
        t.answered(t.answers.back(), t.contended);
    }
    t.at = until;
    if (until <= size)
      return std::nullopt;
    if (asks && !whole) {
      if (!t.work.accept(t.answers))
        return declined(on, t);
      ask(on, {&sql::commit, {}});
    }
    commit(t);
    reply.results = t.answers;
    return reply;
  }

  /// As the library does it, statement by statement.
  pq::reply declined(pq::connection& on, transaction& t) {
    rollback(on);
    pq::reply reply;
    reply.results = std::move(t.answers);
    reply.failed_call = t.work.calls.size();
    reply.failure = gd::error{gd::errc::rejected, "declined", {}};
    reply.declined = true;
    return reply;
  }

  /// Of these, a row's unique key may be taken.
  static bool writes_any(const pq::call& x) {
    return x.what == &sql::flush || x.what == &sql::flush_ledger
           || x.what == &sql::flush_keep || x.what == &sql::flush_erase;
  }

  /// Whom the signals are for: who has the key now, unless somebody may be moving it.
  void find_named(transaction& t) {
    std::string named{t.answers.back().text(0, 0)};
    const auto* holder = model_.holder();
    for (auto& s : t.signals) {
      s.to_nobody = named == "{NULL}";
      require(t.contended || s.to_nobody == (holder == nullptr),
              "a key names somebody who does not have it, or nobody");
      if (s.to_nobody)
        continue;
      auto id = std::stoll(named.substr(1));
      s.target = model_.slot_of(id);
      require(t.contended || id == holder->id,
              "a key names somebody who does not have it");
    }
  }

  static void check_failure(const transaction& t, const pq::reply& reply) {
    const auto& why = *reply.failure;
    bool may = t.may_fail && t.may_fail(why, t.contended);
    if (reply.failed_call < t.work.calls.size()) {
      bool waits = t.work.calls.front().what == &sql::lock_timeout
                   || (t.work.calls.size() > 1
                       && t.work.calls[1].what == &sql::lock_timeout)
                   || (t.work.calls.size() > 2
                       && t.work.calls[2].what == &sql::lock_timeout);
      may = may || (why.code == gd::errc::busy && waits)
            || (why.sqlstate == "23505"
                && writes_any(t.work.calls[reply.failed_call]));
    }
    require(may, "a statement failed: " + gd::to_string(why));
  }

  /// As of the last statement, not of the commit: who has the key may have got it
  /// from one before.
  void check_holders(const transaction& t) {
    std::set<std::int64_t> holders;
    if (const auto* x = model_.holder())
      holders.insert(x->id);
    for (std::size_t i = 0; i + 1 < t.answers.size(); ++i)
      if (writes_any(t.work.calls[i]))
        for (const auto& x : store::read_flush(t.answers[i]))
          if (x.applied)
            holders.insert(x.id);
    for (const auto& x : store::read_flush(t.answers.back()))
      require(!x.holder || holders.contains(*x.holder),
              "an outcome gives way to one that does not have its key");
  }

  /// Tells the model what the answers mean, now that they count.
  void commit(transaction& t) {
    if (t.applied)
      t.applied();
    std::vector<store::picked_row> picked, passed_on;
    std::set<std::int64_t> kept;
    std::string token;
    for (std::size_t i = 0; i < t.work.calls.size(); ++i) {
      const auto* what = t.work.calls[i].what;
      const auto& args = t.work.calls[i].args.values();
      const auto& rows = t.answers[i];
      if (what == &sql::release_lost)
        released(elements(args[0]), store::read_ids(rows));
      else if (what == &sql::flush_done || what == &sql::flush_next
               || what == &sql::flush_done_ledger
               || what == &sql::flush_next_ledger
               || what == &sql::flush_done_keep || writes_any(t.work.calls[i]))
        flushed(t, elements(args[0]), elements(args[1]), rows, "",
                what == &sql::flush_erase);
      else if (what == &sql::flush_advance
               || what == &sql::flush_advance_ledger)
        flushed(t, elements(args[0]), elements(args[1]), rows, args[5]);
      else if ((what == &sql::signal || what == &sql::signal_named)
               && t.work.accept)
        signalled(t, carried_in(elements(args[1])), rows, inbox_of_nodes);
      else if (what == &sql::signal || what == &sql::signal_named)
        signalled(t, t.signals, rows, limit_);
      else if (what == &sql::heartbeat)
        extended(t, elements(args[0]), rows);
      else if (what == &sql::reap)
        reaped(t, rows);
      else if (what == &sql::wake_due)
        woken(t, rows);
      else if (what == &sql::return_row)
        returned(rows);
      else if (what == &sql::pick || what == &sql::pick_keyed
               || what == &sql::pick_suspects || what == &sql::pick_these) {
        picked = store::read_pick(rows).rows;
        token = args[0];
      } else if (what == &sql::pick_next_of_keys) {
        passed_on = store::read_pick(rows, {}).rows;
        token = args[0];
      } else if (what == &sql::hold_keys) {
        for (const auto& x : store::read<store::held_key>(rows))
          kept.insert(x.id);
      }
    }
    for (const auto& x : passed_on)
      took(x, token);
    for (const auto& x : picked)
      if (!x.partition_key || kept.contains(x.id))
        took(x, token);
    model_.check();
  }

  /// A step is shown the inbox as it is; the model learns the signals' ids.
  void is_shown(std::size_t slot, const std::vector<gd::raw_signal>& inbox,
                const std::string& which) {
    std::vector<std::string> shown, there;
    for (const auto& s : inbox)
      shown.push_back(s.name + s.payload);
    for (auto* s : model_.inbox(slot)) {
      auto payload = "{\"n\": " + text(s->serial) + "}";
      there.push_back(s->name + payload);
      for (const auto& seen : inbox)
        if (seen.payload == payload)
          s->id = seen.id;
    }
    require(shown == there, which + " with another inbox");
  }

  void took(const store::picked_row& row, const std::string& token) {
    auto slot = model_.slot_of(row.id);
    auto& x = model_.instances[slot];
    auto which = "a pick of instance " + std::to_string(slot);
    require(x.status == "runnable", which + " that is " + x.status);
    require(x.eligible, which + " before its time");
    require(row.step == x.step && row.attempt == x.attempt
              && row.crashes == x.crashes && row.wake_reason == x.woken
              && row.history == x.history && row.fsm_version == x.version,
            which + ": " + row.step + ", attempt " + text(row.attempt)
              + ", woken [" + row.wake_reason + "], committed is " + x.step
              + ", attempt " + text(x.attempt) + ", woken [" + x.woken + "]");
    is_shown(slot, row.inbox, which);
    x.status = "executing";
    x.token = token;
  }

  void released(const std::vector<std::string>& tokens, const ids& found) {
    for (auto id : found) {
      auto& x = model_.of(id);
      require(x.status == "executing"
                && std::count(tokens.begin(), tokens.end(), x.token) > 0,
              "a lost pick releases what is not its own");
      model_.end_lease(x, "runnable");
    }
  }

  void flushed(const transaction& t, const std::vector<std::string>& row_ids,
               const std::vector<std::string>& tokens, const pq::rows& rows,
               const std::string& new_token, bool erases = false) {
    std::map<std::int64_t, store::flushed_row> answers;
    for (const auto& x : store::read_flush(rows))
      answers.emplace(x.id, x);
    for (std::size_t i = 0; i < row_ids.size(); ++i) {
      auto id = to_integer(row_ids[i]);
      auto slot = model_.slot_of(id);
      auto& x = model_.instances[slot];
      // One that is the same of all is there once.
      const auto& token = tokens[tokens.size() == 1 ? 0 : i];
      auto which = "an outcome of instance " + std::to_string(slot)
                   + " under token " + token;
      auto found = answers.find(id);
      if (found == answers.end()) {
        require(t.contended || x.deleted(), which + " is locked by nobody");
        continue;
      }
      bool fenced = x.status == "executing" && x.token == token;
      if (!found->second.applied) {
        require(!fenced || found->second.holder, which + " is refused");
        continue;
      }
      require(fenced, which + " is applied to a row that is " + x.status
                        + " under token [" + x.token + "]");
      auto& what = model_.outcomes.at({id, token});
      require(!what.applied, which + " is applied twice");
      what.applied = true;
      model_.write(x, what, new_token, erases);
    }
  }

  /// By their payloads.
  std::vector<signal_model>
  carried_in(const std::vector<std::string>& payloads) const {
    std::vector<signal_model> out;
    ++sends_committed;
    for (const auto& x : payloads)
      out.push_back(carried_.at(std::stoll(x.substr(x.find(':') + 1))));
    return out;
  }

  void signalled(const transaction& t, const std::vector<signal_model>& sent,
                 const pq::rows& rows, std::int32_t limit) {
    using answer = store::signal_answer;
    auto answers = store::read<store::signal_row>(rows);
    require(answers.size() == sent.size(), "a signal without an answer");
    std::map<std::size_t, std::size_t> before, accepted;
    for (const auto& s : sent)
      before[s.target] = model_.inbox(s.target).size();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto& s = sent[i];
      auto& x = model_.instances[s.target];
      auto got = answers[i].answer;
      auto full = before[s.target] + accepted[s.target]
                  >= static_cast<std::size_t>(limit);
      auto expected = answer::accepted;
      if (got == answer::locked && t.contended && !s.to_nobody)
        continue;
      if (s.to_nobody || x.deleted())
        expected = answer::no_such_target;
      else if (!s.dedup.empty()
               && std::any_of(model_.signals.begin(), model_.signals.end(),
                              [&](const auto& other) {
        return other.target == s.target && other.dedup == s.dedup;
                  }))
        expected = answer::duplicate;
      else if (x.finished())
        expected = answer::target_finished;
      else if (full)
        expected = answer::inbox_full;
      require(got == expected, "a signal to instance "
                                 + std::to_string(s.target) + " is answered "
                                 + text(static_cast<int>(got)) + ", expected "
                                 + text(static_cast<int>(expected)));
      if (got != answer::accepted)
        continue;
      ++accepted[s.target];
      model_.signals.push_back(s);
      if (x.status == "awaiting_signal" && x.awaits_any(s.name))
        model_.wake(x, "signal");
    }
  }

  void extended(const transaction& t, const std::vector<std::string>& asked,
                const pq::rows& rows) {
    auto beats = store::read<store::beat>(rows);
    auto there = std::count_if(asked.begin(), asked.end(), [this](auto& id) {
      return !model_.of(to_integer(id)).deleted();
    });
    require(std::ssize(beats) == there || t.contended,
            "a heartbeat passes over a free row");
    for (const auto& beat : beats) {
      auto& x = model_.of(beat.id);
      bool fenced = x.status == "executing" && x.token == beat.token;
      require(fenced == beat.extended,
              fenced ? "a heartbeat calls a good lease lost"
                     : "a heartbeat extends another's lease");
      if (fenced)
        x.lease_over = false;
    }
  }

  /// Rows of a sweep: all that are due, but for those that somebody holds.
  template <class Rows, class Due, class Then>
  void swept(const transaction& t, const Rows& rows, const std::string& what,
             Due due, Then then) {
    std::size_t expected = 0;
    for (const auto& x : model_.instances)
      expected += x.id != 0 && due(x) ? 1 : 0;
    require(rows.size() == expected || t.contended,
            what + " passes over a free row");
    for (const auto& row : rows) {
      auto& x = model_.of(row.id);
      require(due(x), what + " of a row that is not due");
      then(x);
    }
  }

  void reaped(const transaction& t, const pq::rows& rows) {
    swept(
      t, store::read<store::reaped_row>(rows), "a reap",
      [](const auto& x) {
      return x.status == "executing" && x.lease_over && !x.unsure();
      },
      [this](auto& x) { reaped(x); });
  }

  void reaped(instance_model& x) {
    auto made = model::make_transition("reap", x);
    model_.end_lease(x, "runnable");
    ++x.attempt;
    ++x.crashes;
    model::count(x, made);
  }

  void woken(const transaction& t, const pq::rows& rows) {
    swept(
      t, store::read<store::moved_row>(rows), "a wake",
      [](const auto& x) {
      return x.status == "awaiting_signal" && x.deadline && x.deadline_over;
      },
      [this](auto& x) {
      model_.wake(x, "timeout");
      if (x.owed())
        x.deadline = x.deadline_over = false;
    });
  }

  void returned(const pq::rows& rows) {
    auto row = store::read_one<store::returned_row>(rows);
    if (!row)
      return;
    auto& x = model_.of(row->id);
    require(x.owed() || (x.status == "executing" && x.lease_over),
            "a row returns that is not due");
    require(row->runnable == (model_.holder() == nullptr),
            "a row returns though its unique key is taken, or does not "
            "though it is free");
    x.lease_over = false;
    if (!row->runnable)
      return;
    if (x.status == "executing")
      return reaped(x);
    x.eligible = x.eligible || x.owed();
    x.await_nothing();
    model_.end_lease(x, "runnable");
  }

  // -- nodes ------------------------------------------------------------------

  void start(party& x) {
    x.holding.clear();
    x.elsewhere.clear();
    x.tags = 0;
    x.next_pick = 1;
    make_turn(x);
  }

  void make_turn(party& x) {
    x.now = clock_type::time_point{} + 1h;
    x.suspects = std::make_shared<gd::quarantine>();
    x.work = std::make_unique<gd::turn>(
      gd::turn::settings{.queue = "default",
                         .incarnation = x.incarnation,
                         .first_pick = x.next_pick,
                         .machines = served(),
                         .lease = 1h,
                         .inbox = inbox_of_nodes,
                         .resend = std::chrono::minutes{young_minutes},
                         .suspects = x.suspects,
                         .transactions = 2,
                         .worth_a_transaction = 1,
                         .key_time = 1h});
  }

  std::vector<gd::machine_version> served() const {
    std::vector<gd::machine_version> out;
    for (std::int32_t i = 1; i <= versions_; ++i)
      out.push_back({"Order", i});
    return out;
  }

  /// Begins a transaction, or goes on with that of the line.
  void turn(party& x, std::size_t which, std::int32_t want, std::size_t n) {
    if (!x.lines[which].open) {
      x.now += 1s; // back-offs are over
      if (model_.paused)
        want = 0;
      // Whatever is wanted, keys pass on: most of what is picked is wanted otherwise.
      auto work = x.work->begin(want, x.now, 0, true, model_.paused ? 0 : 10);
      if (!work)
        return;
      which = work->transaction;
      x.lines[which].open.emplace(transaction{std::move(work->work)});
      if (x.lines[1 - which].open)
        ++beside_each_other;
    }
    auto& at = x.lines[which];
    if (auto reply = advance(*at.on, *at.open, n)) {
      at.open.reset();
      finish(x, which, std::move(*reply));
    }
  }

  void finish(party& x, std::size_t which, pq::reply reply) {
    auto report = x.work->finish(which, std::move(reply), x.now);
    if (report.on_trial)
      x.suspects->end_trial();
    for (auto& row : report.picked) {
      x.suspects->ended(row.id, false);
      x.holding.emplace(++x.tags, held_row{std::move(row), report.token});
    }
    for (auto& row : report.rows)
      collect(x, row);
  }

  void collect(party& x, const gd::turn::flushed& what) {
    auto& held = x.holding.at(what.tag);
    bool applied = model_.outcomes.at({what.row->id, what.row->token}).applied;
    switch (what.what) {
      case verdict::applied:
        require(applied, "an outcome is called applied and is not");
        if (what.row->what == write_kind::advance)
          return go_on(held, what);
        break;
      case verdict::stale:
        require(!applied || held.said_twice,
                "an outcome is called stale and is applied");
        break;
      case verdict::unknown:
        break;
      case verdict::refused:
        require(what.effect && !applied,
                "an outcome is refused: " + gd::to_string(what.why));
        ++sends_refused;
        return decide(x, what.tag, write_kind::stop, 0);
      case verdict::collided:
        // As without a handler.
        return decide(x, what.tag, write_kind::stop, 0);
    }
    if (what.key_passed_on)
      ++keys_passed_on;
    else
      unlock(x, held);
    x.holding.erase(what.tag);
  }

  static std::optional<store::key_hold> hold_of(const held_row& held) {
    return held.lockless ? std::nullopt : store::hold_of(held.row);
  }

  static void unlock(party& x, const held_row& held) {
    if (auto key = hold_of(held))
      x.work->unlock(std::move(*key));
  }

  /// The row's next step begins with what is in its inbox now.
  void go_on(held_row& held, const gd::turn::flushed& what) {
    auto slot = model_.slot_of(what.row->id);
    auto inbox = what.inbox.value(); // short enough
    is_shown(slot, inbox, "an advance of instance " + std::to_string(slot));
    held.row.step = what.row->step;
    held.row.state = what.row->state;
    held.row.attempt = 0;
    held.row.inbox = std::move(inbox);
    held.token = what.next_token;
    held.decided = false;
  }

  /// `choices`: two bits for each of four signals, whether to look at it or to
  /// take it; then what the kind of outcome leaves open.
  /// `sends`: see `sending_of`, or zero.
  void decide(party& x, std::uint64_t tag, write_kind what, unsigned choices,
              unsigned sends = 0) {
    auto& held = x.holding.at(tag);
    held.decided = true;
    decided out;
    auto& row = out.row;
    row.id = held.row.id;
    row.token = held.token;
    row.what = what;
    auto step = std::stoll(held.row.step.substr(1));
    auto n = std::stoll(held.row.state.substr(held.row.state.find(':') + 1));
    out.n = n + 1;
    row.state = "{\"n\": " + text(out.n) + "}";
    auto more = choices >> 8U;
    switch (what) {
      case write_kind::next:
        row.step = "s" + text(step + 1);
        if (more >> 1U == 1) {
          row.what = write_kind::park;
          row.timeout_us = 3'600'000'000; // or nothing would end it
        } else if (more >> 1U == 2) {
          row.what = write_kind::finish;
        } else if (more >> 1U == 3) {
          row.what = write_kind::later;
          row.delay_us = 3'600'000'000;
        } else if ((more & 1U) != 0 && !held.row.partition_key) {
          row.what = write_kind::advance;
        }
        break;
      case write_kind::advance:
      case write_kind::park:
      case write_kind::finish:
      case write_kind::later:
        throw violation{"it is decided above"};
      case write_kind::replay:
        row.delay_us = (more & 1U) != 0 ? 3'600'000'000 : 0;
        break;
      case write_kind::await:
        row.awaits = names[more & 1U];
        if ((more & 8U) != 0)
          row.awaits_also = {"lost", names[1 - (more & 1U)]};
        if ((more >> 1U) % 4 == 2)
          row.timeout_us = 3'600'000'000;
        else if ((more >> 1U) % 4 == 3)
          row.until_us = 1'000'000; // has passed
        break;
      case write_kind::done:
        row.result = "{}";
        break;
      case write_kind::stop:
        row.reason = "no";
        break;
      case write_kind::release:
        row.state.clear();
        break;
    }
    if (held.row.history > 0) {
      row.has_history = true;
      if ((more & 4U) != 0)
        row.metadata = "{\"of\": " + text(out.n) + "}";
      if ((more & 8U) != 0 && row.what != write_kind::advance)
        row.failure = "broken";
    }
    row.may_collide = row.what != write_kind::advance
                      && store::may_collide(held.row, row.what);
    if (sends > 0 && what != write_kind::replay && what != write_kind::release)
      row.carried = carry(sending_of(sends));
    if (auto minutes = model_.of(row.id).keep_minutes();
        minutes >= 0 && store::end_of(row.what)) {
      row.keep_us = minutes * 60'000'000LL;
      row.erase = minutes == 0 && !row.carried;
    }
    if (what != write_kind::replay && what != write_kind::stop
        && what != write_kind::release)
      for (std::size_t i = 0; i < held.row.inbox.size() && i < 4; ++i) {
        auto look = choices >> (2 * i) & 3U;
        if (look > 1)
          row.consumed.push_back(held.row.inbox[i].id);
        if (look > 0)
          row.seen.push_back(held.row.inbox[i].id);
      }
    x.work->add(std::make_unique<store::outcome_row>(row), tag, hold_of(held));
    model_.outcomes.insert_or_assign({row.id, row.token}, std::move(out));
  }

  std::shared_ptr<gd::effects> carry(const sending& how) {
    signal_model s;
    s.serial = ++model_.serials;
    s.target = how.target;
    s.to_nobody = model_.instances[s.target].id == 0;
    s.name = how.name;
    auto out = std::make_shared<gd::effects>();
    out->signals.push_back({to_signal(s), how.or_fail});
    carried_.insert_or_assign(s.serial, s);
    return out;
  }

  /// A row that has not begun is sent to a worker.
  void hand_out(party& x, std::size_t which) {
    auto free = undecided(x);
    if (free.empty())
      return;
    auto row = x.holding.extract(free[which % free.size()]);
    x.elsewhere.push_back(std::move(row.mapped()));
  }

  /// What a worker says of a row comes to a picker that may not know of it any more; twice,
  /// where the answer to the first is lost.
  void report(party& x, std::size_t which, write_kind what, unsigned choices,
              bool twice) {
    if (x.elsewhere.empty())
      return;
    auto at = x.elsewhere.begin()
              + static_cast<std::ptrdiff_t>(which % x.elsewhere.size());
    auto tag = ++x.tags;
    x.holding.emplace(tag, std::move(*at));
    x.elsewhere.erase(at);
    decide(x, tag, what, choices);
    auto& held = x.holding.at(tag);
    const auto& said = model_.outcomes.at({held.row.id, held.token}).row;
    if (!twice || said.what == write_kind::advance || said.may_collide)
      return;
    held.said_twice = true;
    auto again = held;
    again.lockless = true; // its lock goes with the first
    x.holding.emplace(++x.tags, std::move(again));
    x.work->add(said, x.tags);
  }

  static std::vector<std::uint64_t> undecided(const party& x) {
    std::vector<std::uint64_t> free;
    for (const auto& [tag, held] : x.holding)
      if (!held.decided)
        free.push_back(tag);
    return free;
  }

  void heartbeat(party& x, bool drops) {
    std::vector<gd::lease_ptr> leases;
    std::set<std::int64_t> twice;
    auto add = [&](const held_row& held) {
      if (!held.said_twice || twice.insert(held.row.id).second)
        leases.push_back(std::make_shared<gd::lease>(held.row.id, held.token));
    };
    for (const auto& [tag, held] : x.holding)
      add(held);
    for (const auto& held : x.elsewhere)
      add(held);
    if (leases.empty())
      return;
    transaction t{{{store::heartbeat(leases, 1h)}}};
    advance(*control_, t, 0);
    if (!drops)
      return;
    for (const auto& beat : store::read<store::beat>(t.answers.front()))
      for (auto i = x.holding.begin(); !beat.extended && i != x.holding.end();)
        if (i->second.token == beat.token && i->second.row.id == beat.id
            && !i->second.decided) {
          unlock(x, i->second);
          i = x.holding.erase(i);
        } else {
          ++i;
        }
  }

  // -- faults -----------------------------------------------------------------

  void cut(party& x, std::size_t which, unsigned how) {
    auto& at = x.lines[which];
    if (!at.open) {
      renew(*at.on);
      return;
    }
    if (how == 2 && !at.orphan) {
      at.orphan = std::move(at.open);
      std::swap(at.on, at.spare);
    } else if (how == 1) {
      advance(*at.on, *at.open, 0);
      renew(*at.on);
    } else {
      rollback(*at.on);
      renew(*at.on);
    }
    at.open.reset();
    if (x.work)
      finish(x, which, {{}, lost(), 0});
  }

  void late(line& at, bool committed) {
    if (!at.orphan)
      return;
    if (committed)
      advance(*at.spare, *at.orphan, 0);
    else
      rollback(*at.spare);
    at.orphan.reset();
    renew(*at.spare);
  }

  void crash(party& x, bool tidy) {
    auto last = x.work->abandon().release;
    for (std::size_t i = 0; i < x.lines.size(); ++i) {
      auto& at = x.lines[i];
      if (at.open) {
        if (tidy)
          advance(*at.on, *at.open, 0);
        else
          rollback(*at.on);
        at.open.reset();
      }
      if (tidy && last[i]) {
        transaction t{std::move(*last[i])};
        advance(*at.on, t, 0);
      }
      renew(*at.on);
    }
    x.holding.clear();
    for (auto& held : x.elsewhere) // workers go on with what they have
      held.lockless = true;
    x.next_pick += 1'000;
    make_turn(x);
  }

  // -- sweeps -----------------------------------------------------------------

  void reap() {
    transaction t{{{store::end_leases(100), store::locked_leases(100, 30min),
                    store::reap(100)}}};
    advance(*control_, t, 0);
    for (const auto& x : store::read<store::silent_session>(
           ask(*control_, store::silent_sessions("control"))))
      if (ask(*control_, store::end_silent_session(x)).size() > 0)
        end_session(x.process);
  }

  void wake() {
    transaction t{{{store::wake_due(100), store::returning(100, true)}}};
    advance(*control_, t, 0);
    for (auto id : store::read_ids(t.answers[1])) {
      transaction one{
        {{store::lock_timeout(10ms), store::return_row(id, true)}}};
      advance(*control_, one, 0);
    }
  }

  /// A node has said nothing for longer than its lease.
  void silence(const party& x) {
    pq::call call{&silence_node, {}};
    call.args.add(x.incarnation);
    ask(*control_, std::move(call));
  }

  /// Here sessions really end.
  void end_session(std::int64_t pid) {
    for (auto& x : parties_)
      for (std::size_t which = 0; which < x.lines.size(); ++which) {
        auto& at = x.lines[which];
        if (at.spare->backend() == pid) {
          at.orphan.reset();
          replace(at.spare, x);
        } else if (at.on->backend() == pid) {
          bool working = at.open.has_value();
          at.open.reset();
          replace(at.on, x);
          if (working && x.work)
            finish(x, which, {{}, lost(), 0});
        }
      }
  }

  void replace(std::unique_ptr<pq::connection>& x, const party& of) {
    if (!killer_)
      killer_.emplace(db_.conninfo());
    killer_->terminate(x->backend()); // until it is gone
    x = connect(of);
  }

  // -- actions ----------------------------------------------------------------

  void insert(const action& what) {
    auto& x = model_.instances[what.which % slot_count];
    if (x.id != 0)
      return;
    auto [id, drawn_us] = store::read<store::drawn_id>(
                            ask(*control_, store::draw_ids(1)))
                            .front();
    std::string key = keys[what.a % keys.size()];
    auto scope = scope_of(what);
    std::vector<store::insert_row> rows{{.id = id,
                                         .drawn_us = drawn_us,
                                         .fsm = "Order",
                                         .version = version_of(what),
                                         .step = "s0",
                                         .state = "{\"n\": 0}",
                                         .queue = "default",
                                         .unique_scope = scope,
                                         .history = history_of(what)}};
    if (!key.empty())
      rows.front().partition_key = key;
    if (!scope.empty())
      rows.front().unique_key = "u";
    instance_model made;
    made.id = id;
    made.version = version_of(what);
    made.key = key;
    made.history = history_of(what);
    for (std::size_t at = 0; at < scope.size();) {
      auto end = std::min(scope.find(',', at), scope.size());
      made.scope.insert(scope.substr(at, end - at));
      at = end + 1;
    }
    if (claims(what)) {
      made.status = "executing";
      made.token = rows.front().token
        = parties_[what.who % node_count].incarnation + "/claim " + text(id);
      x = made;
      return claim(parties_[what.who % node_count], std::move(rows.front()),
                   loses_claim(what));
    }
    model::enter(made, {"insert"});
    for (unsigned times = what.who % 4 == 3 ? 2 : 1; times > 0; --times) {
      transaction t{
        {{store::lock_timeout(10ms),
          made.history == 0 ? store::insert(rows) : store::insert_ledger(rows),
          store::inserted(rows)}}};
      if (auto reply = advance(*control_, t, 0); !reply->ok())
        return;
      auto answer = store::read<store::inserted_row>(t.answers[2]).front();
      const auto* holder = made.scope.empty() ? nullptr : model_.holder();
      bool there = x.id == id;
      require(answer.found == (there || holder == nullptr),
              "an insert is answered wrongly");
      if (!answer.found) {
        require(answer.holder == holder->id, "an insert names another holder");
        return;
      }
      if (!there)
        x = made;
    }
  }

  void claim(party& by, store::insert_row row, bool lost) {
    auto states = store::read<store::claimed_row>(
      ask(*control_, store::insert_claimed({row}, 1h)));
    require(states.size() == 1, "a claim is not answered");
    if (lost)
      by.work->lose(row.token, by.now);
    else
      by.holding.emplace(++by.tags,
                         held_row{{.id = row.id,
                                   .fsm = row.fsm,
                                   .fsm_version = row.version,
                                   .step = row.step,
                                   .state = std::move(states.front().state)},
                                  row.token});
  }

  /// A signal or a transition, or what the sender has begun before.
  void send(const action& what) {
    auto& at = parties_[node_count + what.who % sender_count].lines.front();
    if (!at.open)
      at.open.emplace(what.what == act::signal ? signals_of(what)
                                               : transition_of(what));
    if (advance(*at.on, *at.open, what.b % 3))
      at.open.reset();
  }

  transaction signals_of(const action& what) {
    transaction t;
    std::vector<gd::signal> batch;
    bool named = what.c % 2 == 1;
    for (unsigned i = 0; i < (what.a >= 12 && !named ? 2U : 1U); ++i) {
      signal_model s;
      s.serial = ++model_.serials;
      s.target = (what.which + i) % slot_count;
      s.to_nobody = model_.instances[s.target].id == 0;
      s.name = names[what.a & 1U];
      if (auto dedup = (what.a >> 1U) % 3; dedup > 0)
        s.dedup = std::to_string(dedup);
      batch.push_back(to_signal(s));
      if (named)
        batch.back().key = "u";
      t.signals.push_back(std::move(s));
    }
    t.work = {
      {named ? store::lock_named(batch, false) : store::lock_targets(batch),
       store::send_signals(batch, limit_, named)}};
    return t;
  }

  gd::signal to_signal(const signal_model& s) const {
    gd::signal x;
    x.target = s.to_nobody ? -1 : model_.instances[s.target].id;
    x.name = s.name;
    x.payload = gd::json::raw("{\"n\": " + text(s.serial) + "}");
    if (!s.dedup.empty())
      x.dedup_key = s.dedup;
    return x;
  }

  void elapse(instance_model& x) {
    pq::call call{&elapse_row, {}};
    call.args.add(x.id);
    if (x.id == 0 || ask(*control_, std::move(call)).size() == 0)
      return;
    for (std::size_t i = 0; i < node_count; ++i)
      parties_[i].work->scan_everything(); // as their polls do by then
    x.eligible = true;
    x.lease_over = x.status == "executing";
    x.deadline_over = x.deadline;
    x.young = false;
    x.expired = x.expires;
    auto slot = model_.slot_of(x.id);
    for (auto& s : model_.signals)
      if (s.target == slot) {
        s.young = false;
        s.just_consumed = s.just_consumed && !s.consumed;
      }
  }

  // -- whoever is not an engine -----------------------------------------------

  /// By its id, or who has the key.
  const instance_model* target_of(const action& what) const {
    if (what.c % 2 == 1)
      return model_.holder();
    const auto& x = model_.instances[what.which % slot_count];
    return x.id == 0 || x.deleted() ? nullptr : &x;
  }

  /// What a transition is to be answered with now.
  store::transition_answer judged(const instance_model* x,
                                  const gd::transition& how, bool waits) const {
    using answer = store::transition_answer;
    if (x == nullptr)
      return answer::no_such_target;
    if ((x->status != "runnable" && x->status != "awaiting_signal")
        || (how.from && *how.from != x->step)
        || (how.seq && *how.seq != x->seq))
      return answer::conflict;
    if (how.to == "nowhere")
      return answer::unknown_step;
    auto from = std::stoi(x->step.substr(1));
    bool open = from < 50 || x->step == resting_step;
    bool there = how.to == "s0" || how.to == final_step
                 || (how.to == resting_step && x->step != resting_step);
    if (!open || !there)
      return answer::not_allowed;
    auto then = *x;
    model::arrive(then, how.to);
    if (x->takes(then.status) && !x->takes(x->status)) {
      if (model_.holder() != nullptr)
        return answer::taken;
      if (!waits)
        return answer::unsure;
    }
    return answer::moved;
  }

  transaction transition_of(const action& what) {
    using answer = store::transition_answer;
    gd::transition how;
    const auto* x = target_of(what);
    bool named = what.c % 2 == 1;
    if (named)
      how.key = "u";
    else
      how.target = model_.instances[what.which % slot_count].id == 0
                     ? -1
                     : model_.instances[what.which % slot_count].id;
    how.to = steps_outside[what.a % steps_outside.size()];
    if (what.b / 4 % 4 == 1 && x != nullptr)
      how.from = x->step;
    else if (what.b / 4 % 4 == 2)
      how.from = "s7";
    if (what.b / 16 % 4 == 1 && x != nullptr)
      how.seq = x->seq;
    else if (what.b / 16 % 4 == 2)
      how.seq = 999;
    auto n = 1'000 + ++model_.serials;
    bool new_state = what.b / 64 % 2 == 1;
    if (new_state)
      how.state = gd::json::raw("{\"n\": " + text(n) + "}");
    how.reason = "moved";
    how.by = "who";
    bool waits = named || what.b / 128 % 2 == 1;
    transaction t;
    t.work.calls = {waits ? store::move_named({how}, named)
                          : store::move_targets({how})};
    if (waits)
      t.work.calls.insert(t.work.calls.begin(), store::lock_timeout(10ms));
    auto moved = std::make_shared<std::int64_t>(0);
    t.answered =
      [this, how, named, moved, what](const pq::rows& rows, bool contended) {
      auto got = store::read<store::transition_row>(rows).front();
      // Who was not there when it was sent is not meant.
      const auto* now = how.target < 0 ? nullptr : target_of(what);
      auto expected = judged(now, how, named);
      if (got.answer == answer::locked && contended)
        return;
      require(got.answer == expected,
              "a transition to " + how.to + " is answered "
                + std::string{to_string(got.answer)} + ", expected "
                + std::string{to_string(expected)});
      if (got.answer == answer::moved)
        *moved = now->id;
    };
    t.applied = [this, how, moved, n, new_state] {
      if (*moved == 0)
        return;
      auto& it = model_.of(*moved);
      auto made = model::make_transition("transition", it);
      made.woken.clear();
      made.reason = *how.reason;
      made.by = *how.by;
      model::arrive(it, how.to);
      it.eligible = it.eligible || it.status == "runnable";
      it.attempt = it.crashes = 0;
      it.woken.clear();
      if (new_state)
        it.n = n;
      if (it.status == "done")
        model::keep(it);
      model::count(it, made);
    };
    return t;
  }

  /// What an operator does is answered with: "done", "same", or the error's SQLSTATE.
  std::string judged(const instance_model* x, const std::string& what,
                     std::int64_t priority) const {
    if (x == nullptr)
      return "P0002";
    auto is = [x](const char* status) { return x->status == status; };
    bool fits = what == "retry"     ? is("failed")
                : what == "run_now" ? is("runnable")
                : what == "stop"    ? !x->finished()
                                    : !is("executing") && !is("done");
    if (!fits)
      return "MV003";
    if ((what == "run_now" && x->eligible)
        || (what == "move" && x->priority == priority))
      return "same";
    if (what == "retry") {
      auto then = *x;
      model::arrive(then, x->step);
      auto status = then.status == "done" ? "runnable" : then.status;
      if (model_.taken_by(*x, status) != 0)
        return "MV006";
    }
    return "done";
  }

  /// It has been done.
  void act_on(instance_model& x, const std::string& what,
              std::int64_t priority) {
    auto made = model::make_transition(what, x);
    made.reason = "why";
    made.by = "who";
    if (what == "retry") {
      bool had_deadline = x.deadline;
      bool was_over = x.deadline_over;
      model::arrive(x, x.step);
      if (x.status == "done")
        x.status = "runnable";
      x.deadline = x.deadline || had_deadline;
      x.deadline_over = had_deadline && was_over;
      x.attempt = x.crashes = 0;
      x.eligible = true;
      x.expires = x.expired = false;
    } else if (what == "stop") {
      model_.end_lease(x, "failed");
      x.await_nothing();
      model::keep(x);
    } else if (what == "run_now") {
      x.eligible = true;
    } else {
      x.priority = priority;
      made.metadata = "{\"queue\": \"default\", \"priority\": " + text(priority)
                      + "}";
    }
    model::count(x, made);
  }

  static gd::command command_of(const std::string& what,
                                std::int64_t priority) {
    gd::command out;
    out.what = what == "retry"     ? gd::act::retry
               : what == "stop"    ? gd::act::stop
               : what == "run_now" ? gd::act::run_now
                                   : gd::act::move;
    if (out.what == gd::act::move)
      out.priority = static_cast<std::int16_t>(priority);
    out.reason = "why";
    out.by = "who";
    return out;
  }

  /// Something that is refused by an error, or answered with a row.
  void command(const action& what, pq::call call, const std::string& expected,
               const std::function<void(instance_model&)>& done) {
    const auto* target = target_of(what);
    transaction t{{{store::lock_timeout(10ms), std::move(call)}}};
    auto fits = [&](const std::string& got, bool contended) {
      require(got == expected || (contended && got == "55P03"),
              to_string(what) + " is answered " + got + ", expected "
                + expected);
      return true;
    };
    t.may_fail = [&](const gd::error& why, bool contended) {
      return fits(why.sqlstate, contended);
    };
    auto reply = advance(*control_, t, 0);
    if (!reply->ok())
      return;
    fits(expected == "same" ? "same" : "done", t.contended);
    if (expected == "done")
      done(model_.of(target->id));
  }

  void operate(const action& what) {
    auto priority = static_cast<std::int64_t>(what.b % 3);
    const auto* x = target_of(what);
    auto how = command_of(act_of(what), priority);
    if (what.c % 2 == 1)
      how.key = "u";
    else
      how.target = model_.instances[what.which % slot_count].id;
    command(what, store::operate(how), judged(x, act_of(what), priority),
            [&](instance_model& it) { act_on(it, act_of(what), priority); });
  }

  void rewind(const action& what) {
    const auto* x = target_of(what);
    gd::rewind how;
    how.reason = "why";
    how.by = "who";
    if (what.c % 2 == 1)
      how.key = "u";
    else
      how.target = model_.instances[what.which % slot_count].id;
    how.seq = what.b;
    std::string expected = "P0002";
    instance_model::place to;
    if (x != nullptr && !x->places.empty()) {
      to = x->places[what.b % x->places.size()];
      how.seq = to.seq;
      auto then = *x;
      model::arrive(then, to.step);
      const auto* other = model_.holder();
      expected = "done";
      if (other != nullptr && other->id != x->id && x->takes(then.status))
        expected = "MV006";
    } else if (x != nullptr && x->history == 1) {
      how.seq = what.b % (x->seq + 1);
      expected = "MV004";
    }
    if (x != nullptr && x->status == "executing")
      expected = "MV003";
    command(what, store::rewind(how), expected, [&](instance_model& it) {
      auto made = model::make_transition("rewind", it);
      made.woken.clear();
      made.reason = "why";
      made.by = "who";
      made.metadata = "{\"seq\": " + text(to.seq) + "}";
      model::arrive(it, to.step);
      it.n = to.n;
      it.attempt = it.crashes = 0;
      it.woken.clear();
      it.eligible = true;
      it.expires = it.expired = false;
      if (it.status == "done")
        model::keep(it);
      model::count(it, made);
    });
  }

  std::vector<instance_model*> by_id() {
    std::vector<instance_model*> out;
    for (auto& x : model_.instances)
      if (x.id != 0 && !x.deleted())
        out.push_back(&x);
    std::sort(out.begin(), out.end(),
              [](const auto* a, const auto* b) { return a->id < b->id; });
    return out;
  }

  /// What a verb does with all, in id order: each as by itself.
  void work_on_job(const std::string& what) {
    constexpr std::int64_t priority = 1;
    gd::bulk_command how;
    how.what = command_of(what, priority);
    how.which.queue = "default";
    how.what.force = true;
    auto job = store::read_ids(ask(*control_, store::begin_job(how))).front();
    ask(*control_, store::lock_job(job, store::job_owner::client));
    auto last = std::numeric_limits<std::int64_t>::min();
    std::set<std::int64_t> refused;
    for (bool open = true; open;) {
      transaction t{{{store::work_on_job(job)}}};
      advance(*control_, t, 0);
      auto now
        = store::read<gd::job_row>(ask(*control_, store::jobs(job))).front();
      open = !now.ended_at_us;
      for (auto* each : by_id()) {
        auto& x = *each;
        if (x.id <= last || x.id > now.last_id)
          continue;
        bool meant = what == "retry" ? x.status == "failed"
                     : what == "run_now"
                       ? x.status == "runnable"
                       : x.status != "done"
                           && (what == "move" || x.status != "failed");
        auto expected = meant ? judged(&x, what, priority) : "same";
        bool was_refused = std::count(now.refused_ids.begin(),
                                      now.refused_ids.end(), x.id)
                             > 0
                           && refused.insert(x.id).second;
        bool refusable = expected != "done" && expected != "same";
        require(was_refused == refusable || (was_refused && t.contended),
                "a job, " + what + ", passes over a row, or does not");
        if (expected == "done" && !was_refused)
          act_on(x, what, priority);
      }
      last = now.last_id;
    }
    ask(*control_, store::unlock_job());
    model_.check();
  }

  void pause(bool whether) {
    ask(*control_, whether ? store::pause("default", "why", "who", true)
                           : store::resume("default", true));
    model_.paused = whether;
    auto paused = store::read<store::last_ids_row>(
                    ask(*control_, store::paused_queues()))
                    .front()
                    .paused;
    require(paused == std::vector(whether ? 1 : 0, "default"s),
            "the queues that are paused are " + joined(paused));
  }

  // -- what is deleted --------------------------------------------------------

  void expire() {
    auto page = store::read<store::expired_row>(
      ask(*control_, store::expired(100)));
    std::set<std::int64_t> over;
    for (const auto& x : model_.instances)
      if (x.expired)
        over.insert(x.id);
    ids due;
    for (const auto& x : page)
      due.push_back(x.id);
    require(std::set<std::int64_t>{due.begin(), due.end()} == over,
            "others are due to be deleted than those whose time is over");
    // Nobody is deleted for having been in somebody's page.
    ids all;
    for (const auto* x : by_id())
      all.push_back(x->id);
    transaction t{{{store::lock_timeout(10ms), store::erase(all)}}};
    advance(*control_, t, 0);
    pq::call call{&who_is_there, {}};
    call.args.add(all);
    std::set<std::int64_t> left;
    for (auto id : store::read_ids(ask(*control_, std::move(call))))
      left.insert(id);
    for (auto& x : model_.instances) {
      if (x.id == 0 || x.deleted())
        continue;
      if (left.contains(x.id)) {
        require(!over.contains(x.id) || t.contended,
                "what is over is not deleted");
        continue;
      }
      require(over.contains(x.id), "an instance is deleted before its time");
      model_.erase(x);
    }
  }

  void forget() {
    transaction t{{{store::forget_dedup(0, 1'000)}}};
    advance(*control_, t, 0);
    ids all;
    for (const auto& x : model_.instances)
      all.push_back(x.id);
    pq::call call{&dedup_keys, {}};
    call.args.add(all);
    auto rows = ask(*control_, std::move(call));
    std::set<std::pair<std::int64_t, std::string>> left;
    for (std::size_t i = 0; i < rows.size(); ++i)
      left.emplace(rows.integer(i, 0), rows.text(i, 1));
    std::erase_if(model_.signals, [&](const signal_model& s) {
      const auto& x = model_.instances[s.target];
      if (s.dedup.empty())
        return false;
      bool over = s.consumed && !s.just_consumed && x.version > 1;
      bool gone = !left.contains({x.id, s.dedup});
      require(!gone || over, "a dedup key is forgotten before its time");
      require(gone || !over || t.contended, "a dedup key is not forgotten");
      return gone;
    });
  }

  void apply(const action& what) {
    auto& node = parties_[what.who % node_count];
    auto& anyone = parties_[what.who % party_count];
    switch (what.what) {
      case act::insert:
        return insert(what);
      case act::outcome: {
        auto free = undecided(node);
        if (!free.empty())
          decide(node, free[what.which % free.size()], write_kind_of(what),
                 what.b, what.c);
        return;
      }
      case act::turn:
        return turn(node, what.b % 2, static_cast<std::int32_t>(what.which % 4),
                    what.a % 8);
      case act::heartbeat:
        return heartbeat(node, what.a % 2 == 1);
      case act::signal:
      case act::move:
        return send(what);
      case act::cut:
        return cut(anyone, what.b % 2, what.a % 3);
      case act::late:
        return late(anyone.lines[what.b % 2], what.a % 2 == 1);
      case act::crash:
        return crash(node, what.a % 2 == 1);
      case act::elapse:
        if (what.a % 4 == 3)
          silence(node);
        return elapse(model_.instances[what.which % slot_count]);
      case act::reap:
        return reap();
      case act::wake:
        return wake();
      case act::expire:
        return expire();
      case act::forget:
        return forget();
      case act::operate:
        return operate(what);
      case act::job:
        return work_on_job(act_of(what));
      case act::rewind:
        return rewind(what);
      case act::pause:
        return pause(!model_.paused);
      case act::hand_out:
        return hand_out(node, what.which);
      case act::report:
        return report(node, what.which, write_kind_of(what), what.b,
                      what.c % 2 == 1);
    }
  }

  // -- checks -----------------------------------------------------------------

  void compare() {
    ids all;
    for (const auto& x : model_.instances)
      all.push_back(x.id);
    pq::call call{&read_all, {}};
    call.args.add(all);
    auto rows = ask(*control_, std::move(call));
    std::vector<std::string> there;
    for (std::size_t i = 0; i < rows.size(); ++i)
      there.emplace_back(rows.text(i, 0));
    std::sort(there.begin(), there.end());
    auto expected = model_.lines();
    if (there == expected)
      return;
    std::string out = "the table is not what it must be";
    auto differ = [&out](const auto& xs, const auto& ys, const char* title) {
      std::vector<std::string> only;
      std::set_difference(xs.begin(), xs.end(), ys.begin(), ys.end(),
                          std::back_inserter(only));
      for (const auto& x : only)
        out += "\n    "s + title + x;
    };
    differ(there, expected, "is:      ");
    differ(expected, there, "must be: ");
    throw violation{out};
  }

  /// No more faults: everything comes to its end.
  void run_all() {
    limit_ = 1'000;
    if (model_.paused)
      pause(false);
    for (std::size_t i = 0; i < node_count; ++i)
      for (auto& x = parties_[i]; !x.elsewhere.empty();)
        report(x, 0, write_kind::done, 0xff, false);
    for (std::size_t i = 0; i < party_count; ++i) {
      auto& x = parties_[i];
      for (std::size_t which = 0; which < x.lines.size(); ++which) {
        auto& at = x.lines[which];
        late(at, false);
        if (i < node_count && at.open)
          turn(x, which, 0, 0);
        else if (at.open && advance(*at.on, *at.open, 0))
          at.open.reset();
      }
    }
    for (int i = 0; i < 30 && !over(); ++i)
      run_once();
    compare();
    require(over(), "not everything comes to its end");
    for (std::size_t i = 0; i < node_count; ++i)
      for (int n = 0; n < 30 && !parties_[i].work->empty(); ++n)
        turn(parties_[i], 0, 0, 0);
    for (auto& x : model_.instances)
      if (x.expires)
        elapse(x);
    if (versions_ > 1)
      expire();
    compare();
    auto locks = ask(*control_, {&count_locks, {}}).integer(0, 0);
    require(locks == 0, text(locks) + " advisory locks are left");
  }

  bool over() const {
    return std::all_of(model_.instances.begin(), model_.instances.end(),
                       [](const auto& x) { return x.id == 0 || x.finished(); })
           && std::all_of(parties_.begin(), parties_.end(),
                          [](const auto& x) { return x.holding.empty(); });
  }

  void run_once() {
    std::set<std::pair<std::int64_t, std::string>> held;
    for (std::size_t i = 0; i < node_count; ++i) {
      auto& x = parties_[i];
      for (auto& [tag, one] : x.holding) {
        held.emplace(one.row.id, one.token);
        if (!one.decided)
          decide(x, tag, write_kind::done, 0xff);
      }
    }
    for (std::size_t i = 0; i < slot_count; ++i) {
      auto& x = model_.instances[i];
      if (x.id == 0)
        continue;
      if (x.rests()) {
        elapse(x);
      } else if (x.status == "awaiting_signal" && !x.owed()) {
        action one{act::signal, 0, static_cast<unsigned>(i)};
        one.a = x.awaits == names[1] ? 1 : 0;
        send(one);
        require(!x.woken.empty(), "a signal does not wake its target");
      } else if (!x.eligible
                 || (x.status == "executing"
                     && !held.contains({x.id, x.token}))) {
        elapse(x);
      }
    }
    auto any = [this](auto due) {
      return std::any_of(model_.instances.begin(), model_.instances.end(), due);
    };
    if (any([](const auto& x) { return x.lease_over; }))
      reap();
    if (any([](const auto& x) {
          return x.lease_over || x.deadline_over || x.owed();
        }))
      wake();
    parties_[0].work->scan_everything(); // as polls do
    // One picks: the others only end what they have.
    for (std::size_t i = 0; i < node_count; ++i)
      turn(parties_[i], 0, i == 0 ? 10 : 0, 0);
  }

  temporary_database db_;
  const mutant* fault_ = nullptr;
  /// Of the function that is broken now, if one is.
  std::string mended_{};
  std::unique_ptr<pq::connection> control_;
  std::array<party, party_count> parties_{};
  std::optional<session> killer_{};
  model model_{};
  /// What outcomes carry, by serial, whatever becomes of it.
  std::map<std::int64_t, signal_model> carried_{};
  std::int32_t limit_ = inbox_limit;
  std::int32_t versions_ = 1; ///< of the machine, that nodes serve
  bool dirty_ = false;
  std::size_t runs_ = 0;
};

} // namespace schedules_suite
