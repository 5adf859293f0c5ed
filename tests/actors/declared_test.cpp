// Transitions that are declared by lists, where real engines run them.

#define CAF_SUITE declared_engine

#include "actors/harness.hpp"

#include <gd/actors/async.hpp>

#include <caf/test/dsl.hpp>

namespace declared_engine_suite {

using namespace gd::test;
using namespace std::string_literals;
namespace events = gd::events;

namespace {

const auto to_third = [](probe_context& ctx) -> gd::outcome {
  return gd::next(probe_step::third, ctx.state);
};

const auto async_to_third = [](gd::actors::async_context<probe_state> ctx) {
  ctx.finish(gd::next(probe_step::third, ctx->state));
};

const auto give_up = [](const gd::failure& why, probe_context&) -> gd::outcome {
  return gd::stop("handled: " + why.message());
};

struct fixture : engine_fixture {
  /// What is told of an instance that begins so.
  template <class F, class Handler>
  std::string run(gd::step_options how, F first, gd::handler_options on_error,
                  Handler handler) {
    auto end = [](probe_context&) { return gd::done(); };
    auto x = start(
      options({gd::define<probe_state, probe_step>("Probe", 1)
                 .step(probe_step::first, std::move(how), std::move(first))
                 .step(probe_step::second, end)
                 .step(probe_step::third, end)
                 .on_error(std::move(on_error), std::move(handler))}));
    insert(1);
    wait_until_count("status in ('done', 'failed')", 1);
    return db.scalar("select step || ', ' || status::text || ': ' || "
                     "coalesce(last_error, '') from gen_durable");
  }
};

const std::string refusal
  = "outcome next of step first: Probe v1 declares no transition from first to "
    "third, expected one of second";

} // namespace

CAF_TEST_FIXTURE_SCOPE(declared_engine_tests, fixture)

CAF_TEST(an edge that is not in the list of its step goes to the handler) {
  CAF_CHECK_EQUAL(run({.to = {probe_step::second}}, to_third, {}, give_up),
                  "first, failed: handled: " + refusal);
  CAF_CHECK_EQUAL(log.all<events::step_failed>().size(), 1u);
}

CAF_TEST(an edge that is not in the list of an asynchronous step does as well) {
  CAF_CHECK_EQUAL(run({.to = {probe_step::second}},
                      gd::actors::async(async_to_third), {}, give_up),
                  "first, failed: handled: " + refusal);
}

CAF_TEST(an edge that the list has is carried out) {
  CAF_CHECK_EQUAL(run({.to = {probe_step::third}},
                      gd::actors::async(async_to_third), {}, give_up),
                  "third, done: ");
}

CAF_TEST(an edge that is not in the list of the handler fails the instance) {
  auto handler = [](const gd::failure&, probe_context& ctx) -> gd::outcome {
    return gd::next(probe_step::third, ctx.state);
  };
  CAF_CHECK_EQUAL(
    run({.to = {probe_step::second}}, to_third, {.to = {probe_step::second}},
        handler),
    "first, failed: " + refusal
      + "; the handler's outcome cannot be carried out: outcome next of step "
        "first: Probe v1 declares no transition of its handler to third, "
        "expected one of second");
}

CAF_TEST(a machine that insists and does not declare is not started) {
  gd::machine lax = gd::define<probe_state, probe_step>("Probe", 1)
                      .step(probe_step::first, to_third)
                      .step(probe_step::second, to_third)
                      .step(probe_step::third, to_third)
                      .declared_only();
  auto x = gd::actors::start(sys, options({lax}));
  CAF_REQUIRE(!x);
  CAF_CHECK_NOT_EQUAL(x.error().message.find("step first declares nothing"),
                      std::string::npos);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace declared_engine_suite
