#pragma once

#include <gd/effect.hpp>
#include <gd/instance.hpp>
#include <gd/pq/read.hpp>
#include <gd/pq/unit.hpp>
#include <gd/registry.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gd {
class lease;
}

namespace gd::pq {

/// Of the columns ids, names, payloads and traces.
template <>
struct cell_reader<std::vector<raw_signal>> {
  int ids, names, payloads, traces;

  cell_reader(const rows& from, std::string_view name);
  bool is_null(const rows& from, std::size_t row) const;
  std::vector<raw_signal> read(const rows& from, std::size_t row) const;
};

/// Null is null; empty: it is longer than `store::longest_text`.
template <>
struct cell_reader<json> : cell_reader<std::string> {
  using cell_reader<std::string>::cell_reader;

  json read(const rows& from, std::size_t row) const;
};

} // namespace gd::pq

/// One function per statement of sql/: typed values in, a call out; and for those that
/// answer, a struct whose members are the columns: `read` it, or what is beside it.
/// What a statement does, and what a missing row means, stands in the SQL file.
namespace gd::store {

using pq::read;
using pq::read_one;

/// Rows for a call, where they lie: they must outlive it, so temporaries are refused.
template <class Row>
class row_refs {
public:
  struct iterator {
    const Row* const* at;

    const Row& operator*() const {
      return **at;
    }
    iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const iterator&) const = default;
  };

  row_refs() = default;
  row_refs(const std::vector<Row>& rows) {
    for (const auto& x : rows)
      add(x);
  }

  row_refs(const std::vector<Row>&&) = delete;

  template <class... Rows>
    requires(sizeof...(Rows) > 0
             && (std::same_as<Row, std::remove_const_t<Rows>> && ...))
  row_refs(Rows&... rows) : refs_{&rows...} {
    // nop
  }

  void add(const Row& x) {
    refs_.push_back(&x);
  }
  void add(const Row&&) = delete;

  bool empty() const {
    return refs_.empty();
  }
  std::size_t size() const {
    return refs_.size();
  }
  iterator begin() const {
    return {refs_.data()};
  }
  iterator end() const {
    return {refs_.data() + refs_.size()};
  }

private:
  std::vector<const Row*> refs_;
};

// -- picking ------------------------------------------------------------------

/// A row under a lease, as a step gets it: read by `read_pick`, and by a worker's end of a
/// link. `insert_intake` makes some of what it has inserted under a lease,
/// `held_row::after` of what runs ahead, `simulation::show` of the test kit: what one of
/// them leaves out is empty there.
struct picked_row {
  std::int64_t id = 0;
  std::string fsm{};
  std::int32_t fsm_version = 1;
  std::string step{};
  std::string state{};
  std::int32_t attempt = 0;
  std::int32_t crashes = 0;
  std::int32_t trials = 0;
  std::string wake_reason{};
  std::vector<raw_signal> inbox{};
  std::optional<std::string> partition_key{};
  /// The session that holds the key's lock.
  std::string key_session{};
  /// Statuses in which its unique key is taken; empty: it has none.
  std::vector<std::string> unique_scope{};
  std::int16_t history = 0;  ///< a `gd::history`
  std::int64_t seq = 0;      ///< how many transitions it has made
  std::string traceparent{}; ///< that of its insert; empty: none
  /// How many steps have been run since the row was picked.
  std::int32_t steps_ahead = 0;
  /// False: state and inbox are still to be asked for, by `show`.
  bool shown = true;
  std::int64_t due_us = 0; ///< since when it was due
  std::int64_t now_us = 0; ///< when it was picked, by the database's clock
  std::chrono::steady_clock::time_point picked_at{}; ///< the same, by ours

  /// Of state and inbox.
  std::size_t bytes() const noexcept;

  /// The last two are no columns: `read_pick` makes them of others.
  GD_FIELDS(id, fsm, fsm_version, step, state, attempt, crashes, trials,
            wake_reason, inbox, partition_key, unique_scope, history, seq,
            traceparent, due_us, now_us);
};

/// A place in a priority's rows: the time of eligibility and the id. A `_us2000` is
/// in microseconds since 2000 (UTC), PostgreSQL's own count; other times are since
/// 1970.
struct mark {
  std::int32_t priority = 0;
  std::int64_t since_us2000 = 0;
  std::int64_t id = std::numeric_limits<std::int64_t>::min();

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees one in it.
  auto operator<=>(const mark&) const = default;
  GD_FIELDS(priority, since_us2000, id);
};

struct pick_request {
  std::string queue{};
  std::int32_t limit = 1;
  std::vector<machine_version> machines{};
  std::string token{};
  std::chrono::microseconds lease{0};
  std::int32_t inbox = 1'000;
  /// Rows of these priorities are looked at from here on, of others all. By
  /// priority.
  std::vector<mark> from{};
  /// How many rows are looked at where those of several machines, or of keys, are
  /// merged: strangers may have locked some.
  std::int32_t depth = 2;
  /// Take rows with a partition key, too; the three statements below follow.
  bool keyed = false;
  std::vector<std::string> keys_to_leave{};
  std::string last_key{};
  /// Visit keys in turn, also if the first rows are of many.
  bool visit = false;
  /// Ids of rows to pass over, as if strangers had locked them.
  std::vector<std::int64_t> left_out{};
};
pq::call pick(const pick_request& what);

/// What the pick before it in its transaction says of itself: a `pick_summary`.
pq::call tell_pick();

/// Of a pick as a whole.
struct pick_summary {
  bool keyed_rows = false; ///< there are some, whether wanted or not
  /// Strangers had locked some of what was looked at, and there may be more.
  bool deeper = false;
  std::string last_key{};
  std::int64_t now_us2000 = 0; ///< when it was picked
  std::int64_t claimed = 0;    ///< rows
  bool suspects = false;       ///< there are some, for `pick_suspects`
  std::optional<std::int64_t> due_in_us{}; ///< within a day: the next row is
  GD_FIELDS(keyed_rows, deeper, last_key, now_us2000, claimed, suspects,
            due_in_us);
};

struct pick_answer {
  std::vector<picked_row> rows{};
  pick_summary summary{};
  /// The first rows of the priorities that were taken, by priority.
  std::vector<mark> first{};

  /// How many were claimed and not updated: a trigger of somebody's lets no update
  /// through.
  std::size_t refused() const noexcept {
    auto claimed = static_cast<std::size_t>(summary.claimed);
    return claimed - std::min(claimed, rows.size());
  }

  bool has(std::int64_t id) const {
    return std::ranges::find(rows, id, &picked_row::id) != rows.end();
  }
};
/// In pick order, in which the statement does not return them.
pick_answer read_pick(const pq::rows& rows, pick_summary summary = {});

/// What a pick with keys would try, in pick order.
pq::call candidates(const pick_request& what);
struct candidate {
  std::int64_t id = 0;
  std::string place{}; ///< another one, when the row has changed

  GD_FIELDS(id, place);
};
/// Of `what`, the token, the lease and the inbox count; `most`: they are suspects,
/// and no more of them may be taken, as in `pick_suspects`. Read by `read_pick`.
pq::call pick_these(const std::vector<std::int64_t>& ids,
                    const pick_request& what,
                    const std::vector<std::int32_t>& most = {});
/// Of `what`, no marks and no depth; `most`: how many rows may be taken with and
/// before one of two crashes, of three, and so on. `lock_keys`, `check_keys` and
/// `hold_keys` follow. Read by `read_pick`.
pq::call pick_suspects(const pick_request& what,
                       const std::vector<std::int32_t>& most);
/// What that would take, in pick order: rows of `candidate`.
pq::call suspect_candidates(const pick_request& what,
                            const std::vector<std::int32_t>& most);
/// Fails a row that cannot be picked. No row: it has changed, or is locked.
pq::call fail_row(const candidate& which, const std::string& reason);
struct failed_row {
  std::string fsm{};
  std::int32_t version = 1;
  std::string step{};
  std::int32_t attempt = 0;
  std::int64_t seq = 0; ///< before that
  bool failed = false;  ///< false: nothing could be changed

  GD_FIELDS(fsm, version, step, attempt, seq, failed);
};

/// A row that is picked, and not shown.
struct unloaded_row {
  std::int64_t id = 0;
  std::string token{};
};
/// No state or payload is read that prints more bytes.
inline constexpr std::int64_t longest_text = 16 << 20;
/// Of names one character more is read, which makes them somebody else's.
inline constexpr std::size_t longest_name = 1'024;
/// Until so many bytes are shown, one row at least.
pq::call show(const std::vector<unloaded_row>& rows, std::int32_t inbox,
              std::int64_t bytes);
/// Of those that were looked at, in the order of the rows.
struct shown_row {
  std::int64_t id = 0;
  /// Nullopt: its lease is not in force. Empty: longer than `longest_text`, or with
  /// numbers that nobody has checked.
  std::optional<std::string> state{};
  /// A payload that is like that is empty.
  std::vector<raw_signal> inbox{};

  GD_FIELDS(id, state, inbox);
};

pq::call lock_keys();
pq::call check_keys();
/// Of a row that was released.
struct lost_key {
  std::string partition_key{};
  bool elsewhere = false; ///< locked there

  GD_FIELDS(partition_key, elsewhere);
};
pq::call hold_keys();
struct held_key {
  std::int64_t id = 0;   ///< the row's
  std::string session{}; ///< that holds it

  GD_FIELDS(id, session);
};

struct key_hold {
  std::string key{};
  std::string session{};
};
/// What is to be unlocked when a picked row is over; nullopt: it has no key.
std::optional<key_hold> hold_of(const picked_row& row);
/// Behind the outcomes of these rows, in their transaction: the next row of each one's key,
/// as far as its outcome was applied. Of `what`: queue, machines, token, lease, inbox.
pq::call pick_next_of_keys(const pick_request& what,
                           const std::vector<std::int64_t>& ids);
pq::call unlock_keys(const std::vector<key_hold>& holds);

// -- trials -------------------------------------------------------------------

/// How many trials a row has had from which nobody has come back.
struct trials_note {
  std::int64_t id = 0;
  std::string token{};
  std::int32_t trials = 0;
  /// The process of a worker that has ended while it ran the row: its incarnation.
  std::optional<std::string> worker{};
};
/// Each id once. `begins`: whose trial begins; zero: nobody's.
pq::call note_trials(const std::vector<trials_note>& notes,
                     std::int64_t begins = 0);
/// Who is left out is locked, or deleted.
struct noted_row {
  std::int64_t id = 0;
  bool fenced = false; ///< its lease is in force, and the note is made

  GD_FIELDS(id, fenced);
};

// -- outcomes -----------------------------------------------------------------

enum class write_kind : std::uint8_t {
  next,
  replay,
  await,
  done,
  stop,
  release,
  advance, ///< `next` of a row that goes on at once, under a new token
  park,    ///< `next` to a step where the row rests
  finish,  ///< `next` to a step that ends the instance
  later,   ///< `next` with a delay
};

/// The outcome's name; that of the last four is "next".
std::string_view to_string(write_kind x) noexcept;

/// An outcome, encoded and validated, or a release.
struct outcome_row {
  std::int64_t id = 0;
  std::string token{};
  write_kind what = write_kind::release;
  std::string step{};
  std::string state{};
  std::string result{};
  std::int64_t delay_us = 0;
  std::string awaits{};
  std::vector<std::string> awaits_also{};
  std::optional<std::int64_t> timeout_us{};
  std::optional<std::int64_t> until_us{};
  /// A stop's.
  std::string reason{};
  /// What has failed, if the handler has decided. It is the row's last_error then, but
  /// for a stop, which has a reason.
  std::optional<std::string> failure{};
  /// Ids of signals that go with the outcome.
  std::vector<std::int64_t> consumed{};
  /// Ids of signals for which a parked row does not wake.
  std::vector<std::int64_t> seen{};
  /// Its new status may be one in which another row has its unique key.
  bool may_collide = false;
  /// How long the instance is kept that ends by this; nullopt: for ever.
  std::optional<std::int64_t> keep_us{};
  bool erase = false; ///< it is deleted with this, if it can be
  /// It is entered into the ledger.
  bool has_history = false;
  /// For that: JSON, or empty.
  std::string metadata{};
  /// What it carries; mostly nothing: null. Checked, but for what only the database knows.
  std::shared_ptr<gd::effects> carried{};

  std::size_t bytes() const noexcept;

  /// What a step decides; the rest is its engine's.
  GD_FIELDS(what, step, state, result, delay_us, awaits, awaits_also,
            timeout_us, until_us, reason, failure, consumed, seen, may_collide,
            has_history, metadata, carried);
};

/// Whether a picked row's unique key is free while it executes and taken after
/// `what`.
bool may_collide(const picked_row& row, write_kind what);

/// Whether `writer::done`, or `writer::next`, does what `writer::any` would do to this row.
bool is_plain_done(const outcome_row& row);
bool is_plain_next(const outcome_row& row);

/// What writes outcomes. `done` and `next` do for less what `any` does to plain ones;
/// `advance` writes those of that kind, and no other does.
enum class writer : std::uint8_t { done, next, any, advance };

/// What follows from outcomes, beside what is written of their rows: entries of their
/// history; the time at which an instance is to be deleted that has ended; that it is
/// deleted, if it can be.
enum class follow : std::uint8_t { nothing, history, keep, erase };

/// What outcomes have in common that one statement writes.
struct writing {
  writer by = writer::any;
  follow then = follow::nothing;
  /// Of a plain `done` that is kept: for how long.
  std::int64_t keep_us = 0;

  auto operator<=>(const writing&) const = default;
};

/// Of several rows, each id once; a `release` has no history. Read by `read_flush`.
/// `new_token`: of an `advance`. `resend`: nothing is deleted that is younger. Of those to
/// be erased, who is left out may be locked by somebody who only refers to it.
pq::call write_outcomes(const writing& how, const row_refs<outcome_row>& rows,
                        const std::string& new_token = {},
                        std::chrono::microseconds resend = {});

struct flushed_row {
  std::int64_t id = 0;
  bool applied = false;
  /// Not applied because this instance has its unique key; if none: stale.
  std::optional<std::int64_t> holder{};
};
/// Rows left out are locked or deleted.
std::vector<flushed_row> read_flush(const pq::rows& rows);

/// Behind `flush_advance`.
pq::call inbox(const row_refs<outcome_row>& rows, std::int32_t limit);
/// Who is left out has none.
struct inbox_row {
  std::int64_t id = 0;
  /// Nullopt: it is still to be asked for, by `show`.
  std::optional<std::vector<raw_signal>> inbox{};

  GD_FIELDS(id, inbox);
};

/// For the `await` rows among these; nullopt if there are none.
std::optional<pq::call> recheck(const row_refs<outcome_row>& rows);
// What outcomes carry, behind what writes them.

/// An insert that an outcome carries.
struct carried_insert {
  const gd::insert* what = nullptr;
  std::int32_t newest = 0; ///< see `effects::newest`
};
pq::call insert_effects(const std::vector<carried_insert>& rows);
GD_ENUM(insert_fault, none, unknown_machine, version_retired, unknown_step,
        not_runnable);
/// In the order of the inserts.
struct insert_effect_row {
  insert_fault fault = insert_fault::none;
  std::string detail{};
  bool made = false;
  std::string queue{}; ///< empty: it is not due

  GD_FIELDS(fault, detail, made, queue);
};
/// Of the keys of these inserts, which all have one.
pq::call key_holders(const std::vector<carried_insert>& rows);
/// In their order.
struct key_holder_row {
  std::string fsm{};                    ///< the machine of who has it
  std::optional<std::int64_t> holder{}; ///< nullopt: nobody has

  GD_FIELDS(fsm, holder);
};

/// Of rows with history: how many effects their outcomes have carried.
pq::call note_effects(const std::vector<std::int64_t>& ids,
                      const std::vector<std::int64_t>& effects);
/// Before statements of users, which run so.
pq::call users_session(const effect_settings& how);
pq::call users_statement(const sql_statement& what);

/// How long the transaction may wait for a lock, and each statement may take.
pq::call lock_timeout(std::chrono::milliseconds wait,
                      std::optional<std::chrono::milliseconds> each = {});
pq::call lock(const std::vector<std::int64_t>& ids);
pq::call release_lost(const std::vector<std::string>& tokens);

// -- leases and deadlines -----------------------------------------------------

pq::call heartbeat(const std::vector<std::shared_ptr<lease>>& leases,
                   std::chrono::microseconds duration);

struct beat {
  std::int64_t id = 0;
  std::string token{};
  bool extended = false;

  GD_FIELDS(id, token, extended);
};

/// Where a page of rows ended: those of the next one come after it.
struct page_end {
  /// By default, the year 0.
  std::int64_t at_us2000 = -63'115'200'000'000'000;
  std::int64_t id = std::numeric_limits<std::int64_t>::min();
};

/// Takes leases away under which nothing executes any more, the earliest first, of those
/// that it is time to look at.
pq::call end_leases(std::int32_t limit, const page_end& after = {});
/// Where a page of them ended. As many as its limit: there may be more.
struct scanned_leases : page_end {
  std::int64_t examined = 0;
  GD_FIELDS(examined, at_us2000, id);
};

pq::call locked_leases(std::int32_t limit, std::chrono::microseconds soon,
                       const page_end& after = {});
struct ending_lease : page_end {
  bool locked = false;
  bool waits = false; ///< the statement, for a standby

  GD_FIELDS(at_us2000, id, locked, waits);
};

/// `most`: who has had as many trials has caused all its crashes; zero: nobody has.
pq::call reap(std::int32_t limit,
              const std::vector<std::int64_t>& leave_alone = {},
              std::int32_t most = 0);
pq::call wake_due(std::int32_t limit);

struct moved_row {
  std::int64_t id = 0;
  std::string queue{};

  GD_FIELDS(id, queue);
};
/// Ids, for `return_row`.
pq::call due(std::int32_t limit);

struct reaped_row {
  std::int64_t id = 0;
  std::string queue{};
  std::optional<std::string> partition_key{};
  std::string token{}; ///< of the lease that is over, if there is a key

  GD_FIELDS(id, queue, partition_key, token);
};

/// `parked`: the last id of those.
pq::call returning(std::int32_t limit, bool leases, std::int64_t parked = 0,
                   const page_end& expired = {});
struct returning_row {
  std::int64_t id = 0;
  /// When its lease has ended, if that is why.
  std::optional<std::int64_t> expired_us2000{};

  GD_FIELDS(id, expired_us2000);
};

pq::call return_row(std::int64_t id, bool leases, std::int32_t most = 0);
struct returned_row : reaped_row {
  bool runnable = false; ///< false: another has its unique key

  GD_FIELDS(id, queue, partition_key, token, runnable);
};

pq::call sweep_lock(std::string_view sweep); ///< one row, one boolean
pq::call end_session();

// -- inserts, signals ---------------------------------------------------------

/// An insert with everything that it left open filled in.
struct insert_row {
  std::int64_t id = 0;
  /// When the id was drawn; it tells the row from another's under the same id.
  std::int64_t drawn_us = 0;
  std::string fsm{};
  std::int32_t version = 1;
  std::string step{};
  std::string state{};
  std::string queue{};
  std::int16_t priority = 0;
  std::optional<std::int64_t> delay_us{};
  std::optional<std::int64_t> at_us{};
  std::optional<std::string> partition_key{};
  std::optional<std::string> unique_key{};
  std::string unique_scope{}; ///< statuses, joined by commas
  std::optional<std::string> traceparent{};
  std::string token{};      ///< of the lease it begins under; empty: none
  bool resent = false;      ///< sent before, with unknown fate
  std::int16_t history = 0; ///< a `gd::history`
  std::optional<machine::resting> rests{}; ///< it begins where none runs
  /// What the insert has left open, and its machine fills in.
  struct open_fields {
    bool version = false;
    bool step = false;
    bool queue = false;
  };
  open_fields open{};
};

pq::call draw_ids(std::size_t count);
/// Fails if new ids of that table would be others', with a sentence: before a draw.
pq::call check_ids(std::string_view table);
struct drawn_id {
  std::int64_t id = 0;
  std::int64_t drawn_us = 0;

  GD_FIELDS(id, drawn_us);
};
/// Of rows of whatever.
std::vector<std::int64_t> read_ids(const pq::rows& rows);
/// Of rows without unique keys that were not sent before: all or none. As the others
/// it ends its transaction if a version takes no such insert: `version_retired`.
pq::call insert_new(const row_refs<insert_row>& rows);
/// Of rows with a token, which begin as picked under it; otherwise as insert_new.
pq::call insert_claimed(const row_refs<insert_row>& rows,
                        std::chrono::microseconds lease);
struct claimed_row {
  std::int64_t id = 0;
  std::string state{}; ///< as the database has it

  GD_FIELDS(id, state);
};
pq::call insert(const row_refs<insert_row>& rows);
/// What `insert_new` and `insert` do, where some rows are to have history, or rest.
pq::call insert_new_ledger(const row_refs<insert_row>& rows);
pq::call insert_ledger(const row_refs<insert_row>& rows);
pq::call inserted(const row_refs<insert_row>& rows);
struct inserted_row { ///< in no order
  std::int64_t id = 0;
  bool found = false; ///< it is there
  bool taken = false; ///< another's row is
  /// The instance that has its unique key, if it is not there.
  std::optional<std::int64_t> holder{};
  std::string holder_fsm{}; ///< that one's machine

  GD_FIELDS(id, found, taken, holder, holder_fsm);
};

pq::call lock_targets(const row_refs<signal>& signals);
/// Behind `lock_targets`, or `lock_named`, in the same transaction.
pq::call send_signals(const row_refs<signal>& signals, std::int32_t inbox_limit,
                      bool named = false);

/// `unknown`: none of the others, the signal may be stored.
GD_ENUM(signal_answer, unknown, accepted, duplicate, no_such_target,
        target_finished, inbox_full, locked);

/// In the order of the signals.
struct signal_row {
  signal_answer answer = signal_answer::locked;
  /// Not empty: it woke an instance of this queue.
  std::string woken_queue{};
  /// Not empty: a pick in this queue may have passed over the target.
  std::string runnable_queue{};

  GD_FIELDS(answer, woken_queue, runnable_queue);
};

} // namespace gd::store
