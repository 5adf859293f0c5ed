/// The machine of docs/guide/upgrades.md that takes states of older versions.

#include <gd/machine.hpp>
#include <gd/testing.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

// clang-format off
namespace guide {

GD_ENUM(sale_step, pay, ship);

// [from]
struct sale_v1 {
  std::string buyer;
  std::int64_t total = 0;
  std::string note;
  GD_STATE(sale_v1, buyer, total, note);
};

struct sale_v2 { // the total is called cents, and the note has gone
  std::string buyer;
  std::int64_t cents = 0;
  GD_STATE(sale_v2, buyer, cents);
};

struct sale { // the buyer is split
  std::string first_name;
  std::string last_name;
  std::int64_t cents = 0;
  GD_STATE(sale, first_name, last_name, cents);
};

gd::machine sales() {
  using context = gd::context<sale>;
  return gd::define<sale, sale_step>("Sale", /*version*/ 3)
    .from<sale_v1, 1>({.steps = {{"charge", sale_step::pay}}}, [](const sale_v1& x) {
      return sale_v2{.buyer = x.buyer, .cents = 100 * x.total};
    })
    .from<sale_v2, 2>([](const sale_v2& x) {
      auto at = x.buyer.find(' ');
      if (at == std::string::npos)
        throw std::invalid_argument{"buyer: expected two names"};
      return sale{.first_name = x.buyer.substr(0, at),
                  .last_name = x.buyer.substr(at + 1),
                  .cents = x.cents};
    })
    .step(sale_step::pay, [](context& ctx) { return gd::next(sale_step::ship, ctx.state); })
    .step(sale_step::ship, [](context&) { return gd::done(); });
}
// [/from]

// [decodes]
gd::result<std::size_t> refused_states(const std::string& file) {
  gd::testing::simulation sim{{sales()}};
  auto all = sim.decodes(file);
  if (!all)
    return all.error();
  for (const auto& x : all->refusals)
    std::fprintf(stderr, "%s\n", x.c_str()); // line 3: state: instance 7: ... $.total: expected ...
  return all->refusals.size();
}
// [/decodes]

} // namespace guide
// clang-format on
