#include <gd/actors/node/registration.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// A process that was killed lives for a moment, until the server has noticed: who
/// is started at once in its place asks again for so long.
constexpr milliseconds differs_at_most{2'000};

/// Where the answer stands among those of the control slot's units.
constexpr std::size_t locked_at = 1;
constexpr std::size_t registered_at = 4;
constexpr std::size_t replaced_at = 3;
constexpr std::size_t replaced_at_beat = 2;

std::string title_of(const std::string& fsm, std::int32_t version) {
  return fmt::format("{} v{}", fsm, version);
}

std::string definition_of(const store::known_machine& x) {
  return fmt::format("{}", fmt::join(store::definition(x), "|"));
}

/// What its inserts get.
std::string beginning_of(const store::known_machine& x) {
  auto out = fmt::format("step {}, queue {}, {}", x.initial_step, x.queue,
                         x.history == 0   ? "no history"
                         : x.history == 1 ? "history of steps"
                                          : "history of steps and states");
  if (x.keep_us)
    out += fmt::format(" for {} s", *x.keep_us / 1'000'000);
  if (x.forget_us)
    out += fmt::format(", dedup keys for {} s", *x.forget_us / 1'000'000);
  for (auto [status, us] : {std::pair{"done", x.retention.done},
                            std::pair{"failed", x.retention.failed}})
    if (us)
      out += fmt::format(", what is {} for {} s", status, *us / 1'000'000);
  return out;
}

} // namespace

registration::registration(store::node_record who,
                           std::shared_ptr<const registry> machines,
                           std::function<void()> on_withdrawn)
  : machines_(std::move(machines)),
    on_withdrawn_(std::move(on_withdrawn)),
    who_(std::move(who)) {
  // nop
}

pq::unit registration::greeting(std::size_t connection_slot,
                                milliseconds wait) const {
  std::lock_guard guard{mutex_};
  pq::unit work{{store::lock_timeout(wait)}};
  auto add = [&work](pq::call x) { work.calls.push_back(std::move(x)); };
  if (connection_slot != database::control_slot) {
    add(store::register_session(who_));
    return work;
  }
  add(store::node_lock(who_.incarnation, wait));
  add(store::machines_lock());
  if (registered_) {
    add(store::replaced_machines(who_.machines));
  } else {
    add(store::refuse_other_steps(who_.incarnation, who_.machines));
    add(store::register_machines(who_.machines));
  }
  add(store::register_session(who_));
  add(store::mark_served({}, !registered_));
  add(store::follow_timeline());
  return work;
}

result<void> registration::heard(std::size_t connection_slot,
                                 const pq::reply& reply, clock::time_point now,
                                 std::vector<event>& to) {
  if (connection_slot != database::control_slot || registered()) {
    // That a stranger has locked what it needs hinders nobody: a beat says it
    // again.
    if (!reply.ok() && reply.failure->code != errc::busy)
      return *reply.failure;
    if (reply.ok() && connection_slot == database::control_slot) {
      compare(reply.results[replaced_at], to);
      follow(reply.results.back(), to);
    }
    return {};
  }
  std::lock_guard guard{mutex_};
  if (reply.ok()) {
    // Without it nobody could tell that this node lives.
    if (!reply.results[locked_at].boolean(0, 0))
      return error{
        errc::busy,
        "another session has the lock that says that this node lives",
        {}};
    registered_ = true;
    tell_changes(reply.results[registered_at], to);
    follow(reply.results.back(), to);
    return {};
  }
  auto why = *reply.failure;
  if (why.code != errc::machine_differs)
    return why;
  if (!differs_since_)
    differs_since_ = now;
  if (now - *differs_since_ < differs_at_most)
    why.code = errc::unavailable;
  return why;
}

pq::unit registration::beat(std::size_t connection_slot,
                            milliseconds wait) const {
  std::lock_guard guard{mutex_};
  pq::unit work{{store::lock_timeout(wait)}};
  if (connection_slot == database::control_slot) {
    work.calls.push_back(store::node_lock(who_.incarnation, wait));
    work.calls.push_back(store::replaced_machines(who_.machines));
  }
  work.calls.push_back(store::register_session(who_));
  return work;
}

void registration::heard_beat(std::size_t connection_slot,
                              const pq::reply& reply, std::vector<event>& to) {
  if (connection_slot == database::control_slot && reply.ok())
    compare(reply.results[replaced_at_beat], to);
}

void registration::publish(std::string address, const std::string& secret) {
  std::lock_guard guard{mutex_};
  who_.address = std::move(address);
  if (!secret.empty())
    secret_ = secret;
}

std::string registration::secret() const {
  std::lock_guard guard{mutex_};
  return secret_;
}

std::string registration::host() const {
  std::lock_guard guard{mutex_};
  return who_.host;
}

bool registration::registered() const {
  std::lock_guard guard{mutex_};
  return registered_;
}

void registration::follow(const pq::rows& row, std::vector<event>& to) {
  auto now = store::read_one<store::followed_timeline>(row).value_or(
    store::followed_timeline{});
  auto before = timeline_.exchange(now.timeline);
  // Another node, or somebody who drew ids, may have been the first to see it.
  if (now.raised || (before != 0 && before != now.timeline))
    to.emplace_back(events::ids_raised{now.timeline, now.last_id + 1});
}

void registration::compare(const pq::rows& with, std::vector<event>& to) {
  auto replaced = store::read_declared<store::replaced_machine>(with);
  std::unique_lock guard{mutex_};
  std::erase_if(replaced, [this](const auto& x) {
    return std::erase_if(
             who_.machines,
             [&x](const auto& mine) {
      return mine.fsm == x.fsm && mine.version == x.version;
             })
      == 0;
  });
  guard.unlock();
  for (const auto& x : replaced) {
    to.emplace_back(
      events::machine_withdrawn{title_of(x.fsm, x.version), definition_of(x)});
    if (machines_)
      machines_->withdraw(x.fsm, x.version);
  }
  if (!replaced.empty() && on_withdrawn_)
    on_withdrawn_();
}

void registration::tell_changes(const pq::rows& rows,
                                std::vector<event>& to) const {
  for (const auto& x : store::read_declared<store::changed_machine>(rows)) {
    auto mine = std::find_if(who_.machines.begin(), who_.machines.end(),
                             [&x](const auto& y) {
      return y.fsm == x.fsm && y.version == x.version;
    });
    if (mine == who_.machines.end())
      continue;
    auto title = title_of(x.fsm, x.version);
    if (x.replaced)
      to.emplace_back(events::machine_replaced{title, definition_of(x),
                                               definition_of(*mine)});
    if (auto before = beginning_of(x), now = beginning_of(*mine); before != now)
      to.emplace_back(events::machine_changed{title, before, now});
  }
}

} // namespace gd::actors
