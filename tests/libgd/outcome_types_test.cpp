#define CAF_SUITE outcome_types

#include <gd/engine/step/run.hpp>

#include <caf/test/dsl.hpp>

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::literals;

namespace typed {

GD_ENUM(flow_step, begin, hold, end);
GD_ENUM(other_step, begin, hold, end);

/// Long enough for its JSON to be on the heap.
struct flow {
  int n = 7;
  std::string note = std::string(64, 'x');

  GD_STATE(flow, n, note);
};

struct other {
  int n = 7;

  GD_STATE(other, n);
};

} // namespace typed

namespace outcome_types_suite {

namespace {

using gd::store::write_kind;
using typed::flow;
using typed::flow_step;
using typed::other;
using typed::other_step;
using enum flow_step;

using context = gd::context<flow>;

template <class T, class From>
concept made_from = std::convertible_to<From, T>;

// -- what each function returns -----------------------------------------------

using moved = decltype(gd::next(end, flow{}));
using to_end = decltype(gd::next<end>(flow{}));
using again = decltype(gd::replay(flow{}, 1s));
using parked = decltype(gd::await("go", flow{}));
using ended = decltype(gd::done(flow{}));

template <class T>
using carries = gd::carries<T, flow>;

static_assert(std::same_as<moved, carries<gd::moved<flow_step>>>);
static_assert(std::same_as<to_end, carries<gd::to<end>>>);
static_assert(std::same_as<again, carries<gd::again>>);
static_assert(std::same_as<decltype(gd::replay(flow{})), again>);
static_assert(std::same_as<parked, carries<gd::parked>>);
static_assert(
  std::same_as<decltype(gd::await("go", flow{}).timeout(1h)), parked>);
static_assert(
  std::same_as<decltype(gd::next<end>(flow{}).after(1h).with(flow{})), to_end>);
static_assert(std::same_as<ended, gd::ended>);
static_assert(std::same_as<decltype(gd::done()), gd::ended>);
static_assert(std::same_as<decltype(gd::stop("why")), gd::ended>);

// -- what is made from what ---------------------------------------------------

static_assert(made_from<gd::outcome, moved> && made_from<gd::outcome, to_end>);
static_assert(made_from<gd::outcome, again> && made_from<gd::outcome, parked>);
static_assert(made_from<gd::outcome, ended>);
static_assert(made_from<gd::outcome, gd::to<begin, end>>);

// A step that was not named, another machine's, or one that is not known.
using to_some = gd::to<hold, end>;
static_assert(made_from<to_some, to_end> && made_from<to_some, gd::to<hold>>);
static_assert(made_from<to_some, gd::to<end, hold>>);
static_assert(made_from<to_some, gd::to<>> && made_from<to_some, again>);
static_assert(made_from<to_some, parked> && made_from<to_some, ended>);
static_assert(!made_from<to_some, gd::to<begin>>);
static_assert(!made_from<to_some, gd::to<begin, end>>);
static_assert(!made_from<to_some, gd::to<other_step::end>>);
static_assert(!made_from<to_some, moved>);
static_assert(!made_from<to_some, gd::outcome>);
static_assert(made_from<gd::to<>, ended> && !made_from<gd::to<>, to_end>);

static_assert(made_from<gd::moved<flow_step>, moved>);
static_assert(made_from<gd::again, again> && made_from<gd::parked, parked>);

// One that tells its state is made from what has that state, or none.
using with_flow = context::to<hold, end>;
static_assert(std::derived_from<with_flow, to_some>);
static_assert(made_from<with_flow, to_end> && made_from<with_flow, again>);
static_assert(made_from<with_flow, parked> && made_from<with_flow, ended>);
static_assert(made_from<with_flow, context::to<end>>);
static_assert(!made_from<with_flow, context::to<begin>>);
static_assert(!made_from<with_flow, decltype(gd::next<end>(other{}))>);
static_assert(!made_from<with_flow, decltype(gd::await("go", other{}))>);
static_assert(!made_from<with_flow, to_some> && !made_from<with_flow, moved>);

static_assert(!made_from<moved, gd::moved<other_step>>);
static_assert(!made_from<moved, gd::outcome> && !made_from<moved, again>);
static_assert(!made_from<again, gd::outcome> && !made_from<parked, ended>);
static_assert(!std::default_initializable<moved>);
static_assert(!std::default_initializable<to_end>);
static_assert(!std::default_initializable<again>);
static_assert(!std::default_initializable<parked>);
static_assert(!std::default_initializable<ended>);

// -- executions ---------------------------------------------------------------

gd::store::outcome_row execute(gd::machine built) {
  gd::store::picked_row picked{.id = 42,
                               .fsm = "Flow",
                               .fsm_version = 1,
                               .step = "begin",
                               .state = R"({"n":7,"note":"short"})"};
  gd::run one{std::make_shared<gd::held_row>(
    gd::held_row{std::make_shared<const gd::machine>(std::move(built)),
                 std::move(picked),
                 std::make_shared<gd::lease>(42, "token"),
                 {}})};
  return std::move(*one.execute());
}

/// Defined with the type that `f` returns, and not with a std::function of it.
template <class F>
gd::store::outcome_row run(F f) {
  auto last = [](context&) { return gd::done(); };
  return execute(gd::define<flow, flow_step>("Flow", 1)
                   .step(begin, std::move(f))
                   .step(hold, last)
                   .step(end, last));
}

/// What the handler returns after the step has thrown.
template <class F>
gd::store::outcome_row handle(F f) {
  auto last = [](context&) { return gd::done(); };
  return execute(
    gd::define<flow, flow_step>("Flow", 1)
      .step(begin,
            [](context&) -> gd::to<> { throw std::runtime_error{"no stock"}; })
      .step(hold, last)
      .step(end, last)
      .on_error([f = std::move(f)](const gd::failure&, context& ctx) mutable {
        return f(ctx);
      }));
}

const auto state_as_picked = R"({"n":7,"note":"short"})"s;

template <class Run>
void check_each(Run run) {
  auto row = run([](context& ctx) { return gd::next(end, ctx.state); });
  CAF_CHECK(row.what == write_kind::next);
  CAF_CHECK_EQUAL(row.step, "end"s);
  CAF_CHECK_EQUAL(row.state, state_as_picked);

  row = run([](context& ctx) { return gd::next<hold>(ctx.state); });
  CAF_CHECK(row.what == write_kind::next);
  CAF_CHECK_EQUAL(row.step, "hold"s);
  CAF_CHECK_EQUAL(row.state, state_as_picked);

  row = run([](context& ctx) {
    return gd::next(end, ctx.state).after(1s).with(flow{.n = 3});
  });
  CAF_CHECK_EQUAL(row.step, "end"s);
  CAF_CHECK_EQUAL(row.state, state_as_picked);
  CAF_CHECK_EQUAL(row.delay_us, 1'000'000);

  row = run([](context& ctx) { return gd::replay(ctx.state, 2s); });
  CAF_CHECK(row.what == write_kind::replay);
  CAF_CHECK_EQUAL(row.delay_us, 2'000'000);
  CAF_CHECK_EQUAL(row.state, state_as_picked);
  row = run([](context& ctx) { return gd::replay(ctx.state); });
  CAF_CHECK_EQUAL(row.delay_us, 0);

  row = run([](context& ctx) { return gd::await("go", ctx.state); });
  CAF_CHECK(row.what == write_kind::await);
  CAF_CHECK_EQUAL(row.awaits, "go"s);
  CAF_CHECK_EQUAL(row.state, state_as_picked);
  CAF_CHECK(!row.timeout_us && !row.until_us);
  row = run([](context& ctx) {
    return gd::await("go", ctx.state)
      .timeout(3s)
      .until(std::chrono::system_clock::time_point{1s});
  });
  CAF_CHECK_EQUAL(row.awaits, "go"s);
  CAF_CHECK_EQUAL(row.state, state_as_picked);
  CAF_CHECK(row.timeout_us == 3'000'000);
  CAF_CHECK(row.until_us == 1'000'000);

  row = run([](context& ctx) { return gd::done(ctx.state.n); });
  CAF_CHECK(row.what == write_kind::done);
  CAF_CHECK_EQUAL(row.result, "7"s);
  row = run([](context&) { return gd::done(); });
  CAF_CHECK_EQUAL(row.result, "{}"s);
  row = run([](context&) { return gd::stop("enough"); });
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK_EQUAL(row.reason, "enough"s);
}

/// Mixes them, and names its type.
template <class Outcome>
Outcome mixed(context& ctx, write_kind what) {
  switch (what) {
    case write_kind::replay:
      return gd::replay(ctx.state, 2s);
    case write_kind::await:
      return gd::await("go", ctx.state).timeout(3s);
    case write_kind::done:
      return gd::done(ctx.state);
    case write_kind::stop:
      return gd::stop("enough");
    default:
      return gd::next<end>(ctx.state);
  }
}

template <class Outcome, class Run>
void check_mixed(Run run) {
  for (auto what : {write_kind::next, write_kind::replay, write_kind::await,
                    write_kind::done, write_kind::stop}) {
    auto row = run([=](context& ctx) { return mixed<Outcome>(ctx, what); });
    CAF_CHECK(row.what == what);
    CAF_CHECK_EQUAL(row.step, what == write_kind::next ? "end"s : ""s);
    CAF_CHECK_EQUAL(row.delay_us, what == write_kind::replay ? 2'000'000 : 0);
    CAF_CHECK_EQUAL(row.timeout_us.value_or(0),
                    what == write_kind::await ? 3'000'000 : 0);
    CAF_CHECK_EQUAL(row.result,
                    what == write_kind::done ? state_as_picked : ""s);
    CAF_CHECK_EQUAL(row.reason, what == write_kind::stop ? "enough"s : ""s);
  }
}

const auto in_step = [](auto f) { return run(std::move(f)); };
const auto in_handler = [](auto f) { return handle(std::move(f)); };

} // namespace

CAF_TEST(an outcome of each type is carried out) {
  check_each(in_step);
}

CAF_TEST(a handler returns any of them as well) {
  check_each(in_handler);
}

CAF_TEST(what mixes them names its type) {
  check_mixed<gd::outcome>(in_step);
  check_mixed<gd::to<end>>(in_step);
  check_mixed<gd::to<hold, end>>(in_step);
  check_mixed<gd::outcome>(in_handler);
  check_mixed<gd::to<begin, end>>(in_handler);
}

CAF_TEST(
  a step of another machine is found at run time where its type is not known) {
  auto row = run([](context& ctx) -> gd::outcome {
    return gd::next<other_step::end>(ctx.state);
  });
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK(row.reason.find("no step end") != std::string::npos);
}

CAF_TEST(becoming an outcome moves and does not copy) {
  const auto text = [](const gd::outcome& x) { return x.value.text().data(); };
  auto check = [&](auto x) {
    const auto* before = text(x);
    auto named = [&]() -> gd::outcome { return x; };
    CAF_CHECK(text(named()) != before); // captured: a copy
    gd::outcome y = std::move(x);
    CAF_CHECK(text(y) == before);
  };
  check(gd::next(end, flow{}));
  check(gd::next<end>(flow{}));
  check(gd::replay(flow{}));
  check(gd::await("go", flow{}));
  check(gd::done(flow{}));

  // Also where it has a name on its way out.
  const char* before = nullptr;
  auto wait = [&]() -> gd::outcome {
    auto x = gd::await("go", flow{});
    before = text(x);
    return x;
  };
  CAF_CHECK(text(wait()) == before);
  auto to_either = [&]() -> gd::to<hold, end> {
    auto x = gd::next<end>(flow{});
    before = text(x);
    return x;
  };
  CAF_CHECK(text(to_either()) == before);
}

CAF_TEST(a duration that cannot be is told by replay and await) {
  CAF_CHECK(gd::replay(flow{}, -1s).problem);
  CAF_CHECK(gd::await("go", flow{}).timeout(-1s).problem);
  CAF_CHECK(!gd::replay(flow{}, 1s).problem);
}

} // namespace outcome_types_suite
