#define CAF_SUITE async_testing

// Asynchronous steps in a simulation: what an engine would make of them, at once.

#include <gd/actors/async.hpp>
#include <gd/actors/testing.hpp>

#include <caf/all.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace async_testing_suite {

using namespace std::literals;

GD_ENUM(errand_step, ask, tell);

struct errand {
  std::int64_t n = 0;
  GD_STATE(errand, n);
};

namespace {

using simulation = gd::actors::testing::simulation;
using async_context = gd::actors::async_context<errand>;
using texts = std::vector<std::string>;

const auto start = gd::testing::simulation_settings{}.start;

/// A simulation of one machine with one instance.
struct fixture {
  simulation sim;
  std::int64_t id = 0;

  explicit fixture(std::function<void(async_context)> ask,
                   gd::step_options how = {}) {
    begin([ask = std::move(ask)](caf::actor_system&) { return ask; },
          std::move(how));
  }

  fixture(std::function<std::function<void(async_context)>(caf::actor_system&)>
            make) {
    begin(std::move(make), {});
  }

  texts run() {
    auto ran = sim.drain();
    texts out;
    for (const auto& x : sim.history())
      out.push_back(to_string(x));
    if (!ran)
      out.push_back(ran.error().message);
    return out;
  }

  auto passed() {
    return sim.now() - start;
  }

  std::string error() {
    return sim.instance(id)->last_error.value_or("none");
  }

private:
  template <class Make>
  void begin(Make make, gd::step_options how) {
    auto known = sim.add(
      gd::define<errand, errand_step>("Errand", 1)
        .step(errand_step::ask, std::move(how),
              gd::actors::async(make(sim.system())))
        .step(errand_step::tell,
              [](gd::context<errand>& ctx) { return gd::done(ctx.state); })
        .on_error(
          [](const gd::failure& why, gd::context<errand>& ctx) -> gd::outcome {
            if (ctx.failures() < 1)
              return gd::replay(ctx.state);
            return gd::stop(why.message());
          }));
    CAF_REQUIRE(known);
    id = sim.insert({.fsm = "Errand", .state = gd::to_json(errand{7})})->id;
  }
};

texts failed_twice(const std::string& why) {
  return {"ask: replay after 0 us (by the handler)",
          "ask, attempt 1: stop " + why + " (by the handler)"};
}

void finish(const async_context& ctx, std::int64_t n) {
  ctx->state.n = n;
  ctx.finish(gd::next(errand_step::tell, ctx->state));
}

} // namespace

CAF_TEST(an answer of another actor is the outcome) {
  fixture x{[](caf::actor_system& sys) {
    auto doubles = sys.spawn(
      []() -> caf::behavior { return {[](int n) { return 2 * n; }}; });
    return [doubles](async_context ctx) {
      ctx.self->request(doubles, 1s, static_cast<int>(ctx->state.n))
        .then([ctx](int n) { finish(ctx, n); });
    };
  }};
  CAF_CHECK_EQUAL(x.run(), (texts{"ask: next tell", "tell: done"}));
  CAF_CHECK(x.sim.result<errand>(x.id)->n == 14);
  CAF_CHECK(x.passed() == 0s);
}

CAF_TEST(delays take simulated time and none of ours) {
  fixture x{[](async_context ctx) {
    ctx.self->delayed_send(ctx.self, 90s, 3);
    ctx.self->become([ctx](int n) { finish(ctx, n); });
  }};
  CAF_CHECK_EQUAL(x.run(), (texts{"ask: next tell", "tell: done"}));
  CAF_CHECK(x.passed() == 90s);
}

CAF_TEST(
  a step that never answers ends at its time limit and its handler is called) {
  std::weak_ptr<int> kept;
  fixture x{[&kept](async_context ctx) {
    auto alive = std::make_shared<int>();
    kept = alive;
    ctx.self->become([ctx, alive](int) {});
            },
            {.limit = 1500ms}};
  CAF_CHECK_EQUAL(x.run(), failed_twice("step ask took longer than 1500ms"));
  CAF_CHECK(x.passed() == 3s);
  CAF_CHECK(kept.expired());
}

CAF_TEST(a step without a limit of its own has five minutes) {
  fixture x{[](async_context ctx) { ctx.self->become([ctx](int) {}); }};
  CAF_CHECK_EQUAL(x.run(), failed_twice("step ask took longer than 300s"));
  CAF_CHECK(x.passed() == 10min);
}

CAF_TEST(
  an answer in time counts although another timer goes on after the limit) {
  fixture x{[](async_context ctx) {
    ctx.self->delayed_send(ctx.self, 2s, 1.5);
    ctx.self->delayed_send(ctx.self, 1s, 3);
    ctx.self->become([ctx](int n) { finish(ctx, n); },
                     [](double) { throw std::logic_error("late"); });
            },
            {.limit = 1500ms}};
  CAF_CHECK_EQUAL(x.run(), (texts{"ask: next tell", "tell: done"}));
  CAF_CHECK(x.passed() == 1s);
}

CAF_TEST(the stop token of a step over its limit is asked to stop) {
  bool stopped = false;
  fixture x{[&stopped](async_context ctx) {
    auto on_stop = [&stopped] { stopped = true; };
    auto callback = std::make_shared<std::stop_callback<decltype(on_stop)>>(
      ctx->stop_token(), on_stop);
    ctx.self->become([ctx, callback](int) {});
            },
            {.limit = 1s}};
  CAF_CHECK(x.sim.step());
  CAF_CHECK(stopped);
}

CAF_TEST(what the function
         or a continuation throws is an exception of the step) {
  fixture at_once{[](async_context) { throw std::runtime_error("no"); }};
  CAF_CHECK_EQUAL(at_once.run(), failed_twice("no"));
  fixture later{[](async_context ctx) {
    ctx.self->delayed_send(ctx.self, 1s, 3);
    ctx.self->become([ctx](int) { throw std::runtime_error("not now"); });
  }};
  CAF_CHECK_EQUAL(later.run(), failed_twice("not now"));
  fixture answered{[](caf::actor_system& sys) {
    auto echo = sys.spawn(
      []() -> caf::behavior { return {[](int n) { return n; }}; });
    return [echo](async_context ctx) {
      ctx.self->request(echo, 1s, 1).then([ctx](int) {
        throw std::runtime_error("not that");
      });
    };
  }};
  CAF_CHECK_EQUAL(answered.run(), failed_twice("not that"));
}

CAF_TEST(an error that nobody handles is an exception of the step) {
  fixture x{[](caf::actor_system& sys) {
    auto silent = sys.spawn([](caf::event_based_actor* self) -> caf::behavior {
      return {[self](int) { return self->make_response_promise<int>(); }};
    });
    return [silent](async_context ctx) {
      ctx.self->request(silent, 2s, 1).then([ctx](int n) { finish(ctx, n); });
    };
  }};
  x.run();
  CAF_CHECK(x.error().starts_with("step ask: "));
  CAF_CHECK(x.error().find("request_timeout") != std::string::npos);
  CAF_CHECK(x.passed() == 4s);
}

CAF_TEST(a context that is dropped is noticed at once) {
  fixture x{[](async_context) {}};
  CAF_CHECK_EQUAL(
    x.run(),
    failed_twice("step ask: its context was dropped without an outcome"));
  CAF_CHECK(x.passed() == 0s);
}

CAF_TEST(a step whose actor is killed has crashed and runs again) {
  int runs = 0;
  fixture x{[&runs](async_context ctx) {
    if (++runs == 1)
      return ctx.self->quit(caf::exit_reason::kill);
    finish(ctx, 1);
  }};
  CAF_CHECK_EQUAL(
    x.run(), (texts{"ask: crash", "ask, attempt 1: next tell", "tell: done"}));
}

CAF_TEST(an outcome that is lost is delivered again by the next execution) {
  fixture x{[](async_context ctx) { finish(ctx, 1); }};
  x.sim.crash_next(x.id);
  CAF_CHECK_EQUAL(
    x.run(), (texts{"ask: crash", "ask, attempt 1: next tell", "tell: done"}));
}

CAF_TEST(of several outcomes the first one counts and contexts may be kept) {
  std::vector<async_context> kept;
  fixture x{[&kept](async_context ctx) {
    kept.push_back(ctx);
    finish(ctx, 1);
    finish(ctx, 2);
  }};
  CAF_CHECK_EQUAL(x.run(), (texts{"ask: next tell", "tell: done"}));
  finish(kept.front(), 3);
  CAF_CHECK(x.sim.result<errand>(x.id)->n == 1);
  kept.clear();
}

CAF_TEST(deadlines of other instances pass while a step waits) {
  fixture x{[](async_context ctx) {
    ctx.self->delayed_send(ctx.self, 1h, 3);
    ctx.self->become([ctx](int n) { finish(ctx, n); });
  }};
  auto later = x.sim.insert(
    {.fsm = "Errand", .state = gd::to_json(errand{8}), .delay_us = 60'000'000});
  CAF_CHECK(x.sim.step());
  CAF_CHECK(x.sim.instance(later->id)->eligible_at_us
            < x.sim.now().time_since_epoch() / 1us);
  CAF_CHECK(*x.sim.drain() == 3);
}

CAF_TEST(actors run between the steps and their timers when time passes) {
  fixture x{[](async_context ctx) { finish(ctx, 1); }};
  std::vector<std::int64_t> at;
  auto clerk = x.sim.system().spawn([&](caf::event_based_actor* self) {
    self->delayed_send(self, 30s, 1);
    return caf::behavior{[&x, &at](int) {
      at.push_back((x.sim.now() - start) / 1s);
      CAF_CHECK(
        x.sim.insert({.fsm = "Errand", .state = gd::to_json(errand{9})}));
    }};
  });
  CAF_CHECK(*x.sim.run_for(1min) == 4);
  CAF_CHECK_EQUAL(at, std::vector<std::int64_t>{30});
  CAF_CHECK(x.passed() == 1min);
}

CAF_TEST(a simulation has a gateway that does what the simulation does) {
  fixture x{[](async_context ctx) { finish(ctx, 1); }};
  texts heard;
  x.sim.system().spawn(
    [&heard, gateway = x.sim.gateway()](caf::event_based_actor* self) {
    auto& sys = self->system();
    auto ask = [self, &heard, &sys, gateway](auto what, auto then) {
      self->request(gateway, caf::infinite, std::move(what))
        .then(then, [&heard, &sys](const caf::error& why) {
          heard.push_back(to_string(gd::actors::from_caf(sys, why)));
        });
    };
    gd::insert row{
      .fsm = "Errand", .state = gd::to_json(errand{9}), .unique_key = "k"};
    gd::insert bad{.fsm = "Nobody"};
    ask(row, [&heard](const gd::inserted& y) {
      heard.push_back("inserted " + std::to_string(y.id));
    });
    ask(gd::insert_all{{row, bad}}, [&heard](const gd::inserted_all& y) {
      heard.push_back(std::to_string(y.rows.size()) + " "
                      + std::to_string(*y.rows[0].id)
                      + (y.rows[0].duplicate ? " duplicate" : "")
                      + (y.rows[1].id ? "" : " refused"));
    });
    ask(gd::signal{.name = "x", .key = "k"},
        [&heard](const gd::signalled&) { heard.push_back("signalled"); });
    ask(gd::signal{.name = "x"}, [](const gd::signalled&) {});
    ask(gd::look_up{.key = "k"}, [&heard](const gd::instance& y) {
      heard.push_back("inbox " + std::to_string(y.inbox));
    });
    ask(gd::stats_query{}, [](const gd::stats&) {});
    ask(gd::await_result{.key = "nobody"}, [](const gd::awaited&) {});
  });
  CAF_CHECK(x.sim.run_for(1s));
  CAF_CHECK_EQUAL(heard,
                  (texts{"inserted 2", "2 2 duplicate refused", "signalled",
                         "gd::invalid_argument: target or key: expected one of "
                         "them, got neither",
                         "inbox 1",
                         "gd::invalid_argument: a simulation counts nothing "
                         "and keeps no history",
                         "gd::no_such_target: there is no instance with the "
                         "unique key nobody"}));
}

CAF_TEST(a simulation tells an end to whoever awaits it) {
  fixture x{[](async_context ctx) { finish(ctx, 1); }};
  texts heard;
  auto ask = [&](gd::await_result what) {
    x.sim.system().spawn(
      [&heard, gateway = x.sim.gateway(), what](caf::event_based_actor* self) {
      auto& sys = self->system();
      self->request(gateway, caf::infinite, what)
        .then(
          [&heard](const gd::awaited& y) {
        heard.push_back(y.status + ' ' + std::to_string(y.seq));
          },
          [&heard, &sys](const caf::error& why) {
        heard.push_back(to_string(gd::actors::from_caf(sys, why)));
        });
    });
  };
  auto later = x.sim.insert(
    {.fsm = "Errand", .state = gd::to_json(errand{9}), .delay_us = 5'000'000});
  CAF_REQUIRE(later);
  ask({.id = later->id});
  ask({.id = later->id, .within_us = 2'000'000});
  CAF_CHECK(x.sim.run_for(3s));
  CAF_CHECK_EQUAL(heard,
                  (texts{"gd::timed_out: instance " + std::to_string(later->id)
                         + " has not ended in time"}));
  CAF_CHECK(x.sim.run_for(3s));
  ask({.id = later->id});
  CAF_CHECK(x.sim.advance(1ms));
  CAF_CHECK_EQUAL(heard.size(), 3u);
  CAF_CHECK(heard.at(1).starts_with("done "));
  CAF_CHECK_EQUAL(heard.at(1), heard.at(2));
}

CAF_TEST(actors that write to themselves for ever are an error and no hang) {
  fixture x{[](async_context ctx) {
    ctx.self->send(ctx.self, 1);
    ctx.self->become([ctx](int) { ctx.self->send(ctx.self, 1); });
  }};
  auto ran = x.sim.drain();
  CAF_REQUIRE(!ran);
  CAF_CHECK(ran.error().message.starts_with("expected that actors are quiet"));
  CAF_CHECK(x.sim.instance(x.id)->status == "runnable");
  fixture other{[](async_context ctx) { finish(ctx, 1); }};
  auto restless = std::make_shared<bool>(true);
  other.sim.system().spawn([restless](caf::event_based_actor* self) {
    self->send(self, 1);
    return caf::behavior{[self, restless](int) {
      if (*restless)
        self->send(self, 1);
    }};
  });
  CAF_CHECK(!other.sim.drain());
  *restless = false;
  CAF_CHECK(other.sim.drain());
}

CAF_TEST(actors that still wait end with the simulation) {
  std::weak_ptr<int> kept;
  {
    fixture x{[](async_context ctx) { finish(ctx, 1); }};
    auto alive = std::make_shared<int>();
    kept = alive;
    x.sim.system().spawn([alive](caf::event_based_actor* self) {
      self->delayed_send(self, 1h, 1);
      return caf::behavior{
        [self, alive](int) { self->delayed_send(self, 1h, 1); }};
    });
    alive = nullptr;
    CAF_CHECK(x.sim.run_for(10h));
    CAF_CHECK(!kept.expired());
  }
  CAF_CHECK(kept.expired());
}

} // namespace async_testing_suite
