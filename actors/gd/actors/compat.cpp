#include <gd/actors/compat.hpp>
#include <gd/actors/messages.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <thread>

namespace gd::actors {

namespace {

// Our errors carry the sentence and the SQLSTATE; where CAF's own to_string shows a code as a
// number, its name, too.
#if GD_CAF_017
constexpr auto category = caf::atom("gd");

bool has_our_context(const caf::message& x) {
  return x.match_elements<std::string, std::string, std::string>();
}

gd::error error_of(std::uint8_t code, const caf::message& x) {
  return {static_cast<errc>(code), x.get_as<std::string>(1),
          x.get_as<std::string>(2)};
}
#endif

} // namespace

void share_work(caf::actor_system_config& cfg) {
#if GD_CAF_017
  constexpr auto policy = "scheduler.policy";
  const auto sharing = caf::atom("sharing");
#else
  constexpr auto policy = "caf.scheduler.policy";
  const std::string sharing = "sharing";
#endif
  if (caf::get_if(&caf::content(cfg), policy) == nullptr)
    cfg.set(policy, sharing);
}

void prepare_network(caf::actor_system_config& cfg) {
  constexpr std::size_t reads = 5;
#if GD_CAF_017
  cfg.set("middleman.max-consecutive-reads", reads);
#else
  cfg.set("caf.middleman.max-consecutive-reads", reads);
  // Off in CAF 0.17. CAF 1.1 takes who is just connecting for silent, too.
  cfg.set("caf.middleman.heartbeat-interval", caf::timespan{0});
#endif
}

std::size_t scheduler_threads(caf::actor_system& sys) {
#if GD_CAF_017
  return sys.scheduler().num_workers();
#else
  return caf::get_or(
    sys.config(), "caf.scheduler.max-threads",
    std::max(std::size_t{std::thread::hardware_concurrency()}, std::size_t{4}));
#endif
}

#if GD_CAF_017

caf::error to_caf(const gd::error& why) {
  return caf::make_error(why.code, std::string{to_string(why.code)},
                         why.message, why.sqlstate);
}

caf::config_option_set& options_of(caf::actor_system_config& cfg) {
  struct opened
    : caf::actor_system_config { // they are for those derived from it
    static caf::config_option_set& of(caf::actor_system_config& x) {
      return x.*&opened::custom_options_;
    }
  };
  return opened::of(cfg);
}

bool is_ours(const caf::error& why) {
  return why && why.category() == category && has_our_context(why.context());
}

gd::error from_caf(caf::actor_system& sys, const caf::error& why) {
  if (is_ours(why))
    return error_of(why.code(), why.context());
  return {errc::unknown_fate, render(sys, why), {}};
}

std::string render(caf::actor_system& sys, const caf::error& why) {
  return why ? sys.render(why) : "a normal exit";
}

void register_errors(caf::actor_system_config& cfg) {
  cfg.add_error_category(category, [](std::uint8_t code, caf::atom_value,
                                      const caf::message& context) {
    return to_string(has_our_context(context)
                       ? error_of(code, context)
                       : gd::error{static_cast<errc>(code), {}, {}});
  });
}

#else

caf::error to_caf(const gd::error& why) {
  return caf::make_error(why.code, why.message, why.sqlstate);
}

caf::config_option_set& options_of(caf::actor_system_config& cfg) {
  return cfg.custom_options();
}

bool is_ours(const caf::error& why) {
  return why.category()
           == caf::type_id_v<
             errc> && why.context().match_elements<std::string, std::string>();
}

gd::error from_caf(caf::actor_system& sys, const caf::error& why) {
  if (is_ours(why))
    return {static_cast<errc>(why.code()), why.context().get_as<std::string>(0),
            why.context().get_as<std::string>(1)};
  return {errc::unknown_fate, render(sys, why), {}};
}

std::string render(caf::actor_system& sys, const caf::error& why) {
  if (is_ours(why))
    return to_string(from_caf(sys, why)); // CAF would quote what it holds
  return why ? caf::to_string(why) : "a normal exit";
}

void register_errors(caf::actor_system_config&) {
  // nop: to_string does it
}

#endif

} // namespace gd::actors

#if !GD_CAF_017
namespace gd {

bool from_integer(std::uint8_t value, errc& x) {
  x = static_cast<errc>(value);
  return to_string(x) != "unknown";
}

bool from_string(std::string_view name, errc& x) {
  for (std::uint8_t value = 1; from_integer(value, x); ++value)
    if (to_string(x) == name)
      return true;
  return false;
}

} // namespace gd
#endif
