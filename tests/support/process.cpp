#include "process.hpp"

#include "database.hpp"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace gd::test {

process::process(std::vector<std::string> args) : out_(std::tmpfile()) {
  std::vector<char*> argv;
  for (auto& x : args)
    argv.push_back(x.data());
  argv.push_back(nullptr);
  // What an AddressSanitizer keeps back is not the program's memory.
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  auto little = (sanitizer != nullptr ? std::string{sanitizer} + ":"
                                      : std::string{})
                + "quarantine_size_mb=8";
  pid_ = fork();
  if (pid_ == 0) {
    setenv("ASAN_OPTIONS", little.c_str(), 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // if the test is aborted
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none); // of those that abort
    dup2(fileno(out_), STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
}

process::~process() {
  if (pid_ > 0)
    end(SIGKILL);
  std::fclose(out_);
}

void process::send(int signal) const {
  if (pid_ > 0) // else it would go to everybody
    kill(pid_, signal);
}

bool process::has_ended() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_)
    pid_ = -1;
  return pid_ < 0;
}

int process::end(int signal) {
  if (pid_ <= 0)
    return -1;
  kill(pid_, signal);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::string> process::lines() const {
  // Opened again: the process writes where the other one stands.
  std::ifstream in{"/proc/self/fd/" + std::to_string(fileno(out_))};
  std::vector<std::string> xs;
  for (std::string line; std::getline(in, line);)
    xs.push_back(line);
  return xs;
}

bool process::wait_for_line(const std::string& beginning) const {
  // Told of what is written after the lines have been read, too.
  auto path = "/proc/self/fd/" + std::to_string(fileno(out_));
  auto changes = inotify_init1(IN_CLOEXEC);
  if (changes < 0 || inotify_add_watch(changes, path.c_str(), IN_MODIFY) < 0)
    throw std::system_error(errno, std::generic_category(), "inotify");
  auto is_there = [&] {
    auto all = lines();
    return std::any_of(all.begin(), all.end(), [&](const std::string& x) {
      return x.starts_with(beginning);
    });
  };
  auto until = std::chrono::steady_clock::now() + patience;
  bool found = is_there();
  while (!found && std::chrono::steady_clock::now() < until) {
    pollfd change{changes, POLLIN, 0};
    std::array<char, 4'096> events;
    if (poll(&change, 1, 1'000) > 0
        && read(changes, events.data(), events.size()) < 0)
      break;
    found = is_there();
  }
  close(changes);
  return found;
}

} // namespace gd::test
