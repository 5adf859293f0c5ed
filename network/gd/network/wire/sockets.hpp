#pragma once

#include <gd/error.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace gd::actors {

/// A descriptor that is closed with it.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {
    // nop
  }
  descriptor(descriptor&& other) noexcept : fd_(other.release()) {
    // nop
  }
  descriptor& operator=(descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~descriptor() {
    reset();
  }

  int get() const {
    return fd_;
  }
  explicit operator bool() const {
    return fd_ >= 0;
  }
  int release() {
    return std::exchange(fd_, -1);
  }
  void reset(int fd = -1);

private:
  int fd_ = -1;
};

/// Two ends of one stream that does not leave the process.
std::pair<descriptor, descriptor> socket_pair();

/// The same under a number that nobody has had for a while, if there is one. CAF tells its
/// connections apart by their numbers, and what it has still to do when one has ended would
/// be done to the next one that has its number.
descriptor renumbered(descriptor x);

/// From this number on, the process's descriptors are left to others, such as connections to
/// the database.
int few_left_at();

/// Where a gateway is: a path, or an address of this machine's loopback interface and a
/// port.
struct endpoint {
  std::string path{};
  std::string address{};
  std::uint16_t port = 0;
};

/// "unix:/run/shop/engine.sock", "127.0.0.1:4711", "[::1]:4711" or "localhost:4711". The
/// error says what it is not.
result<endpoint> to_endpoint(const std::string& text);

/// The way back.
std::string to_string(const endpoint& x);

bool is_loopback(const std::string& address);

/// A socket that listens. A file that a dead process has left at the path is taken over;
/// what belongs to anybody else is an error. Only this user and root can connect to a path.
result<descriptor> listen_at(const endpoint& x);

/// The port that it was given.
std::uint16_t port_of(const descriptor& listener);

/// A connection; the error comes within `timeout`.
result<descriptor> dial(const endpoint& x, std::chrono::milliseconds timeout);

} // namespace gd::actors
