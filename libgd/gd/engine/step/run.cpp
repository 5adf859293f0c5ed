#include <gd/engine/step/run.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

namespace gd {

namespace {

/// Signals that an instance may wait for at once.
constexpr std::size_t most_awaited = 16;

/// A row that no code here can do anything about: not for the handler, which
/// might try it for ever.
struct broken_row {
  std::string why;
};

} // namespace

outcome_ptr run::execute() {
  try {
    auto ctx = begin();
    auto x = call(ctx);
    return finish(std::move(x), ctx);
  } catch (...) {
    return fail(std::current_exception());
  }
}

outcome_ptr run::execute_unless_decided() {
  if (held_->under()->decided_by() != decider::nobody)
    return nullptr;
  try {
    auto ctx = begin();
    auto x = call(ctx);
    if (!held_->under()->decide(decider::step))
      return nullptr;
    return finish(std::move(x), ctx);
  } catch (...) {
    if (held_->under()->decide(decider::step)
        || held_->under()->decided_by() == decider::step)
      return fail(std::current_exception());
    return nullptr;
  }
}

context_base run::begin() {
  started();
  return held_->begin();
}

outcome run::call(context_base& ctx) {
  const auto* found = held_->step();
  if (found == nullptr)
    throw broken_row{"unknown step " + picked().step + " of "
                     + held_->of().title() + ": expected one of "
                     + held_->of().step_names()};
  if (!found->run)
    throw broken_row{"step " + picked().step + " of " + held_->of().title()
                     + (found->start
                          ? " is asynchronous: it needs an engine of "
                            "gd::actors"
                          : " is in a transaction: it needs an "
                            "engine with a database")};
  std::string room;
  return found->run(ctx, found->rests ? picked().state : held_->state(room));
}

outcome_ptr run::finish(outcome x, const context_base& ctx) {
  ended_ = clock::now();
  try {
    auto encoded = encode(std::move(x), ctx, false);
    return encoded ? std::move(*encoded) : fail(encoded.error());
  } catch (...) {
    return fail(std::current_exception());
  }
}

result<outcome_ptr> run::check(outcome x, const context_base& ctx) {
  ended_ = clock::now();
  return encode(std::move(x), ctx, false);
}

outcome_ptr run::fail(const error& why) {
  ended_ = clock::now();
  // What encrypts may be out of order for a while.
  bool permanent = why.code != errc::cipher;
  return handle(failure{why.message, nullptr, permanent, std::move(refused_)},
                without_data(why).message);
}

outcome_ptr run::fail(const std::exception_ptr& thrown) {
  ended_ = clock::now();
  try {
    std::rethrow_exception(thrown);
  } catch (const broken_row& e) {
    return give_up(e.why, e.why);
  } catch (const undecodable_state& e) {
    return give_up(e.why);
  } catch (const foreign_step& e) {
    return handle(failure{e.what(), thrown, true}, e.what());
  } catch (const undecodable_signal& e) {
    return handle(failure{e.what(), thrown, true},
                  without_data({errc::codec, {}, {}}).message);
  } catch (...) {
    auto message = detail::describe_exception();
    return handle(failure{message, thrown}, message);
  }
}

outcome_ptr run::fail(const failure& why) {
  ended_ = clock::now();
  return handle(why, why.message());
}

std::string run::over_limit(const std::string& step,
                            std::chrono::milliseconds limit) {
  auto ms = limit.count();
  return "step " + step + " took longer than "
         + (ms % 1'000 == 0 ? std::to_string(ms / 1'000) + "s"
                            : std::to_string(ms) + "ms");
}

outcome_ptr run::refused(const error& why, const std::string& told) {
  if (failing_)
    return nullptr;
  if (handling_)
    return give_up_handled(
      "the database then refused the handler's outcome: ", why.message, told);
  constexpr auto* refusal = "the database refused the outcome: ";
  if (why.code == errc::key_taken && held_->step() != nullptr
      && held_->step()->rests
      && !store::may_collide(picked(), store::write_kind::replay))
    return wait_for_key(refusal + why.message, refusal + told);
  return handle(failure{refusal + why.message}, refusal + told);
}

outcome_ptr run::refused(const effect_refused& what, const std::string& told) {
  auto message = what.message();
  if (failing_)
    return nullptr;
  if (handling_)
    return give_up_handled("the handler's outcome was then refused: ", message,
                           told);
  return handle(
    failure{"the outcome was refused: " + message, nullptr, false, what},
    "the outcome was refused: " + told);
}

/// Its deadline has passed where no function runs that could be asked: it stays there,
/// and tries again later.
outcome_ptr run::wait_for_key(std::string why, std::string told) {
  handling_ = true;
  failure_ = std::move(why);
  failure_told_ = std::move(told);
  auto row = held_->begin_outcome(store::write_kind::replay);
  row->state = picked().state;
  row->delay_us = std::chrono::microseconds{backoff(picked().attempt,
                                                    std::chrono::seconds{5})}
                    .count();
  row->failure = clean_text(failure_, bounds().reason);
  return row;
}

outcome_ptr run::handle(const failure& why, std::string told) {
  handling_ = true;
  failure_ = why.message();
  failure_told_ = std::move(told);
  if (!held_->of().on_error)
    return give_up(failure_, failure_told_);
  auto ctx = held_->context();
  try {
    std::string room;
    auto encoded = encode(held_->of().on_error(why, ctx, held_->state(room)),
                          ctx, true);
    if (!encoded)
      return give_up_handled("the handler's outcome cannot be carried out: ",
                             encoded.error().message,
                             without_data(encoded.error()).message);
    auto& row = *encoded;
    row->failure = clean_text(failure_, bounds().reason);
    return std::move(row);
  } catch (const undecodable_state& e) {
    return give_up(e.why);
  } catch (...) {
    auto message = detail::describe_exception();
    return give_up_handled("the handler threw: ", message, message);
  }
}

/// The handler's outcome has come to nothing, for another reason.
outcome_ptr run::give_up_handled(const char* how, const std::string& why,
                                 const std::string& told) {
  return give_up(failure_ + "; " + how + why,
                 failure_told_ + "; " + how + told);
}

outcome_ptr run::give_up(const error& undecodable) {
  auto what = "state of " + held_->of().title() + ": ";
  auto why = is_encrypted(picked().state) ? detail::without_content(undecodable)
                                          : undecodable;
  return give_up(what + why.message, what + without_data(why).message);
}

outcome_ptr run::give_up(const std::string& reason, std::string told) {
  failing_ = true;
  end_told_ = std::move(told);
  return held_->stop(reason);
}

// -- what events tell ---------------------------------------------------------

std::chrono::microseconds run::took() const {
  constexpr clock::time_point never{};
  if (began_ == never)
    return {};
  auto end = ended_ == never ? clock::now() : ended_;
  return std::chrono::duration_cast<std::chrono::microseconds>(end - began_);
}

void run::ran(account how) {
  ended_ = clock::now();
  began_ = ended_ - how.took;
  handling_ = how.handled;
  failing_ = !how.end.empty();
  failure_told_ = std::move(how.failure);
  end_told_ = std::move(how.end);
}

run::account run::told() const {
  return {handling_, failure_told_, failing_ ? end_told_ : std::string{},
          took()};
}

events::step_failed run::failure_told(const store::outcome_row& outcome) const {
  return {held_->which(), clean_text(failure_told_, bounds().reason),
          store::to_string(outcome.what),
          std::chrono::microseconds{outcome.delay_us}, took()};
}

events::instance_failed run::end_told(const store::outcome_row& stop) const {
  auto told = failing_                                 ? end_told_
              : handling_ && failure_told_ != failure_ ? failure_told_
                                                       : stop.reason;
  return {held_->which(), clean_text(told, bounds().reason)};
}

// -- outcomes -----------------------------------------------------------------

std::optional<std::string> run::not_declared(const std::string& target,
                                             bool by_handler) const {
  const auto& to = by_handler ? held_->of().handler_to : held_->step()->to;
  if (!to || std::find(to->begin(), to->end(), target) != to->end())
    return std::nullopt;
  std::string declared;
  for (const auto& name : *to)
    declared += (declared.empty() ? "" : "|") + name;
  return held_->of().title() + " declares no transition "
         + (by_handler ? "of its handler" : "from " + picked().step) + " to "
         + target + ", expected "
         + (to->empty() ? "none" : "one of " + declared);
}

/// What the step, or the handler, has said wrongly.
static error wrong(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

std::optional<error> run::encode_next(outcome& x, bool by_handler,
                                      store::outcome_row& row) const {
  const auto& of = held_->of();
  const auto* target = x.step_type == of.step_type ? of.find_step(x.step)
                                                   : nullptr;
  if (target == nullptr)
    return wrong(of.title() + " has no step " + x.step + ", expected one of "
                 + of.step_names());
  if (auto why = not_declared(x.step, by_handler))
    return wrong(std::move(*why));
  row.step = std::move(x.step);
  const auto& rests = target->rests;
  if (rests && x.delay_us > 0)
    return wrong("no function runs in step " + row.step + " of " + of.title()
                 + ": expected no delay");
  row.what = rests            ? rests->ends ? store::write_kind::finish
                                            : store::write_kind::park
             : x.delay_us > 0 ? store::write_kind::later
                              : store::write_kind::next;
  row.delay_us = x.delay_us;
  if (rests && rests->after)
    row.timeout_us = rests->after->count();
  return std::nullopt;
}

std::optional<error> run::encode_await(outcome& x,
                                       store::outcome_row& row) const {
  if (x.awaits_also.size() >= most_awaited)
    return wrong("names: expected 1 to " + std::to_string(most_awaited)
                 + ", got " + std::to_string(x.awaits_also.size() + 1));
  if (auto ok = check_name("signal name", x.awaits, bounds()); !ok)
    return ok.error();
  for (auto i = x.awaits_also.begin(); i != x.awaits_also.end(); ++i) {
    if (auto ok = check_name("signal name", *i, bounds()); !ok)
      return ok.error();
    if (*i == x.awaits || std::find(x.awaits_also.begin(), i, *i) != i)
      return wrong("names: expected each once, got " + *i + " twice");
  }
  row.awaits = std::move(x.awaits);
  row.awaits_also = std::move(x.awaits_also);
  return std::nullopt;
}

std::optional<error> run::encode_kind(outcome& x, bool by_handler,
                                      store::outcome_row& row) const {
  switch (x.kind) {
    case outcome_kind::next:
      return encode_next(x, by_handler, row);
    case outcome_kind::replay:
      row.what = store::write_kind::replay;
      row.delay_us = x.delay_us;
      break;
    case outcome_kind::await:
      row.what = store::write_kind::await;
      row.timeout_us = x.timeout_us;
      row.until_us = x.until_us;
      if (!x.unchanged) // no signal, else, has an empty name
        return encode_await(x, row);
      break;
    case outcome_kind::done:
      row.what = store::write_kind::done;
      row.result = x.value.text();
      break;
    case outcome_kind::stop:
      row.what = store::write_kind::stop;
      row.reason = clean_text(x.reason, bounds().reason);
  }
  return std::nullopt;
}

/// Of an insert: what only its machine tells, where the program has it.
static result<void> check_with_machine(gd::insert& x, std::int32_t& newest,
                                       const registry* known,
                                       const limits& bounds) {
  auto own = known != nullptr ? known->find(x.fsm, x.version) : nullptr;
  if (!own)
    return {};
  if (x.version == 0)
    newest = own->version;
  if (!x.step.empty() && own->find_step(x.step) == nullptr)
    return error{errc::unknown_step,
                 "step: expected one of " + own->step_names() + " of "
                   + own->title() + ", got " + x.step,
                 {}};
  if (auto ok = own->check_stored(x.state.text()); !ok)
    return error{ok.error().code, "state: " + ok.error().message, {}};
  if (!own->encrypted_by)
    return {};
  x.state = own->stored(std::move(x.state));
  return check_size("state", x.state, bounds.state);
}

std::optional<error> run::encode_effects(effects what,
                                         store::outcome_row& row) {
  auto refuse = [&](effect_kind kind, std::size_t i, error why) {
    refused_ = effect_refused{i + 1, kind, std::move(why)};
    return error{refused_->why.code, refused_->message(), {}};
  };
  if (std::cmp_greater(what.size(), bounds().effects))
    return wrong("it carries " + std::to_string(what.size())
                 + " effects, expected at most "
                 + std::to_string(bounds().effects));
  if (what.bytes() > bounds().effect_bytes)
    return wrong("what it carries takes " + std::to_string(what.bytes())
                 + " bytes, expected at most "
                 + std::to_string(bounds().effect_bytes));
  what.newest.assign(what.inserts.size(), 0);
  for (std::size_t i = 0; i < what.inserts.size(); ++i) {
    auto& x = what.inserts[i];
    auto ok = gd::check(x, bounds());
    if (ok)
      ok = check_object(x.state);
    if (ok)
      ok = check_with_machine(x, what.newest[i], held_->known(), bounds());
    if (!ok)
      return refuse(effect_kind::insert, i, ok.error());
  }
  for (std::size_t i = 0; i < what.signals.size(); ++i)
    if (auto ok = gd::check(what.signals[i].what, bounds()); !ok)
      return refuse(effect_kind::signal, i, ok.error());
  for (std::size_t i = 0; i < what.statements.size(); ++i) {
    auto& x = what.statements[i];
    auto ok = check_statement(x.text);
    for (const auto& value : x.values)
      if (ok && value.text.find('\0') != std::string::npos)
        ok = wrong("values: a zero byte is part of no text");
    if (!ok)
      return refuse(effect_kind::sql, i, ok.error());
  }
  row.carried = std::make_shared<effects>(std::move(what));
  return std::nullopt;
}

result<outcome_ptr> run::encode(outcome x, const context_base& ctx,
                                bool by_handler) {
  auto refuse = [&](error why) { // which says of which outcome it is
    why.message = "outcome " + std::string{to_string(x.kind)} + " of step "
                  + picked().step + ": " + why.message;
    return why;
  };
  const auto& of = held_->of();
  if (x.metadata) {
    if (of.encrypted_by)
      x.metadata = of.stored(std::move(*x.metadata));
    if (auto ok = check_size("metadata", *x.metadata, bounds().metadata); !ok)
      return refuse(ok.error());
  }
  if (x.problem)
    return refuse(*x.problem);
  bool with_state = x.kind == outcome_kind::next
                    || x.kind == outcome_kind::replay
                    || x.kind == outcome_kind::await;
  if (with_state && x.state_type != of.state_type)
    return refuse(
      wrong("its state is of another type than " + of.title() + "'s"));
  if (!x.unchanged && x.kind != outcome_kind::stop) {
    if (of.encrypted_by)
      x.value = of.stored(std::move(x.value));
    if (auto ok = check_size(with_state ? "state" : "result", x.value,
                             with_state ? bounds().state : bounds().result);
        !ok)
      return refuse(ok.error());
  }
  auto row = held_->begin_outcome(store::write_kind::next);
  if (with_state)
    row->state = x.unchanged ? picked().state : x.value.text();
  if (auto why = encode_kind(x, by_handler, *row))
    return refuse(std::move(*why));
  if (x.carried)
    if (auto why = encode_effects(std::move(*x.carried), *row))
      return refuse(std::move(*why));
  held_->complete(*row);
  if (x.metadata && row->has_history)
    row->metadata = x.metadata->text();
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
