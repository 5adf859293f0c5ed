#include <gd/engine/intake/target_intake.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace gd {

namespace {

/// How long a request that may wait for a stranger does.
constexpr std::chrono::milliseconds stranger_wait{50};

template <class Request>
std::string target_of(const Request& x) {
  return address_text(x.target, x.key);
}

template <class Request>
error no_answer(const Request& x) {
  return {errc::unknown_fate,
          fmt::format("target {}: the database gives no answer that is known "
                      "here",
                      target_of(x)),
          {}};
}

template <class Request>
bool any_named(const store::row_refs<Request>& xs) {
  for (const auto& x : xs)
    if (x.key)
      return true;
  return false;
}

std::size_t text_bytes(const std::optional<std::string>& x) {
  return x ? x->size() : 0;
}

} // namespace

// -- what both kinds have in common -------------------------------------------

template <class Kind>
target_intake<Kind>::target_intake(intake_settings how)
  : how_(std::move(how)), waiting_(how_.rows, how_.bytes) {
  // nop
}

template <class Kind>
result<void> target_intake<Kind>::add(std::uint64_t ticket, request what) {
  if (auto ok = gd::check(what, how_.limits); !ok)
    return ok;
  auto size = Kind::bytes(what);
  waiting_.push({ticket, std::move(what), size, ++numbers_});
  return {};
}

template <class Kind>
std::optional<pq::unit> target_intake<Kind>::begin(clock::time_point now) {
  if (under_way_ || now < not_before_ || !waiting_.has_due(now))
    return std::nullopt;
  group_ = waiting_.take(now);
  pq::unit work;
  store::row_refs<request> xs;
  for (const auto& x : group_.entries)
    xs.add(x.what);
  bool waits = group_.alone || group_.unsure();
  if (waits)
    work.calls.push_back(store::lock_timeout(stranger_wait));
  if (std::any_of(group_.entries.begin(), group_.entries.end(),
                  [](const auto& x) { return x.met_another; }))
    work.calls.push_back(store::check_ids(Kind::ids_of));
  Kind::add_calls(work, xs, how_.limits, waits);
  under_way_ = true;
  return work;
}

template <class Kind>
typename target_intake<Kind>::report
target_intake<Kind>::finish(pq::reply reply, clock::time_point now,
                            bool withdrawn) {
  report out;
  under_way_ = false;
  waiting_.ended(group_, now);
  auto group = std::exchange(group_.entries, {});
  if (!reply.ok()) {
    fail(out, std::move(group), *reply.failure, now, withdrawn);
    return out;
  }
  failures_ = 0;
  auto rows = store::read<reply_row>(reply.results.back());
  reply_row missing;
  missing.answer = {}; // unknown
  rows.resize(group.size(), missing);
  std::set<std::string> queues;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& x = group[i];
    out.drawn += Kind::drawn(rows[i]);
    Kind::note_queues(queues, rows[i]);
    if (Kind::is_unsure(rows[i])) {
      x.may_wait = true; // from now on apart from those that do not
      waiting_.push(std::move(x));
    } else if (auto said = Kind::read(x.what, rows[i], how_.limits, x.resent)) {
      answer(out, x, std::move(*said));
    } else {
      retry_locked(out, std::move(x), now);
    }
  }
  out.queues.assign(queues.begin(), queues.end());
  return out;
}

template <class Kind>
void target_intake<Kind>::fail(report& to, std::vector<entry> group,
                               const error& why, clock::time_point now,
                               bool withdrawn) {
  if (!Kind::ids_of.empty() && why.sqlstate == "23505"
      && !group.front().met_another) {
    for (auto& x : group)
      x.met_another = true;
    waiting_.retry(std::move(group));
  } else if (why.code == errc::rejected) {
    if (auto guilty = waiting_.split(std::move(group)))
      answer(to, *guilty, why);
  } else if (why.code == errc::busy
             && (how_.patient || group.front().unsure())) {
    // A row tried alone, or a key that a stranger is inserting: alone from now on.
    if (auto held = waiting_.split(std::move(group))) {
      held->locked_tries = std::max(held->locked_tries,
                                    batcher<entry>::tries_before_alone);
      retry_locked(to, std::move(*held), now);
    }
  } else {
    bool unknown = why.code == errc::unknown_fate;
    for (auto& x : group)
      x.resent = x.resent || unknown;
    bool again = how_.patient && (Kind::resends || !unknown)
                 && try_again(why, now);
    if (withdrawn || again)
      return waiting_.retry(std::move(group));
    for (const auto& x : group)
      answer(to, x, with_fate(why, x.resent));
  }
}

template <class Kind>
void target_intake<Kind>::retry_locked(report& to, entry x,
                                       clock::time_point now) {
  if (how_.patient && x.locked_tries < locked_tries_at_most)
    return waiting_.put_locked(std::move(x), now);
  answer(to, x, with_fate(target_locked(x), x.resent));
}

template <class Kind>
error target_intake<Kind>::target_locked(const entry& x) {
  return {errc::busy,
          fmt::format("target {}: another transaction holds the row{}",
                      target_of(x.what),
                      x.unsure() ? ", or inserts its unique key" : ""),
          {}};
}

template <class Kind>
std::vector<typename target_intake<Kind>::answered>
target_intake<Kind>::give_up(std::uint64_t last, const error& why) {
  report out;
  auto late = [last](const auto& x) { return x.ticket <= last; };
  for (const auto& x : waiting_.remove_if(late))
    answer(out, x,
           with_fate(x.locked_tries > 0 ? target_locked(x) : why, x.resent));
  return std::move(out.answers);
}

template <class Kind>
std::uint64_t target_intake<Kind>::oldest_sent() const {
  auto oldest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& x : group_.entries)
    oldest = std::min(oldest, x.ticket);
  return oldest;
}

template <class Kind>
typename target_intake<Kind>::clock::time_point
target_intake<Kind>::due(clock::time_point now) const {
  if (under_way_)
    return clock::time_point::max();
  auto when = waiting_.has_due(now) ? now : waiting_.due();
  return when == clock::time_point::max() ? when : std::max(when, not_before_);
}

// -- signals ------------------------------------------------------------------

std::size_t signal_kind::bytes(const signal& x) {
  return intake_base::bytes_with(x.payload) + text_bytes(x.dedup_key)
         + text_bytes(x.key) + text_bytes(x.traceparent);
}

void signal_kind::add_calls(pq::unit& to, const store::row_refs<signal>& xs,
                            const limits& bounds, bool waits) {
  if (any_named(xs)) {
    to.calls.push_back(store::lock_named(xs, waits));
    to.calls.push_back(store::send_signals(xs, bounds.inbox, true));
    return;
  }
  if (waits)
    to.calls.push_back(store::lock({(*xs.begin()).target}));
  to.calls.push_back(store::lock_targets(xs));
  to.calls.push_back(store::send_signals(xs, bounds.inbox));
}

void signal_kind::note_queues(std::set<std::string>& to, row& of) {
  if (of.answer == store::signal_answer::accepted)
    for (auto* queue : {&of.woken_queue, &of.runnable_queue})
      if (!queue->empty())
        to.insert(std::move(*queue));
}

std::optional<result<signalled>> signal_kind::read(const signal& x,
                                                   const row& said,
                                                   const limits& bounds,
                                                   bool resent) {
  switch (said.answer) {
    case store::signal_answer::accepted:
      return signalled{false};
    case store::signal_answer::duplicate:
      // Sent again, it may well be its own duplicate.
      return signalled{!resent};
    case store::signal_answer::no_such_target:
      return error{errc::no_such_target,
                   "target: there is no instance " + target_of(x),
                   {}};
    case store::signal_answer::target_finished:
      return error{errc::target_finished,
                   fmt::format("target: instance {} is finished", target_of(x)),
                   {}};
    case store::signal_answer::inbox_full:
      return error{errc::inbox_full,
                   fmt::format("target: the inbox of instance {} is full: {} "
                               "signals",
                               target_of(x), bounds.inbox),
                   {}};
    case store::signal_answer::locked:
      return std::nullopt;
    case store::signal_answer::unknown:
      break;
  }
  return no_answer(x);
}

// -- transitions --------------------------------------------------------------

std::size_t transition_kind::bytes(const transition& x) {
  return intake_base::bytes_with(x.state.value_or(json{}))
         + (x.metadata ? intake_base::bytes_with(*x.metadata) : 0)
         + text_bytes(x.reason) + text_bytes(x.key);
}

void transition_kind::add_calls(pq::unit& to,
                                const store::row_refs<transition>& xs,
                                const limits&, bool waits) {
  to.calls.push_back(waits || any_named(xs) ? store::move_named(xs, waits)
                                            : store::move_targets(xs));
}

void transition_kind::note_queues(std::set<std::string>& to, row& of) {
  if (!of.queue.empty())
    to.insert(std::move(of.queue));
}

std::optional<result<transitioned>> transition_kind::read(const transition& x,
                                                          const row& said,
                                                          const limits&, bool) {
  auto refuse = [&](errc code) { return error{code, said.detail, {}}; };
  switch (said.answer) {
    case store::transition_answer::moved:
      return transitioned{said.seq, said.status};
    case store::transition_answer::no_such_target:
      return refuse(errc::no_such_target);
    case store::transition_answer::conflict:
      return refuse(errc::transition_conflict);
    case store::transition_answer::unknown_step:
      return refuse(errc::unknown_step);
    case store::transition_answer::not_allowed:
      return refuse(errc::not_allowed);
    case store::transition_answer::taken:
      return refuse(errc::key_taken);
    case store::transition_answer::locked:
    case store::transition_answer::
      unsure: // waited for, there is no such answer
      return std::nullopt;
    case store::transition_answer::unknown:
      break;
  }
  return no_answer(x);
}

template class target_intake<signal_kind>;
template class target_intake<transition_kind>;

} // namespace gd
