#define CAF_SUITE pause

// A queue that operators have paused: nothing begins there, what had been taken ahead goes
// back, and all goes on when it is resumed.

#include "actors/stepped.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/sweep/change_watcher.hpp>
#include <gd/client.hpp>

#include <caf/test/dsl.hpp>

#include <string>
#include <thread>
#include <utility>

namespace pause_suite {

using namespace std::literals;
using namespace gd::test;
using namespace gd::actors;
namespace events = gd::events;

namespace {

struct pause_fixture : picker_fixture {
  std::shared_ptr<gd::actors::change_watcher> change_watcher;

  void serve(gd::queue_config queue) {
    home->config.poll = 1s;
    home->config.queues = {queue};
    home->children.set(role::picker, queue.name, spawn_picker(queue));
    change_watcher = std::make_shared<gd::actors::change_watcher>(home);
    change_watcher->probe();
    finish_all();
  }

  ~pause_fixture() {
    home->children.clear();
  }

  /// What is asked meanwhile.
  std::string probe_once() {
    sched.advance_time(home->config.probe);
    db->advance_time(home->config.probe);
    sched.run();
    return finish_all();
  }

  void pause() {
    rows.rows("select gd_pause('default', 'for a test', force => true)");
    probe_once();
  }

  void resume() {
    rows.rows("select gd_resume('default')");
    probe_once();
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(pause_tests, pause_fixture)

CAF_TEST(
  nothing begins in a queue that is paused and all goes on when it is resumed) {
  serve({"default", 2, 0});
  insert(1);
  probe_once();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  pause();
  insert(2);
  std::string asked;
  for (int i = 0; i < 20; ++i) // polls among them
    asked += probe_once();
  CAF_CHECK_EQUAL(count("status = 'runnable' and locked_by is null"), "2");
  CAF_CHECK(asked.find("pick") == std::string::npos);
  resume();
  CAF_CHECK_EQUAL(count("status = 'done'"), "3");
}

CAF_TEST(what had been taken ahead goes back and its attempt does not count) {
  serve({"default", 1, 10});
  take_all_permits();
  insert(5);
  probe_once();
  CAF_CHECK(count("status = 'executing'") != "0");
  pause();
  CAF_CHECK_EQUAL(count("status = 'runnable' and attempt = 0 and seq = 0"),
                  "5");
  return_permits();
  probe_once();
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "5");
  resume();
  CAF_CHECK_EQUAL(count("status = 'done'"), "5");
}

CAF_TEST(a picker that is started again knows that its queue is paused) {
  serve({"default", 2, 0});
  pause();
  anon_send_exit(home->children.find(role::picker, "default"),
                 caf::exit_reason::kill);
  sched.run();
  finish_all();
  home->children.set(role::picker, "default", spawn_picker({"default", 2, 0}));
  insert(1);
  for (int i = 0; i < 10; ++i)
    probe_once();
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  resume();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(until the first probe has told what is paused nothing begins) {
  home->paused.forget();
  home->config.poll = 1s;
  home->config.queues = {{"default", 2, 0}};
  home->children.set(role::picker, "default", spawn_picker({"default", 2, 0}));
  insert(1);
  pass(2s);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  change_watcher = std::make_shared<gd::actors::change_watcher>(home);
  change_watcher->probe();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST(who may not ask works as if nothing was paused) {
  home->paused.forget();
  home->config.poll = 1s;
  home->config.queues = {{"default", 2, 0}};
  home->children.set(role::picker, "default", spawn_picker({"default", 2, 0}));
  insert(1);
  change_watcher = std::make_shared<gd::actors::change_watcher>(home);
  change_watcher->probe();
  while (db->waiting() && db->next().find("last_ids") == std::string::npos)
    turn();
  db->drop_one(gd::errc::sql);
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

CAF_TEST_FIXTURE_SCOPE(pause_engine_tests, engine_fixture)

CAF_TEST(an engine that starts does not touch a queue that is paused) {
  db.rows("select gd_pause('default', force => true)");
  insert(3);
  auto engine = start(options({probe{}}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto made = ask<gd::inserted>(engine, gd::insert{.fsm = "Probe"});
  CAF_REQUIRE(made);
  CAF_CHECK_EQUAL(count("status = 'runnable' and seq = 0"), "4");
  db.rows("select gd_resume('default')");
  wait_until_count("status = 'done'", 4);
}

CAF_TEST(instances that run ahead go back to a queue that is paused) {
  // Its first step lasts until the queue is paused, and the node has seen that.
  node_ptr home;
  probe machine;
  machine.first = [this, &home](probe_context& ctx) -> gd::outcome {
    session by{db.conninfo()};
    by.exec("select gd_pause('default', force => true)");
    while (!home->paused.contains("default"))
      std::this_thread::yield();
    return gd::next(probe_step::second, ctx.state);
  };
  gd::machine ahead = machine;
  ahead.run_ahead = true;
  auto engine = start(options({ahead}));
  home = inside(engine);
  CAF_REQUIRE(log.wait_for<events::node_started>());
  insert(1);
  wait_until_count("status = 'runnable' and step = 'second' and seq = 1", 1);
  db.rows("select gd_resume('default')");
  wait_until_count("status = 'done'", 1);
}

CAF_TEST(a job that nobody works on is worked off by a node) {
  db.rows("insert into gen_durable (fsm, step, status) select 'Probe', 'first',"
          " 'failed' from generate_series(1, 500)");
  auto job = db.scalar("select gd_begin_job('retry', fsm => 'Probe')");
  auto how = options({probe{}});
  how.reaper = 50ms;
  auto engine = start(how);
  db.wait_until(
    "select ended_at is not null from gen_durable_jobs where id = " + job, "t");
  wait_until_count("status = 'done'", 500);
  CAF_CHECK_EQUAL(db.scalar("select changed from gen_durable_jobs"), "500");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace pause_suite
