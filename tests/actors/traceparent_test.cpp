#define CAF_SUITE traceparent

// The W3C traceparent of an insert, or of a signal, is known to the steps that run for it,
// and to their events, whichever way a row comes to its step.

#include "actors/harness.hpp"

#include <gd/testing.hpp>

#include <caf/test/unit_test.hpp>

#include <fmt/format.h>

#include <memory>

namespace traceparent_suite {

using namespace gd::test;
using gd::errc;
namespace events = gd::events;

namespace {

/// A traceparent that ends with this number.
std::string trace(int n) {
  return fmt::format("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-01", n);
}

/// second waits for "go"; each step notes what it runs for. second fails as often as
/// `failures` says, when it has got it.
probe noting(int failures = 0) {
  probe x;
  auto note = [](probe_context& ctx) {
    ctx.state.note += ctx.step + " " + ctx.traceparent() + ", ";
  };
  x.first = [note](probe_context& ctx) {
    note(ctx);
    return gd::next(probe_step::second, ctx.state);
  };
  x.second = [note, failures](probe_context& ctx) -> gd::outcome {
    auto got = ctx.take_raw("go");
    if (!got)
      return gd::await("go", ctx.state);
    if (ctx.failures() < failures)
      throw std::runtime_error{"not yet"};
    note(ctx);
    ctx.state.note += "took " + got->traceparent + ", ";
    return gd::next(probe_step::third, ctx.state);
  };
  x.third = [note](probe_context& ctx) {
    note(ctx);
    return gd::done(ctx.state);
  };
  x.handler = [](const gd::failure&, probe_context& ctx) {
    ctx.state.note += "handler " + ctx.traceparent() + ", ";
    return gd::replay(ctx.state);
  };
  return x;
}

std::string note_of(const gd::instance& x) {
  auto state = x.result ? x.result_as<probe_state>()
                        : x.state_as<probe_state>();
  return state ? state->note : to_string(state.error());
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(traceparent_tests, engine_fixture)

CAF_TEST(a step runs for the signal that has woken it and else for the insert) {
  for (int failures : {0, 1}) {
    gd::testing::simulation simulated{{noting(failures)}};
    auto stored = gd::testing::in_database::connect(db.options(),
                                                    {noting(failures)});
    CAF_REQUIRE(stored);
    for (gd::testing::harness* kit :
         std::initializer_list<gd::testing::harness*>{&simulated, &*stored}) {
      auto made = kit->insert({.fsm = "Probe",
                               .state = gd::to_json(probe_state{}),
                               .traceparent = trace(1)});
      CAF_REQUIRE(made);
      CAF_REQUIRE(kit->drain());
      for (auto [name, n] : {std::pair{"other", 0}, {"go", 2}, {"go", 3}}) {
        gd::signal x{.target = made->id, .name = name, .payload = gd::json{}};
        if (n > 0)
          x.traceparent = trace(n);
        CAF_REQUIRE(kit->signal(x));
      }
      CAF_REQUIRE(kit->drain());
      auto x = kit->instance(made->id);
      CAF_REQUIRE(x);
      auto handled = failures > 0 ? "handler " + trace(2) + ", " : "";
      CAF_CHECK_EQUAL(note_of(*x),
                      fmt::format("first {}, {}second {}, took {}, third {}, ",
                                  trace(1), handled, trace(2), trace(2),
                                  trace(3)));
      CAF_CHECK_EQUAL(x->traceparent.value_or("none"), trace(1));
    }
  }
}

CAF_TEST(events tell it whichever way a row comes to its step) {
  gd::machine plain = noting();
  gd::machine kept = noting().named("Kept", 1);
  kept.history = gd::history::with_state;
  gd::machine chained = noting().named("Chained", 1);
  chained.run_ahead = 100;
  auto engine = start(options({plain, kept, chained}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  struct one {
    std::int64_t id;
    int insert, signal;
  };
  std::vector<one> all;
  int n = 0;
  // At once, which begins under a lease; later, which is picked; with a partition key; with
  // a unique key; and with a state that a pick does not show.
  for (const auto& fsm : {"Probe", "Kept", "Chained"})
    for (int way = 0; way < 5; ++way) {
      gd::insert x{.fsm = fsm, .state = gd::to_json(probe_state{})};
      x.traceparent = trace(++n);
      if (way == 1)
        x.delay_us = 1'000;
      if (way == 2)
        x.partition_key = "k";
      if (way == 3)
        x.unique_key = std::string{fsm} + "u";
      if (way == 4)
        x.state = gd::to_json(probe_state{0, std::string(20'000, 'x')});
      auto made = ask<gd::inserted>(engine, x);
      CAF_REQUIRE(made);
      all.push_back({made->id, n, 0});
    }
  wait_until_count("status = 'awaiting_signal'", n);
  for (auto& x : all) {
    x.signal = ++n;
    gd::signal sent{.target = x.id, .name = "go", .payload = gd::json{}};
    sent.traceparent = trace(x.signal);
    CAF_REQUIRE(ask<gd::signalled>(engine, sent));
  }
  wait_until_count("status = 'done'", static_cast<int>(all.size()));
  CAF_REQUIRE(log.wait_for<events::step_committed>(4 * all.size()));
  auto begun = log.all<events::step_started>();
  auto committed = log.all<events::step_committed>();
  auto told = [](const auto& events, std::int64_t id, const std::string& step) {
    std::string last = "no event"; // second begins twice
    for (const auto& y : events)
      if (y.id == id && y.step == step)
        last = y.traceparent;
    return last;
  };
  for (const auto& x : all)
    for (const auto* step : {"first", "second", "third"}) {
      auto expected = trace(std::string{step} == "second" ? x.signal
                                                          : x.insert);
      CAF_CHECK_EQUAL(told(begun, x.id, step), expected);
      CAF_CHECK_EQUAL(told(committed, x.id, step), expected);
    }
}

CAF_TEST(what is no traceparent is refused by name and value) {
  auto engine = start(options({noting()}));
  auto good = trace(1);
  auto with = [&good](std::size_t at, std::string_view what) {
    auto x = good;
    return x.replace(at, what.size(), what);
  };
  for (const auto& bad :
       {std::string{}, good.substr(0, 54), good + "0", with(0, "ff"),
        with(3, "4BF9"), with(3, std::string(32, '0')),
        with(36, std::string(16, '0')), with(2, "_"), with(10, "\n")}) {
    gd::insert x{.fsm = "Probe", .state = gd::to_json(probe_state{})};
    x.traceparent = bad;
    auto made = ask<gd::inserted>(engine, x);
    CAF_REQUIRE(!made);
    auto why = made.error();
    CAF_CHECK_EQUAL(why.code, errc::invalid_argument);
    CAF_CHECK(why.message.starts_with("traceparent: expected 55 characters"));
    gd::signal sent{.target = 1, .name = "go", .payload = gd::json{}};
    sent.traceparent = bad;
    auto answer = ask<gd::signalled>(engine, sent);
    CAF_REQUIRE(!answer);
    why = answer.error();
    CAF_CHECK_EQUAL(why.code, errc::invalid_argument);
  }
  CAF_CHECK_EQUAL(count("true"), "0");
}

CAF_TEST(SQL callers say it by a setting and what is none is none) {
  auto stored = gd::testing::in_database::connect(db.options(), {noting()});
  CAF_REQUIRE(stored);
  session in{db.conninfo()};
  for (const auto& [set, expected] :
       {std::pair{trace(1), trace(1)},
        {std::string{}, std::string{}},
        {trace(1) + "0", std::string{}},
        {std::string(1 << 20, 'x'), std::string{}},
        {"00-" + std::string(32, '0') + "-00000000000000ab-01",
         std::string{}}}) {
    in.exec("select set_config('gd.traceparent', $1, false)", {set});
    auto id = in.scalar("select id from gd_insert('Probe')");
    CAF_CHECK_EQUAL(in.scalar("select coalesce(traceparent, '') from "
                              "gen_durable where id = $1",
                              {id}),
                    expected);
    in.exec("select gd_signal($1::bigint, 'go')", {id});
    CAF_CHECK_EQUAL(
      in.scalar("select coalesce(traceparent, '') from gen_durable_signals "
                "where target_id = $1",
                {id}),
      expected);
  }
}

CAF_TEST(what a stranger has written there is cut and harms nothing) {
  db.rows("insert into gen_durable (fsm, fsm_version, step, traceparent) "
          "select 'Probe', 1, 'first', repeat('x', 100000)");
  db.rows(
    "insert into gen_durable_signals (target_id, name, payload, traceparent) "
    "select id, 'go', '{}', repeat('y', 100000) from gen_durable");
  auto engine = start(options({noting()}));
  wait_until_count("status = 'done'", 1);
  CAF_REQUIRE(log.wait_for<events::step_committed>(3));
  for (const auto& x : log.all<events::step_committed>())
    CAF_CHECK_EQUAL(x.traceparent.size(), 55u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace traceparent_suite
