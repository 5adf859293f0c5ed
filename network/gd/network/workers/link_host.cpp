#include <gd/network/workers/link_host.hpp>

#include <gd/pq/ensure.hpp>

#include <algorithm>
#include <utility>

namespace gd {

namespace {

std::int64_t microseconds(link_host::clock::duration x) {
  return std::chrono::duration_cast<std::chrono::microseconds>(x).count();
}

const link::offered_machine* find(const std::vector<link::offered_machine>& in,
                                  const std::string& fsm,
                                  std::int32_t version) {
  auto found = std::find_if(in.begin(), in.end(), [&](const auto& x) {
    return x.version == version && x.fsm == fsm;
  });
  return found != in.end() ? &*found : nullptr;
}

std::string joined_by(const char* separator,
                      const std::vector<std::string>& xs) {
  std::string out;
  for (const auto& x : xs)
    out += (out.empty() ? "" : separator) + x;
  return out;
}

} // namespace

link_host::link_host(std::string incarnation, settings how)
  : incarnation_(std::move(incarnation)), how_(std::move(how)) {
  // nop
}

std::optional<std::string> link_host::refusal(const link::join& x,
                                              const settings& how) {
  if (std::find(x.protocols.begin(), x.protocols.end(), link::protocol)
      == x.protocols.end())
    return "it speaks another protocol: expected "
           + std::to_string(link::protocol);
  if (x.incarnation.empty() || x.incarnation.size() > 1'024)
    return std::string{"its incarnation is empty or too long"};
  bool any = false;
  for (const auto& one : x.machines) {
    const auto* mine = find(how.machines, one.fsm, one.version);
    if (mine == nullptr)
      continue;
    any = true;
    if (mine->definition != one.definition)
      return "its machine " + one.fsm + " v" + std::to_string(one.version)
             + " is another than this node's: it has "
             + joined_by("|", one.definition) + ", expected "
             + joined_by("|", mine->definition)
             + "; change the version with the steps";
  }
  if (!any)
    return std::string{"this node has none of its machines"};
  if (std::none_of(x.queues.begin(), x.queues.end(), [&](const auto& one) {
        return std::find(how.queues.begin(), how.queues.end(), one)
               != how.queues.end();
      }))
    return "this node serves none of its queues (" + joined_by(", ", x.queues)
           + "), but " + joined_by(", ", how.queues);
  return std::nullopt;
}

// -- the connection ---------------------------------------------------------------

void link_host::join(const link::join& x, std::uint64_t epoch,
                     clock::time_point now) {
  channel_.begin(epoch);
  parting_ = false;
  why_.clear();
  node_ = x.node;
  work_ = credit_ = 0;
  wanted_.clear();
  bytes_ = 0;
  forget_sent();
  heard_at_ = now;
  machines_.clear();
  for (const auto& one : x.machines)
    if (find(how_.machines, one.fsm, one.version) != nullptr)
      machines_.push_back(one);
  auto named = x.holds;
  std::sort(named.begin(), named.end());
  link::joined answer{.epoch = epoch,
                      .node = how_.node,
                      .ping_us = microseconds(how_.ping),
                      .silence_us = microseconds(how_.silence)};
  for (auto i = held_.begin(); i != held_.end();) {
    auto next = std::next(i);
    if (std::binary_search(named.begin(), named.end(), i->first)) {
      resume(i->first, i->second);
      answer.resumed.push_back(i->first);
    } else {
      auto& one = i->second;
      if (one.now != state::reported)
        end(i, "the worker does not know of it any more", false);
      else { // completed for nobody
        one.forgotten = true;
        if (!std::exchange(one.over, true))
          tell(i->first, one, report::what::over);
      }
    }
    i = next;
  }
  for (const auto& one : machines_)
    answer.machines.push_back({one.fsm, one.version, {}});
  answer.limits = how_.limits;
  channel_.send(answer);
}

void link_host::cut(bool gone) {
  fail(gone ? "its connection has ended" : "another joining takes its place");
  if (gone)
    for (auto& x : reports_)
      x.process_gone = x.process_gone || x.kind == report::what::suspended;
}

void link_host::fail(const std::string& why) {
  if (!joined())
    return;
  channel_.end();
  why_ = why;
  for (auto& [which, one] : held_)
    if (one.now != state::completed && !std::exchange(one.suspended, true)
        && one.now == state::running)
      tell(which, one, report::what::suspended, why);
}

void link_host::resume(const key& which, entry& of) {
  if (std::exchange(of.suspended, false) && of.now == state::running)
    tell(which, of, report::what::resumed);
}

void link_host::close(const std::string& why) {
  if (!joined() || std::exchange(parting_, true))
    return;
  link::closing x;
  x.why = why;
  channel_.say(std::move(x));
}

void link_host::tell(const key& which, const entry& of, report::what kind,
                     std::string why) {
  report x;
  x.kind = kind;
  x.which = which;
  x.queue = of.queue;
  x.tag = of.tag;
  x.why = std::move(why);
  reports_.push_back(std::move(x));
}

void link_host::end(entries::iterator which, const std::string& why,
                    bool gone) {
  auto& one = which->second;
  if (one.now == state::running) {
    tell(which->first, one, report::what::crashed, why);
    reports_.back().process_gone = gone;
  }
  tell(which->first, one, report::what::over);
  held_.erase(which);
}

template <class T, class F>
void link_host::read(const link::packet& x, F f) {
  if (auto why = channel_.read<T>(x, std::move(f)); !why.empty())
    fail("the worker: " + why);
}

void link_host::receive(const link::packet& x, clock::time_point now) {
  if (joined())
    heard_at_ = now;
  switch (static_cast<link::kind>(x.type)) {
    case link::kind::credit:
      return read<link::credit>(
        x, [&](auto message) { on_credit(std::move(message), now); });
    case link::kind::outcome:
      return read_outcome(x);
    case link::kind::crashed:
      return read<link::crashed>(
        x, [this](auto message) { on_crashed(std::move(message)); });
    case link::kind::released:
      return read<link::released>(
        x, [this](auto message) { on_released(message); });
    case link::kind::over:
      return read<link::over>(x, [this](auto message) { on_over(message); });
    case link::kind::leaving:
      return read<link::leaving>(
        x, [this](const auto&) { close("as the worker wants"); });
    default: // of a newer worker: it counts, and means nothing here
      channel_.skip();
  }
}

// -- what the worker says -----------------------------------------------------------

void link_host::on_credit(link::credit x, clock::time_point now) {
  if (x.seq > work_)
    return fail("the worker has seen work that was not sent");
  credit_ = x.number;
  wanted_.clear();
  for (auto& one : x.rooms)
    if (std::ranges::find(how_.queues, one.queue) != how_.queues.end())
      wanted_[std::move(one.queue)] = std::clamp(one.rows, 0, 100'000);
  bytes_ = std::max<std::int64_t>(x.bytes, 0);
  for (; !sent_.empty() && sent_.front().number <= x.seq; sent_.pop_front()) {
    --sent_rows_[sent_.front().queue];
    sent_bytes_ -= sent_.front().bytes;
    ensure(sent_bytes_ >= 0, "what the worker has seen was counted once");
  }
  link::heard answer;
  answer.echo = credit_;
  answer.left_us = left(now);
  channel_.say(answer);
}

void link_host::read_outcome(const link::packet& packet) {
  auto message = link::unpack<link::outcome>(packet);
  if (!message)
    return fail("the worker: " + message.error().message);
  // Also of another joining: the token fences it.
  bool is_new = joined() && message->epoch == channel_.epoch();
  if (is_new)
    if (auto why_not = channel_.hear(*message))
      return fail("the worker: " + *why_not);
  on_outcome(std::move(*message), is_new);
}

void link_host::on_outcome(link::outcome x, bool is_new) {
  auto which = x.which();
  auto found = held_.find(which);
  report y;
  y.which = which;
  if (found == held_.end()) {
    y.queue = x.queue;
  } else {
    auto& one = found->second;
    if (one.now == state::completed && is_new) // it has not heard so
      return say_again(which, one, x.tries);
    // Told before; or another is on its way. If it has not heard that the last was
    // refused, it sends that again.
    if (one.now != state::running || (x.tries != one.tries && !is_new))
      return;
    one.tries = x.tries;
    one.now = state::reported;
    one.over = one.over || x.over;
    y.queue = one.queue;
    y.tag = one.tag;
  }
  y.outcome = std::move(x);
  reports_.push_back(std::move(y));
  if (found != held_.end() && found->second.over)
    tell(which, found->second, report::what::over);
}

void link_host::say_again(const key& which, const entry& of,
                          std::int32_t tries) {
  link::completed x;
  x.what = of.fate;
  x.tries = tries;
  channel_.say_of(which, std::move(x));
}

void link_host::on_crashed(link::crashed x) {
  auto found = held_.find(x.which());
  if (found == held_.end() || found->second.now != state::running)
    return;
  tell(found->first, found->second, report::what::crashed, std::move(x.why));
  reports_.back().took_us = x.took_us;
  reports_.back().told = true;
  tell(found->first, found->second, report::what::over);
  held_.erase(found);
}

void link_host::on_released(const link::released& x) {
  auto found = held_.find(x.which());
  if (found == held_.end() || found->second.now != state::running)
    return;
  tell(found->first, found->second, report::what::released);
  held_.erase(found);
}

void link_host::on_over(const link::over& x) {
  auto found = held_.find(x.which());
  if (found == held_.end() || std::exchange(found->second.over, true))
    return;
  tell(found->first, found->second, report::what::over);
  if (found->second.now == state::completed)
    held_.erase(found);
}

// -- executions -------------------------------------------------------------------

void link_host::forget_sent() {
  sent_.clear();
  sent_rows_.clear();
  sent_bytes_ = 0;
}

std::int32_t link_host::room(const std::string& queue) const {
  if (!joined() || parting_)
    return 0;
  auto found = wanted_.find(queue);
  if (found == wanted_.end() || bytes_left() <= 0)
    return 0;
  auto sent = sent_rows_.find(queue);
  auto out = sent == sent_rows_.end() ? 0 : sent->second;
  return std::max(found->second - out, 0);
}

bool link_host::takes(const std::string& queue, const std::string& fsm,
                      std::int32_t version, std::size_t bytes) const {
  if (room(queue) == 0 || find(machines_, fsm, version) == nullptr)
    return false;
  // One row that has more than all the room goes when nothing else is there.
  return static_cast<std::int64_t>(bytes) <= bytes_left()
         || (held_.empty() && sent_.empty());
}

void link_host::hand_out(const std::string& queue, std::uint64_t tag,
                         const key& which, store::picked_row row,
                         clock::time_point until, clock::time_point now) {
  auto [position, added] = held_.try_emplace(which);
  ensure(added, "an execution is handed out once");
  auto& one = position->second;
  one.queue = queue;
  one.tag = tag;
  one.since = now;
  one.until = until;
  link::work x;
  x.number = ++work_;
  x.echo = credit_;
  x.left_us = microseconds(until - now);
  x.queue = queue;
  x.row = std::move(row);
  x.row.partition_key.reset(); // its lock is the engine's
  sent_.push_back({x.number, queue, link::size_of(x.row)});
  ++sent_rows_[queue];
  sent_bytes_ += sent_.back().bytes;
  channel_.say_of(which, std::move(x));
}

bool link_host::complete(link::completed answer, std::uint64_t tag,
                         clock::time_point until, clock::time_point now) {
  auto found = held_.find(answer.which());
  bool goes_on = !answer.next_token.empty() && found != held_.end() && joined()
                 && !parting_;
  if (!goes_on)
    answer.next_token.clear();
  if (found != held_.end()) {
    auto& one = found->second;
    answer.tries = one.tries;
    if (answer.what == link::verdict::refused
        || answer.what == link::verdict::collided) {
      one.now = state::running;
      ++one.tries;
      if (one.forgotten)
        end(found, "the worker does not know of it any more", false);
      else if (one.suspended)
        tell(answer.which(), one, report::what::suspended, why_);
    } else {
      one.now = state::completed;
      one.fate = answer.what;
      proven_ = proven_ || answer.what == link::verdict::applied;
      if (goes_on) {
        auto& next = held_[{answer.id, answer.next_token}];
        next.queue = one.queue;
        next.tag = tag;
        next.since = now;
        next.until = until;
      }
      if (one.over)
        held_.erase(found);
    }
  }
  if (joined()) {
    answer.echo = credit_;
    answer.left_us = microseconds(until - now);
    channel_.say(std::move(answer));
  }
  return goes_on;
}

void link_host::lose(const key& which) {
  auto found = held_.find(which);
  if (found == held_.end() || !joined())
    return;
  channel_.say_of(which, link::lost{});
}

void link_host::drop(const std::string& queue) {
  for (auto i = held_.begin(); i != held_.end();) {
    auto next = std::next(i);
    if (i->second.queue == queue) {
      lose(i->first);
      held_.erase(i);
    }
    i = next;
  }
}

void link_host::extended(clock::time_point at, clock::time_point until) {
  for (auto& [which, one] : held_)
    if (!one.suspended && one.since <= at)
      one.until = std::max(one.until, until);
}

std::int64_t link_host::left(clock::time_point now) const {
  auto at = clock::time_point::max();
  for (const auto& [which, one] : held_)
    if (one.now == state::running)
      at = std::min(at, one.until);
  return at == clock::time_point::max()
           ? 0
           : std::max<std::int64_t>(microseconds(at - now), 0);
}

std::size_t link_host::suspended() const {
  return static_cast<std::size_t>(
    std::count_if(held_.begin(), held_.end(),
                  [](const auto& x) { return x.second.suspended; }));
}

// -- driving ----------------------------------------------------------------------

void link_host::tick(clock::time_point now) {
  if (joined() && now >= heard_at_ + how_.silence)
    fail("it has been silent for too long");
  if (joined())
    return;
  for (auto i = held_.begin(); i != held_.end();) {
    auto next = std::next(i);
    if (i->second.now != state::reported && now >= i->second.until + how_.slack)
      end(i, "its worker is gone: " + why_, false);
    i = next;
  }
}

link_host::clock::time_point link_host::due() const {
  if (joined())
    return heard_at_ + how_.silence;
  auto at = clock::time_point::max();
  for (const auto& [which, one] : held_)
    if (one.now != state::reported)
      at = std::min(at, one.until + how_.slack);
  return at;
}

} // namespace gd
