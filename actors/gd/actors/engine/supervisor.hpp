#pragma once

#include <gd/actors/node/node.hpp>

#include <caf/event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gd::actors {

class change_watcher;

/// What the engine's handle waits for.
struct engine_end {
  /// Set once all actors of the engine are gone.
  std::promise<void> ended;
  /// Written before `ended` is set, and by nobody later.
  std::optional<error> why;
  /// Called when the engine gives up by itself.
  std::function<void(const error&)> on_failure;
};

/// Starts the actors of a node, watches them, and starts those again that
/// crash, with backoff. Crashes are down messages: nothing is caught.
class supervisor_actor : public caf::event_based_actor {
public:
  /// Adopts the gateway's first backend: users may talk to it before this actor
  /// has run for the first time.
  supervisor_actor(caf::actor_config& cfg, node_ptr home,
                   caf::actor gateway_handle, caf::actor backend,
                   std::shared_ptr<engine_end> end);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.supervisor";
  }

private:
  struct child {
    role what;
    std::string queue; ///< a picker's
    std::function<caf::actor()> spawn;
    caf::actor handle{};
    int crashes = 0;
    database::clock::time_point started{};
  };

  void add(role what, std::string queue, std::function<caf::actor()> spawn);
  void open(let_others_in x);
  void add_pickers();
  caf::actor spawn_gateway();
  void start(std::size_t index);
  void down(std::size_t index, const caf::error& why);
  void finish(std::uint64_t ticket, const pq::reply& reply);
  void inspect_server();
  void read_inspection(const pq::reply& reply);
  /// The engine gives up by itself.
  void fail(const error& why);
  /// What a picker has left behind.
  void count(const drained& left);
  void begin_draining(std::chrono::milliseconds grace);
  void finish_if_drained();
  void say_farewell();

  node_ptr home_;
  caf::actor gateway_handle_;
  caf::actor first_backend_;
  std::shared_ptr<engine_end> end_;
  watcher watcher_;
  std::vector<child> children_;
  /// Null: not wanted, or the node drains.
  std::shared_ptr<change_watcher> change_watcher_;
  bool draining_ = false;
  bool leaving_ = false;
  /// Connection slots on which the farewell has not been said yet.
  std::size_t farewells_ = 0;
  events::node_stopped summary_;
};

} // namespace gd::actors
