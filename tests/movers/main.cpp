/// Moves payments at random, from outside and by their steps, for tests that kill it.
///
///   gd_movers steps DATABASE NODE [PATIENCE]      an engine, until SIGTERM
///   gd_movers move DATABASE NAME CLIENTS SEED     until nothing is left to move
///
/// With a patience, in seconds, its gateway has that, and it prints "published at 127.0.0.1:PORT".
/// Of each transition that it was told has happened it prints "moved ID SEQ STEP"; of what must not
/// happen, "error ...".

#include "../support/secret.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/client.hpp>
#include <gd/machine.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

GD_ENUM(pay_step, pending, submitted, review, paid, cancelled, failed);

/// How often a step of its own has moved it.
struct moved {
  int n = 0;
  GD_STATE(moved, n);
};

struct note {
  std::int64_t number = 0;
  GD_STATE(note, number);
};

namespace {

using namespace std::chrono_literals;

/// Looks at what nobody has settled in time, and looks again now and then.
gd::to<pay_step::submitted, pay_step::paid> look(gd::context<moved>& ctx) {
  using enum pay_step;
  std::this_thread::sleep_for(2ms);
  moved next{ctx.state.n + 1};
  switch ((ctx.id + ctx.state.n) % 3) {
    case 0:
      return gd::next<submitted>(next);
    case 1:
      return gd::next<paid>(next);
    default:
      return gd::replay(next, 10ms);
  }
}

gd::machine payment() {
  using enum pay_step;
  return gd::define<moved, pay_step>("Payment", 1)
    .rest(pending, {submitted, cancelled})
    .rest(submitted, {paid, failed, review}, {.after = 300ms, .then = review})
    .step(review, look)
    .outside(review, {cancelled})
    .final(paid)
    .final(cancelled)
    .final(failed)
    .history(gd::history::with_state);
}

int run_steps(const std::string& where, const std::string& node,
              std::optional<std::chrono::seconds> patience) {
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  if (patience)
    gd::actors::add_network_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = gd::actors::start(sys, {.database = where,
                                        .node = node,
                                        .machines = {payment()},
                                        .queues = {{"default", 16}},
                                        .lease = 1'500ms,
                                        .heartbeat = 500ms,
                                        .poll = 20ms,
                                        .reaper = 100ms,
                                        .patience = patience.value_or(1s)});
  if (!engine) {
    std::fprintf(stderr, "%s\n", to_string(engine.error()).c_str());
    return EXIT_FAILURE;
  }
  if (patience) {
    auto endpoint = gd::actors::publish(
      *engine, {.port = 0, .secret = gd::test::port_secret()});
    if (!endpoint) {
      std::fprintf(stderr, "%s\n", to_string(endpoint.error()).c_str());
      return EXIT_FAILURE;
    }
    std::printf("published at %s\n", endpoint->c_str());
    std::fflush(stdout);
  }
  return engine->run_until_signal() ? EXIT_SUCCESS : EXIT_FAILURE;
}

void move(gd::client db, const std::string& name, unsigned seed) {
  std::mt19937 random{seed};
  auto one_of = [&random](const auto& xs) { return xs[random() % xs.size()]; };
  const std::map<std::string, std::vector<std::string>> edges{
    {"pending", {"submitted", "submitted", "cancelled"}},
    {"submitted", {"paid", "failed", "review", "review"}},
    {"review", {"cancelled"}}};
  std::vector<std::int64_t> open;
  for (std::int64_t id = 1; id <= 1'000; ++id)
    open.push_back(id);
  std::int64_t number = 0;
  while (!open.empty()) {
    auto id = one_of(open);
    auto now = db.look_up(id);
    if (!now) {
      std::printf("error %s\n", to_string(now.error()).c_str());
      return;
    }
    if (now->status == "done" || now->status == "failed") {
      std::erase(open, id);
      continue;
    }
    gd::transition what{.target = id,
                        .to = one_of(edges.at(now->step)),
                        .metadata = gd::to_json(note{++number}),
                        .by = name};
    auto guard = random() % 3;
    if (guard == 1)
      what.from = now->step;
    if (guard == 2)
      what.seq = now->seq;
    auto answer = db.transition(what);
    if (answer) {
      std::printf("moved %lld %lld %s\n", static_cast<long long>(id),
                  static_cast<long long>(answer->seq), what.to.c_str());
      std::fflush(stdout);
      continue;
    }
    auto code = answer.error().code;
    // It may have moved to a step from where this one is not open.
    if (code != gd::errc::transition_conflict
        && (guard != 0 || code != gd::errc::not_allowed))
      std::printf("error %s\n", to_string(answer.error()).c_str());
  }
}

int run_moves(const std::string& where, const std::string& name, int clients,
              unsigned seed) {
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i)
    threads.emplace_back([&, i] {
      auto db = gd::client::connect({.database = where});
      if (db)
        move(std::move(*db), name, seed + static_cast<unsigned>(i));
      else
        std::printf("error %s\n", to_string(db.error()).c_str());
    });
  for (auto& x : threads)
    x.join();
  return EXIT_SUCCESS;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 3 && args[0] == "steps")
    return run_steps(args[1], args[2], std::nullopt);
  if (args.size() == 4 && args[0] == "steps")
    return run_steps(args[1], args[2],
                     std::chrono::seconds{std::stoi(args[3])});
  if (args.size() == 5 && args[0] == "move")
    return run_moves(args[1], args[2], std::stoi(args[3]),
                     static_cast<unsigned>(std::stoul(args[4])));
  std::fprintf(stderr, "see the head of tests/movers/main.cpp\n");
  return 2;
}
