#include <gd/store/store.hpp>

#include <gd/json_codecs.hpp>
#include <gd/pq/bind.hpp>
#include <gd/pq/ensure.hpp>
#include <gd/sql.hpp>
#include <gd/store/lease.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

namespace gd::store {

namespace {

using pq::alike;
using pq::column;
using pq::make_call;

std::vector<std::int64_t> consumed_by(const row_refs<outcome_row>& rows) {
  std::vector<std::int64_t> xs;
  for (const auto& row : rows)
    xs.insert(xs.end(), row.consumed.begin(), row.consumed.end());
  return xs;
}

} // namespace

// -- picking ------------------------------------------------------------------

std::size_t picked_row::bytes() const noexcept {
  auto n = state.size();
  for (const auto& x : inbox)
    n += x.name.size() + x.payload.size();
  return n;
}

/// With the parameters that all statements have which look for rows.
static pq::call find_rows(const sql::statement& by, const pick_request& what) {
  constexpr mark beginning{std::numeric_limits<std::int16_t>::min(), -1};
  auto from = what.from;
  if (from.empty() || from.front().priority != beginning.priority)
    from.insert(from.begin(), beginning);
  return make_call(by, what.token, what.inbox, what.lease, what.queue,
                   what.limit, column(what.machines, &machine_version::fsm),
                   column(what.machines, &machine_version::version),
                   column(from, &mark::priority),
                   column(from, &mark::since_us2000), column(from, &mark::id),
                   what.depth);
}

static pq::call find_keyed_rows(const sql::statement& by,
                                const pick_request& what) {
  auto x = find_rows(by, what);
  x.args.add(what.keys_to_leave)
    .add(what.last_key)
    .add(what.visit)
    .add(what.left_out);
  return x;
}

pq::call pick(const pick_request& what) {
  return what.keyed ? find_keyed_rows(sql::pick_keyed, what)
                    : find_rows(sql::pick, what);
}

pq::call candidates(const pick_request& what) {
  return find_keyed_rows(sql::candidates, what);
}

pq::call pick_these(const std::vector<std::int64_t>& ids,
                    const pick_request& what,
                    const std::vector<std::int32_t>& most) {
  return make_call(sql::pick_these, what.token, what.inbox, what.lease, ids,
                   most);
}

static pq::call find_suspects(const sql::statement& by,
                              const pick_request& what,
                              const std::vector<std::int32_t>& most) {
  return make_call(by, what.token, what.inbox, what.lease, what.queue,
                   what.limit, column(what.machines, &machine_version::fsm),
                   column(what.machines, &machine_version::version), most,
                   what.keys_to_leave, what.left_out);
}

pq::call pick_suspects(const pick_request& what,
                       const std::vector<std::int32_t>& most) {
  return find_suspects(sql::pick_suspects, what, most);
}

pq::call suspect_candidates(const pick_request& what,
                            const std::vector<std::int32_t>& most) {
  return find_suspects(sql::suspect_candidates, what, most);
}

pq::call fail_row(const candidate& which, const std::string& reason) {
  return make_call(sql::fail_row, which.id, which.place, reason);
}

pq::call show(const std::vector<unloaded_row>& rows, std::int32_t inbox,
              std::int64_t bytes) {
  return make_call(sql::show, column(rows, &unloaded_row::id), inbox,
                   column(rows, &unloaded_row::token), bytes, longest_text);
}

constexpr std::int64_t us_until_2000 = 946'684'800'000'000; ///< from 1970

pq::call tell_pick() {
  return make_call(sql::pick_summary);
}

pick_answer read_pick(const pq::rows& rows, pick_summary summary) {
  pick_answer out;
  out.summary = std::move(summary);
  pq::row_reader<mark> places{rows};
  std::vector<std::pair<mark, std::size_t>> order;
  order.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    order.emplace_back(places.read(i), i);
  std::sort(order.begin(), order.end()); // for less than the server would
  pq::row_reader<picked_row> picked{rows};
  out.rows.resize(order.size());
  auto picked_at = std::chrono::steady_clock::now();
  for (std::size_t n = 0; n < order.size(); ++n) {
    const auto& [place, i] = order[n];
    picked.read(i, out.rows[n]);
    auto& row = out.rows[n];
    row.shown = !row.state.empty();
    row.due_us = place.since_us2000 + us_until_2000;
    row.now_us = out.summary.now_us2000 + us_until_2000;
    row.picked_at = picked_at;
    if (out.first.empty() || out.first.back().priority != place.priority)
      out.first.push_back(place);
  }
  return out;
}

pq::call lock_keys() {
  return make_call(sql::lock_keys);
}

pq::call check_keys() {
  return make_call(sql::check_keys);
}

pq::call hold_keys() {
  return make_call(sql::hold_keys);
}

std::optional<key_hold> hold_of(const picked_row& row) {
  if (!row.partition_key)
    return std::nullopt;
  return key_hold{*row.partition_key, row.key_session};
}

pq::call pick_next_of_keys(const pick_request& what,
                           const std::vector<std::int64_t>& ids) {
  return make_call(sql::pick_next_of_keys, what.token, what.inbox, what.lease,
                   what.queue, column(what.machines, &machine_version::fsm),
                   column(what.machines, &machine_version::version), ids);
}

pq::call unlock_keys(const std::vector<key_hold>& holds) {
  return make_call(sql::unlock_keys, column(holds, &key_hold::key),
                   column(holds, &key_hold::session));
}

// -- trials -------------------------------------------------------------------

pq::call note_trials(const std::vector<trials_note>& notes,
                     std::int64_t begins) {
  return make_call(sql::note_trials, column(notes, &trials_note::id),
                   column(notes, &trials_note::token),
                   column(notes, &trials_note::trials),
                   column(notes, &trials_note::worker), begins);
}

// -- outcomes -----------------------------------------------------------------

std::string_view to_string(write_kind x) noexcept {
  constexpr std::array<std::string_view, 10> names{
    "next",    "replay", "await", "done", "stop",
    "release", "next",   "next",  "next", "next"};
  return names[static_cast<std::size_t>(x)];
}

std::size_t outcome_row::bytes() const noexcept {
  auto names = awaits.size();
  for (const auto& x : awaits_also)
    names += x.size();
  return state.size() + result.size() + reason.size() + metadata.size() + names
         + (failure ? failure->size() : 0) + (carried ? carried->bytes() : 0)
         + 256 + 8 * (consumed.size() + seen.size());
}

bool may_collide(const picked_row& row, write_kind what) {
  auto taken_in = [&row](std::string_view status) {
    return std::find(row.unique_scope.begin(), row.unique_scope.end(), status)
           != row.unique_scope.end();
  };
  if (row.unique_scope.empty() || taken_in("executing"))
    return false;
  switch (what) {
    case write_kind::await:
    case write_kind::park:
      return taken_in("awaiting_signal");
    case write_kind::done:
    case write_kind::finish:
      return taken_in("done");
    case write_kind::stop:
      return taken_in("failed");
    default:
      return taken_in("runnable");
  }
}

/// What no other outcomes have.
template <class T>
static auto only_of(write_kind what, T outcome_row::*member) {
  using value = decltype(pq::element_of(std::declval<const T&>()));
  return [what, member](const outcome_row& x) {
    return x.what == what ? std::optional<value>{x.*member} : std::nullopt;
  };
}

/// Null where it is empty.
template <class Row>
static auto filled(std::string Row::*member) {
  return [member](const Row& x) {
    return (x.*member).empty() ? std::nullopt
                               : std::optional<std::string_view>{x.*member};
  };
}

static std::string_view outcome_of(const outcome_row& x) {
  return x.what == write_kind::park     ? "park"
         : x.what == write_kind::finish ? "finish"
         : x.what == write_kind::later  ? "later"
                                        : to_string(x.what);
}

static pq::call write_any(const sql::statement& by,
                          const row_refs<outcome_row>& rows) {
  auto last_error =
    [](const outcome_row& x) -> std::optional<std::string_view> {
    if (x.what == write_kind::stop)
      return x.reason;
    return x.failure;
  };
  auto delay = [](const outcome_row& x) {
    return x.what == write_kind::replay || x.what == write_kind::later
             ? std::optional{x.delay_us}
             : std::nullopt;
  };
  auto others = [](const outcome_row& x) {
    return x.awaits_also.empty() ? std::nullopt
                                 : std::optional{to_json(x.awaits_also).text()};
  };
  return make_call(
    by, column(rows, &outcome_row::id), alike(rows, &outcome_row::token),
    column(rows, filled(&outcome_row::step)),
    column(rows, filled(&outcome_row::state)), consumed_by(rows),
    column(rows, outcome_of),
    column(rows, only_of(write_kind::done, &outcome_row::result)),
    column(rows, delay),
    column(rows, only_of(write_kind::await, &outcome_row::awaits)),
    column(rows, &outcome_row::timeout_us),
    column(rows, &outcome_row::until_us), column(rows, last_error),
    column(rows, others));
}

static void add_history(pq::call& to, const row_refs<outcome_row>& rows) {
  auto failure = [](const outcome_row& row) -> std::optional<std::string_view> {
    if (row.what == write_kind::stop && row.failure)
      return *row.failure;
    return std::nullopt;
  };
  to.args.add(column(rows, failure))
    .add(column(rows, filled(&outcome_row::metadata)));
}

bool is_plain_done(const outcome_row& row) {
  return row.what == write_kind::done && row.result == "{}" && !row.may_collide
         && row.consumed.empty() && !row.failure;
}

bool is_plain_next(const outcome_row& row) {
  return row.what == write_kind::next && !row.may_collide
         && row.consumed.empty() && !row.failure;
}

/// By writer, and what follows; null: it does not write such outcomes.
constexpr const sql::statement* statements[4][4]{
  {&sql::flush_done, &sql::flush_done_ledger, &sql::flush_done_keep, nullptr},
  {&sql::flush_next, &sql::flush_next_ledger, nullptr, nullptr},
  {&sql::flush, &sql::flush_ledger, &sql::flush_keep, &sql::flush_erase},
  {&sql::flush_advance, &sql::flush_advance_ledger, nullptr, nullptr},
};

pq::call write_outcomes(const writing& how, const row_refs<outcome_row>& rows,
                        const std::string& new_token,
                        std::chrono::microseconds resend) {
  const auto* by = statements[static_cast<std::size_t>(how.by)]
                             [static_cast<std::size_t>(how.then)];
  ensure(by != nullptr, "an outcome's writer can do what follows from it");
  if (how.by == writer::any) {
    auto x = write_any(*by, rows);
    if (how.then != follow::nothing)
      add_history(x, rows);
    if (how.then == follow::keep || how.then == follow::erase)
      x.args.add(column(rows, &outcome_row::keep_us)).add(resend.count());
    return x;
  }
  auto x = make_call(*by, column(rows, &outcome_row::id),
                     alike(rows, &outcome_row::token));
  if (how.by == writer::done) {
    if (how.then == follow::keep)
      x.args.add(how.keep_us).add(resend.count());
    return x;
  }
  x.args.add(alike(rows, &outcome_row::step))
    .add(column(rows, &outcome_row::state));
  if (how.by == writer::advance)
    x.args.add(consumed_by(rows)).add(new_token);
  if (how.then == follow::history)
    x.args.add(column(rows, filled(&outcome_row::metadata)));
  return x;
}

pq::call inbox(const row_refs<outcome_row>& rows, std::int32_t limit) {
  return make_call(sql::inbox, column(rows, &outcome_row::id), limit);
}

std::vector<flushed_row> read_flush(const pq::rows& rows) {
  pq::cell_reader<std::optional<std::int64_t>> id{rows, "id"};
  pq::cell_reader<std::vector<std::int64_t>> applied{rows, "applied"};
  pq::cell_reader<std::optional<std::int64_t>> holder{rows, "holder"};
  std::vector<flushed_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // Of those that were applied there are no rows of their own.
    for (auto one : applied.read(rows, i))
      xs.push_back({one, true, std::nullopt});
    if (auto one = id.read(rows, i))
      xs.push_back({*one, false, holder.read(rows, i)});
  }
  return xs;
}

/// The statuses of an insert's unique key; null: it has none.
static std::optional<std::string> scope_of(const gd::insert& x) {
  if (!x.unique_key)
    return std::nullopt;
  if (x.unique_scope.empty())
    return "runnable,executing,awaiting_signal";
  return fmt::format("{}", fmt::join(x.unique_scope, ","));
}

std::optional<pq::call> recheck(const row_refs<outcome_row>& rows) {
  std::vector<std::int64_t> parked;
  std::vector<std::int64_t> seen;
  for (const auto& row : rows)
    if (row.what == write_kind::await) {
      parked.push_back(row.id);
      seen.insert(seen.end(), row.seen.begin(), row.seen.end());
    }
  if (parked.empty())
    return std::nullopt;
  return make_call(sql::recheck, parked, seen);
}

pq::call insert_effects(const std::vector<carried_insert>& rows) {
  auto given = [&rows](auto of) {
    return column(rows, [of](const carried_insert& x) {
      const auto& value = std::invoke(of, *x.what);
      return value.empty() ? std::nullopt
                           : std::optional<std::string_view>{value};
    });
  };
  auto text = [&rows](auto member) {
    return column(rows, [member](const carried_insert& x) {
      return pq::element_of(std::invoke(member, *x.what));
    });
  };
  auto number = [](std::int64_t x) {
    return x != 0 ? std::optional{x} : std::nullopt;
  };
  return make_call(
    sql::insert_effects, text(&gd::insert::fsm),
    column(rows, [&](const auto& x) { return number(x.what->version); }),
    column(rows, [&](const auto& x) { return number(x.newest); }),
    given(&gd::insert::step),
    column(
      rows,
      [](const auto& x) { return std::string_view{x.what->state.text()}; }),
    given(&gd::insert::queue),
    column(rows, [](const auto& x) { return std::int16_t{x.what->priority}; }),
    column(rows, [&](const auto& x) { return number(x.what->delay_us); }),
    column(rows, [](const auto& x) { return x.what->eligible_at_us; }),
    text(&gd::insert::partition_key),
    column(
      rows,
      [](const auto& x) {
    return x.what->unique_key ? std::optional{pq::bytes{*x.what->unique_key}}
                              : std::nullopt;
      }),
    column(rows, [](const auto& x) { return scope_of(*x.what); }),
    text(&gd::insert::traceparent));
}

pq::call key_holders(const std::vector<carried_insert>& rows) {
  return make_call(sql::key_holders, column(rows, [](const auto& x) {
                     return std::optional{pq::bytes{*x.what->unique_key}};
                   }));
}

pq::call note_effects(const std::vector<std::int64_t>& ids,
                      const std::vector<std::int64_t>& effects) {
  return make_call(sql::note_effects, ids, effects);
}

pq::call users_session(const effect_settings& how) {
  return make_call(sql::users_session,
                   how.search_path.empty() ? std::string_view{"pg_catalog"}
                                           : std::string_view{how.search_path},
                   how.role, fmt::format("{}ms", how.statement_timeout.count()),
                   fmt::format("{}ms", how.lock_timeout.count()));
}

pq::call users_statement(const sql_statement& what) {
  pq::call x{&sql::of_user, {}, std::make_shared<const std::string>(what.text)};
  for (const auto& value : what.values)
    x.args.add_text(value.null ? nullptr : &value.text);
  return x;
}

pq::call lock_timeout(std::chrono::milliseconds wait,
                      std::optional<std::chrono::milliseconds> each) {
  auto text = [](std::chrono::milliseconds x) {
    return fmt::format("{}ms", x.count());
  };
  return make_call(sql::lock_timeout, text(wait),
                   each ? text(*each) : std::string{});
}

pq::call lock(const std::vector<std::int64_t>& ids) {
  return make_call(sql::lock, ids);
}

pq::call release_lost(const std::vector<std::string>& tokens) {
  return make_call(sql::release_lost, tokens);
}

// -- leases and deadlines -----------------------------------------------------

pq::call heartbeat(const std::vector<lease_ptr>& leases,
                   std::chrono::microseconds duration) {
  return make_call(sql::heartbeat, column(leases, &lease::id),
                   column(leases, &lease::token), duration);
}

pq::call end_leases(std::int32_t limit, const page_end& after) {
  return make_call(sql::end_leases, limit, after.at_us2000, after.id);
}

pq::call locked_leases(std::int32_t limit, std::chrono::microseconds soon,
                       const page_end& after) {
  return make_call(sql::locked_leases, limit, soon, after.at_us2000, after.id);
}

pq::call reap(std::int32_t limit, const std::vector<std::int64_t>& leave_alone,
              std::int32_t most) {
  return make_call(sql::reap, limit, leave_alone, most);
}

pq::call wake_due(std::int32_t limit) {
  return make_call(sql::wake_due, limit);
}

pq::call due(std::int32_t limit) {
  return make_call(sql::due, limit);
}

pq::call returning(std::int32_t limit, bool leases, std::int64_t parked,
                   const page_end& expired) {
  return make_call(sql::returning, limit, leases, parked, expired.at_us2000,
                   expired.id);
}

pq::call return_row(std::int64_t id, bool leases, std::int32_t most) {
  return make_call(sql::return_row, id, leases, most);
}

pq::call sweep_lock(std::string_view sweep) {
  return make_call(sql::sweep_lock, sweep);
}

pq::call end_session() {
  return make_call(sql::end_session);
}

// -- inserts, signals ---------------------------------------------------------

pq::call draw_ids(std::size_t count) {
  return make_call(sql::draw_ids, static_cast<std::int32_t>(count));
}

pq::call check_ids(std::string_view table) {
  return make_call(sql::check_ids, table);
}

std::vector<std::int64_t> read_ids(const pq::rows& rows) {
  std::vector<std::int64_t> xs;
  auto id = rows.column("id");
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back(rows.integer(i, id));
  return xs;
}

/// `more`: behind the columns that all of them have, and the versions that are to
/// take inserts: not of rows that may be stored.
template <class... Args>
static pq::call insert_by(const sql::statement& what,
                          const row_refs<insert_row>& rows,
                          const Args&... more) {
  struct version {
    std::string_view fsm;
    std::int32_t number, named;
    auto operator<=>(const version&) const = default;
  };
  std::set<version> versions;
  for (const auto& x : rows)
    if (!x.resent)
      versions.insert({x.fsm, x.version, x.open.version ? 0 : x.version});
  return make_call(
    what, column(rows, &insert_row::id), alike(rows, &insert_row::fsm),
    alike(rows, &insert_row::version), alike(rows, &insert_row::step),
    column(rows, &insert_row::state), alike(rows, &insert_row::queue),
    alike(rows, &insert_row::priority), column(versions, &version::fsm),
    column(versions, &version::number), column(versions, &version::named),
    more...);
}

static auto unique_keys(const row_refs<insert_row>& rows) {
  return column(rows, [](const auto& x) {
    return x.unique_key ? std::optional{pq::bytes{*x.unique_key}}
                        : std::nullopt;
  });
}

static pq::call insert_runnable(const sql::statement& what,
                                const row_refs<insert_row>& rows) {
  return insert_by(
    what, rows, column(rows, &insert_row::delay_us),
    column(rows, &insert_row::at_us), column(rows, &insert_row::partition_key),
    unique_keys(rows), column(rows, filled(&insert_row::unique_scope)),
    alike(rows, &insert_row::drawn_us), column(rows, &insert_row::traceparent));
}

pq::call insert_new(const row_refs<insert_row>& rows) {
  return insert_runnable(sql::insert_new, rows);
}

pq::call insert_claimed(const row_refs<insert_row>& rows,
                        std::chrono::microseconds lease) {
  return insert_by(sql::insert_claimed, rows, alike(rows, &insert_row::token),
                   lease, alike(rows, &insert_row::drawn_us),
                   column(rows, &insert_row::traceparent));
}

pq::call insert(const row_refs<insert_row>& rows) {
  return insert_runnable(sql::insert, rows);
}

static pq::call insert_with_history(const sql::statement& what,
                                    const row_refs<insert_row>& rows) {
  auto x = insert_runnable(what, rows);
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> with_state;
  struct arrival {
    std::string_view fsm;
    std::int32_t version;
    std::string_view step, status;
    std::optional<std::int64_t> after_us;
    auto operator<=>(const arrival&) const = default;
  };
  std::set<arrival> there;
  for (const auto& row : rows) {
    if (row.history > 0)
      (row.history > 1 ? with_state : ids).push_back(row.id);
    if (const auto& how = row.rests)
      there.insert(
        {row.fsm, row.version, row.step, how->ends ? "done" : "awaiting_signal",
         how->after ? std::optional{how->after->count()} : std::nullopt});
  }
  x.args.add(ids)
    .add(with_state)
    .add(column(there, &arrival::fsm))
    .add(column(there, &arrival::version))
    .add(column(there, &arrival::step))
    .add(column(there, &arrival::status))
    .add(column(there, &arrival::after_us));
  return x;
}

pq::call insert_new_ledger(const row_refs<insert_row>& rows) {
  return insert_with_history(sql::insert_new_ledger, rows);
}

pq::call insert_ledger(const row_refs<insert_row>& rows) {
  return insert_with_history(sql::insert_ledger, rows);
}

pq::call inserted(const row_refs<insert_row>& rows) {
  return make_call(sql::inserted, column(rows, &insert_row::id),
                   unique_keys(rows), column(rows, &insert_row::drawn_us));
}

pq::call lock_targets(const row_refs<gd::signal>& signals) {
  return make_call(sql::lock_targets, column(signals, &gd::signal::target));
}

pq::call send_signals(const row_refs<gd::signal>& signals,
                      std::int32_t inbox_limit, bool named) {
  auto payload = [](const auto& x) {
    return std::string_view{x.payload.text()};
  };
  auto x = make_call(
    named ? sql::signal_named : sql::signal, column(signals, &gd::signal::name),
    column(signals, payload), column(signals, &gd::signal::dedup_key),
    inbox_limit, column(signals, &gd::signal::traceparent));
  if (!named)
    x.args.add(column(signals, &gd::signal::target));
  return x;
}

} // namespace gd::store
