/// Tests of the machines of fan_out.hpp, without a database.

#include "fan_out.hpp"

#include <gd/testing.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

int failures = 0;

/// Stands for what the test framework of your choice has.
#define CHECK(what) \
  if (!(what))      \
  std::cerr << __FILE__ << ':' << __LINE__ << ": " << #what << '\n', ++failures

/// Children that begin when they are told.
gd::machine slow_part() {
  return gd::define<part_state, part_step>("CountPart", 1)
    .step(part_step::count,
          [](gd::context<part_state>& ctx) -> gd::outcome {
            if (ctx.discard("go"))
              return count(ctx);
            return gd::await("go", ctx.state);
          })
    .step(part_step::report, report);
}

struct counting {
  gd::testing::simulation sim;
  std::int64_t parent = 0;

  explicit counting(std::vector<std::string> texts,
                    gd::machine part = count_part()) {
    CHECK(sim.add(count_parent(10min)));
    CHECK(sim.add(std::move(part)));
    parent = sim
               .insert({.fsm = "Count",
                        .state = gd::to_json(count_state{std::move(texts)})})
               ->id;
  }

  std::size_t executions_of(const std::string& step) const {
    std::size_t n = 0;
    for (const auto& x : sim.history())
      n += x.step == step ? 1 : 0;
    return n;
  }
};

void the_words_of_all_texts_are_counted() {
  counting x{{"one", "two words", "", "and three more"}};
  CHECK(x.sim.drain());
  CHECK(x.sim.result<total>(x.parent)->words == 6);
}

void nothing_to_count_is_counted_too() {
  counting x{{}};
  CHECK(x.sim.drain());
  CHECK(x.sim.result<total>(x.parent)->words == 0);
}

// [crash]
void children_are_made_once_although_the_parent_crashes() {
  counting x{{"one", "two words"}};
  x.sim.crash_next(x.parent, 3);
  CHECK(x.sim.drain());
  CHECK(x.executions_of("split") == 4);
  CHECK(x.executions_of("count") == 2);
  CHECK(x.sim.result<total>(x.parent)->words == 3);
}
// [/crash]

void a_child_counts_once_although_it_crashes_in_every_step() {
  counting x{{"one", "two words"}};
  CHECK(x.sim.step()); // split
  auto child = x.parent + 1;
  x.sim.crash_next(child);
  CHECK(x.sim.step());
  CHECK(x.sim.step());
  x.sim.crash_next(child);
  CHECK(x.sim.drain());
  CHECK(x.sim.instance(child)->status == "done");
  CHECK(x.sim.result<total>(x.parent)->words == 3);
}

void many_children_are_made_some_at_a_time() {
  counting x{std::vector<std::string>(600, "one")};
  CHECK(x.sim.drain());
  CHECK(x.executions_of("split") == 2);
  CHECK(x.sim.result<total>(x.parent)->words == 600);
}

void stragglers_are_given_up_and_do_not_mind() {
  counting x{{"one", "two words"}, slow_part()};
  CHECK(x.sim.run_for(10min));
  CHECK(x.sim.instance(x.parent)->last_error == "2 parts have not reported");
  CHECK(x.sim.signal({.target = x.parent + 1, .name = "go"}));
  CHECK(x.sim.drain());
  CHECK(x.sim.instance(x.parent + 1)->status == "done");
}

} // namespace

int main() {
  the_words_of_all_texts_are_counted();
  nothing_to_count_is_counted_too();
  children_are_made_once_although_the_parent_crashes();
  a_child_counts_once_although_it_crashes_in_every_step();
  many_children_are_made_some_at_a_time();
  stragglers_are_given_up_and_do_not_mind();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
