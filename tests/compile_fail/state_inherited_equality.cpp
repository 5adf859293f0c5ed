// expect: no match for 'operator=='
#include <gd/json.hpp>

struct base {
  int id = 0;

  GD_STATE(base, id);
};

struct order : base {
  int qty = 0;
};

bool same = order{} == order{};
