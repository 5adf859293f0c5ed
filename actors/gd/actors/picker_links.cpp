// What a picker does with workers that have no database: hands rows out to them, and
// takes in what they say of them.

#include <gd/actors/picker.hpp>

#include <gd/pq/store_ends.hpp>

#include <caf/all.hpp>

#include <utility>

namespace gd::actors {

namespace {

using state = step_table::state;
using what = link_host::report::what;

/// Outcomes of executions that nobody here knows, at the same time, at the most.
constexpr std::size_t most_late = 1'000;

std::unique_ptr<step_table::away> with(std::string link, bool function = true,
                                       std::int32_t tries = 0) {
  return std::make_unique<step_table::away>(
    step_table::away{std::move(link), function, tries});
}

} // namespace

/// What runs here runs soonest; but for a suspect on trial: the end of a worker's process
/// costs less than that of this one.
bool picker_actor::goes_elsewhere(const execution_ptr& what) {
  bool alone = is_on_trial(what->under());
  return (alone || begun_.running() >= queue_.slots) && hand_out(what, alone);
}

/// `alone`: to a worker that has nothing else.
bool picker_actor::hand_out(const execution_ptr& what, bool alone) {
  if (what->step() == nullptr || what->under()->lost)
    return false;
  auto tag = begun_.draw_tag();
  auto t = now();
  auto link = home_->links->hand_out(queue_.name, tag, *what,
                                     home_->config.lease, alone, t);
  if (!link)
    return false;
  let_go(*what);
  what->strip();
  home_->begin(*what->under(), t);
  begun_.add(tag,
             {.under = what->under(),
              .what = what,
              .away = with(std::move(*link)),
              .key = store::hold_of(what->row()),
              .trials = what->row().trials},
             state::running);
  return true;
}

void picker_actor::on_links_changed() {
  for (auto& x : home_->links->collect(queue_.name))
    read_link(x);
  start_steps();
  drive();
}

void picker_actor::read_link(link_desk::report& x) {
  auto* found = begun_.find(x.tag);
  if (found == nullptr) {
    if (x.kind == what::outcome)
      add_late(x);
    return;
  }
  switch (x.kind) {
    case what::outcome: {
      if (found->has_outcome())
        return;
      auto row = link::to_outcome(x.which, std::move(x.outcome.row));
      const auto& of = found->what;
      if (!row) {
        found->away->function = false;
        return crash(*found, *of, row.error().message);
      }
      of->complete(*row);
      auto& told = x.outcome.told;
      of->ran({told.handled, std::move(told.failure), std::move(told.end),
               link::duration_of(told.took_us)});
      found->unwritten = row->bytes();
      steps_->add_unwritten(found->unwritten);
      return add_outcome(*found,
                         std::make_unique<store::outcome_row>(std::move(*row)),
                         told.handled, of);
    }
    case what::crashed:
      found->what->ran({.took = link::duration_of(x.took_us)});
      if (!x.told) // the end of a worker is no trial of all that it had
        found->under->begin(clock::time_point::min());
      return crash(*found, *found->what, x.why);
    case what::returned: {
      auto row = begun_.take_queued(x.tag);
      row.under->begin(clock::time_point::min());
      return release(*row.what);
    }
    case what::over:
      found->away->function = false;
      return forget_if_over(*found);
    case what::suspended: {
      home_->leases.remove(found->under);
      if (!x.process_gone)
        return;
      bool alone = is_on_trial(found->under);
      note(*found->under, found->trials + (alone ? 1 : 0), found->away->link);
      if (alone) // it has not survived it
        end_trial();
      return;
    }
    case what::resumed:
      if (found->under->lost)
        return;
      home_->leases.add(found->under);
      note(*found->under, found->trials); // its process lives
  }
}

/// Of an execution that was another engine's, or has been given up: its token tells
/// whether it still counts.
void picker_actor::add_late(link_desk::report& x) {
  link::settled no;
  no.id = x.which.id;
  no.token = x.which.token;
  no.tries = x.outcome.tries;
  auto row = link::to_outcome(x.which, std::move(x.outcome.row));
  // What goes on here, or at another worker, is not this one's to end.
  bool foreign = home_->leases.contains(x.which.id, x.which.token);
  if (!row || foreign || late_ >= most_late) {
    no.what = row && !foreign ? link::verdict::overloaded
                              : link::verdict::stale;
    home_->links->settle(x.link, std::move(no), 0, now(), now());
    return;
  }
  ++late_;
  // Its row is not known here, so it is not erased with this.
  const auto& told = x.outcome.told;
  auto end = store::end_of(row->what);
  auto machine = home_->machines->find_any(told.fsm, told.version);
  if (end && machine)
    if (const auto& time = machine->kept(*end))
      row->keep_us = time->count();
  auto tag = begun_.draw_tag();
  auto& added = begun_.add(
    tag,
    {.under = std::make_shared<lease>(x.which.id, x.which.token),
     .away = with(x.link, false, x.outcome.tries)},
    state::reported);
  added.unwritten = row->bytes();
  steps_->add_unwritten(added.unwritten);
  turn_.add(std::move(*row), tag);
}

/// Whether the next step is run where this one was.
bool picker_actor::go_on_there(const entry& x, const execution_ptr& after,
                               turn::flushed& written) {
  bool may = after->row().shown && !draining_ && !paused_
             && !home_->isolation->held() && !is_withdrawn(after->row());
  link::settled answer;
  answer.id = written.row->id;
  answer.token = written.row->token;
  if (may) {
    answer.next_token = after->under()->token;
    answer.inbox = link::inbox_of(after->row().inbox);
  }
  auto tag = begun_.draw_tag();
  auto t = now();
  if (!home_->links->settle(x.away->link, std::move(answer), tag,
                            t + home_->config.lease, t))
    return false;
  after->strip();
  home_->begin(*after->under(), t);
  begun_.add(
    tag, {.under = after->under(), .what = after, .away = with(x.away->link)},
    state::running);
  return true;
}

/// Tells the worker what has become of its outcome.
void picker_actor::answer(const entry& x, const turn::flushed& of) {
  if (!x.what)
    --late_;
  link::settled y;
  y.id = of.row->id;
  y.token = of.row->token;
  y.tries = x.away->tries;
  using verdict = turn::flushed::verdict;
  switch (of.what) {
    case verdict::applied:
      break;
    case verdict::stale:
      y.what = link::verdict::stale;
      break;
    case verdict::unknown:
      y.what = link::verdict::unknown;
      break;
    case verdict::refused:
    case verdict::collided:
      y.what = of.what == verdict::refused ? link::verdict::refused
                                           : link::verdict::collided;
      y.code = static_cast<std::uint8_t>(of.why.code);
      y.why = of.why.message;
      y.why_told = of.what == verdict::collided ? of.why.message
                                                : without_data(of.why).message;
      y.sqlstate = of.why.sqlstate;
      y.holder = of.holder;
  }
  auto t = now();
  home_->links->settle(x.away->link, std::move(y), 0, t + home_->config.lease,
                       t);
}

} // namespace gd::actors
