/// The checkout example from its insert to its end, over the gateway, on the
/// database GD_DATABASE: what has to work with every CAF. The tests are written
/// with Debian's.

#include "../../examples/checkout/checkout.hpp"

#include <gd/actors/engine.hpp>
#include <gd/migrate.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace {

constexpr std::chrono::seconds patience{180}; // a guard against hangs

template <class T>
T value(gd::result<T> x) {
  if (!x)
    throw std::runtime_error(to_string(x.error()));
  return std::move(*x);
}

template <class Answer, class Request>
Answer ask(caf::actor_system& sys, const gd::actors::gateway& gateway,
           Request what) {
  caf::scoped_actor self{sys};
  gd::result<Answer> answer = gd::error{};
  gd::actors::request_from(&*self, gateway, patience, std::move(what))
    .receive([&](Answer& x) { answer = std::move(x); },
             [&](caf::error& why) { answer = gd::actors::from_caf(sys, why); });
  return value(std::move(answer));
}

void expect(const std::string& got, const std::string& expected) {
  if (got != expected)
    throw std::runtime_error("expected " + expected + ", got " + got);
}

struct socket_count {
  int all = 0;
  int listening = 0;
};

/// Of this process.
socket_count count_sockets() {
  socket_count n;
  for (const auto& x : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    auto fd = std::stoi(x.path().filename().string());
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0)
      continue; // it is none
    ++n.all;
    n.listening += listens;
  }
  return n;
}

/// Whether a payment reaches the order, ships it, and is refused afterwards; and whether
/// an engine without the network opens no sockets but the database's.
void run(gd::config options) {
  auto before = count_sockets();
  auto connections = options.connections + 1; // one for what takes long
  std::promise<void> shipped;
  options.machines = {checkout()};
  options.queues = {{"checkout", 5}};
  options.on_event = [&, log = gd::log_to_stderr()](const gd::event& what) {
    log(what);
    auto* step = std::get_if<gd::events::step_committed>(&what);
    if (step != nullptr && step->outcome == "done")
      shipped.set_value();
  };

  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = value(gd::actors::start(sys, std::move(options)));
  const auto& gateway = engine.gateway();

  gd::insert order{.fsm = "Checkout",
                   .state = gd::to_json(checkout_state{.order = 42})};
  auto id = ask<gd::inserted>(sys, gateway, order).id;
  gd::signal paid{id, "payment_confirmed", gd::to_json(payment{100}), "evt-7"};
  ask<gd::signalled>(sys, gateway, paid);
  if (shipped.get_future().wait_for(patience) != std::future_status::ready)
    throw std::runtime_error("the order was not shipped");

  auto open = count_sockets();
  if (open.listening > before.listening || open.all > before.all + connections)
    throw std::runtime_error("the engine has opened sockets of its own");

  auto row = ask<gd::instance>(sys, gateway, gd::look_up{id});
  expect(row.status, "done");
  expect(row.result ? row.result->text() : "", R"({"shipped": true})");
  try {
    ask<gd::signalled>(sys, gateway, gd::signal{id, "payment_confirmed"});
    throw std::runtime_error("a finished order takes a payment");
  } catch (const std::runtime_error& e) {
    // An error with its code and sentence has crossed CAF.
    expect(std::string{e.what()}.substr(0, 20), "gd::target_finished:");
  }
  engine.stop();
}

} // namespace

int main() {
  const char* database = std::getenv("GD_DATABASE");
  if (database == nullptr) {
    std::cerr << "smoke: GD_DATABASE is not set\n";
    return EXIT_FAILURE;
  }
  gd::config options{.database = database,
                     .schema = "gd_smoke_" + std::to_string(getpid())};
  auto connection = options.connection_options();
  try {
    value(gd::migrate_up(connection));
    run(std::move(options));
    value(gd::migrate_down(connection, 0, true));
  } catch (const std::exception& e) {
    std::cerr << "smoke: " << e.what() << '\n';
    return EXIT_FAILURE;
  }
  std::cout << "shipped\n";
}
