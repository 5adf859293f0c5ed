#include <gd/pq/store.hpp>

#include <gd/migrations.hpp>
#include <gd/pq/bind.hpp>
#include <gd/sql.hpp>
#include <gd/work/lease.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <functional>
#include <iterator>
#include <limits>

namespace gd::store {

namespace {

using pq::alike;
using pq::column;
using pq::make_call;

/// Their ids, names and payloads are in three columns, of which none is longer
/// than the others. If one is, nothing is shown: what is not shown is not lost.
std::vector<raw_signal> signals_of(const pq::rows& rows, std::size_t row,
                                   int column) {
  auto ids = rows.integers(row, column);
  auto names = rows.texts(row, column + 1);
  auto payloads = rows.texts(row, column + 2);
  std::vector<raw_signal> xs;
  if (names.size() != ids.size() || payloads.size() != ids.size())
    return xs;
  xs.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    xs.push_back({ids[i], std::move(names[i]), std::move(payloads[i])});
  return xs;
}

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
static pq::call look_for_rows(const sql::statement& by,
                              const pick_request& what) {
  constexpr mark beginning{std::numeric_limits<std::int16_t>::min(), -1};
  auto from = what.from;
  if (from.empty() || from.front().priority != beginning.priority)
    from.insert(from.begin(), beginning);
  return make_call(by, what.token, what.inbox, what.lease, what.queue,
                   what.limit, column(what.machines, &machine_version::fsm),
                   column(what.machines, &machine_version::version),
                   column(from, &mark::priority), column(from, &mark::since_us),
                   column(from, &mark::id), what.depth);
}

static pq::call look_for_keyed_rows(const sql::statement& by,
                                    const pick_request& what) {
  auto x = look_for_rows(by, what);
  x.args.add(what.keys_to_leave)
    .add(what.last_key)
    .add(what.visit)
    .add(what.left_out);
  return x;
}

pq::call pick(const pick_request& what) {
  return what.keyed ? look_for_keyed_rows(sql::pick_keyed, what)
                    : look_for_rows(sql::pick, what);
}

pq::call candidates(const pick_request& what) {
  return look_for_keyed_rows(sql::candidates, what);
}

std::vector<candidate> read_candidates(const pq::rows& rows) {
  std::vector<candidate> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({rows.integer(i, 0), std::string{rows.text(i, 1)}});
  return xs;
}

pq::call pick_these(const std::vector<std::int64_t>& ids,
                    const pick_request& what) {
  return make_call(sql::pick_these, what.token, what.inbox, what.lease, ids);
}

pq::call fail_row(const candidate& which, const std::string& reason) {
  return make_call(sql::fail_row, which.id, which.place, reason);
}

pq::call show(const std::vector<hidden_row>& rows, std::int32_t inbox,
              std::int64_t bytes) {
  return make_call(sql::show, column(rows, &hidden_row::id), inbox,
                   column(rows, &hidden_row::token), bytes, longest_text);
}

std::vector<shown_row> read_show(const pq::rows& rows) {
  std::vector<shown_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back(
      {rows.integer(i, 0), rows.maybe_text(i, 1), signals_of(rows, i, 2)});
  return xs;
}

pick_answer read_pick(const pq::rows& rows) {
  pick_answer out;
  struct place {
    std::int64_t priority, eligible_at_us, id;
    std::size_t at;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees one in it.
    auto operator<=>(const place&) const = default;
  };
  std::vector<place> order;
  order.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows.is_null(i, 0)) {
      order.push_back(
        {rows.integer(i, 12), rows.integer(i, 13), rows.integer(i, 0), i});
    } else {
      out.keyed_rows = rows.integer(i, 5) > 0;
      out.deeper = rows.integer(i, 2) > 0;
      out.last_key = rows.text(i, 10);
      out.now_us = rows.integer(i, 13);
    }
  }
  std::sort(order.begin(), order.end()); // for less than the server would
  out.rows.resize(order.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    auto i = order[n].at;
    auto& x = out.rows[n];
    x.id = order[n].id;
    x.fsm = rows.text(i, 1);
    x.fsm_version = static_cast<std::int32_t>(rows.integer(i, 2));
    x.step = rows.text(i, 3);
    x.shown = !rows.is_null(i, 4);
    x.state = rows.text(i, 4);
    x.attempt = static_cast<std::int32_t>(rows.integer(i, 5));
    x.wake_reason = rows.text(i, 6);
    x.inbox = signals_of(rows, i, 7);
    x.partition_key = rows.maybe_text(i, 10);
    x.unique_scope = rows.texts(i, 11);
    auto priority = static_cast<std::int32_t>(order[n].priority);
    if (out.first.empty() || out.first.back().priority != priority)
      out.first.push_back({priority, order[n].eligible_at_us, x.id});
  }
  return out;
}

pq::call lock_keys() {
  return make_call(sql::lock_keys);
}

pq::call check_keys() {
  return make_call(sql::check_keys);
}

std::vector<std::pair<std::string, bool>>
read_check_keys(const pq::rows& rows) {
  std::vector<std::pair<std::string, bool>> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (auto key = rows.maybe_text(i, 0))
      xs.emplace_back(std::move(*key), rows.boolean(i, 1));
  return xs;
}

pq::call hold_keys() {
  return make_call(sql::hold_keys);
}

std::vector<std::pair<std::int64_t, std::string>>
read_hold_keys(const pq::rows& rows) {
  std::vector<std::pair<std::int64_t, std::string>> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.emplace_back(rows.integer(i, 0), rows.text(i, 2));
  return xs;
}

std::optional<key_hold> hold_of(const picked_row& row) {
  if (!row.partition_key)
    return std::nullopt;
  return key_hold{*row.partition_key, row.key_session};
}

pq::call unlock_keys(const std::vector<key_hold>& holds) {
  return make_call(sql::unlock_keys, column(holds, &key_hold::key),
                   column(holds, &key_hold::session));
}

// -- outcomes -----------------------------------------------------------------

std::string_view to_string(verb x) noexcept {
  constexpr std::array<std::string_view, 7> names{
    "next", "replay", "await", "done", "stop", "release", "next"};
  return names[static_cast<std::size_t>(x)];
}

std::size_t outcome_row::bytes() const noexcept {
  return state.size() + result.size() + reason.size() + 256
         + 8 * (consumed.size() + seen.size());
}

bool may_collide(const picked_row& row, verb what) {
  auto taken_in = [&row](std::string_view status) {
    return std::find(row.unique_scope.begin(), row.unique_scope.end(), status)
           != row.unique_scope.end();
  };
  if (row.unique_scope.empty() || taken_in("executing"))
    return false;
  switch (what) {
    case verb::await:
      return taken_in("awaiting_signal");
    case verb::done:
      return taken_in("done");
    case verb::stop:
      return taken_in("failed");
    default:
      return taken_in("runnable");
  }
}

/// What no other outcomes have.
template <class T>
static auto only_of(verb what, T outcome_row::*member) {
  using value = decltype(pq::element_of(std::declval<const T&>()));
  return [what, member](const outcome_row& x) {
    return x.what == what ? std::optional<value>{x.*member} : std::nullopt;
  };
}

pq::call flush(const row_refs<outcome_row>& rows) {
  auto state = [](const outcome_row& x) {
    return x.state.empty() ? std::nullopt
                           : std::optional<std::string_view>{x.state};
  };
  return make_call(
    sql::flush, column(rows, &outcome_row::id),
    column(rows, &outcome_row::token),
    column(rows, [](const auto& x) { return to_string(x.what); }),
    column(rows, only_of(verb::next, &outcome_row::step)), column(rows, state),
    column(rows, only_of(verb::done, &outcome_row::result)),
    column(rows, only_of(verb::replay, &outcome_row::delay_us)),
    column(rows, only_of(verb::await, &outcome_row::awaits)),
    column(rows, &outcome_row::timeout_us),
    column(rows, &outcome_row::until_us),
    column(rows, only_of(verb::stop, &outcome_row::reason)), consumed_by(rows));
}

bool completes(const outcome_row& row) {
  return row.what == verb::done && row.result == "{}" && !row.may_collide
         && row.consumed.empty();
}

pq::call complete(const row_refs<outcome_row>& rows) {
  return make_call(sql::complete, column(rows, &outcome_row::id),
                   column(rows, &outcome_row::token));
}

bool proceeds(const outcome_row& row) {
  return row.what == verb::next && !row.may_collide && row.consumed.empty();
}

pq::call proceed(const row_refs<outcome_row>& rows) {
  return make_call(sql::proceed, column(rows, &outcome_row::id),
                   column(rows, &outcome_row::token),
                   column(rows, &outcome_row::step),
                   column(rows, &outcome_row::state));
}

pq::call advance(const row_refs<outcome_row>& rows,
                 const std::string& new_token) {
  return make_call(
    sql::advance, column(rows, &outcome_row::id),
    column(rows, &outcome_row::token), column(rows, &outcome_row::step),
    column(rows, &outcome_row::state), new_token, consumed_by(rows));
}

pq::call inbox(const row_refs<outcome_row>& rows, std::int32_t limit) {
  return make_call(sql::inbox, column(rows, &outcome_row::id), limit);
}

std::unordered_map<std::int64_t, std::optional<std::vector<raw_signal>>>
read_inbox(const pq::rows& rows) {
  std::unordered_map<std::int64_t, std::optional<std::vector<raw_signal>>> xs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& x = xs[rows.integer(i, 0)];
    if (!rows.is_null(i, 1))
      x = signals_of(rows, i, 1);
  }
  return xs;
}

std::vector<flushed_row> read_flush(const pq::rows& rows) {
  std::vector<flushed_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (auto id : rows.integers(i, 1))
      xs.push_back({id, true, std::nullopt});
    if (auto id = rows.maybe_integer(i, 0))
      xs.push_back({*id, false, rows.maybe_integer(i, 2)});
  }
  return xs;
}

std::optional<pq::call> recheck(const row_refs<outcome_row>& rows) {
  std::vector<std::int64_t> parked;
  std::vector<std::int64_t> seen;
  for (const auto& row : rows)
    if (row.what == verb::await) {
      parked.push_back(row.id);
      seen.insert(seen.end(), row.seen.begin(), row.seen.end());
    }
  if (parked.empty())
    return std::nullopt;
  return make_call(sql::recheck, parked, seen);
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

std::vector<beat> read_heartbeat(const pq::rows& rows) {
  std::vector<beat> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back(
      {rows.integer(i, 0), std::string{rows.text(i, 1)}, rows.boolean(i, 2)});
  return xs;
}

pq::call locked_leases(std::int32_t limit, std::chrono::microseconds soon,
                       const page_end& after) {
  return make_call(sql::locked_leases, limit, soon, after.at_us, after.id);
}

std::vector<ending_lease> read_locked_leases(const pq::rows& rows) {
  std::vector<ending_lease> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({{.at_us = rows.integer(i, 1), .id = rows.integer(i, 0)},
                  rows.boolean(i, 2)});
  return xs;
}

pq::call reap(std::int32_t limit,
              const std::vector<std::int64_t>& leave_alone) {
  return make_call(sql::reap, limit, leave_alone);
}

pq::call wake_due(std::int32_t limit) {
  return make_call(sql::wake_due, limit);
}

std::vector<moved_row> read_wake_due(const pq::rows& rows) {
  std::vector<moved_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({rows.integer(i, 0), std::string{rows.text(i, 1)}});
  return xs;
}

pq::call due(std::int32_t limit) {
  return make_call(sql::due, limit);
}

std::vector<reaped_row> read_reap(const pq::rows& rows) {
  std::vector<reaped_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({rows.integer(i, 0), std::string{rows.text(i, 1)},
                  rows.maybe_text(i, 2), std::string{rows.text(i, 3)}});
  return xs;
}

pq::call returning(std::int32_t limit, bool leases, std::int64_t parked,
                   const page_end& expired) {
  return make_call(sql::returning, limit, leases, parked, expired.at_us,
                   expired.id);
}

std::vector<returning_row> read_returning(const pq::rows& rows) {
  std::vector<returning_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& x = xs.emplace_back(returning_row{.id = rows.integer(i, 0)});
    if (auto at_us = rows.maybe_integer(i, 1))
      x.expired = page_end{.at_us = *at_us, .id = x.id};
  }
  return xs;
}

pq::call return_row(std::int64_t id, bool leases) {
  return make_call(sql::return_row, id, leases);
}

std::optional<returned_row> read_return_row(const pq::rows& rows) {
  if (rows.size() == 0)
    return std::nullopt;
  return returned_row{{rows.integer(0, 0), std::string{rows.text(0, 1)},
                       rows.maybe_text(0, 3), std::string{rows.text(0, 4)}},
                      rows.boolean(0, 2)};
}

pq::call sweep_lock() {
  return make_call(sql::sweep_lock);
}

pq::call end_session() {
  return make_call(sql::end_session);
}

// -- nodes --------------------------------------------------------------------

pq::call register_session(const node_record& what) {
  return make_call(sql::register_session, what.incarnation, what.node,
                   what.host, what.process, what.library, what.lease,
                   what.slots, what.queues, what.machines);
}

pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait) {
  return make_call(sql::node_lock, incarnation, std::int64_t{wait.count()});
}

pq::call leave_nodes(const std::string& incarnation) {
  return make_call(sql::leave_nodes, incarnation);
}

pq::call forget_nodes() {
  return make_call(sql::forget_nodes);
}

pq::call silent_sessions(const std::string& incarnation) {
  return make_call(sql::silent_sessions, incarnation);
}

std::vector<silent_session> read_silent_sessions(const pq::rows& rows) {
  std::vector<silent_session> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({std::string{rows.text(i, 0)}, std::string{rows.text(i, 1)},
                  static_cast<std::int32_t>(rows.integer(i, 2)),
                  std::string{rows.text(i, 3)}, rows.boolean(i, 4)});
  return xs;
}

pq::call end_silent_session(const silent_session& which) {
  return make_call(sql::end_silent_session, which.incarnation, which.process,
                   which.began);
}

pq::call foreign_sessions(const std::string& incarnation) {
  return make_call(sql::foreign_sessions, incarnation);
}

std::vector<std::string> read_foreign_sessions(const pq::rows& rows) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i)
    names.emplace_back(rows.text(i, 0));
  return names;
}

// -- machines -----------------------------------------------------------------

pq::call register_machines(const std::vector<machine>& machines) {
  auto joined = [](const machine& m) {
    std::string names;
    for (const auto& step : m.steps)
      names += (names.empty() ? "" : ",") + step.name;
    return names;
  };
  return make_call(sql::register_machines, column(machines, &machine::name),
                   column(machines, &machine::version),
                   column(machines, &machine::initial_step),
                   column(machines, &machine::queue), column(machines, joined));
}

pq::call find_machines(const std::vector<std::string>& names) {
  return make_call(sql::find_machines, names);
}

std::vector<known_machine> read_machines(const pq::rows& rows) {
  std::vector<known_machine> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({std::string{rows.text(i, 0)},
                  static_cast<std::int32_t>(rows.integer(i, 1)),
                  std::string{rows.text(i, 2)}, std::string{rows.text(i, 3)},
                  rows.texts(i, 4)});
  return xs;
}

// -- inserts, signals, reading ------------------------------------------------

pq::call draw_ids(std::size_t count) {
  return make_call(sql::draw_ids, static_cast<std::int32_t>(count));
}

std::vector<drawn_id> read_drawn(const pq::rows& rows) {
  std::vector<drawn_id> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({rows.integer(i, 0), rows.integer(i, 1)});
  return xs;
}

std::vector<std::int64_t> read_ids(const pq::rows& rows) {
  std::vector<std::int64_t> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back(rows.integer(i, 0));
  return xs;
}

/// `more`: behind the columns that all of them have.
template <class... Args>
static pq::call insert_by(const sql::statement& what,
                          const row_refs<insert_row>& rows,
                          const Args&... more) {
  return make_call(
    what, column(rows, &insert_row::id), alike(rows, &insert_row::fsm),
    alike(rows, &insert_row::version), alike(rows, &insert_row::step),
    column(rows, &insert_row::state), alike(rows, &insert_row::queue),
    alike(rows, &insert_row::priority), more...);
}

static auto unique_keys(const row_refs<insert_row>& rows) {
  return column(rows, [](const auto& x) {
    return x.unique_key ? std::optional{pq::bytes{*x.unique_key}}
                        : std::nullopt;
  });
}

static pq::call insert_runnable(const sql::statement& what,
                                const row_refs<insert_row>& rows) {
  auto scope = [](const auto& x) {
    return x.unique_key ? std::optional<std::string_view>{x.unique_scope}
                        : std::nullopt;
  };
  return insert_by(what, rows, column(rows, &insert_row::delay_us),
                   column(rows, &insert_row::at_us),
                   column(rows, &insert_row::partition_key), unique_keys(rows),
                   column(rows, scope), alike(rows, &insert_row::drawn_us));
}

pq::call insert_new(const row_refs<insert_row>& rows) {
  return insert_runnable(sql::insert_new, rows);
}

pq::call insert_claimed(const row_refs<insert_row>& rows,
                        std::chrono::microseconds lease) {
  return insert_by(sql::insert_claimed, rows, alike(rows, &insert_row::token),
                   lease, alike(rows, &insert_row::drawn_us));
}

std::unordered_map<std::int64_t, std::string>
read_claimed(const pq::rows& rows) {
  std::unordered_map<std::int64_t, std::string> states;
  for (std::size_t i = 0; i < rows.size(); ++i)
    states.emplace(rows.integer(i, 0), rows.text(i, 1));
  return states;
}

pq::call insert(const row_refs<insert_row>& rows) {
  return insert_runnable(sql::insert, rows);
}

pq::call inserted(const row_refs<insert_row>& rows) {
  return make_call(sql::inserted, column(rows, &insert_row::id),
                   unique_keys(rows), column(rows, &insert_row::drawn_us));
}

std::vector<inserted_row> read_inserted(const pq::rows& rows) {
  std::vector<inserted_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back(
      {rows.integer(i, 0), rows.boolean(i, 1), rows.maybe_integer(i, 2)});
  return xs;
}

pq::call lock_targets(const row_refs<gd::signal>& signals) {
  return make_call(sql::lock_targets, column(signals, &gd::signal::target));
}

pq::call send_signals(const row_refs<gd::signal>& signals,
                      std::int32_t inbox_limit) {
  auto payload = [](const auto& x) {
    return std::string_view{x.payload.text()};
  };
  return make_call(sql::signal, column(signals, &gd::signal::target),
                   column(signals, &gd::signal::name), column(signals, payload),
                   column(signals, &gd::signal::dedup_key), inbox_limit);
}

std::vector<signal_row> read_signals(const pq::rows& rows) {
  constexpr std::array<std::string_view, 6> answers{
    "accepted",        "duplicate",  "no_such_target",
    "target_finished", "inbox_full", "busy"};
  std::vector<signal_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto found = std::find(answers.begin(), answers.end(), rows.text(i, 1));
    xs.push_back({found == answers.end()
                    ? signal_answer::unknown
                    : static_cast<signal_answer>(found - answers.begin()),
                  std::string{rows.text(i, 2)}, std::string{rows.text(i, 3)}});
  }
  return xs;
}

pq::call look_up(std::int64_t id) {
  return make_call(sql::look_up, id, longest_text);
}

std::optional<instance> read_instance(const pq::rows& rows) {
  if (rows.size() == 0)
    return std::nullopt;
  instance x;
  x.id = rows.integer(0, 0);
  x.fsm = rows.text(0, 1);
  x.version = static_cast<std::int32_t>(rows.integer(0, 2));
  x.step = rows.text(0, 3);
  x.status = rows.text(0, 4);
  // Empty: it is longer.
  auto read = [](std::string text) {
    if (!text.empty())
      return json::raw(std::move(text));
    return json::failed({errc::codec,
                         fmt::format("longer than {} bytes as PostgreSQL "
                                     "prints it",
                                     longest_text),
                         {}});
  };
  x.state = read(std::string{rows.text(0, 5)});
  if (auto result = rows.maybe_text(0, 6))
    x.result = read(std::move(*result));
  x.awaits = rows.maybe_text(0, 7);
  x.queue = rows.text(0, 8);
  x.priority = static_cast<std::int16_t>(rows.integer(0, 9));
  x.attempt = static_cast<std::int32_t>(rows.integer(0, 10));
  x.last_error = rows.maybe_text(0, 11);
  x.locked_by = rows.maybe_text(0, 12);
  x.wake_reason = rows.maybe_text(0, 13);
  x.eligible_at_us = rows.integer(0, 14);
  x.deadline_us = rows.maybe_integer(0, 15);
  x.lease_expires_at_us = rows.maybe_integer(0, 16);
  x.inserted_at_us = rows.integer(0, 17);
  x.updated_at_us = rows.integer(0, 18);
  x.inbox = rows.integer(0, 19);
  x.partition_key = rows.maybe_text(0, 20);
  x.unique_key = rows.maybe_text(0, 21);
  return x;
}

pq::call stats() {
  return make_call(sql::stats);
}

std::vector<stats_row> read_stats(const pq::rows& rows) {
  std::vector<stats_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    stats_row x;
    x.queue = rows.text(i, 0);
    x.fsm = rows.text(i, 1);
    x.version = static_cast<std::int32_t>(rows.integer(i, 2));
    x.status = rows.text(i, 3);
    x.instances = rows.integer(i, 4);
    x.future = rows.integer(i, 5);
    x.held_back = rows.integer(i, 6);
    xs.push_back(std::move(x));
  }
  return xs;
}

// -- the schema ---------------------------------------------------------------

pq::call schema_version() {
  return make_call(sql::schema_version);
}

result<void> check_schema(const pq::rows& rows, std::string_view schema) {
  auto newest = std::size(sql::migrations);
  auto refuse = [&](std::string why) {
    return error{
      errc::schema_mismatch, fmt::format("schema {}: {}", schema, why), {}};
  };
  auto installed = read_schema_version(rows);
  if (!installed)
    return refuse(installed.error().message);
  if (installed->version == 0)
    return refuse("there is no table gen_durable, expected version "
                  + std::to_string(newest) + " (gdctl migrate up)");
  if (installed->version < static_cast<int>(newest))
    return refuse(fmt::format("it has version {}, this library needs {} "
                              "(gdctl migrate up)",
                              installed->version, newest));
  if (installed->works_from > static_cast<int>(newest))
    return refuse(fmt::format("it has version {} and works with libraries from "
                              "{}, this library knows {}: update the program",
                              installed->version, installed->works_from,
                              newest));
  return {};
}

result<schema_state> read_schema_version(const pq::rows& rows) {
  if (rows.size() == 0)
    return schema_state{};
  auto text = rows.text(0, 0);
  constexpr std::string_view before = "gen_durable schema ";
  constexpr std::string_view between = ", works with libraries from ";
  schema_state x;
  auto number = [&text](int& to) {
    auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(),
                                         to);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return failed == std::errc{} && to > 0;
  };
  auto skip = [&text](std::string_view prefix) {
    if (!text.starts_with(prefix))
      return false;
    text.remove_prefix(prefix.size());
    return true;
  };
  if (skip(before) && number(x.version) && skip(between) && number(x.works_from)
      && text.empty())
    return x;
  return error{errc::schema_mismatch,
               "there is a table gen_durable whose comment does not tell its "
               "version: it is not ours, or was not made by gdctl migrate",
               {}};
}

} // namespace gd::store
