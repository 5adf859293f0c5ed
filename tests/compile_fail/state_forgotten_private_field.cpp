// expect: only 1 name provided
#include <gd/json.hpp>

// No aggregate: its fields cannot be counted.
class order {
  int id_ = 0;
  int qty_ = 0;

public:
  order() = default;
  GD_STATE(order, id_);
};
