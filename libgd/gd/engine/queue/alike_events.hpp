#pragma once

#include <gd/event.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace gd {

/// Which of many events that are alike are told: the first ones of each window of
/// time, and at its end how many more there were. Alike are those of the same kind
/// that are about the same step, queue or task. Pure: no clock of its own.
class alike_events {
public:
  using clock = std::chrono::steady_clock;

  alike_events(std::size_t most, std::chrono::milliseconds window)
    : most_(most), window_(window) {
    // nop
  }

  /// Whether it is to be told; else it is counted.
  bool note(const event& what, clock::time_point now) {
    auto& x = counts_of({what.index(), subject_of(what)}, now);
    if (x.told < most_) {
      ++x.told;
      return true;
    }
    if (++x.left_out == 1)
      x.example = describe(what);
    return false;
  }

  /// When there is something to tell; `max()`: nothing was left out.
  clock::time_point due() const {
    auto at = clock::time_point::max();
    for (const auto& [which, x] : counts_)
      if (x.left_out > 0)
        at = std::min(at, x.began + window_);
    return at;
  }

  /// What was left out in windows that are over; `all`: in the others, too.
  std::vector<events::more_like_it> take(clock::time_point now,
                                         bool all = false) {
    std::vector<events::more_like_it> out;
    std::erase_if(counts_, [&](auto& entry) {
      auto& x = entry.second;
      if (!all && !is_over(x, now))
        return false;
      if (x.left_out > 0)
        out.push_back(
          {std::move(x.example), x.left_out,
           std::chrono::ceil<std::chrono::milliseconds>(now - x.began)});
      return true;
    });
    return out;
  }

private:
  using kind = std::pair<std::size_t, std::string>;

  /// Of one window.
  struct counts {
    clock::time_point began;
    std::size_t told = 0;
    std::size_t left_out = 0;
    /// The first that was left out.
    std::string example{};
  };

  /// Beyond so many, what happens to all others is of one kind.
  static constexpr std::size_t most_kinds = 1'000;

  template <class Event>
  static std::string subject_of_one(const Event& e) {
    if constexpr (std::is_base_of_v<events::step_run, Event>)
      return e.fsm + " " + std::to_string(e.version) + " " + e.step;
    else if constexpr (requires { e.queue; })
      return e.queue;
    else if constexpr (requires { std::string_view{e.what}; })
      return std::string{e.what};
    else
      return {};
  }

  static std::string subject_of(const event& what) {
    return std::visit([](const auto& e) { return subject_of_one(e); }, what);
  }

  bool is_over(const counts& x, clock::time_point now) const {
    return now - x.began >= window_;
  }

  counts& counts_of(kind which, clock::time_point now) {
    auto is_idle = [&](const auto& entry) {
      return entry.second.left_out == 0 && is_over(entry.second, now);
    };
    auto found = counts_.find(which);
    if (found == counts_.end() && counts_.size() >= most_kinds) {
      std::erase_if(counts_, is_idle);
      if (counts_.size() >= most_kinds)
        which.second.clear();
      found = counts_.find(which);
    }
    if (found == counts_.end())
      return counts_.emplace(std::move(which), counts{now}).first->second;
    if (is_idle(*found))
      found->second = {now};
    return found->second;
  }

  const std::size_t most_;
  const std::chrono::milliseconds window_;
  std::map<kind, counts> counts_;
};

} // namespace gd
