#pragma once

#include <gd/actors/messages.hpp>
#include <gd/actors/node/self.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace gd::actors {

/// Whether CAF's network module is there; `what` needs it.
result<void> check_network(caf::actor_system& sys, const std::string& what);

/// Whether these are addresses of gateways, and there is a secret, of that file, for those of
/// them that are ports. The error's sentence has no subject.
result<void> check_endpoints(const std::vector<std::string>& addresses,
                             const std::string& secret);

/// The gateway of an engine that another process has published at that place:
/// "unix:<path>", "127.0.0.1:4711" or "localhost:4711"; at a port, by the secret of that file.
/// Waits up to `timeout` for an answer of the gateway itself. An error: nobody listens, or what
/// does is no such gateway.
///
/// CAF has one connection to each node. All who hold a gateway of that node share it, and it
/// ends with the last of them. The handle is dead as soon as that ends: the other process has
/// gone, or has cut this one off, or has said nothing for longer than `silence` (of whoever was
/// first; at least 3 s; each side says once a second that it lives). Who monitors the handle gets a `caf::down_msg` at once then; requests that are
/// open end with their timeouts.
result<held_gateway>
hold(caf::actor_system& sys, const std::string& where,
     const std::string& secret, std::chrono::milliseconds timeout,
     std::chrono::milliseconds silence = std::chrono::seconds{20});

/// The same on a thread of its own, where `tell` is called with what has come of it.
void dial(caf::actor_system& sys, std::string where, std::string secret,
          std::chrono::milliseconds timeout,
          std::function<void(result<held_gateway>)> tell);

/// The same: `who` gets a `dialled`.
void dial(const weak_ref& who, caf::actor_system& sys, std::string where,
          std::string secret, std::chrono::milliseconds timeout);

} // namespace gd::actors
