#pragma once

#include <gd/actors/compat.hpp>

#include <gd/config.hpp>
#include <gd/error.hpp>

#include <caf/actor_system_config.hpp>
#include <caf/config_option_adder.hpp>
#include <caf/config_value.hpp>
#include <caf/timespan.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// \file
/// Settings of ours as options of CAF, of whatever group.
namespace gd::actors {

/// As which of its own types CAF reads a field.
template <class T>
struct read_as : std::type_identity<T> {};
template <>
struct read_as<std::chrono::milliseconds> : std::type_identity<caf::timespan> {
};
template <>
struct read_as<std::vector<queue_config>>
  : std::type_identity<std::vector<std::string>> {};

/// Of a field: with dashes in the place of underscores.
std::string option_name(std::string_view group, std::string field);

/// Makes a field an option; `name` may be of a group within a group.
template <class T>
void add_option(caf::actor_system_config& cfg, const std::string& name,
                std::string_view text) {
  auto dot = name.rfind('.');
  auto group = name.substr(0, dot);
  caf::config_option_adder{options_of(cfg), group} //
    .add<typename read_as<T>::type>(name.substr(dot + 1),
                                    {text.data(), text.size()});
}

/// What a program's command line and its file say of a group of options.
class given_options {
public:
  /// `usual`: what a queue has of which only the name is told.
  given_options(const caf::actor_system_config& cfg, const std::string& group,
                queue_config usual = {});

  /// Puts the value there, if there is one that fits.
  template <class T>
  void read(const std::string& name, T& to) {
    if (auto found = values_.extract(name))
      if (auto why = read_value(*found.mapped(), to))
        refuse(name, *why);
  }

  /// The first that does not fit, or that nobody has read.
  std::optional<error> wrong();

private:
  /// Why it is no such value; nullopt: it is, and `to` has it now.
  using refusal = std::optional<std::string>;

  refusal read_value(const caf::config_value& from, std::string& to) const;
  refusal read_value(const caf::config_value& from, bool& to) const;
  refusal read_value(const caf::config_value& from, double& to) const;
  refusal read_value(const caf::config_value& from, std::int32_t& to) const;
  refusal read_value(const caf::config_value& from, std::int64_t& to) const;
  refusal read_value(const caf::config_value& from, std::size_t& to) const;
  refusal read_value(const caf::config_value& from,
                     std::chrono::milliseconds& to) const;
  refusal read_value(const caf::config_value& from,
                     std::vector<std::string>& to) const;
  refusal read_value(const caf::config_value& from,
                     std::vector<queue_config>& to) const;

  void collect(const std::string& name, const caf::config_value& value);
  void refuse(const std::string& name, const std::string& why);
  std::optional<queue_config> queue_of(std::string_view text) const;

  std::map<std::string, const caf::config_value*> values_;
  queue_config usual_;
  std::optional<error> wrong_;
};

} // namespace gd::actors
