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

std::optional<pq::unit> turn::begin(std::int32_t want, clock::time_point now) {
  if (under_way_ || now < not_before_)
    return std::nullopt;
  pq::unit work;
  layout_ = {};
  auto append = [&work](pq::call x) {
    work.calls.push_back(std::move(x));
    return static_cast<int>(work.calls.size()) - 1;
  };
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
    if (group_.alone) {
      append(store::lock_timeout(alone_wait));
      append(store::lock({rows.front().id}));
    }
    layout_.flush = append(store::flush(rows));
    if (auto parked = store::recheck(rows))
      layout_.recheck = append(std::move(*parked));
    for (std::size_t i = 0; i < rows.size(); ++i)
      group_.entries[i].row = std::move(rows[i]);
  }
  // A group under suspicion, or one that waits for a lock, goes without a pick.
  if (may_pick && !group_.alone) {
    wanted_ = std::min(want, static_cast<std::int32_t>(how_.rows));
    token_ = fmt::format("{}/{}", how_.incarnation, picks_++);
    layout_.pick = append(store::pick(how_.queue, wanted_, how_.machines,
                                      token_, how_.lease, how_.inbox));
  }
  if (work.calls.empty())
    return std::nullopt;
  under_way_ = true;
  return work;
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
  if (layout_.pick >= 0) {
    out.picked = store::read_pick(rows_of(layout_.pick));
    out.token = token_;
    out.full = out.picked.size() >= static_cast<std::size_t>(wanted_);
  }
  return out;
}

void turn::read_flush(const pq::rows& rows, report& to, clock::time_point now) {
  using verdict = settled::verdict;
  std::unordered_map<std::int64_t, bool> answers;
  for (auto [id, applied] : store::read_flush(rows))
    answers.emplace(id, applied);
  for (auto& x : group_.entries) {
    auto found = answers.find(x.row.id);
    bool missing = found == answers.end();
    if (missing && !group_.alone) {
      waiting_.put_busy(std::move(x), now);
      continue;
    }
    // Locked and yet missing: deleted, which is as good as another's.
    auto what = !missing && found->second ? verdict::applied
                : x.resent                ? verdict::unknown
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
  bool of_pick = layout_.pick >= 0 && failed_at == layout_.pick;
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
      if (auto guilty = waiting_.split(std::move(group)))
        to.rows.push_back({guilty->tag, std::move(guilty->row),
                           settled::verdict::refused, why});
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
  auto when = waiting_.has_due(now) ? now : waiting_.due();
  if (!lost_.empty())
    when = std::min(when, release_at_);
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

} // namespace gd
