/// A table of payments and the state machine behind it, without an engine. Two workers
/// compete for one payment: the one submits it, the other cancels it.
///
///   payments DATABASE

#include "payments.hpp"

#include <gd/client.hpp>
#include <gd/retry.hpp>
#include <gd/transaction.hpp>

#include <libpq-fe.h>

#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// clang-format off
namespace {

using enum payment_step;
using connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

connection connect(const std::string& where) {
  connection db{PQconnectdb(where.c_str()), PQfinish};
  if (PQstatus(db.get()) != CONNECTION_OK)
    throw std::runtime_error{PQerrorMessage(db.get())};
  PQsetClientEncoding(db.get(), "UTF8");
  return db;
}

/// A statement of the application's own; returns the first cell, if there is one.
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

template <class T>
T need(gd::result<T> x) {
  if (!x)
    throw std::runtime_error{to_string(x.error())};
  return *std::move(x);
}

// [create]
/// The payment and its instance are there after the commit, or neither is.
std::int64_t create(PGconn* db, std::int64_t amount) {
  gd::transaction durable{db};
  run(db, "begin");
  auto made = need(durable.insert({.fsm = "Payment", .state = gd::to_json(payment_state{amount})}));
  run(db, "insert into payments (id, amount) values ($1, $2)",
      {std::to_string(made.id), std::to_string(amount)});
  run(db, "commit");
  return made.id;
}
// [/create]

// [submit]
/// Submits a payment that is still pending: its row and its transition, or neither. Beaten
/// by somebody, it looks again.
gd::result<std::string> submit(PGconn* db, std::int64_t id, const std::string& submission_id) {
  return gd::retry_conflicts(5, db, [&](gd::transaction& durable) -> gd::result<std::string> {
    auto now = run(db, "select step from gd_status($1)", {std::to_string(id)});
    if (now != to_string(pending_submission))
      return "left alone: it is " + now;
    run(db, "update payments set submission_id = $2 where id = $1",
        {std::to_string(id), submission_id});
    auto moved = durable.transition({.target = id,
                                     .to = to_string(submitted),
                                     .from = to_string(pending_submission),
                                     .metadata = gd::to_json(submission{submission_id})});
    if (!moved)
      return moved.error();
    return "submitted as " + submission_id;
  });
}
// [/submit]

/// Cancels a payment that nobody has submitted.
gd::result<std::string> cancel(PGconn* db, std::int64_t id, const std::string& why) {
  return gd::retry_conflicts(5, db, [&](gd::transaction& durable) -> gd::result<std::string> {
    auto now = run(db, "select step from gd_status($1)", {std::to_string(id)});
    if (now != to_string(pending_submission))
      return "left alone: it is " + now;
    auto moved = durable.transition({.target = id,
                                     .to = to_string(cancelled),
                                     .from = to_string(pending_submission),
                                     .reason = why,
                                     .by = "support"});
    if (!moved)
      return moved.error();
    return std::string{"cancelled"};
  });
}

/// Both have looked before one of them moves.
void compete(const std::string& where, std::int64_t id) {
  std::barrier start{2};
  auto worker = [&](const char* name, auto act) {
    return std::thread{[&start, &where, name, act] {
      try {
        auto db = connect(where);
        start.arrive_and_wait();
        auto said = need(act(db.get()));
        std::cout << std::string{name} + ": " + said + "\n";
      } catch (const std::exception& why) {
        std::cerr << std::string{name} + ": " + why.what() + "\n";
      }
    }};
  };
  auto submits = worker("submitting worker", [id](PGconn* db) { return submit(db, id, "SUB-1"); });
  auto cancels = worker("cancelling worker",
                        [id](PGconn* db) { return cancel(db, id, "customer has changed their mind"); });
  submits.join();
  cancels.join();
}

// [audit]
/// What has become of a payment, from its beginning.
void print_audit(gd::client& durable, std::int64_t id) {
  for (const auto& x : need(durable.history({.id = id})))
    std::cout << std::to_string(x.seq) + ". " + x.from_step.value_or("") + " -> " + x.to_step
                   + (x.by ? " by " + *x.by : "") + (x.reason ? ": " + *x.reason : "")
                   + (x.metadata ? " " + x.metadata->text() : "") + "\n";
}
// [/audit]

void work(const std::string& where) {
  auto durable = need(gd::client::connect({.database = where}));
  if (auto ok = durable.make_known({payments()}); !ok)
    throw std::runtime_error{to_string(ok.error())};
  auto db = connect(where);
  run(db.get(), "set client_min_messages = warning");
  run(db.get(), "create table if not exists payments"
                " (id bigint primary key, amount bigint not null, submission_id text)");
  auto id = create(db.get(), 4200);
  compete(where, id);
  // The bank has answered.
  auto told = durable.transition(
    {.target = id, .to = to_string(paid), .from = to_string(submitted), .by = "bank"});
  if (!told)
    std::cout << "not paid: " + told.error().message + "\n";
  print_audit(durable, id);
}

} // namespace
// clang-format on

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: payments DATABASE\n";
    return 2;
  }
  try {
    work(argv[1]);
    return EXIT_SUCCESS;
  } catch (const std::exception& why) {
    std::cerr << "payments: " << why.what() << '\n';
    return EXIT_FAILURE;
  }
}
