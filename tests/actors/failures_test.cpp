// Nothing that fails does so in silence: events tell of it, and the row's last_error
// while it is tried again.

#define CAF_SUITE failures

#include "actors/stepped.hpp"

#include <gd/actors/async.hpp>
#include <gd/event.hpp>

#include <caf/test/dsl.hpp>

#include <memory>
#include <stdexcept>
#include <string>

namespace failures_suite {

using namespace std::literals;
using namespace gd::test;
using namespace gd::actors;
namespace events = gd::events;

namespace {

struct fixture : picker_fixture {
  /// The handler tries again once.
  fixture() {
    machine.handler = [](const gd::failure& why,
                         probe_context& ctx) -> gd::outcome {
      if (ctx.attempt < 1)
        return gd::replay(ctx.state);
      return gd::stop("gave up: " + why.message());
    };
  }

  /// One row of the machine, until there is nothing more to do for it.
  void run_all() {
    insert(1);
    spawn_picker({"default", 1, 0});
    finish_all();
    for (int i = 0; i < 5; ++i)
      pass(1s);
  }

  std::string last_error() {
    return rows.scalar("select coalesce(last_error, 'none') from gen_durable");
  }

  /// The only one.
  template <class T>
  T told() {
    auto all = log.all<T>();
    CAF_REQUIRE_EQUAL(all.size(), 1u);
    return all.front();
  }

  void check_run(const events::step_run& x, std::int32_t attempt = 0,
                 const std::string& step = "first", std::int64_t seq = 0) {
    CAF_CHECK_EQUAL(x.id, 1);
    CAF_CHECK_EQUAL(x.fsm, "Probe"s);
    CAF_CHECK_EQUAL(x.version, 1);
    CAF_CHECK_EQUAL(x.step, step);
    CAF_CHECK_EQUAL(x.attempt, attempt);
    CAF_CHECK_EQUAL(x.seq, seq);
  }
};

gd::outcome without_stock(probe_context&) {
  throw std::runtime_error{"no stock"};
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(failures_tests, fixture)

CAF_TEST(a step that throws is told each time and its row has the
           error while it is tried again) {
  machine.first = [](probe_context& ctx) -> gd::outcome {
    if (ctx.attempt == 0)
      return without_stock(ctx);
    return gd::done();
  };
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  auto failed = told<events::step_failed>();
  check_run(failed);
  CAF_CHECK_EQUAL(failed.why, "no stock"s);
  CAF_CHECK_EQUAL(failed.outcome, "replay"sv);
  CAF_CHECK_EQUAL(last_error(), "none"); // not committed yet
  turn();
  CAF_CHECK_EQUAL(count("attempt = 1 and status in ('runnable', 'executing')"),
                  "1");
  CAF_CHECK_EQUAL(last_error(), "no stock");
  finish_all();
  pass(1s);
  CAF_CHECK_EQUAL(count("status = 'done' and last_error is null"), "1");
  CAF_CHECK_EQUAL(log.all<events::step_failed>().size(), 1u);
  CAF_CHECK(log.all<events::instance_failed>().empty());
}

CAF_TEST(an instance that fails is told when that is committed) {
  machine.first = without_stock;
  run_all();
  auto failures = log.all<events::step_failed>();
  CAF_REQUIRE_EQUAL(failures.size(), 2u);
  check_run(failures.back(), 1, "first", 1);
  CAF_CHECK_EQUAL(failures.back().outcome, "stop"sv);
  auto end = told<events::instance_failed>();
  check_run(end, 1, "first", 1);
  CAF_CHECK_EQUAL(end.why, "gave up: no stock"s);
  CAF_CHECK_EQUAL(last_error(), end.why);
}

CAF_TEST(
  an instance whose failure is never committed is not told to have failed) {
  machine.first = [](probe_context&) { return gd::stop("enough"); };
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  rows.rows("update gen_durable set locked_by = 'another/0/1'");
  finish_all();
  CAF_CHECK(log.exactly<events::outcome_stale>(1));
  CAF_CHECK(log.all<events::instance_failed>().empty());
}

CAF_TEST(a step that stops by itself is no failure of the step) {
  machine.first = [](probe_context&) { return gd::stop("enough"); };
  run_all();
  CAF_CHECK(log.all<events::step_failed>().empty());
  CAF_CHECK_EQUAL(told<events::instance_failed>().why, "enough"s);
}

CAF_TEST(a replay that the step wants clears the last error) {
  machine.first = [](probe_context& ctx) -> gd::outcome {
    if (ctx.attempt == 0)
      return without_stock(ctx);
    return gd::replay(ctx.state, 1h);
  };
  run_all();
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 2"), "1");
  CAF_CHECK_EQUAL(last_error(), "none");
}

CAF_TEST(
  an outcome that cannot be carried out is told as what the step threw is) {
  machine.first = [](probe_context&) -> gd::outcome {
    return gd::await("", probe_state{});
  };
  machine.handler = [](const gd::failure&, probe_context& ctx) {
    return gd::next(probe_step::second, ctx.state);
  };
  machine.second = [](probe_context& ctx) { return gd::replay(ctx.state, 1h); };
  run_all();
  auto failed = told<events::step_failed>();
  CAF_CHECK(failed.why.starts_with("outcome await of step first: signal name"));
  CAF_CHECK_EQUAL(failed.outcome, "next"sv);
}

CAF_TEST(a time limit that is over is told with what the handler made of it) {
  begin_with({.limit = 30s}, async([&](const async_context<probe_state>& ctx) {
               ctx.self->become([ctx](int) {});
             }));
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  pass(30s);
  check_run(told<events::step_over_limit>());
  auto failed = told<events::step_failed>();
  check_run(failed);
  CAF_CHECK_EQUAL(failed.why, "step first took longer than 30s"s);
  CAF_CHECK_EQUAL(failed.outcome, "replay"sv);
  CAF_CHECK(failed.took > 0us);
  CAF_CHECK_EQUAL(last_error(), failed.why);
}

CAF_TEST(what the database refuses is told without the data and kept with it) {
  rows.rows(
    "alter table gen_durable add constraint odd check (state ->> 'note' "
    "is distinct from 's3cr3t')");
  machine.first = [](probe_context& ctx) -> gd::outcome {
    if (ctx.attempt > 0)
      return gd::stop("enough");
    ctx.state.note = "s3cr3t";
    return gd::next(probe_step::second, ctx.state);
  };
  machine.handler = [](const gd::failure&, probe_context& ctx) {
    return gd::replay(ctx.state, 1h);
  };
  run_all();
  CAF_CHECK(log.exactly<events::outcome_refused>(1));
  auto failed = told<events::step_failed>();
  CAF_CHECK(failed.why.starts_with("the database refused the outcome: "));
  CAF_CHECK(failed.why.find("violates") == std::string::npos);
  CAF_CHECK_EQUAL(count("last_error like 'the database refused the outcome: "
                        "%violates check constraint%'"),
                  "1");
}

CAF_TEST(what a failure led to does not run ahead
         and is seen before the next step) {
  other = gd::define<probe_state, probe_step>("Probe", 1)
            .step(probe_step::first, without_stock)
            .step(
              probe_step::second,
              [](probe_context& ctx) {
    return gd::next(probe_step::third, ctx.state);
              })
    .step(probe_step::third, [](probe_context&) { return gd::done(); })
    .run_ahead(10)
    .on_error([](const gd::failure&, probe_context& ctx) {
      return gd::next(probe_step::second, ctx.state);
    });
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  CAF_CHECK(db->next().find("flush ") != std::string::npos);
  CAF_CHECK(db->next().find("flush_advance") == std::string::npos);
  turn();
  CAF_CHECK_EQUAL(count("step = 'second' and last_error = 'no stock'"), "1");
  while (db->waiting() && count("step = 'third'") == "0")
    turn();
  CAF_CHECK_EQUAL(count("status = 'executing' and last_error is null"), "1");
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(an outcome without a failure is written as before) {
  machine.first = [](probe_context& ctx) {
    return gd::next(probe_step::second, ctx.state);
  };
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  CAF_CHECK_EQUAL(db->next(), "begin gd_flush_next gd_pick commit");
  turn();
  CAF_CHECK_EQUAL(db->next().substr(0, 20), "begin gd_flush_done ");
}

CAF_TEST(a commit is told with the step that ran and for how long) {
  machine.first = [](probe_context& ctx) {
    linger();
    return gd::next(probe_step::second, ctx.state);
  };
  run_all();
  auto commits = log.all<events::step_committed>();
  CAF_REQUIRE_EQUAL(commits.size(), 2u);
  check_run(commits.front());
  CAF_CHECK(commits.front().took >= 2ms);
  check_run(commits.back(), 0, "second", 1);
}

CAF_TEST(a run that was picked or went ahead is told with what was before it) {
  other = gd::define<probe_state, probe_step>("Probe", 1)
            .step(probe_step::first,
                  [](probe_context& ctx) -> gd::outcome {
                    if (ctx.attempt == 0)
                      return gd::replay(ctx.state);
                    return gd::next(probe_step::second, ctx.state);
                  })
            .step(
              probe_step::second,
              [](probe_context& ctx) {
    return gd::next(probe_step::third, ctx.state);
              })
    .step(probe_step::third, [](probe_context&) { return gd::done(); })
    .run_ahead(10);
  run_all();
  std::string told;
  for (const auto& x : log.all<events::step_started>())
    told += x.step + " " + std::to_string(x.seq) + ", ";
  CAF_CHECK_EQUAL(told, "first 0, first 1, second 2, third 3, ");
  CAF_CHECK_EQUAL(count("status = 'done' and seq = 4"), "1");
}

CAF_TEST(a step that dies without an outcome is told by its name) {
  begin_with({.limit = 1h}, async([](const async_context<probe_state>& ctx) {
               anon_send_exit(ctx.self, caf::exit_reason::kill);
               ctx.self->become([ctx](int) {});
             }));
  insert(1);
  spawn_picker({"default", 1, 0});
  turn();
  check_run(told<events::step_crashed>());
}

// -- slow steps ---------------------------------------------------------------

CAF_TEST(a slow step that is not declared as blocking is told once) {
  auto slow = [](probe_context& ctx) -> gd::outcome {
    for (int i = 0; i < 6; ++i)
      linger();
    if (ctx.step == "first")
      return gd::next(probe_step::second, ctx.state);
    return gd::done();
  };
  machine.first = machine.second = slow;
  insert(3);
  spawn_picker({"default", 3, 0});
  finish_all();
  auto all = log.all<events::step_slow>();
  CAF_REQUIRE_EQUAL(all.size(), 2u);
  CAF_CHECK_EQUAL(all.front().step, "first"s);
  CAF_CHECK(all.front().took >= 10ms);
  CAF_CHECK_EQUAL(all.back().step, "second"s);
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- whole engines ------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE(failures_of_engines, engine_fixture)

CAF_TEST(
  a slow step with a time limit is told too and one that blocks is not ) {
  auto slow = [](probe_context& ctx) -> gd::outcome {
    for (int i = 0; i < 6; ++i)
      picker_fixture::linger();
    if (ctx.step == "first")
      return gd::next(probe_step::second, ctx.state);
    return gd::done();
  };
  insert(2);
  auto engine = start(options(
    {gd::define<probe_state, probe_step>("Probe", 1)
       .step(probe_step::first, {.blocking = true, .limit = 1h}, slow)
       .step(probe_step::second, {.limit = 1h}, slow)
       .step(probe_step::third, [](probe_context&) { return gd::done(); })}));
  wait_until_count("status = 'done'", 2);
  CAF_REQUIRE(log.wait_for<events::step_committed>(4));
  auto all = log.all<events::step_slow>();
  CAF_REQUIRE_EQUAL(all.size(), 1u);
  CAF_CHECK_EQUAL(all.front().step, "second"s);
}

CAF_TEST(a blocking step that returns late is told with the time that it took) {
  using clock = std::chrono::steady_clock;
  gate slow;
  insert(1);
  auto engine = start(options(
    {gd::define<probe_state, probe_step>("Probe", 1)
       .step(
         probe_step::first, {.blocking = true, .limit = 500ms},
         [&](probe_context&) {
    slow.pass();
    return gd::done();
         })
       .step(probe_step::second, [](probe_context&) { return gd::done(); })
       .step(probe_step::third, [](probe_context&) { return gd::done(); })}));
  CAF_REQUIRE(slow.wait_for(1));
  auto runs_since = clock::now();
  CAF_REQUIRE(log.wait_for<events::instance_failed>());
  CAF_CHECK_EQUAL(count("status = 'failed' and last_error = 'step first took "
                        "longer than 500ms'"),
                  "1");
  CAF_CHECK(log.all<events::step_failed>().front().took >= 500ms);
  auto ran = clock::now() - runs_since;
  slow.open();
  CAF_REQUIRE(log.wait_for<events::step_returned_late>());
  auto late = log.all<events::step_returned_late>().front();
  CAF_CHECK_EQUAL(late.step, "first"s);
  CAF_CHECK(late.took >= std::chrono::floor<std::chrono::microseconds>(ran));
}

CAF_TEST(
  of ten thousand instances that fail each is an event and the log is short) {
  probe x;
  x.first = without_stock;
  insert(10'001);
  auto opts = options({x});
  event_log lines;
  // Longer than all of it takes: what was left out is told when the sink goes.
  auto tell = std::make_shared<gd::event_sink>(
    gd::aggregated(lines.sink(), 10, 1h));
  opts.on_event =
    [keep = log.sink(), to = std::weak_ptr{tell}](const gd::event& what) {
    keep(what);
    if (auto still = to.lock())
      (*still)(what);
  };
  {
    auto engine = start(std::move(opts));
    wait_until_count("status = 'failed' and last_error = 'no stock'", 10'001);
    CAF_CHECK(log.exactly<events::instance_failed>(10'001));
    CAF_CHECK(log.exactly<events::step_failed>(10'001));
    engine.stop();
  }
  CAF_CHECK_EQUAL(lines.all<events::instance_failed>().size(), 10u);
  CAF_CHECK_EQUAL(lines.all<events::step_failed>().size(), 10u);
  tell.reset();
  std::size_t left_out = 0;
  for (const auto& one : lines.all<events::more_like_it>())
    left_out += one.times;
  CAF_CHECK_GREATER_OR_EQUAL(left_out, 2 * (10'001u - 10u));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace failures_suite
