#pragma once

#include <gd/engine/queue/elsewhere.hpp>
#include <gd/network/workers/link_channel.hpp>
#include <gd/network/workers/link_codec.hpp>
#include <gd/pq/database.hpp>

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

/// A link's end at the engine's node: one worker, by its incarnation, over all of its
/// joinings. Knows which executions the worker holds, and for how much more it has asked.
/// A plain state machine, as `link_worker` is.
///
/// Whoever is silent for too long, or cut off, has its leases run out: they are
/// *suspended*, nobody extends them. If it is back before they are over, what it names
/// goes on; what it does not name, and what is over, has crashed.
class link_host {
public:
  using clock = database::clock;
  using key = link::held_id;

  struct settings {
    std::string node{};
    std::vector<link::offered_machine> machines{};
    std::vector<std::string> queues{};
    struct limits limits {};
    clock::duration ping{std::chrono::seconds{1}};
    clock::duration silence{std::chrono::seconds{5}};
    /// A lease that is over is another's after this time at the earliest.
    clock::duration slack{std::chrono::seconds{1}};
  };

  /// What the owner of an execution is to know.
  struct report {
    using what = elsewhere::report::what;
    what kind = what::outcome;
    key which{};
    std::string queue{};
    /// The owner's number; 0: nobody here knows the execution.
    std::uint64_t tag = 0;
    link::outcome outcome{};
    std::string why{};
    bool told = false; ///< of a crash: by the worker
    /// Its process has ended, as far as one can tell.
    bool process_gone = false;
    std::int64_t took_us = 0;
  };

  link_host(std::string incarnation, settings how);

  /// Why such a worker cannot be joined; nullopt: it can.
  static std::optional<std::string> refusal(const link::join& x,
                                            const settings& how);

  // -- the connection -----------------------------------------------------------

  /// The worker joins, or joins again. `epoch` is higher than all before.
  void join(const link::join& x, std::uint64_t epoch, clock::time_point now);

  /// The connection is gone; `gone`: and with it the process, as far as one can tell.
  void cut(bool gone);

  void receive(const link::packet& x, clock::time_point now);

  /// No more work goes out.
  void close(const std::string& why);

  // -- executions ---------------------------------------------------------------

  /// How many rows of a queue it wants.
  std::int32_t room(const std::string& queue) const;

  /// Whether it wants this one.
  bool takes(const std::string& queue, const std::string& fsm,
             std::int32_t version, std::size_t bytes) const;

  /// It is to have the row, whose lease is in force until then.
  void hand_out(const std::string& queue, std::uint64_t tag, const key& which,
                store::picked_row row, clock::time_point until,
                clock::time_point now);

  /// What has become of an outcome. With a next token, `tag` and `until` are those of
  /// what is to go on; returns whether it does, with the worker.
  bool complete(link::completed answer, std::uint64_t tag,
                clock::time_point until, clock::time_point now);

  /// Another has the lease.
  void lose(const key& which);

  /// The owner of that queue's executions is gone, and knows none any more.
  void drop(const std::string& queue);

  /// What was held at `at` and is not suspended has its lease until then.
  void extended(clock::time_point at, clock::time_point until);

  // -- driving ------------------------------------------------------------------

  void tick(clock::time_point now);
  clock::time_point due() const;

  std::vector<link::packet> take_packets() {
    return channel_.take_packets();
  }
  std::vector<report> take_reports() {
    return std::exchange(reports_, {});
  }

  bool joined() const noexcept {
    return channel_.open();
  }
  /// Why it is not joined any more.
  const std::string& why() const noexcept {
    return why_;
  }
  bool parting() const noexcept {
    return parting_;
  }
  const std::string& node() const noexcept {
    return node_;
  }
  const std::string& incarnation() const noexcept {
    return incarnation_;
  }
  /// It has run something to its end: what ends its process next may be to blame.
  bool proven() const noexcept {
    return proven_;
  }
  std::size_t holds() const noexcept {
    return held_.size();
  }
  std::size_t suspended() const;
  bool holds(const key& which) const {
    return held_.contains(which);
  }

private:
  enum class state : std::uint8_t {
    running,
    reported,  ///< its outcome is with the owner
    completed, ///< its function has not returned
  };

  struct entry {
    std::string queue{};
    std::uint64_t tag = 0;
    state now = state::running;
    bool suspended = false;
    clock::time_point since{};
    clock::time_point until{};
    std::int32_t tries = 0;
    bool over = false;
    bool forgotten = false;                      ///< by the worker
    link::verdict fate = link::verdict::applied; ///< of one that is completed
  };
  using entries = std::map<key, entry>;

  struct sent_work {
    std::uint64_t number = 0;
    std::string queue{};
    std::int64_t bytes = 0;
  };

  template <class T, class F>
  void read(const link::packet& x, F f);
  void fail(const std::string& why);
  void tell(const key& which, const entry& of, report::what kind,
            std::string why = {});
  void end(entries::iterator which, const std::string& why, bool gone);
  void resume(const key& which, entry& of);
  void say_again(const key& which, const entry& of, std::int32_t tries);
  std::int64_t left(clock::time_point now) const;
  std::int64_t bytes_left() const {
    return bytes_ - sent_bytes_;
  }
  void forget_sent();

  void on_credit(link::credit x, clock::time_point now);
  /// `is_new`: of this joining.
  void on_outcome(link::outcome x, bool is_new);
  void read_outcome(const link::packet& packet);
  void on_crashed(link::crashed x);
  void on_released(const link::released& x);
  void on_over(const link::over& x);

  std::string incarnation_;
  settings how_;
  std::string node_;
  std::string why_;
  std::vector<link::offered_machine> machines_; ///< of both
  link::channel channel_;
  bool parting_ = false;
  bool proven_ = false;
  entries held_;
  std::uint64_t work_ = 0;
  std::uint64_t credit_ = 0; ///< the number of the last one
  std::map<std::string, std::int32_t> wanted_;
  std::int64_t bytes_ = 0;
  std::deque<sent_work> sent_; ///< since the work that the last credit has seen
  std::map<std::string, std::int32_t> sent_rows_; ///< of these, by queue
  std::int64_t sent_bytes_ = 0;                   ///< of these
  clock::time_point heard_at_{};
  std::vector<report> reports_;
};

} // namespace gd
