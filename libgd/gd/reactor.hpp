#pragma once

#include <gd/database.hpp>
#include <gd/event.hpp>
#include <gd/pq.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gd {

/// The only door to the database of a node: one thread that polls all its
/// connections. A connection runs one unit at a time; what is submitted
/// meanwhile waits. Reconnects with backoff and jitter; never sends a unit
/// twice.
class reactor : public database {
public:
  /// Called once, on the reactor's thread, when no connection will ever do: the
  /// schema is missing or incompatible. From then on every reply is that error.
  using fatal_callback = std::function<void(error)>;

  /// `longest_pause`: between two attempts to connect.
  reactor(pq::options opts, std::size_t lanes, event_sink sink,
          fatal_callback on_fatal,
          std::chrono::milliseconds longest_pause = std::chrono::seconds{5});
  ~reactor() override;

  void submit(std::size_t lane, pq::unit work, callback done,
              clock::duration patience) override;

  std::optional<clock::time_point>
  connected_since(std::size_t lane) const override;

  /// Lets what is under way end, for at most `grace`, answers the rest with
  /// `stopped`, and ends the thread. Not from a callback.
  void stop(clock::duration grace = std::chrono::seconds{2});

private:
  struct job {
    pq::unit work;
    callback done;
    clock::time_point expires;
  };
  struct arrival {
    std::size_t lane;
    job what;
  };
  struct lane_state;

  void run();
  void wake();
  void accept_arrivals();
  void advance(lane_state& lane);
  void connect(lane_state& lane);
  void lost(lane_state& lane);
  void start_next(lane_state& lane);
  void expire(lane_state& lane);
  clock::time_point next_event() const;
  static void answer(callback& done, error why);

  pq::options opts_;
  event_sink sink_;
  fatal_callback on_fatal_;
  std::chrono::milliseconds longest_pause_;
  std::vector<std::unique_ptr<lane_state>> lanes_;
  std::optional<error> fatal_;
  int wake_fd_;
  mutable std::mutex mutex_;
  std::vector<arrival> arrivals_;
  bool closed_ = false;
  std::atomic<bool> stopping_ = false;
  clock::time_point stop_by_;
  std::thread thread_;
};

} // namespace gd
