#pragma once

#include <gd/engine/queue/batch.hpp>
#include <gd/engine/queue/carried.hpp>
#include <gd/engine/queue/key.hpp>
#include <gd/engine/queue/lost.hpp>
#include <gd/engine/queue/pick_bisection.hpp>
#include <gd/engine/queue/pick_plan.hpp>
#include <gd/engine/queue/quarantine.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd {

/// A queue's work with the database: transactions that each flush all outcomes
/// that have come in, wake what was parked too late, and pick, in one pipeline. If there is enough to do, a second one goes beside the
/// first, on a connection of its own: the server then works while the other
/// waits for its commit. A plain state machine: no thread, no clock and no
/// connection of its own. Whoever drives it sends what `begin` returns and
/// hands the reply to `finish`.
class turn {
public:
  using clock = database::clock;

  struct settings {
    std::string queue;
    /// "<node>/<incarnation>"; pick numbers are appended.
    std::string incarnation;
    /// Distinguishes the turns of one incarnation, also after restarts.
    std::uint64_t first_pick = 1;
    std::vector<machine_version> machines{};
    std::chrono::milliseconds lease{60'000};
    std::size_t rows = 500;
    std::size_t bytes = 8 << 20;
    std::int32_t inbox = 1'000;
    /// Nothing is deleted that is younger.
    std::chrono::microseconds resend{0};
    /// Of the whole node.
    std::shared_ptr<key_table> keys = std::make_shared<key_table>();
    std::shared_ptr<quarantine> suspects = std::make_shared<quarantine>();
    /// How long suspects are not looked for after none could be taken, unless something
    /// has changed since.
    std::chrono::milliseconds pause_without_suspects{100};
    /// Transactions at the same time, each on its own connection. 1 or 2.
    std::size_t transactions = 1;
    /// A second transaction begins when so many outcomes wait: fewer are better off
    /// in the next.
    std::size_t worth_a_transaction = 50;
    /// Or when there are rows in plenty, and so many are wanted.
    std::int32_t worth_a_pick = 500;
    /// So many rows of a key follow each other, and for so long, before others may
    /// have it.
    std::int32_t key_rows = 100;
    std::chrono::milliseconds key_time{100};
    /// How statements run that outcomes carry.
    effect_settings statements{};
  };

  explicit turn(settings how);
  turn(turn&&) = default;
  turn& operator=(turn&&) = default;

  /// Whether so many outcomes wait that they are worth a second transaction.
  bool under_load() const {
    return waiting_.ready() >= how_.worth_a_transaction;
  }

  /// An outcome or a release to be written; `tag` comes back with its fate. `hold`: the
  /// step is over, and its key may pass on to the key's next row with the outcome.
  void add(std::unique_ptr<store::outcome_row> row, std::uint64_t tag = 0,
           std::optional<store::key_hold> hold = std::nullopt);
  void add(store::outcome_row row, std::uint64_t tag = 0) {
    add(std::make_unique<store::outcome_row>(std::move(row)), tag);
  }

  /// A picked row that is not shown: its state and inbox are asked for as soon as
  /// `begin` may.
  void show(store::unloaded_row row) {
    unloaded_.push({std::move(row)});
  }

  /// Unloaded rows that fulfil `which` are not wanted any more.
  template <class F>
  void forget_unloaded(F which) {
    unloaded_.remove_if([&which](const auto& x) { return which(x.row); });
  }

  /// Picks take rows of these machines from now on.
  void serve(std::vector<machine_version> machines) {
    how_.machines = std::move(machines);
  }

  /// The next pick scans everything. Others begin where the rows of the one
  /// before began, and what appears behind that is not seen: this is to be called
  /// in each poll, and when such rows are known to have come.
  void scan_everything() {
    plan_.scan_everything();
    in_vain_until_ = {};
  }

  /// A key that came with a picked row may go: the row's outcome is committed or
  /// lost, and the step's function has returned.
  void unlock(store::key_hold hold) {
    stays_.erase(hold.key);
    unlocks_.push_back(std::move(hold));
    in_vain_until_ = {}; // the key's next row may be a suspect
  }

  /// Rows may be under this lease token of which nobody knows. The server may still
  /// be at their pick: their lease begins at the latest now.
  void lose(std::string token, clock::time_point now) {
    lost_.add(std::move(token), now + how_.lease);
  }

  struct started {
    /// Which connection the unit is for. Locks of keys live on that of transaction 0.
    std::size_t transaction = 0;
    pq::unit work{};
    /// Not every transaction that might pick does.
    bool picks = false;
    /// It would have looked for suspects, and could not: the next one is to.
    bool leaves_suspects = false;
    /// Bytes that it shows of picked rows at the most, unless one row has more.
    std::int64_t shows = 0;
  };

  /// The next transaction, which picks at most `want` rows, or shows as many bytes
  /// of picked ones as there is `room` for; nullopt if there is nothing to do,
  /// enough is under way, or it is too early after a failure. `suspects`: whether
  /// what it picks may be some, where there are. `pass_on`: at the most so many keys
  /// pass on to their next rows, which count as wanted.
  std::optional<started> begin(std::int32_t want, clock::time_point now,
                               std::int64_t room = 0, bool suspects = true,
                               std::int32_t pass_on = 0);

  /// There are suspects, as far as the last pick could tell.
  bool sees_suspects() const noexcept {
    return suspects_;
  }

  /// What became of an outcome that was added.
  struct flushed {
    enum class verdict : std::uint8_t {
      applied,
      stale,   ///< another lease is in force, nothing was changed
      unknown, ///< sent twice; applied the first time, or stale
      refused, ///< the database does not take this row's data, or `effect`: `why`
      collided, ///< `holder` has the row's unique key: `why`
    };
    std::uint64_t tag = 0;
    std::unique_ptr<store::outcome_row> row;
    verdict what = verdict::applied;
    error why{};
    std::int64_t holder = 0;
    /// Of an `advance` that was applied: its new lease token and its inbox;
    /// nullopt: the inbox is not shown.
    std::string next_token{};
    std::optional<std::vector<raw_signal>> inbox{};
    /// Its key is that of a picked row now, and not to be unlocked.
    bool key_passed_on = false;
    /// What of the outcome is refused, if it is that.
    std::optional<effect_refused> effect{};
  };

  /// What became of a row that was to be shown.
  struct shown {
    store::unloaded_row which{};
    /// Nullopt: its lease is not in force, or it cannot be read: `why`.
    std::optional<store::shown_row> content{};
    std::optional<error> why{};
  };

  struct report {
    std::vector<flushed> rows;
    std::vector<store::picked_row> picked;
    /// So many of `picked`, the first, have the keys of rows that have ended.
    std::size_t passed_on = 0;
    /// The lease token of `picked`.
    std::string token{};
    std::vector<shown> shown_rows{};
    /// There was not enough room to show these.
    std::vector<store::unloaded_row> still_unloaded{};
    /// `picked` are suspects: `quarantine::ended` is to be called for each.
    bool suspects = false;
    /// Which of these is to have a trial.
    std::optional<std::size_t> on_trial{};
    /// Rows that could not be picked for what they hold, and are failed or left out.
    std::vector<pick_bisection::accused> unpickable{};
    /// The pick took as many as it wanted, or failed for one of them: there may be
    /// more.
    bool full = false;
    /// There was a pick, and it left nothing that could have been taken.
    bool exhausted = false;
    /// Until a row is due that the pick has come across; nullopt: it knows of none.
    std::optional<std::chrono::microseconds> due_in{};
    /// How many rows of lost picks were released.
    std::size_t released = 0;
    /// A pick of unknown fate: what it took is released as soon as possible.
    std::optional<std::string> lost_pick{};
    /// The transaction failed and will be tried again by itself.
    std::optional<error> failure{};
    /// What the outcomes of `rows` have carried, and that has happened.
    carried_batch::effect_count carried{};
    /// In which queues that may have left something to pick.
    std::set<std::string> queues{};
    struct waiting_outcome {
      std::int64_t id = 0;
      effect_refused what{};
    };
    /// Outcomes that wait for what they carry, from now on.
    std::vector<waiting_outcome> held_up{};
  };

  report finish(std::size_t which, const pq::reply& reply,
                clock::time_point now);

  /// The last pick took as many rows as it wanted, and saw none with a key: there
  /// may be more than those under way take.
  bool plenty() const noexcept {
    return plan_.plenty();
  }

  /// Keys have passed on from row to row, and are not unlocked yet.
  bool keys_stay() const noexcept {
    return !stays_.empty();
  }

  /// Whether `begin` would wait for what is under way.
  bool occupied(std::int32_t want = 0) const;

  /// How many outcomes more have to come until `begin` does something with them;
  /// max(): nothing before a transaction under way has ended.
  std::size_t missing() const;

  /// How many rows the picks under way want.
  std::int32_t wanted() const;

  /// What an owner that ends in the middle leaves behind.
  struct leftovers {
    /// By transaction in flight: releases the rows of the pick under way there, whose
    /// answer nobody will read, and those of lost picks. To be submitted behind that
    /// pick.
    std::vector<std::optional<pq::unit>> release;
    /// Keys that are in the node's table, and still to be unlocked.
    std::vector<std::string> keys;
    /// Whether the session may have locks of keys from this turn.
    bool locks = false;
  };
  leftovers abandon() const;

  /// Nothing is under way or waits to be written.
  bool empty() const noexcept {
    return under_way() == 0 && waiting_.empty() && unloaded_.empty()
           && unlocks_.empty();
  }

  /// When `begin` has something to do by itself, with `room` to show rows or
  /// without; `max()`: not before `add`.
  clock::time_point due(clock::time_point now, bool room = false) const;

private:
  struct entry {
    std::unique_ptr<store::outcome_row> row; // it moves often
    std::uint64_t tag = 0;
    /// Was in a transaction of unknown fate.
    bool resent = false;
    bool passed_on = false; ///< its key has
    int locked_tries = 0;
    clock::time_point not_before{};
    /// Null: no key may pass on with it.
    std::unique_ptr<store::key_hold> hold{};
    /// Since when it waits for what it carries; unset: it does not.
    clock::time_point held_up_since{};
    int held_up_tries = 0;

    std::int64_t key() const noexcept {
      return row->id;
    }
    std::size_t bytes() const noexcept {
      return row->bytes();
    }
    bool unsure() const noexcept {
      return row->may_collide;
    }
    std::size_t apart() const noexcept {
      return row->carried ? 2 : row->erase ? 1 : 0;
    }
  };

  /// So many rows are shown at once.
  static constexpr std::size_t shown_at_once = 100;

  struct unloaded_entry {
    store::unloaded_row row;
    int locked_tries = 0;
    clock::time_point not_before{};

    std::int64_t key() const noexcept {
      return row.id;
    }
    static std::size_t bytes() noexcept {
      return 1;
    }
    static bool unsure() noexcept {
      return false;
    }
  };

  /// Positions of the statements in the unit; -1: not in it.
  struct layout {
    int release = -1;
    /// Those that write outcomes, `flush_advance` among them.
    std::vector<int> outcomes{};
    int advance = -1;
    int inbox = -1;
    int next_of_keys = -1; ///< `pick_next_of_keys`
    int pick = -1;         ///< behind it `pick_summary`
    int check_keys = -1;
    int hold_keys = -1;
  };

  /// One transaction, from `begin` to `finish`.
  struct in_flight {
    bool under_way = false;
    batcher<entry>::group group{};
    std::vector<unloaded_entry> showing{};
    pick_bisection::step bisects = pick_bisection::step::none;
    /// It picks suspects, by bisection or not.
    bool suspects = false;
    /// `quarantine::picked` is to be called when it has ended.
    bool picks_suspects = false;
    /// `quarantine::changes` when it began.
    std::uint64_t changes = 0;
    layout at{};
    pick_plan::one pick{};
    /// Null: the group's outcomes carry nothing.
    std::shared_ptr<carried_batch> carried{};
    /// Whom its signals are for.
    std::set<std::pair<std::int64_t, std::string>> targets{};
    /// So many has the unit.
    std::size_t calls = 0;
    /// Of so many keys the next row may come.
    std::int32_t passing = 0;
    std::string token{};
    /// Of the rows that go on.
    std::string next_token{};

    bool picks() const noexcept {
      return first_pick() >= 0;
    }
    int first_pick() const noexcept {
      return at.next_of_keys >= 0 ? at.next_of_keys : at.pick;
    }
  };

  /// What a call of the transaction's unit has answered.
  static const pq::rows& rows_of(const pq::reply& x, int call) {
    return x.results[static_cast<std::size_t>(call)];
  }

  std::string draw_token();
  std::size_t under_way() const;
  bool show_some(in_flight& next, pq::unit& work, std::int64_t room,
                 clock::time_point now);
  bool pick_bisected(in_flight& next, pq::unit& work, std::int32_t want,
                     bool first, clock::time_point now);
  void add_bisected(in_flight& next, pq::unit& work, std::int32_t want,
                    const std::vector<std::int32_t>& most,
                    clock::time_point now);
  void add_unlocks(pq::unit& work);
  bool may_pick_suspects(clock::time_point now) const;
  bool pick_suspects(in_flight& next, pq::unit& work, std::int32_t want,
                     bool first, clock::time_point now);
  void write_outcomes(in_flight& next, pq::unit& work, bool may_pick,
                      clock::time_point now);
  std::size_t most_at_once() const;
  /// How long the transaction of such a group may wait for strangers.
  void bound_waits(batcher<entry>::group& group, pq::unit& work,
                   clock::time_point now) const;
  void pass_keys_on(in_flight& next, pq::unit& work, std::int32_t most,
                    clock::time_point now);
  bool may_stay(const entry& x, clock::time_point now) const;
  void pick(in_flight& next, pq::unit& work, std::int32_t want,
            clock::time_point now);
  static void add_pick(in_flight& next, pq::unit& work, pq::call by);
  static store::pick_answer picked(const in_flight& x, const pq::reply& reply);
  static void check_keys(in_flight& next, pq::unit& work);
  store::pick_request make_pick(const in_flight& x, clock::time_point now);
  bool picks_keyed(clock::time_point now);
  pick_bisection& bisection_for(const in_flight& x);
  void pause_picks(const in_flight& after, clock::time_point now);
  void note_picked(const std::vector<store::picked_row>& rows);
  void read(in_flight& x, const pq::reply& reply, report& out,
            clock::time_point now);
  void read_pick(const in_flight& x, const pq::reply& reply, report& to,
                 clock::time_point now);
  void read_keys(const in_flight& x, const pq::reply& reply, report& to,
                 clock::time_point now);
  std::vector<store::picked_row>
  read_passed_on(in_flight& x, const pq::reply& reply, clock::time_point now);
  void read_suspects(const in_flight& x, const pq::reply& reply, report& to,
                     clock::time_point now);
  void read_bisected(const in_flight& x, const pq::reply& reply, report& to,
                     clock::time_point now);
  void end_suspect_pick(const in_flight& x, report& to, clock::time_point now);
  void read_shown(in_flight& x, const pq::reply& reply, report& to);
  void read_outcomes(in_flight& of, const pq::reply& reply, report& to,
                     clock::time_point now);
  void leave_contested(batcher<entry>::group& group, clock::time_point now);
  void carry(in_flight& next, pq::unit& work);
  void run_statements(in_flight& next, pq::unit& work) const;
  void accept_only_all(in_flight& next, pq::unit& work) const;
  bool fail_carried(in_flight& of, const pq::reply& reply, report& to,
                    clock::time_point now);
  bool drop_unapplied(in_flight& of, const pq::reply& reply, report& to,
                      clock::time_point now);
  void fail_statement(in_flight& of, carried_batch::objection guilty,
                      bool passes, report& to, clock::time_point now);
  void decline(in_flight& of, const pq::reply& reply, report& to,
               clock::time_point now);
  void hold_up(entry x, carried_batch::objection why, report& to,
               clock::time_point now, bool delays_others = false);
  void refuse(entry x, effect_refused what, bool alone, report& to);
  static error collision(std::int64_t holder);
  void fail(in_flight& of, const pq::reply& reply, report& to,
            clock::time_point now);
  bool keeps_instead(std::vector<entry>& group, const error& why,
                     clock::time_point now);
  bool fail_shown(in_flight& of, const error& why, report& to,
                  clock::time_point now);
  bool fail_suspects(const in_flight& of, const error& why, report& to,
                     clock::time_point now);
  bool fail_bisected(const in_flight& of, const error& why, report& to,
                     clock::time_point now);
  bool go_on_bisecting(const in_flight& after, clock::time_point now);
  void back_off(clock::time_point now);

  settings how_;
  std::uint64_t picks_;
  batcher<entry> waiting_;
  batcher<unloaded_entry> unloaded_;
  pick_bisection bisection_;
  /// Of suspects: other rows do not wait for it.
  pick_bisection suspect_bisection_;
  pick_plan plan_;
  /// The last transaction wrote no outcomes, and others waited behind it.
  bool outcomes_next_ = false;
  std::vector<in_flight> in_flight_;
  lost_picks lost_;
  std::vector<store::key_hold> unlocks_;
  /// Keys that have passed on here from row to row.
  struct stay {
    std::int32_t rows = 1;
    clock::time_point since{};
  };
  std::unordered_map<std::string, stay> stays_;
  int failures_ = 0;
  clock::time_point not_before_{};
  clock::time_point no_pick_before_{};
  clock::time_point no_passing_before_{};
  /// Before when nothing is erased: something refers to what should have been.
  clock::time_point no_erase_before_{};
  /// See `sees_suspects`; and before when they are not looked for again: after a
  /// failure, and where none could be taken, as long as there are no more changes.
  bool suspects_ = false;
  clock::time_point suspects_at_{};
  clock::time_point in_vain_until_{};
  std::uint64_t changes_then_ = 0;
};

} // namespace gd
