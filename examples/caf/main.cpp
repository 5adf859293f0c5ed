/// What people who know CAF do with actors, done with a gateway: docs/distributed/caf.md shows it piece
/// by piece. An engine in one actor system, and a second system, as another process has it:
///
///     caf_habits --gd.engine.database=dbname=shop --socket=/run/shop/habits.sock

#include "../checkout/checkout.hpp"

#include <gd/actors/engine.hpp>
#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>

#include <caf/actor_registry.hpp>
#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

// clang-format off
struct config : caf::actor_system_config {
  std::string socket = "caf_habits.sock";

  config() {
    gd::actors::add_to(*this);         // our messages, errors; scheduler: sharing
    gd::actors::add_network_to(*this); // CAF's network module, for reach and publish
    gd::actors::add_options_to(*this); // --gd.engine.poll=50ms
    opt_group{custom_options_, "global"}
      .add(socket, "socket", "where the gateway is published");
  }
};

void say(const std::string& line) {
  std::cout << line + '\n' << std::flush;
}

gd::insert order(std::int64_t number) {
  return {.fsm = "Checkout", .state = gd::to_json(checkout_state{.order = number})};
}

/// Two of the gateway's requests; a gateway is such an actor, too.
using orders = gd::actors::typed_actor<gd::inserted(gd::insert), gd::signalled(gd::signal)>;

/// Waits for the answer.
void place(caf::actor_system& sys, const orders& shop, std::int64_t number, const std::string& how) {
  caf::scoped_actor self{sys};
  self->request(shop, 10s, order(number)).receive(
    [&](const gd::inserted&) { say(how + ": order " + std::to_string(number) + " is stored"); },
    [&](const caf::error& why) { say(how + ": " + gd::actors::render(sys, why)); });
}

/// Has two requests on their way at the same time, and ends with the last answer.
void buyer(caf::event_based_actor* self, const orders& shop) {
  auto failed = [=](const caf::error& why) { say("then: " + gd::actors::render(self->system(), why)); };
  for (std::int64_t number : {43, 44})
    self->request(shop, 10s, order(number)).then(
      [=](const gd::inserted& row) {
        gd::signal paid{row.id, "payment_confirmed", gd::to_json(payment{100}), "pay/" + std::to_string(number)};
        self->request(shop, 10s, std::move(paid)).then(
          [=](const gd::signalled&) { say("then: order " + std::to_string(number) + " is paid"); }, failed);
      },
      failed);
}

/// Looks instances up, one after the other: what else it is sent waits for the answer.
caf::behavior clerk(caf::event_based_actor* self, const gd::actors::gateway& shop) {
  self->monitor(shop);
  self->set_down_handler([=](const caf::down_msg& x) {
    say("monitor: the gateway is down: " + gd::actors::render(self->system(), x.reason));
    self->quit();
  });
  return {[=](std::int64_t id) {
    self->request(shop, 10s, gd::look_up{id}).await(
      [=](const gd::instance& row) { say("await: instance " + std::to_string(id) + " is of " + row.fsm); },
      [=](const caf::error& why) { say("await: " + gd::actors::render(self->system(), why)); });
  }};
}

caf::behavior doubler() {
  return {[](std::int64_t x) { return 2 * x; }};
}

/// In front of a gateway: what it has changed goes on, and the answer goes past it.
orders::behavior_type urgent(orders::pointer self, const orders& shop) {
  return {[=](gd::insert& x) {
            x.priority = 1;
            return self->delegate(shop, std::move(x));
          },
          [=](gd::signal& x) { return self->delegate(shop, std::move(x)); }};
}

/// In front of several: each request goes to the next.
orders::behavior_type pool(orders::pointer self, const std::vector<orders>& shops) {
  auto next = [=, n = std::make_shared<std::size_t>(0)] { return shops[(*n)++ % shops.size()]; };
  return {[=](gd::insert& x) { return self->delegate(next(), std::move(x)); },
          [=](gd::signal& x) { return self->delegate(next(), std::move(x)); }};
}

/// An actor of the other process, by the name under which its registry has it.
void ask_doubler(caf::actor_system& sys, const caf::node_id& there) {
  auto found = sys.middleman().remote_lookup(gd::actors::registered_name("twice"), there);
  caf::scoped_actor self{sys};
  self->request(caf::actor_cast<caf::actor>(found), 10s, std::int64_t{21}).receive(
    [](std::int64_t x) { say("remote_lookup: twice 21 is " + std::to_string(x)); },
    [&](const caf::error& why) { say("remote_lookup: " + gd::actors::render(sys, why)); });
}

/// In an actor system without an engine, as another process has it.
gd::result<void> elsewhere(gd::actors::engine& engine, const std::string& socket) {
  auto published = gd::actors::publish(engine, {.socket = socket});
  if (!published)
    return published.error();
  config cfg;
  caf::actor_system sys{cfg};
  auto remote = gd::actors::reach(sys, {*published}, {.patience = 100ms, .connect_first = true});
  if (!remote)
    return remote.error();
  place(sys, remote->gateway(), 48, "reach");
  ask_doubler(sys, remote->node());
  engine.stop();
  place(sys, remote->gateway(), 49, "reach"); // is told in time
  return {};
}

gd::result<void> run(caf::actor_system& sys, const config& cfg) {
  auto settings = gd::actors::configured(cfg, {.machines = {checkout()}, .queues = {{"checkout", 5}}});
  if (!settings)
    return settings.error();
  auto engine = gd::actors::start(sys, std::move(*settings));
  if (!engine)
    return engine.error();
  auto shop = engine->gateway();
  place(sys, shop, 42, "receive");
  caf::scoped_actor self{sys};
  self->wait_for(sys.spawn(buyer, shop));
  auto looker = sys.spawn(clerk, shop);
  self->send(looker, std::int64_t{1});

  auto untyped = caf::actor_cast<caf::actor>(shop);
  place(sys, caf::actor_cast<gd::actors::gateway>(untyped), 45, "actor_cast");

  auto front = sys.spawn(urgent, shop);
  auto both = sys.spawn(pool, std::vector<orders>{shop, front});
  place(sys, both, 46, "pool");
  place(sys, both, 47, "pool");
  auto twice = sys.spawn(doubler);
  sys.registry().put(gd::actors::registered_name("twice"), caf::actor_cast<caf::strong_actor_ptr>(twice));
  auto all = elsewhere(*engine, cfg.socket);
  sys.registry().erase(gd::actors::registered_name("twice"));
  caf::anon_send_exit(twice, caf::exit_reason::user_shutdown); // CAF keeps whom another node has seen
  return all;
}
// clang-format on

void caf_main(caf::actor_system& sys, const config& cfg) {
  if (auto ok = run(sys, cfg); !ok)
    std::cerr << to_string(ok.error()) << '\n';
}

} // namespace

CAF_MAIN()
