#include <gd/execution.hpp>

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

} // namespace

execution::execution(std::shared_ptr<const machine> of, store::picked_row row,
                     lease_ptr under, limits bounds)
  : machine_(std::move(of)),
    row_(std::move(row)),
    lease_(std::move(under)),
    limits_(bounds) {
  // nop
}

context_base execution::make_context() const {
  context_base ctx;
  ctx.id = row_.id;
  ctx.fsm = row_.fsm;
  ctx.fsm_version = row_.fsm_version;
  ctx.step = row_.step;
  ctx.attempt = row_.attempt;
  ctx.wake_reason_ = row_.wake_reason;
  ctx.lease_ = lease_;
  return ctx;
}

store::outcome_row execution::begin_row() const {
  store::outcome_row row;
  row.id = row_.id;
  row.token = lease_->token;
  return row;
}

store::outcome_row execution::run() {
  const auto* step = machine_->find_step(row_.step);
  if (step == nullptr)
    return fail("unknown step " + row_.step + " of " + machine_->title()
                + ": expected one of " + machine_->step_names());
  auto ctx = make_context();
  for (auto& x : row_.inbox)
    ctx.inbox_.push_back({std::move(x)});
  try {
    auto encoded = encode(step->run(ctx, row_.state), ctx, false);
    if (encoded)
      return std::move(*encoded);
    return handle(failure{encoded.error().message});
  } catch (const undecodable_state& e) {
    return fail("state of " + machine_->title() + ": " + e.why.message);
  } catch (...) {
    return handle(failure{describe_exception(), std::current_exception()});
  }
}

std::optional<store::outcome_row> execution::refused(const error& why) {
  if (failing_)
    return std::nullopt;
  if (handling_)
    return fail(first_failure_
                + "; the database then refused the handler's "
                  "outcome: "
                + why.message);
  return handle(failure{"the database refused the outcome: " + why.message});
}

store::outcome_row execution::handle(const failure& why) {
  handling_ = true;
  first_failure_ = why.message();
  if (!machine_->on_error)
    return fail(why.message());
  // It has looked at nothing and consumes nothing: no inbox.
  auto ctx = make_context();
  try {
    auto encoded = encode(machine_->on_error(why, ctx, row_.state), ctx, true);
    if (encoded)
      return std::move(*encoded);
    return fail(why.message()
                + "; the handler's outcome cannot be carried out: "
                + encoded.error().message);
  } catch (const undecodable_state& e) {
    return fail("state of " + machine_->title() + ": " + e.why.message);
  } catch (...) {
    return fail(why.message() + "; the handler threw: " + describe_exception());
  }
}

store::outcome_row execution::fail(const std::string& reason) {
  failing_ = true;
  auto row = begin_row();
  row.what = store::verb::stop;
  row.reason = clean_text(reason, limits_.reason);
  return row;
}

result<store::outcome_row> execution::encode(outcome x, const context_base& ctx,
                                             bool by_handler) const {
  auto refuse = [&](std::string text) {
    return error{errc::invalid_argument,
                 "outcome " + std::string{to_string(x.kind)} + " of step "
                   + row_.step + ": " + std::move(text),
                 {}};
  };
  if (x.problem)
    return refuse(x.problem->message);
  bool with_state = x.kind == outcome_kind::next
                    || x.kind == outcome_kind::replay
                    || x.kind == outcome_kind::await;
  if (with_state && x.state_type != machine_->state_type)
    return refuse("its state is of another type than " + machine_->title()
                  + "'s");
  if (auto ok = check_size(with_state ? "state" : "result", x.value,
                           with_state ? limits_.state : limits_.result);
      !ok)
    return refuse(ok.error().message);
  auto row = begin_row();
  if (with_state)
    row.state = x.value.text();
  switch (x.kind) {
    case outcome_kind::next:
      row.what = store::verb::next;
      if (x.step_type != machine_->step_type
          || machine_->find_step(x.step) == nullptr)
        return refuse(machine_->title() + " has no step " + x.step
                      + ", expected one of " + machine_->step_names());
      row.step = std::move(x.step);
      break;
    case outcome_kind::replay:
      row.what = store::verb::replay;
      row.delay_us = x.delay_us;
      break;
    case outcome_kind::await:
      row.what = store::verb::await;
      if (auto ok = check_name("signal name", x.awaits, limits_); !ok)
        return refuse(ok.error().message);
      row.awaits = std::move(x.awaits);
      row.timeout_us = x.timeout_us;
      row.until_us = x.until_us;
      break;
    case outcome_kind::done:
      row.what = store::verb::done;
      row.result = x.value.text();
      break;
    case outcome_kind::stop:
      row.what = store::verb::stop;
      row.reason = clean_text(x.reason, limits_.reason);
      break;
  }
  if (x.kind == outcome_kind::replay || by_handler)
    return row;
  for (const auto& entry : ctx.inbox_) {
    if (entry.state == context_base::mark::consumed)
      row.consumed.push_back(entry.content.id);
    if (entry.state != context_base::mark::none)
      row.seen.push_back(entry.content.id);
  }
  return row;
}

} // namespace gd
