// expect: no matching function for call to 'gd::carries<gd::parked, order>::after
#include <gd/machine.hpp>

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::outcome pay(gd::context<order>& ctx) {
  return gd::await({"paid", "cancelled"}, ctx.state)
    .after(std::chrono::hours{1});
}
