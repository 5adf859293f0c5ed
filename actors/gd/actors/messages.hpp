#pragma once

#include <gd/actors/requests.hpp>

#include <gd/effect.hpp>
#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/operate.hpp>
#include <gd/state.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// \file
/// Every message type on one page. Those of the gateway cross the network; the
/// others stay on their node.
namespace gd {

class elsewhere;

namespace pq {
struct reply;
} // namespace pq

} // namespace gd

namespace gd::actors {

/// What an engine's node and a worker without a database say to each other
/// (network/gd/network/workers/link_codec.hpp): both ways, and to a published gateway and a worker
/// alone. `bytes` are opaque to everybody else.
struct link_message {
  std::int32_t type = 0;
  std::int32_t version = 0;
  std::string bytes{};
  GD_STATE(link_message, type, version, bytes);
};

/// What users and other nodes talk to. Every answer comes after the commit; an
/// error is a `gd::errc`.
using gateway = requests::interface;

/// \cond
// -- between the nodes of engines ----------------------------------------------

/// Another node's gateway for as long as there is use for it: a handle alone tells
/// nobody when it goes.
struct held_gateway {
  gateway handle{};
  /// The connection ends with its last holder.
  std::shared_ptr<void> connection{};
};

/// From one engine's node to another, through its published gateway. Correctness needs
/// none; what comes too often counts once.
struct node_hint {
  /// Rows are due in these that the sender does not pick at once.
  std::vector<std::string> queues{};
  /// Not only behind what was picked last: some have been eligible before.
  bool anywhere = false;
  /// Instances that the sender wants to be told of when the receiver sees them end.
  std::vector<std::int64_t> awaited{};
  /// Instances that the receiver has asked for, and that have ended.
  std::vector<std::int64_t> ended{};
  /// The sender's incarnation, if it is to be told of anything.
  std::string sender{};

  GD_STATE(node_hint, queues, anywhere, awaited, ended, sender);
};
/// The answer: the next may come.
struct hint_noted {
  GD_STATE(hint_noted);
};

// -- inside a node ------------------------------------------------------------

/// The database has answered a unit; `ticket` tells which.
struct unit_done {
  std::uint64_t ticket = 0;
  std::shared_ptr<pq::reply> reply;
};

/// An instance has ended that somebody awaits, and the commit is known.
struct instance_ended {
  gd::awaited how;
};

/// Instances whose ends somebody awaits here, and that go on.
struct ends_awaited {
  std::vector<std::int64_t> ids;
};

/// Instances that have ended, as another node says.
struct ends_told {
  std::vector<std::int64_t> ids;
};

/// Look at the clock: a poll or a retry may be due.
struct tick {
  std::uint64_t generation = 0;
};

/// A round of the reaper's sweeps begins; `which` counts its rounds.
struct sweep_due {
  std::size_t which = 0;
};

/// All leases of the node are to be extended.
struct beat_due {};

/// The same again, because not all leases could be extended.
struct beat_again {};

/// Leases of rows that strangers have locked are to be extended.
struct locked_beat_due {};

/// There may be new work in the receiver's queue; the poll finds it anyway.
struct hint {
  /// Not only behind what was picked last: its rows have been eligible before.
  bool anywhere = false;
  /// Other nodes do not know of it: to be told if the receiver leaves it to them.
  bool for_others = false;
};

/// Rows are due in that queue that this node does not pick at once.
struct due_backlog {
  std::string queue;
  bool anywhere = false;
};

/// The gateway of another node, or none.
struct remote_node_found {
  std::string incarnation;
  caf::actor handle;
  std::shared_ptr<void> connection;
};

/// Runs the step that the receiver was spawned for, which then ends.
struct run_step {};

/// There are plain steps in the receiver's queue.
struct run_steps {};

/// The receiver has a permit, and runs user code.
struct may_run {};

/// A step that had to wait for a thread has begun: its time limit counts from
/// here.
struct step_begun {
  std::uint64_t tag = 0;
  std::chrono::steady_clock::time_point at{};
};

/// Plain steps have ended, or a slot may be free: look into the queue of steps.
struct steps_ended {};

/// Inserts have claimed rows for the receiver: collect them from `claim_slots`.
struct rows_claimed {};

/// A suspect has ended, or a trial begins, ends or may begin.
struct suspects_changed {};

struct ended_step;

/// A step that no runner ran has an outcome: to be written.
struct step_outcome {
  std::shared_ptr<ended_step> what;
};

struct written_step;

/// A step in a transaction has ended, with its outcome.
struct step_written {
  std::shared_ptr<written_step> what;
};

/// The row is completed: its outcome is durable, or lost for good. The receiver ends.
struct step_completed {};

/// The step has failed by no exception, and cannot call the handler itself.
struct step_failed {
  std::string why;
};

/// The database does not take the outcome. `told`: why, without what is stored.
struct step_refused {
  gd::error why;
  std::string told;
  /// What of it is refused, if not all.
  std::optional<effect_refused> effect{};
};

/// Begin no more, release what has not begun, write what ends within `grace`.
struct drain {
  std::chrono::milliseconds grace{0};
};

/// What a drained picker leaves behind.
struct drained {
  std::string queue;
  std::size_t released = 0;
  std::size_t abandoned = 0;
};

/// The gateway server gets the actor to forward to; none: it is being restarted.
struct set_backend {
  caf::actor backend;
};

/// The gateway server answers what it has been asked, and ends.
struct close_gateway {};

/// The connection to another node has ended.
struct node_gone {
  caf::node_id which;
};

/// A worker, or somebody who says so, has sent this.
struct link_arrived {
  caf::strong_actor_ptr from;
  link_message what;
  /// It counts as waiting until this is gone.
  std::shared_ptr<void> waits;
};

/// There is something to be sent to workers.
struct link_poked {};

/// Starts a child of the supervisor, and again when it has crashed.
using child_spawner = std::function<caf::actor(caf::actor_system&)>;

/// Others may come: where the rows run that workers take, who speaks to them, and who
/// exchanges hints with other nodes. `done` is set when pickers know of it, or the engine
/// stops.
struct let_others_in {
  std::shared_ptr<elsewhere> where;
  child_spawner links;
  child_spawner hints;
  std::shared_ptr<std::promise<void>> done;
};

/// There are workers now; or they have something for the receiver, or want more rows.
struct workers_changed {};

/// No more work goes to workers.
struct close_links {};

struct executor_order;
struct executor_event;

/// A worker's link wants this of a queue's executor.
struct executor_orders {
  std::shared_ptr<std::vector<executor_order>> all;
};

/// What has become of the executions of an executor.
struct executor_news {
  std::shared_ptr<std::vector<executor_event>> all;
};

/// The worker wants to leave.
struct leave_link {};

/// It has waited for that for long enough.
struct leave_late {};

/// So much had not been written to a node when so much had been sent to it.
struct answers_unread {
  caf::node_id by;
  std::uint64_t sent = 0;
  std::size_t unread = 0;
};

/// No connection will ever do.
struct give_up {
  gd::error why;
};

/// Who else is there is to be asked again, as it could not be before.
struct inspect_again {};

/// Some of the node's machines have been withdrawn.
struct machines_withdrawn {};

/// Operators have paused queues, or let them go on.
struct pauses_changed {};

/// A job of operators is to be worked on.
struct job_due {};

/// Operators have made jobs, or are about to.
struct jobs_made {};

/// The node has waited for its last word for as long as it means to.
struct farewell_over {};

/// A child of the engine is to be started again.
struct restart {
  std::size_t child = 0;
};

// -- inside a gateway's client ------------------------------------------------

struct remote_request;
struct remote_answer;

/// An attempt to connect has ended.
struct dialled {
  std::shared_ptr<const result<held_gateway>> what;
};

/// To be asked of the gateway; ticket zero: whether it lives.
struct carry {
  std::uint64_t ticket = 0;
  std::shared_ptr<const remote_request> what;
};

/// What it has answered, over which connection.
struct carried {
  std::uint64_t connection = 0;
  std::uint64_t ticket = 0;
  std::shared_ptr<remote_answer> answer;
};

/// That connection is gone.
struct cut {
  std::uint64_t connection = 0;
  gd::error why;
};

/// The client answers what is still open, and ends.
struct hang_up {};

} // namespace gd::actors

// What only travels within a process.
// clang-format off
#define GD_LOCAL_MESSAGES(local)                                               \
  local(unit_done) local(instance_ended) local(ends_awaited) local(ends_told)  \
  local(tick) local(sweep_due) local(beat_due)                                 \
  local(beat_again) local(locked_beat_due) local(hint) local(due_backlog)        \
  local(remote_node_found) local(run_step) local(run_steps) local(may_run)            \
  local(step_begun) local(steps_ended) local(rows_claimed)                     \
  local(suspects_changed) local(step_outcome) local(step_written)              \
  local(step_completed)                                                          \
  local(step_failed) local(step_refused) local(drain) local(drained)           \
  local(set_backend) local(close_gateway) local(node_gone) local(link_arrived)      \
  local(link_poked) local(let_others_in) local(workers_changed)                 \
  local(close_links) local(executor_orders) local(executor_news) local(leave_link)     \
  local(leave_late) local(answers_unread) local(give_up) local(dialled)        \
  local(carry) local(carried) local(cut) local(hang_up) local(inspect_again)      \
  local(machines_withdrawn) local(pauses_changed) local(job_due)               \
  local(jobs_made) local(farewell_over) local(restart)
// clang-format on

#define GD_LOCAL(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(gd::actors::type)
GD_LOCAL_MESSAGES(GD_LOCAL)
#undef GD_LOCAL

// Users' own blocks begin at caf::first_custom_type_id and have 800 ids.
#define GD_REQUEST(asked, answer)           \
  CAF_ADD_TYPE_ID(gen_durable, (gd::asked)) \
  CAF_ADD_TYPE_ID(gen_durable, (gd::answer))
#define GD_LOCAL(type) CAF_ADD_TYPE_ID(gen_durable, (gd::actors::type))
CAF_BEGIN_TYPE_ID_BLOCK(gen_durable, 1000)
CAF_ADD_TYPE_ID(gen_durable, (gd::errc))
CAF_ADD_TYPE_ID(gen_durable, (gd::json))
GD_GATEWAY_REQUESTS(GD_REQUEST, GD_REQUEST)
CAF_ADD_TYPE_ID(gen_durable, (gd::insert_answer))
CAF_ADD_TYPE_ID(gen_durable, (gd::stats_row))
CAF_ADD_TYPE_ID(gen_durable, (gd::ledger_entry))
CAF_ADD_TYPE_ID(gen_durable, (gd::in_step_row))
CAF_ADD_TYPE_ID(gen_durable, (gd::actors::link_message))
CAF_ADD_TYPE_ID(gen_durable, (gd::actors::node_hint))
CAF_ADD_TYPE_ID(gen_durable, (gd::actors::hint_noted))
#if !GD_CAF_017
GD_LOCAL_MESSAGES(GD_LOCAL) // CAF 1.x wants ids for local messages, too
#endif
CAF_END_TYPE_ID_BLOCK(gen_durable)
#undef GD_LOCAL
#undef GD_REQUEST
#undef GD_LOCAL_MESSAGES
#undef GD_GATEWAY_REQUESTS
/// \endcond
