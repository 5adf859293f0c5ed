#define CAF_SUITE schedules

// Random schedules of several nodes, senders, sweeps and faults, statement by
// statement through the real SQL, against a model of what must be committed. A
// schedule is data: one that goes wrong is shrunk to what it takes to go wrong.
//
// GD_SEED=<n> GD_SCHEDULES=<n> run others than the usual ones; GD_MUTANT=<text> only the
// faults that are called so.

#include <libgd/schedules/schedule.hpp>
#include <libgd/schedules/world.hpp>

#include <gd/sql.hpp>

#include <caf/test/dsl.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace schedules_suite {

namespace {

// -- searching and shrinking --------------------------------------------------

struct finding {
  std::uint64_t seed = 0;
  features about = 0;
  schedule actions{};
  std::string why{};
};

std::string to_string(const finding& x) {
  auto out = "GD_SEED=" + std::to_string(x.seed) + " GD_SCHEDULES=1, features "
             + std::to_string(x.about) + ", shrunk to:";
  for (const auto& one : x.actions)
    out += "\n  " + to_string(one);
  return out + "\nand then: " + x.why;
}

/// Leaves out and simplifies what it goes wrong without.
finding shrink(world& in, finding x) {
  auto try_instead = [&](const schedule& other) {
    auto why = in.run(other);
    if (!why)
      return false;
    x.actions = other;
    x.why = *why;
    return true;
  };
  for (bool smaller = true; std::exchange(smaller, false);)
    for (auto chunk = x.actions.size(); chunk > 0; chunk /= 2)
      for (std::size_t at = 0; at + chunk <= x.actions.size();) {
        auto without = x.actions;
        auto from = without.begin() + static_cast<std::ptrdiff_t>(at);
        without.erase(from, from + static_cast<std::ptrdiff_t>(chunk));
        if (try_instead(without))
          smaller = true;
        else
          at += chunk; // what lies across is found with smaller chunks
      }
  for (std::size_t i = 0; i < x.actions.size(); ++i)
    for (auto field :
         {&action::c, &action::b, &action::a, &action::who, &action::which})
      if (auto simpler = x.actions; simpler[i].*field != 0) {
        simpler[i].*field = 0;
        try_instead(simpler);
      }
  return x;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* x = std::getenv(name);
  return x != nullptr && *x != '\0' ? std::stoull(x) : otherwise;
}

/// Runs schedules, one per seed, until one goes wrong: about these features, or those of
/// the seed.
std::optional<finding> search(world& in, std::uint64_t seed,
                              std::uint64_t count,
                              std::atomic<std::uint64_t>& next,
                              std::optional<features> about = {}) {
  for (auto i = next++; i < count; i = next++) {
    auto which = about.value_or(features_of(seed + i));
    finding x{seed + i, which, make_schedule(seed + i, which), {}};
    if (auto why = in.run(x.actions)) {
      next = count; // others stop, too
      x.why = *why;
      return shrink(in, std::move(x));
    }
  }
  return std::nullopt;
}

/// Calls it on several threads, each with a database of its own: while some wait for
/// the disk others compute.
void in_several_worlds(const std::function<void(world&)>& work) {
  constexpr int threads = 4;
  std::mutex guard;
  std::exception_ptr broken;
  auto run = [&] {
    try {
      world here;
      work(here);
    } catch (...) {
      std::lock_guard lock{guard};
      broken = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(run);
  run();
  for (auto& x : others)
    x.join();
  if (broken)
    std::rethrow_exception(broken);
}

std::optional<finding> search_all(std::uint64_t seed, std::uint64_t count) {
  std::atomic<std::uint64_t> next = 0;
  std::mutex guard;
  std::optional<finding> found;
  in_several_worlds([&](world& here) {
    auto one = search(here, seed, count, next);
    std::lock_guard lock{guard};
    if (one && (!found || one->seed < found->seed))
      found = std::move(one);
  });
  return found;
}

} // namespace

CAF_TEST(random schedules keep every promise) {
  auto seed = setting("GD_SEED", 1);
  auto count = setting("GD_SCHEDULES", 500);
  CAF_MESSAGE("GD_SEED=" << seed << " GD_SCHEDULES=" << count);
  if (auto found = search_all(seed, count))
    CAF_ERROR(to_string(*found));
  // Or they would not be about both transactions of a turn.
  CAF_MESSAGE("two transactions at a time: " << beside_each_other.load());
  CAF_CHECK_GREATER(beside_each_other.load(), static_cast<int>(count / 60));
  CAF_MESSAGE("keys that pass on: " << keys_passed_on.load());
  CAF_CHECK_GREATER(keys_passed_on.load(), static_cast<int>(count / 60));
  CAF_MESSAGE("transactions with carried signals: " << sends_committed.load()
                                                    << ", refused outcomes: "
                                                    << sends_refused.load());
  CAF_CHECK_GREATER(sends_committed.load(), static_cast<int>(count / 60));
  CAF_CHECK_GREATER(sends_refused.load(), static_cast<int>(count / 60));
}

CAF_TEST(a statement with a single fault is found out in few actions) {
  const std::array<mutant, 66> mutants{{
    {"an outcome without a fence", sql::flush,
     "(g.locked_by = e.token and g.status = 'executing') is true", "true", 148},
    {"an outcome without its token", sql::flush, "g.locked_by = e.token and ",
     "", 161},
    {"a completion without its token", sql::flush_done,
     "then g.locked_by = ($2::text[])[1]", "then true", 54},
    {"a completion of what nobody has locked", sql::flush_done,
     "(select x.tuple from held x where x.fenced)",
     "(select g.ctid from :\"schema\".gen_durable g where g.id = any($1))", 47},
    {"a next without its token", sql::flush_next, "g.locked_by = e.token and ",
     "", 4079},
    {"an advance without its token", sql::flush_advance,
     "g.locked_by = e.token and ", "", 481},
    {"an advance that keeps the old token", sql::flush_advance,
     "locked_by = $6::text", "locked_by = coalesce(g.locked_by, $6::text)", 39},
    {"a replay that does not count", sql::flush,
     "least(greatest(g.attempt - g.crashes - coalesce(g.excused, 0), 0), "
     "2147483646) + 1",
     "greatest(g.attempt - g.crashes, 0)", 52},
    {"a replay that counts a crash as a failure", sql::flush,
     "greatest(g.attempt - g.crashes - coalesce(g.excused, 0), 0)", "g.attempt",
     4253},
    {"a stop that forgets why it was woken", sql::flush,
     "wake_reason = case when h.outcome in ('replay', 'stop', 'release')",
     "wake_reason = case when h.outcome in ('replay', 'release')", 6446},
    {"a row that rests until a signal comes", sql::flush,
     "when h.outcome = 'park' then ''", "when h.outcome = 'park' then 'paid'",
     250},
    {"a dedup key that does not outlive its signal", sql::flush,
     "set consumed_at = clock_timestamp(), payload = '{}'",
     "set consumed_at = clock_timestamp(), payload = '{}', dedup_key = null"},
    {"a park that does not look again", sql::recheck, "and s.id not in",
     "and false and s.id not in", 64},
    {"a signal that wakes whatever is awaited", sql::signal,
     "where (e.name = e.awaits or e.name = any(e.awaits_also)) and", "where",
     187},
    {"a signal that wakes for the first of several names alone", sql::signal,
     " or e.name = any(e.awaits_also)", "", 418},
    {"a park that looks again for the first of several names alone",
     sql::recheck, "g.awaits_also is not null and", "false and"},
    {"a wake-up that leaves some of the names", sql::signal,
     "case when w.owed then g.awaits_also end", "g.awaits_also", 418},
    {"a later next that is due at once", sql::flush,
     "when 'later' then clock_timestamp() + h.delay_us",
     "when 'later' then clock_timestamp() + 0 * h.delay_us", 407},
    {"a heartbeat without a fence", sql::heartbeat,
     "(g.locked_by = e.token and g.status = 'executing') is true", "true", 306},
    {"a reap that does not count", sql::reap,
     "least(g.attempt, 2147483646) + 1", "g.attempt"},
    {"a give-back that counts", sql::release_lost,
     "status = 'runnable', unique_guard",
     "attempt = g.attempt + 1, status = 'runnable', unique_guard"},
    {"an entry of an outcome that is not applied", sql::flush_ledger,
     "from applied a\n  where a.history > 0",
     "from (select a.id, a.outcome, a.from_step, a.token, a.wake_reason, "
     "a.reason, a.metadata, a.seq, a.updated_at, a.fsm_version, a.step, "
     "a.attempt, a.history, a.state from applied a "
     "union all select h.id, h.outcome, "
     "h.from_step, h.token, h.wake_reason, h.error, null, g.seq + 1, "
     "clock_timestamp(), g.fsm_version, h.from_step, 0, g.history, null "
     "from held h join :\"schema\".gen_durable g on g.id = h.id "
     "where not h.fenced) a where a.history > 0",
     112},
    {"an entry of what a second read sees", sql::flush_ledger,
     "a.metadata, a.state",
     "a.metadata, (select g.state from :\"schema\".gen_durable g "
     "where g.id = a.id and g.history = 2)"},
    {"a done and its entry without a fence", sql::flush_done_ledger,
     "(select x.tuple from held x where x.fenced)",
     "(select x.tuple from held x)", 277},
    {"an entry of a next that a second read sees", sql::flush_next_ledger,
     "a.from_step, a.step,",
     "a.from_step, (select g.step from :\"schema\".gen_durable g "
     "where g.id = a.id),",
     400},
    {"an entry of an advance that a second read sees",
     sql::flush_advance_ledger, "a.from_step, a.step,",
     "a.from_step, (select g.step from :\"schema\".gen_durable g "
     "where g.id = a.id),",
     188},
    {"a reap without an entry", sql::reap, "where r.history > 0",
     "where r.history > 0 and false"},
    {"a return without an entry", sql::return_row, "where a.history > 0",
     "where a.history > 0 and false"},
    {"a transition that is not counted", sql::flush_next, "seq = g.seq + 1, ",
     ""},
    {"a give-back that is counted", sql::release_lost,
     "status = 'runnable', unique_guard",
     "seq = g.seq + 1, status = 'runnable', unique_guard"},
    {"a claim without an end", sql::insert_claimed,
     "clock_timestamp() + $12::bigint", "null::timestamptz + $12::bigint"},
    {"a transition that does not look at the seq", "_gd_move",
     " or here.seq <> from_seq", "", 14, only(feature::outside)},
    {"a transition of what has ended", "_gd_move",
     "here.status not in ('runnable', 'awaiting_signal') or", "", 25,
     only(feature::outside)},
    {"a transition that leaves a wake-up", "_gd_move",
     "deadline = there.deadline, wake_reason = null",
     "deadline = there.deadline", 30, only(feature::outside)},
    {"a transition that wakes what the key does not let run", "_gd_move",
     "if found or not wait then", "if false then", 239,
     only(feature::outside) | only(feature::keys)},
    {"a stop that leaves the lease", "_gd_act",
     "locked_by = case when what = 'stop' then null else g.locked_by end",
     "locked_by = g.locked_by", 9, only(feature::verbs)},
    {"a retry that keeps the failures", "_gd_act",
     "attempt = case when what = 'retry' then 0 else g.attempt end",
     "attempt = g.attempt", 26, only(feature::verbs)},
    {"a retry that does not look at the key", "_gd_act",
     "and new_status = any(here.unique_scope)", "and false", 6,
     only(feature::verbs) | only(feature::keys)},
    {"a verb that is not counted", "_gd_act", "seq = g.seq + 1", "seq = g.seq",
     1, only(feature::verbs)},
    {"a job that ends with the first that it has tried", "_gd_work_on_job",
     "exit when waited or tried >= most_changed", "exit when tried >= 1", 1,
     only(feature::verbs)},
    {"a rewind that leaves the wake-up", "_gd_rewind",
     "deadline = arrival.deadline, wake_reason = null",
     "deadline = arrival.deadline", 193, only(feature::rewinds)},
    {"a rewind to what is there now", "_gd_rewind", "state = entry.state,",
     "state = g.state,", 30, only(feature::rewinds)},
    {"an erasure without a fence", sql::flush_erase, "where h.fenced and h.old",
     "where h.old", 26, only(feature::keep)},
    {"an erasure of what is young", sql::flush_erase,
     "g.inserted_at < clock_timestamp() - e.resend_us * interval '1 "
     "microsecond'",
     "true", 1, only(feature::keep)},
    {"an erasure that leaves the history", sql::flush_erase, "e.history > 0",
     "false", 10, only(feature::keep)},
    {"an end that is kept without its token", sql::flush_keep,
     "g.locked_by = e.token and ", "", 158, only(feature::keep)},
    {"a plain end that is kept without its token", sql::flush_done_keep,
     "(g.id, g.locked_by) in (select e.id, e.token ", "g.id in (select e.id ",
     50, only(feature::keep)},
    {"a sweep that deletes before the time", sql::erase,
     "g.expires_at < statement_timestamp()", "g.expires_at is not null", 4,
     only(feature::keep)},
    {"a sweep that leaves the history", sql::erase, "e.history > 0", "false", 3,
     only(feature::keep)},
    {"a dedup key that is forgotten at once", sql::forget_dedup,
     "m.forget_dedup_after as after", "interval '0' as after", 58,
     only(feature::keep)},
    {"a retry that does not keep from being deleted", "_gd_act",
     "when 'retry' then null else g.expires_at end", "else g.expires_at end", 5,
     only(feature::verbs) | only(feature::keep)},
    {"a signal to a key that is not locked", sql::lock_named, "h.locked::text",
     "array_remove(h.targets, null)::text", 16, only(feature::keys)},
    {"a queue that is paused, and not told", sql::paused_queues,
     "where q.paused_at is not null", "where q.paused_at is null", 1,
     only(feature::pauses)},
    {"what a worker says twice, written twice", sql::flush_next,
     "(g.locked_by = e.token and g.status = 'executing') is true", "true", 13,
     only(feature::workers)},
    {"a pick that leaves due what it takes", sql::pick,
     "((select count(*) from picked) = (select count(*) from claimed) or "
     "(d.id in (select p.id from picked p)) is true)",
     "false"},
    {"a done that keeps its key", sql::flush_done,
     "unique_guard = case when g.unique_key is not null and 'done' = "
     "any(g.unique_scope) then g.unique_key end",
     "unique_guard = g.unique_guard"},
    {"a pick without a lease", sql::pick, "from picked p\n  having",
     "from picked p where false\n  having"},
    {"a next that is not due", sql::flush_next,
     "where a.status = 'runnable' and (", "where false and ("},
    {"another outcome that is not due", sql::flush,
     "where a.status = 'runnable' and (", "where false and ("},
    {"an advance without a lease", sql::flush_advance,
     "from applied a\n  having", "from applied a where false\n  having"},
    {"a give-back that is not due", sql::release_lost,
     "where a.status = 'runnable' and (", "where false and ("},
    {"a park that looks again and is not due", sql::recheck,
     "where a.status = 'runnable' and (", "where false and ("},
    {"an end that leaves its key in use", sql::flush_done,
     "a.partition_key is not null and a.status <> 'runnable'", "false"},
    {"a lease that is taken away from who executes", sql::end_leases,
     "min(g.lease_expires_at)", "null::timestamptz", 18},
    {"a change from outside that is not due", "_gd_see_to",
     "if new.status::text = 'runnable' or", "if false and", 1,
     only(feature::outside)},
    {"an insert that is not due", sql::insert, "where m.status = 'runnable'",
     "where false"},
  }};
  const char* called = std::getenv("GD_MUTANT");
  std::string only_called = called != nullptr ? called : "";
  std::array<std::optional<finding>, mutants.size()> found;
  std::atomic<std::size_t> next_mutant = 0;
  in_several_worlds([&](world& here) {
    for (auto i = next_mutant++; i < mutants.size(); i = next_mutant++) {
      if (mutants[i].title.find(only_called) == std::string::npos)
        continue;
      here.break_with(mutants[i]);
      std::atomic<std::uint64_t> next = 0;
      found[i] = search(here, mutants[i].seed, 1'000, next, mutants[i].about);
    }
  });
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    if (mutants[i].title.find(only_called) == std::string::npos)
      continue;
    if (!found[i]) {
      CAF_ERROR(mutants[i].title << ": not found");
      continue;
    }
    CAF_MESSAGE(mutants[i].title << ": " << to_string(*found[i]));
    CAF_CHECK_LESS_OR_EQUAL(found[i]->actions.size(), 8u);
  }
}

} // namespace schedules_suite
