#pragma once

#include <string>

namespace gd::test {

class temporary_database;

/// What of a ledger is not as it should be, or nothing: entries have no gaps, each
/// begins where the one before ended, and the last one is the row.
std::string broken_paths(temporary_database& db);

} // namespace gd::test
