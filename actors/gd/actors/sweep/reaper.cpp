#include <gd/actors/sweep/reaper.hpp>

#include <gd/engine/sweep/crash_sweep.hpp>
#include <gd/engine/sweep/deadline_sweep.hpp>
#include <gd/engine/sweep/dedup_sweep.hpp>
#include <gd/engine/sweep/ended_sweep.hpp>
#include <gd/engine/sweep/expiry_sweep.hpp>
#include <gd/engine/sweep/lease_sweep.hpp>
#include <gd/engine/sweep/ledger_sweep.hpp>
#include <gd/engine/sweep/node_sweep.hpp>
#include <gd/engine/sweep/older_sweep.hpp>
#include <gd/engine/sweep/served_sweep.hpp>
#include <gd/engine/sweep/session_sweep.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <limits>
#include <random>
#include <string>
#include <utility>

namespace gd::actors {

namespace {

/// Others are of the round of that number.
constexpr auto job_ticket = std::numeric_limits<std::uint64_t>::max();
constexpr auto note_ticket = job_ticket - 1;

/// So that nodes do not sweep in step.
double extra_time(const config& how) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>{0, how.jitter}(random);
}

sweep_context context_of(node* home) {
  return {
    .how = home->config,
    .incarnation = home->incarnation,
    .machines = home->machines,
    .refused = home->refused,
    .wake = [home](const auto& queues) { home->wake(queues, true); },
    .tell_not_served =
      [home](not_served_row x) { home->tell_not_served(std::move(x)); },
    .leases = {home->config,
               [home] {
    return home->db->connected_since(database::control_slot);
               }},
    };
}

} // namespace

reaper_actor::reaper_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    here_(context_of(home_.get())),
    jobs_(std::make_shared<job_sweep>(here_, "a job of an operator")),
    rounds_(make_rounds()) {
  // nop
}

/// All sweeps that there are, in rounds: one begins when the one before it has ended.
std::vector<sweep_round> reaper_actor::make_rounds() {
  constexpr auto leases = "the sweep of leases";
  constexpr auto deadlines = "the sweep of deadlines";
  constexpr auto ended = "the sweep of ended instances";
  std::vector<sweep_round> rounds{
    {here_,
     {
       std::make_shared<lease_sweep>(here_, leases),
       std::make_shared<node_sweep>(here_, leases),
       std::make_shared<ledger_sweep>(here_, leases),
       jobs_,
       std::make_shared<crash_sweep>(here_, leases),
       std::make_shared<dedup_sweep>(here_, leases),
       std::make_shared<session_sweep>(here_, leases),
       std::make_shared<served_sweep>(here_, leases),
     }},
    {here_,
     {
       std::make_shared<deadline_sweep>(here_, deadlines),
       std::make_shared<ended_sweep>(here_, deadlines),
     }},
    {here_, {std::make_shared<expiry_sweep>(here_, ended)}},
  };
  auto older = std::make_shared<older_sweep>(here_,
                                             "the sweep of older versions");
  if (older->needed())
    rounds.push_back({here_, {std::move(older)}});
  return rounds;
}

caf::behavior reaper_actor::make_behavior() {
  // Until it knows which rows strangers have locked it reaps none.
  send_self_after(this, std::chrono::milliseconds{0}, sweep_due{0});
  for (std::size_t which = 1; which < rounds_.size(); ++which)
    send_self_after(this, rounds_[which].wait(extra_time(home_->config)),
                    sweep_due{which});
  return {
    [this](sweep_due x) { go_on(x.which, rounds_[x.which].begin(now())); },
    [this](job_due) { send_job(jobs_->begin_batch()); },
    [this](jobs_made) {
    if (auto work = jobs_->ask_again()) // most of the time there is none for it
      submit(this, *home_->db, database::control_slot, std::move(*work),
             job_ticket, home_->config.patience);
    },
    [this](unit_done& x) {
    if (x.ticket == job_ticket)
      finish_job(*x.reply);
    else if (x.ticket != note_ticket)
      finish(x.ticket, *x.reply);
    else if (!x.reply->ok())
      home_->refused.not_written();
  },
    };
}

void reaper_actor::on_exit() {
  // Its timers keep it until they end; what the users' machines keep goes at once.
  rounds_.clear();
  jobs_ = nullptr;
  here_.machines = nullptr;
  home_ = nullptr;
}

void reaper_actor::finish(std::size_t which, const pq::reply& reply) {
  auto work = rounds_[which].finish(reply, now());
  if (!reply.ok() && sweep_round::is_cut_off(*reply.failure))
    for (auto& x : rounds_)
      x.forget();
  if (jobs_->is_new())
    send_job(jobs_->begin_batch());
  go_on(which, std::move(work));
}

void reaper_actor::go_on(std::size_t which, std::optional<pq::unit> work) {
  // Without patience: after a reconnect, and behind what waits for a standby, it has
  // to ask again whether it may.
  if (work)
    submit(this, *home_->db, database::control_slot, std::move(*work), which,
           {database::patience::on::this_one, home_->config.heartbeat});
  else
    pause(which);
}

void reaper_actor::pause(std::size_t which) {
  note_refused();
  auto wait = rounds_[which].pause(extra_time(home_->config), now());
  send_self_after(this, wait, sweep_due{which});
}

void reaper_actor::finish_job(const pq::reply& reply) {
  if (auto work = jobs_->finish_batch(reply))
    send_job(std::move(*work));
  else if (jobs_->open())
    send_self_after(this, job_sweep::rest, job_due{});
}

void reaper_actor::send_job(pq::unit work) {
  submit(this, *home_->db, home_->long_read_slot(), std::move(work), job_ticket,
         home_->config.patience);
}

void reaper_actor::note_refused() {
  if (auto rows = home_->refused.news(now()))
    submit(this, *home_->db, database::control_slot,
           {{store::note_refused(home_->incarnation, *rows)}}, note_ticket);
}

} // namespace gd::actors
