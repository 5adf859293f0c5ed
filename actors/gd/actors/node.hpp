#pragma once

#include <gd/actors/compat.hpp>
#include <gd/actors/messages.hpp>

#include <gd/claim.hpp>
#include <gd/config.hpp>
#include <gd/database.hpp>
#include <gd/key.hpp>
#include <gd/lease.hpp>
#include <gd/registry.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

/// "picker of <queue>".
inline std::string picker_name(const std::string& queue) {
  return "picker of " + queue;
}

/// Numbers that one actor can use before it meets the next one's range.
constexpr std::uint64_t token_range = std::uint64_t{1} << 40;

/// The supervisor's children by name, for hints from anywhere.
class actor_directory {
public:
  void set(const std::string& name, caf::actor child) {
    std::lock_guard guard{mutex_};
    children_[name] = std::move(child);
  }

  void clear() {
    std::lock_guard guard{mutex_};
    children_.clear();
  }

  /// Null: there is none.
  caf::actor find(const std::string& name) const {
    std::lock_guard guard{mutex_};
    auto found = children_.find(name);
    return found != children_.end() ? found->second : nullptr;
  }

private:
  mutable std::mutex mutex_;
  std::map<std::string, caf::actor> children_;
};

/// What the actors of a node share.
struct node {
  gd::config config;
  std::shared_ptr<const registry> machines;
  /// "<node>/<random 128 bits>".
  std::string incarnation;
  /// Of numbers of picks and claims, over all queues and restarts: each picker and
  /// each gateway starts a range of its own.
  std::atomic<std::uint64_t> token_ranges = 0;
  lease_table leases;
  std::shared_ptr<claim_desk> claims = std::make_shared<claim_desk>();
  std::shared_ptr<key_table> keys = std::make_shared<key_table>();
  actor_directory children;
  std::shared_ptr<database> db;

  void tell(const event& what) const {
    config.on_event(what);
  }

  /// There may be rows to pick in these queues: tells their pickers, those that
  /// there are. What is inserted from now on does not overtake them.
  void wake(const std::vector<std::string>& queues, bool anywhere) const {
    for (const auto& queue : queues) {
      claims->close(queue);
      if (auto picker = children.find(picker_name(queue)))
        anon(picker, hint{anywhere});
    }
  }
};

using node_ptr = std::shared_ptr<node>;

class engine;

/// What the actors of an engine share: for tests that interfere with them.
node_ptr inside(const engine& x);

/// Submits a unit whose reply comes to `self` as `unit_done` with `ticket`; an
/// actor that is gone by then gets nothing.
template <class Self>
void submit(Self* self, database& db, std::size_t lane, pq::unit&& work,
            std::uint64_t ticket,
            database::clock::duration patience
            = database::clock::duration::max()) {
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(self);
  db.submit(
    lane, std::move(work),
    [weak, ticket](pq::reply reply) {
    if (auto strong = caf::actor_cast<caf::strong_actor_ptr>(weak))
      anon(caf::actor_cast<caf::actor>(strong),
           unit_done{ticket, std::make_shared<pq::reply>(std::move(reply))});
    },
    patience);
}

} // namespace gd::actors
