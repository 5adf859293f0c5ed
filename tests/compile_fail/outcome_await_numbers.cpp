// expect: no matching function for call to 'await
#include <gd/machine.hpp>

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::outcome pay(gd::context<order>& ctx) {
  return gd::await(std::vector{1, 2}, ctx.state);
}
