#pragma once

#include <gd/pq/database.hpp>
#include <gd/pq/ensure.hpp>
#include <gd/pq/pause.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <memory_resource>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace gd {

/// How entries wait for a transaction that they share, and what happens to a
/// group that failed: poison never spreads, and nobody waits on a stranger.
///
/// `Entry` has `key()` (no two of the same in a group), `bytes()`, `unsure()`
/// (the entry may wait for a stranger's unique key, and shares no group with those that
/// never do), maybe `apart()` (0 to 2: it shares a group with those of the same number
/// alone), and the members `locked_tries` and `not_before`, which belong to the batcher.
template <class Entry>
class batcher {
public:
  using clock = database::clock;

  /// An entry that was found locked so many times is tried alone, and waits.
  static constexpr int tries_before_alone = 5;
  /// While there is anything else, groups that may wait for strangers pause for so
  /// many times as long as the last one took.
  static constexpr int pause_after_wait = 3;

  batcher(std::size_t rows, std::size_t bytes) : rows_(rows), bytes_(bytes) {
    // nop
  }

  void push(Entry x) {
    pool_of(x).push_back(std::move(x));
  }

  bool empty() const noexcept {
    return ready() == 0 && unsure_.empty() && halves_.empty()
           && unsure_halves_.empty() && locked_.empty();
  }

  /// How many entries wait for nothing but a group.
  std::size_t ready() const noexcept {
    return ready_[0].size() + ready_[1].size() + ready_[2].size();
  }

  struct group {
    std::vector<Entry> entries;
    /// One entry that was found locked too often: to be waited for.
    bool alone = false;
    /// Part of a group that failed.
    bool half = false;
    /// Unset, unless the group may wait.
    std::optional<clock::time_point> waits_since{};

    /// The entries may wait for strangers: to be sent with a lock timeout.
    bool unsure() const {
      return !entries.empty() && entries.front().unsure();
    }
  };

  /// The next group; empty if nothing is due, or `others` have work to do and
  /// nothing but groups that may wait for strangers is left. Many rows that
  /// strangers hold must not starve the rest: no two groups that may wait follow
  /// each other while there is anything else, and they have a part of the time.
  /// `ended` is to be told of each. `most`: so many entries that wait for nobody.
  group take(clock::time_point now, bool others = false,
             std::size_t most = std::numeric_limits<std::size_t>::max()) {
    auto stays = std::stable_partition(locked_.begin(), locked_.end(),
                                       [now](const auto& x) {
      return x.not_before > now || waits(x);
    });
    for (auto i = stays; i != locked_.end(); ++i)
      pool_of(*i).push_back(std::move(*i));
    locked_.erase(stays, locked_.end());
    bool at_once = others || ready() > 0 || !halves_.empty();
    if (!at_once || (now >= wait_again_at_ && !waited_)) {
      auto next = take_waiting(now);
      if (!next.entries.empty()) {
        waited_ = true;
        wait_again_at_ = clock::time_point::max();
        next.waits_since = now;
        ensure(next.alone || next.entries.front().locked_tries > 0
                 || next.unsure(),
               "only who may wait for strangers is one that waits");
        return next;
      }
    }
    waited_ = false;
    if (!halves_.empty() && (ready() == 0 || !was_half_)) {
      was_half_ = true;
      return take_half(halves_);
    }
    was_half_ = false;
    for (std::size_t i = 0; i < ready_.size(); ++i) { // in turn
      last_ready_ = (last_ready_ + 1) % ready_.size();
      if (!ready_[last_ready_].empty())
        break;
    }
    return {take_ready(ready_[last_ready_], std::min(rows_, most))};
  }

  /// A group's transaction is over, however it ended.
  void ended(const group& x, clock::time_point now) {
    if (x.waits_since)
      wait_again_at_ = now + pause_after_wait * (now - *x.waits_since);
  }

  /// A group that failed for a reason of one of its rows: its halves go next,
  /// each by itself. Returns the guilty entry when it stood alone.
  std::optional<Entry> split(std::vector<Entry> failed) {
    ensure(!failed.empty(), "a group that failed has entries");
    if (failed.size() == 1)
      return std::move(failed.front());
    auto& pool = failed.front().unsure() ? unsure_halves_ : halves_;
    auto middle = failed.begin()
                  + static_cast<std::ptrdiff_t>(failed.size() / 2);
    pool.emplace_back(std::make_move_iterator(middle),
                      std::make_move_iterator(failed.end()));
    failed.erase(middle, failed.end());
    pool.push_back(std::move(failed));
    return std::nullopt;
  }

  /// It waits for something else, and is tried again then; `alone`: it has delayed whom it
  /// shared a group with, and does so no more.
  void put_off(Entry x, clock::time_point until, bool alone) {
    x.not_before = until;
    if (alone)
      x.locked_tries = std::max(x.locked_tries, tries_before_alone);
    locked_.push_back(std::move(x));
  }

  /// Part of a group that failed: it goes by itself.
  void put_half(std::vector<Entry> part) {
    if (!part.empty())
      (part.front().unsure() ? unsure_halves_ : halves_)
        .push_back(std::move(part));
  }

  /// A group that failed for no reason of its own goes first next time.
  void retry(std::vector<Entry> failed) {
    if (failed.empty())
      return;
    if (failed.size() == 1 && waits(failed.front()))
      return locked_.push_back(std::move(failed.front()));
    auto& pool = pool_of(failed.front());
    std::move(failed.rbegin(), failed.rend(), std::front_inserter(pool));
  }

  /// A stranger has locked the entry's row, or its unique key: the entry is tried
  /// again soon. So is an unloaded row that the server could not show in time.
  void put_locked(Entry x, clock::time_point now,
                  std::chrono::milliseconds first = std::chrono::milliseconds{
                    5}) {
    constexpr std::chrono::milliseconds most{1'000};
    x.not_before = now + pause_after(x.locked_tries, first, most);
    ++x.locked_tries;
    locked_.push_back(std::move(x));
  }

  /// Whatever waits, however it does, and fulfils `which`.
  template <class F>
  std::vector<Entry> remove_if(F which) {
    std::vector<Entry> out;
    auto sift = [&](auto& from) {
      auto kept = std::stable_partition(from.begin(), from.end(),
                                        [&](auto& x) { return !which(x); });
      std::move(kept, from.end(), std::back_inserter(out));
      from.erase(kept, from.end());
    };
    for (auto& pool : ready_)
      sift(pool);
    sift(unsure_);
    for (auto* pool : {&halves_, &unsure_halves_}) {
      for (auto& one : *pool)
        sift(one);
      std::erase_if(*pool, [](const auto& one) { return one.empty(); });
    }
    sift(locked_);
    return out;
  }

  /// When a locked entry is due; `max()`: none is.
  clock::time_point due() const {
    auto when = clock::time_point::max();
    for (const auto& x : locked_)
      when = std::min(when, x.not_before);
    return when;
  }

  /// Whether `take` would return something now.
  bool has_due(clock::time_point now) const {
    return ready() > 0 || !unsure_.empty() || !halves_.empty()
           || !unsure_halves_.empty() || due() <= now;
  }

private:
  using entries = std::deque<Entry>;
  using groups = std::vector<std::vector<Entry>>;

  entries& pool_of(const Entry& x) {
    if (x.unsure())
      return unsure_;
    if constexpr (requires { x.apart(); })
      return ready_[x.apart()];
    else
      return ready_[0];
  }

  /// An entry that was found locked waits for the stranger, by itself.
  static bool waits(const Entry& x) {
    return x.locked_tries >= tries_before_alone
           || (x.locked_tries > 0 && x.unsure());
  }

  /// Of the kinds that may wait, in turn.
  group take_waiting(clock::time_point now) {
    for (int i = 0; i < 3; ++i) {
      waiting_kind_ = (waiting_kind_ + 1) % 3;
      if (waiting_kind_ == 0 && !unsure_.empty())
        return {take_ready(unsure_, rows_)};
      if (waiting_kind_ == 1 && !unsure_halves_.empty())
        return take_half(unsure_halves_);
      if (waiting_kind_ == 2)
        if (auto one = take_locked(now); !one.entries.empty())
          return one;
    }
    return {};
  }

  static group take_half(groups& from) {
    group next{.entries = std::move(from.back()), .half = true};
    from.pop_back();
    return next;
  }

  /// The locked entry that is due first.
  group take_locked(clock::time_point now) {
    auto first = std::min_element(locked_.begin(), locked_.end(),
                                  [](const auto& a, const auto& b) {
      return a.not_before < b.not_before;
    });
    if (first == locked_.end() || first->not_before > now)
      return {};
    group next;
    next.alone = first->locked_tries >= tries_before_alone;
    next.entries.push_back(std::move(*first));
    locked_.erase(first);
    return next;
  }

  std::vector<Entry> take_ready(entries& from, std::size_t rows) {
    std::vector<Entry> out;
    std::size_t bytes = 0;
    auto most = std::min(rows, from.size());
    out.reserve(most);
    std::pmr::monotonic_buffer_resource memory;
    std::pmr::unordered_set<std::int64_t> keys{most, &memory};
    entries left;
    while (!from.empty() && out.size() < rows && left.size() < rows_) {
      auto& x = from.front();
      if (!out.empty() && bytes + x.bytes() > bytes_)
        break;
      if (keys.insert(x.key()).second) {
        bytes += x.bytes();
        out.push_back(std::move(x));
      } else {
        left.push_back(std::move(x));
      }
      from.pop_front();
    }
    std::move(left.rbegin(), left.rend(), std::front_inserter(from));
    return out;
  }

  std::size_t rows_;
  std::size_t bytes_;
  std::array<entries, 3> ready_; ///< by `apart()`
  entries unsure_;
  groups halves_;
  groups unsure_halves_;
  std::vector<Entry> locked_;
  /// The last group that would not wait was a half.
  bool was_half_ = false;
  /// Of what kind, of those that go apart, the last group was.
  std::size_t last_ready_ = 2;
  /// The last group might wait.
  bool waited_ = false;
  /// Which kind of those that may wait was the last.
  int waiting_kind_ = 0;
  clock::time_point wait_again_at_{};
};

} // namespace gd
