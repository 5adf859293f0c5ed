#pragma once

#include <gd/actors/node/node.hpp>

#include <gd/pq/complaints.hpp>
#include <gd/store/nodes.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace gd::actors {

/// Sees between two polls that somebody has made rows due, of whatever queue: whoever
/// does draws an id, and one statement tells the last ones. Ids are drawn before
/// commits, so all pickers are told at once and at the next three probes. What commits
/// later than that is found by the poll, as everything is. The same of jobs of operators,
/// of which the reaper is told.
/// The same statement tells which queues are paused; a node that is not to probe asks for
/// these alone, once per poll.
///
/// Lives on the database's thread, and is no actor: a probe that sees nothing new
/// wakes nobody. Ends with its last owner.
class change_watcher : public std::enable_shared_from_this<change_watcher> {
public:
  explicit change_watcher(node_ptr home);

  /// The first probe waits for a connection: until then nothing begins.
  void probe();
  /// Sets the alarm for the next one.
  void wait();

private:
  bool probes() const;
  std::chrono::milliseconds interval() const;
  void finish(const pq::reply& reply);
  void see_jobs(std::int64_t last);
  void fail(const error& why);

  node_ptr home_;
  /// Less those that the gateway has drawn; nullopt: it has not looked yet.
  std::optional<store::last_ids_row> last_;
  /// How many probes the pickers are still to be told of.
  int tell_ = 0;
  std::int64_t last_job_ = 0;
  int tell_of_jobs_ = 0; ///< the same, of the reaper
  /// Until the next probe: longer after failures.
  std::chrono::milliseconds pause_;
  complaints complaints_;
};

} // namespace gd::actors
