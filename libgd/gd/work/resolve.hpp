#pragma once

#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/pq/store.hpp>
#include <gd/pq/store_nodes.hpp>

#include <array>
#include <string_view>
#include <vector>

/// What an insert means: whether it can be, and what it leaves open. One place
/// for gateway, clients and the test kit; gd_insert says the same in SQL.
namespace gd {

/// Where a unique key is taken if its insert does not say.
constexpr std::array<std::string_view, 3> default_scope{"runnable", "executing",
                                                        "awaiting_signal"};

/// Whether an insert can be, as far as can be told without its machine.
result<void> check(const insert& x, const limits& bounds);

/// Whether a state's text looks like an object, as far as its first character
/// tells.
bool begins_object(const json& state);

/// Whether a state is the JSON text of an object.
result<void> check_object(const json& state);

/// The row that an insert makes. What it leaves open is filled in by its machine:
/// `mine`, if this program has it, else that of the same name in `known` which
/// it names, or the newest. Without a machine nothing may be open. The errors say
/// what was expected.
result<store::insert_row>
resolve(insert x, const machine* mine,
        const std::vector<store::known_machine>& known);

} // namespace gd
