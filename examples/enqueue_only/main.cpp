/// A shop that has no engine: its orders and their instances are committed
/// together. Engines run elsewhere. It needs libgd and libpq, and no CAF.
///
///   enqueue_only DATABASE order NUMBER
///   enqueue_only DATABASE pay NUMBER AMOUNT

#include "../checkout/checkout.hpp"

#include <gd/transaction.hpp>

#include <libpq-fe.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// clang-format off
namespace {

/// A statement of the shop's own; returns the first cell, if there is one.
std::string run(PGconn* db, const char* statement, const std::vector<std::string>& args = {}) {
  std::vector<const char*> values;
  values.reserve(args.size());
  for (const auto& x : args)
    values.push_back(x.c_str());
  std::unique_ptr<PGresult, decltype(&PQclear)> answer{
    PQexecParams(db, statement, static_cast<int>(values.size()), nullptr, values.data(),
                 nullptr, nullptr, 0),
    PQclear};
  auto status = PQresultStatus(answer.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw std::runtime_error{PQerrorMessage(db)};
  return PQntuples(answer.get()) > 0 ? PQgetvalue(answer.get(), 0, 0) : "";
}

// [place]
/// The order and its instance are there after the commit, or neither is.
std::int64_t place(PGconn* db, gd::transaction& durable, std::int64_t number) {
  run(db, "begin");
  auto row = durable.insert({.fsm = "Checkout",
                             .state = gd::to_json(checkout_state{.order = number})});
  if (!row)
    throw std::runtime_error{to_string(row.error())};
  run(db, "insert into orders (number, instance) values ($1, $2)",
      {std::to_string(number), std::to_string(row->id)});
  run(db, "commit");
  return row->id;
}
// [/place]

/// What has been paid is in the books, and the instance knows it.
void pay(PGconn* db, gd::transaction& durable, std::int64_t number, std::int64_t amount) {
  run(db, "begin");
  auto instance = run(db, "update orders set paid = $2 where number = $1 and paid is null"
                          " returning instance",
                      {std::to_string(number), std::to_string(amount)});
  if (instance.empty())
    throw std::runtime_error{"there is no unpaid order " + std::to_string(number)};
  auto told = durable.signal({std::stoll(instance), "payment_confirmed",
                              gd::to_json(payment{amount})});
  if (!told)
    throw std::runtime_error{to_string(told.error())};
  run(db, "commit");
}

void work(const std::vector<std::string>& args) {
  std::unique_ptr<PGconn, decltype(&PQfinish)> db{PQconnectdb(args[0].c_str()), PQfinish};
  if (PQstatus(db.get()) != CONNECTION_OK)
    throw std::runtime_error{PQerrorMessage(db.get())};
  PQsetClientEncoding(db.get(), "UTF8");
  run(db.get(), "set client_min_messages = warning");
  run(db.get(), "create table if not exists orders"
                " (number bigint primary key, instance bigint not null, paid bigint)");
  gd::transaction durable{
    db.get(), {.machines = std::make_shared<gd::registry>(std::vector{checkout()})}};
  auto number = std::stoll(args[2]);
  if (args[1] == "order")
    std::cout << "instance " + std::to_string(place(db.get(), durable, number)) + "\n";
  else
    pay(db.get(), durable, number, std::stoll(args[3]));
}

} // namespace
// clang-format on

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  bool order = args.size() == 3 && args[1] == "order";
  bool pay = args.size() == 4 && args[1] == "pay";
  if (!order && !pay) {
    std::cerr << "usage: enqueue_only DATABASE order NUMBER\n"
                 "       enqueue_only DATABASE pay NUMBER AMOUNT\n";
    return 2;
  }
  try {
    work(args);
    return EXIT_SUCCESS;
  } catch (const std::exception& why) { // what is not committed is gone
    std::cerr << "enqueue_only: " << why.what() << '\n';
    return EXIT_FAILURE;
  }
}
