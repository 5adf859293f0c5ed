#include <gd/testing.hpp>

#include <gd/config.hpp>
#include <gd/engine/intake/insert_intake.hpp>
#include <gd/engine/intake/resolve.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace gd::testing {

namespace {

using std::chrono::microseconds;

/// As in the pick: of an inbox, the oldest signals of so many bytes, and one
/// more.
constexpr std::size_t shown_bytes = 8 << 20;

std::string_view status_after(store::write_kind what) {
  switch (what) {
    case store::write_kind::await:
    case store::write_kind::park:
      return "awaiting_signal";
    case store::write_kind::done:
    case store::write_kind::finish:
      return "done";
    case store::write_kind::stop:
      return "failed";
    default:
      return "runnable";
  }
}

bool awaits(const instance& x, const std::string& name) {
  return x.awaits == name
         || std::find(x.awaits_also.begin(), x.awaits_also.end(), name)
              != x.awaits_also.end();
}

void forget_awaited(instance& x) {
  x.awaits.reset();
  x.awaits_also.clear();
}

} // namespace

// -- the simulation -----------------------------------------------------------

simulation::simulation(std::vector<machine> machines, simulation_settings how)
  : harness(how.limits),
    on_sql_(std::move(how.on_sql)),
    db_(how.db),
    now_(how.start) {
  if (!to_microseconds(now_))
    problem_ = {errc::invalid_argument,
                "start: expected a time of the years 0 to 9999",
                {}};
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

simulation::row* simulation::find(std::int64_t id,
                                  const std::optional<std::string>& key) {
  if (!key) {
    auto found = rows_.find(id);
    return found != rows_.end() ? &found->second : nullptr;
  }
  auto text = key_text(*key);
  for (auto& [other, x] : rows_)
    if (x.shown.unique_key == text && occupies(x, x.shown.status))
      return &x;
  return nullptr;
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
      ++x->shown.seq;
      x->shown.status = "runnable";
      ++x->shown.attempt;
      ++x->shown.crashes;
      x->shown.locked_by.reset();
      x->shown.lease_expires_at_us.reset();
    } else {
      forget_awaited(x->shown);
      make_eligible(*x, now_us());
    }
  }
}

// -- inserts and signals ------------------------------------------------------

simulation::row simulation::make_row(store::insert_row what) const {
  row x;
  auto& to = x.shown;
  to.fsm = std::move(what.fsm);
  to.version = what.version;
  to.step = std::move(what.step);
  to.queue = std::move(what.queue);
  to.status = "runnable";
  to.state = as_stored(std::move(what.state));
  to.priority = what.priority;
  to.partition_key = std::move(what.partition_key);
  if (what.unique_key)
    to.unique_key = key_text(*what.unique_key);
  to.traceparent = std::move(what.traceparent);
  to.inserted_at_us = now_us();
  to.eligible_at_us = what.at_us.value_or(now_us() + what.delay_us.value_or(0));
  if (what.rests && what.rests->ends) {
    to.status = "done";
    to.result = json{};
  } else if (what.rests) {
    to.status = "awaiting_signal";
    to.awaits = "";
    if (what.rests->after)
      to.deadline_us = now_us() + what.rests->after->count();
  }
  return x;
}

gd::result<inserted> simulation::insert(gd::insert what) {
  if (problem_)
    return *problem_;
  insert_intake intake{{.machines = known_, .limits = limits_}};
  if (auto ok = intake.add(0, what); !ok)
    return ok.error();
  std::vector<store::known_machine> known;
  for (auto& x : known_->keys())
    known.push_back({.fsm = std::move(x.fsm), .version = x.version});
  auto scope = what.unique_scope;
  if (what.unique_key && scope.empty())
    scope.assign(default_scope.begin(), default_scope.end());
  auto key = what.unique_key.value_or("");
  auto resolved = row_of(std::move(what));
  if (auto ok = resolve(resolved, *known_, known, limits_); !ok)
    return ok.error();
  auto made = make_row(std::move(resolved));
  made.unique_scope = std::move(scope);
  auto id = ++ids_; // drawn before the key can turn out to be taken
  made.shown.id = id;
  if (auto other = holder(made, made.shown.status)) {
    const auto& fsm = rows_.at(*other).shown.fsm;
    if (fsm != made.shown.fsm)
      return of_another_machine(key, *other, fsm);
    return inserted{*other, true};
  }
  if (made.shown.status == "runnable")
    make_eligible(made, made.shown.eligible_at_us);
  touch(made);
  rows_.emplace(id, std::move(made));
  return inserted{id, false};
}

void simulation::wake(row& x, std::string_view reason) {
  if (!x.shown.wake_reason) // the first one counts
    x.shown.wake_reason = reason;
  touch(x);
  if (unsure(x)) // return_rows wakes it
    return;
  forget_awaited(x.shown);
  make_eligible(x, now_us());
}

gd::result<signalled> simulation::signal(gd::signal what) {
  if (problem_)
    return *problem_;
  if (auto ok = check(what, limits_); !ok)
    return ok.error();
  auto* found = find(what.target, what.key);
  auto named = address_text(what.target, what.key);
  if (found == nullptr)
    return error{
      errc::no_such_target, "target: there is no instance " + named, {}};
  auto& x = *found;
  forget_dedup(x);
  if (what.dedup_key
      && std::any_of(x.inbox.begin(), x.inbox.end(),
                     [&](const stored_signal& y) {
    return y.dedup_key == what.dedup_key;
         }))
    return signalled{true};
  if (x.shown.status == "done" || x.shown.status == "failed")
    return error{errc::target_finished,
                 fmt::format("target: instance {} is finished", named),
                 {}};
  auto waiting = std::count_if(x.inbox.begin(), x.inbox.end(),
                               [](const auto& y) { return !y.consumed_at_us; });
  if (waiting >= limits_.inbox)
    return error{
      errc::inbox_full,
      fmt::format("target: the inbox of instance {} is full: {} signals", named,
                  limits_.inbox),
      {}};
  x.inbox.push_back({{++signal_ids_, what.name,
                      as_stored(std::move(what.payload).text()).text(),
                      what.traceparent.value_or("")},
                     std::move(what.dedup_key)});
  if (x.shown.status == "awaiting_signal" && awaits(x.shown, what.name))
    wake(x, "signal");
  return signalled{false};
}

gd::result<gd::instance> simulation::look_up(const gd::look_up& what) {
  if (auto ok = check_address("id", what.id, what.key, limits_); !ok)
    return ok.error();
  const auto* found = find(what.id, what.key);
  if (found == nullptr)
    return error{errc::not_found,
                 "there is no instance " + address_text(what.id, what.key),
                 {}};
  auto x = found->shown;
  x.inbox = std::count_if(found->inbox.begin(), found->inbox.end(),
                          [](const auto& y) { return !y.consumed_at_us; });
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

gd::result<void>
simulation::advance_to_us(std::optional<std::int64_t> when_us) {
  if (!when_us)
    return error{errc::invalid_argument,
                 "expected to advance to a time of the years 0 to 9999",
                 {}};
  return advance(microseconds{*when_us - now_us()});
}

// -- steps --------------------------------------------------------------------

/// Of a partition key, only the first eligible row, whoever can run it, and only
/// if none of the key is executing. Rows whose process has ended twice or more come
/// behind all others.
simulation::row* simulation::pick() {
  std::map<std::string_view, row*> heads;
  std::set<std::string_view> taken;
  row* first = nullptr;
  auto take_if_first = [&first](row& x) {
    auto is_suspect = [](const row& y) { return y.shown.crashes >= 2; };
    if (first == nullptr
        || (is_suspect(x) == is_suspect(*first) ? before(x, *first)
                                                : is_suspect(*first)))
      first = &x;
  };
  for (auto& [id, x] : rows_) {
    if (!x.shown.partition_key) {
      if (is_eligible(x) && is_known(x))
        take_if_first(x);
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
    if (!taken.contains(key) && is_known(*x))
      take_if_first(*x);
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
  to.seq = x.shown.seq;
  to.crashes = x.shown.crashes;
  to.wake_reason = x.shown.wake_reason.value_or("");
  to.traceparent = x.shown.traceparent.value_or("");
  to.now_us = now_us();
  std::size_t bytes = 0;
  for (const auto& y : x.inbox) {
    if (y.consumed_at_us)
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
      return write(std::move(what));
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

/// All of it, or nothing.
harness::written simulation::write(store::outcome_row what) {
  if (!what.carried)
    return apply(std::move(what));
  auto carried = std::exchange(what.carried, nullptr);
  std::map<std::int64_t, row> before{{what.id, rows_.at(what.id)}};
  auto last = ids_;
  auto statements = statements_.size();
  auto became = apply(std::move(what));
  if (!became.applied)
    return became;
  auto refused = carry(*carried, before);
  if (!refused)
    return became;
  rows_.erase(rows_.upper_bound(last), rows_.end());
  // In place: whoever runs the step has a reference to its row.
  for (auto& [id, x] : before)
    if (id <= last)
      rows_.at(id) = std::move(x);
  statements_.resize(statements);
  return {false, refused->why, std::move(refused)};
}

std::optional<effect_refused>
simulation::carry(const effects& what, std::map<std::int64_t, row>& before) {
  auto refuse = [](effect_kind kind, std::size_t i, error why) {
    return effect_refused{i + 1, kind, std::move(why)};
  };
  for (std::size_t i = 0; i < what.inserts.size(); ++i) {
    auto x = what.inserts[i];
    if (auto own = known_->find(x.fsm, x.version);
        own && is_encrypted(x.state.text()))
      if (auto plain = own->plain(x.state)) // is encrypted again
        x.state = std::move(*plain);
    if (auto ok = insert(std::move(x)); !ok)
      return refuse(effect_kind::insert, i, ok.error());
  }
  for (std::size_t i = 0; i < what.signals.size(); ++i) {
    const auto& x = what.signals[i].what;
    if (const auto* target = find(x.target, x.key))
      before.try_emplace(target->shown.id, *target);
    auto ok = signal(x);
    if (!ok
        && (ok.error().code != errc::target_finished
            || what.signals[i].or_fail))
      return refuse(effect_kind::signal, i, ok.error());
  }
  for (std::size_t i = 0; i < what.statements.size(); ++i) {
    const auto& x = what.statements[i];
    auto rows = on_sql_ ? on_sql_(x)
                        : gd::result<std::int64_t>{x.rows.value_or(0)};
    if (!rows)
      return refuse(effect_kind::sql, i, rows.error());
    if (x.rows && *x.rows != *rows)
      return refuse(effect_kind::sql, i,
                    {errc::rejected,
                     fmt::format("expected {} rows, got {}", *x.rows, *rows),
                     {}});
    statements_.push_back(x);
  }
  return std::nullopt;
}

harness::written simulation::apply(store::outcome_row what) {
  auto& x = rows_.at(what.id);
  auto status = status_after(what.what);
  if (!occupies(x, "executing"))
    if (auto other = holder(x, status))
      return {false,
              error{errc::key_taken,
                    fmt::format("instance {} has its unique key", *other),
                    {}}};
  x.shown.status = status;
  if (what.what != store::write_kind::release)
    ++x.shown.seq;
  change(x, what);
  x.shown.locked_by.reset();
  x.shown.lease_expires_at_us.reset();
  touch(x);
  consume(x, what);
  return {true, {}};
}

void simulation::change(row& x, store::outcome_row& what) {
  using store::write_kind;
  auto& to = x.shown;
  if (!what.state.empty())
    to.state = as_stored(std::move(what.state));
  if (!what.step.empty())
    to.step = std::move(what.step);
  bool same_inputs = what.what == write_kind::replay
                     || what.what == write_kind::stop
                     || what.what == write_kind::release;
  if (!same_inputs) {
    to.deadline_us.reset();
    to.wake_reason.reset();
  }
  if (what.what == write_kind::stop)
    to.last_error = std::move(what.reason);
  else if (what.what != write_kind::release)
    to.last_error = std::move(what.failure);
  auto crashes = what.what == write_kind::release
                   ? to.crashes
                   : std::exchange(to.crashes, 0);
  switch (what.what) {
    case write_kind::next:
    case write_kind::advance:
      to.attempt = 0;
      make_eligible(x, now_us());
      break;
    case write_kind::later:
      to.attempt = 0;
      make_eligible(x, now_us() + what.delay_us);
      break;
    case write_kind::replay:
      to.attempt += 1 - crashes;
      make_eligible(x, now_us() + what.delay_us);
      break;
    case write_kind::await:
    case write_kind::park: // of no signal's name
      to.attempt = 0;
      to.awaits = std::move(what.awaits);
      to.awaits_also = std::move(what.awaits_also);
      to.deadline_us = what.until_us;
      if (what.timeout_us)
        to.deadline_us = now_us() + *what.timeout_us;
      break;
    case write_kind::finish:
      to.attempt = 0;
      to.result = json{};
      break;
    case write_kind::done:
      to.result = as_stored(std::move(what.result));
      break;
    case write_kind::stop:
    case write_kind::release:
      break;
  }
}

void simulation::forget_dedup(row& x) const {
  auto of = known_->find(x.shown.fsm, x.shown.version);
  if (!of || !of->forget_dedup_after)
    return;
  auto before = now_us() - of->forget_dedup_after->count();
  std::erase_if(x.inbox, [before](const stored_signal& y) {
    return y.consumed_at_us && *y.consumed_at_us < before;
  });
}

void simulation::consume(row& x, const store::outcome_row& what) {
  auto among = [](const std::vector<std::int64_t>& ids, std::int64_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  std::erase_if(x.inbox, [&](const stored_signal& y) {
    return among(what.consumed, y.content.id) && !y.dedup_key;
  });
  for (auto& y : x.inbox)
    if (among(what.consumed, y.content.id)) {
      y.consumed_at_us = now_us();
      y.content.payload = "{}";
    }
  auto is_news = [&](const stored_signal& y) {
    return awaits(x.shown, y.content.name) && !y.consumed_at_us
           && !among(what.seen, y.content.id);
  };
  if (what.what == store::write_kind::await
      && std::any_of(x.inbox.begin(), x.inbox.end(), is_news))
    wake(x, "signal");
}

} // namespace gd::testing
