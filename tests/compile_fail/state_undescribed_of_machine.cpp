// expect: the state needs GD_STATE(...)
// expect: State = order
#include <gd/machine.hpp>

GD_ENUM(order_step, start);

struct order {
  int id = 0;
};

gd::machine x = gd::define<order, order_step>("Order", 1)
                  .step(order_step::start, [](gd::context<order>& ctx) {
                    return gd::next(order_step::start, ctx.state);
                  });
