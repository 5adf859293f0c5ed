// expect: no JSON form: add GD_STATE(...) to the struct
// expect: T = item
// expect: field<order, text<5>{"first"}>
#include <gd/json.hpp>

struct item {
  int qty = 0;
};

struct order {
  item first;

  GD_STATE_PARTIAL(order, first);
};

auto x = gd::from_json<order>("{}");
