#include <gd/actors/queue/stepper.hpp>

#include <gd/actors/queue/step.hpp>

#include <gd/pq/ensure.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

using state = step_table::state;

} // namespace

bool is_pooled(const machine::step_definition& x) {
  return !x.start && !x.how.blocking;
}

bool is_plain(const machine::step_definition& x) {
  return is_pooled(x) && !x.limit();
}

stepper_actor::stepper_actor(caf::actor_config& cfg, node_ptr home,
                             queue_config queue)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    queue_(std::move(queue)),
    steps_(
      std::make_shared<step_queue>(queue_.slots, *home_, system().clock())) {
  // nop
}

stepper_actor::clock::time_point stepper_actor::now() {
  return system().clock().now();
}

void stepper_actor::open() {
  auto count = std::min(static_cast<std::size_t>(queue_.slots),
                        runners_at_most(system()));
  for (std::size_t i = 0; i < count; ++i) {
    runners_.push_back(spawn<runner_actor, caf::lazy_init>(home_, steps_));
    // What the runner ran is lost: as if this actor had crashed.
    watcher_.watch(this, runners_.back(),
                   [this](const caf::error& why) { quit(why); });
  }
  steps_->open(caf::actor_cast<caf::actor>(this), runners_);
}

// -- beginnings ---------------------------------------------------------------

std::uint64_t stepper_actor::begin(const held_row_ptr& row,
                                   const machine::step_definition& defined) {
  auto tag = begun_.draw_tag();
  const auto* starter = dynamic_cast<const detail::async_starter*>(
    defined.start.get());
  bool pooled = is_pooled(defined);
  auto self = caf::actor_cast<caf::actor>(this);
  caf::actor step;
  if (starter != nullptr)
    step = spawn<async_step_actor>(home_, self, tag, gd::run{row}, starter);
  else if (defined.how.blocking)
    step = spawn<step_actor, caf::detached>(home_, self, tag, gd::run{row},
                                            step_thread::own);
  else // lazily: scheduled once, for its message
    step = spawn<step_actor, caf::lazy_init>(home_, self, tag, gd::run{row},
                                             step_thread::shared);
  step_table::attended own{.step = step};
  if (auto limit = defined.limit())
    own.care = step_table::supervision{
      .limit = *limit, .asynchronous = starter != nullptr, .pooled = pooled};
  step_table::row added{.under = row->under(),
                        .what = gd::run{row},
                        .key = store::hold_of(row->row()),
                        .trials = row->row().trials,
                        .bytes = row->row().bytes()};
  if (!pooled) {
    added.what->started();
    if (own.care)
      own.care->due = now() + own.care->limit;
  }
  added.kind = std::move(own);
  begun_.add(tag, std::move(added), pooled ? state::queued : state::running);
  watcher_.watch(this, step,
                 [this, tag](const caf::error& why) { step_down(tag, why); });
  anon(step, run_step{});
  return tag;
}

void stepper_actor::on_step_begun(const step_begun& x) {
  auto* found = begun_.find(x.tag);
  if (found == nullptr || found->now() != state::queued)
    return;
  begun_.begin(*found, x.at);
  found->what->started();
  arm();
}

// -- outcomes -----------------------------------------------------------------

void stepper_actor::on_step_outcome(ended_step& x) {
  auto* found = begun_.find(x.tag);
  if (found == nullptr || found->has_outcome())
    return;
  steps_->add_unwritten(x.row->bytes());
  add_outcome(*found, std::move(x.row), std::move(*x.what));
  // An asynchronous step has returned when its actor is down, and one whose
  // handler a handler actor has called may be far from it.
  if (found->handler_actor || found->asynchronous())
    return drive();
  begun_.leave_slot(*found);
  free_slot();
}

void stepper_actor::collect_ended() {
  for (auto& x : steps_->take_ended()) {
    auto* found = begun_.find(x.tag);
    ensure(found != nullptr, "what a runner has ended was begun");
    begun_.leave_slot(*found);
    note_end();
    if (x.row)
      add_outcome(*found, std::move(x.row), std::move(*x.what));
    else if (x.what)
      crash(*found, *x.what, render(system(), x.why));
    else
      skip(*found);
  }
}

void stepper_actor::refuse(entry& x, error why, std::string told,
                           std::optional<effect_refused> effect) {
  begun_.refuse(x);
  if (!x.handler_actor)
    x.handler_actor = start_handler_actor(x);
  anon(x.handler_actor,
       step_refused{std::move(why), std::move(told), std::move(effect)});
}

// -- ends ---------------------------------------------------------------------

void stepper_actor::step_down(std::uint64_t tag, const caf::error& why) {
  auto* found = begun_.find(tag);
  if (found == nullptr)
    return;
  auto& x = *found;
  auto& own = std::get<step_table::attended>(x.kind);
  own.step = nullptr;
  bool had_slot = x.has_slot();
  if (had_slot)
    begun_.leave_slot(x);
  bool drives = drives_when_down(x);
  bool late = x.handler_actor != nullptr;
  // One whose time was over before it began has nothing that returns.
  if (late && had_slot && own.care
      && x.under->began() != clock::time_point::min())
    home_->tell(events::step_returned_late{
      x.what->held().which(),
      std::chrono::duration_cast<std::chrono::microseconds>(
        now() - x.under->began())});
  if (late || x.has_outcome()) {
    forget_if_over(x);
  } else if (x.now() == state::queued && x.under->lost) {
    skip(x); // the step has not begun
  } else if (auto failure = x.asynchronous() ? failure_of_end(system(), why)
                                             : std::nullopt) {
    begun_.lift_limit(x);
    x.handler_actor = start_handler_actor(x);
    anon(x.handler_actor,
         step_failed{"step " + x.what->held().row().step + ": " + *failure});
  } else {
    crash(x, *x.what, render(system(), why));
  }
  if (had_slot)
    free_slot();
  else if (drives)
    drive();
}

void stepper_actor::handler_actor_down(std::uint64_t tag,
                                       const caf::error& why) {
  auto* found = begun_.find(tag);
  if (found == nullptr || found->has_outcome())
    return;
  crash(*found, *found->what, render(system(), why));
  drive();
}

void stepper_actor::expire_limits() {
  std::vector<lease_ptr> late;
  for (auto* x : begun_.late(now())) {
    if (!x->under->decide(decider::limit))
      continue; // the step's outcome is on its way
    const auto& own = std::get<step_table::attended>(x->kind);
    const auto& held = x->what->held();
    home_->tell(events::step_over_limit{held.which(), own.care->limit});
    late.push_back(x->under);
    x->handler_actor = start_handler_actor(*x);
    anon(x->handler_actor,
         step_failed{gd::run::over_limit(held.row().step, own.care->limit)});
    if (own.care->asynchronous)
      caf::anon_send_exit(own.step, caf::exit_reason::kill);
  }
  stop_steps(system(), late);
}

/// A handler actor for the row, whose step's own actor cannot call the handler.
caf::actor stepper_actor::start_handler_actor(entry& x) {
  if (!x.under->lost)
    home_->leases.add(x.under); // the step's end may have removed it
  auto self = caf::actor_cast<caf::actor>(this);
  // Functions that have not returned may keep all of CAF's threads for ever: the
  // handler waits for none.
  bool late = x.care() && x.has_slot() && !x.asynchronous();
  auto handler_actor = late ? spawn<step_actor, caf::detached>(
                         home_, self, x.tag, *x.what, step_thread::own)
                            : spawn<step_actor>(home_, self, x.tag, *x.what,
                                                step_thread::shared);
  watcher_.watch(this, handler_actor,
                 [this, tag = x.tag](const caf::error& why) {
    handler_actor_down(tag, why);
  });
  return handler_actor;
}

void stepper_actor::end_steps() {
  steps_->close();
  for (const auto& x : runners_)
    caf::anon_send_exit(x, caf::exit_reason::kill);
  runners_.clear();
  std::vector<lease_ptr> running;
  for (auto& [tag, x] : begun_.all()) {
    home_->leases.remove(x.under);
    if (x.has_slot())
      running.push_back(x.under);
    if (auto step = x.actor())
      caf::anon_send_exit(step, caf::exit_reason::kill);
    if (x.handler_actor)
      caf::anon_send_exit(x.handler_actor, caf::exit_reason::kill);
  }
  stop_steps(system(), running);
}

} // namespace gd::actors
