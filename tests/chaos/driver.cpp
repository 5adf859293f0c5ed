/// Breaks something under steady load, lets the system recover, and checks the
/// table. See docs/internals/chaos.md and tools/chaos.

#include "chaos/checks.hpp"
#include "chaos/world.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <random>

namespace {

using namespace gd::chaos;
using gd::test::session;

struct scenario {
  const char* name;
  const char* about;
  /// Does its harm for about as long as it is told to, and undoes it.
  std::function<void(world&, std::chrono::milliseconds)> harm;
  world_options how{};
  /// Others are done meanwhile.
  bool goes_on = false;
  /// Nothing is executed twice: no lease is taken from those that have it.
  bool once = false;
};

/// How often something is done in a time, whatever else happens.
void every(std::chrono::milliseconds interval, std::chrono::milliseconds length,
           const std::function<void()>& act) {
  auto end = clock::now() + length;
  for (auto next = clock::now(); next < end; next += interval) {
    std::this_thread::sleep_until(next);
    act();
  }
}

void let_pass(std::chrono::milliseconds length) {
  std::this_thread::sleep_for(length);
}

// -- scenarios ----------------------------------------------------------------

void calm(world&, std::chrono::milliseconds length) {
  let_pass(length);
}

void kill_once(world& w, std::chrono::milliseconds length) {
  w.kill_worker("a");
  let_pass(length);
  w.start_worker("a");
}

void kill_often(world& w, std::chrono::milliseconds length) {
  bool first = true;
  every(1s, length, [&] {
    auto name = std::exchange(first, !first) ? "a" : "b";
    w.kill_worker(name);
    w.start_worker(name);
  });
}

/// Processes are killed while instances make others, which report and book: each does it
/// once, and what is booked balances in every snapshot.
void fan_out(world& w, std::chrono::milliseconds length) {
  constexpr std::int64_t fans = 50;
  constexpr std::int64_t leaves = 2'000;
  w.rows("create table booked (leaf bigint, account text, amount bigint)");
  w.rows("grant insert on booked to public");
  w.rows(
    "insert into gen_durable (fsm, step, state) select 'Fan', 'split', "
    "jsonb_build_object('leaves', $2::bigint, 'made', 0, 'counted', 0) from "
    "generate_series(1, $1::bigint)",
    {std::to_string(fans), std::to_string(leaves)});
  auto balances = [&w] {
    auto sum = w.scalar("select coalesce(sum(amount), 0) from booked");
    if (sum != "0")
      throw std::runtime_error{"a snapshot does not balance: " + sum};
  };
  auto end = clock::now() + length;
  bool first = true;
  int round = 0;
  auto over = [&w] {
    return w.scalar("select not exists (select from gen_durable where fsm in "
                    "('Fan', 'Leaf') and status not in ('done', 'failed'))")
           == "t";
  };
  auto give_up = clock::now() + 3 * patience;
  while (!over()) {
    if (clock::now() > give_up)
      throw std::runtime_error{"what fans out does not end"};
    for (int i = 0; i < 10; ++i) {
      balances();
      let_pass(100ms);
    }
    if (clock::now() < end || ++round % 4 == 0) { // or they would not get on
      auto name = std::exchange(first, !first) ? "a" : "b";
      w.kill_worker(name);
      w.start_worker(name);
    }
  }
  auto expect =
    [&w](const char* what, const std::string& query, std::int64_t n) {
    if (auto got = w.scalar(query); got != std::to_string(n))
      throw std::runtime_error{
        fmt::format("{}: expected {}, got {}", what, n, got)};
  };
  expect(
    "leaves",
    "select count(*) from gen_durable where fsm = 'Leaf' and status = 'done'",
    fans * leaves);
  expect(
    "leaves that have booked twice, or not",
    "select count(*) from (select from gen_durable g left join booked b on "
    "b.leaf = g.id where g.fsm = 'Leaf' group by g.id having count(b.leaf) <> "
    "2) x",
    0);
  expect("booked by nobody",
         "select count(*) from booked where leaf not in (select id from "
         "gen_durable where fsm = 'Leaf')",
         0);
  expect(
    "counts that are right",
    "select count(*) from gen_durable where fsm = 'Fan' and status = 'done' "
    "and result ->> 'counted' = result ->> 'leaves'",
    fans);
}

void restart_fast(world& w, std::chrono::milliseconds) {
  w.stop_server("fast");
  w.start_server();
}

void restart_crash(world& w, std::chrono::milliseconds) {
  w.stop_server("immediate");
  w.start_server();
}

void server_down(world& w, std::chrono::milliseconds length) {
  w.stop_server("fast");
  let_pass(std::max<std::chrono::milliseconds>(length, 2 * w.options().lease));
  w.start_server();
}

void cut_connections(world& w, std::chrono::milliseconds length) {
  every(100ms, length, [&] { w.terminate_engines(); });
}

void no_slots(world& w, std::chrono::milliseconds length) {
  std::vector<session> greedy;
  w.scalar("select 1");
  auto end = clock::now() + length;
  while (clock::now() < end) {
    try {
      greedy.emplace_back(w.database().conninfo());
    } catch (const std::exception&) {
      w.terminate_engines(); // and their slots are taken, too
      let_pass(50ms);
    }
  }
}

void no_login(world& w, std::chrono::milliseconds length) {
  w.rows("alter role engine nologin");
  every(500ms, length, [&] { w.terminate_engines(); });
  w.rows("alter role engine login");
}

void read_only(world& w, std::chrono::milliseconds length) {
  w.rows("alter system set default_transaction_read_only = on");
  w.rows("select pg_reload_conf()");
  let_pass(length);
  w.rows("alter system reset default_transaction_read_only");
  w.rows("select pg_reload_conf()");
}

void disk_full(world& w, std::chrono::milliseconds length) {
  std::filesystem::path data{std::getenv("GD_TEST_POSTGRES_DATA")};
  auto ballast = data.parent_path() / "ballast";
  struct statvfs disk {};
  if (statvfs(data.c_str(), &disk) != 0
      || disk.f_blocks * disk.f_frsize > (1ULL << 30))
    throw std::runtime_error{"expected a small file system for the data "
                             "directory: run tools/chaos disk_full"};
  std::ofstream out{ballast, std::ios::binary};
  std::vector<char> block(64 << 10);
  every(20ms, length, [&] { // what others free is taken, too
    while (out.write(block.data(), static_cast<std::streamsize>(block.size()))
             .flush())
      ;
    out.clear();
  });
  out.close();
  std::filesystem::remove(ballast);
  w.start_server(); // without its log it has stopped for good
}

void freeze(world& w, std::chrono::milliseconds length) {
  w.signal_worker("a", SIGSTOP);
  let_pass(std::max<std::chrono::milliseconds>(length, 2 * w.options().lease));
  w.signal_worker("a", SIGCONT);
}

void cut_network(world& w, std::chrono::milliseconds length) {
  w.wire()->swallow(true);
  let_pass(std::max<std::chrono::milliseconds>(length, 2 * w.options().lease));
  w.wire()->swallow(false);
}

void wild_steps(world& w, std::chrono::milliseconds length) {
  every(100ms, 3 * length, [&] { w.revive_workers(); });
}

void kill_actors(world& w, std::chrono::milliseconds length) {
  int round = 0;
  every(100ms, length, [&] {
    for (auto name : {"a", "b", "load"}) {
      w.signal_worker(name, SIGUSR1);
      if (round % 5 == 0)
        w.signal_worker(name, SIGUSR2);
    }
    ++round;
  });
}

void pin_snapshot(world& w, std::chrono::milliseconds length) {
  session idle{w.database().conninfo()};
  idle.exec("begin isolation level repeatable read");
  idle.exec("select count(*) from gen_durable");
  let_pass(2 * length);
  idle.exec("rollback");
}

void readers(world& w, std::chrono::milliseconds length) {
  std::vector<std::thread> all;
  for (int i = 0; i < 4; ++i)
    all.emplace_back([&] {
      session db{w.database().conninfo()};
      db.exec("begin isolation level repeatable read");
      every(100ms, 2 * length, [&] {
        db.exec("select count(*), sum(length(state::text)) from gen_durable "
                "left join gen_durable_signals on target_id = gen_durable.id");
      });
    });
  for (auto& x : all)
    x.join();
}

void overload(world& w, std::chrono::milliseconds length) {
  w.start_load("surge", 800, 1'000'000'000);
  let_pass(length);
  if (!w.end_load("surge"))
    throw std::runtime_error{"the surge could not be accepted"};
}

void hot_key(world& w, std::chrono::milliseconds length) {
  w.rows("insert into gen_durable (fsm, step, partition_key, state) select "
         "'Keyed', 'first', 'hot', '{}' from generate_series(1, 50000)");
  let_pass(2 * length);
  w.rows("delete from gen_durable where unique_key is null and status = "
         "'runnable'");
}

void open_transaction(world& w, std::chrono::milliseconds length) {
  session caller{w.database().conninfo()};
  caller.exec("begin");
  // As many rows as it meets while their steps run; none that the sender signals
  // as well, who would wait for the answer.
  every(100ms, length, [&] {
    caller.exec("select gd_signal(id, 'by the way', '{}') from gen_durable "
                "where status = 'executing' and fsm = 'Chain' limit 1");
  });
  caller.exec("rollback");
}

void link_kill(world& w, std::chrono::milliseconds length) {
  bool first = true;
  every(1s, length, [&] {
    auto name = std::exchange(first, !first) ? "c" : "d";
    w.kill_worker(name);
    w.start_worker(name);
  });
}

void link_stop(world& w, std::chrono::milliseconds length) {
  w.signal_worker("c", SIGSTOP);
  let_pass(std::max<std::chrono::milliseconds>(length, 2 * w.options().lease));
  w.signal_worker("c", SIGCONT);
}

void link_cut(world& w, std::chrono::milliseconds length) {
  every(2s, length, [&] { // shorter than a lease
    w.link()->swallow(true);
    let_pass(1'200ms);
    w.link()->swallow(false);
  });
  w.link()->swallow(true);
  let_pass(2 * w.options().lease);
  w.link()->swallow(false);
}

void link_engine_replaced(world& w, std::chrono::milliseconds length) {
  w.kill_worker("a");
  w.start_worker("a");
  let_pass(length / 2);
  w.signal_worker("a", SIGTERM); // well
  let_pass(length / 2);
  w.kill_worker("a");
  w.start_worker("a");
}

void promote_sync(world& w, std::chrono::milliseconds length) {
  w.fail_over();
  let_pass(length);
}

void promote_async(world& w, std::chrono::milliseconds length) {
  note_facts_of_standby(w, w.fail_over_behind(1s, facts_as_json()));
  let_pass(length);
}

/// Sessions of engines that wait for a standby.
gd::test::row_list sessions_that_wait(world& w) {
  return w.rows("select pid, backend_start from pg_stat_activity where "
                "wait_event = 'SyncRep' and application_name like "
                "'gen_durable%' order by pid::text collate \"C\"");
}

int sessions_of_engines(world& w) {
  return std::stoi(
    w.scalar("select count(*) from pg_stat_activity where datname = "
             "current_database() and application_name like 'gen_durable%'"));
}

void sync_gone(world& w, std::chrono::milliseconds length) {
  // Each of those that wait may be replaced once, and each node's control session again.
  auto usual = sessions_of_engines(w);
  auto bound = 2 * usual + 6;
  auto most = usual;
  auto look_for = [&](std::chrono::milliseconds time) {
    every(100ms, time, [&] { most = std::max(most, sessions_of_engines(w)); });
  };
  // For less than engines wait for an answer, and for several times that; both are longer
  // than a lease.
  for (auto gone : {3'500ms, std::max(length, 7 * w.options().lease)}) {
    w.standby().stop("immediate");
    look_for(1s);
    auto before = sessions_that_wait(w);
    look_for(gone - 1s);
    auto after = sessions_that_wait(w);
    if (before.empty()
        || !std::includes(after.begin(), after.end(), before.begin(),
                          before.end()))
      throw std::runtime_error{"sessions do not wait for the standby"};
    w.standby().start();
    let_pass(2s);
  }
  fmt::print("  sessions of engines: {}, at most {} without the standby\n",
             usual, most);
  if (most > bound)
    throw std::runtime_error{
      fmt::format("expected at most {} sessions of engines", bound)};
}

const std::vector<scenario>& scenarios() {
  static const std::vector<scenario> all{
    {"calm", "nothing happens", calm},
    {"kill_once", "SIGKILL of one of two workers, restarted later", kill_once},
    {"kill_often", "SIGKILL of one worker after the other, every second",
     kill_often},
    {"fan_out",
     "SIGKILL of workers while 50 instances make 100,000 that report and book",
     fan_out},
    {"restart_fast", "fast restart of the server", restart_fast},
    {"restart_crash", "immediate restart of the server: crash recovery",
     restart_crash},
    {"server_down", "no server for longer than a lease", server_down},
    {"cut_connections",
     "every connection of the engines ended, ten times a "
     "second",
     cut_connections},
    {"no_slots", "others have all connection slots", no_slots},
    {"no_login", "the engines' role may not log in", no_login},
    {"read_only", "the database is read-only by default", read_only},
    {"disk_full", "no space on the server's disk", disk_full},
    {"freeze", "SIGSTOP of a worker for two leases: a zombie", freeze},
    {"cut_network",
     "nothing goes through to the server, without a reset",
     cut_network,
     {.through_proxy = true}},
    {"wild_steps",
     "steps that throw, hang, exhaust memory, kill and abort",
     wild_steps,
     {.wild = true}},
    {"kill_actors", "actors killed and sockets closed beneath the reactor",
     kill_actors},
    {"wrong_clock",
     "a worker that lives an hour ahead",
     calm,
     {.wrong_clock = true}},
    {"pin_snapshot",
     "an idle transaction with an old snapshot",
     pin_snapshot,
     {},
     true},
    {"readers",
     "four repeatable-read readers that scan the tables",
     readers,
     {},
     true},
    {"overload", "more than the workers can do, then drained", overload},
    {"hot_key",
     "a backlog of 50,000 rows of one partition key",
     hot_key,
     {},
     true},
    {"open_transaction",
     "a caller's open transaction has signalled rows whose "
     "steps run",
     open_transaction,
     {},
     true},
    {"link_kill",
     "SIGKILL of one worker without a database after the other",
     link_kill,
     {.links = true}},
    {"link_stop",
     "SIGSTOP of a worker without a database for two leases",
     link_stop,
     {.links = true}},
    {"link_cut",
     "nothing goes through to such a worker, for less than a lease and for two",
     link_cut,
     {.links = true}},
    {"link_engine_replaced",
     "the node that they have joined is killed, and stopped",
     link_engine_replaced,
     {.links = true}},
    {"promote_sync",
     "the server dies, and its synchronous standby takes its place",
     promote_sync,
     {.standby = true, .synchronous = true}},
    {"promote_async",
     "the server dies, and a standby that is a second behind takes its place",
     promote_async,
     {.standby = true}},
    {"sync_gone",
     "the synchronous standby stops, for more than a lease, twice",
     sync_gone,
     {.standby = true, .synchronous = true},
     false,
     true},
  };
  return all;
}

// -- a run --------------------------------------------------------------------

struct report {
  findings found;
  double before = 0; ///< instances done per second
  double during = 0;
  double after = 0;
  std::optional<double> recovery; ///< seconds; unset: more than were waited for
};

std::string now(world& w) {
  return w.scalar("select clock_timestamp()");
}

/// Instances of the steady load that were done between two points in time.
double rate(world& w, const std::string& from, const std::string& to) {
  auto text = w.scalar(
    "select count(*) / extract(epoch from $2::timestamptz - $1::timestamptz) "
    "from gen_durable where status = 'done' and unique_key is not null and "
    "length(unique_key) < 10 and updated_at between $1 and $2",
    {from, to});
  return std::stod(text);
}

/// Instances of the steady load that were made after a point in time, and are done.
bool some_done_since(world& w, const std::string& from) {
  return w.scalar("select exists (select from gen_durable where status = "
                  "'done' and length(unique_key) < 10 and inserted_at > $1)",
                  {from})
         == "t";
}

/// Waits until it holds; false: not in time. Dead workers are started again.
bool wait_for(world& w, std::chrono::milliseconds longest,
              const std::function<bool()>& holds) {
  auto give_up = clock::now() + longest;
  while (!holds()) {
    w.revive_workers();
    if (clock::now() > give_up)
      return false;
    let_pass(100ms);
  }
  return true;
}

report play(const scenario& what, unsigned seed, double load,
            const std::filesystem::path& directory,
            std::chrono::milliseconds length) {
  auto how = what.how;
  how.seed = seed;
  how.directory = directory;
  report out;
  world w{how};
  w.start_worker("a");
  w.start_worker("b");
  if (how.links)
    for (auto name : {"c", "d"})
      w.start_worker(name);
  w.start_load("load", load);
  if (!wait_for(w, patience, [&] {
        return w.scalar("select count(distinct node) from effects")
                 == (how.links ? "4" : "2")
               && w.scalar("select count(*) > 100 from gen_durable where "
                           "status = 'done'")
                    == "t";
      }))
    throw std::runtime_error{"the workers do not work"};
  auto begin = now(w);
  let_pass(3s);
  auto since = now(w);
  out.before = rate(w, begin, since);

  what.harm(w, length);
  auto healed = clock::now();
  auto end = now(w);
  out.during = rate(w, since, end);

  // What has to hold: it goes on. How fast is told, and asserted of no machine.
  bool goes_on = wait_for(w, patience, [&] { return some_done_since(w, end); });
  // The first second and a half in which all is as it was.
  if (wait_for(w, 15s, [&] {
        auto since_healed = clock::now() - healed;
        return since_healed >= 1500ms
               && rate(w,
                       w.scalar("select clock_timestamp() - interval '1.5 s'"),
                       now(w))
                    >= 0.95 * out.before;
      }))
    out.recovery = std::max(
      0.0, std::chrono::duration<double>(clock::now() - healed).count() - 1.5);
  auto steady = now(w);
  wait_for(w, 3s, [] { return false; });
  out.after = rate(w, steady, now(w));

  bool accepted = w.end_load("load");
  bool inserted = w.end_inserts();
  if (may_lose(w))
    send_lost_signals(w);
  bool quiet = wait_for(w, patience, [&] {
    return w.scalar("select count(*) from gen_durable where status not in "
                    "('done', 'failed')")
           == "0";
  });
  bool ended = w.end_workers();
  out.found = check(w, what.how.wild ? "epoch" : since);
  auto wrong = [&](bool is, std::string text) {
    if (is)
      out.found.wrong.push_back(std::move(text));
  };
  wrong(what.once && out.found.repeated > 0, "steps were executed twice");
  wrong(!accepted, "the sender could not get everything accepted");
  wrong(!inserted, "a worker did not end its own inserts");
  wrong(!quiet, "not everything has ended");
  wrong(!ended, "a worker did not stop when it was told to");
  wrong(!goes_on, "nothing that was made afterwards was done");
  wrong(what.goes_on && out.during == 0, "nothing was done meanwhile");
  return out;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> wanted;
  unsigned seed = std::random_device{}() % 100'000;
  int seconds = 4;
  std::string keep;
  CLI::App cli{
    "Breaks something under steady load, lets the system recover, and checks "
    "the table. To be run under tools/private-postgres. Exits with 1 if "
    "anything is wrong."};
  cli.add_option("scenario", wanted, "which; default: all but disk_full");
  cli.add_option("--seed", seed, "default: at random");
  cli.add_option("--seconds", seconds, "how long the harm lasts")
    ->capture_default_str();
  double load = 150;
  cli.add_option("--rate", load, "instances per second")->capture_default_str();
  cli.add_option("--keep", keep, "directory for the logs of the processes");
  bool list = false;
  cli.add_flag("--list", list, "names the scenarios");
  CLI11_PARSE(cli, argc, argv);
  if (list) {
    for (const auto& x : scenarios())
      fmt::print("{:17} {}\n", x.name, x.about);
    return EXIT_SUCCESS;
  }
  std::vector<const scenario*> todo;
  for (const auto& x : scenarios())
    if (wanted.empty()
          ? std::string_view{x.name} != "disk_full"
          : std::find(wanted.begin(), wanted.end(), x.name) != wanted.end())
      todo.push_back(&x);
  if (!wanted.empty() && todo.size() != wanted.size()) {
    fmt::print(stderr, "chaos: unknown scenario; see --list\n");
    return 2;
  }
  auto directory = keep.empty() ? std::filesystem::temp_directory_path()
                                    / fmt::format("gd-chaos.{}", getpid())
                                : std::filesystem::path{keep};
  fmt::print("seed {}\n{:17} {:>8} {:>8} {:>5} {:>5} {:>6} {:>9} {:>9} {:>8} "
             "{:>8} {:>8}\n",
             seed, "scenario", "inserts", "signals", "lost", "twice", "stuck",
             "repeated", "recovery", "before", "during", "after");
  std::fflush(stdout);
  bool well = true;
  for (const auto* x : todo) {
    auto own = directory / x->name;
    std::filesystem::remove_all(own);
    std::filesystem::create_directories(own);
    try {
      auto r = play(*x, seed, load, own, std::chrono::seconds{seconds});
      fmt::print(
        "{:17} {:8} {:8} {:5} {:5} {:6} {:9} {:>9} {:6.0f}/s {:6.0f}/s "
        "{:6.0f}/s\n",
        x->name, r.found.inserts, r.found.signals, r.found.lost,
        r.found.duplicated, r.found.stuck, r.found.repeated,
        r.recovery ? fmt::format("{:.1f} s", *r.recovery) : "> 15 s", r.before,
        r.during, r.after);
      if (x->how.standby && !x->how.synchronous)
        fmt::print(
          "  lost with the server: {} inserts, {} signals, {} outcomes\n",
          r.found.lost_inserts, r.found.lost_signals, r.found.lost_outcomes);
      for (const auto& text : r.found.wrong) {
        fmt::print("  wrong: {}\n", text);
        well = false;
      }
    } catch (const std::exception& why) {
      fmt::print("{:17} failed: {}\n", x->name, why.what());
      well = false;
    }
    std::fflush(stdout);
  }
  if (keep.empty() && well)
    std::filesystem::remove_all(directory);
  else
    fmt::print("logs: {}\n", directory.string());
  return well ? EXIT_SUCCESS : EXIT_FAILURE;
}
