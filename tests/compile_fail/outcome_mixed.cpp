// expect: inconsistent types 'gd::carries<gd::moved<shop_step>, order>' and 'gd::ended'
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship);
GD_ENUM(store_step, pack, ship);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

auto pay = [](gd::context<order>& ctx) {
  if (!ctx.timed_out())
    return gd::next(shop_step::ship, ctx.state);
  return gd::stop("too late"); // [](gd::context<order>& ctx) -> gd::outcome
};
