#pragma once

#include <gd/effect.hpp>
#include <gd/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// \file
/// What happened, as plain structs, to one sink: logs, metrics and tests adapt
/// to it. No event holds a state, a payload or a connection string. What steps throw,
/// and why they stop, is told in their own words.
namespace gd {

/// How much an event matters; later ones matter more.
enum class severity : std::uint8_t {
  debug,   ///< what happens with each step
  info,    ///< what should be known of a node
  warning, ///< what somebody may want to look at, and the engine copes with
  failure, ///< the engine has given up
};

/// Its name; that of `failure` is "error".
std::string_view to_string(severity level) noexcept;

/// All events. `id` is an instance, `token` the lease that a step runs under, `why`
/// what failed.
namespace events {

/// The engine runs.
struct node_started {
  std::string node{}; ///< `config::node`
};
/// The engine has stopped.
struct node_stopped {
  std::string node{};        ///< `config::node`
  std::size_t released = 0;  ///< rows not begun
  std::size_t abandoned = 0; ///< steps that did not end in time
};
/// The engine gives up: an incompatible schema, for example.
struct node_failed {
  error why{}; ///< what cannot work
};
/// A connection is made, or made again.
struct connected {
  std::size_t connection = 0; ///< the connection's number, from 0
  std::int64_t backend = 0;   ///< the pid of its server process
  bool again = false;         ///< in the place of one that was lost
};
/// A connection is lost, or cannot be made. Told once for each reason, whatever
/// the connection; as long as one is missing, again after a minute, two, four, up
/// to an hour.
struct disconnected {
  std::size_t connection = 0;            ///< the connection's number, from 0
  error why{};                           ///< what was lost, or refused
  std::chrono::milliseconds retry_in{0}; ///< until the next attempt
  /// How often that has happened since it was told last.
  std::size_t times = 1;
};
/// Which step is run, in the events that are about one.
struct step_run {
  std::int64_t id = 0;      ///< the instance
  std::string fsm{};        ///< the machine
  std::int32_t version = 1; ///< the machine's
  std::string step{};       ///< its name
  std::int32_t attempt = 0; ///< 0: the first
  /// How many transitions the instance had made before: the outcome of this run, if it
  /// is committed, is the one with the next number, in a history, too.
  std::int64_t seq = 0;
  std::string traceparent{}; ///< as its context's; empty: none
};
/// A step begins.
struct step_started : step_run {
  std::string token{}; ///< its lease
  /// Since when it could have begun, by the database's clock.
  std::chrono::microseconds waited{0};
};
/// The outcome is committed.
struct step_committed : step_run {
  std::string_view outcome{}; ///< next, replay, await, done or stop
  bool handled = false;       ///< it is the handler's
  /// For how long the step ran, the handler apart.
  std::chrono::microseconds took{0};
};
/// A step has thrown, was over its time limit, or has returned what cannot be carried
/// out, and there is an outcome in its place. Told before that is committed.
struct step_failed : step_run {
  std::string why{};                  ///< what the handler was given, or threw
  std::string_view outcome{};         ///< the handler's; stop, if there is none
  std::chrono::microseconds delay{0}; ///< of a replay
  std::chrono::microseconds took{0};  ///< until it failed
};
/// An instance has failed, and that is committed: its step or the handler wants it so,
/// there is no handler, or its row cannot be used.
struct instance_failed : step_run {
  std::string why{}; ///< as its last_error, without what is stored
};
/// A step that is not declared as blocking has kept one of CAF's threads for long.
/// Told once of each step.
struct step_slow : step_run {
  std::chrono::microseconds took{0}; ///< it should have been less than 10 ms
};
/// Another lease holds the row: the outcome changed nothing.
struct outcome_stale {
  std::int64_t id = 0; ///< the instance
  std::string token{}; ///< the lease that is over
};
/// The outcome was sent on a connection that died, and did not apply when it was
/// sent again: applied the first time, or stale.
struct outcome_unknown {
  std::int64_t id = 0; ///< the instance
  std::string token{}; ///< its lease
};
/// The database refused this row's data; the handler is called.
struct outcome_refused {
  std::int64_t id = 0; ///< the instance
  error why{};         ///< what the server says, without the row's data
};
/// Its row cannot be read, or cannot be picked, for what it holds.
struct row_unusable {
  /// What became of it.
  enum class fate : std::uint8_t {
    failed,   ///< as an instance whose step has stopped
    left_out, ///< for a minute: no others were picked that tell that it is guilty
    unfailing, ///< left out, too: it cannot even be failed
  };
  std::int64_t id = 0;      ///< the instance
  error why{};              ///< what cannot be used
  fate what = fate::failed; ///< what became of it
};
/// A suspect runs, and nothing else begins, until it has an outcome or has run for a
/// heartbeat. If its process ends before, it is to blame.
struct trial_begun : step_run {
  std::int32_t crashes = 0; ///< processes that have ended while it ran
  std::int32_t trials = 0;  ///< that ended in this way
};
/// A step actor went down without an outcome: the row waits for its lease.
struct step_crashed : step_run {
  std::string why{};                 ///< CAF's reason
  std::chrono::microseconds took{0}; ///< until it was down
};
/// The handler is called; the step's slot is taken until its function returns.
struct step_over_limit : step_run {
  std::chrono::milliseconds limit{0}; ///< that is over
};
/// It has returned at last: what it returned is dropped.
struct step_returned_late : step_run {
  std::chrono::microseconds took{0}; ///< until it did
};
/// The row is not this lease's any more, and its step has no outcome yet: another
/// node may run it, and what comes of this one will be dropped. Not told of a step
/// whose outcome is on its way: that may just be committed, and if it is not,
/// `outcome_stale` says so.
struct lease_lost {
  std::int64_t id = 0; ///< the instance
  std::string token{}; ///< the lease that is lost
};
/// A queue's transaction, with outcomes and a pick, has ended well, and what it has picked
/// is handed out.
struct turn_ended {
  std::string queue{};               ///< its name
  std::size_t written = 0;           ///< outcomes
  std::size_t picked = 0;            ///< rows
  std::chrono::microseconds took{0}; ///< from its sending to its answer
  std::int32_t running = 0;          ///< slots in use, now
  std::int32_t slots = 0;            ///< `queue_config::slots`
};
/// What a queue's outcomes have carried is committed with them.
struct effects_done {
  std::string queue{};        ///< the queue's name
  std::size_t inserts = 0;    ///< instances made, or there already
  std::size_t signals = 0;    ///< sent, or seen before
  std::size_t statements = 0; ///< of users
  std::size_t dropped = 0;    ///< of the signals: to instances that have ended
};
/// An outcome waits, as what it carries cannot happen now: it keeps its lease, and is tried
/// again until it has waited for too long. Told once.
struct outcome_held_up {
  std::int64_t id = 0; ///< the instance
  effect_kind kind{};  ///< of what it carries
  error why{};         ///< what it waits for, without a row's data
};
/// A queue's transaction, with outcomes and a pick, failed; it is tried again.
struct turn_failed {
  std::string queue{}; ///< its name
  error why{};         ///< what the server says, without a row's data
};
/// Of a pick, or of inserts that were to begin under a lease, nobody knows whether
/// it was committed.
struct pick_lost {
  std::string queue{}; ///< its name
  std::string token{}; ///< the lease that rows may have been picked under
};
/// The attempt to release what a lost pick may have taken found rows.
struct lost_pick_released {
  std::string queue{};  ///< its name
  std::size_t rows = 0; ///< released
};
/// A sweep, the heartbeat or another of the node's own tasks failed; it is tried
/// again.
struct sweep_failed {
  std::string_view what{}; ///< the task's name
  error why{};             ///< what the server says, without a row's data
};
/// A sweep has ended, well or not.
struct sweep_ended {
  std::string_view what{};           ///< its name
  std::chrono::microseconds took{0}; ///< with its waiting for others
};
/// Executing rows whose lease was over are runnable again: their node has died, or
/// was silent for too long.
struct reaped {
  std::size_t rows = 0; ///< how many
};
/// Rows are charged with fewer ends of their processes, since it has come to light who has
/// caused these: most of them are suspects no more, and begin as all others.
struct exonerated {
  std::size_t rows = 0; ///< how many
};
/// Parked rows whose deadline has passed are runnable.
struct deadlines_fired {
  std::size_t rows = 0; ///< how many
};
/// Rows that were to become runnable, tried one by one: their unique key might be another's
/// by now, or the database has refused them together. As long as nothing else comes of it,
/// told again after a minute, two, four, up to an hour.
struct returned {
  std::size_t runnable = 0; ///< now runnable
  std::size_t blocked = 0;  ///< left as they are: another has their key
  std::size_t refused
    = 0; ///< the same: the database refuses it, see `row_refused`
};
/// The database refuses what a sweep does with a row, for a trigger or a constraint of the
/// application's, for example; it is tried again. Each reason is told once, and then after a
/// minute, two, four, up to an hour. `gd::why` tells it of each of the rows.
struct row_refused {
  std::string_view what{}; ///< the sweep's name
  std::int64_t id = 0;     ///< the instance, or the last of several
  error why{};             ///< what the server says, without a row's data
  /// How often that has happened since it was told last.
  std::size_t times = 1;
};
/// Instances were deleted that had been kept for as long as their machine says.
struct instances_deleted {
  std::size_t deleted = 0; ///< how many
  /// How many could not be, and are tried again later: something refers to them.
  std::size_t put_off = 0;
};
/// Sessions of nodes that were silent for longer than their lease: they may have
/// held partition keys.
struct sessions_ended {
  std::size_t count = 0; ///< how many
};
/// Another node's sessions cannot be ended, should it be silent for longer than its
/// lease: they are of another role, and this one may not.
struct sessions_not_ended {
  std::string node{}; ///< its name
};
/// Prefetched rows that cannot begin soon enough: other nodes may have them.
struct rows_released {
  std::string queue{};  ///< its name
  std::size_t rows = 0; ///< how many
};
/// Another node sweeps for all.
struct sweep_skipped {
  std::string_view what{}; ///< the sweep's name
};
/// Requests to the gateway are answered. Told once for all of a kind that have got the
/// same answer at a time.
struct requests_answered {
  std::string_view what{}; ///< insert, signal or transition
  std::string_view
    answer{};            ///< accepted or duplicate, or the name of an `errc`
  std::size_t times = 0; ///< how many
};
/// One of the engine's actors went down, and is started again.
struct actor_restarted {
  std::string name{}; ///< "picker of billing", for instance
  std::string why{};  ///< CAF's reason
};
/// A connection to the published gateway was refused, or ended, for what its other end
/// has done: there may be many of them, so each reason is told once, and then after a
/// minute, two, four, up to an hour.
struct gateway_connection_cut {
  std::string
    remote{}; ///< one of them: a port of this machine, or a process and its user
  std::string why{};     ///< "has been silent for too long", for instance
  std::size_t times = 1; ///< how often that has happened since it was told last
};
/// A worker without a database has joined this node.
struct worker_joined {
  std::string node{};    ///< the worker's name
  std::size_t holds = 0; ///< executions that it has brought along
};
/// One that wanted to cannot be joined.
struct worker_refused {
  std::string node{}; ///< the worker's name
  std::string why{};  ///< as it is told
};
/// A worker is gone that has not left as it should: what it holds runs out with its
/// leases, unless it comes back before.
struct worker_gone {
  std::string node{};    ///< the worker's name
  std::string why{};     ///< how that was noticed
  std::size_t holds = 0; ///< executions that it has not ended
};
/// This worker has joined an engine's node.
struct engine_joined {
  std::string address{};   ///< where it is
  std::string node{};      ///< its name
  std::size_t resumed = 0; ///< executions from before that go on
};
/// This worker has lost its engine, or was refused by one: it tries the next.
struct engine_lost {
  std::string address{}; ///< where it is
  std::string why{};     ///< what has happened
  std::size_t holds = 0; ///< executions that have not ended
};
/// A machine has other steps than it had when a node served it last, or declares
/// other transitions; none lives that has those. Instances that stand at steps which are no more will fail.
struct machine_replaced {
  std::string machine{}; ///< with its version
  std::string before{};  ///< what it had: "a|b|c|a -> b"
  std::string now{};     ///< what it has
};
/// Where inserts begin, in which queue, what is kept of their history or for how long
/// is not what it was: the last start of a node counts.
struct machine_changed {
  std::string machine{}; ///< with its version
  std::string before{};  ///< "step start, queue default, no history"
  std::string now{};     ///< the same
};
/// While this node was away from the database, another has given the machine other
/// steps, or other declared transitions: this one does not serve it any more.
struct machine_withdrawn {
  std::string machine{}; ///< with its version
  std::string now{};     ///< what it has by now: "a|b|c|a -> b"
};
/// Instances wait in a queue, or inserts go there, where no node that lives runs
/// their machine; some run it in other queues. Told again while it is so.
struct queue_not_served {
  std::string machine{}; ///< with its version
  std::string queue{};   ///< its name
};
/// Instances of a version wait that no node which lives has. Told again while it is
/// so.
struct version_not_served {
  std::string machine{}; ///< with its version
  std::string queue{};   ///< the name of that where they wait
};
/// A gateway's client has found a gateway, for the first time or again.
struct gateway_reached {
  std::string address{}; ///< where it is
};
/// A gateway's client has lost its gateway, or finds none at an address. Told once for each
/// reason; as long as there is none, again after a minute, two, four, up to an hour.
struct gateway_lost {
  std::string address{};                 ///< where it was, or should be
  error why{};                           ///< what was lost, or refused
  std::chrono::milliseconds retry_in{0}; ///< until the next attempt
  /// How often that has happened since it was told last.
  std::size_t times = 1;
};
/// A transaction is committed, but a synchronous standby may not have it: somebody has
/// cancelled its session's wait for one. It counts as of unknown fate, for whoever
/// has sent it.
struct not_replicated {
  std::size_t connection = 0; ///< the connection's number, from 0
  error why{};                ///< what the server says
};
/// The server is another than before, or one that was recovered: it has another
/// timeline. Ids begin anew, behind all that may have been given out and lost.
struct ids_raised {
  std::int64_t timeline = 0; ///< the server's
  std::int64_t first_id = 0; ///< of instances, from now on
};
/// Events that are like ones which were told before, and were left out for that, by
/// `aggregated`. No engine tells it.
struct more_like_it {
  std::string example{};               ///< one of them, described
  std::size_t times = 0;               ///< how many
  std::chrono::milliseconds within{0}; ///< since the first like it
};

} // namespace events

/// What has happened: one of gd::events.
using event = std::variant<
  events::node_started, events::node_stopped, events::node_failed,
  events::connected, events::disconnected, events::step_started,
  events::step_committed, events::step_failed, events::instance_failed,
  events::step_slow, events::outcome_stale, events::outcome_unknown,
  events::outcome_refused, events::row_unusable, events::step_crashed,
  events::step_over_limit, events::step_returned_late, events::lease_lost,
  events::turn_failed, events::pick_lost, events::lost_pick_released,
  events::sweep_failed, events::reaped, events::deadlines_fired,
  events::returned, events::row_refused, events::sessions_ended,
  events::sessions_not_ended, events::rows_released, events::sweep_skipped,
  events::actor_restarted, events::gateway_connection_cut,
  events::machine_replaced, events::machine_changed, events::machine_withdrawn,
  events::queue_not_served, events::version_not_served, events::trial_begun,
  events::more_like_it, events::worker_joined, events::worker_refused,
  events::worker_gone, events::engine_joined, events::engine_lost,
  events::gateway_reached, events::gateway_lost, events::instances_deleted,
  events::turn_ended, events::effects_done, events::outcome_held_up,
  events::sweep_ended, events::requests_answered, events::not_replicated,
  events::ids_raised, events::exonerated>;

/// Gets all events. Called from any thread, several at once; must not throw or
/// block for long.
using event_sink = std::function<void(const event&)>;

/// `why` as an event may tell it: what the server says of a row that it refuses,
/// and what is said of JSON, may repeat data.
error without_data(error why);

/// The same of a refused effect, as a sentence.
std::string without_data(const effect_refused& what);

/// How much it matters.
severity level_of(const event& what);

/// What happened, as one line without a line break.
std::string describe(const event& what);

/// Tells each of these, in this order.
event_sink all_of(std::vector<event_sink> sinks);

/// For sinks that write: of warnings that are alike (of the same kind, about the same
/// step, queue or task) `to` gets the first `most` in each `window`, and at its end how
/// many more there were, as `more_like_it`, from another thread. All else it gets.
event_sink aggregated(event_sink to, std::size_t most = 10,
                      std::chrono::milliseconds window = std::chrono::seconds{
                        10});

/// Writes what is at least that severe to stderr, a line each, `aggregated`.
event_sink log_to_stderr(severity least = severity::warning);

} // namespace gd
