#include "workloads.hpp"

#include "floor.hpp"

#include <gd/actors/async.hpp>
#include <gd/actors/engine.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>
#include <gd/client.hpp>
#include <gd/machine.hpp>
#include <gd/network/client/dial.hpp>
#include <gd/network/wire/secret.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#ifdef GD_BENCH_METRICS
#  include <gd/metrics.hpp>

#  include <prometheus/registry.h>
#endif

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <numeric>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

namespace gd::bench {

using namespace std::chrono_literals;

GD_ENUM(only_step, work);

struct counter {
  std::int64_t left = 1;
  GD_STATE(counter, left);
};

namespace {

[[noreturn]] void fail(const gd::error& why) {
  throw std::runtime_error{to_string(why)};
}

double seconds_since(clock::time_point began) {
  return std::chrono::duration<double>(clock::now() - began).count();
}

// -- machines -----------------------------------------------------------------

gd::machine count_down() {
  return gd::define<counter, only_step>("CountDown", 1)
    .step(only_step::work, [](gd::context<counter>& ctx) -> gd::outcome {
      if (--ctx.state.left > 0)
        return gd::next(only_step::work, ctx.state);
      return gd::done();
    });
}

gd::machine wait_for_signal() {
  return gd::define<counter, only_step>("CountDown", 1)
    .step(only_step::work, [](gd::context<counter>& ctx) -> gd::outcome {
      if (ctx.discard("go"))
        return gd::done();
      return gd::await("go", ctx.state);
    });
}

/// Answers after a while, as if it had asked somebody.
gd::machine ask(std::chrono::milliseconds duration,
                std::atomic<std::int64_t>& in_flight,
                std::atomic<std::int64_t>& most) {
  return gd::define<counter, only_step>("CountDown", 1)
    .step(only_step::work, gd::actors::async(
                             [duration, &in_flight,
                              &most](gd::actors::async_context<counter> ctx) {
    auto now = ++in_flight;
    for (auto x = most.load(); x < now && !most.compare_exchange_weak(x, now);)
      ;
    ctx.self->become([ctx, &in_flight](std::int32_t) {
      --in_flight;
      ctx.finish(gd::done());
    });
    gd::actors::send_self_after(ctx.self, duration, std::int32_t{0});
    }));
}

// -- a node -------------------------------------------------------------------

/// How much has been done, by this process and by those that it has forked.
class tally {
public:
  tally() {
    auto* memory = mmap(nullptr, sizeof(std::atomic<std::int64_t>),
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        0);
    if (memory == MAP_FAILED)
      throw std::runtime_error{"no shared memory"};
    count_ = new (memory) std::atomic<std::int64_t>{0};
  }

  tally(const tally&) = delete;
  tally& operator=(const tally&) = delete;

  ~tally() {
    munmap(count_, sizeof(*count_));
  }

  void add(std::int64_t more = 1) {
    *count_ += more;
  }

  std::int64_t now() const {
    return *count_;
  }

  /// Gives up when nothing has happened for long.
  void wait_for(std::int64_t goal) const {
    auto last = now();
    for (auto since = clock::now(); now() < goal;) {
      std::this_thread::sleep_for(1ms);
      if (last != now()) {
        last = now();
        since = clock::now();
      } else if (clock::now() - since > patience) {
        throw std::runtime_error{"nothing happens any more, with "
                                 + std::to_string(last) + " of "
                                 + std::to_string(goal) + " done"};
      }
    }
  }

private:
  std::atomic<std::int64_t>* count_;
};

std::string machine_name(std::int64_t i) {
  return i == 0 ? "CountDown" : "CountDown" + std::to_string(i);
}

gd::config settings(const parameters& how, gd::machine machine) {
  gd::config x;
  x.database = conninfo(how.database);
  machine.run_ahead = static_cast<std::int32_t>(how.run_ahead);
  machine.history = static_cast<gd::history>(how.history);
  if (how.keep >= 0)
    machine.keep_done = std::chrono::seconds{how.keep};
  for (std::int64_t i = 0; i < how.machines; ++i) {
    x.machines.push_back(machine);
    x.machines.back().name = machine_name(i);
  }
  if (how.slots > 0)
    x.queues.front().slots = static_cast<std::int32_t>(how.slots);
  if (how.prefetch >= 0)
    x.queues.front().prefetch = static_cast<std::int32_t>(how.prefetch);
  if (how.rows_per_turn > 0)
    x.rows_per_turn = static_cast<std::int32_t>(how.rows_per_turn);
  if (how.connections > 0)
    x.connections = static_cast<std::int32_t>(how.connections);
  if (how.probe_ms >= 0)
    x.probe = std::chrono::milliseconds{how.probe_ms};
  for (std::int64_t i = 1; i < how.queues; ++i) {
    x.queues.push_back(x.queues.front());
    x.queues.back().name = "queue " + std::to_string(i);
  }
  return x;
}

/// Calls `f` for each step whose outcome is committed.
template <class F>
gd::event_sink on_commit(F f) {
  return [f, log = gd::log_to_stderr()](const gd::event& what) {
    if (std::holds_alternative<gd::events::step_committed>(what))
      f();
    log(what);
  };
}

struct actor_config : caf::actor_system_config {
  explicit actor_config(bool network = false) {
    gd::actors::add_to(*this);
    if (network)
      gd::actors::add_network_to(*this);
  }
};

/// A path of this process's own.
std::string own_file(std::string_view what) {
  return fmt::format("/tmp/gd_bench.{}.{}", ::getpid(), what);
}

/// An engine with its actor system.
class node {
public:
  node(gd::config options, gd::event_sink sink, bool network = false)
    : connections_(options.connections), config_(network), sys(config_) {
    options.on_event = [this, sink = std::move(sink)](const gd::event& what) {
      if (std::holds_alternative<gd::events::connected>(what))
        connected_.release();
      sink(what);
    };
    auto started = gd::actors::start(sys, std::move(options));
    if (!started)
      fail(started.error());
    engine_.emplace(std::move(*started));
  }

  node(gd::config options, tally& commits)
    : node(std::move(options), on_commit([&commits] { commits.add(); })) {
    // nop
  }

  const gd::actors::gateway& gateway() const {
    return engine_->gateway();
  }

  std::string publish(const gd::actors::publish_options& where) {
    auto at = gd::actors::publish(*engine_, where);
    if (!at)
      fail(at.error());
    return *at;
  }

  void wait_until_connected() {
    for (; connections_ > 0; --connections_)
      if (!connected_.try_acquire_for(patience))
        throw std::runtime_error{"the engine does not get its connections"};
  }

private:
  std::int32_t connections_;
  std::counting_semaphore<> connected_{0};
  actor_config config_;

public:
  caf::actor_system sys;

private:
  std::optional<gd::actors::engine> engine_;
};

// -- inserts ------------------------------------------------------------------

gd::insert one_row(const parameters& how) {
  return {.fsm = "CountDown", .state = gd::to_json(counter{how.steps})};
}

gd::client connect(const parameters& how) {
  auto options = settings(how, count_down());
  auto made = gd::client::connect(
    options.connection_options(),
    {.machines = std::make_shared<gd::registry>(options.machines)});
  if (!made)
    fail(made.error());
  return std::move(*made);
}

std::vector<std::int64_t> insert(gd::client& by, const parameters& how,
                                 std::int64_t size) {
  constexpr std::int64_t at_a_time = 10'000; // to spare memory
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < size;) {
    std::vector<gd::insert> rows;
    for (auto end = std::min(size, i + at_a_time); i < end; ++i) {
      rows.push_back(one_row(how));
      rows.back().fsm = machine_name(i % how.machines);
      if (how.unique > 0)
        rows.back().unique_key = "row " + std::to_string(i);
      if (how.keys > 0)
        rows.back().partition_key = "key " + std::to_string(i % how.keys);
    }
    for (const auto& answer : by.insert_all(std::move(rows))) {
      if (!answer)
        fail(answer.error());
      ids.push_back(answer->id);
    }
  }
  return ids;
}

std::vector<std::int64_t> fill(const parameters& how) {
  auto client = connect(how);
  return insert(client, how, how.rows);
}

// -- senders ------------------------------------------------------------------

/// What one of them still has to send.
template <class Request>
struct sending {
  gd::actors::gateway to;
  std::function<Request(std::int64_t)> make;
  std::int64_t next = 0;
  std::int64_t end = 0;
  tally* answered = nullptr;
};

template <class Answer, class Request>
void send_next(caf::event_based_actor* self,
               const std::shared_ptr<sending<Request>>& x) {
  if (x->next == x->end)
    return;
  gd::actors::request_from(self, x->to, patience, x->make(x->next++))
    .then(
      [self, x](const Answer&) {
    x->answered->add();
    send_next<Answer>(self, x);
      },
      [self](const caf::error& why) {
    // Whoever waits for the tally finds out.
    std::fprintf(stderr, "%s\n",
                 gd::actors::render(self->system(), why).c_str());
    });
}

/// Actors that send `how.rows` requests together, with as many under way as the
/// window says, each.
template <class Answer, class Request>
void send_all(node& n, const parameters& how, tally& answered,
              std::function<Request(std::int64_t)> make) {
  for (std::int64_t i = 0; i < how.senders; ++i) {
    auto x = std::make_shared<sending<Request>>(
      sending<Request>{n.gateway(), make, how.rows * i / how.senders,
                       how.rows * (i + 1) / how.senders, &answered});
    n.sys.spawn([x, window = how.window](caf::event_based_actor* self) {
      for (std::int64_t k = 0; k < window; ++k)
        send_next<Answer>(self, x);
    });
  }
}

// -- workloads ----------------------------------------------------------------

/// Nothing is picked before all connections are there: the floor, too, opens
/// them before it begins.
class barrier {
public:
  explicit barrier(const parameters& how) : session_{how.database} {
    session_.run("begin; lock table gen_durable in access exclusive mode");
  }

  void open() {
    session_.run("commit");
  }

private:
  session session_;
};

/// Engines in processes of their own that drain together.
/// Returns the least that one of them did, as a part of what is equal.
double drain_in_processes(const parameters& how, meter& m) {
  tally done;
  tally ready;
  std::deque<tally> each;
  std::vector<pid_t> children;
  barrier before{how};
  for (std::int64_t i = 0; i < how.processes; ++i) {
    auto& mine = each.emplace_back();
    auto pid = ::fork();
    if (pid == 0) {
      node n{settings(how, count_down()), on_commit([&] {
               mine.add();
               done.add();
             })};
      n.wait_until_connected();
      ready.add();
      done.wait_for(how.rows * how.steps);
      _exit(0);
    }
    children.push_back(pid);
  }
  ready.wait_for(how.processes);
  m.start();
  before.open();
  for (auto pid : children) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
      throw std::runtime_error{"a process has failed"};
  }
  m.stop();
  auto least = std::min_element(each.begin(), each.end(),
                                [](const auto& a, const auto& b) {
    return a.now() < b.now();
  });
  return static_cast<double>(least->now() * how.processes)
         / static_cast<double>(how.rows * how.steps);
}

/// The insert and each step have an entry, or nothing has.
void verify_history(const parameters& how) {
  auto entries = how.history > 0 ? how.rows * (how.steps + 1) : 0;
  auto states = how.history > 1 ? entries : 0;
  auto found = session{how.database}.scalar(
    "select count(*) || ' ' || count(state) from gen_durable_ledger");
  if (found != fmt::format("{} {}", entries, states))
    throw std::runtime_error{"expected other entries and states in the ledger "
                             "than "
                             + found};
}

/// Counts commits, and keeps metrics if it is told to.
gd::event_sink drain_sink(const parameters& how, tally& commits) {
  auto count = on_commit([&commits] { commits.add(); });
  if (how.metrics == 0)
    return count;
#ifdef GD_BENCH_METRICS
  auto metrics = gd::metrics::sink(std::make_shared<prometheus::Registry>());
  if (!metrics)
    fail(metrics.error());
  return gd::all_of({std::move(*metrics), std::move(count)});
#else
  throw std::runtime_error{"--metrics: it was built without GD_BUILD_METRICS"};
#endif
}

/// What ends carry lands where nobody picks it.
gd::machine carry(const parameters& how) {
  if (how.effect == 0)
    return count_down();
  auto first = make_room(how);
  auto body = [how, first](gd::context<counter>& ctx) -> gd::outcome {
    auto out = gd::done();
    for (std::int64_t i = 0; i < how.carried; ++i)
      if (how.effect == 1)
        out = std::move(out).insert({.fsm = "CountDown",
                                     .state = gd::to_json(ctx.state),
                                     .queue = "none"});
      else if (how.effect == 2)
        out = std::move(out).signal(
          {.target = first
                     + (ctx.id * how.carried + i) % (how.rows * how.carried),
           .name = "done"});
      else
        out = std::move(out)
                .sql("insert into public.bench_entries values ($1)", ctx.id)
                .expect_rows(1);
    return out;
  };
  return gd::define<counter, only_step>("CountDown", 1)
    .step(only_step::work, body);
}

/// All of it has happened, once.
void verify_carried(const parameters& how) {
  if (how.effect == 0)
    return;
  const char* where[] = {
    "gen_durable where queue = 'none' and fsm = 'CountDown'",
    "gen_durable_signals", "bench_entries"};
  auto found = session{how.database}.scalar(std::string{"select count(*) from "}
                                            + where[how.effect - 1]);
  if (found != std::to_string(how.rows * how.carried))
    throw std::runtime_error{"expected other numbers of effects than " + found};
}

sample measure_drain(const parameters& how) {
  fill(how);
  auto machine = carry(how);
  if (how.keep == 0) // nobody may send them again: they go as they end
    session{how.database}.run("update gen_durable set inserted_at = now() - "
                              "interval '1 hour'; vacuum gen_durable");
  meter m{how.database};
  auto reader = old_snapshot(how);
  std::optional<double> least_share;
  if (how.processes > 1) {
    least_share = drain_in_processes(how, m);
  } else {
    barrier before{how};
    tally done;
    node n{settings(how, machine), drain_sink(how, done)};
    n.wait_until_connected();
    m.start();
    before.open();
    done.wait_for(how.rows * how.steps);
    m.stop();
  }
  reader.reset();
  verify_carried(how);
  auto out = m.finish(static_cast<double>(how.rows * how.steps));
  out.more["pages per picked row"] = m.pages_per_pick();
  if (how.effect > 0)
    out.more["effects/s"] = out.per_second() * static_cast<double>(how.carried);
  verify_history(how);
  if (least_share)
    out.more["least share"] = *least_share;
  return out;
}

/// Waits for a while, as if for somebody else, on one of CAF's threads: or for nothing.
gd::machine wait_for(std::chrono::milliseconds duration) {
  if (duration.count() == 0)
    return count_down();
  return gd::define<counter, only_step>("CountDown", 1)
    .step(only_step::work,
          gd::actors::async([duration](gd::actors::async_context<counter> ctx) {
            ctx.self->become([ctx](std::int32_t) { ctx.finish(gd::done()); });
            gd::actors::send_self_after(ctx.self, duration, std::int32_t{0});
          }));
}

double resident_mb() {
  std::ifstream from{"/proc/self/statm"};
  double pages = 0;
  from >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// What a worker without a database does, in a process of its own. Never returns.
[[noreturn]] void work_for_others(const parameters& how,
                                  const std::string& socket, const tally& open,
                                  const tally& done, tally& kilobytes) {
  open.wait_for(1);
  actor_config cfg{true};
  caf::actor_system sys{cfg};
  auto slots = static_cast<std::int32_t>(how.slots);
  auto worker = gd::actors::join(
    sys, {"unix:" + socket}, {wait_for(std::chrono::milliseconds{how.step_ms})},
    {{.slots = slots, .prefetch = how.step_ms > 0 ? slots : 500}});
  if (!worker)
    _exit(1);
  while (!worker->status().joined)
    std::this_thread::sleep_for(1ms);
  kilobytes.add(static_cast<std::int64_t>(1'024 * resident_mb()));
  done.wait_for(how.rows);
  _exit(0);
}

/// The drain with workers that have no database.
sample measure_links(const parameters& how) {
  fill(how);
  meter m{how.database};
  auto socket = own_file("engine");
  tally open;
  tally done;
  tally idle_kilobytes;
  tally joined;
  std::vector<pid_t> children;
  for (std::int64_t i = 0; i < how.joined; ++i) {
    auto pid = ::fork();
    if (pid == 0)
      work_for_others(how, socket, open, done, idle_kilobytes);
    children.push_back(pid);
  }
  {
    barrier before{how};
    node n{settings(how, wait_for(std::chrono::milliseconds{how.step_ms})),
           [&, log = gd::log_to_stderr()](const gd::event& what) {
      if (std::holds_alternative<gd::events::step_committed>(what))
        done.add();
      if (std::holds_alternative<gd::events::worker_joined>(what))
        joined.add();
      log(what);
           },
           true};
    n.wait_until_connected();
    n.publish({.socket = socket});
    open.add();
    joined.wait_for(how.joined);
    m.start();
    before.open();
    done.wait_for(how.rows);
    m.stop();
  }
  for (auto pid : children) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
      throw std::runtime_error{"a worker has failed"};
  }
  auto out = m.finish(static_cast<double>(how.rows));
  if (how.joined > 0)
    out.more["idle worker, MB"] = static_cast<double>(idle_kilobytes.now())
                                  / 1'024 / static_cast<double>(how.joined);
  return out;
}

sample measure_bulk(const parameters& how) {
  meter m{how.database};
  {
    std::vector<gd::client> clients;
    for (std::int64_t i = 0; i < how.clients; ++i)
      clients.push_back(connect(how));
    std::vector<std::future<void>> all;
    m.start();
    for (auto& x : clients)
      all.push_back(std::async(
        std::launch::async, [&] { insert(x, how, how.rows / how.clients); }));
    for (auto& x : all)
      x.get();
    m.stop();
  }
  return m.finish(static_cast<double>(how.rows / how.clients * how.clients));
}

sample measure_signals(const parameters& how) {
  auto ids = fill(how);
  {
    tally parked;
    node n{settings(how, wait_for_signal()), parked};
    parked.wait_for(how.rows);
  }
  meter m{how.database};
  {
    tally done;
    tally answered;
    node n{settings(how, wait_for_signal()), done};
    n.wait_until_connected();
    m.start();
    send_all<gd::signalled, gd::signal>(n, how, answered, [&](std::int64_t i) {
      return gd::signal{ids[static_cast<std::size_t>(i)], "go"};
    });
    answered.wait_for(how.rows);
    done.wait_for(how.rows);
    m.stop();
  }
  return m.finish(static_cast<double>(how.rows));
}

sample send_inserts(const parameters& how, bool until_done) {
  meter m{how.database};
  {
    tally done;
    tally answered;
    node n{settings(how, count_down()), done};
    n.wait_until_connected();
    m.start();
    send_all<gd::inserted, gd::insert>(n, how, answered, [&](std::int64_t) {
      auto row = one_row(how);
      if (!until_done)
        row.delay_us = 86'400'000'000;
      return row;
    });
    answered.wait_for(how.rows);
    if (until_done)
      done.wait_for(how.rows);
    m.stop();
  }
  return m.finish(static_cast<double>(how.rows));
}

/// Rows that no one picks for now.
sample measure_inserts(const parameters& how) {
  return send_inserts(how, false);
}

sample measure_requests(const parameters& how) {
  return send_inserts(how, true);
}

sample measure_latency(const parameters& how) {
  meter m{how.database};
  std::vector<double> to_start;
  std::vector<double> to_answer;
  std::vector<double> to_done;
  double waiting = 0;
  {
    std::atomic<clock::time_point> begun;
    std::atomic<clock::time_point> ended;
    std::binary_semaphore done{0};
    auto machine = gd::define<counter, only_step>("CountDown", 1)
                     .step(only_step::work, [&](gd::context<counter>&) {
                       begun = clock::now();
                       return gd::done();
                     });
    node n{settings(how, std::move(machine)), on_commit([&] {
             ended = clock::now();
             done.release();
           })};
    n.wait_until_connected();
    caf::scoped_actor self{n.sys};
    m.start();
    for (std::int64_t i = 0; i < how.rows; ++i) {
      std::this_thread::sleep_for(5ms); // idle
      auto sent = clock::now();
      auto ms = [sent](clock::time_point x) {
        return std::chrono::duration<double, std::milli>(x - sent).count();
      };
      gd::actors::request_from(self.ptr(), n.gateway(), patience, one_row(how))
        .receive(
          [&](const gd::inserted&) { to_answer.push_back(ms(clock::now())); },
          [&](const caf::error& why) {
        throw std::runtime_error{gd::actors::render(n.sys, why)};
          });
      if (!done.try_acquire_for(patience))
        throw std::runtime_error{"nothing happens"};
      to_start.push_back(ms(begun));
      to_done.push_back(ms(ended));
      waiting += to_done.back() / 1'000;
    }
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows));
  out.seconds = waiting; // without the pauses
  for (const auto& [name, times] :
       {std::pair{"start", &to_start}, std::pair{"answer", &to_answer},
        std::pair{"done", &to_done}}) {
    out.more[std::string{name} + " p50 ms"] = quantile(*times, 0.5);
    out.more[std::string{name} + " p99 ms"] = quantile(*times, 0.99);
  }
  return out;
}

struct player {
  std::int64_t other = 0;
  std::int64_t left = 0;
  bool serves = false;
  GD_STATE(player, other, left, serves);
};

/// Two instances that send each other a signal with each outcome: so many times there and
/// back, on an idle system.
sample measure_ping_pong(const parameters& how) {
  meter m{how.database};
  std::vector<double> times;
  {
    std::binary_semaphore done{0};
    clock::time_point served{};
    auto play = [&](gd::context<player>& ctx) -> gd::outcome {
      auto& x = ctx.state;
      gd::signal ball{.target = x.other, .name = "ball"};
      if (!ctx.discard("ball")) // the first step of both
        return x.serves ? gd::await("ball", x).signal(ball)
                        : gd::await("ball", x);
      --x.left;
      if (x.serves) {
        auto now = clock::now();
        if (served != clock::time_point{})
          times.push_back(
            std::chrono::duration<double, std::milli>(now - served).count());
        served = now;
        if (x.left == 0) {
          done.release();
          return gd::done();
        }
      }
      return x.left > 0 ? gd::outcome{gd::await("ball", x).signal(ball)}
                        : gd::outcome{gd::done().signal(ball)};
    };
    node n{settings(how, gd::define<player, only_step>("CountDown", 1)
                           .step(only_step::work, play)),
           on_commit([] {})};
    n.wait_until_connected();
    session db{how.database};
    m.start();
    auto draw = [&] {
      return db.scalar(
        "select nextval(pg_get_serial_sequence('gen_durable', 'id'))");
    };
    auto one = draw();
    auto two = draw();
    db.run(fmt::format(
      "insert into gen_durable (id, fsm, step, state) overriding system value "
      "select id, 'CountDown', 'work', jsonb_build_object('other', other, "
      "'left', "
      "{2}, 'serves', id = {1}) from (values ({0}, {1}), ({1}, {0})) x (id, "
      "other)",
      one, two, how.rows));
    if (!done.try_acquire_for(patience))
      throw std::runtime_error{"nothing happens"};
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows));
  out.more["there and back p50 ms"] = quantile(times, 0.5);
  out.more["there and back p99 ms"] = quantile(times, 0.99);
  return out;
}

/// Of single rows, in ms each; their pauses do not count.
sample until_done(meter& m, const std::vector<double>& times) {
  auto out = m.finish(static_cast<double>(times.size()));
  out.seconds = std::accumulate(times.begin(), times.end(), 0.0) / 1e3;
  out.more["done p50 ms"] = quantile(times, 0.5);
  out.more["done p99 ms"] = quantile(times, 0.99);
  return out;
}

/// Single inserts by somebody else's SQL, on an idle system, until each is done.
sample measure_discovery(const parameters& how) {
  meter m{how.database};
  std::vector<double> to_done;
  {
    std::binary_semaphore done{0};
    node n{settings(how, count_down()), on_commit([&] { done.release(); })};
    n.wait_until_connected();
    session other{how.database};
    m.start();
    for (std::int64_t i = 0; i < how.rows; ++i) {
      // Idle, and out of step with what the engine does on its own.
      std::this_thread::sleep_for(300ms + i * 37 % 100 * 1ms);
      auto sent = clock::now();
      other.run("select id from gd_insert('CountDown')");
      if (!done.try_acquire_for(patience))
        throw std::runtime_error{"nothing happens"};
      to_done.push_back(1e3 * seconds_since(sent));
    }
    m.stop();
  }
  return until_done(m, to_done);
}

/// Single inserts by the gateway of a node that does not serve their queue, on an idle
/// system, until each is done by another one.
sample measure_elsewhere(const parameters& how) {
  meter m{how.database};
  std::vector<double> to_done;
  {
    std::binary_semaphore done{0};
    auto other = settings(how, count_down());
    other.queues.front().name = "other";
    node by{std::move(other), [](const gd::event&) {}, true};
    node n{settings(how, count_down()), on_commit([&] { done.release(); }),
           true};
    if (how.hints > 0) {
      by.publish({.socket = own_file("by")});
      n.publish({.socket = own_file("engine")});
    }
    by.wait_until_connected();
    n.wait_until_connected();
    caf::scoped_actor self{by.sys};
    m.start();
    for (std::int64_t i = -5; i < how.rows; ++i) {
      // Idle, and out of step with what the engines do on their own.
      std::this_thread::sleep_for(200ms + (i + 5) * 37 % 100 * 1ms);
      auto sent = clock::now();
      gd::actors::request_from(self.ptr(), by.gateway(), patience, one_row(how))
        .receive([](const gd::inserted&) {},
                 [&](const caf::error& why) {
        throw std::runtime_error{gd::actors::render(by.sys, why)};
        });
      if (!done.try_acquire_for(patience))
        throw std::runtime_error{"nothing happens"};
      if (i < 0) // until the nodes know each other
        continue;
      to_done.push_back(1e3 * seconds_since(sent));
    }
    m.stop();
  }
  return until_done(m, to_done);
}

/// Signals one by one, from the request to the answer: by actors of the engine's own
/// node, or of another one that has connected to a socket, or to a port, maybe of a tunnel.
sample measure_round_trip(const parameters& how) {
  auto ids = fill(how);
  meter m{how.database};
  std::vector<double> times;
  {
    tally parked;
    node n{settings(how, wait_for_signal()), on_commit([&] { parked.add(); }),
           true};
    parked.wait_for(how.rows);
    std::string secret;
    std::string at;
    if (how.listen < 0) {
      at = n.publish({.socket = own_file("engine")});
    } else {
      secret = own_file("secret");
      if (auto ok = gd::actors::shared_secret::make(secret); !ok)
        fail(ok.error());
      at = n.publish(
        {.port = static_cast<std::uint16_t>(how.listen), .secret = secret});
    }
    actor_config elsewhere{true};
    caf::actor_system sys{elsewhere};
    auto to = n.gateway();
    std::shared_ptr<void> connection;
    if (how.connect >= 0) {
      if (how.connect > 0)
        at = "127.0.0.1:" + std::to_string(how.connect);
      auto found = gd::actors::hold(sys, at, secret, patience);
      if (!found)
        fail(found.error());
      to = found->handle;
      connection = found->connection;
    }
    if (!secret.empty())
      unlink(secret.c_str());
    caf::scoped_actor self{how.connect >= 0 ? sys : n.sys};
    m.start();
    for (auto id : ids) {
      std::this_thread::sleep_for(2ms); // idle
      auto sent = clock::now();
      gd::actors::request_from(self.ptr(), to, patience, gd::signal{id, "go"})
        .receive([](const gd::signalled&) {},
                 [&](const caf::error& why) {
        throw std::runtime_error{gd::actors::render(n.sys, why)};
        });
      times.push_back(1e3 * seconds_since(sent));
    }
    parked.wait_for(2 * how.rows);
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows));
  out.seconds = std::accumulate(times.begin(), times.end(), 0.0) / 1e3;
  out.more["p50 ms"] = quantile(times, 0.5);
  out.more["p99 ms"] = quantile(times, 0.99);
  return out;
}

sample measure_async(const parameters& how) {
  fill(how);
  meter m{how.database};
  std::atomic<std::int64_t> in_flight = 0;
  std::atomic<std::int64_t> most = 0;
  {
    tally done;
    m.start();
    node n{settings(
             how, ask(std::chrono::milliseconds{how.step_ms}, in_flight, most)),
           done};
    done.wait_for(how.rows);
    m.stop();
  }
  auto out = m.finish(static_cast<double>(how.rows));
  out.more["most in flight"] = static_cast<double>(most.load());
  out.more["peak MB"] = out.peak_mb;
  return out;
}

/// What an engine costs that has nothing to do.
sample measure_idle(const parameters& how) {
  meter m{how.database};
  double resident = 0;
  {
    tally none;
    node n{settings(how, count_down()), none};
    n.wait_until_connected();
    m.start();
    std::this_thread::sleep_for(std::chrono::duration<double>{how.seconds});
    m.stop();
    resident = own_memory("VmRSS:");
  }
  auto out = m.finish(0);
  out.more["resident MB"] = resident;
  out.more["client CPU %"] = 100 * out.client_cpu / out.seconds;
  out.more["server CPU %"] = 100 * out.server_cpu / out.seconds;
  out.more["CPU %"] = out.more["client CPU %"] + out.more["server CPU %"];
  out.more["statements/s"] = out.statements / out.seconds;
  return out;
}

/// The drain by floor and engine in turns, on the table as it is: medians.
void compare_drains(parameters how, const std::string& when, sample& to) {
  how.rows = 20'000;
  std::vector<double> floor;
  std::vector<double> engine;
  for (int i = 0; i < 5; ++i) {
    floor.push_back(floor_rate(how));
    fill(how);
    tally done;
    auto began = clock::now();
    node n{settings(how, count_down()), done};
    done.wait_for(how.rows);
    engine.push_back(static_cast<double>(how.rows) / seconds_since(began));
  }
  to.more["floor/s " + when] = quantile(floor, 0.5);
  to.more["drain/s " + when] = quantile(engine, 0.5);
  to.more["drain of floor % " + when] = 100 * quantile(engine, 0.5)
                                        / quantile(floor, 0.5);
}

/// A steady inflow for a long time: whether what works at first still does in the
/// end.
sample measure_soak(const parameters& how) {
  sample sizes;
  auto note_sizes = [&](const std::string& when) {
    session db{how.database};
    sizes.more["table MB " + when] = db.number(
                                       "select pg_table_size('gen_durable')")
                                     / 1e6;
    sizes.more["indexes MB " + when]
      = db.number("select pg_indexes_size('gen_durable')") / 1e6;
    sizes.more["pick index MB " + when]
      = db.number("select pg_relation_size('gen_durable_pick_free')") / 1e6;
  };
  compare_drains(how, "start", sizes);
  note_sizes("start");

  meter m{how.database};
  tally done;
  std::int64_t inserted = 0;
  std::vector<double> series;
  {
    auto interval = std::clamp(how.seconds / 60, 1.0, 10.0);
    auto client = connect(how);
    node n{settings(how, count_down()), done};
    m.start();
    auto began = clock::now();
    auto sampled = began;
    std::int64_t before = 0;
    while (seconds_since(began) < how.seconds) {
      auto due = static_cast<std::int64_t>(seconds_since(began)
                                           * static_cast<double>(how.rate));
      insert(client, how, due - inserted);
      inserted = due;
      std::this_thread::sleep_for(100ms);
      if (auto length = seconds_since(sampled); length >= interval) {
        auto now = done.now();
        series.push_back(static_cast<double>(now - before) / length);
        before = now;
        sampled = clock::now();
      }
    }
    sizes.more["backlog end"] = static_cast<double>(inserted - done.now());
    done.wait_for(inserted);
    m.stop();
  }
  auto out = m.finish(static_cast<double>(inserted));
  note_sizes("end");
  compare_drains(how, "end", sizes);
  auto part = static_cast<std::ptrdiff_t>((series.size() + 9) / 10);
  sizes.more["done/s start"] = quantile({series.begin(), series.begin() + part},
                                        0.5);
  sizes.more["done/s end"] = quantile({series.end() - part, series.end()}, 0.5);
  out.more.merge(sizes.more);
  out.series = std::move(series);
  return out;
}

/// Ends as fast as they come, at a rate at the most: what keeping them for a time costs,
/// and whether the table stays as large as what is kept.
sample measure_ends(const parameters& how) {
  constexpr std::int64_t most_waiting = 20'000;
  constexpr int parts = 6;
  meter m{how.database};
  tally done;
  std::int64_t inserted = 0;
  sample found;
  auto note = [&](int part) {
    session db{how.database};
    auto name = [&parts, part](const char* what) {
      return fmt::format("{} {}/{}", what, part, parts);
    };
    found.more[name("table MB")] = db.number(
                                     "select pg_table_size('gen_durable')")
                                   / 1e6;
    found.more[name("indexes MB")] = db.number(
                                       "select pg_indexes_size('gen_durable')")
                                     / 1e6;
    found.more[name("over")] = db.number("select count(*) from gen_durable "
                                         "where expires_at < now()");
    found.more[name("kept")] = db.number("select count(*) from gen_durable "
                                         "where expires_at > now()");
  };
  {
    auto client = connect(how);
    node n{settings(how, count_down()), done};
    n.wait_until_connected();
    m.start();
    auto began = clock::now();
    std::int64_t before = 0;
    for (int part = 1; part <= parts; ++part) {
      auto since = clock::now();
      while (seconds_since(began) < how.seconds * part / parts) {
        auto due = static_cast<std::int64_t>(seconds_since(began)
                                             * static_cast<double>(how.rate));
        auto more = std::min({due, done.now() + most_waiting}) - inserted;
        insert(client, how, std::min<std::int64_t>(more, 2'000));
        inserted += std::clamp<std::int64_t>(more, 0, 2'000);
        if (more < 1'000)
          std::this_thread::sleep_for(1ms);
      }
      auto now = done.now();
      found.series.push_back(static_cast<double>(now - before)
                             / seconds_since(since));
      before = now;
      note(part);
    }
    done.wait_for(inserted);
    m.stop();
  }
  auto out = m.finish(static_cast<double>(inserted));
  out.more.merge(found.more);
  out.series = std::move(found.series);
  for (int part = 1; part <= parts; ++part)
    out.more[fmt::format("ends/s {}/{}", part, parts)]
      = out.series[static_cast<std::size_t>(part - 1)];
  return out;
}

} // namespace

sample measure_engine(const std::string& workload, const parameters& how) {
  static const std::map<std::string, sample (*)(const parameters&)> all{
    {"drain", measure_drain},         {"bulk", measure_bulk},
    {"signals", measure_signals},     {"inserts", measure_inserts},
    {"requests", measure_requests},   {"latency", measure_latency},
    {"discovery", measure_discovery}, {"async", measure_async},
    {"idle", measure_idle},           {"soak", measure_soak},
    {"ends", measure_ends},           {"links", measure_links},
    {"elsewhere", measure_elsewhere}, {"round_trip", measure_round_trip},
    {"ping_pong", measure_ping_pong},
  };
  auto found = all.find(workload);
  if (found == all.end())
    throw std::runtime_error{"engine: unknown workload " + workload};
  return found->second(how);
}

} // namespace gd::bench
