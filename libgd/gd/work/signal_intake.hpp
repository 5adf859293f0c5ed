#pragma once

#include <gd/pq/store.hpp>
#include <gd/pq/unit.hpp>
#include <gd/work/batch.hpp>
#include <gd/work/intake.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gd {

/// Signals: lock the targets, store, wake.
class signal_intake : public intake_base {
public:
  explicit signal_intake(intake_settings how);

  /// An error: refused at once, and no answer comes.
  result<void> add(std::uint64_t ticket, signal what);
  std::optional<pq::unit> begin(clock::time_point now);

  struct report {
    std::vector<answered_request<signalled>> answers;
    /// Queues that may have something to pick, for hints.
    std::vector<std::string> queues;
    /// What is there to pick is eligible since now.
    static constexpr bool anywhere = false;
  };
  /// `withdrawn`: the unit was not sent, for the sake of its oldest requests; they
  /// all wait again.
  report finish(pq::reply reply, clock::time_point now, bool withdrawn = false);

  /// Answers requests up to `last` that wait to be sent.
  std::vector<answered_request<signalled>> give_up(std::uint64_t last,
                                                   error why);

  /// The oldest ticket of the unit under way.
  std::uint64_t oldest_sent() const;

  bool idle() const noexcept {
    return !under_way_ && waiting_.empty();
  }
  clock::time_point due(clock::time_point now) const;

private:
  struct entry {
    std::uint64_t ticket;
    signal what;
    std::size_t size;
    /// Makes every signal its own key: several to one target share a group.
    std::int64_t number;
    /// Sent before, with unknown fate.
    bool resent = false;
    int locked_tries = 0;
    clock::time_point not_before{};

    std::int64_t key() const noexcept {
      return number;
    }
    std::size_t bytes() const noexcept {
      return size;
    }
    bool unsure() const noexcept {
      return false;
    }
  };

  void fail(report& to, std::vector<entry> group, const error& why,
            clock::time_point now, bool withdrawn);
  void read(report& to, entry& x, store::signal_answer said,
            clock::time_point now);
  /// A stranger has locked the target: tried again, or answered.
  void retry_locked(report& to, entry x, clock::time_point now);

  intake_settings how_;
  batcher<entry> waiting_;
  batcher<entry>::group group_;
  std::int64_t numbers_ = 0;
};

} // namespace gd
