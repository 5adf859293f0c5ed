#pragma once

#include <gd/operate.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/store.hpp>
#include <gd/pq/unit.hpp>

/// What `store` is for instances and signals, for what operators ask and do.
namespace gd::store {

/// Read as `gd::why`.
pq::call why(const why_query& what);

} // namespace gd::store
