/// A CAF program without a database that stays while engines come and go: places and
/// pays orders with whichever checkout worker has published its gateway
/// (checkout_worker --publish /run/shop.sock).

#include "../checkout/checkout.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

struct config : caf::actor_system_config {
  std::vector<std::string> gateways{"unix:/run/shop.sock"};
  std::string secret;
  std::int64_t orders = 10;

  config() {
    gd::actors::add_to(*this);
    gd::actors::add_network_to(*this);
    opt_group{custom_options_, "global"}
      .add(gateways, "gateways", "of checkout workers")
      .add(secret, "secret", "a file, for those that are ports")
      .add(orders, "orders", "how many");
  }
};

// clang-format off
void report(std::int64_t number, const std::string& what) {
  std::cout << "order " << number << ": " << what << std::endl;
}

/// Pays for an order, once: the payment's number is the dedup key.
void pay(caf::event_based_actor* self, const gd::actors::gateway& shop, std::int64_t number, std::int64_t id) {
  gd::signal paid{id, "payment_confirmed", gd::to_json(payment{100}), "pay/" + std::to_string(number)};
  self->request(shop, caf::infinite, std::move(paid)).then(
    [=](const gd::signalled&) { report(number, "paid"); },
    [=](const caf::error& why) { report(number, gd::actors::render(self->system(), why)); });
}

/// Places an order, once and for all: its key stays taken when it is finished.
void order(caf::event_based_actor* self, const gd::actors::gateway& shop, std::int64_t number) {
  gd::insert row{.fsm = "Checkout",
                 .state = gd::to_json(checkout_state{.order = number}),
                 .unique_key = "order/" + std::to_string(number),
                 .unique_scope = {"runnable", "executing", "awaiting_signal", "done", "failed"}};
  self->request(shop, caf::infinite, std::move(row)).then(
    [=](const gd::inserted& x) { pay(self, shop, number, x.id); },
    [=](const caf::error& why) { report(number, gd::actors::render(self->system(), why)); });
}

void caf_main(caf::actor_system& sys, const config& cfg) {
  auto shop = gd::actors::reach(sys, cfg.gateways, {.secret = cfg.secret, .patience = 30s});
  if (!shop) {
    std::cerr << to_string(shop.error()) << '\n';
    return;
  }
  auto clerk = sys.spawn([&](caf::event_based_actor* self) {
    for (std::int64_t number = 1; number <= cfg.orders; ++number)
      order(self, shop->gateway(), number);
  });
  caf::scoped_actor self{sys};
  self->wait_for(clerk); // it ends with its last answer
}
// clang-format on

} // namespace

CAF_MAIN()
