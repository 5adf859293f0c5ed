#pragma once

#include "support/database.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Other processes, and sockets that say anything, for tests of the published gateway.
namespace gd::test {

/// Another process, spoken to by lines.
class talking_process {
public:
  explicit talking_process(std::vector<std::string> args) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    // Not inherited by processes that are started later: they would keep a dead
    // one's pipes open.
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    std::vector<char*> argv;
    for (auto& arg : args)
      argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execv(argv.front(), argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }

  ~talking_process() {
    close(to_);
    if (pid_ > 0)
      end(SIGKILL);
    close(from_);
  }

  talking_process(const talking_process&) = delete;
  talking_process& operator=(const talking_process&) = delete;

  void tell(const std::string& line) {
    auto text = line + '\n';
    for (std::size_t at = 0; at < text.size();) {
      auto n = write(to_, text.data() + at, text.size() - at);
      if (n <= 0)
        throw std::runtime_error("the process does not read");
      at += static_cast<std::size_t>(n);
    }
  }

  /// The next line that it prints.
  std::string hear() {
    while (true) {
      if (auto end = heard_.find('\n'); end != std::string::npos) {
        auto line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return line;
      }
      pollfd ready{from_, POLLIN, 0};
      std::array<char, 65'536> some;
      if (poll(&ready, 1,
               static_cast<int>(std::chrono::milliseconds{patience}.count()))
          < 1)
        return "(nothing in time)";
      auto n = read(from_, some.data(), some.size());
      if (n <= 0)
        return "(the end)";
      heard_.append(some.data(), static_cast<std::size_t>(n));
    }
  }

  std::string ask(const std::string& line) {
    tell(line);
    return hear();
  }

  pid_t id() const {
    return pid_;
  }

  void signal(int number) const {
    kill(pid_, number);
  }

  /// Sends a signal, waits for the end, and returns the exit code; -1: killed.
  int end(int number) {
    kill(pid_, number);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string heard_;
};

/// A folder for sockets, which goes with it.
class socket_folder {
public:
  socket_folder() {
    std::string name = "/tmp/gd-sockets-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no folder for sockets");
    path_ = name;
  }

  ~socket_folder() {
    std::filesystem::remove_all(path_);
  }

  socket_folder(const socket_folder&) = delete;
  socket_folder& operator=(const socket_folder&) = delete;

  const std::string& path() const {
    return path_;
  }

  /// A path where nothing is.
  std::string next() {
    return path_ + "/" + std::to_string(++made_);
  }

private:
  std::string path_;
  int made_ = 0;
};

/// A plain socket, which speaks no protocol.
class plain_socket {
public:
  plain_socket() = default;

  /// Connected to "unix:<path>" or "127.0.0.1:<port>"; see `is_open`.
  explicit plain_socket(const std::string& place) {
    constexpr std::string_view by_path = "unix:";
    if (place.starts_with(by_path)) {
      auto at = path_address(place.substr(by_path.size()));
      open(at);
    } else {
      auto at = address(static_cast<std::uint16_t>(
        std::stoi(place.substr(place.rfind(':') + 1))));
      open(at);
    }
  }

  plain_socket(plain_socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {
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
  std::string path_;
};

/// A node of CAF in a process of its own that has found the gateway at a place.
struct peer : talking_process {
  peer() : talking_process({GD_REMOTE_PEER}) {
    // nop
  }

  explicit peer(const std::string& place) : peer() {
    auto found = connect(place);
    if (found != "ok")
      throw std::runtime_error(found);
  }

  std::string connect(const std::string& place) {
    return ask("connect " + place);
  }
};

} // namespace gd::test
