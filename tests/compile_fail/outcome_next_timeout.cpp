// expect: no matching function for call to 'gd::carries<gd::moved<shop_step>, order>::timeout
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship);
GD_ENUM(store_step, pack, ship);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::outcome pay(gd::context<order>& ctx) {
  return gd::next(shop_step::ship, ctx.state).timeout(std::chrono::hours{1});
}
