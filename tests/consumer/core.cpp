// Defines a machine, and connects to nothing: prints the error.

#include <gd/client.hpp>
#include <gd/config.hpp>
#include <gd/machine.hpp>
#include <gd/migrate.hpp>

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
  if (auto ok = machine.validate(); !ok) {
    std::cout << to_string(ok.error()) << '\n';
    return 1;
  }
  auto client = gd::client::connect({.database = "nonsense"});
  std::cout << machine.title() << ": "
            << (client ? "connected" : to_string(client.error())) << '\n';
}
