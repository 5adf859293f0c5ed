// What a picker does with steps: hands them out, collects their outcomes, and ends
// them when they are settled.

#include <gd/actors/queue/picker.hpp>

#include <gd/actors/queue/step.hpp>

#include <gd/pq/ensure.hpp>

#include <caf/all.hpp>

#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using state = step_table::state;

/// A step that keeps one of CAF's threads for so long is told.
constexpr std::chrono::milliseconds slow_step{10};

} // namespace

// -- beginnings ---------------------------------------------------------------

void picker_actor::start_steps() {
  // In the order of the picks: a step that needs a slot of its own waits until
  // the runners have let go of one, and what comes behind it waits with it.
  std::vector<step_queue::job> plain;
  for (; waiting_.any_ahead(); waiting_.pop_next()) {
    auto& next = waiting_.next();
    if (has_worker() && goes_elsewhere(next))
      continue;
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
          || !steps_->take_slot()) {
        if (has_worker() && hand_out(next, false))
          continue;
        return;
      }
      begin(std::move(next), *defined, bytes);
    }
  }
  steps_->put(std::move(plain));
}

/// A job that no runner has begun.
void picker_actor::release_job(const step_queue::job& x) {
  pace_.let_go(begun_.take_queued(x.tag).bytes);
  release(*x.what);
}

// -- outcomes -----------------------------------------------------------------

void picker_actor::add_outcome(entry& x, execution::row_ptr outcome,
                               bool handled, execution_ptr after) {
  let_go(x);
  tell_of(*after, *outcome);
  auto& what = outcome->what;
  // Under another lease than what is on trial.
  bool advances = what == store::verb::next && !handled
                  && after->may_run_ahead()
                  && !gate_.why_not_begin(after->row());
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
  ensure(found != nullptr && found->now() == state::reported,
         "what the turn has written was reported");
  if (auto bytes = std::exchange(found->unwritten, 0); bytes > 0)
    steps_->written(bytes);
  switch (x.what) {
    case verdict::applied:
      if (found->spare && x.row->what != store::verb::release)
        home_->tell(events::step_committed{
          found->spare->which(), store::to_string(x.row->what), found->handled,
          found->spare->took()});
      if (found->spare && x.row->what == store::verb::stop)
        home_->tell(found->spare->end_told(*x.row));
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
      if (found->spare && found->at_worker()) {
        begun_.refuse(*found);
        return answer(*found, x);
      }
      if (found->spare)
        return refuse(*found, x.why, std::move(told.message));
    }
  }
  if (x.what == verdict::applied && x.row->what == store::verb::advance)
    go_on(*found, x);
  else if (found->at_worker())
    answer(*found, x);
  settle(*found,
         x.what == verdict::applied && x.row->what != store::verb::release);
}

/// Its next step, under the next token.
void picker_actor::go_on(const entry& x, turn::flushed& written) {
  auto after = std::make_shared<execution>(
    x.spare->after(std::move(written.row->step), std::move(written.row->state),
                   std::move(written.next_token), std::move(written.inbox)));
  home_->leases.add(after->under());
  if (!x.at_worker() || !go_on_there(x, after, written))
    put_ahead(std::move(after));
}

// -- ends ---------------------------------------------------------------------

void picker_actor::let_go(entry& x) {
  pace_.let_go(std::exchange(x.bytes, 0));
}

void picker_actor::crash(entry& x, const execution& what,
                         const std::string& why) {
  home_->tell(events::step_crashed{what.which(), why, what.took()});
  if (x.under->began() != clock::time_point::min())
    trials_.note(*x.under, x.trials + 1, now());
  settle(x);
}

/// `well`: its outcome is committed.
void picker_actor::settle(entry& x, bool well) {
  begun_.settle(x);
  if (x.under->suspect)
    home_->isolation->ended(x.under->id, well);
  if (trials_.is_of(x.under))
    trials_.end();
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
