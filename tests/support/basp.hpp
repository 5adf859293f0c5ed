#pragma once

#include "support/database.hpp"

#include <caf/atom.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// What CAF 0.17 says to other nodes, byte by byte, for tests that say something else.
namespace gd::test::basp {

template <class T>
std::string number(T x) {
  std::string bytes;
  for (std::size_t i = sizeof(T); i-- > 0;)
    bytes += static_cast<char>(static_cast<std::uint64_t>(x) >> (8 * i));
  return bytes;
}

/// A length, as CAF packs it.
inline std::string length(std::uint32_t x) {
  std::string bytes;
  for (; x > 0x7F; x >>= 7)
    bytes += static_cast<char>(0x80 | (x & 0x7F));
  return bytes += static_cast<char>(x);
}

inline std::string text(std::string_view x) {
  return length(static_cast<std::uint32_t>(x.size())).append(x);
}

/// A node id of the common form.
inline std::string node(std::uint32_t process, char host = 'h') {
  return number(static_cast<std::uint64_t>(caf::atom("default")))
         + number(process) + std::string(20, host);
}

enum what : std::uint8_t {
  server_handshake,
  client_handshake,
  direct,
  routed,
  monitor,
  down,
  heartbeat,
};

constexpr std::uint64_t async = std::uint64_t{1} << 60;
constexpr std::uint64_t response = std::uint64_t{1} << 63;

struct message {
  std::uint8_t what = heartbeat;
  std::uint8_t flags = 0;
  std::uint64_t data = 0;
  std::uint64_t source = 0;
  std::uint64_t receiver = 0;
  std::string payload{};
  /// What the header says of it, if that is not true.
  std::optional<std::uint32_t> size{};
  std::uint16_t padding = 0;

  std::string bytes() const {
    auto n = size.value_or(static_cast<std::uint32_t>(payload.size()));
    return number(what) + number(padding) + number(flags) + number(n)
           + number(data) + number(source) + number(receiver) + payload;
  }
};

/// The content of a message of one type: no stages, its name, its value.
inline std::string content(std::string_view type, std::string_view value) {
  return std::string(3, '\0') + text("@<>+" + std::string{type})
         + std::string{value};
}

} // namespace gd::test::basp
