#define CAF_SUITE scrape

// Metrics of engines that run, over HTTP, and of a database that answers late or never.

#include "actors/harness.hpp"
#include "metrics/values.hpp"
#include "support/plain_socket.hpp"
#include "support/words.hpp"

#include <gd/client.hpp>
#include <gd/metrics.hpp>

#include <caf/test/dsl.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace scrape_suite {

using namespace std::literals;

namespace events = gd::events;

using gd::test::contains;
using gd::test::session;
using gd::test::values;
using gd::test::values_of;

namespace {

using clock_type = std::chrono::steady_clock;

std::string get(int port, const std::string& path) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  std::string answer;
  auto request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
  if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0
      && write(fd, request.data(), request.size())
           == static_cast<ssize_t>(request.size())) {
    std::array<char, 65'536> some;
    for (ssize_t n = 0; (n = read(fd, some.data(), some.size())) > 0;)
      answer.append(some.data(), static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

struct fixture : gd::test::engine_fixture {
  std::shared_ptr<prometheus::Registry> registry
    = std::make_shared<prometheus::Registry>();

  gd::config measured(gd::test::probe probe) {
    auto x = options({probe});
    x.on_event = gd::all_of(
      {*gd::metrics::sink(registry, {.machines = x.machines}), log.sink()});
    return x;
  }

  double now(const std::string& name) {
    return values_of(*registry)[name];
  }

  std::shared_ptr<prometheus::Collectable>
  from_database(std::chrono::milliseconds limit,
                std::chrono::milliseconds shown_for = 0ms) {
    return gd::metrics::database({.database = db.options(),
                                  .limit = limit,
                                  .shown_for = shown_for,
                                  .on_event = log.sink()});
  }

  static double up(const prometheus::Collectable& x) {
    return values_of(x)["gen_durable_database_up"];
  }
};

std::string steps(const std::string& step, const std::string& outcome) {
  return "gen_durable_steps_total{machine=\"Probe\",outcome=\"" + outcome
         + "\",step=\"" + step + "\"}";
}

std::string of_step(const std::string& name, const std::string& step) {
  return "gen_durable_" + name + "{machine=\"Probe\",step=\"" + step + "\"}";
}

std::string rows(const std::string& what) {
  return "gen_durable_turn_rows_sum{queue=\"default\",what=\"" + what + "\"}";
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(scrape_tests, fixture)

CAF_TEST(an engine counts what the table says) {
  constexpr int n = 300;
  insert(n);
  gd::test::probe probe;
  probe.first = [](gd::test::probe_context& ctx) {
    return gd::next(probe_step::second, ctx.state);
  };
  probe.second = [](gd::test::probe_context& ctx) -> gd::outcome {
    if (ctx.id % 3 == 0)
      throw std::runtime_error{"every third"};
    return gd::done();
  };
  {
    auto engine = start(measured(probe));
    wait_until_count("status in ('done', 'failed')", n);
    auto made = ask<gd::inserted>(
      engine,
      gd::insert{.fsm = "Probe", .delay_us = 3'600'000'000, .unique_key = "k"});
    auto again = ask<gd::inserted>(
      engine,
      gd::insert{.fsm = "Probe", .delay_us = 3'600'000'000, .unique_key = "k"});
    CAF_REQUIRE(made && again);
    CAF_CHECK(
      !ask<gd::signalled>(engine, gd::signal{.target = 77'777, .name = "s"}));
    CAF_CHECK_EQUAL(now("gen_durable_node_running"), 1);
  }
  auto done = std::stod(count("status = 'done'"));
  auto failed = std::stod(count("status = 'failed'"));
  CAF_CHECK_EQUAL(failed,
                  std::stod(count("id % 3 = 0 and status <> 'runnable'")));
  CAF_CHECK_EQUAL(done + failed, n);
  CAF_CHECK_EQUAL(now(steps("first", "next")), n);
  CAF_CHECK_EQUAL(now(steps("second", "done")), done);
  CAF_CHECK_EQUAL(now(steps("second", "stop")), failed);
  CAF_CHECK_EQUAL(now(of_step("step_failures_total", "second")), failed);
  CAF_CHECK_EQUAL(now(of_step("instances_failed_total", "second")), failed);
  CAF_CHECK_EQUAL(now(of_step("step_wait_seconds_count", "first")), n);
  CAF_CHECK_EQUAL(now(of_step("step_duration_seconds_count", "second")), n);
  CAF_CHECK_EQUAL(now(rows("written")), 2 * n);
  CAF_CHECK_GREATER_OR_EQUAL(now(rows("picked")), 2 * n);
  CAF_CHECK_EQUAL(
    now("gen_durable_requests_total{answer=\"accepted\",request=\"insert\"}"),
    1);
  CAF_CHECK_EQUAL(
    now("gen_durable_requests_total{answer=\"duplicate\",request=\"insert\"}"),
    1);
  CAF_CHECK_EQUAL(now("gen_durable_requests_total{answer=\"no_such_target\","
                      "request=\"signal\"}"),
                  1);
  CAF_CHECK_EQUAL(now("gen_durable_connections_total"), 4);
  CAF_CHECK_EQUAL(now("gen_durable_reconnects_total"), 0);
  CAF_CHECK_EQUAL(now("gen_durable_node_running"), 0);
  CAF_CHECK_GREATER(now("gen_durable_sweep_duration_seconds_count{sweep="
                        "\"the sweep of deadlines\"}"),
                    0);
}

CAF_TEST(a wait counts from when a row was due by the clock of the database) {
  db.rows("insert into gen_durable (fsm, step, eligible_at)"
          " values ('Probe', 'first', now() - interval '10 minutes')");
  auto engine = start(measured({}));
  CAF_REQUIRE(log.wait_for<events::step_started>());
  auto waited = log.all<events::step_started>().front().waited;
  CAF_CHECK(waited >= 10min && waited < 11min);
}

CAF_TEST(a step that runs ahead has waited for nothing but its commit) {
  db.rows("insert into gen_durable (fsm, step, eligible_at)"
          " values ('Probe', 'first', now() - interval '10 minutes')");
  gd::test::probe probe;
  probe.first = [](gd::test::probe_context& ctx) {
    return gd::next(probe_step::second, ctx.state);
  };
  auto x = options({probe});
  x.machines.front().run_ahead = 10;
  auto engine = start(std::move(x));
  CAF_REQUIRE(log.wait_for<events::step_started>(2));
  auto second = log.all<events::step_started>().at(1);
  CAF_CHECK_EQUAL(second.step, "second");
  CAF_CHECK(second.waited < 1min);
}

CAF_TEST(connections that come back are reconnects) {
  auto engine = start(measured({}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  CAF_REQUIRE(log.wait_for<events::connected>(4));
  db.terminate_engines();
  CAF_REQUIRE(log.wait_for<events::connected>(8));
  engine.stop();
  CAF_CHECK_EQUAL(now("gen_durable_reconnects_total"), 4);
  CAF_CHECK_EQUAL(now("gen_durable_connections_total"), 8);
  CAF_CHECK_GREATER_OR_EQUAL(now("gen_durable_disconnections_total"), 1);
}

CAF_TEST(slots in use are told while steps hold them and while none does) {
  gd::test::gate gate;
  gd::test::probe probe;
  probe.first = [&](gd::test::probe_context&) {
    gate.pass();
    return gd::done();
  };
  insert(6);
  auto x = measured(probe);
  x.queues = {{"default", 2, 0}};
  auto engine = start(std::move(x));
  CAF_REQUIRE(gate.wait_for(2));
  // Nothing happens from now on, when the turn that has begun them has told it.
  auto in_use = "gen_durable_slots_in_use{queue=\"default\"}"s;
  auto give_up = clock_type::now() + gd::test::patience;
  while (now(in_use) != 2)
    CAF_REQUIRE(clock_type::now() < give_up);
  CAF_CHECK_EQUAL(now("gen_durable_slots{queue=\"default\"}"), 2);
  gate.open();
  wait_until_count("status = 'done'", 6);
  auto turns = log.all<events::turn_ended>().size();
  CAF_REQUIRE(log.wait_for<events::turn_ended>(turns + 2)); // polls
  CAF_CHECK_EQUAL(now(in_use), 0);
}

CAF_TEST(an exposer shows both during a drain) {
  gd::test::gate gate; // where the last of them wait
  gd::test::probe probe;
  std::atomic<int> begun{0};
  probe.first = [&](gd::test::probe_context&) {
    if (++begun > 1'990)
      gate.pass();
    return gd::done();
  };
  insert(2'000);
  prometheus::Exposer exposer{"127.0.0.1:0"};
  auto database = from_database(gd::test::patience);
  exposer.RegisterCollectable(registry);
  exposer.RegisterCollectable(database);
  auto port = exposer.GetListeningPorts().front();
  auto engine = start(measured(probe));
  int scrapes = 0;
  std::string page;
  do {
    page = get(port, "/metrics");
    CAF_REQUIRE(page.starts_with("HTTP/1.1 200"));
    if (++scrapes == 2) {
      CAF_CHECK(
        !contains(page, "\ngen_durable_instances{status=\"done\"} 2000\n"));
      gate.open();
    }
  } while (count("status = 'done'") != "2000");
  page = get(port, "/metrics");
  CAF_CHECK(contains(page, "\ngen_durable_instances{status=\"done\"} 2000\n"));
  CAF_CHECK(contains(page, "\ngen_durable_nodes{state=\"alive\"} 1\n"));
  CAF_CHECK(contains(page, "\ngen_durable_database_up 1\n"));
  CAF_CHECK(contains(page, "\ngen_durable_step_wait_seconds_bucket{"));
  CAF_CHECK(contains(page, "# TYPE gen_durable_steps_total counter\n"));
}

CAF_TEST(a database that never answers does not hold up a scrape) {
  gd::test::plain_socket nobody;
  auto port = nobody.listen_anywhere();
  auto asked_again = [&] {
    return gd::metrics::database(
      {.database = {.database = "host=127.0.0.1 port=" + std::to_string(port)},
       .limit = 200ms,
       .on_event = log.sink()});
  };
  auto metrics = asked_again();
  // Before the look itself is given up, which tries for seconds; where the machine
  // stands still for as long, it is tried again.
  auto give_up = clock_type::now() + gd::test::patience;
  auto told = [this] { return log.all<events::sweep_failed>().size(); };
  for (auto before = told();; before = told(), metrics = asked_again()) {
    std::vector<std::future<double>> scrapes;
    for (int i = 0; i < 8; ++i)
      scrapes.push_back(
        std::async(std::launch::async, [&] { return up(*metrics); }));
    for (auto& x : scrapes)
      CAF_CHECK_EQUAL(x.get(), 0);
    if (told() == before)
      break;
    CAF_REQUIRE(clock_type::now() < give_up);
  }
  CAF_CHECK(log.wait_for<events::sweep_failed>());
  CAF_CHECK_EQUAL(values_of(*metrics).size(), 1u);
}

CAF_TEST(who has let go of the metrics of a database is told nothing more) {
  gd::test::plain_socket nobody;
  auto told = std::make_shared<std::atomic<int>>(0);
  auto metrics = gd::metrics::database(
    {.database = {.database = "host=127.0.0.1 port="
                              + std::to_string(nobody.listen_anywhere())},
     .limit = 200ms,
     .on_event = [told](const gd::event&) { ++*told; }});
  CAF_CHECK_EQUAL(up(*metrics), 0);
  metrics = nullptr;
  auto before = told->load();
  // The look that is under way is given up later, and its thread ends.
  auto give_up = clock_type::now() + gd::test::patience;
  while (told.use_count() > 1 && clock_type::now() < give_up)
    std::this_thread::yield();
  CAF_REQUIRE_EQUAL(told.use_count(), 1);
  CAF_CHECK_EQUAL(told->load(), before);
}

CAF_TEST(a stranger who locks the table makes the metrics go and come back) {
  auto metrics = from_database(300ms);
  session stranger{db.conninfo()};
  stranger.exec("begin; lock table gen_durable in access exclusive mode");
  CAF_CHECK_EQUAL(up(*metrics), 0); // before the stranger has ended
  stranger.exec("rollback");
  auto began = clock_type::now();
  while (up(*metrics) != 1)
    CAF_REQUIRE(clock_type::now() - began < gd::test::patience);
  CAF_CHECK(values_of(*metrics).contains("gen_durable_not_served"));
}

CAF_TEST(an answer is shown again and then asked for anew) {
  insert(1);
  auto runnable = [](const auto& metrics) -> double {
    return values_of(*metrics)["gen_durable_instances{status=\"runnable\"}"];
  };
  auto kept = from_database(gd::test::patience, 1h);
  auto anew = from_database(gd::test::patience, 0ms);
  CAF_CHECK_EQUAL(runnable(kept), 1);
  CAF_CHECK_EQUAL(runnable(anew), 1);
  insert(1);
  CAF_CHECK_EQUAL(runnable(kept), 1);
  CAF_CHECK_EQUAL(runnable(anew), 2);
}

CAF_TEST(metrics that go while the database is asked leave nobody waiting) {
  session stranger{db.conninfo()};
  stranger.exec("begin; lock table gen_durable in access exclusive mode");
  from_database(1ms)->Collect();
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(up(*from_database(gd::test::patience)), 1);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace scrape_suite
