// What an idle node asks of its database: counted, on the simulated clock.

#define CAF_SUITE idle

#include "actors/harness.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/node/node.hpp>
#include <gd/actors/queue/picker.hpp>
#include <gd/actors/sweep/heartbeat.hpp>
#include <gd/actors/sweep/reaper.hpp>

#include <gd/sql.hpp>

#include <caf/test/dsl.hpp>

namespace idle_suite {

using namespace gd::test;
using namespace gd::actors;

namespace {

/// Has nothing for anybody, and counts who asks: by connection slot, and the statements
/// of a unit.
class empty_database : public gd::database {
public:
  void submit(std::size_t slot, gd::pq::unit work, callback done,
              patience) override {
    std::string names = std::to_string(slot) + ":";
    for (const auto& x : work.calls)
      if (x.what != &gd::sql::pick_summary) // which goes behind each pick
        names += " " + std::string{x.what->name.substr(3)};
    ++units[names];
    gd::pq::reply nothing;
    nothing.results.resize(work.calls.size());
    done(std::move(nothing));
  }

  void after(clock::duration, std::function<void()>) override {
    // Nobody looks.
  }

  std::optional<clock::time_point> connected_since(std::size_t) const override {
    return clock::time_point{};
  }

  gd::error why_waiting(std::size_t) const override {
    return {};
  }

  std::map<std::string, int> units;
};

struct fixture : test_coordinator_fixture<system_config> {
  std::shared_ptr<empty_database> db = std::make_shared<empty_database>();
  node_ptr home = std::make_shared<node>();
  std::vector<caf::actor> actors;

  fixture() {
    home->config.machines = {probe{}};
    home->config.on_event = [](const gd::event&) {};
    home->config.jitter = 0;
    home->machines = std::make_shared<gd::registry>(home->config.machines);
    home->incarnation = "a/0";
    home->db = db;
    sched.advance_time(1h); // connected for long
  }

  ~fixture() {
    for (auto& x : actors)
      anon_send_exit(x, caf::exit_reason::kill);
    sched.run();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(idle_tests, fixture)

CAF_TEST(an idle node asks once per queue and poll interval beside its sweeps) {
  auto add = [this](const auto& x) {
    actors.push_back(caf::actor_cast<caf::actor>(x));
  };
  add(sys.spawn<gateway_backend>(home));
  add(sys.spawn<heartbeat_actor>(home));
  add(sys.spawn<reaper_actor>(home));
  add(sys.spawn<picker_actor>(home, gd::queue_config{"default"},
                              std::vector<std::size_t>{2}));
  add(sys.spawn<picker_actor>(home, gd::queue_config{"mail"},
                              std::vector<std::size_t>{3}));
  sched.run();
  db->units.clear(); // of the start
  for (int second = 0; second < 120; ++second) {
    sched.advance_time(1s);
    sched.run();
  }
  // Leases are looked at when a node begins, once more 3 s later, and then like all.
  std::map<std::string, int> expected{
    {"0: wake_due returning", 120},
    {"0: end_leases", 120},
    {"0: locked_leases", 5},
    {"0: reap", 4},
    {"0: forget_nodes trim_ledger open_job open_crashes silent_sessions", 5},
    {"0: forget_dedup", 5},
    {"0: sweep_lock expired", 4},
    {"0: lock_timeout machines_lock "
     "mark_served not_served",
     5},
    {"0: lock_timeout node_lock "
     "replaced_machines register_session",
     6},
    {"1: lock_timeout register_session", 6},
    {"2: lock_timeout register_session", 6},
    {"3: lock_timeout register_session", 6},
    {"2: pick", 120},
    {"3: pick", 120}};
  CAF_CHECK_EQUAL(db->units, expected);
}

CAF_TEST(sweeps that find nothing come at longer intervals if they may) {
  home->config.sweep_backoff = 4;
  actors.push_back(sys.spawn<reaper_actor>(home));
  sched.run();
  for (int second = 0; second < 4 * 120 + 3; ++second) {
    sched.advance_time(1s);
    sched.run();
  }
  // Deadlines after 1, 3 and 7 s, then every 4 s.
  std::map<std::string, int> expected{
    {"0: wake_due returning", 122},
    {"0: end_leases", 122},
    {"0: locked_leases", 5},
    {"0: reap", 4},
    {"0: forget_nodes trim_ledger open_job open_crashes silent_sessions", 5},
    {"0: forget_dedup", 5},
    {"0: sweep_lock expired", 5},
    {"0: lock_timeout machines_lock "
     "mark_served not_served",
     5}};
  CAF_CHECK_EQUAL(db->units, expected);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace idle_suite
