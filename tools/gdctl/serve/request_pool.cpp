#include "serve/request_pool.hpp"

#include "common.hpp"
#include "serve/access.hpp"

#include <gd/log.hpp>

#include <fmt/format.h>

#include <utility>

namespace gdctl::serve {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t read_connections = 4;
/// Of a rank.
constexpr std::size_t most_tasks = 200;
/// Less than a page waits for its answer.
constexpr auto longest_wait = 8s;
constexpr std::size_t most_kept = 500;
/// One who fails to connect spares the others the wait.
constexpr auto unreachable_for = 500ms;
constexpr auto silent_for = 10s;

/// What one costs in microseconds, as long as it is not known.
constexpr std::uint64_t usual_task = 100;

answer ended() {
  return refusal(503, "stopped", "the server ends");
}

answer overloaded() {
  return refusal(503, "overloaded", "too many requests wait for the database");
}

int status_of(gd::errc code) {
  switch (code) {
    case gd::errc::invalid_argument:
    case gd::errc::codec:
      return 400;
    case gd::errc::not_found:
    case gd::errc::erased:
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
         || code == gd::errc::schema_mismatch || code == gd::errc::sql;
}

} // namespace

answer told(const gd::error& why) {
  if (why.sqlstate == "42501")
    return refusal(403, "denied", why.message);
  return refusal(status_of(why.code), gd::to_string(why.code), why.message);
}

request_pool::request_pool(gd::pq::options database)
  : database_(std::move(database)) {
  for (std::size_t i = 0; i < read_connections; ++i)
    threads_.emplace_back([this] { run(); });
}

request_pool::~request_pool() {
  stop();
}

answer request_pool::known(const std::string& key) {
  std::lock_guard guard{mutex_};
  auto found = kept_answers_.find(key);
  if (found == kept_answers_.end() || found->second.age != changes_
      || clock::now() >= found->second.until)
    return nullptr;
  return found->second.told;
}

void request_pool::enter(rank of, task x, std::unique_lock<std::mutex> guard) {
  auto& line = tasks_[of];
  auto from = x.from;
  line.push(from, std::move(x));
  std::optional<task> refused;
  if (line.size() > most_tasks)
    refused = line.pop_dearest(usual_task);
  guard.unlock();
  changed_.notify_one();
  if (refused)
    tell(*refused, overloaded());
}

void request_pool::ask(gd::sender_id from, const std::string& key,
                       std::chrono::milliseconds kept, database_call what,
                       reply to) {
  auto of = key.find('?') == key.npos ? read_all : read_some;
  std::unique_lock guard{mutex_};
  if (stopped_) {
    guard.unlock();
    return to(ended());
  }
  drop_old_answers();
  auto& x = kept_answers_[key];
  // One that was asked before something changed is not told to who asks after.
  if (x.under_way && x.age == changes_) {
    x.waiting.push_back(std::move(to));
    return;
  }
  if (x.under_way) // for this one alone
    return enter(of, {from, {}, kept, std::move(what), std::move(to)},
                 std::move(guard));
  x = {.age = changes_, .under_way = true};
  x.waiting.push_back(std::move(to));
  enter(of, {from, key, kept, std::move(what), nullptr}, std::move(guard));
}

void request_pool::act(gd::sender_id from, database_call what, reply to) {
  std::unique_lock guard{mutex_};
  if (stopped_) {
    guard.unlock();
    return to(ended());
  }
  auto forget = [this, to = std::move(to)](const answer& done) {
    {
      std::lock_guard changing{mutex_};
      ++changes_;
    }
    to(done);
  };
  enter(verb, {from, {}, 0ms, std::move(what), std::move(forget)},
        std::move(guard));
}

void request_pool::stop() {
  decltype(tasks_) left;
  {
    std::lock_guard guard{mutex_};
    stopped_ = true;
    left.swap(tasks_);
  }
  changed_.notify_all();
  for (auto& line : left)
    for (const auto& x : line.remove_if([](const auto&) { return true; }))
      tell(x, ended());
  for (auto& thread : threads_)
    thread.join();
  threads_.clear();
}

request_pool::rank request_pool::first() const {
  for (auto of : {verb, read_all})
    if (!tasks_[of].empty())
      return of;
  bool more = reading_some_ + 1 < read_connections;
  return more && !tasks_[read_some].empty() ? read_some : ranks;
}

void request_pool::run() {
  std::optional<gd::client> db;
  while (true) {
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [this] { return stopped_ || first() != ranks; });
    if (stopped_)
      return;
    auto of = first();
    auto next = tasks_[of].pop([](const auto&) { return usual_task; });
    reading_some_ += of == read_some;
    guard.unlock();
    auto begin = clock::now();
    bool late = begin - next.since > longest_wait;
    tell(next, late ? overloaded() : answer_of(next, db));
    auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      clock::now() - begin);
    guard.lock();
    tasks_[of].charge(next.from, static_cast<std::uint64_t>(took.count()));
    if (of == read_some) {
      --reading_some_;
      changed_.notify_one(); // who was not to begin another
    }
  }
}

answer request_pool::connect(std::optional<gd::client>& db) {
  {
    std::lock_guard guard{mutex_};
    if (unreachable_ && clock::now() < unreachable_until_)
      return unreachable_;
  }
  auto made = gd::client::connect(database_,
                                  {.reconnects = 1, .queue_scans = queues_});
  std::lock_guard guard{mutex_};
  unreachable_ = made ? nullptr : told(made.error());
  unreachable_until_ = clock::now() + unreachable_for;
  if (made)
    db.emplace(std::move(*made));
  return unreachable_;
}

answer request_pool::answer_of(const task& x, std::optional<gd::client>& db) {
  if (!db)
    if (auto unreachable = connect(db))
      return unreachable;
  auto done = x.what(*db);
  if (done)
    return std::make_shared<response>(std::move(*done));
  auto code = done.error().code;
  if (is_lost(code)) {
    db.reset(); // the next one begins with a connection of its own
    complain_of(x, done.error());
  }
  if (code == gd::errc::sql) // another schema may be there by now
    if (auto unreachable = connect(db))
      return unreachable;
  return told(done.error());
}

void request_pool::complain_of(const task& x, const gd::error& why) {
  {
    std::lock_guard guard{mutex_};
    if (clock::now() < silent_until_)
      return;
    silent_until_ = clock::now() + silent_for;
  }
  // Parameters may be names and keys that are nobody's business.
  auto path = x.key.substr(0, x.key.find('?'));
  gd::write_to_stderr(fmt::format("gdctl serve: {}: {}\n",
                                  path.empty() ? "a request" : path,
                                  gd::printable(why.message)));
}

void request_pool::tell(const task& x, const answer& told) {
  if (x.to)
    return x.to(told);
  std::vector<reply> waiting;
  {
    std::lock_guard guard{mutex_};
    auto seen = kept_answers_.find(x.key);
    waiting.swap(seen->second.waiting);
    seen->second.under_way = false;
    seen->second.told = told;
    seen->second.until = clock::now() + x.kept;
    // A failure is told to those who have waited, and to nobody else.
    if (x.kept == 0ms || told->status != 200)
      kept_answers_.erase(seen);
  }
  for (const auto& to : waiting)
    to(told);
}

void request_pool::drop_old_answers() {
  if (kept_answers_.size() < most_kept)
    return;
  auto now = clock::now();
  std::erase_if(kept_answers_, [now](const auto& x) {
    return !x.second.under_way && now >= x.second.until;
  });
}

} // namespace gdctl::serve
