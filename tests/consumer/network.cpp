// Looks for a gateway where nobody listens.

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <iostream>

int main() {
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  gd::actors::add_network_to(cfg);
  caf::actor_system sys{cfg};
  auto found = gd::actors::reach(sys, {"unix:/nonexistent/socket"},
                                 {.connect_first = true});
  if (found)
    return 1;
  std::cout << to_string(found.error()) << '\n';
}
