#include <gd/engine/queue/turn.hpp>

#include <gd/pq/ensure.hpp>
#include <gd/pq/pause.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How long an entry that is tried alone waits for its row.
constexpr milliseconds alone_wait{20};
/// How long a row that may collide waits for a stranger's insert; and how long
/// each statement of a group of them may take: it may have to wait for many.
constexpr milliseconds unsure_wait{10};
constexpr milliseconds unsure_group_wait{100};
/// A row that takes all of the server's time or memory alone is shown so often, and
/// that long after the first time.
constexpr int most_tries_to_show = 3;
constexpr milliseconds show_again_after{500};

/// How long a group that erases waits for strangers; and how long nothing is erased after
/// that was refused, since something refers to what was to go.
constexpr milliseconds erase_wait{10};
constexpr milliseconds erase_pause{1'000};

/// How long keys do not pass on after a row could not be picked that way.
constexpr milliseconds passing_pause{1'000};

using outcome_refs = store::row_refs<store::outcome_row>;

} // namespace

turn::turn(settings how)
  : how_(std::move(how)),
    picks_(how_.first_pick),
    waiting_(how_.rows, how_.bytes),
    unloaded_(shown_at_once, shown_at_once),
    in_flight_(how_.transactions) {
  // nop
}

void turn::add(std::unique_ptr<store::outcome_row> row, std::uint64_t tag,
               std::optional<store::key_hold> hold) {
  entry x{std::move(row), tag};
  if (hold)
    x.hold = std::make_unique<store::key_hold>(std::move(*hold));
  waiting_.push(std::move(x));
}

std::string turn::draw_token() {
  return fmt::format("{}/{}", how_.incarnation, picks_++);
}

std::size_t turn::under_way() const {
  return static_cast<std::size_t>(
    std::count_if(in_flight_.begin(), in_flight_.end(),
                  [](const auto& x) { return x.under_way; }));
}

bool turn::occupied(std::int32_t want) const {
  auto n = under_way();
  bool worth_it = under_load() || (plenty() && want >= how_.worth_a_pick);
  return n == in_flight_.size() || (n > 0 && !worth_it);
}

std::size_t turn::missing() const {
  auto n = under_way();
  if (n == in_flight_.size())
    return std::numeric_limits<std::size_t>::max();
  return n == 0 || under_load() ? 1
                                : how_.worth_a_transaction - waiting_.ready();
}

std::int32_t turn::wanted() const {
  std::int32_t n = 0;
  for (const auto& x : in_flight_)
    if (x.under_way)
      n += x.pick.wanted + x.passing;
  return n;
}

std::optional<turn::started> turn::begin(std::int32_t want,
                                         clock::time_point now,
                                         std::int64_t room, bool suspects,
                                         std::int32_t pass_on) {
  if (occupied(want) || now < not_before_)
    return std::nullopt;
  auto free = std::find_if(in_flight_.begin(), in_flight_.end(),
                           [](const auto& x) { return !x.under_way; });
  ensure(free != in_flight_.end(),
         "a turn that is not occupied has a free transaction");
  bool first = free == in_flight_.begin();
  auto& next = *free;
  next = {};
  pq::unit work;
  // Outcomes do not share the fate of rows that may be unreadable, and neither
  // waits for all of the other.
  bool apart = !std::exchange(outcomes_next_, false) || !waiting_.has_due(now);
  if (apart
      && (show_some(next, work, room, now)
          || pick_bisected(next, work, want, first, now)
          || pick_suspects(next, work, suspects ? want : 0, first, now))) {
    outcomes_next_ = waiting_.has_due(now);
  } else {
    if (first)
      add_unlocks(work);
    if (auto tokens = lost_.take(now); !tokens.empty())
      next.at.release = work.add(store::release_lost(tokens));
    // Rows with a key are picked where their locks live; what is less urgent does
    // not overtake them elsewhere.
    bool can_pick = now >= no_pick_before_ && !bisection_.active();
    bool may_pick = want > 0 && can_pick && (first || !picks_keyed(now));
    write_outcomes(next, work, may_pick, now);
    // Half of a group that failed, or one that waits for a lock, goes without a pick.
    const auto& group = next.group;
    if (!group.alone && !group.half && !group.unsure() && !next.carried) {
      if (can_pick && pass_on > 0 && now >= no_passing_before_)
        pass_keys_on(next, work, pass_on, now);
      if (may_pick && want > next.passing)
        pick(next, work, want - next.passing, now);
    }
  }
  if (work.calls.empty())
    return std::nullopt;
  // A statement that reads, or a pick with what it tells of itself, relies on no snapshot
  // that is younger: the pipeline is its transaction, without a begin and a commit.
  bool alone = next.at.pick >= 0
                 ? work.calls.size() == 2
                 : work.calls.size() == 1
                     && (!next.showing.empty()
                         || next.bisects == pick_bisection::step::ask);
  work.transaction = !alone;
  if (next.carried) {
    next.calls = work.calls.size();
    accept_only_all(next, work);
  }
  next.under_way = true;
  bool leaves_suspects = want > 0 && suspects && suspects_
                         && !next.picks_suspects && !(apart && first)
                         && may_pick_suspects(now);
  return started{static_cast<std::size_t>(free - in_flight_.begin()),
                 std::move(work), next.at.pick >= 0, leaves_suspects,
                 next.showing.empty() ? 0 : room};
}

/// First: unlocking takes effect at once, whatever becomes of the transaction. If the
/// connection is lost, so are its locks.
void turn::add_unlocks(pq::unit& work) {
  if (unlocks_.empty())
    return;
  work.add(store::unlock_keys(unlocks_));
  for (const auto& x : unlocks_)
    how_.keys->remove(x.key);
  unlocks_.clear();
}

bool turn::show_some(in_flight& next, pq::unit& work, std::int64_t room,
                     clock::time_point now) {
  if (room <= 0 || !unloaded_.has_due(now))
    return false;
  next.showing = unloaded_.take(now).entries;
  std::vector<store::unloaded_row> rows;
  for (const auto& x : next.showing)
    rows.push_back(x.row);
  work.add(store::show(rows, how_.inbox, room));
  return true;
}

/// What writes an outcome. Only `writer::any` gets past an entry that is there already: not
/// `quickly` go rows by themselves, and groups in which one has failed.
static store::writing writing_of(const store::outcome_row& row, bool quickly) {
  using store::follow;
  using store::writer;
  bool enters = row.has_history && row.what != store::write_kind::release;
  auto then = enters ? follow::history : follow::nothing;
  if (row.what == store::write_kind::advance)
    return {writer::advance, then};
  if (row.erase)
    return {writer::any, follow::erase};
  if (row.keep_us)
    return store::is_plain_done(row) && !enters
             ? store::writing{writer::done, follow::keep, *row.keep_us}
             : store::writing{writer::any, follow::keep};
  if (store::is_plain_done(row)
      && (!enters || (quickly && row.metadata.empty())))
    return {writer::done, then};
  if (store::is_plain_next(row) && (!enters || quickly))
    return {writer::next, then};
  return {writer::any, then};
}

void turn::bound_waits(batcher<entry>::group& group, pq::unit& work,
                       clock::time_point now) const {
  if (group.alone)
    work.add(store::lock_timeout(alone_wait));
  else if (group.unsure())
    work.add(group.entries.size() > 1
               ? store::lock_timeout(unsure_wait, unsure_group_wait)
               : store::lock_timeout(unsure_wait));
  if (!group.entries.front().row->erase)
    return;
  if (now >= no_erase_before_)
    work.add(store::lock_timeout(erase_wait));
  else
    for (auto& x : group.entries)
      x.row->erase = false;
}

/// Keys that pass on bring no rows that are prefetched: what waits is divided, so that
/// the steps of one half run while the other half is written.
std::size_t turn::most_at_once() const {
  auto half = (waiting_.ready() + 1) / 2;
  bool divided = keys_stay() && in_flight_.size() > 1 && under_way() == 0
                 && half >= how_.worth_a_transaction;
  return divided ? half : how_.rows;
}

void turn::write_outcomes(in_flight& next, pq::unit& work, bool may_pick,
                          clock::time_point now) {
  auto& group = next.group;
  group = waiting_.take(now, may_pick, most_at_once());
  leave_contested(group, now);
  if (group.entries.empty())
    return;
  bound_waits(group, work, now);
  ensure(!group.alone || group.entries.size() == 1,
         "who waits for a stranger waits alone");
  if (group.alone)
    work.add(store::lock({group.entries.front().row->id}));
  std::map<store::writing, outcome_refs> written;
  outcome_refs parking;
  outcome_refs advancing;
  bool quickly = group.entries.size() > 1 && !group.half;
  for (const auto& x : group.entries) {
    const auto& row = *x.row;
    written[writing_of(row, quickly)].add(row);
    if (row.what == store::write_kind::await)
      parking.add(row);
    if (row.what == store::write_kind::advance)
      advancing.add(row);
  }
  if (!advancing.empty())
    next.next_token = draw_token();
  auto parked = store::recheck(parking);
  for (const auto& [how, rows] : written) {
    if (how.by == store::writer::advance && parked)
      work.add(*std::exchange(parked, std::nullopt));
    next.at.outcomes.push_back(
      work.add(store::write_outcomes(how, rows, next.next_token, how_.resend)));
  }
  if (parked)
    work.add(std::move(*parked));
  carry(next, work);
  if (!advancing.empty()) {
    next.at.advance = next.at.outcomes.back();
    next.at.inbox = work.add(store::inbox(advancing, how_.inbox));
  }
  if (next.carried)
    run_statements(next, work);
}

turn::leftovers turn::abandon() const {
  leftovers out;
  for (const auto& x : unlocks_)
    out.keys.push_back(x.key);
  out.locks = !out.keys.empty();
  auto tokens = lost_.all();
  for (const auto& x : in_flight_) {
    out.locks = out.locks || (x.under_way && x.at.hold_keys >= 0);
    if (x.under_way && x.picks())
      tokens.push_back(x.token);
    if (x.under_way && x.at.advance >= 0)
      tokens.push_back(x.next_token);
    auto& release = out.release.emplace_back();
    if (!tokens.empty())
      release = pq::unit{.calls = {store::release_lost(tokens)}};
    tokens.clear();
  }
  return out;
}

turn::report turn::finish(std::size_t which, const pq::reply& reply,
                          clock::time_point now) {
  ensure(which < in_flight_.size() && in_flight_[which].under_way,
         "a reply is that of a transaction which is in flight");
  report out;
  auto& x = in_flight_[which];
  x.under_way = false;
  waiting_.ended(x.group, now);
  if (reply.ok())
    read(x, reply, out, now);
  else
    fail(x, reply, out, now);
  end_suspect_pick(x, out, now);
  return out;
}

void turn::read(in_flight& x, const pq::reply& reply, report& out,
                clock::time_point now) {
  failures_ = 0;
  if (x.at.release >= 0)
    out.released = rows_of(reply, x.at.release).size();
  if (out.released > 0)
    scan_everything();
  auto passed = read_passed_on(x, reply, now);
  if (x.carried) {
    out.carried = x.carried->count(reply.results);
    out.queues = x.carried->queues(reply.results);
  }
  if (!x.group.entries.empty())
    read_outcomes(x, reply, out, now);
  if (!x.showing.empty())
    read_shown(x, reply, out);
  else if (x.bisects != pick_bisection::step::none)
    read_bisected(x, reply, out, now);
  else if (x.suspects)
    read_suspects(x, reply, out, now);
  else if (x.at.pick >= 0)
    read_pick(x, reply, out, now);
  if (passed.empty())
    return;
  out.token = x.token;
  out.passed_on = passed.size();
  passed.insert(passed.end(), std::make_move_iterator(out.picked.begin()),
                std::make_move_iterator(out.picked.end()));
  out.picked = std::move(passed);
}

void turn::read_shown(in_flight& x, const pq::reply& reply, report& to) {
  auto answers = store::read<store::shown_row>(reply.results.front());
  for (std::size_t i = 0; i < x.showing.size(); ++i) {
    auto& which = x.showing[i].row;
    if (i >= answers.size()) {
      to.still_unloaded.push_back(std::move(which));
      continue;
    }
    shown one{.which = std::move(which)};
    if (answers[i].state)
      one.content = std::move(answers[i]);
    to.shown_rows.push_back(std::move(one));
  }
}

error turn::collision(std::int64_t holder) {
  return {
    errc::key_taken, fmt::format("instance {} has its unique key", holder), {}};
}

void turn::read_outcomes(in_flight& of, const pq::reply& reply, report& to,
                         clock::time_point now) {
  using verdict = flushed::verdict;
  std::vector<store::flushed_row> answers;
  for (auto at : of.at.outcomes)
    for (auto& x : store::read_flush(rows_of(reply, at)))
      answers.push_back(x);
  ensure(answers.size() <= of.group.entries.size(),
         "each outcome is in one answer at the most");
  // Mostly all rows are there.
  bool all = answers.size() == of.group.entries.size()
             && std::all_of(answers.begin(), answers.end(),
                            [](const auto& x) { return x.applied; });
  std::unordered_map<std::int64_t, store::flushed_row> by_id;
  if (!all)
    for (const auto& x : answers)
      ensure(by_id.emplace(x.id, x).second,
             "each outcome is in one answer at the most");
  const store::flushed_row applied{.applied = true};
  auto answer_to = [&](std::int64_t id) -> const store::flushed_row* {
    if (all)
      return &applied;
    auto found = by_id.find(id);
    return found == by_id.end() ? nullptr : &found->second;
  };
  std::unordered_map<std::int64_t, std::optional<std::vector<raw_signal>>>
    inboxes;
  if (of.at.inbox >= 0)
    for (auto& one : store::read<store::inbox_row>(rows_of(reply, of.at.inbox)))
      inboxes.emplace(one.id, std::move(one.inbox));
  to.rows.reserve(of.group.entries.size());
  for (auto& x : of.group.entries) {
    const auto* answer = answer_to(x.row->id);
    if (answer == nullptr && x.row->erase) {
      x.row->erase
        = false; // somebody may only refer to it: it is kept a little
      waiting_.push(std::move(x));
      continue;
    }
    if (answer == nullptr && !of.group.alone) {
      waiting_.put_locked(std::move(x), now);
      continue;
    }
    if (answer != nullptr && answer->holder) {
      auto holder = *answer->holder;
      to.rows.push_back({x.tag, std::move(x.row), verdict::collided,
                         collision(holder), holder});
      continue;
    }
    // Locked and yet missing: deleted, which is as good as another's.
    auto what = answer != nullptr && answer->applied ? verdict::applied
                : x.resent                           ? verdict::unknown
                                                     : verdict::stale;
    auto& done = to.rows.emplace_back(
      flushed{.tag = x.tag, .row = std::move(x.row), .what = what});
    done.key_passed_on = x.passed_on;
    if (what == verdict::applied
        && done.row->what == store::write_kind::advance) {
      done.next_token = of.next_token;
      auto inbox = inboxes.extract(done.row->id);
      done.inbox = inbox.empty() ? std::vector<raw_signal>{}
                                 : std::move(inbox.mapped());
    }
  }
  of.group.entries.clear();
}

void turn::fail(in_flight& of, const pq::reply& reply, report& to,
                clock::time_point now) {
  const auto& why = *reply.failure;
  plan_.failed();
  if (fail_shown(of, why, to, now) || fail_suspects(of, why, to, now)
      || fail_bisected(of, why, to, now) || fail_carried(of, reply, to, now))
    return;
  auto group = std::exchange(of.group.entries, {});
  auto failed_at = static_cast<int>(reply.failed_call);
  bool of_pick = of.picks() && failed_at >= of.first_pick();
  // Behind the time that a group of those has who may wait for strangers.
  bool waited = why.code == errc::busy
                || (why.sqlstate == "57014" && group.size() > 1
                    && group.front().unsure());
  if (why.code == errc::unknown_fate) {
    for (auto& x : group)
      x.resent = true;
    if (of.picks()) {
      lose(of.token, now);
      to.lost_pick = of.token;
    }
    if (of.at.advance >= 0) // nobody has the lease that they may be under
      lose(of.next_token, now);
  } else if (failed_at == of.at.release
             && pick_bisection::may_be_of_a_row(why)) {
    // For a row that is no outcome's: outcomes go without `release_lost`.
    lost_.refused(now);
    to.failure = why;
    waiting_.retry(std::move(group));
    return;
  } else if (failed_at == of.at.next_of_keys
             && pick_bisection::may_be_of_a_row(why)) {
    // Whatever row it is: picks come across it when its key is free.
    no_passing_before_ = now + passing_pause;
    to.failure = why;
    waiting_.retry(std::move(group));
    return;
  } else if (!of_pick && keeps_instead(group, why, now)) {
    waiting_.retry(std::move(group));
    return;
  } else if (why.code == errc::rejected && !of_pick && !group.empty()) {
    if (auto guilty = waiting_.split(std::move(group))) {
      // The key was taken meanwhile: asked again, the database tells by whom.
      if (why.sqlstate == "23505" && guilty->row->may_collide)
        waiting_.put_locked(std::move(*guilty), now);
      else
        to.rows.push_back({guilty->tag, std::move(guilty->row),
                           flushed::verdict::refused, why});
    }
    return;
  } else if (waited && !of_pick && !group.empty()) {
    // A row tried alone; a key that a stranger is inserting; or a signal that one
    // of the group has consumed, and that a stranger has locked.
    if (auto held = waiting_.split(std::move(group)))
      waiting_.put_locked(std::move(*held), now);
    return;
  }
  to.failure = why;
  waiting_.retry(std::move(group));
  if (!of_pick)
    back_off(now);
  else if (!pick_bisection::may_be_of_a_row(why))
    pause_picks(of, now);
  else {
    bisection_.start();
    to.full = true;
  }
}

/// What was to be erased is in somebody's way, or he in its: no step or handler could help
/// that. It ends like others, and is left to the sweep.
bool turn::keeps_instead(std::vector<entry>& group, const error& why,
                         clock::time_point now) {
  bool in_the_way = why.code == errc::rejected || why.code == errc::busy
                    || why.sqlstate == "57014";
  if (!in_the_way || group.empty() || !group.front().row->erase)
    return false;
  no_erase_before_ = now + erase_pause;
  for (auto& x : group)
    x.row->erase = false;
  return true;
}

bool turn::fail_shown(in_flight& of, const error& why, report& to,
                      clock::time_point now) {
  if (of.showing.empty())
    return false;
  auto rows = std::exchange(of.showing, {});
  if (!pick_bisection::may_be_of_a_row(why)) {
    unloaded_.retry(std::move(rows));
    return false;
  }
  auto guilty = unloaded_.split(std::move(rows));
  if (!guilty)
    return true;
  if (!pick_bisection::is_of_the_row(why)
      && guilty->locked_tries + 1 < most_tries_to_show)
    unloaded_.put_locked(std::move(*guilty), now, show_again_after);
  else
    to.shown_rows.push_back({.which = std::move(guilty->row), .why = why});
  return true;
}

void turn::back_off(clock::time_point now) {
  not_before_ = now
                + pause_after(failures_++, milliseconds{20},
                              milliseconds{5'000});
}

turn::clock::time_point turn::due(clock::time_point now, bool room) const {
  if (occupied())
    return clock::time_point::max();
  bool first = !in_flight_.front().under_way;
  bool at_once = waiting_.has_due(now) || (!unlocks_.empty() && first)
                 || (room && unloaded_.has_due(now));
  auto when = at_once ? now : waiting_.due();
  if (room)
    when = std::min(when, unloaded_.due());
  if (bisection_.in_the_middle() && first)
    when = std::min(when, std::max(now, no_pick_before_));
  when = std::min(when, lost_.due());
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

} // namespace gd
