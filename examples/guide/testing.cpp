/// The tests in a database of docs/guide/testing.md.

#include "../checkout/checkout.hpp"

#include <gd/testing.hpp>

#include <chrono>
#include <cstddef>
#include <string>

// clang-format off
namespace guide {

using namespace std::chrono_literals;

// [in_database]
gd::result<std::string> cancelled_after_a_day(const std::string& test_database) {
  auto run = gd::testing::in_database::connect({.database = test_database}, {checkout(24h)});
  if (!run)
    return run.error();
  auto row = run->insert({.fsm = "Checkout", .state = gd::to_json(checkout_state{.order = 42})});
  if (!row)
    return row.error();
  if (auto steps = run->run_for(24h); !steps) // in no time
    return steps.error();
  return run->describe(row->id);
}
// [/in_database]

} // namespace guide
// clang-format on
