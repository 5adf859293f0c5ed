#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/nodes.hpp>

#include <cstdint>

namespace gd {

/// Forgets dedup keys of signals, page by page.
class dedup_sweep final : public sweep {
public:
  using sweep::sweep;

  next begin(clock::time_point) override {
    pages_ = 0;
    return forget_page();
  }

  next finish(const pq::reply& reply, clock::time_point) override {
    if (!reply.ok()) {
      tell_failed(*reply.failure);
      return {};
    }
    auto page = store::read_one<store::forgotten_to>(reply.results.front())
                  .value_or(store::forgotten_to{});
    page_ = page.id.value_or(0);
    bool more = page.id && page.forgotten > 0 && ++pages_ < most_pages;
    return more ? forget_page() : next{};
  }

private:
  /// Signals of a page; one that had some to forget is followed by the next at once, up to so
  /// many.
  static constexpr std::int32_t signals = 5'000;
  static constexpr std::int32_t most_pages = 20;

  next forget_page() const {
    return {pq::unit{{store::forget_dedup(page_, signals)}, false}};
  }

  /// Where the last page ended; and how many pages of this round had some.
  std::int64_t page_ = 0;
  std::int32_t pages_ = 0;
};

} // namespace gd
