#pragma once

#include <gd/error.hpp>
#include <gd/instance.hpp>
#include <gd/pq/database.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/operate.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

/// Who waits for instances to end.
namespace gd {

/// The instances whose ends are awaited, for those that see ends. To be used by any thread.
class awaited_ids {
public:
  /// Whether there are any: all that it costs where nobody waits.
  bool any() const noexcept {
    return count_.load() > 0;
  }

  bool contains(std::int64_t id) const {
    std::lock_guard guard{mutex_};
    return ids_.contains(id);
  }

  void add(std::int64_t id) {
    change([id](auto& ids) { ids.insert(id); });
  }
  void remove(std::int64_t id) {
    change([id](auto& ids) { ids.erase(id); });
  }
  void clear() {
    change([](auto& ids) { ids.clear(); });
  }

private:
  template <class F>
  void change(F f) {
    std::lock_guard guard{mutex_};
    f(ids_);
    count_ = ids_.size();
  }

  mutable std::mutex mutex_;
  std::unordered_set<std::int64_t> ids_;
  std::atomic<std::size_t> count_ = 0;
};

/// Requests for ends that are not answered. One statement looks for all of them in each
/// poll, and one, before that, for those that have just come. What others see end is told
/// without a lookup. A plain state machine with the clock of its driver.
class end_watch {
public:
  using clock = database::clock;

  struct settings {
    struct limits limits {};
    /// Between lookups for all; at least ten times as long as the last one took.
    std::chrono::milliseconds poll{1'000};
    /// Of results that one lookup reads, unless one has more.
    std::size_t bytes = 8 << 20;
    /// Gets the ids that are awaited.
    std::shared_ptr<awaited_ids> ids = std::make_shared<awaited_ids>();
  };

  explicit end_watch(settings how) : how_(std::move(how)) {
    // nop
  }

  struct answer {
    std::uint64_t ticket = 0;
    result<gd::awaited> what;
  };
  using answers = std::vector<answer>;

  /// A request has come; tickets grow. `invalid_argument`: it has not.
  result<void> add(std::uint64_t ticket, const await_result& x,
                   clock::time_point now);

  /// The next lookup, if one is due and none is under way.
  std::optional<pq::call> begin(clock::time_point now);

  /// The look has been answered.
  answers finish(const pq::reply& reply, clock::time_point now);

  /// An instance has ended, and the commit is known.
  answers hear(const gd::awaited& x);

  /// Those have ended, as a stranger says: they are looked for at once.
  void hear_of(const std::vector<std::int64_t>& ids);

  /// The instances that a lookup has found to go on, for those who have just come.
  std::vector<std::int64_t> take_going_on() {
    return std::exchange(going_on_, {});
  }

  /// Those that have waited for as long as they wanted to, and were looked for.
  answers give_up_late(clock::time_point now);

  /// Whoever has asked is gone. False: it has been answered.
  bool remove(std::uint64_t ticket);

  /// All of them are.
  void clear();

  bool empty() const noexcept {
    return waiting_.empty();
  }

  /// When `begin` or `give_up_late` has something to do; max(): not before the lookup
  /// under way has been answered.
  clock::time_point due() const;

private:
  struct waiter {
    std::int64_t id = 0; ///< zero: whoever has `key`, which is not known so far
    std::optional<std::string> key;
    std::int64_t within_us = 0;
    clock::time_point expires;
    /// So many lookups had begun when it came, which tell it nothing.
    std::uint64_t since = 0;
    bool looked_up = false; ///< with or without success
    bool seen = false;      ///< it goes on, as a lookup has found
  };

  struct target {
    std::set<std::uint64_t> tickets;
    /// As a lookup has found it that was the first for somebody.
    std::optional<std::int64_t> seq;
    /// What those cannot be told that have not been looked for: it may have been before
    /// they came.
    std::optional<gd::awaited> heard;
  };

  struct lookup {
    std::vector<std::int64_t> ids{};
    std::vector<std::string> keys{};
    bool poll = false;
    clock::time_point began;
  };

  void read(const store::awaited_row& row, const lookup& of, answers& to);
  void found(std::int64_t id, const store::awaited_row& row, answers& to);
  void goes_on(std::int64_t id, std::int64_t seq, answers& to);
  void fail(const lookup& of, error why, answers& to);
  void name(const std::string& key, std::int64_t id);
  void note_looked_up(std::uint64_t ticket, waiter& x);
  /// Of some, those that the lookup under way, or the last one, was for.
  std::vector<std::uint64_t>
  asked_by(const std::set<std::uint64_t>& some) const;
  void end(std::uint64_t ticket, result<gd::awaited> how, answers& to);

  settings how_;
  std::unordered_map<std::uint64_t, waiter> waiting_;
  std::unordered_map<std::int64_t, target> targets_;
  std::unordered_map<std::string, std::set<std::uint64_t>> keys_;
  /// Of those that were looked for.
  std::set<std::pair<clock::time_point, std::uint64_t>> expiries_;
  /// That somebody has asked for whom no lookup was for.
  std::unordered_set<std::int64_t> fresh_;
  std::vector<std::int64_t> going_on_;
  std::optional<lookup> under_way_;
  std::uint64_t lookups_ = 0;
  clock::time_point poll_at_{};
  /// After a lookup that has failed; and why it has.
  clock::time_point not_before_{};
  std::optional<error> failure_;
};

} // namespace gd
