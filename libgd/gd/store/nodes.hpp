#pragma once

#include <gd/graph.hpp>
#include <gd/instance.hpp>
#include <gd/machine.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// What `store` is for instances and signals, for machines, nodes and what
/// migrations ask.
namespace gd::store {

using pq::read;
using pq::read_one;

// -- machines -----------------------------------------------------------------

/// Where steps declare that they go; null: they may go anywhere. Under "*", which
/// is no step's name: where the handler may go, if it goes anywhere.
using transitions
  = std::map<std::string, std::optional<std::vector<std::string>>>;

/// What concerns those outside of a step.
struct outside_step {
  /// Where they may move an instance from there.
  std::vector<std::string> to{};
  bool rests = false;                     ///< no instance runs there
  bool ends = false;                      ///< arriving there ends it
  std::optional<std::int64_t> after_us{}; ///< how long it rests at the most
  std::optional<std::string> then{};      ///< where it goes then

  GD_STATE(outside_step, to, rests, ends, after_us, then);
};
/// How long instances are kept, in us, by how they have ended; nullopt: for ever.
struct retention {
  std::optional<std::int64_t> done{};
  std::optional<std::int64_t> failed{};
  /// How young nothing may be that is deleted.
  std::int64_t resend = 0;

  GD_STATE(retention, done, failed, resend);
};
/// Of the steps that have something, by name.
using outside_steps = std::map<std::string, outside_step>;

} // namespace gd::store

namespace gd::pq {

/// Of JSON, which anybody may have written.
template <>
struct cell_reader<store::outside_steps> : cell_reader<std::string> {
  using cell_reader<std::string>::cell_reader;

  store::outside_steps read(const rows& from, std::size_t row) const;
};

/// The same.
template <>
struct cell_reader<store::retention> : cell_reader<std::string> {
  using cell_reader<std::string>::cell_reader;

  store::retention read(const rows& from, std::size_t row) const;
};

} // namespace gd::pq

namespace gd::store {

struct known_machine {
  std::string fsm{};
  std::int32_t version = 1;
  std::string initial_step{};
  std::string queue{};
  std::vector<std::string> steps{};
  bool pinned = false;      ///< inserts that name no version mean this one
  bool retired = false;     ///< it takes no more inserts
  std::int16_t history = 0; ///< of its instances; a `gd::history`
  std::optional<std::int64_t> keep_us{}; ///< for how long
  /// For how long dedup keys are remembered.
  std::optional<std::int64_t> forget_us{};
  std::vector<std::int32_t> converts{}; ///< versions whose states it takes
  transitions declared{};
  outside_steps open{};
  store::retention retention{};
  /// What its states and the payloads of its signals look like, as JSON.
  std::string shape{};

  GD_FIELDS(fsm, version, initial_step, queue, steps, pinned, retired, history,
            open, retention);
};
/// `resend`: how young nothing may be that is deleted; by default, as by the configuration's.
std::vector<known_machine>
known(const std::vector<machine>& machines,
      std::chrono::microseconds resend = std::chrono::seconds{18});
/// What has to be the same on all nodes: "pay", "pay -> ship", "ship -> (nowhere)", "pay
/// -> cancelled (outside)", "wait rests", "wait rests 60000000 us -> expired", "paid ends".
std::vector<std::string> definition(const known_machine& x);

/// Behind this one, until the transaction ends, machines are compared and
/// registered by one node at a time.
pq::call machines_lock();
/// An error, `machine_differs`, which ends the transaction: a node that lives has
/// other steps, or declares or opens other transitions.
pq::call refuse_other_steps(const std::string& incarnation,
                            const std::vector<known_machine>& machines);
pq::call register_machines(const std::vector<known_machine>& machines);
/// What a machine was before, if that was something else.
struct changed_machine : known_machine {
  /// It had other steps, or declared or opened other transitions.
  bool replaced = false;
  std::string transitions{}; ///< JSON, or nothing

  GD_FIELDS(fsm, version, initial_step, queue, steps, transitions, open,
            history, keep_us, forget_us, retention, replaced);
};
pq::call replaced_machines(const std::vector<known_machine>& machines);
/// What it is by now.
struct replaced_machine : known_machine {
  std::string transitions{}; ///< JSON, or nothing

  GD_FIELDS(fsm, version, steps, transitions, open);
};
transitions declared_in(const std::string& json);
/// Machines with what they declare.
template <class Row>
std::vector<Row> read_declared(const pq::rows& rows) {
  auto xs = read<Row>(rows);
  for (auto& x : xs)
    x.declared = declared_in(x.transitions);
  return xs;
}
/// `leaving`: an incarnation that does not count; or empty. `also_not`: those that
/// are served no more, too.
pq::call mark_served(const std::string& leaving, bool also_not);
/// Read as `not_served_row`.
pq::call not_served();
/// Read as `machine_row`, `node_row`.
pq::call machines();
pq::call nodes();

/// Version 0: the one that inserts mean which name none.
pq::call graph(const std::string& fsm, std::int32_t version);
struct drawn_machine : known_machine {
  std::string transitions{}; ///< JSON, or nothing

  GD_FIELDS(fsm, version, initial_step, steps, transitions, open);
};
/// Null: it is known to nobody.
std::optional<machine_graph> read_graph(const pq::rows& rows);

pq::call retire(const std::string& fsm, std::int32_t version, bool retired);
/// Before `pin`, in its transaction; version 0: none is to be pinned.
pq::call unpin(const std::string& fsm, std::int32_t version);
pq::call pin(const std::string& fsm, std::int32_t version);
GD_ENUM(version_answer, unknown, done, pinned, retired);
/// What came of `retire` or `pin`.
struct answered_row {
  version_answer answer = version_answer::unknown;

  GD_FIELDS(answer);
};
version_answer read_answer(const pq::rows& rows);

/// Read as `known_machine`: of each name, in the order in which inserts that name
/// no version mean them.
pq::call find_machines(const std::vector<std::string>& names);

/// Where a page of instances with history ended.
struct trimmed_to {
  std::string fsm{};
  std::string step{};
  std::int64_t id = 0;

  GD_FIELDS(fsm, step, id);
};
/// What is older than machines keep it. No row: it was the last page.
pq::call trim_ledger(const trimmed_to& after, std::int32_t instances,
                     std::int32_t entries);
/// The same of dedup keys, of a page of signals behind that one.
pq::call forget_dedup(std::int64_t after, std::int32_t signals);
struct forgotten_to {
  std::optional<std::int64_t>
    id{}; ///< the page's last; nullopt: it was the last page
  std::int64_t forgotten = 0; ///< keys

  GD_FIELDS(id, forgotten);
};

// -- nodes --------------------------------------------------------------------

/// What a node tells of itself.
struct node_record {
  std::string incarnation{};
  std::string node{};
  std::string host{};
  std::int32_t process = 0;
  std::string library{};
  std::chrono::microseconds lease{0};
  std::int32_t slots = 0;
  std::string queues = "[]"; ///< JSON
  std::vector<known_machine> machines{};
  /// Where its gateway is found on its host, and behind a space on others.
  std::string address{};
};
/// For each session of a node, before it does anything else.
pq::call register_session(const node_record& what);
/// A row that the database has refused to do something with.
struct refused_row {
  std::int64_t id = 0;
  std::string why{};         ///< what the server has said, and to whom
  std::int64_t since_us = 0; ///< so long ago

  GD_STATE(refused_row, id, why, since_us);
};
/// For `why`.
pq::call note_refused(const std::string& incarnation,
                      const std::vector<refused_row>& rows);
/// `wait`: for an older session of the same node to end.
pq::call node_lock(const std::string& incarnation,
                   std::chrono::milliseconds wait);
pq::call leave_nodes(const std::string& incarnation);
pq::call follow_timeline();
struct followed_timeline {
  std::int64_t timeline = 0;
  bool raised = false;
  std::int64_t last_id = 0;

  GD_FIELDS(timeline, raised, last_id);
};
pq::call forget_nodes();

pq::call silent_sessions(const std::string& incarnation);
struct silent_session {
  std::string incarnation{};
  std::string node{};
  std::int32_t process = 0;
  std::string began{};
  bool may_end = false;

  GD_FIELDS(incarnation, node, process, began, may_end);
};
/// A row: it has been asked to end.
pq::call end_silent_session(const silent_session& which);

pq::call foreign_sessions(const std::string& incarnation);
struct foreign_session {
  std::string node{};

  GD_FIELDS(node);
};

/// Nodes that have an address, but for this one.
pq::call remote_nodes(const std::string& incarnation);
struct remote_node_row {
  std::string incarnation{};
  std::string host{};
  std::string address{};
  std::vector<std::string> queues{};

  GD_FIELDS(incarnation, host, address, queues);
};

// -- what is new ---------------------------------------------------------------

pq::call last_ids();
/// Of these, the queues alone.
pq::call paused_queues();
/// The last that were drawn, whatever has become of them; zero: none.
struct last_ids_row {
  std::int64_t instances = 0;
  std::int64_t signals = 0;
  std::int64_t jobs = 0;
  std::vector<std::string> paused{}; ///< queues

  bool operator==(const last_ids_row&) const = default;
  GD_FIELDS(instances, signals, jobs, paused);
};

// -- migrations ---------------------------------------------------------------

/// Nodes that live whose library does not know this version.
pq::call older_nodes(int version);
struct older_node {
  std::string node{};
  std::string host{};
  std::int32_t process = 0;
  std::string library{};

  GD_FIELDS(node, host, process, library);
};

/// The version that the schema has from now on, and the oldest that works with it.
pq::call note_version(int version, int works_from);

/// Functions of names of ours that are not ours, or that somebody else's share.
pq::call namesakes(bool installed);

// -- the schema ---------------------------------------------------------------

pq::call schema_version();

struct schema_state {
  int version = 0;    ///< 0: not installed
  int works_from = 0; ///< the oldest library version that can work with it
};

/// Of `schema_version`.
struct schema_row {
  int version = 0;
  int works_from = 0;
  std::string hidden{}; ///< tables of which row security keeps rows from role
  std::string role{};

  GD_FIELDS(version, works_from, hidden, role);
};

/// Of what `schema_version` was answered. An error says what mends it.
result<schema_state> read_schema_version(const pq::reply& answer);

/// Ok: this library can work with what `schema_version` has returned.
result<void> check_schema(const pq::reply& answer, std::string_view schema);

/// Those of which that has come to light: rows of `open_crash`.
pq::call open_crashes();
struct open_crash {
  std::int64_t process = 0; ///< a hash of its incarnation

  GD_FIELDS(process);
};

/// Where a page of suspects ended, and what became of it.
struct exonerated_page {
  /// Of its machine, version and queue, a hash.
  std::int64_t place = std::numeric_limits<std::int64_t>::min();
  std::int32_t priority = std::numeric_limits<std::int16_t>::min();
  std::string eligible_at{"-infinity"}; ///< as the session prints it
  std::int64_t id = std::numeric_limits<std::int64_t>::min();
  std::int64_t examined = 0;   ///< suspects of the page
  std::int64_t exonerated = 0; ///< of these: charged with fewer ends now

  GD_FIELDS(place, priority, eligible_at, id, examined, exonerated);
};
/// Of a page of suspects behind that one, those that are charged with the end of one of
/// these processes are charged with it no more. No row: there were none.
pq::call exonerate(const std::vector<std::int64_t>& processes,
                   const exonerated_page& after, std::int32_t limit);

} // namespace gd::store
