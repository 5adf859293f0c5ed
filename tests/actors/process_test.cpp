#define CAF_SUITE process

#include "support/database.hpp"
#include "support/process.hpp"
#include "support/server.hpp"

#include <gd/migrate.hpp>

#include <caf/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace process_suite {

using namespace std::literals;
using namespace gd::test;

namespace {

/// Of a process, in MB.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long most_memory = 600; // with a shadow; unbounded it would be 7,000
#else
constexpr long most_memory = 200;
#endif

/// A process of tests/worker.
class worker : public process {
public:
  worker(const temporary_database& db, const std::string& node,
         const std::string& more = "", const char* mode = nullptr)
    : process(
      mode == nullptr
        ? std::vector<std::string>{GD_TEST_WORKER, db.conninfo() + more, node}
        : std::vector<std::string>{GD_TEST_WORKER, db.conninfo() + more, node,
                                   mode}) {
    // nop
  }

  /// The most memory that it has ever had, in MiB.
  long peak() const {
    auto told = status("VmHWM:");
    return told.empty() ? -1 : std::stol(told) / 1024;
  }

  /// Until it would end by that signal.
  void wait_until_default(int signal) const {
    auto until = std::chrono::steady_clock::now() + patience;
    auto bit = 1ull << (signal - 1);
    while ((std::stoull(status("SigCgt:"), nullptr, 16) & bit) != 0) {
      CAF_REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::yield();
    }
  }

private:
  /// What the system tells of it under that name.
  std::string status(std::string_view name) const {
    std::ifstream in{"/proc/" + std::to_string(pid()) + "/status"};
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(name))
        return line.substr(name.size());
    return {};
  }
};

/// Starts workers again that have ended, as systemd does.
class supervisor {
public:
  supervisor(temporary_database& db, int count, const char* mode = "brief")
    : db_(db), mode_(mode) {
    for (int i = 0; i < count; ++i)
      start(workers_.emplace_back());
  }

  /// Until the query says so; the end is a guard against hangs.
  void run_until(const std::string& query, const std::string& expected) {
    using real = std::chrono::steady_clock;
    auto until = real::now() + 10min;
    while (db_.scalar(query) != expected) {
      CAF_REQUIRE(real::now() < until);
      look();
    }
  }

  void look() {
    if (pause_ > 0ms && std::chrono::steady_clock::now() >= next_kill_) {
      kill_one(random_() % workers_.size());
      plan_kill();
    }
    for (auto& x : workers_)
      if (x->has_ended())
        start(x);
  }

  void kill_one(std::size_t which) {
    workers_[which]->end(SIGKILL);
    ++kills_;
  }

  /// From now on one at random is killed with each look that is half to one and a half times
  /// as long behind the last kill.
  void kill_at_random(unsigned seed, std::chrono::milliseconds pause) {
    random_.seed(seed);
    pause_ = pause;
    plan_kill();
  }

  int kills() const {
    return kills_;
  }

  void kill_all() {
    for (auto& x : workers_)
      x->send(SIGKILL);
    for (auto& x : workers_)
      x->end(SIGKILL);
  }

  /// How often one had to be started again.
  int starts() const {
    return starts_ - static_cast<int>(workers_.size());
  }

private:
  void plan_kill() {
    next_kill_ = std::chrono::steady_clock::now() + pause_ / 2
                 + random_() % 1'000 * pause_ / 1'000;
  }

  void start(std::unique_ptr<worker>& x) {
    ++starts_;
    x = std::make_unique<worker>(db_, "n" + std::to_string(starts_), "", mode_);
  }

  temporary_database& db_;
  const char* mode_;
  std::vector<std::unique_ptr<worker>> workers_;
  int starts_ = 0;
  int kills_ = 0;
  std::mt19937 random_;
  std::chrono::milliseconds pause_{0};
  std::chrono::steady_clock::time_point next_kill_{};
};

struct process_fixture {
  temporary_database db;

  process_fixture() {
    db.migrate();
  }

  void insert(const std::string& fsm, const std::string& step, int count) {
    db.rows("insert into gen_durable (fsm, step) select $1, $2 from "
            "generate_series(1, $3::int)",
            {fsm, step, std::to_string(count)});
  }

  /// The most memory, in MB, that a process with so many queues has had, which has worked off
  /// rows of 1 MB that each take a signal of 1 MB on.
  long most_memory_for(int queues, int rows) {
    db.rows("truncate gen_durable cascade");
    db.rows("insert into gen_durable (fsm, step, queue, state) select 'Carry',"
            " 'carry', 'q' || 1 + n % $1::int, jsonb_build_object('text',"
            " repeat('x', 1000000)) from generate_series(1, $2::int) n",
            {std::to_string(queues), std::to_string(rows)});
    db.rows("insert into gen_durable_signals (target_id, name, payload) select"
            " id, 'more', jsonb_build_object('text', repeat('y', 1000000))"
            " from gen_durable");
    worker a{db, "a", "", ("queues=" + std::to_string(queues)).c_str()};
    for (int n = 0; n < rows; n += 100)
      db.wait_until("select count(*) >= " + std::to_string(n)
                      + " from gen_durable where status = 'done'",
                    "t");
    wait_until_count("status = 'done' and result = '{\"n\": 1000000}'",
                     std::to_string(rows));
    auto peak = a.peak();
    CAF_MESSAGE("queues " << queues << ", rows " << rows << ": " << peak
                          << " MB");
    CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
    return peak;
  }

  void wait_until_count(const std::string& condition,
                        const std::string& expected) {
    db.wait_until("select count(*) from gen_durable where " + condition,
                  expected);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(process_tests, process_fixture)

CAF_TEST(the rows of a killed process come back after their leases with one more
           attempt) {
  insert("Hang", "hang", 5);
  worker a{db, "a"};
  wait_until_count("status = 'executing' and locked_by like 'a/%'", "5");
  CAF_CHECK_EQUAL(a.end(SIGKILL), -1);
  worker b{db, "b"};
  db.wait_until("select count(*) from gen_durable_machines", "6");
  // Living leases are nobody else's.
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'executing' and locked_by like 'a/%'"),
                  "5");
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s'");
  wait_until_count("status = 'done'", "5");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where attempt = "
                            "1 and result ->> 'attempt' = '1'"),
                  "5");
  CAF_CHECK_EQUAL(b.end(SIGTERM), 0);
}

CAF_TEST(two processes share the work and run no row twice while leases live) {
  worker a{db, "a"};
  worker b{db, "b"};
  int rows = 0;
  // One may be done with a portion before the other is there.
  while (a.lines().empty() || b.lines().empty() || rows < 4'000) {
    CAF_REQUIRE_LESS(rows, 100'000);
    rows += 1'000;
    insert("Walk", "one", 1'000);
    wait_until_count("status = 'done'", std::to_string(rows));
  }
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
  CAF_CHECK_EQUAL(b.end(SIGTERM), 0);
  std::map<std::string, int> begun;
  for (const auto* one : {&a, &b}) {
    auto lines = one->lines();
    CAF_CHECK(!lines.empty());
    for (const auto& line : lines)
      ++begun[line];
  }
  CAF_CHECK_EQUAL(begun.size(), 3u * static_cast<std::size_t>(rows));
  int twice = 0;
  for (const auto& [line, count] : begun)
    twice += count > 1;
  CAF_CHECK_EQUAL(twice, 0);
}

CAF_TEST(a process that is killed costs the others no lease and no outcome) {
  constexpr int n = 3'000;
  insert("Doze", "doze", n);
  worker a{db, "a", "", "narrow"};
  worker b{db, "b", "", "narrow"};
  db.wait_until("select count(distinct split_part(locked_by, '/', 1)) from "
                "gen_durable",
                "2");
  db.wait_until("select count(*) >= 500 from gen_durable where status = 'done'",
                "t");
  CAF_CHECK_EQUAL(a.end(SIGKILL), -1);
  // No living lease ends by itself, however long this takes: only its own do.
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
          "where locked_by like 'a/%'");
  wait_until_count("status = 'done'", std::to_string(n));
  CAF_CHECK_EQUAL(b.end(SIGTERM), 0);
  std::map<std::string, int> said;
  for (const auto& line : b.lines())
    ++said[line.substr(0, line.find(' '))];
  CAF_CHECK_GREATER(said["begin"], 0);
  CAF_CHECK_EQUAL(said["lost"], 0);
  CAF_CHECK_EQUAL(said["stale"], 0);
  // What the killed one had, and nothing of the other's.
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where attempt > "
                            "1"),
                  "0");
}

CAF_TEST(a process that is frozen keeps no partition key for longer than its
           lease) {
  db.rows("insert into gen_durable (fsm, step, partition_key) values "
          "('Hang', 'hang', 'account 7')");
  // As users name their connections.
  worker a{db, "a", " application_name=payments"};
  wait_until_count("status = 'executing'", "1");
  a.send(SIGSTOP);
  worker b{db, "b"};
  db.wait_until("select count(*) from gen_durable_nodes where node = 'b'", "1");
  // Silent for as long as a lease takes; until then nobody touches it.
  CAF_CHECK_EQUAL(db.scalar(count_locks), "1");
  db.rows("update gen_durable_nodes set seen_at = seen_at - lease - interval "
          "'1 s' where node = 'a'; "
          "update gen_durable set lease_expires_at = now() - interval '1 s'");
  wait_until_count("status = 'done' and attempt = 1", "1");
  db.wait_until(count_locks, "0");
  // Woken, it connects again, and is known again.
  a.send(SIGCONT);
  db.wait_until("select count(*) from gen_durable_nodes n cross join lateral "
                "jsonb_to_recordset(n.sessions) s (process int, began "
                "timestamptz) join pg_stat_activity a on a.pid = s.process and "
                "a.backend_start = s.began where n.node = 'a' and n.seen_at + "
                "n.lease > now()",
                "4");
}

CAF_TEST(what is stopped under a frozen process keeps its partition key for no
           longer than a lease) {
  auto id = db.scalar(
    "insert into gen_durable (fsm, step, partition_key) values"
    " ('Hang', 'hang', 'account 7') returning id");
  worker a{db, "a"};
  wait_until_count("status = 'executing'", "1");
  a.send(SIGSTOP);
  db.rows("select gd_stop($1)", {id});
  // No row tells of the key any more: the next one of it waits for the sessions.
  db.rows("insert into gen_durable (fsm, step, partition_key, attempt) values"
          " ('Hang', 'hang', 'account 7', 1)");
  worker b{db, "b"};
  db.wait_until("select count(*) from gen_durable_nodes where node = 'b'", "1");
  CAF_CHECK_EQUAL(db.scalar(count_locks), "1");
  db.rows("update gen_durable_nodes set seen_at = seen_at - lease - interval "
          "'1 s' where node = 'a'");
  wait_until_count("status = 'done'", "1");
  CAF_CHECK_EQUAL(
    db.scalar("select status from gen_durable where id = $1", {id}), "failed");
  a.send(SIGCONT);
}

CAF_TEST(a node is known for as long as it runs) {
  {
    worker a{db, "a"};
    db.wait_until("select count(*) from gen_durable_nodes where node = 'a' and "
                  "jsonb_array_length(sessions) = 4",
                  "1");
    CAF_CHECK_EQUAL(
      db.scalar("select slots || ' ' || (queues -> 0 ->> 'name') || ' ' || "
                "(machines -> 1 -> 'steps' ->> 2) || ' ' || lease || ' ' || "
                "(process > 0 and host <> '' and library <> '')::text from "
                "gen_durable_nodes"),
      "10 default three 00:01:00 true");
    CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_nodes"), "0");
}

CAF_TEST(long states and full inboxes do not fill the memory of a process) {
  // 300 MB of states, and 120 MB of signals, that are short on the disk.
  db.rows("insert into gen_durable (fsm, step, state) select 'Walk', 'one', "
          "jsonb_build_object('text', repeat('x', 1000000)) from "
          "generate_series(1, 300)");
  db.rows("insert into gen_durable_signals (target_id, name, payload) select "
          "id, 'say', "
          "to_jsonb(repeat('y', 1000000)) from gen_durable, "
          "generate_series(1, 40) where id <= 3");
  worker a{db, "a"};
  wait_until_count("status = 'done'", "300");
  CAF_CHECK_LESS(a.peak(), most_memory);
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
}

CAF_TEST(the memory of a process is bounded however many queues it has) {
  // 3,000 from GD_MEMORY_ROWS.
  const auto* more = std::getenv("GD_MEMORY_ROWS");
  auto rows = more != nullptr ? std::stoi(more) : 300;
  for (auto queues : {10, 4, 1})
    if (queues == 10 || more != nullptr)
      CAF_CHECK_LESS(most_memory_for(queues, rows), most_memory);
}

CAF_TEST(short states and payloads that print many digits do not fill the memory
           of a process) {
  auto many = [](const char* number, int count) {
    return "(select jsonb_build_object('n', jsonb_agg('"s + number
           + "'::numeric)) from generate_series(1, " + std::to_string(count)
           + "))";
  };
  // Eighty print 4 MB each, as nobody can store them any more; all others 48 KB, in
  // states and signals.
  db.rows(
    "set gd.trusted = 'json'; insert into gen_durable (fsm, step, "
    "state) select 'Walk', 'one', case when n <= 80 then "
    + many("1e131071", 30) + " else " + many("1e399", 120)
    + " end from generate_series(1, 1000) n; insert into gen_durable_signals "
      "(target_id, name, payload) select id, 'say', "
    + many("1e399", 120) + " from gen_durable where id > 80");
  worker a{db, "a"};
  wait_until_count("status in ('done', 'failed')", "1000");
  CAF_CHECK_LESS(a.peak(), most_memory);
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
}

CAF_TEST(what is upgraded through two versions under load and kills is converted
           once by each) {
  // 100,000 from GD_UPGRADE_ROWS.
  const auto* more = std::getenv("GD_UPGRADE_ROWS");
  auto rows = more != nullptr ? more : "2000"s;
  const auto* told = std::getenv("GD_UPGRADE_SEED");
  auto seed = told != nullptr ? static_cast<unsigned>(std::stoul(told)) : 1u;
  db.rows("insert into gen_durable (fsm, step) select 'Walks', 'walk' from"
          " generate_series(1, $1::int)",
          {rows});
  auto began = std::chrono::steady_clock::now();
  supervisor workers{db, 3, "walks"};
  workers.run_until("select count(*) = 2 from gen_durable_machines where"
                    " version in (1, 3) and served",
                    "t");
  workers.kill_at_random(seed, more != nullptr ? 1'500ms : 300ms);
  int jobs = 0;
  auto upgrade = [&](const std::string& from, const std::string& to) {
    ++jobs;
    return db.scalar("select gd_begin_job('upgrade', fsm => 'Walks', version =>"
                     " $1::int, to_version => $2::int)",
                     {from, to});
  };
  auto end_of = [&](const std::string& job) {
    workers.run_until("select ended_at is not null from gen_durable_jobs where"
                      " id = "
                        + job,
                      "t");
  };
  // Half of them by version 2, and the rest from conversion to conversion; what executes
  // is passed over.
  do {
    end_of(upgrade("1", "2"));
    auto second = upgrade("2", "3");
    auto third = upgrade("1", "3");
    end_of(second);
    end_of(third);
  } while (db.scalar("select exists (select from gen_durable where fsm_version"
                     " < 3)")
           == "t");
  workers.run_until("select not exists (select from gen_durable where status <>"
                    " 'awaiting_signal')",
                    "t");
  db.rows("select gd_signal(id, 'end') from gen_durable");
  workers.run_until("select not exists (select from gen_durable where status <>"
                    " 'done')",
                    "t");
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  CAF_MESSAGE(rows << " rows, seed " << seed << ": " << jobs << " jobs, "
                   << workers.kills() << " kills, " << took.count() << " s");
  CAF_CHECK_GREATER(workers.kills(), 0);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), rows);
  wait_until_count(
    "fsm_version = 3 and result @> '{\"left\": 0, \"moved\": 2}'", rows);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from _gd_check()"), "0");
}

CAF_TEST(a process that is stopped under load releases all rows) {
  insert("Walk", "one", 2'000);
  worker a{db, "a"};
  db.wait_until("select count(*) > 100 from gen_durable where status = 'done'",
                "t");
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'executing' or attempt > 0"),
                  "0");
}

CAF_TEST(a process whose terminal goes ends as after SIGTERM) {
  insert("Walk", "one", 2'000);
  worker a{db, "a"};
  db.wait_until("select count(*) > 100 from gen_durable where status = 'done'",
                "t");
  CAF_CHECK_EQUAL(a.end(SIGHUP), 0);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'executing' or attempt > 0"),
                  "0");
}

CAF_TEST(a process that was started by nohup goes on without its terminal) {
  std::signal(SIGHUP, SIG_IGN); // is inherited
  worker a{db, "a"};
  std::signal(SIGHUP, SIG_DFL);
  db.wait_until("select count(*) from gen_durable_machines", "6");
  a.send(SIGHUP);
  insert("Walk", "one", 10);
  wait_until_count("status = 'done'", "10");
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
}

CAF_TEST(a second signal ends a process at once and its rows come back) {
  insert("Hang", "hang", 3);
  worker a{db, "a"};
  wait_until_count("status = 'executing'", "3");
  insert("Walk", "one", 1);
  wait_until_count("status = 'done'", "1");
  a.send(SIGTERM); // it waits for its steps
  a.wait_until_default(SIGTERM);
  CAF_CHECK_EQUAL(a.end(SIGTERM), -1);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'executing'"),
                  "3");
  worker b{db, "b"};
  db.rows("update gen_durable set lease_expires_at = now() - interval '1 s' "
          "where status = 'executing'");
  wait_until_count("status = 'done'", "4");
  CAF_CHECK_EQUAL(b.end(SIGTERM), 0);
}

CAF_TEST(
  a server whose clock steps ahead loses nothing and enters nothing twice) {
  auto offset
    = std::filesystem::path{std::getenv("GD_TEST_POSTGRES_DATA")}.parent_path()
      / "clock";
  auto set_clock = [&](const std::string& to) {
    std::ofstream{offset} << to << '\n';
    std::filesystem::permissions(offset, std::filesystem::perms{0644});
  };
  const std::map<std::string, std::string> faked{
    {"LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1"},
    {"FAKETIME_TIMESTAMP_FILE", offset},
    {"FAKETIME_CACHE_DURATION", "1"},
    {"DONT_FAKE_MONOTONIC", "1"}};
  set_clock("+0");
  for (const auto& [name, value] : faked)
    setenv(name.c_str(), value.c_str(), 1);
  auto own = server::make();
  for (const auto& [name, value] : faked)
    unsetenv(name.c_str());
  CAF_REQUIRE(gd::migrate_up({.database = own.conninfo()}));
  session by{own.conninfo()};
  auto wait_until = [&by](const std::string& condition) {
    auto until = std::chrono::steady_clock::now() + patience;
    while (by.scalar("select " + condition) != "t")
      CAF_REQUIRE(std::chrono::steady_clock::now() < until);
  };
  by.exec("insert into gen_durable (fsm, step) select 'Count', 'more' from "
          "generate_series(1, 300)");
  process a{{GD_TEST_WORKER, own.conninfo(), "a", "brief"}};
  process b{{GD_TEST_WORKER, own.conninfo(), "b", "brief"}};
  wait_until("sum(seq) > 500 from gen_durable");
  auto before = by.scalar("select now()");
  set_clock("+2h");
  wait_until("clock_timestamp() > timestamptz '" + before
             + "' + interval '1 h'");
  wait_until("bool_and(status = 'done') from gen_durable");
  // Each outcome counts once: of a lease that seemed over, the next one's.
  CAF_CHECK_EQUAL(by.scalar("select count(*) from gen_durable where (result ->>"
                            " 'n')::int = 20 and seq >= 20 and crashes = 0"),
                  "300");
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
  CAF_CHECK_EQUAL(b.end(SIGTERM), 0);
}

// -- rows that end their process ----------------------------------------------

namespace {

constexpr auto unfinished
  = "select count(*) from gen_durable where status not in ('done', 'failed')";

/// Of each machine how many are done and failed, and the most failures that a
/// handler has seen.
constexpr auto what_became
  = "select string_agg(format('%s %s %s', fsm, status, count), ', ' order by "
    "fsm) || ', ' || (select coalesce(max((result ->> 'attempt')::int), 0) "
    "from "
    "gen_durable) from (select fsm, status, count(*) from gen_durable group by "
    "fsm, status) x";

/// Negative: before it.
constexpr auto behind_the_verdict
  = "select round(extract(epoch from max(updated_at) filter (where fsm = "
    "'Doze') - max(updated_at) filter (where fsm = 'Kill')), 1) from "
    "gen_durable";

} // namespace

CAF_TEST(one killer among three thousand rows is failed and nobody else
           and nobody waits for a poll) {
  insert("Doze", "doze", 1'500);
  insert("Kill", "kill", 1);
  insert("Doze", "doze", 1'499);
  supervisor all{db, 1, "unpolled"};
  all.run_until(unfinished, "0");
  CAF_CHECK_EQUAL(db.scalar(what_became), "Doze done 2999, Kill failed 1, 0");
  CAF_MESSAGE("the process has ended " << all.starts()
                                       << " times, the last "
                                          "row was done so many seconds behind "
                                          "the verdict: "
                                       << db.scalar(behind_the_verdict));
  CAF_CHECK_LESS_OR_EQUAL(all.starts(), 12);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where last_error "
                            "like 'step kill has taken its process%'"),
                  "1");
}

CAF_TEST(three killers are failed by two nodes and nobody else) {
  for (int i = 0; i < 3; ++i) {
    insert("Kill", "kill", 1);
    insert("Doze", "doze", 999);
  }
  supervisor all{db, 2};
  all.run_until(unfinished, "0");
  CAF_CHECK_EQUAL(db.scalar(what_became), "Doze done 2997, Kill failed 3, 0");
  CAF_MESSAGE("processes have ended " << all.starts() << " times");
  CAF_CHECK_LESS_OR_EQUAL(all.starts(), 36);
}

CAF_TEST(nobody is failed when healthy nodes are killed or the power fails) {
  insert("Doze", "doze", 6'000);
  supervisor all{db, 2};
  auto done = [](int count) {
    return "select count(*) >= " + std::to_string(count)
           + " from gen_durable where status = 'done'";
  };
  for (int i = 0; i < 4; ++i) {
    all.run_until(done(500 * (i + 1)), "t");
    all.kill_one(static_cast<std::size_t>(i % 2));
  }
  for (int i = 0; i < 2; ++i) {
    all.run_until("select count(*) > 0 from gen_durable where status = "
                  "'executing'",
                  "t");
    all.kill_all();
  }
  all.run_until("select count(*) > 0 from gen_durable where crashes > 0", "t");
  auto since = std::chrono::steady_clock::now();
  all.run_until(unfinished, "0");
  CAF_CHECK_EQUAL(db.scalar(what_became), "Doze done 6000, 0");
  // As long as the rows take, and seconds.
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
  CAF_MESSAGE("all were done " << took.count() << " s later");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace process_suite
