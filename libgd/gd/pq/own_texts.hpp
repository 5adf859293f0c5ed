#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd::pq {

/// Which texts of users a connection has prepared, and under what names: so many, of which
/// the least recently used goes.
class own_texts {
public:
  static constexpr std::size_t most = 256;

  /// The name under which a text is prepared; empty: it is not.
  std::string find(std::string_view text) {
    auto found = by_text_.find(text);
    if (found == by_text_.end())
      return {};
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->name;
  }

  /// One that nothing has.
  std::string draw_name() {
    return "gd_own_" + std::to_string(++names_);
  }

  /// It is prepared. The one that goes for it is to be closed.
  void add(std::string text, std::string name) {
    if (by_text_.contains(text)) // prepared twice in one pipeline
      return closing_.push_back(std::move(name));
    recent_.push_front({std::move(text), std::move(name)});
    by_text_.emplace(recent_.front().text, recent_.begin());
    if (recent_.size() <= most)
      return;
    by_text_.erase(recent_.back().text);
    closing_.push_back(std::move(recent_.back().name));
    recent_.pop_back();
  }

  /// It has failed, maybe for what it was prepared for: it is prepared anew next time.
  void forget(std::string_view text) {
    auto found = by_text_.find(text);
    if (found == by_text_.end())
      return;
    auto at = found->second;
    by_text_.erase(found);
    closing_.push_back(std::move(at->name));
    recent_.erase(at);
  }

  /// What is prepared for nothing.
  const std::vector<std::string>& closing() const noexcept {
    return closing_;
  }
  void closed(std::string_view name) {
    std::erase(closing_, name);
  }

  std::size_t size() const noexcept {
    return recent_.size();
  }

  /// The session is over.
  void clear() {
    by_text_.clear();
    recent_.clear();
    closing_.clear();
  }

private:
  struct prepared {
    std::string text;
    std::string name;
  };

  std::list<prepared> recent_; ///< the most recently used first
  std::unordered_map<std::string_view, std::list<prepared>::iterator> by_text_;
  std::vector<std::string> closing_;
  std::uint64_t names_ = 0;
};

} // namespace gd::pq
