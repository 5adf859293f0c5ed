#pragma once

#include <gd/instance.hpp>
#include <gd/pq/unit.hpp>

/// What `store` is for instances and signals, for what moves instances from outside.
namespace gd::store {

/// Read as `transitioned`.
pq::call rewind(const gd::rewind& what);
/// Read by `read_ids`.
pq::call fork(const gd::fork& what);

} // namespace gd::store
