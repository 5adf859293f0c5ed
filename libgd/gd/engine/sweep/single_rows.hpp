#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/store.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

/// Rows that a sweep returns one by one: their unique key might be another's by now, or the
/// database has refused them together.
class single_rows {
public:
  using clock = database::clock;

  single_rows(sweep_context& here, std::string_view title)
    : here_(here), title_(title) {
    // nop
  }

  void clear() {
    ids_.clear();
  }

  void add(const std::vector<std::int64_t>& ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  /// The next one: one at a time, so that heartbeats come in between. Nullopt: there is none.
  std::optional<pq::unit> next(clock::time_point now) {
    if (ids_.empty())
      return std::nullopt;
    id_ = ids_.front();
    ids_.pop_front();
    bool lease_too = here_.leases.may_reap(now) && !here_.leases.locked(id_);
    return pq::unit{{store::lock_timeout(sweep::stranger_wait),
                     store::return_row(id_, lease_too, here_.how.max_crashes)}};
  }

  /// What became of it. True: it is runnable.
  bool finish(const pq::reply& reply, clock::time_point now) {
    if (!reply.ok()) {
      bool locked = reply.failure->code == errc::busy;
      ++(locked ? returned_.blocked : returned_.refused);
      if (!locked)
        here_.refuse(title_, id_, *reply.failure, now);
      return false;
    }
    auto moved = store::read_one<store::returned_row>(reply.results.back());
    if (moved && moved->runnable) {
      ++returned_.runnable;
      here_.wake({moved->queue});
      return true;
    }
    if (moved)
      ++returned_.blocked;
    return false;
  }

  /// No more of them are tried: tells what has become of those that were.
  void end(clock::time_point now) {
    clear();
    auto sum = std::exchange(returned_, {});
    auto told = std::string{title_} + ": " + std::to_string(sum.blocked) + ", "
                + std::to_string(sum.refused);
    if (sum.runnable > 0
        || (sum.blocked + sum.refused > 0 && here_.said.note(told, now) > 0))
      here_.tell(sum);
  }

private:
  sweep_context& here_;
  const std::string_view title_;
  std::deque<std::int64_t> ids_;
  std::int64_t id_ = 0; ///< the one under way
  events::returned returned_{};
};

} // namespace gd
