// expect: no JSON form: add GD_STATE(...) to the struct
#include <gd/json.hpp>

auto text = gd::to_json(0.1L);
