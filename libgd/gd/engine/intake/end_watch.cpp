#include <gd/engine/intake/end_watch.hpp>

#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace gd {

namespace {

/// Looks for all take this part of a connection's time at the most.
constexpr int part = 10;

gd::awaited ended_of(const store::awaited_row& x) {
  return {.id = *x.id,
          .fsm = x.fsm,
          .version = x.version,
          .status = x.status,
          .result = x.result,
          .failure = x.failure,
          .seq = x.seq};
}

} // namespace

result<void> end_watch::add(std::uint64_t ticket, const await_result& x,
                            clock::time_point now) {
  if (auto ok = check(x, how_.limits); !ok)
    return ok;
  if (waiting_.empty())
    poll_at_ = now + how_.poll;
  waiting_.emplace(
    ticket, waiter{.id = x.id,
                   .key = x.key,
                   .within_us = x.within_us,
                   .expires = now + std::chrono::microseconds{x.within_us},
                   .since = lookups_});
  if (x.key) {
    keys_[*x.key].insert(ticket);
  } else {
    targets_[x.id].tickets.insert(ticket);
    fresh_.insert(x.id);
    how_.ids->add(x.id);
  }
  return {};
}

std::optional<pq::call> end_watch::begin(clock::time_point now) {
  if (under_way_ || now < not_before_ || waiting_.empty())
    return std::nullopt;
  lookup next{.poll = now >= poll_at_ && !targets_.empty(), .began = now};
  if (!next.poll && fresh_.empty() && keys_.empty())
    return std::nullopt;
  if (next.poll) {
    next.ids.reserve(targets_.size());
    for (const auto& [id, x] : targets_)
      next.ids.push_back(id);
  } else {
    next.ids.assign(fresh_.begin(), fresh_.end());
    fresh_.clear();
    for (const auto& [key, tickets] : keys_)
      next.keys.push_back(key);
  }
  ++lookups_;
  under_way_ = std::move(next);
  return store::awaited(under_way_->ids, under_way_->keys, !under_way_->poll,
                        how_.bytes);
}

end_watch::answers end_watch::finish(const pq::reply& reply,
                                     clock::time_point now) {
  answers out;
  if (!under_way_)
    return out;
  auto of = std::move(*under_way_);
  under_way_.reset();
  if (of.poll)
    poll_at_ = now
               + std::max<clock::duration>(how_.poll, part * (now - of.began));
  if (!reply.ok()) {
    not_before_ = now + how_.poll;
    fail(of, *reply.failure, out);
    return out;
  }
  failure_.reset();
  for (const auto& row : store::read<store::awaited_row>(reply.results.front()))
    read(row, of, out);
  return out;
}

end_watch::answers end_watch::hear(const gd::awaited& x) {
  answers out;
  auto found = targets_.find(x.id);
  if (found == targets_.end())
    return out;
  auto& to = found->second;
  if (to.seq && x.seq <= *to.seq)
    return out; // it has been made to go on since
  to.heard = x;
  if (!to.seq)
    return out;
  for (auto ticket : std::vector(to.tickets.begin(), to.tickets.end()))
    if (waiting_.at(ticket).seen)
      end(ticket, x, out);
  return out;
}

void end_watch::hear_of(const std::vector<std::int64_t>& ids) {
  for (auto id : ids)
    if (targets_.contains(id))
      fresh_.insert(id);
}

end_watch::answers end_watch::give_up_late(clock::time_point now) {
  answers out;
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    auto ticket = expiries_.begin()->second;
    const auto& x = waiting_.at(ticket);
    error why{x.seen ? errc::timed_out : errc::unavailable,
              fmt::format("instance {} has not ended within {} ms",
                          address_text(x.id, x.id == 0 ? x.key : std::nullopt),
                          x.within_us / 1'000),
              {}};
    if (failure_)
      why.message += ", and could not be looked for: " + failure_->message;
    end(ticket, std::move(why), out);
  }
  return out;
}

bool end_watch::remove(std::uint64_t ticket) {
  answers nobody_waits_for;
  if (waiting_.contains(ticket))
    end(ticket, error{}, nobody_waits_for);
  return !nobody_waits_for.empty();
}

void end_watch::clear() {
  while (!waiting_.empty())
    remove(waiting_.begin()->first);
}

end_watch::clock::time_point end_watch::due() const {
  auto at = expiries_.empty() ? clock::time_point::max()
                              : expiries_.begin()->first;
  if (under_way_ || waiting_.empty())
    return at;
  auto lookup_at = fresh_.empty() && keys_.empty() ? poll_at_
                                                   : clock::time_point::min();
  return std::min(at, std::max(lookup_at, not_before_));
}

// -- what a lookup has found --------------------------------------------------

void end_watch::read(const store::awaited_row& row, const lookup& of,
                     answers& to) {
  auto n = static_cast<std::size_t>(row.n);
  if (n <= of.ids.size())
    return found(of.ids[n - 1], row, to);
  const auto& key = of.keys[n - 1 - of.ids.size()];
  if (row.id) {
    name(key, *row.id);
    return found(*row.id, row, to);
  }
  auto at = keys_.find(key);
  if (at == keys_.end())
    return;
  for (auto ticket : asked_by(at->second))
    end(ticket,
        error{errc::no_such_target,
              "there is no instance " + address_text(0, key),
              {}},
        to);
}

void end_watch::found(std::int64_t id, const store::awaited_row& row,
                      answers& to) {
  auto at = targets_.find(id);
  if (at == targets_.end())
    return; // all have been answered meanwhile
  if (row.left_out)
    fresh_.insert(id);
  else if (row.id && !row.ends())
    goes_on(id, row.seq, to);
  else
    for (auto ticket : asked_by(at->second.tickets)) {
      if (row.id) {
        end(ticket, ended_of(row), to);
        continue;
      }
      bool seen = waiting_.at(ticket).seen;
      end(ticket,
          error{seen ? errc::erased : errc::no_such_target,
                fmt::format("{} {}",
                            seen ? "its end has not been seen, and there is no "
                                   "more of instance"
                                 : "there is no instance",
                            id),
                {}},
          to);
    }
}

void end_watch::goes_on(std::int64_t id, std::int64_t seq, answers& to) {
  auto& what = targets_.at(id);
  if (!what.seq)
    going_on_.push_back(id);
  what.seq = seq;
  for (auto ticket : asked_by(what.tickets)) {
    auto& x = waiting_.at(ticket);
    x.seen = true;
    note_looked_up(ticket, x);
  }
  if (auto heard = std::exchange(what.heard, std::nullopt))
    for (auto& x : hear(*heard))
      to.push_back(std::move(x));
}

void end_watch::fail(const lookup& of, error why, answers& to) {
  if (why.code == errc::unknown_fate)
    why.code = errc::unavailable; // it only looks
  std::vector<std::uint64_t> tickets;
  auto add = [&](const std::set<std::uint64_t>& some) {
    auto xs = asked_by(some);
    tickets.insert(tickets.end(), xs.begin(), xs.end());
  };
  for (auto id : of.ids)
    if (auto at = targets_.find(id); at != targets_.end()) {
      add(at->second.tickets);
      if (!of.poll)
        fresh_.insert(id);
    }
  for (const auto& key : of.keys)
    if (auto at = keys_.find(key); at != keys_.end())
      add(at->second);
  for (auto ticket : tickets)
    if (retryable(why.code))
      note_looked_up(ticket, waiting_.at(ticket));
    else
      end(ticket, why, to);
  failure_ = std::move(why);
}

/// From now on it is about this instance, whoever has the key.
void end_watch::name(const std::string& key, std::int64_t id) {
  auto at = keys_.find(key);
  if (at == keys_.end())
    return;
  for (auto ticket : asked_by(at->second)) {
    waiting_.at(ticket).id = id;
    targets_[id].tickets.insert(ticket);
    how_.ids->add(id);
    at->second.erase(ticket);
  }
  if (at->second.empty())
    keys_.erase(at);
}

void end_watch::note_looked_up(std::uint64_t ticket, waiter& x) {
  if (!std::exchange(x.looked_up, true))
    expiries_.emplace(x.expires, ticket);
}

std::vector<std::uint64_t>
end_watch::asked_by(const std::set<std::uint64_t>& some) const {
  std::vector<std::uint64_t> out;
  std::copy_if(some.begin(), some.end(), std::back_inserter(out),
               [this](auto ticket) {
    return waiting_.at(ticket).since < lookups_;
  });
  return out;
}

void end_watch::end(std::uint64_t ticket, result<gd::awaited> how,
                    answers& to) {
  auto x = std::move(waiting_.extract(ticket).mapped());
  expiries_.erase({x.expires, ticket});
  if (x.id == 0) {
    auto at = keys_.find(*x.key);
    at->second.erase(ticket);
    if (at->second.empty())
      keys_.erase(at);
  } else {
    auto at = targets_.find(x.id);
    at->second.tickets.erase(ticket);
    if (at->second.tickets.empty()) {
      targets_.erase(at);
      fresh_.erase(x.id);
      how_.ids->remove(x.id);
    }
  }
  to.push_back({ticket, std::move(how)});
}

} // namespace gd
