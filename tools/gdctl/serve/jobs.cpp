#include "serve/jobs.hpp"

#include "common.hpp"

#include <fmt/format.h>

#include <utility>

namespace gdctl::serve {

job_worker::job_worker(gd::pq::options database)
  : database_(std::move(database)), thread_([this] { run(); }) {
  // nop
}

job_worker::~job_worker() {
  {
    std::lock_guard guard{mutex_};
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void job_worker::take(std::int64_t job) {
  {
    std::lock_guard guard{mutex_};
    jobs_.push_back(job);
  }
  changed_.notify_all();
}

void job_worker::run() {
  while (true) {
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [this] { return stopped_ || !jobs_.empty(); });
    if (stopped_)
      return;
    auto next = jobs_.front();
    jobs_.pop_front();
    guard.unlock();
    work_on(next);
  }
}

void job_worker::work_on(std::int64_t job) {
  auto db = gd::client::connect(database_, {.reconnects = 1});
  auto why = db ? std::string{} : db.error().message;
  while (db && !stopped()) {
    auto now = db->work_on(job);
    if (!now)
      why = now.error().message;
    if (!now || now->ended_at_us || now->worked_on) // by another
      break;
  }
  if (!why.empty())
    complain(fmt::format("gdctl serve: job {} is left to the nodes: {}\n", job,
                         gd::printable(why)));
}

bool job_worker::stopped() {
  std::lock_guard guard{mutex_};
  return stopped_;
}

} // namespace gdctl::serve
