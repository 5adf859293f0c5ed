#include <gd/network/client/dial.hpp>

#include <gd/network/wire/secret.hpp>
#include <gd/network/wire/sockets.hpp>

#include <caf/all.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace gd::actors {

result<void> check_endpoints(const std::vector<std::string>& addresses,
                             const std::string& secret) {
  for (const auto& address : addresses) {
    auto at = to_endpoint(address);
    if (!at)
      return at.error();
    if (!at->path.empty())
      continue;
    if (secret.empty())
      return error{errc::invalid_argument,
                   "expected a secret for the port " + address
                     + ", got none: it is the one that the gateway's engine "
                       "has; a socket needs none",
                   {}};
    if (auto mine = shared_secret::read(secret); !mine)
      return mine.error();
  }
  return {};
}

void dial(caf::actor_system& sys, std::string where, std::string secret,
          std::chrono::milliseconds timeout,
          std::function<void(result<held_gateway>)> tell) {
  sys.spawn<caf::detached>(
    [where = std::move(where), secret = std::move(secret), timeout,
     tell = std::move(tell)](caf::event_based_actor* self) {
    result<held_gateway> found = error{};
    try {
      found = hold(self->system(), where, secret, timeout);
    } catch (const std::exception& x) { // for CAF's own: no thread, no memory
      found = error{errc::unavailable, x.what(), {}};
    }
    tell(std::move(found));
  });
}

void dial(const weak_ref& who, caf::actor_system& sys, std::string where,
          std::string secret, std::chrono::milliseconds timeout) {
  dial(sys, std::move(where), std::move(secret), timeout,
       [who](result<held_gateway> found) {
    who.tell(
      dialled{std::make_shared<const result<held_gateway>>(std::move(found))});
  });
}

} // namespace gd::actors
