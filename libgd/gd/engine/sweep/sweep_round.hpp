#pragma once

#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gd {

/// Sweeps that follow one another, again and again. Those behind the first prepare
/// together when that has ended. A plain state machine with one unit under way at a time.
class sweep_round {
public:
  using clock = database::clock;
  using milliseconds = std::chrono::milliseconds;
  using sweeps = std::vector<std::shared_ptr<sweep>>;

  /// At least one; the first gives it its title and its interval.
  sweep_round(sweep_context& here, sweeps list)
    : here_(here), sweeps_(std::move(list)) {
    // nop
  }

  /// The first unit, to be sent at once as all others; nullopt: the round has ended.
  std::optional<pq::unit> begin(clock::time_point now) {
    at_ = 0;
    began_ = now;
    for (auto& x : sweeps_)
      x->start(now);
    if (here_.how.single_sweeper && first().one_for_all())
      return send(stage::lock, {{store::sweep_lock("sweep")}, false}, now);
    return go_on(first().begin(now), now);
  }

  /// The same, behind what became of the last one.
  std::optional<pq::unit> finish(const pq::reply& reply,
                                 clock::time_point now) {
    here_.leases.answered(sent_, now);
    if (!reply.ok()
        && (under_way_ != stage::sweep || is_cut_off(*reply.failure)))
      return fail(*reply.failure);
    if (under_way_ == stage::lock && !reply.results.front().boolean(0, 0)) {
      here_.tell(events::sweep_skipped{first().title()});
      first().forget();
      // The node that sweeps may be the one that is silent, and keep the lock.
      return begin_next(now);
    }
    if (under_way_ == stage::prepare)
      for (auto& x : sweeps_)
        x->prepared(reply, now);
    auto& x = *sweeps_[at_];
    return go_on(
      under_way_ == stage::sweep ? x.finish(reply, now) : x.begin(now), now);
  }

  /// Until the first one; `extra`, a part of the interval, is added.
  milliseconds wait(double extra) const {
    auto base = first().interval() * intervals_;
    return base
           + milliseconds{static_cast<std::int64_t>(
             static_cast<double>(base.count()) * extra)};
  }

  /// One has ended, which is told: until the next.
  milliseconds pause(double extra, clock::time_point now) {
    here_.tell(events::sweep_ended{
      first().title(),
      std::chrono::duration_cast<std::chrono::microseconds>(now - began_)});
    bool found = std::any_of(sweeps_.begin(), sweeps_.end(),
                             [](const auto& x) { return x->found(); });
    intervals_ = found ? 1 : std::min(2 * intervals_, here_.how.sweep_backoff);
    auto out = wait(extra);
    for (auto& x : sweeps_)
      out = x->pause(out, now);
    return out;
  }

  /// The connection is gone, or may be: nothing more comes of the round, and whatever
  /// has been seen in any may not be so any more.
  static bool is_cut_off(const error& why) {
    return why.code == errc::stopped || why.code == errc::unavailable
           || why.code == errc::unknown_fate;
  }

  void forget() {
    for (auto& x : sweeps_)
      x->forget();
  }

private:
  /// What the unit under way does.
  enum class stage : std::uint8_t {
    lock,    ///< whether this node sweeps
    prepare, ///< those behind the first
    sweep,   ///< the one at `at_`
  };

  sweep& first() const {
    return *sweeps_.front();
  }

  std::optional<pq::unit> send(stage what, pq::unit work,
                               clock::time_point now) {
    under_way_ = what;
    sent_ = now;
    return work;
  }

  std::optional<pq::unit> fail(const error& why) const {
    if (why.code != errc::stopped && why.code != errc::unavailable)
      here_.tell(events::sweep_failed{first().title(), without_data(why)});
    return std::nullopt;
  }

  std::optional<pq::unit> go_on(sweep::next what, clock::time_point now) {
    if (what.work)
      return send(stage::sweep, std::move(*what.work), now);
    return what.last ? std::nullopt : begin_next(now);
  }

  std::optional<pq::unit> begin_next(clock::time_point now) {
    if (++at_ == sweeps_.size())
      return std::nullopt;
    pq::unit preparation{{}, false};
    if (at_ == 1)
      for (auto& x : sweeps_)
        x->prepare(preparation);
    if (!preparation.calls.empty())
      return send(stage::prepare, std::move(preparation), now);
    return go_on(sweeps_[at_]->begin(now), now);
  }

  sweep_context& here_;
  sweeps sweeps_;
  std::size_t at_ = 0;
  stage under_way_ = stage::lock;
  clock::time_point began_{};
  clock::time_point sent_{}; ///< the unit under way
  /// How many intervals the next pause is long.
  std::int32_t intervals_ = 1;
};

} // namespace gd
