#pragma once

#include <gd/engine/step/upgrade.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/operate.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace gd {

/// Jobs of operators that nobody works on, of which it does some at a time: beside its
/// round, on a connection that nobody waits for, and that is closed where nothing more is to
/// be done, for with it goes the job's lock.
class job_sweep final : public sweep {
public:
  using sweep::sweep;

  /// Between two batches: others come first.
  static constexpr milliseconds rest{10};

  void look(pq::unit& work) override {
    ask(work, store::open_job(here_.machines->keys()));
  }

  void looked(const pq::reply& reply, clock::time_point) override {
    if (open())
      return;
    job_ = store::read_one<store::open_job_row>(reply.results[at_])
             .value_or(store::open_job_row{});
    is_new_ = open();
  }

  /// Whether it works on one.
  bool open() const {
    return job_.id != 0;
  }

  /// Once for each that was found: it is to be begun.
  bool is_new() {
    return std::exchange(is_new_, false);
  }

  /// The first unit of a batch of the job that is open.
  pq::unit begin_batch() {
    judging_ = job_.upgrades;
    auto lock = store::lock_job(job_.id, store::job_worker::node);
    if (judging_)
      return {{std::move(lock), store::upgrade_page(job_.id, upgraded_bytes)}};
    return {
      {std::move(lock), store::work_on_job(job_.id), store::jobs(job_.id)}};
  }

  /// The next unit of the batch. Nullopt: it has ended, and if the job is still open, the next
  /// one begins after a rest. What is left of others is found by a later round, of whatever
  /// node.
  std::optional<pq::unit> finish_batch(const pq::reply& reply) {
    if (!reply.ok()) {
      auto code = reply.failure->code;
      if (code != errc::stopped && code != errc::unavailable)
        tell_failed(*reply.failure);
      job_ = {};
      return std::nullopt;
    }
    if (std::exchange(judging_, false))
      return judge(reply);
    auto now = store::read_one<job_row>(reply.results.back());
    if (!reply.results[1].boolean(0, 0) || !now || now->ended_at_us)
      job_ = {};
    return std::nullopt;
  }

private:
  /// Of states that are read at a time; one may be longer.
  static constexpr std::int64_t upgraded_bytes = 4 << 20;

  std::optional<pq::unit> judge(const pq::reply& reply) {
    store::upgrade_batch what;
    for (auto& x : store::read<store::upgrade_row>(reply.results.back())) {
      if (x.id == 0) {
        what.after = x.after;
        what.upto = x.upto;
        continue;
      }
      what.ids.push_back(x.id);
      what.seqs.push_back(x.seq);
      what.faults.push_back(upgrade_fault(*here_.machines, x));
    }
    if (!reply.results.front().boolean(0, 0)
        || reply.results.back().size() == 0) {
      job_ = {};
      return std::nullopt;
    }
    return pq::unit{{store::lock_job(job_.id, store::job_worker::node),
                     store::upgrade(job_.id, what), store::jobs(job_.id)}};
  }

  /// What an operator wants to be done with many instances, of which this node does some
  /// at a time. Zero: there is none.
  store::open_job_row job_;
  bool is_new_ = false;
  bool judging_ = false; ///< what is under way reads states
};

} // namespace gd
