#include <gd/retry.hpp>

#include <gd/machine.hpp>
#include <gd/pq/borrowed.hpp>

#include <chrono>
#include <thread>

namespace gd::detail {

bool is_conflict(errc code) noexcept {
  return code == errc::transition_conflict || code == errc::conflict;
}

void pause_before_retry(int tries) {
  std::this_thread::sleep_for(backoff(tries, std::chrono::milliseconds{10},
                                      std::chrono::milliseconds{500}));
}

attempt::~attempt() {
  if (open_)
    pq::borrowed{on_, {}}.roll_back();
}

result<void> attempt::begin() {
  auto ok = pq::borrowed{on_, {}}.begin();
  open_ = static_cast<bool>(ok);
  return ok;
}

result<void> attempt::commit() {
  return pq::borrowed{on_, {}}.commit();
}

} // namespace gd::detail
