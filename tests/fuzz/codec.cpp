/// Any bytes as the JSON of a state: decoding never crashes, and what it takes
/// comes out the same again.

#include <gd/instance.hpp>
#include <gd/json.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

GD_ENUM(colour, red, green, blue);

struct part {
  std::string name{};
  std::optional<double> size{};
  GD_STATE(part, name, size);
};

/// A field of every kind.
struct everything {
  bool yes = false;
  std::int8_t small = 0;
  std::uint64_t large = 0;
  float single = 0;
  double real = 0;
  std::string text{};
  colour paint = colour::red;
  std::vector<part> parts{};
  std::array<std::int32_t, 2> pair{};
  std::map<std::string, std::optional<part>> named{};
  std::chrono::milliseconds pause{0};
  std::chrono::sys_time<std::chrono::microseconds> at{};
  gd::json any{};
  GD_STATE(everything, yes, small, large, single, real, text, paint, parts,
           pair, named, pause, at, any);
};

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

template <class T>
void decode(const std::string& text) {
  auto strict = gd::from_json_strict<T>(text);
  auto lenient = gd::from_json<T>(text);
  require(!strict || lenient);
  if (!lenient)
    return;
  require(static_cast<bool>(gd::json::raw(text).check()));
  auto encoded = gd::to_json(*lenient);
  require(encoded.ok());
  auto again = gd::from_json_strict<T>(encoded.text());
  require(again && *again == *lenient);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  std::string text{reinterpret_cast<const char*>(data), size};
  decode<everything>(text);
  decode<gd::insert>(text);
  decode<gd::signal>(text);
  return 0;
}
