// expect: GD_ENUM stores names, not numbers: drop the '= value'
#include <gd/json.hpp>

GD_ENUM(phase, cart, paid = 4);
