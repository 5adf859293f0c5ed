#pragma once

#include <gd/actors/messages.hpp>

#include <chrono>
#include <string>

namespace gd::actors {

/// Whether CAF's network module is there; `what` needs it.
result<void> check_network(caf::actor_system& sys, const std::string& what);

/// As `connect`, for as long as there is use for it.
result<held_gateway>
hold(caf::actor_system& sys, const std::string& where,
     std::chrono::milliseconds timeout,
     std::chrono::milliseconds silence = std::chrono::seconds{20});

} // namespace gd::actors
