#pragma once

#include <gd/engine/queue/quarantine.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// A queue's suspect that runs alone, or is to; and the notes of trials that are to be
/// written on rows. Before a trial begins it is noted, so that its row tells of it if
/// the process ends with it:
///
///     waiting -> noting -> running
///
/// A plain state machine: whoever drives it keeps the row, sends what `write` returns,
/// and hands the answer to `finish`.
class trials {
public:
  using clock = database::clock;

  struct settings {
    clock::duration heartbeat{std::chrono::seconds{20}};
    /// For so long it is tried to write a note.
    clock::duration lease{std::chrono::seconds{60}};
    /// Of the whole node: is told when the trial is over.
    std::shared_ptr<quarantine> suspects;
  };

  explicit trials(settings how) : how_(std::move(how)) {
    // nop
  }

  // -- the trial --------------------------------------------------------------

  /// This row is to run alone; so many trials were noted on it when it was picked.
  void add(lease_ptr under, std::int32_t noted) {
    trial_.emplace(trial{.under = std::move(under), .noted = noted});
  }

  /// Its content is there.
  void show() {
    trial_->shown = true;
  }

  bool any() const noexcept {
    return trial_.has_value();
  }
  /// Null: there is none.
  lease_ptr under() const {
    return trial_ ? trial_->under : nullptr;
  }
  bool is_of(const lease_ptr& under) const noexcept {
    return trial_ && trial_->under == under;
  }

  /// When it is to be noted; max(): there is none, or it waits for something else than
  /// time.
  clock::time_point begins_at() const {
    return trial_ && trial_->now == stage::waiting && trial_->shown
             ? how_.suspects->begins_at()
             : clock::time_point::max();
  }

  /// Nothing else runs: it begins when that is written.
  void note_begin(clock::time_point now);

  /// One that has run for a heartbeat goes on beside others.
  void end_survived(clock::time_point now);

  /// Its outcome is there, or it does not run.
  void end() {
    trial_.reset();
    how_.suspects->end_trial();
  }

  /// One of which nothing was noted yet does not begin, for now. False: there is none.
  bool cancel() {
    if (!trial_ || trial_->now != stage::waiting)
      return false;
    end();
    return true;
  }

  /// The node stops, and it is not to blame. Returns whether that is to be written.
  bool abandon(clock::time_point now);

  // -- notes ------------------------------------------------------------------

  /// So many trials of this execution; of several notes the last counts. `worker`: whose
  /// process has ended.
  void note(const lease& of, std::int32_t count, clock::time_point now,
            std::optional<std::string> worker = std::nullopt);

  struct written {
    std::vector<store::trials_note> notes;
    /// The id of the row whose trial begins with this; zero: there is none.
    std::int64_t begins = 0;
  };

  /// What is to be written now; nullopt: nothing, or something is under way.
  std::optional<written> write(clock::time_point now) {
    if (notes_.empty() || !sent_.empty() || now < not_before_)
      return std::nullopt;
    return write_rest();
  }

  /// The same at the end, when nobody waits for answers any more.
  written write_rest();

  /// What the trial's own note has led to.
  enum class outcome : std::uint8_t {
    none,    ///< it was not among them
    noted,   ///< it begins
    lost,    ///< over: somebody else has its lease
    unknown, ///< over: a stranger has locked the row, or nobody knows
  };

  /// `answers`: of those that were found; none, if the transaction has failed.
  outcome finish(const std::vector<store::noted_row>& answers,
                 clock::time_point now);

  /// There is no trial, and nothing to write.
  bool empty() const noexcept {
    return !trial_ && notes_.empty() && sent_.empty();
  }
  /// Nothing to do but to wait for an answer.
  bool rests() const noexcept {
    return !trial_ && notes_.empty();
  }

  /// When there is something to do by itself.
  clock::time_point due() const;

private:
  enum class stage : std::uint8_t {
    waiting, ///< for its content, and until nothing else runs
    noting,  ///< the trial is noted on its row
    running, ///< until its outcome, or `until`
  };

  struct trial {
    lease_ptr under{};
    std::int32_t noted = 0;
    stage now = stage::waiting;
    bool shown = false;
    clock::time_point until = clock::time_point::max();
  };

  /// To be written on its row, but not for ever.
  struct pending : store::trials_note {
    clock::time_point until{};
    bool begins = false; ///< its trial
  };

  settings how_;
  std::optional<trial> trial_{};
  /// To be written; those under way; and not before this time.
  std::vector<pending> notes_;
  std::vector<pending> sent_;
  clock::time_point not_before_{};
};

} // namespace gd
