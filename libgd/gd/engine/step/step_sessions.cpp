#include <gd/engine/step/step_sessions.hpp>

#include <gd/pq/ensure.hpp>
#include <gd/pq/pause.hpp>
#include <gd/store/steps.hpp>

#include <algorithm>
#include <utility>

namespace gd {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_pause{50};
constexpr milliseconds longest_pause{2'000};

} // namespace

step_sessions::step_sessions(settings x) : with_(std::move(x)) {
  // nop
}

// -- loans --------------------------------------------------------------------

step_sessions::loan::loan(step_sessions& of,
                          std::unique_ptr<pq::connection> what)
  : of_(&of), what_(std::move(what)) {
  // nop
}

step_sessions::loan::loan(loan&& other) noexcept
  : of_(std::exchange(other.of_, nullptr)), what_(std::move(other.what_)) {
  // nop
}

step_sessions::loan::~loan() {
  if (of_ != nullptr)
    of_->leave(std::move(what_));
}

result<step_sessions::loan> step_sessions::take(const std::stop_token& stop) {
  if (!enter(stop))
    return loan{};
  loan out{*this, take_free()};
  if (out.has_connection())
    return out;
  auto made = connect(stop);
  if (!made)
    return made.error();
  if (!*made)
    return loan{};
  out.replace(std::move(*made));
  return out;
}

/// The one that was used last: others may have ended meanwhile. Null: there is none.
std::unique_ptr<pq::connection> step_sessions::take_free() {
  std::lock_guard guard{mutex_};
  if (free_.empty())
    return nullptr;
  auto found = std::move(free_.back());
  free_.pop_back();
  return found;
}

result<std::unique_ptr<pq::connection>>
step_sessions::connect(const std::stop_token& stop) {
  for (std::int64_t failures = 0; !stop.stop_requested(); ++failures) {
    auto made = std::make_unique<pq::connection>(with_.where);
    auto ready = made->wait_ready();
    if (ready && clean(*made))
      return made;
    auto why = ready ? made->why_dead() : ready.error();
    if (!retryable(why.code))
      return why;
    auto pause = pause_after(failures, first_pause, longest_pause);
    complain(why, pause);
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock guard{mutex};
    never.wait_for(guard, stop, pause, [] { return false; });
  }
  return std::unique_ptr<pq::connection>{};
}

/// False: what a step has left there cannot be taken away.
bool step_sessions::clean(pq::connection& x) {
  if (x.run({{store::clean_session()}, false}).ok())
    return true;
  x.abandon({errc::unavailable, "the session cannot be cleaned", {}});
  return false;
}

void step_sessions::complain(const error& why, milliseconds pause) {
  auto times = [&] {
    std::lock_guard guard{mutex_};
    return complaints_.note(why.message, clock::now());
  }();
  if (times > 0 && with_.on_event)
    with_.on_event(
      events::disconnected{with_.connection_slot, why, pause, times});
}

// -- places -------------------------------------------------------------------

std::size_t step_sessions::count() const {
  std::lock_guard guard{mutex_};
  return used_ + free_.size();
}

/// False: `stop` came first.
bool step_sessions::enter(const std::stop_token& stop) {
  std::unique_lock guard{mutex_};
  if (used_ < static_cast<std::size_t>(with_.how.connections)) {
    ++used_;
    return true;
  }
  waiting me;
  waiting_.push_back(&me);
  if (me.called.wait(guard, stop, [&me] { return me.may; }))
    return true; // the place is that of who has left
  std::erase(waiting_, &me);
  return false;
}

void step_sessions::leave(std::unique_ptr<pq::connection> with) {
  // Not while others wait for the lock: the server is asked.
  bool usable = with && with->state() == pq::connection::phase::idle
                && clean(*with);
  std::lock_guard guard{mutex_};
  if (usable) {
    free_.push_back(std::move(with));
    complaints_.forget();
  }
  if (waiting_.empty()) {
    ensure(used_ > 0, "a place is left by who has it");
    --used_;
    return;
  }
  auto* next = waiting_.front();
  waiting_.pop_front();
  next->may = true;
  next->called.notify_one();
}

} // namespace gd
