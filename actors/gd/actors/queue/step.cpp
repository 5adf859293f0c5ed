#include <gd/actors/queue/step.hpp>

#include <gd/actors/queue/runner.hpp>

#include <caf/all.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace gd::actors {

namespace {

step_outcome outcome_of(std::uint64_t tag, const gd::run& what,
                        outcome_ptr row) {
  return {std::make_shared<ended_step>(
    ended_step{.tag = tag, .what = what, .row = std::move(row)})};
}

} // namespace

// -- steps that return --------------------------------------------------------

step_actor::step_actor(caf::actor_config& cfg, node_ptr home, caf::actor picker,
                       std::uint64_t tag, gd::run what, step_thread where)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    picker_(std::move(picker)),
    tag_(tag),
    what_(std::move(what)),
    where_(where) {
  // nop
}

caf::behavior step_actor::make_behavior() {
  return {
    [this](run_step) { when_permitted([this] { execute(); }); },
    [this](may_run) { run_permitted(); },
    [this](step_completed) { quit(); },
    [this](step_failed& x) {
    when_permitted(
      [this, why = std::move(x.why)] { report(what_.fail(failure{why})); });
    },
    [this](step_refused& x) {
    when_permitted([this, why = std::move(x.why), told = std::move(x.told),
                    effect = std::move(x.effect)] {
      if (auto row = effect ? what_.refused(*effect, told)
                            : what_.refused(why, told))
        report(std::move(row));
      else // not even the failure can be written
        quit(to_caf(why));
    });
  },
    };
}

void step_actor::when_permitted(std::function<void()> what) {
  next_ = std::move(what);
  if (where_ == step_thread::own
      || home_->permits->take(caf::actor_cast<caf::actor>(this)))
    run_permitted();
}

void step_actor::run_permitted() {
  std::exchange(next_, nullptr)();
  home_->permits->leave(id());
}

void step_actor::execute() {
  const auto& under = what_.held().under();
  if (where_ == step_thread::shared) {
    if (under->lost) // while it waited: somebody else's by now
      return quit();
    anon(picker_, step_begun{tag_, system().clock().now()});
  }
  home_->begin(*under, system().clock().now());
  home_->tell(what_.held().start_told());
  if (const auto* defined = what_.held().step();
      defined != nullptr && defined->run_in_transaction)
    return execute_in_transaction();
  // If it is too late for an outcome, our end says that the function has returned.
  if (auto outcome = what_.execute_unless_decided())
    report(std::move(outcome));
  quit();
}

void step_actor::execute_in_transaction() {
  using fate = step_transaction::fate;
  step_transaction one{what_, *home_->step_sessions};
  auto x = one.execute();
  if (x.refused)
    home_->tell(
      events::outcome_refused{what_.held().under()->id, std::move(*x.refused)});
  if (x.unreplicated)
    home_->tell(
      events::not_replicated{home_->step_slot(), std::move(*x.unreplicated)});
  if (x.what == fate::failed) {
    report(std::move(x.row));
  } else if (x.what != fate::none) {
    // Before a heartbeat looks for a row that executes no more.
    home_->leases.remove(what_.held().under());
    anon(picker_, step_written{std::make_shared<written_step>(
                    written_step{tag_, what_, std::move(x.row), x.what})});
  }
  quit();
}

void step_actor::report(outcome_ptr row) {
  anon(picker_, outcome_of(tag_, what_, std::move(row)));
}

void step_actor::on_exit() {
  // Dead without an outcome: nobody is to extend the lease any more, and the
  // picker may come to it late.
  const auto& under = what_.held().under();
  if (under->decide(decider::death))
    home_->leases.remove(under);
  home_->permits->leave(id());
  next_ = nullptr;
  picker_ = nullptr;
}

// -- steps that deliver -------------------------------------------------------

class async_delivery : public detail::async_run {
public:
  async_delivery(caf::event_based_actor* self, const caf::actor& picker,
                 std::uint64_t tag, gd::run what)
    : self_(caf::actor_cast<caf::weak_actor_ptr>(self)),
      picker_(picker),
      tag_(tag),
      what_(std::move(what)) {
    // nop
  }

  gd::run& what() {
    return what_;
  }

  void finish(outcome x, const context_base& ctx) override {
    if (what_.held().under()->decide(decider::step))
      report(what_.finish(std::move(x), ctx));
  }

  void fail(const std::exception_ptr& thrown) {
    if (what_.held().under()->decide(decider::step))
      report(what_.fail(thrown));
  }

  void drop() override {
    // Says so by the reason. What dies anyway keeps the reason that it has.
    if (what_.held().under()->decided_by() == decider::nobody)
      end(caf::exit_reason::unreachable);
  }

private:
  void report(outcome_ptr row) {
    picker_.tell(outcome_of(tag_, what_, std::move(row)));
    end(caf::exit_reason::kill); // whatever it does with exit messages
  }

  void end(caf::exit_reason reason) {
    if (auto self = caf::actor_cast<caf::strong_actor_ptr>(self_))
      caf::anon_send_exit(caf::actor_cast<caf::actor>(self), reason);
  }

  // Weak: a context may be kept where nobody forgets it.
  caf::weak_actor_ptr self_;
  weak_ref picker_;
  std::uint64_t tag_;
  gd::run what_;
};

async_step_actor::async_step_actor(caf::actor_config& cfg, node_ptr home,
                                   const caf::actor& picker, std::uint64_t tag,
                                   gd::run what,
                                   const detail::async_starter* starter)
  : caf::event_based_actor(cfg),
    home_(std::move(home)),
    starter_(starter),
    delivery_(
      std::make_shared<async_delivery>(this, picker, tag, std::move(what))) {
  // nop
}

caf::behavior async_step_actor::make_behavior() {
  refuse_unknown(this);
  set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
    delivery_->fail(thrown);
    return caf::sec::runtime_error;
  });
  return {
    [this](run_step) {
    auto& what = delivery_->what();
    auto& held = what.held();
    if (held.under()->decided_by() != decider::nobody)
      return quit(); // too late
    home_->begin(*held.under(), system().clock().now());
    home_->tell(held.start_told());
    std::string room;
    starter_->start(this, delivery_, what.begin(), held.state(room));
    },
    };
}

void async_step_actor::on_exit() {
  // Nobody else decides from now on: the picker does, by the reason.
  const auto& under = delivery_->what().held().under();
  if (under->decide(decider::death))
    home_->leases.remove(under);
  delivery_ = nullptr;
  home_ = nullptr; // CAF's timers of requests keep the actor until they end
}

std::optional<std::string> failure_of_end(caf::actor_system& sys,
                                          const caf::error& why) {
  if (why == caf::exit_reason::unreachable)
    return "its context was dropped without an outcome";
  if (!why || why == caf::exit_reason::kill
      || why == caf::exit_reason::user_shutdown
      || why == caf::exit_reason::remote_link_unreachable)
    return std::nullopt;
  return render(sys, why); // of a request, and nobody handled it
}

// -- stopping -----------------------------------------------------------------

void stop_steps(caf::actor_system& sys, const std::vector<lease_ptr>& which) {
  std::vector<lease_ptr> asked;
  for (const auto& one : which)
    if (one->mark_stopped())
      asked.push_back(one);
  if (!asked.empty())
    sys.spawn<caf::detached>([asked = std::move(asked)] {
      for (const auto& one : asked)
        one->request_stop();
    });
}

} // namespace gd::actors
