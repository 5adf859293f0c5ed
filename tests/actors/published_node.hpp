#pragma once

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/secret.hpp"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gd::test {

/// A process that runs an engine and has published its gateway at a port; by default one of
/// tests/movers, which runs payments.
class published_node : public process {
public:
  published_node(const temporary_database& db, const std::string& name,
                 std::chrono::seconds gateways_patience
                 = std::chrono::seconds{1})
    : published_node({GD_MOVERS, "steps", db.conninfo(), name,
                      std::to_string(gateways_patience.count())}) {
    // nop
  }

  explicit published_node(std::vector<std::string> args)
    : process(with_secret(std::move(args))) {
    using clock = std::chrono::steady_clock;
    for (auto until = clock::now() + patience; clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds{5}))
      for (const auto& line : lines())
        if (auto colon = line.rfind(':');
            line.starts_with("published at ") && colon + 1 < line.size()) {
          port_ = static_cast<std::uint16_t>(std::stoi(line.substr(colon + 1)));
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
  /// It finds the secret as others do that this process starts.
  static std::vector<std::string> with_secret(std::vector<std::string> args) {
    port_secret();
    return args;
  }

  std::uint16_t port_ = 0;
};

} // namespace gd::test
