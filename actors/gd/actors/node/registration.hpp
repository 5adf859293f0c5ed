#pragma once

#include <gd/event.hpp>
#include <gd/pq/database.hpp>
#include <gd/registry.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gd::actors {

/// What a node tells the others of itself, on each new connection and with each
/// beat, and what it hears of its machines then. Nobody runs a machine whose steps
/// or declared transitions another node that lives knows differently: who starts is
/// refused, and who comes back to find its machine replaced withdraws it. Used by
/// several threads.
class registration {
public:
  using clock = database::clock;

  /// Null, both: nothing is withdrawn, and nobody told.
  explicit registration(store::node_record who,
                        std::shared_ptr<const registry> machines = nullptr,
                        std::function<void()> on_withdrawn = {});

  /// What a new connection says before anything else. Neither strangers nor an
  /// older session of the node can hold it up for longer than `wait`, each.
  pq::unit greeting(std::size_t connection_slot,
                    std::chrono::milliseconds wait) const;

  /// The reply. An error: the connection cannot be used; `machine_differs`: none
  /// ever will. What is told of machines goes to `to`.
  result<void> heard(std::size_t connection_slot, const pq::reply& reply,
                     clock::time_point now, std::vector<event>& to);

  /// Says that the node lives, by one of its connections.
  pq::unit beat(std::size_t connection_slot,
                std::chrono::milliseconds wait) const;

  /// The reply to that, if it is one.
  void heard_beat(std::size_t connection_slot, const pq::reply& reply,
                  std::vector<event>& to);

  /// From the next beat on, the others are told where the gateway is found. `secret`: the file
  /// of what is shown at ports, here and at the others'; they are not told of it.
  void publish(std::string address, const std::string& secret);

  /// Of the last place that had one.
  std::string secret() const;

  /// As the others know it.
  std::string host() const;

private:
  bool registered() const;
  void follow(const pq::rows& row, std::vector<event>& to);
  void compare(const pq::rows& with, std::vector<event>& to);
  void tell_changes(const pq::rows& rows, std::vector<event>& to) const;

  std::shared_ptr<const registry> machines_;
  std::function<void()> on_withdrawn_;
  mutable std::mutex mutex_;
  store::node_record who_;
  std::string secret_;
  /// The machines are registered: from now on they are compared with what is.
  bool registered_ = false;
  /// Of the server that it was connected to last; 0: of none yet.
  std::atomic<std::int64_t> timeline_ = 0;
  /// Since when another node is in the way.
  std::optional<clock::time_point> differs_since_;
};

} // namespace gd::actors
