#pragma once

#include <gd/engine/sweep/single_rows.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/store.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

/// Wakes rows whose deadline has passed, in bounded batches. Those whose unique key another
/// may have are returned one by one, wake-ups and leases alike.
class deadline_sweep final : public sweep {
public:
  deadline_sweep(sweep_context& here, std::string_view title)
    : sweep(here, title), singles_(here, title) {
    // nop
  }

  bool one_for_all() const override {
    return true;
  }

  milliseconds interval() const override {
    return here_.how.poll;
  }

  next begin(clock::time_point now) override {
    singles_.clear();
    return wake_batch(now);
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (under_way_ == stage::one_row) {
      found_ = singles_.finish(reply, now) || found_;
      return return_next(now);
    }
    // For one of its rows, maybe: that is told by each of them.
    if (!reply.ok() && under_way_ == stage::batch)
      return send(stage::list, {{store::due(listed_rows)}, false});
    if (!reply.ok())
      return give_up(*reply.failure);
    if (under_way_ == stage::batch)
      return read_batch(reply, now);
    if (under_way_ == stage::find)
      return read_singles(reply.results.front(), now);
    singles_.add(store::read_ids(reply.results.front()));
    return return_next(now);
  }

private:
  /// Of one statement; a full batch is followed by the next at once.
  static constexpr std::int32_t rows = 1'000;
  /// Of a page of those that are returned one by one.
  static constexpr std::int32_t single = 20;
  /// Rows that are tried one by one because not all can be moved together.
  static constexpr std::int32_t listed_rows = 500;

  enum class stage : std::uint8_t {
    batch,   ///< as many rows as one statement moves
    list,    ///< rows that a batch was refused for
    find,    ///< rows whose unique key another may have
    one_row, ///< one of these, by itself
  };

  next send(stage what, pq::unit work) {
    under_way_ = what;
    return {std::move(work)};
  }

  next wake_batch(clock::time_point now) {
    return send(stage::batch, {{store::wake_due(rows), find_call(now)}});
  }

  pq::call find_call(clock::time_point now) const {
    constexpr auto no_more = std::numeric_limits<std::int64_t>::max();
    return store::returning(single, here_.leases.may_reap(now) && expired_,
                            parked_.value_or(no_more),
                            expired_.value_or(store::page_end{}));
  }

  next read_batch(const pq::reply& reply, clock::time_point now) {
    auto woken = store::read<store::moved_row>(reply.results.front());
    if (!woken.empty()) {
      found_ = true;
      here_.tell(events::deadlines_fired{woken.size()});
    }
    here_.wake_queues_of(woken);
    return woken.size() >= static_cast<std::size_t>(rows)
             ? wake_batch(now)
             : read_singles(reply.results[1], now);
  }

  next read_singles(const pq::rows& found, clock::time_point now) {
    std::vector<std::int64_t> ids;
    std::int32_t parked = 0;
    std::int32_t expired = 0;
    for (const auto& x : store::read<store::returning_row>(found)) {
      ids.push_back(x.id);
      ++(x.expired_us2000 ? expired : parked);
      if (x.expired_us2000)
        expired_ = store::page_end{.at_us2000 = *x.expired_us2000, .id = x.id};
      else
        parked_ = x.id;
    }
    if (parked < single)
      parked_.reset();
    if (expired < single)
      expired_.reset();
    singles_.add(ids);
    return return_next(now);
  }

  next return_next(clock::time_point now) {
    if (in_time(now)) {
      if (auto work = singles_.next(now))
        return send(stage::one_row, std::move(*work));
      if (parked_ || expired_)
        return send(stage::find, {{find_call(now)}, false});
    }
    // Where there was an end, the next one begins anew.
    parked_ = parked_.value_or(0);
    expired_ = expired_.value_or(store::page_end{});
    singles_.end(now);
    return {};
  }

  stage under_way_ = stage::batch;
  /// Where the last pages of singles ended; nullopt: there are no more of the
  /// kind in this sweep.
  std::optional<std::int64_t> parked_ = 0;
  std::optional<store::page_end> expired_{std::in_place};
  single_rows singles_;
};

} // namespace gd
