#include "tunnels.hpp"

#include "common.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>

namespace gdctl {

namespace {

constexpr std::size_t longest_name = 63;
constexpr std::size_t longest_host = 253;
/// Of a Unix socket; the last byte is a zero.
constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view in_paths = "abcdefghijklmnopqrstuvwxyz0123456789"
                                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ/._-+";
constexpr std::string_view in_hosts = "abcdefghijklmnopqrstuvwxyz0123456789"
                                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-";

bool has_only(std::string_view text, std::string_view these) {
  return text.find_first_not_of(these) == text.npos;
}

gd::error expected(std::string_view what, std::string_view form,
                   std::string_view text) {
  return bad_usage(
    fmt::format("{}: expected {}, got {}", what, form, json_string(text)));
}

struct host_and_port {
  std::string host; ///< without brackets
  bool six = false;
};

std::optional<host_and_port> split(std::string_view text) {
  auto colon = text.rfind(':');
  if (colon == text.npos)
    return std::nullopt;
  auto port = text.substr(colon + 1);
  std::uint16_t number = 0;
  auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(),
                                       number);
  if (failed != std::errc{} || end != port.data() + port.size() || number == 0)
    return std::nullopt;
  auto host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return host_and_port{std::string{host.substr(1, host.size() - 2)}, true};
  return host_and_port{std::string{host}, false};
}

bool is_address(const host_and_port& x) {
  in_addr four{};
  in6_addr six{};
  return inet_pton(x.six ? AF_INET6 : AF_INET, x.host.c_str(),
                   x.six ? static_cast<void*>(&six) : &four)
         == 1;
}

bool is_loopback(const host_and_port& x) {
  return is_address(x)
         && (x.six ? x.host == "::1" : x.host.starts_with("127."));
}

/// The plain end of a tunnel.
gd::result<void> check_endpoint(std::string_view what, std::string_view text) {
  auto at = split(text);
  if (at ? is_loopback(*at)
         : text.starts_with('/') && text.size() <= longest_path
             && has_only(text, in_paths))
    return {};
  return expected(what,
                  fmt::format("a loopback address and a port (127.0.0.1:4711), "
                              "or the path of a Unix socket of at most {} "
                              "letters, digits and ./_-+",
                              longest_path),
                  text);
}

gd::result<void> check_in(const tunnel_in& x) {
  if (auto at = split(x.accept); !at || !is_address(*at))
    return expected("--accept",
                    "an address of this host and a port (0.0.0.0:4712, "
                    "[::]:4712)",
                    x.accept);
  if (auto ok = check_endpoint("--engine", x.engine); !ok)
    return ok;
  if (x.accept == x.engine)
    return expected("--engine", "another port than --accept has", x.engine);
  for (const auto& name : x.from)
    if (auto ok = check_name("--from", name); !ok)
      return ok;
  return {};
}

gd::result<void> check_out(const tunnel_out& x) {
  if (auto ok = check_name("--to", x.to); !ok)
    return ok;
  auto at = split(x.host);
  if (!at
      || !(is_address(*at)
           || (!at->six && !at->host.empty() && at->host.size() <= longest_host
               && at->host.front() != '-' && has_only(at->host, in_hosts))))
    return expected("--to", "a host and a port (db1.example.org:4712)", x.host);
  return check_endpoint("--to", x.place);
}

// -- stunnel ------------------------------------------------------------------

constexpr std::string_view stunnel_head
  = R"(; The tunnels of {0}, made by gdctl. In this folder, as the user of the engine:
;
;   umask 077; ulimit -n {1}; exec stunnel stunnel.conf
;
; SIGHUP: reads its files again; connections that there are stay. The number of
; files that it may have open is its limit of connections: {1} is about {2}.

foreground = yes
pid =
syslog = no
debug = notice

cert = node.pem
CAfile = ca.pem
verifyChain = yes
sslVersionMin = TLSv1.3
; Who resumes a session is not asked for its name again.
sessionResume = no
; For handshakes, and for connections without a byte; in seconds.
TIMEOUTbusy = 5
TIMEOUTconnect = 5
TIMEOUTclose = 5
TIMEOUTidle = 600
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
socket = r:SO_KEEPALIVE=1
)";

constexpr std::string_view stunnel_in = R"(
[in]
accept = {}
connect = {}
requireCert = yes
)";

constexpr std::string_view stunnel_out = R"(
[to-{0}]
client = yes
accept = {2}
connect = {1}
checkHost = {0}
)";

// -- HAProxy ------------------------------------------------------------------

constexpr std::string_view haproxy_head
  = R"(# The tunnels of {0}, made by gdctl. In this folder, as the user of the engine:
#
#   /usr/sbin/haproxy -W -f haproxy.cfg
#
# SIGUSR2: reads its files again; connections that there are stay.

global
    default-path config
    maxconn {1}
    log stderr format raw local0 notice
    ssl-default-bind-options ssl-min-ver TLSv1.3 no-tls-tickets
    ssl-default-server-options ssl-min-ver TLSv1.3
    tune.ssl.cachesize 0

defaults
    mode tcp
    log global
    option dontlognull
    # Of handshakes; what has both ends goes by the last one.
    timeout client 5s
    timeout connect 5s
    timeout server 5s
    timeout tunnel 10m
)";

constexpr std::string_view haproxy_in = R"(
# What others connect to.
listen in
    bind {0} ssl crt node.pem ca-file ca.pem verify required
    # Nobody takes all connections for itself.
    stick-table type ipv6 size 10k expire 1m store conn_cur
    tcp-request connection track-sc0 src
    tcp-request connection reject if {{ sc0_conn_cur gt {1} }}
    tcp-request session reject unless {{ ssl_c_s_dn(CN) -m str {2} }}
    server engine {3}
)";

constexpr std::string_view haproxy_out = R"(
# The way to {0}.
listen to-{0}
    bind {2}
    server {0} {1} ssl crt node.pem ca-file ca.pem verify required verifyhost {0}
)";

std::string haproxy_address(const std::string& place) {
  return place.starts_with('/') ? "unix@" + place : place;
}

} // namespace

gd::result<void> check_name(std::string_view what, std::string_view text) {
  auto inside = std::string{lower} + "-.";
  if (!text.empty() && text.size() <= longest_name && has_only(text, inside)
      && has_only(text.substr(0, 1), lower)
      && has_only(text.substr(text.size() - 1), lower)
      && text.find("..") == text.npos)
    return {};
  return expected(
    what,
    fmt::format("a name of at most {} lower case letters, digits, "
                "hyphens and dots, with no dot or hyphen at its "
                "ends",
                longest_name),
    text);
}

gd::result<void> check(const tunnels& x) {
  if (auto ok = check_name("NAME", x.node); !ok)
    return ok;
  if (x.in)
    if (auto ok = check_in(*x.in); !ok)
      return ok;
  std::set<std::string> names;
  std::set<std::string> places;
  for (const auto& one : x.out) {
    if (auto ok = check_out(one); !ok)
      return ok;
    if (!names.insert(one.to).second)
      return expected("--to", "each name once", one.to);
    if (!places.insert(one.place).second)
      return expected("--to", "each place once", one.place);
  }
  return {};
}

int files_for(const tunnels& x) {
  // stunnel's own rule, backwards: of 256 open files it takes 125 connections.
  return std::max(256, x.connections * 256 / 125 + 1);
}

std::string stunnel_conf(const tunnels& x) {
  auto files = files_for(x);
  auto text = fmt::format(stunnel_head, x.node, files, files * 125 / 256);
  if (x.in) {
    text += fmt::format(stunnel_in, x.in->accept, x.in->engine);
    for (const auto& name : x.in->from)
      text += fmt::format("checkHost = {}\n", name);
  }
  for (const auto& one : x.out)
    text += fmt::format(stunnel_out, one.to, one.host, one.place);
  return text;
}

std::string haproxy_cfg(const tunnels& x) {
  auto text = fmt::format(haproxy_head, x.node, x.connections);
  if (x.in)
    text += fmt::format(
      haproxy_in, x.in->accept, std::max(1, x.connections / 10),
      fmt::join(x.in->from, " "), haproxy_address(x.in->engine));
  for (const auto& one : x.out) {
    auto place = haproxy_address(one.place);
    if (place != one.place)
      place += " mode 600";
    text += fmt::format(haproxy_out, one.to, one.host, place);
  }
  return text;
}

} // namespace gdctl
