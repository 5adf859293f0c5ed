#pragma once

#include <gd/client.hpp>
#include <gd/error.hpp>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace gdctl::serve {

/// Works off the jobs that it is given, one after the other, on a thread and a connection of
/// its own. What it has not worked off when it ends, nodes do.
class job_worker {
public:
  explicit job_worker(gd::pq::options database);
  ~job_worker();
  job_worker(const job_worker&) = delete;
  job_worker& operator=(const job_worker&) = delete;

  void take(std::int64_t job);

private:
  void run();
  void work_on(std::int64_t job);
  bool stopped();

  gd::pq::options database_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::int64_t> jobs_;
  bool stopped_ = false;
  std::thread thread_;
};

} // namespace gdctl::serve
