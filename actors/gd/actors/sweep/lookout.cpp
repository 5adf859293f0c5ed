#include <gd/actors/sweep/lookout.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Of a change: at once, and at the next three looks.
constexpr int tell_of_change = 4;
/// Between looks that fail; and where there is little hope, since each is an error in
/// the server's log.
constexpr milliseconds longest_before_look{1'000};
constexpr milliseconds longest_refused{60'000};

} // namespace

lookout::lookout(node_ptr home) : home_(std::move(home)), pause_(interval()) {
  // nop
}

bool lookout::looks() const {
  return home_->config.look.count() > 0;
}

milliseconds lookout::interval() const {
  return looks() ? home_->config.look : home_->config.poll;
}

void lookout::wait() {
  home_->db->after(pause_, [weak = weak_from_this()] {
    if (auto self = weak.lock())
      self->look();
  });
}

void lookout::look() {
  // Who locks a sequence holds up inserts anyway, and with them this lane, but no
  // heartbeat and no outcome. The first look comes before all picks, on the lane that
  // is connected before the others.
  bool known = home_->paused.known();
  home_->db->submit(
    known ? database::public_lane : database::control_lane,
    {{looks() ? store::last_ids() : store::paused_queues()}, false},
    [weak = weak_from_this()](const pq::reply& reply) {
    if (auto self = weak.lock())
      self->finish(reply);
    },
    known ? database::patience{database::patience::on::this_one}
          : database::patience{});
}

void lookout::finish(const pq::reply& reply) {
  if (!reply.ok()) {
    fail(*reply.failure);
  } else {
    pause_ = interval();
    auto now = store::read_one<store::last_ids_row>(reply.results.front())
                 .value_or(store::last_ids_row{});
    home_->see_paused(now.paused);
    see_jobs(std::exchange(now.jobs, 0));
    // Of those of this node's gateway the pickers know. Some may be counted a look too
    // early or too late: then they look once more.
    now.instances -= home_->drawn.instances;
    now.signals -= home_->drawn.signals;
    if (std::exchange(last_, now) != now && looks())
      tell_ = tell_of_change;
    if (tell_ > 0) {
      --tell_;
      home_->wake_all();
    }
  }
  wait();
}

void lookout::see_jobs(std::int64_t last) {
  if (std::exchange(last_job_, last) != last)
    tell_of_jobs_ = tell_of_change;
  if (tell_of_jobs_ == 0)
    return;
  --tell_of_jobs_;
  if (auto reaper = home_->children.find(role::reaper))
    anon(reaper, jobs_made{});
}

void lookout::fail(const error& why) {
  auto longest = retryable(why.code) ? longest_before_look : longest_refused;
  pause_ = std::max(interval(), std::min(2 * pause_, longest));
  bool lost = why.code == errc::stopped || why.code == errc::unavailable
              || why.code == errc::unknown_fate;
  if (!lost && !home_->paused.known())
    home_->see_paused({}); // who may not ask works as if nothing was paused
  if (!lost && complaints_.note(why.message, database::clock::now()) > 0)
    home_->tell(
      events::sweep_failed{"the look for what is due", without_data(why)});
}

} // namespace gd::actors
