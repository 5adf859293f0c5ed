// expect: from 'gd::carries<gd::moved<store_step>, order>' to 'gd::moved<shop_step>'
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship);
GD_ENUM(store_step, pack, ship);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::moved<shop_step> pay(gd::context<order>& ctx) {
  return gd::next(store_step::ship, ctx.state);
}
