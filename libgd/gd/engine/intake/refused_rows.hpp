#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/store/nodes.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

/// What the database has refused of late to do with rows, for `why`, which reads it with
/// the node. Of any number of threads; no clock of its own.
class refused_rows {
public:
  using clock = std::chrono::steady_clock;

  void note(std::int64_t id, std::string_view what, const error& why,
            clock::time_point now) {
    std::lock_guard guard{mutex_};
    if (rows_.size() >= most && !rows_.contains(id))
      rows_.erase(std::min_element(rows_.begin(), rows_.end(),
                                   [](const auto& a, const auto& b) {
        return a.second.at < b.second.at;
      }));
    auto said = clean_text(why.message, longest);
    said.insert(0, std::string{what} + ": ");
    if (!why.sqlstate.empty())
      said += " [" + why.sqlstate + ']';
    auto& x = rows_[id];
    changed_ = changed_ || x.why != said || now - written_ >= again;
    x = {std::move(said), now};
  }

  /// What is to be written down by now, if that is something else than before.
  std::optional<std::vector<store::refused_row>> news(clock::time_point now) {
    std::lock_guard guard{mutex_};
    auto gone = std::erase_if(
      rows_, [now](const auto& x) { return now - x.second.at >= kept; });
    if (!std::exchange(changed_, false) && gone == 0)
      return std::nullopt;
    written_ = now;
    std::vector<store::refused_row> out;
    for (const auto& [id, x] : rows_)
      out.push_back(
        {.id = id,
         .why = x.why,
         .since_us = std::chrono::duration_cast<std::chrono::microseconds>(
                       now - x.at)
                       .count()});
    return out;
  }

  /// That could not be.
  void not_written() {
    std::lock_guard guard{mutex_};
    changed_ = true;
  }

private:
  /// A row that cannot be picked is tried again after ten minutes at the most.
  static constexpr std::chrono::minutes kept{12};
  static constexpr std::chrono::seconds again{30};
  static constexpr std::size_t most = 50;
  static constexpr std::size_t longest = 1'000;

  struct row {
    std::string why{};
    clock::time_point at{};
  };

  std::mutex mutex_;
  std::map<std::int64_t, row> rows_;
  bool changed_ = false;
  clock::time_point written_{};
};

} // namespace gd
