#include <gd/actors/sweep/heartbeat.hpp>

#include <gd/actors/queue/step.hpp>

#include <gd/pq/pause.hpp>

#include <gd/store/store.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Rows in one statement.
constexpr std::size_t chunk = 5'000;
/// How often a row that a stranger keeps locked is tried.
constexpr milliseconds locked_interval{1'000};
/// How long a try waits that a row has for itself.
constexpr milliseconds alone_wait{100};
/// So many of them at a time.
constexpr std::size_t alone_at_most = 3;
/// Before a beat that has failed is tried again: doubled each time.
constexpr milliseconds first_reconnect{100};
/// More rows than so many that are refused each by itself: it is not for their
/// sake.
constexpr std::size_t refused_at_most = 20;

} // namespace

heartbeat_actor::heartbeat_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    tickets_(static_cast<std::uint64_t>(home_->config.connections)) {
  // nop
}

caf::behavior heartbeat_actor::make_behavior() {
  send_self_after(this, home_->config.heartbeat, beat_due{});
  send_self_after(this, locked_interval, locked_beat_due{});
  return {
    [this](beat_due) { begin_beat(); },
    [this](beat_again) { extend_again(); },
    [this](locked_beat_due) { extend_locked(); },
    [this](unit_done& x) { finish(x.ticket, std::move(*x.reply)); },
  };
}

void heartbeat_actor::on_exit() {
  under_way_.clear();
  locked_.clear();
  home_ = nullptr; // timers keep the actor until they end
}

bool heartbeat_actor::has_under_way(bool of_regular) const {
  return std::any_of(under_way_.begin(), under_way_.end(), [=](const auto& x) {
    return (x.second.what == kind::regular) == of_regular;
  });
}

void heartbeat_actor::begin_beat() {
  send_self_after(this, home_->config.heartbeat, beat_due{});
  refused_ = 0;
  failures_ = 0;
  extend_all();
  say_alive();
}

void heartbeat_actor::extend_all() {
  // While the database does not answer, one beat waits for it: enough.
  if (has_under_way(true))
    return;
  extending_since_ = system().clock().now();
  extend(home_->leases.all(), kind::regular);
}

void heartbeat_actor::extend_again() {
  retrying_ = false;
  extend_all();
}

void heartbeat_actor::extend_locked() {
  send_self_after(this, locked_interval, locked_beat_due{});
  std::erase_if(
    locked_, [this](const auto& one) { return !home_->leases.contains(one); });
  if (locked_.empty() || has_under_way(false))
    return;
  extend(locked_, kind::locked);
  // Some of them wait for their lock, in turn: not so many that all other
  // leases would have to wait, too.
  auto n = static_cast<std::ptrdiff_t>(std::min(locked_.size(), alone_at_most));
  for (auto i = locked_.begin(); i != locked_.begin() + n; ++i)
    submit_beat({{*i}, kind::alone});
  std::rotate(locked_.begin(), locked_.begin() + n, locked_.end());
}

void heartbeat_actor::extend(std::vector<lease_ptr> which, kind what) {
  // Each id once per statement: a node may hold a dead and a living lease of it.
  std::map<std::int64_t, int> seen;
  std::map<int, std::vector<lease_ptr>> rounds;
  for (auto& one : which)
    rounds[seen[one->id]++].push_back(std::move(one));
  for (auto& [round, leases] : rounds)
    for (std::size_t i = 0; i < leases.size(); i += chunk) {
      auto end = std::min(leases.size(), i + chunk);
      submit_beat({{leases.begin() + static_cast<std::ptrdiff_t>(i),
                    leases.begin() + static_cast<std::ptrdiff_t>(end)},
                   what});
    }
}

void heartbeat_actor::submit_beat(beat_under_way what) {
  pq::unit work;
  if (what.what == kind::alone) {
    work.calls.push_back(store::lock_timeout(alone_wait));
    work.calls.push_back(store::lock({what.leases.front()->id}));
  }
  work.calls.push_back(store::heartbeat(what.leases, home_->config.lease));
  auto ticket = ++tickets_;
  what.sent = system().clock().now();
  under_way_.emplace(ticket, std::move(what));
  submit(this, *home_->db, database::control_slot, std::move(work), ticket);
}

/// By itself: leases do not depend on it. By each session: a stranger's lock may
/// have kept it from being registered when it began.
void heartbeat_actor::say_alive() {
  auto connection_slots = static_cast<std::size_t>(home_->config.connections);
  for (std::size_t connection_slot = 0; connection_slot < connection_slots;
       ++connection_slot)
    if (saying_.insert(connection_slot).second)
      submit(this, *home_->db, connection_slot,
             home_->known_as->beat(connection_slot, alone_wait),
             connection_slot, database::patience::on::this_one);
}

void heartbeat_actor::finish(std::uint64_t ticket, pq::reply reply) {
  auto node = under_way_.extract(ticket);
  if (node.empty()) {
    auto connection_slot = static_cast<std::size_t>(ticket);
    saying_.erase(connection_slot);
    std::vector<event> heard;
    home_->known_as->heard_beat(connection_slot, reply, heard);
    for (const auto& x : heard)
      home_->tell(x);
    if (!reply.ok() && !retryable(reply.failure->code))
      complain("registration of a session", *reply.failure);
    return;
  }
  auto& beat = node.mapped();
  if (!reply.ok()) {
    extending_since_.reset();
    return fail(std::move(beat), *reply.failure);
  }
  // A row that a stranger holds is not extended, and reaped by nobody meanwhile.
  if (beat.what == kind::regular && extending_since_ && !has_under_way(true))
    if (auto workers = home_->workers.get())
      workers->extended(*extending_since_,
                        *extending_since_ + home_->config.lease);
  std::map<std::pair<std::int64_t, std::string>, bool> answers;
  for (auto& x : store::read<store::beat>(reply.results.back()))
    answers.emplace(std::pair{x.id, std::move(x.token)}, x.extended);
  std::erase_if(locked_, [&answers](const auto& one) {
    return answers.contains({one->id, one->token});
  });
  std::unordered_set<lease_ptr> known{locked_.begin(), locked_.end()};
  std::vector<lease_ptr> lost;
  for (auto& one : beat.leases) {
    auto found = answers.find({one->id, one->token});
    // Locked by a stranger; or, tried alone, deleted.
    if (found == answers.end() && beat.what != kind::alone) {
      if (!known.contains(one))
        locked_.push_back(std::move(one));
    } else if (found == answers.end() || !found->second) {
      lost.push_back(std::move(one));
    }
  }
  lose(std::move(lost));
  // Extended by then, they were not by now: the commit has waited, for a standby maybe.
  if (beat.what == kind::regular
      && system().clock().now() - beat.sent >= home_->config.heartbeat)
    extend_all();
}

void heartbeat_actor::fail(beat_under_way which, const error& why) {
  if (which.what == kind::alone && why.code == errc::busy)
    return;
  if (which.what != kind::alone && why.code == errc::rejected
      && refused_ < refused_at_most) {
    // For the sake of one of its rows: the others must not lose their leases.
    if (auto half = static_cast<std::ptrdiff_t>(which.leases.size() / 2)) {
      auto middle = which.leases.begin() + half;
      submit_beat({{which.leases.begin(), middle}, which.what});
      submit_beat({{middle, which.leases.end()}, which.what});
      return;
    }
    ++refused_;
  }
  if (which.what != kind::regular)
    return complain("heartbeat", why); // it is tried every second
  if (why.code != errc::stopped)
    home_->tell(events::sweep_failed{"heartbeat", without_data(why)});
  // Soon again; a fence makes that harmless.
  if (retryable(why.code) && !retrying_) {
    retrying_ = true;
    send_self_after(
      this, pause_after(failures_++, first_reconnect, home_->config.heartbeat),
      beat_again{});
  }
}

void heartbeat_actor::complain(std::string_view about, const error& why) {
  if (why.code != errc::stopped
      && complaints_.note(std::string{about} + why.message,
                          system().clock().now())
           > 0)
    home_->tell(events::sweep_failed{about, without_data(why)});
}

void heartbeat_actor::lose(std::vector<lease_ptr> which) {
  // An outcome may have been committed in the meantime: then nobody minds.
  std::erase_if(
    which, [this](const auto& one) { return !home_->leases.contains(one); });
  for (const auto& one : which) {
    one->lost = true;
    home_->leases.remove(one);
    // Of one whose outcome is on its way, that tells: it may just be committed.
    if (one->decided_by() == decider::nobody)
      home_->tell(events::lease_lost{one->id, one->token});
  }
  if (auto workers = home_->workers.get())
    workers->lose(which);
  stop_steps(system(), which);
}

} // namespace gd::actors
