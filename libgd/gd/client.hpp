#pragma once

#include <gd/error.hpp>
#include <gd/graph.hpp>
#include <gd/instance.hpp>
#include <gd/operate.hpp>
#include <gd/options.hpp>
#include <gd/registry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gd::store {
class queue_scans;
}

namespace gd {

/// For the settings of clients that look at queues by turns.
std::shared_ptr<store::queue_scans> share_queue_scans();

/// What a `client` goes by.
struct client_settings {
  /// Machines that this program has; others are looked up in the database.
  std::shared_ptr<const registry> machines = std::make_shared<registry>();
  /// Bounds of what a row may hold; more is refused.
  struct limits limits {};
  /// Rows in one transaction, at most.
  std::size_t rows = 2'000;
  /// Bytes of states and payloads in one transaction, unless one row has more.
  std::size_t bytes = 8 << 20;
  /// How often a connection that is lost is made again, with backoff, before a call ends.
  int reconnects = 8;
  /// How often `await_result` looks; at least ten times as long as a lookup takes.
  std::chrono::milliseconds poll{250};
  /// What `queues` has learned: clients that ask by turns share it. Null: it has its own.
  std::shared_ptr<store::queue_scans> queue_scans{};
};

/// Inserts, signals, moves and looks up, for programs without actors. Calls block
/// until the database has answered; one connection, one call at a time: a
/// client is not thread-safe, and threads have one each.
///
/// A connection that is lost in between is made again, with backoff, for some
/// seconds (`client_settings::reconnects`). Inserts are then sent again without duplicating anything; a signal
/// may be stored twice if it has no dedup key; a transition that may have happened is
/// not sent again. What still has no answer then is answered with `unavailable` if
/// nothing can have happened, else with `unknown_fate`.
class client {
public:
  /// Connects, once, and checks that this library can work with the schema.
  /// Errors: `unavailable`, `schema_mismatch`; `sql` for what else the server says.
  static result<client> connect(pq::options opts,
                                const client_settings& how = {});

  /// A client that was moved from can only be destroyed or assigned to.
  client(client&&) noexcept;
  /// The same.
  client& operator=(client&&) noexcept;
  ~client();

  /// Makes an instance; answered after the commit. Errors: `invalid_argument` and
  /// `codec` (a value or a state that cannot be used), `unknown_machine`,
  /// `unknown_step`, `version_retired`, `key_of_another_machine`, `rejected` (the server
  /// refuses the row), `unavailable`, `unknown_fate`.
  result<inserted> insert(gd::insert what);
  /// Any number of rows, in transactions of bounded size; each is accepted or
  /// refused by itself. Answers are in the order of the rows.
  std::vector<result<inserted>> insert_all(std::vector<gd::insert> rows);

  /// Puts a signal into an inbox; answered after the commit. Errors, beside those
  /// of an insert: `no_such_target`, `target_finished`, `inbox_full`.
  result<signalled> signal(gd::signal what);
  /// Like `insert_all`.
  std::vector<result<signalled>> signal_all(std::vector<gd::signal> signals);

  /// Moves an instance to another step, in a transaction by itself; answered after the
  /// commit. Errors: `no_such_target`; `transition_conflict`: it executes, is
  /// finished, or is not where the transition says; `unknown_step`, `not_allowed`;
  /// `key_taken`, if another instance has its unique key; `busy`: another transaction
  /// holds it; `invalid_argument`, `codec`, `unavailable`, `unknown_fate`.
  result<transitioned> transition(gd::transition what);
  /// Like `insert_all`. Those of the same instance go one after the other.
  std::vector<result<transitioned>>
  transition_all(std::vector<gd::transition> transitions);

  /// One instance as it is. `not_found`: there is no such one; `erased`: it was there, and
  /// was erased, by whom and why is told.
  result<instance> look_up(std::int64_t id) {
    return look_up(gd::look_up{.id = id});
  }
  /// The same, by its id or by the unique key that it has. Error: also
  /// `invalid_argument`.
  result<instance> look_up(const gd::look_up& what);

  /// Blocks until an instance has ended, and tells how; looks every `client_settings::poll`.
  /// Errors: `no_such_target`: there is no such one; `erased`: it was there, and has been
  /// deleted; `timed_out`: it has not ended in time; `unavailable`: it could not be looked
  /// for; `invalid_argument`.
  result<awaited> await_result(const gd::await_result& what);
  /// Many at once: each look is one statement for all that have not ended. Answers are in
  /// the order of the requests, and come together.
  std::vector<result<awaited>>
  await_result_all(const std::vector<gd::await_result>& what);

  /// The oldest signals that it has not consumed, so many at the most: 1 to 1,000; with
  /// `consumed` also those that it has, as far as their dedup keys are remembered. Of one
  /// that does not exist there are none. Error: `invalid_argument`.
  result<std::vector<inbox_row>>
  inbox(std::int64_t id, std::int32_t limit = 100, bool consumed = false);

  /// A page of an instance's history, also of one that is deleted; empty: it has
  /// none, or no more. Error: `invalid_argument`.
  result<std::vector<ledger_entry>> history(const history_query& what);
  /// Of the instances with history, those in a step, the newest first. Error: the
  /// same.
  result<std::vector<in_step_row>> in_step(const in_step_query& what);

  /// Puts an instance back to an entry of its history; answered after the commit. Never sent
  /// again where it may have happened. Errors: `invalid_argument`; `not_found` (no such
  /// instance, or entry), `not_allowed` (the entry has no state, or is of another version),
  /// `unknown_step` (the machine has it no more), `transition_conflict` (it executes),
  /// `busy` (a stranger's transaction holds it), `key_taken` (another instance has its
  /// unique key), `unavailable`, `unknown_fate`.
  result<transitioned> rewind(const gd::rewind& what);
  /// Makes an instance that begins at an entry of another one's history. As `rewind`, and
  /// `version_retired`.
  result<inserted> fork(const gd::fork& what);

  /// Why an instance is where it is, and what to do. Errors: `not_found`,
  /// `invalid_argument`.
  result<gd::why> why(const why_query& what);
  /// Does something with one instance; answered after the commit. Never sent again where
  /// it may have happened. Errors: `invalid_argument`; `not_found`; `transition_conflict`
  /// (it is in no status for that), `busy` (a stranger's transaction holds it),
  /// `key_taken` (another instance has its unique key), `unavailable`, `unknown_fate`.
  result<commanded> operate(const command& what);

  /// Lets nothing begin in a queue, on all nodes, until it is resumed: within some 100
  /// ms (`config::look`), or a `poll`. What runs there ends. Errors: `invalid_argument`;
  /// `not_found`: no node serves it, and nothing is in it, unless `force` says that it is
  /// meant.
  result<void> pause(const std::string& queue,
                     const std::optional<std::string>& reason = {},
                     const std::optional<std::string>& by = {},
                     bool force = false);
  /// False: it was not paused. Error: `not_found`, as of `pause`.
  result<bool> resume(const std::string& queue, bool force = false);
  /// Whether a machine, its version, a step or a queue of the filter is one that nobody
  /// has: then a sentence that names what may have been meant. Empty: all are known.
  result<std::optional<std::string>> unknown(const filter& names);
  /// Of what a person has written by hand: what is wrong with it that an insert, or a signal,
  /// would not be refused for, as far as nodes have made known what the machine's states, and
  /// its signals' payloads, look like (`machine_builder::signal`): a field or a name that no
  /// step can mean, with the one that may be meant, and a type that none can read. For each
  /// of the rows a sentence, or nothing.
  result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::insert>& rows);
  /// The same of signals. A name for which the instance waits now is none.
  result<std::vector<std::optional<std::string>>>
  faults(const std::vector<gd::signal>& signals);
  /// The queues that are served, paused, or have something runnable or executing. So many
  /// instances are counted at the most, of all queues together. Asked again, it tells up to
  /// a minute late that one has come back which is due for longer than those it knew.
  result<std::vector<queue_row>> queues(std::int32_t most = 10'000);

  /// How many instances are in each status, within milliseconds whatever there are; see
  /// `status_count`. So many are counted in a status before it is estimated.
  result<std::vector<status_count>> status_counts(std::int32_t most = 10'000);

  /// Instances by a filter, the newest first.
  result<list_page> list(const list_query& what);

  /// Makes a bulk command, and returns its number: nodes work it off, or `work_on`.
  /// Errors: `invalid_argument`; `not_found`, for names that nobody has (see `command`).
  result<std::int64_t> begin_job(const bulk_command& what);
  /// Works off some of a job, unless somebody else does: false in `worked_on` then means
  /// that it has ended. `not_found`: there is no such job.
  result<job_row> work_on(std::int64_t job);
  /// A job that has not ended does not go on. What it has done stays.
  result<job_row> cancel_job(std::int64_t job);
  /// A job, however long ago it has ended. `not_found`: there is no such one.
  result<job_row> job(std::int64_t id);
  /// Jobs that go on, and the last hundred that have ended, the newest first.
  result<std::vector<job_row>> jobs();

  /// Deletes instances that have ended, of a page of instances, with their signals and
  /// histories. Errors: `invalid_argument`, `unavailable`; `unknown_fate`, behind which the
  /// page can be asked for again.
  result<pruned> prune(const gd::prune& what);

  /// Counts instances by queue, machine and status. Reads the whole table.
  result<std::vector<stats_row>> stats();
  /// Counts the instances of one machine, or of all (an empty `fsm`), by step and status,
  /// without reading the whole table: exactly in a small one, and elsewhere what executes,
  /// and what is runnable or has failed as long as that are some hundreds; the rest is
  /// estimated.
  result<counted> counts(const std::string& fsm = {}, std::int32_t version = 0);
  /// What has been written to the table of instances, for rates.
  result<gd::activity> activity();

  /// The machines that nodes have made known, by name and version.
  result<std::vector<machine_row>> machines();
  /// The steps of a machine and where they declare that they go; of the version
  /// that inserts mean which name none, if it is 0. `live`: with how many instances
  /// stand at each step, as `counts` has it. `unknown_machine`: no node has made it known.
  result<machine_graph> graph(const std::string& fsm, std::int32_t version = 0,
                              bool live = false);
  /// The nodes that live, and those that have gone lately without a word.
  result<std::vector<node_row>> nodes();
  /// What is runnable, or would be inserted, where no node that lives runs it; a
  /// hundred at most.
  result<std::vector<not_served_row>> not_served();

  /// Makes machines known as a node does when it starts, for those that need no node:
  /// all of whose steps rest. What was known under a version is replaced. Errors:
  /// `invalid_argument` (a machine that cannot be), `machine_differs` (a node that
  /// lives has another definition).
  result<void> make_known(const std::vector<machine>& machines);

  /// This version takes no more inserts; its instances go on. False: it takes them
  /// again. Errors: `unknown_machine`; `invalid_argument`, if it is pinned.
  result<void> retire(const std::string& fsm, std::int32_t version,
                      bool retired = true);
  /// Inserts that name no version mean this one from now on; with 0, again what is
  /// served. Errors: `unknown_machine`, `version_retired`.
  result<void> pin(const std::string& fsm, std::int32_t version);

private:
  struct impl;
  explicit client(std::unique_ptr<impl> x);

  std::unique_ptr<impl> impl_;
};

} // namespace gd
