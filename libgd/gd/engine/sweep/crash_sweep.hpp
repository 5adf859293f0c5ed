#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/nodes.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gd {

/// Suspects that are charged with ends of processes of which it is known by now that another
/// row has caused them are charged with them no more. Whoever has convicted that row may be
/// gone: each round asks.
class crash_sweep final : public sweep {
public:
  using sweep::sweep;

  void prepare(pq::unit& work) override {
    ask(work, store::open_crashes());
  }

  void prepared(const pq::reply& reply, clock::time_point) override {
    open_.clear();
    for (const auto& x : store::read<store::open_crash>(reply.results[at_]))
      open_.push_back(x.process);
  }

  next begin(clock::time_point) override {
    exonerated_ = 0;
    return open_.empty() ? next{} : exonerate();
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (!reply.ok()) {
      tell_failed(*reply.failure);
      return end();
    }
    auto page = store::read_one<store::exonerated_page>(reply.results.front())
                  .value_or(store::exonerated_page{});
    exonerated_ += static_cast<std::size_t>(page.exonerated);
    bool more = page.examined >= suspects;
    page_ = more ? std::move(page) : store::exonerated_page{};
    return more && in_time(now) ? exonerate() : end();
  }

private:
  /// Of a page: all are looked at, few are written.
  static constexpr std::int32_t suspects = 1'000;

  next exonerate() const {
    return {pq::unit{{store::exonerate(open_, page_, suspects)}, false}};
  }

  next end() {
    if (exonerated_ > 0) {
      here_.tell(events::exonerated{exonerated_});
      std::vector<std::string> queues;
      for (const auto& x : here_.how.queues)
        queues.push_back(x.name);
      here_.wake(queues);
    }
    return {};
  }

  /// Processes that a row is known to have ended, where the last page of suspects ended
  /// that may be charged with that, too, and how many were in this round.
  std::vector<std::int64_t> open_;
  store::exonerated_page page_{};
  std::size_t exonerated_ = 0;
};

} // namespace gd
