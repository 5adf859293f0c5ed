// Jobs of operators that nobody works on, of which the reaper does some at a time.

#include <gd/actors/sweep/reaper.hpp>

#include <gd/engine/step/upgrade.hpp>
#include <gd/store/operate.hpp>

#include <caf/all.hpp>

#include <chrono>

namespace gd::actors {

namespace {

/// Between two batches of a job: others come first.
constexpr std::chrono::milliseconds job_pause{10};
/// Of states that are read at a time; one may be longer.
constexpr std::int64_t upgraded_bytes = 4 << 20;

} // namespace

void reaper_actor::begin_job(const store::open_job_row& job) {
  if (job_.id != 0)
    return;
  job_ = job;
  work_on_job();
}

/// On a connection that nobody waits for, and that is closed where nothing more is to
/// be done: with it goes the job's lock.
void reaper_actor::work_on_job() {
  auto lock = store::lock_job(job_.id, store::job_worker::node);
  if (job_.upgrades)
    submit(this, *home_->db, home_->long_lane(),
           {{std::move(lock), store::upgrade_page(job_.id, upgraded_bytes)}},
           upgrade_ticket, home_->config.patience);
  else
    submit(
      this, *home_->db, home_->long_lane(),
      {{std::move(lock), store::work_on_job(job_.id), store::jobs(job_.id)}},
      job_ticket, home_->config.patience);
}

void reaper_actor::judge_upgrade(const pq::reply& reply) {
  if (!reply.ok())
    return leave_job(*reply.failure);
  store::upgrade_batch what;
  bool more = reply.results.front().boolean(0, 0);
  for (auto& x : store::read<store::upgrade_row>(reply.results.back())) {
    if (x.id == 0) {
      what.after = x.after;
      what.upto = x.upto;
      continue;
    }
    what.ids.push_back(x.id);
    what.seqs.push_back(x.seq);
    what.faults.push_back(upgrade_fault(*home_->machines, x));
  }
  if (!more || reply.results.back().size() == 0) {
    job_ = {};
    return;
  }
  submit(this, *home_->db, home_->long_lane(),
         {{store::lock_job(job_.id, store::job_worker::node),
           store::upgrade(job_.id, what), store::jobs(job_.id)}},
         job_ticket, home_->config.patience);
}

void reaper_actor::finish_job(const pq::reply& reply) {
  if (!reply.ok())
    return leave_job(*reply.failure);
  auto now = store::read_one<job_row>(reply.results.back());
  if (reply.results[1].boolean(0, 0) && now && !now->ended_at_us)
    send_self_after(this, job_pause, job_due{});
  else
    job_ = {};
}

/// What is left of it is found by a later sweep, of whatever node.
void reaper_actor::leave_job(const error& why) {
  if (why.code != errc::stopped && why.code != errc::unavailable)
    home_->tell(
      events::sweep_failed{"a job of an operator", without_data(why)});
  job_ = {};
}

} // namespace gd::actors
