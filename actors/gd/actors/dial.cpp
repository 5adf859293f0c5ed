#include <gd/actors/dial.hpp>

#include <gd/actors/remote.hpp>

#include <caf/all.hpp>

#include <charconv>
#include <cstdint>
#include <utility>

namespace gd::actors {

namespace {

struct place {
  std::string host;
  std::uint16_t port = 0;
};

result<place> parse(const std::string& address) {
  auto colon = address.rfind(':');
  place out;
  if (colon != address.npos && colon > 0) {
    out.host = address.substr(0, colon);
    if (out.host.size() > 2 && out.host.front() == '['
        && out.host.back() == ']')
      out.host = out.host.substr(1, out.host.size() - 2);
    const auto* end = address.data() + address.size();
    auto [last, failed] = std::from_chars(address.data() + colon + 1, end,
                                          out.port);
    if (failed == std::errc{} && last == end && out.port > 0)
      return out;
  }
  return error{errc::invalid_argument,
               "expected a gateway's address like 127.0.0.1:4711, got \""
                 + address + '"',
               {}};
}

} // namespace

result<void> check_gateway_address(const std::string& address) {
  auto at = parse(address);
  return at ? result<void>{} : at.error();
}

result<gateway> dial(caf::actor_system& sys, const std::string& address,
                     std::chrono::milliseconds timeout) {
  auto at = parse(address);
  if (!at)
    return at.error();
  return connect(sys, at->host, at->port, timeout);
}

} // namespace gd::actors
