#include <gd/registry.hpp>

namespace gd {

registry::registry(std::vector<machine> machines) {
  for (auto& x : machines) {
    auto& versions = machines_[x.name];
    auto version = x.version;
    versions.try_emplace(version,
                         entry{std::make_shared<const machine>(std::move(x))});
  }
}

const registry::entry* registry::at(std::string_view fsm,
                                    std::int32_t version) const {
  auto versions = machines_.find(fsm);
  if (versions == machines_.end())
    return nullptr;
  auto found = versions->second.find(version);
  return found != versions->second.end() ? &found->second : nullptr;
}

std::shared_ptr<const machine> registry::find(std::string_view fsm,
                                              std::int32_t version) const {
  if (version != 0) {
    const auto* x = at(fsm, version);
    return x != nullptr && !*x->withdrawn ? x->known : nullptr;
  }
  auto versions = machines_.find(fsm);
  if (versions != machines_.end())
    for (auto i = versions->second.rbegin(); i != versions->second.rend(); ++i)
      if (!*i->second.withdrawn)
        return i->second.known;
  return nullptr;
}

std::shared_ptr<const machine> registry::find_any(std::string_view fsm,
                                                  std::int32_t version) const {
  const auto* x = at(fsm, version);
  return x != nullptr ? x->known : nullptr;
}

void registry::withdraw(std::string_view fsm, std::int32_t version) const {
  if (const auto* x = at(fsm, version))
    *x->withdrawn = true;
}

std::vector<machine_version> registry::keys() const {
  std::vector<machine_version> keys;
  for (const auto& [name, versions] : machines_)
    for (const auto& [version, one] : versions)
      if (!*one.withdrawn)
        keys.push_back({name, version});
  return keys;
}

std::vector<version_change> registry::upgrades() const {
  std::vector<version_change> out;
  for (const auto& [name, versions] : machines_)
    for (const auto& [version, one] : versions) {
      if (*one.withdrawn)
        continue;
      for (const auto& x : one.known->conversions)
        out.push_back({name, x.version, version, x.at_pick});
      for (const auto& [other, _] : versions)
        if (other != version && !one.known->find_conversion(other))
          out.push_back({name, other, version});
    }
  return out;
}

} // namespace gd
