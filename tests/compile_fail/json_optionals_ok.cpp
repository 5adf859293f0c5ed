// What old CAFs have no form for has a JSON form nevertheless.

#include <gd/json.hpp>

struct gaps {
  std::vector<std::optional<int>> values;

  GD_STATE(gaps, values);
};

auto text = gd::to_json(gaps{});
auto read = gd::from_json<gaps>("{}");
