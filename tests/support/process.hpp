#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace gd::test {

/// Another program, which ends with this object at the latest.
class process {
public:
  /// Its path and its arguments.
  explicit process(std::vector<std::string> args);
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// Nothing if it has ended.
  void send(int signal) const;

  /// It has ended by itself.
  bool has_ended();

  /// Waits until it ends, after a signal if that is none of 0, and returns the exit code;
  /// -1: killed, or ended before.
  int end(int signal);

  /// Each line that it has printed, also one that is cut off.
  std::vector<std::string> lines() const;

  /// Waits until one of them begins like that, up to `patience`.
  bool wait_for_line(const std::string& beginning) const;

  pid_t pid() const noexcept {
    return pid_;
  }

private:
  pid_t pid_ = -1;
  std::FILE* out_;
};

} // namespace gd::test
