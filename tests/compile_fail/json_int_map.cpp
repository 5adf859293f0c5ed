// expect: JSON objects have string keys
#include <gd/json.hpp>

#include <map>

auto text = gd::to_json(std::map<int, int>{});
