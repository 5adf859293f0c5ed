#pragma once

#include <gd/actors/messages.hpp>

#include <caf/actor.hpp>
#include <caf/error.hpp>
#include <caf/node_id.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <unordered_map>

namespace gd::actors {

/// The gateway with the messages that end its publishing, and tell how its peers
/// read.
using gateway_portal_impl
  = extended<gateway, void(link_message), rows_noted(rows_due),
             void(close_portal), void(peer_unread), void(tick)>;

/// What a portal knows of the network beside the messages.
struct portal_network {
  /// Bytes that a peer may leave unread; all of them together twice as much.
  std::size_t most_unread = std::numeric_limits<std::size_t>::max() / 2;
  /// Requests of a peer that may be open.
  std::size_t most_open = std::numeric_limits<std::size_t>::max();
  /// Told that a message of a peer is out of the mailbox, so that more may come.
  std::function<void(const caf::node_id&)> taken = [](const auto&) {};
  /// Asks how many they are: what it is given is called once, by another thread.
  std::function<void(const caf::node_id&, std::function<void(std::size_t)>)>
    ask_unread = [](const auto&, const auto& answer) { answer(0); };
  /// Ends a peer's connection.
  std::function<void(const caf::node_id&)> cut_off = [](const auto&) {};
  /// Who gets what workers say; it may be null.
  std::function<caf::actor()> find_links = [] { return caf::actor{}; };
  /// Another node tells of rows that are due.
  std::function<void(rows_due)> on_rows_due = [](const auto&) {};
};

/// What other nodes hold: stands before the door. Nothing that a peer sends ends
/// it, and the peer sees no other actor of ours: answers come from here, too. A peer
/// that does not read them gets no more of what is long.
class gateway_portal : public sturdy<gateway_portal_impl::base> {
public:
  /// `closed` is set when it has ended and all its answers have been sent.
  gateway_portal(caf::actor_config& cfg, gateway door,
                 std::shared_ptr<std::promise<void>> closed,
                 portal_network network = {});

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.gateway_portal";
  }

private:
  /// What is on its way to a peer.
  struct peer {
    /// Its requests that are not answered.
    std::size_t open = 0;
    std::uint64_t sent = 0;
    /// Of `sent`, so much when it was asked for last.
    std::uint64_t asked_at = 0;
    /// What was unread then, as far as it is known.
    std::size_t unread = 0;
    bool asking = false;
  };

  /// Whom a message comes from. Each handler asks first: the guard lets no more come than
  /// what has been taken makes room for.
  caf::node_id take_message();
  /// Whether an answer of that size may still be sent.
  bool may_send(const caf::node_id& to, std::size_t bytes);
  void sent(const caf::node_id& to, std::size_t bytes);
  void ask_unread(const caf::node_id& of);
  void read_unread(const peer_unread& what);
  void keep_to_unread();

  template <class Row>
  caf::result<typename Row::answer> pass(typename Row::asked& x);

  gateway door_;
  std::shared_ptr<std::promise<void>> closed_;
  portal_network network_;
  /// Those that have something on its way.
  std::unordered_map<caf::node_id, peer> peers_;
  /// What is unread or on its way, of all of them.
  std::size_t unread_ = 0;
  /// A tick is under way, after which they are asked again.
  bool asks_again_ = false;
  std::uint64_t tickets_ = 0;
  /// How to refuse each request that is not answered.
  std::unordered_map<std::uint64_t, std::function<void(const caf::error&)>>
    open_;
};

} // namespace gd::actors
