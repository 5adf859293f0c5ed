#include "bulk.hpp"

#include <gd/instance.hpp>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

namespace gdctl {

progress::progress(bool wanted)
  : terminal_(isatty(STDERR_FILENO) == 1), silent_(!terminal_ && !wanted) {
  // nop
}

progress::~progress() {
  show(true);
}

void progress::count(bool was_refused) {
  ++(was_refused ? refused_ : accepted_);
}

void progress::show(bool last) {
  using namespace std::chrono_literals;
  auto now = clock::now();
  if (silent_ || (!last && now - shown_ < (terminal_ ? 200ms : 1s)))
    return;
  shown_ = now;
  auto seconds = std::max(std::chrono::duration<double>{now - started_}.count(),
                          1e-3);
  complain(fmt::format("{}{} accepted, {} refused, {:.0f} rows/s{}",
                       terminal_ ? "\r\033[K" : "", accepted_, refused_,
                       static_cast<double>(accepted_ + refused_) / seconds,
                       terminal_ && !last ? "" : "\n"));
  std::fflush(stderr);
  silent_ = silent_ || last;
}

int finish_bulk(const bulk_end& end, progress& shown) {
  shown.show(true);
  auto signal = end.broken_pipe ? SIGPIPE : interruptions::noted();
  if (end.failure || signal != 0)
    complain(fmt::format("gdctl: {}; stopped after line {}\n",
                         end.failure ? gd::printable(end.failure->message)
                                     : "interrupted",
                         end.last_line));
  if (signal != 0)
    interruptions::die_of(signal);
  if (end.failure)
    return exit_code_of(end.failure->code);
  return shown.refused() == 0 ? ok : refused;
}

} // namespace gdctl
