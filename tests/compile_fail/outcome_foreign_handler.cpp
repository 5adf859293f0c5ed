// expect: this handler goes on with a step of another machine
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship);
GD_ENUM(store_step, pack, ship);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::moved<store_step> pack(const gd::failure&, gd::context<order>& ctx) {
  return gd::next(store_step::pack, ctx.state);
}

auto machine = gd::define<order, shop_step>("Shop", 1).on_error(pack);
