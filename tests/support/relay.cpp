#include "relay.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>

namespace gd::test {

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in x{};
  x.sin_family = AF_INET;
  x.sin_port = htons(port);
  x.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return x;
}

} // namespace

relay::relay()
  : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
    wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  auto at = loopback(0);
  socklen_t size = sizeof(at);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0
      || listen(listener_, 64) != 0
      || getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    throw std::runtime_error("cannot listen");
  port_ = ntohs(at.sin_port);
  thread_ = std::thread{[this] { run(); }};
}

relay::~relay() {
  {
    std::lock_guard guard{mutex_};
    ending_ = true;
  }
  wake();
  thread_.join();
  cut();
  close(listener_);
  close(wake_);
}

void relay::wake() const {
  std::uint64_t one = 1;
  [[maybe_unused]] auto n = write(wake_, &one, sizeof(one));
}

void relay::lead_to(std::uint16_t port) {
  std::lock_guard guard{mutex_};
  target_ = port;
}

void relay::hold_requests(bool held) {
  std::lock_guard guard{mutex_};
  requests_held_ = held;
  wake();
}

void relay::hold_answers(bool held) {
  std::lock_guard guard{mutex_};
  answers_held_ = held;
  wake();
}

bool relay::wait_until_held() {
  using clock = std::chrono::steady_clock;
  auto until = clock::now() + std::chrono::seconds{60};
  while (clock::now() < until) {
    std::vector<pollfd> held;
    {
      std::lock_guard guard{mutex_};
      for (const auto& x : pairs_) {
        if (requests_held_)
          held.push_back({x.client.fd, POLLIN, 0});
        if (answers_held_)
          held.push_back({x.server.fd, POLLIN, 0});
      }
    }
    // Not for long: there may be others by then.
    if (poll(held.data(), held.size(), 2) < 1)
      continue;
    for (const auto& x : held) {
      int n = 0; // an end is readable, too
      if (x.revents != 0 && ioctl(x.fd, FIONREAD, &n) == 0 && n > 0)
        return true;
    }
  }
  return false;
}

void relay::cut() {
  std::lock_guard guard{mutex_};
  for (auto& x : pairs_) {
    close(x.client.fd);
    close(x.server.fd);
  }
  pairs_.clear();
  wake();
}

void relay::accept_one() {
  auto client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0)
    return;
  auto server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto to = loopback(target_);
  if (target_ == 0
      || connect(server, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    close(server);
    close(client);
    return;
  }
  pairs_.push_back({{client, {}}, {server, {}}});
}

/// False: one of them has closed.
bool relay::move(side& from, side& to, bool held) {
  if (!held && to.out.size() < 1 << 20) {
    std::array<char, 65'536> some;
    auto n = recv(from.fd, some.data(), some.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (n > 0)
      to.out.append(some.data(), static_cast<std::size_t>(n));
  }
  if (!to.out.empty()) {
    auto n = send(to.fd, to.out.data(), to.out.size(),
                  MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    if (n > 0)
      to.out.erase(0, static_cast<std::size_t>(n));
  }
  return true;
}

void relay::run() {
  while (true) {
    std::vector<pollfd> ready{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    {
      std::lock_guard guard{mutex_};
      if (ending_)
        return;
      for (const auto& x : pairs_) {
        auto events = [](bool held, const side& of) {
          return static_cast<short>((held ? 0 : POLLIN)
                                    | (of.out.empty() ? 0 : POLLOUT));
        };
        ready.push_back({x.client.fd, events(requests_held_, x.client), 0});
        ready.push_back({x.server.fd, events(answers_held_, x.server), 0});
      }
    }
    poll(ready.data(), ready.size(), -1);
    std::lock_guard guard{mutex_};
    std::uint64_t n = 0;
    [[maybe_unused]] auto woken = read(wake_, &n, sizeof(n));
    if ((ready.front().revents & POLLIN) != 0)
      accept_one();
    for (auto x = pairs_.begin(); x != pairs_.end();) {
      if (move(x->client, x->server, requests_held_)
          && move(x->server, x->client, answers_held_)) {
        ++x;
        continue;
      }
      close(x->client.fd);
      close(x->server.fd);
      x = pairs_.erase(x);
    }
  }
}

} // namespace gd::test
