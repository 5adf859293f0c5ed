// Tests a machine with an asynchronous step without an engine and without a server.

#include <gd/actors/async.hpp>
#include <gd/actors/testing.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <iostream>

GD_ENUM(order_step, start);

struct order {
  int id = 0;
  GD_STATE(order, id);
};

int main() {
  gd::actors::testing::simulation sim;
  auto known = sim.add(
    gd::define<order, order_step>("Order", 1)
      .step(order_step::start,
            gd::actors::async([](gd::actors::async_context<order> ctx) {
              ctx.self->delayed_send(ctx.self, std::chrono::minutes{1}, 1);
              ctx.self->become([ctx](int more) {
                ctx.finish(gd::done(order{ctx->state.id + more}));
              });
            })));
  auto row = sim.insert({.fsm = "Order", .state = gd::to_json(order{7})});
  auto ran = sim.drain();
  if (!known || !row || !ran)
    return 1;
  auto x = sim.instance(row->id);
  std::cout << x->status << ": "
            << (x->result ? x->result->text() : *x->last_error) << '\n';
}
