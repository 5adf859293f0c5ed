#define CAF_SUITE run

#include <gd/engine/step/run.hpp>

#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace std::literals;
using gd::test::contains;

namespace parcels {

GD_ENUM(parcel_phase, collect, ship);
GD_ENUM(foreign_phase, collect, vanish);

struct order {
  std::int64_t number = 0;
  double weight = 0;
  std::string note{};

  GD_STATE(order, number, weight, note);
};

struct parcel {
  std::int64_t number = 0;

  GD_STATE(parcel, number);
};

struct payment {
  std::int64_t amount = 0;

  GD_STATE(payment, amount);
};

/// What its text says is JSON.
struct digits {
  std::string text = "0";

  bool operator==(const digits&) const = default;
};

struct counted {
  digits count{};

  GD_STATE(counted, count);
};

} // namespace parcels

template <>
struct gd::json_codec<parcels::digits> {
  static result<void> write(std::string& out, const parcels::digits& x,
                            const json_path&) {
    out += x.text;
    return {};
  }

  static result<void> read(const json_value& in, parcels::digits& x) {
    x.text = in.raw();
    return {};
  }
};

namespace run_suite {

namespace {

using gd::store::write_kind;
using parcels::foreign_phase;
using parcels::order;
using parcels::parcel;
using parcels::parcel_phase;
using parcels::payment;

using context = gd::context<order>;
using body = std::function<gd::outcome(context&)>;
using handler = std::function<gd::outcome(const gd::failure&, context&)>;

/// One run of step `collect`, picked with number = 7 in its third attempt.
struct fixture {
  gd::store::picked_row picked{
    .id = 42,
    .fsm = "Order",
    .fsm_version = 3,
    .step = "collect",
    .state = R"({"note": "as picked", "number": 7, "weight": 1.5})",
    .attempt = 2};
  gd::limits bounds;
  gd::lease_ptr lease = std::make_shared<gd::lease>(42, "node/incarnation/9");
  std::unique_ptr<gd::run> under_test;

  gd::held_row_ptr held(gd::machine of) const {
    return std::make_shared<gd::held_row>(
      std::make_shared<const gd::machine>(std::move(of)), picked, lease,
      bounds);
  }

  gd::store::outcome_row run(body step, handler on_error = nullptr) {
    auto builder = gd::define<order, parcel_phase>("Order", 3)
                     .step(parcel_phase::collect, std::move(step))
                     .step(parcel_phase::ship,
                           [](context&) { return gd::done(); });
    gd::machine built = on_error
                          ? std::move(builder).on_error(std::move(on_error))
                          : std::move(builder);
    under_test = std::make_unique<gd::run>(held(std::move(built)));
    return std::move(*under_test->execute());
  }

  /// What the handler is told when the step is this.
  std::string told(body step) {
    std::string message = "the handler was not called";
    auto row = run(std::move(step), [&](const gd::failure& why, context& ctx) {
      message = why.message();
      return gd::replay(ctx.state, 1s);
    });
    CAF_CHECK_EQUAL(row.what == write_kind::replay, under_test->failed());
    return message;
  }

  void receive(std::string name, std::string payload) {
    auto id = static_cast<std::int64_t>(picked.inbox.size()) + 100;
    picked.inbox.push_back({id, std::move(name), std::move(payload)});
  }
};

using ids = std::vector<std::int64_t>;

/// By their names.
template <class T>
std::set<std::string_view> empty_fields(const T& x) {
  std::set<std::string_view> out;
  auto name = gd::detail::names_of<T>.begin();
  auto look = [&](const auto& field) {
    bool empty = false;
    if constexpr (requires { field.empty(); })
      empty = field.empty();
    else
      empty = !field;
    if (empty)
      out.insert(*name);
    ++name;
  };
  std::apply([&](const auto&... fields) { (look(fields), ...); },
             x.gd_fields());
  return out;
}

/// An outcome that cannot be carried out, without a handler.
gd::outcome impossible() {
  return gd::next(foreign_phase::vanish, order{});
}

/// A step of a kind that some engine knows.
struct asynchronous_step {
  template <class State>
  std::shared_ptr<const gd::async_function> bind() && {
    return std::make_shared<const gd::async_function>();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(run_tests, fixture)

// -- outcomes -----------------------------------------------------------------

CAF_TEST(every outcome carries id and token and what it needs and no more) {
  auto row = run([](context& ctx) {
    ctx.state.number += 1;
    return gd::next(parcel_phase::ship, ctx.state);
  });
  CAF_CHECK_EQUAL(row.id, 42);
  CAF_CHECK_EQUAL(row.token, "node/incarnation/9"s);
  CAF_CHECK(row.what == write_kind::next);
  CAF_CHECK_EQUAL(row.step, "ship"s);
  CAF_CHECK_EQUAL(row.state,
                  R"({"number":8,"weight":1.5,"note":"as picked"})"s);
  CAF_CHECK(!under_test->failed());

  row = run([](context& ctx) { return gd::replay(ctx.state, 60 * 24h); });
  CAF_CHECK(row.what == write_kind::replay);
  CAF_CHECK_EQUAL(row.delay_us, 5'184'000'000'000);
  CAF_CHECK(row.step.empty());

  row = run([](context& ctx) {
    return gd::await("paid", ctx.state).timeout(60 * 24h);
  });
  CAF_CHECK(row.what == write_kind::await);
  CAF_CHECK_EQUAL(row.awaits, "paid"s);
  CAF_CHECK(row.timeout_us == 5'184'000'000'000);
  CAF_CHECK(!row.until_us);

  row = run([](context& ctx) {
    return gd::await("paid", ctx.state)
      .until(std::chrono::system_clock::time_point{1s});
  });
  CAF_CHECK(row.until_us == 1'000'000);
  CAF_CHECK(!row.timeout_us);

  row = run([](context&) { return gd::done(parcel{.number = 5}); });
  CAF_CHECK(row.what == write_kind::done);
  CAF_CHECK_EQUAL(row.result, R"({"number":5})"s);
  CAF_CHECK(row.state.empty());

  row = run([](context&) { return gd::done(); });
  CAF_CHECK_EQUAL(row.result, "{}"s);

  row = run([](context&) { return gd::stop("enough"); });
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK_EQUAL(row.reason, "enough"s);
  CAF_CHECK(row.state.empty());
}

CAF_TEST(delays and timeouts reach from zero to a hundred years) {
  auto us = [this](auto delay) {
    return run(
             [=](context& ctx) {
      return gd::replay(ctx.state, delay);
    }).delay_us;
  };
  CAF_CHECK_EQUAL(us(0s), 0);
  CAF_CHECK_EQUAL(us(1us), 1);
  CAF_CHECK_EQUAL(us(1'500ns), 1);
  CAF_CHECK_EQUAL(us(36'525 * 24h), 3'155'760'000'000'000);
  CAF_CHECK_EQUAL(us(std::chrono::duration<double>{0.25}), 250'000);
}

CAF_TEST(
  a next that is due later is one and without a delay it is due at once) {
  using enum parcel_phase;
  auto check = [this](auto delay, std::int64_t us) {
    for (bool named : {false, true}) {
      auto row = run([=](context& ctx) -> gd::outcome {
        if (named)
          return gd::next<ship>(ctx.state).after(delay).with(parcel{});
        return gd::next(ship, ctx.state).with(parcel{}).after(delay);
      });
      CAF_CHECK(row.what == (us > 0 ? write_kind::later : write_kind::next));
      CAF_CHECK_EQUAL(row.delay_us, us);
      CAF_CHECK_EQUAL(row.step, "ship"s);
      CAF_CHECK_EQUAL(gd::store::to_string(row.what), "next");
      CAF_CHECK_EQUAL(gd::store::is_plain_next(row), us == 0);
    }
  };
  check(0s, 0);
  check(1us, 1);
  check(36'525 * 24h, 3'155'760'000'000'000);
  auto by_handler = run(
    [](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; },
    [](const gd::failure&, context& ctx) {
    return gd::next(ship, ctx.state).after(1h);
    });
  CAF_CHECK(by_handler.what == write_kind::later);
  CAF_CHECK_EQUAL(by_handler.failure.value_or(""), "no stock"s);
}

CAF_TEST(a next that is due later needs a delay and a step that runs) {
  using enum parcel_phase;
  for (auto delay : {-1us, std::chrono::microseconds{36'525 * 24h} + 1us}) {
    CAF_CHECK_EQUAL(
      told(
        [=](context& ctx) { return gd::next(ship, ctx.state).after(delay); }),
      "outcome next of step collect: the delay of next: expected 0 to 100 "
      "years"s);
  }
  CAF_CHECK_EQUAL(told([](context& ctx) {
                    return gd::to<ship>{gd::replay(ctx.state)}.after(1h);
                  }),
                  "outcome replay of step collect: after: expected an outcome "
                  "of next"s);
  gd::machine resting
    = gd::define<order, parcel_phase>("Order", 3)
        .step(collect,
              [](context& ctx) { return gd::next(ship, ctx.state).after(1h); })
        .final(ship);
  auto row = gd::run{held(std::move(resting))}.execute();
  CAF_CHECK(row->what == write_kind::stop);
  CAF_CHECK_EQUAL(row->reason,
                  "outcome next of step collect: no function runs in step ship "
                  "of Order v3: expected no delay"s);
}

CAF_TEST(await takes one name or several however they are given) {
  using names = std::vector<std::string>;
  auto check = [this](auto step, std::string first, names others) {
    auto row = run(step);
    CAF_CHECK(row.what == write_kind::await);
    CAF_CHECK_EQUAL(row.awaits, first);
    CAF_CHECK(row.awaits_also == others);
  };
  check([](context& ctx) { return gd::await({"paid"}, ctx.state); }, "paid",
        {});
  check(
    [](context& ctx) {
    return gd::await({"paid", "cancelled"}, ctx.state).timeout(1h);
    },
    "paid", {"cancelled"});
  check(
    [](context& ctx) {
    return gd::await({"c", "b", "a"}, ctx.state);
    },
    "c", {"b", "a"});
  check(
    [](context& ctx) {
    return gd::await(names{"a", "b"}, ctx.state);
    },
    "a", {"b"});
  check(
    [](context& ctx) {
    return gd::await(std::array<std::string_view, 1>{"a"}, ctx.state);
    },
    "a", {});
  check([](context& ctx) { return gd::await("paid"s, ctx.state); }, "paid", {});
  names most;
  for (int i = 0; i < 16; ++i)
    most.push_back("n" + std::to_string(i));
  check([&](context& ctx) { return gd::await(most, ctx.state); }, "n0",
        {most.begin() + 1, most.end()});
}

CAF_TEST(await of several names is refused with a sentence if one is wrong) {
  auto why = [this](std::vector<std::string> names) {
    auto text = told([&](context& ctx) { return gd::await(names, ctx.state); });
    constexpr std::string_view prefix = "outcome await of step collect: ";
    CAF_CHECK(text.starts_with(prefix));
    return text.substr(prefix.size());
  };
  CAF_CHECK_EQUAL(why({}), "names: expected 1 to 16, got nothing"s);
  std::vector<std::string> many;
  for (int i = 0; i < 17; ++i)
    many.push_back(std::to_string(i));
  CAF_CHECK_EQUAL(why(many), "names: expected 1 to 16, got 17"s);
  for (const auto& twice : std::vector<std::vector<std::string>>{
         {"a", "a"}, {"a", "b", "a"}, {"b", "a", "a"}})
    CAF_CHECK_EQUAL(why(twice), "names: expected each once, got a twice"s);
  CAF_CHECK(why({"a", ""}).starts_with("signal name: expected 1 to 255 bytes"));
  CAF_CHECK(why({"", "a"}).starts_with("signal name: expected 1 to 255 bytes"));
  CAF_CHECK(why({"a", "b\nc"}).starts_with("signal name: "));
}

// -- what a step is told ------------------------------------------------------

CAF_TEST(
  a step is told the time of its pick and one that runs ahead how it goes on) {
  picked.now_us = 1'234'567'890'123'456;
  picked.picked_at = std::chrono::steady_clock::now() - 1h;
  std::chrono::sys_time<std::chrono::microseconds> now;
  auto row = run([&](context& ctx) {
    now = ctx.now();
    return gd::next(parcel_phase::ship, ctx.state);
  });
  CAF_CHECK_EQUAL(now.time_since_epoch().count(), 1'234'567'890'123'456);
  auto next = under_test->held().after(row.step, row.state,
                                       "node/incarnation/10", std::nullopt);
  auto since = next.row().now_us - picked.now_us;
  CAF_CHECK_GREATER_OR_EQUAL(since, 3'600'000'000);
  CAF_CHECK_LESS(since, 3'700'000'000);
  auto later = next.after(row.step, row.state, "node/incarnation/11",
                          std::nullopt);
  CAF_CHECK_GREATER_OR_EQUAL(later.row().now_us, next.row().now_us);
  CAF_CHECK_LESS(later.row().now_us - next.row().now_us, 100'000'000);
}

CAF_TEST(what runs ahead has all of its row but what begins anew with a step) {
  picked.trials = picked.crashes = 1;
  picked.wake_reason = "signal";
  receive("paid", "{}");
  picked.partition_key = "k"; // such a row does not run ahead
  picked.unique_scope = {"done"};
  picked.history = 1;
  picked.seq = 4;
  picked.traceparent = "00-a-b-01";
  picked.due_us = picked.now_us = 1'234'567'890'123'456;
  CAF_REQUIRE_EQUAL(empty_fields(picked), std::set<std::string_view>{});
  auto inbox = picked.inbox;
  auto row = run(
    [](context& ctx) { return gd::next(parcel_phase::ship, ctx.state); });
  auto next = under_test->held().after(row.step, row.state,
                                       "node/incarnation/10", inbox);
  CAF_CHECK_EQUAL(empty_fields(next.row()),
                  (std::set<std::string_view>{"attempt", "crashes", "trials",
                                              "wake_reason", "partition_key"}));
}

CAF_TEST(a step is told which of the machines steps it is and of no other) {
  using enum parcel_phase;
  std::vector<bool> told_so;
  auto row = run(
    [&](context& ctx) -> gd::outcome {
      told_so = {ctx.at(collect), ctx.at(ship),
                 ctx.at(static_cast<parcel_phase>(17))};
      return ctx.at(foreign_phase::collect) ? gd::done() : gd::stop("no");
    },
    [&](const gd::failure& why, context& ctx) {
    told_so.push_back(ctx.at(collect));
    return gd::stop(why.message());
    });
  CAF_CHECK(told_so == (std::vector{true, false, false, true}));
  CAF_CHECK_EQUAL(row.reason,
                  "at: expected a step of Order v3, got one of another enum"s);
}

// -- exceptions ---------------------------------------------------------------

CAF_TEST(whatever a step throws reaches the handler) {
  CAF_CHECK_EQUAL(
    told([](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; }),
    "no stock"s);
  CAF_CHECK_EQUAL(told([](context&) -> gd::outcome { throw "no luck"; }),
                  "no luck"s);
  CAF_CHECK_EQUAL(told([](context&) -> gd::outcome { throw "no text"s; }),
                  "no text"s);
  CAF_CHECK_EQUAL(told([](context&) -> gd::outcome {
                    throw static_cast<const char*>(nullptr);
                  }),
                  "a null pointer was thrown"s);
  CAF_CHECK_EQUAL(told([](context&) -> gd::outcome { throw 5; }),
                  "something that is no std::exception was thrown"s);
}

CAF_TEST(a step that fails is run again as often as its machine says and then
           the handler has it) {
  auto machine = [](bool handled) {
    auto builder = gd::define<order, parcel_phase>("Order", 3)
                     .step(parcel_phase::collect,
                           [](context& ctx) -> gd::outcome {
                             ctx.state.number = 8;
                             throw std::runtime_error{"no stock"};
                           })
                     .step(parcel_phase::ship,
                           [](context&) { return gd::done(); })
                     .retry({.attempts = 4, .backoff = {400ms, 1s}});
    gd::machine built = handled ? std::move(builder).on_error(
                          [](const gd::failure& why,
                             context& ctx) -> gd::outcome {
                            return gd::stop(why.message() + " after "
                                            + std::to_string(ctx.failures()));
                          })
                                : std::move(builder);
    return built;
  };
  for (auto handled : {true, false})
    for (std::int32_t failures = 0; failures < 5; ++failures) {
      picked.crashes = 2; // which is not counted
      picked.attempt = failures + picked.crashes;
      gd::run once{held(machine(handled))};
      auto row = *once.execute();
      CAF_CHECK(once.failed());
      CAF_CHECK_EQUAL(row.failure.value_or(""), "no stock");
      if (failures < 3) {
        CAF_CHECK(row.what == write_kind::replay);
        CAF_CHECK_EQUAL(row.state, picked.state);
        auto full = std::min(400'000 << failures, 1'000'000);
        CAF_CHECK_GREATER_OR_EQUAL(row.delay_us, full / 2 - 1'000);
        CAF_CHECK_LESS_OR_EQUAL(row.delay_us, full);
      } else {
        CAF_CHECK(row.what == write_kind::stop);
        CAF_CHECK_EQUAL(row.reason,
                        handled ? "no stock after " + std::to_string(failures)
                                : "no stock"s);
      }
    }
}

namespace {

struct declined : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct declined_for_good : declined {
  using declined::declined;
};

} // namespace

CAF_TEST(what is declared not to be retried
         and what would fail again are not ) {
  auto ends_as = [&](body step, std::int32_t attempts = 4) {
    auto built = gd::define<order, parcel_phase>("Order", 3)
                   .retry({.attempts = attempts,
                           .not_for = gd::exceptions<declined, int>()})
                   .step(parcel_phase::collect, std::move(step))
                   .step(parcel_phase::ship,
                         [](context&) { return gd::done(); });
    gd::run once{held(std::move(built))};
    return once.execute()->what;
  };
  auto throws = [](auto x) {
    return [x](context&) -> gd::outcome { throw x; };
  };
  receive("paid", R"({"amount": "five"})");
  picked.attempt = 0;
  CAF_CHECK(ends_as(throws(std::runtime_error{"no"})) == write_kind::replay);
  CAF_CHECK(ends_as(throws(std::runtime_error{"no"}), 1) == write_kind::stop);
  CAF_CHECK(ends_as(throws("text")) == write_kind::replay);
  CAF_CHECK(ends_as(throws(declined{"no"})) == write_kind::stop);
  CAF_CHECK(ends_as(throws(declined_for_good{"no"})) == write_kind::stop);
  CAF_CHECK(ends_as(throws(5)) == write_kind::stop);
  CAF_CHECK(ends_as([](context&) { return impossible(); }) == write_kind::stop);
  CAF_CHECK(ends_as([](context&) -> gd::outcome {
              return gd::next(parcel_phase::ship, payment{});
            })
            == write_kind::stop); // of another type
  CAF_CHECK(ends_as([](context& ctx) -> gd::outcome {
              return ctx.at(foreign_phase::collect) ? gd::done() : gd::stop("");
            })
            == write_kind::stop); // of another enum
  CAF_CHECK(ends_as([](context& ctx) -> gd::outcome {
              ctx.take<payment>("paid");
              return gd::done();
            })
            == write_kind::stop);
}

CAF_TEST(a step says itself how often it is run and a limit is tried again) {
  auto built = gd::define<order, parcel_phase>("Order", 3)
                 .step(parcel_phase::collect, {.retry = {.attempts = 2}},
                       [](context&) { return gd::done(); })
                 .step(parcel_phase::ship, {.retry = {.attempts = 1}},
                       [](context&) { return gd::done(); })
                 .retry({.attempts = 9});
  auto of = std::make_shared<const gd::machine>(std::move(built));
  auto after = [&](const char* step, std::int32_t attempt) {
    picked.step = step;
    picked.attempt = attempt;
    gd::run once{std::make_shared<gd::held_row>(of, picked, lease, bounds)};
    return once.fail(gd::failure{"took longer"})->what;
  };
  CAF_CHECK(after("collect", 0) == write_kind::replay);
  CAF_CHECK(after("collect", 1) == write_kind::stop);
  CAF_CHECK(after("ship", 0) == write_kind::stop);
  CAF_CHECK(of->handler_to == std::vector<std::string>{});
}

CAF_TEST(retries that cannot be are refused with a sentence) {
  auto problem = [](gd::retry_options how, gd::retry_options of_step) {
    gd::machine built = gd::define<order, parcel_phase>("Order", 3)
                          .retry(how)
                          .step(parcel_phase::collect, {.retry = of_step},
                                [](context&) { return gd::done(); })
                          .step(parcel_phase::ship,
                                [](context&) { return gd::done(); });
    auto ok = built.validate();
    return ok ? "none"s : ok.error().message;
  };
  constexpr auto as_machine = 0;
  CAF_CHECK_EQUAL(problem({.attempts = 1'000'000}, {.attempts = as_machine}),
                  "none");
  CAF_CHECK_EQUAL(problem({.attempts = 0}, {.attempts = as_machine}),
                  "Order v3: retry has 0 attempts, expected 1 to 1000000");
  CAF_CHECK_EQUAL(
    problem({}, {.attempts = -1}),
    "Order v3: retry of step collect has -1 attempts, expected 1 to 1000000");
  CAF_CHECK_EQUAL(problem({}, {.backoff = {2s, 1s}}),
                  "Order v3: retry of step collect has a backoff of 2000 ms, "
                  "at most 1000 ms, expected 0 ms to 100 years, and no more "
                  "than at most");
}

CAF_TEST(the handler can look at what was thrown) {
  int thrown = 0;
  run([](context&) -> gd::outcome { throw 5; },
      [&](const gd::failure& why, context&) {
    try {
      std::rethrow_exception(why.thrown());
    } catch (int x) {
      thrown = x;
    }
    return gd::stop("seen");
  });
  CAF_CHECK_EQUAL(thrown, 5);
  run([](context&) { return impossible(); },
      [&](const gd::failure& why, context&) {
    thrown = why.thrown() == nullptr ? 0 : 1;
    return gd::stop("seen");
  });
  CAF_CHECK_EQUAL(thrown, 0);
}

CAF_TEST(the handler gets the state as picked and the whole context) {
  picked.wake_reason = "timeout";
  order state;
  auto row = run(
    [](context& ctx) -> gd::outcome {
      ctx.state = {.number = 8, .weight = 0, .note = "changed"};
      ctx.step = "changed";
      ctx.attempt = 99;
      throw std::runtime_error{"after the change"};
    },
    [&](const gd::failure&, context& ctx) {
    state = ctx.state;
    CAF_CHECK_EQUAL(ctx.id, 42);
    CAF_CHECK_EQUAL(ctx.fsm, "Order"s);
    CAF_CHECK_EQUAL(ctx.fsm_version, 3);
    CAF_CHECK_EQUAL(ctx.step, "collect"s);
    CAF_CHECK_EQUAL(ctx.attempt, 2);
    CAF_CHECK(ctx.timed_out());
    CAF_CHECK_EQUAL(ctx.lease_token(), "node/incarnation/9"s);
    return gd::replay(ctx.state);
    });
  CAF_CHECK(state == (order{.number = 7, .weight = 1.5, .note = "as picked"}));
  CAF_CHECK_EQUAL(row.state,
                  R"({"number":7,"weight":1.5,"note":"as picked"})"s);
}

CAF_TEST(without a handler the instance stops with the reason) {
  auto row = run(
    [](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; });
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK_EQUAL(row.reason, "no stock"s);
  CAF_CHECK(under_test->failed());
}

CAF_TEST(a handler that throws fails the instance and both reasons are named) {
  for (auto thrower : {handler{[](const gd::failure&, context&) -> gd::outcome {
                         throw std::logic_error{"no idea"};
                       }},
                       handler{[](const gd::failure&, context&) -> gd::outcome {
                         throw "no idea";
                       }}}) {
    auto row = run(
      [](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; },
      thrower);
    CAF_CHECK(row.what == write_kind::stop);
    CAF_CHECK(contains(row.reason, "no stock"));
    CAF_CHECK(contains(row.reason, "no idea"));
  }
}

CAF_TEST(
  a handler whose outcome is impossible fails the instance and both are named) {
  auto row = run(
    [](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; },
    [](const gd::failure&, context&) { return impossible(); });
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK(contains(row.reason, "no stock"));
  CAF_CHECK(contains(row.reason, "vanish"));
}

CAF_TEST(a reason is text that the database takes whatever was thrown) {
  bounds.reason = 40;
  auto row = run([](context&) -> gd::outcome {
    throw std::runtime_error{"a\xff\xc3z" + std::string(1'000, 'x')};
  });
  CAF_CHECK(row.reason.starts_with("a??z"));
  CAF_CHECK(row.reason.ends_with(" [...]"));
  CAF_CHECK_LESS_OR_EQUAL(row.reason.size(), 40u);
  row = run([](context&) { return gd::stop("a\0b"s); });
  CAF_CHECK_EQUAL(row.reason, "a?b"s);
}

// -- outcomes that cannot be carried out [A6] ---------------------------------

CAF_TEST(
  an outcome that cannot be carried out counts as an exception of the step) {
  auto reason = told([](context&) { return impossible(); });
  CAF_CHECK(contains(reason, "vanish"));
  CAF_CHECK(contains(reason, "collect|ship"));
  // A step of another machine, even if this one has one of that name.
  CAF_CHECK(contains(told([](context& ctx) {
                       return gd::next(foreign_phase::collect, ctx.state);
                     }),
                     "no step collect"));
  CAF_CHECK(contains(told([](context& ctx) {
                       return gd::next(static_cast<parcel_phase>(17),
                                       ctx.state);
                     }),
                     "17"));
  CAF_CHECK(contains(
    told([](context&) { return gd::next(parcel_phase::ship, parcel{}); }),
    "another type"));
  CAF_CHECK(contains(told([](context&) { return gd::await("paid", parcel{}); }),
                     "another type"));
  CAF_CHECK(
    contains(told([](context& ctx) { return gd::await("", ctx.state); }),
             "signal name"));
  CAF_CHECK(
    contains(told([](context& ctx) { return gd::await("a\nb", ctx.state); }),
             "signal name"));
}

CAF_TEST(a state
         or result that has no JSON form counts as an exception of the step) {
  CAF_CHECK(contains(told([](context& ctx) {
                       ctx.state.weight = std::nan("");
                       return gd::next(parcel_phase::ship, ctx.state);
                     }),
                     "$.weight"));
  CAF_CHECK(contains(told([](context& ctx) {
                       ctx.state.note = "a\0b"s;
                       return gd::replay(ctx.state);
                     }),
                     "$.note"));
  CAF_CHECK(contains(told([](context& ctx) {
                       ctx.state.note = "\xff";
                       return gd::await("paid", ctx.state);
                     }),
                     "$.note"));
  CAF_CHECK(contains(
    told([](context&) {
      return gd::done(
        order{.number = 1, .weight = std::numeric_limits<double>::infinity()});
    }),
    "$.weight"));
}

CAF_TEST(a state or result over its bound counts as an exception of the step) {
  bounds.state = 100;
  bounds.result = 50;
  auto with_note = [](std::size_t n) {
    return order{.note = std::string(n, 'x')};
  };
  CAF_CHECK(contains(
    told([&](context&) { return gd::next(parcel_phase::ship, with_note(63)); }),
    "at most 100 bytes"));
  CAF_CHECK(contains(told([&](context&) { return gd::done(with_note(50)); }),
                     "at most 50 bytes"));
  auto row = run(
    [&](context&) { return gd::next(parcel_phase::ship, with_note(62)); });
  CAF_CHECK(row.what == write_kind::next);
  // Five blanks fewer than PostgreSQL prints.
  CAF_CHECK_EQUAL(row.state.size(), 95u);
}

CAF_TEST(
  a number that could not be read again is not stored whoever writes it) {
  for (auto [text, fits] : std::vector<std::pair<std::string, bool>>{
         {std::string(400, '9'), true},
         {std::string(401, '9'), false},
         {"-" + std::string(400, '9'), false},
         {"0." + std::string(398, '1'), true},
         {"0." + std::string(399, '1'), false},
         {"-0." + std::string(398, '1'), false},
         {std::string(200, '1') + "." + std::string(200, '1'), false}}) {
    auto why = gd::check_size(
      "state", gd::to_json(parcels::counted{{.text = text}}), bounds.state);
    CAF_CHECK_EQUAL(static_cast<bool>(why), fits);
    CAF_CHECK_EQUAL(told([&text = text](context&) {
                      return gd::done(parcels::counted{{.text = text}});
                    }).starts_with("outcome done of step collect: result: "),
                    !fits);
  }
}

CAF_TEST(a delay or timeout that is negative or too long
         or no number counts as an exception) {
  auto delayed = [this](auto delay) {
    return told([=](context& ctx) { return gd::replay(ctx.state, delay); });
  };
  CAF_CHECK(contains(delayed(-1us), "0 to 100 years"));
  CAF_CHECK(contains(delayed(36'525 * 24h + 1us), "0 to 100 years"));
  CAF_CHECK(contains(delayed(std::chrono::hours::max()), "0 to 100 years"));
  CAF_CHECK(contains(delayed(std::chrono::duration<double>{std::nan("")}),
                     "0 to 100 years"));
  CAF_CHECK(contains(told([](context& ctx) {
                       return gd::await("paid", ctx.state).timeout(-1s);
                     }),
                     "the timeout of await"));
}

// -- stored states and steps --------------------------------------------------

CAF_TEST(a stored state that does not decode fails the instance
         and names the path) {
  picked.state = R"({"number": "seven"})";
  bool called = false;
  auto row = run(
    [&](context& ctx) {
    called = true;
    return gd::next(parcel_phase::ship, ctx.state);
    },
    [&](const gd::failure&, context& ctx) {
    called = true;
    return gd::replay(ctx.state);
  });
  CAF_CHECK(!called);
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK(contains(row.reason, "$.number"));
  CAF_CHECK(contains(row.reason, "Order v3"));
  CAF_CHECK(row.state.empty());
}

CAF_TEST(a stored state with unknown and missing members decodes) {
  picked.state = R"({"added_later": [1], "number": 3})";
  auto row = run(
    [](context& ctx) { return gd::next(parcel_phase::ship, ctx.state); });
  CAF_CHECK_EQUAL(row.state, R"({"number":3,"weight":0,"note":""})"s);
}

CAF_TEST(a stored step that the machine does not have fails the instance) {
  picked.step = "packing";
  auto row = run([](context&) { return gd::done(); },
                 [](const gd::failure&, context& ctx) {
    return gd::replay(ctx.state);
  });
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK(contains(row.reason, "packing"));
  CAF_CHECK(contains(row.reason, "collect|ship"));
}

// -- signals [A3] -------------------------------------------------------------

CAF_TEST(taken and discarded signals are consumed and peeked ones
           seen and others neither) {
  receive("paid", R"({"amount": 1})");  // 100
  receive("note", R"({"amount": 2})");  // 101
  receive("paid", R"({"amount": 3})");  // 102
  receive("paid", R"({"amount": 4})");  // 103
  receive("other", R"({"amount": 5})"); // 104
  receive("junk", R"("no object")");    // 105
  auto row = run([](context& ctx) {
    CAF_CHECK(ctx.peek<payment>("paid") == payment{1});
    CAF_CHECK(ctx.take<payment>("paid") == payment{1});
    CAF_CHECK(ctx.peek<payment>("paid") == payment{3});
    CAF_CHECK(ctx.peek<payment>("paid") == payment{3});
    CAF_CHECK(ctx.peek<payment>("note") == payment{2});
    CAF_CHECK(ctx.discard("junk"));
    CAF_CHECK(!ctx.discard("junk"));
    CAF_CHECK(!ctx.take<payment>("nothing"));
    return gd::await("paid", ctx.state);
  });
  CAF_CHECK(row.consumed == (ids{100, 105}));
  CAF_CHECK(row.seen == (ids{100, 101, 102, 105}));
}

CAF_TEST(looking at all signals of a name marks all of them as seen) {
  receive("paid", R"({"amount": 1})");
  receive("note", "{}");
  receive("paid", R"({"amount": 3})");
  auto row = run([](context& ctx) {
    auto all = ctx.peek_all("paid");
    CAF_CHECK_EQUAL(all.size(), 2u);
    CAF_CHECK_EQUAL(all.back().payload, R"({"amount": 3})"s);
    return gd::await("paid", ctx.state);
  });
  CAF_CHECK(row.consumed.empty());
  CAF_CHECK(row.seen == (ids{100, 102}));
}

CAF_TEST(a payload that does not decode throws and can be taken raw
         or discarded) {
  receive("paid", R"({"amount": "much"})");
  CAF_CHECK(contains(told([](context& ctx) {
                       ctx.take<payment>("paid");
                       return gd::done();
                     }),
                     "signal paid (100): $.amount"));
  CAF_CHECK(contains(told([](context& ctx) {
                       ctx.peek<payment>("paid");
                       return gd::done();
                     }),
                     "signal paid (100): $.amount"));
  auto row = run([](context& ctx) {
    auto raw = ctx.take_raw("paid");
    CAF_CHECK(raw && raw->id == 100 && raw->name == "paid");
    CAF_CHECK_EQUAL(raw->payload, R"({"amount": "much"})"s);
    CAF_CHECK(!ctx.take_raw("paid"));
    return gd::done();
  });
  CAF_CHECK(row.consumed == (ids{100}));
}

CAF_TEST(a replay and a stop consume nothing) {
  receive("paid", R"({"amount": 1})");
  for (auto outcome :
       {body{[](context& ctx) { return gd::replay(ctx.state, 1s); }},
        body{[](context&) { return gd::stop("enough"); }}}) {
    auto row = run([=](context& ctx) {
      ctx.take<payment>("paid");
      return outcome(ctx);
    });
    CAF_CHECK(row.consumed.empty());
    CAF_CHECK(row.seen.empty());
  }
}

CAF_TEST(every other outcome consumes what the step took) {
  receive("paid", R"({"amount": 1})");
  for (auto outcome :
       {body{
          [](context& ctx) { return gd::next(parcel_phase::ship, ctx.state); }},
        body{[](context& ctx) { return gd::await("paid", ctx.state); }},
        body{[](context&) { return gd::done(); }}}) {
    auto row = run([=](context& ctx) {
      ctx.take<payment>("paid");
      return outcome(ctx);
    });
    CAF_CHECK(row.consumed == (ids{100}));
  }
}

CAF_TEST(a handler has an empty inbox and its outcome consumes nothing) {
  receive("paid", R"({"amount": 1})");
  auto row = run(
    [](context& ctx) -> gd::outcome {
      ctx.take<payment>("paid");
      throw std::runtime_error{"after the take"};
    },
    [](const gd::failure&, context& ctx) {
    CAF_CHECK(!ctx.take<payment>("paid"));
    CAF_CHECK(ctx.peek_all("paid").empty());
    return gd::await("paid", ctx.state);
    });
  CAF_CHECK(row.what == write_kind::await);
  CAF_CHECK(row.consumed.empty());
  CAF_CHECK(row.seen.empty());
}

CAF_TEST(an outcome that cannot be carried out consumes nothing) {
  receive("paid", R"({"amount": 1})");
  auto row = run(
    [](context& ctx) {
    ctx.take<payment>("paid");
    return impossible();
    },
    [](const gd::failure&, context& ctx) {
    return gd::next(parcel_phase::ship, ctx.state);
  });
  CAF_CHECK(row.what == write_kind::next);
  CAF_CHECK(row.consumed.empty());
}

// -- the database refuses -----------------------------------------------------

CAF_TEST(
  a refused outcome is the turn of the handler with the state as picked) {
  receive("paid", R"({"amount": 1})");
  std::string reason;
  run(
    [](context& ctx) {
    ctx.take<payment>("paid");
    ctx.state.number = 99;
    return gd::next(parcel_phase::ship, ctx.state);
    },
    [&](const gd::failure& why, context& ctx) {
    reason = why.message();
    CAF_CHECK_EQUAL(ctx.state.number, 7);
    return gd::next(parcel_phase::ship, ctx.state);
  });
  CAF_CHECK(!under_test->failed());
  auto row = under_test->refused({gd::errc::rejected, "too odd", "22P05"});
  CAF_REQUIRE(row);
  CAF_CHECK(under_test->failed());
  CAF_CHECK(contains(reason, "too odd"));
  CAF_CHECK(row->what == write_kind::next);
  CAF_CHECK(row->consumed.empty());
  CAF_CHECK(contains(row->state, "\"number\":7"));

  // The handler's as well: the end, and it names both.
  row = under_test->refused({gd::errc::rejected, "odd again", "22P05"});
  CAF_REQUIRE(row);
  CAF_CHECK(row->what == write_kind::stop);
  CAF_CHECK(contains(row->reason, "too odd"));
  CAF_CHECK(contains(row->reason, "odd again"));

  // Nothing is left to try.
  CAF_CHECK(!under_test->refused({gd::errc::rejected, "even so", "22P05"}));
}

CAF_TEST(a refused outcome without a handler fails the instance) {
  run([](context& ctx) { return gd::next(parcel_phase::ship, ctx.state); });
  auto row = under_test->refused({gd::errc::rejected, "too odd", "22P05"});
  CAF_REQUIRE(row);
  CAF_CHECK(row->what == write_kind::stop);
  CAF_CHECK(contains(row->reason, "too odd"));
}

CAF_TEST(a refused outcome of the handler is the end) {
  int calls = 0;
  run([](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; },
      [&](const gd::failure&, context& ctx) {
    ++calls;
    return gd::replay(ctx.state);
  });
  auto row = under_test->refused({gd::errc::rejected, "too odd", "22P05"});
  CAF_REQUIRE(row);
  CAF_CHECK(row->what == write_kind::stop);
  CAF_CHECK(contains(row->reason, "no stock"));
  CAF_CHECK(contains(row->reason, "too odd"));
  CAF_CHECK_EQUAL(calls, 1);
}

CAF_TEST(a lease that is lost is told to the step) {
  run([this](context& ctx) {
    CAF_CHECK(!ctx.lease_lost());
    lease->lost = true;
    CAF_CHECK(ctx.lease_lost());
    return gd::done();
  });
}

CAF_TEST(a stop token is asked to stop whether it was made before or after) {
  bool called = false;
  run([&](context& ctx) {
    auto early = ctx.stop_token();
    CAF_CHECK(early.stop_possible());
    CAF_CHECK(!early.stop_requested());
    std::stop_callback on_stop{early, [&] { called = true; }};
    CAF_CHECK(lease->mark_stopped());
    CAF_CHECK(!called); // not in whoever marks it
    lease->request_stop();
    CAF_CHECK(called);
    CAF_CHECK(early.stop_requested());
    return gd::done();
  });
  lease = std::make_shared<gd::lease>(42, "node/incarnation/10");
  run([&](context& ctx) {
    CAF_CHECK(!lease->mark_stopped()); // nobody has a token
    CAF_CHECK(ctx.stop_token().stop_requested());
    return gd::done();
  });
}

// -- what events tell ---------------------------------------------------------

CAF_TEST(
  a failure is told with the run that failed and what the handler made of it) {
  auto row = run(
    [](context&) -> gd::outcome { throw std::runtime_error{"no stock"}; },
    [](const gd::failure&, context& ctx) { return gd::replay(ctx.state, 5s); });
  CAF_CHECK(row.failure == "no stock");
  auto told = under_test->failure_told(row);
  CAF_CHECK_EQUAL(told.id, 42);
  CAF_CHECK_EQUAL(told.fsm, "Order"s);
  CAF_CHECK_EQUAL(told.version, 3);
  CAF_CHECK_EQUAL(told.step, "collect"s);
  CAF_CHECK_EQUAL(told.attempt, 2);
  CAF_CHECK_EQUAL(told.why, "no stock"s);
  CAF_CHECK_EQUAL(told.outcome, "replay"sv);
  CAF_CHECK(told.delay == 5s);
  CAF_CHECK(gd::describe(told).ends_with("no stock; what follows: replay in "
                                         "5000 ms"));
}

CAF_TEST(an outcome that no failure led to carries none) {
  for (auto step : {body{[](context& ctx) { return gd::replay(ctx.state); }},
                    body{[](context&) { return gd::done(); }}})
    CAF_CHECK(!run(step).failure);
}

CAF_TEST(what failed is text that the database takes whatever was thrown) {
  bounds.reason = 40;
  auto row = run(
    [](context&) -> gd::outcome {
      throw std::runtime_error{"a\xffz" + std::string(1'000, 'x')};
    },
    [](const gd::failure&, context& ctx) { return gd::replay(ctx.state); });
  CAF_REQUIRE(row.failure);
  CAF_CHECK(row.failure->starts_with("a?z"));
  CAF_CHECK_LESS_OR_EQUAL(row.failure->size(), 40u);
  CAF_CHECK_EQUAL(under_test->failure_told(row).why, *row.failure);
}

CAF_TEST(the end of an instance is told in the words of who wanted it) {
  auto stopped = run([](context&) { return gd::stop("enough"); });
  CAF_CHECK_EQUAL(under_test->end_told(stopped).why, "enough"s);
  auto thrower = [](context&) -> gd::outcome {
    throw std::runtime_error{"no stock"};
  };
  auto handled = run(thrower, [](const gd::failure& why, context&) {
    return gd::stop("gave up: " + why.message());
  });
  CAF_CHECK_EQUAL(under_test->end_told(handled).why, "gave up: no stock"s);
  auto unhandled = run(thrower);
  CAF_CHECK_EQUAL(under_test->end_told(unhandled).why, "no stock"s);
  auto both = run(thrower, [](const gd::failure&, context&) -> gd::outcome {
    throw std::logic_error{"no idea"};
  });
  CAF_CHECK_EQUAL(under_test->end_told(both).why,
                  "no stock; the handler threw: no idea"s);
}

CAF_TEST(who has the unique key is told) {
  run([](context& ctx) { return gd::next(parcel_phase::ship, ctx.state); });
  gd::error taken{gd::errc::key_taken, "instance 5 has its unique key", {}};
  auto row = under_test->refused(taken, taken.message);
  CAF_REQUIRE(row);
  CAF_CHECK(contains(under_test->failure_told(*row).why, taken.message));
  CAF_CHECK(contains(under_test->end_told(*row).why, taken.message));
}

CAF_TEST(no event tells what is stored however a step fails for it) {
  auto secret = "s3cr3t"s;
  auto stop = handler{[](const gd::failure& why, context&) {
    return gd::stop("gave up: " + why.message());
  }};
  auto check = [&](const gd::store::outcome_row& row) {
    CAF_CHECK(contains(row.reason, secret));
    CAF_CHECK(!contains(under_test->end_told(row).why, secret));
    CAF_CHECK(!contains(under_test->failure_told(row).why, secret));
  };
  CAF_MESSAGE("a payload that does not decode");
  receive("paid", R"({"amount": "s3cr3t"})");
  check(run(
    [](context& ctx) {
    ctx.take<payment>("paid");
    return gd::done();
    },
    stop));
  CAF_MESSAGE("what the database refuses");
  auto step = [](context& ctx) {
    return gd::next(parcel_phase::ship, ctx.state);
  };
  gd::error refusal{gd::errc::rejected, secret, "22P05"};
  run(step, stop);
  check(*under_test->refused(refusal));
  CAF_MESSAGE("and of the handler's, too");
  run(step,
      [](const gd::failure&, context& ctx) { return gd::replay(ctx.state); });
  static_cast<void>(under_test->refused({gd::errc::rejected, {}, "22P05"}));
  check(*under_test->refused(refusal));
  CAF_MESSAGE("a state that does not decode");
  picked.state = R"({"number": "s3cr3t"})";
  check(run(step, stop));
}

CAF_TEST(a step is timed until its function returns) {
  auto run_for = [&](body step) {
    run(std::move(step), [](const gd::failure&, context&) -> gd::outcome {
      auto end = std::chrono::steady_clock::now() + 50ms;
      while (std::chrono::steady_clock::now() < end)
        ;
      return gd::done();
    });
    return under_test->took();
  };
  auto wait = [] {
    auto end = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < end)
      ;
  };
  auto took = run_for([&](context&) {
    wait();
    return gd::done();
  });
  CAF_CHECK(took >= 2ms);
  CAF_CHECK(under_test->took() == took);
  CAF_MESSAGE("the handler's time is not the step's");
  auto began = std::chrono::steady_clock::now();
  took = run_for([&](context&) -> gd::outcome {
    wait();
    throw std::runtime_error{"no stock"};
  });
  CAF_CHECK(took >= 2ms);
  CAF_CHECK(took <= std::chrono::steady_clock::now() - began - 50ms);
}

// -- time limits and other kinds of step --------------------------------------

CAF_TEST(of two who decide about an execution the first one does) {
  CAF_CHECK(lease->decided_by() == gd::decider::nobody);
  CAF_CHECK(lease->decide(gd::decider::limit));
  CAF_CHECK(!lease->decide(gd::decider::step));
  CAF_CHECK(lease->decided_by() == gd::decider::limit);
}

CAF_TEST(what a step returns or throws after its limit counts for nothing) {
  bool handled = false;
  auto build = [&](body step) {
    lease = std::make_shared<gd::lease>(42, "node/incarnation/9");
    gd::machine built = gd::define<order, parcel_phase>("Order", 3)
                          .step(parcel_phase::collect, std::move(step))
                          .step(parcel_phase::ship,
                                [](context&) { return gd::done(); })
                          .on_error([&](const gd::failure&, context&) {
                            handled = true;
                            return gd::done();
                          });
    return gd::run{held(std::move(built))};
  };
  auto in_time = build([](context&) { return gd::done(); });
  CAF_CHECK(in_time.execute_unless_decided());
  auto late = build([&](context&) {
    lease->decide(gd::decider::limit);
    return gd::done();
  });
  CAF_CHECK(!late.execute_unless_decided());
  auto thrower = build([&](context&) -> gd::outcome {
    lease->decide(gd::decider::limit);
    throw std::runtime_error{"late"};
  });
  CAF_CHECK(!thrower.execute_unless_decided());
  CAF_CHECK(!handled);
  bool ran = false;
  auto never = build([&](context&) {
    ran = true;
    return gd::done();
  });
  lease->decide(gd::decider::limit);
  CAF_CHECK(!never.execute_unless_decided());
  CAF_CHECK(!ran);
}

CAF_TEST(an asynchronous step says what it needs where there are no actors) {
  gd::machine built = gd::define<order, parcel_phase>("Order", 3)
                        .step(parcel_phase::collect, asynchronous_step{})
                        .step(parcel_phase::ship,
                              [](context&) { return gd::done(); })
                        .on_error([](const gd::failure&, context& ctx) {
                          return gd::replay(ctx.state);
                        });
  CAF_CHECK(built.validate());
  CAF_CHECK(built.find_step("collect")->limit() == gd::default_async_limit);
  CAF_CHECK(!built.find_step("ship")->limit());
  auto row = std::move(*gd::run{held(std::move(built))}.execute());
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK_EQUAL(row.reason, "step collect of Order v3 is asynchronous: it "
                              "needs an engine of gd::actors"s);
}

CAF_TEST(a limit is named in the unit that shows it) {
  CAF_CHECK_EQUAL(gd::run::over_limit("ship", 30s),
                  "step ship took longer than 30s"s);
  CAF_CHECK_EQUAL(gd::run::over_limit("ship", 1500ms),
                  "step ship took longer than 1500ms"s);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace run_suite
