/// Any bytes as what a peer sends: whatever they are, CAF gets whole messages of the kinds
/// that there are, to who may be reached, and the same ones however the bytes come in
/// pieces.

#include <gd/network/wire/basp_filter.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace {

using gd::actors::basp_filter;
using gd::actors::basp_node;
using gd::actors::basp_rules;

constexpr std::uint64_t portal = 77;

basp_node node(char host) {
  basp_node x{};
  x.fill(host);
  return x;
}

std::shared_ptr<const basp_rules> rules() {
  static const auto x = std::make_shared<const basp_rules>(
    basp_rules{.self = node('s'),
               .published = {portal},
               .messages = gd::actors::gateway_requests(),
               .most_bytes = 4'096,
               .most_senders = 10,
               .unknown = "unknown",
               .too_long = "too long"});
  return x;
}

struct outcome {
  bool cut = false;
  std::string to_caf;
  std::string to_peer;

  bool operator==(const outcome&) const = default;
};

outcome run(std::string_view bytes, std::size_t piece) {
  outcome x;
  basp_filter filter{rules(), [] { return node('a'); }};
  for (; !bytes.empty() && !x.cut; bytes.remove_prefix(piece)) {
    piece = std::min(piece, bytes.size());
    x.cut = filter.from_peer(bytes.substr(0, piece), x.to_caf, x.to_peer)
              .has_value();
  }
  return x;
}

std::uint64_t number_at(std::string_view bytes, std::size_t at,
                        std::size_t size) {
  std::uint64_t x = 0;
  for (auto c : bytes.substr(at, size))
    x = x << 8 | static_cast<unsigned char>(c);
  return x;
}

void check(bool ok) {
  if (!ok)
    std::abort();
}

/// What CAF gets.
void check_messages(std::string_view bytes) {
  constexpr std::size_t header = 32;
  auto alias = node('a');
  std::string_view name{alias.data(), alias.size()};
  while (!bytes.empty()) {
    check(bytes.size() >= header);
    auto what = number_at(bytes, 0, 1);
    auto flags = number_at(bytes, 3, 1);
    auto size = number_at(bytes, 4, 4);
    auto data = number_at(bytes, 8, 8);
    check(size <= 4'096 && bytes.size() >= header + size);
    auto payload = bytes.substr(header, size);
    switch (what) {
      case 1: // a handshake
      case 4: // a monitor
      case 5: // an end
        check(payload.starts_with(name));
        break;
      case 2:
        check(flags == 0 && data >> 61 == 0 && payload.size() > 3
              && number_at(bytes, 24, 8) == portal
              && payload.substr(4).starts_with("@<>+gd::"));
        break;
      default:
        check(what == 6 && size == 0);
    }
    bytes.remove_prefix(header + size);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  // Half of what is tried has said who it is.
  std::string bytes;
  if (size > 0 && data[0] % 2 == 0) {
    bytes = {'\1', '\0', '\0', '\0', '\0', '\0', '\0', '\x20'};
    bytes.resize(32);
    bytes += std::string(8, 's') + std::string(24, 'p');
  }
  if (size > 0)
    bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto at_once = run(bytes, bytes.size() + 1);
  check(at_once == run(bytes, 1));
  check(at_once == run(bytes, 7));
  check_messages(at_once.to_caf);
  return 0;
}
