#include <gd/actors/queue/runner.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gd::actors {

namespace {

/// After that, other actors come first: the picker, the gateway, the user's.
constexpr auto turn_length = std::chrono::milliseconds{1};

/// Runs one picked row's step.
class plain_step_actor : public brief_actor {
public:
  plain_step_actor(caf::actor_config& cfg, node_ptr home, gd::run& what,
                   outcome_ptr& to)
    : brief_actor(cfg), home_(std::move(home)), what_(what), to_(to) {
    // nop
  }

  caf::behavior make_behavior() override {
    to_ = what_.execute_unless_decided();
    return {};
  }

  void on_exit() override {
    // Dead without an outcome: nobody is to extend the lease any more.
    const auto& under = what_.held().under();
    if (under->decide(decider::death))
      home_->leases.remove(under);
  }

  const char* name() const override {
    return "gd.step";
  }

private:
  node_ptr home_;
  gd::run& what_;
  outcome_ptr& to_;
};

} // namespace

// -- step_queue ---------------------------------------------------------------

void step_queue::open(caf::actor picker, std::vector<caf::actor> runners) {
  guard held{mutex_};
  picker_ = std::move(picker);
  resting_ = std::move(runners);
}

void step_queue::use_slot() {
  if (used_++ == 0)
    used_since_ = time_.now();
}

void step_queue::leave_slot() {
  if (--used_ == 0)
    in_use_ += time_.now() - used_since_;
}

step_queue::clock::duration_type step_queue::time_in_use() {
  guard held{mutex_};
  return used_ == 0 ? in_use_ : in_use_ + (time_.now() - used_since_);
}

void step_queue::wake_runners(guard held) {
  std::vector<caf::actor> woken;
  while (woken.size() < jobs_.size() && !resting_.empty() && used_ < slots_
         && !bytes_.full()) {
    woken.push_back(std::move(resting_.back()));
    resting_.pop_back();
    use_slot();
  }
  held.unlock();
  for (const auto& x : woken)
    anon(x, run_steps{});
}

void step_queue::put(std::vector<job> jobs) {
  guard held{mutex_};
  for (auto& x : jobs)
    jobs_.push_back(std::move(x));
  wake_runners(std::move(held));
}

bool step_queue::take_slot() {
  guard held{mutex_};
  if (bytes_.full())
    return false;
  if (used_ < slots_) {
    use_slot();
    return true;
  }
  tell_rest_ = true;
  return false;
}

void step_queue::free_slot() {
  guard held{mutex_};
  leave_slot();
  wake_runners(std::move(held));
}

std::vector<ended_step> step_queue::take_ended() {
  guard held{mutex_};
  auto size = ended_.size();
  auto xs = std::exchange(ended_, {});
  ended_.reserve(size); // as many again are likely
  return xs;
}

bool step_queue::tell_at(std::size_t count) {
  guard held{mutex_};
  if (ended_.size() >= count)
    return true;
  tell_at_ = count;
  return false;
}

void step_queue::add_unwritten(std::size_t bytes) {
  guard held{mutex_};
  bytes_.add(static_cast<std::int64_t>(bytes));
}

void step_queue::written(std::size_t bytes) {
  guard held{mutex_};
  // Full or not: meanwhile others may have written theirs.
  bool held_up = bytes_.has_share();
  bytes_.add(-static_cast<std::int64_t>(bytes));
  if (held_up)
    wake_runners(std::move(held));
}

step_queue::load step_queue::now() {
  guard held{mutex_};
  return {jobs_.size(), bytes_.mine()};
}

std::vector<step_queue::job> step_queue::take_waiting(std::size_t but) {
  guard held{mutex_};
  auto first = jobs_.begin()
               + static_cast<std::ptrdiff_t>(std::min(but, jobs_.size()));
  std::vector<job> xs{std::make_move_iterator(first),
                      std::make_move_iterator(jobs_.end())};
  jobs_.erase(first, jobs_.end());
  return xs;
}

void step_queue::close() {
  guard held{mutex_};
  // Destroyed without the lock: these may be the last to hold an actor.
  auto jobs = std::exchange(jobs_, {});
  auto resting = std::exchange(resting_, {});
  auto picker = std::exchange(picker_, nullptr);
  held.unlock();
}

void step_queue::tell(guard& held) {
  auto picker = picker_;
  held.unlock();
  if (picker)
    anon(picker, steps_ended{});
  held.lock();
}

void step_queue::add(guard& held, ended_step&& x) {
  if (x.row)
    bytes_.add(static_cast<std::int64_t>(x.row->bytes()));
  ended_.push_back(std::move(x));
  if (ended_.size() >= tell_at_ || bytes_.full()) {
    tell_at_ = never;
    tell(held);
  }
}

std::optional<step_queue::job>
step_queue::next(const caf::actor& runner, std::optional<ended_step>&& last) {
  guard held{mutex_};
  if (last)
    add(held, std::move(*last));
  if (!jobs_.empty() && !bytes_.full()) {
    auto x = std::move(jobs_.front());
    jobs_.pop_front();
    return x;
  }
  leave_slot();
  if (picker_)
    resting_.push_back(runner);
  if (std::exchange(tell_rest_, false))
    tell(held);
  return std::nullopt;
}

void step_queue::report(ended_step&& x) {
  guard held{mutex_};
  add(held, std::move(x));
}

// -- runner_actor -------------------------------------------------------------

runner_actor::runner_actor(caf::actor_config& cfg, node_ptr home,
                           std::shared_ptr<step_queue> jobs)
  : yielding(cfg), home_(std::move(home)), jobs_(std::move(jobs)) {
  // nop
}

caf::behavior runner_actor::make_behavior() {
  return {
    [this](run_steps) {
    if (home_->permits->take(caf::actor_cast<caf::actor>(this)))
      run_some();
    },
    [this](may_run) { run_some(); },
    };
}

void runner_actor::on_exit() {
  home_->permits->leave(id());
}

void runner_actor::run_some() {
  auto self = caf::actor_cast<caf::actor>(this);
  auto until = std::chrono::steady_clock::now() + turn_length;
  std::optional<ended_step> last;
  while (auto job = jobs_->next(self, std::move(last))) {
    last = run_one(std::move(*job));
    if (std::chrono::steady_clock::now() < until)
      continue;
    jobs_->report(std::move(*last));
    if (home_->permits->keep(self))
      anon(self, may_run{});
    return;
  }
  home_->permits->leave(id());
}

ended_step runner_actor::run_one(step_queue::job x) {
  ended_step end{.tag = x.tag};
  if (x.what->under()->lost) // somebody else's by now
    return end;
  home_->begin(*x.what->under(), system().clock().now());
  home_->tell(x.what->start_told());
  auto& what = end.what.emplace(std::move(x.what));
  end.why = run_inside(this,
                       spawn<plain_step_actor, brief>(home_, what, end.row));
  return end;
}

} // namespace gd::actors
