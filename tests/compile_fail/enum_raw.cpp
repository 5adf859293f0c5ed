// expect: declare the enum with GD_ENUM
#include <gd/json.hpp>

enum class phase { cart };

struct order {
  phase status{};

  GD_STATE(order, status);
};

auto text = gd::to_json(order{});
