#pragma once

#include <gd/engine/step/held_row.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// A queue's rows that are under a lease and have not begun, each with what it waits
/// for. Knows nothing else of them: what may begin, the gate says.
class waiting_rows {
public:
  enum class reason : std::uint8_t {
    slot,    ///< it is prefetched, in the order of the picks
    content, ///< it was picked without, or runs ahead and is not shown yet
    pick, ///< its insert has committed before the pick has ended behind which it comes
    trial, ///< its own: nothing else is to run
  };

  /// Rows that an insert has claimed, and behind which pick they come.
  struct claimed {
    std::uint64_t behind = 0;
    std::vector<held_row_ptr> rows{};
    /// The pick has left rows that come before these.
    bool too_early = false;
  };

  /// Anything but `pick`; one at the most is on trial.
  void add(held_row_ptr row, reason why);

  void add_claimed(std::uint64_t behind, std::vector<held_row_ptr> rows) {
    for (const auto& x : rows)
      came(*x);
    claimed_.push_back({behind, std::move(rows)});
  }

  /// Before all that wait for a slot.
  void add_first(held_row_ptr row) {
    came(*row);
    prefetched_.push_front(std::move(row));
  }

  // -- rows that go on --------------------------------------------------------

  bool any_prefetched() const noexcept {
    return !prefetched_.empty();
  }
  const held_row& next() const {
    return *prefetched_.front();
  }
  held_row_ptr take_next() {
    auto row = gone(std::move(prefetched_.front()));
    prefetched_.pop_front();
    return row;
  }

  /// One that waits for its content; null: it does not any more.
  held_row_ptr take(const store::unloaded_row& which);

  bool contains(const store::unloaded_row& which) const {
    return unloaded_.contains({which.id, which.token});
  }

  /// Null: it has no content yet, has begun, or there is none.
  held_row_ptr take_trial() {
    return gone(std::exchange(trial_, nullptr));
  }

  /// Pick `ended` has ended, and has left something that could have been taken
  /// (`has_backlog`), or nothing; those from `next` on are under way. Claims that do not
  /// wait any more.
  std::vector<claimed> end_pick(std::uint64_t ended, bool has_backlog,
                                std::uint64_t next);

  // -- rows that go back ------------------------------------------------------

  /// Mostly those that have come last; no claims.
  std::vector<held_row_ptr> take_last(std::size_t count);

  /// All that were picked, but this one.
  std::vector<held_row_ptr> take_picked(const lease_ptr& but);

  std::vector<held_row_ptr> take_all();

  // -- what there is ----------------------------------------------------------

  std::size_t count(reason why) const;

  std::size_t size() const {
    return count(reason::slot) + count(reason::content) + count(reason::pick)
           + count(reason::trial);
  }

  /// Of all of them.
  std::size_t bytes() const noexcept {
    return bytes_;
  }

private:
  void came(const held_row& x) {
    bytes_ += x.row().bytes();
  }
  /// Null: there was none.
  held_row_ptr gone(held_row_ptr x) {
    if (x)
      bytes_ -= x->row().bytes();
    return x;
  }

  std::deque<held_row_ptr> prefetched_;
  /// By id and token.
  std::map<std::pair<std::int64_t, std::string>, held_row_ptr> unloaded_;
  std::vector<claimed> claimed_;
  held_row_ptr trial_;
  std::size_t bytes_ = 0;
};

} // namespace gd
