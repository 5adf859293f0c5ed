#pragma once

#include <gd/actors/node.hpp>

#include <gd/store.hpp>

#include <caf/event_based_actor.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace gd::actors {

/// Returns rows whose lease is over, and wakes rows whose deadline has passed:
/// two sweeps with jittered intervals and bounded batches (spec section 6).
/// Rows whose unique key might collide by that are returned one by one (spec
/// section 8).
class reaper_actor : public caf::event_based_actor {
public:
  reaper_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  const char* name() const override {
    return "gd.reaper";
  }

private:
  enum sweep : std::uint8_t { leases, deadlines };
  /// What a unit of work was.
  enum work : std::uint8_t { lock, batch, one_row, sessions };

  struct progress {
    /// Units of `one_row` that have not been answered.
    std::size_t open = 0;
    events::returned returned{};
    bool full = false;
    bool found = false;
    /// How many intervals the next pause is long.
    std::int32_t pause = 1;
  };

  static std::string_view title(sweep what);
  std::chrono::milliseconds interval(sweep what);
  void start(sweep what);
  void run(sweep what);
  void send(sweep what, work kind, pq::unit unit);
  void finish(sweep what, work kind, const pq::reply& reply);
  void read_leases(const pq::reply& reply);
  void read_deadlines(const pq::reply& reply);
  void read_row(sweep what, const pq::reply& reply);
  void end_sessions(const std::vector<store::reaped_row>& reaped);
  void pause(sweep what);
  bool may_reap();
  void remember(const std::vector<std::int64_t>& locked);

  node_ptr home_;
  /// Rows that strangers have locked, and until when those are left alone that
  /// they have let go since: unset for those that they have not.
  std::map<std::int64_t, std::optional<database::clock::time_point>> locked_;
  std::array<progress, 2> progress_{};
  /// Reaped, with a key that the session of their last holder may still have; of
  /// the first ones it is being asked for.
  std::vector<store::reaped_row> holders_;
  std::size_t ending_ = 0;
};

} // namespace gd::actors
