// expect: only 2 names provided
#include <gd/json.hpp>

struct order {
  int id = 0;
  int qty = 0;
  std::string note;

  GD_STATE(order, id, qty);
};
