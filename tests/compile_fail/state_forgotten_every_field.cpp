// expect: GD_STATE(order) lists no field, but the struct has some
#include <gd/json.hpp>

struct order {
  int id = 0;

  GD_STATE(order);
};
