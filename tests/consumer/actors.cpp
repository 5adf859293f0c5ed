// Starts an engine that finds no server, and stops it.

#include <gd/actors/engine.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <iostream>

GD_ENUM(order_step, start);

struct order {
  int id = 0;
  GD_STATE(order, id);
};

int main() {
  gd::machine machine = gd::define<order, order_step>("Order", 1)
                          .step(order_step::start, [](gd::context<order>& ctx) {
                            return gd::done(ctx.state);
                          });
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys, {.database = "host=/nonexistent",
                                        .machines = {machine},
                                        .on_event = [](const gd::event&) {}});
  if (!engine) {
    std::cout << to_string(engine.error()) << '\n';
    return 1;
  }
  engine->stop();
  std::cout << "stopped\n";
}
