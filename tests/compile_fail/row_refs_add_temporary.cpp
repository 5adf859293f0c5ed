// expect: use of deleted function
#include <gd/store/store.hpp>

void add(gd::store::row_refs<gd::signal>& refs) {
  refs.add(gd::signal{});
}
