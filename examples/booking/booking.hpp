#pragma once

#include "borrowed_pqxx.hpp"

#include <gd/transaction_step.hpp>

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

/// Books a seat of a show for a customer: the seat, the customer's account and the
/// instance's outcome are one transaction.

GD_ENUM(booking_step, book);

struct booking_state {
  std::string show;
  std::string customer;
  int price = 0;
  GD_STATE(booking_state, show, customer, price);
};

struct booked {
  std::optional<int> seat; ///< none: sold out
  GD_STATE(booked, seat);
};

// clang-format off
// [libpq]
/// With libpq: takes a seat that nobody else is about to take. Nullopt: there is none.
inline std::optional<int> take_seat(PGconn* db, const std::string& show, const std::string& customer) {
  const char* values[] = {show.c_str(), customer.c_str()};
  std::unique_ptr<PGresult, decltype(&PQclear)> taken{
    PQexecParams(db, "update seats set customer = $2 where (show, number) = (select show, number"
                     " from seats where show = $1 and customer is null order by number"
                     " limit 1 for update skip locked) returning number",
                 2, nullptr, values, nullptr, nullptr, 0),
    PQclear};
  if (PQresultStatus(taken.get()) != PGRES_TUPLES_OK)
    throw std::runtime_error{PQerrorMessage(db)};
  if (PQntuples(taken.get()) == 0)
    return std::nullopt;
  return std::stoi(PQgetvalue(taken.get(), 0, 0));
}
// [/libpq]

// [pqxx]
/// With libpqxx, in the same transaction: who cannot pay leaves no seat taken.
inline void charge(PGconn* db, const std::string& customer, int price) {
  borrowed_pqxx connection{db};
  pqxx::nontransaction within{connection};
  auto left = within.exec_params("update accounts set amount = amount - $2 where customer = $1"
                                 " returning amount", customer, price);
  if (left.empty() || left[0][0].as<int>() < 0)
    throw std::runtime_error{customer + " cannot pay " + std::to_string(price)};
}
// [/pqxx]

// [machine]
inline gd::machine booking() {
  return gd::define<booking_state, booking_step>("Booking", 1)
    .step(booking_step::book, gd::in_transaction([](gd::transaction_context<booking_state>& ctx) -> gd::outcome {
      auto seat = take_seat(ctx.db(), ctx.state.show, ctx.state.customer);
      if (seat)
        charge(ctx.db(), ctx.state.customer, ctx.state.price);
      return gd::done(booked{seat});
    }));
}
// [/machine]
// clang-format on
