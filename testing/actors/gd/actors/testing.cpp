#include <gd/actors/testing.hpp>

#include <gd/actors/async.hpp>
#include <gd/actors/engine.hpp>
#include <gd/actors/queue/step.hpp>

#include <gd/engine/step/run.hpp>
#include <gd/registry.hpp>
#include <gd/store/lease.hpp>

#include <caf/all.hpp>
#if GD_CAF_017
#  include <caf/scheduler/test_coordinator.hpp>
#else
#  include <caf/log/level.hpp>
#  include <caf/test/fixture/deterministic.hpp>
#  include <caf/test/reporter.hpp>
#endif

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace gd::actors::testing {

using std::chrono::microseconds;

namespace {

/// More messages, or timers, without any time in between are an error.
constexpr std::size_t most_messages = 1'000'000;

error restless() {
  return {errc::invalid_argument,
          "expected that actors are quiet after "
            + std::to_string(most_messages)
            + " messages at the same time, got another one",
          {}};
}

// -- actors without threads ---------------------------------------------------

#if GD_CAF_017

/// What CAF has for its own tests: a scheduler without threads, and a clock that stands
/// still.
class stage {
public:
  explicit stage(std::unique_ptr<caf::actor_system_config> from)
    : cfg_(prepared(std::move(from))),
      sys_(*cfg_),
      scheduler_(
        dynamic_cast<caf::scheduler::test_coordinator&>(sys_.scheduler())) {
    sys_.await_actors_before_shutdown(false); // it would wait for ever
  }

  stage(stage&&) = delete;
  stage& operator=(stage&&) = delete;

  /// Nothing runs any more.
  ~stage() {
    scheduler_.clock().cancel_all();
    run();
    for (auto* job : scheduler_.jobs) // they would run for ever
      if (auto* restless = dynamic_cast<caf::scheduled_actor*>(job))
        caf::anon_send_exit(caf::actor_cast<caf::actor>(restless),
                            caf::exit_reason::kill);
    run();
  }

  caf::actor_system& system() noexcept {
    return sys_;
  }

  /// Runs actors until none has a message. False: they go on for ever.
  bool run() {
    return scheduler_.run(most_messages) < most_messages;
  }

  /// How long until the next timer ends.
  std::optional<microseconds> next_timer() {
    const auto& clock = scheduler_.clock();
    if (clock.schedule().empty())
      return std::nullopt;
    return std::max(microseconds{},
                    std::chrono::ceil<microseconds>(
                      clock.schedule().begin()->first - clock.current_time));
  }

  /// Moves the clock on; timers that have ended then send what they are for.
  void advance(microseconds by) {
    scheduler_.advance_time(by);
  }

private:
  static std::unique_ptr<caf::actor_system_config>
  prepared(std::unique_ptr<caf::actor_system_config> cfg) {
    if (!cfg)
      cfg = std::make_unique<caf::actor_system_config>();
    add_to(*cfg);
    cfg->set("scheduler.policy", caf::atom("testing"));
    return cfg;
  }

  std::unique_ptr<caf::actor_system_config> cfg_;
  caf::actor_system sys_;
  caf::scheduler::test_coordinator& scheduler_;
};

#else

/// What a fixture of CAF's wants to be there.
class reported {
protected:
  reported() {
    try {
      caf::test::reporter::instance(); // within CAF's test runner
    } catch (const std::exception&) {
      static auto mute = caf::test::reporter::make_default();
      mute->verbosity(caf::log::level::quiet);
      caf::test::reporter::instance(mute.get());
    }
    caf::actor_system_config types; // of the fixture's own it is too late
    add_to(types);
  }
};

class stage : reported, caf::test::fixture::deterministic {
public:
  explicit stage(std::unique_ptr<caf::actor_system_config> from) {
    if (from) // its settings: the fixture has made one of its own
      cfg.content = from->content;
    sys.await_actors_before_shutdown(false);
  }

  caf::actor_system& system() noexcept {
    return sys;
  }

  bool run() {
    for (std::size_t sent = 0; sent < most_messages; ++sent)
      if (!dispatch_message())
        return true;
    return false;
  }

  std::optional<microseconds> next_timer() {
    if (!has_pending_timeout())
      return std::nullopt;
    return std::max(microseconds{}, std::chrono::ceil<microseconds>(
                                      next_timeout() - sys.clock().now()));
  }

  void advance(microseconds by) {
    if (by > microseconds{}) // it takes no other
      advance_time(by);
    for (auto due = next_timer(); due == microseconds{}; due = next_timer())
      trigger_timeout();
  }
};

#endif

} // namespace

struct simulation::world : stage {
  using stage::stage;

  actors::gateway gateway{};
  /// How many wait for ends, which the gateway says.
  std::shared_ptr<std::size_t> waiting = std::make_shared<std::size_t>(0);
};

// -- the actors ---------------------------------------------------------------

/// Of one execution. Contexts may outlive it: what is decided is the lease's.
class simulation::delivery : public detail::async_run {
public:
  explicit delivery(gd::run& what) : what_(what), under_(what.held().under()) {
    // nop
  }

  void finish(outcome x, const context_base& ctx) override {
    if (under_->decide(decider::step))
      deliver(what_.finish(std::move(x), ctx));
  }

  void fail(const std::exception_ptr& thrown) {
    if (under_->decide(decider::step))
      deliver(what_.fail(thrown));
  }

  void drop() override {
    if (under_->decided_by() == decider::nobody)
      caf::anon_send_exit(self, caf::exit_reason::unreachable);
  }

  /// The step's actor has ended.
  void ended(caf::actor_system& sys, const caf::error& why) {
    self = nullptr;
    if (!under_->decide(decider::death))
      return;
    if (auto failure = failure_of_end(sys, why))
      row = what_.fail(
        gd::failure{"step " + what_.held().row().step + ": " + *failure});
  }

  /// Its time limit is over.
  void expire(std::chrono::milliseconds limit) {
    if (!under_->decide(decider::limit))
      return;
    deliver(what_.fail(
      gd::failure{gd::run::over_limit(what_.held().row().step, limit)}));
    if (under_->mark_stopped())
      under_->request_stop();
  }

  /// Nothing is to come of it any more.
  void abandon() {
    if (under_->decide(decider::limit))
      deliver(nullptr);
  }

  gd::run& what() noexcept {
    return what_;
  }

  bool decided() const noexcept {
    return under_->decided_by() != decider::nobody;
  }

  /// Until it is delivered to: a context keeps this.
  caf::actor self{};
  /// Null, if it is decided: it has crashed.
  outcome_ptr row{};

private:
  void deliver(outcome_ptr x) {
    row = std::move(x);
    caf::anon_send_exit(std::exchange(self, nullptr), caf::exit_reason::kill);
  }

  gd::run& what_;
  lease_ptr under_;
};

class simulation::step_actor : public caf::event_based_actor {
public:
  step_actor(caf::actor_config& cfg, std::shared_ptr<delivery> to,
             const detail::async_starter* starter)
    : caf::event_based_actor(cfg), to_(std::move(to)), starter_(starter) {
    // nop
  }

  caf::behavior make_behavior() override {
    refuse_unknown(this);
    set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
      to_->fail(thrown);
      return caf::sec::runtime_error;
    });
    return {
      [this](run_step) {
      auto& what = to_->what();
      std::string room;
      starter_->start(this, to_, what.begin(), what.held().state(room));
      },
      };
  }

  void on_exit() override {
    to_ = nullptr;
  }

private:
  std::shared_ptr<delivery> to_;
  const detail::async_starter* starter_;
};

/// The gateway, which is told when instances may have ended, and when the time of somebody
/// who waits for that is over.
using door_impl = extended<gateway, void(hint), void(tick)>;

class simulation::door : public door_impl::base {
public:
  door(caf::actor_config& cfg, simulation* to,
       std::shared_ptr<std::size_t> waiting)
    : door_impl::base(cfg), to_(to), waiting_(std::move(waiting)) {
    // nop
  }

  behavior_type make_behavior() override {
    return actors::requests::handled_by<behavior_type>(
      [this](auto, auto& x) { return answer_to(x); },
      [this](const hint&) { look_up_ends(); },
      [this](tick x) {
      if (auto found = waits_.extract(x.generation); !found.empty())
        found.mapped().to.deliver(
          to_caf({errc::timed_out,
                  "instance " + std::to_string(found.mapped().id)
                    + " has not ended in time",
                  {}}));
      note_waits();
      });
  }

private:
  /// Who waits for an end.
  struct wait {
    std::int64_t id;
    caf::typed_response_promise<awaited> to;
  };

  caf::result<awaited> answer_to(gd::await_result& x) {
    if (auto ok = check(x, {}); !ok)
      return to_caf(ok.error());
    auto now = to_->look_up({.id = x.id, .key = x.key});
    if (!now)
      return to_caf({errc::no_such_target, std::move(now.error().message), {}});
    if (auto end = end_of(*now))
      return std::move(*end);
    auto to = make_response_promise<awaited>();
    waits_.emplace(++tickets_, wait{now->id, to});
    note_waits();
    send_self_after(this, microseconds{x.within_us}, tick{tickets_});
    return to;
  }

  static std::optional<awaited> end_of(const gd::instance& x) {
    bool failed = x.status == "failed";
    if (!failed && x.status != "done")
      return std::nullopt;
    return awaited{.id = x.id,
                   .fsm = x.fsm,
                   .version = x.version,
                   .status = x.status,
                   .result = x.result,
                   .failure = failed ? x.last_error : std::nullopt,
                   .seq = x.seq};
  }

  /// A simulation deletes nothing: they are all there.
  void look_up_ends() {
    for (auto i = waits_.begin(); i != waits_.end();) {
      auto end = end_of(*to_->look_up({.id = i->second.id}));
      if (!end) {
        ++i;
        continue;
      }
      i->second.to.deliver(std::move(*end));
      i = waits_.erase(i);
    }
    note_waits();
  }

  void note_waits() {
    *waiting_ = waits_.size();
  }

  caf::result<inserted> answer_to(gd::insert& x) {
    return answer(to_->insert(x));
  }
  caf::result<inserted_all> answer_to(gd::insert_all& x) {
    inserted_all out;
    for (auto& row : to_->insert_all(x.rows))
      out.rows.push_back(row ? insert_answer{row->id, row->duplicate}
                             : insert_answer{.code = row.error().code,
                                             .message = row.error().message});
    return out;
  }
  caf::result<signalled> answer_to(gd::signal& x) {
    return answer(to_->signal(x));
  }
  caf::result<transitioned> answer_to(gd::transition& x) {
    return answer(to_->transition(x));
  }
  caf::result<gd::instance> answer_to(gd::look_up& x) {
    return answer(to_->look_up(x));
  }
  template <class Query>
  caf::error answer_to(Query&) {
    return unanswered();
  }

  template <class T>
  static caf::result<T> answer(gd::result<T> x) {
    if (!x)
      return to_caf(x.error());
    return std::move(*x);
  }

  static caf::error unanswered() {
    return to_caf({errc::invalid_argument,
                   "a simulation counts nothing and keeps no history",
                   {}});
  }

  simulation* to_;
  std::map<std::uint64_t, wait> waits_;
  std::uint64_t tickets_ = 0;
  std::shared_ptr<std::size_t> waiting_;
};

// -- the simulation -----------------------------------------------------------

simulation::simulation(std::unique_ptr<caf::actor_system_config> cfg,
                       gd::testing::simulation_settings how)
  : gd::testing::simulation({}, how),
    world_(std::make_unique<world>(std::move(cfg))) {
  world_->gateway = caf::actor_cast<actors::gateway>(
    world_->system().spawn<door>(this, world_->waiting));
}

simulation::~simulation() {
  // Machines keep actors, and so do timers. Both have to go before their system.
  world_->gateway = actors::gateway{};
  machines_.clear();
  known_ = std::make_shared<registry>();
}

caf::actor_system& simulation::system() noexcept {
  return world_->system();
}

const actors::gateway& simulation::gateway() const noexcept {
  return world_->gateway;
}

gd::result<void> simulation::settle() {
  if (*world_->waiting > 0)
    anon(caf::actor_cast<caf::actor>(world_->gateway), hint{});
  if (!world_->run())
    return restless();
  return {};
}

gd::result<std::optional<microseconds>> simulation::next_due() {
  auto due = gd::testing::simulation::next_due();
  auto timer = world_->next_timer();
  if (!due || !timer)
    return due;
  return std::optional{std::min(due->value_or(*timer), *timer)};
}

gd::result<void> simulation::pass(microseconds by) {
  for (std::size_t at_once = 0; at_once < most_messages; ++at_once) {
    auto timer = world_->next_timer();
    auto part = timer ? std::min(*timer, by) : by;
    if (part > microseconds{})
      at_once = 0;
    if (auto ok = gd::testing::simulation::pass(part); !ok)
      return ok;
    by -= part;
    world_->advance(part);
    if (auto ok = settle(); !ok)
      return ok;
    if (by == microseconds{} && world_->next_timer() != microseconds{})
      return {};
  }
  return restless();
}

gd::result<bool> simulation::run_one() {
  if (auto ok = settle(); !ok)
    return ok.error();
  return gd::testing::simulation::run_one();
}

gd::result<simulation::outcome_row> simulation::run_async(gd::run& what) {
  const auto* starter = dynamic_cast<const detail::async_starter*>(
    what.held().step()->start.get());
  if (starter == nullptr)
    return gd::testing::simulation::run_async(what);
  auto limit = *what.held().step()->limit();
  auto to = std::make_shared<delivery>(what);
  to->self = world_->system().spawn<step_actor>(to, starter);
  to->self->attach_functor(
    [this, to](const caf::error& why) { to->ended(world_->system(), why); });
  anon(to->self, run_step{});
  auto left = std::chrono::duration_cast<microseconds>(limit);
  auto ok = settle();
  while (ok && !to->decided()) {
    auto timer = world_->next_timer();
    auto part = timer ? std::min(*timer, left) : left;
    left -= part;
    ok = pass(part);
    if (ok && left == microseconds{})
      to->expire(limit);
  }
  to->abandon(); // if it could not be decided
  if (ok)
    ok = settle(); // its actor ends
  if (!ok)
    return ok.error();
  return std::move(to->row);
}

} // namespace gd::actors::testing
