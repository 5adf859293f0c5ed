#include <gd/actors/engine.hpp>

#include <gd/actors/engine/supervisor.hpp>
#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/node/node.hpp>

#include <gd/pq/reactor.hpp>
#include <gd/state.hpp>
#include <gd/store/store.hpp>

#include <caf/all.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// Written to by the signal handler; -1 while nobody waits.
std::atomic<int> signal_fd = -1;

void poke(int fd) {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(fd, &one, sizeof(one));
}

/// After an outage every node is connected again before another may reap: that
/// one waits for a heartbeat first.
milliseconds longest_reconnect_pause(const config& cfg) {
  return std::min<milliseconds>(std::chrono::seconds{5}, cfg.heartbeat / 2);
}

struct known_queue {
  std::string name;
  std::int32_t slots = 0;

  GD_STATE(known_queue, name, slots);
};

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

store::node_record describe(const config& cfg, const std::string& incarnation) {
  std::vector<known_queue> queues;
  std::int32_t slots = 0;
  for (const auto& x : cfg.queues) {
    queues.push_back({x.name, x.slots});
    slots += x.slots;
  }
  return {.incarnation = incarnation,
          .node = cfg.node,
          .host = host_name(),
          .process = getpid(),
          .library = GD_VERSION,
          .lease = cfg.lease,
          .slots = slots,
          .queues = to_json(queues).text(),
          .machines = store::known(cfg.machines, cfg.resend_window())};
}

/// A session is known to the other nodes before it takes a key's lock, and the
/// machines are before any of their rows is picked.
reactor::greeting greeting_of(const std::shared_ptr<registration>& who) {
  return {[who](std::size_t connection_slot) {
    return who->greeting(connection_slot, milliseconds{1'000});
          },
          [who](std::size_t connection_slot, const pq::reply& reply,
                std::vector<event>& to) {
    return who->heard(connection_slot, reply, database::clock::now(), to);
  }};
}

extern "C" void gd_on_signal(int) {
  if (auto fd = signal_fd.load(); fd >= 0)
    poke(fd);
}

} // namespace

std::shared_ptr<run_permits> permits_of(caf::actor_system& sys) {
  static std::mutex mutex;
  static std::map<const caf::actor_system*, std::weak_ptr<run_permits>> known;
  std::lock_guard guard{mutex};
  std::erase_if(known, [](const auto& x) { return x.second.expired(); });
  auto& mine = known[&sys];
  auto permits = mine.lock();
  if (!permits)
    mine = permits = std::make_shared<run_permits>(runners_at_most(sys));
  return permits;
}

void add_to(caf::actor_system_config& cfg) {
  register_types<caf::id_block::gen_durable>(cfg);
  register_errors(cfg);
  share_work(cfg);
}

struct engine::impl {
  node_ptr home;
  std::shared_ptr<reactor> db;
  actors::gateway gateway_handle;
  caf::actor supervisor;
  std::vector<engine::port> ports;
  std::shared_ptr<engine_end> end = std::make_shared<engine_end>();
  std::future<void> ended = end->ended.get_future();
  /// Readable when the engine has given up, or a signal has come.
  int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  mutable std::mutex mutex;
  std::optional<error> failure;

  ~impl() {
    close(wake_fd);
  }

  void stop() {
    if (!supervisor)
      return;
    for (auto& port : ports)
      port.close();
    // In an outage there is nothing to wait for but what runs.
    db->be_impatient();
    anon(supervisor, drain{home->config.stop_grace});
    ended.wait();
    // Not earlier: the backend's last answers go through here.
    for (auto& port : ports)
      port.end();
    ports.clear();
    supervisor = nullptr; // not earlier: nobody else keeps it alive
    db->stop();
    gateway_handle = nullptr;
  }
};

engine::engine(std::unique_ptr<impl> x) : impl_(std::move(x)) {
  // nop
}

engine::engine(engine&&) noexcept = default;

engine& engine::operator=(engine&& other) noexcept {
  if (impl_)
    impl_->stop();
  impl_ = std::move(other.impl_);
  return *this;
}

engine::~engine() {
  if (impl_)
    impl_->stop();
}

const actors::gateway& engine::gateway() const {
  return impl_->gateway_handle;
}

void engine::keep(port x) {
  impl_->ports.push_back(std::move(x));
}

void engine::let_others_in(std::shared_ptr<elsewhere> where,
                           child_spawner links, child_spawner hints) {
  if (!impl_->supervisor)
    return;
  auto done = std::make_shared<std::promise<void>>();
  auto known = done->get_future();
  anon(impl_->supervisor,
       actors::let_others_in{std::move(where), std::move(links),
                             std::move(hints), std::move(done)});
  known.wait(); // a supervisor that is gone breaks the promise
}

void engine::stop() {
  impl_->stop();
}

std::optional<error> engine::failed() const {
  std::lock_guard guard{impl_->mutex};
  return impl_->failure;
}

result<void> engine::run_until_signal() {
  signal_fd = impl_->wake_fd;
  constexpr std::array ends{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, ends.size()> before{};
  struct sigaction action {};
  action.sa_handler = gd_on_signal;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    sigaction(ends[i], nullptr, &before[i]);
    // Under nohup the terminal may go.
    if (ends[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
      sigaction(ends[i], &action, nullptr);
  }
  pollfd ready{impl_->wake_fd, POLLIN, 0};
  while (poll(&ready, 1, -1) < 1)
    ; // interrupted: the handler has written by now
  // A second one finds what was there: by default it ends the process at once.
  for (std::size_t i = 0; i < ends.size(); ++i)
    sigaction(ends[i], &before[i], nullptr);
  signal_fd = -1;
  stop();
  if (auto why = failed())
    return *why;
  return {};
}

node_ptr inside(const engine& x) {
  return x.impl_->home;
}

result<engine> start(caf::actor_system& sys, config options) {
  if (auto ok = options.validate(); !ok)
    return ok.error();
  if (options.node.empty())
    options.node = default_node_name();
  auto x = std::make_unique<engine::impl>();
  auto home = std::make_shared<node>();
  home->config = std::move(options);
  home->machines = std::make_shared<registry>(home->config.machines);
  home->incarnation = make_incarnation(home->config.node);
  home->known_as = std::make_shared<registration>(
    describe(home->config, home->incarnation), home->machines,
    [weak = std::weak_ptr<node>(home)] {
    if (auto mine = weak.lock())
      mine->tell_withdrawn();
    });
  home->permits = permits_of(sys);
  x->home = home;
  auto* self = x.get();
  x->end->on_failure = [self](const error& why) {
    {
      std::lock_guard guard{self->mutex};
      self->failure = why;
    }
    poke(self->wake_fd);
  };
  // The reactor may fail before there is a supervisor to tell. It must not keep
  // the supervisor, which keeps the reactor.
  std::promise<weak_ref> supervisor;
  x->db = std::make_shared<reactor>(
    home->config.connection_options(home->incarnation),
    static_cast<std::size_t>(home->config.connections), home->config.on_event,
    [known = supervisor.get_future().share()](error why) {
    known.get().tell(give_up{std::move(why)});
    },
    longest_reconnect_pause(home->config), greeting_of(home->known_as),
    home->config.connect_within);
  home->db = x->db;
  home->step_sessions = std::make_shared<step_sessions>(step_sessions::settings{
    .where = home->config.connection_options(home->incarnation),
    .how = home->config.effects,
    .lease = home->config.lease,
    .resend = home->config.resend_window(),
    .connection_slot = home->step_slot(),
    .on_event = home->config.on_event});
  auto backend = sys.spawn<gateway_backend>(home);
  auto gateway_handle = sys.spawn<gateway_server>(home, backend);
  x->gateway_handle = gateway_handle;
  x->supervisor = sys.spawn<supervisor_actor>(
    home, caf::actor_cast<caf::actor>(gateway_handle),
    caf::actor_cast<caf::actor>(backend), x->end);
  supervisor.set_value(weak_ref{x->supervisor});
  return engine{std::move(x)};
}

} // namespace gd::actors
