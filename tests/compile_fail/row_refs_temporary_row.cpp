// expect: cannot bind non-const lvalue reference
#include <gd/pq/store.hpp>

gd::store::row_refs<gd::signal> refs{gd::signal{}};
