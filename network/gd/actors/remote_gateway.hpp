#pragma once

#include <gd/actors/messages.hpp>

#include <gd/error.hpp>
#include <gd/event.hpp>

#include <caf/node_id.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

/// \file
/// The gateway of engines elsewhere, for programs that stay while those come and go.
namespace gd::actors {

/// Which requests are sent again when their answer was lost with the connection.
enum class send_again {
  /// Signals with a dedup key and inserts with a unique key (of an `insert_all`, each), and
  /// what only asks. An insert whose instance has ended meanwhile, and with it left its key,
  /// makes another one; a signal by key may meet another instance.
  keyed,
  /// Of these, what cannot happen twice whatever ends: signals by id, and inserts whose
  /// `unique_scope` has `done` and `failed`.
  lasting,
};

/// What a gateway's client goes by.
struct reach_options {
  /// For addresses that are ports: the secret of their engines, a file of mode 0600. Sockets
  /// need none.
  std::string secret{};
  /// How long a request may wait to be sent, and sent again, from its arrival on. Then it is
  /// answered `unavailable` if it cannot have happened, else `unknown_fate`.
  std::chrono::milliseconds patience{8'000};
  /// How long its answer may take while the gateway lives; then it is `unknown_fate`.
  std::chrono::milliseconds answer_within{60'000};
  /// For each attempt to connect; the end of an actor system may have to wait for one.
  std::chrono::milliseconds connect_timeout{2'000};
  /// How long a gateway may say nothing until it is asked whether it lives.
  std::chrono::milliseconds ping{1'000};
  /// A gateway that has been asked something, and says nothing for so long, is given up. At
  /// least twice `ping`, and longer than the longest answer is on its way.
  std::chrono::milliseconds silence{3'000};
  /// Between attempts, in the end.
  std::chrono::milliseconds longest_pause{5'000};
  /// Requests that are not answered, at the most; more are `overloaded`.
  std::size_t requests = 10'000;
  /// The same in bytes, unless one alone has more.
  std::size_t bytes = 16 << 20;
  /// Of these, sent and not answered; the others wait.
  std::size_t open = 500;
  /// What is sent again.
  send_again again = send_again::keyed;
  /// True: `reach` tries each address once before it returns, and returns why, if there is no
  /// gateway.
  bool connect_first = false;
  /// Gets `gateway_reached` and `gateway_lost`.
  event_sink on_event = log_to_stderr();
};

class connected_node;

/// The handle of what `reach` has started: a gateway in this actor system, which stands for
/// one elsewhere. Stops it when it goes; has to go before the actor system.
class remote_gateway {
public:
  /// One that was moved from can only be destroyed or assigned to.
  remote_gateway(remote_gateway&& other) noexcept;
  /// Stops what it held before.
  remote_gateway& operator=(remote_gateway&& other) noexcept;
  ~remote_gateway();

  /// What to send requests to. Each is answered, once; it needs no timeout.
  const actors::gateway& gateway() const {
    return handle_;
  }

  /// CAF's name of the node that it is connected to; null while there is no connection. Other
  /// actors of that process are found by it and by the name under which its registry has them
  /// (`caf::io::middleman::remote_lookup`), and are down when the connection ends.
  caf::node_id node() const;

  /// Answers what is open (`stopped`, or `unknown_fate`), and ends. Does not block; a second
  /// call does nothing.
  void stop();

private:
  friend result<remote_gateway> reach(caf::actor_system&,
                                      std::vector<std::string>, reach_options);
  remote_gateway(actors::gateway handle,
                 std::shared_ptr<const connected_node> remote);

  actors::gateway handle_;
  std::shared_ptr<const connected_node> remote_;
};

/// Starts a gateway's client in an actor system, which needs `add_network_to`. It keeps a
/// connection to an engine that has published its gateway at one of the addresses
/// ("unix:/run/shop/engine"), notices when it is lost or says nothing any more, and connects again:
/// to the next address, one attempt at a time, with pauses that grow and have jitter. Requests
/// wait for a connection up to `patience`. Errors: an address or an option that cannot be
/// used; with `connect_first`, also why there is no gateway.
result<remote_gateway> reach(caf::actor_system& sys,
                             std::vector<std::string> addresses,
                             reach_options options = {});

} // namespace gd::actors
