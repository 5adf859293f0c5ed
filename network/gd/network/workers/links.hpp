#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/actors/node/self.hpp>
#include <gd/network/workers/worker_hub.hpp>

#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace gd::actors {

/// Speaks to the workers of an engine's node, for its `worker_hub`: what they say comes
/// in by the published gateway. Nobody else's actor is known to them.
class links_actor : public caf::event_based_actor {
public:
  links_actor(caf::actor_config& cfg, node_ptr home,
              std::shared_ptr<worker_hub> hub);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.links";
  }

private:
  using clock = worker_hub::clock;

  void receive(link_arrived& x);
  bool has_many(const caf::node_id& which) const;
  void down(worker_hub::connection_id who);
  void drive();
  void send();

  node_ptr home_;
  std::shared_ptr<worker_hub> hub_;
  watcher watcher_;
  worker_hub::connection_id numbers_ = 0;
  std::unordered_map<caf::actor_addr, worker_hub::connection_id> known_;
  std::unordered_map<worker_hub::connection_id, caf::actor> connections_;
  alarm alarm_;
};

} // namespace gd::actors
