// Tests a machine without an engine and without a server.

#include <gd/testing.hpp>

#include <iostream>

GD_ENUM(order_step, start);

struct order {
  int id = 0;
  GD_STATE(order, id);
};

int main() {
  gd::testing::simulation sim{
    {gd::define<order, order_step>("Order", 1)
       .step(order_step::start,
             [](gd::context<order>& ctx) { return gd::done(ctx.state); })
       .on_error([](const gd::failure& why, gd::context<order>&) {
         return gd::stop(why.message());
       })}};
  auto row = sim.insert({.fsm = "Order", .state = gd::to_json(order{7})});
  auto ran = sim.drain();
  if (!row || !ran) {
    std::cout << to_string(row ? ran.error() : row.error()) << '\n';
    return 1;
  }
  std::cout << sim.instance(row->id)->status << '\n';
  // What needs a database is linked with, too.
  return gd::testing::drain({.database = "nonsense"}, {}) ? 1 : 0;
}
