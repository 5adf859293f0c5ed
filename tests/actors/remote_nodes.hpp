#pragma once

#include "support/database.hpp"
#include "support/plain_socket.hpp"
#include "support/secret.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
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
      prctl(PR_SET_PDEATHSIG, SIGKILL); // if the test is aborted
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

/// As a client of a port does; false: the other side has hung up, or has another secret.
inline bool show_port_secret(const plain_socket& to) {
  using actors::secret_handshake;
  secret_handshake mine{*actors::shared_secret::read(port_secret()),
                        secret_handshake::role::client};
  auto said = mine.greeting();
  while (true) {
    to.write_all(said);
    said.clear();
    if (mine.is_over())
      return true;
    auto heard = to.read(mine.missing());
    std::string_view bytes{heard};
    if (bytes.size() < mine.missing() || mine.take(bytes, said))
      return false;
  }
}

/// A node of CAF in a process of its own that has found the gateway at a place.
struct remote_node : talking_process {
  remote_node() : talking_process({GD_REMOTE_NODE}) {
    // nop
  }

  explicit remote_node(const std::string& endpoint) : remote_node() {
    auto found = connect(endpoint);
    if (found != "ok")
      throw std::runtime_error(found);
  }

  std::string connect(const std::string& endpoint) {
    return ask("connect " + endpoint);
  }
};

} // namespace gd::test
