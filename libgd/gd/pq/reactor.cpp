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

struct reactor::connection_slot {
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

/// What is told when no connection slot is locked: a callback may submit.
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

reactor::reactor(pq::options opts, std::size_t slots, event_sink sink,
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
  for (std::size_t i = 0; i < slots + on_demand_slots; ++i) {
    slots_.push_back(std::make_unique<connection_slot>());
    slots_.back()->index = i;
    slots_.back()->on_demand = i >= slots;
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
  ensure(index < slots_.size(),
         "a unit is for a connection slot that there is");
  auto& slot = *slots_[index];
  std::unique_lock guard{slot.mutex};
  if (slot.closed) {
    guard.unlock();
    news told;
    told.answer(std::move(done), {errc::stopped, "the engine is stopped", {}});
    return tell(told);
  }
  bool this_session = how.which == patience::on::this_one;
  if (this_session && !slot.ready)
    expires = now;
  slot.waiting.push_back(
    {std::move(work), std::move(done), expires, this_session});
  // Otherwise the reactor decides.
  auto usable = slot.ready && !failed_ && !stopping_;
  if (usable)
    start_next(slot);
  bool expires_first = !slot.waiting.empty() && expires < slot.first_expiry;
  if (expires_first)
    slot.first_expiry = expires;
  // It polls for answers already, but not for room to write the rest.
  auto expected = usable && slot.connection->events() == POLLIN;
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
reactor::connected_since(std::size_t slot) const {
  auto ticks = slots_[slot]->since.load();
  if (ticks == 0)
    return std::nullopt;
  return clock::time_point{clock::duration{ticks}};
}

error reactor::why_waiting(std::size_t index) const {
  const auto& slot = *slots_[index];
  std::lock_guard guard{slot.mutex};
  return slot.why_waiting();
}

void reactor::run() {
  whose_thread = this;
  std::vector<pollfd> fds(slots_.size() + 1);
  for (;;) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      look_after(*slots_[i], fds[i + 1].revents != 0);
    give_up_connecting();
    if (stopping_) {
      auto working = [](auto& slot) {
        std::lock_guard guard{slot->mutex};
        return slot->running || (slot->ready && !slot->waiting.empty());
      };
      if (clock::now() >= stop_by_
          || std::none_of(slots_.begin(), slots_.end(), working))
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
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      auto& slot = *slots_[i];
      std::lock_guard guard{slot.mutex};
      until = std::min(until, next_event(slot));
      fds[i + 1] = {slot.connection ? slot.connection->fd() : -1,
                    slot.connection ? slot.connection->events() : short{0}, 0};
    }
    // What is late may be so without bound: no difference can tell how much.
    auto now = clock::now();
    auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(until, now) - now);
    poll(fds.data(), fds.size(),
         static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    wake_->silence();
  }
  for (auto& slot : slots_)
    close_slot(*slot);
}

void reactor::look_after(connection_slot& slot, bool pollable) {
  news told;
  {
    std::lock_guard guard{slot.mutex};
    if (slot.connecting) {
      std::lock_guard ended{slot.connecting->mutex};
      slot.connection = std::move(slot.connecting->result);
    } else if (!slot.connection && slot.wants_connection() && !fatal_
               && !stopping_ && clock::now() >= slot.next_attempt) {
      connect(slot);
    } else if (pollable && slot.connection) {
      slot.connection->pump();
    }
    if (slot.connection)
      slot.connecting = nullptr;
    advance(slot, told);
  }
  tell(told);
}

void reactor::connect(connection_slot& slot) {
  ensure(!slot.connection && !slot.connecting,
         "a connection slot has one connection, or one attempt");
  slot.connecting = std::make_shared<attempt>();
  try {
    // Nobody can wait for it: a look-up ends when it likes.
    std::thread{[to = slot.connecting, opts = opts_,
                 before = pq::predecessor{host_, slot.left_behind},
                 wake = wake_, end = end_] {
      auto made = std::make_unique<pq::connection>(opts, before);
      // A dead one says why by itself.
      static_cast<void>(static_cast<bool>(made->wait_ready(end->fd())));
      std::lock_guard guard{to->mutex};
      to->result = std::move(made);
      wake->ring();
    }}.detach();
  } catch (const std::system_error&) { // too many threads
    slot.connecting = nullptr;
    slot.next_attempt = clock::now() + longest_pause_;
  }
}

void reactor::advance(connection_slot& slot, news& told) {
  auto now = clock::now();
  if (fatal_) {
    for (auto& x : slot.waiting)
      told.answer(std::move(x.done), *fatal_);
    slot.waiting.clear();
    slot.first_expiry = clock::time_point::max();
    if (!slot.running)
      return; // what is under way elsewhere may still end well
  }
  bool in_vain = impatient_ && !slot.ready && !may_come_soon(slot);
  if (in_vain || now >= slot.first_expiry)
    end_waiting(slot, in_vain ? clock::time_point::max() : now, told);
  if (!slot.connection)
    return;
  using phase = pq::connection::phase;
  auto& conn = *slot.connection;
  if (conn.state() == phase::working && now >= slot.give_up_at)
    conn.abandon({errc::unavailable, "the server does not answer", {}});
  if (auto reply = conn.take_reply()) {
    if (reply->unreplicated)
      told.events.emplace_back(
        events::not_replicated{slot.index, *reply->failure});
    if (!slot.ready)
      read_first(slot, *reply, told);
    else {
      ensure(slot.running != nullptr, "a reply is that of a unit");
      told.replies.emplace_back(std::exchange(slot.running, nullptr),
                                std::move(*reply));
      slot.stays_until = now + on_demand_stays;
    }
  }
  if (conn.state() == phase::dead)
    return lost(slot, told);
  if (!fatal_)
    start_next(slot);
  if (slot.ready && !slot.wants_connection())
    disconnect(slot);
}

bool reactor::may_come_soon(const connection_slot& slot) const {
  return slot.on_demand && slot.failures == 0 && slots_.front()->since != 0;
}

void reactor::end_waiting(connection_slot& slot, clock::time_point until,
                          news& told) {
  auto why = slot.why_waiting();
  auto ended = [until](const job& x) { return x.expires <= until; };
  slot.first_expiry = clock::time_point::max();
  for (auto& x : slot.waiting)
    if (ended(x))
      told.answer(std::move(x.done), why);
    else
      slot.first_expiry = std::min(slot.first_expiry, x.expires);
  std::erase_if(slot.waiting, ended);
}

void reactor::disconnect(connection_slot& slot) {
  slot.connection = nullptr;
  slot.ready = false;
  slot.next = connection_slot::beginning::check_schema;
  slot.since = 0;
  for (auto& x : slot.waiting)
    if (x.this_session)
      slot.first_expiry = x.expires = clock::time_point::min();
}

void reactor::fail(error why, news& told) {
  fatal_ = why;
  failed_ = true;
  connect_by_ = std::nullopt;
  told.fatal = std::move(why);
  wake_
    ->ring(); // what waits in connection slots that have had their look already
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

void reactor::lost(connection_slot& slot, news& told) {
  auto why = slot.connection->why_dead();
  slot.left_behind = slot.connection->for_next().backend;
  slot.lost = slot.lost || slot.ready;
  disconnect(slot);
  if (fatal_)
    return;
  if (why.code == errc::schema_mismatch || why.code == errc::invalid_argument
      || why.code == errc::machine_differs)
    return fail(std::move(why), told);
  slot.why_lost = why;
  thread_local std::minstd_rand random{std::random_device{}()};
  auto full = pause_after(slot.failures, std::chrono::milliseconds{50},
                          longest_pause_)
                .count();
  std::uniform_int_distribution<std::int64_t> jittered{full / 2, full};
  std::chrono::milliseconds wait{jittered(random)};
  ++slot.failures;
  slot.next_attempt = clock::now() + wait;
  if (auto times = complaints_.note(why.message, clock::now()); times > 0)
    told.events.emplace_back(
      events::disconnected{slot.index, std::move(why), wait, times});
}

void reactor::read_first(connection_slot& slot, const pq::reply& reply,
                         news& told) {
  using beginning = connection_slot::beginning;
  auto& conn = *slot.connection;
  result<void> ok;
  if (slot.next == beginning::greet)
    ok = greet_.heard(slot.index, reply, told.events);
  else
    ok = store::check_schema(reply, opts_.schema);
  if (!ok)
    return conn.abandon(ok.error());
  if (greet_.say && slot.next != beginning::check_again) {
    slot.next = slot.next == beginning::greet ? beginning::check_again
                                              : beginning::greet;
    return;
  }
  slot.ready = true;
  host_ = conn.for_next().host;
  slot.failures = 0;
  slot.since = clock::now().time_since_epoch().count();
  connect_by_ = std::nullopt;
  if (std::all_of(slots_.begin(), slots_.end(),
                  [](const auto& x) { return x->ready || x->on_demand; }))
    complaints_.forget();
  told.events.emplace_back(events::connected{slot.index, conn.backend(),
                                             std::exchange(slot.lost, false)});
}

void reactor::start_next(connection_slot& slot) {
  if (slot.connection->state() != pq::connection::phase::idle)
    return;
  bool greets = !slot.ready && slot.next == connection_slot::beginning::greet;
  if (greets && slot.index > 0 && slots_.front()->since == 0)
    return;
  // A unit of several statements may take several timeouts.
  slot.give_up_at = clock::now() + 2 * opts_.statement_timeout;
  if (greets) {
    slot.connection->send(greet_.say(slot.index));
  } else if (!slot.ready) {
    slot.connection->send({{store::schema_version()}, false});
  } else if (!slot.waiting.empty()) {
    ensure(slot.running == nullptr, "a connection runs one unit at a time");
    auto next = std::move(slot.waiting.front());
    slot.waiting.pop_front();
    slot.running = std::move(next.done);
    slot.connection->send(next.work);
  }
}

reactor::clock::time_point
reactor::next_event(const connection_slot& slot) const {
  if (fatal_ && !slot.running)
    return clock::time_point::max();
  auto when = slot.first_expiry;
  if (!slot.connection && !slot.connecting && slot.wants_connection()
      && !stopping_)
    when = std::min(when, slot.next_attempt);
  if (slot.connection && slot.on_demand && !slot.running)
    when = std::min(when, slot.stays_until);
  if (slot.connection) {
    using phase = pq::connection::phase;
    auto state = slot.connection->state();
    if (state == phase::working)
      when = std::min(when, slot.give_up_at);
    else if (state == phase::dead) // a send can kill it
      when = clock::now();
  }
  return when;
}

void reactor::close_slot(connection_slot& slot) {
  news told;
  {
    std::lock_guard guard{slot.mutex};
    slot.closed = true;
    if (slot.running)
      told.answer(std::exchange(slot.running, nullptr),
                  {errc::unknown_fate, "the engine is stopped", {}});
    for (auto& x : slot.waiting)
      told.answer(std::move(x.done),
                  {errc::stopped, "the engine is stopped", {}});
    slot.waiting.clear();
    disconnect(slot);
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
