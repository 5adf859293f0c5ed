#pragma once

#include <gd/instance.hpp>
#include <gd/json.hpp>
#include <gd/state.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// \file
/// What operators ask and do: plain structs, as those of `gd/instance.hpp`.
namespace gd {

/// The SQLSTATE of what is refused because nobody has a name that it is about: what
/// `command::force` does all the same.
inline constexpr std::string_view unknown_name = "MV008";

/// Asks why an instance is where it is.
struct why_query {
  std::int64_t id = 0; ///< the instance; or `key`
  /// In the place of `id`: the instance that has this unique key now.
  std::optional<std::string> key{};

  GD_STATE(why_query, id, key);
};

/// Why an instance is where it is.
struct why {
  std::int64_t id = 0;      ///< the instance
  std::string fsm{};        ///< its machine's name
  std::int32_t version = 0; ///< its machine's
  std::string step{};       ///< that runs next, or ran last
  std::string status{};     ///< as in `instance`
  /// finished, failed; executes, held_up, left_behind, lease_over; owed; waits, overdue, rests;
  /// delayed, no_node, version_unknown, queue_unserved, queue_paused, row_locked, behind,
  /// key_locked, suspect or due; or refused, by the database, as a node was told; or erased,
  /// as is its status then: all that is left of it.
  std::string cause{};
  std::string sentence{}; ///< the same for people; it also says what to do
  json details{};         ///< what the sentence tells, as members of an object
  std::int32_t attempt = 0;                ///< as in `instance`
  std::int32_t crashes = 0;                ///< the same
  std::int32_t trials = 0;                 ///< the same
  std::optional<std::string> last_error{}; ///< the same; its beginning

  GD_STATE(why, id, fsm, version, step, status, cause, sentence, details,
           attempt, crashes, trials, last_error);
};

/// What an operator does with an instance.
/// - retry: a failed one is due now, with its inputs as they were; attempt, crashes and
///   trials begin anew.
/// - stop: one that has not ended fails, with the reason. If it executes, its lease is
///   taken away: its step is told at the next heartbeat, and its outcome changes nothing;
///   what it does elsewhere, and its slot and partition key, last until its function
///   returns.
/// - run_now: one that is to begin later is due now.
/// - move: one that does not execute, and is not done, goes to another queue, or gets
///   another priority.
/// - upgrade: the same goes to another version of its machine, and waits there as it did.
///   A node that has both, or whose version converts the other's states
///   (`machine_builder::from`), decodes its state, or leaves it as it is: see
///   `bulk_command`.
/// - discard: a signal leaves the inbox of one that does not execute, and is not done, as if
///   a step had consumed it.
/// - replace: such a signal gets another payload. An instance that waits for its name wakes.
/// - erase: one that does not execute is deleted, with its signals and its history. What is
///   left (`gen_durable_erased`) says that there was one, who has erased it, when and why.
GD_ENUM(act, retry, stop, run_now, move, upgrade, discard, replace, erase);

/// Does something with one instance.
struct command {
  act what = act::retry;                  ///< see `act`
  std::int64_t target = 0;                ///< the instance; or `key`
  std::string queue{};                    ///< of `move`; empty: as it is
  std::optional<std::int16_t> priority{}; ///< of `move`; empty: as it is
  /// Why, for its history and, of `stop`, for its last_error; over 8 KiB, it is cut. Of
  /// `erase` it is required.
  std::optional<std::string> reason{};
  std::optional<std::string> by{}; ///< who does it: a name
  /// In the place of `target`: the instance that has this unique key now.
  std::optional<std::string> key{};
  std::int32_t to_version = 0; ///< of `upgrade`
  /// Of `upgrade`: from the names of steps to those of that version; others keep theirs.
  std::map<std::string, std::string> to_steps{};
  /// Names that nobody has are meant: else a queue that no node serves and nothing is in,
  /// or of a `bulk_command` a filter that names one, is refused as `not_found`.
  bool force = false;
  std::int64_t signal = 0; ///< of `discard` and `replace`: see `inbox_row::id`
  json payload{};          ///< of `replace`

  GD_STATE(command, what, target, queue, priority, reason, by, key, to_version,
           to_steps, force, signal, payload);
};

/// The answer to a command: it is done.
struct commanded {
  std::int64_t id = 0;   ///< the instance
  std::int64_t seq = 0;  ///< the instance's, behind it
  std::string status{};  ///< the same; or erased, and seq is its last one
  bool executed = false; ///< it was stopped while a node executed it

  GD_STATE(commanded, id, seq, status, executed);
};

/// A queue that a node which lives serves, that has something runnable or executing, or
/// that is paused.
struct queue_row {
  std::string queue{};    ///< its name
  std::int64_t nodes = 0; ///< that live, and serve it
  std::int64_t slots = 0; ///< that they have for it
  /// Instances that could begin. So many as asked for are counted, which all queues share.
  std::int64_t due = 0;
  bool more_due = false;   ///< there may be more
  std::int64_t later = 0;  ///< runnable, but not yet; counted in the same way
  bool more_later = false; ///< there may be more
  std::int64_t executing = 0;  ///< of all queues, so many are counted
  bool more_executing = false; ///< there may be more
  std::optional<std::int64_t>
    oldest_due_us{};   ///< of these: since when; since 1970
  bool paused = false; ///< nothing begins there
  std::optional<std::int64_t> paused_at_us{}; ///< since when
  std::optional<std::string> paused_by{};     ///< who has paused it
  std::optional<std::string> reason{};        ///< why

  GD_STATE(queue_row, queue, nodes, slots, due, more_due, later, more_later,
           executing, more_executing, oldest_due_us, paused, paused_at_us,
           paused_by, reason);
};

/// How many instances of a machine stand at a step, with one status.
struct count_row {
  std::string fsm{};          ///< the machine's name
  std::int32_t version = 0;   ///< the machine's
  std::string step{};         ///< finished ones: at their last
  std::string status{};       ///< as in `instance`
  std::int64_t instances = 0; ///< how many
  bool estimated = false;     ///< some pages of the table speak for all

  GD_STATE(count_row, fsm, version, step, status, instances, estimated);
};

/// The answer to `client::counts`.
struct counted {
  std::vector<count_row> rows{}; ///< one for each combination that was seen
  /// What has no row may yet have instances: few.
  bool sampled = false;

  GD_STATE(counted, rows, sampled);
};

/// What has been written since the server's statistics began, as it tells a second or so
/// later: how often rows of instances were.
struct activity {
  std::int64_t at_us = 0;    ///< microseconds since 1970
  std::int64_t inserted = 0; ///< so many times
  std::int64_t updated = 0;  ///< a step makes two updates at the most
  std::int64_t deleted = 0;  ///< so many times

  GD_STATE(activity, at_us, inserted, updated, deleted);
};

/// How many instances are in a status.
struct status_count {
  std::string status{};       ///< as in `instance`
  std::int64_t instances = 0; ///< in that status
  /// They were not counted, but taken from the server's statistics: there are more than
  /// 10,000, or there is no index of them and the table is large.
  bool estimated = false;
  std::int64_t now_us = 0; ///< the database's clock; since 1970

  GD_STATE(status_count, status, instances, estimated, now_us);
};

/// Which instances: those of which all holds that is given.
struct filter {
  std::string fsm{};        ///< the machine's name; empty: any
  std::int32_t version = 0; ///< its version; zero: any
  std::string step{};       ///< empty: any
  std::string status{};     ///< as in `instance`; empty: any
  std::string queue{};      ///< empty: any
  /// Not changed for so many microseconds.
  std::optional<std::int64_t> older_than_us{};
  std::string failure{}; ///< text that occurs in its last_error; empty: any

  GD_STATE(filter, fsm, version, step, status, queue, older_than_us, failure);
};

/// Asks for a page of instances.
struct list_query {
  filter which{};                       ///< see there
  std::optional<std::int64_t> before{}; ///< ids below this one; empty: all
  std::int32_t limit = 100;             ///< instances at the most; 1 to 1,000

  GD_STATE(list_query, which, before, limit);
};

/// An instance of such a page.
struct list_row {
  std::int64_t id = 0;                     ///< the instance
  std::string fsm{};                       ///< its machine's name
  std::int32_t version = 0;                ///< its machine's
  std::string step{};                      ///< that runs next, or ran last
  std::string status{};                    ///< as in `instance`
  std::string queue{};                     ///< where it is picked
  std::int16_t priority = 0;               ///< lower is more urgent
  std::int32_t attempt = 0;                ///< as in `instance`
  std::int64_t updated_at_us = 0;          ///< when it was changed last
  std::optional<std::string> last_error{}; ///< its beginning

  GD_STATE(list_row, id, fsm, version, step, status, queue, priority, attempt,
           updated_at_us, last_error);
};

/// The answer to `list_query`.
struct list_page {
  std::vector<list_row> rows{}; ///< the newest first
  /// Where the next page begins: `before`. Empty: there is no more. A page looks at some
  /// ten thousand instances, and may have few rows, or none, where there are more.
  std::optional<std::int64_t> next{};

  GD_STATE(list_page, rows, next);
};

/// A signal to an instance: one that it has not consumed, or a tombstone.
struct inbox_row {
  std::int64_t id = 0;                    ///< its number
  std::string name{};                     ///< what its step takes it by
  std::optional<std::string> dedup_key{}; ///< as in `signal`
  std::int64_t inserted_at_us = 0;        ///< when it was stored
  /// The first 4,096 characters of its JSON; empty: it is very long.
  std::optional<std::string> payload{};
  /// Its instance waits for that name, and does not wake for this one: its step has looked
  /// at it.
  bool seen = false;
  /// Why it does not decode, if that is what has failed last. Empty: nobody has said so.
  std::optional<std::string> undecodable{};
  /// A tombstone, for the sake of its dedup key, since then; empty: it waits.
  std::optional<std::int64_t> consumed_at_us{};

  GD_STATE(inbox_row, id, name, dedup_key, inserted_at_us, payload, seen,
           undecodable, consumed_at_us);
};

/// Does something with all instances of a filter: those that are there when it is made.
struct bulk_command {
  /// Its target and key mean nothing, but for `upgrade`: with one of them it is for that
  /// instance, without a filter.
  command what{};
  filter which{};       ///< one that lets any instance through is refused
  bool dry_run = false; ///< only counts

  GD_STATE(bulk_command, what, which, dry_run);
};

/// A bulk command, as far as it has got.
struct job_row {
  std::int64_t id = 0;                 ///< its number
  act what = act::retry;               ///< what is done
  std::string which{};                 ///< the filter, as JSON
  bool dry_run = false;                ///< it only counts
  std::optional<std::string> by{};     ///< who has made it
  std::optional<std::string> reason{}; ///< why
  std::int64_t last_id = 0;            ///< worked off up to this one
  std::int64_t highest_id = 0;         ///< where it ends
  std::int64_t examined = 0;           ///< instances
  std::int64_t changed = 0; ///< of these; of a dry run: that would be
  std::int64_t refused = 0; ///< fit the filter, and could not be changed
  std::optional<std::string>
    last_refusal{};                        ///< why the last of these could not
  std::vector<std::int64_t> refused_ids{}; ///< the first hundred of these
  std::int64_t created_at_us = 0;          ///< microseconds since 1970
  std::optional<std::int64_t> ended_at_us{}; ///< the same; empty: it goes on
  bool cancelled = false;                    ///< it ended before its end
  bool worked_on = false;                    ///< somebody works on it now
  /// The nodes that live and can do an upgrade that goes on: without one, it waits.
  std::vector<std::string> nodes{};

  GD_STATE(job_row, id, what, which, dry_run, by, reason, last_id, highest_id,
           examined, changed, refused, last_refusal, refused_ids, created_at_us,
           ended_at_us, cancelled, worked_on, nodes);
};

} // namespace gd
