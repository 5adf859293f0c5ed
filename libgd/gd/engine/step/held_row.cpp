#include <gd/engine/step/held_row.hpp>

#include <gd/store/ends.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gd {

held_row::held_row(std::shared_ptr<const machine> of, store::picked_row row,
                   lease_ptr under, limits bounds, const registry* known)
  : machine_(std::move(of)),
    row_(std::move(row)),
    step_(machine_->find_step(row_.step)),
    lease_(std::move(under)),
    limits_(bounds),
    known_(known) {
  note_trace();
}

/// While the inbox is there: a step takes it.
void held_row::note_trace() {
  auto told = std::find_if(row_.inbox.begin(), row_.inbox.end(),
                           [](auto& x) { return !x.traceparent.empty(); });
  traceparent_ = told != row_.inbox.end() ? told->traceparent
                                          : row_.traceparent;
}

std::string held_row::show(store::shown_row content) {
  auto is_long = [](const auto& text) { return text.empty(); };
  const auto* what = is_long(*content.state) ? "its state" : nullptr;
  if (what == nullptr
      && std::any_of(content.inbox.begin(), content.inbox.end(),
                     [&](const auto& x) { return is_long(x.payload); }))
    what = "a signal's payload";
  if (what != nullptr)
    return what + (" is longer than " + std::to_string(store::longest_text))
           + " bytes, or has a number of more than "
           + std::to_string(max_json_number) + " characters";
  row_.state = std::move(*content.state);
  row_.inbox = std::move(content.inbox);
  row_.shown = true;
  note_trace();
  return {};
}

context_base held_row::begin() {
  auto ctx = context();
  for (auto& x : row_.inbox)
    ctx.inbox_.push_back({std::move(x)});
  return ctx;
}

const std::string& held_row::state(std::string& room) const {
  if (!machine_->encrypted_by)
    return row_.state;
  auto plain = machine_->plain(json::raw(row_.state));
  if (!plain)
    throw undecodable_state{plain.error()};
  room = std::move(*plain).text();
  return room;
}

context_base held_row::context() const {
  context_base ctx;
  ctx.id = row_.id;
  ctx.fsm = row_.fsm;
  ctx.fsm_version = row_.fsm_version;
  ctx.step = row_.step;
  ctx.attempt = row_.attempt;
  ctx.crashes_ = std::min(row_.crashes, row_.attempt);
  ctx.now_ = decltype(ctx.now_){std::chrono::microseconds{row_.now_us}};
  ctx.step_type_ = machine_->step_type;
  ctx.wake_reason_ = row_.wake_reason;
  ctx.traceparent_ = traceparent_;
  ctx.lease_ = lease_;
  ctx.cipher_ = machine_->encrypted_by;
  return ctx;
}

held_row held_row::after(std::string step, std::string state, std::string token,
                         std::optional<std::vector<raw_signal>> inbox) const {
  bool shown = inbox.has_value();
  auto now = std::chrono::steady_clock::now();
  auto since = std::chrono::duration_cast<std::chrono::microseconds>(
    now - row_.picked_at);
  auto now_us = row_.now_us + since.count();
  return {machine_,
          store::picked_row{
            .id = row_.id,
            .fsm = row_.fsm,
            .fsm_version = row_.fsm_version,
            .step = std::move(step),
            .state = std::move(state),
            .inbox = std::move(inbox).value_or(std::vector<raw_signal>{}),
            .unique_scope = row_.unique_scope,
            .history = row_.history,
            .seq = row_.seq + 1,
            .traceparent = row_.traceparent,
            .steps_ahead = row_.steps_ahead + 1,
            .shown = shown,
            .due_us = now_us,
            .now_us = now_us,
            .picked_at = now},
          std::make_shared<lease>(row_.id, std::move(token)), limits_, known_};
}

// -- how it ends --------------------------------------------------------------

outcome_ptr held_row::begin_outcome(store::write_kind what) const {
  auto x = std::make_unique<store::outcome_row>();
  x->id = row_.id;
  x->token = lease_->token;
  x->what = what;
  x->has_history = row_.history > 0;
  return x;
}

/// Whether a unique key stays taken where its instance has ended so.
static bool taken_in(const std::vector<std::string>& scope, final_status how) {
  return std::find(scope.begin(), scope.end(),
                   how == final_status::done ? "done" : "failed")
         != scope.end();
}

void held_row::complete(store::outcome_row& to) const {
  to.has_history = row_.history > 0;
  to.may_collide = store::may_collide(row_, to.what);
  if (to.carried && step_ != nullptr)
    if (auto limit = step_->limit())
      to.carried->patience = std::min(to.carried->patience, *limit);
  auto end = store::end_of(to.what);
  if (!end)
    return;
  const auto& time = machine_->kept(*end);
  if (!time)
    return;
  to.keep_us = time->count();
  // A key that is to last has been let in before the machine kept nothing. What the
  // outcome carries looks at the row that it has written.
  to.erase = time->count() == 0 && !taken_in(row_.unique_scope, *end)
             && !to.carried;
}

outcome_ptr held_row::release() {
  lease_->decide(decider::release);
  auto x = begin_outcome(store::write_kind::release);
  complete(*x);
  return x;
}

outcome_ptr held_row::stop(const std::string& reason) const {
  auto x = begin_outcome(store::write_kind::stop);
  x->reason = clean_text(reason, limits_.reason);
  complete(*x);
  return x;
}

// -- what events tell ---------------------------------------------------------

events::step_run held_row::which() const {
  return {.id = row_.id,
          .fsm = row_.fsm,
          .version = row_.fsm_version,
          .step = row_.step,
          .attempt = row_.attempt,
          .seq = row_.seq,
          .traceparent = traceparent_};
}

events::step_started held_row::start_told() const {
  auto picked = std::chrono::microseconds{row_.now_us - row_.due_us};
  auto since = std::chrono::duration_cast<std::chrono::microseconds>(
    lease_->began() - row_.picked_at);
  return {which(), lease_->token,
          std::max(picked + since, std::chrono::microseconds{0})};
}

} // namespace gd
