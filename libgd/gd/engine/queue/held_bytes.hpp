#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace gd {

/// Of all queues of a process. To be used by any thread.
using common_bytes = std::shared_ptr<std::atomic<std::int64_t>>;

/// What a queue holds of something of which all of a process's queues together may hold
/// `most` bytes; each of them, whatever the others hold, its `share`.
class held_bytes {
public:
  held_bytes(common_bytes all, std::int64_t most, std::int64_t share)
    : all_(std::move(all)), most_(most), share_(share) {
    // nop
  }
  held_bytes(const held_bytes&) = delete;
  held_bytes& operator=(const held_bytes&) = delete;
  ~held_bytes() {
    set(0);
  }

  void set(std::int64_t bytes) {
    if (auto more = bytes - std::exchange(mine_, bytes); more != 0)
      all_->fetch_add(more, std::memory_order_relaxed);
  }
  void add(std::int64_t more) {
    set(mine_ + more);
  }

  std::int64_t mine() const noexcept {
    return mine_;
  }
  std::int64_t of_others() const noexcept {
    return all_->load(std::memory_order_relaxed) - mine_;
  }

  /// Whether it has its share, be it nothing: then it may have to wait for the others.
  bool has_share() const noexcept {
    return mine_ > 0 && mine_ >= share_;
  }
  /// It is to take nothing more. What it has is enough to wait for: who holds nothing is
  /// never full.
  bool full() const noexcept {
    return has_share() && all_->load(std::memory_order_relaxed) >= most_;
  }

private:
  common_bytes all_;
  const std::int64_t most_;
  const std::int64_t share_;
  std::int64_t mine_ = 0;
};

} // namespace gd
