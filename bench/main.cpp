/// Measures the engine beside the floor, each time in a process and a database of
/// its own. See tools/bench.

#include "floor.hpp"
#include "ledger.hpp"
#include "workloads.hpp"

#include <gd/json.hpp>
#include <gd/migrate.hpp>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace gd::bench {

namespace {

// -- what is measured ---------------------------------------------------------

/// A way to do a workload: its name in the table, and what `once` is told.
struct variant {
  std::string name{};
  std::string command{};
  std::string base{}; ///< one before it, which it is compared with
  std::string side = name.starts_with("floor") ? "floor" : "engine";
};

struct workload {
  std::string name{};
  std::string about{};
  std::vector<variant> variants{}; ///< without bases: of a floor, the first
  bool standard = true;
  bool repeated = true;
};

struct sizes {
  bool quick = false;
  double minutes = 30;
  std::int64_t terminal = 10'000'000;
  std::int64_t runnable = 1'000'000;
};

constexpr const char* empty_template = "gd_bench_empty";
constexpr const char* filled_template = "gd_bench_filled";

/// The same work without history and with.
void add_histories(std::vector<variant>& to, const std::string& name,
                   const std::string& command) {
  to.push_back({name, command});
  to.push_back({name + ", steps", command + " --history 1", name});
  to.push_back({name + ", states", command + " --history 2", name});
}

std::vector<variant> histories(const std::string& drain,
                               const std::string& chains) {
  std::vector<variant> xs;
  add_histories(xs, "drain", drain);
  add_histories(xs, "chains", chains);
  add_histories(xs, "run_ahead", chains + " --run-ahead 100");
  return xs;
}

/// The drain, and the same work with something in each outcome, beside the same
/// statements by hand.
std::vector<variant> effects(const std::string& drain,
                             const std::string& parents) {
  std::vector<variant> xs{{"floor", drain}, {"drain", drain, "floor"}};
  for (auto [name, how] :
       {std::pair{"insert", " --effect 1"}, std::pair{"signal", " --effect 2"},
        std::pair{"sql", " --effect 3"}}) {
    auto floor = std::string{"floor, "} + name;
    xs.push_back({floor, drain + how});
    xs.push_back({name, drain + how, floor});
    xs.push_back(
      {std::string{name} + ", beside the drain", drain + how, "drain"});
  }
  auto many = "drain --rows " + parents + " --effect 1 --carried 100";
  xs.push_back({"floor, 100 inserts", many + " --turn 20"});
  xs.push_back({"100 inserts", many, "floor, 100 inserts"});
  return xs;
}

/// The same work without an old snapshot and beside one.
std::vector<variant> snapshots(const std::vector<variant>& of) {
  std::vector<variant> xs;
  for (const auto& x : of) {
    xs.push_back(x);
    xs.push_back({x.name + ", snapshot", x.command + " --snapshot 1", x.name});
  }
  return xs;
}

/// Transitions one by one and in groups: in Statesman's tables, and as the engine
/// writes them, ahead or picked again.
std::vector<variant> transitions(const std::string& rows) {
  std::vector<variant> xs;
  for (const auto* turn : {"1", "100"}) {
    auto name = [turn](const std::string& x) { return x + " x " + turn; };
    auto how = rows + " --turn " + turn;
    xs.push_back({name("Statesman"), "statesman" + how, "", "transitions"});
    for (const std::string kind : {"ahead", "picked"})
      for (auto history : {0, 1, 2})
        xs.push_back(
          {name(kind + std::array{"", ", steps", ", states"}[history]),
           fmt::format("{}{} --history {}", kind, how, history),
           name("Statesman"), "transitions"});
  }
  return xs;
}

std::vector<workload> workloads(const sizes& size) {
  // As it comes, or as a smoke test.
  auto n = [&](std::int64_t full, std::int64_t quick) {
    return std::to_string(size.quick ? quick : full);
  };
  const std::string best = " --slots 1000 --prefetch 2000 --rows-per-turn 2000";
  const auto drain = "drain --rows " + n(20'000, 2'000);
  const auto big_drain = "drain --rows " + n(200'000, 4'000);
  const auto chains = "drain --rows " + n(2'000, 200) + " --steps 10";
  const auto long_chains = "drain --rows 2000 --steps " + n(200, 2);
  const auto signals = "signals --rows " + n(20'000, 1'000);
  const auto bulk = "bulk --rows " + n(100'000, 5'000);
  const auto keys = "drain --rows " + n(10'000, 500);
  const auto inserts = "inserts --rows " + n(40'000, 1'000) + " --senders 64";
  const auto requests = "requests" + inserts.substr(inserts.find(' '));
  const auto async = "async --prefetch 0 --rows " + n(20'000, 400)
                     + " --slots ";
  const auto idle = "idle --queues 10 --seconds " + n(30, 1);
  const auto links = "links --slots 10 --step-ms 0 --rows " + n(20'000, 1'000);
  const auto waiting = "links --slots 10 --step-ms 5 --rows " + n(4'000, 400);
  const auto ends = fmt::format("ends --seconds {} --rate {}",
                                size.minutes * 60, n(10'000, 500));
  const auto scale = drain + " --template " + filled_template;
  return {
    {"drain",
     "instances of one step",
     {{"floor", drain}, {"defaults", drain}, {"best", drain + best}}},
    {"drain-big",
     "the same, ten times as many",
     {{"floor", big_drain},
      {"defaults", big_drain},
      {"best", big_drain + best}}},
    {"chains",
     "instances of ten steps",
     {{"floor", chains + " --turn 500"},
      {"defaults", chains},
      {"best", chains + best},
      {"run_ahead", chains + " --run-ahead 100"}}},
    {"history", "drain and chains without history, and with it",
     histories(drain, chains)},
    {"effects",
     "instances of one step whose end carries an insert, a signal, a "
     "statement, "
     "or 100 inserts",
     effects(drain, n(1'000, 20))},
    {"ping-pong",
     "two instances that signal each other with their outcomes",
     {{"engine", "ping_pong --rows " + n(2'000, 20)}}},
    {"latency",
     "single inserts on an idle system, until done; the floor is one commit",
     {{"floor", "commit --rows " + n(200, 20)},
      {"engine", "latency --rows " + n(200, 20)}}},
    {"discovery",
     "single inserts by plain SQL on an idle system, until done",
     {{"engine", "discovery --rows " + n(100, 3)},
      {"without looks", "discovery --probe-ms 0 --rows " + n(20, 1)}}},
    {"signals",
     "parked instances, each woken by a signal",
     {{"floor", signals}, {"engine", signals + " --senders 64 --window 16"}}},
    {"bulk",
     "inserts by a client",
     {{"floor", bulk},
      {"floor, one", bulk + " --floor-connections 1"},
      {"client", bulk},
      {"2 clients", bulk + " --clients 2"},
      {"unique keys", bulk + " --unique 1"}}},
    {"inserts",
     "single inserts of 64 actors; the floor is that of bulk",
     {{"floor", bulk},
      {"window 1", inserts},
      {"window 16", inserts + " --window 16"}}},
    {"requests",
     "the same, until their steps are done",
     {{"window 1", requests}, {"window 16", requests + " --window 16"}}},
    {"keys",
     "instances on 100 partition keys; the floor does not care for keys",
     {{"floor", keys}, {"engine", keys + " --keys 100"}}},
    {"async",
     "asynchronous steps of 50 ms for 5,000 slots, and 10,000 at once of 2 s",
     {{"50 ms", async + n(5'000, 200)},
      {"2 s", async + n(10'000, 200) + " --step-ms 2000"}}},
    {"workers",
     "the drain with two processes against one",
     {{"floor", drain},
      {"floor x 2", drain + " --processes 2"},
      {"engine", drain},
      {"engine x 2", drain + " --processes 2"}}},
    {"links",
     "the drain with workers without a database; no-op, and 5 ms of waiting",
     {{"0", links},
      {"1", links + " --joined 1"},
      {"2", links + " --joined 2"},
      {"0, 5 ms", waiting},
      {"1, 5 ms", waiting + " --joined 1"},
      {"2, 5 ms", waiting + " --joined 2"}}},
    {"mixture",
     "the drain of two machines' rows with three processes",
     {{"floor", drain}, {"engine x 3", drain + " --machines 2 --processes 3"}}},
    {"idle",
     "an engine without work",
     {{"engine", "idle --seconds " + n(10, 1)},
      {"ten queues", idle},
      {"without looks", idle + " --probe-ms 0"}}},
    {"scale",
     "the drain in a table full of finished, future and foreign rows",
     {{"floor", scale}, {"engine", scale}},
     false},
    {"elsewhere",
     "single inserts by a node that does not serve their queue, until another "
     "one is done",
     {{"hints", "elsewhere --rows " + n(60, 3)},
      {"without hints", "elsewhere --hints 0 --rows " + n(60, 3)}},
     false},
    {"round_trip",
     "a signal and its answer, in the same process, by a Unix socket and by a "
     "loopback port",
     {{"local", "round_trip --rows " + n(1'000, 20)},
      {"socket", "round_trip --connect 0 --listen -1 --rows " + n(1'000, 20)},
      {"port", "round_trip --connect 0 --rows " + n(1'000, 20)}},
     false},
    {"wal", "transitions of instances beside those of Statesman's tables",
     transitions(" --rows " + n(10'000, 500) + " --steps 2"), false},
    {"keep",
     "the drain of what is kept for ever, for a minute, and for no time",
     {{"for ever", drain},
      {"a minute", drain + " --keep 60", "for ever"},
      {"no time", drain + " --keep 0", "for ever"}},
     false},
    {"snapshots",
     "drains beside a transaction whose snapshot is as old as they, and "
     "without it",
     snapshots({{"floor", drain},
                {"engine", drain},
                {"floor, chains", chains},
                {"chains", chains},
                {"floor, long", long_chains},
                {"long chains", long_chains},
                {"run_ahead", chains + " --run-ahead 100"},
                {"keys", keys + " --keys 100"}}),
     false},
    {"ends",
     "10,000 ends a second for a long time, kept for ever and for a minute",
     {{"for ever", ends},
      {"a minute", ends + " --keep " + n(60, 1), "for ever"}},
     false,
     false},
    {"soak",
     "a steady inflow for a long time, the floor measured before and after",
     {{"engine", fmt::format("soak --seconds {} --rate {}", size.minutes * 60,
                             n(3'000, 500))}},
     false,
     false},
  };
}

// -- databases ----------------------------------------------------------------

bool exists(session& db, const std::string& name) {
  return db.scalar("select exists (select from pg_database where datname = '"
                   + name + "')")
         == "t";
}

void drop(session& db, const std::string& name) {
  db.run("set client_min_messages = warning");
  db.run("drop database if exists " + name + " with (force)");
}

/// Through the write-ahead log a big database would take for ever.
void copy(session& db, const std::string& from, const std::string& to) {
  bool can_choose = PQserverVersion(db.get()) >= 150'000;
  db.run("create database " + to + " template " + from
         + (can_choose ? " strategy file_copy" : ""));
}

void make_empty(session& db) {
  if (exists(db, empty_template))
    return;
  db.run("create extension if not exists pg_stat_statements");
  db.run(fmt::format("create database {}", empty_template));
  if (auto ok = gd::migrate_up({.database = conninfo(empty_template)}); !ok)
    throw std::runtime_error{to_string(ok.error())};
}

/// Of the rows that are runnable, but not to be picked, one half is not due yet,
/// and the other of a machine that nobody knows.
void make_filled(session& db, const sizes& size) {
  drop(db, filled_template);
  copy(db, empty_template, filled_template);
  session in{filled_template};
  in.run(fmt::format(
    "insert into gen_durable (fsm, step, status, state, result) select "
    "'CountDown', 'work', 'done', '{{\"left\": 1}}', '{{}}' from "
    "generate_series(1, {})",
    size.terminal));
  in.run(fmt::format(
    "insert into gen_durable (fsm, step, state, eligible_at) select case when "
    "i % 2 = 0 then 'CountDown' else 'Unknown' end, 'work', '{{\"left\": 1}}', "
    "case when i % 2 = 0 then now() + interval '1 day' else now() end from "
    "generate_series(1, {}) i",
    size.runnable));
  in.run("vacuum analyze gen_durable");
}

// -- one measurement ----------------------------------------------------------

struct once_options {
  std::string side{};
  std::string what{};
  std::string from = empty_template;
  parameters how{};
};

void add_once(CLI::App& cli, once_options& x) {
  auto* once = cli.add_subcommand(
    "once", "makes one measurement and prints it as a line of JSON");
  once->add_option("side", x.side, "floor, engine or transitions")
    ->required()
    ->check(CLI::IsMember({"floor", "engine", "transitions"}));
  once->add_option("what", x.what, "what it does")->required();
  once->add_option("--template", x.from, "the database to begin with")
    ->capture_default_str();
  const CLI::Range positive{std::int64_t{1}, std::int64_t{1'000'000'000}};
  auto add = [&](const char* name, auto& to, const char* help) {
    return once->add_option(name, to, help)
      ->capture_default_str()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  add("--rows", x.how.rows, "instances")->check(positive);
  add("--steps", x.how.steps, "steps of each")->check(positive);
  add("--keys", x.how.keys, "partition keys; 0: none");
  add("--unique", x.how.unique, "of bulk: 1: each row has a unique key");
  add("--machines", x.how.machines, "engine: the rows are a mixture of them")
    ->check(positive);
  add("--processes", x.how.processes, "that drain together")->check(positive);
  add("--joined", x.how.joined, "of links: workers without a database");
  add("--clients", x.how.clients, "of bulk, each with its own connection")
    ->check(positive);
  add("--turn", x.how.turn, "floor: rows in a transaction")->check(positive);
  add("--floor-connections", x.how.floor_connections, "floor: connections")
    ->check(positive);
  add("--slots", x.how.slots, "engine: of the queue; 0: its default");
  add("--prefetch", x.how.prefetch, "engine: of the queue; -1: its default");
  add("--history", x.how.history,
      "engine and transitions: 0: none, 1: steps, 2: with states")
    ->check(CLI::Range(0, 2));
  add("--keep", x.how.keep,
      "engine: seconds that instances are kept behind their end; -1: for ever");
  add("--run-ahead", x.how.run_ahead, "engine: steps at once; 0: one");
  add("--rows-per-turn", x.how.rows_per_turn, "engine; 0: its default");
  add("--connections", x.how.connections, "engine; 0: its default");
  add("--step-ms", x.how.step_ms,
      "engine: how long an asynchronous step takes");
  add("--queues", x.how.queues, "engine: of the node")->check(positive);
  add("--probe-ms", x.how.probe_ms,
      "engine: between looks; 0: none; -1: its default");
  add("--effect", x.how.effect,
      "of drain: 1 to 3: ends insert, signal, run a statement")
    ->check(CLI::Range(0, 3));
  add("--carried", x.how.carried, "of drain: so many of these")
    ->check(positive);
  add("--metrics", x.how.metrics, "engine: of drain: 1: keeps metrics")
    ->check(CLI::Range(0, 1));
  add("--snapshot", x.how.snapshot,
      "of drain: 1: a transaction keeps the snapshot of its beginning")
    ->check(CLI::Range(0, 1));
  add("--hints", x.how.hints, "engine: of elsewhere; 0: none");
  add("--listen", x.how.listen,
      "of round_trip: port of the gateway; 0: any that is free; -1: a "
      "socket's path");
  add("--connect", x.how.connect,
      "of round_trip: port to connect to; 0: the gateway's; -1: none, local");
  add("--senders", x.how.senders, "actors that send");
  add("--window", x.how.window, "requests that each has under way");
  add("--seconds", x.how.seconds, "of idle, ends and soak");
  add("--rate", x.how.rate, "of soak and ends: inserts per second");
}

int run_once(once_options x) {
  session db;
  make_empty(db);
  x.how.database = fmt::format("gd_bench_run_{}", getpid());
  copy(db, x.from, x.how.database);
  auto found = x.side == "floor"    ? measure_floor(x.what, x.how)
               : x.side == "engine" ? measure_engine(x.what, x.how)
                                    : measure_transitions(x.what, x.how);
  drop(db, x.how.database);
  fmt::print("{}\n", gd::to_json(found).text());
  return EXIT_SUCCESS;
}

/// Measures queries on a table of so many rows, in a database of its own.
struct queries {
  const char* name;
  const char* help;
  const char* of;
  const char* variable;
  std::int64_t least;
  bool (*measure)(std::int64_t rows, const std::string& database);
  std::int64_t rows = 0;

  void add_to(CLI::App& cli) {
    cli.add_subcommand(name, help)
      ->add_option("--rows", rows, of)
      ->envname(variable)
      ->default_val(100'000)
      ->check(CLI::Range(least, std::int64_t{100'000'000}));
  }

  int run() const {
    session db;
    make_empty(db);
    auto database = fmt::format("gd_bench_queries_{}", getpid());
    copy(db, empty_template, database);
    auto well = measure(rows, database);
    drop(db, database);
    return well ? EXIT_SUCCESS : EXIT_FAILURE;
  }
};

/// Runs this program once more, as it is told on the command line, and returns
/// what it prints.
std::string run_self(const std::vector<std::string>& arguments) {
  int out[2];
  if (pipe(out) != 0)
    throw std::runtime_error{"no pipe"};
  auto pid = fork();
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    close(out[1]);
    std::vector<char*> argv;
    std::string self = "/proc/self/exe";
    argv.push_back(self.data());
    for (const auto& x : arguments)
      argv.push_back(const_cast<char*>(x.c_str()));
    argv.push_back(nullptr);
    execv(self.c_str(), argv.data());
    _exit(127);
  }
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(out[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(out[0]);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0)
    throw std::runtime_error{
      fmt::format("gd_bench {} has failed", fmt::join(arguments, " "))};
  return text;
}

// -- a run --------------------------------------------------------------------

struct variant_report {
  std::string name{};
  std::string command{};
  std::string base{};
  sample median{};
  std::vector<sample> samples{};
  /// How fast it is beside its base: the geometric mean of the rounds, and its
  /// standard error.
  double ratio = 0;
  double ratio_error = 0;
  GD_STATE(variant_report, name, command, base, median, samples, ratio,
           ratio_error);
};

struct workload_report {
  std::string name{};
  std::vector<variant_report> variants{};
  GD_STATE(workload_report, name, variants);
};

struct report {
  std::string at{};
  std::int64_t cores = 0;
  std::string processor{};
  std::string server{};
  std::map<std::string, std::string> settings{};
  std::int64_t floor_turn = 0;
  std::int64_t floor_connections = 0;
  std::map<std::string, double> floor_scan{}; ///< steps per second
  std::vector<workload_report> workloads{};
  GD_STATE(report, at, cores, processor, server, settings, floor_turn,
           floor_connections, floor_scan, workloads);
};

sample median_of(const std::vector<sample>& all) {
  sample out = all.back();
  auto median = [&](const std::function<double&(sample&)>& field) {
    std::vector<double> xs;
    xs.reserve(all.size());
    for (auto x : all)
      xs.push_back(field(x));
    field(out) = quantile(xs, 0.5);
  };
  for (auto field : {&sample::seconds, &sample::client_cpu, &sample::server_cpu,
                     &sample::wal_bytes, &sample::commits, &sample::statements,
                     &sample::peak_mb})
    median([field](sample& x) -> double& { return x.*field; });
  for (const auto& [name, value] : all.back().more)
    median([&key = name](sample& x) -> double& { return x.more[key]; });
  return out;
}

void compare(variant_report& x, const variant_report& base) {
  std::vector<double> logs;
  for (std::size_t i = 0; i < x.samples.size(); ++i)
    logs.push_back(
      std::log(x.samples[i].per_second() / base.samples[i].per_second()));
  auto n = static_cast<double>(logs.size());
  auto mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  double squares = 0;
  for (auto log : logs)
    squares += (log - mean) * (log - mean);
  x.ratio = std::exp(mean);
  x.ratio_error = n > 1 ? x.ratio * std::sqrt(squares / (n - 1) / n) : 0;
}

/// "12,345", and with digits behind the point where they tell something.
std::string number(double x) {
  if (x == 0)
    return "0";
  if (x < 1)
    return fmt::format("{:.4f}", x);
  if (x < 100)
    return fmt::format("{:.1f}", x);
  auto text = fmt::format("{:.0f}", x);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<std::size_t>(i), ",");
  return text;
}

void describe_machine(session& db, report& to) {
  to.at = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  to.cores = std::thread::hardware_concurrency();
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; to.processor.empty() && std::getline(info, line);)
    if (line.starts_with("model name"))
      to.processor = line.substr(line.find(':') + 2);
  to.server = db.scalar("show server_version");
  for (const auto* name :
       {"fsync", "synchronous_commit", "wal_sync_method", "full_page_writes",
        "shared_buffers", "max_wal_size", "autovacuum"})
    to.settings[name] = db.scalar(fmt::format("show {}", name));
}

class run {
public:
  run(report& to, int repeat) : report_(to), repeat_(repeat) {
    // nop
  }

  /// The turn and the number of connections with which the floor is fastest.
  void scan() {
    double best = 0;
    for (auto connections : {1, 2})
      for (auto turn : {100, 500, 1'000, 2'000}) {
        auto found = once("floor",
                          fmt::format("drain --turn {} --floor-connections {}",
                                      turn, connections));
        fmt::print(stderr, "floor, {} connections, turns of {}: {}/s\n",
                   connections, turn, number(found.per_second()));
        report_.floor_scan[fmt::format("{} x {}", connections, turn)]
          = found.per_second();
        if (found.per_second() > best) {
          best = found.per_second();
          report_.floor_turn = turn;
          report_.floor_connections = connections;
        }
      }
  }

  void measure(const workload& what) {
    workload_report out{.name = what.name};
    const auto& first = what.variants.front();
    for (const auto& x : what.variants)
      out.variants.push_back(
        {.name = x.name,
         .command = x.command,
         .base = x.base.empty() && first.side == "floor" && &x != &first
                   ? first.name
                   : x.base});
    auto rounds = what.repeated ? repeat_ : 1;
    for (int i = 1; i <= rounds; ++i) {
      std::vector<std::string> rates;
      for (std::size_t k = 0; k < out.variants.size(); ++k) {
        auto& x = out.variants[k];
        x.samples.push_back(once(what.variants[k].side, x.command));
        if (auto rate = x.samples.back().per_second(); rate > 0)
          rates.push_back(fmt::format("{} {}/s", x.name, number(rate)));
      }
      fmt::print(stderr, "{}: {} of {}: {}\n", what.name, i, rounds,
                 fmt::join(rates, ", "));
    }
    for (auto& x : out.variants) {
      x.median = median_of(x.samples);
      for (const auto& base : out.variants)
        if (base.name == x.base && x.median.steps > 0)
          compare(x, base);
    }
    report_.workloads.push_back(std::move(out));
  }

private:
  sample once(const std::string& side, const std::string& command) {
    std::istringstream words{command};
    std::vector<std::string> arguments{"once", side};
    for (std::string word; words >> word;) {
      arguments.push_back(word);
      if (arguments.size() == 3 && side == "floor") // what follows wins
        for (const auto& x :
             {std::string{"--turn"}, std::to_string(report_.floor_turn),
              std::string{"--floor-connections"},
              std::to_string(report_.floor_connections)})
          arguments.push_back(x);
    }
    auto found = gd::from_json<sample>(run_self(arguments));
    if (!found)
      throw std::runtime_error{to_string(found.error())};
    return *found;
  }

  report& report_;
  int repeat_;
};

void print(const report& x) {
  fmt::print("{:10} {:20} {:>10} {:>8} {:>14} {:>10} {:>10} {:>10} {:>10} "
             "{:>10}\n",
             "workload", "", "per second", "of base", "by rounds", "client us",
             "server us", "WAL bytes", "commits", "statements");
  for (const auto& w : x.workloads) {
    std::map<std::string, double> rates;
    for (const auto& v : w.variants) {
      const auto& m = v.median;
      rates[v.name] = m.per_second();
      fmt::print("{:10} {:20}", &v == &w.variants.front() ? w.name : "",
                 v.name);
      if (m.steps > 0) {
        auto compared = v.ratio > 0;
        fmt::print(
          " {:>10} {:>8} {:>14}", number(m.per_second()),
          compared
            ? fmt::format("{:.0f} %", 100 * m.per_second() / rates[v.base])
            : "",
          compared ? fmt::format("{:.3f} ({:.3f})", v.ratio, v.ratio_error)
                   : "");
        for (auto cost : {1e6 * m.client_cpu, 1e6 * m.server_cpu, m.wal_bytes,
                          m.commits, m.statements})
          fmt::print(" {:>10}", number(cost / m.steps));
      }
      fmt::print("\n");
      std::vector<std::string> more;
      for (const auto& [name, value] : m.more)
        more.push_back(name + " " + number(value));
      if (!more.empty())
        fmt::print("{:31} {}\n", "", fmt::join(more, ", "));
    }
  }
}

struct options {
  std::vector<std::string> wanted{};
  bool all = false;
  bool list = false;
  int repeat = 5;
  std::string json{};
  std::int64_t turn = 0;
  std::int64_t connections = 0;
  sizes size{};
};

void add_options(CLI::App& cli, options& x) {
  cli.add_option("workload", x.wanted, "which; default: the standard ones");
  cli.add_flag("--all", x.all, "those that take long, too");
  cli.add_flag("--list", x.list, "names the workloads");
  cli.add_flag("--quick", x.size.quick,
               "small sizes, once each: whether all works");
  cli.add_option("--repeat", x.repeat, "how often; the median counts")
    ->capture_default_str()
    ->check(CLI::Range(1, 100));
  cli.add_option("--json", x.json, "writes everything to this file");
  cli.add_option("--floor-turn", x.turn,
                 "rows in a transaction of the floor; default: the best");
  cli.add_option("--floor-connections", x.connections,
                 "of the floor; default: the best");
  cli.add_option("--minutes", x.size.minutes, "of soak and ends")
    ->capture_default_str();
  cli.add_option("--terminal", x.size.terminal, "finished rows of scale")
    ->capture_default_str();
  cli
    .add_option("--runnable", x.size.runnable,
                "future and foreign rows of scale")
    ->capture_default_str();
}

int run_all(const options& opts) {
  std::vector<workload> todo;
  for (auto& x : workloads(opts.size)) {
    if (opts.list)
      fmt::print("{:10} {}{}\n", x.name, x.about,
                 x.standard ? "" : " (takes long)");
    if (opts.wanted.empty()
          ? opts.all || x.standard
          : std::find(opts.wanted.begin(), opts.wanted.end(), x.name)
              != opts.wanted.end())
      todo.push_back(std::move(x));
  }
  if (opts.list)
    return EXIT_SUCCESS;
  if (!opts.wanted.empty() && todo.size() != opts.wanted.size()) {
    fmt::print(stderr, "bench: unknown workload; see --list\n");
    return 2;
  }
  session db;
  make_empty(db);
  report found;
  describe_machine(db, found);
  found.floor_turn = opts.turn > 0 ? opts.turn : 1'000;
  found.floor_connections = opts.connections > 0 ? opts.connections : 2;
  run r{found, opts.size.quick ? 1 : opts.repeat};
  if (!opts.size.quick && opts.turn == 0 && opts.connections == 0)
    r.scan();
  for (const auto& x : todo) {
    if (x.name == "scale") {
      fmt::print(stderr, "scale: filling the table\n");
      make_filled(db, opts.size);
    }
    r.measure(x);
  }
  print(found);
  if (!opts.json.empty()) {
    std::ofstream out{opts.json};
    out << gd::to_json(found).text() << '\n';
    if (!out.flush())
      throw std::runtime_error{"cannot write " + opts.json};
  }
  return EXIT_SUCCESS;
}

} // namespace

} // namespace gd::bench

int main(int argc, char** argv) {
  CLI::App cli{
    "Measures the engine beside the floor, and prints a table. To be "
    "run under tools/private-postgres. Exits with 1 if anything "
    "fails."};
  gd::bench::options opts;
  gd::bench::once_options one;
  gd::bench::add_options(cli, opts);
  gd::bench::add_once(cli, one);
  std::array of_large_tables{
    gd::bench::queries{"ledger-queries",
                       "what pages of a history, and of the instances in a "
                       "step, read of large tables; exits with 1 if that is "
                       "too much",
                       "instances with history", "GD_LEDGER_ROWS", 100,
                       gd::bench::measure_ledger_queries},
    gd::bench::queries{"operator-queries",
                       "how long the calls of those who look take on large "
                       "tables, on a quiet one and beside a drain",
                       "instances", "GD_OPERATOR_ROWS", 1'000,
                       gd::bench::measure_operator_queries}};
  for (auto& x : of_large_tables)
    x.add_to(cli);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& why) {
    return cli.exit(why) == 0 ? EXIT_SUCCESS : 2;
  }
  try {
    for (const auto& x : of_large_tables)
      if (cli.got_subcommand(x.name))
        return x.run();
    return one.side.empty() ? gd::bench::run_all(opts)
                            : gd::bench::run_once(one);
  } catch (const std::exception& why) {
    fmt::print(stderr, "bench: {}\n", why.what());
    return EXIT_FAILURE;
  }
}
