#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/actors/node/self.hpp>

#include <gd/pq/database.hpp>

#include <caf/event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace gd::actors {

/// Between two hints to a node, and between two that it minds.
constexpr std::chrono::milliseconds hint_window{5};

/// Finds another node's gateway, and calls back, from any thread.
using gateway_finder = std::function<void(
  const std::string& address, std::function<void(result<held_gateway>)> tell)>;

/// Instances whose ends other nodes want to be told of, and who does. Those that came long
/// ago, or before many others, are forgotten.
class wanted_ends {
public:
  using clock = database::clock;

  /// `watched` gets their ids.
  explicit wanted_ends(awaited_ids& watched) : watched_(watched) {
    // nop
  }

  void add(std::int64_t id, const std::string& who, clock::time_point now);

  /// Who wanted to be told of it, and has not been.
  std::set<std::string> take(std::int64_t id);

private:
  using by_id = std::map<std::int64_t, std::set<std::string>>;

  awaited_ids& watched_;
  by_id young_;
  by_id old_;
  clock::time_point aged_at_{};
};

/// Tells the other nodes of rows that this one leaves to them, and hears what they
/// leave to it; and the same of ends that somebody awaits at another node. Asks for others when there is something to tell, never by itself. Each
/// of them has one hint under way at the most, so that one which is stopped holds up
/// nobody, and nothing waits for it.
class hints_actor : public caf::event_based_actor {
public:
  hints_actor(caf::actor_config& cfg, node_ptr home, gateway_finder find);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.hints";
  }

private:
  using clock = database::clock;
  /// Queues, and whether their rows may be anywhere.
  using due_queues = std::map<std::string, bool, std::less<>>;

  /// What is to be told.
  struct news {
    due_queues due{};
    std::set<std::int64_t> awaited{};
    std::set<std::int64_t> ended{};

    bool empty() const {
      return due.empty() && awaited.empty() && ended.empty();
    }
    /// What one hint has room for; the rest stays.
    node_hint take(const std::string& sender);
  };

  struct remote_node {
    std::string address;
    std::set<std::string, std::less<>> queues;
    /// Null: it is to be found.
    caf::actor handle{};
    std::shared_ptr<void> connection{};
    struct news news {};
    /// The hint under way; zero: none.
    std::uint64_t asked = 0;
    clock::time_point next{};
    /// How often in a row it could not be reached, or has not answered.
    std::int64_t failures = 0;
  };

  void leave(const due_backlog& what);
  void await_ends(const ends_awaited& what);
  void see_end(std::int64_t id);
  void find_remote_nodes(clock::time_point now);
  void read_remote_nodes(const pq::reply& reply);
  void tell(const std::string& who, remote_node& to, clock::time_point now);
  void answered(const std::string& who, std::uint64_t ticket, bool well);
  void find(const std::string& who, const remote_node& what);
  void found(const remote_node_found& what);
  void lose(remote_node& which, clock::time_point now);
  void hear(const node_hint& what);
  void wake_here(clock::time_point now);
  void tell_all();

  node_ptr home_;
  gateway_finder finder_;
  watcher watcher_;
  /// By incarnation.
  std::map<std::string, remote_node> remote_nodes_;
  std::optional<clock::time_point> found_at_;
  bool finding_nodes_ = false;
  /// What was left while nobody knew the others.
  due_queues unheard_;
  std::set<std::int64_t> unheard_awaited_;
  wanted_ends wanted_;
  bool finding_ = false;
  std::uint64_t tickets_ = 0;
  /// What others have left to this node, and when its pickers may hear of it.
  due_queues here_;
  clock::time_point here_at_{};
  alarm alarm_;
};

/// An address that a node tells, of two: on its host, and on others, or empty.
std::string join_addresses(const std::string& here,
                           const std::string& elsewhere);
/// The one of them that is for this host; empty: none is.
std::string address_for(const std::string& address, bool same_host);

/// Who tells others what is due for them, and hears of it from them.
caf::actor spawn_hints(caf::actor_system& sys, const node_ptr& home);

/// Tells others where this node's gateway is found. `secret`: of the port; at those of others,
/// too.
void announce(const node_ptr& home, const std::string& address,
              const std::string& secret);

} // namespace gd::actors
