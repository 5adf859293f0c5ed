#include <gd/engine/intake/shares.hpp>

#include <fmt/format.h>

namespace gd {

void shared_room::open(std::size_t size) {
  std::lock_guard guard{mutex_};
  size_ = size;
  taken_ = 0;
  by_sender_.clear();
}

result<void> shared_room::take(sender_id who, std::size_t bytes) {
  constexpr std::size_t times_what_is_free = 3;
  constexpr std::size_t little = 4'096; // part of the room
  std::lock_guard guard{mutex_};
  auto found = by_sender_.find(who);
  auto mine = found != by_sender_.end() ? found->second : 0;
  auto free_of = [&](std::size_t room) {
    return taken_ + bytes < room ? room - taken_ - bytes : 0;
  };
  auto wanted = mine + bytes;
  bool fits = wanted <= times_what_is_free * free_of(size_ / 4 * 3)
              || (wanted <= size_ / little && free_of(size_) > 0);
  if (!fits && taken_ > 0)
    return error{errc::overloaded,
                 fmt::format("{} bytes wait already, {} of them this sender's, "
                             "and {} more are too many: expected at most {} in "
                             "all, and of a sender three times what is free",
                             taken_, mine, bytes, size_ / 4 * 3),
                 {}};
  taken_ += bytes;
  by_sender_[who] = mine + bytes;
  return {};
}

void shared_room::release(sender_id who, std::size_t bytes) {
  std::lock_guard guard{mutex_};
  auto found = by_sender_.find(who);
  if (found == by_sender_.end())
    return; // taken before it was opened again
  bytes = std::min(bytes, found->second);
  taken_ -= bytes;
  found->second -= bytes;
  if (found->second == 0)
    by_sender_.erase(found);
}

} // namespace gd
