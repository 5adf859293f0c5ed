#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd {

/// The right to run a row's current step. Shared between the picker, the step
/// and the heartbeat; `lost` is written by the heartbeat alone.
struct lease {
  lease(std::int64_t row, std::string by) : id(row), token(std::move(by)) {
    // nop
  }

  const std::int64_t id;
  /// The row's `locked_by`: "<node>/<incarnation>/<pick number>" [A1].
  const std::string token;
  std::atomic<bool> lost = false;
};

using lease_ptr = std::shared_ptr<lease>;

/// All leases that a node means to keep. What is in it is extended by the
/// heartbeat, which reads it directly: no busy scheduler can come in between.
class lease_table {
public:
  void add(const lease_ptr& one) {
    std::lock_guard guard{mutex_};
    leases_[one.get()] = one;
  }

  void remove(const lease* one) {
    std::lock_guard guard{mutex_};
    leases_.erase(one);
  }

  bool contains(const lease* one) const {
    std::lock_guard guard{mutex_};
    return leases_.contains(one);
  }

  std::vector<lease_ptr> all() const {
    std::lock_guard guard{mutex_};
    std::vector<lease_ptr> xs;
    xs.reserve(leases_.size());
    for (const auto& [key, one] : leases_)
      xs.push_back(one);
    return xs;
  }

private:
  mutable std::mutex mutex_;
  std::unordered_map<const lease*, lease_ptr> leases_;
};

} // namespace gd
