// expect: what a conversion returns needs GD_STATE(...)
// A conversion gives something that has no form as JSON.

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
    .from<old_state, 1>([](old_state x) { return x.n; })
    .step(some_step::first, [](gd::context<new_state>&) { return gd::done(); });
}
