#include "table.hpp"

#include "common.hpp"

#include <gd/instance.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

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

std::string table_of(const std::vector<gd::queue_row>& rows,
                     std::optional<std::int64_t> now_us) {
  auto when = [now_us](std::optional<std::int64_t> us) {
    return !us ? "-" : now_us ? age_text(*now_us - *us) : time_text(*us);
  };
  auto count = [](std::int64_t instances, bool more) {
    return std::to_string(instances) + (more ? "+" : "");
  };
  std::vector<cells> table{{"queue", "nodes", "slots", "due", "oldest due",
                            "later", "executing", "paused"}};
  for (const auto& x : rows) {
    auto paused = x.paused
                    ? fmt::format("{} {} by {}{}", now_us ? "for" : "since",
                                  when(x.paused_at_us),
                                  x.paused_by.value_or("?"),
                                  x.reason ? ": " + *x.reason : "")
                    : "no";
    table.push_back({gd::printable(x.queue), std::to_string(x.nodes),
                     std::to_string(x.slots), count(x.due, x.more_due),
                     when(x.oldest_due_us), count(x.later, x.more_later),
                     count(x.executing, x.more_executing),
                     gd::printable(paused)});
  }
  return table_of(table, now_us ? "<>>>>>><" : "<>>><>><");
}

std::string age_text(std::int64_t us) {
  constexpr std::array<std::pair<std::int64_t, char>, 4> units{
    {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}, {1, 's'}}};
  auto seconds = std::max<std::int64_t>(us / 1'000'000, 0);
  auto unit = std::find_if(units.begin(), units.end() - 1,
                           [&](const auto& x) { return seconds >= x.first; });
  auto text = fmt::format("{}{}", seconds / unit->first, unit->second);
  if (unit + 1 != units.end())
    text += fmt::format("{}{}", seconds % unit->first / unit[1].first,
                        unit[1].second);
  return text;
}

} // namespace gdctl
