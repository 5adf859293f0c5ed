#pragma once

#include <gd/instance.hpp>
#include <gd/pq/unit.hpp>

#include <optional>

/// What `store` is for those who work, for those who look.
namespace gd::store {

pq::call look_up(const gd::look_up& what);
std::optional<instance> read_instance(const pq::rows& rows);
/// Where nobody was read.
error no_instance(std::int64_t id, const std::optional<std::string>& key);
/// Read as `ledger_entry`, `in_step_row`, `stats_row`.
pq::call history(const history_query& what);
pq::call in_step(const in_step_query& what);
pq::call stats();

} // namespace gd::store
