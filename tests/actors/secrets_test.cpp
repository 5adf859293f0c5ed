// Whatever goes wrong, no line that is logged tells a password, or what users
// keep in states, signals, keys and results. What they throw is told.

#define CAF_SUITE secrets

#include "actors/harness.hpp"

#include <gd/actors/async.hpp>
#include <gd/log.hpp>

#include <caf/test/unit_test.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <poll.h>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace secrets_suite {

using namespace gd::test;
using gd::errc;
namespace events = gd::events;

namespace {

/// In every secret of this file; as bytea shows it, too.
const std::string marker = "s3cr3t";
const std::string marker_in_hex = "733363723374";
const std::string password = "hunter2";

void need(bool yes, const std::string& what) {
  if (!yes)
    throw std::runtime_error{"not seen: " + what};
}

/// What the whole process writes, CAF and libpq included.
class captured_output {
public:
  captured_output() {
    std::fflush(nullptr);
    std::cout.flush();
    std::cerr.flush();
    for (int fd : {1, 2}) {
      kept_[fd] = dup(fd);
      dup2(fileno(file_), fd);
    }
  }

  ~captured_output() {
    restore();
  }

  void restore() {
    std::fflush(nullptr);
    std::cout.flush();
    std::cerr.flush();
    for (auto [fd, kept] : std::exchange(kept_, {})) {
      dup2(kept, fd);
      close(kept);
    }
  }

  /// Runs what is captured; why it throws is told outside.
  template <class F>
  void guard(F body) {
    try {
      body();
    } catch (const std::exception& why) {
      restore();
      auto said = text();
      CAF_FAIL(
        why.what() << " after\n"
                   << said.substr(said.size()
                                  - std::min<std::size_t>(said.size(), 3'000)));
    }
  }

  std::string text() const {
    std::string out(static_cast<std::size_t>(lseek(fileno(file_), 0, SEEK_END)),
                    '\0');
    auto n = pread(fileno(file_), out.data(), out.size(), 0);
    out.resize(static_cast<std::size_t>(std::max(n, ssize_t{0})));
    return out;
  }

  /// CAF prints by an actor of its own, and the log by a thread: what was said before
  /// is there now.
  void wait_for_printers(caf::actor_system& sys) {
    caf::scoped_actor self{sys};
    caf::aout(self) << "the end of what was said" << std::endl;
    gd::write_to_stderr("the end of the log\n");
    auto give_up = std::chrono::steady_clock::now() + patience;
    for (const auto* end : {"the end of what was said", "the end of the log"})
      while (text().find(end) == std::string::npos) {
        need(std::chrono::steady_clock::now() < give_up, end);
        poll(nullptr, 0, 1);
      }
  }

private:
  std::FILE* file_ = std::tmpfile();
  std::map<int, int> kept_;
};

/// The notes of a text that tell a secret, line by line.
std::string leaks(const std::string& text) {
  std::string out;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    for (const auto& secret : {marker, marker_in_hex, password})
      if (line.find(secret) != std::string::npos)
        out += line + "\n";
  return out;
}

std::string secret(const std::string& what) {
  return what + " " + marker;
}

/// Does what its state's note begins with.
gd::outcome act(probe_context& ctx) {
  auto& note = ctx.state.note;
  auto begins = [&](std::string_view word) { return note.starts_with(word); };
  if (begins("throw") || begins("rethrow"))
    throw std::runtime_error{"step's exception"};
  if (begins("stop"))
    return gd::stop("step's reason");
  if (begins("large"))
    return gd::done(word{std::string(1 << 20, 'x') + marker});
  if (begins("nul"))
    return gd::done(word{marker + '\0'});
  if (begins("await")) {
    auto said = ctx.peek_all("say");
    if (said.empty() && !ctx.timed_out())
      return gd::await("say", ctx.state)
        .timeout(note == "await short" ? 1ms : 1h);
    if (!ctx.timed_out())
      ctx.take<probe_state>("say"); // throws
    return gd::done(word{secret("result")});
  }
  if (begins("give")) { // to a trigger, which does not take it
    note = note.substr(5) + " " + marker;
    return gd::next(probe_step::second, ctx.state);
  }
  return gd::done(word{secret("result")});
}

gd::machine plain_machine(gate& slow) {
  probe x;
  x.first = act;
  x.third = [&](probe_context& ctx) -> gd::outcome {
    slow.pass();
    return gd::next(probe_step::second, ctx.state);
  };
  x.handler = [](const gd::failure& why, probe_context& ctx) -> gd::outcome {
    if (ctx.state.note.starts_with("rethrow"))
      throw std::runtime_error{"handler's exception"};
    return gd::stop(why.message());
  };
  return x;
}

/// Asynchronous steps that end in every way that there is.
gd::machine async_machine() {
  using context = gd::actors::async_context<probe_state>;
  auto run = [](const context& ctx) {
    auto* self = ctx.self;
    const auto& note = ctx->state.note;
    auto failing = [note]() -> caf::behavior {
      return {[=](int) -> caf::result<int> {
        return caf::make_error(caf::sec::runtime_error, "request's error");
      }};
    };
    if (note == "throw") {
      throw std::runtime_error{"starter's exception"};
    } else if (note == "throw later") {
      self->delayed_send(self, 1ms, 42);
      self->become([ctx](int) { throw std::runtime_error{"later exception"}; });
    } else if (note == "stranger") { // a message that nobody expects
      self->send(self, secret("message"));
      self->delayed_send(self, 10ms, 42);
      self->become([ctx](int) { ctx.finish(gd::done()); });
    } else if (note == "request") {
      self->request(self->spawn(failing), caf::infinite, 1).then([ctx](int) {
        ctx.finish(gd::done());
      });
    } else if (note == "quit") {
      self->quit(caf::make_error(caf::sec::runtime_error, "quitter's error"));
    } else if (note == "crash") {
      self->quit(caf::exit_reason::user_shutdown);
    }
  };
  return gd::define<probe_state, probe_step>("Async", 1)
    .step(probe_step::first, gd::actors::async(run))
    .step(probe_step::second, [](probe_context&) { return gd::done(); })
    .step(probe_step::third, {.blocking = true, .limit = 50ms},
          [](probe_context& ctx) -> gd::outcome {
            while (!ctx.stop_token().stop_requested())
              poll(nullptr, 0, 1);
            throw std::runtime_error{secret("late")};
          })
    .on_error([](const gd::failure& why, probe_context&) {
      return gd::stop(why.message());
    });
}

/// Refuses by messages that repeat what they refuse.
constexpr auto trigger = R"(
  create function picky() returns trigger language plpgsql as $$
  declare
    note text := new.state ->> 'note';
  begin
    if note like 'cast%' then perform note::int; end if;
    if note like 'json%' then perform note::json; end if;
    if note like 'raise%' then raise exception 'refused: %', new.state; end if;
    if note like 'check%' then
      raise exception 'refused: %', new.state using errcode = 'check_violation';
    end if;
    if note like 'reap%' and new.attempt > old.attempt then
      raise exception 'refused: %', new.state;
    end if;
    if note like 'pick%' and new.status = 'executing' then
      perform note::int;
    end if;
    if note like 'wake%' and old.status = 'awaiting_signal' then
      perform note::int;
    end if;
    return new;
  end $$;
  create trigger picky before update on gen_durable
    for each row execute function picky();
)";

struct fixture : engine_fixture {
  std::mutex mutex;
  std::string lines;
  std::set<std::size_t> kinds;

  /// Every event is described, and logged as programs do it.
  gd::event_sink sink() {
    return [this, keep = log.sink(),
            print = gd::log_to_stderr(gd::severity::debug)](const auto& what) {
      {
        std::lock_guard guard{mutex};
        lines += gd::describe(what) + "\n";
        kinds.insert(what.index());
      }
      print(what);
      keep(what);
    };
  }

  gd::config secret_options(std::vector<gd::machine> machines) {
    auto x = options(std::move(machines));
    x.database += " password=" + password;
    x.on_event = sink();
    return x;
  }

  std::string lines_so_far() {
    std::lock_guard guard{mutex};
    return lines;
  }

  template <class T>
  void wait_for(std::size_t count = 1) {
    need(log.wait_for<T>(count), typeid(T).name());
  }

  /// A row of a machine's step whose state is that note.
  std::int64_t put(const std::string& note, const std::string& fsm = "Probe",
                   const std::string& step = "first") {
    return std::stoll(
      db.scalar("insert into gen_durable (fsm, step, state) values ($1, $2, "
                "jsonb_build_object('note', $3::text)) returning id",
                {fsm, step, note}));
  }

  /// A row of the probe with more columns.
  void put_with(const std::string& note, const std::string& columns,
                const std::string& values) {
    db.rows("insert into gen_durable (fsm, step, state, " + columns
              + ") values ('Probe', 'first', jsonb_build_object('note', "
                "$1::text), "
              + values + ")",
            {note});
  }

  void check_nothing_leaked(const std::string& output) {
    CAF_CHECK_EQUAL(leaks(lines), "");
    CAF_CHECK_EQUAL(leaks(output), "");
    // Its first check sees what there is.
    CAF_CHECK(!lines.empty() && output.size() > lines.size());
    CAF_CHECK_NOT_EQUAL(leaks(secret("x")), "");
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(secrets_tests, fixture)

CAF_TEST(nothing that steps and the database refuse is logged with its data) {
  captured_output output;
  output.guard([&] {
    gate slow;
    db.rows(trigger);
    std::vector<std::string> notes{"throw",      "rethrow",     "stop",
                                   "large",      "nul",         "await short",
                                   "give cast",  "give json",   "give raise",
                                   "give check", "done at once"};
    for (const auto& note : notes)
      put(note);
    db.rows("insert into gen_durable (fsm, step, state) values ('Probe', "
            "'first', '{\"n\": \"s3cr3t\"}'), ('Probe', 'nowhere', '{}')");
    std::vector<std::string> async{"throw", "throw later", "stranger",
                                   "request", "quit"};
    for (const auto& note : async)
      put(note, "Async");
    put("over its limit", "Async", "third");
    auto crashing = put("crash", "Async");
    auto engine = start(secret_options({plain_machine(slow), async_machine()}));
    wait_until_count("status in ('done', 'failed')",
                     static_cast<int>(notes.size() + 2 + async.size() + 1));
    need(std::stoi(count("last_error like '%s3cr3t%'")) == 4,
         "errors in the table");
    wait_for<events::instance_failed>(std::stoul(count("status = 'failed'")));
    for (const auto* told :
         {"step's exception", "step's reason", "handler's exception",
          "starter's exception", "later exception", "request's error",
          "quitter's error"})
      need(lines_so_far().find(told) != std::string::npos, told);
    wait_for<events::outcome_refused>(4);
    wait_for<events::step_crashed>();
    wait_for<events::step_returned_late>();
    db.rows("update gen_durable set status = 'done' where id = $1::bigint",
            {std::to_string(crashing)});
    wait_for<events::deadlines_fired>();

    // A signal that does not decode; keys; and what the gateway refuses.
    gd::insert row{.fsm = "Probe",
                   .state = gd::to_json(probe_state{0, "await long"}),
                   .partition_key = secret("partition"),
                   .unique_key = secret("unique")};
    auto first = ask<gd::inserted>(engine, row);
    need(first && ask<gd::inserted>(engine, row)->duplicate, "a duplicate");
    wait_until_count("status = 'awaiting_signal'", 1);
    for (const auto& payload :
         {R"({"n": "s3cr3t"})", R"({"n": 1)", "\"\\u0000"})
      static_cast<void>(ask<gd::signalled>(
        engine,
        gd::signal{first->id, "say", gd::json::raw(payload), secret("dedup")}));
    wait_until_count("unique_key is not null and status = 'failed'", 1);
    static_cast<void>(ask<gd::signalled>(
      engine, gd::signal{first->id, "say", {}, secret("d")}));
    row.state = gd::json::raw(R"({"s3cr3t": "s3cr3t"})");
    static_cast<void>(ask<gd::inserted>(engine, row));
    row.unique_key = std::string(2'000, 'x') + marker;
    static_cast<void>(ask<gd::inserted>(engine, row));
    // Somebody has found an actor's plain handle.
    for (const auto& text : {secret("a message"), secret("another")})
      caf::anon_send(caf::actor_cast<caf::actor>(engine.gateway()), text);

    // A row that comes back to a key that is another's; one whose session is
    // still there; a lease that is lost.
    put_with("collides",
             "unique_key, unique_scope, status, locked_by, lease_expires_at",
             "'s3cr3t', '{runnable}', 'executing', 's3cr3t/1/1', now() - "
             "interval '1 s'");
    put_with("has the key", "queue, unique_key, unique_scope",
             "'nobody''s', 's3cr3t', '{runnable}'");
    wait_for<events::returned>();
    session dead{db.conninfo()};
    dead.exec("select pg_advisory_lock(hashtext('dead s3cr3t'))");
    db.add_silent_node("n/0123", dead.pid());
    put_with("its session",
             "partition_key, status, locked_by, lease_expires_at",
             "'dead s3cr3t', 'executing', 'n/0123/1', now() - interval '1 s'");
    wait_for<events::sessions_ended>();
    put("lost", "Probe", "third");
    need(slow.wait_for(1), "a slow step");
    db.rows("update gen_durable set locked_by = 's3cr3t' where step = 'third'");
    wait_for<events::lease_lost>();
    slow.open();
    wait_for<events::outcome_stale>();

    // Sweeps and picks that a trigger fails.
    put_with("wake s3cr3t", "status, awaits, deadline",
             "'awaiting_signal', 'x', now()");
    wait_for<events::row_refused>();
    db.rows("delete from gen_durable where state ->> 'note' like 'wake%'");
    auto before = log.all<events::row_refused>().size();
    put_with("reap s3cr3t", "status, locked_by, lease_expires_at",
             "'executing', 'n/1/1', now() - interval '1 s'");
    wait_for<events::row_refused>(before + 1);
    put("pick s3cr3t");
    wait_for<events::turn_failed>();
    db.rows("drop trigger picky on gen_durable");
    wait_until_count("status in ('executing', 'runnable') and queue = "
                     "'default' and coalesce(locked_by, '') not like 's3cr3t%'",
                     0);

    // Connections that go, with work under way.
    insert(500);
    db.terminate_engines();
    wait_for<events::disconnected>();
    wait_until_count("fsm = 'Probe' and queue = 'default' and status = "
                     "'runnable'",
                     0);
    db.rows("alter table gen_durable_schema rename version to s3cr3t");
    db.terminate_engines();
    wait_for<events::node_failed>();
  });
  output.wait_for_printers(sys);
  output.restore();
  check_nothing_leaked(output.text());
  // Of all kinds of events hardly one is missing.
  CAF_CHECK_GREATER_OR_EQUAL(kinds.size(), 19u);
}

CAF_TEST(no password is logged where a login fails) {
  captured_output output;
  output.guard([&] {
    for (const auto& database :
         {"postgresql://somebody:" + password + "@127.0.0.1:1/nothing",
          "host=/nowhere password=" + password,
          db.conninfo("nobody", password)}) {
      auto x = secret_options({probe{}});
      x.database = database;
      x.stop_grace = std::chrono::milliseconds{10};
      // Each reason is told once, perhaps before `start` returns.
      auto before = log.all<events::disconnected>().size();
      auto engine = start(std::move(x));
      wait_for<events::disconnected>(before + 1);
    }
  });
  output.wait_for_printers(sys);
  output.restore();
  check_nothing_leaked(output.text());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace secrets_suite
