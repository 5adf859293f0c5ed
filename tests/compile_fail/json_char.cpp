// expect: a character is neither text nor a number
#include <gd/json.hpp>

auto text = gd::to_json('a');
