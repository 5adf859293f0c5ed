#include "serve/desk.hpp"

#include "common.hpp"
#include "serve/guard.hpp"

#include <gd/log.hpp>

#include <fmt/format.h>

#include <utility>

namespace gdctl::serve {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t looking_connections = 4;
/// Of a rank.
constexpr std::size_t most_tasks = 200;
/// Less than a page waits for its answer.
constexpr auto longest_wait = 8s;
constexpr std::size_t most_looks = 500;
/// One who fails to connect spares the others the wait.
constexpr auto away_for = 500ms;
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

desk::desk(gd::pq::options database) : database_(std::move(database)) {
  for (std::size_t i = 0; i < looking_connections; ++i)
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

void desk::enter(rank of, task x, std::unique_lock<std::mutex> guard) {
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

void desk::ask(gd::sender_id from, const std::string& key,
               std::chrono::milliseconds kept, errand what, reply to) {
  auto of = key.find('?') == key.npos ? look_at_all : look_at_some;
  std::unique_lock guard{mutex_};
  if (stopped_) {
    guard.unlock();
    return to(ended());
  }
  drop_old_looks();
  auto& x = looks_[key];
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

void desk::act(gd::sender_id from, errand what, reply to) {
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

void desk::stop() {
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

desk::rank desk::first() const {
  for (auto of : {verb, look_at_all})
    if (!tasks_[of].empty())
      return of;
  bool more = looking_at_some_ + 1 < looking_connections;
  return more && !tasks_[look_at_some].empty() ? look_at_some : ranks;
}

void desk::run() {
  std::optional<gd::client> db;
  while (true) {
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [this] { return stopped_ || first() != ranks; });
    if (stopped_)
      return;
    auto of = first();
    auto next = tasks_[of].pop([](const auto&) { return usual_task; });
    looking_at_some_ += of == look_at_some;
    guard.unlock();
    auto begin = clock::now();
    bool late = begin - next.since > longest_wait;
    tell(next, late ? overloaded() : answer_of(next, db));
    auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      clock::now() - begin);
    guard.lock();
    tasks_[of].charge(next.from, static_cast<std::uint64_t>(took.count()));
    if (of == look_at_some) {
      --looking_at_some_;
      changed_.notify_one(); // who was not to begin another
    }
  }
}

answer desk::connect(std::optional<gd::client>& db) {
  {
    std::lock_guard guard{mutex_};
    if (away_ && clock::now() < away_until_)
      return away_;
  }
  auto made = gd::client::connect(database_,
                                  {.reconnects = 1, .looks = queues_});
  std::lock_guard guard{mutex_};
  away_ = made ? nullptr : told(made.error());
  away_until_ = clock::now() + away_for;
  if (made)
    db.emplace(std::move(*made));
  return away_;
}

answer desk::answer_of(const task& x, std::optional<gd::client>& db) {
  if (!db)
    if (auto away = connect(db))
      return away;
  auto done = x.what(*db);
  if (done)
    return std::make_shared<response>(std::move(*done));
  auto code = done.error().code;
  if (is_lost(code)) {
    db.reset(); // the next one begins with a connection of its own
    complain_of(x, done.error());
  }
  if (code == gd::errc::sql) // another schema may be there by now
    if (auto away = connect(db))
      return away;
  return told(done.error());
}

void desk::complain_of(const task& x, const gd::error& why) {
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
