#include <gd/turn.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How often rows of lost picks are looked for.
constexpr milliseconds release_interval{200};
/// How long an entry that is tried alone waits for its row.
constexpr milliseconds alone_wait{20};
/// How long a group that may collide waits for a stranger's insert.
constexpr milliseconds unsure_wait{10};
/// Between tries of a key that somebody else has locked, at first and at most.
constexpr milliseconds first_key_wait{100};
constexpr milliseconds longest_key_wait{5'000};

} // namespace

turn::turn(settings how)
  : how_(std::move(how)),
    picks_(how_.first_pick),
    waiting_(how_.rows, how_.bytes) {
  // nop
}

void turn::add(store::outcome_row row, std::uint64_t tag) {
  waiting_.push({std::move(row), tag});
}

void turn::unlock(store::key_hold hold) {
  unlocks_.push_back(std::move(hold));
}

store::pick_request turn::make_pick(clock::time_point now) {
  store::pick_request x{.queue = how_.queue,
                        .limit = wanted_,
                        .machines = how_.machines,
                        .token = token_,
                        .lease = how_.lease,
                        .inbox = how_.inbox,
                        .keyed = keyed_};
  if (keyed_) {
    x.keys_to_leave = how_.keys->all();
    for (const auto& [key, locked] : locked_)
      if (locked.until > now)
        x.keys_to_leave.push_back(key);
    x.last_key = last_key_;
  }
  return x;
}

std::optional<pq::unit> turn::begin(std::int32_t want, clock::time_point now) {
  if (under_way_ || now < not_before_)
    return std::nullopt;
  pq::unit work;
  layout_ = {};
  auto append = [&work](pq::call x) {
    work.calls.push_back(std::move(x));
    return static_cast<int>(work.calls.size()) - 1;
  };
  if (!unlocks_.empty()) {
    // First: it takes effect at once, whatever becomes of the transaction. If
    // the connection is lost, so are its locks.
    append(store::unlock_keys(unlocks_));
    for (const auto& x : unlocks_)
      how_.keys->remove(x.key);
    unlocks_.clear();
  }
  std::erase_if(lost_, [now](const auto& x) { return x.until <= now; });
  if (!lost_.empty() && now >= release_at_) {
    std::vector<std::string> tokens;
    for (const auto& x : lost_)
      tokens.push_back(x.token);
    layout_.release = append(store::release_lost(tokens));
    release_at_ = now + release_interval;
  }
  bool may_pick = want > 0 && !waiting_.isolating() && now >= no_pick_before_;
  group_ = waiting_.take(now, may_pick);
  if (!group_.entries.empty()) {
    std::vector<store::outcome_row> rows;
    for (auto& x : group_.entries)
      rows.push_back(std::move(x.row));
    if (group_.alone || rows.front().may_collide)
      append(store::lock_timeout(group_.alone ? alone_wait : unsure_wait));
    if (group_.alone)
      append(store::lock({rows.front().id}));
    layout_.flush = append(store::flush(rows));
    if (auto parked = store::recheck(rows))
      layout_.recheck = append(std::move(*parked));
    for (std::size_t i = 0; i < rows.size(); ++i)
      group_.entries[i].row = std::move(rows[i]);
  }
  // A group under suspicion, or one that waits for a lock, goes without a pick.
  if (may_pick && !group_.alone && !group_.unsure()) {
    wanted_ = std::min(want, static_cast<std::int32_t>(how_.rows));
    token_ = fmt::format("{}/{}", how_.incarnation, picks_++);
    layout_.pick = append(store::pick(make_pick(now)));
    if (keyed_) {
      append(store::lock_keys());
      layout_.check_keys = append(store::check_keys());
      work.leaves_traces_from = work.calls.size();
      layout_.hold_keys = append(store::hold_keys());
    }
  }
  if (work.calls.empty())
    return std::nullopt;
  under_way_ = true;
  return work;
}

turn::leftovers turn::abandon() const {
  leftovers out;
  for (const auto& x : unlocks_)
    out.keys.push_back(x.key);
  out.locks = !out.keys.empty() || (under_way_ && layout_.hold_keys >= 0);
  std::vector<std::string> tokens;
  for (const auto& x : lost_)
    tokens.push_back(x.token);
  if (under_way_ && layout_.pick >= 0)
    tokens.push_back(token_);
  if (!tokens.empty())
    out.release = pq::unit{.calls = {store::release_lost(tokens)}};
  return out;
}

turn::report turn::finish(pq::reply reply, clock::time_point now) {
  report out;
  under_way_ = false;
  if (!reply.ok()) {
    fail(reply, out, now);
    return out;
  }
  failures_ = 0;
  auto rows_of = [&reply](int i) -> const pq::rows& {
    return reply.results[static_cast<std::size_t>(i)];
  };
  if (layout_.release >= 0)
    out.recovered = rows_of(layout_.release).size();
  if (layout_.flush >= 0)
    read_flush(rows_of(layout_.flush), out, now);
  if (layout_.pick >= 0)
    read_pick(reply, out, now);
  return out;
}

void turn::read_pick(const pq::reply& reply, report& to,
                     clock::time_point now) {
  auto rows_of = [&reply](int i) -> const pq::rows& {
    return reply.results[static_cast<std::size_t>(i)];
  };
  auto answer = store::read_pick(rows_of(layout_.pick));
  to.picked = std::move(answer.rows);
  to.token = token_;
  to.full = to.picked.size() >= static_cast<std::size_t>(wanted_)
            || (answer.keyed_rows && !keyed_);
  last_key_ = std::move(answer.last_key);
  bool had_keys = std::exchange(keyed_, answer.keyed_rows);
  if (!had_keys)
    return;
  std::erase_if(locked_, [now](const auto& x) {
    return x.second.until + longest_key_wait < now;
  });
  for (auto& [key, elsewhere] :
       store::read_check_keys(rows_of(layout_.check_keys)))
    if (elsewhere) {
      auto& locked = locked_[key];
      locked.until = now
                     + std::min(first_key_wait
                                  * (1 << std::min(locked.tries, 8)),
                                longest_key_wait);
      ++locked.tries;
    }
  std::unordered_map<std::int64_t, std::string> held;
  for (auto& [id, session] : store::read_hold_keys(rows_of(layout_.hold_keys)))
    held.emplace(id, std::move(session));
  std::erase_if(to.picked, [&held](const auto& row) {
    return row.partition_key && !held.contains(row.id);
  });
  for (auto& row : to.picked)
    if (row.partition_key) {
      row.key_session = held[row.id];
      how_.keys->add(*row.partition_key);
      locked_.erase(*row.partition_key);
    }
}

void turn::read_flush(const pq::rows& rows, report& to, clock::time_point now) {
  using verdict = settled::verdict;
  std::unordered_map<std::int64_t, store::flushed_row> answers;
  for (auto& x : store::read_flush(rows))
    answers.emplace(x.id, x);
  for (auto& x : group_.entries) {
    auto found = answers.find(x.row.id);
    bool missing = found == answers.end();
    if (missing && !group_.alone) {
      waiting_.put_busy(std::move(x), now);
      continue;
    }
    if (!missing && found->second.holder) {
      auto holder = *found->second.holder;
      to.rows.push_back(
        {x.tag, std::move(x.row), verdict::collided,
         error{errc::rejected,
               fmt::format("instance {} has its unique key", holder), "23505"},
         holder});
      continue;
    }
    // Locked and yet missing: deleted, which is as good as another's.
    auto what = !missing && found->second.applied ? verdict::applied
                : x.resent                        ? verdict::unknown
                                                  : verdict::stale;
    to.rows.push_back({x.tag, std::move(x.row), what});
  }
  group_.entries.clear();
}

void turn::fail(const pq::reply& reply, report& to, clock::time_point now) {
  const auto& why = *reply.failure;
  auto group = std::move(group_.entries);
  group_.entries.clear();
  auto failed_at = static_cast<int>(reply.failed_call);
  bool of_pick = layout_.pick >= 0 && failed_at >= layout_.pick;
  switch (why.code) {
    case errc::unknown_fate:
      for (auto& x : group)
        x.resent = true;
      if (layout_.pick >= 0) {
        // The server may still be at it: its lease begins at the latest then.
        lost_.push_back({token_, now + how_.lease});
        to.lost_pick = token_;
        release_at_ = {};
      }
      break;
    case errc::rejected:
      if (of_pick || group.empty())
        break;
      if (auto guilty = waiting_.split(std::move(group))) {
        // Taken while it waited: asked again, the database tells by whom.
        if (why.sqlstate == "23505" && guilty->row.may_collide)
          waiting_.put_busy(std::move(*guilty), now);
        else
          to.rows.push_back({guilty->tag, std::move(guilty->row),
                             settled::verdict::refused, why});
      }
      return;
    case errc::busy:
      // A row tried alone; or a signal that one of the group has consumed, and
      // that a stranger has locked.
      if (of_pick || group.empty())
        break;
      if (auto held = waiting_.split(std::move(group)))
        waiting_.put_busy(std::move(*held), now);
      return;
    default:
      break;
  }
  to.failure = why;
  waiting_.put_back(std::move(group));
  if (of_pick)
    no_pick_before_ = now + milliseconds{1'000};
  else
    back_off(now);
}

void turn::back_off(clock::time_point now) {
  auto wait = std::min(milliseconds{20} * (1 << std::min(failures_, 8)),
                       milliseconds{5'000});
  ++failures_;
  not_before_ = now + wait;
}

turn::clock::time_point turn::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  auto when = waiting_.has_due(now) || !unlocks_.empty() ? now : waiting_.due();
  if (!lost_.empty())
    when = std::min(when, release_at_);
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

} // namespace gd
