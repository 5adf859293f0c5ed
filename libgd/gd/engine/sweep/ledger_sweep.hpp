#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/nodes.hpp>

#include <cstdint>

namespace gd {

/// Deletes entries of histories that are older than machines keep them: a page of
/// instances in each round.
class ledger_sweep final : public sweep {
public:
  using sweep::sweep;

  void prepare(pq::unit& work) override {
    ask(work, store::trim_ledger(trimmed_, instances, entries));
  }

  void prepared(const pq::reply& reply, clock::time_point) override {
    trimmed_ = store::read_one<store::trimmed_to>(reply.results[at_])
                 .value_or(store::trimmed_to{});
  }

private:
  /// Of a page, and of each its first entries.
  static constexpr std::int32_t instances = 1'000;
  static constexpr std::int32_t entries = 100;

  store::trimmed_to trimmed_{}; ///< where the last page ended
};

} // namespace gd
