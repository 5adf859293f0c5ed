#pragma once

#include <gd/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gdctl::serve {

/// Of the command line.
struct options {
  std::string listen = "127.0.0.1:8080";
  std::string behind_proxy{};
  bool allow_writes = false;
  std::string token_file{};
};

/// As what browsers know it, in lower case.
struct known_as {
  std::string host{};   ///< what `Host` is
  std::string origin{}; ///< what `Origin` is then; empty: it has to have none
};

/// Where it listens.
struct endpoint {
  std::string host{}; ///< an address; or empty, and there is a path
  std::uint16_t port = 0;
  std::string path{};
  std::vector<known_as> names{};
  std::string url{}; ///< for people
};

/// Errors: it is neither a loopback address nor a path; the proxy's name is none.
gd::result<endpoint> read_endpoint(const options& opts);

/// A socket that listens there.
gd::result<int> listen_at(const endpoint& where);

/// The token of a file that nobody else reads; made, if there is none.
gd::result<std::string> read_token(const std::string& path);

} // namespace gdctl::serve
