// expect: 'di' was not declared in this scope
#include <gd/json.hpp>

struct order {
  int id = 0;

  GD_STATE(order, di);
};
