#pragma once

#include <gd/instance.hpp>
#include <gd/operate.hpp>
#include <gd/state.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gdctl {

/// A version of a machine, and its instances.
struct machine_line {
  gd::machine_row machine{};
  /// By status.
  std::map<std::string, std::int64_t> instances{};
  /// Statuses of which some pages of the table speak for all.
  std::set<std::string> estimated{};

  GD_STATE(machine_line, machine, instances, estimated);
};

/// Versions that were inserted with step and queue may be known to nobody.
std::vector<machine_line> machine_lines(std::vector<gd::machine_row> known,
                                        const gd::counted& counts);

} // namespace gdctl
