#include <gd/network/workers/executor.hpp>

#include <gd/actors/queue/step.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

using state = step_table::state;
using kind = executor_event::kind;

link_worker::key key_of(const lease& x) {
  return {x.id, x.token};
}

} // namespace

executor_actor::executor_actor(caf::actor_config& cfg, node_ptr home,
                               queue_config queue, caf::actor link)
  : stepper_actor(cfg, std::move(home), std::move(queue)),
    link_(std::move(link)) {
  // nop
}

caf::behavior executor_actor::make_behavior() {
  watcher_.install(this);
  open();
  drive();
  return {
    [this](executor_orders& x) {
    obey(*x.all);
    start_steps();
    drive();
    },
    [this](steps_ended) {
    start_steps();
    drive();
  },
    [this](step_begun x) { on_step_begun(x); },
    [this](step_outcome& x) { on_step_outcome(*x.what); },
    [this](tick x) {
    if (alarm_.rings(x))
      drive();
    },
    };
}

void executor_actor::on_exit() {
  end_steps();
  begun_ = {};
  prefetched_.clear();
  link_ = nullptr;
}

// -- driving --------------------------------------------------------------------

void executor_actor::drive() {
  do {
    collect_ended();
    expire_limits();
  } while (steps_->tell_at(1));
  send();
  arm();
}

void executor_actor::arm() {
  alarm_.set(this, begun_.due());
}

void executor_actor::tell(kind what, key which) {
  news_.push_back({.what = what, .which = std::move(which)});
}

void executor_actor::send() {
  if (!news_.empty())
    anon(link_, executor_news{std::make_shared<std::vector<executor_event>>(
                  std::exchange(news_, {}))});
}

// -- orders ---------------------------------------------------------------------

void executor_actor::obey(std::vector<executor_order>& orders) {
  using action = link_worker::order::action;
  std::vector<key> back;
  for (auto& x : orders)
    switch (x.what.what) {
      case action::begin:
        prefetched_.push_back(std::move(x.row));
        break;
      case action::release:
        back.push_back(std::move(x.what.which));
        break;
      case action::stop:
        stop(x.what.which);
        break;
      case action::complete:
        complete(x.what);
    }
  if (!back.empty())
    release(back);
}

/// What has not begun, of these.
void executor_actor::release(const std::vector<key>& which) {
  auto is_asked = [&which](const held_row_ptr& x) {
    return std::find(which.begin(), which.end(), key_of(*x->under()))
           != which.end();
  };
  auto return_it = [this](const held_row_ptr& x) {
    x->under()->decide(decider::release);
    tell(kind::released, key_of(*x->under()));
  };
  std::erase_if(prefetched_, [&](const auto& x) {
    if (!is_asked(x))
      return false;
    return_it(x);
    return true;
  });
  std::vector<step_queue::job> stay;
  for (auto& x : steps_->take_waiting()) {
    if (!is_asked(x.what)) {
      stay.push_back(std::move(x));
      continue;
    }
    begun_.take_queued(x.tag);
    tags_.erase(key_of(*x.what->under()));
    by_tag_.erase(x.tag);
    return_it(x.what);
  }
  steps_->put(std::move(stay));
}

/// Its lease ends, or is another's already.
void executor_actor::stop(const key& which) {
  auto found = tags_.find(which);
  if (found == tags_.end()) {
    release({which});
    return;
  }
  const auto& under = begun_.find(found->second)->under;
  under->lost = true; // what has not begun does not begin
  if (under->decided_by() == decider::nobody)
    home_->tell(events::lease_lost{under->id, under->token});
  stop_steps(system(), {under});
}

static error why_of(const link::completed& x) {
  return {static_cast<errc>(x.code), x.why, x.sqlstate};
}

static std::optional<effect_refused> effect_of(const link::completed& x) {
  if (!x.effect)
    return std::nullopt;
  return effect_refused{x.effect->number, x.effect->kind, why_of(x)};
}

void executor_actor::complete(link_worker::order& x) {
  auto tag = tags_.find(x.which);
  auto* found = tag != tags_.end() ? begun_.find(tag->second) : nullptr;
  if (found == nullptr || found->now() != state::reported)
    return;
  auto& answer = x.answer;
  const auto& ran = *found->what;
  switch (answer.what) {
    case link::verdict::refused:
    case link::verdict::collided:
      home_->tell(events::outcome_refused{
        x.which.id,
        {static_cast<errc>(answer.code), answer.why_told, answer.sqlstate}});
      return refuse(*found, why_of(answer), answer.why_told, effect_of(answer));
    case link::verdict::stale:
      home_->tell(events::outcome_stale{x.which.id, x.which.token});
      break;
    case link::verdict::unknown:
      home_->tell(events::outcome_unknown{x.which.id, x.which.token});
      break;
    default:
      home_->tell(events::step_committed{ran.held().which(),
                                         store::to_string(x.written.what),
                                         ran.failed(), ran.took()});
  }
  if (!answer.next_token.empty())
    prefetched_.push_front(std::make_shared<held_row>(
      ran.held().after(std::move(x.written.step), std::move(x.written.state),
                       std::move(answer.next_token), std::move(answer.inbox))));
  complete(*found);
}

// -- steps ----------------------------------------------------------------------

void executor_actor::know(std::uint64_t tag, const held_row& what) {
  auto which = key_of(*what.under());
  tags_[which] = tag;
  by_tag_[tag] = {std::move(which)};
}

void executor_actor::start_steps() {
  std::vector<step_queue::job> plain;
  for (; !prefetched_.empty(); prefetched_.pop_front()) {
    auto& next = prefetched_.front();
    const auto* defined = next->step();
    if (defined == nullptr || is_plain(*defined)) {
      auto tag = begun_.draw_tag();
      begun_.add(tag, {.under = next->under()}, state::queued);
      know(tag, *next);
      plain.push_back({tag, std::move(next)});
      continue;
    }
    steps_->put(std::exchange(plain, {}));
    if ((is_pooled(*defined) && begun_.pooled() >= runners_.size())
        || !steps_->take_slot())
      return;
    know(begin(next, *defined), *next);
  }
  steps_->put(std::move(plain));
}

void executor_actor::free_slot() {
  steps_->free_slot();
  start_steps();
  drive();
}

void executor_actor::add_outcome(entry& x, outcome_ptr outcome, gd::run after) {
  if (after.failed())
    home_->tell(after.failure_told(*outcome));
  auto of = after.held().which();
  auto told = after.told();
  steps_->written(outcome->bytes()); // the link bounds what it keeps
  // A handler actor's comes before the function's end, and an asynchronous step is over
  // when its actor is.
  bool over = !x.handler_actor && !x.asynchronous();
  auto& as = by_tag_.at(x.tag);
  as.over = as.over || over;
  news_.push_back({.what = kind::outcome,
                   .which = as.which,
                   .row = std::move(*outcome),
                   .told = {.fsm = std::move(of.fsm),
                            .version = of.version,
                            .step = std::move(of.step),
                            .attempt = of.attempt,
                            .seq = of.seq,
                            .took_us = told.took.count(),
                            .handled = told.handled,
                            .failure = std::move(told.failure),
                            .end = std::move(told.end)},
                   .over = over});
  x.what = std::move(after);
  begun_.report(x, false);
}

void executor_actor::crash(entry& x, const gd::run& what,
                           const std::string& why) {
  home_->tell(events::step_crashed{what.held().which(), why, what.took()});
  auto& as = by_tag_.at(x.tag);
  as.over = true;
  news_.push_back({.what = kind::crashed,
                   .which = as.which,
                   .why = why,
                   .took = what.took()});
  complete(x);
}

void executor_actor::skip(entry& x) {
  auto& as = by_tag_.at(x.tag);
  as.over = true;
  tell(kind::released, as.which);
  complete(x);
}

void executor_actor::complete(entry& x) {
  begun_.complete(x);
  if (x.handler_actor)
    anon(x.handler_actor, step_completed{});
  forget_if_over(x);
}

void executor_actor::forget_if_over(entry& x) {
  auto& as = by_tag_.at(x.tag);
  if (!x.actor() && !std::exchange(as.over, true))
    tell(kind::over, as.which);
  auto tag = x.tag;
  auto which = as.which;
  std::optional<store::key_hold> none;
  if (!begun_.forget(x, none))
    return;
  by_tag_.erase(tag);
  tags_.erase(which);
}

} // namespace gd::actors
