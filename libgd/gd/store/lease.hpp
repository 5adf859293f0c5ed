#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Who has decided what becomes of an execution: whoever comes first.
enum class decider : std::uint8_t {
  nobody,
  step,    ///< it returned, threw or delivered
  limit,   ///< its time limit
  death,   ///< its actor went down
  release, ///< it is released: it has not begun
};

class lease;
using lease_ptr = std::shared_ptr<lease>;

/// The right to run a row's current step. Shared between the picker, the step
/// and the heartbeat; `lost` is written by the heartbeat alone.
class lease {
public:
  lease(std::int64_t row, std::string by) : id(row), token(std::move(by)) {
    // nop
  }

  const std::int64_t id;
  /// The row's `locked_by`: "<node>/<incarnation>/<pick number>".
  const std::string token;
  std::atomic<bool> lost = false;
  /// The row counts among the suspects that its process runs. Set before anybody
  /// else knows the lease.
  bool suspect = false;

  /// When the step began; min(): it has not.
  std::chrono::steady_clock::time_point began() const noexcept {
    return began_;
  }
  void begin(std::chrono::steady_clock::time_point at) noexcept {
    began_ = at;
  }

  /// False: somebody else was first.
  bool decide(decider who) noexcept {
    auto expected = decider::nobody;
    return decided_.compare_exchange_strong(expected, who);
  }

  decider decided_by() const noexcept {
    return decided_;
  }

  /// Tells the step to stop. Made when a step first asks for it: most do not.
  std::stop_token stop_token() const {
    std::lock_guard guard{mutex_};
    if (!source_.stop_possible()) {
      source_ = std::stop_source{};
      if (stopped_)
        source_.request_stop();
    }
    return source_.get_token();
  }

  /// To be followed by `request_stop` if the step has a stop token.
  bool mark_stopped() {
    std::lock_guard guard{mutex_};
    stopped_ = true;
    return source_.stop_possible();
  }

  /// Runs the step's stop callbacks: user code.
  void request_stop() {
    auto source = [this] {
      std::lock_guard guard{mutex_};
      stopped_ = true;
      return source_;
    }();
    source.request_stop();
  }

private:
  friend class lease_table;

  std::atomic<decider> decided_ = decider::nobody;
  std::atomic<std::chrono::steady_clock::time_point> began_
    = std::chrono::steady_clock::time_point::min();
  mutable std::mutex mutex_;
  mutable std::stop_source source_{std::nostopstate};
  bool stopped_ = false;
  /// The lease's position in the table, which guards it.
  std::optional<std::list<lease_ptr>::iterator> position_;
};

/// All leases that a node means to keep; none is in two tables. The heartbeat
/// reads the table directly, and extends what it holds: no scheduler comes in
/// between.
class lease_table {
public:
  void add(const lease_ptr& one) {
    std::lock_guard guard{mutex_};
    if (!one->position_)
      one->position_ = leases_.insert(leases_.end(), one);
  }

  void remove(const lease_ptr& one) {
    std::lock_guard guard{mutex_};
    if (auto position = std::exchange(one->position_, std::nullopt))
      leases_.erase(*position);
  }

  bool contains(const lease_ptr& one) const {
    std::lock_guard guard{mutex_};
    return one->position_.has_value();
  }

  bool contains(std::int64_t id, const std::string& token) const {
    std::lock_guard guard{mutex_};
    return std::any_of(leases_.begin(), leases_.end(), [&](const auto& x) {
      return x->id == id && x->token == token;
    });
  }

  std::vector<lease_ptr> all() const {
    std::lock_guard guard{mutex_};
    return {leases_.begin(), leases_.end()};
  }

private:
  mutable std::mutex mutex_;
  std::list<lease_ptr> leases_;
};

} // namespace gd
