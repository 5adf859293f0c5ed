#include <gd/network/client/dial.hpp>

#include <caf/all.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace gd::actors {

void dial(caf::actor_system& sys, std::string where,
          std::chrono::milliseconds timeout,
          std::function<void(result<held_gateway>)> tell) {
  sys.spawn<caf::detached>(
    [where = std::move(where), timeout,
     tell = std::move(tell)](caf::event_based_actor* self) {
    result<held_gateway> found = error{};
    try {
      found = hold(self->system(), where, timeout);
    } catch (const std::exception& x) { // for CAF's own: no thread, no memory
      found = error{errc::unavailable, x.what(), {}};
    }
    tell(std::move(found));
  });
}

void dial(const weak_ref& who, caf::actor_system& sys, std::string where,
          std::chrono::milliseconds timeout) {
  dial(sys, std::move(where), timeout, [who](result<held_gateway> found) {
    who.tell(
      dialled{std::make_shared<const result<held_gateway>>(std::move(found))});
  });
}

} // namespace gd::actors
