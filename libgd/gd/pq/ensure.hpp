#pragma once

namespace gd {

/// Says so, which takes a second at the most, and aborts.
[[noreturn]] void end_of_broken_promise(const char* what, const char* file,
                                        int line);

/// Ends the process, in all builds, where one part of it breaks what it has
/// promised to another, and going on would corrupt what is known of rows. Not for
/// what a server, a peer or a user sends: that is checked, and answered with an
/// error.
/// The place of the call comes from the compilers' builtins:
/// std::source_location is not there for clang 14 with GCC's library.
inline void ensure(bool holds, const char* what,
                   const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  if (!holds)
    end_of_broken_promise(what, file, line);
}

} // namespace gd
