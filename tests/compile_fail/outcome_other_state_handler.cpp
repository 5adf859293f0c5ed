// expect: this handler's outcome has a state of another type
#include <gd/machine.hpp>

GD_ENUM(loan_step, review, approved, rejected);

struct loan {
  int amount = 0;

  GD_STATE(loan, amount);
};

struct documents {
  int pages = 0;

  GD_STATE(documents, pages);
};

gd::machine made = gd::define<loan, loan_step>("Loan", 1).on_error(
  [](const gd::failure&, gd::context<loan>&) {
  return gd::replay(documents{}, std::chrono::seconds{1});
});
