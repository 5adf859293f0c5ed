#pragma once

#include <gd/instance.hpp>
#include <gd/registry.hpp>
#include <gd/store/operate.hpp>

#include <optional>
#include <string>

namespace gd {

/// What becomes of an instance that is to go to another version of its machine.
struct upgrade_check {
  std::string fault{}; ///< why it cannot; empty: it can
  std::string step{};  ///< where it stands then
  /// The state that it gets; nullopt: it keeps its own.
  std::optional<std::string> state{};
};

/// Its state is converted, or has to be one that the other version would take at an
/// insert: what that does not know would be lost with its next outcome.
upgrade_check check_upgrade(const registry& machines, const limits& bounds,
                            const store::upgrade_row& row);

} // namespace gd
