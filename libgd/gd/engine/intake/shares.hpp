#pragma once

#include <gd/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

/// How those who ask share what there is one of: none gets all of it.
namespace gd {

/// Who asks: an actor of this process, or another node.
using sender_id = std::uint64_t;

/// Bytes of what is asked and not answered. Of three quarters of the room, whoever asks may
/// have up to three times what is free then; the last quarter is for those who have
/// little, a 4,096th of the room. To be used by any thread.
class shared_room {
public:
  /// Of that size, and empty: what was taken before is gone, and so are those who would
  /// give it back.
  void open(std::size_t size);

  /// `overloaded`: that is more than the sender's share. One thing alone may be as long
  /// as it likes.
  result<void> take(sender_id who, std::size_t bytes);
  void release(sender_id who, std::size_t bytes);

private:
  std::mutex mutex_;
  std::size_t size_ = 0;
  std::size_t taken_ = 0;
  std::unordered_map<sender_id, std::size_t> by_sender_;
};

/// What waits, of many senders: next is that of whoever has cost least so far. A sender's
/// own is in the order of its coming.
template <class T>
class fair_queue {
public:
  void push(sender_id who, T what) {
    auto& x = senders_[who];
    if (x.waiting.empty())
      enter(who, x);
    x.waiting.push_back(std::move(what));
    ++size_;
  }

  bool empty() const noexcept {
    return size_ == 0;
  }

  std::size_t size() const noexcept {
    return size_;
  }

  /// `cost_of`: of what is taken out, as far as it is known.
  template <class F>
  T pop(F cost_of) {
    auto next = turns_.top();
    turns_.pop();
    while (next.first < senders_.at(next.second).turn) { // charged since
      turns_.push({senders_.at(next.second).turn, next.second});
      next = turns_.top();
      turns_.pop();
    }
    auto [turn, who] = next;
    auto& x = senders_.at(who);
    now_ = turn;
    T what = std::move(x.waiting.front());
    x.waiting.pop_front();
    --size_;
    x.turn = turn + cost_of(what);
    if (!x.waiting.empty())
      turns_.push({x.turn, who});
    else
      forget_some();
    return what;
  }

  /// What somebody has cost beside.
  void charge(sender_id who, std::size_t cost) {
    if (auto found = senders_.find(who); found != senders_.end())
      found->second.turn += cost;
  }

  /// The last of whoever has cost most, for which it has no turn: it costs so much. Of
  /// several whoever is not the latest.
  T pop_dearest(std::uint64_t cost) {
    auto of = senders_.end();
    auto price = [](const auto& x) { return turn_of{x.second.turn, ~x.first}; };
    for (auto i = senders_.begin(); i != senders_.end(); ++i)
      if (!i->second.waiting.empty()
          && (of == senders_.end() || price(*of) < price(*i)))
        of = i;
    of->second.turn += cost;
    T what = std::move(of->second.waiting.back());
    of->second.waiting.pop_back();
    --size_;
    count_turns();
    return what;
  }

  template <class F>
  std::vector<T> remove_if(F gone) {
    std::vector<T> removed;
    for (auto& [who, x] : senders_) {
      auto first = std::stable_partition(x.waiting.begin(), x.waiting.end(),
                                         [&gone](const T& one) {
        return !gone(one);
      });
      std::move(first, x.waiting.end(), std::back_inserter(removed));
      x.waiting.erase(first, x.waiting.end());
    }
    size_ -= removed.size();
    count_turns();
    return removed;
  }

private:
  struct sender {
    std::deque<T> waiting;
    /// What it has cost, or would have if it had always asked for something.
    std::uint64_t turn = 0;
  };
  using turn_of = std::pair<std::uint64_t, sender_id>;

  void enter(sender_id who, sender& x) {
    x.turn = std::max(x.turn, now_);
    turns_.push({x.turn, who});
  }

  void count_turns() {
    turns_ = {};
    for (auto& [who, x] : senders_)
      if (!x.waiting.empty())
        turns_.push({x.turn, who});
  }

  /// Those who have cost no more than others, and wait for nothing, are as those who come.
  void forget_some() {
    if (senders_.size() < forget_at_)
      return;
    std::erase_if(senders_, [this](const auto& x) {
      const auto& [who, one] = x;
      return one.waiting.empty() && one.turn <= now_;
    });
    forget_at_ = std::max<std::size_t>(64, 2 * senders_.size());
  }

  std::unordered_map<sender_id, sender> senders_;
  std::priority_queue<turn_of, std::vector<turn_of>, std::greater<>> turns_;
  std::uint64_t now_ = 0;
  std::size_t size_ = 0;
  std::size_t forget_at_ = 64;
};

} // namespace gd
