#pragma once

#include "support/database.hpp"
#include "support/process.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gd::test {

/// A process of tests/movers that runs payments and has published its gateway.
class published_node : public process {
public:
  published_node(const temporary_database& db, const std::string& name)
    : process({GD_MOVERS, "steps", db.conninfo(), name, "publish"}) {
    using clock = std::chrono::steady_clock;
    for (auto until = clock::now() + patience; clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds{5}))
      for (const auto& line : lines())
        if (line.starts_with("published ") && line.size() > 10) {
          port_ = static_cast<std::uint16_t>(std::stoi(line.substr(10)));
          return;
        }
    throw std::runtime_error("the node has published nothing");
  }

  std::uint16_t port() const noexcept {
    return port_;
  }

  std::string address() const {
    return "127.0.0.1:" + std::to_string(port_);
  }

private:
  std::uint16_t port_ = 0;
};

} // namespace gd::test
