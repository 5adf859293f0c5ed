#pragma once

#include <gd/registry.hpp>
#include <gd/store/operate.hpp>

#include <string>

namespace gd {

/// Why an instance cannot go to another version of its machine; empty: it can. Its state
/// has to be one that the other version would take at an insert: what that does not know
/// would be lost with its next outcome.
std::string upgrade_fault(const registry& machines,
                          const store::upgrade_row& row);

} // namespace gd
