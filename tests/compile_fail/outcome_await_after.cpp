// expect: has no member named 'after'
#include <gd/machine.hpp>

struct order {
  int id = 0;

  GD_STATE(order, id);
};

gd::outcome pay(gd::context<order>& ctx) {
  return gd::await({"paid", "cancelled"}, ctx.state)
    .after(std::chrono::hours{1});
}
