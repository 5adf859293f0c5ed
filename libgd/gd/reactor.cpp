#include <gd/reactor.hpp>

#include <gd/store.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <random>
#include <utility>

namespace gd {

using clock_type = database::clock;

struct reactor::lane_state {
  /// What a new connection does before it is ready.
  enum class beginning : std::uint8_t { check_schema, greet };

  std::size_t index = 0;
  beginning next = beginning::check_schema;
  clock_type::time_point next_attempt;
  int failures = 0;
  /// Nanoseconds of the clock's epoch; 0: not connected. Read by any thread.
  std::atomic<clock_type::rep> since = 0;

  /// Held to change what follows. Until it is ready, a connection is the
  /// reactor's own: resolving a name may take a while.
  std::mutex mutex;
  std::unique_ptr<pq::connection> connection;
  /// The schema has been checked, and the greeting said: units may run.
  bool ready = false;
  bool closed = false;
  std::deque<job> waiting;
  callback running;
  clock_type::time_point give_up_at;
};

/// What is told when no lane is locked: a callback may submit.
struct reactor::news {
  void answer(callback done, error why) {
    pq::reply failed;
    failed.failure = std::move(why);
    replies.emplace_back(std::move(done), std::move(failed));
  }

  std::vector<std::pair<callback, pq::reply>> replies;
  std::vector<event> events;
  std::optional<error> fatal;
};

reactor::reactor(pq::options opts, std::size_t lanes, event_sink sink,
                 fatal_callback on_fatal,
                 std::chrono::milliseconds longest_pause, greeting greet)
  : opts_(std::move(opts)),
    sink_(std::move(sink)),
    on_fatal_(std::move(on_fatal)),
    longest_pause_(longest_pause),
    greet_(std::move(greet)),
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

void reactor::submit(std::size_t index, pq::unit work, callback done,
                     clock::duration patience) {
  auto now = clock::now();
  auto expires = patience < clock::time_point::max() - now
                   ? now + patience
                   : clock::time_point::max();
  auto& lane = *lanes_[index];
  std::unique_lock guard{lane.mutex};
  if (lane.closed) {
    guard.unlock();
    news told;
    told.answer(std::move(done), {errc::stopped, "the engine is stopped", {}});
    return tell(told);
  }
  lane.waiting.push_back({std::move(work), std::move(done), expires});
  // Otherwise the reactor decides.
  auto usable = lane.ready && !failed_ && !stopping_;
  if (usable)
    start_next(lane);
  // It polls for answers already, but not for room to write the rest.
  auto expected = usable && lane.connection->events() == POLLIN;
  guard.unlock();
  if (!expected)
    wake();
}

std::optional<reactor::clock::time_point>
reactor::connected_since(std::size_t lane) const {
  auto ticks = lanes_[lane]->since.load();
  if (ticks == 0)
    return std::nullopt;
  return clock::time_point{clock::duration{ticks}};
}

void reactor::run() {
  std::vector<pollfd> fds(lanes_.size() + 1);
  for (;;) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      look_after(*lanes_[i], fds[i + 1].revents != 0);
    if (stopping_) {
      auto working = [](auto& lane) {
        std::lock_guard guard{lane->mutex};
        return lane->running || (lane->ready && !lane->waiting.empty());
      };
      if (clock::now() >= stop_by_
          || std::none_of(lanes_.begin(), lanes_.end(), working))
        break;
    }
    // What is sent from now on without a wake-up is not given up earlier.
    auto until = clock::now() + 2 * opts_.statement_timeout;
    if (stopping_)
      until = std::min(until, stop_by_);
    fds[0] = {wake_fd_, POLLIN, 0};
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      auto& lane = *lanes_[i];
      std::lock_guard guard{lane.mutex};
      until = std::min(until, next_event(lane));
      fds[i + 1] = {lane.connection ? lane.connection->fd() : -1,
                    lane.connection ? lane.connection->events() : short{0}, 0};
    }
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until
                                                             - clock::now());
    poll(fds.data(), fds.size(),
         static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    std::uint64_t count = 0;
    [[maybe_unused]] auto drained = read(wake_fd_, &count, sizeof(count));
  }
  for (auto& lane : lanes_)
    close_lane(*lane);
}

void reactor::look_after(lane_state& lane, bool pollable) {
  if (pollable && lane.connection && !lane.ready)
    lane.connection->pump();
  if (!lane.connection && !fatal_ && !stopping_
      && clock::now() >= lane.next_attempt)
    lane.connection = std::make_unique<pq::connection>(opts_);
  news told;
  {
    std::lock_guard guard{lane.mutex};
    if (pollable && lane.ready)
      lane.connection->pump();
    advance(lane, told);
  }
  tell(told);
}

void reactor::advance(lane_state& lane, news& told) {
  auto now = clock::now();
  if (fatal_) {
    for (auto& x : lane.waiting)
      told.answer(std::move(x.done), *fatal_);
    lane.waiting.clear();
    if (!lane.running)
      return; // what is under way elsewhere may still end well
  }
  if (lane.connection) {
    using phase = pq::connection::phase;
    auto& conn = *lane.connection;
    if (conn.state() == phase::connecting && now >= conn.connect_by())
      conn.abandon({errc::unavailable,
                    "the server does not answer the connection attempt",
                    {}});
    if (conn.state() == phase::working && now >= lane.give_up_at)
      conn.abandon({errc::unavailable, "the server does not answer", {}});
    if (auto reply = conn.take_reply()) {
      if (!lane.ready)
        read_first(lane, std::move(*reply), told);
      else
        told.replies.emplace_back(std::exchange(lane.running, nullptr),
                                  std::move(*reply));
    }
    if (conn.state() == phase::dead)
      lost(lane, told);
    else if (!fatal_)
      start_next(lane);
  }
  if (lane.ready)
    return; // the turn of what waits will come
  auto expired = [now](const job& x) { return x.expires <= now; };
  for (auto& x : lane.waiting)
    if (expired(x))
      told.answer(
        std::move(x.done),
        {errc::unavailable, "there is no connection to the database", {}});
  std::erase_if(lane.waiting, expired);
}

void reactor::lost(lane_state& lane, news& told) {
  auto why = lane.connection->why_dead();
  lane.connection.reset();
  lane.ready = false;
  lane.next = lane_state::beginning::check_schema;
  lane.since = 0;
  if (fatal_)
    return;
  if (why.code == errc::schema_mismatch || why.code == errc::invalid_argument) {
    fatal_ = why;
    failed_ = true;
    told.fatal = std::move(why);
    return wake(); // what waits in lanes that have had their look already
  }
  thread_local std::minstd_rand random{std::random_device{}()};
  constexpr std::int64_t first_ms = 50;
  auto full = std::min<std::int64_t>(first_ms << std::min(lane.failures, 10),
                                     longest_pause_.count());
  std::uniform_int_distribution<std::int64_t> jittered{full / 2, full};
  std::chrono::milliseconds wait{jittered(random)};
  ++lane.failures;
  lane.next_attempt = clock::now() + wait;
  told.events.emplace_back(
    events::disconnected{lane.index, std::move(why), wait});
}

void reactor::read_first(lane_state& lane, pq::reply reply, news& told) {
  using beginning = lane_state::beginning;
  auto& conn = *lane.connection;
  result<void> ok;
  if (!reply.ok())
    ok = *reply.failure;
  else if (lane.next == beginning::check_schema)
    ok = store::check_schema(reply.results.front(), opts_.schema);
  bool greeted = lane.next == beginning::greet;
  if (!ok && !(greeted && ok.error().code == errc::busy))
    return conn.abandon(ok.error());
  if (greet_ && !greeted) {
    lane.next = beginning::greet;
    return;
  }
  lane.ready = true;
  lane.failures = 0;
  lane.since = clock::now().time_since_epoch().count();
  told.events.emplace_back(events::connected{lane.index, conn.backend()});
}

void reactor::start_next(lane_state& lane) {
  if (lane.connection->state() != pq::connection::phase::idle)
    return;
  // A unit of several statements may take several timeouts.
  lane.give_up_at = clock::now() + 2 * opts_.statement_timeout;
  if (!lane.ready) {
    if (lane.next == lane_state::beginning::greet)
      lane.connection->send(greet_(lane.index));
    else
      lane.connection->send({{store::schema_version()}, false});
  } else if (!lane.waiting.empty()) {
    auto next = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.running = std::move(next.done);
    lane.connection->send(next.work);
  }
}

reactor::clock::time_point reactor::next_event(lane_state& lane) {
  auto when = clock::time_point::max();
  if (fatal_ && !lane.running)
    return when;
  if (!lane.connection && !stopping_)
    when = lane.next_attempt;
  if (lane.connection) {
    using phase = pq::connection::phase;
    switch (lane.connection->state()) {
      case phase::connecting:
        when = lane.connection->connect_by();
        break;
      case phase::working:
        when = lane.give_up_at;
        break;
      case phase::dead: // a send can kill it
        when = clock::now();
        break;
      case phase::idle:
        break;
    }
  }
  if (!lane.ready)
    for (const auto& x : lane.waiting)
      when = std::min(when, x.expires);
  return when;
}

void reactor::close_lane(lane_state& lane) {
  news told;
  {
    std::lock_guard guard{lane.mutex};
    lane.closed = true;
    if (lane.running)
      told.answer(std::exchange(lane.running, nullptr),
                  {errc::unknown_fate, "the engine is stopped", {}});
    for (auto& x : lane.waiting)
      told.answer(std::move(x.done),
                  {errc::stopped, "the engine is stopped", {}});
    lane.waiting.clear();
    lane.ready = false;
    lane.connection.reset();
    lane.since = 0;
  }
  tell(told);
}

void reactor::tell(news& told) {
  for (auto& [done, reply] : told.replies)
    done(std::move(reply));
  for (auto& x : told.events)
    sink_(x);
  if (told.fatal)
    on_fatal_(std::move(*told.fatal));
}

} // namespace gd
