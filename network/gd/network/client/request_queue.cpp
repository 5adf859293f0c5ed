#include <gd/network/client/request_queue.hpp>

#include <gd/pq/pause.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace gd {

namespace {

bool has(const std::vector<std::string>& xs, std::string_view what) {
  return std::find(xs.begin(), xs.end(), what) != xs.end();
}

/// Whatever can be told without the other side: it was not stored the first time, either.
bool is_refused_as_such(errc code) noexcept {
  return code == errc::invalid_argument || code == errc::codec;
}

} // namespace

// -- requests -----------------------------------------------------------------

pending_request pending_request_of(const insert& x, keys_trusted which) {
  bool lasts = has(x.unique_scope, "done") && has(x.unique_scope, "failed");
  bool tells = x.unique_key && (lasts || which == keys_trusted::all);
  return {tells ? asked_twice::repeats : asked_twice::acts,
          bytes_beside + about_bytes(x)};
}

pending_request pending_request_of(const insert_all& x, keys_trusted which) {
  pending_request all{asked_twice::repeats, bytes_beside};
  for (const auto& row : x.rows) {
    auto one = pending_request_of(row, which);
    all.twice = std::max(all.twice, one.twice);
    all.bytes += one.bytes;
  }
  return all;
}

pending_request pending_request_of(const signal& x, keys_trusted which) {
  bool tells = x.dedup_key && (!x.key || which == keys_trusted::all);
  return {tells ? asked_twice::repeats : asked_twice::acts,
          bytes_beside + about_bytes(x)};
}

pending_request pending_request_of(const transition& x, keys_trusted) {
  // With a `seq` it would happen once, but the second answer could not tell whose it is.
  return {asked_twice::acts, bytes_beside + about_bytes(x)};
}

// -- answers ------------------------------------------------------------------

error corrected(error why, const sent_request& of) {
  if (of.twice == asked_twice::reads) {
    if (why.code == errc::unknown_fate)
      why.code = errc::unavailable;
  } else if (of.sent_before && why.code != errc::unknown_fate
             && !is_refused_as_such(why.code)) {
    why.message = fmt::format("it was sent twice: the first time it may or may "
                              "not have happened, the second time the answer "
                              "was {}: {}",
                              to_string(why.code), why.message);
    why.code = errc::unknown_fate;
  }
  return why;
}

void correct(inserted_all& x, const sent_request& of) {
  for (auto& row : x.rows)
    if (!row.id) {
      auto why = corrected({row.code, std::move(row.message), {}}, of);
      row.code = why.code;
      row.message = std::move(why.message);
    }
}

// -- what has happened --------------------------------------------------------

result<void> request_queue::add(std::uint64_t ticket, pending_request what,
                                time_point now) {
  if (stopped_)
    return error{errc::stopped, "the gateway's client has stopped", {}};
  if (entries_.size() >= how_.requests)
    return error{errc::overloaded,
                 fmt::format("{} requests wait for the gateway already: "
                             "expected at most {}",
                             entries_.size(), how_.requests),
                 {}};
  if (!entries_.empty()
      && (bytes_ > how_.bytes || what.bytes > how_.bytes - bytes_))
    return error{errc::overloaded,
                 fmt::format("{} bytes wait for the gateway already, and {} "
                             "more are too many: expected at most {}",
                             bytes_, what.bytes, how_.bytes),
                 {}};
  bytes_ += what.bytes;
  auto expires = now + how_.patience;
  if (what.waits)
    ends_.emplace(expires += *what.waits, ticket);
  auto added = entries_.emplace(ticket, entry{what, expires}).first;
  wait_again(added, state::waits, now);
  return {};
}

std::uint64_t request_queue::connected(time_point now) {
  attempting_ = false;
  connection_ = ++connections_;
  connected_at_ = now;
  heard_at_ = now;
  owes_since_.reset();
  pinged_ = false;
  return connection_;
}

void request_queue::failed(error why, time_point now) {
  attempting_ = false;
  turn_to_next_address(std::move(why));
  bool round_is_over = failures_ % how_.addresses == 0;
  next_attempt_ = now;
  if (round_is_over)
    next_attempt_ += pause_between(failures_ / how_.addresses);
}

std::vector<request_queue::ended> request_queue::lost(std::uint64_t connection,
                                                      const error& why,
                                                      time_point now) {
  std::vector<ended> out;
  if (connection == 0 || connection != connection_)
    return out;
  connection_ = 0;
  // One that is lost at once is no better than one that is not found.
  if (now - connected_at_ >= how_.longest_pause)
    failures_ = 0;
  turn_to_next_address(why);
  // Not at once: others have lost theirs, too.
  auto rounds = (failures_ + how_.addresses - 1) / how_.addresses;
  next_attempt_ = now + pause_between(rounds);
  std::vector<std::uint64_t> tickets;
  for (const auto& [at, ticket] : sent_)
    tickets.push_back(ticket);
  for (const auto& [at, ticket] : ends_)
    if (entries_.at(ticket).at == state::open)
      tickets.push_back(ticket);
  for (auto ticket : tickets) {
    auto x = entries_.find(ticket);
    call_back(x, true);
    if (x->second.what.twice == asked_twice::acts)
      end(out, x, given_up(x->second, why.message));
    else
      wait_again(x, state::waits, now);
  }
  return out;
}

std::optional<sent_request> request_queue::answered(std::uint64_t connection,
                                                    std::uint64_t ticket,
                                                    const error* why,
                                                    time_point now) {
  if (connection == 0 || connection != connection_)
    return std::nullopt;
  auto found = entries_.find(ticket);
  bool open = found != entries_.end() && found->second.at == state::open;
  bool unknown = why != nullptr && why->code == errc::unknown_fate;
  if (open)
    call_back(found, unknown);
  heard(connection, now);
  if (!open)
    return std::nullopt;
  auto& x = found->second;
  bool undone = why != nullptr
                && (why->code == errc::unavailable
                    || why->code == errc::stopped);
  bool again = undone || (unknown && x.what.twice != asked_twice::acts);
  if (again && now + rest < x.expires) {
    wait_again(found, state::rests, now);
    return std::nullopt;
  }
  sent_request of{x.what.twice, x.sent_before};
  forget(found);
  return of;
}

void request_queue::heard(std::uint64_t connection, time_point now) {
  if (connection == 0 || connection != connection_)
    return;
  heard_at_ = now;
  pinged_ = false;
  owes_since_.reset();
  if (!sent_.empty())
    owes_since_ = now;
}

std::vector<request_queue::ended> request_queue::stop() {
  std::vector<ended> out;
  stopped_ = true;
  connection_ = 0;
  error why{errc::stopped, "the gateway's client has stopped", {}};
  while (!entries_.empty()) {
    auto x = entries_.begin();
    if (x->second.at == state::open)
      call_back(x, true);
    end(out, x, x->second.sent_before ? given_up(x->second, why.message) : why);
  }
  resting_.clear();
  return out;
}

// -- what is to be done -------------------------------------------------------

request_queue::todo request_queue::step(time_point now) {
  todo to;
  if (stopped_)
    return to;
  while (!resting_.empty() && resting_.front().first <= now) {
    wait_again(entries_.find(resting_.front().second), state::waits, now);
    resting_.pop_front();
  }
  notice_silence(to, now);
  give_up_late(to, now);
  if (connection_ != 0) {
    send(to, now);
  } else if (!attempting_ && now >= next_attempt_) {
    attempting_ = true;
    to.connect = address_;
  }
  return to;
}

request_queue::time_point request_queue::due() const {
  auto at = time_point::max();
  if (stopped_)
    return at;
  if (!ends_.empty())
    at = ends_.begin()->first;
  if (!waiting_.empty())
    at = std::min(at, entries_.at(*waiting_.begin()).expires);
  if (!resting_.empty())
    at = std::min(at, resting_.front().first);
  if (connection_ == 0)
    return attempting_ ? at : std::min(at, next_attempt_);
  if (!sent_.empty())
    at = std::min(at, sent_.begin()->first + how_.answer_within);
  if (owes_since_)
    at = std::min(at, *owes_since_ + how_.silence);
  return pinged_ ? at : std::min(at, heard_at_ + how_.ping);
}

void request_queue::notice_silence(todo& to, time_point now) {
  if (connection_ == 0 || !owes_since_)
    return;
  auto silent_at = *owes_since_ + how_.silence;
  // Who looks much too late was stopped himself, and has not read what has come since.
  if (now > silent_at + how_.silence / 4) {
    owes_since_ = now;
  } else if (now >= silent_at) {
    error why{errc::unavailable,
              fmt::format("the gateway has said nothing for {} ms",
                          how_.silence.count()),
              {}};
    to.told = lost(connection_, why, now);
    to.let_go = std::move(why);
  }
}

void request_queue::give_up_late(todo& to, time_point now) {
  while (!waiting_.empty()) {
    auto found = entries_.find(*waiting_.begin());
    if (found->second.expires > now)
      break;
    auto why = connection_ != 0 ? "the gateway has too much to do"
               : why_not_       ? why_not_->message
                                : "no attempt to connect has ended";
    end(to.told, found,
        given_up(found->second, fmt::format("not sent within {} ms: {}",
                                            how_.patience.count(), why)));
  }
  while (!ends_.empty() && ends_.begin()->first <= now) {
    auto found = entries_.find(ends_.begin()->second);
    auto ms = std::chrono::duration_cast<milliseconds>(
      *found->second.what.waits);
    bool there = found->second.was_there;
    end(to.told, found,
        {there ? errc::timed_out : errc::unavailable,
         fmt::format("nothing has come within {} ms{}", ms.count(),
                     there ? "" : ": it could not be sent"),
         {}});
  }
  while (!sent_.empty() && sent_.begin()->first + how_.answer_within <= now) {
    auto found = entries_.find(sent_.begin()->second);
    call_back(found, true);
    end(to.told, found,
        given_up(found->second, fmt::format("no answer within {} ms",
                                            how_.answer_within.count())));
  }
}

void request_queue::send(todo& to, time_point now) {
  auto open = [&](std::uint64_t ticket) {
    auto& x = entries_.at(ticket);
    x.at = state::open;
    x.sent = now;
    x.was_there = true;
    to.send.push_back(ticket);
  };
  while (!waiting_.empty() && sent_.size() < how_.open) {
    auto ticket = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    sent_.emplace(now, ticket);
    open(ticket);
  }
  for (auto ticket : std::exchange(long_ones_, {}))
    open(ticket);
  if (!pinged_ && now >= heard_at_ + how_.ping) {
    pinged_ = true;
    to.ping = true;
  }
  if (!owes_since_ && (pinged_ || !sent_.empty()))
    owes_since_ = now;
}

// -- small ones ---------------------------------------------------------------

void request_queue::wait_again(entries::iterator x, state where,
                               time_point now) {
  x->second.at = where;
  if (where == state::rests)
    resting_.emplace_back(now + rest, x->first);
  else
    (x->second.what.waits ? long_ones_ : waiting_).insert(x->first);
}

void request_queue::call_back(entries::iterator x, bool unknown) {
  sent_.erase({x->second.sent, x->first});
  if (unknown && x->second.what.twice != asked_twice::reads)
    x->second.sent_before = true;
}

void request_queue::end(std::vector<ended>& to, entries::iterator x,
                        error why) {
  to.push_back({x->first, std::move(why)});
  forget(x);
}

void request_queue::forget(entries::iterator x) {
  bytes_ -= x->second.what.bytes;
  waiting_.erase(x->first);
  if (x->second.what.waits) {
    long_ones_.erase(x->first);
    ends_.erase({x->second.expires, x->first});
  }
  entries_.erase(x);
}

std::optional<std::chrono::microseconds>
request_queue::time_left(std::uint64_t ticket, time_point now) const {
  const auto& x = entries_.at(ticket);
  if (!x.what.waits)
    return std::nullopt;
  auto left = std::chrono::duration_cast<std::chrono::microseconds>(
    x.expires - how_.patience - now);
  return std::max(left, std::chrono::microseconds{0});
}

error request_queue::given_up(const entry& x, const std::string& why) {
  if (x.sent_before)
    return {errc::unknown_fate,
            "it was sent, and may or may not have happened: " + why,
            {}};
  return {errc::unavailable, why, {}};
}

void request_queue::turn_to_next_address(error why) {
  why_not_ = std::move(why);
  address_ = (address_ + 1) % how_.addresses;
  ++failures_;
}

request_queue::milliseconds request_queue::pause_between(std::size_t rounds) {
  auto full = std::max(milliseconds{1},
                       pause_after(static_cast<std::int64_t>(rounds) - 1,
                                   how_.first_pause, how_.longest_pause))
                .count();
  std::uniform_int_distribution<std::int64_t> jitter{(full + 1) / 2, full};
  return milliseconds{jitter(random_)};
}

} // namespace gd
