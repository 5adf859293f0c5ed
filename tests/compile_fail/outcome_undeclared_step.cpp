// expect: it may go to a step that this gd::to does not name
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship, cancelled);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

auto machine = gd::define<order, shop_step>("Shop", 1).step(
  shop_step::pay,
  [](gd::context<order>& ctx) -> gd::to<shop_step::ship, shop_step::pay> {
    if (ctx.timed_out())
      return gd::next<shop_step::cancelled>(ctx.state);
    return gd::next<shop_step::ship>(ctx.state);
  });
