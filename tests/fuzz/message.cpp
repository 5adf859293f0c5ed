/// Any bytes as one of our messages: CAF's deserializer refuses them, or what
/// they make comes out the same again. The envelope is CAF's own.

#include <gd/actors/engine.hpp>
#include <gd/actors/messages.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/settings.hpp>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

struct config : caf::actor_system_config {
  config() {
    gd::actors::add_to(*this);
    // Past CAF's option: AddressSanitizer keeps to itself what clang makes of its
    // template here, but not the guard of that, so CAF's own is never made.
    caf::put(content, "scheduler.max-threads", 1u);
  }
};

caf::actor_system& the_system() {
  // Never ended: libFuzzer exits where CAF expects that main returns.
  static auto* cfg = new config;
  static auto* sys = new caf::actor_system{*cfg};
  return *sys;
}

template <class T>
void receive(const char* data, std::size_t size) {
  T x;
  caf::binary_deserializer from{the_system(), data, size};
  if (from(x))
    return; // an error
  std::vector<char> bytes;
  caf::binary_serializer to{the_system(), bytes};
  if (to(x))
    std::abort();
  T again;
  caf::binary_deserializer back{the_system(), bytes};
  std::vector<char> twice;
  caf::binary_serializer once_more{the_system(), twice};
  // Compared as bytes: NaN is not equal to itself.
  if (back(again) || once_more(again) || twice != bytes)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  if (size == 0)
    return 0;
  const auto* rest = reinterpret_cast<const char*>(data) + 1;
  switch (data[0] % 12) {
    case 0:
      receive<gd::insert>(rest, size - 1);
      break;
    case 1:
      receive<gd::insert_all>(rest, size - 1);
      break;
    case 2:
      receive<gd::signal>(rest, size - 1);
      break;
    case 3:
      receive<gd::look_up>(rest, size - 1);
      break;
    case 4:
      receive<gd::inserted_all>(rest, size - 1);
      break;
    case 5:
      receive<gd::instance>(rest, size - 1);
      break;
    case 6:
      receive<gd::stats>(rest, size - 1);
      break;
    case 7:
      receive<gd::json>(rest, size - 1);
      break;
    case 8:
      receive<gd::signalled>(rest, size - 1);
      break;
    case 9:
      receive<gd::transition>(rest, size - 1);
      break;
    case 10:
      receive<gd::transitioned>(rest, size - 1);
      break;
    default:
      receive<gd::errc>(rest, size - 1);
  }
  return 0;
}
