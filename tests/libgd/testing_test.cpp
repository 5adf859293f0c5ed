#define CAF_SUITE testing

// The simulation, alone; the same in a database; and that both do the same.

#include <gd/testing.hpp>

#include "../../examples/fan_out/fan_out.hpp"

#include <support/database.hpp>
#include <support/words.hpp>

#include <caf/test/dsl.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace testing_suite {

using namespace std::literals;

GD_ENUM(puppet_step, first, second, third);

struct puppet_state {
  std::int64_t seed = 0;
  std::int32_t runs = 0;
  /// What the executions were given.
  std::string seen{};
  GD_STATE(puppet_state, seed, runs, seen);
};

struct puppet_word {
  std::string text;
  GD_STATE(puppet_word, text);
};

/// Is no JSON.
struct puppet_number {
  double value = 0;
  GD_STATE(puppet_number, value);
};

namespace {

using gd::test::must;
using gd::testing::harness;
using gd::testing::in_database;
using gd::testing::simulation;
using context = gd::context<puppet_state>;
using step_function = std::function<gd::outcome(context&)>;
using texts = std::vector<std::string>;

gd::machine puppet(
  step_function first, step_function second = nullptr,
  std::function<gd::outcome(const gd::failure&, context&)> handler = nullptr) {
  if (!second)
    second = [](context&) { return gd::done(); };
  auto x = gd::define<puppet_state, puppet_step>("Puppet", 1)
             .step(puppet_step::first, std::move(first))
             .step(puppet_step::second, second)
             .step(puppet_step::third, second);
  if (handler)
    return std::move(x).on_error(std::move(handler));
  return x;
}

gd::insert one(std::int64_t seed = 0) {
  return {.fsm = "Puppet", .state = gd::to_json(puppet_state{.seed = seed})};
}

std::int64_t insert(harness& run, gd::insert what = one()) {
  auto row = run.insert(std::move(what));
  if (!row)
    throw std::runtime_error{to_string(row.error())};
  return row->id;
}

texts lines(const std::vector<gd::testing::executed>& xs) {
  texts out;
  for (const auto& x : xs)
    out.push_back(to_string(x));
  return out;
}

/// Waits for "a", and then is done.
gd::outcome wait_for_a(context& ctx) {
  if (ctx.take_raw("a"))
    return gd::done();
  if (ctx.timed_out())
    return gd::stop("timeout");
  return gd::await("a", ctx.state).timeout(1h);
}

constexpr auto done = [](context&) { return gd::done(); };

} // namespace

// -- without a database -------------------------------------------------------

CAF_TEST(the most urgent row comes first and then the one that is due longest) {
  simulation sim{{puppet(done)}};
  auto late = one();
  late.delay_us = 1'000'000;
  auto urgent = one();
  urgent.priority = -1;
  auto a = insert(sim, late);
  auto b = insert(sim);
  auto c = insert(sim);
  auto d = insert(sim, urgent);
  must(sim.advance(1s));
  CAF_CHECK_EQUAL(must(sim.drain()), 4u);
  std::vector<std::int64_t> order;
  for (const auto& x : sim.history())
    order.push_back(x.id);
  CAF_CHECK_EQUAL(order, (std::vector{d, b, c, a}));
}

CAF_TEST(rows that become due at the same time of the clock take turns) {
  simulation sim{{puppet([](context& ctx) -> gd::outcome {
    if (++ctx.state.runs < 3)
      return gd::next(puppet_step::first, ctx.state);
    return gd::done();
  })}};
  auto a = insert(sim);
  auto b = insert(sim);
  must(sim.drain());
  std::vector<std::int64_t> order;
  for (const auto& x : sim.history())
    order.push_back(x.id);
  CAF_CHECK_EQUAL(order, (std::vector{a, b, a, b, a, b}));
}

CAF_TEST(the clock stands until it is moved and nothing fires early) {
  simulation sim{{puppet(wait_for_a)}};
  auto id = insert(sim);
  auto begin = sim.now();
  must(sim.drain());
  CAF_CHECK(sim.now() == begin);
  auto parked = must(sim.instance(id));
  CAF_CHECK_EQUAL(parked.deadline_us.value(),
                  +gd::to_microseconds(begin + 1h).value());
  must(sim.advance(1h - 1us));
  CAF_CHECK(!must(sim.step()));
  must(sim.advance(1us));
  CAF_CHECK_EQUAL(must(sim.instance(id)).status, "runnable");
  CAF_CHECK(must(sim.instance(id)).wake_reason == "timeout");
  CAF_CHECK(must(sim.step()));
  CAF_CHECK(must(sim.instance(id)).last_error == "timeout");
  CAF_CHECK(!must(sim.advance_to_next()));
}

CAF_TEST(time does not go backwards) {
  simulation sim;
  auto back = sim.advance(-1us);
  CAF_REQUIRE(!back);
  CAF_CHECK_EQUAL(back.error().message,
                  "expected to advance by 0 to 100 years, got -1 us");
}

CAF_TEST(a deadline that was past from the beginning fires at once) {
  simulation sim{{puppet([](context& ctx) -> gd::outcome {
    if (ctx.timed_out())
      return gd::done();
    return gd::await("a", ctx.state)
      .until(std::chrono::sys_days{1970y / 1 / 2});
  })}};
  auto id = insert(sim);
  CAF_CHECK_EQUAL(must(sim.drain()), 2u);
  CAF_CHECK_EQUAL(must(sim.instance(id)).status, "done");
}

CAF_TEST(running for a while runs what becomes due when it becomes due) {
  simulation sim;
  std::vector<std::chrono::sys_time<std::chrono::microseconds>> times;
  must(sim.add(puppet([&](context& ctx) {
    times.push_back(sim.now());
    return gd::replay(ctx.state, 10min);
  })));
  insert(sim);
  auto begin = sim.now();
  CAF_CHECK_EQUAL(must(sim.run_for(25min)), 3u);
  CAF_CHECK(sim.now() == begin + 25min);
  CAF_CHECK(times == (std::vector{begin, begin + 10min, begin + 20min}));
}

CAF_TEST(a dedup key is forgotten when its time is over and not before) {
  int taken = 0;
  auto machine = puppet([&](context& ctx) -> gd::outcome {
    taken += static_cast<int>(ctx.discard("x"));
    return gd::await("x", ctx.state);
  });
  machine.forget_dedup_after = 24h;
  simulation sim{{machine}};
  auto id = insert(sim);
  auto is_duplicate = [&] {
    auto x = sim.signal({.target = id, .name = "x", .dedup_key = "k"});
    CAF_REQUIRE(x);
    CAF_CHECK(sim.drain());
    return x->duplicate;
  };
  CAF_CHECK(!is_duplicate());
  CAF_CHECK(sim.run_for(24h));
  CAF_CHECK(is_duplicate());
  CAF_CHECK(sim.run_for(1us));
  CAF_CHECK(!is_duplicate());
  CAF_CHECK(is_duplicate());
  CAF_CHECK_EQUAL(taken, 2);
}

CAF_TEST(what never gets quiet is an error that names it) {
  simulation sim{{puppet(
    [](context& ctx) { return gd::next(puppet_step::first, ctx.state); })}};
  insert(sim);
  auto drained = sim.drain(50);
  CAF_REQUIRE(!drained);
  CAF_CHECK_EQUAL(drained.error().message,
                  "expected that all is quiet after 50 steps, got another one: "
                  "instance 1, first: next first");
  CAF_CHECK_EQUAL(sim.history().size(), 51u);
}

CAF_TEST(
  a signal that came while the step ran wakes it and a seen one does not ) {
  simulation sim;
  bool sent = false;
  must(sim.add(puppet([&](context& ctx) -> gd::outcome {
    if (ctx.peek_all("a").size() == 2)
      return gd::done();
    if (!std::exchange(sent, true))
      must(sim.signal({ctx.id, "a", {}, {}}));
    return gd::await("a", ctx.state);
  })));
  auto id = insert(sim);
  CAF_CHECK_EQUAL(must(sim.drain()), 2u); // woken by the one, which it has seen
  CAF_CHECK_EQUAL(must(sim.instance(id)).status, "awaiting_signal");
  must(sim.signal({id, "b", {}, {}}));
  CAF_CHECK_EQUAL(must(sim.drain()), 0u);
  must(sim.signal({id, "a", {}, {}}));
  CAF_CHECK_EQUAL(must(sim.drain()), 1u);
  CAF_CHECK_EQUAL(must(sim.instance(id)).inbox, 3); // nothing was taken
}

CAF_TEST(a crash loses the outcome and nothing else) {
  int executions = 0;
  simulation sim{{puppet([&](context& ctx) {
    ++executions;
    ctx.take_raw("a");
    ++ctx.state.runs;
    return gd::next(puppet_step::second, ctx.state);
  })}};
  auto id = insert(sim);
  must(sim.signal({id, "a", {}, {}}));
  sim.crash_next(id, 2);
  must(sim.step());
  auto x = must(sim.instance(id));
  CAF_CHECK_EQUAL(x.status, "runnable");
  CAF_CHECK_EQUAL(x.attempt, 1);
  CAF_CHECK_EQUAL(x.inbox, 1);
  CAF_CHECK(!x.locked_by);
  must(sim.drain());
  CAF_CHECK_EQUAL(executions, 3);
  CAF_CHECK_EQUAL(must(sim.state<puppet_state>(id)).runs, 1);
  CAF_CHECK_EQUAL(lines(sim.history(id)),
                  (texts{"first: crash", "first, attempt 1: crash",
                         "first, attempt 2: next second", "second: done"}));
}

CAF_TEST(steps may insert and signal but not run steps) {
  simulation sim;
  std::optional<gd::error> why;
  must(sim.add(puppet([&](context& ctx) -> gd::outcome {
    if (ctx.state.seed == 0) {
      insert(sim, one(1));
      if (auto ran = sim.drain(); !ran)
        why = ran.error();
    }
    return gd::done();
  })));
  insert(sim);
  CAF_CHECK_EQUAL(must(sim.drain()), 2u);
  CAF_REQUIRE(why);
  CAF_CHECK_EQUAL(why->message,
                  "a step cannot run steps: it may insert and signal");
}

CAF_TEST(a machine that an engine would refuse is refused) {
  auto broken = puppet(done);
  broken.steps[1].run = nullptr;
  simulation sim{{broken}};
  auto refused = sim.insert(one());
  CAF_REQUIRE(!refused);
  CAF_CHECK(refused.error().message.find("step second has no function")
            != std::string::npos);
  CAF_CHECK(!sim.drain());
  simulation twice{{puppet(done)}};
  CAF_CHECK(!twice.add(puppet(done)));
}

CAF_TEST(an asynchronous step is an error that says so) {
  struct later : gd::async_function {};
  auto machine = puppet(done);
  machine.steps[0].run = nullptr;
  machine.steps[0].start = std::make_shared<later>();
  simulation sim{{machine}};
  auto id = insert(sim);
  auto ran = sim.step();
  CAF_REQUIRE(!ran);
  CAF_CHECK_EQUAL(ran.error().message,
                  "instance 1: step first of Puppet v1 is asynchronous: it "
                  "needs an engine of gd::actors, or a "
                  "gd::actors::testing::simulation");
  CAF_CHECK_EQUAL(must(sim.instance(id)).status, "runnable");
}

CAF_TEST(a result that is not there is an error that tells what is) {
  simulation sim{{puppet([](context&) { return gd::stop("no luck"); })}};
  auto id = insert(sim);
  must(sim.drain());
  auto x = sim.result<puppet_state>(id);
  CAF_REQUIRE(!x);
  CAF_CHECK_EQUAL(x.error().message,
                  "instance 1 has no result: it is failed in step first: no "
                  "luck");
  CAF_CHECK(sim.instance(7).error().code == gd::errc::not_found);
  CAF_CHECK(sim.state<puppet_state>(7).error().code == gd::errc::not_found);
}

CAF_TEST(an instance can be described) {
  simulation sim{{puppet(wait_for_a, nullptr)}};
  auto id = insert(sim);
  must(sim.run_for(1h));
  CAF_CHECK_EQUAL(sim.describe(id),
                  "instance 1: Puppet v1, failed in step first, attempt 0\n"
                  "  state: {\"runs\": 0, \"seed\": 0, \"seen\": \"\"}\n"
                  "  woken by: timeout\n"
                  "  last error: timeout\n"
                  "  signals in the inbox: 0\n"
                  "  executions:\n"
                  "    first: await a\n"
                  "    first, timeout: stop timeout\n");
}

CAF_TEST(what no handler has decided is not said to be by one) {
  auto end = [](context&) { return gd::done(); };
  simulation sim{{gd::define<puppet_state, puppet_step>("Bare", 1)
                    .step(
                      puppet_step::first,
                      [](context& ctx) {
    return gd::await({"x", "x"}, ctx.state);
                      })
                    .step(puppet_step::second, end)
                    .step(puppet_step::third, end)}};
  auto row = must(sim.insert({.fsm = "Bare"}));
  must(sim.drain());
  auto steps = sim.history(row.id);
  CAF_REQUIRE_EQUAL(steps.size(), 1u);
  CAF_CHECK_EQUAL(steps.front().outcome, "stop");
  CAF_CHECK(!steps.front().handled);
}

CAF_TEST(an outcome that collides goes to the handler and then fails) {
  auto collide = [](context& ctx) { return gd::replay(ctx.state); };
  std::string why;
  simulation sim{{puppet(
    [&sim, collide](context& ctx) {
    if (ctx.state.seed == 0)
      insert(sim, {.fsm = "Puppet",
                   .state = gd::to_json(puppet_state{.seed = 1}),
                   .delay_us = 1'000'000,
                   .unique_key = "k",
                   .unique_scope = {"runnable"}});
    return collide(ctx);
    },
    nullptr,
    [&why, collide](const gd::failure& failure, context& ctx) {
    why = failure.message();
    return collide(ctx);
  })}};
  auto x = one();
  x.unique_key = "k";
  x.unique_scope = {"runnable"};
  auto id = insert(sim, x);
  CAF_CHECK(must(sim.insert(x)).duplicate);
  must(sim.drain());
  CAF_CHECK(why.find("instance 3 has its unique key") != std::string::npos);
  CAF_CHECK_EQUAL(must(sim.instance(id)).status, "failed");
  CAF_CHECK(must(sim.instance(id)).last_error->find("instance 3 has its unique")
            != std::string::npos);
}

// -- the same in a database ---------------------------------------------------

namespace {

struct database_fixture {
  gd::test::temporary_database db;

  database_fixture() {
    db.migrate();
  }

  in_database connect(std::vector<gd::machine> machines,
                      gd::testing::in_database_settings how = {}) {
    return must(
      in_database::connect(db.options(), std::move(machines), std::move(how)));
  }
};

/// Behaves at random, and yet the same in every run: what it does depends on its
/// state and on what it is given, not on its id or the time.
class dice {
public:
  dice(const context& ctx, std::uint32_t salt)
    : random_(static_cast<std::uint32_t>(
      ctx.state.seed * 7919 + ctx.state.runs * 104'729 + ctx.attempt * 1'299'709
      + ctx.step.size() * 31 + (ctx.timed_out() ? 17 : 0) + salt)) {
  }

  std::uint32_t operator()(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_()) % below;
  }

private:
  std::mt19937 random_;
};

gd::outcome any_outcome(context& ctx, dice& roll, bool in_handler) {
  using enum puppet_step;
  constexpr std::array steps{first, second, third};
  if (ctx.state.runs > 9)
    return gd::done(ctx.state);
  auto some_name = [&] { return roll(2) == 0 ? "a" : "b"; };
  auto some_names = [&] {
    return roll(2) == 0 ? std::vector{"a"s, "b"s}
                        : std::vector{"c"s, "a"s, "b"s};
  };
  switch (roll(in_handler ? 8 : 16)) {
    case 0:
      return gd::done(puppet_word{"of " + std::to_string(ctx.state.seed)});
    case 1:
      return gd::stop("because");
    case 2:
    case 3:
      return gd::replay(ctx.state, roll(3) * 7min);
    case 4:
      return gd::next(steps[roll(3)], ctx.state);
    case 5:
      return gd::next(steps[roll(3)], ctx.state).after(roll(2) * 5min);
    case 6:
      return gd::await(some_name(), ctx.state).timeout((1 + roll(4)) * 11min);
    case 7:
      return gd::await(some_name(), ctx.state)
        .until(std::chrono::sys_days{1970y / 1 / 2});
    case 8:
      return gd::done(puppet_number{1 / 0.0});
    case 9:
      return gd::next(puppet_step{}, puppet_word{"another state"});
    case 10:
      throw std::runtime_error{"thrown"};
    case 11:
    case 12:
      return gd::await(some_names(), ctx.state).timeout(13min);
    default:
      return gd::await(some_name(), ctx.state);
  }
}

/// Takes and looks at some of the inbox, notes it, and returns something.
gd::outcome any_step(context& ctx) {
  dice roll{ctx, 0};
  ++ctx.state.runs;
  auto note = [&](std::string_view text) {
    ctx.state.seen += text;
    if (ctx.state.seen.size() > 60)
      ctx.state.seen.erase(0, 30);
  };
  note(fmt::format("{}{}{} ", ctx.attempt, ctx.timed_out() ? "t" : "",
                   ctx.step.front()));
  for (auto name : {"a", "b"})
    switch (roll(4)) {
      case 0:
        if (auto x = ctx.take<puppet_word>(name)) // may throw
          note(name + x->text);
        break;
      case 1:
        while (auto x = ctx.take_raw(name))
          note(x->payload);
        break;
      case 2:
        note(std::to_string(ctx.peek_all(name).size()) + name);
        break;
      default:
        break;
    }
  return any_outcome(ctx, roll, false);
}

gd::outcome any_handler(const gd::failure& why, context& ctx) {
  dice roll{ctx, 1};
  if (ctx.attempt > 6)
    return gd::stop("at last: " + why.message());
  if (roll(6) == 0)
    throw std::runtime_error{"also thrown"};
  return any_outcome(ctx, roll, true);
}

gd::machine any_machine() {
  return puppet(any_step, any_step, any_handler);
}

std::string text_of(const gd::error& why) {
  return to_string(why);
}

/// All that must be the same, of an instance; times apart, for a database's
/// clock does not stand still.
std::string picture(harness& run, std::int64_t id) {
  auto x = run.instance(id);
  if (!x)
    return text_of(x.error());
  auto maybe = [](const auto& y) { return y.value_or("-"); };
  return fmt::format(
    "{} {}/{} {} {} state {} result {} awaits {} {} queue {} priority {} "
    "attempt "
    "{} error {} locked {} wake {} deadline {} inbox {} keys {} {}",
    x->id, x->fsm, x->version, x->step, x->status, x->state.text(),
    x->result ? x->result->text() : "-", maybe(x->awaits),
    fmt::join(x->awaits_also, ","), x->queue, x->priority, x->attempt,
    maybe(x->last_error), x->locked_by.has_value(), maybe(x->wake_reason),
    x->deadline_us.has_value(), x->inbox, maybe(x->partition_key),
    maybe(x->unique_key));
}

/// Does the same things at random with a harness; notes what it is told.
class script {
public:
  script(std::uint32_t seed, harness& run) : random_(seed), run_(run) {
    // nop
  }

  void play(int actions) {
    for (int i = 0; i < actions; ++i)
      act();
    drain();
    must(run_.advance(2h));
    drain();
  }

  const texts& notes() const noexcept {
    return notes_;
  }

  const std::vector<std::int64_t>& ids() const noexcept {
    return ids_;
  }

private:
  std::uint32_t roll(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_()) % below;
  }

  template <class T, class F>
  void note(std::string_view what, const gd::result<T>& x, F show) {
    notes_.push_back(
      fmt::format("{}: {}", what, x ? show(*x) : text_of(x.error())));
  }

  void drain() {
    note("drain", run_.drain(60), [](auto n) { return std::to_string(n); });
    for (auto id : ids_)
      notes_.push_back(picture(run_, id));
  }

  std::int64_t some_id() {
    return ids_.empty() || roll(20) == 0
             ? 1'000'000
             : ids_[roll(static_cast<std::uint32_t>(ids_.size()))];
  }

  void insert_something() {
    auto x = one(roll(1'000));
    switch (roll(12)) {
      case 0:
        x.step = "fourth";
        break;
      case 1:
        x.state = gd::json::raw(R"({"sed": 1})");
        break;
      case 2:
        x.fsm = "Pupet";
        break;
      case 3:
        x.version = 2;
        break;
      case 4:
        x.fsm = "Pupet"; // that nobody can run
        x.step = "first";
        x.queue = "default";
        x.state = gd::json::raw(R"({"b" : [1.50, 1e3, -0.0], "a":"\t\u00e9"})");
        break;
      case 5:
        x.delay_us = roll(4) * 420'000'000;
        break;
      case 6:
        x.priority = static_cast<std::int16_t>(roll(3)) - 1;
        break;
      case 7:
        x.step = "second";
        x.partition_key = "p" + std::to_string(roll(2));
        break;
      case 8:
      case 9:
        x.unique_key = "u" + std::to_string(roll(3));
        if (roll(2) == 0)
          x.unique_scope = {"runnable", "executing", "awaiting_signal", "done",
                            "failed"};
        break;
      case 10:
        x.delay_us = -1;
        break;
      default:
        break;
    }
    auto row = run_.insert(std::move(x));
    note("insert", row,
         [](const auto& y) { return fmt::format("{} {}", y.id, y.duplicate); });
    if (row && !row->duplicate)
      ids_.push_back(row->id);
  }

  void signal_something() {
    gd::signal x{.target = some_id(), .name = roll(2) == 0 ? "a" : "b"};
    x.payload = gd::to_json(puppet_word{std::to_string(roll(100))});
    if (roll(6) == 0)
      x.payload = gd::json::raw(R"({"text": 7})");
    if (roll(30) == 0)
      x.name = "";
    if (roll(3) == 0)
      x.dedup_key = "k" + std::to_string(roll(3));
    note("signal", run_.signal(std::move(x)),
         [](const auto& y) { return y.duplicate ? "duplicate" : "stored"; });
  }

  void act() {
    switch (roll(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return insert_something();
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        return signal_something();
      case 9:
      case 10:
      case 11:
        return note("step", run_.step(),
                    [](bool ran) { return ran ? "1" : "0"; });
      case 12:
        if (!ids_.empty())
          run_.crash_next(some_id());
        return;
      case 13:
        return drain();
      default:
        // A database's clock goes on by itself, but never for a minute: what
        // takes whole minutes is due in both or in neither. Deadlines that
        // have passed together fire in any order, hence the drain.
        if (roll(2) == 0) {
          note("to next", run_.advance_to_next(),
               [](bool moved) { return moved ? "1" : "0"; });
          must(run_.advance(1min));
        } else {
          must(run_.advance(roll(5) * 6min));
        }
        return drain();
    }
  }

  std::mt19937 random_;
  harness& run_;
  std::vector<std::int64_t> ids_;
  texts notes_;
};

/// What became of each instance's executions; their order among instances is
/// open where deadlines fire together.
std::map<std::int64_t, texts> histories(const harness& run) {
  std::map<std::int64_t, texts> out;
  for (const auto& x : run.history())
    out[x.id].push_back(to_string(x));
  return out;
}

/// A text with other ids. Those of a database may have gaps.
std::string renumbered(const std::string& text,
                       const std::map<std::string, std::string>& by) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    auto end = i;
    while (end < text.size() && std::isdigit(text[end]) != 0)
      ++end;
    end = std::max(end, i + 1);
    auto part = text.substr(i, end - i);
    auto found = by.find(part);
    out += found == by.end() ? part : found->second;
    i = end;
  }
  return out;
}

/// Whether both are the same, but for the numbers of signals, which failures tell;
/// tells the first difference.
bool same(texts a, texts b, const std::map<std::string, std::string>& ids) {
  static const std::regex number{"(signal \\S+) \\([0-9]+\\): "};
  for (auto& x : a)
    x = std::regex_replace(x, number, "$1: ");
  for (auto& x : b)
    x = renumbered(std::regex_replace(x, number, "$1: "), ids);
  auto n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < n; ++i)
    if (a[i] != b[i]) {
      CAF_MESSAGE("simulation: " << a[i]);
      CAF_MESSAGE("database:   " << b[i]);
      return false;
    }
  return a.size() == b.size();
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(testing_in_a_database, database_fixture)

CAF_TEST(the simulation does what the SQL does) {
  constexpr gd::limits few_signals{.inbox = 4};
  std::map<std::string, int> outcomes;
  for (std::uint32_t seed = 20; seed <= 26; ++seed) {
    gd::test::temporary_database own;
    own.migrate();
    // Unlike all other numbers.
    own.rows("alter table gen_durable alter id restart with 900001");
    auto real = must(in_database::connect(own.options(), {any_machine()},
                                          {.limits = few_signals}));
    simulation sim{{any_machine()}, {.limits = few_signals}};
    script in_memory{seed, sim};
    script in_sql{seed, real};
    in_memory.play(60);
    in_sql.play(60);
    CAF_MESSAGE("seed " << seed << ": " << sim.history().size() << " steps");
    CAF_REQUIRE_EQUAL(in_memory.ids().size(), in_sql.ids().size());
    std::map<std::string, std::string> ids;
    for (std::size_t i = 0; i < in_sql.ids().size(); ++i)
      ids.emplace(std::to_string(in_sql.ids()[i]),
                  std::to_string(in_memory.ids()[i]));
    CAF_CHECK(same(in_memory.notes(), in_sql.notes(), ids));
    auto expected = histories(sim);
    auto got = histories(real);
    CAF_CHECK_EQUAL(expected.size(), got.size());
    for (std::size_t i = 0; i < in_sql.ids().size(); ++i)
      CAF_CHECK(same(expected[in_memory.ids()[i]], got[in_sql.ids()[i]], ids));
    for (const auto& x : sim.history())
      ++outcomes[x.outcome + (x.handled ? " handled" : "")];
  }
  // The dice have come to everything.
  for (auto what :
       {"next", "replay", "await", "done", "stop", "crash", "next handled",
        "replay handled", "await handled", "done handled", "stop handled"})
    CAF_CHECK(outcomes[what] > 0);
}

CAF_TEST(the simulation shows JSON as jsonb does) {
  auto run = connect({puppet(done)});
  simulation sim{{puppet(done)}};
  for (auto text :
       {R"({"b":1,"a":2,"aa":[],"":{}})", R"({"a":1,"a":2})",
        R"({"x":[1.50,1e3,1.5e1,1E-3,-0,-0.0,0e5,0e-2,12345678901234567890,)"
        R"(1e20,0.1e-2,-1.25e+2,100e-2]})",
        R"({"x":"\b\f\n\r\t\"\\\/\u0001\u007f\u00e9\ud83d\ude00"})",
        R"({"x":[true,false,null,[[]],{"a":{"b":[{}]}}]})"}) {
    gd::insert x{
      .fsm = "Other", .state = gd::json::raw(text), .step = "s", .queue = "q"};
    auto a = must(sim.instance(insert(sim, x)));
    auto b = must(run.instance(insert(run, x)));
    CAF_CHECK_EQUAL(a.state.text(), b.state.text());
  }
}

CAF_TEST(what waits for time in a database can be made due) {
  auto run = connect({puppet(wait_for_a)});
  auto id = insert(run);
  CAF_CHECK_EQUAL(must(run.drain()), 1u);
  must(run.advance(59min));
  CAF_CHECK(!must(run.step()));
  CAF_CHECK(must(run.advance_to_next()));
  CAF_CHECK(must(run.step()));
  CAF_CHECK(!must(run.advance_to_next()));
  CAF_CHECK(must(run.instance(id)).last_error == "timeout");
  CAF_CHECK_EQUAL(lines(run.history(id)),
                  (texts{"first: await a", "first, timeout: stop timeout"}));
}

CAF_TEST(steps are told the time that passes in both) {
  auto seconds = [](harness& run) {
    std::vector<std::int64_t> at;
    must(run.add(puppet([&](context& ctx) -> gd::outcome {
      at.push_back(ctx.now().time_since_epoch() / 1s);
      if (++ctx.state.runs == 1)
        return gd::next(puppet_step::first, ctx.state).after(10min);
      if (ctx.state.runs == 2)
        return gd::await({"x", "y"}, ctx.state).until(ctx.now() + 1h);
      return gd::done();
    })));
    insert(run);
    must(run.run_for(2h));
    CAF_REQUIRE_EQUAL(at.size(), 3u);
    return std::vector{at[1] - at[0], at[2] - at[1]};
  };
  simulation sim;
  CAF_CHECK_EQUAL(seconds(sim), (std::vector<std::int64_t>{600, 3'600}));
  auto in_sql = connect({});
  auto real = seconds(in_sql);
  CAF_CHECK(real[0] >= 600 && real[0] < 660);
  CAF_CHECK(real[1] >= 3'599 && real[1] < 3'660);

  auto run = connect({puppet(done)});
  must(run.advance(24h));
  auto soon = one();
  auto now = std::stoll(db.scalar(
    "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"));
  soon.eligible_at_us = now + 24 * 3'600'000'000 + 600'000'000;
  insert(run, soon);
  CAF_CHECK_EQUAL(must(run.drain()), 0u);
  must(run.advance(10min));
  CAF_CHECK_EQUAL(must(run.drain()), 1u);
}

CAF_TEST(a test of either kind knows the time that its steps are told) {
  auto at_noon = [](harness& run) {
    std::vector<std::chrono::sys_time<std::chrono::microseconds>> seen;
    must(run.add(puppet([&](context& ctx) -> gd::outcome {
      seen.push_back(ctx.now());
      return gd::done();
    })));
    auto day = std::chrono::floor<std::chrono::days>(run.now());
    auto noon = day + 36h;
    must(run.advance(
      std::chrono::duration_cast<std::chrono::microseconds>(noon - run.now())));
    insert(run);
    must(run.drain());
    CAF_REQUIRE_EQUAL(seen.size(), 1u);
    CAF_CHECK(seen[0] >= noon && seen[0] < noon + 1min);
    CAF_CHECK(run.now() >= seen[0] && run.now() < noon + 1min);
  };
  simulation sim;
  at_noon(sim);
  auto in_sql = connect({});
  at_noon(in_sql);
}

CAF_TEST(the clock of a simulation is set ahead and not back) {
  simulation sim{{puppet(wait_for_a)}};
  auto id = insert(sim);
  must(sim.drain());
  auto then = sim.now() + 59min;
  must(sim.advance_to(then));
  CAF_CHECK(sim.now() == then);
  CAF_CHECK(!must(sim.step()));
  CAF_CHECK(!sim.advance_to(then - 1us));
  must(sim.advance_to(then + 1min));
  CAF_CHECK(must(sim.instance(id)).wake_reason == "timeout");
}

CAF_TEST(any of several signals wakes once and which came is taken in both) {
  auto play = [](harness& run) {
    must(run.add(puppet([](context& ctx) -> gd::outcome {
      if (ctx.take_raw("a"))
        return gd::done(puppet_word{"a"});
      if (ctx.take_raw("b"))
        return gd::done(puppet_word{"b"});
      return gd::await({"a", "b"}, ctx.state);
    })));
    texts out;
    for (texts signals : {texts{"a"}, texts{"b"}, texts{"c", "b", "a"}}) {
      auto id = insert(run);
      must(run.drain());
      auto parked = must(run.instance(id));
      CAF_CHECK_EQUAL(parked.awaits.value_or(""), "a");
      CAF_CHECK(parked.awaits_also == texts{"b"});
      CAF_CHECK(run.describe(id).find("awaits: a, b") != std::string::npos);
      for (const auto& name : signals)
        must(run.signal({.target = id, .name = name, .payload = {}}));
      must(run.drain());
      auto ended = must(run.instance(id));
      CAF_CHECK(!ended.awaits && ended.awaits_also.empty());
      CAF_CHECK_EQUAL(run.history(id).size(), 2u);
      out.push_back(ended.result->text());
    }
    return out;
  };
  texts expected{R"({"text": "a"})", R"({"text": "b"})", R"({"text": "a"})"};
  simulation sim;
  CAF_CHECK_EQUAL(play(sim), expected);
  auto real = connect({});
  CAF_CHECK_EQUAL(play(real), expected);
}

CAF_TEST(rows of one partition key run in their order in both) {
  // In which order they have run; ids of a database may have gaps.
  auto play = [](harness& run) {
    std::map<std::int64_t, std::int64_t> number;
    for (std::int64_t seed = 0; seed < 6; ++seed) {
      auto x = one(seed);
      x.partition_key = seed % 2 == 0 ? "even" : "odd";
      x.priority = static_cast<std::int16_t>(seed == 4 ? -1 : 0);
      number[insert(run, x)] = seed + 1;
    }
    run.crash_next(number.begin()->first);
    must(run.drain());
    std::vector<std::int64_t> order;
    for (const auto& x : run.history())
      order.push_back(number[x.id]);
    return order;
  };
  simulation sim{{puppet(done)}};
  auto real = connect({puppet(done)});
  std::vector<std::int64_t> expected{5, 1, 1, 2, 3, 4, 6};
  CAF_CHECK_EQUAL(play(sim), expected);
  CAF_CHECK_EQUAL(play(real), expected);
}

CAF_TEST(a wake-up that would collide waits for the key in both) {
  std::vector<std::int64_t> made;
  auto play = [&made](harness& run) {
    texts notes;
    made.clear();
    auto x = one();
    x.unique_key = "k";
    x.unique_scope = {"runnable"};
    auto parked = made.emplace_back(insert(run, x));
    must(run.drain());
    auto other = made.emplace_back(insert(run, x)); // the first is parked
    must(run.signal({parked, "a", {}, {}}));
    notes.push_back(picture(run, parked));
    must(run.advance(1min));
    notes.push_back(picture(run, parked));
    must(run.drain()); // parks the other, and wakes the first
    notes.push_back(picture(run, parked));
    notes.push_back(picture(run, other));
    // A crash of one while another has its key.
    auto crashed = made.emplace_back(insert(run, x));
    run.crash_next(crashed);
    must(run.step());
    notes.push_back(picture(run, crashed));
    must(run.run_for(3h));
    notes.push_back(picture(run, other));
    notes.push_back(picture(run, crashed));
    return notes;
  };
  simulation sim{{puppet(wait_for_a)}};
  auto real = connect({puppet(wait_for_a)});
  auto expected = play(sim);
  CAF_CHECK(expected[0].find("awaiting_signal") != std::string::npos);
  CAF_CHECK(expected[0].find("wake signal") != std::string::npos);
  CAF_CHECK(expected[2].find("done") != std::string::npos);
  auto in_memory = made;
  db.rows("alter table gen_durable alter id restart with 900001");
  auto got = play(real);
  std::map<std::string, std::string> ids; // they may have gaps
  for (std::size_t i = 0; i < made.size(); ++i)
    ids.emplace(std::to_string(made[i]), std::to_string(in_memory[i]));
  CAF_CHECK(same(expected, got, ids));
}

CAF_TEST(what becomes due behind the last look of a drain is not missed) {
  auto run = connect({puppet(wait_for_a)});
  auto id = insert(run);
  must(run.drain());
  gd::test::session{db.conninfo()}.exec(
    "update gen_durable set deadline = clock_timestamp()");
  CAF_CHECK(must(run.advance_to_next()));
  CAF_CHECK_EQUAL(must(run.drain()), 1u);
  CAF_CHECK(must(run.instance(id)).last_error == "timeout");
}

CAF_TEST(a database is drained in the queues that are asked for) {
  {
    auto run = connect({puppet(done)});
    insert(run);
    auto x = one();
    x.queue = "other";
    insert(run, x);
  }
  CAF_CHECK_EQUAL(must(gd::testing::drain(db.options(), {puppet(done)})), 1u);
  CAF_CHECK_EQUAL(
    must(gd::testing::drain(db.options(), {puppet(done)}, {"other"})), 1u);
}

CAF_TEST(what the database refuses goes to the handler) {
  db.rows("alter table gen_durable add check (step <> 'second')");
  auto run = connect({puppet(
    [](context& ctx) { return gd::next(puppet_step::second, ctx.state); },
    nullptr,
    [](const gd::failure&, context&) { return gd::stop("refused"); })});
  auto id = insert(run);
  must(run.drain());
  CAF_CHECK(must(run.instance(id)).last_error == "refused");
  CAF_CHECK_EQUAL(lines(run.history(id)),
                  texts{"first: stop refused (by the handler)"});
}

CAF_TEST(a schema that does not fit is an error) {
  gd::test::temporary_database empty;
  auto run = in_database::connect(empty.options());
  CAF_REQUIRE(!run);
  CAF_CHECK(run.error().code == gd::errc::schema_mismatch);
}

CAF_TEST(children are made once and counted once whatever crashes) {
  auto run = connect({});
  must(run.add(count_parent()));
  must(run.add(count_part()));
  auto parent = insert(
    run, {.fsm = "Count",
          .state = gd::to_json(
            count_state{.texts = {"one", "two words", "and three more"}})});
  run.crash_next(parent);
  must(run.step());
  for (const auto& row : db.rows("select id from gen_durable"))
    run.crash_next(std::stoll(*row[0]));
  must(run.drain());
  CAF_CHECK_EQUAL(must(run.result<total>(parent)).words, 6);
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable where status = 'done'"), "4");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace testing_suite
