#include <gd/machine.hpp>

#include <gd/instance.hpp>
#include <gd/time.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace gd {

std::optional<std::chrono::milliseconds>
machine::step_definition::limit() const {
  if (how.limit || !start)
    return how.limit;
  return default_async_limit;
}

const machine::step_definition*
machine::find_step(std::string_view step) const {
  auto i = std::find_if(steps.begin(), steps.end(),
                        [step](const auto& x) { return x.name == step; });
  return i != steps.end() ? &*i : nullptr;
}

const machine::conversion* machine::find_conversion(std::int32_t from) const {
  auto i = std::find_if(conversions.begin(), conversions.end(),
                        [from](const auto& x) { return x.version == from; });
  return i != conversions.end() ? &*i : nullptr;
}

json machine::stored(json given) const {
  if (!encrypted_by)
    return given;
  if (const auto* why = given.failure())
    return json::failed(detail::without_content(*why));
  return encrypted(std::move(given), *encrypted_by);
}

result<json> machine::plain(json kept) const {
  if (!encrypted_by)
    return kept;
  return decrypted(std::move(kept), *encrypted_by);
}

result<void> machine::check_stored(const std::string& state) const {
  if (!encrypted_by)
    return check_state(state);
  auto open = plain(json::raw(state));
  return open ? check_state(open->text()) : open.error();
}

/// What goes on with what another one gives; null: nothing has to.
static const machine::conversion* behind(const machine& of,
                                         const machine::conversion& x) {
  if (x.gives == of.state_type)
    return nullptr;
  auto i = std::find_if(of.conversions.begin(), of.conversions.end(),
                        [&x](const auto& y) {
    return y.version > x.version && y.takes == x.gives;
  });
  return i != of.conversions.end() ? &*i : nullptr;
}

/// Codecs, and conversions, are the user's. What is wrong begins with what was expected;
/// of a state that is `hidden` it does not repeat content.
template <class F>
static result<void> guarded(const std::string& expected, bool hidden, F call) {
  auto refuse = [&expected](errc code, const std::string& why) {
    return error{code, "expected one of " + expected + ": " + why, {}};
  };
  try {
    result<void> ok = call();
    if (ok)
      return ok;
    auto why = hidden ? detail::without_content(ok.error()) : ok.error();
    return refuse(why.code, why.message);
  } catch (...) {
    return refuse(errc::codec, detail::describe_exception());
  }
}

result<json> machine::migrate(std::int32_t from,
                              const std::string& state) const {
  const auto* next = find_conversion(from);
  bool hidden = is_encrypted(state);
  if (next == nullptr) {
    auto ok = guarded(title(), hidden, [&] { return check_stored(state); });
    if (!ok)
      return ok.error();
    return json::raw(state);
  }
  auto open = plain(json::raw(state));
  if (!open)
    return open.error();
  auto now = std::move(*open);
  for (; next != nullptr; next = behind(*this, *next)) {
    auto of = name + " v" + std::to_string(next->version)
              + " that can be converted";
    auto ok = guarded(of, hidden, [&]() -> result<void> {
      auto made = next->convert(now.text());
      if (!made)
        return made.error();
      now = std::move(*made);
      return now.ok() ? result<void>{} : result<void>{*now.failure()};
    });
    if (!ok)
      return ok.error();
  }
  return stored(std::move(now));
}

std::string machine::step_names() const {
  std::string names;
  for (const auto& step : steps)
    names += (names.empty() ? "" : "|") + step.name;
  return names;
}

std::string machine::title() const {
  return name + " v" + std::to_string(version);
}

/// What is wrong with how it takes older versions' states.
static result<void> check_conversions(const machine& of) {
  for (const auto& x : of.conversions) {
    auto refuse = [&](const std::string& text) {
      return error{errc::invalid_argument,
                   of.title() + ": from version " + std::to_string(x.version)
                     + ": " + text,
                   {}};
    };
    if (x.version >= of.version)
      return refuse("expected an older version");
    if (x.gives != of.state_type && behind(of, x) == nullptr)
      return refuse("expected that it gives the state of " + of.title()
                    + ", or what .from of a later version takes");
  }
  return {};
}

result<void> machine::validate() const {
  if (problem)
    return *problem;
  if (auto ok = check_name("machine name", name, {}); !ok)
    return ok;
  if (version < 1)
    return error{errc::invalid_argument,
                 name + ": version " + std::to_string(version)
                   + ", expected 1 or more",
                 {}};
  if (auto ok = check_name(title() + ": queue", queue, {}); !ok)
    return ok;
  for (const auto& step : steps) {
    auto refuse = [&](const std::string& text) {
      return error{
        errc::invalid_argument, title() + ": step " + step.name + text, {}};
    };
    if (!step.defined())
      return refuse(" has no function, expected .step(" + step.name
                    + ", ...), .rest(...) or .final(...)");
    if (const auto& rests = step.rests; rests && !rests->ends) {
      if (rests->after && rests->then.empty())
        return refuse(
          " rests until a deadline, and goes nowhere then: expected "
          ".then = <step>");
      if (step.to->empty())
        return refuse(" rests, and nothing leads from there: expected steps, a "
                      "deadline, or .final("
                      + step.name + ")");
      if (rests->after
          && (*rests->after < std::chrono::milliseconds{1}
              || *rests->after > longest_delay))
        return refuse(" rests for " + std::to_string(rests->after->count())
                      + " us, expected 1 ms to 100 years");
    }
    if (declared_only && !step.to)
      return refuse(
        " declares nothing, expected a type such as gd::to<...>, or "
        "a list, .to = {...}");
    if (step.start && step.how.blocking)
      return refuse(" is asynchronous and blocking, expected one of them");
    if (auto limit = step.how.limit;
        limit && (limit->count() < 1 || *limit > longest_delay))
      return refuse(" has a limit of " + std::to_string(limit->count())
                    + " ms, expected 1 ms to 100 years");
  }
  if (declared_only && on_error && !handler_to)
    return error{errc::invalid_argument,
                 title()
                   + ": its handler declares nothing, expected a type such as "
                     "gd::to<...>, or a list, .to = {...}",
                 {}};
  return check_conversions(*this);
}

std::optional<std::vector<std::string>>
detail::declared(machine& of, const std::string& who,
                 std::optional<std::vector<std::string>> by_type,
                 const step_list& by_list) {
  auto refuse = [&](const char* why) {
    of.problem = error{
      errc::invalid_argument, of.title() + ": " + who + why, {}};
  };
  if (!by_list.names)
    return by_type;
  if (by_type)
    refuse(" declares where it goes by its type and by a list, expected one of "
           "them");
  if (!by_list.names->empty() && by_list.type != of.step_type)
    refuse(" declares a list of steps of another machine");
  return by_list.names;
}

machine::step_definition& detail::new_step(machine& of, std::size_t step) {
  auto& slot = of.steps[step];
  if (slot.defined())
    of.problem = error{errc::invalid_argument,
                       of.title() + ": step " + slot.name + " is defined twice",
                       {}};
  return slot;
}

/// What an engine makes of a row that it has to run at a step where none runs: it was
/// due, or stands there by no doing of this library.
static outcome
leave_resting(const machine::resting& how,
              const std::pair<std::type_index, std::type_index>& types,
              const context_base& ctx) {
  outcome x{
    .kind = outcome_kind::done, .state_type = types.first, .unchanged = true};
  if (how.ends)
    return x;
  if (how.after && ctx.timed_out()) {
    x.kind = outcome_kind::next;
    x.step = how.then;
    x.step_type = types.second;
  } else {
    x.kind = outcome_kind::await; // of no signal
    if (how.after)
      x.timeout_us = how.after->count();
  }
  return x;
}

void detail::define_resting(machine& of, std::size_t step, const step_list& to,
                            machine::resting how) {
  auto& slot = new_step(of, step);
  open_outside(of, step, to);
  slot.to = slot.outside;
  if (!how.then.empty()
      && std::find(slot.to->begin(), slot.to->end(), how.then)
           == slot.to->end())
    slot.to->push_back(how.then);
  slot.rests = how;
  slot.run =
    [how = std::move(how), types = std::pair{of.state_type, of.step_type}](
      context_base& ctx, const std::string&) {
    return leave_resting(how, types, ctx);
  };
}

void detail::open_outside(machine& of, std::size_t step, const step_list& to) {
  auto& slot = of.steps[step];
  auto names = declared(of, "step " + slot.name, std::nullopt, to);
  if (names)
    slot.outside.insert(slot.outside.end(), names->begin(), names->end());
}

std::string detail::describe_exception() {
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

void detail::add_signal(machine& to, std::string name, std::string shape) {
  if (auto ok = check_name(to.title() + ": signal name", name, {}); !ok)
    to.problem = ok.error();
  else if (!to.signals.emplace(name, std::move(shape)).second)
    to.problem = error{errc::invalid_argument,
                       to.title() + ": signal " + name + " is told twice",
                       {}};
}

void detail::add_conversion(machine& to, machine::conversion what) {
  if (to.find_conversion(what.version) != nullptr)
    to.problem = error{errc::invalid_argument,
                       to.title() + ": from version "
                         + std::to_string(what.version) + " is defined twice",
                       {}};
  auto later = std::find_if(to.conversions.begin(), to.conversions.end(),
                            [&](const auto& x) {
    return x.version > what.version;
  });
  to.conversions.insert(later, std::move(what));
}

void detail::add_retries(machine& to, const retry_options& by_default) {
  std::map<std::string, retry_options, std::less<>> of_steps;
  auto check = [&to](const std::string& whose, const retry_options& how) {
    auto refuse = [&](const std::string& text) {
      to.problem = error{
        errc::invalid_argument, to.title() + ": " + whose + " " + text, {}};
    };
    if (how.attempts < 1 || how.attempts > 1'000'000)
      refuse("has " + std::to_string(how.attempts)
             + " attempts, expected 1 to 1000000");
    if (how.backoff.base.count() < 0 || how.backoff.most < how.backoff.base
        || how.backoff.most > longest_delay)
      refuse("has a backoff of " + std::to_string(how.backoff.base.count())
             + " ms, at most " + std::to_string(how.backoff.most.count())
             + " ms, expected 0 ms to 100 years, and no more than at most");
  };
  check("retry", by_default);
  for (const auto& step : to.steps) {
    const auto& own = step.how.retry;
    if (own.attempts != 0)
      check("retry of step " + step.name, own);
    const auto& how = own.attempts != 0 ? own : by_default;
    if (how.attempts > 1)
      of_steps.emplace(step.name, how);
  }
  if (of_steps.empty())
    return;
  if (!to.on_error)
    to.handler_to.emplace(); // no step follows
  to.on_error =
    [of_steps = std::move(of_steps), type = to.state_type,
     handler = std::move(to.on_error)](const failure& why, context_base& ctx,
                                       const std::string& state) -> outcome {
    auto found = of_steps.find(ctx.step);
    if (found != of_steps.end() && !why.permanent()
        && ctx.failures() < found->second.attempts - 1
        && !found->second.not_for.includes(why.thrown())) {
      const auto& [base, most] = found->second.backoff;
      return {.kind = outcome_kind::replay,
              .state_type = type,
              .delay_us = std::chrono::microseconds{backoff(ctx.failures(),
                                                            base, most)}
                            .count(),
              .unchanged = true};
    }
    if (handler)
      return handler(why, ctx, state);
    return stop(why.message());
  };
}

std::chrono::milliseconds backoff(std::int32_t failures,
                                  std::chrono::milliseconds base,
                                  std::chrono::milliseconds most) {
  thread_local std::minstd_rand random{std::random_device{}()};
  auto full = static_cast<double>(base.count())
              * std::exp2(std::min(std::max(failures, 0), 62));
  // What is longer, no outcome takes.
  constexpr auto longest
    = std::chrono::duration_cast<std::chrono::milliseconds>(longest_delay);
  full = std::min(full, static_cast<double>(std::min(most, longest).count()));
  std::uniform_real_distribution<double> part{0.5, 1.0};
  return std::chrono::milliseconds{
    static_cast<std::int64_t>(full * part(random))};
}

} // namespace gd
