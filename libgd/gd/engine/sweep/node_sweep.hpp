#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/nodes.hpp>

namespace gd {

/// Forgets nodes that have gone without a word.
class node_sweep final : public sweep {
public:
  using sweep::sweep;

  void prepare(pq::unit& work) override {
    ask(work, store::forget_nodes());
  }
};

} // namespace gd
