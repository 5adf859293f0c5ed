#pragma once

#include <gd/actors/node/node.hpp>
#include <gd/network/wire/relay.hpp>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace gd::actors {

/// CAF's own actor for connections between nodes.
caf::actor broker_of(caf::actor_system& sys);

/// Those that are connected to an engine's published gateway, at any of its endpoints.
class connected_nodes : public far_nodes,
                        public std::enable_shared_from_this<connected_nodes> {
public:
  connected_nodes(caf::actor_system& sys, const node_ptr& home)
    : sys_(sys), home_(home) {
    // nop
  }

  /// Of the endpoint that lets them leave most.
  std::size_t most_unread() const override {
    return most_unread_;
  }
  void let_leave(std::size_t unread);
  void ask_unread(const caf::node_id& of,
                  std::function<void(std::size_t)> answer) override;
  void taken(const caf::node_id& from) override;
  void refused(const caf::node_id& from) override;
  void cut_off(const caf::node_id& which, std::string why) override;

  /// One has come to that endpoint, whose relay `wake` wakes. All connections of a node
  /// have one count.
  std::shared_ptr<peer_count> come(const caf::node_id& which, const void* to,
                                   std::function<void()> wake);
  /// Nothing is left of its connections.
  void gone(const caf::node_id& which);
  /// The endpoint goes.
  void leave(const void* endpoint);

private:
  struct connected {
    std::shared_ptr<peer_count> count;
    const void* endpoint;
    std::function<void()> wake;
  };
  struct question {
    caf::node_id of;
    std::function<void(std::size_t)> answer;
  };

  /// By the middleman's thread.
  void answer_questions();

  caf::actor_system& sys_;
  std::weak_ptr<node> home_;
  std::atomic<std::size_t> most_unread_ = 0;
  std::mutex mutex_;
  std::unordered_map<caf::node_id, connected> nodes_;
  std::vector<question> questions_;
};

} // namespace gd::actors
