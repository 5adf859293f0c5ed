#include <gd/testing.hpp>

#include <gd/config.hpp>
#include <gd/engine/step/run.hpp>
#include <gd/engine/step/upgrade.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>
#include <gd/time.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace gd::testing {

namespace {

using std::chrono::microseconds;

error invalid(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

// -- history ------------------------------------------------------------------

std::string names_of(const std::string& first,
                     const std::vector<std::string>& others) {
  auto out = first;
  for (const auto& x : others)
    out += ", " + x;
  return out;
}

std::string detail_of(const store::outcome_row& x) {
  switch (x.what) {
    case store::write_kind::next:
    case store::write_kind::park:
    case store::write_kind::finish:
      return x.step;
    case store::write_kind::replay:
      return fmt::format("after {} us", x.delay_us);
    case store::write_kind::later:
      return fmt::format("{} after {} us", x.step, x.delay_us);
    case store::write_kind::await:
      return names_of(x.awaits, x.awaits_also);
    case store::write_kind::stop:
      return x.reason;
    default:
      return {};
  }
}

// -- stored states ------------------------------------------------------------

/// What a line of a file tells; the rest is of no concern.
struct stored_line {
  std::int64_t id = 0;
  std::string fsm;
  std::int32_t version = 0;
  std::string step;
  std::string status;
  std::optional<json> state;

  GD_STATE(stored_line, id, fsm, version, step, status, state);
};

/// What is left out is as it can only be, or as it mostly is.
gd::result<store::upgrade_row> row_of(const stored_line& x,
                                      const std::vector<machine>& machines,
                                      const registry& known) {
  auto one = [&machines](const machine& y) {
    return y.name == machines.front().name;
  };
  auto fsm = x.fsm;
  if (fsm.empty() && !machines.empty()
      && std::all_of(machines.begin(), machines.end(), one))
    fsm = machines.front().name;
  auto newest = known.find(fsm, 0);
  if (!newest)
    return invalid("fsm: expected a machine that was added, got "
                   + (fsm.empty() ? "none" : printable(fsm)));
  if (!x.state)
    return invalid("state: expected an object, got none");
  auto step = x.step.empty() ? newest->initial_step : x.step;
  return store::upgrade_row{.id = x.id,
                            .fsm = fsm,
                            .version = x.version == 0 ? newest->version
                                                      : x.version,
                            .step = step,
                            .to_version = newest->version,
                            .to_step = step,
                            .state = x.state->text()};
}

} // namespace

std::string to_string(const executed& x) {
  auto out = x.step;
  if (x.attempt > 0)
    out += fmt::format(", attempt {}", x.attempt);
  if (!x.wake_reason.empty())
    out += ", " + x.wake_reason;
  out += ": " + x.outcome;
  if (!x.detail.empty())
    out += " " + x.detail;
  if (x.handled)
    out += " (by the handler)";
  return out;
}

// -- what both have in common -------------------------------------------------

harness::harness(gd::limits bounds)
  : known_(std::make_shared<registry>()), limits_(bounds) {
  // nop
}

harness::~harness() {
  // nop
}

gd::result<void> harness::add(machine what) {
  config like;
  like.limits = limits_;
  like.machines = machines_;
  like.machines.push_back(what);
  if (auto ok = like.validate(); !ok)
    return ok;
  machines_.push_back(std::move(what));
  *known_ = registry{machines_};
  return added();
}

std::vector<gd::result<inserted>>
harness::insert_all(std::vector<gd::insert> rows) {
  std::vector<gd::result<inserted>> answers;
  answers.reserve(rows.size());
  for (auto& x : rows)
    answers.push_back(insert(std::move(x)));
  return answers;
}

gd::result<bool> harness::step() {
  if (running_)
    return invalid("a step cannot run steps: it may insert and signal");
  running_ = true;
  auto ran = run_one();
  running_ = false;
  return ran;
}

gd::result<void> harness::drain(std::size_t at_most, std::size_t& steps) {
  while (true) {
    auto ran = step();
    if (!ran)
      return ran.error();
    if (!*ran)
      return {};
    if (++steps <= at_most)
      continue;
    const auto& last = history_.back();
    return invalid(fmt::format("expected that all is quiet after {} steps, got "
                               "another one: instance {}, {}",
                               at_most, last.id, to_string(last)));
  }
}

gd::result<std::size_t> harness::drain(std::size_t at_most) {
  std::size_t steps = 0;
  if (auto ok = drain(at_most, steps); !ok)
    return ok.error();
  return steps;
}

gd::result<void> harness::advance(microseconds by) {
  if (!to_microseconds(by))
    return invalid(fmt::format(
      "expected to advance by 0 to 100 years, got {} us", by.count()));
  return pass(by);
}

gd::result<bool> harness::advance_to_next() {
  auto wait = next_due();
  if (!wait)
    return wait.error();
  if (!*wait)
    return false;
  if (auto ok = advance(**wait); !ok)
    return ok.error();
  return true;
}

gd::result<std::size_t> harness::run_for(microseconds by, std::size_t at_most) {
  std::size_t steps = 0;
  while (true) {
    if (auto ok = drain(at_most, steps); !ok)
      return ok.error();
    auto wait = next_due();
    if (!wait)
      return wait.error();
    bool last = !*wait || **wait > by;
    auto part = last ? by : **wait;
    if (auto ok = advance(part); !ok)
      return ok.error();
    if (last)
      return steps;
    by -= part;
  }
}

gd::result<decoded> harness::decodes(const std::string& file) const {
  std::ifstream in{file};
  if (!in)
    return invalid("cannot read " + file);
  decoded out;
  std::string line;
  for (std::size_t n = 1; std::getline(in, line); ++n) {
    if (line.empty())
      continue;
    auto at = fmt::format("line {}: ", n);
    auto read = from_json<stored_line>(line);
    if (!read)
      return invalid(file + ": " + at + read.error().message);
    if (read->status == "done")
      continue;
    auto row = row_of(*read, machines_, *known_);
    if (!row)
      return invalid(file + ": " + at + row.error().message);
    ++out.states;
    auto checked = check_upgrade(*known_, limits_, *row);
    if (!checked.fault.empty())
      out.refusals.push_back(at + checked.fault);
  }
  return out;
}

void harness::crash_next(std::int64_t id, int times) {
  crashes_[id] += times;
}

std::vector<executed> harness::history(std::int64_t id) const {
  std::vector<executed> xs;
  for (const auto& x : history_)
    if (x.id == id)
      xs.push_back(x);
  return xs;
}

gd::result<gd::instance> harness::plain_instance(std::int64_t id) {
  auto x = instance(id);
  auto of = x ? known_->find_any(x->fsm, x->version) : nullptr;
  if (!of)
    return x;
  auto state = of->plain(x->state);
  if (!state)
    return state.error();
  x->state = std::move(*state);
  if (x->result) {
    auto result = of->plain(*x->result);
    if (!result)
      return result.error();
    x->result = std::move(*result);
  }
  return x;
}

std::string harness::describe(std::int64_t id) {
  auto x = plain_instance(id);
  if (!x && x.error().code == errc::cipher)
    x = instance(id);
  if (!x)
    return gd::to_string(x.error());
  auto out = fmt::format("instance {}: {} v{}, {} in step {}, attempt {}\n", id,
                         x->fsm, x->version, x->status, x->step, x->attempt);
  auto line = [&out](std::string_view name, std::string_view text) {
    out += fmt::format("  {}: {}\n", name, text);
  };
  line("state", x->state.text());
  if (x->result)
    line("result", x->result->text());
  if (x->awaits)
    line("awaits", x->awaits->empty() ? "nothing: it rests"
                                      : names_of(*x->awaits, x->awaits_also));
  if (x->wake_reason)
    line("woken by", *x->wake_reason);
  if (x->last_error)
    line("last error", *x->last_error);
  line("signals in the inbox", std::to_string(x->inbox));
  out += "  executions:\n";
  for (const auto& one : history(id))
    out += "    " + to_string(one) + "\n";
  return out;
}

error harness::no_result(const gd::instance& x) {
  return {errc::not_found,
          fmt::format("instance {} has no result: it is {} in step {}{}", x.id,
                      x.status, x.step,
                      x.last_error ? ": " + *x.last_error : ""),
          {}};
}

gd::result<harness::outcome_row> harness::run_async(gd::run& what) {
  const auto& row = what.held().row();
  return invalid(fmt::format("instance {}: step {} of {} v{} is asynchronous: "
                             "it needs an engine of gd::actors, "
                             "or a gd::actors::testing::simulation",
                             row.id, row.step, row.fsm, row.fsm_version));
}

gd::result<harness::ended> harness::run(gd::run& what, bool crashes) {
  const auto* step = what.held().step();
  if (step != nullptr && step->run_in_transaction)
    return run_in_transaction(what, crashes);
  auto row = step != nullptr && step->start
               ? run_async(what)
               : gd::result<outcome_row>{what.execute()};
  if (!row)
    return row.error();
  return ended{crashes ? nullptr : std::move(*row)};
}

gd::result<void> harness::execute(
  store::picked_row row, lease_ptr under,
  const std::function<gd::result<written>(store::outcome_row)>& write,
  const std::function<gd::result<void>()>& lose) {
  executed seen{.id = row.id,
                .step = row.step,
                .attempt = row.attempt,
                .wake_reason = row.wake_reason};
  store::outcome_row back{.id = row.id, .token = under->token};
  back.may_collide = store::may_collide(row, back.what);
  auto of = known_->find(row.fsm, row.fsm_version);
  auto held = std::make_shared<held_row>(of, std::move(row), std::move(under),
                                         limits_, known_.get());
  gd::run what{held};
  auto crash = crashes_.find(seen.id);
  bool crashes = crash != crashes_.end() && crash->second > 0;
  auto ran = run(what, crashes);
  if (!ran) {
    auto ok = write(std::move(back));
    return ok ? ran.error() : ok.error();
  }
  if (crashes)
    --crash->second;
  if (!ran->row) {
    seen.outcome = "crash";
    history_.push_back(std::move(seen));
    return lose();
  }
  auto outcome = std::move(*ran->row);
  while (true) {
    auto became = ran->applied ? gd::result<written>{written{*ran->applied, {}}}
                               : write(outcome);
    if (!became)
      return became.error();
    if (became->refused) {
      auto other = became->effect ? what.refused(*became->effect,
                                                 without_data(*became->effect))
                                  : what.refused(*became->refused);
      if (!other)
        return *became->refused;
      outcome = std::move(*other);
      continue;
    }
    seen.outcome = became->applied ? store::to_string(outcome.what) : "stale";
    seen.detail = detail_of(outcome);
    seen.handled = what.failed() && of && of->on_error;
    history_.push_back(std::move(seen));
    return {};
  }
}

} // namespace gd::testing
