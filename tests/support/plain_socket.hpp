#pragma once

#include "support/database.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace gd::test {

/// A plain socket, which speaks no protocol.
class plain_socket {
public:
  plain_socket() = default;

  /// One that is connected.
  explicit plain_socket(int fd) : fd_(fd) {
    // nop
  }

  /// Connected to "unix:<path>" or "127.0.0.1:<port>"; see `is_open`.
  explicit plain_socket(const std::string& endpoint) {
    constexpr std::string_view by_path = "unix:";
    if (endpoint.starts_with(by_path)) {
      auto at = path_address(endpoint.substr(by_path.size()));
      open(at);
    } else {
      auto at = address(static_cast<std::uint16_t>(
        std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
      open(at);
    }
  }

  plain_socket(plain_socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {
    // nop
  }

  ~plain_socket() {
    if (fd_ >= 0)
      close(fd_);
  }

  bool is_open() const {
    return fd_ >= 0;
  }

  int fd() const {
    return fd_;
  }

  /// What the other side closes in the middle is as good as written.
  void write_all(std::string_view text) const {
    while (!text.empty()) {
      auto n = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0)
        return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  /// What comes within that time, up to so much; shorter: the other side has closed.
  std::string read(std::size_t most,
                   std::chrono::milliseconds within = patience) const {
    limit(within);
    std::string got;
    std::array<char, 65'536> some;
    while (got.size() < most) {
      auto n = recv(fd_, some.data(), std::min(some.size(), most - got.size()),
                    0);
      if (n <= 0)
        break;
      got.append(some.data(), static_cast<std::size_t>(n));
    }
    return got;
  }

  /// Waits until the other side has closed; false: not in time.
  bool wait_for_end(std::chrono::milliseconds within = patience) const {
    limit(within);
    std::array<char, 65'536> some;
    ssize_t n = 0;
    while ((n = recv(fd_, some.data(), some.size(), 0)) > 0)
      ; // nop
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }

  std::uint16_t listen_anywhere() {
    auto at = address(0);
    socklen_t size = sizeof(at);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&at), size) != 0
        || listen(fd_, 8) != 0
        || getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::runtime_error("cannot listen");
    return ntohs(at.sin_port);
  }

  /// Its file stays when it goes.
  void listen_at(const std::string& path) {
    auto at = path_address(path);
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0
        || listen(fd_, 8) != 0)
      throw std::runtime_error("cannot listen");
  }

  /// Takes a connection, writes the text, and closes it.
  void serve_once(std::string_view text) const {
    auto fd = accept(fd_, nullptr, nullptr);
    send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    std::array<char, 4'096> some;
    while (recv(fd, some.data(), some.size(), 0) > 0)
      ; // nop
    close(fd);
  }

private:
  static sockaddr_in address(std::uint16_t port) {
    sockaddr_in x{};
    x.sin_family = AF_INET;
    x.sin_port = htons(port);
    x.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return x;
  }

  static sockaddr_un path_address(const std::string& path) {
    sockaddr_un x{};
    x.sun_family = AF_UNIX;
    path.copy(x.sun_path, sizeof(x.sun_path) - 1);
    return x;
  }

  template <class Address>
  void open(const Address& at) {
    const auto* to = reinterpret_cast<const sockaddr*>(&at);
    fd_ = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd_, to, sizeof(at)) != 0) {
      close(fd_);
      fd_ = -1;
    }
  }

  void limit(std::chrono::milliseconds within) const {
    timeval x{within.count() / 1'000, within.count() % 1'000 * 1'000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &x, sizeof(x));
  }

  int fd_ = -1;
};

} // namespace gd::test
