#include <gd/testing.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

/// What _gd_move does, with its answers.
namespace gd::testing {

static error wrong(errc code, std::string text) {
  return {code, std::move(text), {}};
}

const machine::step_definition*
simulation::find_arrival(const row& x, const gd::transition& what,
                         error& why) const {
  const auto& now = x.shown;
  bool movable = now.status == "runnable" || now.status == "awaiting_signal";
  if (!movable || what.from.value_or(now.step) != now.step
      || what.seq.value_or(now.seq) != now.seq) {
    why = wrong(
      errc::transition_conflict,
      fmt::format("target: instance {}: expected runnable or awaiting_signal{}"
                  "{}, got {} at {}, seq {}",
                  now.id, what.from ? " at " + *what.from : "",
                  what.seq ? fmt::format(", seq {}", *what.seq) : "",
                  now.status, now.step, now.seq));
    return nullptr;
  }
  auto of = known_->find(now.fsm, now.version);
  if (!of) {
    why = wrong(errc::not_allowed,
                fmt::format("to: no node has made known where {} v{} may be "
                            "moved from outside",
                            now.fsm, now.version));
    return nullptr;
  }
  const auto* to = of->find_step(what.to);
  if (to == nullptr) {
    why = wrong(errc::unknown_step,
                fmt::format("to: expected one of {} of {} v{}, got {}",
                            of->step_names(), now.fsm, now.version, what.to));
    return nullptr;
  }
  std::set<std::string> open;
  if (const auto* from = of->find_step(now.step))
    open.insert(from->outside.begin(), from->outside.end());
  if (open.contains(what.to))
    return to;
  why = wrong(
    errc::not_allowed,
    open.empty()
      ? fmt::format("to: {} v{} lets nobody outside move it from {}", now.fsm,
                    now.version, now.step)
      : fmt::format("to: expected one of {} from {} of {} v{}, got {}",
                    fmt::join(open, "|"), now.step, now.fsm, now.version,
                    what.to));
  return nullptr;
}

void simulation::arrive(row& x, const machine::step_definition& at) {
  auto& to = x.shown;
  to.step = at.name;
  to.attempt = to.crashes = to.trials = 0;
  to.last_error.reset();
  to.wake_reason.reset();
  to.awaits.reset();
  to.awaits_also.clear();
  to.deadline_us.reset();
  if (!at.rests) {
    make_eligible(x, now_us());
  } else if (at.rests->ends) {
    to.status = "done";
    to.result = json::raw("{}");
  } else {
    to.status = "awaiting_signal";
    to.awaits = "";
    if (at.rests->after)
      to.deadline_us = now_us() + at.rests->after->count();
  }
}

gd::result<transitioned> simulation::transition(gd::transition what) {
  if (problem_)
    return *problem_;
  if (auto ok = check(what, limits_); !ok)
    return ok.error();
  auto* found = find(what.target, what.key);
  if (found == nullptr)
    return wrong(errc::no_such_target, "target: there is no instance "
                                         + address_text(what.target, what.key));
  auto& x = *found;
  error why;
  const auto* to = find_arrival(x, what, why);
  if (to == nullptr)
    return why;
  auto status = !to->rests        ? "runnable"
                : to->rests->ends ? "done"
                                  : "awaiting_signal";
  if (auto other = holder(x, status))
    return wrong(errc::key_taken,
                 fmt::format("unique_key: instance {} has it", *other));
  if (what.state)
    x.shown.state = as_stored(std::move(*what.state).text());
  ++x.shown.seq;
  arrive(x, *to);
  touch(x);
  return transitioned{x.shown.seq, x.shown.status};
}

} // namespace gd::testing
