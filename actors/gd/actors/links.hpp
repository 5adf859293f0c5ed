#pragma once

#include <gd/actors/node.hpp>

#include <caf/event_based_actor.hpp>

#include <cstdint>
#include <unordered_map>

namespace gd::actors {

/// Speaks to the workers of an engine's node, for its `link_desk`: what they say comes in
/// by the published gateway. Nobody else's actor is known to them.
class links_actor : public caf::event_based_actor {
public:
  links_actor(caf::actor_config& cfg, node_ptr home);

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
  watcher watcher_;
  link_desk::peer numbers_ = 0;
  std::unordered_map<caf::actor_addr, link_desk::peer> known_;
  std::unordered_map<link_desk::peer, caf::actor> peers_;
  clock::time_point wake_at_ = clock::time_point::max();
  std::uint64_t generation_ = 0;
};

} // namespace gd::actors
