#include <gd/network/server/hints.hpp>

#include <gd/actors/remote.hpp>
#include <gd/network/client/dial.hpp>
#include <gd/pq/pause.hpp>
#include <gd/store/nodes.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// A node that does not answer a hint for so long is left alone for a while.
constexpr milliseconds answer_at_most{1'000};
constexpr milliseconds connect_at_most{1'000};
constexpr milliseconds first_retry{1'000};
constexpr milliseconds longest_retry{60'000};
/// Who the others are is asked again when that is older.
constexpr milliseconds remote_nodes_last{5'000};
/// Names that are kept for others that are not known yet: anybody may insert into any queue.
constexpr std::size_t most_unheard = 100;
/// Instances that are kept to be told of, of each kind, and that one hint tells of.
constexpr std::size_t most_ids = 10'000;
constexpr std::size_t ids_of_a_hint = 1'000;
/// Of which half are kept for so long, and the others as long again.
constexpr std::chrono::minutes wanted_for{10};
/// What a beat of a node may wait for a stranger's lock.
constexpr milliseconds announce_wait{100};

gateway_finder finder_for(caf::actor_system& sys, const node_ptr& home) {
  return [&sys, home](const std::string& address,
                      std::function<void(result<held_gateway>)> tell) {
    dial(sys, address, home->known_as->secret(), connect_at_most,
         std::move(tell));
  };
}

} // namespace

void wanted_ends::add(std::int64_t id, const std::string& who,
                      clock::time_point now) {
  if (young_.size() >= most_ids / 2 || now - aged_at_ >= wanted_for) {
    for (const auto& [gone, by] : std::exchange(old_, std::move(young_)))
      if (!old_.contains(gone))
        watched_.remove(gone);
    young_.clear();
    aged_at_ = now;
  }
  young_[id].insert(who);
  watched_.add(id);
}

std::set<std::string> wanted_ends::take(std::int64_t id) {
  std::set<std::string> who;
  for (auto* of : {&young_, &old_})
    if (auto found = of->extract(id); !found.empty())
      who.merge(found.mapped());
  watched_.remove(id);
  return who;
}

node_hint hints_actor::news::take(const std::string& sender) {
  node_hint out{.sender = awaited.empty() ? std::string{} : sender};
  for (const auto& [queue, anywhere] : std::exchange(due, {})) {
    out.queues.push_back(queue);
    out.anywhere = out.anywhere || anywhere;
  }
  auto move_some =
    [](std::set<std::int64_t>& from, std::vector<std::int64_t>& to) {
    while (!from.empty() && to.size() < ids_of_a_hint)
      to.push_back(from.extract(from.begin()).value());
  };
  move_some(awaited, out.awaited);
  move_some(ended, out.ended);
  return out;
}

hints_actor::hints_actor(caf::actor_config& cfg, node_ptr home,
                         gateway_finder find)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    finder_(std::move(find)),
    wanted_(home_->awaited_elsewhere) {
  home_->awaited_elsewhere
    .clear(); // whoever was here before has forgotten them
}

caf::behavior hints_actor::make_behavior() {
  watcher_.install(this);
  return {
    [this](const due_backlog& x) { leave(x); },
    [this](const ends_awaited& x) { await_ends(x); },
    [this](const instance_ended& x) { see_end(x.how.id); },
    [this](const node_hint& x) { hear(x); },
    [this](const remote_node_found& x) { found(x); },
    [this](unit_done& x) { read_remote_nodes(*x.reply); },
    [this](tick x) {
    if (!alarm_.rings(x))
      return;
    wake_here(system().clock().now());
    tell_all();
    },
    };
}

void hints_actor::on_exit() {
  remote_nodes_.clear();
}

// -- what this node leaves ----------------------------------------------------

void hints_actor::leave(const due_backlog& what) {
  find_remote_nodes(system().clock().now());
  if (finding_nodes_
      && (unheard_.size() < most_unheard || unheard_.contains(what.queue)))
    unheard_[what.queue] |= what.anywhere;
  for (auto& [who, to] : remote_nodes_)
    if (to.queues.contains(what.queue))
      to.news.due[what.queue] |= what.anywhere;
  tell_all();
}

void hints_actor::await_ends(const ends_awaited& what) {
  find_remote_nodes(system().clock().now());
  auto add = [&](std::set<std::int64_t>& to) {
    for (auto id : what.ids)
      if (to.size() < most_ids)
        to.insert(id);
  };
  if (finding_nodes_)
    add(unheard_awaited_);
  for (auto& [who, to] : remote_nodes_)
    add(to.news.awaited);
  tell_all();
}

void hints_actor::see_end(std::int64_t id) {
  for (const auto& who : wanted_.take(id))
    if (auto at = remote_nodes_.find(who); at != remote_nodes_.end())
      at->second.news.ended.insert(id);
  tell_all();
}

void hints_actor::find_remote_nodes(clock::time_point now) {
  if (finding_nodes_ || (found_at_ && now - *found_at_ < remote_nodes_last))
    return;
  finding_nodes_ = true;
  submit(this, *home_->db, database::public_slot,
         {{store::remote_nodes(home_->incarnation)}, false}, 0,
         database::patience::on::this_one);
}

void hints_actor::read_remote_nodes(const pq::reply& reply) {
  auto now = system().clock().now();
  finding_nodes_ = false;
  found_at_ = now;
  auto unheard = std::exchange(unheard_, {});
  auto awaited = std::exchange(unheard_awaited_, {});
  if (!reply.ok())
    return;
  auto before = std::exchange(remote_nodes_, {});
  for (auto& x : store::read<store::remote_node_row>(reply.results.front())) {
    auto address = address_for(x.address, x.host == home_->known_as->host());
    if (address.empty())
      continue;
    remote_node one{.address = std::move(address),
                    .queues = {x.queues.begin(), x.queues.end()}};
    auto old = before.extract(x.incarnation);
    if (!old.empty() && old.mapped().address == one.address)
      one = std::move(old.mapped());
    else {
      for (const auto& [queue, anywhere] : unheard)
        if (one.queues.contains(queue))
          one.news.due[queue] |= anywhere;
      one.news.awaited = awaited;
    }
    remote_nodes_.emplace(std::move(x.incarnation), std::move(one));
  }
  tell_all();
}

void hints_actor::tell_all() {
  auto now = system().clock().now();
  for (auto& [who, to] : remote_nodes_)
    tell(who, to, now);
}

void hints_actor::tell(const std::string& who, remote_node& to,
                       clock::time_point now) {
  if (to.news.empty() || to.asked != 0)
    return;
  if (now < to.next) {
    // Who does not answer finds its rows, and ends, by itself until then.
    if (to.failures > 0)
      to.news = {};
    else
      alarm_.set(this, to.next);
    return;
  }
  if (!to.handle)
    return find(who, to);
  auto what = to.news.take(home_->incarnation);
  to.next = now + hint_window;
  auto ticket = to.asked = ++tickets_;
  request_from(this, to.handle, answer_at_most, std::move(what))
    .then(
      [this, who, ticket](const hint_noted&) { answered(who, ticket, true); },
      [this, who, ticket](const caf::error&) { answered(who, ticket, false); });
}

void hints_actor::answered(const std::string& who, std::uint64_t ticket,
                           bool well) {
  auto at = remote_nodes_.find(who);
  if (at == remote_nodes_.end() || at->second.asked != ticket)
    return;
  auto now = system().clock().now();
  at->second.asked = 0;
  if (well)
    at->second.failures = 0;
  else
    lose(at->second, now);
  tell(who, at->second, now);
}

// -- finding the others -------------------------------------------------------

/// One at a time: each may take a thread for as long as a connection may.
void hints_actor::find(const std::string& who, const remote_node& what) {
  if (std::exchange(finding_, true))
    return;
  finder_(what.address,
          [who, self = weak_ref{this}](result<held_gateway> found) {
    self.tell(
      found ? remote_node_found{who, caf::actor_cast<caf::actor>(found->handle),
                                std::move(found->connection)}
            : remote_node_found{who, {}, {}});
  });
}

void hints_actor::found(const remote_node_found& what) {
  finding_ = false;
  auto now = system().clock().now();
  if (auto at = remote_nodes_.find(what.incarnation);
      at != remote_nodes_.end()) {
    auto& x = at->second;
    x.handle = what.handle;
    x.connection = what.connection;
    if (!x.handle)
      lose(x, now);
    else
      watcher_.watch(this, x.handle,
                     [this, who = at->first](const caf::error&) {
        if (auto gone = remote_nodes_.find(who); gone != remote_nodes_.end()) {
          gone->second.handle = nullptr;
          gone->second.connection = nullptr;
          gone->second.asked = 0;
        }
      });
  }
  tell_all();
}

void hints_actor::lose(remote_node& which, clock::time_point now) {
  which.handle = nullptr;
  which.connection = nullptr;
  which.news = {};
  which.next = now + pause_after(which.failures++, first_retry, longest_retry);
}

// -- what others leave --------------------------------------------------------

void hints_actor::hear(const node_hint& what) {
  auto now = system().clock().now();
  if (!what.awaited.empty()) {
    find_remote_nodes(now); // so that its sender can be told
    for (auto id : what.awaited)
      wanted_.add(id, what.sender, now);
  }
  if (!what.ended.empty())
    if (auto worker = home_->children.find(role::backend))
      anon(worker, ends_told{what.ended});
  for (const auto& queue : home_->config.queues)
    if (std::find(what.queues.begin(), what.queues.end(), queue.name)
        != what.queues.end())
      here_[queue.name] |= what.anywhere;
  wake_here(now);
}

void hints_actor::wake_here(clock::time_point now) {
  if (here_.empty())
    return;
  if (now < here_at_)
    return alarm_.set(this, here_at_);
  here_at_ = now + hint_window;
  for (const auto& [queue, anywhere] : std::exchange(here_, {}))
    home_->wake({queue}, anywhere, false);
}

// -- addresses ----------------------------------------------------------------

std::string join_addresses(const std::string& here,
                           const std::string& elsewhere) {
  return elsewhere.empty() ? here : here + '\n' + elsewhere;
}

std::string address_for(const std::string& address, bool same_host) {
  auto end = std::min(address.find('\n'), address.size());
  return same_host ? address.substr(0, end)
                   : address.substr(std::min(end + 1, address.size()));
}

caf::actor spawn_hints(caf::actor_system& sys, const node_ptr& home) {
  return caf::actor_cast<caf::actor>(
    sys.spawn<hints_actor>(home, finder_for(sys, home)));
}

void announce(const node_ptr& home, const std::string& address,
              const std::string& secret) {
  home->known_as->publish(address, secret);
  // Where there is no connection yet, its greeting says so.
  home->db->submit(
    database::public_slot,
    home->known_as->beat(database::public_slot, announce_wait),
    [](const pq::reply&) {}, database::patience::on::this_one);
}

} // namespace gd::actors
