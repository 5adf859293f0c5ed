#pragma once

#include <gd/pq/unit.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace gd {

/// Where units of work go. The reactor is the real one; tests bring their own.
class database {
public:
  using clock = std::chrono::steady_clock;
  /// Called on the database's thread, exactly once for each unit.
  using callback = std::function<void(pq::reply)>;

  /// Connections by purpose. Queues share those from `first_queue_slot` on.
  static constexpr std::size_t control_slot = 0; ///< heartbeat, reaper
  static constexpr std::size_t public_slot = 1;  ///< gateway
  static constexpr std::size_t first_queue_slot = 2;

  /// For how long a unit waits until its slot's connection is there and free; then the
  /// reply is `unavailable`, and nothing has been sent.
  struct patience {
    enum class on : std::uint8_t {
      any_connection,
      this_one, ///< the one that there is, behind what is under way, or never
    };
    clock::duration within = clock::duration::max();
    on which = on::any_connection;

    patience() = default;

    /// Waits for a connection, too.
    template <class Rep, class Period>
    patience(std::chrono::duration<Rep, Period> x) : within(x) {
      // nop
    }

    patience(on connection, clock::duration x = clock::duration::max())
      : within(x), which(connection) {
      // nop
    }
  };

  virtual ~database() = default;

  /// Runs a unit on the slot's connection.
  virtual void submit(std::size_t slot, pq::unit work, callback done,
                      patience how)
    = 0;

  /// Calls `then` on the database's thread when so much time has passed; not at all
  /// if the database is stopped before.
  virtual void after(clock::duration time, std::function<void()> then) = 0;

  /// Since when the slot has had its connection; nullopt: it has none.
  virtual std::optional<clock::time_point>
  connected_since(std::size_t slot) const = 0;

  /// `unavailable`: why what waits for the connection slot waits.
  virtual error why_waiting(std::size_t slot) const = 0;
};

} // namespace gd
