#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/nodes.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Ends the sessions of nodes that are silent for longer than their lease.
class session_sweep final : public sweep {
public:
  using sweep::sweep;

  void prepare(pq::unit& work) override {
    ask(work, store::silent_sessions(here_.incarnation));
  }

  void prepared(const pq::reply& reply, clock::time_point now) override {
    auto before = std::exchange(silent_since_, {});
    for (auto& x : store::read<store::silent_session>(reply.results[at_])) {
      auto known = before.find(x.incarnation);
      auto since = known != before.end() ? known->second : now;
      silent_since_.emplace(x.incarnation, since);
      if (!x.may_end || began_ - since >= here_.how.heartbeat)
        silent_.push_back(std::move(x));
      else
        here_.leases.probe_soon();
    }
  }

  next begin(clock::time_point) override {
    return end_next();
  }

  next finish(const pq::reply& reply, clock::time_point) override {
    if (reply.ok())
      ended_ += reply.results.front().size();
    else
      tell_failed(*reply.failure);
    return end_next();
  }

  void forget() override {
    silent_.clear();
    silent_since_.clear();
  }

private:
  next end_next() {
    while (!silent_.empty()) {
      auto which = std::move(silent_.front());
      silent_.pop_front();
      if (which.may_end)
        return {pq::unit{{store::end_silent_session(which)}, false}};
      if (told_.insert(which.incarnation).second)
        here_.tell(events::sessions_not_ended{which.node});
    }
    if (auto count = std::exchange(ended_, 0); count > 0)
      here_.tell(events::sessions_ended{count});
    return {};
  }

  /// Since when nodes have been found silent. They get a heartbeat to say that
  /// they live: a stranger may have held a node's row, or the server stood still.
  std::map<std::string, clock::time_point> silent_since_;
  /// Those of nodes that were silent for so long.
  std::deque<store::silent_session> silent_;
  std::size_t ended_ = 0;
  /// Nodes of which it was told that their sessions cannot be ended.
  std::set<std::string> told_;
};

} // namespace gd
