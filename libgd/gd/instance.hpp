#pragma once

#include <gd/cipher.hpp>
#include <gd/error.hpp>
#include <gd/json.hpp>
#include <gd/state.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// \file
/// What programs send to the engine and get back: plain structs, the same for
/// the client and as messages of the gateway actor.
namespace gd {

/// Bounds of what a row may hold. Each is refused with a sentence.
struct limits {
  std::size_t name = 255; ///< bytes of a machine, step, queue or signal name
  std::size_t dedup_key = 1024;     ///< bytes
  std::size_t partition_key = 1024; ///< bytes
  std::size_t unique_key = 1024;    ///< bytes
  std::size_t state = 1 << 20;      ///< bytes of JSON, as PostgreSQL prints it
  std::size_t result = 1 << 20;     ///< the same
  std::size_t payload = 1 << 20;    ///< the same
  std::size_t metadata = 64 << 10;  ///< the same, of a transition's
  /// Bytes of last_error, longer ones are cut; and of a transition's.
  std::size_t reason = 8 << 10;
  /// Signals not yet consumed. A step is shown the oldest 8 MiB of them.
  std::int32_t inbox = 1'000;
  std::int32_t effects = 1'000; ///< that an outcome carries
  /// Bytes of all that an outcome carries; an engine takes its `bytes_per_turn`.
  std::size_t effect_bytes = 8 << 20;

  GD_FIELDS(name, dedup_key, partition_key, unique_key, state, result, payload,
            metadata, reason, inbox, effects, effect_bytes);
};

/// Makes an instance.
struct insert {
  /// The machine's name.
  std::string fsm{};
  /// Encoded by `to_json(state)`. Fields that it leaves out take their defaults.
  json state{};
  /// Zero: the one that operators have pinned; else the newest that the program has;
  /// else the newest that a node serves, or has served last.
  std::int32_t version = 0;
  /// Empty: the machine's initial step.
  std::string step{};
  /// Empty: the machine's queue.
  std::string queue{};
  /// Lower is more urgent. Strict: a less urgent row waits as long as a more
  /// urgent one of the queue is due.
  std::int16_t priority = 0;
  /// Not to be picked before; microseconds since 1970, up to the year 3000. Empty:
  /// at once. Not together with `delay_us`.
  std::optional<std::int64_t> eligible_at_us{};
  /// Not to be picked before this many microseconds are over, by the database's
  /// clock; 0 to 100 years.
  std::int64_t delay_us = 0;
  /// At most one step of the instances with this key runs at any time, on all
  /// nodes together, and they take turns in pick order: by priority, then by the
  /// time since when they may run, then by id.
  std::optional<std::string> partition_key{};
  /// While an instance with this key is in one of the statuses of its
  /// `unique_scope`, no other with the key is made. Any bytes. All machines share
  /// them: `errc::key_of_another_machine`, if it is taken by one of another.
  std::optional<std::string> unique_key{};
  /// The statuses in which this instance occupies its `unique_key`: some of
  /// runnable, executing, awaiting_signal, done, failed; executing only together
  /// with runnable. Empty: until it is finished, that is the first three.
  std::vector<std::string> unique_scope{};
  /// A [W3C traceparent](https://www.w3.org/TR/trace-context/) of what asks for it, 55
  /// characters: its steps and their events tell it.
  std::optional<std::string> traceparent{};

  GD_STATE(insert, fsm, state, version, step, queue, priority, eligible_at_us,
           delay_us, partition_key, unique_key, unique_scope, traceparent);
};

/// The answer to an insert: durable from now on.
struct inserted {
  /// The new instance; or, if `duplicate`, the one that has its unique key.
  std::int64_t id = 0;
  /// Nothing was made: `id` was there before, and has the unique key.
  bool duplicate = false;

  GD_STATE(inserted, id, duplicate);
};

/// Makes many instances; each is accepted or refused by itself.
struct insert_all {
  std::vector<insert> rows{}; ///< any number

  GD_STATE(insert_all, rows);
};

/// What became of one row of `insert_all`.
struct insert_answer {
  /// Empty: refused.
  std::optional<std::int64_t> id{};
  /// `id` is another instance, which has the row's unique key.
  bool duplicate = false;
  errc code{};           ///< of a refused row: why
  std::string message{}; ///< the same, as a sentence

  GD_STATE(insert_answer, id, duplicate, code, message);
};

/// The answer to `insert_all`.
struct inserted_all {
  std::vector<insert_answer> rows{}; ///< in the order of the rows

  GD_STATE(inserted_all, rows);
};

/// A durable message to an instance.
struct signal {
  std::int64_t target = 0; ///< the instance; or `key`
  std::string name{};      ///< what its step takes it by
  json payload{};          ///< encoded by `to_json(x)`
  /// At most one signal with this key ever reaches the target, 1 to
  /// `limits::dedup_key` bytes. Without: a signal that is sent again, after its
  /// answer was lost, may be stored twice.
  std::optional<std::string> dedup_key{};
  /// In the place of `target`: the instance that has this unique key when the signal is
  /// stored. One that has left it, finished, say, is not meant.
  std::optional<std::string> key{};
  /// As that of an `insert`: of what sends it.
  std::optional<std::string> traceparent{};

  GD_STATE(signal, target, name, payload, dedup_key, key, traceparent);
};

/// The answer to a signal: it is in the inbox, durable.
struct signalled {
  /// The dedup key had been seen: nothing new was stored.
  bool duplicate = false;

  GD_STATE(signalled, duplicate);
};

/// Moves an instance to another step, from one where its machine lets others do that:
/// a resting step, or one with `.outside(...)`.
struct transition {
  std::int64_t target = 0; ///< the instance; or `key`
  std::string to{};        ///< the step
  /// The step and the `seq` that it is to have; empty: whatever they are.
  std::optional<std::string> from{};
  std::optional<std::int64_t> seq{}; ///< see `from`
  /// Its new state, encoded by `to_json(state)`; empty: it keeps the one that it has.
  std::optional<json> state{};
  /// What is attached to the entry of its history, encoded by `to_json(x)`.
  std::optional<json> metadata{};
  std::optional<std::string>
    reason{}; ///< why, for the history; to `limits::reason`
  std::optional<std::string> by{}; ///< who, for the history; a name
  /// In the place of `target`: the instance that has this unique key when it moves.
  std::optional<std::string> key{};

  GD_STATE(transition, target, to, from, seq, state, metadata, reason, by, key);
};

/// The answer to a transition, and to a rewind: the instance has moved.
struct transitioned {
  std::int64_t seq = 0; ///< the instance's, behind it
  /// runnable; awaiting_signal, at a resting step; done, at a final one.
  std::string status{};

  GD_STATE(transitioned, seq, status);
};

/// Asks for one instance.
struct look_up {
  std::int64_t id = 0; ///< the instance; or `key`
  /// In the place of `id`: the instance that has this unique key now.
  std::optional<std::string> key{};

  GD_STATE(look_up, id, key);
};

/// One instance, as it is in the database. Times are in microseconds since
/// 1970.
struct instance {
  std::int64_t id = 0;      ///< unique in the schema
  std::string fsm{};        ///< the machine's name
  std::int32_t version = 0; ///< the machine's
  std::string step{};       ///< that runs next, or ran last
  /// runnable, executing, awaiting_signal, done or failed.
  std::string status{};
  json state{}; ///< as committed last; failed, if it prints more than 16 MiB
  /// Set when `status` is done; the same holds.
  std::optional<json> result{};
  /// Set when `status` is awaiting_signal; empty: it rests, and no signal wakes it.
  std::optional<std::string> awaits{};
  /// The other names, where it awaits any of several.
  std::vector<std::string> awaits_also{};
  std::string queue{};       ///< where it is picked
  std::int16_t priority = 0; ///< lower is more urgent
  /// What it takes turns by; see `insert`.
  std::optional<std::string> partition_key{};
  /// As `key_text` tells it: a key that is text as it is, any other as \\x and the
  /// hexadecimal digits of its bytes.
  std::optional<std::string> unique_key{};
  /// How often the step has been tried before, since it last got anywhere.
  std::int32_t attempt = 0;
  /// How many of these tries ended with their process.
  std::int32_t crashes = 0;
  /// Of how many of those that ran alone nobody has come back.
  std::int32_t trials = 0;
  /// Why `stop`, or the engine, has failed it; or what has failed, and led to the last
  /// outcome.
  std::optional<std::string> last_error{};
  /// The lease token of the node that executes it.
  std::optional<std::string> locked_by{};
  /// Why it was woken last: signal or timeout.
  std::optional<std::string> wake_reason{};
  /// Not picked before.
  std::int64_t eligible_at_us = 0;
  /// When an `await` gives up.
  std::optional<std::int64_t> deadline_us{};
  /// When others may take the row of a node that is silent.
  std::optional<std::int64_t> lease_expires_at_us{};
  std::int64_t inserted_at_us = 0; ///< when it was made
  std::int64_t updated_at_us = 0;  ///< when it was changed last
  /// Signals not yet consumed.
  std::int64_t inbox = 0;
  /// How many transitions it has made: outcomes, and those that the engine makes in
  /// the place of one (its lease was over; it could not be run).
  std::int64_t seq = 0;
  /// That of its insert.
  std::optional<std::string> traceparent{};

  /// Its state, decoded. An error, `codec`: it is not of that type, or too long.
  template <class T>
  gd::result<T> state_as() const {
    return from_json<T>(state);
  }

  /// The same of a machine that encrypts. One more error, `cipher`.
  template <class T>
  gd::result<T> state_as(const cipher& by) const {
    return from_json<T>(state, by);
  }

  /// Its result, decoded. Errors: `codec`, as of `state_as`; `invalid_argument`: it is
  /// not done, and has none.
  template <class T>
  gd::result<T> result_as() const {
    return result ? from_json<T>(*result) : without_result();
  }

  /// The same of a machine that encrypts. One more error, `cipher`.
  template <class T>
  gd::result<T> result_as(const cipher& by) const {
    return result ? from_json<T>(*result, by) : without_result();
  }

  /// Why it has none.
  error without_result() const;

  GD_STATE(instance, id, fsm, version, step, status, state, result, awaits,
           awaits_also, queue, priority, partition_key, unique_key, attempt,
           crashes, trials, last_error, locked_by, wake_reason, eligible_at_us,
           deadline_us, lease_expires_at_us, inserted_at_us, updated_at_us,
           inbox, seq, traceparent);
};

/// The most that `await_result` may wait, in microseconds: a day.
inline constexpr std::int64_t longest_wait_us = 86'400'000'000;

/// Asks how an instance ends: answered when it has, at once if it has ended before.
struct await_result {
  std::int64_t id = 0; ///< the instance; or `key`
  /// In the place of `id`: the instance that has this unique key when it is looked for
  /// first. Its end is awaited, whoever has the key then.
  std::optional<std::string> key{};
  /// How long to wait, from the arrival on; microseconds, up to `longest_wait_us`. 0: one look.
  std::int64_t within_us = 60'000'000;

  GD_STATE(await_result, id, key, within_us);
};

/// The answer to `await_result`: how an instance has ended, which is committed.
struct awaited {
  std::int64_t id = 0;      ///< the instance
  std::string fsm{};        ///< the machine's name
  std::int32_t version = 0; ///< the machine's
  std::string status{};     ///< done or failed
  /// Set when it is done; failed, if it prints more than 16 MiB.
  std::optional<json> result{};
  /// Set when it has failed: why `stop`, or the engine, has failed it.
  std::optional<std::string> failure{};
  std::int64_t seq = 0; ///< how many transitions it has made

  /// Its result, decoded. Errors: `codec`, it is not of that type; `invalid_argument`: it
  /// has failed, as the message tells, and has none.
  template <class T>
  gd::result<T> result_as() const {
    return result ? from_json<T>(*result) : without_result();
  }

  /// The same of a machine that encrypts. One more error, `cipher`.
  template <class T>
  gd::result<T> result_as(const cipher& by) const {
    return result ? from_json<T>(*result, by) : without_result();
  }

  /// Why it has none.
  error without_result() const;

  GD_STATE(awaited, id, fsm, version, status, result, failure, seq);
};

/// Asks for a page of an instance's history.
struct history_query {
  std::int64_t id = 0; ///< the instance; or `key`
  /// The first entry of the page. Empty: the first of all, or the newest.
  std::optional<std::int64_t> from_seq{};
  std::int32_t limit = 100;  ///< entries of the page at the most; 1 to 1,000
  bool newest_first = false; ///< backwards
  /// In the place of `id`: the instance that has this unique key now. If nobody has, the
  /// page is empty.
  std::optional<std::string> key{};

  GD_STATE(history_query, id, from_seq, limit, newest_first, key);
};

/// A transition of an instance, as the ledger has it.
struct ledger_entry {
  std::int64_t seq = 0;     ///< the instance's, behind it; 0: how it began
  std::int64_t at_us = 0;   ///< when; microseconds since 1970
  std::int32_t version = 0; ///< the machine's
  /// insert, or fork; next, replay, await, done or stop; reap: its lease was over; fail:
  /// it could not be run; transition: from outside; rewind: it was put back.
  std::string outcome{};
  std::optional<std::string> from_step{}; ///< none where it begins
  std::string to_step{};                  ///< where it stands then
  std::int32_t attempt = 0;               ///< the instance's, behind it
  std::optional<std::string> token{};     ///< of the lease that it ended
  std::optional<std::string> by{};        ///< who made it from outside
  /// Why the step was woken: signal or timeout.
  std::optional<std::string> wake_reason{};
  /// Why `stop` or the engine has failed it; what the handler was given, whatever it made
  /// of that; or why it was moved from outside.
  std::optional<std::string> reason{};
  /// What `with` has attached; of a rewind the entry it went back to, {"seq": 3}, of a
  /// fork that and whose it is, {"id": 7, "seq": 3}.
  std::optional<json> metadata{};
  std::optional<json> state{}; ///< behind it, if the history has states
  /// How many inserts, signals and statements the outcome has carried; empty: none.
  std::optional<std::int64_t> effects{};

  GD_STATE(ledger_entry, seq, at_us, version, outcome, from_step, to_step,
           attempt, token, by, wake_reason, reason, metadata, state, effects);
};

/// The answer to `history_query`.
struct history_page {
  /// In their order, or backwards. Fewer than the limit if they are long: the last page
  /// is empty.
  std::vector<ledger_entry> rows{};

  GD_STATE(history_page, rows);
};

/// Puts an instance back to the step and the state of an entry of its history, which
/// must have states. Signals consumed since then do not come back, and are still known by
/// their dedup keys; those in the inbox stay there.
struct rewind {
  /// The instance, or `key`; it must not execute.
  std::int64_t target = 0;
  std::int64_t seq = 0;                ///< the entry
  std::optional<std::string> reason{}; ///< why; over 8 KiB, it is cut
  std::optional<std::string> by{};     ///< who does it: a name
  /// In the place of `target`: the instance that has this unique key when it is put back.
  std::optional<std::string> key{};

  GD_STATE(rewind, target, seq, reason, by, key);
};
/// Makes an instance that begins at the step and the state of an entry of another one's
/// history, which must have states: with its machine's version, priority and partition
/// key, without a unique key, and with an empty inbox.
struct fork {
  std::int64_t target = 0;             ///< the other one; or `key`
  std::int64_t seq = 0;                ///< the entry
  std::string queue{};                 ///< empty: that one's
  std::optional<std::string> reason{}; ///< why; over 8 KiB, it is cut
  std::optional<std::string> by{};     ///< who does it: a name
  /// In the place of `target`: the other one's unique key, which it has now.
  std::optional<std::string> key{};

  GD_STATE(fork, target, seq, queue, reason, by, key);
};

/// Deletes instances that have ended, in pages of all instances in the order of their ids.
struct prune {
  std::string fsm{};        ///< of which machine; empty: of any
  std::int32_t version = 0; ///< of which version of it; 0: of any
  std::string status{};     ///< "done", or "failed"; empty: both
  /// How long ago they have ended, at least a minute: until then what made them might be
  /// sent again, and make them anew.
  std::int64_t age_us = 0;
  std::int64_t after = 0;    ///< behind this instance
  std::int32_t page = 1'000; ///< of so many instances, 1 to 10,000
  bool only_count = false;   ///< nothing is deleted
};

/// What has come of a page.
struct pruned {
  std::optional<std::int64_t>
    last{};                  ///< where the next one begins; nullopt: nowhere
  std::int64_t examined = 0; ///< at how many instances
  std::int64_t found = 0;    ///< how many it is about
  std::int64_t deleted = 0;  ///< of these; the others may be locked
  std::int64_t refused
    = 0; ///< of these: something refers to them, or keeps them
};

/// Asks for instances that are in a step: of those with history.
struct in_step_query {
  std::string fsm{};  ///< the machine's name
  std::string step{}; ///< that runs next, or ran last
  /// As in `instance`; empty: any. Instances in the step with another one are passed
  /// over: a page of one that few of them have reads all that are there.
  std::string status{};
  /// Instances with ids below this one. Empty: all.
  std::optional<std::int64_t> before{};
  std::int32_t limit = 100; ///< instances at the most; 1 to 1,000

  GD_STATE(in_step_query, fsm, step, status, before, limit);
};

/// An instance that is in a step.
struct in_step_row {
  std::int64_t id = 0;            ///< the instance
  std::int32_t version = 0;       ///< its machine's
  std::string status{};           ///< as in `instance`
  std::int64_t seq = 0;           ///< how many transitions it has made
  std::int64_t updated_at_us = 0; ///< when it was changed last

  GD_STATE(in_step_row, id, version, status, seq, updated_at_us);
};

/// The answer to `in_step_query`.
struct in_step_page {
  std::vector<in_step_row> rows{}; ///< the newest first

  GD_STATE(in_step_page, rows);
};

/// How many instances of one machine in one queue have one status.
struct stats_row {
  std::string queue{};        ///< its name
  std::string fsm{};          ///< the machine's name
  std::int32_t version = 0;   ///< the machine's
  std::string status{};       ///< as in `instance`
  std::int64_t instances = 0; ///< how many
  /// Of those, runnable later than now.
  std::int64_t future = 0;
  /// Of those, runnable now, but behind another of their partition key.
  std::int64_t held_back = 0;
  /// A node that lives has the machine, and serves the queue.
  bool served = false;

  GD_STATE(stats_row, queue, fsm, version, status, instances, future, held_back,
           served);
};

/// A version of a machine, as nodes have made it known.
struct machine_row {
  std::string fsm{};                ///< its name
  std::int32_t version = 0;         ///< its version
  std::string initial_step{};       ///< of inserts that name none
  std::string queue{};              ///< of inserts that name none
  std::vector<std::string> steps{}; ///< in no particular order
  std::int64_t nodes = 0;           ///< that live, and serve it
  /// When it was known to be served last; microseconds since 1970.
  std::optional<std::int64_t> last_served_us{};
  bool pinned = false;  ///< inserts that name no version mean this one
  bool retired = false; ///< it takes no more inserts; its instances go on

  GD_STATE(machine_row, fsm, version, initial_step, queue, steps, nodes,
           last_served_us, pinned, retired);
};

/// A node, as it has made itself known.
struct node_row {
  std::string node{};                ///< `config::node`
  std::string incarnation{};         ///< what its lease tokens begin with
  std::string host{};                ///< its host's name
  std::int32_t process = 0;          ///< its number there
  std::string library{};             ///< the version of this library
  bool lives = false;                ///< it has its connection to the database
  std::int64_t started_at_us = 0;    ///< microseconds since 1970
  std::int64_t seen_at_us = 0;       ///< when it was heard of last
  std::int32_t slots = 0;            ///< of all its queues
  std::vector<std::string> queues{}; ///< that it serves
  std::vector<std::string> machines{}; ///< that it serves: "Order v2"

  GD_STATE(node_row, node, incarnation, host, process, library, lives,
           started_at_us, seen_at_us, slots, queues, machines);
};

/// Where something may wait that no node which lives runs.
struct not_served_row {
  std::string queue{};         ///< its name
  std::string fsm{};           ///< the machine's name
  std::int32_t version = 0;    ///< the machine's
  bool version_served = false; ///< in another queue, it is run

  GD_STATE(not_served_row, queue, fsm, version, version_served);
};

/// Asks for the counts of everything. Reads the whole table.
struct stats_query {
  GD_STATE(stats_query);
};

/// The answer to `stats_query`.
struct stats {
  std::vector<stats_row> rows{}; ///< one for each combination that occurs

  GD_STATE(stats, rows);
};

/// A name as it may stand in the database: 1 to `limits::name` bytes of UTF-8
/// without control characters, those of bidirectional text among them. `what`
/// begins the error's sentence. The error: `invalid_argument`.
result<void> check_name(std::string_view what, std::string_view name,
                        const limits& bounds);

/// Text that a text column takes whatever it was: broken UTF-8 and NUL become
/// question marks, what is over `most` bytes is cut.
std::string clean_text(std::string_view text, std::size_t most);

/// Text for terminals and logs: what controls them, or the direction of what they
/// show, comes out as `\u0085`, which in JSON stands for the same, and broken UTF-8
/// as question marks.
std::string printable(std::string_view text);

/// Behind what is said of a name that nobody has: "; did you mean order?", of the known one
/// that differs by the fewest letters, at most a third of its own (rounded up where both
/// begin with the same two): left out, added, another, or two that have changed places.
/// Empty: there is none. Capital letters of ASCII count as small ones. (`gd_unknown` says
/// the same in SQL.)
std::string meant(std::string_view name, const std::vector<std::string>& known);

/// A unique key as it is shown: as it is, if it is UTF-8 without control characters, those
/// of bidirectional text among them, and does not begin with \\x; else \\x and the
/// hexadecimal digits of its bytes. So no two keys are shown alike.
std::string key_text(std::string_view key);

/// Whether an instance is named: by its id, or by a unique key of 1 to
/// `limits::unique_key` bytes beside an id of 0. `what` is the id's name, which begins the
/// error's sentence. The error: `invalid_argument`.
result<void> check_address(std::string_view what, std::int64_t id,
                           const std::optional<std::string>& key,
                           const limits& bounds);

/// Whether it is a W3C traceparent, if it is there. The error: `invalid_argument`.
result<void> check_traceparent(const std::optional<std::string>& x);

/// What messages call an instance, behind that word: 7, or with the unique key order 42.
std::string address_text(std::int64_t id,
                         const std::optional<std::string>& key);

/// Whether an end can be awaited: its instance is named, and the time is one. The error:
/// `invalid_argument`.
result<void> check(const await_result& x, const limits& bounds);

/// Whether this is JSON that the database can take, of at most `most` bytes, as it
/// is and as PostgreSQL prints it. `what` begins the error's sentence. Errors:
/// `codec`, `invalid_argument`.
result<void> check_size(std::string_view what, const json& value,
                        std::size_t most);

/// The same of text that nobody has parsed yet.
result<void> check_document(std::string_view what, const json& value,
                            std::size_t most);

/// Whether an insert can be, as far as can be told without its machine. Errors:
/// `invalid_argument`, `codec`.
result<void> check(const insert& x, const limits& bounds);

/// Whether a state's text looks like an object, as far as its first character
/// tells.
bool begins_object(const json& state);

/// Whether a state is the JSON text of an object. Error: `codec`.
result<void> check_object(const json& state);

/// The error of an insert whose unique key an instance of another machine, `fsm`, has.
error of_another_machine(std::string_view key, std::int64_t holder,
                         std::string_view fsm);

/// Whether a signal can be sent, as far as can be told without the database: its
/// target, its name, its payload, its key. Errors: `invalid_argument`, `codec`.
result<void> check(const signal& x, const limits& bounds);

/// The same of a transition.
result<void> check(const transition& x, const limits& bounds);

/// Whether a page may have so many rows: 1 to 1,000. Error: `invalid_argument`.
result<void> check_limit(std::int32_t limit);

} // namespace gd
