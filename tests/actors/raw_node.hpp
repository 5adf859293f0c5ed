#pragma once

#include "actors/remote_nodes.hpp"
#include "support/basp.hpp"
#include "support/plain_socket.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gd::test {

/// Whoever speaks the protocol, and says what it likes.
class raw_node {
public:
  explicit raw_node(const std::string& endpoint) : socket(endpoint) {
    // nop
  }

  /// Shows the secret, at a port, says who it is, and reads who is there.
  raw_node(const std::string& endpoint, const std::string& node)
    : socket(endpoint) {
    if (!endpoint.starts_with("unix:") && !show_port_secret(socket))
      return;
    socket.write_all(
      basp::message{.what = basp::client_handshake, .payload = node}.bytes());
    auto header = socket.read(32);
    if (header.size() < 32)
      return;
    auto payload = socket.read(number_at(header, 4, 4));
    greeted = payload.size() > 32 + 1 + 16 + 8;
    if (!greeted)
      return;
    server = payload.substr(0, 32);
    // Behind the names of its applications.
    gateway = number_at(payload,
                        32 + 2 + static_cast<unsigned char>(payload[33]), 8);
  }

  static std::uint64_t number_at(const std::string& bytes, std::size_t at,
                                 std::size_t size) {
    std::uint64_t x = 0;
    for (std::size_t i = 0; i < size; ++i)
      x = x << 8 | static_cast<unsigned char>(bytes.at(at + i));
    return x;
  }

  void say(const basp::message& x) const {
    socket.write_all(x.bytes());
  }

  basp::message request(std::string_view type, std::string_view value,
                        std::uint64_t number = 1) const {
    return {.what = basp::direct,
            .data = basp::async | number,
            .source = 55,
            .receiver = gateway,
            .payload = basp::content(type, value)};
  }

  plain_socket socket;
  bool greeted = false;
  std::string server;
  std::uint64_t gateway = 0;
};

} // namespace gd::test
