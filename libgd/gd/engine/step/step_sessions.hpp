#pragma once

#include <gd/config.hpp>
#include <gd/event.hpp>
#include <gd/pq/complaints.hpp>
#include <gd/pq/connection.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

namespace gd {

/// The connections of a node for steps in transactions. One is made when a step needs it
/// and none is free, up to `effect_settings::connections`; who comes then waits in the order
/// of coming. A node without such steps has none. All but the calls of a loan may block,
/// and any thread may make them.
class step_sessions {
public:
  struct settings {
    pq::options where{};
    effect_settings how{};
    std::chrono::milliseconds lease{60'000};
    std::chrono::microseconds resend{0};
    /// In events: behind those of the reactor.
    std::size_t connection_slot = 0;
    event_sink on_event{};
  };

  explicit step_sessions(settings x);

  const settings& with() const noexcept {
    return with_;
  }

  /// A connection, as long as this is there. What a step has left in its session goes
  /// then, and so does a connection that cannot be used any more.
  class loan {
  public:
    loan() = default;
    loan(step_sessions& of, std::unique_ptr<pq::connection> what);
    loan(loan&& other) noexcept;
    loan& operator=(loan&&) = delete;
    ~loan();

    explicit operator bool() const noexcept {
      return of_ != nullptr;
    }
    bool has_connection() const noexcept {
      return what_ != nullptr;
    }
    pq::connection& operator*() const noexcept {
      return *what_;
    }
    /// In the place of one that is lost.
    void replace(std::unique_ptr<pq::connection> by) {
      what_ = std::move(by);
    }

  private:
    step_sessions* of_ = nullptr;
    std::unique_ptr<pq::connection> what_;
  };

  /// Waits for a connection, and for the server. Empty: `stop` came first. An error: no
  /// server will do.
  result<loan> take(const std::stop_token& stop);

  /// The same beside those of the pool, for who has lost one of them. Null: `stop` came
  /// first.
  result<std::unique_ptr<pq::connection>> connect(const std::stop_token& stop);

  /// How many there are, in use or not.
  std::size_t count() const;

private:
  using clock = std::chrono::steady_clock;

  struct waiting {
    std::condition_variable_any called{};
    bool may = false;
  };

  std::unique_ptr<pq::connection> take_free();
  bool enter(const std::stop_token& stop);
  void leave(std::unique_ptr<pq::connection> with);
  static bool clean(pq::connection& x);
  void complain(const error& why, std::chrono::milliseconds pause);

  const settings with_;
  mutable std::mutex mutex_;
  std::size_t used_ = 0; ///< places that steps have
  std::list<waiting*> waiting_;
  std::vector<std::unique_ptr<pq::connection>> free_;
  complaints complaints_;
};

} // namespace gd
