#include <gd/actors/lookout.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Of a change: at once, and at the next three looks.
constexpr int tell_of_change = 4;
/// Between looks that fail; and where there is little hope, since each is an error in
/// the server's log.
constexpr milliseconds longest_pause{1'000};
constexpr milliseconds longest_refused{60'000};

} // namespace

bool lookout_actor::known::is_news(const pq::reply& reply,
                                   const drawn_ids& own) {
  if (!reply.ok()) {
    ++failures;
    return true;
  }
  failures = 0;
  auto now = store::read_one<store::last_ids_row>(reply.results.front())
               .value_or(store::last_ids_row{});
  // Of those of this node's gateway the pickers know. Some may be counted a look too
  // early or too late: then they look once more.
  now.instances -= own.instances;
  now.signals -= own.signals;
  if (std::exchange(last, now) != now)
    tell = tell_of_change;
  return tell > 0 && tell-- > 0;
}

lookout_actor::lookout_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg), home_(std::move(home)) {
  // nop
}

caf::behavior lookout_actor::make_behavior() {
  send_self_after(this, home_->config.look, look_due{});
  return {
    [this](look_due) { look(); },
    [this](unit_done& x) { finish(*x.reply); },
  };
}

void lookout_actor::look() {
  send_self_after(this, home_->config.look, look_due{});
  if (system().clock().now() < not_before_ || known_->under_way.exchange(true))
    return;
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(this);
  // Who locks a sequence holds up inserts anyway, and with them this lane, but no
  // heartbeat and no outcome.
  home_->db->submit(
    database::public_lane, {{store::last_ids()}, false},
    [weak, mine = known_, home = std::weak_ptr{home_}](pq::reply reply) {
    auto all = home.lock();
    bool news = all && mine->is_news(reply, all->drawn);
    mine->under_way = false;
    auto strong = news ? caf::actor_cast<caf::strong_actor_ptr>(weak) : nullptr;
    if (strong)
      anon(caf::actor_cast<caf::actor>(strong),
           unit_done{0, std::make_shared<pq::reply>(std::move(reply))});
    },
    database::clock::duration::zero());
}

void lookout_actor::finish(const pq::reply& reply) {
  if (reply.ok())
    return home_->wake_all();
  const auto& why = *reply.failure;
  auto longest = retryable(why.code) ? longest_pause : longest_refused;
  auto pause = home_->config.look * (1 << std::min<int>(known_->failures, 12));
  auto now = system().clock().now();
  not_before_ = now + std::max(home_->config.look, std::min(pause, longest));
  bool lost = why.code == errc::stopped || why.code == errc::unavailable
              || why.code == errc::unknown_fate;
  if (!lost && complaints_.note(why.message, now) > 0)
    home_->tell(
      events::sweep_failed{"the look for what is due", without_data(why)});
}

} // namespace gd::actors
