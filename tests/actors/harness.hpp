#pragma once

#include "support/database.hpp"

#include <gd/actors/engine.hpp>
#include <gd/config.hpp>
#include <gd/event.hpp>
#include <gd/machine.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gd::test {

using namespace std::chrono_literals;

/// Keeps all events, and lets tests wait for them.
class event_log {
public:
  event_sink sink() {
    return [this](const event& what) {
      std::lock_guard guard{mutex_};
      events_.push_back(what);
      changed_.notify_all();
    };
  }

  template <class T>
  std::vector<T> all() const {
    std::lock_guard guard{mutex_};
    return collect<T>();
  }

  /// Waits until there are `count` events of that type; false: not in time.
  template <class T>
  bool wait_for(std::size_t count = 1) {
    std::unique_lock guard{mutex_};
    return changed_.wait_for(guard, patience,
                             [&] { return collect<T>().size() >= count; });
  }

  /// Waits as well, since an event is told a little later than the table shows it.
  template <class T>
  bool exactly(std::size_t count) {
    return wait_for<T>(count) && all<T>().size() == count;
  }

private:
  template <class T>
  std::vector<T> collect() const {
    std::vector<T> xs;
    for (const auto& x : events_)
      if (auto* one = std::get_if<T>(&x))
        xs.push_back(*one);
    return xs;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<event> events_;
};

/// Lets steps wait until the test says so.
class gate {
public:
  /// Nobody is left waiting at a gate that is gone.
  ~gate() {
    open();
    std::unique_lock guard{mutex_};
    changed_.wait(guard, [this] { return inside_ == 0; });
  }

  void open() {
    std::lock_guard guard{mutex_};
    open_ = true;
    changed_.notify_all();
  }

  /// In a step: says that it is there, and waits.
  void pass() {
    std::unique_lock guard{mutex_};
    ++waiting_;
    ++inside_;
    changed_.notify_all();
    changed_.wait(guard, [this] { return open_; });
    --inside_;
    changed_.notify_all();
  }

  /// In the test: until so many steps have come to the gate.
  bool wait_for(int count) {
    std::unique_lock guard{mutex_};
    return changed_.wait_for(guard, patience,
                             [&] { return waiting_ >= count; });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int inside_ = 0;
  bool open_ = false;
};

} // namespace gd::test

GD_ENUM(probe_step, first, second, third);

struct probe_state {
  std::int64_t n = 0;
  std::string note{};
  GD_STATE(probe_state, n, note);
};

struct word {
  std::string text;
  GD_STATE(word, text);
};

namespace gd::test {

using probe_context = gd::context<probe_state>;

/// What the steps and the handler of the probe machine do.
struct probe {
  std::function<outcome(probe_context&)> first = [](probe_context&) {
    return gd::done();
  };
  std::function<outcome(probe_context&)> second = first;
  std::function<outcome(probe_context&)> third = first;
  std::function<outcome(const failure&, probe_context&)> handler =
    [](const failure& why, probe_context&) { return gd::stop(why.message()); };

  operator machine() const {
    return named("Probe", 1);
  }

  machine named(std::string name, std::int32_t version) const {
    return gd::define<probe_state, probe_step>(std::move(name), version)
      .step(probe_step::first, first)
      .step(probe_step::second, second)
      .step(probe_step::third, third)
      .on_error(handler);
  }
};

struct system_config : caf::actor_system_config {
  system_config() {
    gd::actors::add_to(*this);
    // Steps of tests wait at gates: more threads than there are cores.
    set("scheduler.max-threads", 8u);
  }
};

/// A database with the schema, an actor system, and what engines tell.
struct engine_fixture {
  temporary_database db;
  event_log log;
  system_config cfg;
  caf::actor_system sys{cfg};

  engine_fixture() {
    db.migrate();
  }

  /// Timings that tests can wait for; leases end when a test says so, and no answer
  /// depends on how busy this machine is.
  gd::config options(std::vector<machine> machines, std::string node = "a") {
    gd::config x;
    x.database = db.conninfo();
    x.node = std::move(node);
    x.machines = std::move(machines);
    x.lease = 60s;
    x.heartbeat = 100ms;
    x.poll = 50ms;
    x.reaper = 50ms;
    x.patience = patience;
    x.on_event = log.sink();
    return x;
  }

  gd::actors::engine start(gd::config x) {
    auto engine = gd::actors::start(sys, std::move(x));
    if (!engine)
      throw std::runtime_error(to_string(engine.error()));
    return std::move(*engine);
  }

  /// Puts rows in by hand.
  void insert(int count, const std::string& fsm = "Probe",
              const std::string& step = "first", int version = 1) {
    db.rows(
      "insert into gen_durable (fsm, fsm_version, step) select $1, $2::int, "
      "$3 from generate_series(1, $4::int)",
      {fsm, std::to_string(version), step, std::to_string(count)});
  }

  std::string count(const std::string& condition) {
    return db.scalar("select count(*) from gen_durable where " + condition);
  }

  void wait_until_count(const std::string& condition, int expected) {
    db.wait_until("select count(*) from gen_durable where " + condition,
                  std::to_string(expected));
  }

  /// A request to the gateway.
  template <class Answer, class Request>
  result<Answer> ask(const gd::actors::engine& engine, Request x) {
    caf::scoped_actor self{sys};
    result<Answer> answer = error{errc::unavailable, "no answer", {}};
    self->request(engine.gateway(), patience, std::move(x))
      .receive([&](Answer& y) { answer = std::move(y); },
               [&](caf::error& why) {
      answer = gd::actors::from_caf(sys, why);
      });
    return answer;
  }

  /// How often each step of each instance has begun.
  std::map<std::pair<std::int64_t, std::string>, int> starts() const {
    std::map<std::pair<std::int64_t, std::string>, int> xs;
    for (const auto& x : log.all<events::step_started>())
      ++xs[{x.id, x.step}];
    return xs;
  }
};

} // namespace gd::test
