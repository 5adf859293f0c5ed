#pragma once

#include <string>

/// \file
/// Lines on stderr, where gd::log_to_stderr writes, too.
namespace gd {

/// Writes whole lines to stderr, from a thread of the library's own: whoever calls
/// neither waits for its reader nor is ended by SIGPIPE. What cannot be written is
/// left out, as is what comes when 1 MiB waits for the reader, and the next line that
/// can be written is preceded by one that says how many are missing, and why. What is
/// left when the process exits is written, if that takes no longer than a second.
void write_to_stderr(std::string lines);

} // namespace gd
