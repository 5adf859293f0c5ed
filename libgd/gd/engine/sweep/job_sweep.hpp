#pragma once

#include <gd/engine/step/upgrade.hpp>
#include <gd/engine/sweep/sweep.hpp>
#include <gd/store/operate.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace gd {

/// Jobs of operators that nobody works on, one after the other, of which it does some at a
/// time: beside its round, on a connection that nobody waits for, and that is closed where
/// nothing more is to be done, for with it goes the job's lock.
class job_sweep final : public sweep {
public:
  using sweep::sweep;

  /// Between two batches: others come first.
  static constexpr milliseconds rest{10};

  void prepare(pq::unit& work) override {
    ask(work, find(0));
  }

  void prepared(const pq::reply& reply, clock::time_point) override {
    if (open() || asking_)
      return;
    job_ = found_in(reply.results[at_]);
    is_new_ = open();
  }

  /// There may be more since it has looked: asks for them, when it has done what it knows of,
  /// or at once, by a unit for the connection of its round. The answer is one to a batch.
  std::optional<pq::unit> ask_again() {
    again_ = open() || asking_;
    if (again_)
      return std::nullopt;
    asking_ = true;
    return pq::unit{{find(0)}, false};
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
    auto lock = store::lock_job(job_.id, store::job_owner::node);
    if (judging_)
      return {{std::move(lock), store::upgrade_page(job_.id, upgraded_bytes)}};
    return {
      {std::move(lock), store::work_on_job(job_.id), store::jobs(job_.id)}};
  }

  /// The next unit, of the batch or of the next job. Nullopt: if a job is still open, the next
  /// batch begins after a rest. What is left of others, and what fails, is found by a later
  /// round, of whatever node.
  std::optional<pq::unit> finish_batch(const pq::reply& reply) {
    auto asked = std::exchange(asking_, false);
    auto judging = std::exchange(judging_, false);
    if (!reply.ok()) {
      auto code = reply.failure->code;
      if (code != errc::stopped && code != errc::unavailable)
        tell_failed(*reply.failure);
      job_ = {};
      return std::nullopt;
    }
    if (asked)
      return begin_next(reply);
    if (judging)
      return judge(reply);
    auto now = store::read_one<job_row>(reply.results.back());
    if (!reply.results[1].boolean(0, 0) || !now || now->ended_at_us)
      return ask_behind(job_.id);
    return std::nullopt;
  }

private:
  /// Of states that are read at a time; one may be longer.
  static constexpr std::int64_t upgraded_bytes = 4 << 20;

  pq::call find(std::int64_t after) const {
    return store::open_job(here_.machines->upgrades(), after);
  }

  static store::open_job_row found_in(const pq::rows& rows) {
    return store::read_one<store::open_job_row>(rows).value_or(
      store::open_job_row{});
  }

  /// Each job is asked for once, whatever becomes of it: those that it passes are left to a
  /// later round.
  pq::unit ask_behind(std::int64_t job) {
    if (job == 0)
      again_ = false;
    job_ = {};
    asking_ = true;
    return {{store::unlock_job(), find(job)}};
  }

  std::optional<pq::unit> begin_next(const pq::reply& reply) {
    job_ = found_in(reply.results.back());
    if (open())
      return begin_batch();
    if (again_)
      return ask_behind(0);
    return std::nullopt;
  }

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
      auto checked = check_upgrade(*here_.machines, here_.how.limits, x);
      what.faults.push_back(std::move(checked.fault));
      what.steps.push_back(std::move(checked.step));
      what.states.push_back(std::move(checked.state));
    }
    if (!reply.results.front().boolean(0, 0)
        || reply.results.back().size() == 0)
      return ask_behind(job_.id);
    return pq::unit{{store::lock_job(job_.id, store::job_owner::node),
                     store::upgrade(job_.id, what), store::jobs(job_.id)}};
  }

  /// What an operator wants to be done with many instances, of which this node does some
  /// at a time. Zero: there is none.
  store::open_job_row job_;
  bool is_new_ = false;
  bool judging_ = false; ///< what is under way reads states
  bool asking_ = false;  ///< it looks for a job
  bool again_ = false;   ///< there may be more
};

} // namespace gd
