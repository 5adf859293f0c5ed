/// Any bytes as what a peer says before it has shown that it has the port's secret: whatever
/// they are, neither side believes it, and the same comes of them in whatever pieces they
/// come.

#include <gd/network/wire/secret.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace {

using gd::actors::handshake_fault;
using gd::actors::secret_handshake;
using gd::actors::shared_secret;
using role = secret_handshake::role;

const shared_secret& secret() {
  static const shared_secret x = [] {
    auto file = "/tmp/gd_fuzz_handshake." + std::to_string(getpid());
    if (!shared_secret::make(file))
      std::abort();
    auto made = shared_secret::read(file);
    unlink(file.c_str());
    return *made;
  }();
  return x;
}

struct outcome {
  std::optional<handshake_fault> fault{};
  std::size_t answered = 0;
  std::size_t left = 0;

  bool operator==(const outcome&) const = default;
};

outcome run(role mine, std::string_view bytes, std::size_t piece) {
  secret_handshake state{secret(), mine};
  outcome x;
  std::string answer;
  while (!bytes.empty() && !x.fault) {
    auto next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    x.fault = state.take(next, answer);
    x.left += x.fault ? 0 : next.size();
    if (state.is_over() || state.missing() > 48)
      std::
        abort(); // 32 bytes have been guessed, or more are waited for than any has
  }
  x.answered = answer.size();
  return x;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  std::string_view bytes{reinterpret_cast<const char*>(data), size};
  for (auto mine : {role::client, role::server}) {
    auto whole = run(mine, bytes, std::max<std::size_t>(size, 1));
    auto said = mine == role::server ? std::size_t{48} : std::size_t{32};
    if (whole.left > 0 || (whole.answered != 0 && whole.answered != said))
      std::abort();
    for (std::size_t piece : {1, 7, 48})
      if (run(mine, bytes, piece) != whole)
        std::abort();
  }
  return 0;
}
