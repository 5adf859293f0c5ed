#pragma once

#include <gd/engine/sweep/single_rows.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/store.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gd {

/// Returns rows whose lease is over, in bounded batches, and looks before who is locked.
class lease_sweep final : public sweep {
public:
  lease_sweep(sweep_context& here, std::string_view title)
    : sweep(here, title), singles_(here, title) {
    // nop
  }

  bool one_for_all() const override {
    return true;
  }

  milliseconds pause(milliseconds usual, clock::time_point now) override {
    return here_.leases.pause(usual, now);
  }

  void start(clock::time_point now) override {
    sweep::start(now);
    here_.leases.begin(now);
  }

  next begin(clock::time_point) override {
    probed_ = {};
    ending_.clear();
    locked_.clear();
    singles_.clear();
    return find_locked();
  }

  next finish(const pq::reply& reply, clock::time_point now) override {
    if (under_way_ == stage::one_row) {
      found_ = singles_.finish(reply, now) || found_;
      return return_next(now);
    }
    // For one of its rows, maybe: that is told by each of them.
    if (!reply.ok() && under_way_ == stage::batch) {
      singles_.add(ending_);
      return return_next(now);
    }
    if (!reply.ok())
      return give_up(*reply.failure);
    return under_way_ == stage::probe ? read_probe(reply, now)
                                      : read_batch(reply);
  }

  void forget() override {
    here_.leases.forget();
  }

private:
  /// Of one statement; a full batch is followed by the next at once.
  static constexpr std::int32_t rows = 1'000;

  enum class stage : std::uint8_t {
    probe,   ///< leases that end, and which of those are locked
    batch,   ///< as many rows as one statement moves
    one_row, ///< one that a batch was refused for, by itself
  };

  next send(stage what, pq::unit work) {
    under_way_ = what;
    return {std::move(work)};
  }

  next find_locked() {
    // Half of the lease: what is extended in time has more of it.
    return send(
      stage::probe,
      {{store::locked_leases(rows, here_.how.lease / 2, probed_)}, false});
  }

  next read_probe(const pq::reply& reply, clock::time_point now) {
    auto page = store::read<store::ending_lease>(reply.results.front());
    for (const auto& x : page) {
      (x.locked ? locked_ : ending_).push_back(x.id);
      here_.leases.note_standby(x.waits);
    }
    if (page.size() >= static_cast<std::size_t>(rows)) {
      probed_ = page.back();
      return find_locked();
    }
    here_.leases.probed(locked_, !ending_.empty() || !locked_.empty(), now);
    if (!here_.leases.may_probe(now)) {
      here_.leases.probe_soon();
      return {.last = true};
    }
    return here_.leases.knows_locks(now) ? reap_batch() : next{};
  }

  next reap_batch() {
    return send(stage::batch, {{store::reap(rows, here_.leases.locked(),
                                            here_.how.max_crashes)}});
  }

  next read_batch(const pq::reply& reply) {
    auto reaped = store::read<store::reaped_row>(reply.results.front());
    if (!reaped.empty()) {
      found_ = true;
      here_.tell(events::reaped{reaped.size()});
    }
    here_.wake_queues_of(reaped);
    return reaped.size() >= static_cast<std::size_t>(rows) ? reap_batch()
                                                           : next{};
  }

  next return_next(clock::time_point now) {
    if (in_time(now))
      if (auto work = singles_.next(now))
        return send(stage::one_row, std::move(*work));
    singles_.end(now);
    return {};
  }

  stage under_way_ = stage::probe;
  /// Where the page ended, who is there, who is locked.
  store::page_end probed_{};
  std::vector<std::int64_t> ending_;
  std::vector<std::int64_t> locked_;
  single_rows singles_;
};

} // namespace gd
