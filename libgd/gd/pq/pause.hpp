#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace gd {

/// Before something is tried again that has failed so many times before: `first`, then
/// twice as long each time, up to `longest`.
inline std::chrono::milliseconds
pause_after(std::int64_t failures, std::chrono::milliseconds first,
            std::chrono::milliseconds longest) {
  auto doubled = std::clamp<std::int64_t>(failures, 0, 20);
  return std::min(first * (std::int64_t{1} << doubled), longest);
}

} // namespace gd
