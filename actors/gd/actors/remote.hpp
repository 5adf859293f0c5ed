#pragma once

#include <gd/actors/engine.hpp>

#include <chrono>
#include <cstdint>
#include <string>

/// \file
/// The gateway for other CAF nodes. CAF's protocol knows no passwords: whoever
/// reaches the port may ask for anything, and read what others send. So it stays
/// on this machine's loopback interface.
namespace gd::actors {

/// Loads CAF's network module, which `publish` and `connect` need; call it next
/// to `add_to`, in the constructor of your configuration. The same as
/// `CAF_MAIN(caf::io::middleman)`.
void add_network_to(caf::actor_system_config& cfg);

/// Where other nodes find the gateway.
struct publish_options {
  /// 0: any that is free.
  std::uint16_t port = 0;
  /// A loopback address: 127.x.x.x or ::1.
  std::string address{"127.0.0.1"};
  /// Where engines on other hosts find it, for hints: the end of their tunnel to this
  /// host, a loopback address with a port that is the same on each of them. Empty: they
  /// do not, and hints come from this host alone.
  std::string advertise{};
};

/// Opens a port for `connect`, until the engine stops, and returns its number.
/// Peers can ask what the gateway answers, and no more: nothing that they send
/// ends it. Not to be called while another thread stops the engine.
result<std::uint16_t> publish(engine& x, const publish_options& options);

/// The gateway of an engine that another process has published. Waits up to
/// `timeout` for an answer of the gateway itself. An error: nobody listens, or
/// what does is no such gateway.
///
/// Give every request a timeout: CAF does not tell when the other node dies, and
/// the handle is dead from then on. Connect again to get a new one.
result<gateway> connect(caf::actor_system& sys, const std::string& host,
                        std::uint16_t port, std::chrono::milliseconds timeout);

} // namespace gd::actors
