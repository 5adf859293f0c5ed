/// Any bytes as what a peer says: whatever they are, whole frames of known kinds come of
/// them, and the same ones however the bytes come in pieces.

#include <gd/network/wire/frames.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace {

using gd::actors::frame_fault;
using gd::actors::frame_header;
using gd::actors::frame_kind;
using gd::actors::frame_reader;

struct outcome {
  std::optional<frame_fault> fault{};
  std::string passed{};

  bool operator==(const outcome&) const = default;
};

outcome run(std::string_view bytes, std::size_t piece) {
  constexpr std::size_t most_bytes = 1'024;
  frame_reader reader{{.first = frame_kind::client_handshake,
                       .version = 3,
                       .most_bytes = most_bytes}};
  outcome x;
  while (!bytes.empty() && !x.fault) {
    auto next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    while (!next.empty() && !x.fault) {
      x.fault = reader.take(next);
      if (x.fault || !reader.is_whole())
        continue;
      const auto& frame = reader.bytes();
      auto header = frame_header::read(frame);
      if (header.kind > frame_kind::heartbeat || header.payload > most_bytes
          || frame.size() != frame_header::size + header.payload
          || (x.passed.empty() && header.kind != frame_kind::client_handshake))
        std::abort();
      x.passed += frame;
    }
  }
  return x;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  std::string_view bytes{reinterpret_cast<const char*>(data), size};
  auto whole = run(bytes, std::max<std::size_t>(size, 1));
  if (!bytes.starts_with(whole.passed))
    std::abort();
  for (std::size_t piece : {1, 7, 32})
    if (run(bytes, piece) != whole)
      std::abort();
  return 0;
}
