#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

namespace gd {

/// How many steps can begin in a time, by how many have ended lately: what bounds
/// the rows that a queue holds ahead (spec section 6). Times are of a clock that
/// goes only while a slot is in use. Pure: no clock of its own.
class pace {
public:
  using duration = std::chrono::nanoseconds;

  /// `window`: what has ended within it tells of the next steps.
  explicit pace(duration window) : window_(window) {
    // nop
  }

  /// So many steps have ended after so much time.
  void note(duration busy, std::uint64_t ends) {
    if (seen_.empty() || busy - seen_.back().busy >= window_ / parts) {
      // While nothing ends, the first sample and the last say it all.
      if (auto n = seen_.size();
          n > 1 && seen_[n - 1].ends == ends && seen_[n - 2].ends == ends)
        seen_.pop_back();
      seen_.push_back({busy, ends});
    }
    // One that is older than the window stays: it is where that begins. If nothing
    // has ended since, the window is as long as that has lasted.
    while (seen_.size() > 1 && busy - seen_[1].busy >= window_
           && seen_.front().ends != ends)
      seen_.pop_front();
    busy_ = busy;
    ends_ = ends;
  }

  /// How many begin within `time`, rather more than less: one that runs may end at
  /// once. As many as there can be while too little is known.
  std::int64_t most_within(duration time) const {
    constexpr auto any = std::numeric_limits<std::int32_t>::max();
    auto past = seen_.empty() ? duration{0} : busy_ - seen_.front().busy;
    if (past < window_)
      return any;
    auto ended = static_cast<double>(ends_ - seen_.front().ends + 1);
    auto most = ended * static_cast<double>(time.count())
                / static_cast<double>(past.count());
    return static_cast<std::int64_t>(std::min(most, double{any}));
  }

  /// What it keeps of the past.
  std::size_t samples() const noexcept {
    return seen_.size();
  }

private:
  static constexpr int parts = 8;

  struct sample {
    duration busy;
    std::uint64_t ends;
  };

  duration window_;
  std::deque<sample> seen_;
  duration busy_{0};
  std::uint64_t ends_ = 0;
};

} // namespace gd
