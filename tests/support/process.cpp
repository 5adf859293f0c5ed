#include "process.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

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

} // namespace gd::test
