#pragma once

#include <gd/operate.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl {

using cells = std::vector<std::string>;

/// Columns below each other: those marked `>` are numbers.
std::string table_of(const std::vector<cells>& rows, std::string_view marks);

/// Of queues, with times; or how long ago it was, where `now_us` tells when now is.
std::string table_of(const std::vector<gd::queue_row>& rows,
                     std::optional<std::int64_t> now_us = {});

/// "4m10s": in its two largest units.
std::string age_text(std::int64_t us);

} // namespace gdctl
