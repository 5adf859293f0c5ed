#pragma once

#include <gd/actors/messages.hpp>

#include <chrono>
#include <string>

namespace gd::actors {

/// As `connect`, for as long as there is use for it.
result<held_gateway>
hold(caf::actor_system& sys, const std::string& where,
     std::chrono::milliseconds timeout,
     std::chrono::milliseconds silence = std::chrono::seconds{20});

} // namespace gd::actors
