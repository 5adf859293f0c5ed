#pragma once

#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/registry.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <array>
#include <string_view>
#include <vector>

/// What an insert means: whether it can be, and what it leaves open. One place
/// for gateway, clients and the test kit; gd_insert says the same in SQL.
namespace gd {

/// Where a unique key is taken if its insert does not say.
constexpr std::array<std::string_view, 3> default_scope{"runnable", "executing",
                                                        "awaiting_signal"};

/// A row without what its machine fills in.
store::insert_row row_of(insert x);

/// Fills in what an insert leaves open, by its machine. That is the version that it
/// names; else the one that is pinned; else the newest of this program's own,
/// `mine`; else the first of that name in `known`, which tells of all of a name or of
/// none. Without a machine nothing may be open, and no version that is retired is
/// taken. The errors say what was expected. A machine's cipher encrypts its state.
result<void> resolve(store::insert_row& row, const registry& mine,
                     const std::vector<store::known_machine>& known,
                     const limits& bounds);

/// Forgets what was filled in.
void reopen(store::insert_row& row);

} // namespace gd
