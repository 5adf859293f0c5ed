// What a picker does with workers that have no database: hands rows out to them, and
// takes in what they say of them.

#include <gd/actors/queue/picker.hpp>

#include <gd/store/ends.hpp>

#include <caf/all.hpp>

#include <utility>

namespace gd::actors {

namespace {

using away = step_table::away;
using state = step_table::state;
using kind = elsewhere::report::what;

/// Outcomes of executions that nobody here knows, at the same time, at the most.
constexpr std::size_t most_late = 1'000;

} // namespace

void picker_actor::see_workers() {
  workers_ = home_->workers.get();
  if (!workers_)
    return;
  auto self = caf::actor_cast<caf::actor>(this);
  workers_->enter(queue_.name, [self] { anon(self, workers_changed{}); });
}

/// What runs here runs soonest; but for a suspect on trial: the end of a worker's process
/// costs less than that of this one.
bool picker_actor::goes_elsewhere(const execution_ptr& what) {
  bool alone = trials_.is_of(what->under());
  return (alone || gate_.why_no_slot(begun_.running()))
         && hand_out(what, alone);
}

/// `alone`: to a worker that has nothing else.
bool picker_actor::hand_out(const execution_ptr& what, bool alone) {
  if (what->step() == nullptr || what->under()->lost)
    return false;
  auto tag = begun_.draw_tag();
  auto t = now();
  auto whose = workers_->hand_out(queue_.name, tag, *what, home_->config.lease,
                                  alone, t);
  if (!whose)
    return false;
  let_go(*what);
  what->strip();
  home_->begin(*what->under(), t);
  begun_.add(tag,
             {.under = what->under(),
              .kind = away{.from = std::move(*whose), .what = what},
              .key = store::hold_of(what->row()),
              .trials = what->row().trials},
             state::running);
  return true;
}

void picker_actor::on_workers_changed() {
  if (!workers_)
    see_workers();
  if (workers_)
    for (auto& x : workers_->collect(queue_.name))
      read_report(x);
  start_steps();
  drive();
}

void picker_actor::read_report(elsewhere::report& x) {
  auto* found = begun_.find(x.tag);
  if (found == nullptr) {
    if (x.kind == kind::outcome)
      add_late(x);
    return;
  }
  auto& there = std::get<away>(found->kind);
  switch (x.kind) {
    case kind::outcome: {
      if (found->has_outcome())
        return;
      const auto& of = there.what;
      if (!x.row) {
        workers_->refuse(x, false, now());
        there.function = false;
        return crash(*found, *of, x.why);
      }
      auto handled = x.ran.handled;
      of->complete(*x.row);
      of->ran(std::move(x.ran));
      found->unwritten = x.row->bytes();
      steps_->add_unwritten(found->unwritten);
      return add_outcome(
        *found, std::make_unique<store::outcome_row>(std::move(*x.row)),
        handled, of);
    }
    case kind::crashed:
      there.what->ran(std::move(x.ran));
      if (!x.told) // the end of a worker is no trial of all that it had
        found->under->begin(clock::time_point::min());
      return crash(*found, *there.what, x.why);
    case kind::returned: {
      auto row = begun_.take_queued(x.tag);
      row.under->begin(clock::time_point::min());
      return release(*std::get<away>(row.kind).what);
    }
    case kind::over:
      there.function = false;
      return forget_if_over(*found);
    case kind::suspended: {
      home_->leases.remove(found->under);
      if (!x.process_gone)
        return;
      bool alone = trials_.is_of(found->under);
      trials_.note(*found->under, found->trials + (alone ? 1 : 0), now(),
                   there.from);
      if (alone) // it has not survived it
        trials_.end();
      return;
    }
    case kind::resumed:
      if (found->under->lost)
        return;
      home_->leases.add(found->under);
      trials_.note(*found->under, found->trials, now()); // its process lives
  }
}

/// Of an execution that was another engine's, or has been given up: its token tells
/// whether it still counts.
void picker_actor::add_late(elsewhere::report& x) {
  // What goes on here, or at another worker, is not this one's to end.
  bool foreign = home_->leases.contains(x.id, x.token);
  if (!x.row || foreign || late_ >= most_late)
    return workers_->refuse(x, x.row && !foreign, now());
  ++late_;
  // Its row is not known here, so it is not erased with this.
  auto end = store::end_of(x.row->what);
  auto machine = home_->machines->find_any(x.fsm, x.version);
  if (end && machine)
    if (const auto& time = machine->kept(*end))
      x.row->keep_us = time->count();
  auto tag = begun_.draw_tag();
  auto& added = begun_.add(
    tag,
    {.under = std::make_shared<lease>(x.id, x.token),
     .kind = away{.from = x.from, .function = false, .tries = x.tries}},
    state::reported);
  added.unwritten = x.row->bytes();
  steps_->add_unwritten(added.unwritten);
  turn_.add(std::move(*x.row), tag);
}

/// Whether the next step is run where this one was.
bool picker_actor::go_on_there(const entry& x, const execution_ptr& after,
                               turn::flushed& written) {
  bool may = after->row().shown && !gate_.why_not_begin(after->row());
  auto tag = begun_.draw_tag();
  auto t = now();
  const auto& from = x.at_worker()->from;
  if (!workers_->settle(from, written, 0, may ? after.get() : nullptr, tag,
                        t + home_->config.lease, t))
    return false;
  after->strip();
  home_->begin(*after->under(), t);
  begun_.add(
    tag, {.under = after->under(), .kind = away{.from = from, .what = after}},
    state::running);
  return true;
}

/// Tells the worker what has become of its outcome.
void picker_actor::answer(const entry& x, const turn::flushed& of) {
  const auto& there = *x.at_worker();
  if (!there.what)
    --late_;
  auto t = now();
  workers_->settle(there.from, of, there.tries, nullptr, 0,
                   t + home_->config.lease, t);
}

} // namespace gd::actors
