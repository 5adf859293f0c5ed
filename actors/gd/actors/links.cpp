#include <gd/actors/links.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

/// Peers that are spoken to at the most, whether they have joined or not.
constexpr std::size_t most_peers = 2'000;
/// And of those on one connection.
constexpr std::ptrdiff_t most_peers_of_a_node = 16;

} // namespace

links_actor::links_actor(caf::actor_config& cfg, node_ptr home)
  : caf::event_based_actor(cfg), home_(std::move(home)) {
  // nop
}

caf::behavior links_actor::make_behavior() {
  watcher_.install(this);
  auto weak = caf::actor_cast<caf::weak_actor_ptr>(this);
  home_->links->open([weak] {
    if (auto strong = caf::actor_cast<caf::strong_actor_ptr>(weak))
      anon(caf::actor_cast<caf::actor>(strong), link_poked{});
  });
  drive();
  return {
    [this](link_arrived& x) { receive(x); },
    [this](link_poked) { drive(); },
    [this](tick x) {
    if (x.generation != generation_)
      return;
    wake_at_ = clock::time_point::max();
    home_->links->tick(system().clock().now());
    drive();
    },
    [this](close_links) {
    home_->links->close("the engine stops");
    drive();
  },
    };
}

void links_actor::on_exit() {
  send(); // the last answers
  home_->links->open({});
  known_.clear();
  peers_.clear();
}

void links_actor::receive(link_arrived& x) {
  auto from = caf::actor_cast<caf::actor>(x.from);
  auto [found, added] = known_.try_emplace(from->address(), numbers_ + 1);
  if (added) {
    // Who says anything but `join` first, or is one too many, is not even remembered.
    if (x.what.type != static_cast<std::int32_t>(link::kind::join)
        || peers_.size() >= most_peers || has_many(from->node())) {
      known_.erase(found);
      return;
    }
    ++numbers_;
    peers_.emplace(numbers_, from);
    watcher_.watch(this, from, [this, number = numbers_](const caf::error&) {
      down(number);
    });
  }
  home_->links->arrived(found->second,
                        {x.what.type, x.what.version, std::move(x.what.bytes)},
                        system().clock().now());
  drive();
}

bool links_actor::has_many(const caf::node_id& which) const {
  return std::count_if(
           peers_.begin(), peers_.end(),
           [&which](const auto& x) { return x.second->node() == which; })
         >= most_peers_of_a_node;
}

void links_actor::down(link_desk::peer who) {
  auto found = peers_.find(who);
  if (found == peers_.end())
    return;
  known_.erase(found->second->address());
  peers_.erase(found);
  home_->links->gone(who, system().clock().now());
  drive();
}

void links_actor::send() {
  auto out = home_->links->take();
  for (auto& [to, x] : out.packets)
    if (auto found = peers_.find(to); found != peers_.end())
      anon(found->second, link_message{x.type, x.version, std::move(x.bytes)});
  for (const auto& x : out.events)
    home_->tell(x);
}

void links_actor::drive() {
  send();
  auto at = home_->links->due();
  if (at >= wake_at_)
    return;
  wake_at_ = at;
  auto now = system().clock().now();
  send_self_after(this, std::max(at - now, clock::duration::zero()),
                  tick{++generation_});
}

} // namespace gd::actors
