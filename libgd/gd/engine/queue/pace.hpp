#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace gd {

/// How many rows a queue takes ahead of its slots: as many as steps end in the time
/// of a transaction, which begin within a part of the lease, and which there is
/// memory for. Pure: no clock of its own. `in_use` is of a clock that
/// goes only while a slot is in use.
class pace {
public:
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::steady_clock::time_point;

  struct settings {
    /// What has ended within this time tells of the next steps.
    duration window{std::chrono::seconds{1}};
    /// What is ahead is to begin within this time: what cannot is better off with another
    /// node.
    duration in_time{std::chrono::seconds{15}};
    std::int32_t slots = 1;
    /// Rows ahead at the most, and bytes of rows whose outcome is not written yet: of all
    /// queues of the process, and of this one, whatever the others hold.
    std::int32_t prefetch = 0;
    std::int64_t bytes = 16 << 20;
    std::int64_t share = 0;
    /// Bytes of what one transaction picks or shows.
    std::int64_t bytes_at_once = 8 << 20;
  };

  /// For a lease of so long.
  static settings for_lease(duration lease);

  explicit pace(settings how) : how_(how), at_once_(how.slots) {
    // nop
  }

  // -- what has happened ------------------------------------------------------

  void ended() {
    ++ends_;
  }

  /// Slots have been in use for so long by now.
  void note(duration in_use);

  /// A transaction of this number begins, or ends.
  void began(std::size_t transaction, time_point now) {
    begins_[transaction] = {now, last_finish_};
  }
  void finished(std::size_t transaction, time_point now, duration in_use);

  /// How many steps as the last one that was begun can run at the same time.
  void run_at_once(std::int32_t count) {
    at_once_ = count;
  }

  /// So many rows of so many bytes were picked. Those that follow may be smaller.
  void picked(std::size_t rows, std::size_t bytes) {
    note_size(rows, bytes, bytes_per_row_ / 2);
  }
  /// The same of rows that came without their content at first.
  void shown(std::size_t rows, std::size_t bytes) {
    note_size(rows, bytes, bytes_per_row_);
  }

  // -- what follows from that -------------------------------------------------

  /// How many begin within `time`, rather more than less: one that runs may end at
  /// once. As many as there can be while too little is known.
  std::int64_t most_within(duration time) const;

  /// How many rows may wait, for a slot or for a thread.
  std::int64_t most_waiting() const {
    return std::max<std::int64_t>(most_within(how_.in_time), at_once_);
  }

  struct load {
    /// Rows that have a slot.
    std::int32_t running = 0;
    /// Of these, rows that wait for a thread.
    std::size_t waiting = 0;
    /// Rows that will need a slot, and are not with the runners yet.
    std::int64_t coming = 0;
    /// A slot is free, and no row waits for it.
    bool slot_to_fill = false;
    /// Of rows whose outcome is not written yet; and of the other queues' rows.
    std::int64_t bytes = 0;
    std::int64_t of_others = 0;
  };

  /// How many rows to pick; it may be negative.
  std::int32_t wanted(const load& now) const;

  /// Bytes that may be picked or shown.
  std::int64_t room(const load& now) const;

  /// What has ended since the last transaction may be quicker than what ended in it.
  void hurry(duration in_use) {
    speed_ = std::max(speed_, speed_in(last_took_, in_use, last_finish_));
  }

  /// How many samples of the past are kept.
  std::size_t samples() const noexcept {
    return seen_.size();
  }

private:
  /// How many steps had ended when slots had been in use for so long.
  struct sample {
    duration in_use{0};
    std::uint64_t ends = 0;
  };

  struct begin_of_transaction {
    time_point at{};
    sample before{};
  };

  void note_size(std::size_t rows, std::size_t bytes, std::int64_t least) {
    if (rows > 0)
      bytes_per_row_ = std::max(static_cast<std::int64_t>(bytes / rows), least);
  }

  std::int32_t speed_in(duration took, duration in_use,
                        const sample& before) const;

  settings how_;
  std::uint64_t ends_ = 0;
  std::deque<sample> seen_;
  /// At the last note.
  sample now_;
  sample last_finish_;
  duration last_took_{0};
  std::array<begin_of_transaction, 2> begins_{};
  /// How many steps could have ended in the time of a transaction.
  std::int32_t speed_ = 0;
  std::int32_t at_once_;
  /// Of each row that was picked lately.
  std::int64_t bytes_per_row_ = 0;
};

} // namespace gd
