#include <gd/pq/store.hpp>

#include <gd/migrations.hpp>
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

using maybe_text = std::optional<std::string_view>;

maybe_text maybe(const std::optional<std::string>& x) {
  return x ? maybe_text{*x} : std::nullopt;
}

template <class Rows, class F>
auto column(const Rows& rows, F f) {
  std::vector<std::decay_t<decltype(f(*rows.begin()))>> xs;
  xs.reserve(rows.size());
  for (const auto& row : rows)
    xs.push_back(f(row));
  return xs;
}

/// Of values that are mostly the same in all rows, and go once then.
template <class Rows, class F>
auto alike(const Rows& rows, F f) {
  auto xs = column(rows, f);
  if (!xs.empty()
      && std::adjacent_find(xs.begin(), xs.end(), std::not_equal_to<>{})
           == xs.end())
    xs.resize(1);
  return xs;
}

/// Of optional values. Most rows need few of the columns: one that nobody needs
/// goes empty, and unnest fills it up with nulls.
template <class Rows, class F>
auto sparse(const Rows& rows, F f) {
  auto xs = column(rows, f);
  if (std::none_of(xs.begin(), xs.end(),
                   [](const auto& x) { return x.has_value(); }))
    xs.clear();
  return xs;
}

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
  pq::call x{&by, {}};
  x.args.add(what.token)
    .add(what.inbox)
    .add(std::int64_t{what.lease.count()})
    .add(what.queue)
    .add(what.limit)
    .add(column(what.machines,
                [](const auto& m) { return std::string_view{m.fsm}; }))
    .add(column(what.machines, [](const auto& m) { return m.version; }))
    .add(column(from, [](const auto& m) { return m.priority; }))
    .add(column(from, [](const auto& m) { return m.since_us; }))
    .add(column(from, [](const auto& m) { return m.id; }))
    .add(what.depth);
  return x;
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
  pq::call x{&sql::pick_these, {}};
  x.args.add(what.token)
    .add(what.inbox)
    .add(std::int64_t{what.lease.count()})
    .add(ids);
  return x;
}

pq::call fail_row(const candidate& which, const std::string& reason) {
  pq::call x{&sql::fail_row, {}};
  x.args.add(which.id).add(which.place).add(reason);
  return x;
}

pq::call show(const std::vector<hidden_row>& rows, std::int32_t inbox,
              std::int64_t bytes) {
  pq::call x{&sql::show, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add(inbox)
    .add(column(rows, [](const auto& r) { return std::string_view{r.token}; }))
    .add(bytes)
    .add(longest_text);
  return x;
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
  return {&sql::lock_keys, {}};
}

pq::call check_keys() {
  return {&sql::check_keys, {}};
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
  return {&sql::hold_keys, {}};
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
  pq::call x{&sql::unlock_keys, {}};
  x.args
    .add(column(holds, [](const auto& h) { return std::string_view{h.key}; }))
    .add(
      column(holds, [](const auto& h) { return std::string_view{h.session}; }));
  return x;
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

pq::call flush(const row_refs<outcome_row>& rows) {
  auto when = [](bool there, const std::string& x) {
    return there ? maybe_text{x} : std::nullopt;
  };
  pq::call x{&sql::flush, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.token}; }))
    .add(column(rows, [](const auto& r) { return to_string(r.what); }))
    .add(sparse(
      rows, [&](const auto& r) { return when(r.what == verb::next, r.step); }))
    .add(sparse(rows,
                [&](const auto& r) { return when(!r.state.empty(), r.state); }))
    .add(sparse(
      rows,
      [&](const auto& r) { return when(r.what == verb::done, r.result); }))
    .add(sparse(
      rows,
      [](const auto& r) {
    return r.what == verb::replay ? std::optional{r.delay_us} : std::nullopt;
      }))
    .add(sparse(
      rows,
      [&](const auto& r) { return when(r.what == verb::await, r.awaits); }))
    .add(sparse(rows, [](const auto& r) { return r.timeout_us; }))
    .add(sparse(rows, [](const auto& r) { return r.until_us; }))
    .add(sparse(
      rows,
      [&](const auto& r) { return when(r.what == verb::stop, r.reason); }))
    .add(consumed_by(rows));
  return x;
}

bool completes(const outcome_row& row) {
  return row.what == verb::done && row.result == "{}" && !row.may_collide
         && row.consumed.empty();
}

pq::call complete(const row_refs<outcome_row>& rows) {
  pq::call x{&sql::complete, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.token}; }));
  return x;
}

bool proceeds(const outcome_row& row) {
  return row.what == verb::next && !row.may_collide && row.consumed.empty();
}

pq::call proceed(const row_refs<outcome_row>& rows) {
  pq::call x{&sql::proceed, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.token}; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.step}; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.state}; }));
  return x;
}

pq::call advance(const row_refs<outcome_row>& rows,
                 const std::string& new_token) {
  pq::call x{&sql::advance, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.token}; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.step}; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.state}; }))
    .add(new_token)
    .add(consumed_by(rows));
  return x;
}

pq::call inbox(const row_refs<outcome_row>& rows, std::int32_t limit) {
  pq::call x{&sql::inbox, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; })).add(limit);
  return x;
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
  pq::call x{&sql::recheck, {}};
  x.args.add(parked).add(seen);
  return x;
}

pq::call lock_timeout(std::chrono::milliseconds wait,
                      std::optional<std::chrono::milliseconds> each) {
  auto text = [](std::chrono::milliseconds x) {
    return fmt::format("{}ms", x.count());
  };
  pq::call x{&sql::lock_timeout, {}};
  x.args.add(text(wait)).add(each ? text(*each) : std::string{});
  return x;
}

pq::call lock(const std::vector<std::int64_t>& ids) {
  pq::call x{&sql::lock, {}};
  x.args.add(ids);
  return x;
}

pq::call release_lost(const std::vector<std::string>& tokens) {
  pq::call x{&sql::release_lost, {}};
  x.args.add(tokens);
  return x;
}

// -- leases and deadlines -----------------------------------------------------

pq::call heartbeat(const std::vector<lease_ptr>& leases,
                   std::chrono::microseconds duration) {
  pq::call x{&sql::heartbeat, {}};
  x.args.add(column(leases, [](const auto& l) { return l->id; }))
    .add(
      column(leases, [](const auto& l) { return std::string_view{l->token}; }))
    .add(std::int64_t{duration.count()});
  return x;
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
  pq::call x{&sql::locked_leases, {}};
  x.args.add(limit)
    .add(std::int64_t{soon.count()})
    .add(after.at_us)
    .add(after.id);
  return x;
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
  pq::call x{&sql::reap, {}};
  x.args.add(limit).add(leave_alone);
  return x;
}

pq::call wake_due(std::int32_t limit) {
  pq::call x{&sql::wake_due, {}};
  x.args.add(limit);
  return x;
}

std::vector<moved_row> read_wake_due(const pq::rows& rows) {
  std::vector<moved_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back({rows.integer(i, 0), std::string{rows.text(i, 1)}});
  return xs;
}

pq::call due(std::int32_t limit) {
  pq::call x{&sql::due, {}};
  x.args.add(limit);
  return x;
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
  pq::call x{&sql::returning, {}};
  x.args.add(limit).add(leases).add(parked).add(expired.at_us).add(expired.id);
  return x;
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
  pq::call x{&sql::return_row, {}};
  x.args.add(id).add(leases);
  return x;
}

std::optional<returned_row> read_return_row(const pq::rows& rows) {
  if (rows.size() == 0)
    return std::nullopt;
  return returned_row{{rows.integer(0, 0), std::string{rows.text(0, 1)},
                       rows.maybe_text(0, 3), std::string{rows.text(0, 4)}},
                      rows.boolean(0, 2)};
}

pq::call sweep_lock() {
  return {&sql::sweep_lock, {}};
}

pq::call end_session() {
  return {&sql::end_session, {}};
}

// -- nodes --------------------------------------------------------------------

pq::call register_session(const node_record& what) {
  pq::call x{&sql::register_session, {}};
  x.args.add(what.incarnation)
    .add(what.node)
    .add(what.host)
    .add(what.process)
    .add(what.library)
    .add(std::int64_t{what.lease.count()})
    .add(what.slots)
    .add(what.queues)
    .add(what.machines);
  return x;
}

static pq::call about_node(const sql::statement& what,
                           const std::string& incarnation) {
  pq::call x{&what, {}};
  x.args.add(incarnation);
  return x;
}

pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait) {
  auto x = about_node(sql::node_lock, incarnation);
  x.args.add(std::int64_t{wait.count()});
  return x;
}

pq::call leave_nodes(const std::string& incarnation) {
  return about_node(sql::leave_nodes, incarnation);
}

pq::call forget_nodes() {
  return {&sql::forget_nodes, {}};
}

pq::call silent_sessions(const std::string& incarnation) {
  return about_node(sql::silent_sessions, incarnation);
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
  pq::call x{&sql::end_silent_session, {}};
  x.args.add(which.incarnation).add(which.process).add(which.began);
  return x;
}

pq::call foreign_sessions(const std::string& incarnation) {
  return about_node(sql::foreign_sessions, incarnation);
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
  pq::call x{&sql::register_machines, {}};
  x.args.add(column(machines, [](const auto& m) { return m.name; }))
    .add(column(machines, [](const auto& m) { return m.version; }))
    .add(column(machines, [](const auto& m) { return m.initial_step; }))
    .add(column(machines, [](const auto& m) { return m.queue; }))
    .add(column(machines, joined));
  return x;
}

pq::call find_machines(const std::vector<std::string>& names) {
  pq::call x{&sql::find_machines, {}};
  x.args.add(names);
  return x;
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
  pq::call x{&sql::draw_ids, {}};
  x.args.add(static_cast<std::int32_t>(count));
  return x;
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

/// With the columns that all of them have.
static pq::call insert_by(const sql::statement& what,
                          const row_refs<insert_row>& rows) {
  pq::call x{&what, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add(alike(rows, [](const auto& r) { return std::string_view{r.fsm}; }))
    .add(alike(rows, [](const auto& r) { return r.version; }))
    .add(alike(rows, [](const auto& r) { return std::string_view{r.step}; }))
    .add(column(rows, [](const auto& r) { return std::string_view{r.state}; }))
    .add(alike(rows, [](const auto& r) { return std::string_view{r.queue}; }))
    .add(alike(rows, [](const auto& r) { return r.priority; }));
  return x;
}

static pq::call insert_runnable(const sql::statement& what,
                                const row_refs<insert_row>& rows) {
  auto x = insert_by(what, rows);
  x.args.add(sparse(rows, [](const auto& r) { return r.delay_us; }))
    .add(sparse(rows, [](const auto& r) { return r.at_us; }))
    .add(sparse(rows, [](const auto& r) { return maybe(r.partition_key); }))
    .add_bytes(sparse(rows, [](const auto& r) { return maybe(r.unique_key); }))
    .add(sparse(
      rows,
      [](const auto& r) {
    return r.unique_key ? maybe_text{r.unique_scope} : std::nullopt;
      }))
    .add(alike(rows, [](const auto& r) { return r.drawn_us; }));
  return x;
}

pq::call insert_new(const row_refs<insert_row>& rows) {
  return insert_runnable(sql::insert_new, rows);
}

pq::call insert_claimed(const row_refs<insert_row>& rows,
                        std::chrono::microseconds lease) {
  auto x = insert_by(sql::insert_claimed, rows);
  x.args
    .add(alike(rows, [](const auto& r) { return std::string_view{r.token}; }))
    .add(std::int64_t{lease.count()})
    .add(alike(rows, [](const auto& r) { return r.drawn_us; }));
  return x;
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
  pq::call x{&sql::inserted, {}};
  x.args.add(column(rows, [](const auto& r) { return r.id; }))
    .add_bytes(column(rows, [](const auto& r) { return maybe(r.unique_key); }))
    .add(column(rows, [](const auto& r) { return r.drawn_us; }));
  return x;
}

std::vector<inserted_row> read_inserted(const pq::rows& rows) {
  std::vector<inserted_row> xs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    xs.push_back(
      {rows.integer(i, 0), rows.boolean(i, 1), rows.maybe_integer(i, 2)});
  return xs;
}

pq::call lock_targets(const row_refs<gd::signal>& signals) {
  pq::call x{&sql::lock_targets, {}};
  x.args.add(column(signals, [](const auto& s) { return s.target; }));
  return x;
}

pq::call send_signals(const row_refs<gd::signal>& signals,
                      std::int32_t inbox_limit) {
  pq::call x{&sql::signal, {}};
  x.args.add(column(signals, [](const auto& s) { return s.target; }))
    .add(
      column(signals, [](const auto& s) { return std::string_view{s.name}; }))
    .add(
      column(signals,
             [](const auto& s) { return std::string_view{s.payload.text()}; }))
    .add(column(
      signals,
      [](const auto& s) {
    return s.dedup_key ? maybe_text{*s.dedup_key} : std::nullopt;
      }))
    .add(inbox_limit);
  return x;
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
  pq::call x{&sql::look_up, {}};
  x.args.add(id).add(longest_text);
  return x;
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
  return {&sql::stats, {}};
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
  return {&sql::schema_version, {}};
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
