#pragma once

#include <gd/engine/queue/turn.hpp>
#include <gd/engine/step/run.hpp>
#include <gd/pq/database.hpp>
#include <gd/store/lease.hpp>
#include <gd/store/store.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gd {

/// Where an engine's node has rows run that it does not run itself: the seam to its
/// workers. A node that lets none in has none of these. Used by several threads.
class elsewhere {
public:
  using clock = database::clock;

  /// What has become of a row that was handed out.
  struct report {
    enum class what : std::uint8_t {
      outcome,
      crashed,   ///< there will be none: `why`
      released,  ///< it has not begun, and will not
      over,      ///< its function has returned, or its lease is over
      suspended, ///< its lease is not to be extended
      resumed,   ///< it is again
    };
    what kind = what::outcome;
    std::int64_t id = 0;
    std::string token{};
    /// The picker's number; 0: nobody here knows the execution.
    std::uint64_t tag = 0;
    /// Who says so.
    std::string from{};
    /// An outcome; nullopt: it is none, `why`.
    std::optional<store::outcome_row> row{};
    std::int32_t tries
      = 0; ///< how many outcomes of this execution were refused
    run::account ran{};
    std::string fsm{}; ///< an outcome's
    std::int32_t version = 0;
    std::string why{};
    bool told = false; ///< of a crash: not only that its process is gone
    /// Its process has ended, as far as one can tell.
    bool process_gone = false;
  };

  virtual ~elsewhere() = default;

  // -- what pickers call --------------------------------------------------------

  /// `tell` is called from any thread when there is something to collect, or room.
  virtual void enter(const std::string& queue, std::function<void()> tell) = 0;

  /// What is held of that queue is nobody's any more.
  virtual void leave(const std::string& queue) = 0;

  /// There is somebody, or something that one may still hold.
  virtual bool any() const noexcept = 0;

  /// How many rows all of them want.
  virtual std::int32_t room(const std::string& queue) const = 0;

  /// Whether one that holds nothing wants any.
  virtual bool idle(const std::string& queue) const = 0;

  /// Hands the row out to the one with the most room; `alone`: to one that holds
  /// nothing. Returns whose it is now; nullopt: there is no room for it.
  virtual std::optional<std::string>
  hand_out(const std::string& queue, std::uint64_t tag, const held_row& what,
           std::chrono::milliseconds lease, bool alone, clock::time_point now)
    = 0;

  virtual std::vector<report> collect(const std::string& queue) = 0;

  /// What has become of an outcome that `to` has sent. With `next`, the instance goes on
  /// where it was, under `tag` and until `until`; returns whether it does.
  virtual bool complete(const std::string& to, const turn::flushed& of,
                        std::int32_t tries, const held_row* next,
                        std::uint64_t tag, clock::time_point until,
                        clock::time_point now)
    = 0;

  /// An outcome is not written: another has the lease, or, for now, too many wait.
  virtual void refuse(const report& of, bool too_many, clock::time_point now)
    = 0;

  // -- what the heartbeat calls ---------------------------------------------------

  virtual void lose(const std::vector<lease_ptr>& which) = 0;

  /// All leases that there were at `at` are in force until then.
  virtual void extended(clock::time_point at, clock::time_point until) = 0;
};

} // namespace gd
