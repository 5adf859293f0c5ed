#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gdctl {

using cells = std::vector<std::string>;

/// Columns below each other: those marked `>` are numbers.
std::string table_of(const std::vector<cells>& rows, std::string_view marks);

} // namespace gdctl
