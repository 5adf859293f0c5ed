// What a turn picks: rows as they come, suspects, and row by row after a pick that
// failed for what a row holds.

#include <gd/engine/queue/turn.hpp>

#include <gd/pq/ensure.hpp>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How long no pick follows one that failed for all.
constexpr milliseconds pause_after_failure{1'000};

} // namespace

store::pick_request turn::make_pick(const in_flight& x, clock::time_point now) {
  store::pick_request out{.queue = how_.queue,
                          .machines = how_.machines,
                          .token = x.token,
                          .lease = how_.lease,
                          .inbox = how_.inbox};
  if (x.pick.keyed && x.bisects != pick_bisection::step::these) {
    out.keys_to_leave = how_.keys->all();
    out.left_out = bisection_for(x).left_out(now);
  }
  plan_.ask(out, x.pick, now);
  return out;
}

/// Whether a pick minds keys, or leaves out rows, which only such a pick can.
bool turn::picks_keyed(clock::time_point now) {
  return plan_.keyed() || !bisection_.left_out(now).empty();
}

pick_bisection& turn::bisection_for(const in_flight& x) {
  return x.suspects ? suspect_bisection_ : bisection_;
}

/// Other rows do not wait for suspects.
void turn::pause_picks(const in_flight& after, clock::time_point now) {
  (after.suspects ? suspects_at_ : no_pick_before_) = now + pause_after_failure;
}

/// Of whatever kind: they tell of all whether rows can be picked.
void turn::note_picked(const std::vector<store::picked_row>& rows) {
  bisection_.note_picked(rows);
  suspect_bisection_.note_picked(rows);
}

bool turn::pick_bisected(in_flight& next, pq::unit& work, std::int32_t want,
                         bool first, clock::time_point now) {
  using step = pick_bisection::step;
  auto what = bisection_.next();
  // Where the locks of keys live: some of the rows may have one.
  if (what == step::none || !first || now < no_pick_before_
      || (what == step::ask && want <= 0))
    return false;
  add_bisected(next, work, want, {}, now);
  return true;
}

/// `most`: of suspects, see `quarantine::begin_pick`.
void turn::add_bisected(in_flight& next, pq::unit& work, std::int32_t want,
                        const std::vector<std::int32_t>& most,
                        clock::time_point now) {
  using step = pick_bisection::step;
  auto& bisection = bisection_for(next);
  next.bisects = bisection.next();
  next.pick.keyed = true;
  if (next.bisects == step::ask) {
    next.pick.wanted = static_cast<std::int32_t>(
      bisection.ask(static_cast<std::size_t>(want), how_.rows));
    auto what = make_pick(next, now);
    work.add(next.suspects ? store::suspect_candidates(what, most)
                           : store::candidates(what));
  } else if (next.bisects == step::these) {
    next.token = draw_token();
    auto ids = bisection.group();
    next.pick.wanted = static_cast<std::int32_t>(ids.size());
    add_pick(next, work, store::pick_these(ids, make_pick(next, now), most));
  } else {
    const auto& x = bisection.guilty();
    auto reason = "its row cannot be picked: " + x.why.message;
    work.add(store::fail_row(x.row, clean_text(reason, limits{}.reason)));
  }
  bisection.begin();
}

/// Not for a while after it was in vain, unless one has ended or was cleared since.
bool turn::may_pick_suspects(clock::time_point now) const {
  return now >= suspects_at_
         && (now >= in_vain_until_
             || how_.suspects->changes() != changes_then_);
}

bool turn::pick_suspects(in_flight& next, pq::unit& work, std::int32_t want,
                         bool first, clock::time_point now) {
  // Where the locks of keys live: some of the rows may have one.
  if (!first || now < no_pick_before_ || !may_pick_suspects(now))
    return false;
  if (suspect_bisection_.next() == pick_bisection::step::fail) {
    next.suspects = true;
    add_bisected(next, work, 0, {}, now);
    return true;
  }
  if (!suspects_ || want <= 0)
    return false;
  // Also for each pick of a bisection: other queues may have taken some since the last.
  next.changes = how_.suspects->changes();
  auto most = how_.suspects->begin_pick(how_.queue, now);
  if (!most)
    return false;
  next.suspects = next.picks_suspects = true;
  want = std::min(want, *std::max_element(most->begin(), most->end()));
  if (suspect_bisection_.active()) {
    add_bisected(next, work, want, *most, now);
    return true;
  }
  add_unlocks(work);
  next.token = draw_token();
  next.pick.wanted = want;
  next.pick.keyed = true;
  auto what = make_pick(next, now);
  add_pick(next, work, store::pick_suspects(what, *most));
  return true;
}

/// Whether its key may pass on, and has not stayed for too long.
bool turn::may_stay(const entry& x, clock::time_point now) const {
  if (!x.hold || x.row->what == store::write_kind::advance || x.row->erase)
    return false;
  auto found = stays_.find(x.hold->key);
  return found == stays_.end()
         || (found->second.rows < how_.key_rows
             && now - found->second.since < how_.key_time);
}

void turn::pass_keys_on(in_flight& next, pq::unit& work, std::int32_t most,
                        clock::time_point now) {
  std::vector<std::int64_t> ids;
  for (const auto& x : next.group.entries)
    if (static_cast<std::int32_t>(ids.size()) < most && may_stay(x, now))
      ids.push_back(x.row->id);
  if (ids.empty())
    return;
  next.token = draw_token();
  next.passing = static_cast<std::int32_t>(ids.size());
  next.at.next_of_keys = work.add(
    store::pick_next_of_keys(make_pick(next, now), ids));
}

void turn::pick(in_flight& next, pq::unit& work, std::int32_t want,
                clock::time_point now) {
  if (next.token.empty())
    next.token = draw_token();
  next.pick = plan_.begin(std::min(want, static_cast<std::int32_t>(how_.rows)),
                          picks_keyed(now), now);
  next.pick.left_out = !bisection_.left_out(now).empty();
  add_pick(next, work, store::pick(make_pick(next, now)));
}

void turn::add_pick(in_flight& next, pq::unit& work, pq::call by) {
  next.at.pick = work.add(std::move(by));
  work.add(store::tell_pick());
  if (next.pick.keyed)
    check_keys(next, work);
}

store::pick_answer turn::picked(const in_flight& x, const pq::reply& reply) {
  auto summary = store::read_one<store::pick_summary>(
    rows_of(reply, x.at.pick + 1));
  return store::read_pick(rows_of(reply, x.at.pick),
                          std::move(summary).value_or(store::pick_summary{}));
}

void turn::check_keys(in_flight& next, pq::unit& work) {
  work.add(store::lock_keys());
  next.at.check_keys = work.add(store::check_keys());
  work.leaves_traces_from = work.calls.size();
  next.at.hold_keys = work.add(store::hold_keys());
}

void turn::read_pick(const in_flight& x, const pq::reply& reply, report& to,
                     clock::time_point now) {
  auto answer = picked(x, reply);
  note_picked(answer.rows);
  to.full = plan_.note(x.pick, answer);
  if (!std::exchange(suspects_, answer.summary.suspects) && suspects_)
    to.full = true; // they are to be looked for
  if (answer.refused() > answer.rows.size())
    bisection_.start();
  to.full = to.full || answer.refused() > 0;
  to.exhausted = !to.full;
  if (auto us = answer.summary.due_in_us)
    to.due_in = std::chrono::microseconds{*us};
  to.picked = std::move(answer.rows);
  to.token = x.token;
  if (x.pick.keyed)
    read_keys(x, reply, to, now);
}

void turn::read_keys(const in_flight& x, const pq::reply& reply, report& to,
                     clock::time_point now) {
  std::vector<std::string> locked;
  for (auto& lost :
       store::read<store::lost_key>(rows_of(reply, x.at.check_keys)))
    if (lost.elsewhere)
      locked.push_back(std::move(lost.partition_key));
  plan_.note_locked(locked, now);
  std::unordered_map<std::int64_t, std::string> held;
  for (auto& one : store::read<store::held_key>(rows_of(reply, x.at.hold_keys)))
    held.emplace(one.id, std::move(one.session));
  std::erase_if(to.picked, [&held](const auto& row) {
    return row.partition_key && !held.contains(row.id);
  });
  for (auto& row : to.picked)
    if (row.partition_key) {
      row.key_session = held[row.id];
      how_.keys->add(*row.partition_key);
      plan_.note_free(*row.partition_key);
    }
}

/// What keys have passed on to. The locks are where they were.
std::vector<store::picked_row> turn::read_passed_on(in_flight& x,
                                                    const pq::reply& reply,
                                                    clock::time_point now) {
  if (x.at.next_of_keys < 0)
    return {};
  auto rows = store::read_pick(rows_of(reply, x.at.next_of_keys)).rows;
  note_picked(rows);
  std::unordered_map<std::string_view, entry*> from;
  for (auto& before : x.group.entries)
    if (before.hold)
      from.emplace(before.hold->key, &before);
  for (auto& row : rows) {
    auto found = row.partition_key ? from.find(*row.partition_key) : from.end();
    ensure(found != from.end(), "a key passes on from a row that had it");
    found->second->passed_on = true;
    row.key_session = found->second->hold->session;
    auto& its
      = stays_.try_emplace(*row.partition_key, stay{1, now}).first->second;
    ++its.rows;
  }
  return rows;
}

void turn::read_suspects(const in_flight& x, const pq::reply& reply, report& to,
                         clock::time_point now) {
  auto answer = picked(x, reply);
  note_picked(answer.rows);
  // They are few at once: one that is refused takes the place of another.
  if (answer.refused() > 0)
    suspect_bisection_.start();
  to.picked = std::move(answer.rows);
  to.token = x.token;
  read_keys(x, reply, to, now);
  to.full = true; // others may be waiting
  if (to.picked.empty() && !suspect_bisection_.active()) {
    in_vain_until_ = now + how_.pause_without_suspects;
    changes_then_ = x.changes;
  }
}

/// Whatever has become of it: nobody else picks suspects until then.
void turn::end_suspect_pick(const in_flight& x, report& to,
                            clock::time_point now) {
  if (!x.picks_suspects)
    return;
  std::vector<quarantine::taken> taken;
  for (const auto& row : to.picked)
    taken.push_back({row.id, row.crashes});
  to.suspects = true;
  to.on_trial = how_.suspects->picked(how_.queue, taken, now);
}

void turn::read_bisected(const in_flight& x, const pq::reply& reply, report& to,
                         clock::time_point now) {
  using step = pick_bisection::step;
  auto& bisection = bisection_for(x);
  const auto& rows = reply.results.front();
  if (x.bisects == step::ask) {
    bisection.asked(store::read<store::candidate>(rows));
  } else if (x.bisects == step::these) {
    auto answer = picked(x, reply);
    to.unpickable = bisection.picked(answer, now);
    to.picked = std::move(answer.rows);
    to.token = x.token;
    read_keys(x, reply, to, now);
  } else if (auto row = store::read_one<store::failed_row>(rows);
             row && !row->failed) {
    to.unpickable.push_back(bisection.not_failed(now));
  } else {
    auto guilty = bisection.failed();
    if (row) {
      guilty.run = {guilty.row.id,        std::move(row->fsm), row->version,
                    std::move(row->step), row->attempt,        row->seq};
      to.unpickable.push_back(std::move(guilty));
    }
  }
  to.full = go_on_bisecting(x, now);
  plan_.forget_marks(); // marks from before
}

/// Whatever it failed for, other rows do not wait for suspects.
bool turn::fail_suspects(const in_flight& of, const error& why, report& to,
                         clock::time_point now) {
  if (!of.suspects || of.bisects != pick_bisection::step::none)
    return false;
  if (pick_bisection::may_be_of_a_row(why))
    suspect_bisection_.start();
  else
    pause_picks(of, now);
  if (why.code == errc::unknown_fate) {
    lose(of.token, now);
    to.lost_pick = of.token;
  }
  to.failure = why;
  to.full = true;
  return true;
}

/// Outcomes do not wait for what becomes of a pick of a bisection.
bool turn::fail_bisected(const in_flight& of, const error& why, report& to,
                         clock::time_point now) {
  using step = pick_bisection::step;
  if (of.bisects == step::none)
    return false;
  auto& bisection = bisection_for(of);
  bool of_a_row = pick_bisection::may_be_of_a_row(why);
  if (of.bisects == step::these && of_a_row) {
    to.unpickable = bisection.not_picked(why, now);
  } else if (of.bisects == step::fail && of_a_row) {
    to.unpickable.push_back(bisection.not_failed(now));
  } else {
    if (of.bisects == step::ask)
      bisection.asked({});
    else
      bisection.again();
    pause_picks(of, now);
    to.failure = why;
    to.full = of.suspects;
    if (of.bisects == step::these && why.code == errc::unknown_fate) {
      lose(of.token, now);
      to.lost_pick = of.token;
    }
    return true;
  }
  to.full = go_on_bisecting(of, now);
  return true;
}

/// Whether there may be more; if not, the pick failed for something else, and other
/// rows than suspects are to be looked for.
bool turn::go_on_bisecting(const in_flight& after, clock::time_point now) {
  bool in_vain = bisection_for(after).in_vain();
  if (in_vain)
    pause_picks(after, now);
  return !in_vain || after.suspects;
}

} // namespace gd
