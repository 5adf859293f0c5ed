// What operators see and do with gdctl: lines for people, JSON for programs, exit codes.

#define CAF_SUITE gdctl_operate

#include <support/gdctl.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace gdctl_operate_suite {

using namespace std::literals;
using gd::test::contains;

namespace {

struct fixture : gd::test::database_of_gdctl {
  fixture() {
    db.rows("insert into gen_durable (fsm, step, status, last_error, queue)"
            " select 'Order', 'pay', case when n % 2 = 0 then 'failed' else"
            " 'runnable' end::gen_durable_status, case when n % 2 = 0 then"
            " 'no stock' end, 'mail' from generate_series(1, 10) n");
  }

  /// In a process of its own.
  static pid_t start(const std::string& arguments) {
    auto pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c",
            ("exec " GD_GDCTL " " + arguments + " > /dev/null 2>&1").c_str(),
            nullptr);
      _exit(127);
    }
    return pid;
  }

  /// All that it says there.
  static std::string run_on_terminal(const std::string& arguments) {
    int terminal = -1;
    auto pid = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", ("exec " GD_GDCTL " " + arguments).c_str(),
            nullptr);
      _exit(127);
    }
    std::string said;
    std::array<char, 4'096> some;
    while (true) { // its end is an error, EIO
      auto n = read(terminal, some.data(), some.size());
      if (n <= 0)
        break;
      said.append(some.data(), static_cast<std::size_t>(n));
    }
    close(terminal);
    waitpid(pid, nullptr, 0);
    return said;
  }

  std::string count(const std::string& condition) {
    return db.scalar("select count(*) from gen_durable where " + condition);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(gdctl_operate_tests, fixture)

// -- wait ---------------------------------------------------------------------

CAF_TEST(whoever waits for an end is told it by text and exit code) {
  CAF_CHECK_EQUAL(run("wait 2").code, 6);
  auto failed = run("wait 2 --json");
  CAF_CHECK_EQUAL(failed.code, 6);
  CAF_CHECK_EQUAL(failed.said,
                  "{\"id\":2,\"fsm\":\"Order\",\"version\":1,\"status\":"
                  "\"failed\",\"result\":null,\"failure\":\"no stock\","
                  "\"seq\":0}\n");
  db.rows("update gen_durable set status = 'done', result = '{\"n\": 7}', "
          "unique_key = 'k', unique_scope = '{done}' where id = 1");
  for (const auto* whom : {"1", "--key k"}) {
    auto done = run("wait "s + whom);
    CAF_CHECK_EQUAL(done.code, 0);
    CAF_CHECK_EQUAL(done.said, "instance       1\nmachine        Order v1\n"
                               "status         done\n"
                               "result         {\"n\": 7}\n");
  }
  auto late = run("wait 3 --timeout 10ms");
  CAF_CHECK_EQUAL(late.code, 7);
  CAF_CHECK_EQUAL(late.said, "gdctl: instance 3 has not ended within 10 ms\n");
  auto nobody = run("wait 4711");
  CAF_CHECK_EQUAL(nobody.code, 5);
  CAF_CHECK_EQUAL(nobody.said, "gdctl: there is no instance 4711\n");
  CAF_CHECK_EQUAL(run("wait --key nobody").code, 5);
  for (const auto* wrong : {"", "x", "3 --timeout 2d", "3 --timeout soon"})
    CAF_CHECK_EQUAL(run("wait "s + wrong).code, 2);
}

CAF_TEST(a wait ends with its instance) {
  auto waiting = start("wait 3");
  db.wait_until("select count(*) from pg_stat_activity where datname = "
                "current_database() and state = 'idle' and query like "
                "'%as left_out%'",
                "1");
  db.rows("update gen_durable set status = 'done', result = '{}' where id = 3");
  int status = 0;
  CAF_REQUIRE_EQUAL(waitpid(waiting, &status, 0), waiting);
  CAF_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// -- top ----------------------------------------------------------------------

namespace {

/// A gdctl on a terminal of its own.
class terminal {
public:
  explicit terminal(const std::string& arguments) {
    winsize size{.ws_row = 20, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
    auto leader = forkpty(&fd_, nullptr, nullptr, &size);
    if (leader == 0)
      lead("exec " GD_GDCTL " " + arguments);
    leader_ = leader;
    CAF_REQUIRE(wait_for("[pid "));
    while (said_.find(']') == said_.npos && read_more())
      continue;
    pid_ = std::stoi(said_);
  }

  ~terminal() {
    kill(leader_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(leader_, nullptr, 0);
    close(fd_);
  }

  /// Waits until it has drawn that, since the last call.
  bool wait_for(const std::string& text) {
    using clock = std::chrono::steady_clock;
    for (auto end = clock::now() + gd::test::patience;;) {
      auto at = said_.find(text);
      if (at != said_.npos) {
        said_.erase(0, at + text.size());
        return true;
      }
      if (clock::now() > end || !read_more()) {
        CAF_MESSAGE("no " << text << " in: " << said_);
        return false;
      }
    }
  }

  void type(char key) {
    CAF_CHECK_EQUAL(write(fd_, &key, 1), 1);
  }

  void resize(unsigned short rows, unsigned short columns) {
    winsize size{
      .ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(fd_, TIOCSWINSZ, &size);
  }

  void send(int signal) {
    kill(pid_, signal);
  }

private:
  /// The terminal's first process, which tells how gdctl ends, and whether lines are
  /// edited and shown behind it: with the first process the terminal goes.
  [[noreturn]] static void lead(const std::string& command) {
    auto pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    dprintf(STDOUT_FILENO, "[pid %d]", pid);
    int status = -1;
    waitpid(pid, &status, 0);
    termios now{};
    tcgetattr(STDIN_FILENO, &now);
    bool usual = (now.c_lflag & ICANON) != 0 && (now.c_lflag & ECHO) != 0;
    dprintf(STDOUT_FILENO, "[%s, %s %d]", usual ? "usual" : "raw",
            WIFEXITED(status) ? "exit" : "signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    pause(); // until it is killed: what it has said is read
    _exit(0);
  }

  bool read_more() {
    pollfd there{fd_, POLLIN, 0};
    std::array<char, 4'096> some;
    auto most = std::chrono::milliseconds{gd::test::patience}.count();
    if (poll(&there, 1, static_cast<int>(most)) <= 0)
      return false;
    auto n = read(fd_, some.data(), some.size());
    if (n > 0)
      said_.append(some.data(), static_cast<std::size_t>(n));
    return n > 0;
  }

  int fd_ = -1;
  pid_t leader_ = -1;
  pid_t pid_ = -1;
  std::string said_;
};

constexpr auto left_screen = "\x1b[?25h\x1b[?1049l";

} // namespace

CAF_TEST(without a terminal top looks once) {
  auto x = run("top");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "queue  nodes  slots  due  oldest due  later  "
                             "executing  paused"));
  CAF_CHECK(contains(x.said, "mail       0      0    5"));
  CAF_CHECK(!contains(x.said, "\x1b"));
  x = run("top --json");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "{\"queues\":[{\"queue\":\"mail\""));
  CAF_CHECK(contains(x.said, "\"more_due\":false,"));
  CAF_CHECK_EQUAL(run("top --interval 1ms").code, 2);
  CAF_CHECK_EQUAL(run("top --database 'host=/nowhere'").code, 3);
  CAF_CHECK_EQUAL(run("top --gateway 127.0.0.1:1").code, 2);
}

CAF_TEST(top draws again and again and leaves the terminal as it was) {
  for (int how : {0, SIGINT, SIGTERM, SIGHUP}) {
    terminal x{"top --interval 100ms"};
    CAF_CHECK(x.wait_for("\x1b[?1049h"));
    CAF_CHECK(x.wait_for("mail       0      0    5"));
    CAF_CHECK(x.wait_for("updates/s")); // the second look
    if (how == 0)
      x.type('q');
    else
      x.send(how);
    CAF_CHECK(x.wait_for(left_screen));
    CAF_CHECK(x.wait_for(how == 0
                           ? "[usual, exit 0]"
                           : "[usual, signal " + std::to_string(how) + ']'));
  }
}

CAF_TEST(top cuts its picture to the size of the terminal and can hold it) {
  terminal x{"top --interval 100ms"};
  CAF_CHECK(x.wait_for("paused\r\n"));
  x.resize(3, 20);
  CAF_CHECK(x.wait_for("\x1b[H\x1b[Kgdctl top (q: quit, \r\n"));
  CAF_CHECK(x.wait_for("\r\n\x1b[K\x1b[H"));
  x.resize(20, 120);
  CAF_CHECK(x.wait_for("mail       0      0    5"));
  x.type('p');
  CAF_CHECK(x.wait_for("top, HELD"));
  db.rows("update gen_durable set status = 'done' where id = 1");
  for (int i = 0; i < 3; ++i) {
    CAF_CHECK(x.wait_for("top, HELD"));
    CAF_CHECK(x.wait_for("mail       0      0    5"));
  }
  x.type('p');
  CAF_CHECK(x.wait_for("mail       0      0    4"));
}

CAF_TEST(top says that the database does not answer and goes on when it does) {
  terminal x{"top --interval 100ms"};
  CAF_CHECK(x.wait_for("mail       0      0    5"));
  gd::test::session stranger{db.conninfo()};
  stranger.exec("begin; lock table gen_durable");
  CAF_CHECK(x.wait_for("no answer for 1 s"));
  stranger.exec("commit");
  CAF_CHECK(x.wait_for("mail       0      0    5"));
  // Lost, for longer than it takes to connect again.
  gd::test::session above{server};
  auto let_in = [&](const std::string& yes) {
    above.exec("alter database \"" + db.name() + "\" allow_connections " + yes);
  };
  let_in("false");
  above.exec("select pg_terminate_backend(pid) from pg_stat_activity where "
             "application_name = 'gdctl' and datname = $1",
             {db.name()});
  CAF_CHECK(x.wait_for("FATAL:"));
  let_in("true");
  CAF_CHECK(x.wait_for("(one or two a step)"));
  CAF_CHECK(x.wait_for("\x1b[H"));
  x.type('q');
  CAF_CHECK(x.wait_for(left_screen));
}

CAF_TEST(top waits for a server that is away and cuts names that are long) {
  db.rows("insert into gen_durable (fsm, step, queue) values ('Order', 'pay', "
          "repeat('q', 900))");
  gd::test::session above{server};
  auto let_in = [&](const std::string& yes) {
    above.exec("alter database \"" + db.name() + "\" allow_connections " + yes);
  };
  let_in("false");
  terminal x{"top --interval 100ms"};
  CAF_CHECK(x.wait_for("FATAL:"));
  let_in("true");
  CAF_CHECK(x.wait_for("mail "));
  CAF_CHECK(x.wait_for(std::string(40, 'q') + "...  "));
  x.type('q');
  CAF_CHECK(x.wait_for(left_screen));
}

// -- the rest -----------------------------------------------------------------

CAF_TEST(an empty value means nothing and not any) {
  for (const auto* arguments :
       {"stop '' --status runnable --dry-run",
        "stop --status runnable --machine '' --dry-run",
        "stop --status runnable --queue '' --dry-run",
        "stop --status runnable --step '' --dry-run",
        "stop --status runnable --failure '' --dry-run",
        "stop --status runnable --older '' --dry-run", "list --machine ''",
        "list --before ''", "prune --older-than 60s --machine '' --dry-run",
        "prune --older-than 60s --after ''", "machines pin ''  1"}) {
    auto x = run(arguments);
    CAF_CHECK_EQUAL(x.code, 2);
    CAF_CHECK(contains(x.said, "expected a value, got nothing"));
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_jobs"), "0");
}

CAF_TEST(a number that is too large is none) {
  for (const auto* arguments :
       {"list --before", "in-step Order pay --before",
        "prune --older-than 60s --after", "transition 1 pay --seq"}) {
    auto x = run(arguments + " 9223372036854775808"s);
    CAF_CHECK_EQUAL(x.code, 2);
    CAF_CHECK(contains(x.said, "expected a whole number, got "
                               "\"9223372036854775808\""));
  }
}

CAF_TEST(times without an end are shown and hide nothing else) {
  db.rows("insert into gen_durable (fsm, step, queue, eligible_at) values "
          "('Order', 'pay', 'lost', '-infinity'), ('Order', 'pay', 'lost', "
          "'infinity')");
  for (const auto* command : {"queues", "top", "top --json", "list", "show 11",
                              "show 12", "why 11", "history 11"}) {
    auto x = run(command);
    CAF_CHECK_EQUAL(x.code, 0);
  }
  CAF_CHECK(contains(run("queues").said, "lost"));
}

CAF_TEST(every command of operators explains itself) {
  for (const auto* name :
       {"why", "list", "queues", "jobs", "retry", "stop", "run-now", "move",
        "pause", "resume", "top", "inbox", "discard", "replace", "erase"}) {
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

CAF_TEST(an inbox is shown and what lies there is replaced and discarded) {
  db.rows("insert into gen_durable_signals (target_id, name, payload, "
          "dedup_key) values "
          "(2, 'paid', '{\"n\": \"x\"}', 'evt-1')");
  auto id = db.scalar("select max(id) from gen_durable_signals");
  auto x = run("inbox 2");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, id + "  paid  evt-1"));
  CAF_CHECK(contains(x.said, R"(waits  {"n": "x"})"));
  db.rows("update gen_durable set last_error = 'signal paid (" + id
          + "): $.n: expected number' where id = 2");
  CAF_CHECK(contains(run("inbox 2").said, R"(does not decode  {"n": "x"})"));
  CAF_CHECK(contains(run("inbox 2 --json").said,
                     R"("undecodable":"$.n: expected number")"));
  x = run("replace 2 " + id + " --payload '{\"n\": 7}' --by ann --reason typo");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "\"id\":2,\"seq\":1,\"status\":\"failed\""));
  CAF_CHECK(contains(run("inbox 2 --json").said, R"("payload":"{\"n\": 7}")"));
  CAF_CHECK_EQUAL(run("discard 2 " + id).code, 0);
  CAF_CHECK(!contains(run("inbox 2").said, "paid"));
  CAF_CHECK(contains(run("inbox 2 --all").said, "consumed 20"));
  x = run("discard 2 " + id);
  CAF_CHECK(x.code != 0);
  CAF_CHECK(contains(x.said, "has none with the number " + id));
  CAF_CHECK_EQUAL(run("discard 2").code, 2);
  CAF_CHECK_EQUAL(run("discard 2 first").code, 2);
  CAF_CHECK_EQUAL(run("replace 2 " + id).code, 2);
  CAF_CHECK_EQUAL(run("inbox 77").code, 5);
}

CAF_TEST(what is encrypted is shown with the name of its key and its size) {
  constexpr auto kept
    = R"({"gd.key": "2026-11", "gd.encrypted": "AAECAwQFBgc="})";
  constexpr auto shown = "(encrypted with key 2026-11, 8 bytes)";
  db.rows("update gen_durable set status = 'done', state = $1::jsonb, result = "
          "$1::jsonb where id = 2",
          {kept});
  db.rows("insert into gen_durable_signals (target_id, name, payload) values "
          "(2, 'paid', $1::jsonb), (2, 'paid', "
          "jsonb_build_object('gd.key', 'k', 'gd.encrypted', repeat('A', "
          "8000)))",
          {kept});
  db.rows("insert into gen_durable_ledger (instance_id, seq, at, fsm_version, "
          "outcome, to_step, attempt, state) values (2, 0, now(), 1, 'insert', "
          "'pay', 0, $1::jsonb)",
          {kept});
  for (const auto* command : {"show 2", "wait 2", "inbox 2", "history 2"}) {
    auto x = run(command);
    CAF_CHECK_EQUAL(x.code, 0);
    CAF_CHECK(contains(x.said, shown));
    CAF_CHECK(!contains(x.said, "AAEC"));
  }
  CAF_CHECK(
    contains(run("inbox 2").said, "(encrypted with key k, more than 3"));
  CAF_CHECK(contains(run("show 2 --json").said, R"("gd.encrypted")"));
}

CAF_TEST(an instance is erased and whoever looks for it is told that it was) {
  CAF_CHECK_EQUAL(run("erase 2").code, 2);
  CAF_CHECK_EQUAL(run("erase --reason 'request 17'").code, 2);
  CAF_CHECK_EQUAL(run("erase 2 --machine Order --reason 'request 17'").code, 2);
  CAF_CHECK_EQUAL(run("erase 2 --reason ''").code, 2);
  CAF_CHECK_EQUAL(count("id = 2"), "1");
  auto x = run("erase 2 --reason 'request 17' --by ann");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK_EQUAL(x.said,
                  "{\"id\":2,\"seq\":0,\"status\":\"erased\",\"executed\":"
                  "false}\n");
  CAF_CHECK_EQUAL(count("id = 2"), "0");
  for (const auto* again :
       {"erase 2 --reason 'request 18'", "show 2", "stop 2"}) {
    x = run(again);
    CAF_CHECK_EQUAL(x.code, 5);
    CAF_CHECK(contains(x.said, "instance 2 was erased at 20"));
    CAF_CHECK(contains(x.said, "by ann: request 17"));
  }
  x = run("why 2");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK(contains(x.said, "Instance 2 was erased at 20"));
  CAF_CHECK(contains(run("why 2 --json").said, "\"cause\":\"erased\""));
  CAF_CHECK_EQUAL(run("erase 77 --reason 'request 17'").code, 5);
  db.rows("update gen_durable set unique_key = 'order 42', unique_scope ="
          " '{failed}' where id = 4");
  CAF_CHECK_EQUAL(run("erase --key 'order 42' --reason 'request 17'").code, 0);
  CAF_CHECK_EQUAL(count("id = 4"), "0");
  db.rows("update gen_durable set status = 'executing', locked_by = 'n/1/1', "
          "lease_expires_at = now() where id = 1");
  x = run("erase 1 --reason 'request 17'");
  CAF_CHECK_EQUAL(x.code, 1);
  CAF_CHECK(contains(x.said, "stop it first (gdctl stop 1)"));
  CAF_CHECK_EQUAL(run("check").code, 0);
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
  CAF_CHECK_EQUAL(run("move 1 --to slow --priority -3 --force").code, 0);
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
                  "{\"job\":1,\"examined\":5,\"fit\":5,\"refused\":0}\n");
  CAF_CHECK_EQUAL(count("status = 'failed'"), "5");
  x = run("retry --machine Order --failure 'no stock'");
  CAF_CHECK_EQUAL(x.code, 0);
  CAF_CHECK_EQUAL(x.said,
                  "{\"job\":2,\"examined\":5,\"changed\":5,\"refused\":0}\n");
  CAF_CHECK_EQUAL(count("status = 'failed'"), "0");
  CAF_CHECK_EQUAL(run("retry --machine Order --status done").code, 2);
}

CAF_TEST(a job that is killed says where it stands and goes on there) {
  const auto* more = std::getenv("GD_JOB_ROWS");
  auto rows = more != nullptr ? more : "4000"s;
  db.rows("insert into gen_durable (fsm, step, status) select 'Many', 'pay',"
          " 'failed' from generate_series(1, $1::int)",
          {rows});
  // Killed while a stranger keeps it from ending: in the middle of a batch.
  gd::test::session stranger{db.conninfo()};
  stranger.exec("begin");
  db.rows("create function stand() returns trigger language plpgsql as $$ begin"
          " perform pg_advisory_xact_lock(4711); return new; end $$;"
          " create trigger stand before update on gen_durable for each row when"
          " (old.id = 1900) execute function stand()");
  stranger.exec("select pg_advisory_xact_lock(4711)");
  auto pid = start("retry --machine Many --by ann");
  auto blocked = stranger.wait_until_someone_is_blocked();
  CAF_CHECK_EQUAL(kill(pid, SIGKILL), 0);
  CAF_CHECK_EQUAL(waitpid(pid, nullptr, 0), pid);
  db.rows("select pg_terminate_backend($1)", {std::to_string(blocked)});
  stranger.exec("commit");
  auto changed = db.scalar("select changed from gen_durable_jobs");
  CAF_CHECK_EQUAL(count("fsm = 'Many' and seq = 1"), changed);
  auto told = run("jobs --json").said;
  CAF_CHECK(contains(told, "\"changed\":" + changed + ","));
  CAF_CHECK(contains(told, "\"ended_at_us\":null"));
  CAF_CHECK(
    contains(run("jobs run 1").said, "\"changed\":" + rows + ",\"refused\":0"));
  CAF_CHECK_EQUAL(count("fsm = 'Many' and seq = 1 and status = 'runnable'"),
                  rows);
}

CAF_TEST(on a terminal a bar tells how far a job is) {
  auto said = run_on_terminal("stop --queue mail --reason x");
  CAF_CHECK(contains(said,
                     "[##############################] 100%  10 looked at,"
                     " 5 changed, 0 refused"));
  CAF_CHECK(!contains(run("retry --machine Order").said, "###"));
}

CAF_TEST(an upgrade of what no node has had is refused by name) {
  auto x = run("upgrade 1 --to-version 2");
  CAF_CHECK_EQUAL(x.code, 2);
  CAF_CHECK(contains(x.said, "to_version: expected a version of Order that "
                             "nodes have had (none), got 2"));
  CAF_CHECK_EQUAL(run("upgrade 1").code, 2);
  CAF_CHECK(contains(run("upgrade 1 --to-version 2 --map pay").said,
                     "--map: expected OLD=NEW, got pay"));
  CAF_CHECK_EQUAL(run("upgrade 77 --to-version 2").code, 5);
}

CAF_TEST(an upgrade that no node can do says so) {
  db.rows("insert into gen_durable_machines (fsm, version, initial_step, queue,"
          " steps) values ('Order', 2, 'pay', 'default', '{pay}')");
  CAF_CHECK(contains(run("upgrade 1 --to-version 2 --detach").said,
                     "job 1 waits: no node that lives has that version"));
  CAF_CHECK(contains(run("jobs").said, "waits for a node"));
  db.rows("insert into gen_durable_nodes (incarnation, node, host, process,"
          " library, lease, slots, queues, machines) values ('mill/7', 'mill',"
          " 'h', 1, '1', '1 min', 1, '[]', '[{\"name\": \"Order\","
          " \"version\": 2, \"from\": [1]}]');"
          " select pg_advisory_lock(hashtext('gen_durable node'),"
          " hashtext('mill/7'))");
  CAF_CHECK(contains(run("upgrade 1 --to-version 2 --detach").said,
                     "job 2 is done by node mill"));
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

CAF_TEST(
  a check ends with 1 while sequences stand behind and a repair moves them) {
  auto said = run("check");
  CAF_CHECK_EQUAL(said.code, 0);
  CAF_CHECK_EQUAL(said.said, "nothing is wrong\n");
  db.rows("select setval('gen_durable_id_seq', 1, false)");
  auto refused = run("insert Order --step pay --queue mail");
  CAF_CHECK_EQUAL(refused.code, 1);
  CAF_CHECK(contains(refused.said, "\"gdctl check --repair\""));
  CAF_CHECK_EQUAL(count("true"), "10");
  said = run("check");
  CAF_CHECK_EQUAL(said.code, 1);
  CAF_CHECK(contains(said.said, "the highest id there is 10:"));
  said = run("check --repair");
  CAF_CHECK_EQUAL(said.code, 0);
  CAF_CHECK(contains(said.said, "was moved from"));
  CAF_CHECK(contains(said.said, "nothing is wrong"));
  CAF_CHECK_EQUAL(run("check").code, 0);
  CAF_CHECK(
    contains(run("insert Order --step pay --queue mail").said, "\"id\":11"));
  // What it cannot mend is left, and said.
  db.rows("alter table gen_durable disable trigger gen_durable_changed");
  said = run("check --repair");
  CAF_CHECK_EQUAL(said.code, 1);
  CAF_CHECK(contains(said.said, "enable trigger gen_durable_changed"));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace gdctl_operate_suite
