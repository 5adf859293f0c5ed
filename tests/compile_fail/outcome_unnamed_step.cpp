// expect: it may go to a step that this gd::to does not name
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship);
GD_ENUM(store_step, pack, ship);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::to<shop_step::ship> pay(gd::context<order>& ctx) {
  if (ctx.timed_out())
    return gd::replay(ctx.state);
  return gd::next<shop_step::pay>(ctx.state);
}
