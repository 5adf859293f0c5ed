#pragma once

#include <gd/actors/compat.hpp>
#include <gd/actors/messages.hpp>
#include <gd/actors/node/registration.hpp>
#include <gd/actors/node/self.hpp>

#include <gd/config.hpp>
#include <gd/engine/intake/end_watch.hpp>
#include <gd/engine/intake/refused_rows.hpp>
#include <gd/engine/intake/shares.hpp>
#include <gd/engine/queue/claim_slots.hpp>
#include <gd/engine/queue/elsewhere.hpp>
#include <gd/engine/queue/held_bytes.hpp>
#include <gd/engine/queue/key.hpp>
#include <gd/engine/queue/quarantine.hpp>
#include <gd/engine/step/step_sessions.hpp>
#include <gd/pq/database.hpp>
#include <gd/registry.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gd::actors {

/// Numbers that one actor can use before it meets the next one's range.
constexpr std::uint64_t token_range = std::uint64_t{1} << 40;

/// What the children of the supervisor are: the backend of the gateway, heartbeat,
/// reaper, a picker for each queue; where the gateway is published, links for workers, and
/// who exchanges hints with other nodes.
enum class role : std::uint8_t {
  backend,
  heartbeat,
  reaper,
  links,
  picker,
  hints, // the last
};

/// The supervisor's children that are there, for hints from anywhere. `queue` is a
/// picker's; the others have none.
class actor_directory {
public:
  void set(role what, const std::string& queue, caf::actor child) {
    std::lock_guard guard{mutex_};
    of(what)[queue] = std::move(child);
  }

  void clear() {
    std::lock_guard guard{mutex_};
    for (auto& children : by_role_)
      children.clear();
  }

  /// Null: there is none.
  caf::actor find(role what, std::string_view queue = {}) {
    std::lock_guard guard{mutex_};
    auto& children = of(what);
    auto found = children.find(queue);
    return found != children.end() ? found->second : nullptr;
  }

private:
  using by_queue = std::map<std::string, caf::actor, std::less<>>;

  by_queue& of(role what) {
    return by_role_[static_cast<std::size_t>(what)];
  }

  std::mutex mutex_;
  std::array<by_queue, static_cast<std::size_t>(role::hints) + 1> by_role_;
};

/// How many actors run user code that may take long at the same time, in all
/// engines of an actor system: one of CAF's threads is left for everybody else.
/// Those that have to wait do so in the order of their coming.
class run_permits {
public:
  explicit run_permits(std::size_t most) : most_(most) {
    // nop
  }

  /// False: `who` gets a `may_run` when its turn comes.
  bool take(const caf::actor& who) {
    std::lock_guard guard{mutex_};
    if (holding_.size() < most_) {
      holding_.insert(who.id());
      return true;
    }
    waiting_.push_back(who);
    return false;
  }

  /// False: others come first, and `who` gets a `may_run` after them.
  bool keep(const caf::actor& who) {
    std::unique_lock guard{mutex_};
    if (waiting_.empty())
      return true;
    waiting_.push_back(who);
    holding_.erase(who.id());
    pass_on(std::move(guard));
    return false;
  }

  /// Whatever it has, or waits for.
  void leave(caf::actor_id who) {
    std::unique_lock guard{mutex_};
    std::erase_if(waiting_, [who](const auto& x) { return x.id() == who; });
    if (holding_.erase(who) > 0)
      pass_on(std::move(guard));
  }

private:
  void pass_on(std::unique_lock<std::mutex> guard) {
    if (waiting_.empty())
      return;
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    holding_.insert(next.id());
    guard.unlock();
    anon(next, may_run{});
  }

  std::mutex mutex_;
  const std::size_t most_;
  std::set<caf::actor_id> holding_;
  std::deque<caf::actor> waiting_;
};

/// Of all engines and workers in an actor system: they share its threads.
std::shared_ptr<run_permits> permits_of(caf::actor_system& sys);

/// Steps that have been told to be slow: each is told once.
class told_steps {
public:
  /// False: it was added before.
  bool add(const store::picked_row& of) {
    std::lock_guard guard{mutex_};
    return told_.emplace(of.fsm, of.fsm_version, of.step).second;
  }

private:
  std::mutex mutex_;
  std::set<std::tuple<std::string, std::int32_t, std::string>> told_;
};

/// Which queues operators have paused, as the node has seen last.
class paused_queues {
public:
  /// All are, until it is known which ones.
  void forget() {
    std::lock_guard guard{mutex_};
    known_ = false;
  }

  /// False: nothing has changed.
  bool update(const std::vector<std::string>& now) {
    std::lock_guard guard{mutex_};
    std::set<std::string> names{now.begin(), now.end()};
    if (std::exchange(known_, true) && names == names_)
      return false;
    names_ = std::move(names);
    return true;
  }

  bool known() const {
    std::lock_guard guard{mutex_};
    return known_;
  }

  bool contains(const std::string& queue) const {
    std::lock_guard guard{mutex_};
    return !known_ || names_.contains(queue);
  }

private:
  mutable std::mutex mutex_;
  bool known_ = true;
  std::set<std::string> names_;
};

/// What comes later, if at all: null until then.
template <class T>
class set_once {
public:
  /// False: there is one already.
  bool set(std::shared_ptr<T> x) {
    std::lock_guard guard{mutex_};
    if (there_)
      return false;
    there_ = std::move(x);
    return true;
  }

  std::shared_ptr<T> get() const {
    std::lock_guard guard{mutex_};
    return there_;
  }

private:
  mutable std::mutex mutex_;
  std::shared_ptr<T> there_;
};

/// What the network knows of other nodes, where a gateway is published. To be used by any
/// thread.
class far_nodes {
public:
  virtual ~far_nodes() = default;

  /// Bytes of answers that one may leave unread.
  virtual std::size_t most_unread() const = 0;
  /// Asks how many they are: `answer` is called once, by another thread.
  virtual void ask_unread(const caf::node_id& of,
                          std::function<void(std::size_t)> answer)
    = 0;
  /// A message is out of where it waited: more may come.
  virtual void taken(const caf::node_id& from) = 0;
  /// It asks for more than its share: it is to be read more slowly.
  virtual void refused(const caf::node_id& from) = 0;
  virtual void cut_off(const caf::node_id& which, std::string why) = 0;
};

/// How many ids the gateway has drawn for what is due now, of which it tells the
/// pickers itself.
struct drawn_ids {
  std::atomic<std::int64_t> instances = 0;
  std::atomic<std::int64_t> signals = 0;
};

/// What the actors of a node share.
struct node {
  gd::config config;
  std::shared_ptr<const registry> machines;
  /// "<node>/<random 128 bits>".
  std::string incarnation;
  /// As it is known to the others.
  std::shared_ptr<registration> known_as = std::make_shared<registration>(
    store::node_record{});
  /// Of numbers of picks and claims, over all queues and restarts: each picker and
  /// each gateway starts a range of its own.
  std::atomic<std::uint64_t> token_ranges = 0;
  drawn_ids drawn;
  paused_queues paused;
  lease_table leases;
  std::shared_ptr<claim_slots> claims = std::make_shared<claim_slots>();
  std::shared_ptr<key_table> keys = std::make_shared<key_table>();
  std::shared_ptr<gd::quarantine> quarantine
    = std::make_shared<gd::quarantine>();
  /// Where rows run that this node hands out: nowhere, until it lets workers in.
  set_once<elsewhere> workers;
  actor_directory children;
  std::shared_ptr<run_permits> permits = std::make_shared<run_permits>(1);
  told_steps slow_steps;
  /// Of rows whose outcome is not written yet, and of outcomes.
  common_bytes of_rows = std::make_shared<std::atomic<std::int64_t>>(0);
  common_bytes of_outcomes = std::make_shared<std::atomic<std::int64_t>>(0);
  /// What the gateway has been asked and has not answered; and what workers have said
  /// and their links have not read.
  shared_room asked;
  shared_room said;
  /// Of whom the gateway has been asked how they end.
  std::shared_ptr<awaited_ids> awaited = std::make_shared<awaited_ids>();
  /// The same of other nodes' gateways.
  awaited_ids awaited_elsewhere;
  set_once<far_nodes> far;
  refused_rows refused;
  std::shared_ptr<database> db;
  /// Null: the node has no database of its own.
  std::shared_ptr<gd::step_sessions> step_sessions;

  /// The reactor's connection slots beside those of `connections`: what the gateway is
  /// asked that writes nothing; and what takes long, and nobody else may wait for.
  std::size_t read_slot() const {
    return static_cast<std::size_t>(config.connections);
  }
  std::size_t long_read_slot() const {
    return read_slot() + 1;
  }
  /// In events, of connections of steps: no connection slot of the reactor.
  std::size_t step_slot() const {
    return long_read_slot() + 1;
  }

  /// What a queue may hold of these, whatever the others do: half is divided among them.
  held_bytes hold(const common_bytes& of) const {
    return {of, config.bytes_held, bytes_of_queue()};
  }
  std::int64_t bytes_of_queue() const {
    auto queues = std::max<std::size_t>(config.queues.size(), 1);
    return config.bytes_held / (2 * static_cast<std::int64_t>(queues));
  }

  /// A step begins.
  void begin(lease& under, database::clock::time_point at) const {
    under.begin(at);
    if (under.suspect)
      quarantine->began(under.id, at);
  }

  void tell(const event& what) const {
    config.on_event(what);
  }

  void tell_not_served(not_served_row x) const {
    auto machine = x.fsm + " v" + std::to_string(x.version);
    if (x.version_served)
      tell(events::queue_not_served{std::move(machine), std::move(x.queue)});
    else
      tell(events::version_not_served{std::move(machine), std::move(x.queue)});
  }

  bool anybody_awaits(std::int64_t id) const {
    return (awaited->any() && awaited->contains(id))
           || (awaited_elsewhere.any() && awaited_elsewhere.contains(id));
  }

  /// An instance has ended, and the commit is known: whoever awaits that is told.
  void see_end(const gd::awaited& how) {
    if (auto backend = children.find(role::backend))
      anon(backend, instance_ended{how});
    if (awaited_elsewhere.contains(how.id))
      if (auto hints = children.find(role::hints))
        anon(hints, instance_ended{how});
  }

  /// There may be rows to pick in these queues: tells their pickers, those that
  /// there are. What is inserted from now on does not overtake them. `for_others`: nodes
  /// that have published their gateways are told of what this one leaves to them.
  void wake(const std::vector<std::string>& queues, bool anywhere,
            bool for_others = true) {
    for (const auto& queue : queues) {
      claims->close(queue);
      if (auto picker = children.find(role::picker, queue))
        anon(picker, hint{anywhere, for_others});
      else if (for_others)
        leave_to_others(queue, anywhere);
    }
  }

  /// Rows are due in that queue, and nobody here picks them at once.
  void leave_to_others(const std::string& queue, bool anywhere) {
    if (auto hints = children.find(role::hints))
      anon(hints, due_backlog{queue, anywhere});
  }

  /// The same for all of them, of rows that are due since now.
  void wake_all() {
    for (const auto& queue : config.queues)
      wake({queue.name}, false, false); // the others look, too
  }

  /// Some of the machines have been withdrawn: tells the pickers.
  void tell_withdrawn() {
    tell_pickers(machines_withdrawn{});
  }

  /// Operators have paused these queues, and no others: tells the pickers, if that is
  /// new.
  void see_paused(const std::vector<std::string>& queues) {
    if (paused.update(queues))
      tell_pickers(pauses_changed{});
  }

  template <class Message>
  void tell_pickers(Message what) {
    for (const auto& queue : config.queues)
      if (auto picker = children.find(role::picker, queue.name))
        anon(picker, what);
  }
};

using node_ptr = std::shared_ptr<node>;

class engine;

/// What the actors of an engine share: for tests that interfere with them.
node_ptr inside(const engine& x);

/// Submits a unit whose reply comes to `self` as `unit_done` with `ticket`; an
/// actor that is gone by then gets nothing.
template <class Self>
void submit(Self* self, database& db, std::size_t connection_slot,
            pq::unit&& work, std::uint64_t ticket,
            database::patience how = {}) {
  db.submit(
    connection_slot, std::move(work),
    [to = weak_ref{self}, ticket](pq::reply reply) {
    to.tell(unit_done{ticket, std::make_shared<pq::reply>(std::move(reply))});
    },
    how);
}

} // namespace gd::actors
