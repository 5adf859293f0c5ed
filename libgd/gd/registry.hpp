#pragma once

#include <gd/machine.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

/// What a row says of its machine.
struct machine_version {
  std::string fsm{};
  std::int32_t version = 1;
};

/// The machines of a node by (fsm, version); versions coexist, none is assumed.
class registry {
public:
  registry() = default;
  explicit registry(std::vector<machine> machines);

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
