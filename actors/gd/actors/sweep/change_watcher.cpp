#include <gd/actors/sweep/change_watcher.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Of a change: at once, and at the next three probes.
constexpr int tell_of_change = 4;
/// Between probes that fail; and where there is little hope, since each is an error in
/// the server's log.
constexpr milliseconds longest_before_probe{1'000};
constexpr milliseconds longest_refused{60'000};

} // namespace

change_watcher::change_watcher(node_ptr home)
  : home_(std::move(home)), pause_(interval()) {
  // nop
}

bool change_watcher::probes() const {
  return home_->config.probe.count() > 0;
}

milliseconds change_watcher::interval() const {
  return probes() ? home_->config.probe : home_->config.poll;
}

void change_watcher::wait() {
  home_->db->after(pause_, [weak = weak_from_this()] {
    if (auto self = weak.lock())
      self->probe();
  });
}

void change_watcher::probe() {
  // Who locks a sequence holds up inserts anyway, and with them this connection slot, but
  // no heartbeat and no outcome. The first probe comes before all picks, on the
  // connection slot that is connected before the others.
  bool known = home_->paused.known();
  home_->db->submit(
    known ? database::public_slot : database::control_slot,
    {{probes() ? store::last_ids() : store::paused_queues()}, false},
    [weak = weak_from_this()](const pq::reply& reply) {
    if (auto self = weak.lock())
      self->finish(reply);
    },
    known ? database::patience{database::patience::on::this_one}
          : database::patience{});
}

void change_watcher::finish(const pq::reply& reply) {
  if (!reply.ok()) {
    fail(*reply.failure);
  } else {
    pause_ = interval();
    auto now = store::read_one<store::last_ids_row>(reply.results.front())
                 .value_or(store::last_ids_row{});
    home_->see_paused(now.paused);
    see_jobs(std::exchange(now.jobs, 0));
    // Of those of this node's gateway the pickers know. Some may be counted a probe too
    // early or too late: then they probe once more.
    now.instances -= home_->drawn.instances;
    now.signals -= home_->drawn.signals;
    if (std::exchange(last_, now) != now && probes())
      tell_ = tell_of_change;
    if (tell_ > 0) {
      --tell_;
      home_->wake_all();
    }
  }
  wait();
}

void change_watcher::see_jobs(std::int64_t last) {
  if (std::exchange(last_job_, last) != last)
    tell_of_jobs_ = tell_of_change;
  if (tell_of_jobs_ == 0)
    return;
  --tell_of_jobs_;
  if (auto reaper = home_->children.find(role::reaper))
    anon(reaper, jobs_made{});
}

void change_watcher::fail(const error& why) {
  auto longest = retryable(why.code) ? longest_before_probe : longest_refused;
  pause_ = std::max(interval(), std::min(2 * pause_, longest));
  bool lost = why.code == errc::stopped || why.code == errc::unavailable
              || why.code == errc::unknown_fate;
  if (!lost && !home_->paused.known())
    home_->see_paused({}); // who may not ask works as if nothing was paused
  if (!lost && complaints_.note(why.message, database::clock::now()) > 0)
    home_->tell(
      events::sweep_failed{"the probe for what is due", without_data(why)});
}

} // namespace gd::actors
