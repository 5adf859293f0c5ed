// expect: it may go to a step that this gd::to does not name
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship, cancelled);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

auto machine = gd::define<order, shop_step>("Shop", 1).on_error(
  [](const gd::failure&, gd::context<order>& ctx) -> gd::to<> {
    return gd::next(shop_step::cancelled, ctx.state);
  });
