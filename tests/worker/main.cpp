/// A worker process for tests that kill it. Prints "begin ID STEP ATTEMPT" for
/// each step that begins, "lost ID" for each lease and "stale ID" for each outcome
/// that is lost, and runs until SIGTERM. With "narrow": has 8 slots, with "brief":
/// and little time (`brief_lease`), with "unpolled": and a poll of an hour. With "published": its
/// gateway is. With "drain": says nothing of steps, and has the intervals that any has.
/// With "loud": logs whatever happens. With "queues=N": serves N queues, "q1" and so on. With
/// "walks": has all versions of that machine, and little time.

#include "../support/secret.hpp"
#include "walks.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/machine.hpp>
#include <gd/transaction_step.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <libpq-fe.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

GD_ENUM(hang_step, hang);
GD_ENUM(walk_step, one, two, three);
GD_ENUM(doze_step, doze);
GD_ENUM(kill_step, kill);
GD_ENUM(count_step, more);
GD_ENUM(carry_step, carry, put);
GD_ENUM(note_step, note);

struct nothing {
  GD_STATE(nothing);
};

struct counted {
  int n = 0;
  GD_STATE(counted, n);
};

struct load {
  std::string text;
  GD_STATE(load, text);
};

struct attempts {
  int attempt = 0;
  GD_STATE(attempts, attempt);
};

namespace {

/// Long enough that no lease of a process that lives ends: under TSan a thread may stand
/// still for seconds.
#if defined(__SANITIZE_THREAD__)
constexpr std::chrono::milliseconds brief_lease{10'000};
#else
constexpr std::chrono::milliseconds brief_lease{1'500};
#endif

/// Its first attempt never ends.
gd::machine hang() {
  return gd::define<nothing, hang_step>("Hang", 1)
    .step(
      hang_step::hang,
      [](gd::context<nothing>& ctx) {
    while (ctx.attempt == 0)
      pause();
    return gd::done(attempts{ctx.attempt});
      })
    .on_error([](const gd::failure&, gd::context<nothing>&) {
      return gd::stop("the handler was called");
    });
}

gd::machine walk() {
  using enum walk_step;
  return gd::define<nothing, walk_step>("Walk", 1)
    .step(one,
          [](gd::context<nothing>& ctx) { return gd::next(two, ctx.state); })
    .step(two,
          [](gd::context<nothing>& ctx) { return gd::next(three, ctx.state); })
    .step(three, [](gd::context<nothing>&) { return gd::done(); });
}

/// Keeps its thread for 20 ms.
gd::machine doze() {
  return gd::define<nothing, doze_step>("Doze", 1).step(
    doze_step::doze, [](gd::context<nothing>& ctx) {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      return gd::done(attempts{ctx.failures()});
    });
}

/// Ends its process.
gd::machine killer() {
  return gd::define<nothing, kill_step>("Kill", 1).step(
    kill_step::kill,
    [](gd::context<nothing>&) -> gd::outcome { std::abort(); });
}

/// Counts to twenty, 5 ms each.
gd::machine count() {
  return gd::define<counted, count_step>("Count", 1)
    .step(count_step::more, [](gd::context<counted>& ctx) -> gd::outcome {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      counted now{ctx.state.n + 1};
      if (now.n == 20)
        return gd::done(now);
      return gd::next(count_step::more, now);
    });
}

/// Adds a signal to what it carries, takes that on, and puts it down.
gd::machine carry() {
  return gd::define<load, carry_step>("Carry", 1)
    .step(carry_step::carry,
          [](gd::context<load>& ctx) -> gd::outcome {
            auto more = ctx.take<load>("more");
            if (!more)
              return gd::await("more", ctx.state);
            return gd::next(carry_step::put, *more);
          })
    .step(carry_step::put, [](gd::context<load>& ctx) {
      return gd::done(counted{static_cast<int>(ctx.state.text.size())});
    });
}

/// Notes its instance in a transaction, at whose end it waits for a lock.
gd::machine note() {
  return gd::define<nothing, note_step>("Note", 1).step(
    note_step::note,
    gd::in_transaction([](gd::transaction_context<nothing>& ctx) {
      auto statement = "insert into notes values (" + std::to_string(ctx.id)
                       + "); select pg_advisory_xact_lock(1)";
      PQclear(PQexec(ctx.db(), statement.c_str()));
      return gd::done(attempts{ctx.attempt});
    }));
}

/// "queues=N"; zero: something else.
int queues_of(std::string_view mode) {
  constexpr std::string_view name = "queues=";
  return mode.starts_with(name)
           ? std::atoi(std::string{mode.substr(name.size())}.c_str())
           : 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string_view mode = argc == 4 ? argv[3] : "";
  bool is_unpolled = mode == "unpolled";
  bool is_walks = mode == "walks";
  bool is_brief = mode == "brief" || is_unpolled || is_walks;
  bool is_narrow = mode == "narrow" || is_brief;
  bool is_published = mode == "published";
  bool is_drain = mode == "drain";
  bool is_loud = mode == "loud";
  auto queues = queues_of(mode);
  if (argc != 3 && !is_narrow && !is_published && !is_drain && !is_loud
      && queues < 1) {
    std::fprintf(stderr, "usage: gd_test_worker DATABASE NODE "
                         "[narrow|brief|unpolled|published|drain|loud|"
                         "queues=N|walks]\n");
    return 2;
  }
  gd::config options;
  options.database = argv[1];
  options.node = argv[2];
  options.machines = {hang(), walk(), doze(), killer(), count(), note()};
  if (is_walks)
    options.machines = gd::test::all_walks();
  if (queues > 0) {
    options.machines = {carry()};
    options.queues.clear();
  }
  for (int i = 1; i <= queues; ++i)
    options.queues.push_back({"q" + std::to_string(i)});
  if (!is_drain) {
    options.poll = std::chrono::milliseconds{50};
    options.heartbeat = std::chrono::milliseconds{100};
    options.reaper = std::chrono::milliseconds{50};
  }
  if (is_narrow)
    options.queues = {{"default", 8}};
  if (is_brief) {
    options.lease = brief_lease;
    options.heartbeat = std::chrono::milliseconds{300};
    options.reaper = std::chrono::milliseconds{200};
  }
  if (is_unpolled)
    options.poll = std::chrono::hours{1};
  options.on_event = [is_silent = is_drain || is_loud || is_walks || queues > 0,
                      log = gd::log_to_stderr(is_loud ? gd::severity::debug
                                                      : gd::severity::warning)](
                       const gd::event& what) {
    if (is_silent)
      return log(what);
    if (auto* x = std::get_if<gd::events::step_started>(&what)) {
      std::printf("begin %lld %s %d\n", static_cast<long long>(x->id),
                  x->step.c_str(), x->attempt);
    } else if (auto* lost = std::get_if<gd::events::lease_lost>(&what)) {
      std::printf("lost %lld\n", static_cast<long long>(lost->id));
    } else if (auto* stale = std::get_if<gd::events::outcome_stale>(&what)) {
      std::printf("stale %lld\n", static_cast<long long>(stale->id));
    }
    std::fflush(stdout);
    log(what);
  };
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  if (is_published)
    gd::actors::add_network_to(cfg);
  cfg.set("scheduler.max-threads", 8u);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys, std::move(options));
  if (engine && is_published
      && !gd::actors::publish(*engine,
                              {.port = 0, .secret = gd::test::port_secret()}))
    return EXIT_FAILURE;
  if (!engine || !engine->run_until_signal())
    return EXIT_FAILURE;
  return EXIT_SUCCESS;
}
