// expect: GD_STATE(order, id, qty) does not list every field of the struct
// expect: the comparison reduces to '(2 >= 3)'
// expect: only 2 names provided
#include <gd/json.hpp>

struct order {
  int id = 0;
  int qty = 0;
  std::string note;

  GD_STATE(order, id, qty);
};
