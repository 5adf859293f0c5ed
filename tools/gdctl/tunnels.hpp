#pragma once

#include <gd/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Configurations of tunnels between hosts: what one node accepts, and where it
/// connects to, for stunnel and for HAProxy.
namespace gdctl {

/// What others connect to, and who may.
struct tunnel_in {
  std::string accept; ///< address and port
  std::string engine; ///< what is behind it: a place on this host
  std::vector<std::string> from;
};

/// A way to another node.
struct tunnel_out {
  std::string to;    ///< its name
  std::string host;  ///< and where it accepts, with the port
  std::string place; ///< where it is found on this host
};

struct tunnels {
  std::string node;
  std::optional<tunnel_in> in;
  std::vector<tunnel_out> out;
  std::int32_t connections = 1'000; ///< that it accepts, all together
};

/// A node's name: what certificates have, and folders are called.
gd::result<void> check_name(std::string_view what, std::string_view text);
/// Ok: these can be written into a configuration, and the plain ends are where no
/// other host gets.
gd::result<void> check(const tunnels& x);

/// How many files stunnel has to be allowed to have open for its connections.
int files_for(const tunnels& x);

std::string stunnel_conf(const tunnels& x);
std::string haproxy_cfg(const tunnels& x);

} // namespace gdctl
