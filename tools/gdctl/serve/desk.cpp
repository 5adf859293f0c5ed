#include "serve/desk.hpp"

#include "serve/guard.hpp"

#include <utility>

namespace gdctl::serve {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t connections = 4;
constexpr std::size_t most_tasks = 1'000;
constexpr std::size_t most_looks = 500;
/// One who fails to connect spares the others the wait.
constexpr auto away_for = 500ms;

int status_of(gd::errc code) {
  switch (code) {
    case gd::errc::invalid_argument:
    case gd::errc::codec:
      return 400;
    case gd::errc::not_found:
    case gd::errc::unknown_machine:
    case gd::errc::no_such_target:
      return 404;
    case gd::errc::unavailable:
    case gd::errc::schema_mismatch:
    case gd::errc::overloaded:
    case gd::errc::stopped:
      return 503;
    case gd::errc::unknown_fate:
      return 504;
    case gd::errc::sql:
      return 500;
    default:
      return 409;
  }
}

/// Whether the connection, or what is behind it, may be at fault.
bool is_lost(gd::errc code) {
  return code == gd::errc::unavailable || code == gd::errc::unknown_fate
         || code == gd::errc::schema_mismatch;
}

} // namespace

answer told(const gd::error& why) {
  return refusal(status_of(why.code), gd::to_string(why.code), why.message);
}

desk::desk(gd::pq::options database) : database_(std::move(database)) {
  for (std::size_t i = 0; i < connections; ++i)
    threads_.emplace_back([this] { run(); });
}

desk::~desk() {
  stop();
}

answer desk::known(const std::string& key) {
  std::lock_guard guard{mutex_};
  auto found = looks_.find(key);
  if (found == looks_.end() || found->second.age != changes_
      || clock::now() >= found->second.until)
    return nullptr;
  return found->second.told;
}

void desk::ask(const std::string& key, std::chrono::milliseconds kept,
               errand what, reply to) {
  {
    std::lock_guard guard{mutex_};
    if (!stopped_ && tasks_.size() < most_tasks) {
      auto age = changes_;
      if (!key.empty()) {
        drop_old_looks();
        auto& x = looks_[key];
        // One that was asked before something changed is not told to who asks after.
        if (x.under_way && x.age == age) {
          x.waiting.push_back(std::move(to));
          return;
        }
        if (!x.under_way) {
          x.under_way = true;
          x.age = age;
          x.told = nullptr;
          x.waiting.push_back(std::move(to));
          to = nullptr;
        }
      }
      // With `to`, it is for that one alone.
      tasks_.push_back(
        {to ? std::string{} : key, kept, std::move(what), std::move(to), age});
      changed_.notify_one();
      return;
    }
  }
  to(refusal(503, "overloaded", "too many requests wait for the database"));
}

void desk::forget() {
  std::lock_guard guard{mutex_};
  ++changes_;
}

void desk::stop() {
  std::deque<task> left;
  {
    std::lock_guard guard{mutex_};
    stopped_ = true;
    left.swap(tasks_);
  }
  changed_.notify_all();
  for (const auto& x : left)
    tell(x, refusal(503, "stopped", "the server ends"));
  for (auto& thread : threads_)
    thread.join();
  threads_.clear();
}

void desk::run() {
  std::optional<gd::client> db;
  while (true) {
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [this] { return stopped_ || !tasks_.empty(); });
    if (tasks_.empty())
      return;
    auto next = std::move(tasks_.front());
    tasks_.pop_front();
    guard.unlock();
    tell(next, answer_of(next, db));
  }
}

answer desk::answer_of(const task& x, std::optional<gd::client>& db) {
  if (!db) {
    {
      std::lock_guard guard{mutex_};
      if (away_ && clock::now() < away_until_)
        return away_;
    }
    auto made = gd::client::connect(database_, {.reconnects = 1});
    std::lock_guard guard{mutex_};
    if (!made) {
      away_ = refusal(503, gd::to_string(made.error().code),
                      made.error().message);
      away_until_ = clock::now() + away_for;
      return away_;
    }
    away_ = nullptr;
    db.emplace(std::move(*made));
  }
  auto done = x.what(*db);
  if (done)
    return std::make_shared<response>(std::move(*done));
  if (is_lost(done.error().code))
    db.reset(); // the next one begins with a connection of its own
  return told(done.error());
}

void desk::tell(const task& x, const answer& told) {
  if (x.to)
    return x.to(told);
  std::vector<reply> waiting;
  {
    std::lock_guard guard{mutex_};
    auto seen = looks_.find(x.key);
    waiting.swap(seen->second.waiting);
    seen->second.under_way = false;
    seen->second.told = told;
    seen->second.until = clock::now() + x.kept;
    // A failure is told to those who have waited, and to nobody else.
    if (x.kept == 0ms || told->status != 200)
      looks_.erase(seen);
  }
  for (const auto& to : waiting)
    to(told);
}

void desk::drop_old_looks() {
  if (looks_.size() < most_looks)
    return;
  auto now = clock::now();
  std::erase_if(looks_, [now](const auto& x) {
    return !x.second.under_way && now >= x.second.until;
  });
}

} // namespace gdctl::serve
