#define CAF_SUITE keep
#include <caf/test/dsl.hpp>
