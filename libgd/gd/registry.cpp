#include <gd/registry.hpp>

namespace gd {

registry::registry(std::vector<machine> machines) {
  for (auto& x : machines) {
    auto& versions = machines_[x.name];
    auto version = x.version;
    versions.emplace(version, std::make_shared<const machine>(std::move(x)));
  }
}

std::shared_ptr<const machine> registry::find(std::string_view fsm,
                                              std::int32_t version) const {
  auto versions = machines_.find(fsm);
  if (versions == machines_.end())
    return nullptr;
  if (version == 0)
    return versions->second.rbegin()->second;
  auto found = versions->second.find(version);
  return found != versions->second.end() ? found->second : nullptr;
}

std::vector<machine_version> registry::keys() const {
  std::vector<machine_version> keys;
  for (const auto& [name, versions] : machines_)
    for (const auto& [version, one] : versions)
      keys.push_back({name, version});
  return keys;
}

} // namespace gd
