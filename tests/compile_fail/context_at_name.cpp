// expect: a step is of a GD_ENUM
#include <gd/machine.hpp>

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::outcome pay(gd::context<order>& ctx) {
  if (ctx.at("pay"))
    return gd::done();
  return gd::replay(ctx.state);
}
