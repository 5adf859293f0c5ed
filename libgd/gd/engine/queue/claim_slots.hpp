#pragma once

#include <gd/pq/ensure.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Where inserts claim the rows that they make for a picker of their own node,
/// which then need not pick them. Whatever may be waiting for a pick closes the
/// slots; a pick that begins later and leaves nothing opens them, and what got in runs
/// when its insert commits. If the pick before has left nothing, the slots let in
/// beside that pick, too: behind what it finds. What strangers have inserted waits
/// no longer than without claims: each poll closes the slots.
class claim_slots {
public:
  /// Rows that an insert has made under a lease, or may have made.
  struct claim {
    std::string queue{};
    /// The lease token of its rows, of no pick and no other claim.
    std::string token{};
    std::int32_t count = 0;
    /// The number of the pick beside which the claim got in; zero: the slots were open.
    std::uint64_t behind = 0;
    /// In the order in which they are to run; none: the insert has failed.
    std::vector<store::picked_row> rows{};
    /// The fate of the insert is unknown: what it may have made is to be released.
    bool lost = false;
  };

  // -- what pickers call ------------------------------------------------------

  /// `tell` is called from any thread when there is something to collect.
  void enter(const std::string& queue, std::function<void()> tell) {
    std::lock_guard guard{mutex_};
    queues_[queue].tell = std::move(tell);
  }

  /// Returns the claims that were not collected. What comes now is refused.
  std::vector<claim> leave(const std::string& queue) {
    std::lock_guard guard{mutex_};
    auto& x = queues_[queue];
    x.close();
    x.tell = nullptr;
    return x.take_handed_in();
  }

  /// Nothing may be claimed before a pick has begun.
  void close(const std::string& queue) {
    std::lock_guard guard{mutex_};
    if (auto found = queues_.find(queue); found != queues_.end())
      found->second.close();
  }

  /// To be called before a pick is sent, which sees whatever has closed the slots.
  /// Returns the pick's number; numbers begin with one.
  std::uint64_t begin_pick(const std::string& queue) {
    std::lock_guard guard{mutex_};
    return ++queues_[queue].picks;
  }

  /// This pick has left nothing, and those that began before it have ended.
  void open(const std::string& queue, std::uint64_t pick) {
    std::lock_guard guard{mutex_};
    auto& x = queues_[queue];
    ensure(pick <= x.picks, "what opens the slots is a pick that has begun");
    x.opened = pick;
  }

  /// There is room for so many, unless the slots were closed since the last pick.
  void offer(const std::string& queue, std::int32_t free_slots) {
    std::lock_guard guard{mutex_};
    auto& x = queues_[queue];
    if (x.tell && x.picks >= x.since)
      x.free_slots = std::max(free_slots, 0);
  }

  /// How many rows are claimed and not collected.
  std::int32_t under_way(const std::string& queue) const {
    std::lock_guard guard{mutex_};
    auto found = queues_.find(queue);
    return found != queues_.end() ? found->second.under_way : 0;
  }

  std::vector<claim> collect(const std::string& queue) {
    std::lock_guard guard{mutex_};
    return queues_[queue].take_handed_in();
  }

  // -- what inserts call ------------------------------------------------------

  /// A place for each of `count` rows; nullopt: there is not room for all.
  std::optional<claim> take(const std::string& queue, std::string token,
                            std::int32_t count) {
    std::lock_guard guard{mutex_};
    auto found = queues_.find(queue);
    if (found == queues_.end() || found->second.free_slots < count)
      return std::nullopt;
    auto& x = found->second;
    x.free_slots -= count;
    x.under_way += count;
    return claim{.queue = queue,
                 .token = std::move(token),
                 .count = count,
                 .behind = x.opened >= x.since ? 0 : x.picks};
  }

  /// No queue has room for more.
  std::int32_t most() const {
    std::lock_guard guard{mutex_};
    std::int32_t n = 0;
    for (const auto& [name, x] : queues_)
      n = std::max(n, x.free_slots);
    return n;
  }

  /// Each claim that was taken is handed in once, when its insert has ended. False:
  /// the picker has gone, and the caller is to release the claim's rows.
  bool hand_in(claim x) {
    std::lock_guard guard{mutex_};
    auto& queue = queues_[x.queue];
    ensure(queue.under_way >= x.count, "a claim is handed in once");
    if (!queue.tell) {
      queue.under_way -= x.count;
      return false;
    }
    queue.handed_in.push_back(std::move(x));
    queue.tell();
    return true;
  }

private:
  struct queue_state {
    std::function<void()> tell{};
    /// Numbers of picks: the last that has begun, the first that sees whatever has
    /// closed the slots, and the last that left nothing.
    std::uint64_t picks = 0;
    std::uint64_t since = 1;
    std::uint64_t opened = 0;
    std::int32_t free_slots = 0;
    std::int32_t under_way = 0;
    std::vector<claim> handed_in{};

    void close() {
      free_slots = 0;
      since = picks + 1;
    }

    /// Whoever gets these claims has been told: none is under way any more.
    std::vector<claim> take_handed_in() {
      for (const auto& one : handed_in)
        under_way -= one.count;
      return std::exchange(handed_in, {});
    }
  };

  mutable std::mutex mutex_;
  std::map<std::string, queue_state> queues_;
};

} // namespace gd
