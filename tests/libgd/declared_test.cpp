// Declared transitions: what a step or handler declares, by its type or by a list,
// and that nothing else happens.

#define CAF_SUITE declared

#include "support/database.hpp"
#include "support/words.hpp"

#include <gd/engine/step/run.hpp>
#include <gd/graph.hpp>
#include <gd/machine.hpp>
#include <gd/store/nodes.hpp>
#include <gd/testing.hpp>

#include <caf/test/dsl.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::literals;
using gd::test::contains;

namespace declaring {

GD_ENUM(sale_step, pay, ship, cancelled);
GD_ENUM(other_step, pay, ship, cancelled);

struct sale {
  int n = 0;

  GD_STATE(sale, n);
};

} // namespace declaring

namespace declared_suite {

namespace {

using declaring::other_step;
using declaring::sale;
using declaring::sale_step;
using gd::store::write_kind;
using enum sale_step;

using context = gd::context<sale>;
using steps = std::vector<std::string>;
using builder = gd::machine_builder<sale, sale_step>;

gd::outcome go_to(context& ctx, sale_step where) {
  return gd::next(where, ctx.state);
}

auto going_to(sale_step where) {
  return [where](context& ctx) { return go_to(ctx, where); };
}

auto failing_to(sale_step where) {
  return
    [where](const gd::failure&, context& ctx) { return go_to(ctx, where); };
}

gd::outcome fail(context&) {
  throw std::runtime_error{"no stock"};
}

/// The others only end.
template <class F>
builder beginning_with(gd::step_options how, F first) {
  auto end = [](context&) { return gd::done(); };
  return gd::define<sale, sale_step>("Sale", 1)
    .step(pay, std::move(how), std::move(first))
    .step(ship, end)
    .step(cancelled, end);
}

/// What the step declares that is defined by this.
template <class F>
std::optional<steps> declared(F f, gd::step_options how = {}) {
  gd::machine x = beginning_with(std::move(how), std::move(f));
  return x.find_step("pay")->to;
}

gd::store::outcome_row run(gd::machine x) {
  gd::store::picked_row picked{
    .id = 1, .fsm = "Sale", .fsm_version = 1, .step = "pay", .state = "{}"};
  gd::run one{std::make_shared<gd::held_row>(
    gd::held_row{std::make_shared<const gd::machine>(std::move(x)),
                 std::move(picked),
                 std::make_shared<gd::lease>(1, "token"),
                 {}})};
  return std::move(*one.execute());
}

std::string refusal(const gd::machine& x) {
  auto ok = x.validate();
  return ok ? "" : ok.error().message;
}

} // namespace

// -- what is declared ---------------------------------------------------------

CAF_TEST(a type that names steps or none declares them) {
  CAF_CHECK(declared([](context& ctx) -> gd::to<ship, cancelled> {
              return gd::next<ship>(ctx.state);
            })
            == (steps{"ship", "cancelled"}));
  CAF_CHECK(declared([](auto& ctx) -> gd::to<ship> {
              return gd::next<ship>(ctx.state);
            })
            == steps{"ship"});
  CAF_CHECK(declared([](context& ctx) { return gd::next<ship>(ctx.state); })
            == steps{"ship"});
  CAF_CHECK(declared([](context&) { return gd::done(); }) == steps{});
  CAF_CHECK(declared([](context& ctx) { return gd::replay(ctx.state); })
            == steps{});
  CAF_CHECK(declared([](context& ctx) { return gd::await("a", ctx.state); })
            == steps{});
}

CAF_TEST(a type that does not tell declares nothing) {
  CAF_CHECK(!declared(going_to(ship)));
  CAF_CHECK(!declared([](context& ctx) { return gd::next(ship, ctx.state); }));
}

CAF_TEST(a list declares what the type does not ) {
  CAF_CHECK(declared(going_to(ship), {.to = {ship, cancelled}})
            == (steps{"ship", "cancelled"}));
  CAF_CHECK(declared(going_to(ship), {.limit = 1s, .to = {ship}})
            == steps{"ship"});
  CAF_CHECK(declared(going_to(ship), {.to = gd::nowhere}) == steps{});
  CAF_CHECK(!declared(going_to(ship), {.to = {}}));
}

CAF_TEST(a handler declares as a step does) {
  auto handled = [](auto... how_and_f) {
    gd::machine x = beginning_with({}, fail).on_error(how_and_f...);
    CAF_CHECK_EQUAL(refusal(x), "");
    return x.handler_to;
  };
  CAF_CHECK(!handled(failing_to(ship)));
  CAF_CHECK(handled(gd::handler_options{.to = {ship}}, failing_to(ship))
            == steps{"ship"});
  CAF_CHECK(handled([](const gd::failure&, auto& ctx) -> gd::to<cancelled> {
              return gd::next<cancelled>(ctx.state);
            })
            == steps{"cancelled"});
  CAF_CHECK(handled([](const gd::failure& why, context&) {
              return gd::stop(why.message());
            })
            == steps{});
}

CAF_TEST(
  a list of another machine and one beside a type that tells are refused) {
  CAF_CHECK_EQUAL(
    refusal(beginning_with({.to = {other_step::ship}}, going_to(ship))),
    "Sale v1: step pay declares a list of steps of another machine");
  CAF_CHECK_EQUAL(
    refusal(beginning_with({}, going_to(ship))
              .on_error({.to = {other_step::ship}}, failing_to(ship))),
    "Sale v1: its handler declares a list of steps of another machine");
  CAF_CHECK_EQUAL(
    refusal(beginning_with(
      {.to = {ship}}, [](context& ctx) { return gd::next<ship>(ctx.state); })),
    "Sale v1: step pay declares where it goes by its type and by a list, "
    "expected one of them");
}

CAF_TEST(a machine that insists is refused until everything declares) {
  CAF_CHECK_EQUAL(refusal(beginning_with({}, going_to(ship))), "");
  CAF_CHECK_EQUAL(
    refusal(beginning_with({}, going_to(ship)).declared_only()),
    "Sale v1: step pay declares nothing, expected a type such as gd::to<...>, "
    "or a list, .to = {...}");
  CAF_CHECK_EQUAL(
    refusal(beginning_with({.to = {ship}}, going_to(ship)).declared_only()),
    "");
  CAF_CHECK(contains(refusal(beginning_with({.to = {ship}}, going_to(ship))
                               .on_error(failing_to(ship))
                               .declared_only()),
                     "its handler declares nothing"));
  CAF_CHECK_EQUAL(refusal(beginning_with({.to = {ship}}, going_to(ship))
                            .declared_only()
                            .on_error({.to = {ship}}, failing_to(ship))),
                  "");
}

// -- and what happens ---------------------------------------------------------

CAF_TEST(a step goes where it declares and where nothing is declared anywhere) {
  for (const auto& x :
       {gd::machine(beginning_with({.to = {cancelled, ship}}, going_to(ship))),
        gd::machine(beginning_with({}, going_to(ship)))}) {
    auto row = run(x);
    CAF_CHECK(row.what == write_kind::next);
    CAF_CHECK_EQUAL(row.step, "ship");
  }
}

CAF_TEST(an outcome that is not declared goes to the handler) {
  std::string told;
  auto row = run(beginning_with({.to = {ship, pay}}, going_to(cancelled))
                   .on_error({.to = {ship}},
                             [&](const gd::failure& why, context& ctx) {
    told = why.message();
    CAF_CHECK(!why.thrown());
    return go_to(ctx, ship);
                   }));
  CAF_CHECK_EQUAL(told, "outcome next of step pay: Sale v1 declares no "
                        "transition from pay to cancelled, expected one of "
                        "ship|pay");
  CAF_CHECK(row.what == write_kind::next);
  CAF_CHECK_EQUAL(row.step, "ship");
}

CAF_TEST(without a handler an instance fails by it) {
  auto row = run(beginning_with({.to = gd::nowhere}, going_to(ship)));
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK_EQUAL(row.reason, "outcome next of step pay: Sale v1 declares no "
                              "transition from pay to ship, expected none");
}

CAF_TEST(what the handler does not declare fails the instance) {
  auto row = run(beginning_with({.to = {cancelled}}, fail)
                   .on_error({.to = {ship}}, failing_to(cancelled)));
  CAF_CHECK(row.what == write_kind::stop);
  CAF_CHECK_EQUAL(row.reason,
                  "no stock; the handler's outcome cannot be carried out: "
                  "outcome next of step pay: Sale v1 declares no transition of "
                  "its handler to cancelled, expected one of ship");
}

CAF_TEST(the handler goes where it declares whatever the step declares) {
  auto row = run(beginning_with({.to = gd::nowhere}, fail)
                   .on_error({.to = {ship}}, failing_to(ship)));
  CAF_CHECK(row.what == write_kind::next);
  CAF_CHECK_EQUAL(row.step, "ship");
  row = run(
    beginning_with({.to = gd::nowhere}, fail).on_error(failing_to(ship)));
  CAF_CHECK(row.what == write_kind::next);
}

CAF_TEST(what does not go on is declared by nothing) {
  auto row = run(
    beginning_with({.to = gd::nowhere}, [](context& ctx) -> gd::outcome {
      return gd::await("go", ctx.state);
    }));
  CAF_CHECK(row.what == write_kind::await);
}

CAF_TEST(the test kit refuses what an engine refuses) {
  auto play = [](gd::testing::harness& in) {
    auto made = in.insert({.fsm = "Sale"});
    CAF_REQUIRE(made);
    CAF_REQUIRE(in.drain());
    auto row = in.instance(made->id);
    CAF_REQUIRE(row);
    CAF_CHECK_EQUAL(row->status, "failed");
    CAF_CHECK_EQUAL(row->step, "pay");
    CAF_CHECK(contains(row->last_error.value_or(""),
                       "Sale v1 declares no transition from pay to cancelled"));
  };
  gd::machine x = beginning_with({.to = {ship}}, going_to(cancelled));
  gd::testing::simulation sim{{x}};
  play(sim);
  gd::test::temporary_database db;
  db.migrate();
  auto real = gd::testing::in_database::connect(db.options(), {x});
  CAF_REQUIRE(real);
  play(*real);
}

// -- the graph ----------------------------------------------------------------

namespace {

/// One step of each kind, and a handler.
gd::machine some_machine() {
  return beginning_with({.to = {cancelled, ship}}, going_to(ship))
    .on_error({.to = {cancelled}}, failing_to(cancelled));
}

gd::machine open_machine() {
  auto any = going_to(ship);
  return gd::define<sale, sale_step>("Sale", 2)
    .initial(ship)
    .step(pay, any)
    .step(ship, any)
    .step(cancelled, any)
    .on_error(failing_to(cancelled));
}

} // namespace

CAF_TEST(the graph of a machine has its steps and what they declare) {
  auto x = gd::graph(some_machine());
  CAF_CHECK_EQUAL(x.fsm, "Sale");
  CAF_CHECK_EQUAL(x.version, 1);
  CAF_CHECK_EQUAL(x.initial_step, "pay");
  CAF_REQUIRE_EQUAL(x.steps.size(), 3u);
  CAF_CHECK_EQUAL(x.steps[0].name, "pay");
  CAF_CHECK(x.steps[0].to == (steps{"cancelled", "ship"}));
  CAF_CHECK(x.steps[1].to == steps{});
  CAF_CHECK(x.handled);
  CAF_CHECK(x.handler_to == steps{"cancelled"});
  auto open = gd::graph(open_machine());
  CAF_CHECK(!open.steps[0].to);
  CAF_CHECK(!open.handler_to);
  CAF_CHECK(!gd::graph(beginning_with({}, fail)).handled);
  CAF_MESSAGE("a handler that goes nowhere is as none");
  CAF_CHECK(
    !gd::graph(beginning_with({}, fail).on_error(
                 [](const gd::failure&, context&) { return gd::stop("no"); }))
       .handled);
}

CAF_TEST(a graph is drawn as text and for Mermaid and Graphviz) {
  auto x = gd::graph(some_machine());
  CAF_CHECK_EQUAL(gd::to_text(x), "Sale v1, begins at pay\n"
                                  "  pay       -> ship, cancelled\n"
                                  "  ship      -> (nowhere)\n"
                                  "  cancelled -> (nowhere)\n"
                                  "  (handler) -> cancelled\n");
  CAF_CHECK_EQUAL(gd::to_mermaid(x),
                  "flowchart LR\n"
                  "  s0[\"pay\"]\n"
                  "  s1[\"ship\"]\n"
                  "  s2[\"cancelled\"]\n"
                  "  handler{{\"handler\"}}\n"
                  "  start(( )) --> s0\n"
                  "  s0 --> s1\n"
                  "  s0 --> s2\n"
                  "  handler -.-> s2\n"
                  "  classDef anywhere stroke-dasharray: 5 5\n");
  CAF_CHECK_EQUAL(gd::to_dot(x),
                  "digraph \"Sale v1\" {\n"
                  "  rankdir=LR;\n"
                  "  node [shape=box];\n"
                  "  start [shape=point];\n"
                  "  s0 [label=\"pay\"];\n"
                  "  s1 [label=\"ship\"];\n"
                  "  s2 [label=\"cancelled\"];\n"
                  "  handler [label=\"handler\", shape=hexagon];\n"
                  "  start -> s0;\n"
                  "  s0 -> s1;\n"
                  "  s0 -> s2;\n"
                  "  handler -> s2 [style=dashed];\n"
                  "}\n");
}

CAF_TEST(what may go anywhere is told and drawn apart) {
  auto x = gd::graph(open_machine());
  CAF_CHECK(contains(gd::to_text(x), "begins at ship\n"
                                     "  pay       -> (anywhere)\n"));
  CAF_CHECK(contains(gd::to_text(x), "(handler) -> (anywhere)\n"));
  CAF_CHECK(contains(gd::to_mermaid(x), "s0[\"pay\"]:::anywhere\n"));
  CAF_CHECK(contains(gd::to_mermaid(x), "start(( )) --> s1\n"));
  CAF_CHECK(contains(gd::to_dot(x), "s0 [label=\"pay\", style=dashed];\n"));
  CAF_CHECK(contains(gd::to_dot(x), "shape=hexagon, style=dashed];\n"));
}

CAF_TEST(a graph shows how many instances stand where) {
  auto x = gd::graph(some_machine());
  x.add_instances("pay", "runnable", 2);
  x.add_instances("pay", "executing", 1);
  x.add_instances("refund", "failed", 3);
  CAF_CHECK(contains(gd::to_text(x), "cancelled  [1 executing, 2 runnable]\n"));
  CAF_CHECK(contains(gd::to_text(x), "  refund    (no step of the machine)  "
                                     "[3 failed]\n"));
  CAF_CHECK(contains(gd::to_mermaid(x),
                     "s0[\"pay<br/>1 executing<br/>2 runnable\"]\n"));
  CAF_CHECK(contains(gd::to_mermaid(x), "s3[\"refund<br/>(no step of the "
                                        "machine)<br/>3 failed\"]\n"));
  CAF_CHECK(contains(gd::to_dot(x),
                     "s0 [label=\"pay\\n1 executing\\n2 runnable\"];\n"));
}

CAF_TEST(no name of a step gets out of its label) {
  gd::machine_graph x{.fsm = "a\"b\\", .initial_step = "x"};
  x.steps.push_back({.name = "\"];\n<b>\\n#quot;&`", .to = steps{}});
  auto dot = gd::to_dot(x);
  CAF_CHECK(contains(dot, R"(digraph "a\"b\\ v1" {)"));
  CAF_CHECK(contains(dot, R"(s0 [label="\"];\\u000a<b>\\n#quot;&`"];)"));
  CAF_CHECK(contains(gd::to_mermaid(x),
                     "s0[\"#34;#93;#59;#92;u000a#60;b#62;#92;n#35;quot#59;#38;"
                     "#96;\"]\n"));
  CAF_CHECK(contains(gd::to_text(x), R"(\u000a<b>)"));
  CAF_CHECK(!contains(gd::to_dot(x), "start ->"));
}

// -- what others compare ------------------------------------------------------

CAF_TEST(a definition tells steps and transitions as sets) {
  auto known = gd::store::known({some_machine(), open_machine()});
  CAF_CHECK(gd::store::definition(known[0])
            == (steps{"pay", "ship", "cancelled", "* -> cancelled",
                      "cancelled -> (nowhere)", "pay -> cancelled",
                      "pay -> ship", "ship -> (nowhere)"}));
  CAF_CHECK(gd::store::definition(known[1])
            == (steps{"pay", "ship", "cancelled"}));
}

} // namespace declared_suite
