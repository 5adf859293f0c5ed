#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/actors/node/self.hpp>
#include <gd/network/workers/link_desk.hpp>

#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace gd::actors {

/// Speaks to the workers of an engine's node, for its `link_desk`: what they say comes in
/// by the published gateway. Nobody else's actor is known to them.
class links_actor : public caf::event_based_actor {
public:
  links_actor(caf::actor_config& cfg, node_ptr home,
              std::shared_ptr<link_desk> desk);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.links";
  }

private:
  using clock = link_desk::clock;

  void receive(link_arrived& x);
  bool has_many(const caf::node_id& which) const;
  void down(link_desk::peer who);
  void drive();
  void send();

  node_ptr home_;
  std::shared_ptr<link_desk> desk_;
  watcher watcher_;
  link_desk::peer numbers_ = 0;
  std::unordered_map<caf::actor_addr, link_desk::peer> known_;
  std::unordered_map<link_desk::peer, caf::actor> peers_;
  alarm alarm_;
};

} // namespace gd::actors
