#include <gd/actors/engine/supervisor.hpp>

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/queue/picker.hpp>
#include <gd/actors/sweep/change_watcher.hpp>
#include <gd/actors/sweep/heartbeat.hpp>
#include <gd/actors/sweep/reaper.hpp>
#include <gd/pq/pause.hpp>
#include <gd/store/nodes.hpp>
#include <gd/store/store.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// A child that has lived so long starts its backoff anew.
constexpr std::chrono::seconds healthy_after{30};
constexpr milliseconds first_backoff{50};
constexpr milliseconds longest_backoff{10'000};
/// Between attempts to begin.
constexpr milliseconds inspection_pause{1'000};
/// What the last word of a node may take: the others do without it.
constexpr milliseconds leave_at_most{1'000};
constexpr milliseconds leave_wait{100};

/// The tickets of the supervisor's units.
enum unit : std::uint64_t { inspection, farewell };

/// As events name a child.
std::string title_of(role what, const std::string& queue) {
  switch (what) {
    case role::backend:
      return "gateway";
    case role::heartbeat:
      return "heartbeat";
    case role::reaper:
      return "reaper";
    case role::links:
      return "links";
    case role::hints:
      return "hints";
    case role::picker:
      break;
  }
  return "picker of " + queue;
}

} // namespace

supervisor_actor::supervisor_actor(caf::actor_config& cfg, node_ptr home,
                                   caf::actor gateway_handle,
                                   caf::actor backend,
                                   std::shared_ptr<engine_end> end)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    gateway_handle_(std::move(gateway_handle)),
    first_backend_(std::move(backend)),
    end_(std::move(end)) {
  summary_.node = home_->config.node;
}

caf::behavior supervisor_actor::make_behavior() {
  watcher_.install(this);
  add(role::backend, {}, [this] { return spawn_gateway(); });
  add(role::heartbeat, {},
      [this] { return spawn<heartbeat_actor, caf::detached>(home_); });
  add(role::reaper, {}, [this] { return spawn<reaper_actor>(home_); });
  home_->paused.forget();
  add_pickers();
  change_watcher_ = std::make_shared<change_watcher>(home_);
  change_watcher_->probe();
  inspect_server();
  return {
    [this](restart x) { start(x.child); },
    [this](unit_done& x) { finish(x.ticket, *x.reply); },
    [this](inspect_again) { inspect_server(); },
    [this](let_others_in& x) { open(std::move(x)); },
    [this](give_up& x) { fail(x.why); },
    [this](drain x) { begin_draining(x.grace); },
    [this](drained& x) { count(x); },
    [this](farewell_over) { quit(); },
  };
}

caf::actor supervisor_actor::spawn_gateway() {
  if (first_backend_)
    return std::exchange(first_backend_, nullptr);
  auto backend = caf::actor_cast<caf::actor>(spawn<gateway_backend>(home_));
  anon(gateway_handle_, set_backend{backend});
  return backend;
}

void supervisor_actor::open(let_others_in x) {
  if (!draining_ && home_->workers.set(x.where)) {
    add(role::links, {},
        [this, links = std::move(x.links)] { return links(system()); });
    add(role::hints, {},
        [this, hints = std::move(x.hints)] { return hints(system()); });
    home_->tell_pickers(workers_changed{});
  }
  x.done->set_value();
}

void supervisor_actor::add_pickers() {
  auto queue_slots = static_cast<std::size_t>(home_->config.connections)
                     - database::first_queue_slot;
  // Each queue has a connection of its own as long as there are enough, and
  // the next queue's beside it.
  std::size_t number = 0;
  for (const auto& queue : home_->config.queues) {
    std::vector<std::size_t> connection_slots;
    for (std::size_t i = 0; i < std::min<std::size_t>(queue_slots, 2); ++i)
      connection_slots.push_back(database::first_queue_slot
                                 + (number + i) % queue_slots);
    ++number;
    add(role::picker, queue.name, [this, queue, connection_slots] {
      return spawn<picker_actor>(home_, queue, connection_slots);
    });
  }
}

void supervisor_actor::finish(std::uint64_t ticket, const pq::reply& reply) {
  switch (static_cast<unit>(ticket)) {
    case inspection:
      return read_inspection(reply);
    case farewell:
      if (--farewells_ == 0)
        quit();
  }
}

/// Answered when the control connection is ready, and with it the machines are
/// registered: the node has started.
void supervisor_actor::inspect_server() {
  if (!draining_)
    submit(this, *home_->db, database::control_slot,
           {{store::foreign_sessions(home_->incarnation), store::not_served()},
            false},
           inspection);
}

void supervisor_actor::read_inspection(const pq::reply& reply) {
  if (reply.ok()) {
    home_->tell(events::node_started{home_->config.node});
    for (auto& x : store::read<store::foreign_session>(reply.results.front()))
      home_->tell(events::sessions_not_ended{std::move(x.node)});
    for (auto& x : store::read<not_served_row>(reply.results.back()))
      home_->tell_not_served(std::move(x));
  } else if (!draining_) {
    home_->tell(events::sweep_failed{"looking who else is there",
                                     without_data(*reply.failure)});
    send_self_after(this, inspection_pause, inspect_again{});
  }
}

void supervisor_actor::add(role what, std::string queue,
                           std::function<caf::actor()> spawn) {
  children_.push_back({what, std::move(queue), std::move(spawn)});
  start(children_.size() - 1);
}

void supervisor_actor::start(std::size_t index) {
  if (draining_)
    return;
  auto& x = children_[index];
  x.handle = x.spawn();
  home_->children.set(x.what, x.queue, x.handle);
  x.started = system().clock().now();
  watcher_.watch(this, x.handle,
                 [this, index](const caf::error& why) { down(index, why); });
}

void supervisor_actor::down(std::size_t index, const caf::error& why) {
  auto& x = children_[index];
  x.handle = nullptr;
  if (x.what == role::backend && gateway_handle_)
    anon(gateway_handle_, set_backend{});
  if (draining_)
    return finish_if_drained();
  if (system().clock().now() - x.started > healthy_after)
    x.crashes = 0;
  auto wait = pause_after(x.crashes++, first_backoff, longest_backoff);
  home_->tell(
    events::actor_restarted{title_of(x.what, x.queue), render(system(), why)});
  send_self_after(this, wait, restart{index});
}

void supervisor_actor::fail(const error& why) {
  end_->why = why;
  end_->on_failure(why);
  home_->tell(
    events::node_failed{why}); // whoever hears of it can ask the engine
  begin_draining(milliseconds{0});
}

void supervisor_actor::count(const drained& left) {
  summary_.released += left.released;
  summary_.abandoned += left.abandoned;
}

void supervisor_actor::begin_draining(milliseconds grace) {
  if (draining_)
    return;
  draining_ = true;
  // CAF itself holds who has spoken to other nodes.
  if (auto hints = home_->children.find(role::hints))
    caf::anon_send_exit(hints, caf::exit_reason::user_shutdown);
  change_watcher_ = nullptr;
  home_->children.clear();
  // Heartbeat, gateway and links go on until the last picker is done.
  for (auto& x : children_)
    if (x.handle && x.what == role::links) {
      home_->children.set(x.what, {}, x.handle);
      anon(x.handle, close_links{});
    }
  for (auto& x : children_)
    if (x.handle && x.what == role::picker)
      post(this, x.handle, drain{grace});
    else if (x.handle && x.what == role::reaper)
      caf::anon_send_exit(x.handle, caf::exit_reason::user_shutdown);
  finish_if_drained();
}

void supervisor_actor::finish_if_drained() {
  auto lives = [](const child& x) { return static_cast<bool>(x.handle); };
  if (std::any_of(children_.begin(), children_.end(), [lives](const child& x) {
        return lives(x) && x.what == role::picker;
      }))
    return;
  // Which has the gateway's backend answer what has come before.
  if (gateway_handle_)
    anon(std::exchange(gateway_handle_, nullptr), close_gateway{});
  for (auto& x : children_)
    if (x.handle && x.what != role::reaper && x.what != role::backend)
      caf::anon_send_exit(x.handle, caf::exit_reason::user_shutdown);
  if (leaving_ || std::any_of(children_.begin(), children_.end(), lives))
    return;
  leaving_ = true;
  home_->tell(summary_);
  say_farewell();
}

void supervisor_actor::say_farewell() {
  // On each connection slot, behind the last beat there, which would make the node known
  // again.
  auto connection_slots = static_cast<std::size_t>(home_->config.connections);
  farewells_ = connection_slots + 1;
  auto say = [this](std::size_t connection_slot, pq::unit work) {
    submit(this, *home_->db, connection_slot, std::move(work), farewell,
           database::patience::on::this_one);
  };
  for (std::size_t connection_slot = 0; connection_slot < connection_slots;
       ++connection_slot)
    say(connection_slot, {{store::lock_timeout(leave_wait),
                           store::leave_nodes(home_->incarnation)}});
  say(database::control_slot,
      {{store::lock_timeout(leave_wait), store::machines_lock(),
        store::mark_served(home_->incarnation, true)}});
  send_self_after(this, leave_at_most, farewell_over{});
}

void supervisor_actor::on_exit() {
  for (auto& x : children_)
    if (x.handle)
      caf::anon_send_exit(x.handle, caf::exit_reason::user_shutdown);
  children_.clear();
  home_->children.clear(); // which keep the node that keeps them
  if (gateway_handle_)
    anon(std::exchange(gateway_handle_, nullptr), close_gateway{});
  end_->ended.set_value();
}

} // namespace gd::actors
