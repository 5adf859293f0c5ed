#pragma once

#include <gd/error.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What is handed to libpq as text, and what it says.
namespace gd::pq {

/// Checks a connection string without connecting. The message never repeats
/// what the string says: it may hold a password.
result<void> check_conninfo(const std::string& database);

/// Whether that is one of the servers that the library works with, all of which its tests
/// run on. `version` as libpq tells it: 150018 is 15.18.
result<void> check_server(int version);

/// A connection string's keywords and values.
using conninfo = std::vector<std::pair<std::string, std::string>>;

/// One for each of its hosts, in their order; checked as above. Hosts that do not match
/// their ports or addresses stay as they are: libpq says so. Its `options` are also those of
/// a service or of the environment.
result<std::vector<conninfo>> read_conninfo(const std::string& database);

/// Which host that is, for people.
std::string host_of(const conninfo& from);

/// A statement's text with `:"schema"` and `:'schema'` (psql's own syntax)
/// replaced by the quoted name.
std::string substitute_schema(std::string_view text, std::string_view schema);

/// A message of libpq's, which may have several lines, and may be null.
std::string one_line(const char* message);

} // namespace gd::pq
