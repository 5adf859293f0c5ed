#include <gd/instance.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gd {

namespace {

/// The bytes of the well-formed UTF-8 sequence that starts `text`; 0 if none
/// does.
std::size_t sequence_length(std::string_view text) {
  auto at = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto tail = [&at](std::size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  auto lead = at(0);
  if (lead < 0x80)
    return 1;
  if (lead >= 0xc2 && lead < 0xe0 && tail(1))
    return 2;
  if (lead >= 0xe0 && lead < 0xf0 && tail(1) && tail(2)
      && !(lead == 0xe0 && at(1) < 0xa0) && !(lead == 0xed && at(1) >= 0xa0))
    return 3;
  if (lead >= 0xf0 && lead < 0xf5 && tail(1) && tail(2) && tail(3)
      && !(lead == 0xf0 && at(1) < 0x90) && !(lead == 0xf4 && at(1) >= 0x90))
    return 4;
  return 0;
}

} // namespace

std::string clean_text(std::string_view text, std::size_t most) {
  constexpr std::string_view cut = " [...]";
  auto limit = text.size() > most ? most - std::min(most, cut.size()) : most;
  std::string out;
  while (!text.empty()) {
    auto n = sequence_length(text);
    auto piece = n == 0 || text.front() == '\0' ? std::string_view{"?"}
                                                : text.substr(0, n);
    if (out.size() + piece.size() > limit)
      return out.append(cut);
    out += piece;
    text.remove_prefix(std::max(n, std::size_t{1}));
  }
  return out;
}

result<void> check_name(std::string_view what, std::string_view name,
                        const limits& bounds) {
  auto refuse = [&](std::string_view got) {
    return error{errc::invalid_argument,
                 fmt::format("{}: expected 1 to {} bytes of UTF-8 without "
                             "control characters, got {}",
                             what, bounds.name, got),
                 {}};
  };
  if (name.empty())
    return refuse("nothing");
  if (name.size() > bounds.name)
    return refuse(fmt::format("{} bytes", name.size()));
  for (auto rest = name; !rest.empty();) {
    auto n = sequence_length(rest);
    auto first = static_cast<unsigned char>(rest.front());
    if (n == 0 || first < 0x20 || first == 0x7f)
      return refuse(fmt::format("byte 0x{:02x} at offset {}", first,
                                name.size() - rest.size()));
    rest.remove_prefix(n);
  }
  return {};
}

result<void> check_size(std::string_view what, const json& value,
                        std::size_t most) {
  if (!value.ok())
    return error{value.failure()->code,
                 fmt::format("{}: {}", what, value.failure()->message),
                 {}};
  if (value.text().size() > most)
    return error{errc::invalid_argument,
                 fmt::format("{}: expected at most {} bytes of JSON, got {}",
                             what, most, value.text().size()),
                 {}};
  return {};
}

result<void> check(const signal& x, const limits& bounds) {
  if (auto ok = check_name("signal name", x.name, bounds); !ok)
    return ok;
  if (x.dedup_key) {
    auto names = bounds;
    names.name = bounds.dedup_key;
    if (auto ok = check_name("dedup key", *x.dedup_key, names); !ok)
      return ok;
  }
  if (auto ok = check_size("payload", x.payload, bounds.payload); !ok)
    return ok;
  if (auto ok = check_json(x.payload.text()); !ok)
    return error{ok.error().code, "payload: " + ok.error().message, {}};
  return {};
}

} // namespace gd
