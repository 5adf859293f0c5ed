#pragma once

#include <gd/pq/database.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Lease tokens under which there may be rows of which nobody knows: they are
/// released as soon as there are any, until one lease has passed. Pure: no
/// clock of its own.
class lost_picks {
public:
  using clock = database::clock;

  /// How often their rows are looked for, and how long after that was refused.
  static constexpr std::chrono::milliseconds interval{200};
  static constexpr std::chrono::milliseconds again_after{1'000};

  void add(std::string token, clock::time_point until) {
    tokens_.push_back({std::move(token), until});
    next_ = {};
  }

  /// Tokens whose rows are to be looked for now.
  std::vector<std::string> take(clock::time_point now) {
    std::erase_if(tokens_, [now](const auto& x) { return x.until <= now; });
    if (tokens_.empty() || now < next_)
      return {};
    next_ = now + interval;
    return all();
  }

  void refused(clock::time_point now) {
    next_ = now + again_after;
  }

  std::vector<std::string> all() const {
    std::vector<std::string> out;
    for (const auto& x : tokens_)
      out.push_back(x.text);
    return out;
  }

  /// `max()`: there are no tokens.
  clock::time_point due() const {
    return tokens_.empty() ? clock::time_point::max() : next_;
  }

private:
  struct one {
    std::string text;
    clock::time_point until;
  };

  std::vector<one> tokens_;
  clock::time_point next_{};
};

} // namespace gd
