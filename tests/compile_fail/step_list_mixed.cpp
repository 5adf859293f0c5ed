// expect: '{shop_step::ship, store_step::pack}' from '<brace-enclosed initializer list>' to 'gd::step_list'
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship, cancelled);
GD_ENUM(store_step, pack);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::step_options how{.to = {shop_step::ship, store_step::pack}};
