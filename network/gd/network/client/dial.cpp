#include <gd/network/client/dial.hpp>

#include <caf/all.hpp>

#include <exception>
#include <utility>

namespace gd::actors {

void dial(caf::actor_system& sys, std::string where,
          std::chrono::milliseconds timeout,
          std::function<void(result<held_gateway>)> tell) {
  sys.spawn<caf::detached>(
    [where = std::move(where), timeout,
     tell = std::move(tell)](caf::event_based_actor* self) {
    try { // no thread, or no memory, for what CAF makes
      tell(hold(self->system(), where, timeout));
    } catch (const std::exception& x) {
      tell(error{errc::unavailable, x.what(), {}});
    }
  });
}

} // namespace gd::actors
