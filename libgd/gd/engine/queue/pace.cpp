#include <gd/engine/queue/pace.hpp>

#include <limits>

namespace gd {

namespace {

/// How many times as many rows are prefetched as steps end in a transaction:
/// the next ones may be quicker, and the transaction slower.
constexpr std::int32_t margin = 4;
/// How many times as many steps would have ended as have, had there been more, is
/// believed up to this: few tell little of those that follow.
constexpr double most_trusted = 4;
/// Within which part of the lease what is ahead is to begin.
constexpr int part_of_lease = 4;
/// The bounds of how long steps have to run to tell how many begin.
constexpr std::chrono::milliseconds shortest_window{100};
constexpr std::chrono::milliseconds longest_window{1'000};
/// A window has so many samples, or a few more.
constexpr int parts = 8;

} // namespace

pace::settings pace::for_lease(duration lease) {
  return {
    .window = std::clamp<duration>(lease / 16, shortest_window, longest_window),
    .in_time = lease / part_of_lease};
}

void pace::note(duration in_use) {
  now_ = {in_use, ends_};
  if (seen_.empty() || in_use - seen_.back().in_use >= how_.window / parts) {
    // While nothing ends, the first sample and the last say it all.
    if (auto n = seen_.size();
        n > 1 && seen_[n - 1].ends == ends_ && seen_[n - 2].ends == ends_)
      seen_.pop_back();
    seen_.push_back(now_);
  }
  // One that is older than the window stays: it is where that begins. If nothing
  // has ended since, the window is as long as that has lasted.
  while (seen_.size() > 1 && in_use - seen_[1].in_use >= how_.window
         && seen_.front().ends != ends_)
    seen_.pop_front();
}

void pace::finished(std::size_t transaction, time_point now, duration in_use) {
  const auto& [at, before] = begins_[transaction];
  // Since the end before, for as long as there was something to run: quick steps
  // have all ended before the transaction begins, and then nothing is left that
  // could end while it takes.
  last_took_ = now - at;
  speed_ = speed_in(last_took_, in_use, before);
  last_finish_ = {in_use, ends_};
}

std::int32_t pace::speed_in(duration took, duration in_use,
                            const sample& before) const {
  using seconds = std::chrono::duration<double>;
  seconds in = in_use - before.in_use;
  auto times = took < most_trusted * in ? seconds{took} / in : most_trusted;
  auto speed = times * static_cast<double>(ends_ - before.ends);
  return static_cast<std::int32_t>(
    std::min(speed, static_cast<double>(how_.prefetch)));
}

std::int64_t pace::most_within(duration time) const {
  constexpr auto any = std::numeric_limits<std::int32_t>::max();
  auto past = seen_.empty() ? duration{0} : now_.in_use - seen_.front().in_use;
  if (past < how_.window)
    return any;
  auto count = static_cast<double>(now_.ends - seen_.front().ends + 1);
  auto most = count * static_cast<double>(time.count())
              / static_cast<double>(past.count());
  return static_cast<std::int64_t>(std::min(most, double{any}));
}

std::int32_t pace::wanted(const load& now) const {
  auto room_for = how_.slots - now.running
                  + std::min<std::int64_t>(
                    std::min(how_.prefetch, margin * speed_),
                    most_within(how_.in_time));
  // A free slot is no use to a step that waits for a thread.
  if (at_once_ < how_.slots && most_waiting() < room_for)
    room_for = std::min(room_for, most_waiting()
                                    - static_cast<std::int64_t>(now.waiting));
  auto want = static_cast<std::int32_t>(room_for - now.coming);
  if (bytes_per_row_ == 0 || want <= 0)
    return want;
  auto left = room(now);
  return left <= 0 ? 0
                   : static_cast<std::int32_t>(std::min<std::int64_t>(
                     want, std::max<std::int64_t>(left / bytes_per_row_, 1)));
}

std::int64_t pace::room(const load& now) const {
  auto left = std::max(how_.share - now.bytes,
                       how_.bytes - now.bytes - now.of_others);
  // A slot that is free is filled, whatever the rows that run hold.
  return std::min(std::max<std::int64_t>(left, now.slot_to_fill ? 1 : 0),
                  how_.bytes_at_once);
}

} // namespace gd
