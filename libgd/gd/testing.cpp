#include <gd/testing.hpp>

#include <gd/config.hpp>
#include <gd/execution.hpp>
#include <gd/intake.hpp>
#include <gd/sql.hpp>
#include <gd/time.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace gd::testing {

namespace {

using std::chrono::microseconds;

/// As in the pick: of an inbox, the oldest signals of so many bytes, and one
/// more.
constexpr std::size_t shown_bytes = 8 << 20;

error invalid(std::string text) {
  return {errc::invalid_argument, std::move(text), {}};
}

// -- JSON as jsonb shows it ---------------------------------------------------

/// PostgreSQL's numeric keeps the digits behind the point, and has no exponent.
std::string as_numeric(std::string_view raw) {
  bool negative = raw.front() == '-';
  if (negative)
    raw.remove_prefix(1);
  int exponent = 0;
  if (auto e = raw.find_first_of("eE"); e != raw.npos) {
    auto digits = raw.substr(e + 1);
    if (digits.front() == '+')
      digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    raw = raw.substr(0, e);
  }
  auto point = std::min(raw.find('.'), raw.size());
  std::string digits{raw.substr(0, point)};
  if (point < raw.size())
    digits += raw.substr(point + 1);
  auto at = static_cast<int>(point) + exponent;
  if (at <= 0) {
    digits.insert(0, static_cast<std::size_t>(1 - at), '0');
    at = 1;
  }
  if (auto whole = static_cast<std::size_t>(at); digits.size() < whole)
    digits.append(whole - digits.size(), '0');
  auto zero = digits.find_first_not_of('0') == digits.npos;
  auto lead = std::min(digits.find_first_not_of('0'),
                       static_cast<std::size_t>(at) - 1);
  auto out = (negative && !zero ? "-" : "")
             + digits.substr(lead, static_cast<std::size_t>(at) - lead);
  if (digits.size() > static_cast<std::size_t>(at))
    out += "." + digits.substr(static_cast<std::size_t>(at));
  return out;
}

std::string as_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text)
    switch (c) {
      case '"':
      case '\\':
        (out += '\\') += c;
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  return out += '"';
}

std::string as_hex(std::string_view bytes) {
  std::string out;
  for (unsigned char c : bytes)
    out += fmt::format("{:02x}", c);
  return out;
}

struct by_length {
  bool operator()(std::string_view a, std::string_view b) const {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }
};

std::string as_jsonb(const json_value& x) {
  auto joined = [](std::string& to, const std::string& piece) {
    if (to.size() > 1)
      to += ", ";
    to += piece;
  };
  switch (x.type()) {
    case json_type::number:
      return as_numeric(x.raw());
    case json_type::string:
      return as_string(x.text());
    case json_type::array: {
      std::string out = "[";
      (void)x.each([&](const json_value& child) -> result<void> {
        joined(out, as_jsonb(child));
        return {};
      });
      return out += ']';
    }
    case json_type::object: {
      std::map<std::string, std::string, by_length> members;
      (void)x.each([&](const json_value& child) -> result<void> {
        members.insert_or_assign(std::string{child.key()}, as_jsonb(child));
        return {};
      });
      std::string out = "{";
      for (const auto& [key, value] : members)
        joined(out, as_string(key) + ": " + value);
      return out += '}';
    }
    default:
      return std::string{x.raw()};
  }
}

/// What a jsonb column returns of this text, which has been checked.
std::string as_jsonb(std::string text) {
  if (auto doc = detail::parse_json(text, {}))
    return as_jsonb(json_value{doc->nodes.front(), {}, false});
  return text;
}

// -- history ------------------------------------------------------------------

std::string detail_of(const store::outcome_row& x) {
  switch (x.what) {
    case store::verb::next:
      return x.step;
    case store::verb::replay:
      return fmt::format("after {} us", x.delay_us);
    case store::verb::await:
      return x.awaits;
    case store::verb::stop:
      return x.reason;
    default:
      return {};
  }
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

std::string harness::describe(std::int64_t id) {
  auto x = instance(id);
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
    line("awaits", *x->awaits);
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

gd::result<void> harness::execute(
  store::picked_row row, lease_ptr under,
  const std::function<gd::result<written>(store::outcome_row)>& write,
  const std::function<gd::result<void>()>& lose) {
  executed seen{.id = row.id,
                .step = row.step,
                .attempt = row.attempt,
                .wake_reason = row.wake_reason};
  auto of = known_->find(row.fsm, row.fsm_version);
  if (auto* step = of->find_step(row.step); step != nullptr && step->start) {
    store::outcome_row back;
    back.id = row.id;
    back.token = under->token;
    back.may_collide = store::may_collide(row, back.what);
    if (auto ok = write(std::move(back)); !ok)
      return ok.error();
    return invalid(fmt::format("instance {}: step {} of {} is asynchronous: it "
                               "needs an engine of gd::actors",
                               row.id, row.step, of->title()));
  }
  execution what{of, std::move(row), std::move(under), limits_};
  auto outcome = std::move(*what.run());
  if (auto crash = crashes_.find(seen.id);
      crash != crashes_.end() && crash->second > 0) {
    --crash->second;
    seen.outcome = "crash";
    history_.push_back(std::move(seen));
    return lose();
  }
  while (true) {
    auto became = write(outcome);
    if (!became)
      return became.error();
    if (became->refused) {
      auto other = what.refused(*became->refused);
      if (!other)
        return *became->refused;
      outcome = std::move(*other);
      continue;
    }
    seen.outcome = became->applied ? store::to_string(outcome.what) : "stale";
    seen.detail = detail_of(outcome);
    seen.handled = what.failed();
    history_.push_back(std::move(seen));
    return {};
  }
}

// -- without a database -------------------------------------------------------

simulation::simulation(std::vector<machine> machines, simulation_settings how)
  : harness(how.limits), now_(how.start) {
  for (auto& x : machines)
    if (auto ok = add(std::move(x)); !ok && !problem_)
      problem_ = ok.error();
}

gd::result<void> simulation::added() {
  return {};
}

bool simulation::is_known(const row& x) const {
  return known_->find(x.shown.fsm, x.shown.version) != nullptr;
}

bool simulation::is_eligible(const row& x) const {
  return x.shown.status == "runnable" && x.shown.eligible_at_us <= now_us();
}

/// The pick's order. A clock that stands gives many rows the same time; there,
/// they come in the order in which they got it.
bool simulation::before(const row& a, const row& b) {
  auto place = [](const row& x) {
    return std::tuple{x.shown.priority, x.shown.eligible_at_us, x.turn};
  };
  return place(a) < place(b);
}

void simulation::make_eligible(row& x, std::int64_t at_us) {
  x.shown.status = "runnable";
  x.shown.eligible_at_us = at_us;
  x.turn = ++turns_;
}

// -- unique keys --------------------------------------------------------------

bool simulation::occupies(const row& x, std::string_view status) {
  return x.shown.unique_key
         && std::find(x.unique_scope.begin(), x.unique_scope.end(), status)
              != x.unique_scope.end();
}

std::optional<std::int64_t> simulation::holder(const row& x,
                                               std::string_view status) const {
  if (occupies(x, status))
    for (const auto& [id, other] : rows_)
      if (id != x.shown.id && other.shown.unique_key == x.shown.unique_key
          && occupies(other, other.shown.status))
        return id;
  return std::nullopt;
}

bool simulation::unsure(const row& x) {
  return occupies(x, "runnable") && !occupies(x, "awaiting_signal");
}

void simulation::touch(row& x) {
  x.shown.updated_at_us = now_us();
  x.touched = ++turns_;
}

/// What `returning` and `return_row` do.
void simulation::return_rows() {
  std::vector<row*> owed;
  for (auto& [id, x] : rows_)
    if ((x.shown.status == "awaiting_signal" && x.shown.wake_reason)
        || (x.expired && x.shown.lease_expires_at_us <= now_us()))
      owed.push_back(&x);
  std::sort(owed.begin(), owed.end(), [](const row* a, const row* b) {
    return std::tuple{a->expired, a->touched}
           < std::tuple{b->expired, b->touched};
  });
  for (auto* x : owed) {
    touch(*x);
    bool free = !holder(*x, "runnable");
    if (!free) {
      if (x->expired)
        x->shown.lease_expires_at_us
          = now_us() + microseconds{std::chrono::seconds{5}}.count();
    } else if (std::exchange(x->expired, false)) {
      x->shown.status = "runnable";
      ++x->shown.attempt;
      x->shown.locked_by.reset();
      x->shown.lease_expires_at_us.reset();
    } else {
      x->shown.awaits.reset();
      make_eligible(*x, now_us());
    }
  }
}

// -- inserts and signals ------------------------------------------------------

gd::result<simulation::row> simulation::resolve(gd::insert what) const {
  row x;
  auto& to = x.shown;
  to.fsm = what.fsm;
  to.version = std::max(what.version, 1);
  to.step = what.step;
  to.queue = what.queue;
  if (auto of = known_->find(what.fsm, what.version)) {
    to.version = of->version;
    if (to.step.empty())
      to.step = of->initial_step;
    if (to.queue.empty())
      to.queue = of->queue;
    if (of->find_step(to.step) == nullptr)
      return error{errc::unknown_step,
                   fmt::format("step: expected one of {} of {}, got {}",
                               of->step_names(), of->title(), to.step),
                   {}};
    if (auto ok = of->check_state(what.state.text()); !ok)
      return error{ok.error().code, "state: " + ok.error().message, {}};
  } else if (to.step.empty() || to.queue.empty()) {
    std::set<std::int32_t> versions;
    for (const auto& y : machines_)
      if (y.name == what.fsm)
        versions.insert(y.version);
    if (versions.empty())
      return error{
        errc::unknown_machine,
        fmt::format("fsm: no node has made {}{} known; expected a known "
                    "machine, or step and queue as well",
                    what.fsm,
                    what.version == 0 ? "" : fmt::format(" v{}", what.version)),
        {}};
    return error{errc::unknown_machine,
                 fmt::format("version: {} is known in version {}, got {}; or "
                             "give step and queue as well",
                             what.fsm, fmt::join(versions, "|"), what.version),
                 {}};
  }
  to.status = "runnable";
  to.state = json::raw(as_jsonb(std::move(what.state).text()));
  to.priority = what.priority;
  to.partition_key = std::move(what.partition_key);
  if (what.unique_key) {
    to.unique_key = as_hex(*what.unique_key);
    x.unique_scope = std::move(what.unique_scope);
    if (x.unique_scope.empty())
      x.unique_scope = {"runnable", "executing", "awaiting_signal"};
  }
  to.inserted_at_us = now_us();
  to.eligible_at_us = what.eligible_at_us.value_or(now_us() + what.delay_us);
  return x;
}

gd::result<inserted> simulation::insert(gd::insert what) {
  if (problem_)
    return *problem_;
  insert_intake intake{{.machines = known_, .limits = limits_}};
  if (auto ok = intake.add(0, what); !ok)
    return ok.error();
  auto made = resolve(std::move(what));
  if (!made)
    return made.error();
  auto id = ++ids_; // drawn before the key can turn out to be taken
  made->shown.id = id;
  if (auto other = holder(*made, "runnable"))
    return inserted{*other, true};
  make_eligible(*made, made->shown.eligible_at_us);
  touch(*made);
  rows_.emplace(id, std::move(*made));
  return inserted{id, false};
}

void simulation::wake(row& x, std::string_view reason) {
  if (!x.shown.wake_reason) // the first one counts
    x.shown.wake_reason = reason;
  touch(x);
  if (unsure(x)) // return_rows wakes it
    return;
  x.shown.awaits.reset();
  make_eligible(x, now_us());
}

gd::result<signalled> simulation::signal(gd::signal what) {
  if (problem_)
    return *problem_;
  if (auto ok = check(what, limits_); !ok)
    return ok.error();
  auto found = rows_.find(what.target);
  if (found == rows_.end())
    return error{errc::no_such_target,
                 fmt::format("target: there is no instance {}", what.target),
                 {}};
  auto& x = found->second;
  if (what.dedup_key
      && std::any_of(x.inbox.begin(), x.inbox.end(),
                     [&](const stored_signal& y) {
    return y.dedup_key == what.dedup_key;
         }))
    return signalled{true};
  if (x.shown.status == "done" || x.shown.status == "failed")
    return error{errc::target_finished,
                 fmt::format("target: instance {} is finished", what.target),
                 {}};
  auto waiting = std::count_if(x.inbox.begin(), x.inbox.end(),
                               [](const auto& y) { return !y.consumed; });
  if (waiting >= limits_.inbox)
    return error{
      errc::inbox_full,
      fmt::format("target: the inbox of instance {} is full: {} signals",
                  what.target, limits_.inbox),
      {}};
  x.inbox.push_back(
    {{++signal_ids_, what.name, as_jsonb(std::move(what.payload).text())},
     std::move(what.dedup_key)});
  if (x.shown.status == "awaiting_signal" && x.shown.awaits == what.name)
    wake(x, "signal");
  return signalled{false};
}

gd::result<gd::instance> simulation::instance(std::int64_t id) {
  auto found = rows_.find(id);
  if (found == rows_.end())
    return error{
      errc::not_found, fmt::format("there is no instance {}", id), {}};
  auto x = found->second.shown;
  const auto& inbox = found->second.inbox;
  x.inbox = std::count_if(inbox.begin(), inbox.end(),
                          [](const auto& y) { return !y.consumed; });
  return x;
}

// -- time ---------------------------------------------------------------------

gd::result<std::optional<microseconds>> simulation::next_due() {
  std::optional<std::int64_t> at;
  auto consider = [&](std::int64_t when) {
    if (when > now_us() && (!at || when < *at))
      at = when;
  };
  for (const auto& [id, x] : rows_) {
    if (x.shown.status == "runnable" && is_known(x))
      consider(x.shown.eligible_at_us);
    if (x.shown.status == "awaiting_signal" && x.shown.deadline_us)
      consider(*x.shown.deadline_us);
    if (x.expired)
      consider(*x.shown.lease_expires_at_us);
  }
  if (!at)
    return std::optional<microseconds>{};
  return std::optional{microseconds{*at - now_us()}};
}

gd::result<void> simulation::pass(microseconds by) {
  auto end = now_ + by;
  while (true) {
    row* first = nullptr;
    for (auto& [id, x] : rows_)
      if (x.shown.status == "awaiting_signal" && x.shown.deadline_us
          && *x.shown.deadline_us <= end.time_since_epoch().count()
          && (first == nullptr
              || *x.shown.deadline_us < *first->shown.deadline_us))
        first = &x;
    if (first == nullptr)
      break;
    // A deadline that has been in the past from the beginning fires now.
    now_ = std::max(now_,
                    decltype(now_){microseconds{*first->shown.deadline_us}});
    wake(*first, "timeout");
    if (first->shown.status == "awaiting_signal")
      first->shown.deadline_us.reset();
  }
  now_ = end;
  return_rows();
  return {};
}

// -- steps --------------------------------------------------------------------

/// Of a partition key, only the first eligible row, whoever can run it, and only
/// if none of the key is executing.
simulation::row* simulation::pick() {
  std::map<std::string_view, row*> heads;
  std::set<std::string_view> taken;
  row* first = nullptr;
  for (auto& [id, x] : rows_) {
    if (!x.shown.partition_key) {
      if (is_eligible(x) && is_known(x)
          && (first == nullptr || before(x, *first)))
        first = &x;
      continue;
    }
    const auto& key = *x.shown.partition_key;
    if (x.shown.status == "executing")
      taken.insert(key);
    if (!is_eligible(x))
      continue;
    auto& head = heads[key];
    if (head == nullptr || before(x, *head))
      head = &x;
  }
  for (auto [key, x] : heads)
    if (!taken.contains(key) && is_known(*x)
        && (first == nullptr || before(*x, *first)))
      first = x;
  return first;
}

store::picked_row simulation::show(const row& x) const {
  store::picked_row to;
  to.id = x.shown.id;
  to.fsm = x.shown.fsm;
  to.fsm_version = x.shown.version;
  to.step = x.shown.step;
  to.state = x.shown.state.text();
  to.attempt = x.shown.attempt;
  to.wake_reason = x.shown.wake_reason.value_or("");
  std::size_t bytes = 0;
  for (const auto& y : x.inbox) {
    if (y.consumed)
      continue;
    if (bytes >= shown_bytes
        || to.inbox.size() == static_cast<std::size_t>(limits_.inbox))
      break;
    bytes += y.content.payload.size();
    to.inbox.push_back(y.content);
  }
  return to;
}

gd::result<bool> simulation::run_one() {
  if (problem_)
    return *problem_;
  if (auto ok = pass({}); !ok) // deadlines that were in the past already
    return ok.error();
  auto* x = pick();
  if (x == nullptr)
    return false;
  auto picked = show(*x);
  auto under = std::make_shared<lease>(
    x->shown.id, fmt::format("simulation/1/{}", ++picks_));
  x->shown.status = "executing";
  x->shown.locked_by = under->token;
  x->shown.lease_expires_at_us = now_us()
                                 + microseconds{config{}.lease}.count();
  touch(*x);
  auto ok = execute(
    std::move(picked), under,
    [this](store::outcome_row what) -> gd::result<written> {
      return apply(std::move(what));
    },
    [this, x]() -> gd::result<void> {
      lose(*x);
      return {};
    });
  if (!ok)
    return ok.error();
  return true;
}

/// Its lease is over, and it is reaped.
void simulation::lose(row& x) {
  x.expired = true;
  x.shown.lease_expires_at_us = now_us();
  return_rows();
}

harness::written simulation::apply(store::outcome_row what) {
  using store::verb;
  auto& x = rows_.at(what.id);
  auto& to = x.shown;
  auto status = what.what == verb::await  ? "awaiting_signal"
                : what.what == verb::done ? "done"
                : what.what == verb::stop ? "failed"
                                          : "runnable";
  if (!occupies(x, "executing"))
    if (auto other = holder(x, status))
      return {false,
              error{errc::rejected,
                    fmt::format("instance {} has its unique key", *other),
                    "23505"}};
  to.status = status;
  if (!what.state.empty())
    to.state = json::raw(as_jsonb(std::move(what.state)));
  bool same_inputs = what.what == verb::replay || what.what == verb::release;
  if (!same_inputs) {
    to.deadline_us.reset();
    to.wake_reason.reset();
  }
  switch (what.what) {
    case verb::next:
    case verb::advance:
      to.step = std::move(what.step);
      to.attempt = 0;
      make_eligible(x, now_us());
      break;
    case verb::replay:
      ++to.attempt;
      make_eligible(x, now_us() + what.delay_us);
      break;
    case verb::await:
      to.awaits = std::move(what.awaits);
      to.deadline_us = what.until_us;
      if (what.timeout_us)
        to.deadline_us = now_us() + *what.timeout_us;
      break;
    case verb::done:
      to.result = json::raw(as_jsonb(std::move(what.result)));
      break;
    case verb::stop:
      to.last_error = std::move(what.reason);
      break;
    case verb::release:
      break;
  }
  to.locked_by.reset();
  to.lease_expires_at_us.reset();
  touch(x);
  auto among = [](const std::vector<std::int64_t>& ids, std::int64_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  std::erase_if(x.inbox, [&](const stored_signal& y) {
    return among(what.consumed, y.content.id) && !y.dedup_key;
  });
  for (auto& y : x.inbox)
    if (among(what.consumed, y.content.id)) {
      y.consumed = true;
      y.content.payload = "{}";
    }
  if (what.what == verb::await
      && std::any_of(x.inbox.begin(), x.inbox.end(),
                     [&](const stored_signal& y) {
    return y.content.name == to.awaits && !y.consumed
           && !among(what.seen, y.content.id);
         }))
    wake(x, "signal");
  return {true, {}};
}

// -- in a database ------------------------------------------------------------

namespace {

using clock_type = database::clock;

/// Rows of one sweep; a full batch is followed by the next.
constexpr std::int32_t batch = 500;

/// How long a row may stay in other hands.
constexpr std::chrono::seconds patience{10};

} // namespace

in_database::in_database(pq::options where, in_database_settings how)
  : harness(how.limits),
    how_(std::move(how)),
    db_(std::make_unique<pq::connection>(std::move(where))) {
  // nop
}

in_database::in_database(in_database&&) noexcept = default;
in_database& in_database::operator=(in_database&&) noexcept = default;
in_database::~in_database() = default;

gd::result<in_database> in_database::connect(const pq::options& where,
                                             std::vector<machine> machines,
                                             in_database_settings how) {
  in_database made{where, std::move(how)};
  auto client = client::connect(
    where, {.machines = made.known_, .limits = made.limits_});
  if (!client)
    return client.error();
  made.client_.emplace(std::move(*client));
  if (auto ok = made.added(); !ok)
    return ok.error();
  for (auto& x : machines)
    if (auto ok = made.add(std::move(x)); !ok)
      return ok.error();
  return made;
}

gd::result<void> in_database::added() {
  std::vector<std::string> queues;
  for (const auto& x : machines_)
    queues.push_back(x.queue);
  queues.insert(queues.end(), how_.queues.begin(), how_.queues.end());
  lanes_.clear();
  std::set<std::string> there;
  for (const auto& x : queues)
    if (there.insert(x).second)
      lanes_.push_back({x, turn{{.queue = x,
                                 .incarnation = make_incarnation("testing"),
                                 .machines = known_->keys(),
                                 .inbox = limits_.inbox,
                                 .keys = keys_}}});
  if (machines_.empty())
    return {};
  if (auto ok = run(store::register_machines(machines_)); !ok)
    return ok.error();
  return {};
}

gd::result<inserted> in_database::insert(gd::insert what) {
  return client_->insert(std::move(what));
}

gd::result<signalled> in_database::signal(gd::signal what) {
  return client_->signal(std::move(what));
}

gd::result<gd::instance> in_database::instance(std::int64_t id) {
  return client_->look_up(id);
}

gd::result<pq::rows> in_database::run(pq::call what) {
  auto reply = db_->run({{std::move(what)}, true});
  if (!reply.ok())
    return *reply.failure;
  return std::move(reply.results.front());
}

gd::result<void> in_database::sweep() {
  auto now = run({&sql::testing_now, {}});
  if (!now)
    return now.error();
  swept_at_us_ = now->integer(0, 0);
  while (true) {
    auto rows = run(store::wake_due(batch));
    if (!rows)
      return rows.error();
    if (rows->size() < static_cast<std::size_t>(batch))
      return return_rows();
  }
}

gd::result<void> in_database::return_rows() {
  auto rows = run(store::returning(batch, true));
  if (!rows)
    return rows.error();
  for (auto id : store::read_ids(*rows))
    if (auto ok = run(store::return_row(id, true)); !ok)
      return ok.error();
  return {};
}

gd::result<void> in_database::pass(microseconds by) {
  pq::call shift{&sql::testing_advance, {}};
  shift.args.add(std::int64_t{by.count()});
  if (auto ok = run(std::move(shift)); !ok)
    return ok.error();
  return sweep();
}

gd::result<std::optional<microseconds>> in_database::next_due() {
  std::vector<std::string> queues;
  for (const auto& x : lanes_)
    queues.push_back(x.queue);
  pq::call next{&sql::testing_next, {}};
  std::vector<std::string> names;
  std::vector<std::int32_t> versions;
  for (const auto& x : known_->keys()) {
    names.push_back(x.fsm);
    versions.push_back(x.version);
  }
  next.args.add(queues).add(names).add(versions).add(swept_at_us_);
  auto rows = run(std::move(next));
  if (!rows)
    return rows.error();
  auto us = rows->maybe_integer(0, 0);
  return us ? std::optional{microseconds{*us}} : std::nullopt;
}

/// One transaction of a queue that has gone through.
gd::result<turn::report> in_database::transact(turn& work, std::int32_t want) {
  auto give_up = clock_type::now() + patience;
  while (true) {
    auto now = clock_type::now();
    if (auto next = work.begin(want, now)) {
      auto report = work.finish(next->flight, db_->run(next->work),
                                clock_type::now());
      if (!report.failure)
        return report;
      if (!retryable(report.failure->code)
          || db_->state() == pq::connection::phase::dead)
        return *report.failure;
    }
    if (now > give_up)
      return error{errc::busy, "another transaction holds the row", {}};
    std::this_thread::sleep_until(
      std::min(work.due(now), now + std::chrono::milliseconds{5}));
  }
}

gd::result<harness::written> in_database::write(turn& work,
                                                store::outcome_row what) {
  work.add(std::move(what));
  while (true) {
    auto report = transact(work, 0);
    if (!report)
      return report.error();
    if (report->rows.empty())
      continue; // busy
    auto& row = report->rows.front();
    written became;
    became.applied = row.what == turn::settled::verdict::applied;
    if (row.what == turn::settled::verdict::refused
        || row.what == turn::settled::verdict::collided)
      became.refused = row.why;
    return became;
  }
}

gd::result<void> in_database::lose(const lease_ptr& under) {
  // A heartbeat of no length, and its end is over before the next statement.
  if (auto ok = run(store::heartbeat({under}, microseconds{0})); !ok)
    return ok.error();
  if (auto ok = run(store::reap(batch)); !ok)
    return ok.error();
  return return_rows();
}

gd::result<bool> in_database::run_one() {
  if (auto ok = sweep(); !ok)
    return ok.error();
  for (auto& [queue, work] : lanes_) {
    work.look_everywhere(); // each pick is a poll
    auto report = transact(work, 1);
    if (report && report->picked.empty() && report->full)
      report = transact(work, 1); // now also rows with a partition key
    if (!report)
      return report.error();
    if (report->picked.empty())
      continue;
    auto& row = report->picked.front();
    auto under = std::make_shared<lease>(row.id, report->token);
    std::optional<store::key_hold> hold;
    if (row.partition_key)
      hold = store::key_hold{*row.partition_key, row.key_session};
    auto ok = execute(
      std::move(row), under,
      [this, &to = work](store::outcome_row what) {
      return write(to, std::move(what));
      },
      [&] { return lose(under); });
    if (hold) {
      work.unlock(std::move(*hold));
      if (auto unlocked = transact(work, 0); !unlocked)
        return unlocked.error();
    }
    if (!ok)
      return ok.error();
    return true;
  }
  return false;
}

gd::result<std::size_t> drain(const pq::options& where,
                              std::vector<machine> machines,
                              std::vector<std::string> queues) {
  auto run = in_database::connect(where, std::move(machines),
                                  {.queues = std::move(queues)});
  if (!run)
    return run.error();
  return run->drain();
}

} // namespace gd::testing
