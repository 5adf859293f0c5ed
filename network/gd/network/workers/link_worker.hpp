#pragma once

#include <gd/network/workers/link_channel.hpp>
#include <gd/network/workers/link_codec.hpp>
#include <gd/pq/database.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// A link's end at the worker, which has no database: what it holds of the engine's
/// executions, what it has told, and until when its leases are in force. A plain state
/// machine: no thread, no clock, no connection. Whoever drives it sends what
/// `take_packets` returns, and does what `take_orders` says.
///
/// An outcome is kept until it is completed, and sent again to whatever engine the worker
/// joins next, under the same token: that fences it. Whatever gets lost in between, or
/// comes twice, ends the joining, and the next one begins with a list of what is held.
class link_worker {
public:
  using clock = database::clock;
  using key = link::held_id;

  struct queue {
    std::string name{};
    std::int32_t slots = 1;
    std::int32_t prefetch = 0; ///< rows that wait for a slot at the most
  };

  struct settings {
    std::string incarnation{};
    std::string node{};
    std::vector<link::offered_machine> machines{};
    std::vector<queue> queues{};
    /// Of rows without an outcome and of outcomes to be completed, unless one has more.
    std::int64_t bytes = 16 << 20;
    /// For an answer to `join`.
    clock::duration patience{std::chrono::seconds{5}};
    /// Before an outcome is sent again that was too much for the engine.
    clock::duration pause{std::chrono::milliseconds{200}};
  };

  enum class phase : std::uint8_t {
    alone,   ///< no connection
    joining, ///< `join` is sent
    joined,
    parting, ///< one of both sides wants to end; what has begun goes on
  };

  /// What is to be done with an execution.
  struct order {
    enum class action : std::uint8_t {
      begin,    ///< `work` says what
      release,  ///< if it has not begun: `release` is to be called
      stop,     ///< its lease ends soon, or is another's
      complete, ///< `answer` says what has become of its outcome
    };
    action what = action::begin;
    key which{};
    std::string queue{};
    link::work work{};
    link::completed answer{};
    /// What the outcome was that is completed.
    store::outcome_row written{};
  };

  explicit link_worker(settings how);

  // -- the connection -----------------------------------------------------------

  /// There is one: asks to join.
  void connected(clock::time_point now);

  /// It is gone, or given up.
  void cut();

  void receive(const link::packet& x, clock::time_point now);

  /// No more work is wanted. What has not begun is ordered back.
  void leave();

  // -- what has become of executions --------------------------------------------

  /// `over`: its function has returned, too.
  void report(const key& which, store::outcome_row row, link::told told,
              bool over);
  void function_over(const key& which);
  void crash(const key& which, std::string why, std::chrono::microseconds took);
  void release(const key& which);

  // -- driving ------------------------------------------------------------------

  /// Once something has happened, and when it is `due`.
  void tick(clock::time_point now);
  clock::time_point due(clock::time_point now) const;

  std::vector<link::packet> take_packets() {
    return channel_.take_packets();
  }
  std::vector<order> take_orders() {
    return std::exchange(orders_, {});
  }

  phase now() const noexcept {
    return phase_;
  }
  /// Why it is alone again; empty: it was never joined, or `cut`.
  const std::string& why() const noexcept {
    return why_;
  }
  /// What the engine has said when it was joined last.
  const link::joined& engine() const noexcept {
    return engine_;
  }
  std::vector<key> held_of(const std::string& of) const {
    std::vector<key> xs;
    for (const auto& [which, one] : held_)
      if (one.queue == of)
        xs.push_back(which);
    return xs;
  }
  std::size_t holds() const noexcept {
    return held_.size();
  }
  bool holds(const key& which) const {
    return held_.contains(which);
  }
  /// All is done that was to be done before leaving, and the engine has heard of it, if
  /// there is one.
  bool has_left() const noexcept {
    return leaving_ && (phase_ == phase::alone || heard_of_leaving_)
           && std::all_of(held_.begin(), held_.end(), [](const auto& x) {
                return x.second.now == state::dead;
              });
  }
  std::int64_t bytes() const noexcept {
    return bytes_;
  }

private:
  enum class state : std::uint8_t {
    running,   ///< or to be begun
    reported,  ///< its outcome is to be completed
    completed, ///< its function has not returned
    dead, ///< to be told as crashed or returned as soon as the engine hears it
  };

  struct entry {
    std::string queue{};
    state now = state::running;
    clock::time_point until{};
    std::int64_t bytes = 0;
    bool stopped = false;
    bool over = false;
    /// The engine has it in its list, too.
    bool resumed = true;
    link::outcome outcome{};
    /// max(): it is sent.
    clock::time_point again_at = clock::time_point::max();
    /// Of a dead one.
    link::packet last_word{};
  };

  using entries = std::map<key, entry>;

  void fail(std::string why);
  void end_joining();
  void send_outcome(entry& x);
  void send_credit(clock::time_point now);
  bool worth_a_credit() const;
  std::int32_t room(const queue& of) const;
  void forget(entries::iterator which);
  /// It has an outcome, or will have none.
  void finished(const entry& x);
  void set_bytes(entry& x, std::int64_t bytes);
  clock::time_point sent_at(std::uint64_t credit) const;
  void order_all_back();
  template <class T, class F>
  void read(const link::packet& x, F f);

  void on_joined(link::joined x, clock::time_point now);
  void on_work(link::work x);
  void on_completed(link::completed x);
  void on_heard(const link::heard& x);
  void on_lost(const link::lost& x);

  settings how_;
  phase phase_ = phase::alone;
  bool leaving_ = false;
  bool heard_of_leaving_ = false; ///< by the engine
  std::string why_;
  link::joined engine_;
  link::channel channel_;
  clock::duration ping_{std::chrono::seconds{1}};
  clock::duration silence_{std::chrono::seconds{5}};
  entries held_;
  std::map<std::string, std::int32_t> unfinished_; ///< by queue
  std::int64_t bytes_ = 0;
  std::uint64_t work_ = 0; ///< the number of the last work
  std::uint64_t credits_ = 0;
  /// Of those that may still be echoed: when they were sent.
  std::deque<std::pair<std::uint64_t, clock::time_point>> sent_;
  /// What the engine believes to be free, by queue.
  std::map<std::string, std::int32_t> granted_;
  std::int64_t granted_bytes_ = 0;
  clock::time_point credit_at_{};
  clock::time_point heard_at_{};
  std::vector<order> orders_;
};

} // namespace gd
