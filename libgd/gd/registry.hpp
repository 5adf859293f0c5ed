#pragma once

#include <gd/machine.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gd {

/// What a row says of its machine.
struct machine_version {
  std::string fsm{};        ///< its name
  std::int32_t version = 1; ///< its version
};

/// The machines of a node by (fsm, version); versions coexist, none is assumed.
class registry {
public:
  registry() = default;
  /// Of machines with the same name and version the first one counts.
  explicit registry(std::vector<machine> machines);

  /// Whether there is no machine.
  bool empty() const noexcept {
    return machines_.empty();
  }

  /// Null: unknown. Version 0 stands for the newest.
  std::shared_ptr<const machine> find(std::string_view fsm,
                                      std::int32_t version) const;

  /// All of them, as `pick` wants to know them.
  std::vector<machine_version> keys() const;

private:
  std::map<std::string, std::map<std::int32_t, std::shared_ptr<const machine>>,
           std::less<>>
    machines_;
};

} // namespace gd
