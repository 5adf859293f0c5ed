#pragma once

#include <gd/actors/engine.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

/// \file
/// The gateway for other CAF nodes on this machine. CAF's protocol knows no passwords, and
/// trusts every byte; so no byte gets to it but from those that are this user (at a socket) or
/// have the secret (at a port). Who is let in is trusted as a node: it may ask for anything.
namespace gd::actors {

/// Loads CAF's network module, which `publish`, `reach` and `join` need; call it next
/// to `add_to`, in the constructor of your configuration. The same as
/// `CAF_MAIN(caf::io::middleman)`.
void add_network_to(caf::actor_system_config& cfg);

/// Where other nodes find the gateway, and how much they may take of this one.
struct publish_options {
  /// The path of a Unix socket, at most 107 bytes: only this user and root can connect. What
  /// a dead process has left there is taken over.
  std::string socket{};
  /// In its place: a port, which all users of this machine reach. 0: any that is free. Needs
  /// a secret.
  std::optional<std::uint16_t> port{};
  /// The port's: a file of mode 0600 (`gdctl secret new`). Who connects shows that he has the
  /// same, and so does this side. It is also what this node shows at the ports of others, for
  /// hints.
  std::string secret{};
  /// The port's: a loopback address, 127.x.x.x or ::1.
  std::string address{"127.0.0.1"};
  /// Where engines on other hosts find it, for hints: the end of their tunnel to this
  /// host, the same on each of them: "unix:<path>", or for a port a loopback address with a
  /// port, as the secret is asked for through the tunnel. Empty: they do not, and hints come
  /// from this host alone.
  std::string advertise{};

  /// Nodes at a time; of more, the one makes room that has said nothing for longest but that it
  /// lives. 1 to 10,000.
  std::size_t connections = 64;
  /// How soon who connects has to have shown the secret, at a port, and to have begun as a
  /// CAF node does. At least 1 ms.
  std::chrono::milliseconds handshake{3'000};
  /// A node that says nothing for longer is cut off: it is gone, or frozen. At least 3 s, as
  /// each says once a second that it lives.
  std::chrono::milliseconds silence{20'000};
  /// Bytes of a message; who sends a longer one is cut off. Empty: 1 MiB more than the limits
  /// of state, payload and metadata together. 1 KiB to 256 MiB.
  std::optional<std::size_t> message_bytes{};
  /// Bytes of long requests, of all nodes together: beyond them, the node with the longest
  /// is cut off. And bytes of answers that all nodes leave unread: beyond them, the one with
  /// the most is cut off, and one that has left half as much is answered `overloaded`; of
  /// several places of an engine, the most counts. More than the longest answer; at least
  /// `message_bytes`, to 4 GiB.
  std::size_t bytes = 16 << 20;
};

/// Opens a place for `reach` and `join`, until the engine stops, and returns it: "unix:<path>", or
/// "127.0.0.1:4711". There may be several places. Not to be called while another thread stops
/// the engine.
result<std::string> publish(engine& x, const publish_options& options);

} // namespace gd::actors
