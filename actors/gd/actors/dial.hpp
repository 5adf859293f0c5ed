#pragma once

#include <gd/actors/messages.hpp>

#include <gd/error.hpp>

#include <chrono>
#include <string>

namespace gd::actors {

/// Whether a gateway may have such an address: "host:port". The error: `invalid_argument`.
result<void> check_gateway_address(const std::string& address);

/// The gateway there; `connect`, with the address as one text. Blocks.
result<gateway> dial(caf::actor_system& sys, const std::string& address,
                     std::chrono::milliseconds timeout);

} // namespace gd::actors
