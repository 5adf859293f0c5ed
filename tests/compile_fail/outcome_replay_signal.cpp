// expect: no matching function for call to
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::outcome pay(gd::context<order>& ctx) {
  return gd::replay(ctx.state).signal({.target = 1, .name = "go"});
}
