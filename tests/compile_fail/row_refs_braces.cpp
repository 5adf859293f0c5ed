// expect: cannot bind non-const lvalue reference
#include <gd/store/store.hpp>

auto call = [](const gd::store::row_refs<gd::signal>&) {};

void signal_both(const gd::signal& x) {
  call({x, gd::signal{}});
}
