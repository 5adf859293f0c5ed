// What a picker does with steps: begins them, collects their outcomes, sees to
// their limits, and ends them when they are settled.

#include <gd/actors/picker.hpp>

#include <gd/actors/step.hpp>

#include <gd/pq/expect.hpp>

#include <caf/all.hpp>

#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using state = step_table::state;

/// A step that keeps one of CAF's threads for so long is told.
constexpr std::chrono::milliseconds slow_step{10};

/// Whether the step's function runs on one of CAF's threads until it has an outcome.
bool is_pooled(const machine::step_definition& x) {
  return !x.start && !x.how.blocking;
}

/// Whether a runner can run the step: it has no time limit, and returns its outcome.
bool is_plain(const machine::step_definition& x) {
  return is_pooled(x) && !x.limit();
}

} // namespace

// -- beginnings ---------------------------------------------------------------

void picker_actor::start_steps() {
  // In the order of the picks: a step that needs a slot of its own waits until
  // the runners have let go of one, and what comes behind it waits with it.
  std::vector<step_queue::job> plain;
  for (; !ahead_.empty(); ahead_.pop_front()) {
    auto& next = ahead_.front();
    auto bytes = next->row().bytes();
    const auto* defined = next->step();
    pace_.run_at_once(defined == nullptr || is_pooled(*defined)
                        ? static_cast<std::int32_t>(runners_.size())
                        : queue_.slots);
    if (defined == nullptr || is_plain(*defined)) {
      auto tag = begun_.draw_tag();
      begun_.add(tag,
                 {.under = next->under(),
                  .key = store::hold_of(next->row()),
                  .trials = next->row().trials,
                  .bytes = bytes},
                 state::queued);
      plain.push_back({tag, std::move(next)});
    } else if (next->under()->lost) {
      let_go(*next);
      drop(*next);
    } else {
      steps_->put(std::exchange(plain, {}));
      // No more than can run: the others can be released as long as they lie ahead.
      if ((is_pooled(*defined) && begun_.pooled() >= runners_.size())
          || !steps_->take_slot())
        return;
      begin(std::move(next), *defined, bytes);
    }
  }
  steps_->put(std::move(plain));
}

void picker_actor::begin(execution_ptr what,
                         const machine::step_definition& defined,
                         std::size_t bytes) {
  auto tag = begun_.draw_tag();
  const auto* starter = dynamic_cast<const detail::async_starter*>(
    defined.start.get());
  bool pooled = is_pooled(defined);
  step_table::row row{.under = what->under(),
                      .what = what,
                      .key = store::hold_of(what->row()),
                      .trials = what->row().trials,
                      .bytes = bytes};
  if (auto limit = defined.limit()) {
    row.care = std::make_unique<step_table::supervision>(
      step_table::supervision{
        .limit = *limit, .asynchronous = starter != nullptr, .pooled = pooled});
    row.spare = std::make_shared<execution>(what->without_inbox());
    if (!pooled) {
      row.spare->started();
      row.care->due = now() + *limit;
    }
  }
  auto self = caf::actor_cast<caf::actor>(this);
  caf::actor step;
  if (starter != nullptr)
    step = spawn<async_step_actor>(home_, self, tag, std::move(what), starter);
  else if (defined.how.blocking)
    step = spawn<step_actor, caf::detached>(home_, self, tag, std::move(what),
                                            step_thread::own);
  else // lazily: scheduled once, for its message
    step = spawn<step_actor, caf::lazy_init>(home_, self, tag, std::move(what),
                                             step_thread::shared);
  row.step = step;
  begun_.add(tag, std::move(row), pooled ? state::queued : state::running);
  watcher_.watch(this, step,
                 [this, tag](const caf::error& why) { step_down(tag, why); });
  anon(step, run_step{});
}

void picker_actor::on_step_begun(const step_begun& x) {
  auto* found = begun_.find(x.tag);
  if (found == nullptr || found->now() != state::queued)
    return;
  begun_.begin(*found, x.at);
  found->spare->started();
  arm();
}

/// A job that no runner has begun.
void picker_actor::release_job(const step_queue::job& x) {
  pace_.let_go(begun_.take_queued(x.tag).bytes);
  release(*x.what);
}

// -- outcomes -----------------------------------------------------------------

void picker_actor::on_step_outcome(step_outcome& x) {
  auto* found = begun_.find(x.tag);
  if (found == nullptr || found->has_outcome())
    return;
  found->unwritten = x.row->bytes();
  steps_->add_unwritten(found->unwritten);
  add_outcome(*found, std::make_unique<store::outcome_row>(std::move(*x.row)),
              x.handled, std::move(x.after));
  // An asynchronous step has returned when its actor is down, and one whose
  // handler a deputy has called may be far from it.
  if (found->deputy || found->asynchronous())
    return drive();
  begun_.leave_slot(*found);
  free_slot();
}

void picker_actor::collect_ended() {
  for (auto& x : steps_->take_ended()) {
    auto* found = begun_.find(x.tag);
    expect(found != nullptr, "what a runner has ended was begun");
    begun_.leave_slot(*found);
    pace_.ended();
    if (x.row) {
      auto handled = x.what->failed();
      found->unwritten = x.row->bytes();
      add_outcome(*found, std::move(x.row), handled, std::move(x.what));
    } else if (x.what) {
      crash(*found, *x.what, x.why);
    } else {
      settle(*found);
    }
  }
}

void picker_actor::add_outcome(entry& x, execution::row_ptr outcome,
                               bool handled, execution_ptr after) {
  let_go(x);
  tell_of(*after, *outcome);
  auto& what = outcome->what;
  bool advances = what == store::verb::next && !handled && !draining_
                  && !paused_ && !home_->isolation->held()
                  && after->may_run_ahead() && !is_withdrawn(after->row());
  if (advances) {
    what = store::verb::advance;
    outcome->may_collide = false; // it executes as before
  }
  begun_.report(x, handled, std::move(after), advances);
  if (what == store::verb::next || what == store::verb::replay)
    look_again(); // for this row
  if (what == store::verb::await)
    pick_follows_ = true; // the signal may be there
  turn_.add(std::move(outcome), x.tag);
}

void picker_actor::tell_of(const execution& what,
                           const store::outcome_row& outcome) {
  if (what.failed())
    home_->tell(what.failure_told(outcome));
  if (what.took() < slow_step)
    return;
  const auto* defined = what.step();
  if (defined != nullptr && is_pooled(*defined)
      && home_->slow_steps.add(what.row()))
    home_->tell(events::step_slow{what.which(), what.took()});
}

void picker_actor::collect_flushed(turn::flushed& x) {
  using verdict = turn::flushed::verdict;
  auto* found = begun_.find(x.tag);
  expect(found != nullptr && found->now() == state::reported,
         "what the turn has written was reported");
  if (auto bytes = std::exchange(found->unwritten, 0); bytes > 0)
    steps_->written(bytes);
  switch (x.what) {
    case verdict::applied:
      if (x.row->what != store::verb::release)
        home_->tell(events::step_committed{
          found->spare->which(), store::to_string(x.row->what), found->handled,
          found->spare->took()});
      if (x.row->what == store::verb::stop)
        home_->tell(found->spare->end_told(*x.row));
      if (x.row->what == store::verb::advance) {
        auto after = std::make_shared<execution>(found->spare->after(
          std::move(*x.row), std::move(x.next_token), std::move(x.inbox)));
        home_->leases.add(after->under());
        put_ahead(std::move(after));
      }
      break;
    case verdict::stale:
      home_->tell(events::outcome_stale{x.row->id, x.row->token});
      break;
    case verdict::unknown:
      home_->tell(events::outcome_unknown{x.row->id, x.row->token});
      break;
    case verdict::refused:
    case verdict::collided: {
      auto told = x.what == verdict::collided ? x.why : without_data(x.why);
      home_->tell(events::outcome_refused{x.row->id, told});
      if (!found->spare)
        break;
      begun_.refuse(*found);
      if (!found->deputy)
        found->deputy = appoint(*found);
      anon(found->deputy, step_refused{x.why, std::move(told.message)});
      return;
    }
  }
  settle(*found,
         x.what == verdict::applied && x.row->what != store::verb::release);
}

// -- ends ---------------------------------------------------------------------

void picker_actor::step_down(std::uint64_t tag, const caf::error& why) {
  auto* found = begun_.find(tag);
  if (found == nullptr)
    return;
  auto& x = *found;
  x.step = nullptr;
  bool had_slot = x.has_slot();
  if (had_slot)
    begun_.leave_slot(x);
  bool keyed = x.key.has_value(); // the key's other rows wait
  bool late = x.deputy != nullptr;
  if (late && had_slot && x.care)
    home_->tell(events::step_returned_late{x.what->which(), x.what->took()});
  if (late || x.has_outcome()) {
    forget_if_over(x);
  } else if (x.now() == state::queued && x.under->lost) {
    settle(x); // the step has not begun
  } else if (auto failure = x.asynchronous() ? failure_of_end(system(), why)
                                             : std::nullopt) {
    begun_.lift_limit(x);
    x.deputy = appoint(x);
    anon(x.deputy, step_failed{"step " + x.what->row().step + ": " + *failure});
  } else {
    crash(x, *x.what, why);
  }
  if (had_slot)
    free_slot();
  else if (draining_ || keyed)
    drive();
}

void picker_actor::deputy_down(std::uint64_t tag, const caf::error& why) {
  auto* found = begun_.find(tag);
  if (found == nullptr || found->has_outcome())
    return;
  crash(*found, *found->spare, why);
  drive();
}

void picker_actor::expire_limits() {
  std::vector<lease_ptr> late;
  for (auto* x : begun_.late(now())) {
    if (!x->under->decide(decider::limit))
      continue; // the step's outcome is on its way
    home_->tell(events::step_over_limit{x->what->which(), x->care->limit});
    late.push_back(x->under);
    x->deputy = appoint(*x);
    anon(x->deputy, step_failed{execution::over_limit(x->what->row().step,
                                                      x->care->limit)});
    if (x->care->asynchronous)
      caf::anon_send_exit(x->step, caf::exit_reason::kill);
  }
  stop_steps(system(), late);
}

/// A deputy for the row, whose step's own actor cannot call the handler.
caf::actor picker_actor::appoint(entry& x) {
  if (!x.under->lost)
    home_->leases.add(x.under); // the step's end may have removed it
  auto self = caf::actor_cast<caf::actor>(this);
  // Functions that have not returned may keep all of CAF's threads for ever: the
  // handler waits for none.
  bool late = x.care && x.has_slot() && !x.care->asynchronous;
  auto deputy = late ? spawn<step_actor, caf::detached>(
                  home_, self, x.tag, x.spare, step_thread::own)
                     : spawn<step_actor>(home_, self, x.tag, x.spare,
                                         step_thread::shared);
  watcher_.watch(this, deputy, [this, tag = x.tag](const caf::error& why) {
    deputy_down(tag, why);
  });
  return deputy;
}

/// The row holds no memory to speak of any more.
void picker_actor::let_go(entry& x) {
  pace_.let_go(std::exchange(x.bytes, 0));
}

void picker_actor::crash(entry& x, const execution& what,
                         const caf::error& why) {
  home_->tell(
    events::step_crashed{what.which(), render(system(), why), what.took()});
  if (x.under->began() != clock::time_point::min())
    note(*x.under, x.trials + 1);
  settle(x);
}

/// `well`: its outcome is committed.
void picker_actor::settle(entry& x, bool well) {
  begun_.settle(x);
  if (x.under->suspect)
    home_->isolation->ended(x.under->id, well);
  if (is_on_trial(x.under))
    end_trial();
  let_go(x);
  home_->leases.remove(x.under);
  if (x.deputy)
    anon(x.deputy, step_settled{});
  forget_if_over(x);
}

void picker_actor::forget_if_over(entry& x) {
  std::optional<store::key_hold> key;
  if (begun_.forget(x, key) && key)
    unlock(std::move(*key));
}

void picker_actor::unlock(store::key_hold key) {
  turn_.unlock(std::move(key));
  look_again(); // for the key's next row
}

void picker_actor::free_slot() {
  pace_.ended();
  steps_->free_slot();
  start_steps();
  drive();
}

} // namespace gd::actors
