#include <gd/network/workers/links.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>

namespace gd::actors {

namespace {

/// Connections that are spoken to at the most, whether they have joined or not.
constexpr std::size_t most_connections = 2'000;
/// And of those on one connection.
constexpr std::ptrdiff_t most_connections_of_a_node = 16;

} // namespace

links_actor::links_actor(caf::actor_config& cfg, node_ptr home,
                         std::shared_ptr<worker_hub> hub)
  : caf::event_based_actor(cfg), home_(std::move(home)), hub_(std::move(hub)) {
  home_->said.open(2 * static_cast<std::size_t>(home_->config.bytes_waiting));
}

caf::behavior links_actor::make_behavior() {
  watcher_.install(this);
  hub_->open([self = weak_ref{this}] { self.tell(link_poked{}); });
  drive();
  return {
    [this](link_arrived& x) { receive(x); },
    [this](link_poked) { drive(); },
    [this](tick x) {
    if (!alarm_.rings(x))
      return;
    hub_->tick(system().clock().now());
    drive();
    },
    [this](close_links) {
    hub_->close("the engine stops");
    drive();
  },
    };
}

void links_actor::on_exit() {
  send(); // the last answers
  hub_->open({});
  known_.clear();
  connections_.clear();
}

void links_actor::receive(link_arrived& x) {
  auto from = caf::actor_cast<caf::actor>(x.from);
  auto [found, added] = known_.try_emplace(from->address(), numbers_ + 1);
  if (added) {
    // Who says anything but `join` first, or is one too many, is not even remembered.
    if (x.what.type != static_cast<std::int32_t>(link::kind::join)
        || connections_.size() >= most_connections || has_many(from->node())) {
      known_.erase(found);
      return;
    }
    ++numbers_;
    connections_.emplace(numbers_, from);
    watcher_.watch(this, from, [this, number = numbers_](const caf::error&) {
      down(number);
    });
  }
  hub_->arrived(found->second,
                {x.what.type, x.what.version, std::move(x.what.bytes)},
                system().clock().now());
  drive();
}

bool links_actor::has_many(const caf::node_id& which) const {
  return std::count_if(
           connections_.begin(), connections_.end(),
           [&which](const auto& x) { return x.second->node() == which; })
         >= most_connections_of_a_node;
}

void links_actor::down(worker_hub::connection_id who) {
  auto found = connections_.find(who);
  if (found == connections_.end())
    return;
  known_.erase(found->second->address());
  connections_.erase(found);
  hub_->gone(who, system().clock().now());
  drive();
}

void links_actor::send() {
  auto out = hub_->take();
  for (auto& [to, x] : out.packets)
    if (auto found = connections_.find(to); found != connections_.end())
      anon(found->second, link_message{x.type, x.version, std::move(x.bytes)});
  for (const auto& x : out.events)
    home_->tell(x);
}

void links_actor::drive() {
  send();
  alarm_.set(this, hub_->due());
}

} // namespace gd::actors
