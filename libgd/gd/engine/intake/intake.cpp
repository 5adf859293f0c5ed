#include <gd/engine/intake/intake.hpp>

#include <algorithm>

namespace gd {

using std::chrono::milliseconds;

std::size_t intake_base::bytes_with(const json& content) {
  // Its other fields, its entry, and what answers it.
  constexpr std::size_t beside = 1'024;
  auto printed = printed_size(content.text());
  return beside + std::max(content.text().size(), printed ? *printed : 0);
}

error intake_base::with_fate(error why, bool may_be_stored) {
  if (may_be_stored)
    why.code = errc::unknown_fate;
  else if (why.code == errc::unknown_fate)
    why.code = errc::unavailable;
  return why;
}

bool intake_base::try_again(const error& why, clock::time_point now) {
  constexpr int failures_at_most = 5;
  bool again = retryable(why.code) && why.code != errc::unavailable
               && failures_ < failures_at_most;
  failures_ = again ? failures_ + 1 : 0;
  if (again)
    not_before_ = now + milliseconds{10} * (1 << failures_);
  return again;
}

} // namespace gd
