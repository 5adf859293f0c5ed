#define CAF_SUITE step_kinds

#include "../../examples/async_step/purchase.hpp"
#include "actors/harness.hpp"

#include <caf/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <stdexcept>

namespace step_kinds_suite {

using namespace gd::test;
namespace events = gd::events;

namespace {

using async_probe = gd::actors::async_context<probe_state>;
using handler = std::function<gd::outcome(const gd::failure&, probe_context&)>;

gd::outcome give_up(const gd::failure& why, probe_context& ctx) {
  return gd::stop(why.message() + ", n = " + std::to_string(ctx.state.n));
}

/// A machine whose first step is this.
template <class F>
gd::machine beginning_with(gd::step_options how, F first,
                           handler on_error = give_up) {
  auto end = [](probe_context& ctx) { return gd::done(ctx.state); };
  return gd::define<probe_state, probe_step>("Probe", 1)
    .step(probe_step::first, how, std::move(first))
    .step(probe_step::second, end)
    .step(probe_step::third, end)
    .on_error(std::move(on_error));
}

template <class F>
gd::machine async_first(F first, gd::step_options how = {},
                        handler on_error = give_up) {
  return beginning_with(how, gd::actors::async(std::move(first)),
                        std::move(on_error));
}

/// Keeps contexts, as an actor does that waits for an answer.
class shelf {
public:
  void put(async_probe ctx) {
    std::lock_guard guard{mutex_};
    kept_.push_back(std::move(ctx));
    changed_.notify_all();
  }

  bool wait_for(std::size_t count) {
    std::unique_lock guard{mutex_};
    return changed_.wait_for(guard, patience,
                             [&] { return kept_.size() >= count; });
  }

  std::vector<async_probe> take() {
    std::lock_guard guard{mutex_};
    return std::move(kept_);
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<async_probe> kept_;
};

/// Waits until it is told to stop; false: not in time.
bool wait_for_stop(const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock guard{mutex};
  changed.wait_for(guard, token, patience, [] { return false; });
  return token.stop_requested();
}

/// Answers with twice what it gets, and does not like 13.
caf::behavior doubler(caf::event_based_actor*) {
  return {
    [](std::int64_t n) -> caf::result<std::int64_t> {
      if (n == 13)
        return caf::make_error(caf::sec::runtime_error, "not thirteen");
      return 2 * n;
    },
  };
}

/// Of this process, in MB.
double resident() {
  std::ifstream file{"/proc/self/statm"};
  double total = 0;
  double pages = 0;
  file >> total >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

/// An actor system of so many threads.
struct few_threads {
  struct config : system_config {
    explicit config(std::size_t threads) {
      set("scheduler.max-threads", threads);
    }
  };

  explicit few_threads(std::size_t threads) : cfg(threads) {
    // nop
  }

  config cfg;
  caf::actor_system sys{cfg};
};

struct step_kinds_fixture : engine_fixture {
  /// That user's actors of this system, and the engine's gateway, answer.
  void check_answers(caf::actor_system& where,
                     const gd::actors::engine& engine) {
    auto echo = where.spawn(
      []() -> caf::behavior { return {[](int n) { return n; }}; });
    caf::scoped_actor self{where};
    auto failed = [&](const caf::error& why) { CAF_FAIL(caf::to_string(why)); };
    for (int i = 0; i < 20; ++i) {
      self->request(echo, gd::test::patience, i)
        .receive([&](int n) { CAF_CHECK_EQUAL(n, i); }, failed);
      self
        ->request(engine.gateway(), gd::test::patience,
                  gd::insert{.fsm = "Probe", .delay_us = 3'600'000'000})
        .receive([](const gd::inserted&) {}, failed);
    }
  }

  void answer_while_steps_block(gd::step_options how) {
    few_threads few{2};
    gate blocked;
    insert(200);
    auto engine = gd::actors::start(
      few.sys, options({beginning_with(how, [&](probe_context&) {
        blocked.pass();
        return gd::done();
      })}));
    CAF_REQUIRE(engine);
    CAF_REQUIRE(blocked.wait_for(1));
    check_answers(few.sys, *engine);
    CAF_CHECK_EQUAL(count("status = 'done'"), "0");
    blocked.open();
    wait_until_count("status = 'done' and attempt = 0", 200);
  }

  std::string error_of(std::int64_t id) {
    return db.scalar("select last_error from gen_durable where id = $1",
                     {std::to_string(id)});
  }

  /// What becomes of an instance with n = 13 of this machine.
  std::string failure(gd::machine machine) {
    auto engine = start(options({std::move(machine)}));
    db.rows("insert into gen_durable (fsm, step, state) values ('Probe', "
            "'first', '{\"n\": 13, \"note\": \"\"}')");
    auto row = ask<gd::inserted>(
      engine, gd::insert{.fsm = "Probe",
                         .state = gd::to_json(probe_state{13, {}}),
                         .priority = -1});
    wait_until_count("status = 'failed'", 2);
    CAF_CHECK(log.all<events::step_crashed>().empty());
    return error_of(row->id);
  }

  /// A step that takes longer than its limit, with another row in line.
  void exceed_the_limit(gd::step_options how) {
    gate slow;
    std::stop_token told;
    std::mutex mutex;
    how.limit = 50ms;
    auto machine = beginning_with(how, [&](probe_context& ctx) {
      {
        std::lock_guard guard{mutex};
        told = ctx.stop_token();
      }
      slow.pass();
      return gd::done();
    });
    insert(1);
    auto opts = options({machine, probe{}.named("Other", 1)});
    opts.queues = {{"default", 1, 0}};
    auto engine = start(std::move(opts));
    CAF_REQUIRE(slow.wait_for(1));
    insert(1, "Other");
    // The handler is called at once, and its outcome counts.
    wait_until_count("status = 'failed' and last_error = "
                     "'step first took longer than 50ms, n = 0'",
                     1);
    CAF_CHECK(log.exactly<events::step_over_limit>(1));
    {
      std::lock_guard guard{mutex};
      CAF_CHECK(wait_for_stop(told));
    }
    // The function has the slot until it returns: four polls change nothing.
    wait_until_count("status = 'failed' and updated_at < clock_timestamp() - "
                     "interval '200 ms'",
                     1);
    CAF_CHECK_EQUAL(count("fsm = 'Other' and status = 'runnable'"), "1");
    CAF_CHECK(log.all<events::step_returned_late>().empty());
    slow.open();
    wait_until_count("fsm = 'Other' and status = 'done'", 1);
    CAF_CHECK(log.exactly<events::step_returned_late>(1));
    // What it returned has changed nothing.
    CAF_CHECK_EQUAL(count("fsm = 'Probe' and status = 'failed'"), "1");
    CAF_CHECK(log.exactly<events::step_committed>(2));
    CAF_CHECK(log.all<events::outcome_stale>().empty());
    CAF_CHECK(log.all<events::step_crashed>().empty());
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(step_kinds_tests, step_kinds_fixture)

// -- asynchronous steps -------------------------------------------------------

CAF_TEST(a purchase asks the bank and prints and ships) {
  auto teller = sys.spawn(bank);
  {
    auto engine = start(options({purchase(teller)}));
    auto row = ask<gd::inserted>(
      engine, gd::insert{.fsm = "Purchase",
                         .state = gd::to_json(purchase_state{.amount = 42})});
    CAF_REQUIRE(row);
    wait_until_count("status = 'done'", 1);
    CAF_CHECK_EQUAL(
      db.scalar("select result ->> 'receipt_number' from gen_durable"), "420");
    CAF_CHECK_EQUAL(db.scalar("select result ->> 'document' from gen_durable"),
                    "page 1; page 2; page 3; ");
    auto dear = ask<gd::inserted>(
      engine, gd::insert{.fsm = "Purchase",
                         .state = gd::to_json(purchase_state{.amount = 5000})});
    CAF_REQUIRE(dear);
    wait_until_count("status = 'failed' and attempt = 3 and last_error like "
                     "'step pay: %not covered%'",
                     1);
  }
  anon_send_exit(teller, caf::exit_reason::user_shutdown);
}

CAF_TEST(what a machine keeps is let go when its engine has stopped) {
  auto teller = sys.spawn(bank);
  caf::scoped_actor self{sys};
  self->monitor(teller);
  auto how = options({purchase(teller)});
  teller = nullptr;
  how.reaper = how.lease = 3h; // for so long timers keep actors
  how.heartbeat = 1h;
  {
    auto engine = start(std::move(how));
    CAF_REQUIRE(ask<gd::inserted>(
      engine, gd::insert{.fsm = "Purchase",
                         .state = gd::to_json(purchase_state{.amount = 42})}));
    wait_until_count("status = 'done'", 1);
  }
  self->receive([](const caf::down_msg& x) {
    CAF_CHECK_EQUAL(x.reason, caf::exit_reason::unreachable);
  });
}

CAF_TEST(an asynchronous outcome removes the signals that its step took) {
  insert(1);
  db.rows("insert into gen_durable_signals (target_id, name, payload) select "
          "id, 'say', "
          "'{\"text\": \"hello\"}' from gen_durable");
  auto engine = start(options({async_first([](async_probe ctx) {
    ctx.self->become([ctx](int) {
      ctx->state.note = ctx->take<word>("say").value().text;
      ctx.finish(gd::done(ctx->state));
    });
    ctx.self->send(ctx.self, 1);
  })}));
  wait_until_count("status = 'done' and result ->> 'note' = 'hello'", 1);
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals"), "0");
}

CAF_TEST(
  an exception in a continuation reaches the handler with the state as picked) {
  auto other = sys.spawn(doubler);
  auto text = failure(async_first([other](async_probe ctx) {
    ctx->state.n = 7;
    ctx.self->request(other, 10s, std::int64_t{1})
      .then([ctx](std::int64_t) -> void {
        throw std::runtime_error{"in a continuation"};
      });
  }));
  CAF_CHECK_EQUAL(text, "in a continuation, n = 13");
  anon_send_exit(other, caf::exit_reason::user_shutdown);
}

CAF_TEST(an exception in a delayed message reaches the handler) {
  auto text = failure(async_first([](async_probe ctx) {
    ctx.self->become(
      [ctx](int) -> void { throw std::runtime_error{"in a delayed message"}; });
    ctx.self->delayed_send(ctx.self, 10ms, 1);
  }));
  CAF_CHECK_EQUAL(text, "in a delayed message, n = 13");
}

CAF_TEST(an exception of the function itself reaches the handler) {
  auto text = failure(async_first(
    [](async_probe) { throw std::runtime_error{"at the beginning"}; }));
  CAF_CHECK_EQUAL(text, "at the beginning, n = 13");
}

CAF_TEST(an error that answers a request reaches the handler) {
  auto other = sys.spawn(doubler);
  auto text = failure(async_first([other](async_probe ctx) {
    ctx.self->request(other, 10s, ctx->state.n).then([ctx](std::int64_t) {
      ctx.finish(gd::done());
    });
  }));
  CAF_CHECK(text.starts_with("step first: "));
  CAF_CHECK(text.find("not thirteen") != std::string::npos);
  anon_send_exit(other, caf::exit_reason::user_shutdown);
}

CAF_TEST(a request that is not answered in time reaches the handler) {
  auto deaf = sys.spawn([](caf::event_based_actor* self) -> caf::behavior {
    return {[self](int) { return self->make_response_promise<int>(); }};
  });
  auto text = failure(async_first([deaf](async_probe ctx) {
    ctx.self->request(deaf, 20ms, 1).then([ctx](int) {
      ctx.finish(gd::done());
    });
  }));
  CAF_CHECK(text.find("timeout") != std::string::npos);
  anon_send_exit(deaf, caf::exit_reason::user_shutdown);
}

CAF_TEST(a context that is dropped without an outcome is noticed at once) {
  auto forgetful = failure(async_first([](async_probe) {}, {.limit = 1h}));
  CAF_CHECK_EQUAL(
    forgetful,
    "step first: its context was dropped without an outcome, n = 13");
}

CAF_TEST(a context that a continuation drops is noticed at once) {
  auto other = sys.spawn(doubler);
  auto text = failure(async_first(
    [other](async_probe ctx) {
    ctx.self->request(other, 10s, std::int64_t{1}).then([ctx](std::int64_t) {
      // forgets it
    });
    },
    {.limit = 1h}));
  CAF_CHECK_EQUAL(
    text, "step first: its context was dropped without an outcome, n = 13");
  anon_send_exit(other, caf::exit_reason::user_shutdown);
}

CAF_TEST(of two outcomes the first one counts) {
  insert(1);
  auto engine = start(options({async_first([](async_probe ctx) {
    ctx->state.n = 1;
    ctx.finish(gd::next(probe_step::second, ctx->state));
    ctx->state.n = 2;
    ctx.finish(gd::next(probe_step::third, ctx->state));
    throw std::runtime_error{"too late"};
  })}));
  wait_until_count("status = 'done' and step = 'second' and "
                   "result ->> 'n' = '1'",
                   1);
  CAF_CHECK_EQUAL(starts().size(), 2u);
}

CAF_TEST(
  an asynchronous outcome that cannot be carried out reaches the handler) {
  auto text = failure(async_first(
    [](async_probe ctx) { ctx.finish(gd::await("", ctx->state)); }));
  CAF_CHECK(text.starts_with("outcome await of step first: "));
}

CAF_TEST(an asynchronous outcome that the database refuses reaches the
           handler and its refused outcome ends the instance) {
  db.rows("alter table gen_durable add constraint no_five check (state ->> "
          "'n' is distinct from '5')");
  insert(1);
  auto engine = start(options({async_first(
    [](async_probe ctx) {
    ctx->state.n = 5;
    ctx.finish(gd::next<probe_step::second>(ctx->state));
    },
    {},
    [](const gd::failure&, probe_context& ctx) {
    ctx.state.n = 5;
    return gd::replay(ctx.state);
  })}));
  wait_until_count("status = 'failed' and "
                   "last_error like '%refused the handler''s outcome%'",
                   1);
  CAF_CHECK(log.exactly<events::outcome_refused>(2));
  CAF_CHECK_EQUAL(starts().size(), 1u);
}

CAF_TEST(a state that does not decode fails its asynchronous step untouched) {
  insert(1);
  db.rows("update gen_durable set state = '{\"n\": \"many\"}'");
  auto engine = start(options({async_first(
    [](async_probe ctx) { ctx.finish(gd::done()); }, {},
    [](const gd::failure&, probe_context&) { return gd::done(); })}));
  wait_until_count("status = 'failed' and last_error like 'state of Probe "
                   "v1: $.n: %' and state ->> 'n' = 'many'",
                   1);
}

CAF_TEST(an asynchronous step that is killed calls no handler and waits for its
           lease) {
  insert(2);
  auto engine = start(options({async_first([](async_probe ctx) {
    if (ctx->id == 1)
      ctx.self->quit(); // without an outcome: the same
    else
      anon_send_exit(ctx.self, caf::exit_reason::kill);
    ctx.self->become([ctx](int) {});
  })}));
  CAF_REQUIRE(log.wait_for<events::step_crashed>(2));
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "2");
}

CAF_TEST(five thousand asynchronous steps that wait are each done once) {
  constexpr int n = 5'000;
  insert(n);
  auto opts = options({async_first([](async_probe ctx) {
    ctx.self->become([ctx](int) { ctx.finish(gd::done()); });
    ctx.self->delayed_send(ctx.self, 50ms, 1);
  })});
  opts.queues = {{"default", n, 0}};
  auto begun = std::chrono::steady_clock::now();
  auto engine = start(std::move(opts));
  wait_until_count("status = 'done' and attempt = 0", n);
  // One after the other they would take 250 s; the next test has all in flight.
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  CAF_MESSAGE("5,000 steps of 50 ms: " << took.count() << " s");
  CAF_CHECK_EQUAL(log.all<events::step_started>().size(),
                  static_cast<std::size_t>(n));
}

CAF_TEST(ten thousand asynchronous steps in flight need little memory) {
  constexpr int n = 10'000;
  shelf waiting;
  insert(n);
  auto opts = options(
    {async_first([&](async_probe ctx) { waiting.put(ctx); })});
  opts.queues = {{"default", n, 0}};
  opts.on_event = [](const gd::event&) {};
  auto before = resident();
  auto engine = start(std::move(opts));
  CAF_REQUIRE(waiting.wait_for(n));
  auto grown = resident() - before;
  CAF_MESSAGE("ten thousand steps in flight: " << grown << " MB");
  CAF_CHECK(grown < 200);
  for (auto& ctx : waiting.take())
    ctx.finish(gd::done());
  wait_until_count("status = 'done' and attempt = 0", n);
}

// -- time limits --------------------------------------------------------------

CAF_TEST(a plain step over its limit is handled at once and has its slot until
           it returns) {
  exceed_the_limit({});
}

CAF_TEST(a blocking step over its limit is handled at once and has its slot
           until it returns) {
  exceed_the_limit({.blocking = true});
}

CAF_TEST(an asynchronous step over its limit is handled and its late outcome is
           dropped) {
  shelf waiting;
  insert(1);
  auto opts = options(
    {async_first([&](async_probe ctx) { waiting.put(ctx); }, {.limit = 50ms})});
  opts.queues = {{"default", 1, 0}};
  auto engine = start(std::move(opts));
  wait_until_count("status = 'failed' and last_error = "
                   "'step first took longer than 50ms, n = 0'",
                   1);
  auto late = waiting.take();
  CAF_REQUIRE_EQUAL(late.size(), 1u);
  CAF_CHECK(wait_for_stop(late.front()->stop_token()));
  late.front().finish(gd::done());
  // Its actor is gone, and the slot is free: the next one begins.
  insert(1);
  CAF_REQUIRE(waiting.wait_for(1));
  wait_until_count("status = 'failed'", 2);
  CAF_CHECK(log.all<events::outcome_stale>().empty());
  CAF_CHECK(log.all<events::step_crashed>().empty());
}

CAF_TEST(a late exception calls no handler again) {
  gate slow;
  std::atomic<int> handled = 0;
  insert(1);
  auto opts = options({beginning_with(
    {.blocking = true, .limit = 50ms},
    [&](probe_context&) -> gd::outcome {
      slow.pass();
      throw std::runtime_error{"late"};
    },
    [&](const gd::failure& why, probe_context&) {
    ++handled;
    return gd::stop(why.message());
    })});
  auto engine = start(std::move(opts));
  wait_until_count("status = 'failed'", 1);
  slow.open();
  CAF_REQUIRE(log.wait_for<events::step_returned_late>());
  CAF_CHECK_EQUAL(handled.load(), 1);
}

CAF_TEST(a step within its limit is not disturbed) {
  insert(200);
  auto engine = start(options({beginning_with(
    {.limit = 1h}, [](probe_context&) { return gd::done(); })}));
  wait_until_count("status = 'done'", 200);
  CAF_CHECK(log.all<events::step_over_limit>().empty());
}

// -- being told ---------------------------------------------------------------

CAF_TEST(a lost lease stops the step by its token) {
  gate there;
  std::promise<bool> lost;
  insert(1);
  auto engine = start(
    options({beginning_with({.blocking = true}, [&](probe_context& ctx) {
      auto token = ctx.stop_token();
      there.pass();
      lost.set_value(wait_for_stop(token) && ctx.lease_lost());
      return gd::done();
    })}));
  CAF_REQUIRE(there.wait_for(1));
  db.rows("update gen_durable set locked_by = 'other/1/1'");
  there.open();
  CAF_CHECK(lost.get_future().get());
  CAF_REQUIRE(log.wait_for<events::outcome_stale>());
  CAF_CHECK_EQUAL(count("status = 'executing' and locked_by = 'other/1/1'"),
                  "1");
}

CAF_TEST(heartbeats go on while plain steps block all threads but one) {
  few_threads few{2};
  gate blocked;
  shelf waiting;
  insert(3, "Async");
  probe plain;
  plain.first = [&](probe_context&) {
    blocked.pass();
    return gd::done();
  };
  auto asynchronous = async_first([&](async_probe ctx) { waiting.put(ctx); });
  asynchronous.name = "Async";
  auto engine = gd::actors::start(few.sys, options({plain, asynchronous}));
  CAF_REQUIRE(engine);
  CAF_REQUIRE(waiting.wait_for(3));
  insert(2);
  CAF_REQUIRE(blocked.wait_for(1)); // the other waits for its thread
  db.rows("update gen_durable set lease_expires_at = clock_timestamp() + "
          "interval '5 s'");
  wait_until_count("status = 'executing' and "
                   "lease_expires_at > clock_timestamp() + interval '50 s'",
                   5);
  CAF_CHECK(log.all<events::lease_lost>().empty());
  blocked.open();
  for (auto& ctx : waiting.take())
    ctx.finish(gd::done());
  wait_until_count("status = 'done' and attempt = 0", 5);
}

CAF_TEST(the gateway and actors of users answer while plain steps wait for each
           other) {
  answer_while_steps_block({});
}

CAF_TEST(the gateway and actors of users answer while plain steps with time
           limits wait for each other) {
  answer_while_steps_block({.limit = 1h});
}

CAF_TEST(the gateway and actors of users answer while handlers wait for each
           other) {
  few_threads few{2};
  gate blocked;
  shelf never;
  insert(10);
  auto engine = gd::actors::start(
    few.sys, options({async_first([&](async_probe ctx) { never.put(ctx); },
                                  {.limit = 1ms},
                                  [&](const gd::failure&, probe_context&) {
    blocked.pass();
    return gd::done();
    })}));
  CAF_REQUIRE(engine);
  CAF_REQUIRE(log.wait_for<events::step_over_limit>(10));
  CAF_REQUIRE(blocked.wait_for(1));
  check_answers(few.sys, *engine);
  blocked.open();
  wait_until_count("status = 'done' and attempt = 0", 10);
  engine->stop();
  // Those whose time was over before they began do not return.
  CAF_CHECK(log.all<events::step_returned_late>().size()
            <= log.all<events::step_started>().size());
}

CAF_TEST(two engines in an actor system leave one of its threads free) {
  few_threads few{3};
  gate blocked;
  insert(20);
  probe plain;
  plain.first = [&](probe_context&) {
    blocked.pass();
    return gd::done();
  };
  auto a = gd::actors::start(few.sys, options({plain}, "a"));
  auto b = gd::actors::start(few.sys, options({plain}, "b"));
  CAF_REQUIRE(a);
  CAF_REQUIRE(b);
  CAF_REQUIRE(blocked.wait_for(2));
  db.wait_until("select count(*) > 0 from gen_durable where locked_by like "
                "'b/%'",
                "t");
  check_answers(few.sys, *a);
  check_answers(few.sys, *b);
  blocked.open();
  wait_until_count("status = 'done' and attempt = 0", 20);
}

CAF_TEST(a function that does not return holds up no handler
         and no time limit of others counts meanwhile) {
  few_threads few{2};
  gate slow;
  insert(2);
  auto engine = gd::actors::start(
    few.sys, options({beginning_with({.limit = 50ms}, [&](probe_context&) {
      slow.pass();
      return gd::done();
    })}));
  CAF_REQUIRE(engine);
  // It has the only thread for steps: its handler gets another, and the second
  // step does not begin.
  wait_until_count("status = 'failed' and last_error = 'step first took longer "
                   "than 50ms, n = 0'",
                   1);
  wait_until_count("status = 'executing'", 1);
  check_answers(few.sys, *engine);
  slow.open();
  CAF_REQUIRE(log.wait_for<events::step_returned_late>());
  wait_until_count("status = 'done' and attempt = 0", 1);
  CAF_CHECK(log.exactly<events::step_over_limit>(1));
}

// -- more than one node --------------------------------------------------------

CAF_TEST(rows ahead of steps that turn slow go to another node) {
  few_threads few{3};
  constexpr int n = 4'000;
  gate slow;
  std::atomic<int> begun = 0;
  probe turning;
  turning.first = [&](probe_context&) {
    if (++begun > n / 4)
      slow.pass();
    return gd::done();
  };
  insert(n);
  auto opts = [this](gd::machine machine, const std::string& node) {
    auto x = options({std::move(machine)}, node);
    x.lease = 4s; // rows may wait for a second
    return x;
  };
  auto a = gd::actors::start(few.sys, opts(turning, "a"));
  CAF_REQUIRE(a);
  CAF_REQUIRE(slow.wait_for(2)); // as many as run at the same time
  auto b = start(opts(probe{}, "b"));
  // All but those that have begun, and as many that might begin next.
  db.wait_until("select count(*) filter (where status <> 'done') <= 6 from "
                "gen_durable",
                "t");
  CAF_CHECK(!log.all<events::rows_released>().empty());
  CAF_CHECK_EQUAL(count("attempt > 0"), "0");
  slow.open();
  wait_until_count("status = 'done' and attempt = 0", n);
  CAF_CHECK(log.all<events::lease_lost>().empty());
}

// -- stopping -----------------------------------------------------------------

CAF_TEST(a stop commits the asynchronous steps that end within its grace) {
  shelf waiting;
  insert(20);
  auto opts = options(
    {async_first([&](async_probe ctx) { waiting.put(ctx); })});
  opts.queues = {{"default", 20, 0}};
  auto engine = start(std::move(opts));
  CAF_REQUIRE(waiting.wait_for(20));
  auto stopping = std::async(std::launch::async, [&] { engine.stop(); });
  for (auto& ctx : waiting.take())
    ctx.finish(gd::done());
  stopping.get();
  CAF_CHECK_EQUAL(count("status = 'done' and attempt = 0"), "20");
  auto end = log.all<events::node_stopped>();
  CAF_CHECK_EQUAL(end.front().abandoned, 0u);
}

CAF_TEST(a stop leaves the asynchronous steps that still run to their
           leases and tells them) {
  shelf waiting;
  insert(20);
  auto opts = options(
    {async_first([&](async_probe ctx) { waiting.put(ctx); })});
  opts.queues = {{"default", 20, 0}};
  opts.stop_grace = 50ms;
  auto engine = start(std::move(opts));
  CAF_REQUIRE(waiting.wait_for(20));
  engine.stop();
  auto end = log.all<events::node_stopped>();
  CAF_CHECK_EQUAL(end.front().abandoned, 20u);
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "20");
  for (auto& ctx : waiting.take()) {
    CAF_CHECK(wait_for_stop(ctx->stop_token()));
    ctx.finish(gd::done()); // nobody minds
  }
  CAF_CHECK_EQUAL(count("status = 'executing' and attempt = 0"), "20");
}

// -- definitions --------------------------------------------------------------

CAF_TEST(a step cannot be asynchronous and blocking and its limit is positive) {
  auto refused = [&](gd::machine machine) {
    auto engine = gd::actors::start(sys, options({std::move(machine)}));
    return engine ? std::string{"started"} : engine.error().message;
  };
  CAF_CHECK_EQUAL(
    refused(async_first([](async_probe) {}, {.blocking = true})),
    "Probe v1: step first is asynchronous and blocking, expected one of them");
  CAF_CHECK_EQUAL(refused(beginning_with(
                    {.limit = 0s}, [](probe_context&) { return gd::done(); })),
                  "Probe v1: step first has a limit of 0 ms, expected 1 ms to "
                  "100 years");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace step_kinds_suite
