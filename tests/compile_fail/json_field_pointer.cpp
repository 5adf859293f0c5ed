// expect: no JSON form: add GD_STATE(...) to the struct
// expect: field<order, text<5>{"price"}>
// expect: T = int*
#include <gd/json.hpp>

struct order {
  int id = 0;
  int* price = nullptr;

  GD_STATE(order, id, price);
};

auto x = gd::from_json<order>("{}");
