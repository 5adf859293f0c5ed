#include <gd/engine/step/execution.hpp>

#include <gd/store/ends.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

namespace gd {

namespace {

/// What is in flight, as text; for a `catch (...)`.
std::string describe_exception() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (const std::string& text) {
    return text;
  } catch (const char* text) {
    return text != nullptr ? text : "a null pointer was thrown";
  } catch (...) {
    return "something that is no std::exception was thrown";
  }
}

/// Signals that an instance may wait for at once.
constexpr std::size_t most_awaited = 16;

/// A row that no code here can do anything about: not for the handler, which
/// might try it for ever.
struct broken_row {
  std::string why;
};

} // namespace

execution::execution(std::shared_ptr<const machine> of, store::picked_row row,
                     lease_ptr under, limits bounds)
  : machine_(std::move(of)),
    row_(std::move(row)),
    step_(machine_->find_step(row_.step)),
    lease_(std::move(under)),
    limits_(bounds) {
  note_trace();
}

/// While the inbox is there: a step takes it.
void execution::note_trace() {
  auto told = std::find_if(row_.inbox.begin(), row_.inbox.end(),
                           [](auto& x) { return !x.traceparent.empty(); });
  traceparent_ = told != row_.inbox.end() ? told->traceparent
                                          : row_.traceparent;
}

context_base execution::make_context() const {
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
  return ctx;
}

execution::row_ptr execution::begin_row() const {
  auto row = std::make_unique<store::outcome_row>();
  row->id = row_.id;
  row->token = lease_->token;
  row->has_history = row_.history > 0;
  return row;
}

/// Whether a unique key stays taken where its instance has ended so.
static bool taken_in(const std::vector<std::string>& scope, final_status how) {
  return std::find(scope.begin(), scope.end(),
                   how == final_status::done ? "done" : "failed")
         != scope.end();
}

void execution::complete(store::outcome_row& row) const {
  row.has_history = row_.history > 0;
  row.may_collide = store::may_collide(row_, row.what);
  auto end = store::end_of(row.what);
  if (!end)
    return;
  const auto& time = machine_->kept(*end);
  if (!time)
    return;
  row.keep_us = time->count();
  // A key that is to last has been let in before the machine kept nothing.
  row.erase = time->count() == 0 && !taken_in(row_.unique_scope, *end);
}

execution::row_ptr execution::run() {
  try {
    auto ctx = begin();
    auto x = call(ctx);
    return finish(std::move(x), ctx);
  } catch (...) {
    return fail(std::current_exception());
  }
}

execution::row_ptr execution::run_unless_decided() {
  if (lease_->decided_by() != decider::nobody)
    return nullptr;
  try {
    auto ctx = begin();
    auto x = call(ctx);
    if (!lease_->decide(decider::step))
      return nullptr;
    return finish(std::move(x), ctx);
  } catch (...) {
    if (lease_->decide(decider::step) || lease_->decided_by() == decider::step)
      return fail(std::current_exception());
    return nullptr;
  }
}

context_base execution::begin() {
  started();
  auto ctx = make_context();
  for (auto& x : row_.inbox)
    ctx.inbox_.push_back({std::move(x)});
  return ctx;
}

outcome execution::call(context_base& ctx) {
  const auto* found = step();
  if (found == nullptr)
    throw broken_row{"unknown step " + row_.step + " of " + machine_->title()
                     + ": expected one of " + machine_->step_names()};
  if (!found->run)
    throw broken_row{"step " + row_.step + " of " + machine_->title()
                     + " is asynchronous: it needs an engine of gd::actors"};
  return found->run(ctx, row_.state);
}

execution::row_ptr execution::finish(outcome x, const context_base& ctx) {
  ended_ = clock::now();
  try {
    auto encoded = encode(std::move(x), ctx, false);
    if (encoded)
      return std::move(*encoded);
    return handle(failure{encoded.error().message},
                  without_data(encoded.error()).message);
  } catch (...) {
    return fail(std::current_exception());
  }
}

execution::row_ptr execution::fail(const std::exception_ptr& thrown) {
  ended_ = clock::now();
  try {
    std::rethrow_exception(thrown);
  } catch (const broken_row& e) {
    return give_up(e.why, e.why);
  } catch (const undecodable_state& e) {
    return give_up(e.why);
  } catch (const undecodable_signal& e) {
    return handle(failure{e.what(), thrown},
                  without_data({errc::codec, {}, {}}).message);
  } catch (...) {
    auto message = describe_exception();
    return handle(failure{message, thrown}, message);
  }
}

execution::row_ptr execution::fail(const failure& why) {
  ended_ = clock::now();
  return handle(why, why.message());
}

execution execution::without_inbox() {
  auto inbox = std::exchange(row_.inbox, {});
  auto copy = *this;
  row_.inbox = std::move(inbox);
  return copy;
}

execution execution::after(std::string step, std::string state,
                           std::string token,
                           std::optional<std::vector<raw_signal>> inbox) const {
  bool shown = inbox.has_value();
  auto now = clock::now();
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
          std::make_shared<lease>(row_.id, std::move(token)), limits_};
}

std::string execution::over_limit(const std::string& step,
                                  std::chrono::milliseconds limit) {
  auto ms = limit.count();
  return "step " + step + " took longer than "
         + (ms % 1'000 == 0 ? std::to_string(ms / 1'000) + "s"
                            : std::to_string(ms) + "ms");
}

execution::row_ptr execution::refused(const error& why,
                                      const std::string& told) {
  if (failing_)
    return nullptr;
  if (handling_)
    return give_up_handled(
      "the database then refused the handler's outcome: ", why.message, told);
  constexpr auto* refusal = "the database refused the outcome: ";
  if (why.code == errc::key_taken && step_ != nullptr && step_->rests
      && !store::may_collide(row_, store::verb::replay))
    return wait_for_key(refusal + why.message, refusal + told);
  return handle(failure{refusal + why.message}, refusal + told);
}

/// Its deadline has passed where no function runs that could be asked: it stays there,
/// and tries again later.
execution::row_ptr execution::wait_for_key(std::string why, std::string told) {
  handling_ = true;
  failure_ = std::move(why);
  failure_told_ = std::move(told);
  auto row = begin_row();
  row->what = store::verb::replay;
  row->state = row_.state;
  row->delay_us = std::chrono::microseconds{backoff(row_.attempt,
                                                    std::chrono::seconds{5})}
                    .count();
  row->failure = clean_text(failure_, limits_.reason);
  return row;
}

execution::row_ptr execution::handle(const failure& why, std::string told) {
  handling_ = true;
  failure_ = why.message();
  failure_told_ = std::move(told);
  if (!machine_->on_error)
    return give_up(failure_, failure_told_);
  // It has looked at nothing and consumes nothing: no inbox.
  auto ctx = make_context();
  try {
    auto encoded = encode(machine_->on_error(why, ctx, row_.state), ctx, true);
    if (!encoded)
      return give_up_handled("the handler's outcome cannot be carried out: ",
                             encoded.error().message,
                             without_data(encoded.error()).message);
    auto& row = *encoded;
    row->failure = clean_text(failure_, limits_.reason);
    return std::move(row);
  } catch (const undecodable_state& e) {
    return give_up(e.why);
  } catch (...) {
    auto message = describe_exception();
    return give_up_handled("the handler threw: ", message, message);
  }
}

/// The handler's outcome has come to nothing, for another reason.
execution::row_ptr execution::give_up_handled(const char* how,
                                              const std::string& why,
                                              const std::string& told) {
  return give_up(failure_ + "; " + how + why,
                 failure_told_ + "; " + how + told);
}

execution::row_ptr execution::give_up(const error& undecodable) {
  auto what = "state of " + machine_->title() + ": ";
  return give_up(what + undecodable.message,
                 what + without_data(undecodable).message);
}

execution::row_ptr execution::give_up(const std::string& reason,
                                      std::string told) {
  failing_ = true;
  end_told_ = std::move(told);
  auto row = begin_row();
  row->what = store::verb::stop;
  row->reason = clean_text(reason, limits_.reason);
  complete(*row);
  return row;
}

// -- what events tell ---------------------------------------------------------

std::chrono::microseconds execution::took() const {
  constexpr clock::time_point never{};
  if (began_ == never)
    return {};
  auto end = ended_ == never ? clock::now() : ended_;
  return std::chrono::duration_cast<std::chrono::microseconds>(end - began_);
}

events::step_run execution::which() const {
  return {.id = row_.id,
          .fsm = row_.fsm,
          .version = row_.fsm_version,
          .step = row_.step,
          .attempt = row_.attempt,
          .seq = row_.seq,
          .traceparent = traceparent_};
}

events::step_started execution::start_told() const {
  auto picked = std::chrono::microseconds{row_.now_us - row_.due_us};
  auto since = std::chrono::duration_cast<std::chrono::microseconds>(
    lease_->began() - row_.picked_at);
  return {which(), lease_->token,
          std::max(picked + since, std::chrono::microseconds{0})};
}

void execution::ran(account how) {
  ended_ = clock::now();
  began_ = ended_ - how.took;
  handling_ = how.handled;
  failing_ = !how.end.empty();
  failure_told_ = std::move(how.failure);
  end_told_ = std::move(how.end);
}

execution::account execution::told() const {
  return {handling_, failure_told_, failing_ ? end_told_ : std::string{},
          took()};
}

events::step_failed
execution::failure_told(const store::outcome_row& outcome) const {
  return {which(), clean_text(failure_told_, limits_.reason),
          store::to_string(outcome.what),
          std::chrono::microseconds{outcome.delay_us}, took()};
}

events::instance_failed
execution::end_told(const store::outcome_row& stop) const {
  auto told = failing_                                 ? end_told_
              : handling_ && failure_told_ != failure_ ? failure_told_
                                                       : stop.reason;
  return {which(), clean_text(told, limits_.reason)};
}

// -- outcomes -----------------------------------------------------------------

std::optional<std::string> execution::not_declared(const std::string& target,
                                                   bool by_handler) const {
  const auto& to = by_handler ? machine_->handler_to : step_->to;
  if (!to || std::find(to->begin(), to->end(), target) != to->end())
    return std::nullopt;
  std::string declared;
  for (const auto& name : *to)
    declared += (declared.empty() ? "" : "|") + name;
  return machine_->title() + " declares no transition "
         + (by_handler ? "of its handler" : "from " + row_.step) + " to "
         + target + ", expected "
         + (to->empty() ? "none" : "one of " + declared);
}

std::optional<std::string>
execution::encode_next(outcome& x, bool by_handler,
                       store::outcome_row& row) const {
  const auto* target = x.step_type == machine_->step_type
                         ? machine_->find_step(x.step)
                         : nullptr;
  if (target == nullptr)
    return machine_->title() + " has no step " + x.step + ", expected one of "
           + machine_->step_names();
  if (auto why = not_declared(x.step, by_handler))
    return why;
  row.step = std::move(x.step);
  const auto& rests = target->rests;
  if (rests && x.delay_us > 0)
    return "no function runs in step " + row.step + " of " + machine_->title()
           + ": expected no delay";
  row.what = rests ? rests->ends ? store::verb::finish : store::verb::park
             : x.delay_us > 0 ? store::verb::later
                              : store::verb::next;
  row.delay_us = x.delay_us;
  if (rests && rests->after)
    row.timeout_us = rests->after->count();
  return std::nullopt;
}

std::optional<error> execution::encode_await(outcome& x,
                                             store::outcome_row& row) const {
  if (x.awaits_also.size() >= most_awaited)
    return error{errc::invalid_argument,
                 "names: expected 1 to " + std::to_string(most_awaited)
                   + ", got " + std::to_string(x.awaits_also.size() + 1),
                 {}};
  if (auto ok = check_name("signal name", x.awaits, limits_); !ok)
    return ok.error();
  for (auto i = x.awaits_also.begin(); i != x.awaits_also.end(); ++i) {
    if (auto ok = check_name("signal name", *i, limits_); !ok)
      return ok.error();
    if (*i == x.awaits || std::find(x.awaits_also.begin(), i, *i) != i)
      return error{errc::invalid_argument,
                   "names: expected each once, got " + *i + " twice",
                   {}};
  }
  row.awaits = std::move(x.awaits);
  row.awaits_also = std::move(x.awaits_also);
  return std::nullopt;
}

/// An error says of which outcome it is.
static error of_outcome(error why, outcome_kind kind, const std::string& step) {
  why.message = "outcome " + std::string{to_string(kind)} + " of step " + step
                + ": " + why.message;
  return why;
}

result<execution::row_ptr> execution::encode(outcome x, const context_base& ctx,
                                             bool by_handler) const {
  auto metadata = std::exchange(x.metadata, std::nullopt);
  if (metadata)
    if (auto ok = check_size("metadata", *metadata, limits_.metadata); !ok)
      return of_outcome(ok.error(), x.kind, row_.step);
  auto row = encode_main(std::move(x), ctx, by_handler);
  if (row && metadata && (*row)->has_history)
    (*row)->metadata = metadata->text();
  return row;
}

result<execution::row_ptr> execution::encode_main(outcome x,
                                                  const context_base& ctx,
                                                  bool by_handler) const {
  auto refuse = [&](error why) {
    return of_outcome(std::move(why), x.kind, row_.step);
  };
  auto refuse_for = [&](std::string text) {
    return refuse({errc::invalid_argument, std::move(text), {}});
  };
  if (x.problem)
    return refuse(*x.problem);
  bool with_state = x.kind == outcome_kind::next
                    || x.kind == outcome_kind::replay
                    || x.kind == outcome_kind::await;
  if (with_state && x.state_type != machine_->state_type)
    return refuse_for("its state is of another type than " + machine_->title()
                      + "'s");
  // Of a step without a function: the state is what was picked.
  bool unchanged = step_ != nullptr && step_->rests && !by_handler;
  if (!unchanged)
    if (auto ok = check_size(with_state ? "state" : "result", x.value,
                             with_state ? limits_.state : limits_.result);
        !ok)
      return refuse(ok.error());
  auto row = begin_row();
  if (with_state)
    row->state = x.value.text();
  switch (x.kind) {
    case outcome_kind::next:
      if (auto why = encode_next(x, by_handler, *row))
        return refuse_for(std::move(*why));
      break;
    case outcome_kind::replay:
      row->what = store::verb::replay;
      row->delay_us = x.delay_us;
      break;
    case outcome_kind::await:
      row->what = store::verb::await;
      if (!unchanged) // no signal, else, has an empty name
        if (auto why = encode_await(x, *row))
          return refuse(std::move(*why));
      row->timeout_us = x.timeout_us;
      row->until_us = x.until_us;
      break;
    case outcome_kind::done:
      row->what = store::verb::done;
      row->result = x.value.text();
      break;
    case outcome_kind::stop:
      row->what = store::verb::stop;
      row->reason = clean_text(x.reason, limits_.reason);
      break;
  }
  complete(*row);
  bool same_inputs = x.kind == outcome_kind::replay
                     || x.kind == outcome_kind::stop;
  if (same_inputs || by_handler)
    return row;
  for (const auto& entry : ctx.inbox_) {
    if (entry.state == context_base::mark::consumed)
      row->consumed.push_back(entry.content.id);
    if (entry.state != context_base::mark::none)
      row->seen.push_back(entry.content.id);
  }
  return row;
}

} // namespace gd
