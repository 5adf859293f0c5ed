#pragma once

#include <gd/client.hpp>
#include <gd/error.hpp>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace gdctl::serve {

/// Works off the jobs that it is given, one after the other, on a thread and a connection of
/// its own; dry runs, for which somebody waits, between the pages of others. What fails now
/// and may succeed later is tried again. What it has not worked off when it ends, nodes do.
class job_runner {
public:
  explicit job_runner(gd::pq::options database);
  ~job_runner();
  job_runner(const job_runner&) = delete;
  job_runner& operator=(const job_runner&) = delete;

  void take(std::int64_t id, bool dry_run);

private:
  void run();
  /// A page of it.
  gd::result<gd::job_row> work_on(std::int64_t job);

  gd::pq::options database_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct begun {
    std::int64_t id = 0;
    bool dry_run = false;
    bool told = false; ///< that it fails
  };
  std::deque<begun> jobs_;
  bool stopped_ = false;
  std::optional<gd::client> db_; ///< its thread's
  std::thread thread_;
};

} // namespace gdctl::serve
