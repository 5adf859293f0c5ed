#include <gd/network/server/far.hpp>

#include <gd/event.hpp>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace gd::actors {

caf::actor broker_of(caf::actor_system& sys) {
  return sys.middleman().named_broker<caf::io::basp_broker>(
    registered_name("BASP"));
}

namespace {

/// The actor itself; to be used by the middleman's thread alone.
caf::io::basp_broker* inner_broker(caf::actor_system& sys) {
  auto handle = broker_of(sys);
  auto* broker = static_cast<caf::io::basp_broker*>(
    caf::actor_cast<caf::abstract_actor*>(handle));
  return broker->getf(caf::abstract_actor::is_terminated_flag) ? nullptr
                                                               : broker;
}

std::optional<caf::io::connection_handle>
connection_to(caf::io::basp_broker& broker, const caf::node_id& which) {
  auto route = broker.instance.tbl().lookup(which);
  if (!route || !broker.valid(route->hdl))
    return std::nullopt;
  return route->hdl;
}

} // namespace

void connected_nodes::let_leave(std::size_t unread) {
  auto before = most_unread_.load();
  while (before < unread && !most_unread_.compare_exchange_weak(before, unread))
    ; // another endpoint has come meanwhile
}

void connected_nodes::ask_unread(const caf::node_id& of,
                                 std::function<void(std::size_t)> answer) {
  std::lock_guard held{mutex_};
  questions_.push_back({of, std::move(answer)});
  // One for all: CAF takes one thing that others have for its thread after each round
  // over the sockets, and what its actor says to a node waits behind them.
  if (questions_.size() == 1)
    sys_.middleman().run_later(
      [self = shared_from_this()] { self->answer_questions(); });
}

void connected_nodes::answer_questions() {
  std::vector<question> asked;
  {
    std::lock_guard held{mutex_};
    asked.swap(questions_);
  }
  auto* broker = inner_broker(sys_);
  for (auto& x : asked) {
    std::size_t bytes = 0;
    if (broker != nullptr)
      if (auto at = connection_to(*broker, x.of))
        bytes = broker->wr_buf(*at).size();
    // Even refusals pile up if they are not read.
    if (bytes > 2 * most_unread_)
      cut_off(x.of, "has left too many answers unread");
    x.answer(bytes);
  }
}

void connected_nodes::cut_off(const caf::node_id& which, std::string why) {
  sys_.middleman().run_later(
    [self = shared_from_this(), which, why = std::move(why)] {
    auto* broker = inner_broker(self->sys_);
    auto at = broker != nullptr ? connection_to(*broker, which) : std::nullopt;
    auto home = self->home_.lock();
    if (!at || !home)
      return;
    home->tell(events::gateway_connection_cut{"another node", why, 1});
    // CAF's own way would first write what nobody reads. Its handle is the socket.
    shutdown(static_cast<int>(at->id()), SHUT_RDWR);
  });
}

void connected_nodes::taken(const caf::node_id& from) {
  std::lock_guard held{mutex_};
  auto found = nodes_.find(from);
  if (found == nodes_.end())
    return;
  const auto& count = found->second.count;
  if (++count->taken == count->wake_at)
    found->second.wake();
}

void connected_nodes::refused(const caf::node_id& from) {
  std::lock_guard held{mutex_};
  if (auto found = nodes_.find(from); found != nodes_.end())
    found->second.count->refused = true;
}

std::shared_ptr<peer_count> connected_nodes::come(const caf::node_id& which,
                                                  const void* to,
                                                  std::function<void()> wake) {
  std::lock_guard held{mutex_};
  auto [found, added] = nodes_.try_emplace(
    which, connected{std::make_shared<peer_count>(), to, std::move(wake)});
  return found->second.count;
}

void connected_nodes::leave(const void* endpoint) {
  std::lock_guard held{mutex_};
  std::erase_if(nodes_, [endpoint](const auto& x) {
    return x.second.endpoint == endpoint;
  });
}

void connected_nodes::gone(const caf::node_id& which) {
  {
    std::lock_guard held{mutex_};
    nodes_.erase(which);
  }
  if (auto home = home_.lock())
    if (auto backend = home->children.find(role::backend))
      anon(backend, node_gone{which});
}

} // namespace gd::actors
