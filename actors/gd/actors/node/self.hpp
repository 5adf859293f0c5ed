#pragma once

#include <gd/actors/compat.hpp>
#include <gd/actors/messages.hpp>

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

/// What an actor is told by itself, and by what it has begun elsewhere.
namespace gd::actors {

/// Where an actor is told something from any thread, which does not keep it.
class weak_ref {
public:
  /// By its handle, or by itself.
  template <class Actor>
  explicit weak_ref(const Actor& who)
    : who_(caf::actor_cast<caf::weak_actor_ptr>(who)) {
    // nop
  }

  /// Nothing, if it is gone.
  template <class Message>
  void tell(Message&& x) const {
    if (auto strong = caf::actor_cast<caf::strong_actor_ptr>(who_))
      anon(caf::actor_cast<caf::actor>(strong), std::forward<Message>(x));
  }

private:
  caf::weak_actor_ptr who_;
};

/// An actor's `tick` at the earliest time that it was asked for: one at a time.
class alarm {
public:
  using clock = std::chrono::steady_clock;

  template <class Self>
  void set(Self* self, clock::time_point at) {
    if (at >= at_)
      return;
    at_ = at;
    auto now = self->system().clock().now();
    send_self_after(self, at > now ? at - now : clock::duration::zero(),
                    tick{++generation_});
  }

  /// Not through the mailbox, but the clock.
  template <class Self>
  void set_now(Self* self) {
    set(self, clock::time_point::min());
  }

  bool is_set_to_now() const noexcept {
    return at_ == clock::time_point::min();
  }

  /// False: an earlier one has taken its place.
  bool rings(tick x) noexcept {
    if (x.generation != generation_)
      return false;
    at_ = clock::time_point::max();
    return true;
  }

private:
  clock::time_point at_ = clock::time_point::max();
  std::uint64_t generation_ = 0;
};

} // namespace gd::actors
