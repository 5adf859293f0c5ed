#pragma once

#include <gd/pq/database.hpp>
#include <gd/pq/ensure.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gd {

/// How a process runs suspects: rows whose process has ended twice or more while
/// they ran. One may have ended it, the others were just there, and nobody can tell
/// which. So few of them begin at once, in all queues together: where one has c
/// crashes, an eighth of the slots to the power of c - 1. A suspect that has an
/// outcome, or has run for a heartbeat, is cleared: it does not count any more, and
/// doubles that number, until all slots may begin with suspects (after a power
/// failure all rows are), and lets the next begin at once. A process that begins knows
/// of none.
/// Where the number is one, the suspect has a *trial*: nothing that began within a
/// heartbeat runs beside it, and nothing else begins. If its process ends then, it is
/// to blame. Shared by the pickers of a node, tells each what the others do.
/// tests/rules/suspects.py simulates it.
class quarantine {
public:
  using clock = database::clock;

  struct taken {
    std::int64_t id = 0;
    std::int32_t crashes = 0;
  };

  // -- queues -----------------------------------------------------------------

  /// `tell` is called from any thread when a trial begins or is over, when a suspect
  /// has ended or is cleared, when a pick is over for which the queue has waited, and, of
  /// the queue that has the trial, when another has come to rest.
  void enter(const std::string& queue, std::int32_t slots,
             clock::duration heartbeat, std::function<void()> tell) {
    std::lock_guard guard{mutex_};
    queues_[queue] = {.slots = slots, .tell = std::move(tell)};
    heartbeat_ = heartbeat;
  }

  /// Whatever it had is over.
  void leave(const std::string& queue) {
    std::lock_guard guard{mutex_};
    queues_.erase(queue);
    std::erase_if(suspects_,
                  [&queue](const auto& x) { return x.second.queue == queue; });
    if (picking_ == queue)
      picking_.reset();
    ++changes_;
    if (trial_ && trial_->queue == queue)
      let_go();
    tell_all();
  }

  // -- suspects ---------------------------------------------------------------

  /// How many suspects may be taken: up to and with one that has two crashes, three,
  /// and so on; those with more have the last number. Nullopt: none, or another queue
  /// picks some. `picked` is to follow what is returned.
  std::optional<std::vector<std::int32_t>> begin_pick(const std::string& queue,
                                                      clock::time_point now) {
    std::lock_guard guard{mutex_};
    if (picking_ || trial_) {
      waits_ = waits_ || picking_;
      return std::nullopt;
    }
    clear_old(now);
    auto begun = static_cast<std::int32_t>(
      std::count_if(suspects_.begin(), suspects_.end(),
                    [](const auto& x) { return !x.second.cleared; }));
    std::vector<std::int32_t> most;
    auto n = slots();
    for (std::int32_t crashes = 2; n > 1 || most.empty(); ++crashes) {
      n = bound(crashes);
      // A trial waits until what has begun has ended, or is cleared.
      most.push_back(n > 1 ? std::max(n - begun, 0) : 1);
    }
    if (*std::max_element(most.begin(), most.end()) == 0)
      return std::nullopt;
    picking_ = queue;
    return most;
  }

  /// These were taken. Returns which one has a trial.
  std::optional<std::size_t> picked(const std::string& queue,
                                    const std::vector<taken>& rows,
                                    clock::time_point now) {
    std::lock_guard guard{mutex_};
    ensure(picking_ == queue, "who has picked was let pick");
    picking_.reset();
    bool waits = std::exchange(waits_, false);
    std::optional<std::size_t> on_trial;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      suspects_[rows[i].id] = {.queue = queue};
      if (!on_trial && bound(rows[i].crashes) == 1)
        on_trial = i;
    }
    if (on_trial) {
      ensure(!trial_, "one suspect has a trial");
      trial_ = {.queue = queue, .since = now};
      held_ = true;
      for (auto& [name, x] : queues_)
        x.rests_at = clock::time_point::max();
    }
    if (on_trial || waits)
      tell_all();
    return on_trial;
  }

  /// Counts what makes room for suspects: whoever has picked in vain picks again when
  /// there was more.
  std::uint64_t changes() const noexcept {
    return changes_;
  }

  /// When the next suspect will have run for a heartbeat; max(): none runs. It is cleared
  /// by `clear`, then.
  clock::time_point clears_at() const {
    std::lock_guard guard{mutex_};
    auto at = clock::time_point::max();
    for (const auto& [id, x] : suspects_)
      if (!x.cleared && x.began)
        at = std::min(at, *x.began + heartbeat_);
    return at;
  }

  void clear(clock::time_point now) {
    std::lock_guard guard{mutex_};
    if (clear_old(now))
      tell_all();
  }

  /// The step of one that was taken begins.
  void began(std::int64_t id, clock::time_point now) {
    std::lock_guard guard{mutex_};
    if (auto found = suspects_.find(id); found != suspects_.end())
      found->second.began = now;
  }

  /// One that was taken has ended: `well`, if there is an outcome; or it was given
  /// back, or its actor has died.
  void ended(std::int64_t id, bool well) {
    std::lock_guard guard{mutex_};
    auto found = suspects_.find(id);
    if (found == suspects_.end())
      return;
    if (well && !found->second.cleared)
      clear(found->second);
    suspects_.erase(found);
    ++changes_;
    tell_all();
  }

  // -- trials -----------------------------------------------------------------

  /// Nothing is to begin but what has the trial.
  bool held() const noexcept {
    return held_;
  }

  /// From when on nothing of this queue stands in the way of a trial; max(): that is
  /// not known yet.
  void rests(const std::string& queue, clock::time_point at) {
    std::lock_guard guard{mutex_};
    auto found = queues_.find(queue);
    if (!trial_ || found == queues_.end() || found->second.rests_at == at)
      return;
    found->second.rests_at = at;
    if (auto owner = queues_.find(trial_->queue);
        owner != queues_.end() && owner != found)
      owner->second.tell();
  }

  /// When the trial may begin: when all queues are at rest, but at most a heartbeat
  /// after nothing else has begun: what runs then has run for as long.
  clock::time_point begins_at() const {
    std::lock_guard guard{mutex_};
    if (!trial_)
      return clock::time_point::max();
    auto at = clock::time_point::min();
    for (const auto& [name, x] : queues_)
      at = std::max(at, x.rests_at);
    return std::min(at, trial_->since + heartbeat_);
  }

  /// It is over, or survived.
  void end_trial() {
    std::lock_guard guard{mutex_};
    let_go();
    tell_all();
  }

private:
  struct queue_state {
    std::int32_t slots = 0;
    std::function<void()> tell{};
    clock::time_point rests_at = clock::time_point::max();
  };

  struct suspect {
    std::string queue{};
    /// Nullopt: it has not yet.
    std::optional<clock::time_point> began{};
    bool cleared = false;
  };

  struct trial {
    std::string queue{};
    clock::time_point since{};
  };

  std::int32_t slots() const {
    std::int32_t n = 0;
    for (const auto& [name, x] : queues_)
      n += x.slots;
    return std::max(n, 1);
  }

  /// How many begin at once where one has so many crashes.
  std::int32_t bound(std::int32_t crashes) const {
    auto n = std::int64_t{slots()} * growth_ >> 3 * std::min(crashes - 1, 20);
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(n, 1, slots()));
  }

  void clear(suspect& x) {
    x.cleared = true;
    growth_ = std::min(2 * growth_, slots());
    ++changes_;
  }

  /// Those that have run for a heartbeat. Returns whether there were some.
  bool clear_old(clock::time_point now) {
    bool some = false;
    for (auto& [id, x] : suspects_)
      if (!x.cleared && x.began && *x.began + heartbeat_ <= now) {
        clear(x);
        some = true;
      }
    return some;
  }

  void let_go() {
    trial_.reset();
    held_ = false;
    ++changes_;
  }

  void tell_all() {
    for (auto& [name, x] : queues_)
      x.tell();
  }

  mutable std::mutex mutex_;
  std::map<std::string, queue_state> queues_;
  clock::duration heartbeat_{std::chrono::seconds{20}};
  /// By id: taken, and not ended.
  std::map<std::int64_t, suspect> suspects_;
  /// By how much more may begin than at first.
  std::int32_t growth_ = 1;
  /// Who is looking for suspects.
  std::optional<std::string> picking_;
  /// Another queue has wanted to, meanwhile.
  bool waits_ = false;
  std::atomic<std::uint64_t> changes_ = 0;
  std::optional<trial> trial_;
  std::atomic<bool> held_ = false;
};

} // namespace gd
