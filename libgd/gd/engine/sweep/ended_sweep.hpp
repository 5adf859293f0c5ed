#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <cstdint>

namespace gd {

/// Takes leases away under which nothing executes any more, in pages, soon after
/// they were given: who looks for what executes reads all that stand there.
class ended_sweep final : public sweep {
public:
  using sweep::sweep;

  bool one_for_all() const override {
    return true;
  }

  milliseconds interval() const override {
    return here_.how.poll;
  }

  milliseconds pause(milliseconds usual, clock::time_point) override {
    return found_ ? std::min(usual, soon) : usual;
  }

  next begin(clock::time_point) override {
    return probe({});
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (!reply.ok())
      return give_up(*reply.failure);
    auto page = store::read_one<store::scanned_leases>(reply.results.front())
                  .value_or(store::scanned_leases{});
    found_ = found_ || page.examined > 0;
    return page.examined >= leases && in_time(now) ? probe(page) : next{};
  }

private:
  /// Where rows are picked, and end, more has ended by then.
  static constexpr milliseconds soon{250};
  /// Of a page; a full one is followed by the next at once.
  static constexpr std::int32_t leases = 200;

  static next probe(const store::page_end& after) {
    return {pq::unit{{store::end_leases(leases, after)}, false}};
  }
};

} // namespace gd
