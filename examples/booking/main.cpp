/// Books the seats of a show, which are too few, for customers of whom some cannot pay, and
/// compares what the tables say with what the instances have become.
///
///   booking DATABASE

#include "booking.hpp"

#include <gd/actors/engine.hpp>
#include <gd/client.hpp>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

// clang-format off
namespace {

constexpr int seats = 20;
constexpr int customers = 50;

template <class T>
T need(gd::result<T> x) {
  if (!x)
    throw std::runtime_error{to_string(x.error())};
  return *std::move(x);
}

/// Each third customer has too little.
void make_tables(pqxx::connection& db) {
  pqxx::work tx{db};
  tx.exec("drop table if exists seats, accounts;"
          "create table seats (show text, number int, customer text, primary key (show, number));"
          "create table accounts (customer text primary key, amount int);"
          "insert into seats select 'Hamlet', n from generate_series(1, " + std::to_string(seats) + ") n;"
          "insert into accounts select 'customer ' || n, case when n % 3 = 0 then 10 else 100 end"
          " from generate_series(1, " + std::to_string(customers) + ") n");
  tx.commit();
}

void work(const std::string& where) {
  pqxx::connection db{where};
  make_tables(db);
  caf::actor_system_config cfg;
  gd::actors::add_to(cfg);
  caf::actor_system sys{cfg};
  auto engine = need(gd::actors::start(sys, {.database = where, .machines = {booking()}}));

  auto client = need(gd::client::connect({.database = where}));
  std::vector<gd::insert> wishes;
  for (int n = 1; n <= customers; ++n)
    wishes.push_back({.fsm = "Booking",
                      .state = gd::to_json(booking_state{"Hamlet", "customer " + std::to_string(n), 40}),
                      .step = "book",
                      .queue = "default"});
  int taken = 0;
  int sold_out = 0;
  int failed = 0;
  for (auto& row : client.insert_all(std::move(wishes))) {
    auto end = need(client.await_result({need(std::move(row)).id}));
    if (end.status == "failed")
      ++failed;
    else
      ++(need(end.result_as<booked>()).seat ? taken : sold_out);
  }
  pqxx::work tx{db};
  auto of_seats = tx.exec1("select count(customer) from seats")[0].as<int>();
  auto paid = tx.exec1("select count(*) from accounts where amount = 60")[0].as<int>();
  std::cout << taken << " booked, " << failed << " could not pay, " << sold_out << " came too late; "
            << of_seats << " seats are taken, and " << paid << " are paid\n";
}

} // namespace
// clang-format on

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: booking DATABASE\n";
    return EXIT_FAILURE;
  }
  try {
    work(argv[1]);
    return EXIT_SUCCESS;
  } catch (const std::exception& why) {
    std::cerr << "booking: " << why.what() << '\n';
    return EXIT_FAILURE;
  }
}
