#include <gd/actors/remote.hpp>

#include <gd/actors/node/node.hpp>
#include <gd/network/client/dial.hpp>
#include <gd/network/server/far.hpp>
#include <gd/network/server/hints.hpp>
#include <gd/network/wire/relay.hpp>
#include <gd/network/wire/secret.hpp>
#include <gd/network/workers/links.hpp>
#include <gd/time.hpp>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp/version.hpp>

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gd::actors {

void add_network_to(caf::actor_system_config& cfg) {
  load_module<caf::io::middleman>(cfg);
  prepare_network(cfg);
}

namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

/// A published actor's place in CAF's book, which is by port. Each handshake enters its
/// own before it is read.
constexpr std::uint16_t entry = 1;
/// Half of them may come unnoticed.
constexpr milliseconds least_silence{3'000};
/// For what the gateway answers: pages of documents.
constexpr std::size_t most_of_an_answer = std::size_t{128} << 20;
/// How long a gateway that somebody else holds already may take to answer.
constexpr milliseconds longest_probe{1'000};
/// How long an engine that stops waits for peers that do not read.
constexpr milliseconds patience_at_end{2'000};

error invalid(std::string message) {
  return {errc::invalid_argument, std::move(message), {}};
}

error unavailable(std::string message) {
  return {errc::unavailable, std::move(message), {}};
}

template <class T>
result<void> check_range(const char* name, T value, T least, T most) {
  if (value >= least && value <= most)
    return {};
  return invalid(fmt::format("publish: expected {} from {} to {}, got {}", name,
                             least, most, value));
}

std::size_t message_bytes(const publish_options& x, const limits& bounds) {
  return x.message_bytes.value_or(bounds.state + bounds.payload
                                  + bounds.metadata + (1 << 20));
}

result<void> check(const publish_options& x, const limits& bounds) {
  constexpr std::size_t mebi = 1 << 20;
  if (x.socket.empty() == !x.port)
    return invalid("publish: expected the path of a socket or a port, got "
                   + std::string{x.port ? "both" : "neither"});
  if (x.port && !is_loopback(x.address))
    return invalid("publish: expected a loopback address (127.0.0.1), got \""
                   + x.address
                   + "\"; between machines, a tunnel carries the connection");
  if (x.socket.find('\n') != std::string::npos)
    return invalid("publish: expected a socket's path without line breaks");
  if (!x.advertise.empty())
    if (auto at = to_endpoint(x.advertise); !at || at->path.empty() != !!x.port)
      return invalid(fmt::format(
        "publish: expected {} to be advertised, the end of a tunnel to {}, got "
        "\"{}\"",
        x.port ? "a loopback address with a port (127.0.0.1:4801)"
               : "unix:<path>",
        x.port ? "a port" : "a socket", x.advertise));
  auto longest = message_bytes(x, bounds);
  for (const auto& checked :
       {check_range<std::size_t>("connections", x.connections, 1, 10'000),
        check_range<std::int64_t>("handshake (ms)", x.handshake.count(), 1,
                                  3'600'000),
        check_range<std::int64_t>("silence (ms)", x.silence.count(),
                                  least_silence.count(), 3'600'000),
        check_range<std::size_t>("message_bytes", longest, 1'024, 256 * mebi),
        check_range<std::size_t>("bytes", x.bytes, longest, 4'096 * mebi)})
    if (!checked)
      return checked;
  if (x.port && x.secret.empty())
    return invalid("publish: expected a secret for the port, which all users "
                   "of this machine reach, got none: gdctl secret new makes "
                   "one, and a socket needs none");
  if (!x.port && !x.secret.empty())
    return invalid("publish: expected no secret for a socket, as the system "
                   "tells who connects, got \""
                   + x.secret + "\"");
  return {};
}

// -- CAF's node ids -----------------------------------------------------------

/// As it has written it in its handshake.
caf::node_id node_of(caf::actor_system& sys, const std::string& bytes) {
  caf::node_id node;
  static_cast<void>(read_bytes(sys, bytes, node));
  return node;
}

// -- publishing ---------------------------------------------------------------

/// An endpoint where the gateway is published.
class published_endpoint {
public:
  published_endpoint(caf::actor_system& sys,
                     std::shared_ptr<connected_nodes> nodes)
    : sys_(sys), nodes_(std::move(nodes)) {
    // nop
  }

  void open(const gateway& handle, relay_settings settings, descriptor listener,
            std::string path) {
    path_ = std::move(path);
    struct stat file {};
    if (!path_.empty() && stat(path_.c_str(), &file) == 0)
      file_ = {file.st_dev, file.st_ino};
    auto whom = caf::actor_cast<caf::strong_actor_ptr>(handle);
    auto signatures = sys_.message_types(handle);
    settings.gone = [this](const std::string& node) {
      nodes_->gone(node_of(sys_, node));
    };
    settings.hand_over =
      [this, whom, signatures](descriptor fd, const std::string& node) {
      auto count = nodes_->come(node_of(sys_, node), this,
                                [this] { relay_->wake(); });
      anon(broker_of(sys_), caf::publish_atom_v,
           sys_.middleman().backend().new_scribe(fd.release()), entry, whom,
           signatures);
      return count;
    };
    relay_.emplace(std::move(settings), std::move(listener));
  }

  void close() {
    relay_->close_listener();
    struct stat now {};
    if (!path_.empty() && stat(path_.c_str(), &now) == 0
        && file_ == std::pair{now.st_dev, now.st_ino})
      unlink(path_.c_str());
  }

  /// Waits until the gateway server has ended, and peers have what it has sent to them
  /// before.
  void end(const gateway& handle) {
    caf::scoped_actor self{sys_};
    self->wait_for(handle);
    // CAF's broker answers behind what it has been given before. It refuses this at once:
    // what it knows of nodes it tells by a port, and ends the process if it knows the node
    // by a socket, as it does this one where a peer says that it is this one.
    request_from(self.ptr(), broker_of(sys_), caf::infinite, caf::close_atom_v,
                 std::uint16_t{0})
      .receive([] {}, [](const caf::error&) {});
    relay_->finish(patience_at_end);
    nodes_->leave(this);
    relay_.reset(); // it keeps the gateway server
    static_cast<void>(sys_.middleman().unpublish(handle, entry));
  }

private:
  caf::actor_system& sys_;
  std::shared_ptr<connected_nodes> nodes_;
  std::string path_;
  std::optional<std::pair<dev_t, ino_t>> file_;
  std::optional<relay> relay_;
};

/// The engine's, which its first endpoint makes.
std::shared_ptr<connected_nodes> nodes_of(caf::actor_system& sys,
                                          const node_ptr& home) {
  home->far.set(std::make_shared<connected_nodes>(sys, home));
  return std::static_pointer_cast<connected_nodes>(home->far.get());
}

link_host::settings link_settings(const config& cfg) {
  link_host::settings x{.node = cfg.node,
                        .machines = link::offered(cfg.machines),
                        .limits = cfg.limits,
                        .ping = cfg.worker_ping,
                        .silence = cfg.worker_silence};
  for (const auto& queue : cfg.queues)
    x.queues.push_back(queue.name);
  return x;
}

/// What peers have to show.
result<std::optional<shared_secret>> secret_for(const publish_options& x) {
  if (!x.port)
    return std::optional<shared_secret>{};
  auto found = shared_secret::read(x.secret);
  if (!found)
    return invalid("publish: " + found.error().message);
  return std::optional{*found};
}

relay_settings settings_for(const publish_options& x, const config& cfg,
                            std::optional<shared_secret> secret,
                            caf::actor_id handle) {
  return {.rules = {.frames = {.first = frame_kind::client_handshake,
                               .version = caf::io::basp::version,
                               .most_bytes = message_bytes(x, cfg.limits)},
                    .counts = handle,
                    .silence = x.silence},
          .connections = x.connections,
          .handshake = x.handshake,
          .secret = std::move(secret),
          .bytes = x.bytes,
          .tell = cfg.on_event};
}

} // namespace

result<std::string> publish(engine& x, const publish_options& options) {
  const auto& handle = x.gateway();
  if (!handle)
    return error{errc::stopped, "expected a running engine to publish", {}};
  auto& sys = handle.home_system();
  if (auto ok = check_network(sys, "publish"); !ok)
    return ok.error();
  auto home = inside(x);
  if (auto ok = check(options, home->config.limits); !ok)
    return ok.error();
  auto secret = secret_for(options);
  if (!secret)
    return secret.error();
  endpoint at{options.socket, options.address, options.port.value_or(0)};
  auto listener = listen_at(at);
  if (!listener)
    return error{
      listener.error().code, "publish: " + listener.error().message, {}};
  if (options.port)
    at.port = port_of(*listener);
  auto nodes = nodes_of(sys, home);
  nodes->let_leave(std::min(
    options.bytes / 2, static_cast<std::size_t>(home->config.bytes_waiting)));
  auto opened = std::make_shared<published_endpoint>(sys, nodes);
  opened->open(
    handle,
    settings_for(options, home->config, std::move(*secret), handle.id()),
    std::move(*listener), options.socket);
  x.keep(
    {[opened] { opened->close(); }, [opened, handle] { opened->end(handle); }});
  if (!home->workers.get()) {
    auto hub = std::make_shared<worker_hub>(link_settings(home->config));
    x.let_others_in(
      hub,
      [home, hub](caf::actor_system& on) {
      return caf::actor_cast<caf::actor>(on.spawn<links_actor>(home, hub));
      },
      [home](caf::actor_system& on) { return spawn_hints(on, home); });
  }
  announce(home, join_addresses(to_string(at), options.advertise),
           options.secret);
  return to_string(at);
}

// -- connecting ---------------------------------------------------------------

namespace {

/// For all connections that this process makes. At its end, what its nodes have said last
/// still gets out.
relay& dialer() {
  struct finished {
    relay inner;

    ~finished() {
      inner.finish(patience_at_end);
    }
  };
  static finished instance;
  return instance.inner;
}

/// A connection that this process has made, until nothing is left of it.
struct made {
  std::shared_ptr<std::atomic<bool>> ends = std::make_shared<std::atomic<bool>>(
    false);
  std::function<void()> end{};
  std::shared_future<void> over{};
};

/// All connections of an actor system to one node. CAF uses one of them, whichever that is, and
/// closes what is superfluous; so whoever holds one holds all of them, until the last one
/// who does has gone.
class held_node {
public:
  ~held_node() {
    for (const auto& x : connections_)
      x.end();
  }

  void add(made x) {
    std::lock_guard held{mutex_};
    std::erase_if(connections_, [](const auto& y) { return y.ends->load(); });
    connections_.push_back(std::move(x));
  }

  bool lives() const {
    std::lock_guard held{mutex_};
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& x) { return !*x.ends; });
  }

private:
  mutable std::mutex mutex_;
  std::vector<made> connections_;
};

/// What an actor system has found at an endpoint.
struct known_endpoint {
  /// One attempt at a time: two would make two connections.
  std::timed_mutex attempt;
  std::weak_ptr<held_node> node;
  caf::actor_addr handle;
  std::optional<made> last;
};

/// The endpoints and nodes that an actor system knows: for as long as the process, since
/// the next attempt asks for what is left of the last one.
class known_endpoints {
public:
  static known_endpoints& of(caf::actor_system& sys) {
    static std::mutex mutex;
    static std::map<caf::node_id, known_endpoints> known;
    std::lock_guard held{mutex};
    return known[sys.node()];
  }

  std::shared_ptr<known_endpoint> at(const std::string& endpoint) {
    std::lock_guard held{mutex_};
    auto& x = endpoints_[endpoint];
    if (!x)
      x = std::make_shared<known_endpoint>();
    return x;
  }

  std::shared_ptr<held_node> node(const caf::node_id& id) {
    std::lock_guard held{mutex_};
    std::erase_if(nodes_, [](const auto& x) { return x.second.expired(); });
    auto& known = nodes_[id];
    auto node = known.lock();
    if (!node)
      known = node = std::make_shared<held_node>();
    return node;
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<known_endpoint>> endpoints_;
  std::map<caf::node_id, std::weak_ptr<held_node>> nodes_;
};

/// What the middleman says of an actor on another node.
struct found_actor {
  caf::node_id node;
  caf::strong_actor_ptr handle;
  std::set<std::string> interface;
};

/// A connection until somebody has use for it.
class attempt {
public:
  attempt(descriptor peer, milliseconds left, milliseconds silence) {
    auto [ours, theirs] = socket_pair();
    if (!theirs)
      return;
    theirs_ = renumbered(std::move(theirs));
    std::promise<void> over;
    made_.over = over.get_future().share();
    made_.end = dialer().adopt(
      {.peer = std::move(peer),
       .caf = std::move(ours),
       .rules = {.frames = {.first = frame_kind::server_handshake,
                            .version = caf::io::basp::version,
                            .most_bytes = most_of_an_answer},
                 .silence = silence},
       .handshake = left,
       .ends = made_.ends,
       .over = std::move(over)});
  }

  ~attempt() {
    if (!wanted_ && made_.end)
      made_.end();
  }

  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;

  /// For CAF.
  descriptor& end() {
    return theirs_;
  }

  const made& itself() const {
    return made_;
  }

  /// It is somebody else's now.
  made keep() {
    wanted_ = true;
    return made_;
  }

private:
  made made_;
  descriptor theirs_;
  bool wanted_ = false;
};

/// A connection over which CAF may speak.
result<descriptor> call(const endpoint& to, const std::string& secret,
                        milliseconds timeout) {
  auto until = clock::now() + timeout;
  auto peer = dial(to, timeout);
  if (!peer || !to.path.empty())
    return peer;
  auto mine = shared_secret::read(secret);
  if (!mine)
    return mine.error();
  auto left = std::chrono::duration_cast<milliseconds>(until - clock::now());
  if (auto ok = show_secret(*peer, *mine, left); !ok)
    return unavailable(fmt::format("no gateway has been reached at {}: {}",
                                   to_string(to), ok.error().message));
  return peer;
}

std::string in_time(milliseconds timeout) {
  return " within " + std::to_string(timeout.count()) + " ms";
}

result<found_actor> meet(caf::scoped_actor& self, descriptor end,
                         const std::string& at, milliseconds left,
                         milliseconds timeout) {
  auto& sys = self->system();
  std::optional<found_actor> found;
  caf::error why;
  request_from(self.ptr(), broker_of(sys), left, caf::connect_atom_v,
               sys.middleman().backend().new_scribe(end.release()), entry)
    .receive(
      [&](caf::node_id& node, caf::strong_actor_ptr& handle,
          std::set<std::string>& interface) {
    found = {std::move(node), std::move(handle), std::move(interface)};
      },
      [&](caf::error& x) { why = std::move(x); });
  if (!found && why == caf::sec::request_timeout)
    return unavailable("no CAF node has answered at " + at + in_time(timeout));
  if (!found)
    return unavailable("expected a CAF node of the same CAF version at " + at
                       + ", got " + render(sys, why));
  if (!found->handle)
    return invalid("no actor is published at " + at);
  if (!sys.assignable(found->interface, sys.message_types<gateway>()))
    return invalid("expected a gateway of gen_durable at " + at
                   + ", got an actor with another interface");
  return std::move(*found);
}

/// Whether the gateway answers anything at all.
result<void> ask(caf::scoped_actor& self, const gateway& x,
                 const std::string& at, milliseconds left,
                 milliseconds timeout) {
  result<void> answer;
  // The one question that does not go to the database.
  request_from(self.ptr(), x, left, gd::insert_all{})
    .receive([](gd::inserted_all&) {},
             [&](caf::error& why) {
    if (why == caf::sec::request_timeout)
      answer = unavailable("the gateway at " + at + " has not answered"
                           + in_time(timeout));
    else if (!is_ours(why))
      answer = unavailable("the gateway at " + at
                           + " is gone: " + render(self->system(), why));
    });
  return answer;
}

result<held_gateway> find(caf::actor_system& sys, const endpoint& to,
                          const std::string& secret, milliseconds timeout,
                          milliseconds silence) {
  auto until = clock::now() + timeout;
  auto left = [until] {
    return std::max(
      std::chrono::duration_cast<milliseconds>(until - clock::now()),
      milliseconds{0});
  };
  auto at = to_string(to);
  auto& endpoints = known_endpoints::of(sys);
  auto known = endpoints.at(at);
  std::unique_lock turn{known->attempt, until};
  if (!turn)
    return unavailable("another attempt to reach " + at + " has not ended"
                       + in_time(timeout));
  caf::scoped_actor self{sys};
  auto node = known->node.lock();
  auto handle = caf::actor_cast<caf::strong_actor_ptr>(known->handle);
  auto is_shared = node && node->lives();
  if (is_shared && handle) {
    auto x = caf::actor_cast<gateway>(handle);
    // It may be dead, and CAF does not tell who asks.
    if (ask(self, x, at, std::min(left() / 2, longest_probe), timeout))
      return held_gateway{std::move(x), std::move(node)};
  }
  // CAF would take the new one for superfluous while there is the old one.
  if (known->last && !is_shared)
    known->last->over.wait_until(until);
  auto peer = call(to, secret, left());
  if (!peer)
    return peer.error();
  attempt connection{std::move(*peer), left(), silence};
  if (!connection.end())
    return unavailable("reach: no descriptor is left");
  known->last = connection.itself();
  auto found = meet(self, std::move(connection.end()), at, left(), timeout);
  if (!found)
    return found.error();
  auto x = caf::actor_cast<gateway>(found->handle);
  node = endpoints.node(found->node);
  node->add(connection.keep());
  known->node = node;
  known->handle = caf::actor_cast<caf::actor_addr>(x);
  if (auto ok = ask(self, x, at, left(), timeout); !ok)
    return ok.error();
  return held_gateway{std::move(x), std::move(node)};
}

} // namespace

result<held_gateway> hold(caf::actor_system& sys, const std::string& where,
                          const std::string& secret, milliseconds timeout,
                          milliseconds silence) {
  if (auto ok = check_network(sys, "reach"); !ok)
    return ok.error();
  if (auto ok = check_endpoints({where}, secret); !ok)
    return invalid("reach: " + ok.error().message);
  if (silence < least_silence)
    return invalid(fmt::format("reach: expected a silence of at least {} ms, "
                               "got {} ms",
                               least_silence.count(), silence.count()));
  for (auto [name, value] :
       {std::pair{"reach: timeout", timeout}, {"reach: silence", silence}})
    if (auto ok = check_time(name, value, {}, longest_statement); !ok)
      return ok.error();
  return find(sys, *to_endpoint(where), secret, timeout, silence);
}

} // namespace gd::actors
