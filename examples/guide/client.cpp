/// The blocking client of docs/guide/inserting-and-keys.md.

#include "../checkout/checkout.hpp"

#include <gd/client.hpp>
#include <gd/migrate.hpp>
#include <gd/registry.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// clang-format off
namespace guide {

// [migrate]
bool migrate() {
  auto applied = gd::migrate_up({.database = "dbname=shop"});
  if (!applied)
    std::cerr << to_string(applied.error()) << '\n';
  return static_cast<bool>(applied);
}
// [/migrate]

// [wait]
gd::result<receipt> receipt_of(gd::client& db, std::int64_t id) {
  auto end = db.await_result({.id = id, .within_us = 30'000'000});
  if (!end)
    return end.error(); // no_such_target, erased, timed_out, unavailable
  return end->result_as<receipt>(); // an error, with the reason, if it has failed
}
// [/wait]

// [client]
gd::result<std::int64_t> order(std::int64_t number) {
  auto db = gd::client::connect({.database = "dbname=shop"});
  if (!db)
    return db.error();
  auto row = db->insert({.fsm = "Checkout",
                         .state = gd::to_json(checkout_state{.order = number})});
  if (!row)
    return row.error();
  auto paid = db->signal({row->id, "payment_confirmed", gd::to_json(payment{100}), "evt-7"});
  if (!paid)
    return paid.error();
  return row->id;
}
// [/client]

// [machines]
gd::result<gd::client> client_with_machines() {
  auto known = std::make_shared<gd::registry>(std::vector{checkout()});
  return gd::client::connect({.database = "dbname=shop"}, {.machines = known});
}
// [/machines]

// [insert_all]
std::size_t order_all(gd::client& db, const std::vector<std::int64_t>& numbers) {
  std::vector<gd::insert> rows;
  rows.reserve(numbers.size());
  for (auto number : numbers)
    rows.push_back({.fsm = "Checkout",
                    .state = gd::to_json(checkout_state{.order = number}),
                    .priority = 5, // lower is more urgent
                    .delay_us = 60'000'000});
  std::size_t refused = 0;
  for (const auto& answer : db.insert_all(std::move(rows)))
    if (!answer)
      ++refused;
  return refused;
}
// [/insert_all]

// [keys]
gd::insert charge_account(const std::string& account, const std::string& invoice) {
  return {.fsm = "Checkout",
          .state = gd::to_json(checkout_state{}),
          .partition_key = "account/" + account, // one step at a time for each account
          .unique_key = "invoice/" + invoice};   // and each invoice once, until it is finished
}

/// Starts the charge, or finds the one that is under way.
gd::result<std::int64_t> start_or_get(gd::client& db, gd::insert charge) {
  auto row = db.insert(std::move(charge));
  if (!row)
    return row.error();
  if (row->duplicate)
    std::cout << "already under way\n";
  return row->id;
}

/// Who takes the payment knows the invoice's number, and no id.
gd::result<gd::signalled> confirm_charge(gd::client& db, const std::string& invoice) {
  return db.signal({.name = "payment_confirmed",
                    .dedup_key = "paid",
                    .key = "invoice/" + invoice}); // whichever instance has the key now
}
// [/keys]

} // namespace guide
// clang-format on
