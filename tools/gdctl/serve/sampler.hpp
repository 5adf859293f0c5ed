#pragma once

#include <gd/client.hpp>
#include <gd/error.hpp>
#include <gd/operate.hpp>
#include <gd/state.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace gdctl::serve {

/// Rows of instances written per second, over the last minutes; the oldest first. Where there
/// is nothing, the database was away.
struct rates {
  std::int64_t interval_us = 0;
  std::vector<std::int64_t> at_us{};
  std::vector<std::optional<double>> inserted{};
  std::vector<std::optional<double>> updated{};
  std::vector<std::optional<double>> deleted{};

  GD_STATE(rates, interval_us, at_us, inserted, updated, deleted);
};

/// Asks once a second what has been written, on a thread and a connection of its own.
class sampler {
public:
  explicit sampler(gd::pq::options database);
  ~sampler();
  sampler(const sampler&) = delete;
  sampler& operator=(const sampler&) = delete;

  rates told() const;

private:
  struct point {
    std::int64_t at_us = 0;
    std::optional<double> inserted{};
    std::optional<double> updated{};
    std::optional<double> deleted{};
  };

  void run();
  gd::result<gd::activity> look(std::optional<gd::client>& db);
  void add(const gd::result<gd::activity>& now);

  gd::pq::options database_;
  // Its thread's: what it was told, when it asked, and what the database's clock said.
  std::optional<gd::activity> before_;
  std::chrono::steady_clock::time_point asked_{};
  std::int64_t at_us_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::deque<point> points_;
  std::thread thread_;
};

} // namespace gdctl::serve
