// expect: no JSON form: add GD_STATE(...) to the struct
#include <gd/json.hpp>

struct base {
  int id = 0;

  GD_STATE(base, id);
};

struct order : base {
  int qty = 0;
};

auto text = gd::to_json(order{});
