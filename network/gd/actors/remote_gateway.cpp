#include <gd/actors/remote_gateway.hpp>

#include <gd/actors/remote.hpp>
#include <gd/network/client/dial.hpp>
#include <gd/network/client/remote_client.hpp>

#include <gd/time.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

error reach_error(std::string message) {
  return {errc::invalid_argument, "reach: " + std::move(message), {}};
}

result<void> check_at_least(std::string_view name, std::int64_t value,
                            std::int64_t least, std::string_view unit) {
  if (value >= least)
    return {};
  return reach_error(std::string{name} + ": expected at least "
                     + std::to_string(least) + std::string{unit} + ", got "
                     + std::to_string(value) + std::string{unit});
}

result<void> check(const std::vector<std::string>& addresses,
                   const reach_options& x) {
  if (addresses.empty())
    return reach_error("expected at least one address, got none");
  if (auto ok = check_endpoints(addresses, x.secret); !ok)
    return reach_error(ok.error().message);
  for (auto [name, time, least] :
       {std::tuple{"patience", x.patience, milliseconds{1}},
        {"answer_within", x.answer_within, milliseconds{1}},
        {"connect_timeout", x.connect_timeout, milliseconds{1}},
        {"ping", x.ping, milliseconds{1}},
        {"silence", x.silence, 2 * std::min(x.ping, longest_statement)},
        {"longest_pause", x.longest_pause, milliseconds{1}}})
    if (auto ok = check_at_least(name, time.count(), least.count(), " ms"); !ok)
      return ok;
    else if (time > longest_statement)
      return reach_error(std::string{name} + ": expected at most "
                         + std::to_string(longest_statement.count())
                         + " ms, got " + std::to_string(time.count()) + " ms");
  for (auto [name, number] : {std::pair{"requests", x.requests},
                              {"bytes", x.bytes},
                              {"open", x.open}})
    if (auto ok = check_at_least(name, static_cast<std::int64_t>(number), 1,
                                 "");
        !ok)
      return ok;
  if (!x.on_event)
    return reach_error("on_event: expected a function, got none");
  return {};
}

} // namespace

remote_gateway::remote_gateway(actors::gateway handle,
                               std::shared_ptr<const connected_node> remote)
  : handle_(std::move(handle)), remote_(std::move(remote)) {
  // nop
}

remote_gateway::remote_gateway(remote_gateway&& other) noexcept
  : handle_(std::exchange(other.handle_, nullptr)),
    remote_(std::move(other.remote_)) {
  // nop
}

remote_gateway& remote_gateway::operator=(remote_gateway&& other) noexcept {
  if (this != &other) {
    stop();
    handle_ = std::exchange(other.handle_, nullptr);
    remote_ = std::move(other.remote_);
  }
  return *this;
}

remote_gateway::~remote_gateway() {
  stop();
}

caf::node_id remote_gateway::node() const {
  return remote_->get();
}

void remote_gateway::stop() {
  if (handle_)
    anon(caf::actor_cast<caf::actor>(handle_), hang_up{});
  handle_ = nullptr;
}

result<void> check_network(caf::actor_system& sys, const std::string& what) {
  if (sys.has_middleman())
    return {};
  return error{errc::invalid_argument,
               what
                 + " needs CAF's network module, which this actor system has "
                   "not loaded: expected add_network_to(cfg) on its "
                   "configuration, or CAF_MAIN(caf::io::middleman)",
               {}};
}

result<remote_gateway> reach(caf::actor_system& sys,
                             std::vector<std::string> addresses,
                             reach_options options) {
  if (auto ok = check(addresses, options); !ok)
    return ok.error();
  if (auto ok = check_network(sys, "reach"); !ok)
    return ok.error();
  held_gateway first;
  std::size_t at = 0;
  if (options.connect_first) {
    std::optional<error> why;
    for (std::size_t i = 0; i < addresses.size() && !first.handle; ++i) {
      auto found = hold(sys, addresses[i], options.secret,
                        options.connect_timeout);
      if (!found) {
        why = found.error();
      } else {
        first = std::move(*found);
        at = i;
      }
    }
    if (!first.handle)
      return *why;
  }
  auto remote = std::make_shared<connected_node>();
  auto handle = sys.spawn<remote_client>(
    std::move(addresses), std::move(options), std::move(first), at, remote);
  return remote_gateway{caf::actor_cast<gateway>(handle), std::move(remote)};
}

} // namespace gd::actors
