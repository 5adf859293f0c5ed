// gdctl as its users meet it: a process with arguments, streams and an exit
// code.

#define CAF_SUITE gdctl

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/json.hpp>
#include <gd/migrate.hpp>
#include <gd/state.hpp>

#include <caf/test/dsl.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::literals;

using gd::test::contains;
using gd::test::patience;
using gd::test::session;
using gd::test::temporary_database;

namespace printed {

struct answer_line {
  std::optional<std::string> ref;
  std::int64_t line = 0;
  std::int64_t id = 0;
  std::int64_t target = 0;
  std::string answer;
  std::string error;
  std::string code;

  GD_STATE(answer_line, ref, line, id, target, answer, error, code);
};

} // namespace printed

namespace gdctl_suite {

namespace {

/// A running gdctl with pipes for its streams, its stdout perhaps a file,
/// or, without a name, closed.
class process {
public:
  process(std::vector<std::string> args,
          const std::map<std::string, std::string>& env,
          const char* into = nullptr) {
    std::array<std::array<int, 2>, 3> pipes{};
    for (auto& x : pipes)
      if (pipe2(x.data(), O_CLOEXEC) != 0)
        throw std::runtime_error{"no pipe"};
    std::vector<char*> argv{const_cast<char*>(GD_GDCTL)};
    for (auto& x : args)
      argv.push_back(x.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL); // if the test is aborted
      dup2(pipes[0][0], STDIN_FILENO);
      if (into == nullptr)
        dup2(pipes[1][1], STDOUT_FILENO);
      else if (*into != '\0')
        dup2(open(into, O_WRONLY), STDOUT_FILENO);
      else
        close(STDOUT_FILENO);
      dup2(pipes[2][1], STDERR_FILENO);
      unsetenv("GD_DATABASE");
      for (const auto& [name, value] : env)
        setenv(name.c_str(), value.c_str(), 1);
      execv(GD_GDCTL, argv.data());
      _exit(127);
    }
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    in_ = pipes[0][1];
    out_ = pipes[1][0];
    err_ = pipes[2][0];
  }

  ~process() {
    close_input();
    close_output();
    close_complaints();
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// Writes to its stdin, reading meanwhile what it says.
  void type(std::string_view text) {
    fcntl(in_, F_SETFL, O_NONBLOCK);
    auto give_up = std::chrono::steady_clock::now() + patience;
    while (!text.empty()) {
      auto n = write(in_, text.data(), text.size());
      if (n > 0)
        text.remove_prefix(static_cast<std::size_t>(n));
      else if (errno == EAGAIN)
        listen(give_up, POLLOUT);
      else
        throw std::runtime_error{"gdctl reads no more"};
    }
  }

  void close_input() {
    if (in_ >= 0)
      close(std::exchange(in_, -1));
  }

  void close_output() {
    if (out_ >= 0)
      close(std::exchange(out_, -1));
  }

  void close_complaints() {
    if (err_ >= 0)
      close(std::exchange(err_, -1));
  }

  /// The next line of its stdout.
  std::string answer() {
    auto give_up = std::chrono::steady_clock::now() + patience;
    for (;;) {
      auto end = said_.find('\n', read_);
      if (end != std::string::npos)
        return said_.substr(std::exchange(read_, end + 1), end - read_ + 1);
      if (!listen(give_up))
        throw std::runtime_error{"gdctl has ended: " + complained_};
    }
  }

  void interrupt() {
    kill(pid_, SIGINT);
  }

  /// Interrupts until it hears a second time: two that come together may
  /// count as one.
  void insist() {
    auto give_up = std::chrono::steady_clock::now() + patience;
    siginfo_t end{};
    while (end.si_pid == 0 && std::chrono::steady_clock::now() < give_up) {
      interrupt();
      pollfd closed{out_, 0, 0};
      poll(&closed, 1, 5);
      waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT);
    }
  }

  /// Waits for its end; a signal's number is negative.
  int wait() {
    auto give_up = std::chrono::steady_clock::now() + patience;
    while (listen(give_up))
      ;
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  const std::string& said() const {
    return said_;
  }

  const std::string& complained() const {
    return complained_;
  }

private:
  /// Reads what there is; false when there will be no more.
  bool listen(std::chrono::steady_clock::time_point give_up,
              short input_events = 0) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(
      give_up - std::chrono::steady_clock::now());
    std::array<pollfd, 3> fds{{{out_, POLLIN, 0},
                               {err_, POLLIN, 0},
                               {input_events ? in_ : -1, input_events, 0}}};
    if (left.count() <= 0
        || poll(fds.data(), 3, static_cast<int>(left.count())) == 0)
      throw std::runtime_error{"gdctl takes too long: " + complained_};
    bool more = fds[2].revents != 0;
    auto take = [&more](const pollfd& from, std::string& to) {
      std::array<char, 65'536> buffer;
      if (from.revents == 0) {
        more = more || from.fd >= 0;
      } else if (auto n = read(from.fd, buffer.data(), buffer.size()); n > 0) {
        to.append(buffer.data(), static_cast<std::size_t>(n));
        more = true;
      }
    };
    take(fds[0], said_);
    take(fds[1], complained_);
    return more;
  }

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string said_;
  std::string complained_;
  std::size_t read_ = 0;
};

struct ended {
  int code = 0;
  std::string out;
  std::string err;
};

/// A file of a test's own, gone with this object.
struct temporary_file {
  explicit temporary_file(const std::string& text) {
    auto fd = mkstemp(name.data());
    if (fd < 0 || write(fd, text.data(), text.size()) != std::ssize(text))
      throw std::runtime_error{"no temporary file"};
    close(fd);
  }

  ~temporary_file() {
    unlink(name.c_str());
  }

  std::string name = "/tmp/gd_test_XXXXXX";
};

std::vector<printed::answer_line> lines_of(const std::string& text) {
  std::vector<printed::answer_line> xs;
  for (std::size_t begin = 0; begin < text.size();) {
    auto end = text.find('\n', begin);
    auto x = gd::from_json_strict<printed::answer_line>(
      text.substr(begin, end - begin));
    if (!x)
      CAF_FAIL(x.error().message << " in " << text);
    xs.push_back(*x);
    begin = end + 1;
  }
  return xs;
}

printed::answer_line line_of(const std::string& text) {
  return lines_of(text).at(0);
}

/// A database without a schema.
struct fixture {
  fixture() {
    // A gdctl that has ended must not end the tests.
    signal(SIGPIPE, SIG_IGN);
  }

  using arguments = std::vector<std::string>;

  std::map<std::string, std::string> env() {
    return {{"GD_DATABASE", db.conninfo()}};
  }

  ended run(arguments args, const std::string& input = {}) {
    return run_with(env(), std::move(args), input);
  }

  ended run_with(const std::map<std::string, std::string>& vars, arguments args,
                 const std::string& input = {}, const char* into = nullptr) {
    process gdctl{std::move(args), vars, into};
    gdctl.type(input);
    gdctl.close_input();
    auto code = gdctl.wait();
    return {code, gdctl.said(), gdctl.complained()};
  }

  std::string count() {
    return db.scalar("select count(*) from gen_durable");
  }

  temporary_database db;
};

/// A database with a schema and one known machine.
struct ready_fixture : fixture {
  ready_fixture() {
    db.migrate();
    db.rows("insert into gen_durable_machines values"
            " ('Order', 1, 'start', 'fast', '{start,ship}')");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(migrations, fixture)

CAF_TEST(migrations go up and down and tell where they are) {
  auto status = run({"migrate", "status"});
  CAF_CHECK_EQUAL(status.code, 4);
  CAF_CHECK(contains(status.out, "nothing installed"));
  auto up = run({"migrate", "up"});
  CAF_CHECK_EQUAL(up.code, 0);
  auto newest = std::to_string(gd::newest_schema());
  CAF_CHECK(contains(up.out, "schema public: " + newest + " migration"));
  CAF_CHECK(contains(up.out, "; version " + newest));
  CAF_CHECK(contains(run({"migrate", "up"}).out, "0 migrations"));
  CAF_CHECK_EQUAL(run({"migrate", "status"}).code, 0);
  CAF_CHECK_EQUAL(run({"migrate", "down"}).code, 2);
  CAF_CHECK_EQUAL(run({"migrate", "down", "--to", newest}).code, 0);
  status = run({"migrate", "status"});
  CAF_CHECK_EQUAL(status.code, 0);
  CAF_CHECK(contains(status.out, "version " + newest
                                   + ", works with libraries from 1; this one "
                                     "knows "
                                   + newest));
  CAF_CHECK_EQUAL(run({"migrate", "down", "--to", "0"}).code, 0);
  CAF_CHECK_EQUAL(run({"migrate", "up", "--to", newest + "0"}).code, 2);
  CAF_CHECK_EQUAL(run({"migrate", "up", "--force"}).code, 0);
}

CAF_TEST(going back asks while there are instances) {
  CAF_REQUIRE_EQUAL(run({"migrate", "up"}).code, 0);
  db.rows("insert into gen_durable (fsm, step) values ('m', 's')");
  auto refused = run({"migrate", "down", "--to", "0"});
  CAF_CHECK_EQUAL(refused.code, 2);
  CAF_CHECK(contains(refused.err, "there are instances"));
  CAF_CHECK(contains(refused.err, "--with-instances"));
  CAF_CHECK_EQUAL(count(), "1");
  CAF_CHECK_EQUAL(
    run({"migrate", "down", "--to", "0", "--with-instances"}).code, 0);
  CAF_CHECK_EQUAL(run({"migrate", "status"}).code, 4);
}

CAF_TEST(the schema comes from an option or the environment) {
  auto vars = env();
  vars["GD_SCHEMA"] = "it's \"mine\"";
  CAF_CHECK_EQUAL(run_with(vars, {"migrate", "up"}).code, 0);
  CAF_CHECK_EQUAL(run({"stats", "--schema", "it's \"mine\""}).code, 0);
  CAF_CHECK_EQUAL(run({"--schema", "it's \"mine\"", "stats"}).code, 0);
  CAF_CHECK_EQUAL(run_with(vars, {"--schema", "other", "stats"}).code, 4);
  CAF_CHECK_EQUAL(run({"--schema", "", "stats"}).code, 2);
}

CAF_TEST(a missing schema is told with the way to get it) {
  for (const auto& args :
       {arguments{"stats"}, arguments{"show", "1"},
        arguments{"insert", "Order"}, arguments{"insert", "--file", "-"},
        arguments{"signal", "1", "paid"}, arguments{"rewind", "1", "0"},
        arguments{"fork", "1", "0"}}) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, 4);
    CAF_CHECK_EQUAL(x.out, "");
    CAF_CHECK(contains(x.err, "schema public"));
    CAF_CHECK(contains(x.err, "gdctl migrate up"));
  }
}

CAF_TEST(a table that is not ours is told) {
  db.rows("create table gen_durable ()");
  auto x = run({"migrate", "up"});
  CAF_CHECK_EQUAL(x.code, 4);
  CAF_CHECK(contains(x.err, "not ours"));
}

CAF_TEST_FIXTURE_SCOPE_END()

CAF_TEST_FIXTURE_SCOPE(commands, ready_fixture)

// -- usage --------------------------------------------------------------------

CAF_TEST(every command explains itself) {
  for (const auto& args : {arguments{"--help"},
                           arguments{"migrate", "--help"},
                           arguments{"migrate", "up", "--help"},
                           arguments{"migrate", "down", "--help"},
                           arguments{"machines", "--help"},
                           arguments{"machines", "pin", "--help"},
                           arguments{"machines", "retire", "--help"},
                           arguments{"nodes", "--help"},
                           arguments{"migrate", "status", "--help"},
                           arguments{"insert", "--help"},
                           arguments{"signal", "--help"},
                           arguments{"transition", "--help"},
                           arguments{"show", "--help"},
                           arguments{"history", "--help"},
                           arguments{"in-step", "--help"},
                           arguments{"prune", "--help"},
                           arguments{"rewind", "--help"},
                           arguments{"fork", "--help"},
                           arguments{"stats", "--help"},
                           arguments{"graph", "--help"}}) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, 0);
    CAF_CHECK(contains(x.out, "Example"));
    CAF_CHECK(contains(x.out, "Exit codes:"));
    CAF_CHECK_EQUAL(x.err, "");
  }
  CAF_CHECK(run({"--version"}).out.starts_with("gdctl "));
}

CAF_TEST(what cannot be meant is refused before anything happens) {
  for (const auto& args :
       {arguments{},
        arguments{"frobnicate"},
        arguments{"insert"},
        arguments{"insert", "Order", "extra"},
        arguments{"insert", "Order", "--priority", "40000"},
        arguments{"insert", "Order", "--version", "x"},
        arguments{"insert", "Order", "--delay", "5"},
        arguments{"insert", "Order", "--delay", "-5s"},
        arguments{"insert", "Order", "--delay", "5 s"},
        arguments{"insert", "Order", "--delay", "36526d"},
        arguments{"insert", "Order", "--delay", "99999999999999999999s"},
        arguments{"insert", "Order", "--at", "tomorrow"},
        arguments{"insert", "Order", "--at", "1969-01-01T00:00:00Z"},
        arguments{"insert", "Order", "--at", "2030-01-01T00:00:00Z", "--delay",
                  "1s"},
        arguments{"insert", "--file", "/nonexistent/rows"},
        arguments{"insert", "--file", "/"},
        arguments{"signal"},
        arguments{"signal", "1"},
        arguments{"signal", "1x", "paid"},
        arguments{"signal", "x", "paid"},
        arguments{"signal", "1", "paid", "--file", "-"},
        arguments{"signal", "1", "paid", "--targets", "-"},
        arguments{"signal", "--file", "-", "--targets", "-"},
        arguments{"signal", "--file", "-", "--targets", "/nonexistent/rows"},
        arguments{"show"},
        arguments{"machines", "pin", "Order"},
        arguments{"machines", "pin", "Order", "1", "--undo"},
        arguments{"machines", "pin", "Order", "0"},
        arguments{"machines", "retire", "Order"},
        arguments{"machines", "frobnicate"},
        arguments{"graph"},
        arguments{"graph", "Order", "--version", "0"},
        arguments{"graph", "Order", "--mermaid", "--dot"},
        arguments{"prune"},
        arguments{"prune", "--older-than", "1s"},
        arguments{"prune", "--older-than", "1d", "--version", "1"},
        arguments{"prune", "--older-than", "1d", "--status", "runnable"},
        arguments{"rewind", "1"},
        arguments{"rewind", "x", "1"},
        arguments{"rewind", "1", "x"},
        arguments{"rewind", "1", "1", "--by", ""},
        arguments{"rewind", "1", "1", "--queue", "q"},
        arguments{"fork", "1"},
        arguments{"fork", "x", "1"},
        arguments{"fork", "1", "1", "--queue", "a\tb"},
        arguments{"show", "x"},
        arguments{"show", "9223372036854775808"}}) {
    auto x = run(args);
    CAF_MESSAGE((args.empty() ? "" : args.back()) << ": " << x.err);
    CAF_CHECK_EQUAL(x.code, 2);
    CAF_CHECK_EQUAL(x.out, "");
    CAF_CHECK(x.err.starts_with("gdctl: "));
  }
  CAF_CHECK_EQUAL(count(), "0");
}

CAF_TEST(no message repeats a connection string) {
  std::vector<std::pair<arguments, int>> cases{
    {{"--database", "postgres:/u:hunter2@h/db?sslmode=disable", "stats"}, 2},
    {{"--database", "postgresql://u:hunter2@127.0.0.1:1/db", "stats"}, 3},
    {{"--database", "host=127.0.0.1 port=1 password=hunter2", "stats"}, 3},
    {{"--database", "host=127.0.0.1 passwort=hunter2", "stats"}, 2},
    {{"--database", "host=127.0.0.1", "password=hunter2", "stats"}, 2},
    {{"--database", "host=127.0.0.1", "show", "password=hunter2"}, 2},
    {{"stats", "postgresql://u:hunter2@127.0.0.1/db"}, 2}};
  for (const auto& [args, code] : cases) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, code);
    CAF_CHECK(!contains(x.out + x.err, "hunter2"));
    CAF_CHECK(!x.err.empty());
  }
}

// -- one at a time ------------------------------------------------------------

CAF_TEST(an instance is inserted and shown) {
  auto x = run({"insert", "Order", "--state", R"({"order": 42})", "--priority",
                "-5", "--at", "2100-01-01T00:00:00.000001+00:00"});
  CAF_CHECK_EQUAL(x.code, 0);
  auto id = std::to_string(line_of(x.out).id);
  CAF_CHECK_EQUAL(x.out, "{\"id\":" + id + "}\n");
  auto shown = run({"show", id});
  CAF_CHECK_EQUAL(shown.code, 0);
  for (auto part : {"Order v1", "start", "runnable", R"({"order": 42})", "fast",
                    "-5", "2100-01-01T00:00:00.000001Z"})
    CAF_CHECK(contains(shown.out, part));
  auto as_json = run({"show", id, "--json"});
  CAF_CHECK(as_json.out.starts_with("{\"id\":" + id + ",\"fsm\":\"Order\""));
  auto table = run({"stats"}).out;
  CAF_CHECK(contains(table, "queue  machine  version  status"));
  CAF_CHECK(contains(table, "fast   Order "));
  CAF_CHECK_EQUAL(
    run({"stats", "--json"}).out,
    R"({"queue":"fast","fsm":"Order","version":1,)"
    R"("status":"runnable","instances":1,"future":1,"held_back":0,"served":false})"
    "\n");
}

CAF_TEST(a prune deletes what has ended long ago and tells how many) {
  db.rows("insert into gen_durable (fsm, step, status, updated_at) select "
          "'Order', 'start', s, now() - interval '8 d' from (values "
          "('done'::gen_durable_status), ('failed'), ('runnable')) x (s), "
          "generate_series(1, 3)");
  auto dry = run({"prune", "--older-than", "7d", "--page", "2", "--dry-run"});
  CAF_CHECK_EQUAL(dry.code, 0);
  CAF_CHECK_EQUAL(dry.out, "{\"examined\":9,\"found\":6,\"deleted\":0,"
                           "\"refused\":0}\n");
  CAF_CHECK_EQUAL(count(), "9");
  auto did = run({"prune", "--older-than", "7d", "--machine", "Order",
                  "--status", "failed", "--page", "2"});
  CAF_CHECK_EQUAL(did.out, "{\"examined\":9,\"found\":3,\"deleted\":3,"
                           "\"refused\":0}\n");
  CAF_CHECK_EQUAL(count(), "6");
  CAF_CHECK_EQUAL(run({"prune", "--older-than", "9d"}).code, 0);
  CAF_CHECK_EQUAL(count(), "6");
  db.rows("create table app_orders (instance bigint references gen_durable);"
          "insert into app_orders select id from gen_durable where status = "
          "'done' limit 1");
  auto kept = run({"prune", "--older-than", "7d"});
  CAF_CHECK_EQUAL(kept.code, 1);
  CAF_CHECK(contains(kept.out, "\"deleted\":2,\"refused\":1"));
  CAF_CHECK_EQUAL(count(), "4");
}

CAF_TEST(an instance that is tried again is shown with what failed) {
  auto id = std::to_string(line_of(run({"insert", "Order"}).out).id);
  CAF_CHECK(!contains(run({"show", id}).out, "last error"));
  db.rows("update gen_durable set attempt = 2, last_error = 'no stock'");
  auto shown = run({"show", id}).out;
  CAF_CHECK(contains(shown, "runnable"));
  CAF_CHECK(contains(shown, "last error     no stock\n"));
  CAF_CHECK(
    contains(run({"show", id, "--json"}).out, R"("last_error":"no stock")"));
}

CAF_TEST(a history is shown and followed until its instance has ended) {
  db.rows("update gen_durable_machines set history = 2");
  auto id = std::to_string(
    line_of(run({"insert", "Order", "--state", R"({"order": 42})"}).out).id);
  auto shown = run({"history", id});
  CAF_CHECK_EQUAL(shown.code, 0);
  CAF_CHECK(contains(shown.out, "    0  "));
  CAF_CHECK(contains(shown.out, "  insert   start  {\"order\": 42}\n"));
  CAF_CHECK(
    contains(run({"history", id, "--json"}).out,
             R"("outcome":"insert","from_step":null,"to_step":"start")"));
  auto listed = run({"list", "Order", "--step", "start"}).out;
  CAF_CHECK(contains(listed, id + "  Order v1  start"));
  CAF_CHECK_EQUAL(run({"in-step", "Order", "start"}).out, listed);
  CAF_CHECK_EQUAL(run({"list", "--machine", "Order", "--step", "start"}).out,
                  listed);
  CAF_CHECK_EQUAL(
    run({"in-step", "Order", "start", "--status", "done", "--json"}).out, "");
  CAF_CHECK_EQUAL(run({"in-step", "Order", "start", "--limit", "0"}).code, 2);
  process follows{{"history", id, "--follow"}, env()};
  CAF_CHECK(contains(follows.answer(), "insert"));
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version,"
          " outcome, from_step, to_step, attempt, reason, metadata) values ("
          + id
          + ", 1, now(), 1, 'stop', 'start', 'start', 2, 'no stock',"
            " '{\"a\": 1}');"
            "update gen_durable set status = 'failed', seq = 1");
  CAF_CHECK(contains(follows.answer(), "    1  "));
  CAF_MESSAGE("what has none says so");
  db.rows("update gen_durable_machines set history = 0");
  auto other = std::to_string(line_of(run({"insert", "Order"}).out).id);
  auto none = run({"history", other});
  CAF_CHECK_EQUAL(none.code, 0);
  CAF_CHECK_EQUAL(none.out, "");
  CAF_CHECK(contains(none.err, "keeps no history"));
  CAF_CHECK_EQUAL(run({"history", "42000"}).code, 5);
}

CAF_TEST(an instance is put back to an entry and another begins there) {
  db.rows("update gen_durable_machines set history = 2");
  auto id = std::to_string(
    line_of(run({"insert", "Order", "--state", R"({"order": 42})"}).out).id);
  db.rows("update gen_durable set status = 'done', step = 'ship'");
  auto back = run(
    {"rewind", id, "0", "--reason", "wrong address", "--by", "ann"});
  CAF_CHECK_EQUAL(back.code, 0);
  CAF_CHECK_EQUAL(back.out,
                  "{\"id\":" + id + ",\"seq\":1,\"status\":\"runnable\"}\n");
  CAF_CHECK(contains(run({"history", id}).out,
                     "  rewind   ship -> start  by ann  (wrong address)  "
                     "{\"seq\": 0}  {\"order\": 42}\n"));
  auto made = run({"fork", id, "0", "--queue", "slow", "--force", "--reason",
                   "what if", "--by", "ann"});
  CAF_CHECK_EQUAL(made.code, 0);
  auto other = std::to_string(line_of(made.out).id);
  CAF_CHECK_EQUAL(made.out, "{\"id\":" + other + "}\n");
  CAF_CHECK(contains(run({"history", other}).out,
                     "  fork     start  by ann  (what if)  {\"id\": " + id
                       + ", \"seq\": 0}  {\"order\": 42}\n"));
  CAF_CHECK(contains(run({"show", other}).out, "queue          slow\n"));
  CAF_CHECK(contains(run({"history", "--help"}).out,
                     "see gdctl rewind and gdctl fork"));
  CAF_MESSAGE("a version that is retired takes no forks");
  CAF_REQUIRE_EQUAL(run({"machines", "retire", "Order", "1"}).code, 0);
  auto retired = run({"fork", id, "0"});
  CAF_CHECK_EQUAL(retired.code, 1);
  CAF_CHECK(contains(retired.err, "Order v1 is retired [MV002]"));
  CAF_MESSAGE("what executes is not put back");
  db.rows("update gen_durable set status = 'executing', locked_by = 'n/1/1',"
          " lease_expires_at = now() where id = $1",
          {id});
  auto refused = run({"rewind", id, "0"});
  CAF_CHECK_EQUAL(refused.code, 1);
  CAF_CHECK_EQUAL(refused.err, "gdctl: instance " + id
                                 + " is executing, step start, seq 1 "
                                   "[MV003]\n");
  CAF_MESSAGE("no instance, or no entry");
  for (const auto* command : {"rewind", "fork"}) {
    CAF_CHECK_EQUAL(run({command, "42000", "0"}).code, 5);
    CAF_CHECK_EQUAL(run({command, other, "1"}).code, 5);
  }
}

// -- machines and nodes -------------------------------------------------------

CAF_TEST(machines are listed with who serves them and their instances) {
  CAF_REQUIRE_EQUAL(run({"insert", "Order"}).code, 0);
  db.rows("insert into gen_durable (fsm, fsm_version, step, status) values "
          "('Lost', 4, 's', 'done')");
  auto table = run({"machines"}).out;
  CAF_CHECK(contains(table, "machine  version  inserts  served by"));
  CAF_CHECK(contains(table, "nobody yet"));
  CAF_CHECK(contains(table, "Lost           4"));
  db.rows(
    "insert into gen_durable_nodes (incarnation, node, host, process, "
    "library, lease, slots, queues, machines) values ('n/0', 'n', 'h', 1, "
    "'0', interval '1 min', 1, '[{\"name\": \"fast\"}]', '[{\"name\": "
    "\"Order\", \"version\": 1}]')");
  {
    session node{db.conninfo()};
    node.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
              "hashtext('n/0'))");
    CAF_CHECK(contains(run({"machines"}).out, "1 node "));
    auto lines = run({"machines", "--json"}).out;
    CAF_CHECK(contains(lines, R"("fsm":"Order","version":1)"));
    CAF_CHECK(contains(lines, R"("nodes":1)"));
    CAF_CHECK(contains(lines, R"("instances":{"runnable":1})"));
  }
  CAF_CHECK_EQUAL(run({"machines", "extra"}).code, 2);
}

CAF_TEST(a version is pinned and retired and both are undone) {
  db.rows("insert into gen_durable_machines values"
          " ('Order', 2, 'start', 'fast', '{start,ship}')");
  auto version = [this] {
    auto x = run({"insert", "Order"});
    if (x.code != 0)
      return "exit " + std::to_string(x.code);
    return db.scalar("select fsm_version from gen_durable where id = (select "
                     "max(id) from gen_durable)");
  };
  CAF_CHECK_EQUAL(version(), "2");
  auto pinned = run({"machines", "pin", "Order", "1"});
  CAF_CHECK_EQUAL(pinned.code, 0);
  CAF_CHECK(contains(pinned.out, "inserts that name no version take v1"));
  CAF_CHECK(contains(run({"machines"}).out, "pinned"));
  CAF_CHECK_EQUAL(version(), "1");
  auto refused = run({"machines", "retire", "Order", "1"});
  CAF_CHECK_EQUAL(refused.code, 2);
  CAF_CHECK(contains(refused.err, "is pinned"));
  CAF_CHECK_EQUAL(run({"machines", "pin", "Order", "--undo"}).code, 0);
  CAF_CHECK_EQUAL(run({"machines", "retire", "Order", "2"}).code, 0);
  CAF_CHECK(contains(run({"machines"}).out, "retired"));
  CAF_CHECK_EQUAL(version(), "1");
  auto named = run({"insert", "Order", "--version", "2"});
  CAF_CHECK_EQUAL(named.code, 1);
  CAF_CHECK(contains(named.err, "Order v2 is retired"));
  CAF_CHECK_EQUAL(run({"machines", "pin", "Order", "2"}).code, 1);
  CAF_CHECK_EQUAL(run({"machines", "retire", "Order", "2", "--undo"}).code, 0);
  CAF_CHECK_EQUAL(version(), "2");
  CAF_CHECK_EQUAL(run({"machines", "retire", "Nobody", "1"}).code, 1);
}

CAF_TEST(the graph of a machine is shown as nodes have made it known) {
  CAF_MESSAGE("here without what its steps declare");
  CAF_CHECK_EQUAL(run({"graph", "Order"}).out, "Order v1, begins at start\n"
                                               "  start     -> (anywhere)\n"
                                               "  ship      -> (anywhere)\n");
  db.rows("update gen_durable_machines set transitions = "
          "'{\"start\": [\"ship\"], \"ship\": [], \"*\": [\"ship\"]}'");
  CAF_CHECK_EQUAL(run({"graph", "Order"}).out, "Order v1, begins at start\n"
                                               "  start     -> ship\n"
                                               "  ship      -> (nowhere)\n"
                                               "  (handler) -> ship\n");
  CAF_CHECK(contains(run({"graph", "Order", "--mermaid"}).out, "s0 --> s1\n"));
  auto dot = run({"graph", "Order", "--dot"});
  CAF_CHECK_EQUAL(dot.code, 0);
  CAF_CHECK(contains(dot.out, "digraph \"Order v1\" {\n"));
  CAF_MESSAGE("and whose steps it has then replaced");
  db.rows("update gen_durable_machines set steps = '{start,pack}'");
  CAF_CHECK(contains(run({"graph", "Order"}).out, "pack      -> (anywhere)\n"));
}

CAF_TEST(a graph takes the version that inserts take or one that is named) {
  db.rows("insert into gen_durable_machines values"
          " ('Order', 2, 'start', 'fast', '{start}')");
  CAF_CHECK(run({"graph", "Order"}).out.starts_with("Order v2, "));
  CAF_CHECK(
    run({"graph", "Order", "--version", "1"}).out.starts_with("Order v1, "));
  db.rows("update gen_durable_machines set pinned = version = 1");
  CAF_CHECK(run({"graph", "Order"}).out.starts_with("Order v1, "));
  for (auto& [args, what] :
       {std::pair{arguments{"graph", "Nobody"},
                  "machine: no node has made Nobody known"s},
        std::pair{arguments{"graph", "Order", "--version", "3"},
                  "version: no node has made v3 of that machine known"s}}) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, 1);
    CAF_CHECK_EQUAL(x.out, "");
    CAF_CHECK(x.err.starts_with("gdctl: " + what));
  }
}

CAF_TEST(a live graph counts the instances at each step) {
  db.rows("insert into gen_durable (fsm, step, status, awaits) values "
          "('Order', 'start', 'runnable', null), "
          "('Order', 'start', 'awaiting_signal', 'a'), "
          "('Order', 'start', 'runnable', null), "
          "('Order', e'\"gone\\n', 'failed', null), "
          "('Other', 'start', 'runnable', null)");
  db.rows("insert into gen_durable (fsm, fsm_version, step) values "
          "('Order', 2, 'ship')");
  auto text = run({"graph", "Order", "--live"}).out;
  CAF_CHECK(contains(text, "(anywhere)  [1 awaiting_signal, 2 runnable]\n"));
  CAF_CHECK(contains(text, "ship        -> (anywhere)\n"));
  CAF_CHECK(
    contains(text, R"("gone\u000a (no step of the machine)  [1 failed])"));
  CAF_CHECK(contains(
    run({"graph", "Order", "--live", "--dot"}).out,
    R"(s2 [label="\"gone\\u000a\n(no step of the machine)\n1 failed"];)"));
  CAF_CHECK(!contains(run({"graph", "Order"}).out, "runnable"));
}

CAF_TEST(nodes are listed with what none of them serves) {
  CAF_REQUIRE_EQUAL(run({"insert", "Order"}).code, 0);
  auto before = run({"nodes"});
  CAF_CHECK_EQUAL(before.code, 0);
  CAF_CHECK(contains(before.out, "Order v1 in queue fast is served by nobody: "
                                 "no node that lives has it"));
  session node{db.conninfo()};
  db.add_silent_node("n/0", node.pid());
  CAF_CHECK(contains(run({"nodes"}).out, "silent  no     host"));
  node.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
            "hashtext('n/0'))");
  CAF_CHECK(contains(run({"nodes"}).out, "silent  yes    host"));
  db.rows("update gen_durable_nodes set queues = '[{\"name\": \"slow\"}]', "
          "machines = '[{\"name\": \"Order\", \"version\": 1}]'");
  CAF_CHECK(contains(run({"nodes"}).out, "nodes that have it serve other "
                                         "queues"));
  CAF_CHECK(contains(run({"stats"}).out, "no\n"));
  db.rows("update gen_durable_nodes set queues = '[{\"name\": \"fast\"}]'");
  CAF_CHECK(!contains(run({"nodes"}).out, "served by nobody"));
  CAF_CHECK(contains(run({"stats"}).out, "yes\n"));
  CAF_CHECK(contains(run({"nodes", "--json"}).out, R"("lives":true)"));
}

CAF_TEST(an instance is shown whatever its state has become) {
  auto id = std::to_string(line_of(run({"insert", "Order"}).out).id);
  db.rows("set gd.trusted = 'json'; update gen_durable set state = (select "
          "'{\"n\": [' || string_agg('1e131071', ',') || ']}' from "
          "generate_series(1, 9000))::jsonb");
  auto shown = run({"show", id});
  CAF_CHECK_EQUAL(shown.code, 0);
  CAF_CHECK(contains(shown.out, "Order v1"));
  CAF_CHECK(contains(shown.out, "state          (longer than 16777216 bytes "
                                "as PostgreSQL prints it)\n"));
  auto as_json = run({"show", id, "--json"});
  CAF_CHECK_EQUAL(as_json.code, 1);
  CAF_CHECK_EQUAL(as_json.out, "");
  CAF_CHECK(contains(as_json.err, "$.state: "));
}

CAF_TEST(a key that is taken is answered with the instance that has it) {
  auto first = run(
    {"insert", "Order", "--unique-key", "k", "--partition-key", "customer 7"});
  CAF_CHECK_EQUAL(first.code, 0);
  auto id = std::to_string(line_of(first.out).id);
  auto again = run({"insert", "Order", "--unique-key", "k"});
  CAF_CHECK_EQUAL(again.code, 0);
  CAF_CHECK_EQUAL(again.out, "{\"id\":" + id + ",\"duplicate\":true}\n");
  auto shown = run({"show", id});
  CAF_CHECK(contains(shown.out, "customer 7"));
  CAF_CHECK(contains(shown.out, "unique key     k\n"));
  auto wrong = run({"insert", "Order", "--unique-key", "j", "--unique-scope",
                    "runnable,asleep"});
  CAF_CHECK_NOT_EQUAL(wrong.code, 0);
  CAF_CHECK(contains(wrong.err, "asleep"));
}

CAF_TEST(a delay is counted in the unit that it says) {
  std::map<std::string, std::string> seconds{{"1500ms", "1.5"},
                                             {"10s", "10"},
                                             {"5m", "300"},
                                             {"2h", "7200"},
                                             {"60d", "5184000"}};
  for (const auto& [text, expected] : seconds) {
    CAF_CHECK_EQUAL(run({"insert", "Order", "--delay", text}).code, 0);
    CAF_CHECK_EQUAL(
      db.scalar("select abs(extract(epoch from eligible_at - inserted_at)"
                " - $1::numeric) < 1 from gen_durable"
                " order by id desc limit 1",
                {expected}),
      "t");
  }
}

CAF_TEST(what is not there is not found) {
  auto x = run({"show", "42"});
  CAF_CHECK_EQUAL(x.code, 5);
  CAF_CHECK(contains(x.err, "42"));
}

CAF_TEST(a row that is refused says why) {
  for (const auto& [args, part] :
       std::vector<std::pair<arguments, std::string>>{
         {{"insert", "Nobody"}, "Nobody"},
         {{"insert", "Order", "--step", "strat"}, "start|ship"},
         {{"insert", "Order", "--version", "3"}, "3"},
         {{"insert", "Order", "--state", "{"}, "state: "},
         {{"insert", "Order", "--state", "[]"}, "expected object"},
         {{"signal", "42", "paid"}, "42"},
         {{"signal", "42", "paid", "--payload", "}"}, "payload: "}}) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, 1);
    CAF_CHECK_EQUAL(x.out, "");
    CAF_CHECK(contains(x.err, part));
  }
  CAF_CHECK_EQUAL(run({"insert", "Nobody", "--step", "s", "--queue", "q"}).code,
                  0);
}

CAF_TEST(a signal is accepted once per dedup key) {
  auto id = std::to_string(line_of(run({"insert", "Order"}).out).id);
  arguments args{"signal",    id,        "paid", "--payload",
                 "{\"a\":1}", "--dedup", "evt-7"};
  CAF_CHECK_EQUAL(run(args).out,
                  "{\"target\":" + id + ",\"answer\":\"accepted\"}\n");
  auto again = run(args);
  CAF_CHECK_EQUAL(again.out,
                  "{\"target\":" + id + ",\"answer\":\"duplicate\"}\n");
  CAF_CHECK_EQUAL(again.code, 0);
}

CAF_TEST(a traceparent is stored with an insert and a signal) {
  const std::string trace{
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
  auto x = run({"insert", "Order", "--traceparent", trace});
  auto id = std::to_string(line_of(x.out).id);
  CAF_CHECK(contains(run({"show", id}).out, "traceparent    " + trace));
  CAF_CHECK_EQUAL(run({"signal", id, "paid", "--traceparent", trace}).code, 0);
  CAF_CHECK_EQUAL(db.scalar("select traceparent from gen_durable_signals"),
                  trace);
  for (const auto& args :
       {arguments{"insert", "Order", "--traceparent", "00-1"},
        arguments{"signal", id, "paid", "--traceparent", "00-1"}}) {
    auto bad = run(args);
    CAF_CHECK_EQUAL(bad.code, 1);
    CAF_CHECK(contains(bad.err, "traceparent: expected 55 characters"));
  }
}

CAF_TEST(an instance is moved or it is told why not ) {
  db.rows("update gen_durable_machines set history = 1, outside ="
          " '{\"start\": {\"to\": [\"ship\"]}}'");
  auto id = std::to_string(line_of(run({"insert", "Order"}).out).id);
  for (const auto& [args, part] :
       std::vector<std::pair<arguments, std::string>>{
         {{"transition", "42", "ship"}, "there is no instance 42"},
         {{"transition", id, "strat"}, "start|ship"},
         {{"transition", id, "start"}, "expected one of ship"},
         {{"transition", id, "ship", "--from", "ship"},
          "got runnable at start"},
         {{"transition", id, "ship", "--seq", "1"},
          "got runnable at start, seq 0"},
         {{"transition", id, "ship", "--state", "[]"}, "expected object"},
         {{"transition", id, "ship", "--metadata", "{"}, "metadata: "}}) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, 1);
    CAF_CHECK_EQUAL(x.out, "");
    CAF_CHECK(contains(x.err, part));
  }
  CAF_CHECK_EQUAL(run({"transition", "x", "ship"}).code, 2);
  CAF_CHECK_EQUAL(run({"transition", id}).code, 2);
  auto x = run({"transition", id, "ship", "--from", "start", "--seq", "0",
                "--state", "{\"n\": 1}", "--metadata", "{\"m\": 2}", "--reason",
                "asked for it", "--by", "alice"});
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK_EQUAL(x.out, "{\"target\":" + id
                           + ",\"seq\":1,\"status\":\"runnable\"}\n");
  CAF_CHECK(contains(run({"history", id}).out,
                     "  transition  start -> ship  by alice  (asked for it)  "
                     "{\"m\": 2}\n"));
  CAF_CHECK(contains(run({"show", id}).out, "{\"n\": 1}"));
}

CAF_TEST(an instance is named by the unique key that it has) {
  db.rows("update gen_durable_machines set history = 2, outside ="
          " '{\"start\": {\"to\": [\"ship\"]}}'");
  auto id = std::to_string(
    line_of(run({"insert", "Order", "--unique-key", "order 42"}).out).id);
  auto shown = run({"show", "--key", "order 42"});
  CAF_CHECK_EQUAL(shown.code, 0);
  CAF_CHECK(contains(shown.out, "instance       " + id + "\n"));
  CAF_CHECK(contains(shown.out, "unique key     order 42\n"));
  CAF_CHECK_EQUAL(run({"show", "--key-hex", "6f72646572203432"}).out,
                  shown.out);
  CAF_CHECK(contains(run({"show", "--key", "order 42", "--json"}).out,
                     "\"unique_key\":\"order 42\""));
  CAF_CHECK_EQUAL(run({"signal", "--key", "order 42", "paid"}).out,
                  "{\"key\":\"order 42\",\"answer\":\"accepted\"}\n");
  CAF_CHECK_EQUAL(run({"transition", "--key", "order 42", "ship"}).out,
                  "{\"key\":\"order 42\",\"seq\":1,\"status\":\"runnable\"}"
                  "\n");
  CAF_CHECK_EQUAL(run({"rewind", "--key", "order 42", "0"}).out,
                  "{\"key\":\"order 42\",\"seq\":2,\"status\":\"runnable\"}"
                  "\n");
  CAF_CHECK_EQUAL(run({"history", "--key", "order 42"}).out,
                  run({"history", id}).out);
  auto forked = run({"fork", "0", "--key", "order 42"});
  CAF_CHECK_EQUAL(forked.code, 0);
  auto lines = run({"signal", "--file", "-"},
                   "{\"key\": \"order 42\", \"name\": \"a\"}\n"
                   "{\"key\": \"nobody\", \"name\": \"a\"}\n"
                   "{\"key\": \"k\", \"target\": 7, \"name\": \"a\"}\n");
  CAF_CHECK(contains(lines.out, "{\"line\":1,\"key\":\"order 42\","
                                "\"answer\":\"accepted\"}\n"));
  CAF_CHECK(contains(lines.out, "\"code\":\"no_such_target\""));
  CAF_CHECK(contains(lines.out, "expected one of them, got several"));

  CAF_MESSAGE("what is called wrongly, or names nobody, is told");
  for (const auto& args :
       {arguments{"show", id, "--key", "k"},
        arguments{"show", "--key", "k", "--key-hex", "6b"},
        arguments{"show", "--key-hex", "6"},
        arguments{"show", "--key-hex", "6g"}, arguments{"show"},
        arguments{"show", "--key", ""}, arguments{"signal", "--key", "k"},
        arguments{"signal", "7", "paid", "--key", "k"},
        arguments{"transition", "--key", "k"},
        arguments{"rewind", "--key", "k"},
        arguments{"rewind", "--key", "k", "x"}})
    CAF_CHECK_EQUAL(run(args).code, 2);
  for (const auto* command : {"show", "history"}) {
    auto x = run({command, "--key", "nobody"});
    CAF_CHECK_EQUAL(x.code, 5);
    CAF_CHECK(contains(x.err, "there is no instance with the unique key "
                              "nobody"));
  }
  CAF_CHECK_EQUAL(run({"signal", "--key", "nobody", "paid"}).code, 1);
  CAF_CHECK_EQUAL(run({"transition", "--key", "nobody", "ship"}).code, 1);
  CAF_CHECK_EQUAL(run({"rewind", "--key", "nobody", "0"}).code, 5);
}

CAF_TEST(a key of another machine is refused) {
  db.rows("insert into gen_durable_machines (fsm, version, initial_step, queue,"
          " steps) values ('Refund', 1, 'start', 'fast', '{start}')");
  auto id = std::to_string(
    line_of(run({"insert", "Order", "--unique-key", "42"}).out).id);
  auto x = run({"insert", "Refund", "--unique-key", "42"});
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK_EQUAL(x.out, "");
  CAF_CHECK(
    contains(x.err, "unique_key: 42 is that of instance " + id + " of Order"));
}

// -- many ---------------------------------------------------------------------

CAF_TEST(every line has its answer in order) {
  auto x = run({"insert", "Order", "--file", "-", "--priority", "7", "--force"},
               "{\"ref\": \"a\"}\n"
               "\n"
               "{\"ref\": \"b\", \"state\": {\"order\": 42}, \"priority\": 1}\n"
               "nonsense\n"
               "{\"ref\": \"c\", \"colour\": 1}\n"
               "{\"ref\": \"d\", \"ref\": \"e\"}\n"
               "[]\n"
               "{\"fsm\": \"Nobody\"}\n"
               "{\"step\": \"strat\"}\n"
               "{\"state\": {\"a\": \"\\u0000\"}}\n"
               "{\"state\": null}\n"
               "{\"state\": {\"a\": \"\\ud800\"}}\n"
               "{\"delay\": \"1 fortnight\"}\n"
               "{\"delay\": \"1s\", \"at\": \"2100-01-01T00:00:00Z\"}\n"
               "{\"priority\": 40000}\n"
               "{\"ref\": \"\xff\"}\n"
               "{\"step\": \"ship\", \"queue\": \"slow\", \"version\": 1}\r\n"
               "{\"ref\": \"last \\\"one\\\"\", \"delay\": \"60d\"}");
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK_EQUAL(x.err, "");
  std::vector<std::pair<std::int64_t, std::string>> expected{
    {1, ""},
    {3, ""},
    {4, "codec"},
    {5, "codec"},
    {6, "codec"},
    {7, "codec"},
    {8, "unknown_machine"},
    {9, "unknown_step"},
    {10, "codec"},
    {11, "codec"},
    {12, "codec"},
    {13, "invalid_argument"},
    {14, "invalid_argument"},
    {15, "codec"},
    {16, "codec"},
    {17, ""},
    {18, ""}};
  std::vector<std::pair<std::int64_t, std::string>> got;
  auto lines = lines_of(x.out);
  for (const auto& line : lines) {
    got.emplace_back(line.line, line.code);
    CAF_CHECK_EQUAL(line.id != 0, line.code.empty());
    CAF_CHECK_EQUAL(line.error.empty(), line.code.empty());
  }
  CAF_CHECK_EQUAL(got, expected);
  CAF_CHECK(lines.at(0).ref == "a"s);
  CAF_CHECK(lines.at(3).ref == "c"s);
  CAF_CHECK(contains(lines.at(3).error, "$.colour: unknown key"));
  CAF_CHECK(lines.at(16).ref == "last \"one\""s);
  std::string stored;
  for (const auto& row :
       db.rows("select step, queue, priority, state from gen_durable"
               " order by id"))
    stored += *row[0] + " " + *row[1] + " " + *row[2] + " " + *row[3] + "\n";
  CAF_CHECK_EQUAL(stored, "start fast 7 {}\n"
                          "start fast 1 {\"order\": 42}\n"
                          "ship slow 7 {}\n"
                          "start fast 7 {}\n");
}

CAF_TEST(a line that is left open gets its answer before the next) {
  process gdctl{{"insert", "--file", "-"}, env()};
  for (int i = 1; i <= 3; ++i) {
    gdctl.type("{\"fsm\": \"Order\"}\n");
    auto line = line_of(gdctl.answer());
    CAF_CHECK_EQUAL(line.line, i);
    CAF_CHECK_EQUAL(count(), std::to_string(i));
  }
  gdctl.type("{\"fsm\": \"Order\"}");
  gdctl.close_input();
  auto last = line_of(gdctl.answer());
  CAF_CHECK_EQUAL(last.line, 4);
  CAF_CHECK_EQUAL(gdctl.wait(), 0);
}

CAF_TEST(many lines come out as many) {
  std::string input;
  for (int i = 0; i < 2'345; ++i)
    input += "{\"state\": {\"n\": " + std::to_string(i) + "}}\n";
  temporary_file file{input};
  auto x = run({"insert", "Order", "--file", file.name, "--progress"});
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.err, "2345 accepted, 0 refused"));
  auto lines = lines_of(x.out);
  CAF_REQUIRE_EQUAL(lines.size(), 2'345u);
  auto rows = db.rows("select id from gen_durable order by (state->>'n')::int");
  CAF_REQUIRE_EQUAL(rows.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (std::to_string(lines[i].id) != rows[i][0]
        || lines[i].line != static_cast<std::int64_t>(i) + 1)
      CAF_FAIL("line " << i + 1 << " has another one's answer");
}

CAF_TEST(a line that is too long is refused and the next one is not ) {
  auto x = run({"insert", "--file", "-"},
               "{\"fsm\": \"" + std::string(17 << 20, 'x')
                 + "\"}\n{\"fsm\": \"Order\"}\n{\"fsm\": \"Order\"}\n");
  auto lines = lines_of(x.out);
  CAF_REQUIRE_EQUAL(lines.size(), 3u);
  CAF_CHECK_EQUAL(lines[0].code, "invalid_argument");
  CAF_CHECK(lines[1].id != 0);
  CAF_CHECK_EQUAL(lines[2].line, 3);
}

CAF_TEST(no lines are no work) {
  auto x = run({"insert", "--file", "-"}, "\n  \n");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK_EQUAL(x.out, "");
}

CAF_TEST(signals find their targets by the refs of the inserts) {
  auto inserts = run({"insert", "Order", "--file", "-"},
                     "{\"ref\": \"a\"}\n{\"ref\": \"b\"}\n{}\n"
                     "{\"ref\": \"bad\", \"step\": \"?\"}\n"
                     "{\"ref\": \"twice\"}\n{\"ref\": \"twice\"}\n");
  auto ids = lines_of(inserts.out);
  temporary_file targets{inserts.out};
  auto third = std::to_string(ids.at(2).id);
  db.rows("update gen_durable set status = 'done' where id = " + third);
  auto x = run(
    {"signal", "--file", "-", "--targets", targets.name, "--payload", "[1]"},
    "{\"ref\": \"b\", \"name\": \"paid\", \"dedup\": \"k\"}\n"
    "{\"ref\": \"b\", \"name\": \"paid\", \"dedup\": \"k\"}\n"
    "{\"ref\": \"a\", \"name\": \"paid\", \"payload\": null}\n"
    "{\"ref\": \"nobody\", \"name\": \"paid\"}\n"
    "{\"ref\": \"bad\", \"name\": \"paid\"}\n"
    "{\"ref\": \"twice\", \"name\": \"paid\"}\n"
    "{\"target\": "
      + third
      + ", \"name\": \"paid\"}\n"
        "{\"target\": 999999, \"name\": \"paid\"}\n"
        "{\"target\": 1, \"ref\": \"a\", \"name\": \"paid\"}\n"
        "{\"name\": \"paid\"}\n"
        "{\"ref\": \"a\"}\n"
        "{\"ref\": \"a\", \"name\": \"paid\", \"id\": 1}\n"
        "{\"ref\": \"a\", \"name\": \"paid\", \"payload\": \"\\u0000\"}\n");
  CAF_CHECK_EQUAL(x.code, 1);
  std::vector<std::string> got;
  auto lines = lines_of(x.out);
  for (const auto& line : lines)
    got.push_back(line.answer + line.code);
  CAF_CHECK_EQUAL(got,
                  (std::vector<std::string>{
                    "accepted", "duplicate", "accepted", "invalid_argument",
                    "invalid_argument", "invalid_argument", "target_finished",
                    "no_such_target", "invalid_argument", "invalid_argument",
                    "invalid_argument", "codec", "codec"}));
  CAF_REQUIRE_EQUAL(lines.size(), 13u);
  CAF_CHECK_EQUAL(lines[0].target, ids.at(1).id);
  CAF_CHECK(lines[0].ref == "b"s);
  CAF_CHECK_EQUAL(lines[7].target, 999'999);
  CAF_CHECK(lines[11].ref == "a"s);
  CAF_CHECK_EQUAL(
    db.scalar("select string_agg(payload::text, ' ' order by payload::text)"
              " from gen_durable_signals"),
    "[1] null");
  auto without = run({"signal", "--file", "-"},
                     "{\"ref\": \"a\", \"name\": \"paid\"}\n");
  CAF_CHECK(contains(line_of(without.out).error, "--targets"));
  temporary_file nonsense{"{\"ref\": \"a\", \"id\": 1}\nnonsense\n"};
  auto bad = run({"signal", "--file", "-", "--targets", nonsense.name});
  CAF_CHECK_EQUAL(bad.code, 2);
  CAF_CHECK(contains(bad.err, "line 2"));
}

// -- ends before the end ------------------------------------------------------

CAF_TEST(an interrupted stream ends with the signal and tells where) {
  process gdctl{{"insert", "Order", "--file", "-"}, env()};
  gdctl.type("{}\n");
  gdctl.answer();
  gdctl.interrupt();
  CAF_CHECK_EQUAL(gdctl.wait(), -SIGINT);
  CAF_CHECK(contains(gdctl.complained(), "interrupted; stopped after line 1"));
}

CAF_TEST(what is under way at an interruption still gets its answers) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable in share mode");
  process gdctl{{"insert", "Order", "--file", "-"}, env()};
  gdctl.type("{}\n");
  stranger.wait_until_someone_is_blocked();
  gdctl.interrupt();
  stranger.exec("commit");
  CAF_CHECK(line_of(gdctl.answer()).id != 0);
  CAF_CHECK_EQUAL(gdctl.wait(), -SIGINT);
  CAF_CHECK_EQUAL(count(), "1");
}

CAF_TEST(a second interruption ends it at once) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable in share mode");
  process gdctl{{"insert", "Order", "--file", "-"}, env()};
  gdctl.type("{}\n");
  stranger.wait_until_someone_is_blocked();
  gdctl.insist();
  CAF_CHECK_EQUAL(gdctl.wait(), -SIGINT);
  CAF_CHECK_EQUAL(gdctl.said(), "");
}

CAF_TEST(what cannot be written to stdout is told and what it did as well) {
  auto check = [&](const arguments& args, const std::string& told,
                   const std::string& input = {}) {
    auto x = run_with(env(), args, input, "/dev/full");
    CAF_MESSAGE(args.front() << ": " << x.err);
    CAF_CHECK_EQUAL(x.code, 2);
    CAF_CHECK(contains(x.err, "gdctl: stdout: No space left on device"));
    CAF_CHECK(contains(x.err, told));
  };
  db.rows("update gen_durable_machines set history = 2");
  check({"insert", "Order"}, "; the instance is ");
  CAF_REQUIRE_EQUAL(count(), "1");
  auto id = db.scalar("select id from gen_durable");
  check({"insert", "Order", "--unique-key", "k"}, "; the instance is ");
  auto keyed = db.scalar("select id from gen_durable where unique_key = 'k'");
  check({"insert", "Order", "--unique-key", "k"},
        "; the instance is " + keyed + ", which was there before");
  check({"insert", "--file", "-"}, "; stopped after line 1",
        "{\"fsm\": \"Order\"}\n");
  check({"signal", id, "paid", "--dedup", "a"}, "; the signal is accepted");
  check({"signal", id, "paid", "--dedup", "a"}, "; the signal is a duplicate");
  check({"rewind", id, "0"}, "; the instance has been put back");
  check({"fork", id, "0"}, " has been made");
  for (const auto& args :
       {arguments{"show", id}, arguments{"show", id, "--json"},
        arguments{"stats"}, arguments{"stats", "--json"},
        arguments{"migrate", "status"}, arguments{"migrate", "up"},
        arguments{"--help"}, arguments{"--version"}})
    check(args, "");
}

CAF_TEST(an id is told on stderr where nobody reads it or stdout is closed) {
  auto closed = run_with(env(), {"insert", "Order"}, {}, "");
  CAF_CHECK_EQUAL(closed.code, 2);
  CAF_CHECK(contains(closed.err, "stdout: Bad file descriptor; the instance is "
                                   + db.scalar("select id from gen_durable")));
  process gdctl{{"insert", "Order"}, env()};
  gdctl.close_output();
  CAF_CHECK_EQUAL(gdctl.wait(), -SIGPIPE);
  CAF_CHECK(contains(gdctl.complained(),
                     "Broken pipe; the instance is "
                       + db.scalar("select max(id) from gen_durable")));
}

CAF_TEST(a list whose reader has ended ends without a word) {
  for (const auto& args : {arguments{"list"}, arguments{"stats"},
                           arguments{"nodes"}, arguments{"--help"}}) {
    process gdctl{args, env()};
    gdctl.close_output();
    CAF_CHECK_EQUAL(gdctl.wait(), -SIGPIPE);
    CAF_CHECK_EQUAL(gdctl.complained(), "");
  }
}

CAF_TEST(a command whose complaints nobody reads ends with the code that it has
           for them) {
  process refused{{"insert", "Nobody"}, env()};
  refused.close_complaints();
  CAF_CHECK_EQUAL(refused.wait(), 1);
  process stream{{"insert", "Order", "--file", "-", "--progress"}, env()};
  stream.close_complaints();
  for (int i = 0; i < 3; ++i) {
    stream.type("{}\n");
    stream.answer();
  }
  stream.close_input();
  CAF_CHECK_EQUAL(stream.wait(), 0);
  CAF_CHECK_EQUAL(count(), "3");
}

CAF_TEST(nothing that is shown drives a terminal) {
  auto id = std::to_string(
    line_of(run({"insert", "Order", "--state",
                 R"({"a": "\u009b31m", "b": "\u202e", "c": "\u007f"})"})
              .out)
      .id);
  db.rows("update gen_durable set last_error = e'\\u061c\\u001b[2J', "
          "queue = e'\\u2066'");
  for (const auto& args :
       {arguments{"show", id}, arguments{"show", id, "--json"},
        arguments{"stats"}, arguments{"stats", "--json"}}) {
    auto x = run(args);
    CAF_CHECK_EQUAL(x.code, 0);
    for (const auto* bad : {"\xc2\x9b", "\xe2\x80\xae", "\x7f", "\xd8\x9c",
                            "\x1b", "\xe2\x81\xa6"})
      CAF_CHECK(!contains(x.out, bad));
    CAF_CHECK(contains(x.out, R"(\u2066)"));
    if (args.front() == "show")
      CAF_CHECK(contains(x.out, R"(\u009b31m)"));
  }
}

CAF_TEST(a reader that goes away ends the stream) {
  process gdctl{{"insert", "Order", "--file", "-"}, env()};
  gdctl.type("{}\n");
  gdctl.answer();
  gdctl.close_output();
  gdctl.type("{}\n");
  CAF_CHECK_EQUAL(gdctl.wait(), -SIGPIPE);
  CAF_CHECK(contains(gdctl.complained(), "stopped after line 2"));
}

CAF_TEST(a server that goes away for good ends the stream) {
  process gdctl{{"insert", "Order", "--file", "-"}, env()};
  gdctl.type("{}\n");
  gdctl.answer();
  temporary_database elsewhere;
  session admin{elsewhere.conninfo()};
  admin.exec("alter database " + gd::test::quoted_name(db.name())
             + " with allow_connections false");
  for (const auto& row :
       admin.exec("select pid from pg_stat_activity"
                  " where datname = $1 and application_name = 'gdctl'",
                  {db.name()}))
    admin.terminate(std::stoll(row[0].value()));
  gdctl.type("{}\n");
  auto line = line_of(gdctl.answer());
  CAF_CHECK_EQUAL(line.code, "unavailable");
  CAF_CHECK_EQUAL(gdctl.wait(), 3);
  CAF_CHECK(contains(gdctl.complained(), "stopped after line 2"));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace gdctl_suite
