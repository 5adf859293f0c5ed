#pragma once

#include "secret.hpp"

#include <gd/network/client/dial.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gd::test {

/// A gateway at that place, by a connection that stays for as long as this process.
inline result<actors::gateway>
connect(caf::actor_system& sys, const std::string& where,
        std::chrono::milliseconds timeout,
        std::chrono::milliseconds silence = std::chrono::seconds{20}) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<void>> kept;
  auto found = actors::hold(sys, where, port_secret(), timeout, silence);
  if (!found)
    return found.error();
  std::lock_guard guard{mutex};
  kept.push_back(std::move(found->connection));
  return std::move(found->handle);
}

} // namespace gd::test
