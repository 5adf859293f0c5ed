// expect: use of deleted function
#include <gd/store/store.hpp>

gd::store::row_refs<gd::signal> refs{std::vector<gd::signal>(1)};
