// expect: this step's outcome has a state of another type
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

gd::machine made = gd::define<loan, loan_step>("Loan", 1).step(
  loan_step::review, [](gd::context<loan>&) {
    return gd::next<loan_step::rejected>(documents{});
  });
