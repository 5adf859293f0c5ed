#pragma once

#include <gd/engine/intake/intake.hpp>
#include <gd/engine/queue/batch.hpp>
#include <gd/pq/unit.hpp>
#include <gd/store/store.hpp>
#include <gd/store/transitions.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gd {

/// Requests to instances, whose rows strangers may hold. `Kind` tells signals from
/// transitions: what is sent, whether it may be sent again when its fate is unknown,
/// and what the rows of the answer mean.
template <class Kind>
class target_intake : public intake_base {
public:
  using request = typename Kind::request;
  using reply_row = typename Kind::row;
  using answered = answered_request<typename Kind::answer>;

  explicit target_intake(intake_settings how);

  /// An error: refused at once, and no answer comes.
  result<void> add(std::uint64_t ticket, request what);
  std::optional<pq::unit> begin(clock::time_point now);

  struct report {
    std::vector<answered> answers;
    /// Queues that may have something to pick, for hints.
    std::vector<std::string> queues;
    /// How many ids of signals it has drawn.
    std::int64_t drawn = 0;
    /// What is there to pick is eligible since now.
    static constexpr bool anywhere = false;
  };
  /// `withdrawn`: the unit was not sent, for the sake of its oldest requests; they
  /// all wait again.
  report finish(pq::reply reply, clock::time_point now, bool withdrawn = false);

  /// Answers requests up to `last` that wait to be sent.
  std::vector<answered> give_up(std::uint64_t last, const error& why);

  /// The oldest ticket of the unit under way.
  std::uint64_t oldest_sent() const;

  bool idle() const noexcept {
    return !under_way_ && waiting_.empty();
  }
  clock::time_point due(clock::time_point now) const;

private:
  struct entry {
    std::uint64_t ticket;
    request what;
    std::size_t size;
    /// Its own in this intake.
    std::int64_t number;
    /// Sent before, with unknown fate.
    bool resent = false;
    /// The id that was drawn for it was another's, or another row was in the way.
    bool met_another = false;
    /// A stranger may be inserting its target's unique key.
    bool may_wait = false;
    int locked_tries = 0;
    clock::time_point not_before{};

    std::int64_t key() const noexcept {
      return Kind::key(what, number);
    }
    std::size_t bytes() const noexcept {
      return size;
    }
    bool unsure() const noexcept {
      return may_wait;
    }
  };

  void fail(report& to, std::vector<entry> group, const error& why,
            clock::time_point now, bool withdrawn);
  /// A stranger has locked the target: tried again, or answered.
  void retry_locked(report& to, entry x, clock::time_point now);
  static error target_locked(const entry& x);

  intake_settings how_;
  batcher<entry> waiting_;
  typename batcher<entry>::group group_;
  std::int64_t numbers_ = 0;
};

/// Lock the targets, store, wake.
struct signal_kind {
  using request = signal;
  using answer = signalled;
  using row = store::signal_row;

  /// Whose ids it draws.
  static constexpr std::string_view ids_of = "gen_durable_signals";
  /// Stored twice at worst, if it has no dedup key.
  static constexpr bool resends = true;

  /// Several to one target share a group.
  static std::int64_t key(const signal&, std::int64_t number) noexcept {
    return number;
  }
  /// That it takes while it waits.
  static std::size_t bytes(const signal& x);
  static void add_calls(pq::unit& to, const store::row_refs<signal>& xs,
                        const limits& bounds, bool waits);
  static bool is_unsure(const row&) noexcept {
    return false;
  }
  /// Adds queues for hints.
  static void note_queues(std::set<std::string>& to, row& of);
  /// How many ids of signals it has drawn.
  static std::int64_t drawn(const row&) noexcept {
    return 1;
  }
  /// Nullopt: the target is locked.
  static std::optional<result<signalled>>
  read(const signal& x, const row& said, const limits& bounds, bool resent);
};

/// Move the targets.
struct transition_kind {
  using request = transition;
  using answer = transitioned;
  using row = store::transition_row;

  static constexpr std::string_view ids_of{}; ///< none
  /// The second time it would find a row that has moved: by itself, or another.
  static constexpr bool resends = false;

  /// One after the other.
  static std::int64_t key(const transition& x, std::int64_t) noexcept {
    return x.key ? static_cast<std::int64_t>(std::hash<std::string>{}(*x.key))
                 : x.target;
  }
  static std::size_t bytes(const transition& x);
  static void add_calls(pq::unit& to, const store::row_refs<transition>& xs,
                        const limits& bounds, bool waits);
  static bool is_unsure(const row& x) noexcept {
    return x.answer == store::transition_answer::unsure;
  }
  static void note_queues(std::set<std::string>& to, row& of);
  static std::int64_t drawn(const row& x) noexcept {
    return x.answer == store::transition_answer::moved && !x.queue.empty();
  }
  static std::optional<result<transitioned>>
  read(const transition& x, const row& said, const limits& bounds, bool resent);
};

using signal_intake = target_intake<signal_kind>;
using transition_intake = target_intake<transition_kind>;

extern template class target_intake<signal_kind>;
extern template class target_intake<transition_kind>;

} // namespace gd
