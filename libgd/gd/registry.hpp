#pragma once

#include <gd/machine.hpp>

#include <atomic>
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

/// From a version of a machine to another one.
struct version_change {
  std::string fsm{};     ///< the machine's name
  std::int32_t from = 0; ///< the version that it has
  std::int32_t to = 0;   ///< that it gets
  bool at_pick = false;  ///< see `machine_builder::from`
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

  /// Null: unknown, or withdrawn. Version 0 stands for the newest.
  std::shared_ptr<const machine> find(std::string_view fsm,
                                      std::int32_t version) const;

  /// Also one that is withdrawn: for rows that were picked before.
  std::shared_ptr<const machine> find_any(std::string_view fsm,
                                          std::int32_t version) const;

  /// From now on it is not found. Other threads may read meanwhile.
  void withdraw(std::string_view fsm, std::int32_t version) const;

  /// All that can be found, as `pick` wants to know them.
  std::vector<machine_version> keys() const;

  /// The upgrades that can be judged here: where both versions are there, or the one
  /// converts the other's states.
  std::vector<version_change> upgrades() const;

private:
  struct entry {
    std::shared_ptr<const machine> known;
    std::shared_ptr<std::atomic<bool>> withdrawn
      = std::make_shared<std::atomic<bool>>(false);
  };

  const entry* at(std::string_view fsm, std::int32_t version) const;

  std::map<std::string, std::map<std::int32_t, entry>, std::less<>> machines_;
};

} // namespace gd
