/// A process of a chaos run: a node that works, or one that only sends.

#include "chaos/machines.hpp"
#include "support/database.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/node/node.hpp>
#include <gd/actors/remote.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

namespace {

using namespace std::chrono_literals;
using gd::test::session;
using clock_type = std::chrono::steady_clock;

// -- what is executed ---------------------------------------------------------

/// Sessions of its own, made again after failures.
class effects : public gd::chaos::witness {
public:
  effects(std::string database, std::string node)
    : database_(std::move(database)), node_(std::move(node)) {
    // nop
  }

  void begins(const gd::context_base& ctx, std::size_t number) override {
    write("insert into effects (instance, number, step, token, node) values "
          "($1, $2::int, $3, $4, $5)",
          {std::to_string(ctx.id), std::to_string(number), ctx.step,
           ctx.lease_token(), node_});
  }

  void ends(const gd::context_base& ctx) override {
    write("update effects set ended = clock_timestamp() where instance = $1 "
          "and token = $2",
          {std::to_string(ctx.id), ctx.lease_token()});
  }

private:
  void write(const char* sql, const session::parameters& row) {
    std::unique_ptr<session> db;
    {
      std::lock_guard guard{mutex_};
      if (!idle_.empty()) {
        db = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!db)
      db = std::make_unique<session>(database_);
    db->exec(sql, row); // throws: the session goes
    std::lock_guard guard{mutex_};
    idle_.push_back(std::move(db));
  }

  std::string database_;
  std::string node_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<session>> idle_;
};

// -- harm on request ----------------------------------------------------------

/// Kills one of the engine's own actors.
void kill_an_actor(const gd::actors::node_ptr& home, std::minstd_rand& random) {
  using gd::actors::role;
  constexpr std::array roles{role::picker, role::backend, role::heartbeat,
                             role::reaper};
  auto what = roles[random() % roles.size()];
  auto victim = home->children.find(what,
                                    what == role::picker ? "default" : "");
  if (victim)
    caf::anon_send_exit(victim, caf::exit_reason::kill);
}

/// Pulls the sockets from under libpq: some are shut down, of others another
/// file takes the place.
void close_sockets(std::minstd_rand& random) {
  for (const auto& one : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    auto fd = std::stoi(one.path().filename());
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0)
      continue;
    if (random() % 2 == 0) {
      shutdown(fd, SHUT_RDWR);
    } else {
      auto nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
      dup2(nothing, fd);
      close(nothing);
    }
  }
}

/// SIGUSR1 kills an actor, SIGUSR2 closes sockets.
void obey(const gd::actors::node_ptr& home, unsigned seed) {
  std::thread{[home, seed] {
    std::minstd_rand random{seed};
    sigset_t orders;
    sigemptyset(&orders);
    sigaddset(&orders, SIGUSR1);
    sigaddset(&orders, SIGUSR2);
    for (int order = 0; sigwait(&orders, &order) == 0;)
      if (order == SIGUSR1)
        kill_an_actor(home, random);
      else
        close_sockets(random);
  }}.detach();
}

// -- what was accepted --------------------------------------------------------

/// A file of lines, which several processes write to.
class journal {
public:
  explicit journal(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    // nop
  }

  ~journal() {
    close(fd_);
  }

  template <class... Ts>
  void note(fmt::format_string<Ts...> format, Ts&&... xs) {
    auto line = fmt::format(format, std::forward<Ts>(xs)...) + "\n";
    if (write(fd_, line.data(), line.size())
        != static_cast<ssize_t>(line.size()))
      std::abort();
  }

private:
  int fd_;
};

/// By a hangup, or the end.
std::atomic<bool> no_more_inserts = false;

/// Makes instances at the worker's own gateway, which begin under a lease where
/// slots are free. What fails is not tried again: nothing tells whether it was
/// stored. The last line tells that no more come.
void insert_here(caf::actor_system& sys, const gd::actors::gateway& to,
                 const std::string& log) {
  journal accepted{log};
  caf::scoped_actor self{sys};
  auto row = [] {
    return gd::insert{
      .fsm = "Chain", .state = gd::to_json(journey{}), .step = "one"};
  };
  for (auto tick = clock_type::now(); !no_more_inserts; tick += 50ms) {
    std::this_thread::sleep_until(tick);
    self->request(to, 5s, row())
      .receive([&](const gd::inserted& x) { accepted.note("own {} 0", x.id); },
               [](const caf::error&) {});
  }
  accepted.note("ended {} 0", getpid());
}

// -- load ---------------------------------------------------------------------

/// Makes instances at a steady rate, and signals those that wait for signals.
/// What fails is tried again, with the same unique and dedup keys, until it is
/// accepted: a line of the log tells of each that is.
class load {
public:
  load(caf::actor_system& sys, gd::actors::gateway to, double rate,
       std::int64_t first, bool wild, const std::string& log)
    : self_(sys),
      to_(std::move(to)),
      rate_(rate),
      first_(first),
      wild_(wild),
      log_(log) {
    // nop
  }

  void run(const std::atomic<bool>& stop) {
    auto begun = clock_type::now();
    for (auto tick = begun; !stop || !inserts_.empty() || !signals_.empty();
         tick += 20ms) {
      std::this_thread::sleep_until(tick);
      tick = std::max(tick, clock_type::now() - 20ms);
      auto due
        = std::chrono::duration<double>(clock_type::now() - begun).count()
          * rate_;
      // What could not be sent is not made up for without bound.
      while (!stop && static_cast<double>(made_ + dropped_) < due)
        if (static_cast<double>(inserts_.size()) < 2 * rate_)
          inserts_.push_back(make(first_ + made_++));
        else
          ++dropped_;
      send_inserts();
      send_signals();
    }
  }

private:
  struct pending_insert {
    gd::insert row;
    std::int64_t number;
  };
  struct pending_signal {
    gd::signal what;
    clock_type::time_point at;
  };

  /// Numbers stand for machines, so that a run can be repeated.
  pending_insert make(std::int64_t number) {
    gd::insert x;
    x.version = 1;
    x.state = gd::to_json(journey{});
    switch (number % 10) {
      case 0:
      case 1:
        x.fsm = "Inbox";
        x.step = "collect";
        break;
      case 2:
        x.fsm = "Timer";
        x.step = "sleep";
        break;
      case 3:
      case 4:
      case 5:
        x.fsm = "Keyed";
        x.step = "first";
        x.partition_key = fmt::format("key {} of {}", number / 10 % 20, first_);
        break;
      case 6:
        if (wild_) {
          make_wild(x, number / 10);
          break;
        }
        [[fallthrough]];
      default:
        x.fsm = number % 10 < 8 ? "Chain" : "Kept";
        x.step = "one";
    }
    x.unique_key = fmt::format("{}", number);
    x.unique_scope = {"runnable", "executing", "awaiting_signal", "done",
                      "failed"};
    return {std::move(x), number};
  }

  /// Those that cost a thread, a lease or a process are rare.
  static void make_wild(gd::insert& x, std::int64_t number) {
    using enum mischief;
    static const std::vector<mischief> often{
      throw_exception, throw_number, exhaust_memory, overrun, drop_context};
    static const std::vector<mischief> seldom{kill_actor, never_return,
                                              abort_process};
    auto what
      = number % 16 == 7
          ? seldom[static_cast<std::size_t>(number) / 16 % seldom.size()]
          : often[static_cast<std::size_t>(number) % often.size()];
    x.fsm = "Wild";
    x.step = what == kill_actor || what == drop_context ? "asynchronous"
             : what == overrun || what == never_return  ? "blocking"
                                                        : "plain";
    x.state = gd::to_json(journey{.what = what});
  }

  void send_inserts() {
    if (inserts_.empty())
      return;
    gd::insert_all batch;
    for (std::size_t i = 0; i < std::min<std::size_t>(inserts_.size(), 500);
         ++i)
      batch.rows.push_back(inserts_[i].row);
    std::vector<gd::insert_answer> answers;
    self_->request(to_, 30s, batch)
      .receive([&](gd::inserted_all& x) { answers = std::move(x.rows); },
               [](caf::error&) {});
    for (std::size_t i = 0; i < answers.size(); ++i) {
      auto x = std::move(inserts_.front());
      inserts_.pop_front();
      if (answers[i].id)
        accept(x, *answers[i].id);
      else if (gd::retryable(answers[i].code))
        inserts_.push_back(std::move(x));
      else
        log_.note("refused {} {}", x.number, answers[i].message);
    }
  }

  void accept(const pending_insert& x, std::int64_t id) {
    log_.note("insert {} {}", x.number, id);
    if (x.row.fsm != "Inbox")
      return;
    for (std::int64_t i = 0; i < gd::chaos::expected_signals; ++i)
      signals_.push_back(
        {gd::signal{id, "number", gd::to_json(numbered{i}), std::to_string(i)},
         clock_type::now() + (i + 1) * 100ms});
  }

  /// All that are due at the same time, so that they share commits.
  void send_signals() {
    std::vector<pending_signal> due;
    std::erase_if(signals_, [&, now = clock_type::now()](auto& x) {
      if (x.at > now || due.size() >= 500)
        return false;
      due.push_back(x);
      return true;
    });
    using answer = decltype(self_->request(to_, 30s, gd::signal{}));
    std::vector<answer> answers;
    for (const auto& x : due)
      answers.push_back(self_->request(to_, 30s, x.what));
    for (std::size_t i = 0; i < due.size(); ++i)
      answers[i].receive(
        [&](const gd::signalled&) {
        log_.note("signal {} {}", due[i].what.target, *due[i].what.dedup_key);
        },
        [&](const caf::error& why) {
        auto x = gd::actors::from_caf(self_->system(), why);
        if (gd::retryable(x.code))
          signals_.push_back(due[i]);
        else
          log_.note("refused signal {} {}", due[i].what.target, x.message);
      });
  }

  caf::scoped_actor self_;
  gd::actors::gateway to_;
  double rate_;
  std::int64_t first_;
  bool wild_;
  journal log_;
  std::int64_t made_ = 0;
  std::int64_t dropped_ = 0; ///< not made, in outages
  std::deque<pending_insert> inserts_;
  std::deque<pending_signal> signals_;
};

/// Until SIGTERM.
int work_for_others(caf::actor_system& sys, std::vector<std::string> addresses,
                    const std::string& secret, const gd::config& like) {
  gd::actors::join_options how;
  how.node = like.node;
  how.secret = secret;
  how.stop_grace = like.stop_grace;
  how.patience = 1s;
  how.first_pause = 50ms;
  how.longest_pause = 500ms;
  how.on_event = gd::log_to_stderr(gd::severity::info);
  // Few slots at a's and b's own: what they cannot take comes here.
  auto worker = gd::actors::join(sys, std::move(addresses), like.machines,
                                 {{"default", 16, 64}}, std::move(how));
  if (!worker)
    return EXIT_FAILURE;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM); // blocked in all threads
  int order = 0;
  static_cast<void>(sigwait(&end, &order));
  worker->leave();
  return EXIT_SUCCESS;
}

} // namespace

int main(int argc, char** argv) {
  std::string database;
  std::string effects_database;
  std::string node;
  std::string log;
  double rate = 0;
  std::int64_t first = 0;
  bool wild = false;
  int lease_ms = 3'000;
  unsigned seed = 1;
  CLI::App cli{"A process of a chaos run: works, or, with --load, only sends."};
  cli.add_option("--database", database)->required();
  cli.add_option("--effects", effects_database, "where executions are noted");
  cli.add_option("--node", node)->required();
  cli.add_option("--lease", lease_ms, "in ms");
  cli.add_option("--seed", seed);
  cli.add_option("--load", rate, "inserts per second, instead of working");
  cli.add_option("--first", first, "number of the first instance");
  cli.add_flag("--wild", wild, "with steps that misbehave");
  cli.add_option("--log", log, "what was accepted");
  std::uint16_t publish_at = 0;
  cli.add_option("--publish", publish_at,
                 "port for workers without a database");
  std::vector<std::string> join_at;
  cli.add_option("--join", join_at,
                 "works for one of these, without a database");
  std::string secret;
  cli.add_option("--secret", secret, "of the ports");
  CLI11_PARSE(cli, argc, argv);

  sigset_t orders;
  sigemptyset(&orders);
  sigaddset(&orders, SIGUSR1);
  sigaddset(&orders, SIGUSR2);
  if (rate > 0 || !join_at.empty())
    sigaddset(&orders, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &orders, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, [](int) { no_more_inserts = true; });
  rlimit memory{8UL << 30, 8UL << 30};
  if (wild)
    setrlimit(RLIMIT_AS, &memory);

  effects seen{effects_database, node};
  gd::config options;
  options.database = database;
  options.node = node;
  options.machines = gd::chaos::machines(seen);
  options.queues = {
    {rate > 0 ? "nobody's" : "default", publish_at != 0 ? 1 : 16, 64}};
  options.lease = std::chrono::milliseconds{lease_ms};
  options.heartbeat = options.lease / 3;
  options.reaper = options.lease / 6;
  options.poll = 200ms;
  options.connect_timeout = 2s;
  options.statement_timeout = 2s;
  options.stop_grace = 2s;
  options.worker_ping = 200ms;
  options.worker_silence = 800ms;
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  cfg.set("scheduler.max-threads", 6u);
  if (!join_at.empty() || publish_at != 0)
    gd::actors::add_network_to(cfg);
  caf::actor_system sys{cfg};
  if (!join_at.empty())
    return work_for_others(sys, join_at, secret, options);
  auto engine = gd::actors::start(sys, std::move(options));
  if (!engine)
    return EXIT_FAILURE;
  if (publish_at != 0
      && !gd::actors::publish(*engine, {.port = publish_at, .secret = secret}))
    return EXIT_FAILURE;
  obey(gd::actors::inside(*engine), seed);
  if (rate > 0) {
    // Ends when it is told to, and all that it has made is accepted.
    std::atomic<bool> stop = false;
    std::thread sender{
      [&] { load{sys, engine->gateway(), rate, first, wild, log}.run(stop); }};
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    int order = 0;
    static_cast<void>(sigwait(&end, &order));
    stop = true;
    sender.join();
    engine->stop();
    return EXIT_SUCCESS;
  }
  std::thread sender{[&, to = engine->gateway()] {
    if (!log.empty())
      insert_here(sys, to, log);
  }};
  auto ended = engine->run_until_signal();
  no_more_inserts = true;
  sender.join();
  // Steps that never return would keep the process.
  std::_Exit(ended ? EXIT_SUCCESS : EXIT_FAILURE);
}
