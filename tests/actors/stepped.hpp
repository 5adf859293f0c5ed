#pragma once

#include "actors/harness.hpp"

#include <gd/actors/node/node.hpp>
#include <gd/actors/queue/picker.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gd::test {

using namespace gd::actors;

/// The real server, asked when the test says so: actors see their simulated
/// clock only, and every order of events can be made.
class stepped_database : public gd::database {
public:
  explicit stepped_database(gd::pq::options opts)
    : connection_(std::move(opts)) {
    // Before a test that takes its time lets the connection's run out.
    static_cast<void>(connection_.wait_ready());
  }

  void submit(std::size_t connection_slot, gd::pq::unit work, callback done,
              patience) override {
    queue_.push_back({connection_slot, std::move(work), std::move(done)});
    ++submitted;
  }

  void after(clock::duration time, std::function<void()> then) override {
    alarms_.emplace(now_ + time, std::move(then));
  }

  void advance_time(clock::duration time) {
    now_ += time;
    while (!alarms_.empty() && alarms_.begin()->first <= now_)
      alarms_.extract(alarms_.begin()).mapped()();
  }

  std::optional<clock::time_point> connected_since(std::size_t) const override {
    return since;
  }

  gd::error why_waiting(std::size_t) const override {
    return {errc::unavailable, "by the test", {}};
  }

  bool waiting() const {
    return !queue_.empty();
  }

  /// The statements of the oldest unit.
  std::string next() const {
    return queue_.empty() ? "nothing" : statements(queue_.front().work);
  }

  std::string newest() const {
    return queue_.empty() ? "nothing" : statements(queue_.back().work);
  }

  /// Runs the oldest unit and delivers its reply.
  void run_one() {
    auto next = pop();
    next.done(connection_.run(next.work));
  }

  /// As if the connections had overtaken each other.
  void run_newest() {
    std::rotate(queue_.begin(), queue_.end() - 1, queue_.end());
    run_one();
  }

  /// Runs the oldest unit; its reply comes with `deliver`.
  void run_one_and_hold() {
    held_ = pop();
    reply_ = connection_.run(held_.work);
  }

  void deliver() {
    held_.done(std::move(reply_));
  }

  /// Runs the oldest unit, and tells the actor that its fate is unknown.
  void run_one_and_lose_the_answer() {
    auto next = pop();
    connection_.run(next.work);
    fail(next, errc::unknown_fate);
  }

  /// Answers the oldest unit without running it.
  void drop_one(errc code) {
    auto next = pop();
    fail(next, code);
  }

  int submitted = 0;
  std::optional<clock::time_point> since;

private:
  struct job {
    std::size_t connection_slot;
    gd::pq::unit work;
    callback done;
  };

  /// Without pick_summary, which goes behind each pick.
  static std::string statements(const gd::pq::unit& work) {
    std::string out;
    for (const auto& x : work.calls)
      if (x.what != &gd::sql::pick_summary)
        out += std::string{x.what->name} + ' ';
    return work.transaction ? "begin " + out + "commit" : out;
  }

  job pop() {
    if (queue_.empty())
      throw std::runtime_error("nothing was submitted");
    auto next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }

  static void fail(job& what, errc code) {
    gd::pq::reply failed;
    failed.failure = gd::error{code, "by the test", {}};
    what.done(std::move(failed));
  }

  gd::pq::connection connection_;
  std::deque<job> queue_;
  clock::time_point now_;
  std::multimap<clock::time_point, std::function<void()>> alarms_;
  job held_;
  gd::pq::reply reply_;
};

struct picker_fixture : test_coordinator_fixture<system_config> {
  temporary_database rows;
  event_log log;
  std::shared_ptr<stepped_database> db;
  node_ptr home = std::make_shared<node>();
  std::vector<caf::actor> actors;
  int handled = 0;
  probe machine;
  /// Instead of the probe.
  std::optional<gd::machine> other;

  picker_fixture() {
    rows.migrate();
    auto opts = rows.options();
    opts.lock_timeout = 100ms;
    db = std::make_shared<stepped_database>(std::move(opts));
    machine.handler = [this](const gd::failure& why, probe_context&) {
      ++handled;
      return gd::stop(why.message());
    };
  }

  ~picker_fixture() {
    for (auto& x : actors)
      anon_send_exit(x, caf::exit_reason::kill);
    sched.run();
    home->db = nullptr;
  }

  void prepare() {
    home->config.node = "a";
    home->config.machines = {other ? *other : machine};
    home->config.on_event = log.sink();
    home->machines = std::make_shared<gd::registry>(home->config.machines);
    home->incarnation = "a/0";
    home->known_as = std::make_shared<registration>(
      gd::store::node_record{
        .incarnation = home->incarnation, .node = "a", .lease = 60s},
      home->machines);
    home->db = db;
  }

  caf::actor spawn_picker(gd::queue_config queue,
                          std::vector<std::size_t> connection_slots = {2}) {
    prepare();
    actors.push_back(sys.spawn<picker_actor>(home, std::move(queue),
                                             std::move(connection_slots)));
    sched.run();
    return actors.back();
  }

  void insert(int count) {
    rows.rows("insert into gen_durable (fsm, step) select 'Probe', 'first' "
              "from generate_series(1, $1::int)",
              {std::to_string(count)});
  }

  std::string count(const std::string& condition) {
    return rows.scalar("select count(*) from gen_durable where " + condition);
  }

  /// A machine whose first step is this.
  template <class F>
  void begin_with(gd::step_options how, F first) {
    auto end = [](probe_context&) { return gd::done(); };
    other = gd::define<probe_state, probe_step>("Probe", 1)
              .step(probe_step::first, how, std::move(first))
              .step(probe_step::second, end)
              .step(probe_step::third, end)
              .on_error(machine.handler);
  }

  void pass(std::chrono::milliseconds time) {
    sched.advance_time(time);
    sched.run();
    finish_all();
  }

  /// All that waits, and what follows from it. Returns its statements.
  std::string finish_all() {
    std::string units;
    while (db->waiting()) {
      units += db->next();
      turn();
    }
    return units;
  }

  /// One turn, and what follows from it.
  void turn() {
    db->run_one();
    sched.run();
  }

  /// Nobody but the test runs user code on CAF's threads.
  void take_all_permits() {
    actors.push_back(sys.spawn([]() -> caf::behavior { return {[](int) {}}; }));
    holder_ = actors.back();
    if (!home->permits->take(holder_))
      throw std::runtime_error("somebody has a permit");
  }

  void return_permits() {
    home->permits->leave(holder_.id());
    sched.run();
  }

  /// For longer than a runner's turn takes, which is of real time.
  static void linger() {
    using real = std::chrono::steady_clock;
    for (auto end = real::now() + 2ms; real::now() < end;)
      ;
  }

  /// One unit and one actor. Who is not done goes behind the others, as with CAF's
  /// own schedulers.
  void run_in_turn() {
    if (db->waiting())
      db->run_one();
    auto* first = sched.jobs.empty() ? nullptr : sched.jobs.front();
    sched.try_run_once();
    sched.advance_time(0s); // what is due meanwhile
    if (!sched.jobs.empty() && sched.jobs.front() == first)
      std::rotate(sched.jobs.begin(), sched.jobs.begin() + 1, sched.jobs.end());
  }

  /// Of forty steps there are outcomes in plenty, and no answer to any.
  void begin_while_nothing_is_written(gd::step_options how) {
    begin_with(how, [](probe_context&) { return gd::done(); });
    insert(40);
    home->config.bytes_held = 2'000; // an outcome has 256 at least
    spawn_picker({"default", 40, 0});
    turn();
    CAF_CHECK_EQUAL(count("status = 'executing'"), "40");
    CAF_CHECK_LESS_OR_EQUAL(log.all<events::step_started>().size(),
                            8 + runners_at_most(sys));
    while (db->waiting())
      turn();
    CAF_CHECK_EQUAL(count("status = 'done'"), "40");
  }

  /// 500 rows for four slots, whose steps take as long.
  void fill_and_spawn(std::chrono::microseconds step) {
    machine.first = [this, step](probe_context&) {
      sched.clock().current_time += step;
      return gd::done();
    };
    insert(500);
    spawn_picker({"default", 4, 200});
  }

  /// How many steps start after a transaction that takes as long.
  std::size_t started_in(std::chrono::microseconds transaction) {
    auto before = log.all<events::step_started>().size();
    sched.clock().current_time += transaction;
    turn();
    return log.all<events::step_started>().size() - before;
  }

private:
  caf::actor holder_;
};

} // namespace gd::test
