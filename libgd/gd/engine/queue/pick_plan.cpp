#include <gd/engine/queue/pick_plan.hpp>

#include <gd/pq/pause.hpp>

#include <algorithm>
#include <chrono>

namespace gd {

namespace {

using std::chrono::milliseconds;

/// How often a pick scans everything, if nobody asks for it.
constexpr milliseconds full_scan_interval{2'000};
/// How old a row may be when its insert commits, and yet be seen at once.
constexpr std::int64_t late_us = 1'000'000;
/// Of so many priorities it is known where picks begin.
constexpr std::size_t most_marks = 8;
/// What a pick with keys wants at the least.
constexpr std::int32_t least_keyed_pick = 20;
/// No pick merges more rows: so many that strangers have locked are passed over.
constexpr std::int32_t deepest = 1 << 22;
/// Between tries of a key that somebody else has locked, at first and at most.
constexpr milliseconds first_key_wait{100};
constexpr milliseconds longest_key_wait{5'000};

} // namespace

pick_plan::one pick_plan::begin(std::int32_t want, bool keyed,
                                clock::time_point now) {
  if (now >= full_scan_at_) {
    scan_everything();
    full_scan_at_ = now + full_scan_interval;
    depth_pays_ = true;
  }
  return {.wanted = keyed ? std::min(want, keyed_pick_) : want,
          .keyed = keyed,
          .forgotten = forgotten_};
}

void pick_plan::ask(store::pick_request& what, const one& x,
                    clock::time_point now) const {
  what.limit = x.wanted;
  what.depth = std::max(x.wanted, depth_) * (x.keyed ? 2 : 1);
  what.keyed = x.keyed;
  what.visit = visit_;
  for (const auto& [priority, since] : from_)
    what.from.push_back(since);
  if (!x.keyed)
    return;
  for (const auto& [key, locked] : locked_)
    if (locked.until > now)
      what.keys_to_leave.push_back(key);
  what.last_key = last_key_;
}

bool pick_plan::note(const one& x, const store::pick_answer& answer) {
  remember(x, answer);
  auto found = static_cast<std::int32_t>(answer.rows.size());
  bool enough = found >= x.wanted;
  bool only_keys = answer.summary.keyed_rows && !x.left_out;
  bool deeper = answer.summary.deeper && !enough
                && (!only_keys || found == 0 || depth_pays_);
  if (deeper) {
    if (depth_ <= x.wanted)
      found_before_ = found;
    depth_ = std::min(2 * std::max(2 * x.wanted, depth_), deepest);
    visit_ = x.keyed;
  } else if (answer.refused() == 0 && (found > 0 || !x.left_out)) {
    // Who asks which rows they were, or polls behind them, looks as deep as this.
    if (only_keys && depth_ > x.wanted && found_before_ > 0)
      depth_pays_ = found > 2 * found_before_;
    depth_ = depth_pays_ ? depth_ / 2 : 0;
    visit_ = visit_ && depth_ > x.wanted;
  }
  bool news = answer.summary.keyed_rows && !keyed_;
  plenty_ = enough && !x.keyed && !answer.summary.keyed_rows;
  keyed_ = answer.summary.keyed_rows;
  if (x.keyed) {
    last_key_ = answer.summary.last_key;
    keyed_pick_ = !enough ? std::max(least_keyed_pick, found + found / 4)
                          : std::max(keyed_pick_, 2 * x.wanted);
  }
  return enough || deeper || news;
}

void pick_plan::remember(const one& x, const store::pick_answer& answer) {
  if (x.forgotten != forgotten_)
    return;
  auto late = answer.summary.now_us2000 - late_us;
  for (const auto& first : answer.first)
    if (from_.size() < most_marks || from_.contains(first.priority))
      from_[first.priority] = first.since_us2000 <= late
                                ? first
                                : store::mark{first.priority, late};
}

void pick_plan::note_locked(const std::vector<std::string>& keys,
                            clock::time_point now) {
  std::erase_if(locked_, [now](const auto& x) {
    return x.second.until + longest_key_wait < now;
  });
  for (const auto& key : keys) {
    auto& locked = locked_[key];
    locked.until = now
                   + pause_after(locked.tries++, first_key_wait,
                                 longest_key_wait);
  }
}

} // namespace gd
