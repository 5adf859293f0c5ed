// The main() of a test executable. Suites are separate files; see
// CMakeLists.txt for how each of them becomes a test of its own.

#define CAF_SUITE main_dummy

#include <caf/test/unit_test.hpp>

#include <caf/test/unit_test_impl.hpp>
