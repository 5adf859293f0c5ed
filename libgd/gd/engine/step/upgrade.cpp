#include <gd/engine/step/upgrade.hpp>

#include <fmt/format.h>

#include <exception>

namespace gd {

namespace {

std::string undecodable(const machine& to, const std::string& state) {
  try { // codecs may be the user's
    auto ok = to.check_state(state);
    return ok ? std::string{} : ok.error().message;
  } catch (const std::exception& why) {
    return why.what();
  } catch (...) {
    return "its codec has thrown something that is no std::exception";
  }
}

} // namespace

std::string upgrade_fault(const registry& machines,
                          const store::upgrade_row& row) {
  if (!row.state)
    return fmt::format("upgrade: instance {}: expected "
                       "runnable|awaiting_signal|failed, got executing at {}",
                       row.id, clean_text(row.step, 255));
  auto from = machines.find_any(row.fsm, row.version);
  auto to = machines.find(row.fsm, row.to_version);
  if (!from || !to)
    return fmt::format(
      "version: instance {}: expected one that this node has "
      "beside {} v{}, got {} v{}",
      row.id, clean_text(row.fsm, 255), to ? row.to_version : row.version,
      clean_text(row.fsm, 255), to ? row.version : row.to_version);
  if (to->find_step(row.to_step) == nullptr)
    return fmt::format("step: instance {}: expected a step of {} ({}), got {}: "
                       "map it",
                       row.id, to->title(), to->step_names(),
                       clean_text(row.to_step, 255));
  auto why = undecodable(*to, *row.state);
  return why.empty() ? why
                     : fmt::format("state: instance {}: expected one of {}: {}",
                                   row.id, to->title(), why);
}

} // namespace gd
