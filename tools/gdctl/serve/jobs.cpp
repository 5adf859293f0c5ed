#include "serve/jobs.hpp"

#include "common.hpp"

#include <gd/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gdctl::serve {

/// Where one has failed.
constexpr std::chrono::seconds until_again{2};

job_runner::job_runner(gd::pq::options database)
  : database_(std::move(database)), thread_([this] { run(); }) {
  // nop
}

job_runner::~job_runner() {
  {
    std::lock_guard guard{mutex_};
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void job_runner::take(std::int64_t id, bool dry_run) {
  {
    std::lock_guard guard{mutex_};
    auto behind = std::find_if(jobs_.begin(), jobs_.end(), [&](const begun& x) {
      return dry_run && !x.dry_run;
    });
    jobs_.insert(behind, {.id = id, .dry_run = dry_run});
  }
  changed_.notify_all();
}

void job_runner::run() {
  std::unique_lock guard{mutex_};
  while (true) {
    changed_.wait(guard, [this] { return stopped_ || !jobs_.empty(); });
    if (stopped_)
      return;
    auto id = jobs_.front().id;
    guard.unlock();
    auto now = work_on(id);
    guard.lock();
    // What has been taken meanwhile may stand before it.
    auto done = std::find_if(jobs_.begin(), jobs_.end(),
                             [id](const begun& x) { return x.id == id; });
    bool again = !now && gd::retryable(now.error().code);
    if (!now && (!again || !std::exchange(done->told, true)))
      gd::write_to_stderr(
        fmt::format("gdctl serve: job {} {}: {}\n", id,
                    again ? "is tried again" : "is left to the nodes",
                    gd::printable(now.error().message)));
    auto failed = *done;
    if (again || !now || now->ended_at_us || now->worked_on) // by another
      jobs_.erase(done);
    if (!now || jobs_.empty())
      db_.reset(); // and what it has locked is anybody's
    if (again) {
      jobs_.push_back(failed); // in nobody's way
      changed_.wait_for(guard, until_again, [this] { return stopped_; });
    }
  }
}

gd::result<gd::job_row> job_runner::work_on(std::int64_t job) {
  if (!db_) {
    auto made = gd::client::connect(database_, {.reconnects = 1});
    if (!made)
      return made.error();
    db_.emplace(std::move(*made));
  }
  return db_->work_on(job);
}

} // namespace gdctl::serve
