#include <gd/network/workers/link_worker.hpp>

#include <gd/pq/ensure.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gd {

link_worker::link_worker(settings how) : how_(std::move(how)) {
  for (const auto& x : how_.queues)
    unfinished_[x.name] = 0;
}

// -- the connection -------------------------------------------------------------

void link_worker::connected(clock::time_point now) {
  end_joining();
  phase_ = phase::joining;
  heard_at_ = now;
  link::join x{.protocols = {link::protocol},
               .incarnation = how_.incarnation,
               .node = how_.node,
               .machines = how_.machines};
  for (const auto& one : how_.queues)
    x.queues.push_back(one.name);
  for (const auto& [which, one] : held_)
    x.holds.push_back(which);
  channel_.send(x);
}

void link_worker::cut() {
  end_joining();
  why_.clear();
}

void link_worker::fail(std::string why) {
  end_joining();
  why_ = std::move(why);
}

void link_worker::end_joining() {
  heard_of_leaving_ = false;
  phase_ = phase::alone;
  channel_.end();
  work_ = 0;
  sent_.clear();
  granted_.clear();
  granted_bytes_ = 0;
}

template <class T, class F>
void link_worker::read(const link::packet& x, F f) {
  if (auto why = channel_.read<T>(x, std::move(f)); !why.empty())
    fail("the engine: " + why);
}

void link_worker::receive(const link::packet& x, clock::time_point now) {
  if (phase_ == phase::alone)
    return;
  heard_at_ = now;
  switch (static_cast<link::kind>(x.type)) {
    case link::kind::joined:
      return read<link::joined>(
        x, [&](auto message) { on_joined(std::move(message), now); });
    case link::kind::denied:
      return read<link::denied>(x, [this](auto message) {
        if (phase_ == phase::joining)
          fail("denied: " + message.why);
      });
    case link::kind::work:
      return read<link::work>(
        x, [this](auto message) { on_work(std::move(message)); });
    case link::kind::completed:
      return read<link::completed>(
        x, [this](auto message) { on_completed(std::move(message)); });
    case link::kind::heard:
      return read<link::heard>(x, [this](auto message) { on_heard(message); });
    case link::kind::lost:
      return read<link::lost>(x, [this](auto message) { on_lost(message); });
    case link::kind::closing:
      return read<link::closing>(x, [this](auto message) {
        phase_ = phase::parting;
        heard_of_leaving_ = leaving_;
        why_ = "the engine closes: " + message.why;
        order_all_back();
      });
    default: // of a newer engine: it counts, and means nothing here
      channel_.skip();
  }
}

void link_worker::on_joined(link::joined x, clock::time_point now) {
  if (phase_ != phase::joining)
    return;
  if (x.epoch == 0)
    return fail("the engine does not number the joining");
  engine_ = std::move(x);
  channel_.begin(engine_.epoch);
  phase_ = leaving_ ? phase::parting : phase::joined;
  why_.clear();
  ping_ = std::max(link::duration_of(engine_.ping_us),
                   std::chrono::microseconds{1'000});
  silence_ = std::max(link::duration_of(engine_.silence_us),
                      std::chrono::microseconds{2'000});
  std::sort(engine_.resumed.begin(), engine_.resumed.end());
  for (auto i = held_.begin(); i != held_.end();) {
    auto& [which, one] = *i;
    one.resumed = std::binary_search(engine_.resumed.begin(),
                                     engine_.resumed.end(), which);
    if (one.now == state::reported) {
      one.outcome.resent = true;
      send_outcome(one);
    } else if (one.now == state::running && !one.resumed) {
      // Nobody extends its lease: what has begun has what is left of it.
      orders_.push_back({order::action::release, which, one.queue});
    } else if (one.now == state::dead
               || (one.now == state::completed && !one.resumed)) {
      if (one.resumed && one.last_word.type != 0) {
        auto word = std::move(one.last_word);
        if (word.type == static_cast<std::int32_t>(link::kind::crashed))
          channel_.say_of(which, *link::unpack<link::crashed>(word));
        else
          channel_.say_of(which, link::released{});
      }
      forget(i++);
      continue;
    }
    ++i;
  }
  if (leaving_)
    channel_.say(link::leaving{});
  send_credit(now);
}

void link_worker::leave() {
  if (std::exchange(leaving_, true))
    return;
  if (phase_ == phase::joined) {
    phase_ = phase::parting;
    channel_.say(link::leaving{});
  } else if (phase_ == phase::parting) { // the engine was first
    heard_of_leaving_ = true;
  }
  order_all_back();
}

void link_worker::order_all_back() {
  for (const auto& [which, one] : held_)
    if (one.now == state::running)
      orders_.push_back({order::action::release, which, one.queue});
}

// -- what the engine says ---------------------------------------------------------

void link_worker::on_work(link::work x) {
  work_ = x.number;
  --granted_[x.queue];
  granted_bytes_ -= link::size_of(x.row);
  auto which = x.which();
  if (held_.contains(which))
    return fail("the engine has sent what is held already");
  auto known = unfinished_.find(x.queue);
  if (known == unfinished_.end() || phase_ == phase::parting)
    return channel_.say_of(which, link::released{});
  auto& one = held_[which];
  one.queue = x.queue;
  one.until = sent_at(x.echo) + link::duration_of(x.left_us);
  ++known->second;
  set_bytes(one, link::size_of(x.row));
  orders_.push_back({order::action::begin, which, x.queue, std::move(x)});
}

void link_worker::on_completed(link::completed x) {
  auto which = x.which();
  auto found = held_.find(which);
  if (found == held_.end() || found->second.now != state::reported
      || found->second.outcome.tries != x.tries)
    return;
  auto& one = found->second;
  if (x.what == link::verdict::overloaded) {
    one.again_at = heard_at_ + how_.pause;
    return;
  }
  key goes_on{which.id, x.next_token};
  if (!x.next_token.empty() && held_.contains(goes_on))
    return fail("the engine goes on with what is held already");
  order next{order::action::complete, which, one.queue};
  if (x.what == link::verdict::refused || x.what == link::verdict::collided) {
    one.now = state::running; // the handler's turn
    ++one.outcome.tries;
    set_bytes(one, link::size_of(store::outcome_row{}));
    ++unfinished_[one.queue];
    next.answer = std::move(x);
    orders_.push_back(std::move(next));
    return;
  }
  one.now = state::completed;
  set_bytes(one, 0);
  next.written = std::move(one.outcome.row);
  if (!x.next_token.empty()) {
    auto& other = held_[goes_on];
    other.queue = one.queue;
    other.until = sent_at(x.echo) + link::duration_of(x.left_us);
    ++unfinished_[other.queue];
    auto size = link::size_of(next.written);
    for (const auto& s : x.inbox)
      size += static_cast<std::int64_t>(s.payload.size());
    set_bytes(other, size);
  }
  if (one.over)
    forget(found);
  else
    one.outcome = {};
  next.answer = std::move(x);
  orders_.push_back(std::move(next));
}

void link_worker::on_heard(const link::heard& x) {
  auto until = sent_at(x.echo) + link::duration_of(x.left_us);
  for (auto& [which, one] : held_)
    if (one.resumed)
      one.until = std::max(one.until, until);
  while (!sent_.empty() && sent_.front().first < x.echo)
    sent_.pop_front();
}

void link_worker::on_lost(const link::lost& x) {
  auto found = held_.find(x.which());
  if (found == held_.end())
    return;
  auto& one = found->second;
  one.resumed = false;
  if (one.now == state::running && !std::exchange(one.stopped, true))
    orders_.push_back({order::action::stop, x.which(), one.queue});
}

/// Of a credit that is echoed; one that is not known is as old as can be.
link_worker::clock::time_point
link_worker::sent_at(std::uint64_t credit) const {
  for (const auto& [number, at] : sent_)
    if (number == credit)
      return at;
  return sent_.empty() ? heard_at_ - silence_ : sent_.front().second;
}

// -- executions -------------------------------------------------------------------

void link_worker::report(const key& which, store::outcome_row row,
                         link::told told, bool over) {
  auto found = held_.find(which);
  if (found == held_.end() || found->second.now != state::running)
    return;
  auto& one = found->second;
  one.now = state::reported;
  one.over = one.over || over;
  finished(one);
  set_bytes(one, link::size_of(row));
  auto tries = one.outcome.tries;
  one.outcome = {};
  one.outcome.id = which.id;
  one.outcome.token = which.token;
  one.outcome.tries = tries;
  one.outcome.queue = one.queue;
  one.outcome.row = std::move(row);
  one.outcome.told = std::move(told);
  if (phase_ == phase::joined || phase_ == phase::parting)
    send_outcome(one);
}

void link_worker::send_outcome(entry& x) {
  x.again_at = clock::time_point::max();
  x.outcome.over = x.over;
  channel_.say(x.outcome);
}

void link_worker::function_over(const key& which) {
  auto found = held_.find(which);
  if (found == held_.end() || std::exchange(found->second.over, true))
    return;
  if (phase_ == phase::joined || phase_ == phase::parting)
    channel_.say_of(which, link::over{});
  if (found->second.now
      == state::completed) // unnamed from now on, it is over there, too
    forget(found);
}

void link_worker::crash(const key& which, std::string why,
                        std::chrono::microseconds took) {
  auto found = held_.find(which);
  if (found == held_.end() || found->second.now != state::running)
    return;
  link::crashed x;
  x.why = std::move(why);
  x.took_us = took.count();
  if (phase_ == phase::joined || phase_ == phase::parting) {
    channel_.say_of(which, std::move(x));
    return forget(found);
  }
  auto& one = found->second;
  one.now = state::dead;
  finished(one);
  set_bytes(one, 0);
  one.last_word = link::pack(x);
}

void link_worker::release(const key& which) {
  auto found = held_.find(which);
  if (found == held_.end() || found->second.now != state::running)
    return;
  auto& one = found->second;
  if (phase_ == phase::joined || phase_ == phase::parting) {
    if (one.resumed)
      channel_.say_of(which, link::released{});
    return forget(found);
  }
  one.now = state::dead;
  finished(one);
  set_bytes(one, 0);
  one.last_word = link::pack(link::released{});
}

void link_worker::forget(entries::iterator which) {
  auto& one = which->second;
  if (one.now == state::running)
    finished(one);
  set_bytes(one, 0);
  held_.erase(which);
}

void link_worker::finished(const entry& x) {
  auto& left = unfinished_[x.queue];
  ensure(left > 0, "what is finished once was begun once");
  --left;
}

void link_worker::set_bytes(entry& x, std::int64_t bytes) {
  bytes_ += bytes - std::exchange(x.bytes, bytes);
  ensure(bytes_ >= 0, "no more bytes are given up than are held");
}

// -- credit -----------------------------------------------------------------------

std::int32_t link_worker::room(const queue& of) const {
  if (phase_ != phase::joined)
    return 0;
  auto used = unfinished_.find(of.name);
  return std::max(of.slots + of.prefetch - used->second, 0);
}

void link_worker::send_credit(clock::time_point now) {
  link::credit x;
  x.number = ++credits_;
  x.seq = work_;
  x.bytes = phase_ == phase::joined
              ? std::max<std::int64_t>(how_.bytes - bytes_, 0)
              : 0;
  for (const auto& one : how_.queues) {
    x.rooms.push_back({one.name, room(one)});
    granted_[one.name] = x.rooms.back().rows;
  }
  granted_bytes_ = x.bytes;
  sent_.emplace_back(x.number, now);
  credit_at_ = now + ping_;
  channel_.say(std::move(x));
}

/// The engine believes that there is less room than there is, by so much that steps may
/// have to wait for it.
bool link_worker::worth_a_credit() const {
  if (phase_ != phase::joined)
    return false;
  bool any = false;
  for (const auto& one : how_.queues) {
    auto granted = granted_.find(one.name);
    auto believed = granted == granted_.end() ? 0 : granted->second;
    auto more = room(one) - believed;
    any = any || more >= std::max((one.slots + one.prefetch) / 4, 1);
  }
  return any || (granted_bytes_ < how_.bytes / 4 && bytes_ < how_.bytes / 2);
}

void link_worker::tick(clock::time_point now) {
  if (phase_ == phase::joining && now >= heard_at_ + how_.patience)
    fail("the engine has not answered");
  else if (phase_ != phase::alone && phase_ != phase::joining
           && now >= heard_at_ + silence_)
    fail("the engine has been silent for too long");
  auto early = std::min(ping_, silence_ / 2);
  for (auto i = held_.begin(); i != held_.end();) {
    auto& [which, one] = *i;
    if (one.now == state::running && !one.stopped && now >= one.until - early) {
      one.stopped = true;
      orders_.push_back({order::action::stop, which, one.queue});
    }
    if (one.now == state::reported && now >= one.again_at
        && (phase_ == phase::joined || phase_ == phase::parting))
      send_outcome(one);
    // What nobody holds any more need not be told.
    if (one.now == state::dead && now >= one.until)
      forget(i++);
    else
      ++i;
  }
  if (phase_ == phase::parting && !leaving_ && held_.empty()) {
    auto reason = why_;
    fail(std::move(reason));
  }
  if (phase_ == phase::joined || phase_ == phase::parting)
    if (now >= credit_at_ || worth_a_credit())
      send_credit(now);
}

link_worker::clock::time_point link_worker::due(clock::time_point now) const {
  auto at = clock::time_point::max();
  if (phase_ == phase::joining)
    at = heard_at_ + how_.patience;
  else if (phase_ != phase::alone)
    at = std::min(credit_at_, heard_at_ + silence_);
  auto early = std::min(ping_, silence_ / 2);
  for (const auto& [which, one] : held_) {
    if (one.now == state::running && !one.stopped)
      at = std::min(at, one.until - early);
    if (one.now == state::reported && phase_ != phase::alone)
      at = std::min(at, one.again_at);
    if (one.now == state::dead)
      at = std::min(at, one.until);
  }
  return std::max(at, now);
}

} // namespace gd
