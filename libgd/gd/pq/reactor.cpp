#include <gd/pq/reactor.hpp>

#include <gd/pq/connection.hpp>
#include <gd/pq/ensure.hpp>
#include <gd/pq/pause.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <random>
#include <system_error>
#include <utility>

namespace gd {

using clock_type = database::clock;

namespace {

/// How long a connection on demand has nothing to do before it ends.
constexpr std::chrono::seconds on_demand_stays{30};

/// Whose thread this is; null: nobody's.
thread_local const reactor* whose_thread = nullptr;

} // namespace

/// Wakes whoever polls its file descriptor.
class reactor::bell {
public:
  bell() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    // nop
  }

  ~bell() {
    close(fd_);
  }

  bell(const bell&) = delete;
  bell& operator=(const bell&) = delete;

  int fd() const noexcept {
    return fd_;
  }

  void ring() {
    std::uint64_t one = 1;
    // Full means that it rings already.
    [[maybe_unused]] auto written = write(fd_, &one, sizeof(one));
  }

  void silence() {
    std::uint64_t count = 0;
    [[maybe_unused]] auto rung = read(fd_, &count, sizeof(count));
  }

private:
  int fd_;
};

/// What a thread that connects and the reactor have in common.
struct reactor::attempt {
  std::mutex mutex;
  /// Null until it is idle or dead.
  std::unique_ptr<pq::connection> result;
};

struct reactor::lane_state {
  /// What a new connection does before it is ready, in order. Checked again since a
  /// migration may have begun between the check and the greeting, by which it looks for
  /// nodes that know less.
  enum class beginning : std::uint8_t { check_schema, greet, check_again };

  std::size_t index = 0;
  bool on_demand = false;
  beginning next = beginning::check_schema;
  clock_type::time_point next_attempt;
  int failures = 0;
  std::int64_t left_behind = 0; ///< as of a `pq::predecessor`
  std::shared_ptr<attempt> connecting;
  /// Nanoseconds of the clock's epoch; 0: not connected. Read by any thread.
  std::atomic<clock_type::rep> since = 0;

  /// Until then a connection on demand stays, as there may be more to do.
  clock_type::time_point stays_until{};

  bool wants_connection() const {
    return !on_demand || !waiting.empty()
           || (ready && (running || clock_type::now() < stays_until));
  }

  /// Why what waits waits.
  error why_waiting() const {
    if (ready)
      return {errc::unavailable, "the connection is busy with other work", {}};
    if (why_lost)
      return {errc::unavailable, why_lost->message, why_lost->sqlstate};
    return {errc::unavailable, "there is no connection to the database", {}};
  }

  /// Held to change what follows.
  mutable std::mutex mutex;
  std::unique_ptr<pq::connection> connection;
  /// The schema has been checked, and the greeting said: units may run.
  bool ready = false;
  /// It was, and the connection was lost.
  bool lost = false;
  bool closed = false;
  std::optional<error> why_lost;
  std::deque<job> waiting;
  /// Nothing that waits has to be given up before.
  clock_type::time_point first_expiry = clock_type::time_point::max();
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
                 std::chrono::milliseconds longest_pause, greeting greet,
                 std::chrono::milliseconds connect_within)
  : opts_(std::move(opts)),
    sink_(std::move(sink)),
    on_fatal_(std::move(on_fatal)),
    longest_pause_(longest_pause),
    greet_(std::move(greet)),
    connect_within_(connect_within),
    wake_(std::make_shared<bell>()),
    end_(std::make_shared<bell>()) {
  for (std::size_t i = 0; i < lanes + on_demand_lanes; ++i) {
    lanes_.push_back(std::make_unique<lane_state>());
    lanes_.back()->index = i;
    lanes_.back()->on_demand = i >= lanes;
  }
  if (connect_within_.count() > 0)
    connect_by_ = clock::now() + connect_within_;
  thread_ = std::thread{[this] { run(); }};
}

reactor::~reactor() {
  stop();
}

void reactor::stop(clock::duration grace) {
  if (!thread_.joinable())
    return;
  stop_by_ = clock::now() + grace;
  stopping_ = true;
  end_->ring();
  wake_->ring();
  thread_.join();
}

void reactor::be_impatient() {
  impatient_ = true;
  wake_->ring();
}

void reactor::submit(std::size_t index, pq::unit work, callback done,
                     patience how) {
  auto now = clock::now();
  auto expires = how.within < clock::time_point::max() - now
                   ? now + how.within
                   : clock::time_point::max();
  ensure(index < lanes_.size(), "a unit is for a lane that there is");
  auto& lane = *lanes_[index];
  std::unique_lock guard{lane.mutex};
  if (lane.closed) {
    guard.unlock();
    news told;
    told.answer(std::move(done), {errc::stopped, "the engine is stopped", {}});
    return tell(told);
  }
  bool this_session = how.which == patience::on::this_one;
  if (this_session && !lane.ready)
    expires = now;
  lane.waiting.push_back(
    {std::move(work), std::move(done), expires, this_session});
  // Otherwise the reactor decides.
  auto usable = lane.ready && !failed_ && !stopping_;
  if (usable)
    start_next(lane);
  bool expires_first = !lane.waiting.empty() && expires < lane.first_expiry;
  if (expires_first)
    lane.first_expiry = expires;
  // It polls for answers already, but not for room to write the rest.
  auto expected = usable && lane.connection->events() == POLLIN;
  guard.unlock();
  if (!expected || expires_first)
    wake_->ring();
}

void reactor::after(clock::duration time, std::function<void()> then) {
  {
    std::lock_guard guard{alarms_mutex_};
    alarms_.push_back({clock::now() + time, std::move(then)});
  }
  if (whose_thread != this)
    wake_->ring();
}

reactor::clock::time_point reactor::ring_alarms() {
  std::unique_lock guard{alarms_mutex_};
  auto first = clock::time_point::max();
  auto next = alarms_.end();
  for (auto i = alarms_.begin(); i != alarms_.end(); ++i)
    if (i->at < first) {
      first = i->at;
      next = i;
    }
  if (first > clock::now())
    return first;
  auto then = std::move(next->then);
  alarms_.erase(next);
  guard.unlock(); // it may set another
  then();
  return clock::time_point::min();
}

std::optional<reactor::clock::time_point>
reactor::connected_since(std::size_t lane) const {
  auto ticks = lanes_[lane]->since.load();
  if (ticks == 0)
    return std::nullopt;
  return clock::time_point{clock::duration{ticks}};
}

error reactor::why_waiting(std::size_t index) const {
  const auto& lane = *lanes_[index];
  std::lock_guard guard{lane.mutex};
  return lane.why_waiting();
}

void reactor::run() {
  whose_thread = this;
  std::vector<pollfd> fds(lanes_.size() + 1);
  for (;;) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      look_after(*lanes_[i], fds[i + 1].revents != 0);
    give_up_connecting();
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
    if (connect_by_)
      until = std::min(until, *connect_by_);
    until = std::min(until, ring_alarms());
    fds[0] = {wake_->fd(), POLLIN, 0};
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      auto& lane = *lanes_[i];
      std::lock_guard guard{lane.mutex};
      until = std::min(until, next_event(lane));
      fds[i + 1] = {lane.connection ? lane.connection->fd() : -1,
                    lane.connection ? lane.connection->events() : short{0}, 0};
    }
    // What is late may be so without bound: no difference can tell how much.
    auto now = clock::now();
    auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(until, now) - now);
    poll(fds.data(), fds.size(),
         static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    wake_->silence();
  }
  for (auto& lane : lanes_)
    close_lane(*lane);
}

void reactor::look_after(lane_state& lane, bool pollable) {
  news told;
  {
    std::lock_guard guard{lane.mutex};
    if (lane.connecting) {
      std::lock_guard ended{lane.connecting->mutex};
      lane.connection = std::move(lane.connecting->result);
    } else if (!lane.connection && lane.wants_connection() && !fatal_
               && !stopping_ && clock::now() >= lane.next_attempt) {
      connect(lane);
    } else if (pollable && lane.connection) {
      lane.connection->pump();
    }
    if (lane.connection)
      lane.connecting = nullptr;
    advance(lane, told);
  }
  tell(told);
}

void reactor::connect(lane_state& lane) {
  ensure(!lane.connection && !lane.connecting,
         "a lane has one connection, or one attempt");
  lane.connecting = std::make_shared<attempt>();
  try {
    // Nobody can wait for it: a look-up ends when it likes.
    std::thread{[to = lane.connecting, opts = opts_,
                 before = pq::predecessor{host_, lane.left_behind},
                 wake = wake_, end = end_] {
      auto made = std::make_unique<pq::connection>(opts, before);
      // A dead one says why by itself.
      static_cast<void>(static_cast<bool>(made->wait_ready(end->fd())));
      std::lock_guard guard{to->mutex};
      to->result = std::move(made);
      wake->ring();
    }}.detach();
  } catch (const std::system_error&) { // too many threads
    lane.connecting = nullptr;
    lane.next_attempt = clock::now() + longest_pause_;
  }
}

void reactor::advance(lane_state& lane, news& told) {
  auto now = clock::now();
  if (fatal_) {
    for (auto& x : lane.waiting)
      told.answer(std::move(x.done), *fatal_);
    lane.waiting.clear();
    lane.first_expiry = clock::time_point::max();
    if (!lane.running)
      return; // what is under way elsewhere may still end well
  }
  bool in_vain = impatient_ && !lane.ready && !may_come_soon(lane);
  if (in_vain || now >= lane.first_expiry)
    end_waiting(lane, in_vain ? clock::time_point::max() : now, told);
  if (!lane.connection)
    return;
  using phase = pq::connection::phase;
  auto& conn = *lane.connection;
  if (conn.state() == phase::working && now >= lane.give_up_at)
    conn.abandon({errc::unavailable, "the server does not answer", {}});
  if (auto reply = conn.take_reply()) {
    if (reply->unreplicated)
      told.events.emplace_back(
        events::not_replicated{lane.index, *reply->failure});
    if (!lane.ready)
      read_first(lane, *reply, told);
    else {
      ensure(lane.running != nullptr, "a reply is that of a unit");
      told.replies.emplace_back(std::exchange(lane.running, nullptr),
                                std::move(*reply));
      lane.stays_until = now + on_demand_stays;
    }
  }
  if (conn.state() == phase::dead)
    return lost(lane, told);
  if (!fatal_)
    start_next(lane);
  if (lane.ready && !lane.wants_connection())
    disconnect(lane);
}

bool reactor::may_come_soon(const lane_state& lane) const {
  return lane.on_demand && lane.failures == 0 && lanes_.front()->since != 0;
}

void reactor::end_waiting(lane_state& lane, clock::time_point until,
                          news& told) {
  auto why = lane.why_waiting();
  auto ended = [until](const job& x) { return x.expires <= until; };
  lane.first_expiry = clock::time_point::max();
  for (auto& x : lane.waiting)
    if (ended(x))
      told.answer(std::move(x.done), why);
    else
      lane.first_expiry = std::min(lane.first_expiry, x.expires);
  std::erase_if(lane.waiting, ended);
}

void reactor::disconnect(lane_state& lane) {
  lane.connection = nullptr;
  lane.ready = false;
  lane.next = lane_state::beginning::check_schema;
  lane.since = 0;
  for (auto& x : lane.waiting)
    if (x.this_session)
      lane.first_expiry = x.expires = clock::time_point::min();
}

void reactor::fail(error why, news& told) {
  fatal_ = why;
  failed_ = true;
  connect_by_ = std::nullopt;
  told.fatal = std::move(why);
  wake_->ring(); // what waits in lanes that have had their look already
}

void reactor::give_up_connecting() {
  if (!connect_by_ || clock::now() < *connect_by_)
    return;
  news told;
  auto why = why_waiting(0);
  why.message = fmt::format("no connection within {} ms: {}",
                            connect_within_.count(), why.message);
  fail(std::move(why), told);
  tell(told);
}

void reactor::lost(lane_state& lane, news& told) {
  auto why = lane.connection->why_dead();
  lane.left_behind = lane.connection->for_next().backend;
  lane.lost = lane.lost || lane.ready;
  disconnect(lane);
  if (fatal_)
    return;
  if (why.code == errc::schema_mismatch || why.code == errc::invalid_argument
      || why.code == errc::machine_differs)
    return fail(std::move(why), told);
  lane.why_lost = why;
  thread_local std::minstd_rand random{std::random_device{}()};
  auto full = pause_after(lane.failures, std::chrono::milliseconds{50},
                          longest_pause_)
                .count();
  std::uniform_int_distribution<std::int64_t> jittered{full / 2, full};
  std::chrono::milliseconds wait{jittered(random)};
  ++lane.failures;
  lane.next_attempt = clock::now() + wait;
  if (auto times = complaints_.note(why.message, clock::now()); times > 0)
    told.events.emplace_back(
      events::disconnected{lane.index, std::move(why), wait, times});
}

void reactor::read_first(lane_state& lane, const pq::reply& reply, news& told) {
  using beginning = lane_state::beginning;
  auto& conn = *lane.connection;
  result<void> ok;
  if (lane.next == beginning::greet)
    ok = greet_.heard(lane.index, reply, told.events);
  else
    ok = store::check_schema(reply, opts_.schema);
  if (!ok)
    return conn.abandon(ok.error());
  if (greet_.say && lane.next != beginning::check_again) {
    lane.next = lane.next == beginning::greet ? beginning::check_again
                                              : beginning::greet;
    return;
  }
  lane.ready = true;
  host_ = conn.for_next().host;
  lane.failures = 0;
  lane.since = clock::now().time_since_epoch().count();
  connect_by_ = std::nullopt;
  if (std::all_of(lanes_.begin(), lanes_.end(),
                  [](const auto& x) { return x->ready || x->on_demand; }))
    complaints_.forget();
  told.events.emplace_back(events::connected{lane.index, conn.backend(),
                                             std::exchange(lane.lost, false)});
}

void reactor::start_next(lane_state& lane) {
  if (lane.connection->state() != pq::connection::phase::idle)
    return;
  bool greets = !lane.ready && lane.next == lane_state::beginning::greet;
  if (greets && lane.index > 0 && lanes_.front()->since == 0)
    return;
  // A unit of several statements may take several timeouts.
  lane.give_up_at = clock::now() + 2 * opts_.statement_timeout;
  if (greets) {
    lane.connection->send(greet_.say(lane.index));
  } else if (!lane.ready) {
    lane.connection->send({{store::schema_version()}, false});
  } else if (!lane.waiting.empty()) {
    ensure(lane.running == nullptr, "a connection runs one unit at a time");
    auto next = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.running = std::move(next.done);
    lane.connection->send(next.work);
  }
}

reactor::clock::time_point reactor::next_event(const lane_state& lane) const {
  if (fatal_ && !lane.running)
    return clock::time_point::max();
  auto when = lane.first_expiry;
  if (!lane.connection && !lane.connecting && lane.wants_connection()
      && !stopping_)
    when = std::min(when, lane.next_attempt);
  if (lane.connection && lane.on_demand && !lane.running)
    when = std::min(when, lane.stays_until);
  if (lane.connection) {
    using phase = pq::connection::phase;
    auto state = lane.connection->state();
    if (state == phase::working)
      when = std::min(when, lane.give_up_at);
    else if (state == phase::dead) // a send can kill it
      when = clock::now();
  }
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
    disconnect(lane);
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
