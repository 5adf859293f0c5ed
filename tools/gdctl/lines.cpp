#include "lines.hpp"

#include "common.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gdctl {

namespace {

volatile std::sig_atomic_t noted_signal = 0;

} // namespace

// -- interruptions ------------------------------------------------------------

bool ignores_hangup() noexcept {
  struct sigaction now {};
  sigaction(SIGHUP, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

interruptions::interruptions() {
  struct sigaction note {};
  note.sa_handler = [](int signal) { noted_signal = signal; };
  note.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &note, nullptr);
  sigaction(SIGTERM, &note, nullptr);
  if (!ignores_hangup())
    sigaction(SIGHUP, &note, nullptr);
}

int interruptions::noted() noexcept {
  return noted_signal;
}

void interruptions::die_of(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t these;
  sigemptyset(&these);
  sigaddset(&these, signal);
  pthread_sigmask(SIG_UNBLOCK, &these, nullptr);
  raise(signal);
  std::abort(); // not reached: the signal is not blocked
}

// -- reading ------------------------------------------------------------------

line_reader::line_reader(int fd, std::string name)
  : fd_(fd), name_(std::move(name)) {
  // nop
}

line_reader::line_reader(line_reader&& other) noexcept
  : fd_(std::exchange(other.fd_, -1)),
    name_(std::move(other.name_)),
    buffer_(std::move(other.buffer_)),
    start_(other.start_),
    scanned_(other.scanned_),
    skipping_(other.skipping_),
    ended_(other.ended_),
    number_(other.number_),
    failure_(std::move(other.failure_)) {
  // nop
}

line_reader::~line_reader() {
  if (fd_ > STDERR_FILENO)
    close(fd_);
}

gd::result<line_reader> line_reader::open(const std::string& path) {
  if (path == "-")
    return line_reader{STDIN_FILENO, "stdin"};
  auto fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return system_error(path, errno);
  return line_reader{fd, path};
}

std::vector<line_reader::line> line_reader::next_batch(std::size_t rows,
                                                       std::size_t bytes) {
  std::vector<line> batch;
  std::size_t size = 0;
  for (;;) {
    while (batch.size() < rows && size < bytes) {
      auto next = take_line();
      if (!next)
        break;
      size += next->text.size();
      if (next->too_long
          || next->text.find_first_not_of(" \t\r") != std::string::npos)
        batch.push_back(std::move(*next));
    }
    if (batch.size() == rows || size >= bytes || ended_
        || (!batch.empty() && !readable(false)))
      return batch;
    if (!readable(true))
      return {};
    fill();
  }
}

std::optional<line_reader::line> line_reader::take_line() {
  auto end = buffer_.find('\n', scanned_);
  if (end == std::string::npos && !ended_) {
    if (buffer_.size() - start_ > longest_line) {
      skipping_ = true;
      start_ = buffer_.size();
    }
    scanned_ = buffer_.size();
    return std::nullopt;
  }
  end = std::min(end, buffer_.size());
  if (ended_ && end == buffer_.size() && start_ == end && !skipping_)
    return std::nullopt;
  line next{++number_, {}, skipping_ || end - start_ > longest_line};
  if (!next.too_long)
    next.text = buffer_.substr(start_, end - start_);
  if (next.number == 1)
    drop_mark(next.text);
  if (next.number == 1
      && (next.text.starts_with("\xff\xfe")
          || next.text.starts_with("\xfe\xff"))) {
    failure_ = bad_usage(name_ + ": expected UTF-8, got UTF-16");
    ended_ = true;
    start_ = scanned_ = buffer_.size();
    return std::nullopt;
  }
  skipping_ = false;
  start_ = scanned_ = std::min(end + 1, buffer_.size());
  return next;
}

bool line_reader::readable(bool wait) const {
  // Between a look at the flag and the wait a signal would be missed.
  sigset_t these;
  sigset_t before;
  sigemptyset(&these);
  for (auto number : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&these, number);
  sigprocmask(SIG_BLOCK, &these, &before);
  pollfd input{fd_, POLLIN, 0};
  timespec at_once{};
  int n = 0;
  while (!interruptions::noted()) {
    n = ppoll(&input, 1, wait ? nullptr : &at_once, &before);
    if (n >= 0 || errno != EINTR)
      break;
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return n > 0;
}

void line_reader::fill() {
  constexpr std::size_t chunk = 256 << 10;
  buffer_.erase(0, start_);
  scanned_ -= start_;
  start_ = 0;
  auto size = buffer_.size();
  buffer_.resize(size + chunk);
  ssize_t n = 0;
  do
    n = read(fd_, buffer_.data() + size, chunk);
  while (n < 0 && errno == EINTR);
  if (n < 0)
    failure_ = system_error(name_, errno);
  ended_ = n <= 0;
  buffer_.resize(size + static_cast<std::size_t>(std::max(n, ssize_t{0})));
}

// -- writing ------------------------------------------------------------------

void occupy_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) == -1)
      open("/dev/null", O_RDONLY); // gets the lowest number that is free
  signal(SIGPIPE, SIG_IGN);
}

int write_out(std::string_view text) {
  pollfd room{STDOUT_FILENO, POLLOUT, 0};
  while (!text.empty()) {
    auto n = write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN) // who shares it has made it so
      poll(&room, 1, -1);
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

void drop_mark(std::string& text) {
  if (text.starts_with(byte_order_mark))
    text.erase(0, byte_order_mark.size());
}

gd::error system_error(std::string_view name, int number) {
  return {gd::errc::invalid_argument,
          fmt::format("{}: {}", name, std::strerror(number)),
          {}};
}

} // namespace gdctl
