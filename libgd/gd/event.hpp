#pragma once

#include <gd/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

/// What happened, as plain structs, to one sink: logs, metrics and tests adapt
/// to it. No event holds a state, a payload or a connection string.
namespace gd {

enum class severity : std::uint8_t { debug, info, warning, failure };

std::string_view to_string(severity level) noexcept;

namespace events {

struct node_started {
  std::string node{};
};
struct node_stopped {
  std::string node{};
  std::size_t given_back = 0; ///< rows not begun
  std::size_t abandoned = 0;  ///< steps that did not end in time
};
/// The engine gives up: an incompatible schema, for example.
struct node_failed {
  error why{};
};
struct connected {
  std::size_t lane = 0;
  std::int64_t backend = 0;
};
/// A connection is lost, or cannot be made. Told once for each reason, whatever
/// the connection; as long as one is missing, again after a minute, two, four, up
/// to an hour.
struct disconnected {
  std::size_t lane = 0;
  error why{};
  std::chrono::milliseconds retry_in{0};
  /// How often that has happened since it was told last.
  std::size_t times = 1;
};
struct step_started {
  std::int64_t id = 0;
  std::string fsm{};
  std::int32_t version = 1;
  std::string step{};
  std::int32_t attempt = 0;
  std::string token{};
};
/// The outcome is committed.
struct step_committed {
  std::int64_t id = 0;
  std::string_view outcome{};
  bool handled = false; ///< it is the handler's
};
/// Another lease holds the row: the outcome changed nothing.
struct outcome_stale {
  std::int64_t id = 0;
  std::string token{};
};
/// The outcome was sent on a connection that died, and did not apply when it was
/// sent again: applied the first time, or stale.
struct outcome_unknown {
  std::int64_t id = 0;
  std::string token{};
};
/// The database refused this row's data; the handler is called.
struct outcome_refused {
  std::int64_t id = 0;
  error why{};
};
/// Its row cannot be read, or cannot be picked, for what it holds: it is failed.
/// Or, `left_out`, it cannot even be changed, and picks pass it over for a minute.
struct row_unusable {
  std::int64_t id = 0;
  error why{};
  bool left_out = false;
};
/// A step actor went down without an outcome: the row waits for its lease.
struct step_crashed {
  std::int64_t id = 0;
  std::string why{};
};
/// The handler is called; the step's slot is taken until its function returns.
struct step_over_limit {
  std::int64_t id = 0;
  std::string step{};
  std::chrono::milliseconds limit{0};
};
/// It has returned at last: what it returned is dropped.
struct step_returned_late {
  std::int64_t id = 0;
  std::string step{};
};
struct lease_lost {
  std::int64_t id = 0;
  std::string token{};
};
struct turn_failed {
  std::string queue{};
  error why{};
};
/// Of a pick, or of inserts that were to begin under a lease, nobody knows whether
/// it was committed.
struct pick_lost {
  std::string queue{};
  std::string token{};
};
/// The attempt to give back what a lost pick may have taken found rows.
struct pick_recovered {
  std::string queue{};
  std::size_t rows = 0;
};
struct sweep_failed {
  std::string_view what{};
  error why{};
};
struct reaped {
  std::size_t rows = 0;
};
struct deadlines_fired {
  std::size_t rows = 0;
};
/// Rows that were to become runnable, but whose unique key might be another's
/// by now.
struct returned {
  std::size_t runnable = 0;
  std::size_t blocked = 0; ///< left as they are, to be tried again
};
/// Sessions of nodes that were silent for longer than their lease: they may have
/// held partition keys.
struct sessions_ended {
  std::size_t count = 0;
};
/// Those of this node cannot be ended, should it be silent for longer than its
/// lease: they are another role's, and this one may not.
struct sessions_not_ended {
  std::string node{};
};
/// Rows picked ahead that cannot begin soon enough: other nodes may have them.
struct given_back {
  std::string queue{};
  std::size_t rows = 0;
};
/// Another node sweeps for all.
struct sweep_skipped {
  std::string_view what{};
};
struct actor_restarted {
  std::string name{};
  std::string why{};
};
/// A peer of the published gateway, at that port of its own, has left more answers
/// unread than a peer may: its connection is ended.
struct peer_cut_off {
  std::uint16_t port = 0;
  std::size_t unread = 0; ///< bytes, beside those under way
};
/// A machine's queue is not served here: other nodes have to.
struct queue_not_served {
  std::string machine{};
  std::string queue{};
};

} // namespace events

using event = std::variant<
  events::node_started, events::node_stopped, events::node_failed,
  events::connected, events::disconnected, events::step_started,
  events::step_committed, events::outcome_stale, events::outcome_unknown,
  events::outcome_refused, events::row_unusable, events::step_crashed,
  events::step_over_limit, events::step_returned_late, events::lease_lost,
  events::turn_failed, events::pick_lost, events::pick_recovered,
  events::sweep_failed, events::reaped, events::deadlines_fired,
  events::returned, events::sessions_ended, events::sessions_not_ended,
  events::given_back, events::sweep_skipped, events::actor_restarted,
  events::peer_cut_off, events::queue_not_served>;

/// Called from any thread, several at once; must not throw or block for long.
using event_sink = std::function<void(const event&)>;

/// `why` as an event may tell it: what the server says of a row that it refuses
/// may repeat that row's data.
error without_data(error why);

severity level_of(const event& what);

/// One line without a line break.
std::string describe(const event& what);

/// Writes what is at least that severe to stderr.
event_sink log_to_stderr(severity least = severity::warning);

} // namespace gd
