#pragma once

#include <gd/engine/step/run.hpp>
#include <gd/pq/database.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <caf/actor.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace gd::actors {

/// A picker's rows that are with the runners, whose steps have begun elsewhere, or
/// which are being released: what has become of each, who has a slot, and when
/// time limits end. Each stays until it is completed and its step's actor is down. The
/// table sends nothing.
///
///     queued -> running -> reported -> completed
///                              |  ^
///                              v  |
///                            refused
///
/// From everywhere to `completed`, if there will be no outcome; from `queued` to
/// `reported`, with the runners, who do not tell when a step begins. That a function
/// has not returned is another matter: it may go on when a handler actor has long
/// reported.
class step_table {
public:
  using clock = database::clock;

  enum class state : std::uint8_t {
    queued,    ///< with the runners, or waiting for a thread
    running,   ///< begun, and without an outcome
    reported,  ///< the outcome is with the turn
    refused,   ///< the outcome was not taken: a handler actor calls the handler
    completed, ///< the outcome is committed or lost, or there is none
  };

  /// What a step needs that has a time limit, as asynchronous ones always do.
  struct supervision {
    std::chrono::milliseconds limit{0};
    bool asynchronous = false;
    /// Its function runs on one of CAF's threads.
    bool pooled = false;
    /// max(): the step has not begun.
    clock::time_point due = clock::time_point::max();
  };

  /// A runner runs the step; or nobody: its row is released, or failed, unrun.
  struct queued {};

  /// An actor of its own runs it.
  struct attended {
    /// Null: down.
    caf::actor step{};
    /// Nullopt: it has no time limit.
    std::optional<supervision> care{};
  };

  /// A worker without a database runs it.
  struct on_worker {
    std::string from{};     ///< whose it is
    bool function = true;   ///< has not returned, as far as is known
    std::int32_t tries = 0; ///< of an outcome whose row nobody here knew
  };

  struct row {
    lease_ptr under;
    std::variant<queued, attended, on_worker> kind{};
    /// As far as it is known here: until there is an outcome, what a handler actor would
    /// begin with. Nullopt: a runner has it, or there is none.
    std::optional<gd::run> what{};
    /// Calls the handler, with a copy of that: the step's own actor is down when its
    /// function has returned.
    caf::actor handler_actor{};
    /// To be unlocked when the row is over.
    std::optional<store::key_hold> key{};
    /// Noted on the row when it was picked.
    std::int32_t trials = 0;
    /// Of the picked row, until there is an outcome; of the outcome, until that is
    /// written.
    std::size_t bytes = 0;
    std::size_t unwritten = 0;

    /// Null: it is run here.
    const on_worker* at_worker() const noexcept {
      return std::get_if<on_worker>(&kind);
    }
    /// Null: it has no time limit.
    const supervision* care() const noexcept {
      const auto* own = std::get_if<attended>(&kind);
      return own != nullptr && own->care ? &*own->care : nullptr;
    }
    /// Null: down, the runner's, or there never was one.
    caf::actor actor() const {
      const auto* own = std::get_if<attended>(&kind);
      return own != nullptr ? own->step : nullptr;
    }
  };

  class entry : public row {
  public:
    entry(std::uint64_t number, row of, state begins)
      : row(std::move(of)), tag(number), now_(begins) {
      // nop
    }

    const std::uint64_t tag;

    state now() const noexcept {
      return now_;
    }
    bool has_outcome() const noexcept {
      return now_ == state::reported || now_ == state::completed;
    }
    /// The function has not returned, or waits for a runner or a thread.
    bool has_slot() const noexcept {
      return slot_;
    }
    /// Nothing of the step is left: its function has returned, and its actor is down.
    bool is_down() const noexcept {
      const auto* there = at_worker();
      return !slot_ && !actor() && (there == nullptr || !there->function);
    }
    bool asynchronous() const noexcept {
      return care() != nullptr && care()->asynchronous;
    }

  private:
    friend class step_table;

    state now_;
    bool slot_ = false;
    /// The row runs ahead when its outcome is committed.
    bool advancing_ = false;
  };

  /// A number for a row that is to be added. Those of workers have no slot.
  std::uint64_t draw_tag() noexcept {
    return ++tags_;
  }

  /// One that is queued or running has a slot; one that is released unrun is
  /// reported at once.
  entry& add(std::uint64_t tag, row&& what, state begins);

  /// Null: the row is over.
  entry* find(std::uint64_t tag);

  /// The step waited for a thread: its time counts from here.
  void begin(entry& x, clock::time_point at);

  /// The step's function has returned, or will not begin.
  void leave_slot(entry& x);

  /// `advances`: the row goes on if the outcome is committed.
  void report(entry& x, bool advances);

  void refuse(entry& x);

  void complete(entry& x);

  /// The step needs no limit any more: a handler actor calls the handler.
  void lift_limit(const entry& x);

  /// A row that the runners, or a worker, have not begun: the picker releases it.
  row take_queued(std::uint64_t tag);

  /// Whether the row was over. Its key, if any, is to be unlocked.
  bool forget(entry& x, std::optional<store::key_hold>& key);

  /// Rows whose time is over, as far as the table knows.
  std::vector<entry*> late(clock::time_point now);

  /// `max()`: no row has a limit.
  clock::time_point due() const {
    return limits_.empty() ? clock::time_point::max() : limits_.begin()->first;
  }

  /// Rows that have a slot.
  std::int32_t running() const noexcept {
    return running_;
  }

  /// Of these, steps beside the runners that need one of CAF's threads.
  std::size_t pooled() const noexcept {
    return pooled_;
  }

  /// Rows that run ahead when their outcome is committed.
  std::int32_t advancing() const noexcept {
    return advancing_;
  }

  /// Of picked rows that have no outcome yet.
  std::size_t bytes() const noexcept {
    return bytes_;
  }

  /// How many have a slot whose steps had begun by then.
  std::int32_t running_since(clock::time_point at) const;

  /// From when on no step that runs is younger than that; max(): something is still to
  /// begin or to be written.
  clock::time_point rests_at(clock::duration age) const;

  bool empty() const noexcept {
    return rows_.empty();
  }

  /// How many rows would be left to their leases.
  std::size_t unfinished() const;

  std::unordered_map<std::uint64_t, entry>& all() noexcept {
    return rows_;
  }

private:
  void let_go(row& x) noexcept {
    bytes_ -= std::exchange(x.bytes, 0);
  }

  std::uint64_t tags_ = 0;
  std::unordered_map<std::uint64_t, entry> rows_;
  /// When time limits end, with tags.
  std::set<std::pair<clock::time_point, std::uint64_t>> limits_;
  std::int32_t running_ = 0;
  std::size_t pooled_ = 0;
  std::int32_t advancing_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace gd::actors
