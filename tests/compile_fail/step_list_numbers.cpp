// expect: a list of steps is of a GD_ENUM
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship, cancelled);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

auto machine = gd::define<order, shop_step>("Shop", 1).step(
  shop_step::pay, {.to = {1, 2}},
  [](gd::context<order>&) -> gd::outcome { return gd::done(); });
