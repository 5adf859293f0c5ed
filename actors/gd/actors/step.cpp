#include <gd/actors/step.hpp>

#include <memory>
#include <utility>

namespace gd::actors {

step_actor::step_actor(caf::actor_config& cfg, node_ptr home, caf::actor picker,
                       std::uint64_t tag, execution what)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    picker_(std::move(picker)),
    tag_(tag),
    what_(std::move(what)) {
  // nop
}

caf::behavior step_actor::make_behavior() {
  return {
    [this](run_step) { report(what_.run()); },
    [this](step_settled) { quit(); },
    [this](step_refused& x) {
    if (auto row = what_.refused(x.why))
      report(std::move(*row));
    else // not even the failure can be written
      quit(to_caf(x.why));
    },
    };
}

void step_actor::report(store::outcome_row row) {
  reported_ = true;
  anon(picker_,
       step_outcome{tag_, std::make_shared<store::outcome_row>(std::move(row)),
                    what_.failed()});
}

void step_actor::on_exit() {
  // Dead without an outcome: nobody is to extend the lease any more, and the
  // picker may be too busy to do it soon.
  if (!reported_)
    home_->leases.remove(what_.under().get());
  picker_ = nullptr;
}

} // namespace gd::actors
