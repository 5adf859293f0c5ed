#include <gd/engine/intake/resolve.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace gd {

namespace {

error invalid(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

std::vector<std::string> steps_of(const machine& x) {
  std::vector<std::string> names;
  for (const auto& step : x.steps)
    names.push_back(step.name);
  return names;
}

const std::vector<std::string>& steps_of(const store::known_machine& x) {
  return x.steps;
}

bool has_step(const machine& x, const std::string& step) {
  return x.find_step(step) != nullptr;
}

bool has_step(const store::known_machine& x, const std::string& step) {
  return std::find(x.steps.begin(), x.steps.end(), step) != x.steps.end();
}

std::optional<machine::resting> resting_at(const machine& x,
                                           const std::string& step) {
  const auto* found = x.find_step(step);
  return found != nullptr ? found->rests : std::nullopt;
}

std::optional<machine::resting> resting_at(const store::known_machine& x,
                                           const std::string& step) {
  auto found = x.open.find(step);
  if (found == x.open.end() || !(found->second.rests || found->second.ends))
    return std::nullopt;
  machine::resting how{.ends = found->second.ends};
  if (auto after = found->second.after_us)
    how.after = std::chrono::microseconds{*after};
  return how;
}

std::optional<std::int64_t> kept(const machine& x, final_status how) {
  const auto& time = x.kept(how);
  return time ? std::optional<std::int64_t>{time->count()} : std::nullopt;
}

std::optional<std::int64_t> kept(const store::known_machine& x,
                                 final_status how) {
  return how == final_status::done ? x.retention.done : x.retention.failed;
}

/// A key cannot stay taken by what is deleted.
template <class Machine>
result<void> check_kept(const store::insert_row& row, const Machine& by) {
  for (auto [how, status] : {std::pair{final_status::done, "done"},
                             std::pair{final_status::failed, "failed"}})
    if (kept(by, how) == 0
        && row.unique_scope.find(status) != std::string::npos)
      return invalid(fmt::format("unique_scope: {} v{} keeps no instances that "
                                 "are {}, expected a scope without {}, got {}",
                                 row.fsm, row.version, status, status,
                                 row.unique_scope));
  return {};
}

template <class Machine>
result<void> fill_in(store::insert_row& row, const Machine& by) {
  row.version = by.version;
  row.history = static_cast<std::int16_t>(by.history);
  if (row.step.empty())
    row.step = by.initial_step;
  if (row.queue.empty())
    row.queue = by.queue;
  if (!has_step(by, row.step)) {
    const auto& steps = steps_of(by);
    return error{errc::unknown_step,
                 fmt::format("step: expected one of {} of {} v{}, got {}{}",
                             fmt::join(steps, "|"), row.fsm, row.version,
                             row.step, meant(row.step, steps)),
                 {}};
  }
  if (auto ok = check_kept(row, by); !ok)
    return ok;
  row.rests = resting_at(by, row.step);
  if (row.rests && (row.delay_us || row.at_us))
    return invalid(fmt::format(
      "eligible_at_us and delay_us: no function runs in step {} of {} v{}, "
      "expected neither",
      row.step, row.fsm, row.version));
  return {};
}

/// What is known of the versions of one name.
struct versions_of_name {
  versions_of_name(const std::string& fsm,
                   const std::vector<store::known_machine>& known)
    : name(fsm) {
    for (const auto& x : known)
      if (x.fsm == fsm) {
        first = first == nullptr ? &x : first;
        pinned = x.pinned ? x.version : pinned;
        by_version.emplace(x.version, &x);
      }
  }

  const store::known_machine* find(std::int32_t version) const {
    auto found = by_version.find(version);
    return found != by_version.end() ? found->second : nullptr;
  }

  bool retired(std::int32_t version) const {
    const auto* x = find(version);
    return x != nullptr && x->retired;
  }

  /// Zero: of those that take inserts, the program has none.
  std::int32_t newest_of(const registry& mine) const {
    std::int32_t newest = 0;
    if (by_version.empty()) {
      auto own = mine.find(name, 0);
      return own ? own->version : 0;
    }
    for (const auto& x : mine.keys())
      if (x.fsm == name && !retired(x.version))
        newest = std::max(newest, x.version);
    return newest;
  }

  /// "1|2"
  std::string names() const {
    std::string all;
    for (const auto& [version, x] : by_version)
      all += fmt::format("{}{}", all.empty() ? "" : "|", version);
    return all;
  }

  const std::string& name;
  /// What an insert means that names no version; null: nothing is known.
  const store::known_machine* first = nullptr;
  std::int32_t pinned = 0; ///< zero: none is
  std::map<std::int32_t, const store::known_machine*> by_version;
};

error unknown_machine(const store::insert_row& row,
                      const std::string& versions) {
  auto what = row.version == 0 ? row.fsm
                               : fmt::format("{} v{}", row.fsm, row.version);
  return {errc::unknown_machine,
          versions.empty()
            ? fmt::format("fsm: no node has made {} known; expected a known "
                          "machine, or step and queue as well",
                          what)
            : fmt::format("version: {} is known in version {}, got {}; or give "
                          "step and queue as well",
                          row.fsm, versions, row.version),
          {}};
}

} // namespace

store::insert_row row_of(insert x) {
  store::insert_row row;
  row.open = {.version = x.version == 0,
              .step = x.step.empty(),
              .queue = x.queue.empty()};
  row.fsm = std::move(x.fsm);
  row.version = x.version;
  row.step = std::move(x.step);
  row.state = std::move(x.state).text();
  row.queue = std::move(x.queue);
  row.priority = x.priority;
  row.at_us = x.eligible_at_us;
  if (x.delay_us > 0)
    row.delay_us = x.delay_us;
  row.partition_key = std::move(x.partition_key);
  row.unique_key = std::move(x.unique_key);
  row.traceparent = std::move(x.traceparent);
  if (row.unique_key)
    row.unique_scope = x.unique_scope.empty()
                         ? fmt::format("{}", fmt::join(default_scope, ","))
                         : fmt::format("{}", fmt::join(x.unique_scope, ","));
  return row;
}

void reopen(store::insert_row& row) {
  row.history = 0;
  row.rests.reset();
  if (row.open.version)
    row.version = 0;
  if (row.open.step)
    row.step.clear();
  if (row.open.queue)
    row.queue.clear();
}

/// What was checked as it is, as its machine stores it.
static result<void> encrypt_state(store::insert_row& row, const machine& own,
                                  const limits& bounds) {
  if (!own.encrypted_by)
    return {};
  auto state = own.stored(json::raw(std::move(row.state)));
  if (auto ok = check_size("state", state, bounds.state); !ok)
    return ok;
  row.state = std::move(state).text();
  return {};
}

result<void> resolve(store::insert_row& row, const registry& mine,
                     const std::vector<store::known_machine>& known,
                     const limits& bounds) {
  versions_of_name all{row.fsm, known};
  auto version = row.version != 0 ? row.version : all.pinned;
  if (version == 0)
    version = all.newest_of(mine);
  if (version == 0 && all.first != nullptr)
    version = all.first->version;
  if (all.retired(version))
    return error{errc::version_retired,
                 row.version != 0
                   ? fmt::format("version: {} v{} is retired", row.fsm, version)
                   : fmt::format("version: all versions of {} are retired: {}",
                                 row.fsm, all.names()),
                 {}};
  if (auto own = version != 0 ? mine.find(row.fsm, version) : nullptr) {
    if (auto ok = fill_in(row, *own); !ok)
      return ok;
    if (auto ok = own->check_stored(row.state); !ok)
      return error{ok.error().code, "state: " + ok.error().message, {}};
    return encrypt_state(row, *own, bounds);
  }
  if (const auto* found = all.find(version))
    return fill_in(row, *found);
  if (row.step.empty() || row.queue.empty())
    return unknown_machine(row, all.names());
  row.version = std::max(row.version, 1);
  return {};
}

} // namespace gd
