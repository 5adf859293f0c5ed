#pragma once

#include <string_view>

namespace gd::sql {

/// One SQL statement. The name is also the name of the prepared statement and
/// the `statement` label of its metrics and log lines.
struct statement {
  std::string_view name;
  std::string_view text;
};

/// Stands for a text that is the user's.
inline constexpr statement of_user{"gd_of_user", ""};

} // namespace gd::sql
