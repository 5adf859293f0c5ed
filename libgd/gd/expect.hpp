#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace gd {

/// Ends the process, in all builds, where one part of it breaks what it has
/// promised to another, and going on would corrupt what is known of rows. Not for
/// what a server, a peer or a user sends: that is checked, and answered with an
/// error.
inline void
expect(bool holds, const char* what,
       std::source_location where = std::source_location::current()) {
  if (holds)
    return;
  std::fprintf(stderr, "gen_durable: broken promise: %s (%s:%u)\n", what,
               where.file_name(), static_cast<unsigned>(where.line()));
  std::abort();
}

} // namespace gd
