// gdctl that has no database: what it asks a gateway is answered as by the database.

#define CAF_SUITE gdctl_gateway

#include "actors/published_node.hpp"
#include "support/words.hpp"

#include <caf/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

namespace gdctl_gateway_suite {

using namespace gd::test;

namespace {

struct ended {
  int code = 0;
  std::string text;
};

/// A gdctl and what it says, by a shell.
class running {
public:
  explicit running(const std::string& args)
    : out_(popen((std::string{GD_GDCTL} + ' ' + args + " 2>&1").c_str(), "r")) {
    if (out_ == nullptr)
      throw std::runtime_error("no shell");
  }

  ended end() {
    std::string text;
    std::array<char, 4'096> some;
    for (std::size_t n = 0;
         (n = std::fread(some.data(), 1, some.size(), out_)) > 0;)
      text.append(some.data(), n);
    auto status = pclose(out_);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
  }

private:
  std::FILE* out_;
};

struct fixture {
  temporary_database db;

  fixture() {
    std::signal(SIGPIPE, SIG_IGN);
    db.migrate();
  }

  /// By a gateway. Where the machine is slow, not everybody is connected within gdctl's
  /// five seconds: then nothing has been sent.
  static ended ask(const published_node& node, const std::string& args) {
    auto give_up = std::chrono::steady_clock::now() + patience;
    for (;;) {
      auto end = running{"--gateway " + node.address() + ' ' + args}.end();
      if (end.code != 3 || !contains(end.text, "has not answered within")
          || std::chrono::steady_clock::now() > give_up)
        return end;
    }
  }

  /// By the database.
  ended ask_database(const std::string& args) const {
    return running{"--database '" + db.conninfo() + "' " + args}.end();
  }

  void same(const published_node& node, const std::string& args) const {
    auto here = ask_database(args);
    auto there = ask(node, args);
    CAF_CHECK_EQUAL(there.code, here.code);
    CAF_CHECK_EQUAL(there.text, here.text);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(gdctl_gateway_tests, fixture)

CAF_TEST(a gateway answers gdctl as the database does) {
  published_node node{db, "a"};
  auto made = ask(node, "insert Payment --unique-key 'pay/1'");
  CAF_CHECK_EQUAL(made.text, "{\"id\":1}\n");
  CAF_CHECK_EQUAL(made.code, 0);
  same(node, "insert Payment --unique-key 'pay/1'");
  CAF_CHECK(contains(ask(node, "signal --key pay/1 hello --dedup d").text,
                     "{\"key\":\"pay/1\",\"answer\":\"accepted\"}\n"));
  same(node, "signal 1 hello --dedup d");
  same(node, "signal 99 hello");
  same(node, "signal 1 ''");
  CAF_CHECK(contains(ask(node, "transition 1 cancelled --seq 0 --by me").text,
                     "{\"target\":1,\"seq\":1,\"status\":\"done\"}"));
  same(node, "transition 1 submitted");
  same(node, "show 1");
  same(node, "show 1 --json");
  same(node, "wait 1");
  same(node, "wait 1 --json");
  same(node, "wait --key pay/1");
  same(node, "wait 99");
  same(node, "why 1");
  same(node, "why --key pay/1 --json");
  same(node, "why 99");
  same(node, "history 1 --json");
  same(node, "history --key pay/1");
  same(node, "stats --json");
}

CAF_TEST(lines go through a gateway though its node is replaced meanwhile) {
  std::optional<published_node> first{std::in_place, db, "a"};
  published_node second{db, "b"};
  auto where = "--gateway " + first->address() + " --gateway "
               + second.address();
  std::string lines;
  for (int i = 0; i < 3'000; ++i)
    lines += "{\"unique_key\": \"k/" + std::to_string(i)
             + "\", \"unique_scope\": [\"runnable\", \"executing\", "
               "\"awaiting_signal\", \"done\", \"failed\"]}\n";
  std::string name = "/tmp/gd_test_XXXXXX";
  auto fd = mkstemp(name.data());
  CAF_REQUIRE(write(fd, lines.data(), lines.size())
              == static_cast<ssize_t>(lines.size()));
  auto send = [&] {
    return running{"insert Payment --file " + name + ' ' + where};
  };
  auto job = send();
  db.wait_until("select count(*) > 0 from gen_durable", "t");
  first->end(SIGKILL);
  auto end = job.end();
  // A line waits for a gateway for seconds, and a machine may be slower than that:
  // then the job ends, says where, and is sent again.
  auto give_up = std::chrono::steady_clock::now() + patience;
  while (end.code == 3 && std::chrono::steady_clock::now() < give_up) {
    CAF_MESSAGE(end.text.substr(end.text.rfind("gdctl: ")));
    CAF_CHECK(contains(end.text, "; stopped after line "));
    end = send().end();
  }
  close(fd);
  unlink(name.c_str());
  CAF_CHECK_EQUAL(end.code, 0);
  CAF_CHECK(!contains(end.text, "\"error\""));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable"), "3000");
}

CAF_TEST(what a gateway does not do is told in a sentence) {
  published_node node{db, "a"};
  for (const auto* command : {"machines",
                              "machines retire Payment 1",
                              "nodes",
                              "graph Payment",
                              "rewind 1 0",
                              "fork 1 0",
                              "migrate status",
                              "migrate up",
                              "migrate down --to 0",
                              "list",
                              "queues",
                              "jobs",
                              "jobs run 1",
                              "top",
                              "retry 1",
                              "stop --machine Payment",
                              "run-now 1",
                              "move 1 --to mail",
                              "upgrade 1 --to-version 2",
                              "pause mail",
                              "resume mail",
                              "prune --older-than 1d"}) {
    auto said = ask(node, command);
    CAF_CHECK_EQUAL(said.code, 2);
    CAF_CHECK_EQUAL(said.text, "gdctl: --gateway: this command needs the "
                               "database itself, which no gateway hands on: "
                               "expected --database\n");
  }
  auto address = node.address();
  node.end(SIGKILL);
  auto nobody = running{"--gateway " + address + " show 1"}.end();
  CAF_CHECK_EQUAL(nobody.code, 3);
  CAF_CHECK_EQUAL(nobody.text, "gdctl: nobody listens at " + address + "\n");
  auto wrong = running{"--gateway here show 1"}.end();
  CAF_CHECK_EQUAL(wrong.code, 2);
  CAF_CHECK_EQUAL(wrong.text, "gdctl: reach: expected unix:<path> or "
                              "<address>:<port>, got \"here\"\n");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace gdctl_gateway_suite
