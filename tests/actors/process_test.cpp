#define CAF_SUITE process

#include "support/database.hpp"

#include <caf/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace gd::test;

namespace {

/// A process of tests/worker.
class worker {
public:
  worker(const temporary_database& db, const std::string& node)
    : out_(std::tmpfile()) {
    pid_ = fork();
    if (pid_ == 0) {
      dup2(fileno(out_), STDOUT_FILENO);
      execl(GD_TEST_WORKER, GD_TEST_WORKER, db.conninfo().c_str(), node.c_str(),
            static_cast<char*>(nullptr));
      _exit(127);
    }
  }

  ~worker() {
    if (pid_ > 0)
      end(SIGKILL);
    std::fclose(out_);
  }

  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  /// Sends a signal, waits for the end, and returns the exit code; -1: killed.
  int end(int signal) {
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// Each line that it has printed.
  std::vector<std::string> lines() const {
    // Opened again: the process writes where the other one stands.
    std::ifstream in{"/proc/self/fd/" + std::to_string(fileno(out_))};
    std::vector<std::string> xs;
    for (std::string line; std::getline(in, line);)
      xs.push_back(line);
    return xs;
  }

private:
  pid_t pid_ = -1;
  std::FILE* out_;
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
  db.wait_until("select count(*) from gen_durable_machines", "2");
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

CAF_TEST(a process that is stopped under load gives everything back) {
  insert("Walk", "one", 2'000);
  worker a{db, "a"};
  db.wait_until("select count(*) > 100 from gen_durable where status = 'done'",
                "t");
  CAF_CHECK_EQUAL(a.end(SIGTERM), 0);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable where status = "
                            "'executing' or attempt > 0"),
                  "0");
}

CAF_TEST_FIXTURE_SCOPE_END()
