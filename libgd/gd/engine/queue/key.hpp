#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace gd {

/// The partition keys of which a node runs a step. Its picks leave them alone:
/// a session gets a lock that it has, so that the lock itself does not tell two
/// queues of one connection apart.
class key_table {
public:
  void add(const std::string& key) {
    std::lock_guard guard{mutex_};
    ++keys_[key];
  }

  void remove(const std::string& key) {
    std::lock_guard guard{mutex_};
    if (auto found = keys_.find(key);
        found != keys_.end() && --found->second == 0)
      keys_.erase(found);
  }

  std::vector<std::string> all() const {
    std::lock_guard guard{mutex_};
    std::vector<std::string> xs;
    xs.reserve(keys_.size());
    for (const auto& [key, holds] : keys_)
      xs.push_back(key);
    return xs;
  }

private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int> keys_;
};

} // namespace gd
