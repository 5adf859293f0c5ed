#pragma once

#include <gd/actors/node.hpp>

#include <gd/pq/complaints.hpp>
#include <gd/pq/store_nodes.hpp>

#include <caf/event_based_actor.hpp>

#include <atomic>
#include <memory>
#include <optional>

namespace gd::actors {

/// Sees between two polls that somebody has made rows due, of whatever queue: whoever
/// does draws an id, and one statement tells the last ones. Ids are drawn before
/// commits, so all pickers are told at once and at the next three looks. What commits
/// later than that is found by the poll, as everything is.
class lookout_actor : public caf::event_based_actor {
public:
  lookout_actor(caf::actor_config& cfg, node_ptr home);

  caf::behavior make_behavior() override;
  const char* name() const override {
    return "gd.lookout";
  }

private:
  /// What is known where the answers come: only news wake the actor.
  struct known {
    std::atomic<bool> under_way = false;
    /// Looks that have failed, one after the other.
    std::atomic<int> failures = 0;
    /// Less those that the gateway has drawn; nullopt: nobody has looked yet.
    std::optional<store::last_ids_row> last{};
    /// At how many looks the pickers are still to be told.
    int tell = 0;

    bool is_news(const pq::reply& reply, const drawn_ids& own);
  };

  void look();
  void finish(const pq::reply& reply);

  node_ptr home_;
  std::shared_ptr<known> known_ = std::make_shared<known>();
  /// After failures.
  database::clock::time_point not_before_{};
  complaints complaints_;
};

} // namespace gd::actors
