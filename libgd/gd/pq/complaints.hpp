#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace gd {

/// Which of many failures are worth telling: each reason once, and then after a
/// minute, two, four, up to an hour. Pure: no clock of its own.
class complaints {
public:
  using clock = std::chrono::steady_clock;

  /// How often that has happened since it was told last, if it is to be told now;
  /// else zero.
  std::size_t note(const std::string& why, clock::time_point now) {
    using namespace std::chrono_literals;
    constexpr std::size_t most = 100;
    if (seen_.size() >= most && !seen_.contains(why))
      seen_.clear();
    auto& x = seen_.try_emplace(why, reason{now, 1min}).first->second;
    ++x.times;
    if (now < x.again_at)
      return 0;
    x.again_at = now + x.pause;
    x.pause = std::min<clock::duration>(2 * x.pause, 1h);
    return std::exchange(x.times, 0);
  }

  void forget() {
    seen_.clear();
  }

private:
  struct reason {
    clock::time_point again_at;
    clock::duration pause;
    std::size_t times = 0;
  };

  std::map<std::string, reason> seen_;
};

} // namespace gd
