#pragma once

#include <gd/database.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory_resource>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace gd {

/// How entries wait for a transaction that they share, and what happens to a
/// group that failed: poison never spreads, and nobody waits on a stranger
/// (design section 4, [A7]).
///
/// `Entry` has `key()` (no two of the same in a group), `bytes()`, `unsure()`
/// (it may wait for a stranger's unique key, and shares no group with those that
/// never do), and the members `busy_tries` and `not_before`, which belong to the batcher.
template <class Entry>
class batcher {
public:
  using clock = database::clock;

  /// After so many times busy an entry is tried alone, waiting for its lock.
  static constexpr int tries_before_alone = 5;

  batcher(std::size_t rows, std::size_t bytes) : rows_(rows), bytes_(bytes) {
    // nop
  }

  void push(Entry x) {
    ready_.push_back(std::move(x));
  }

  bool empty() const noexcept {
    return ready_.empty() && suspects_.empty() && busy_.empty();
  }

  /// How many wait for nothing but a group.
  std::size_t ready() const noexcept {
    return ready_.size();
  }

  /// Whether a failed group is being taken apart.
  bool isolating() const noexcept {
    return !suspects_.empty();
  }

  struct group {
    std::vector<Entry> entries;
    /// One entry that has been busy too often: to be waited for.
    bool alone = false;

    /// They may wait for strangers: to be sent with a lock timeout.
    bool unsure() const {
      return !entries.empty() && entries.front().unsure();
    }
  };

  /// The next group; empty if nothing is due. One that waits for a lock is
  /// followed by one that does not if there is any, or `others` have work to do:
  /// many rows that strangers hold must not starve the rest.
  group take(clock::time_point now, bool others = false) {
    group next;
    if (!suspects_.empty()) {
      next.entries = std::move(suspects_.back());
      suspects_.pop_back();
      return next;
    }
    bool may_wait = !waited_ || (ready_.empty() && !others);
    waited_ = false;
    for (auto i = busy_.begin(); i != busy_.end();) {
      if (i->not_before <= now && i->busy_tries < tries_before_alone) {
        ready_.push_back(std::move(*i));
        i = busy_.erase(i);
      } else if (i->not_before <= now && may_wait) {
        next.entries.push_back(std::move(*i));
        next.alone = waited_ = true;
        busy_.erase(i);
        return next;
      } else {
        ++i;
      }
    }
    std::size_t bytes = 0;
    auto most = std::min(rows_, ready_.size());
    next.entries.reserve(most);
    std::pmr::monotonic_buffer_resource memory;
    std::pmr::unordered_set<std::int64_t> keys{most, &memory};
    std::deque<Entry> left;
    bool unsure = !ready_.empty() && ready_.front().unsure();
    while (!ready_.empty() && next.entries.size() < rows_
           && left.size() < rows_) {
      auto& x = ready_.front();
      if (!next.entries.empty() && bytes + x.bytes() > bytes_)
        break;
      if (x.unsure() == unsure && keys.insert(x.key()).second) {
        bytes += x.bytes();
        next.entries.push_back(std::move(x));
      } else {
        left.push_back(std::move(x));
      }
      ready_.pop_front();
    }
    std::move(left.rbegin(), left.rend(), std::front_inserter(ready_));
    return next;
  }

  /// A group that failed for a reason of one of its rows: its halves go next,
  /// each by itself. Returns the guilty entry when it stood alone.
  std::optional<Entry> split(std::vector<Entry> failed) {
    if (failed.size() == 1)
      return std::move(failed.front());
    auto middle = failed.begin()
                  + static_cast<std::ptrdiff_t>(failed.size() / 2);
    suspects_.emplace_back(std::make_move_iterator(middle),
                           std::make_move_iterator(failed.end()));
    failed.erase(middle, failed.end());
    suspects_.push_back(std::move(failed));
    return std::nullopt;
  }

  /// A group that failed for no reason of its own: it goes first next time.
  void put_back(std::vector<Entry> failed) {
    if (failed.size() == 1 && failed.front().busy_tries >= tries_before_alone)
      return busy_.push_back(std::move(failed.front()));
    std::move(failed.rbegin(), failed.rend(), std::front_inserter(ready_));
  }

  /// A stranger holds the entry's row: it is tried again soon.
  void put_busy(Entry x, clock::time_point now) {
    constexpr std::chrono::milliseconds first{5};
    constexpr std::chrono::milliseconds most{1'000};
    x.not_before = now
                   + std::min(first * (1 << std::min(x.busy_tries, 10)), most);
    ++x.busy_tries;
    busy_.push_back(std::move(x));
  }

  /// When a busy entry is due; `max()`: none is.
  clock::time_point due() const {
    auto when = clock::time_point::max();
    for (const auto& x : busy_)
      when = std::min(when, x.not_before);
    return when;
  }

  /// Whether `take` would return something now.
  bool has_due(clock::time_point now) const {
    return !ready_.empty() || !suspects_.empty() || due() <= now;
  }

private:
  std::size_t rows_;
  std::size_t bytes_;
  std::deque<Entry> ready_;
  std::vector<std::vector<Entry>> suspects_;
  std::vector<Entry> busy_;
  /// The last group was one that waits.
  bool waited_ = false;
};

} // namespace gd
