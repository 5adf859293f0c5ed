// What operators see and do with gdctl: lines for people, JSON for programs, exit codes.

#define CAF_SUITE gdctl_operate

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

using namespace std::literals;

using gd::test::temporary_database;

namespace {

struct ended {
  int code = 0;
  std::string said; ///< to both streams
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct fixture {
  std::string server = std::getenv("GD_DATABASE");
  temporary_database db;

  fixture() {
    db.migrate();
    setenv("GD_DATABASE", db.conninfo().c_str(), 1);
    db.rows("insert into gen_durable (fsm, step, status, last_error, queue)"
            " select 'Order', 'pay', case when n % 2 = 0 then 'failed' else"
            " 'runnable' end::durable_status, case when n % 2 = 0 then"
            " 'no stock' end, 'mail' from generate_series(1, 10) n");
  }

  ~fixture() {
    setenv("GD_DATABASE", server.c_str(), 1);
  }

  ended run(const std::string& arguments) {
    auto* out = popen((GD_GDCTL " " + arguments + " 2>&1").c_str(), "r");
    if (out == nullptr)
      throw std::runtime_error{"no process"};
    ended x;
    std::array<char, 4'096> some;
    while (auto n = fread(some.data(), 1, some.size(), out))
      x.said.append(some.data(), n);
    auto status = pclose(out);
    x.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    CAF_MESSAGE(arguments << ": " << x.code << "\n" << x.said);
    return x;
  }

  std::string count(const std::string& condition) {
    return db.scalar("select count(*) from gen_durable where " + condition);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(gdctl_operate_tests, fixture)

CAF_TEST(every command of operators explains itself) {
  for (const auto* name : {"why", "list", "queues", "jobs", "retry", "stop",
                           "run-now", "move", "pause", "resume"}) {
    auto x = run(name + " --help"s);
    CAF_CHECK_EQUAL(x.code, 0);
    CAF_CHECK(contains(x.said, "Example"));
    CAF_CHECK(contains(x.said, "Exit codes:"));
  }
}

CAF_TEST(why says what to do in a line and as JSON) {
  auto x = run("why 2");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "failed at step pay"));
  CAF_CHECK(contains(x.said, "gdctl retry 2"));
  CAF_CHECK(contains(x.said, "last error: no stock\n"));
  CAF_CHECK(contains(run("why 1 --json").said, "\"cause\":\"no_node\""));
  CAF_CHECK_EQUAL(run("why 77").code, 5);
  CAF_CHECK_EQUAL(run("why").code, 2);
}

CAF_TEST(one instance is tried again and stopped and moved) {
  auto x = run("retry 2 --reason 'the stock is back' --by ann");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "\"id\":2,\"seq\":1,\"status\":\"runnable\""));
  x = run("retry 2");
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK(contains(x.said, "expected failed, got runnable"));
  CAF_CHECK_EQUAL(run("stop 2 --reason poison").code, 0);
  CAF_CHECK_EQUAL(count("id = 2 and last_error = 'poison'"), "1");
  CAF_CHECK_EQUAL(run("move 1 --to slow --priority -3").code, 0);
  CAF_CHECK_EQUAL(count("queue = 'slow' and priority = -3"), "1");
  CAF_CHECK_EQUAL(run("move 1").code, 2);
  CAF_CHECK_EQUAL(run("run-now 1").code, 0);
  CAF_CHECK_EQUAL(run("retry").code, 2);
  CAF_CHECK_EQUAL(run("retry 2 --machine Order").code, 2);
  CAF_CHECK_EQUAL(run("retry 2 --dry-run").code, 2);
}

CAF_TEST(many instances are counted and then tried again) {
  auto x = run("retry --machine Order --failure 'no stock' --dry-run");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK_EQUAL(x.said,
                  "{\"job\":1,\"looked_at\":5,\"fit\":5,\"refused\":0}\n");
  CAF_CHECK_EQUAL(count("status = 'failed'"), "5");
  x = run("retry --machine Order --failure 'no stock'");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK_EQUAL(x.said,
                  "{\"job\":2,\"looked_at\":5,\"changed\":5,\"refused\":0}\n");
  CAF_CHECK_EQUAL(count("status = 'failed'"), "0");
  CAF_CHECK_EQUAL(run("retry --machine Order --status done").code, 2);
}

CAF_TEST(a job is left to others and gone on with and cancelled) {
  CAF_CHECK_EQUAL(run("stop --queue mail --detach").said, "{\"job\":1}\n");
  CAF_CHECK(contains(run("jobs").said, "waits"));
  CAF_CHECK(contains(run("jobs run 1").said, "\"changed\":5"));
  CAF_CHECK(contains(run("jobs --json").said, "\"what\":\"stop\""));
  CAF_CHECK_EQUAL(run("stop --queue mail --detach").code, 0);
  CAF_CHECK(contains(run("jobs cancel 2").said, "\"cancelled\":true"));
  CAF_CHECK(contains(run("jobs").said, "cancelled"));
  CAF_CHECK_EQUAL(run("jobs run 77").code, 5);
}

CAF_TEST(instances are listed by a filter the newest first) {
  auto x = run("list --status failed --limit 2");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "10  Order v1"));
  CAF_CHECK(contains(x.said, "no stock"));
  CAF_CHECK(contains(x.said, "--before 8"));
  CAF_CHECK(!contains(run("list --older 1h").said, "Order"));
  CAF_CHECK(contains(run("list --queue mail --json").said, "\"id\":10"));
  CAF_CHECK_EQUAL(run("list --older soon").code, 2);
  CAF_CHECK_EQUAL(run("list --limit 0").code, 2);
}

CAF_TEST(a queue is paused and resumed and listed) {
  CAF_CHECK_EQUAL(run("pause mail --reason 'the relay is down' --by ann").code,
                  0);
  CAF_CHECK(contains(run("queues").said, "by ann: the relay is down"));
  CAF_CHECK(contains(run("queues --json").said, "\"due\":5"));
  CAF_CHECK(contains(run("resume mail").said, "goes on"));
  CAF_CHECK(contains(run("resume mail").said, "was not paused"));
  CAF_CHECK(contains(run("queues").said, "no"));
}

CAF_TEST_FIXTURE_SCOPE_END()
