// expect: JSON has only one null
#include <gd/json.hpp>

auto text = gd::to_json(std::optional<std::optional<int>>{});
