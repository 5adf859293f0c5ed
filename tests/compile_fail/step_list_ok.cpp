// All ways of declaring, also of a step without options.
#include <gd/machine.hpp>

GD_ENUM(shop_step, pay, ship, cancelled);

struct order {
  int id = 0;

  GD_STATE(order, id);
};

using enum shop_step;
using context = gd::context<order>;

auto machine
  = gd::define<order, shop_step>("Shop", 1)
      .step(pay,
            [](auto& ctx) -> gd::to<ship> { return gd::next<ship>(ctx.state); })
      .step(ship, {.blocking = true, .to = {cancelled}},
            [](context& ctx) { return gd::next(cancelled, ctx.state); })
      .step(cancelled, {.limit = std::chrono::seconds{1}, .to = gd::nowhere},
            [](context&) -> gd::outcome { return gd::done(); })
      .on_error({.to = {cancelled, ship}},
                [](const gd::failure&,
                   context& ctx) { return gd::next(ship, ctx.state); })
      .declared_only();
