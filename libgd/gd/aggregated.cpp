#include <gd/event.hpp>

#include <gd/engine/queue/alike_events.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gd {

namespace {

/// Its thread begins when something is left out for the first time.
class aggregator {
public:
  aggregator(event_sink to, std::size_t most, std::chrono::milliseconds window)
    : to_(std::move(to)), alike_(most, window) {
    // nop
  }

  ~aggregator() {
    {
      std::lock_guard guard{mutex_};
      ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
      thread_.join();
    pass_on(alike_.take(clock::now(), true));
  }

  aggregator(const aggregator&) = delete;
  aggregator& operator=(const aggregator&) = delete;

  void tell(const event& what) {
    if (level_of(what) != severity::warning || may_tell(what))
      to_(what);
  }

private:
  using clock = alike_events::clock;

  bool may_tell(const event& what) {
    std::lock_guard guard{mutex_};
    if (alike_.note(what, clock::now()))
      return true;
    if (!thread_.joinable())
      begin();
    if (std::exchange(idle_, false))
      changed_.notify_all();
    return false;
  }

  void begin() {
    try {
      thread_ = std::thread{[this] { run(); }};
    } catch (const std::system_error&) {
      // There is no thread to be had: tried again with the next one.
    }
  }

  void run() {
    std::unique_lock guard{mutex_};
    while (!ending_) {
      auto due = alike_.due();
      idle_ = due == clock::time_point::max();
      if (idle_)
        changed_.wait(guard);
      else
        changed_.wait_until(guard, due);
      auto more = alike_.take(clock::now());
      guard.unlock();
      pass_on(more);
      guard.lock();
    }
  }

  void pass_on(const std::vector<events::more_like_it>& all) {
    for (const auto& x : all)
      to_(x);
  }

  event_sink to_;
  std::mutex mutex_;
  std::condition_variable changed_;
  alike_events alike_;
  /// The thread waits for something to be left out.
  bool idle_ = false;
  bool ending_ = false;
  std::thread thread_;
};

} // namespace

event_sink aggregated(event_sink to, std::size_t most,
                      std::chrono::milliseconds window) {
  auto shared = std::make_shared<aggregator>(std::move(to), most, window);
  return [shared](const event& what) { shared->tell(what); };
}

} // namespace gd
