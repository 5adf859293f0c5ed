/// Tests of the machines of outbox.hpp, without a database.

#include "outbox.hpp"

#include <gd/testing.hpp>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

namespace {

int failures = 0;

/// Stands for what the test framework of your choice has.
#define CHECK(what) \
  if (!(what))      \
  std::cerr << __FILE__ << ':' << __LINE__ << ": " << #what << '\n', ++failures

// clang-format off
// [on_sql]
/// Stands for the tables: what a statement affects.
struct accounts {
  std::map<std::string, std::int64_t> balance;

  gd::result<std::int64_t> run(const gd::sql_statement& what) {
    if (!what.text.starts_with("update app.accounts"))
      return 1;
    auto& has = balance[what.values[0].text];
    auto amount = std::stoll(what.values[1].text);
    if (has < amount)
      return 0;
    has -= amount;
    return 1;
  }
};
// [/on_sql]
// clang-format on

struct shop {
  accounts tables{{{"rich", 100}, {"poor", 1}}};
  gd::testing::simulation sim{
    {order_machine(), parcel_machine(), warehouse_machine()},
    {.on_sql = [this](const auto& x) { return tables.run(x); }}};

  shop() {
    CHECK(sim.insert({.fsm = "Warehouse",
                      .state = gd::to_json(order_state{}),
                      .unique_key = "warehouse"}));
    CHECK(sim.drain());
  }

  std::int64_t order(const std::string& account) {
    auto made = sim.insert(
      {.fsm = "Order",
       .state = gd::to_json(order_state{.account = account, .amount = 10})});
    CHECK(made);
    CHECK(sim.drain());
    return made->id;
  }
};

void an_order_books_and_leaves_a_mail() {
  shop x;
  auto id = x.order("rich");
  CHECK(x.sim.instance(id)->status == "done");
  CHECK(x.tables.balance["rich"] == 90);
  CHECK(x.sim.statements().size() == 2);
  CHECK(x.sim.statements().back().values.front().text == std::to_string(id));
  CHECK(x.sim.state<order_state>(1)->amount == 10);
}

void an_account_that_has_not_enough_refuses() {
  shop x;
  auto id = x.order("poor");
  CHECK(x.sim.result<order_state>(id)->refused
        == "sql 1: expected 1 rows, got 0");
  CHECK(x.sim.statements().empty());
}

} // namespace

int main() {
  an_order_books_and_leaves_a_mail();
  an_account_that_has_not_enough_refuses();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
