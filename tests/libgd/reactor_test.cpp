#define CAF_SUITE reactor

#include <gd/pq/complaints.hpp>
#include <gd/pq/reactor.hpp>
#include <gd/sql.hpp>
#include <gd/store/store.hpp>

#include <support/database.hpp>

#include <caf/test/dsl.hpp>

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace reactor_suite {

using namespace std::literals;

namespace {

/// A name that does not exist, and whose look-up takes as long as a test says.
constexpr auto slow_name = "nowhere.invalid";

class name_service {
public:
  /// All look-ups but so many.
  void hold(int passes = 0) {
    std::lock_guard guard{mutex_};
    held_ = true;
    passes_ = passes;
  }

  void let_go() {
    std::lock_guard guard{mutex_};
    held_ = false;
    changed_.notify_all();
  }

  bool wait_for_look_up() {
    std::unique_lock guard{mutex_};
    return changed_.wait_for(guard, gd::test::patience,
                             [this] { return waiting_ > 0; });
  }

  /// In a look-up.
  void pass() {
    std::unique_lock guard{mutex_};
    if (passes_ > 0) {
      --passes_;
      return;
    }
    ++waiting_;
    changed_.notify_all();
    changed_.wait(guard, [this] { return !held_; });
    --waiting_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int waiting_ = 0;
  int passes_ = 0;
};

name_service names;

} // namespace

/// Instead of the C library's: libpq looks up names here.
extern "C" int getaddrinfo(const char* node, const char* service,
                           const addrinfo* hints, addrinfo** found) {
  if (node != nullptr && std::string_view{node} == slow_name) {
    names.pass();
    return EAI_NONAME;
  }
  using function = int (*)(const char*, const char*, const addrinfo*,
                           addrinfo**);
  static const auto next = reinterpret_cast<function>(
    dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(node, service, hints, found);
}

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;

using gd::test::session;
using gd::test::temporary_database;

constexpr sql::statement append_number{
  "append_number",
  "insert into public.numbers (n) values ($1::bigint) returning n"};
constexpr sql::statement divide{"divide", "select 1 / $1::bigint"};
constexpr sql::statement length{"length", "select length($1::text)::bigint"};
constexpr sql::statement wait_for_lock{
  "wait_for_lock", "select pg_advisory_xact_lock($1::bigint)"};

pq::call call(const sql::statement& what, std::int64_t argument) {
  pq::call x{&what, {}};
  x.args.add(argument);
  return x;
}

/// Everything that a reactor tells, waited for.
class notes {
public:
  /// A callback that keeps its reply as number `n`.
  gd::database::callback reply(std::int64_t n) {
    return [this, n](pq::reply x) {
      change([&] { replies_.emplace_back(n, std::move(x)); });
    };
  }

  gd::event_sink sink() {
    return [this](const gd::event& x) {
      change([&] {
        if (const auto* up = std::get_if<gd::events::connected>(&x))
          backends_.push_back(up->backend);
        else if (std::holds_alternative<gd::events::disconnected>(x))
          ++disconnected_;
      });
    };
  }

  gd::reactor::fatal_callback fatal() {
    return
      [this](gd::error x) { change([&] { fatal_.push_back(std::move(x)); }); };
  }

  /// The replies, when there are so many.
  std::vector<std::pair<std::int64_t, pq::reply>> replies(std::size_t count) {
    wait([=, this] { return replies_.size() >= count; });
    std::lock_guard guard{mutex_};
    return replies_;
  }

  pq::reply only_reply() {
    return replies(1).front().second;
  }

  std::vector<std::int64_t> backends(std::size_t count) {
    wait([=, this] { return backends_.size() >= count; });
    std::lock_guard guard{mutex_};
    return backends_;
  }

  std::vector<gd::error> fatal_errors(std::size_t count) {
    wait([=, this] { return fatal_.size() >= count; });
    std::lock_guard guard{mutex_};
    return fatal_;
  }

  void wait_until_disconnected() {
    wait([this] { return disconnected_ > 0; });
  }

  int disconnected() {
    std::lock_guard guard{mutex_};
    return disconnected_;
  }

private:
  template <class F>
  void change(F f) {
    {
      std::lock_guard guard{mutex_};
      f();
    }
    changed_.notify_all();
  }

  void wait(const std::function<bool()>& until) {
    std::unique_lock guard{mutex_};
    CAF_REQUIRE(changed_.wait_for(guard, gd::test::patience, until));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::int64_t, pq::reply>> replies_;
  std::vector<std::int64_t> backends_;
  std::vector<gd::error> fatal_;
  int disconnected_ = 0;
};

gd::errc code(const pq::reply& x) {
  return x.failure ? x.failure->code : gd::errc{};
}

struct fixture {
  temporary_database db;
  notes seen;
  std::unique_ptr<gd::reactor> tested;

  fixture() {
    db.migrate();
    db.rows("create table numbers (position int generated always as identity, "
            "n bigint)");
  }

  void start(std::size_t slots = 1) {
    start(slots, db.options());
  }

  void start(std::size_t slots, pq::options opts) {
    tested = std::make_unique<gd::reactor>(std::move(opts), slots, seen.sink(),
                                           seen.fatal());
  }

  /// The test's server, after a host whose name is looked up in vain.
  pq::options behind_slow_name() {
    auto opts = db.options();
    session any{db.conninfo()};
    auto host = any.scalar("select split_part(setting, ', ', 1) from "
                           "pg_settings where name = "
                           "'unix_socket_directories'");
    opts.database += " host=" + std::string{slow_name} + "," + host;
    return opts;
  }

  void submit(std::int64_t n, pq::unit work, std::size_t slot = 0,
              gd::database::patience patience = 1min) {
    tested->submit(slot, std::move(work), seen.reply(n), patience);
  }

  std::string numbers() {
    return db.scalar("select coalesce(string_agg(n::text, ' ' order by "
                     "position), '') from numbers");
  }
};

/// Makes `wait_for_lock(5)` wait.
struct held_lock {
  explicit held_lock(temporary_database& db) : stranger(db.conninfo()) {
    stranger.exec("select pg_advisory_lock(5)");
  }

  void let_go() {
    stranger.exec("select pg_advisory_unlock(5)");
  }

  session stranger;
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(reactor_tests, fixture)

CAF_TEST(units of a connection slot run in the order of their submission) {
  start();
  std::string expected;
  for (std::int64_t n = 1; n <= 200; ++n) {
    submit(n, {{call(append_number, n)}, n % 2 == 0});
    expected += (n > 1 ? " " : "") + std::to_string(n);
  }
  auto replies = seen.replies(200);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    CAF_CHECK_EQUAL(replies[i].first, static_cast<std::int64_t>(i) + 1);
    CAF_REQUIRE(replies[i].second.ok());
    CAF_CHECK_EQUAL(replies[i].second.results.size(), 1u);
    CAF_CHECK_EQUAL(replies[i].second.results.front().integer(0, 0),
                    replies[i].first);
  }
  CAF_CHECK_EQUAL(numbers(), expected);
  CAF_CHECK(tested->connected_since(0).has_value());
}

CAF_TEST(an idle connection does not wait for the reactor to be woken) {
  start(2);
  seen.backends(2);
  std::promise<void> held_up, go_on;
  tested->submit(
    0, {{call(append_number, 1)}},
    [&](pq::reply) {
    held_up.set_value();
    go_on.get_future().wait();
    },
    1min);
  held_up.get_future().wait();
  // Its thread is held up, and yet:
  submit(2, {{call(append_number, 2)}}, 1);
  submit(3, {{call(append_number, 3)}}, 0);
  auto deadline = std::chrono::steady_clock::now() + gd::test::patience;
  while (db.scalar("select count(*) from numbers") != "3") {
    CAF_REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
  submit(4, {{call(append_number, 4)}}, 1); // behind an answer not yet read
  go_on.set_value();
  for (const auto& [n, x] : seen.replies(3)) {
    CAF_REQUIRE(x.ok());
    CAF_CHECK_EQUAL(x.results.front().integer(0, 0), n);
  }
  CAF_CHECK_EQUAL(db.scalar("select count(*) from numbers"), "4");
}

CAF_TEST(a unit larger than the buffers of the socket is written to its end) {
  start();
  seen.backends(1);
  pq::call large{&length, {}};
  large.args.add(std::string(32 << 20, 'x'));
  submit(1, {{large}});
  auto reply = seen.only_reply();
  CAF_REQUIRE(reply.ok());
  CAF_CHECK_EQUAL(reply.results.front().integer(0, 0), 32 << 20);
}

CAF_TEST(a server that stops answering is given up though nobody was woken) {
  auto opts = db.options();
  opts.statement_timeout = 3s; // the next connection has it, too
  start(1, opts);
  auto backend = static_cast<pid_t>(seen.backends(1).front());
  CAF_REQUIRE_EQUAL(kill(backend, SIGSTOP), 0);
  submit(1, {{call(append_number, 1)}});
  auto code_seen = code(seen.only_reply());
  kill(backend, SIGCONT);
  CAF_CHECK(code_seen == gd::errc::unknown_fate);
  submit(2, {{call(append_number, 2)}});
  CAF_CHECK(seen.replies(2).back().second.ok());
}

CAF_TEST(connection slots do not wait for each other) {
  held_lock held{db};
  start(2);
  submit(1, {{call(wait_for_lock, 5)}}, 0);
  held.stranger.wait_until_someone_is_blocked();
  submit(2, {{call(append_number, 2)}}, 1);
  auto replies = seen.replies(1);
  CAF_CHECK_EQUAL(replies.front().first, 2);
  held.let_go();
  replies = seen.replies(2);
  CAF_CHECK_EQUAL(replies.back().first, 1);
}

CAF_TEST(a unit that fails leaves nothing behind and the next one is fine) {
  start();
  submit(1,
         {{call(append_number, 1), call(divide, 0), call(append_number, 1)}});
  submit(2, {{call(divide, 1), call(append_number, 2)}});
  submit(3, {{call(divide, 0)}, false});
  submit(4, {{call(append_number, 4)}, false});
  auto replies = seen.replies(4);
  CAF_CHECK(code(replies[0].second) == gd::errc::rejected);
  CAF_CHECK_EQUAL(replies[0].second.failure->sqlstate, "22012"s);
  CAF_CHECK_EQUAL(replies[0].second.failed_call, 1u);
  CAF_CHECK(replies[0].second.results.empty());
  CAF_CHECK(replies[1].second.ok());
  CAF_CHECK_EQUAL(replies[1].second.results.size(), 2u);
  CAF_CHECK(code(replies[2].second) == gd::errc::rejected);
  CAF_CHECK(replies[3].second.ok());
  CAF_CHECK_EQUAL(numbers(), "2 4");
  CAF_CHECK_EQUAL(seen.backends(1).size(), 1u);
}

CAF_TEST(a unit may run a statement twice the first time as well) {
  start();
  submit(1, {{call(append_number, 1), call(append_number, 2)}});
  CAF_CHECK(seen.only_reply().ok());
  CAF_CHECK_EQUAL(numbers(), "1 2");
}

CAF_TEST(
  a connection that dies in the middle of a unit leaves its fate unknown) {
  held_lock held{db};
  start();
  submit(1, {{call(append_number, 1), call(wait_for_lock, 5)}});
  submit(2, {{call(append_number, 2)}});
  auto victim = held.stranger.wait_until_someone_is_blocked();
  held.stranger.terminate(victim);
  auto replies = seen.replies(2);
  CAF_CHECK_EQUAL(replies[0].first, 1);
  CAF_CHECK(code(replies[0].second) == gd::errc::unknown_fate);
  // What waited goes over the next connection.
  CAF_CHECK(replies[1].second.ok());
  auto backends = seen.backends(2);
  CAF_CHECK_EQUAL(backends[0], victim);
  CAF_CHECK_NOT_EQUAL(backends[1], victim);
  CAF_CHECK_EQUAL(numbers(), "2");
}

CAF_TEST(a connection that dies idle is replaced before anybody needs it) {
  start();
  auto victim = seen.backends(1).front();
  auto since = tested->connected_since(0);
  session{db.conninfo()}.terminate(victim);
  seen.backends(2);
  submit(1, {{call(append_number, 1)}});
  CAF_CHECK(seen.only_reply().ok());
  CAF_CHECK(tested->connected_since(0) != since);
}

CAF_TEST(without a server a unit waits for its patience and is not sent) {
  auto opts = db.options();
  opts.database = "host=/nowhere/to/be/found";
  start(1, opts);
  submit(1, {{call(append_number, 1)}}, 0, 2s);
  submit(2, {{call(append_number, 2)}}, 0, 0ms);
  auto replies = seen.replies(2);
  for (const auto& [n, x] : replies)
    CAF_CHECK(code(x) == gd::errc::unavailable);
  CAF_CHECK_EQUAL(replies[0].first, 2);
  CAF_CHECK(!tested->connected_since(0));
  seen.wait_until_disconnected();
}

CAF_TEST(a server that does not answer is no server) {
  auto listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  CAF_REQUIRE_EQUAL(bind(listener, raw, size), 0);
  CAF_REQUIRE_EQUAL(listen(listener, 10), 0);
  CAF_REQUIRE_EQUAL(getsockname(listener, raw, &size), 0);
  auto opts = db.options();
  opts.database = "host=127.0.0.1 port="
                  + std::to_string(ntohs(address.sin_port));
  opts.connect_timeout = 30ms;
  start(1, opts);
  seen.wait_until_disconnected();
  submit(1, {{call(append_number, 1)}}, 0, 50ms);
  CAF_CHECK(code(seen.only_reply()) == gd::errc::unavailable);
  tested.reset();
  close(listener);
}

CAF_TEST(
  patience ends behind other units as well and what it ends is not sent) {
  held_lock held{db};
  start();
  seen.backends(1);
  submit(1, {{call(wait_for_lock, 5)}});
  held.stranger.wait_until_someone_is_blocked();
  submit(2, {{call(append_number, 2)}});
  submit(3, {{call(append_number, 3)}}, 0, 2s);
  submit(4, {{call(append_number, 4)}}, 0, 1ms);
  auto replies = seen.replies(2);
  CAF_CHECK_EQUAL(replies[0].first, 4);
  CAF_CHECK_EQUAL(replies[1].first, 3);
  for (const auto& [n, x] : replies)
    CAF_CHECK(code(x) == gd::errc::unavailable);
  held.let_go();
  for (const auto& [n, x] : seen.replies(4))
    CAF_CHECK_EQUAL(x.ok(), n < 3);
  CAF_CHECK_EQUAL(numbers(), "2");
}

CAF_TEST(who waits in vain is told why there is no connection) {
  auto opts = db.options();
  opts.database = db.conninfo("nobody");
  start(1, opts);
  seen.wait_until_disconnected();
  submit(1, {{call(append_number, 1)}}, 0, 10ms);
  auto reply = seen.only_reply();
  CAF_CHECK(code(reply) == gd::errc::unavailable);
  CAF_CHECK(reply.failure->message.find("\"nobody\" does not exist")
            != std::string::npos);
}

CAF_TEST(the impatient wait for no connection and go on with those they have) {
  start(1);
  seen.backends(1);
  tested->be_impatient();
  submit(1, {{call(append_number, 1)}});
  CAF_CHECK(seen.only_reply().ok());
  auto opts = db.options();
  opts.database = "host=/nowhere/to/be/found";
  start(1, opts);
  submit(2, {{call(append_number, 2)}});
  tested->be_impatient();
  submit(3, {{call(append_number, 3)}});
  for (const auto& [n, x] : seen.replies(3))
    CAF_CHECK_EQUAL(x.ok(), n == 1);
}

CAF_TEST(the impatient wait for a first connection on demand where others are) {
  start(1);
  seen.backends(1);
  submit(1, {{call(append_number, 1)}}, 1);
  tested->be_impatient();
  CAF_CHECK(seen.only_reply().ok());
}

CAF_TEST(what keeps all connections from being made is told once) {
  auto opts = db.options();
  opts.database = db.conninfo("nobody");
  tested = std::make_unique<gd::reactor>(opts, 4, seen.sink(), seen.fatal(),
                                         50ms, gd::reactor::greeting{}, 500ms);
  submit(1, {{call(append_number, 1)}});
  auto why = seen.fatal_errors(1).front();
  CAF_CHECK(why.code == gd::errc::unavailable);
  CAF_CHECK(why.message.starts_with("no connection within 500 ms: "));
  CAF_CHECK(why.message.find("\"nobody\" does not exist") != std::string::npos);
  auto reply = seen.only_reply();
  CAF_CHECK_EQUAL(reply.failure->message, why.message);
  tested->stop();
  CAF_CHECK_EQUAL(seen.disconnected(), 1);
  CAF_CHECK_EQUAL(seen.fatal_errors(1).size(), 1u);
}

CAF_TEST(who has been connected is not given up) {
  tested = std::make_unique<gd::reactor>(
    db.options(), 1, seen.sink(), seen.fatal(), 50ms, gd::reactor::greeting{},
    gd::test::patience);
  session{db.conninfo()}.terminate(seen.backends(1).front());
  seen.backends(2);
  session{db.conninfo()}.exec("select pg_sleep(0.1)");
  submit(1, {{call(append_number, 1)}});
  CAF_CHECK(seen.only_reply().ok());
}

CAF_TEST(reasons are told at growing intervals) {
  gd::complaints tested_here;
  gd::complaints::clock::time_point now{};
  std::vector<std::int64_t> told;
  for (int minute = 0; minute < 240; ++minute) {
    if (tested_here.note("down", now) > 0)
      told.push_back(minute);
    now += 1min;
  }
  CAF_CHECK(told
            == (std::vector<std::int64_t>{0, 1, 3, 7, 15, 31, 63, 123, 183}));
  CAF_CHECK_EQUAL(tested_here.note("another", now), 1u);
  tested_here.forget();
  CAF_CHECK_EQUAL(tested_here.note("down", now), 1u);
}

CAF_TEST(while a name is being looked up other connections work) {
  names.hold(1);
  start(2, behind_slow_name());
  CAF_REQUIRE(names.wait_for_look_up());
  submit(0, {{call(append_number, 0)}}, 0);
  submit(1, {{call(append_number, 1)}}, 1);
  auto first = seen.only_reply();
  CAF_CHECK(first.ok());
  names.let_go();
  for (const auto& [n, x] : seen.replies(2))
    CAF_CHECK(x.ok());
}

CAF_TEST(a stop does not wait for the look-up of a name) {
  names.hold();
  start(1, behind_slow_name());
  CAF_REQUIRE(names.wait_for_look_up());
  submit(1, {{call(append_number, 1)}});
  tested->stop();
  CAF_CHECK(code(seen.only_reply()) == gd::errc::stopped);
  tested.reset();
  names.let_go();
}

CAF_TEST(the connection slot on demand has a connection for as long as it has work) {
  start(1);
  auto first = seen.backends(1);
  CAF_CHECK_EQUAL(first.size(), 1u);
  submit(1, {{call(append_number, 1)}}, 1);
  submit(2, {{call(append_number, 2)}}, 1);
  for (const auto& [n, x] : seen.replies(2))
    CAF_CHECK(x.ok());
  db.wait_until("select count(*) from pg_stat_activity where datname = "
                "current_database() and application_name like 'gen_durable%'",
                "1");
  submit(3, {{call(append_number, 3)}}, 1);
  CAF_CHECK(seen.replies(3).back().second.ok());
}

CAF_TEST(a limit of the role on idle sessions ends none of ours) {
  db.rows("alter role current_user in database "
          + gd::test::quoted_name(db.name())
          + " set idle_session_timeout = '50ms'");
  start(1);
  auto backend = seen.backends(1).front();
  // Longer than the limit: it would be gone.
  db.rows("select pg_sleep(0.2)");
  submit(1, {{call(append_number, 1)}});
  CAF_CHECK(seen.only_reply().ok());
  CAF_CHECK_EQUAL(db.scalar("select count(*) from pg_stat_activity where pid "
                            "= $1::int",
                            {std::to_string(backend)}),
                  "1");
}

CAF_TEST(a role whose transactions are read - only by default writes) {
  db.rows("alter role current_user in database "
          + gd::test::quoted_name(db.name())
          + " set default_transaction_read_only = on");
  start(1);
  submit(1, {{call(append_number, 1)}});
  submit(2, {{call(append_number, 2)}, false});
  for (const auto& [n, x] : seen.replies(2))
    CAF_CHECK(x.ok());
}

CAF_TEST(a stop lets everything end that ends in time) {
  start();
  seen.backends(1);
  for (std::int64_t n = 1; n <= 50; ++n)
    submit(n, {{call(append_number, n)}});
  tested->stop(gd::test::patience);
  auto replies = seen.replies(50);
  CAF_CHECK_EQUAL(replies.size(), 50u);
  for (const auto& [n, x] : replies)
    CAF_CHECK(x.ok());
  CAF_CHECK_EQUAL(db.scalar("select count(*) from numbers"), "50");
}

CAF_TEST(a stop answers everything exactly once) {
  held_lock held{db};
  start(2);
  submit(1, {{call(wait_for_lock, 5)}}, 0);
  held.stranger.wait_until_someone_is_blocked();
  for (std::int64_t n = 2; n <= 20; ++n)
    submit(n, {{call(append_number, n)}}, 0);
  tested->stop(10ms);
  submit(21, {{call(append_number, 21)}}, 0);
  submit(22, {{call(append_number, 22)}}, 1);
  tested->stop();
  tested.reset();
  auto replies = seen.replies(22);
  CAF_CHECK_EQUAL(replies.size(), 22u);
  for (const auto& [n, x] : replies)
    CAF_CHECK(code(x) == (n == 1 ? gd::errc::unknown_fate : gd::errc::stopped));
  CAF_CHECK_EQUAL(numbers(), "");
}

CAF_TEST(a stop before there is a connection answers what waits) {
  auto opts = db.options();
  opts.database = "host=/nowhere/to/be/found";
  start(1, opts);
  submit(1, {{call(append_number, 1)}});
  tested->stop();
  CAF_CHECK(code(seen.only_reply()) == gd::errc::stopped);
}

CAF_TEST(a missing schema is told once and is the answer to everything) {
  auto opts = db.options();
  opts.schema = "elsewhere";
  start(3, opts);
  submit(1, {{call(append_number, 1)}}, 0);
  CAF_CHECK(code(seen.only_reply()) == gd::errc::schema_mismatch);
  for (std::int64_t n = 2; n <= 4; ++n)
    submit(n, {{call(append_number, n)}}, static_cast<std::size_t>(n) - 2);
  for (const auto& [n, x] : seen.replies(4))
    CAF_CHECK(code(x) == gd::errc::schema_mismatch);
  tested->stop();
  auto fatal = seen.fatal_errors(1);
  CAF_CHECK_EQUAL(fatal.size(), 1u);
  CAF_CHECK(fatal.front().message.find("elsewhere") != std::string::npos);
}

CAF_TEST(what waits for the first connection is told of a missing schema at once) {
  auto opts = db.options();
  opts.schema = "elsewhere";
  start(1, opts);
  // Before or after: with one connection slot nothing else wakes the reactor.
  for (std::int64_t n = 1; n <= 20; ++n)
    submit(n, {{call(append_number, n)}});
  for (const auto& [n, x] : seen.replies(20))
    CAF_CHECK(code(x) == gd::errc::schema_mismatch);
}

CAF_TEST(a connection string that is none is told once) {
  auto opts = db.options();
  opts.database = "no=thing";
  start(2, opts);
  submit(1, {{call(append_number, 1)}});
  CAF_CHECK(code(seen.only_reply()) == gd::errc::invalid_argument);
  tested->stop();
  CAF_CHECK_EQUAL(seen.fatal_errors(1).size(), 1u);
}

CAF_TEST(
  a schema that is replaced is told and what runs elsewhere gets its answer) {
  held_lock held{db};
  start(2);
  seen.backends(2);
  submit(1, {{call(wait_for_lock, 5)}}, 0);
  auto working = held.stranger.wait_until_someone_is_blocked();
  submit(2, {{call(append_number, 2)}}, 0);
  db.note_version(99, 99);
  for (auto backend : seen.backends(2))
    if (backend != working)
      held.stranger.terminate(backend);
  CAF_CHECK(seen.fatal_errors(1).front().code == gd::errc::schema_mismatch);
  CAF_CHECK(code(seen.replies(1).front().second) == gd::errc::schema_mismatch);
  held.let_go();
  auto replies = seen.replies(2);
  CAF_CHECK_EQUAL(replies.back().first, 1);
  CAF_CHECK(replies.back().second.ok());
  submit(3, {{call(append_number, 3)}}, 0);
  CAF_CHECK(code(seen.replies(3).back().second) == gd::errc::schema_mismatch);
  tested->stop();
  CAF_CHECK_EQUAL(seen.fatal_errors(1).size(), 1u);
  CAF_CHECK_EQUAL(numbers(), "");
}

CAF_TEST(
  many threads submit and each unit is answered once with its own result) {
  start(3);
  constexpr int threads = 8;
  constexpr int each = 100;
  std::vector<std::thread> submitters;
  for (int t = 0; t < threads; ++t)
    submitters.emplace_back([this, t] {
      for (int i = 0; i < each; ++i) {
        std::int64_t n = t * each + i;
        submit(n, {{call(append_number, n)}}, static_cast<std::size_t>(i % 3));
      }
    });
  for (auto& x : submitters)
    x.join();
  std::vector<int> answered(threads * each);
  for (const auto& [n, x] : seen.replies(threads * each)) {
    CAF_REQUIRE(x.ok());
    CAF_CHECK_EQUAL(x.results.front().integer(0, 0), n);
    ++answered[static_cast<std::size_t>(n)];
  }
  CAF_CHECK(answered == std::vector<int>(threads * each, 1));
  CAF_CHECK_EQUAL(db.scalar("select count(distinct n) from numbers"),
                  std::to_string(threads * each));
  // Each thread's units of a connection slot in the order of their submission.
  for (int t = 0; t < threads; ++t)
    for (int slot = 0; slot < 3; ++slot)
      CAF_CHECK_EQUAL(
        db.scalar(
          "select count(*) from (select n, lag(n) over (order by "
          "position) as before from numbers where n / $1::int = "
          "$2::int and n % $1::int % 3 = $3::int) x where n < before",
          {std::to_string(each), std::to_string(t), std::to_string(slot)}),
        "0");
}

CAF_TEST(a callback may submit the next unit) {
  start();
  std::function<void(std::int64_t)> go_on = [&](std::int64_t n) {
    tested->submit(
      0, {{call(append_number, n)}},
      [this, n, &go_on](pq::reply x) {
      if (n < 20)
        go_on(n + 1);
      else
        seen.reply(n)(std::move(x));
      },
      1min);
  };
  go_on(1);
  CAF_CHECK(seen.only_reply().ok());
  CAF_CHECK_EQUAL(db.scalar("select count(*) from numbers"), "20");
}

CAF_TEST(alarms are rung in the order of their times and may set others) {
  start();
  std::mutex mutex;
  std::vector<int> rung;
  std::vector<std::chrono::steady_clock::time_point> at;
  std::promise<void> last;
  auto began = std::chrono::steady_clock::now();
  auto ring = [&](int n) {
    std::lock_guard guard{mutex};
    rung.push_back(n);
    at.push_back(std::chrono::steady_clock::now());
  };
  tested->after(40ms, [&] {
    ring(3);
    tested->after(20ms, [&] {
      ring(4);
      last.set_value();
    });
  });
  tested->after(20ms, [&] { ring(2); });
  tested->after(0ms, [&] { ring(1); });
  last.get_future().wait();
  std::lock_guard guard{mutex};
  CAF_CHECK_EQUAL(rung, (std::vector{1, 2, 3, 4}));
  CAF_CHECK(at[1] - began >= 20ms && at[2] - began >= 40ms
            && at[3] - at[2] >= 20ms);
}

CAF_TEST(an alarm needs no connection and none is rung after a stop) {
  auto opts = db.options();
  opts.database = "host=/nowhere/to/be/found";
  start(1, opts);
  std::promise<void> rung;
  tested->after(1ms, [&] { rung.set_value(); });
  rung.get_future().wait();
  auto kept = std::make_shared<int>(0);
  tested->after(1h, [kept] { ++*kept; });
  tested->stop();
  tested->after(0ms, [kept] { ++*kept; });
  tested.reset();
  CAF_CHECK_EQUAL(*kept, 0);
  CAF_CHECK_EQUAL(kept.use_count(), 1);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace reactor_suite
