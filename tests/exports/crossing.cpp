// Exceptions and their types between a program and the shared library: what the
// program throws, the library catches, and hands back as what it was.

#include <gd/engine/step/run.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeinfo>

GD_ENUM(order_step, start);

struct order {
  int id = 0;
  GD_STATE(order, id);
};

namespace {

using context = gd::context<order>;

struct refusal : std::runtime_error {
  using runtime_error::runtime_error;
};

std::string type_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const gd::undecodable_signal& e) {
    return typeid(e) == typeid(gd::undecodable_signal) ? "undecodable_signal"
                                                       : "";
  } catch (const refusal& e) {
    return typeid(e) == typeid(refusal) ? "refusal" : "";
  } catch (...) {
    return "stranger";
  }
}

/// What becomes of an instance whose step does this.
std::string run(gd::outcome (*step)(context&), std::string state = "{}") {
  gd::machine machine = gd::define<order, order_step>("Order", 1)
                          .step(order_step::start, step)
                          .on_error(
                            [](const gd::failure& why, context&) {
    return gd::stop(type_of(why.thrown()) + ": " + why.message());
                          });
  gd::store::picked_row row{.id = 1,
                            .fsm = "Order",
                            .fsm_version = 1,
                            .step = "start",
                            .state = std::move(state),
                            .inbox = {{1, "paid", "{\"id\": \"?\"}"}}};
  gd::run one{std::make_shared<gd::held_row>(gd::held_row{
    std::make_shared<gd::machine>(std::move(machine)), std::move(row),
    std::make_shared<gd::lease>(1, "token"), gd::limits{}})};
  return one.execute()->reason;
}

bool holds = true;

void check(const std::string& got, const std::string& expected) {
  if (got.starts_with(expected))
    return;
  std::cout << "expected " << expected << "..., got " << got << '\n';
  holds = false;
}

} // namespace

int main() {
  check(run([](context&) -> gd::outcome { throw refusal("no"); }),
        "refusal: no");
  check(run([](context& ctx) -> gd::outcome {
          return gd::done(ctx.take<order>("paid"));
        }),
        "undecodable_signal: ");
  // The program's template throws it, the library alone knows what it means.
  auto undecodable = run([](context&) -> gd::outcome { return gd::done(); },
                         R"({"id": "?"})");
  check(undecodable, "state of Order v1: $.id: expected ");
  return holds ? 0 : 1;
}
