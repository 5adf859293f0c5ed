// expect: a conversion takes the old state, and returns the new one
// A conversion that does not take the state of that version.

#include <gd/machine.hpp>

GD_ENUM(some_step, first);

struct old_state {
  int n = 0;
  GD_STATE(old_state, n);
};

struct new_state {
  int n = 0;
  GD_STATE(new_state, n);
};

gd::machine some() {
  return gd::define<new_state, some_step>("Some", 2)
    .from<old_state, 1>([](new_state x) { return x; })
    .step(some_step::first, [](gd::context<new_state>&) { return gd::done(); });
}
