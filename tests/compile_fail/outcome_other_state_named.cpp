// expect: could not convert 'gd::next(const State&) [with auto Step = loan_step::rejected; State = documents]()' from 'carries<
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

auto review = [](gd::context<loan>& ctx)
  -> gd::context<loan>::to<loan_step::approved, loan_step::rejected> {
  if (ctx.timed_out())
    return gd::next<loan_step::rejected>(documents{});
  return gd::next<loan_step::approved>(ctx.state);
};
