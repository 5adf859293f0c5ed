#include "serve/sampler.hpp"

#include "common.hpp"

#include <gd/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gdctl::serve {

namespace {

constexpr std::chrono::seconds interval{1};
constexpr std::size_t most_points = 600;

} // namespace

sampler::sampler(gd::pq::options database)
  : database_(std::move(database)), thread_([this] { run(); }) {
  // nop
}

sampler::~sampler() {
  {
    std::lock_guard guard{mutex_};
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

rates sampler::told() const {
  std::lock_guard guard{mutex_};
  rates out;
  out.interval_us
    = std::chrono::duration_cast<std::chrono::microseconds>(interval).count();
  for (const auto& x : points_) {
    out.at_us.push_back(x.at_us);
    out.inserted.push_back(x.inserted);
    out.updated.push_back(x.updated);
    out.deleted.push_back(x.deleted);
  }
  return out;
}

void sampler::run() {
  std::optional<gd::client> db;
  bool away = false;
  while (true) {
    auto now = look(db);
    add(now);
    if (away
        == static_cast<bool>(now)) { // once when it goes, once when it is back
      away = !now;
      gd::write_to_stderr(
        away ? fmt::format("gdctl serve: the database is away: {}\n",
                           gd::printable(now.error().message))
             : "gdctl serve: the database is back\n");
    }
    std::unique_lock guard{mutex_};
    if (changed_.wait_for(guard, interval, [this] { return stopped_; }))
      return;
  }
}

gd::result<gd::activity> sampler::look(std::optional<gd::client>& db) {
  if (!db) {
    auto made = gd::client::connect(database_, {.reconnects = 1});
    if (!made)
      return made.error();
    db.emplace(std::move(*made));
  }
  auto now = db->activity();
  if (!now)
    db.reset();
  return now;
}

void sampler::add(const gd::result<gd::activity>& now) {
  // Times are the database's, and how long it has been is ours: its clock may be set.
  auto asked = std::chrono::steady_clock::now();
  std::chrono::duration<double, std::micro> passed = asked
                                                     - std::exchange(asked_,
                                                                     asked);
  at_us_ = now ? now->at_us
               : at_us_ + static_cast<std::int64_t>(passed.count());
  point next{.at_us = at_us_};
  if (now && before_) {
    auto seconds = passed.count() / 1e6;
    // Less than before: the statistics have begun anew.
    auto rate = [&](std::int64_t gd::activity::*rows) {
      auto count = std::max<std::int64_t>((*now).*rows - (*before_).*rows, 0);
      return static_cast<double>(count) / seconds;
    };
    next.inserted = rate(&gd::activity::inserted);
    next.updated = rate(&gd::activity::updated);
    next.deleted = rate(&gd::activity::deleted);
  }
  bool known = now && before_;
  before_ = now ? std::optional{*now} : std::nullopt;
  std::lock_guard guard{mutex_};
  if (points_.empty() && !known)
    return;
  points_.push_back(next);
  if (points_.size() > most_points)
    points_.pop_front();
}

} // namespace gdctl::serve
