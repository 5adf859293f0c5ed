#include <gd/network/workers/worker_hub.hpp>

#include <algorithm>

namespace gd {

namespace {

/// Workers of one node at the most.
constexpr std::size_t most_links = 1'000;

link::verdict verdict_of(turn::flushed::verdict x) {
  using verdict = turn::flushed::verdict;
  switch (x) {
    case verdict::applied:
      return link::verdict::applied;
    case verdict::stale:
      return link::verdict::stale;
    case verdict::unknown:
      return link::verdict::unknown;
    case verdict::refused:
      return link::verdict::refused;
    case verdict::collided:
      break;
  }
  return link::verdict::collided;
}

elsewhere::report report_of(link_host::report x, std::string from) {
  using what = elsewhere::report::what;
  elsewhere::report y{.kind = x.kind,
                      .id = x.which.id,
                      .token = x.which.token,
                      .tag = x.tag,
                      .from = std::move(from),
                      .tries = x.outcome.tries,
                      .why = std::move(x.why),
                      .told = x.told,
                      .process_gone = x.process_gone};
  if (x.kind == what::crashed)
    y.ran.took = link::duration_of(x.took_us);
  if (x.kind != what::outcome)
    return y;
  auto& told = x.outcome.told;
  y.ran = {told.handled, std::move(told.failure), std::move(told.end),
           link::duration_of(told.took_us)};
  y.fsm = std::move(told.fsm);
  y.version = told.version;
  if (auto row = link::outcome_of(x.which, std::move(x.outcome.row)))
    y.row = std::move(*row);
  else
    y.why = row.error().message;
  return y;
}

} // namespace

void worker_hub::enter(const std::string& queue, std::function<void()> tell) {
  std::lock_guard guard{mutex_};
  queues_[queue] = {.tell = std::move(tell)};
}

void worker_hub::leave(const std::string& queue) {
  std::lock_guard guard{mutex_};
  queues_.erase(queue);
  for (auto& [name, x] : links_)
    x.host.drop(queue);
  pass_on_all();
}

std::int32_t worker_hub::room(const std::string& queue) const {
  std::lock_guard guard{mutex_};
  std::int32_t n = 0;
  for (const auto& [name, x] : links_)
    n += x.host.room(queue);
  return n;
}

bool worker_hub::idle(const std::string& queue) const {
  std::lock_guard guard{mutex_};
  return std::any_of(links_.begin(), links_.end(), [&queue](const auto& x) {
    return x.second.host.proven() && x.second.host.holds() == 0
           && x.second.host.room(queue) > 0;
  });
}

std::optional<std::string>
worker_hub::hand_out(const std::string& queue, std::uint64_t tag,
                     const held_row& what, std::chrono::milliseconds lease,
                     bool alone, clock::time_point now) {
  std::lock_guard guard{mutex_};
  const auto& row = what.row();
  links::value_type* best = nullptr;
  for (auto& one : links_) {
    const auto& host = one.second.host;
    if (host.takes(queue, row.fsm, row.fsm_version, row.bytes())
        && (!alone || (host.proven() && host.holds() == 0))
        && (best == nullptr
            || host.room(queue) > best->second.host.room(queue)))
      best = &one;
  }
  if (best == nullptr)
    return std::nullopt;
  auto until = row.picked_at + lease;
  if (row.picked_at <= extended_at_)
    until = std::max(until, extended_until_);
  const auto& under = *what.under();
  best->second.host.hand_out(queue, tag, {under.id, under.token}, row, until,
                             now);
  pass_on(best->first, best->second);
  return best->first;
}

bool worker_hub::complete(const std::string& to, const turn::flushed& of,
                          std::int32_t tries, const held_row* next,
                          std::uint64_t tag, clock::time_point until,
                          clock::time_point now) {
  link::completed y;
  y.id = of.row->id;
  y.token = of.row->token;
  y.what = verdict_of(of.what);
  y.tries = tries;
  if (y.what == link::verdict::refused || y.what == link::verdict::collided) {
    y.code = static_cast<std::uint8_t>(of.why.code);
    y.why = of.why.message;
    y.why_told = y.what == link::verdict::collided
                   ? of.why.message
                   : without_data(of.why).message;
    y.sqlstate = of.why.sqlstate;
    y.holder = of.holder;
    if (of.effect) {
      y.effect = {of.effect->number, of.effect->kind};
      y.why_told = without_data(*of.effect);
    }
  }
  if (next != nullptr) {
    y.next_token = next->under()->token;
    y.inbox = next->row().inbox;
  }
  return complete(to, std::move(y), tag, until, now);
}

void worker_hub::refuse(const report& of, bool too_many,
                        clock::time_point now) {
  link::completed y;
  y.id = of.id;
  y.token = of.token;
  y.what = too_many ? link::verdict::overloaded : link::verdict::stale;
  y.tries = of.tries;
  complete(of.from, std::move(y), 0, now, now);
}

bool worker_hub::complete(const std::string& to, link::completed answer,
                          std::uint64_t tag, clock::time_point until,
                          clock::time_point now) {
  std::lock_guard guard{mutex_};
  auto found = links_.find(to);
  if (found == links_.end())
    return false;
  auto goes_on = found->second.host.complete(std::move(answer), tag, until,
                                             now);
  pass_on(found->first, found->second);
  return goes_on;
}

std::vector<worker_hub::report> worker_hub::collect(const std::string& queue) {
  std::lock_guard guard{mutex_};
  auto found = queues_.find(queue);
  if (found == queues_.end())
    return {};
  found->second.told = false;
  return std::exchange(found->second.reports, {});
}

// -- what the heartbeat calls -------------------------------------------------------

void worker_hub::lose(const std::vector<lease_ptr>& which) {
  if (!any_)
    return;
  std::lock_guard guard{mutex_};
  for (auto& [name, x] : links_)
    for (const auto& one : which)
      x.host.lose({one->id, one->token});
  pass_on_all();
}

void worker_hub::extended(clock::time_point at, clock::time_point until) {
  std::lock_guard guard{mutex_};
  extended_at_ = at;
  extended_until_ = until;
  for (auto& [name, x] : links_)
    x.host.extended(at, until);
}

// -- what the network calls -----------------------------------------------------------

void worker_hub::open(std::function<void()> poke) {
  std::lock_guard guard{mutex_};
  poke_ = std::move(poke);
  poked_ = false;
  for (auto& [name, x] : links_) {
    x.connection = 0;
    x.host.cut(false);
  }
  pass_on_all();
}

void worker_hub::join(connection_id from, const link::packet& x,
                      clock::time_point now) {
  auto message = link::unpack<link::join>(x);
  std::optional<std::string> why;
  if (!message)
    why = message.error().message;
  else if (closing_)
    why = "this node stops: " + closing_why_;
  else if (links_.size() >= most_links
           && !links_.contains(message->incarnation))
    why = "this node has " + std::to_string(most_links) + " workers already";
  else
    why = link_host::refusal(*message, how_);
  if (why) {
    out_.packets.emplace_back(from,
                              link::pack(link::denied{*why, {link::protocol}}));
    out_.events.emplace_back(
      events::worker_refused{message ? message->node : "", *why});
    return poke();
  }
  // One that was here before has begun anew, or another has taken its connection.
  if (auto* before = find(from);
      before != nullptr && before->host.incarnation() != message->incarnation) {
    before->connection = 0;
    before->host.cut(true);
    pass_on_all();
  }
  auto& mine = links_
                 .try_emplace(message->incarnation,
                              link_state{{message->incarnation, how_}})
                 .first->second;
  mine.host.cut(false);
  mine.connection = from;
  mine.was_joined = true;
  mine.host.join(*message, ++epochs_, now);
  out_.events.emplace_back(
    events::worker_joined{message->node, mine.host.holds()});
  pass_on(message->incarnation, mine);
  for (const auto& [queue, state] : queues_)
    tell_queue(queue);
}

worker_hub::link_state* worker_hub::find(connection_id who) {
  auto found = std::find_if(links_.begin(), links_.end(), [who](const auto& x) {
    return x.second.connection == who;
  });
  return found != links_.end() ? &found->second : nullptr;
}

void worker_hub::arrived(connection_id from, const link::packet& x,
                         clock::time_point now) {
  std::lock_guard guard{mutex_};
  if (x.type == static_cast<std::int32_t>(link::kind::join))
    join(from, x, now);
  else if (auto* found = find(from)) {
    found->host.receive(x, now);
    auto incarnation = found->host.incarnation();
    pass_on(incarnation, *found);
    if (x.type == static_cast<std::int32_t>(link::kind::credit))
      for (const auto& [queue, state] : queues_)
        if (found->host.room(queue) > 0)
          tell_queue(queue);
  }
}

void worker_hub::gone(connection_id who, clock::time_point now) {
  std::lock_guard guard{mutex_};
  if (auto* found = find(who)) {
    found->connection = 0;
    found->host.cut(true);
    found->host.tick(now);
  }
  pass_on_all();
}

void worker_hub::close(const std::string& why) {
  std::lock_guard guard{mutex_};
  closing_ = true;
  closing_why_ = why;
  for (auto& [name, x] : links_)
    x.host.close(why);
  pass_on_all();
}

void worker_hub::tick(clock::time_point now) {
  std::lock_guard guard{mutex_};
  for (auto& [name, x] : links_)
    x.host.tick(now);
  pass_on_all();
}

worker_hub::clock::time_point worker_hub::due() const {
  std::lock_guard guard{mutex_};
  auto at = clock::time_point::max();
  for (const auto& [name, x] : links_)
    at = std::min(at, x.host.due());
  return at;
}

worker_hub::outgoing worker_hub::take() {
  std::lock_guard guard{mutex_};
  poked_ = false;
  return std::exchange(out_, {});
}

// -- passing on -----------------------------------------------------------------------

void worker_hub::pass_on(const std::string& incarnation, link_state& x) {
  auto packets = x.host.take_packets();
  if (x.connection != 0)
    for (auto& one : packets)
      out_.packets.emplace_back(x.connection, std::move(one));
  if (x.was_joined && !x.host.joined()) {
    x.was_joined = false;
    bool left = x.host.parting() && x.host.holds() == 0;
    if (!left)
      out_.events.emplace_back(
        events::worker_gone{x.host.node(), x.host.why(), x.host.holds()});
  }
  for (auto& one : x.host.take_reports()) {
    auto to = queues_.find(one.queue);
    // Late ones may be of a queue that this node does not serve: any writes them.
    if (to == queues_.end() && one.tag == 0
        && one.kind == link_host::report::what::outcome)
      to = queues_.begin();
    if (to == queues_.end())
      continue;
    auto queue = to->first;
    to->second.reports.push_back(report_of(std::move(one), incarnation));
    tell_queue(queue);
  }
  if (!out_.packets.empty() || !out_.events.empty())
    poke();
}

void worker_hub::pass_on_all() {
  for (auto& [name, x] : links_)
    pass_on(name, x);
  std::erase_if(links_, [](const auto& x) {
    return x.second.connection == 0 && !x.second.host.joined()
           && x.second.host.holds() == 0;
  });
  any_ = !links_.empty();
}

void worker_hub::tell_queue(const std::string& queue) {
  auto& x = queues_[queue];
  if (x.tell && !std::exchange(x.told, true))
    x.tell();
}

void worker_hub::poke() {
  any_ = !links_.empty();
  if (poke_ && !std::exchange(poked_, true))
    poke_();
}

} // namespace gd
