#include <gd/actors/sweep/reaper.hpp>

#include <gd/store/ends.hpp>
#include <gd/store/operate.hpp>
#include <gd/store/store.hpp>

#include <caf/all.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Rows of one statement; a full batch is followed by the next at once.
constexpr std::int32_t batch_rows = 1'000;
/// Rows that are returned one by one in a sweep; and how long each may wait for
/// a stranger.
constexpr std::int32_t single_rows = 20;
constexpr milliseconds single_wait{10};
/// Rows that are tried one by one because not all can be moved together.
constexpr std::int32_t listed_rows = 500;
/// What a heartbeat has for a row that a stranger has let go: it tries every
/// second.
constexpr milliseconds lock_grace{3'000};
/// Instances with history of a page, and of each its first entries.
constexpr std::int32_t trimmed_instances = 1'000;
constexpr std::int32_t trimmed_entries = 100;
/// Signals of a page of which dedup keys are forgotten; a page that had some is followed
/// by the next at once, up to so many.
constexpr std::int32_t forgotten_signals = 5'000;
constexpr std::int32_t forgotten_pages = 20;

template <class Rows>
std::vector<std::string> queues_of(Rows& rows) {
  std::set<std::string> queues;
  for (auto& x : rows)
    queues.insert(x.queue);
  return {queues.begin(), queues.end()};
}

} // namespace

reaper_actor::reaper_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg), home_(std::move(home)) {
  // nop
}

caf::behavior reaper_actor::make_behavior() {
  // Until it knows which rows strangers have locked it reaps none.
  send_self_after(this, milliseconds{0}, sweep_due{sweep::leases});
  for (auto what : {sweep::deadlines, sweep::expired})
    send_self_after(this, interval(what), sweep_due{what});
  return {
    [this](sweep_due x) { start(x.what); },
    [this](job_due) { work_on_job(); },
    [this](unit_done& x) {
    if (x.ticket == job_ticket)
      finish_job(*x.reply);
    else if (x.ticket == upgrade_ticket)
      judge_upgrade(*x.reply);
    else if (x.ticket == note_ticket && !x.reply->ok())
      home_->refused.not_written();
    else if (x.ticket != note_ticket)
      finish(static_cast<sweep>(x.ticket), *x.reply);
    },
    };
}

reaper_actor::progress& reaper_actor::of(sweep what) {
  return progress_[static_cast<std::size_t>(what)];
}

std::string_view reaper_actor::title(sweep what) {
  return what == sweep::leases      ? "the sweep of leases"
         : what == sweep::deadlines ? "the sweep of deadlines"
                                    : "the sweep of ended instances";
}

milliseconds reaper_actor::base_interval(sweep what) const {
  // Where some were deleted there are soon more.
  bool often = what == sweep::deadlines
               || (what == sweep::expired
                   && progress_[static_cast<std::size_t>(what)].found);
  return often ? home_->config.poll : home_->config.reaper;
}

milliseconds reaper_actor::interval(sweep what) {
  thread_local std::minstd_rand random{std::random_device{}()};
  auto base = base_interval(what) * of(what).pause;
  std::uniform_real_distribution<double> extra{0, home_->config.jitter};
  return base
         + milliseconds{static_cast<std::int64_t>(
           static_cast<double>(base.count()) * extra(random))};
}

bool reaper_actor::in_time(sweep what) {
  return system().clock().now() - of(what).began < base_interval(what);
}

bool reaper_actor::may_look() {
  // After an outage of the database every lease looks expired, and every node
  // silent: living nodes get one heartbeat to say that they live.
  auto since = home_->db->connected_since(database::control_lane);
  return since
         && system().clock().now() - std::max(*since, answered_late_)
              >= home_->config.heartbeat;
}

bool reaper_actor::has_just_looked() {
  // Where heartbeats wait for a standby, they have not done so for so long that
  // leases have ended by that: looks, which wait for it, too, were answered.
  auto& how = home_->config;
  return !waits_for_standby_
         || system().clock().now() - looked_at_ <= how.lease - how.heartbeat;
}

bool reaper_actor::knows_locks() {
  return looking_since_
         && system().clock().now() - *looking_since_ >= lock_grace;
}

bool reaper_actor::may_reap() {
  return may_look() && has_just_looked() && knows_locks();
}

void reaper_actor::note_delay(sweep what) {
  auto now = system().clock().now();
  if (now - of(what).sent >= home_->config.heartbeat)
    answered_late_ = now;
}

void reaper_actor::start(sweep what) {
  of(what).found = false;
  of(what).began = system().clock().now();
  // A process that stood still has not seen who was locked.
  if (what == sweep::leases
      && of(what).began - look_due_ > home_->config.lease / 2)
    looking_since_.reset();
  if (what == sweep::expired) {
    expired_pages_ = 0;
    look_for_expired();
  } else if (home_->config.single_sweeper)
    send(what, stage::lock, {{store::sweep_lock("sweep")}, false});
  else
    run(what);
}

void reaper_actor::run(sweep what) {
  if (what == sweep::deadlines)
    return move_batch(what);
  looked_ = {};
  ending_.clear();
  locked_now_.clear();
  look_for_locked();
}

void reaper_actor::send(sweep what, stage next, pq::unit work) {
  of(what).under_way = next;
  of(what).sent = system().clock().now();
  // Without patience: after a reconnect, and behind what waits for a standby, it has
  // to ask again whether it may.
  submit(this, *home_->db, database::control_lane, std::move(work),
         static_cast<std::uint64_t>(what),
         {database::patience::on::this_one, home_->config.heartbeat});
}

void reaper_actor::finish(sweep what, const pq::reply& reply) {
  note_delay(what);
  if (!reply.ok())
    return fail(what, *reply.failure);
  switch (of(what).under_way) {
    case stage::lock:
      if (reply.results.front().boolean(0, 0))
        return run(what);
      home_->tell(events::sweep_skipped{title(what)});
      if (what == sweep::leases)
        looking_since_.reset();
      // The node that sweeps may be the one that is silent, and keep the lock.
      return what == sweep::leases ? look_for_silent() : pause(what);
    case stage::look:
      return read_look(reply);
    case stage::batch:
      return read_batch(what, reply);
    case stage::find:
      return read_singles(reply, 0);
    case stage::list:
      for (auto id : store::read_ids(reply.results.front()))
        of(what).singles.push_back(id);
      return return_next(what);
    case stage::one_row:
      return read_row(what, reply);
    case stage::silent:
      trimmed_ = store::read_one<store::trimmed_to>(reply.results[1])
                   .value_or(store::trimmed_to{});
      for (auto& job : store::read<store::open_job_row>(reply.results[2]))
        begin_job(job);
      read_silent(store::read<store::silent_session>(reply.results.back()));
      return exonerate(store::read<store::open_crash>(reply.results[3]));
    case stage::excuse:
      return read_exonerated(reply);
    case stage::forget:
      return read_forgotten(reply);
    case stage::end_one:
      return read_end(reply);
    case stage::served:
      return read_served(reply);
    case stage::expired:
      return read_expired(reply);
    case stage::erase:
      return read_erased(reply);
    case stage::put_off:
      return erase_next();
  }
}

void reaper_actor::fail(sweep what, const error& why) {
  auto& at = of(what);
  bool lost = why.code == errc::stopped || why.code == errc::unavailable
              || why.code == errc::unknown_fate;
  bool locked = (at.under_way == stage::one_row
                 || at.under_way == stage::served)
                && why.code == errc::busy;
  // Something refers to one of them: that is told in the end.
  bool referred = at.under_way == stage::erase
                  && (why.code == errc::busy || why.code == errc::rejected);
  // For one of its rows, maybe: that is told by each of them.
  bool by_each = at.under_way == stage::one_row
                 || (at.under_way == stage::batch && !at.refused);
  if (why.code != errc::stopped && why.code != errc::unavailable && !locked
      && !referred && !(by_each && !lost))
    home_->tell(events::sweep_failed{title(what), without_data(why)});
  if (lost) {
    at.singles.clear();
    silent_.clear();
    silent_since_.clear();
    to_erase_.clear();
    looking_since_.reset();
    return pause(what);
  }
  if (at.under_way == stage::erase) {
    auto guilty = std::move(to_erase_.back());
    to_erase_.pop_back();
    if (guilty.size() == 1) {
      if (why.code != errc::busy)
        refuse(what, guilty.front(), why);
      return put_off(guilty);
    }
    store::push_halves(to_erase_, guilty);
    return erase_next();
  }
  if (at.under_way == stage::put_off)
    return erase_next();
  if (by_each && at.under_way == stage::batch) {
    at.refused = true;
    if (what == sweep::deadlines)
      return send(sweep::deadlines, stage::list,
                  {{store::due(listed_rows)}, false});
    at.singles.assign(ending_.begin(), ending_.end());
    return return_next(what);
  }
  if (at.under_way == stage::one_row) {
    ++(locked ? at.returned.blocked : at.returned.refused);
    if (!locked)
      refuse(what, at.single, why);
    return return_next(what);
  }
  // What else the sweep does is not for the sake of these.
  if (at.under_way == stage::excuse)
    return end_exonerating();
  if (at.under_way == stage::forget || at.under_way == stage::end_one)
    return end_next();
  pause(what);
}

void reaper_actor::refuse(sweep what, std::int64_t id, const error& why) {
  auto now = system().clock().now();
  home_->refused.note(id, title(what), why, now);
  auto reason = fmt::format("{}: {}", title(what), why.message);
  if (auto times = complaints_.note(reason, now); times > 0)
    home_->tell(events::row_refused{title(what), id, without_data(why), times});
}

void reaper_actor::note_refused() {
  if (auto rows = home_->refused.news(system().clock().now()))
    submit(this, *home_->db, database::control_lane,
           {{store::note_refused(home_->incarnation, *rows)}}, note_ticket);
}

// -- leases that end ----------------------------------------------------------

void reaper_actor::look_for_locked() {
  // Half of the lease: what is extended in time has more of it.
  send(sweep::leases, stage::look,
       {{store::locked_leases(batch_rows, home_->config.lease / 2, looked_)},
        false});
}

void reaper_actor::read_look(const pq::reply& reply) {
  auto page = store::read<store::ending_lease>(reply.results.front());
  for (const auto& x : page) {
    (x.locked ? locked_now_ : ending_).push_back(x.id);
    waits_for_standby_ = x.waits;
  }
  if (page.size() >= static_cast<std::size_t>(batch_rows)) {
    looked_ = page.back();
    return look_for_locked();
  }
  if (!ending_.empty() || !locked_now_.empty()) {
    bool steady = has_just_looked();
    looked_at_ = system().clock().now();
    if (!steady)
      answered_late_ = looked_at_;
  }
  remember();
  if (!may_look()) {
    look_soon_ = true;
    return pause(sweep::leases);
  }
  if (knows_locks())
    move_batch(sweep::leases);
  else
    look_for_silent();
}

void reaper_actor::remember() {
  auto now = system().clock().now();
  if (!looking_since_)
    looking_since_ = now;
  for (auto& [id, until] : locked_)
    if (!until)
      until = now + lock_grace;
  std::erase_if(locked_, [now](const auto& x) { return *x.second <= now; });
  for (auto id : locked_now_)
    locked_[id] = std::nullopt;
}

// -- rows that are moved together ---------------------------------------------

void reaper_actor::move_batch(sweep what) {
  if (what == sweep::deadlines)
    return send(what, stage::batch,
                {{store::wake_due(batch_rows), find_call()}});
  std::vector<std::int64_t> leave_alone;
  for (const auto& [id, until] : locked_)
    leave_alone.push_back(id);
  send(what, stage::batch,
       {{store::reap(batch_rows, leave_alone, home_->config.max_crashes)}});
}

void reaper_actor::read_batch(sweep what, const pq::reply& reply) {
  std::size_t count = 0;
  if (what == sweep::leases) {
    auto reaped = store::read<store::reaped_row>(reply.results.front());
    count = reaped.size();
    if (count > 0)
      home_->tell(events::reaped{count});
    home_->wake(queues_of(reaped), true);
  } else {
    auto woken = store::read<store::moved_row>(reply.results.front());
    count = woken.size();
    if (count > 0)
      home_->tell(events::deadlines_fired{count});
    home_->wake(queues_of(woken), true);
  }
  auto& at = of(what);
  at.found = at.found || count > 0;
  at.refused = false;
  if (count >= static_cast<std::size_t>(batch_rows))
    move_batch(what);
  else if (what == sweep::leases)
    look_for_silent();
  else
    read_singles(reply, 1);
}

// -- rows that are moved one by one -------------------------------------------

/// Those whose unique key another may have: wake-ups and leases alike.
pq::call reaper_actor::find_call() {
  constexpr auto no_more = std::numeric_limits<std::int64_t>::max();
  return store::returning(single_rows, may_reap() && expired_,
                          parked_.value_or(no_more),
                          expired_.value_or(store::page_end{}));
}

void reaper_actor::find_singles() {
  send(sweep::deadlines, stage::find, {{find_call()}, false});
}

void reaper_actor::read_singles(const pq::reply& reply, std::size_t at) {
  auto& singles = of(sweep::deadlines).singles;
  auto if_full = [](auto& end, std::int32_t count) {
    if (count < single_rows)
      end.reset();
  };
  std::int32_t parked = 0;
  std::int32_t expired = 0;
  for (const auto& x : store::read<store::returning_row>(reply.results[at])) {
    singles.push_back(x.id);
    ++(x.expired_us2000 ? expired : parked);
    if (x.expired_us2000)
      expired_ = store::page_end{.at_us2000 = *x.expired_us2000, .id = x.id};
    else
      parked_ = x.id;
  }
  if_full(parked_, parked);
  if_full(expired_, expired);
  return_next(sweep::deadlines);
}

void reaper_actor::return_next(sweep what) {
  auto& at = of(what);
  // One at a time, so that heartbeats come in between.
  if (!at.singles.empty() && in_time(what)) {
    at.single = at.singles.front();
    at.singles.pop_front();
    bool lease_too = may_reap() && !locked_.contains(at.single);
    return send(
      what, stage::one_row,
      {{store::lock_timeout(single_wait),
        store::return_row(at.single, lease_too, home_->config.max_crashes)}});
  }
  if (what == sweep::deadlines && in_time(what) && (parked_ || expired_))
    return find_singles();
  at.singles.clear();
  if (what == sweep::deadlines) {
    // Where there was an end, the next one begins anew.
    parked_ = parked_.value_or(0);
    expired_ = expired_.value_or(store::page_end{});
  }
  auto summary = std::exchange(at.returned, {});
  auto told = fmt::format("{}: {}, {}", title(what), summary.blocked,
                          summary.refused);
  if (summary.runnable > 0
      || (summary.blocked + summary.refused > 0
          && complaints_.note(told, system().clock().now()) > 0))
    home_->tell(summary);
  at.refused = false;
  if (what == sweep::leases)
    look_for_silent();
  else
    pause(what);
}

void reaper_actor::read_row(sweep what, const pq::reply& reply) {
  auto& at = of(what);
  auto moved = store::read_one<store::returned_row>(reply.results.back());
  if (moved && moved->runnable) {
    ++at.returned.runnable;
    at.found = true;
    home_->wake({moved->queue}, true);
  } else if (moved) {
    ++at.returned.blocked;
  }
  return_next(what);
}

// -- nodes that are silent ----------------------------------------------------

void reaper_actor::look_for_silent() {
  send(sweep::leases, stage::silent,
       {{store::forget_nodes(),
         store::trim_ledger(trimmed_, trimmed_instances, trimmed_entries),
         store::open_job(home_->machines->keys()), store::open_crashes(),
         store::silent_sessions(home_->incarnation)},
        false});
}

void reaper_actor::read_silent(std::vector<store::silent_session> found) {
  auto now = system().clock().now();
  auto before = std::exchange(silent_since_, {});
  for (auto& x : found) {
    auto known = before.find(x.incarnation);
    auto since = known != before.end() ? known->second : now;
    silent_since_.emplace(x.incarnation, since);
    if (!x.may_end
        || of(sweep::leases).began - since >= home_->config.heartbeat)
      silent_.push_back(std::move(x));
    else
      look_soon_ = true;
  }
}

void reaper_actor::forget() {
  send(sweep::leases, stage::forget,
       {{store::forget_dedup(forgotten_, forgotten_signals)}, false});
}

void reaper_actor::read_forgotten(const pq::reply& reply) {
  auto page = store::read_one<store::forgotten_to>(reply.results.front())
                .value_or(store::forgotten_to{});
  forgotten_ = page.id.value_or(0);
  if (page.id && page.forgotten > 0 && ++forgotten_pages_ < forgotten_pages)
    return forget();
  end_next();
}

void reaper_actor::end_next() {
  while (!silent_.empty()) {
    auto which = std::move(silent_.front());
    silent_.pop_front();
    if (which.may_end)
      return send(sweep::leases, stage::end_one,
                  {{store::end_silent_session(which)}, false});
    if (told_.insert(which.incarnation).second)
      home_->tell(events::sessions_not_ended{which.node});
  }
  if (auto count = std::exchange(ended_, 0); count > 0)
    home_->tell(events::sessions_ended{count});
  look_for_served();
}

void reaper_actor::read_end(const pq::reply& reply) {
  ended_ += reply.results.front().size();
  end_next();
}

// -- what is served -----------------------------------------------------------

void reaper_actor::look_for_served() {
  send(sweep::leases, stage::served,
       {{store::lock_timeout(single_wait), store::machines_lock(),
         store::mark_served({}, true), store::not_served()}});
}

void reaper_actor::read_served(const pq::reply& reply) {
  auto now = system().clock().now();
  for (auto& x : store::read<not_served_row>(reply.results.back()))
    if (complaints_.note(fmt::format("{}\n{}\n{}", x.queue, x.fsm, x.version),
                         now)
        > 0)
      home_->tell_not_served(std::move(x));
  pause(sweep::leases);
}

void reaper_actor::pause(sweep what) {
  note_refused();
  auto& at = of(what);
  home_->tell(events::sweep_ended{
    title(what), std::chrono::duration_cast<std::chrono::microseconds>(
                   system().clock().now() - at.began)});
  at.pause = at.found ? 1 : std::min(2 * at.pause, home_->config.sweep_backoff);
  auto wait = interval(what);
  // For a standby twice in a heartbeat, so that looks follow each other as
  // has_just_looked() expects, however little a lease has beyond two of them.
  if (what == sweep::leases && std::exchange(look_soon_, false))
    wait = std::min<milliseconds>(wait, home_->config.heartbeat
                                          / (waits_for_standby_ ? 2 : 1));
  if (what == sweep::leases) {
    auto now = system().clock().now();
    if (looking_since_ && !knows_locks())
      wait = std::min(wait, std::chrono::ceil<milliseconds>(
                              *looking_since_ + lock_grace - now));
    look_due_ = now + wait;
  }
  send_self_after(this, wait, sweep_due{what});
}

} // namespace gd::actors
