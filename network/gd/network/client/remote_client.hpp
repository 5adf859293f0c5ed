#pragma once

#include <gd/actors/messages.hpp>
#include <gd/actors/node/self.hpp>
#include <gd/actors/remote_gateway.hpp>

#include <gd/network/client/request_queue.hpp>
#include <gd/pq/complaints.hpp>

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd::actors {

struct remote_request {
  requests::any_request what;
};

struct remote_answer {
  requests::any_answer what;
};

/// The node that a gateway's client has a connection to; null: it has none. To be used by
/// any thread.
class connected_node {
public:
  void set(caf::node_id which) {
    std::lock_guard guard{mutex_};
    which_ = std::move(which);
  }
  caf::node_id get() const {
    std::lock_guard guard{mutex_};
    return which_;
  }

private:
  mutable std::mutex mutex_;
  caf::node_id which_;
};

/// Asks over one connection. What it has asked goes with it: CAF forgets no request whose
/// answer never comes.
class client_connection : public caf::event_based_actor {
public:
  client_connection(caf::actor_config& cfg, gateway to,
                    std::uint64_t connection, caf::actor owner);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.client_connection";
  }

private:
  template <class Answer, class Request>
  void ask(std::uint64_t ticket, const Request& x);
  void report(std::uint64_t ticket, remote_answer answer);
  void refused(std::uint64_t ticket, const caf::error& why);
  /// Answers that have come are handed on first.
  void lose(gd::error why);

  gateway to_;
  std::uint64_t connection_;
  caf::actor owner_;
  std::optional<gd::error> lost_;
  watcher watcher_;
};

/// The gateway with what its client tells itself.
using remote_client_impl = extended<gateway, void(tick), void(dialled),
                                    void(carried), void(cut), void(hang_up)>;

/// The gateway's client: drives a request queue. Attempts to connect block, and have a
/// thread of their own each.
class remote_client : public remote_client_impl::base {
public:
  /// `first`: a connection to `addresses[at]` that there is already, or none.
  remote_client(caf::actor_config& cfg, std::vector<std::string> addresses,
                reach_options how, held_gateway first, std::size_t at,
                std::shared_ptr<connected_node> remote);

  behavior_type make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.remote_client";
  }

private:
  using clock = request_queue::clock;

  struct asked {
    std::shared_ptr<const remote_request> what;
    std::function<void(remote_answer&)> answer;
  };

  template <class Answer, class Request>
  caf::result<Answer> take(Request& x);
  void answer(std::uint64_t ticket, remote_answer what);
  void answer_all(std::vector<request_queue::ended> who);
  void finish(carried& x);
  void connected(held_gateway to);
  void failed(const error& why);
  /// The connection is given up, and nothing of it is heard any more.
  void let_go(const error& why);
  void complain(const error& why);
  void connect(std::size_t address);
  void drive();
  void end();

  std::vector<std::string> addresses_;
  reach_options how_;
  held_gateway first_;
  /// The address that is tried, or that the connection is to.
  std::size_t at_;
  request_queue box_;
  std::unordered_map<std::uint64_t, asked> asked_;
  caf::actor client_connection_;
  std::shared_ptr<void> connection_;
  std::shared_ptr<connected_node> remote_;
  complaints complaints_;
  std::uint64_t tickets_ = 0;
  alarm alarm_;
};

} // namespace gd::actors
