/// A CAF node without an engine: reaches the gateway that a checkout worker has
/// published (checkout_worker --publish /run/shop.sock), orders, pays, and waits until
/// the order is shipped.

#include "../checkout/checkout.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>

#include <caf/all.hpp>

#include <cstdint>
#include <iostream>
#include <string>
#include <utility>

namespace {

// clang-format off
struct config : caf::actor_system_config {
  std::string at = "unix:/run/shop.sock";
  std::string secret;
  std::int64_t order = 42;

  config() {
    gd::actors::add_to(*this);         // our messages, errors; scheduler: sharing
    gd::actors::add_network_to(*this); // CAF's network module
    opt_group{custom_options_, "global"}
      .add(at, "at", "where the checkout worker has published it")
      .add(secret, "secret", "a file, if that is a port")
      .add(order, "order", "its number");
  }
};

/// Asks and waits: each request is answered, whatever happens.
template <class Answer, class Request>
gd::result<Answer> ask(caf::scoped_actor& self, const gd::actors::gateway& gateway, Request x) {
  gd::result<Answer> answer = gd::error{};
  self->request(gateway, caf::infinite, std::move(x)).receive(
    [&](Answer& y) { answer = std::move(y); },
    [&](caf::error& why) { answer = gd::actors::from_caf(self->system(), why); });
  return answer;
}

gd::result<std::string> shop(caf::actor_system& sys, const config& cfg) {
  auto remote = gd::actors::reach(sys, {cfg.at}, {.secret = cfg.secret, .connect_first = true});
  if (!remote)
    return remote.error();
  const auto& gateway = remote->gateway();
  caf::scoped_actor self{sys};
  gd::insert order{.fsm = "Checkout", .state = gd::to_json(checkout_state{.order = cfg.order})};
  auto row = ask<gd::inserted>(self, gateway, order);
  if (!row)
    return row.error();
  std::cout << "order " << cfg.order << " is instance " << row->id << std::endl;
  gd::signal paid{row->id, "payment_confirmed", gd::to_json(payment{100}), "evt-7"};
  if (auto sent = ask<gd::signalled>(self, gateway, paid); !sent)
    return sent.error();
  auto end = ask<gd::awaited>(self, gateway, gd::await_result{row->id});
  if (!end)
    return end.error();
  if (end->failure)
    return gd::error{gd::errc::rejected, *end->failure, {}};
  return end->result->text();
}
// clang-format on

void caf_main(caf::actor_system& sys, const config& cfg) {
  auto receipt = shop(sys, cfg);
  if (receipt)
    std::cout << "order " << cfg.order << " is shipped: " << *receipt
              << std::endl;
  else
    std::cerr << to_string(receipt.error()) << '\n';
}

} // namespace

CAF_MAIN()
