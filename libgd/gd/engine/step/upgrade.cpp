#include <gd/engine/step/upgrade.hpp>

#include <fmt/format.h>

#include <utility>

namespace gd {

namespace {

upgrade_check refused(std::string why) {
  return {.fault = std::move(why)};
}

/// The operator's word counts before the machine's.
std::string arrival(const machine::conversion* by,
                    const store::upgrade_row& row) {
  if (by != nullptr && row.to_step == row.step)
    if (auto found = by->steps.find(row.step); found != by->steps.end())
      return found->second;
  return row.to_step;
}

} // namespace

upgrade_check check_upgrade(const registry& machines, const limits& bounds,
                            const store::upgrade_row& row) {
  if (!row.state)
    return refused(fmt::format("upgrade: instance {}: expected "
                               "runnable|awaiting_signal|failed, got executing "
                               "at {}",
                               row.id, clean_text(row.step, 255)));
  auto from = machines.find_any(row.fsm, row.version);
  auto to = machines.find(row.fsm, row.to_version);
  const auto* by = to ? to->find_conversion(row.version) : nullptr;
  if (!to || (!from && by == nullptr))
    return refused(fmt::format(
      "version: instance {}: expected one that this node has beside {} v{}, or "
      "whose states that converts (.from), got {} v{}",
      row.id, clean_text(row.fsm, 255), to ? row.to_version : row.version,
      clean_text(row.fsm, 255), to ? row.version : row.to_version));
  auto step = arrival(by, row);
  if (to->find_step(step) == nullptr)
    return refused(fmt::format("step: instance {}: expected a step of {} ({}), "
                               "got {}: map it",
                               row.id, to->title(), to->step_names(),
                               clean_text(step, 255)));
  auto now = to->migrate(row.version, *row.state);
  auto fits = now ? check_size("the new one", *now, bounds.state)
                  : result<void>{now.error()};
  if (!fits)
    return refused(
      fmt::format("state: instance {}: {}", row.id, fits.error().message));
  upgrade_check out{.step = std::move(step)};
  if (by != nullptr)
    out.state = now->text();
  return out;
}

} // namespace gd
