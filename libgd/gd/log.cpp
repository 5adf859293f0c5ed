#include <gd/log.hpp>

#include <gd/event.hpp>
#include <gd/instance.hpp>
#include <gd/pq/ensure.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gd {

namespace {

using namespace std::chrono_literals;

/// So much waits for whoever reads stderr; what comes then is only counted.
constexpr std::size_t most_bytes = 1 << 20;
/// So long the end of a process, or of a sink, waits for that.
constexpr auto patience = 1s;

std::string log_line(severity level, std::string_view text) {
  auto now = std::chrono::floor<std::chrono::milliseconds>(
    std::chrono::system_clock::now());
  return fmt::format("{:%FT%T}Z {} gen_durable: {}\n", now, to_string(level),
                     text);
}

/// Writes what many threads say, from one that may have to wait for a reader.
/// O_NONBLOCK would be no way: it is of the file, which other processes share.
class stderr_writer {
public:
  /// Never destroyed: its thread may be waiting when the process ends.
  static stderr_writer& of_process() {
    static auto* writer = new stderr_writer;
    return *writer;
  }

  void tell(std::string text) {
    std::lock_guard guard{mutex_};
    if (!begun_)
      begin();
    if (bytes_ + text.size() > most_bytes) {
      ++left_out_;
      return;
    }
    bytes_ += text.size();
    waiting_.push_back(std::move(text));
    changed_.notify_one();
  }

  /// Waits until everything is written, or was tried to be.
  void flush() {
    std::unique_lock guard{mutex_};
    if (begun_)
      written_.wait_for(guard, patience,
                        [this] { return waiting_.empty() && !writing_; });
  }

private:
  stderr_writer() {
    // A program may have been started without a stderr. The next socket would get
    // its number, and the log.
    if (fcntl(STDERR_FILENO, F_GETFD) == -1 && errno == EBADF) {
      auto nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
      auto next = fcntl(nowhere, F_DUPFD_CLOEXEC, STDERR_FILENO);
      for (auto fd : {nowhere, next})
        if (fd >= 0 && fd != STDERR_FILENO)
          close(fd);
    }
    std::atexit([] { of_process().flush(); });
  }

  /// The thread takes no signal: SIGPIPE would end the process, and others are
  /// the program's.
  void begin() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread{[this] { run(); }}.detach();
      begun_ = true;
    } catch (const std::system_error&) {
      // There is no thread to be had: tried again with the next line.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::unique_lock guard{mutex_};
    for (;;) {
      changed_.wait(guard, [this] { return !waiting_.empty(); });
      auto batch = std::exchange(waiting_, {});
      auto left_out = std::exchange(left_out_, 0);
      bytes_ = 0;
      writing_ = true;
      guard.unlock();
      for (const auto& text : batch)
        write_or_count(text);
      if (left_out > 0) {
        missing_ += left_out;
        why_ = "nobody has read them in time";
        tell_missing();
      }
      guard.lock();
      writing_ = false;
      written_.notify_all();
    }
  }

  void write_or_count(std::string_view text) {
    if (!tell_missing() || !write_all(text))
      ++missing_;
  }

  /// Says what is missing, and returns whether nothing more is to be said.
  bool tell_missing() {
    if (missing_ > 0
        && write_all(
          log_line(severity::warning,
                   fmt::format("{} lines of this log could not be written: {}",
                               missing_, why_))))
      missing_ = 0;
    return missing_ == 0;
  }

  bool write_all(std::string_view text) {
    // What was cut off does not run into the next line.
    if (cut_off_ && (!write_some("\n")))
      return false;
    cut_off_ = false;
    auto size = text.size();
    while (!text.empty()) {
      auto n = write_some(text);
      if (n == 0) {
        cut_off_ = text.size() < size;
        return false;
      }
      text.remove_prefix(n);
    }
    return true;
  }

  /// How many bytes it has written; 0: they cannot be.
  std::size_t write_some(std::string_view text) {
    for (;;) {
      auto n = write(STDERR_FILENO, text.data(), text.size());
      if (n > 0)
        return static_cast<std::size_t>(n);
      if (n < 0 && errno == EAGAIN) { // who shares it has made it so
        pollfd ready{STDERR_FILENO, POLLOUT, 0};
        poll(&ready, 1, -1);
      } else if (n == 0 || errno != EINTR) {
        why_ = std::strerror(n == 0 ? ENOSPC : errno);
        return 0;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable written_;
  std::vector<std::string> waiting_;
  std::size_t bytes_ = 0;
  /// There was no room for so many.
  std::size_t left_out_ = 0;
  bool begun_ = false;
  bool writing_ = false;
  // The thread's own.
  std::size_t missing_ = 0;
  std::string why_;
  bool cut_off_ = false;
};

/// What a sink has told is written before it is gone.
struct flushed {
  flushed() = default;
  flushed(const flushed&) = delete;
  flushed& operator=(const flushed&) = delete;

  ~flushed() {
    stderr_writer::of_process().flush();
  }
};

} // namespace

void write_to_stderr(std::string lines) {
  stderr_writer::of_process().tell(std::move(lines));
}

event_sink log_to_stderr(severity least) {
  stderr_writer::of_process();
  auto write = [end = std::make_shared<flushed>()](const event& what) {
    write_to_stderr(log_line(level_of(what), printable(describe(what))));
  };
  return [least, tell = aggregated(write)](const event& what) {
    if (level_of(what) >= least)
      tell(what);
  };
}

void end_of_broken_promise(const char* what, const char* file, int line) {
  write_to_stderr(
    fmt::format("gen_durable: broken promise: {} ({}:{})\n", what, file, line));
  stderr_writer::of_process().flush();
  std::abort();
}

} // namespace gd
