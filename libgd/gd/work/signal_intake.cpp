#include <gd/work/signal_intake.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace gd {

namespace {

/// How long a signal that is tried alone waits for its target.
constexpr std::chrono::milliseconds alone_wait{50};

error target_locked(std::int64_t target) {
  return {errc::busy,
          fmt::format("target {}: another transaction holds the row", target),
          {}};
}

} // namespace

signal_intake::signal_intake(intake_settings how)
  : intake_base(how.most_bytes),
    how_(std::move(how)),
    waiting_(how_.rows, how_.bytes) {
  // nop
}

result<void> signal_intake::add(std::uint64_t ticket, signal what) {
  if (auto ok = room_for(what.payload.text().size()); !ok)
    return ok;
  if (auto ok = gd::check(what, how_.limits); !ok)
    return ok;
  auto size = bytes_with(what.payload)
              + (what.dedup_key ? what.dedup_key->size() : 0);
  if (auto ok = room_for(size); !ok)
    return ok;
  waiting_.push({ticket, std::move(what), size, ++numbers_});
  waiting_bytes_ += size;
  return {};
}

std::optional<pq::unit> signal_intake::begin(clock::time_point now) {
  if (under_way_ || now < not_before_ || !waiting_.has_due(now))
    return std::nullopt;
  group_ = waiting_.take(now);
  pq::unit work;
  store::row_refs<signal> signals;
  for (const auto& x : group_.entries)
    signals.add(x.what);
  if (group_.alone) {
    work.calls.push_back(store::lock_timeout(alone_wait));
    work.calls.push_back(store::lock({group_.entries.front().what.target}));
  }
  work.calls.push_back(store::lock_targets(signals));
  work.calls.push_back(store::send_signals(signals, how_.limits.inbox));
  under_way_ = true;
  return work;
}

signal_intake::report
signal_intake::finish(pq::reply reply, clock::time_point now, bool withdrawn) {
  report out;
  under_way_ = false;
  waiting_.ended(group_, now);
  auto group = std::exchange(group_.entries, {});
  if (!reply.ok()) {
    fail(out, std::move(group), *reply.failure, now, withdrawn);
    return out;
  }
  failures_ = 0;
  auto rows = store::read<store::signal_row>(reply.results.back());
  rows.resize(group.size(), {store::signal_answer::unknown});
  std::set<std::string> queues;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (rows[i].answer == store::signal_answer::accepted)
      for (auto* queue : {&rows[i].woken_queue, &rows[i].runnable_queue})
        if (!queue->empty())
          queues.insert(std::move(*queue));
    read(out, group[i], rows[i].answer, now);
  }
  out.queues.assign(queues.begin(), queues.end());
  return out;
}

void signal_intake::fail(report& to, std::vector<entry> group, const error& why,
                         clock::time_point now, bool withdrawn) {
  if (why.code == errc::rejected) {
    if (auto guilty = waiting_.split(std::move(group)))
      answer(to, *guilty, why);
  } else if (why.code == errc::busy && how_.patient) {
    // A row tried alone, or a dedup key that a stranger is inserting by hand:
    // alone from now on.
    if (auto held = waiting_.split(std::move(group))) {
      held->locked_tries = std::max(held->locked_tries,
                                    batcher<entry>::tries_before_alone);
      retry_locked(to, std::move(*held), now);
    }
  } else {
    for (auto& x : group)
      x.resent = x.resent || why.code == errc::unknown_fate;
    if (withdrawn || (how_.patient && try_again(why, now)))
      return waiting_.retry(std::move(group));
    for (const auto& x : group)
      answer(to, x, with_fate(why, x.resent));
  }
}

void signal_intake::read(report& to, entry& x, store::signal_answer said,
                         clock::time_point now) {
  auto refuse = [&](errc code, std::string text) {
    answer(to, x, error{code, std::move(text), {}});
  };
  switch (said) {
    case store::signal_answer::accepted:
      return answer(to, x, signalled{false});
    case store::signal_answer::duplicate:
      // Sent again, it may well be its own duplicate.
      return answer(to, x, signalled{!x.resent});
    case store::signal_answer::no_such_target:
      return refuse(
        errc::no_such_target,
        fmt::format("target: there is no instance {}", x.what.target));
    case store::signal_answer::target_finished:
      return refuse(
        errc::target_finished,
        fmt::format("target: instance {} is finished", x.what.target));
    case store::signal_answer::inbox_full:
      return refuse(
        errc::inbox_full,
        fmt::format("target: the inbox of instance {} is full: {} signals",
                    x.what.target, how_.limits.inbox));
    case store::signal_answer::locked:
      return retry_locked(to, std::move(x), now);
    case store::signal_answer::unknown:
      return refuse(errc::unknown_fate,
                    fmt::format("target {}: the database gives no answer that "
                                "is known here",
                                x.what.target));
  }
}

void signal_intake::retry_locked(report& to, entry x, clock::time_point now) {
  if (how_.patient && x.locked_tries < locked_tries_at_most)
    return waiting_.put_locked(std::move(x), now);
  answer(to, x, with_fate(target_locked(x.what.target), x.resent));
}

std::vector<answered_request<signalled>>
signal_intake::give_up(std::uint64_t last, error why) {
  report out;
  auto late = [last](const auto& x) { return x.ticket <= last; };
  for (const auto& x : waiting_.remove_if(late))
    answer(out, x,
           with_fate(x.locked_tries > 0 ? target_locked(x.what.target) : why,
                     x.resent));
  return std::move(out.answers);
}

std::uint64_t signal_intake::oldest_sent() const {
  auto oldest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& x : group_.entries)
    oldest = std::min(oldest, x.ticket);
  return oldest;
}

signal_intake::clock::time_point
signal_intake::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  auto when = waiting_.has_due(now) ? now : waiting_.due();
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

} // namespace gd
