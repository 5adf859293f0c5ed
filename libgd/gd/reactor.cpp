#include <gd/reactor.hpp>

#include <gd/store.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <random>
#include <utility>

namespace gd {

using clock_type = database::clock;

struct reactor::lane_state {
  std::size_t index = 0;
  std::unique_ptr<pq::connection> connection;
  /// The schema has been checked: units may run.
  bool ready = false;
  bool checking = false;
  std::deque<job> waiting;
  callback running;
  clock_type::time_point give_up_at;
  clock_type::time_point next_attempt;
  int failures = 0;
  /// Nanoseconds of the clock's epoch; 0: not connected. Read by any thread.
  std::atomic<clock_type::rep> since = 0;
};

reactor::reactor(pq::options opts, std::size_t lanes, event_sink sink,
                 fatal_callback on_fatal,
                 std::chrono::milliseconds longest_pause)
  : opts_(std::move(opts)),
    sink_(std::move(sink)),
    on_fatal_(std::move(on_fatal)),
    longest_pause_(longest_pause),
    wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (std::size_t i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<lane_state>());
    lanes_.back()->index = i;
  }
  thread_ = std::thread{[this] { run(); }};
}

reactor::~reactor() {
  stop();
  close(wake_fd_);
}

void reactor::stop(clock::duration grace) {
  if (!thread_.joinable())
    return;
  stop_by_ = clock::now() + grace;
  stopping_ = true;
  wake();
  thread_.join();
}

void reactor::wake() {
  std::uint64_t one = 1;
  // Full means that it is awake already.
  [[maybe_unused]] auto written = write(wake_fd_, &one, sizeof(one));
}

void reactor::submit(std::size_t lane, pq::unit work, callback done,
                     clock::duration patience) {
  auto now = clock::now();
  auto expires = patience < clock::time_point::max() - now
                   ? now + patience
                   : clock::time_point::max();
  {
    std::lock_guard guard{mutex_};
    if (!closed_) {
      arrivals_.push_back({lane, {std::move(work), std::move(done), expires}});
      done = nullptr;
    }
  }
  if (done)
    answer(done, {errc::stopped, "the engine is stopped", {}});
  else
    wake();
}

std::optional<reactor::clock::time_point>
reactor::connected_since(std::size_t lane) const {
  auto ticks = lanes_[lane]->since.load();
  if (ticks == 0)
    return std::nullopt;
  return clock::time_point{clock::duration{ticks}};
}

void reactor::answer(callback& done, error why) {
  pq::reply failed;
  failed.failure = std::move(why);
  std::exchange(done, nullptr)(std::move(failed));
}

void reactor::run() {
  std::vector<pollfd> fds;
  for (;;) {
    accept_arrivals();
    for (auto& lane : lanes_)
      advance(*lane);
    if (stopping_) {
      // What was submitted before the stop may have come in since the look above.
      auto arrived = [this] {
        std::lock_guard guard{mutex_};
        return !arrivals_.empty();
      };
      bool working = arrived()
                     || std::any_of(lanes_.begin(), lanes_.end(),
                                    [](auto& lane) {
        return lane->running || (lane->ready && !lane->waiting.empty());
                        });
      if (!working || clock::now() >= stop_by_)
        break;
    }
    fds.assign(1, {wake_fd_, POLLIN, 0});
    for (auto& lane : lanes_)
      fds.push_back({lane->connection ? lane->connection->fd() : -1,
                     lane->connection ? lane->connection->events() : short{0},
                     0});
    auto until = next_event();
    auto patience = -1;
    if (until != clock::time_point::max()) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(until
                                                               - clock::now());
      patience = static_cast<int>(
        std::clamp<std::int64_t>(left.count(), 0, 60'000));
    }
    poll(fds.data(), fds.size(), patience);
    std::uint64_t count = 0;
    [[maybe_unused]] auto drained = read(wake_fd_, &count, sizeof(count));
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (fds[i + 1].revents != 0 && lanes_[i]->connection)
        lanes_[i]->connection->pump();
  }
  {
    std::lock_guard guard{mutex_};
    closed_ = true;
  }
  accept_arrivals();
  for (auto& lane : lanes_) {
    if (lane->running)
      answer(lane->running, {errc::unknown_fate, "the engine is stopped", {}});
    for (auto& one : lane->waiting)
      answer(one.done, {errc::stopped, "the engine is stopped", {}});
    lane->waiting.clear();
    lane->connection.reset();
    lane->since = 0;
  }
}

void reactor::accept_arrivals() {
  std::vector<arrival> arrivals;
  {
    std::lock_guard guard{mutex_};
    arrivals.swap(arrivals_);
  }
  for (auto& x : arrivals)
    lanes_[x.lane]->waiting.push_back(std::move(x.what));
}

void reactor::advance(lane_state& lane) {
  auto now = clock::now();
  if (fatal_) {
    while (!lane.waiting.empty()) {
      auto one = std::move(lane.waiting.front());
      lane.waiting.pop_front();
      answer(one.done, *fatal_);
    }
    if (!lane.running)
      return; // what is under way elsewhere may still end well
  }
  if (!lane.connection) {
    if (now >= lane.next_attempt && !stopping_)
      connect(lane);
    return expire(lane);
  }
  using phase = pq::connection::phase;
  auto& conn = *lane.connection;
  if (conn.state() == phase::connecting && now >= conn.connect_by())
    conn.abandon({errc::unavailable,
                  "the server does not answer the connection attempt",
                  {}});
  if (conn.state() == phase::working && now >= lane.give_up_at)
    conn.abandon({errc::unavailable, "the server does not answer", {}});
  if (auto reply = conn.take_reply()) {
    if (lane.checking) {
      lane.checking = false;
      auto ok = reply->ok()
                  ? store::check_schema(reply->results.front(), opts_.schema)
                  : result<void>{*reply->failure};
      if (ok) {
        lane.ready = true;
        lane.failures = 0;
        lane.since = now.time_since_epoch().count();
        sink_(events::connected{lane.index, conn.backend()});
      } else {
        conn.abandon(ok.error());
      }
    } else {
      std::exchange(lane.running, nullptr)(std::move(*reply));
    }
  }
  if (conn.state() == phase::dead)
    return lost(lane);
  if (conn.state() == phase::idle && !fatal_)
    start_next(lane);
  expire(lane);
}

void reactor::connect(lane_state& lane) {
  lane.connection = std::make_unique<pq::connection>(opts_);
  if (lane.connection->state() == pq::connection::phase::dead)
    lost(lane);
}

void reactor::lost(lane_state& lane) {
  auto why = lane.connection->why_dead();
  lane.connection.reset();
  lane.ready = false;
  lane.checking = false;
  lane.since = 0;
  if (fatal_)
    return;
  if (why.code == errc::schema_mismatch || why.code == errc::invalid_argument) {
    fatal_ = why;
    wake(); // what waits in lanes that have had their look already
    return on_fatal_(std::move(why));
  }
  thread_local std::minstd_rand random{std::random_device{}()};
  constexpr std::int64_t first_ms = 50;
  auto full = std::min<std::int64_t>(first_ms << std::min(lane.failures, 10),
                                     longest_pause_.count());
  std::uniform_int_distribution<std::int64_t> jittered{full / 2, full};
  std::chrono::milliseconds wait{jittered(random)};
  ++lane.failures;
  lane.next_attempt = clock::now() + wait;
  sink_(events::disconnected{lane.index, std::move(why), wait});
}

void reactor::start_next(lane_state& lane) {
  // A unit of several statements may take several timeouts.
  lane.give_up_at = clock::now() + 2 * opts_.statement_timeout;
  if (!lane.ready) {
    lane.checking = true;
    lane.connection->send({{store::schema_version()}, false});
  } else if (!lane.waiting.empty()) {
    auto next = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.running = std::move(next.done);
    lane.connection->send(next.work);
  }
}

void reactor::expire(lane_state& lane) {
  if (lane.ready)
    return; // its turn will come
  auto now = clock::now();
  auto expired = [now](const job& x) { return x.expires <= now; };
  for (auto& x : lane.waiting)
    if (expired(x))
      answer(x.done,
             {errc::unavailable, "there is no connection to the database", {}});
  std::erase_if(lane.waiting, expired);
}

reactor::clock::time_point reactor::next_event() const {
  auto when = stopping_ ? stop_by_ : clock::time_point::max();
  for (const auto& lane : lanes_) {
    if (fatal_ && !lane->running)
      continue;
    if (!lane->connection && !stopping_)
      when = std::min(when, lane->next_attempt);
    if (lane->connection) {
      if (lane->connection->state() == pq::connection::phase::connecting)
        when = std::min(when, lane->connection->connect_by());
      if (lane->connection->state() == pq::connection::phase::working)
        when = std::min(when, lane->give_up_at);
      // A send can kill the connection, or finish in a pump of another.
      if (lane->connection->state() == pq::connection::phase::dead)
        when = clock::now();
    }
    if (!lane->ready)
      for (const auto& x : lane->waiting)
        when = std::min(when, x.expires);
  }
  return when;
}

} // namespace gd
