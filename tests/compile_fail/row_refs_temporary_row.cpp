// expect: cannot bind non-const lvalue reference
#include <gd/store/store.hpp>

gd::store::row_refs<gd::signal> refs{gd::signal{}};
