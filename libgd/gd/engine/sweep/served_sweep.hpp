#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <string>
#include <utility>

namespace gd {

/// Keeps up which machines are served, and tells of what waits for nobody.
class served_sweep final : public sweep {
public:
  using sweep::sweep;

  next begin(clock::time_point) override {
    return {
      pq::unit{{store::lock_timeout(stranger_wait), store::machines_lock(),
                store::mark_served({}, true), store::not_served()}}};
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (!reply.ok()) {
      // A node that registers itself has them.
      if (reply.failure->code != errc::busy)
        tell_failed(*reply.failure);
      return {};
    }
    for (auto& x : store::read<not_served_row>(reply.results.back())) {
      auto told = x.queue + '\n' + x.fsm + '\n' + std::to_string(x.version);
      if (here_.said.note(told, now) > 0)
        here_.tell_not_served(std::move(x));
    }
    return {};
  }
};

} // namespace gd
