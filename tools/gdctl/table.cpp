#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace gdctl {

std::string table_of(const std::vector<cells>& rows, std::string_view marks) {
  std::vector<std::size_t> widths(marks.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      bool last = i + 1 == row.size();
      text += marks[i] == '>'
                ? fmt::format("{:>{}}", row[i], widths[i])
                : fmt::format("{:{}}", row[i], last ? 0 : widths[i]);
      text += last ? "\n" : "  ";
    }
  return text;
}

} // namespace gdctl
