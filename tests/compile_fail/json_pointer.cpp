// expect: no JSON form: add GD_STATE(...) to the struct
#include <gd/json.hpp>

#include <memory>

auto text = gd::to_json(std::unique_ptr<int>{});
