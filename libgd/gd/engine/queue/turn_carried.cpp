// What a turn does with what outcomes carry: all of it happens in the transaction that
// writes the outcome, or the outcome is not written. Whose effect is refused, or has to
// wait, is told by the answers: the transaction is rolled back, that outcome leaves the
// group, and the others are written without it.

#include <gd/engine/queue/turn.hpp>

#include <gd/pq/ensure.hpp>
#include <gd/pq/pause.hpp>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How long a group may wait for a stranger: for each statement of a user's, and for all
/// unique keys of its inserts. Who is tried alone waits longer.
constexpr milliseconds group_wait{10};

/// When the other transaction under way is likely to be over.
constexpr milliseconds contested_pause{2};

std::pair<std::int64_t, std::string> address_of(const gd::signal& x) {
  return {x.target, x.key.value_or("")};
}

/// How long an outcome waits that could not be written so often: not as long as the next
/// one, so that two that are in each other's way do not meet again and again.
milliseconds pause_of(std::int64_t id, int tries) {
  auto any = (static_cast<std::uint64_t>(id)
              + static_cast<std::uint64_t>(tries))
             * 0x9E3779B97F4A7C15u;
  milliseconds first{4 + static_cast<std::int64_t>(any >> 61)};
  return pause_after(tries, first, 100 * first);
}

} // namespace

/// Those wait whose targets the other transaction under way has locked, as many have that
/// tell the same parent: the group would be rolled back for them.
void turn::leave_contested(batcher<entry>::group& group,
                           clock::time_point now) {
  if (group.alone || group.half || group.unsure())
    return;
  for (const auto& other : in_flight_) {
    if (!other.under_way || other.targets.empty())
      continue;
    auto contested = [&other](const entry& x) {
      const auto* what = x.row->carried.get();
      return what != nullptr
             && std::any_of(what->signals.begin(), what->signals.end(),
                            [&other](const auto& signal) {
        return other.targets.contains(address_of(signal.what));
                });
    };
    auto first = std::stable_partition(
      group.entries.begin(), group.entries.end(), std::not_fn(contested));
    for (auto i = first; i != group.entries.end(); ++i)
      waiting_.put_off(std::move(*i), now + contested_pause, false);
    group.entries.erase(first, group.entries.end());
  }
}

void turn::carry(in_flight& next, pq::unit& work) {
  auto& group = next.group;
  for (std::size_t i = 0; i < group.entries.size(); ++i)
    if (const auto& row = *group.entries[i].row; row.carried) {
      if (!next.carried)
        next.carried = std::make_shared<carried_batch>();
      next.carried->add(i, row);
      for (const auto& x : row.carried->signals)
        next.targets.insert(address_of(x.what));
    }
  if (!next.carried)
    return;
  if (!group.alone && !group.unsure())
    work.add(store::lock_timeout(group_wait));
  next.carried->add_sends(work, {.inbox = how_.inbox, .waits = group.alone});
  std::vector<std::int64_t> entered;
  std::vector<std::int64_t> effects;
  for (const auto& x : group.entries)
    if (x.row->carried && x.row->has_history) {
      entered.push_back(x.row->id);
      effects.push_back(static_cast<std::int64_t>(x.row->carried->size()));
    }
  if (!entered.empty())
    work.add(store::note_effects(entered, effects));
}

void turn::run_statements(in_flight& next, pq::unit& work) const {
  auto session = how_.statements;
  if (next.group.entries.size() > 1)
    session.lock_timeout = std::min(session.lock_timeout, group_wait);
  next.carried->add_statements(work, {.session = std::move(session)});
}

/// Called on the thread that drives the connection: it shares nothing that changes.
void turn::accept_only_all(in_flight& next, pq::unit& work) const {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < next.group.entries.size(); ++i)
    if (next.carried->has(i))
      ids.push_back(next.group.entries[i].row->id);
  work.accept = [batch = next.carried, written = next.at.outcomes,
                 ids = std::move(ids)](const std::vector<pq::rows>& answers) {
    std::unordered_set<std::int64_t> applied;
    for (auto at : written)
      for (const auto& x :
           store::read_flush(answers[static_cast<std::size_t>(at)]))
        if (x.applied)
          applied.insert(x.id);
    for (auto id : ids)
      if (!applied.contains(id))
        return false;
    return batch->judge(answers).empty();
  };
}

/// The handler's turn. What others of its transaction carried may be why, and may come to
/// nothing itself: only who is alone is told.
void turn::refuse(entry x, effect_refused what, bool alone, report& to) {
  if (!alone) {
    std::vector<entry> half;
    half.push_back(std::move(x));
    return waiting_.put_half(std::move(half));
  }
  auto why = what.why;
  to.rows.push_back({.tag = x.tag,
                     .row = std::move(x.row),
                     .what = flushed::verdict::refused,
                     .why = std::move(why),
                     .effect = std::move(what)});
}

/// It keeps its lease and its key, and is tried again, until it has waited for too long.
/// Alone it waits for a lock; a full inbox it finds as soon in a group.
void turn::hold_up(entry x, carried_batch::objection why, report& to,
                   clock::time_point now, bool delays_others) {
  if (x.held_up_since == clock::time_point{}) {
    x.held_up_since = now;
    to.held_up.push_back({x.row->id, why.what});
  }
  if (now - x.held_up_since >= x.row->carried->patience)
    return refuse(std::move(x), std::move(why.what), true, to);
  auto until = now + pause_of(x.row->id, x.held_up_tries++);
  bool alone = delays_others
               || (x.held_up_tries >= batcher<entry>::tries_before_alone
                   && why.what.why.code != errc::inbox_full);
  waiting_.put_off(std::move(x), until, alone);
}

/// Takes out of a group that was not written who has not applied: what they carried may
/// be why the others were not. Whether there were any.
bool turn::drop_unapplied(in_flight& of, const pq::reply& reply, report& to,
                          clock::time_point now) {
  using verdict = flushed::verdict;
  auto last = static_cast<std::size_t>(of.at.outcomes.back());
  if (reply.results.size() <= last)
    return false;
  std::unordered_map<std::int64_t, store::flushed_row> by_id;
  for (auto at : of.at.outcomes)
    for (auto& x : store::read_flush(rows_of(reply, at)))
      by_id.emplace(x.id, x);
  auto& group = of.group.entries;
  std::vector<entry> rest;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& x = group[i];
    auto answer = by_id.find(x.row->id);
    bool known = answer != by_id.end();
    if (!of.carried->has(i) || (known && answer->second.applied)) {
      rest.push_back(std::move(x));
    } else if (known && answer->second.holder) {
      auto holder = *answer->second.holder;
      to.rows.push_back({.tag = x.tag,
                         .row = std::move(x.row),
                         .what = verdict::collided,
                         .why = collision(holder),
                         .holder = holder});
    } else if (known || of.group.alone) {
      auto what = x.resent ? verdict::unknown : verdict::stale;
      to.rows.push_back({.tag = x.tag, .row = std::move(x.row), .what = what});
    } else {
      waiting_.put_locked(std::move(x), now);
    }
  }
  bool any = rest.size() < group.size();
  group = std::move(rest);
  if (any)
    waiting_.retry(std::exchange(group, {}));
  return any;
}

/// The transaction has been rolled back for what its statements have answered.
void turn::decline(in_flight& of, const pq::reply& reply, report& to,
                   clock::time_point now) {
  std::unordered_map<std::size_t, carried_batch::objection> objections;
  for (auto& x : of.carried->judge(reply.results))
    if (auto [found, first] = objections.try_emplace(x.outcome, x);
        !first && found->second.busy && !x.busy)
      found->second = std::move(x); // waiting would be for nothing
  ensure(!objections.empty(),
         "who declines a transaction objects to one of its outcomes");
  auto group = std::exchange(of.group.entries, {});
  std::vector<entry> rest;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& x = group[i];
    auto found = objections.find(i);
    if (found == objections.end())
      rest.push_back(std::move(x));
    else if (found->second.busy)
      hold_up(std::move(x), std::move(found->second), to, now);
    else
      refuse(std::move(x), std::move(found->second.what), group.size() == 1,
             to);
  }
  waiting_.retry(std::move(rest));
}

/// Whether it was for what outcomes carry.
bool turn::fail_carried(in_flight& of, const pq::reply& reply, report& to,
                        clock::time_point now) {
  if (!of.carried)
    return false;
  const auto& why = *reply.failure;
  auto call = static_cast<int>(reply.failed_call);
  bool with_commit = reply.failed_call == of.calls;
  if (reply.declined) {
    if (!drop_unapplied(of, reply, to, now))
      decline(of, reply, to, now);
    return true;
  }
  auto guilty = of.carried->whose(call);
  bool passes = passes_by_itself(why) || (guilty && is_of_server(why));
  if (!(of.carried->owns(call) || with_commit)
      || (is_of_server(why) && !passes))
    return false;
  if (drop_unapplied(of, reply, to, now))
    return true;
  if (guilty) {
    guilty->what.why = why;
    fail_statement(of, std::move(*guilty), passes, to, now);
    return true;
  }
  auto kind = with_commit ? std::nullopt
                          : std::optional{of.carried->kind_of(call)};
  auto what = of.carried->of_outcome(0, kind);
  what.why = why;
  auto one = waiting_.split(std::exchange(of.group.entries, {}));
  if (one && !one->row->carried)
    to.rows.push_back(
      {one->tag, std::move(one->row), flushed::verdict::refused, why});
  else if (one && passes)
    hold_up(std::move(*one), {0, std::move(what)}, to, now);
  else if (one)
    refuse(std::move(*one), std::move(what), true, to);
  return true;
}

/// The others are written without the outcome whose statement has failed.
void turn::fail_statement(in_flight& of, carried_batch::objection guilty,
                          bool passes, report& to, clock::time_point now) {
  auto group = std::exchange(of.group.entries, {});
  auto at = group.begin() + static_cast<std::ptrdiff_t>(guilty.outcome);
  auto x = std::move(*at);
  group.erase(at);
  bool alone = group.empty();
  waiting_.retry(std::move(group));
  if (passes)
    hold_up(std::move(x), std::move(guilty), to, now, true);
  else
    refuse(std::move(x), std::move(guilty.what), alone, to);
}

} // namespace gd
