// Workers without a database, each in a process of its own: what they run, and what
// becomes of it when they are killed, stopped, cut off or leave.

#define CAF_SUITE join

#include "../../examples/encryption/aes_gcm.hpp"
#include "actors/network.hpp"
#include "actors/remote_nodes.hpp"
#include "link_worker/machines.hpp"
#include "support/connect.hpp"
#include "support/process.hpp"
#include "support/words.hpp"

#include <gd/actors/join.hpp>
#include <gd/actors/remote.hpp>

#include <gd/network/workers/link_codec.hpp>

#include <caf/all.hpp>
#include <caf/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace join_suite {

using namespace gd::test;
namespace events = gd::events;

namespace {

/// An engine whose only slot is taken: all else is run by workers.
struct fixture {
  temporary_database db;
  event_log log;
  gate busy;
  network_config cfg;
  caf::actor_system sys{cfg};
  std::string release = (std::filesystem::temp_directory_path()
                         / ("gd_join_test_" + std::to_string(getpid())))
                          .string();
  std::optional<gd::actors::engine> engine;
  socket_folder sockets;
  std::string endpoint;
  std::size_t connections = 64;
  std::vector<std::unique_ptr<process>> workers;
  std::function<void(gd::config&)> change = [](gd::config&) {};

  fixture() {
    db.migrate();
    std::remove(release.c_str());
  }

  ~fixture() {
    set_free();
    busy.open();
    workers.clear();
    engine.reset();
    std::remove(release.c_str());
  }

  /// What holds on goes on.
  void set_free() const {
    std::fclose(std::fopen(release.c_str(), "w"));
  }

  gd::machine block() {
    return gd::define<link_state, local_step>("Local", 1)
      .step(local_step::block, {.blocking = true},
            [this](gd::context<link_state>&) -> gd::outcome {
              busy.pass();
              return gd::done();
            });
  }

  gd::config options() {
    gd::config x;
    x.database = db.conninfo();
    x.node = "engine";
    x.machines = {block(), link_machine(release)};
    x.queues = {{.slots = 1}};
    x.lease = 60s; // ends when a test says so
    x.heartbeat = 300ms;
    x.poll = 50ms;
    x.reaper = 50ms;
    x.worker_ping = 100ms;
    x.worker_silence = 50s; // no worker is taken for gone: `stops_workers`
    x.stop_grace = 2s;
    x.on_event = log.sink();
    change(x);
    return x;
  }

  void start() {
    start(sockets.next());
  }

  void start(const std::string& socket) {
    auto started = gd::actors::start(sys, options());
    if (!started)
      throw std::runtime_error(to_string(started.error()));
    engine = std::move(*started);
    auto published = gd::actors::publish(
      *engine, {.socket = socket, .connections = connections});
    if (!published)
      throw std::runtime_error(to_string(published.error()));
    endpoint = *published;
  }

  void take_the_slot() {
    insert("block", "Local");
    if (!busy.wait_for(1))
      throw std::runtime_error("the engine does not run");
  }

  process& add_worker(int slots = 4, int version = 1, std::string also = {}) {
    std::vector<std::string> args{
      GD_LINK_WORKER, release, std::to_string(version), std::to_string(slots)};
    if (!also.empty())
      args.push_back(also);
    args.push_back(endpoint);
    workers.push_back(std::make_unique<process>(std::move(args)));
    return *workers.back();
  }

  /// With the engine's slot taken, and a worker.
  process& begin(int slots = 4) {
    start();
    take_the_slot();
    auto& worker = add_worker(slots);
    if (!log.wait_for<events::worker_joined>())
      throw std::runtime_error("the worker does not join");
    return worker;
  }

  std::string insert(const std::string& step, const std::string& fsm = "Link",
                     const std::string& more = {},
                     const std::string& values = {}) {
    return db.scalar("insert into gen_durable (fsm, fsm_version, step" + more
                     + ") values ('" + fsm + "', 1, '" + step + "'" + values
                     + ") returning id");
  }

  void wait_for(const std::string& id, const std::string& condition) {
    db.wait_until("select count(*) from gen_durable where id = " + id + " and "
                    + condition,
                  "1");
  }

  /// For tests that stop a worker: that is noticed by its silence.
  static void stops_workers(gd::config& x) {
    x.worker_silence = 600ms;
  }

  /// As if it was over, under a worker that is gone: until nobody has it, or another.
  void end_lease(const std::string& id) {
    auto token = of(id, "locked_by");
    auto give_up = std::chrono::steady_clock::now() + patience;
    while (of(id, "locked_by") == token) {
      CAF_REQUIRE(std::chrono::steady_clock::now() < give_up);
      db.rows("update gen_durable set lease_expires_at = now() - interval '1 s'"
              " where id = $1 and locked_by = $2 and lease_expires_at > now()",
              {id, token}); // once: what is locked is not reaped
    }
  }

  std::string of(const std::string& id, const std::string& what) {
    return db.scalar("select " + what + " from gen_durable where id = " + id);
  }
};

/// Asks for it until it is so.
bool holds(const process& worker, std::size_t executions) {
  auto expected = "holds " + std::to_string(executions);
  auto give_up = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < give_up) {
    worker.send(SIGUSR1);
    auto lines = worker.lines();
    if (std::find(lines.begin(), lines.end(), expected) != lines.end())
      return true;
    std::this_thread::yield();
  }
  return false;
}

std::string pid_of(const process& x) {
  return std::to_string(x.pid());
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(join_tests, fixture)

CAF_TEST(each kind of step runs on a worker) {
  auto& worker = begin();
  std::vector<std::string> ids;
  for (const auto* step : {"plain", "limited", "blocking", "asynchronous"})
    ids.push_back(insert(step));
  for (const auto& id : ids) {
    wait_for(id, "status = 'done'");
    CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(worker));
  }
}

CAF_TEST(an instance goes on at its worker without going back to the queue) {
  auto& worker = begin();
  auto id = insert("chain");
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "result->>'n'"), "6");
  CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(worker));
  // One pick for all of them: no others know of the row in between.
  CAF_CHECK_EQUAL(of(id, "seq"), "6");
  CAF_CHECK(holds(worker, 0)); // it has been told what became of each outcome
}

CAF_TEST(handlers limits and refusals are the workers) {
  auto& worker = begin();
  auto pid = pid_of(worker);
  auto thrown = insert("throws");
  auto late = insert("overruns");
  wait_for(thrown, "status = 'failed'");
  CAF_CHECK_EQUAL(of(thrown, "last_error"),
                  "handled by " + pid + ": as it should");
  wait_for(late, "status = 'failed'");
  CAF_CHECK_EQUAL(of(late, "last_error"),
                  "handled by " + pid
                    + ": step overruns took longer than 50ms");
  CAF_CHECK(log.wait_for<events::step_failed>(2));
}

CAF_TEST(an outcome that collides goes to the handler of the worker) {
  auto& worker = begin();
  // Occupied in `runnable` alone: by another as soon as it runs.
  auto keyed = [this](const std::string& step, const std::string& at) {
    return insert(step, "Link", ", unique_key, unique_scope, eligible_at",
                  ", 'k', '{runnable}', now() + interval '" + at + "'");
  };
  auto id = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  db.rows(
    "update gen_durable set unique_key = 'k', unique_scope = '{runnable}' "
    "where id = $1",
    {id});
  auto other = keyed("plain", "1 hour");
  set_free();
  wait_for(id, "status = 'done'"); // `done` collides with nothing
  auto first = insert("collides", "Link", ", unique_key, unique_scope",
                      ", 'k2', '{runnable}'");
  wait_for(first, "status in ('done', 'failed')");
}

CAF_TEST(signals reach a worker and what it takes is gone) {
  auto& worker = begin();
  auto id = insert("listens");
  wait_for(id, "status = 'awaiting_signal'");
  caf::scoped_actor self{sys};
  bool stored = false;
  self
    ->request(engine->gateway(), patience,
              gd::signal{.target = std::stoll(id),
                         .name = "word",
                         .payload = gd::to_json(std::string{"hello"})})
    .receive([&](gd::signalled&) { stored = true; }, [](caf::error&) {});
  CAF_CHECK(stored);
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "result->>'note'"), "hello");
  CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(worker));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "0");
}

CAF_TEST(
  what a killed worker had is run again after its lease and counts as a crash) {
  auto& worker = begin();
  auto id = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  worker.end(SIGKILL);
  CAF_CHECK(log.wait_for<events::worker_gone>());
  end_lease(id);
  auto& other = add_worker();
  CAF_CHECK(other.wait_for_line("begin " + id + " holds 1"));
  CAF_CHECK_EQUAL(of(id, "crashes"), "1");
  set_free();
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "result->>'n'"), "1"); // the first has left no trace
  CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(other));
}

CAF_TEST(
  a stopped worker loses its lease and its late outcome changes nothing) {
  change = stops_workers;
  auto& worker = begin();
  auto id = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  worker.send(SIGSTOP);
  CAF_CHECK(log.wait_for<events::worker_gone>());
  end_lease(id);
  auto& other = add_worker();
  CAF_CHECK(other.wait_for_line("begin " + id + " holds 1"));
  worker.send(SIGCONT);
  set_free();
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(other));
  CAF_CHECK(worker.wait_for_line("stale " + id));
  CAF_CHECK(log.wait_for<events::worker_joined>(3));
}

CAF_TEST(a stop reaches a worker and a frozen one keeps the key for no longer
           than its lease) {
  // The engine keeps it until then, by its own clock.
  change = [](gd::config& x) {
    stops_workers(x);
    x.lease = 2s;
  };
  auto& worker = begin();
  auto id = insert("holds", "Link", ", partition_key", ", 'account 7'");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  auto next = insert("holds", "Link", ", partition_key", ", 'account 7'");
  worker.send(SIGSTOP);
  CAF_CHECK(log.wait_for<events::worker_gone>());
  db.rows("select gd_stop($1)", {id});
  auto& other = add_worker();
  CAF_CHECK(other.wait_for_line("begin " + next));
  worker.send(SIGCONT);
  set_free();
  wait_for(next, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "status"), "failed");
  CAF_CHECK_EQUAL(of(next, "result->>'pid'"), pid_of(other));
}

CAF_TEST(a worker that is back within its lease goes on) {
  change = stops_workers;
  auto& worker = begin();
  auto id = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  worker.send(SIGSTOP);
  CAF_CHECK(log.wait_for<events::worker_gone>());
  worker.send(SIGCONT);
  CAF_CHECK(log.wait_for<events::worker_joined>(2));
  CAF_CHECK(worker.wait_for_line("joined engine 1"));
  set_free();
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "attempt"), "0");
  CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(worker));
}

CAF_TEST(who leaves gives back what has not begun and finishes the rest) {
  auto& worker = begin(1);
  auto first = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + first));
  auto second = insert("holds");
  // At the worker, too: what is only picked stays with the engine.
  CAF_CHECK(holds(worker, 2));
  worker.send(SIGTERM);
  wait_for(second, "status = 'runnable' and attempt = 0");
  set_free();
  CAF_CHECK_EQUAL(worker.end(0), 0);
  wait_for(first, "status = 'done'");
  CAF_CHECK_EQUAL(of(first, "attempt"), "0");
  CAF_CHECK_EQUAL(of(second, "attempt"), "0");
}

CAF_TEST(an outcome that the next engine gets counts under its token) {
  auto& worker = begin();
  auto id = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  // Its place is taken by another, of which the worker's token knows nothing.
  busy.open();
  engine.reset();
  start(endpoint.substr(std::string_view{"unix:"}.size()));
  CAF_CHECK(worker.wait_for_line("joined engine 0"));
  set_free();
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "attempt"), "0");
  CAF_CHECK_EQUAL(of(id, "result->>'pid'"), pid_of(worker));
}

CAF_TEST(a key stays until the function at the worker has returned) {
  begin();
  // By the handler, while the function runs, or, on a slow machine, before it has begun:
  // then it does not, and has no key to keep.
  std::string key;
  std::string begun;
  do {
    key += "k";
    auto first = insert("overruns_long", "Link", ", partition_key",
                        ", '" + key + "'");
    wait_for(first, "status = 'failed'");
    begun = begun_file(release, std::stoll(first));
  } while (!is_there(begun));
  auto second = insert("plain", "Link", ", partition_key", ", '" + key + "'");
  auto free = insert("plain");
  wait_for(free, "status = 'done'");
  CAF_CHECK_EQUAL(of(second, "status"), "runnable");
  set_free();
  wait_for(second, "status = 'done'");
  std::remove(begun.c_str());
}

CAF_TEST(
  an actor of a step that dies at a worker is a crash of that step alone) {
  begin();
  auto id = insert("dies");
  CAF_CHECK(log.wait_for<events::step_crashed>());
  end_lease(id);
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(of(id, "attempt"), "1");
  CAF_CHECK_EQUAL(of(id, "crashes"), "0");
  CAF_CHECK_EQUAL(log.all<events::worker_joined>().size(), 1u);
}

CAF_TEST(a lease that another has is told to the step at the worker) {
  auto& worker = begin();
  auto id = insert("holds");
  CAF_CHECK(worker.wait_for_line("begin " + id));
  db.rows("update gen_durable set locked_by = 'x/y/1' where id = $1", {id});
  CAF_CHECK(worker.wait_for_line("ends " + id));
  CAF_CHECK(
    worker.wait_for_line("stale " + id)); // it has stopped, and reported
  CAF_CHECK_EQUAL(of(id, "locked_by"), "x/y/1");
}

CAF_TEST(what outcomes of workers carry happens with them) {
  change = [](gd::config& x) { x.effects.search_path = "public"; };
  begin();
  db.rows("create table sent (id bigint, pid bigint)");
  auto target = insert("listens", "Link", ", unique_key, unique_scope",
                       ", 'target', '{runnable,executing,awaiting_signal}'");
  wait_for(target, "status = 'awaiting_signal'");
  auto id = insert("sends", "Link", ", state", ", '{\"note\": \"target\"}'");
  wait_for(id, "status = 'done' and result ->> 'note' = 'target'");
  wait_for(target, "status = 'done' and state ->> 'n' = '0'");
  CAF_CHECK_EQUAL(of(target, "result ->> 'note'"), "sent");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from sent where id = " + id), "1");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable where queue = 'later'"), "1");
  CAF_MESSAGE("what is refused goes to the worker's handler");
  id = insert("sends", "Link", ", state", ", '{\"note\": \"nobody\"}'");
  wait_for(id, "status = 'done' and result ->> 'note' = 'signal 1'");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable where queue = 'later'"), "1");
}

CAF_TEST(another definition is refused and other versions are not sent) {
  start();
  take_the_slot();
  auto& other = add_worker(4, 2);
  CAF_CHECK(log.wait_for<events::worker_refused>());
  CAF_CHECK(other.wait_for_line("lost denied: this node has none"));
}

CAF_TEST(a step that ends its process is failed after so many workers) {
  change = [](gd::config& x) {
    stops_workers(x);
    x.lease = 1s;
    x.heartbeat
      = 490ms; // a death that is noticed later would be none of the trial's
    x.max_crashes = 2;
  };
  begin();
  auto id = insert("aborts");
  int deaths = 0;
  for (; of(id, "status") != "failed" && deaths < 8; ++deaths) {
    // Only who has run something to its end is given a suspect.
    insert("plain");
    db.wait_until("select count(*) from gen_durable where id = " + id
                    + " and (attempt > " + std::to_string(deaths)
                    + " or status = 'failed')",
                  "1");
    add_worker();
  }
  wait_for(id, "status = 'failed'");
  auto trials = log.all<events::trial_begun>();
  CAF_CHECK_EQUAL(
    std::count_if(trials.begin(), trials.end(),
                  [&id](const auto& x) { return std::to_string(x.id) == id; }),
    2);
  CAF_CHECK_GREATER_OR_EQUAL(deaths, 4);
}

CAF_TEST(who is denied again and again leaves room for others) {
  connections = 3;
  start();
  take_the_slot();
  add_worker(4, 2);
  CAF_CHECK(log.wait_for<events::worker_refused>(8));
  add_worker();
  CAF_CHECK(log.wait_for<events::worker_joined>());
  wait_for(insert("plain"), "status = 'done'");
}

CAF_TEST(a suspect is not given to who has run nothing to its end) {
  change = [](gd::config& x) { x.max_crashes = 2; };
  start();
  take_the_slot();
  auto id = insert("plain", "Link", ", crashes", ", 3");
  add_worker();
  CAF_CHECK(log.wait_for<events::worker_joined>());
  // What comes later is done first: the suspect waits for somebody better.
  auto other = insert("plain");
  wait_for(other, "status = 'done'");
  wait_for(id, "status = 'done'");
  CAF_CHECK_EQUAL(
    db.scalar("select (select updated_at from gen_durable where id = " + id
              + ") > (select updated_at from gen_durable where id = " + other
              + ")"),
    "t");
}

namespace {

/// A worker that says what a test wants.
class forger {
public:
  forger(caf::actor_system& sys, const std::string& endpoint,
         const std::string& release)
    : handle_(must(gd::test::connect(sys, endpoint, patience))), self_(sys) {
    say(gd::link::join{.protocols = {gd::link::protocol},
                       .incarnation = "forger",
                       .node = "forger",
                       .machines = gd::link::offered({link_machine(release)}),
                       .queues = {"default"}});
  }

  template <class T>
  void say(const T& x) {
    auto packet = gd::link::pack(x);
    self_->send(
      caf::actor_cast<caf::actor>(handle_),
      gd::actors::link_message{packet.type, packet.version, packet.bytes});
  }

  /// The next message of that kind.
  template <class T>
  T hear() {
    std::optional<T> heard;
    while (!heard) {
      bool silent = false;
      self_->receive(
        [&](const gd::actors::link_message& x) {
        if (x.type == static_cast<std::int32_t>(T::type))
          heard = must(gd::link::unpack<T>({x.type, x.version, x.bytes}));
        },
        caf::after(patience) >> [&] { silent = true; });
      if (silent)
        throw std::runtime_error("the engine is silent");
    }
    return std::move(*heard);
  }

private:
  gd::actors::gateway handle_;
  caf::scoped_actor self_;
};

} // namespace

CAF_TEST(
  what the engine runs itself is ended by no worker who knows its token) {
  namespace link = gd::link;
  start();
  take_the_slot();
  auto row = db.rows("select id, locked_by from gen_durable "
                     "where status = 'executing'")
               .front();
  forger worker{sys, endpoint, release};
  CAF_REQUIRE(log.wait_for<events::worker_joined>());
  link::outcome forged;
  forged.id = std::stoll(*row[0]);
  forged.token = *row[1];
  forged.over = true;
  forged.queue = "default";
  forged.row.what = gd::store::write_kind::done;
  worker.say(forged);
  CAF_CHECK(worker.hear<link::completed>().what == link::verdict::stale);
  auto token = of(*row[0], "locked_by");
  CAF_CHECK_EQUAL(token, *row[1]);
}

CAF_TEST(a worker that says what is no outcome has crashed and is told) {
  namespace link = gd::link;
  start();
  take_the_slot();
  forger worker{sys, endpoint, release};
  auto joined = worker.hear<link::joined>();
  link::credit wants;
  wants.epoch = joined.epoch;
  wants.nr = 1;
  wants.number = 1;
  wants.bytes = 1 << 20;
  wants.rooms = {{"default", 1}};
  worker.say(wants);
  auto id = insert("plain");
  auto work = worker.hear<link::work>();
  CAF_CHECK_EQUAL(std::to_string(work.id), id);
  link::outcome wrong;
  wrong.epoch = joined.epoch;
  wrong.nr = 2;
  wrong.id = work.id;
  wrong.token = work.token;
  wrong.over = true;
  wrong.queue = "default";
  wrong.row.what = gd::store::write_kind::release; // the engine's alone
  worker.say(wrong);
  CAF_CHECK(worker.hear<link::completed>().what == link::verdict::stale);
  CAF_CHECK(log.wait_for<events::step_crashed>());
}

namespace {

/// Tells its note, which nobody can read in between.
gd::machine whispers(std::shared_ptr<const gd::cipher> by) {
  return gd::define<link_state, local_step>("Whisper", 1)
    .encrypted_by(std::move(by))
    .step(local_step::block, [](gd::context<link_state>& ctx) {
      ctx.state.note += ", heard";
      return gd::done(ctx.state);
    });
}

} // namespace

CAF_TEST(a worker decrypts and encrypts what its engine could not ) {
  using guide::aes_gcm;
  aes_gcm by{{{"2026-11", std::string(32, 'b')}}, "2026-11"};
  auto other = std::make_shared<aes_gcm>(
    aes_gcm::keys{{"2025-01", std::string(32, 'a')}}, "2025-01");
  change = [&](gd::config& x) { x.machines.push_back(whispers(other)); };
  start();
  take_the_slot();
  network_config elsewhere_config;
  caf::actor_system elsewhere{elsewhere_config};
  auto worker = gd::actors::join(elsewhere, {endpoint},
                                 {whispers(std::make_shared<aes_gcm>(by))});
  CAF_REQUIRE(worker);
  auto state = gd::encrypted(gd::to_json(link_state{.note = "a secret"}), by);
  auto id = insert("block", "Whisper", ", state", ", '" + state.text() + "'");
  wait_for(id, "status in ('done', 'failed')");
  auto result = gd::from_json<link_state>(gd::json::raw(of(id, "result")), by);
  CAF_REQUIRE(result);
  CAF_CHECK_EQUAL(result->note, "a secret, heard");
  worker->leave();
}

CAF_TEST(a wrong address is told at once) {
  auto worker = gd::actors::join(sys, {"nowhere"}, {link_machine(release)});
  CAF_REQUIRE(!worker);
  CAF_CHECK(worker.error().message.find("nowhere") != std::string::npos);
  worker = gd::actors::join(sys, {"127.0.0.1:1"}, {link_machine(release)});
  CAF_REQUIRE(!worker);
  CAF_CHECK(worker.error().message.starts_with(
    "join: expected a secret for the port 127.0.0.1:1, got none"));
  worker = gd::actors::join(sys, {"unix:" + sockets.next()},
                            {link_machine(release)});
  CAF_REQUIRE(worker);
  worker->leave();
  CAF_CHECK(!worker->status().joined);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace join_suite
