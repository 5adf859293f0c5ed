#include <gd/actors/join.hpp>

#include <gd/actors/node/self.hpp>
#include <gd/actors/remote.hpp>
#include <gd/network/client/dial.hpp>
#include <gd/network/wire/sockets.hpp>
#include <gd/network/workers/executor.hpp>

#include <gd/network/workers/link_worker.hpp>
#include <gd/time.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <utility>

namespace gd::actors {

namespace {

using std::chrono::milliseconds;

/// What handle and actor share.
struct shared {
  std::mutex mutex;
  worker_status status;
  std::promise<void> ended;
};

/// Speaks to the engine, for a worker.
class link_actor : public caf::event_based_actor {
public:
  link_actor(caf::actor_config& cfg, node_ptr home,
             std::vector<std::string> endpoints, join_options how,
             link_worker::settings settings, std::shared_ptr<shared> with)
    : caf::event_based_actor(cfg),
      home_(std::move(home)),
      endpoints_(std::move(endpoints)),
      how_(std::move(how)),
      link_(std::move(settings)),
      shared_(std::move(with)) {
    // nop
  }

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override {
    return "gd.link";
  }

private:
  using clock = link_worker::clock;
  using phase = link_worker::phase;

  clock::time_point now() {
    return system().clock().now();
  }

  void start_executor(const queue_config& queue);
  void dial_next();
  void found(const result<held_gateway>& what);
  void leave_engine();
  void receive(link_message& x);
  void read(std::vector<executor_event>& news);
  void drive();
  void note_phase();
  void tell_status();
  void obey();
  held_row_ptr held_row_of(link::work x);

  node_ptr home_;
  std::vector<std::string> endpoints_;
  join_options how_;
  link_worker link_;
  std::shared_ptr<shared> shared_;
  watcher watcher_;
  std::map<std::string, caf::actor> executors_;
  std::size_t at_ = 0; ///< the address in turn
  int tries_ = 0;      ///< since it was joined last
  bool dialling_ = false;
  clock::time_point dial_at_{};
  caf::actor engine_;
  std::shared_ptr<void> connection_;
  phase before_ = phase::alone;
  bool leaving_ = false;
  alarm alarm_;
  std::mt19937 random_{std::random_device{}()};
};

caf::behavior link_actor::make_behavior() {
  watcher_.install(this);
  refuse_unknown(this);
  for (const auto& queue : home_->config.queues)
    start_executor(queue);
  drive();
  return {
    [this](link_message& x) { receive(x); },
    [this](const dialled& x) { found(*x.what); },
    [this](executor_news& x) {
    read(*x.all);
    drive();
    },
    [this](tick x) {
    if (alarm_.rings(x))
      drive();
  },
    [this](leave_link) {
    leaving_ = true;
    link_.leave();
    send_self_after(this, how_.stop_grace, leave_late{});
    drive();
    }, [this](leave_late) { quit(); },
    };
}

void link_actor::on_exit() {
  for (auto& [queue, executor] : executors_)
    caf::anon_send_exit(executor, caf::exit_reason::kill);
  executors_.clear();
  leave_engine();
  home_ = nullptr; // a timer keeps the actor until it ends
  shared_->ended.set_value();
}

void link_actor::start_executor(const queue_config& queue) {
  auto executor = spawn<executor_actor>(home_, queue,
                                        caf::actor_cast<caf::actor>(this));
  executors_[queue.name] = executor;
  watcher_.watch(this, executor, [this, queue](const caf::error& why) {
    home_->tell(events::actor_restarted{"executor of " + queue.name,
                                        render(system(), why)});
    for (const auto& which : link_.held_of(queue.name))
      link_.crash(which, "its executor has ended", {});
    start_executor(queue);
    drive();
  });
}

// -- the connection ---------------------------------------------------------------

void link_actor::dial_next() {
  dialling_ = true;
  dial(weak_ref{this}, system(), endpoints_[at_], how_.secret, how_.patience);
}

void link_actor::found(const result<held_gateway>& what) {
  dialling_ = false;
  if (!what) {
    std::lock_guard guard{shared_->mutex};
    shared_->status.why = what.error().message;
    engine_ = nullptr;
  } else {
    engine_ = caf::actor_cast<caf::actor>(what->handle);
    connection_ = what->connection;
    watcher_.watch(this, engine_,
                   [this, of = engine_->address()](const caf::error&) {
      if (!engine_ || engine_->address() != of)
        return;
      leave_engine();
      link_.cut();
      drive();
    });
    link_.connected(now());
  }
  if (!engine_) { // the next one
    at_ = (at_ + 1) % endpoints_.size();
    dial_at_ = now() + backoff(tries_++, how_.first_pause, how_.longest_pause);
  }
  drive();
}

void link_actor::leave_engine() {
  engine_ = nullptr;
  connection_ = nullptr;
}

void link_actor::receive(link_message& x) {
  // Of the one whose link this is: others have been left, or have no say.
  if (!engine_)
    return;
  link_.receive({x.type, x.version, std::move(x.bytes)}, now());
  drive();
}

/// Events and the next try, when it is joined or alone again.
void link_actor::note_phase() {
  auto phase_now = link_.now();
  if (phase_now == before_)
    return;
  const auto& where = endpoints_[at_];
  bool was_in = before_ == phase::joined || before_ == phase::parting;
  if (phase_now == phase::alone) {
    auto why = link_.why().empty() ? "its connection has ended" : link_.why();
    if (was_in || !link_.why().empty())
      home_->tell(events::engine_lost{where, why, link_.holds()});
    {
      std::lock_guard guard{shared_->mutex};
      shared_->status.why = why;
    }
    leave_engine();
    // Whom it had may just be there again; whoever has refused it is not asked first.
    if (!was_in)
      at_ = (at_ + 1) % endpoints_.size();
    dial_at_ = now() + backoff(tries_++, how_.first_pause, how_.longest_pause);
  } else if (!was_in && phase_now != phase::joining) {
    tries_ = 0;
    const auto& engine = link_.engine();
    home_->tell(
      events::engine_joined{where, engine.node, engine.resumed.size()});
    std::lock_guard guard{shared_->mutex};
    ++shared_->status.joins;
    shared_->status.why.clear();
  }
  before_ = phase_now;
}

// -- driving ----------------------------------------------------------------------

void link_actor::drive() {
  auto t = now();
  link_.tick(t);
  note_phase();
  obey();
  if (engine_)
    for (auto& x : link_.take_packets())
      post(this, engine_, link_message{x.type, x.version, std::move(x.bytes)});
  tell_status();
  if (leaving_ && link_.has_left())
    return quit();
  if (!engine_ && !dialling_ && t >= dial_at_)
    dial_next();
  auto at = link_.due(t);
  if (!engine_ && !dialling_)
    at = std::min(at, dial_at_);
  alarm_.set(this, at);
}

void link_actor::tell_status() {
  std::lock_guard guard{shared_->mutex};
  auto& x = shared_->status;
  x.joined = link_.now() == phase::joined;
  x.address = endpoints_[at_];
  x.node = link_.engine().node;
  x.holds = link_.holds();
}

held_row_ptr link_actor::held_row_of(link::work x) {
  auto machine = home_->machines->find_any(x.row.fsm, x.row.fsm_version);
  if (!machine)
    return nullptr;
  x.row.id = x.id;
  x.row.picked_at = std::chrono::steady_clock::now();
  return std::make_shared<held_row>(std::move(machine), std::move(x.row),
                                    std::make_shared<lease>(x.id, x.token),
                                    link_.engine().limits,
                                    home_->machines.get());
}

void link_actor::obey() {
  std::map<std::string, std::vector<executor_order>> by_queue;
  for (auto& x : link_.take_orders()) {
    executor_order order;
    if (x.what == link_worker::order::action::begin) {
      order.row = held_row_of(std::move(x.work));
      if (!order.row) { // no engine sends that
        link_.release(x.which);
        continue;
      }
    }
    auto queue = x.queue;
    order.what = std::move(x);
    by_queue[queue].push_back(std::move(order));
  }
  for (auto& [queue, orders] : by_queue)
    if (auto executor = executors_.find(queue); executor != executors_.end())
      anon(executor->second,
           executor_orders{
             std::make_shared<std::vector<executor_order>>(std::move(orders))});
}

void link_actor::read(std::vector<executor_event>& news) {
  for (auto& x : news)
    switch (x.what) {
      case executor_event::kind::outcome:
        link_.report(x.which, std::move(x.row), std::move(x.told), x.over);
        break;
      case executor_event::kind::over:
        link_.function_over(x.which);
        break;
      case executor_event::kind::crashed:
        link_.crash(x.which, std::move(x.why), x.took);
        break;
      case executor_event::kind::released:
        link_.release(x.which);
    }
}

} // namespace

// -- the handle -------------------------------------------------------------------

struct worker::impl {
  std::shared_ptr<shared> with = std::make_shared<shared>();
  std::future<void> ended = with->ended.get_future();
  caf::actor link;

  void leave() {
    if (!link)
      return;
    anon(link, leave_link{});
    ended.wait();
    link = nullptr;
  }
};

worker::worker(std::unique_ptr<impl> x) : impl_(std::move(x)) {
  // nop
}

worker::worker(worker&&) noexcept = default;

worker& worker::operator=(worker&& other) noexcept {
  if (impl_)
    impl_->leave();
  impl_ = std::move(other.impl_);
  return *this;
}

worker::~worker() {
  if (impl_)
    impl_->leave();
}

worker_status worker::status() const {
  std::lock_guard guard{impl_->with->mutex};
  return impl_->with->status;
}

void worker::leave() {
  impl_->leave();
}

/// A worker has no database in which a step could have a transaction.
static result<void> check_steps(const std::vector<machine>& machines) {
  for (const auto& one : machines)
    for (const auto& step : one.steps)
      if (step.run_in_transaction)
        return error{errc::invalid_argument,
                     "join: step " + step.name + " of " + one.title()
                       + " is in a transaction, and a worker has no database: "
                         "run this machine on an engine's node",
                     {}};
  return {};
}

result<worker> join(caf::actor_system& sys, std::vector<std::string> addresses,
                    std::vector<machine> machines,
                    std::vector<queue_config> queues, join_options how) {
  if (auto ok = check_endpoints(addresses, how.secret); !ok)
    return error{ok.error().code, "join: " + ok.error().message, {}};
  if (addresses.empty())
    return error{errc::invalid_argument, "join: expected an address", {}};
  for (auto [name, value] : {std::pair{"patience", how.patience},
                             {"first_pause", how.first_pause},
                             {"stop_grace", how.stop_grace}})
    if (auto ok = check_time(name, value, {}, longest_statement); !ok)
      return ok.error();
  if (how.bytes < 1)
    return error{errc::invalid_argument,
                 "bytes: expected at least 1, got " + std::to_string(how.bytes),
                 {}};
  auto home = std::make_shared<node>();
  auto& cfg = home->config;
  cfg.node = how.node.empty() ? default_node_name() : how.node;
  cfg.machines = std::move(machines);
  cfg.queues = std::move(queues);
  cfg.on_event = how.on_event;
  if (auto ok = cfg.validate(); !ok)
    return ok.error();
  if (auto ok = check_steps(cfg.machines); !ok)
    return ok.error();
  if (auto ok = check_network(sys, "join"); !ok)
    return ok.error();
  home->machines = std::make_shared<registry>(cfg.machines);
  home->incarnation = make_incarnation(cfg.node);
  home->permits = permits_of(sys);
  link_worker::settings settings{.incarnation = home->incarnation,
                                 .node = cfg.node,
                                 .machines = link::offered(cfg.machines),
                                 .bytes = how.bytes,
                                 .patience = how.patience};
  for (const auto& x : cfg.queues)
    settings.queues.push_back({x.name, x.slots, x.prefetch});
  auto x = std::make_unique<worker::impl>();
  x->link = sys.spawn<link_actor>(std::move(home), std::move(addresses),
                                  std::move(how), std::move(settings), x->with);
  return worker{std::move(x)};
}

result<worker> join(caf::actor_system& sys, worker_settings settings) {
  return join(sys, std::move(settings.addresses), std::move(settings.machines),
              std::move(settings.queues), std::move(settings.how));
}

} // namespace gd::actors
