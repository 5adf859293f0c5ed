// What is deployed beside what runs: the same version of a machine has the same
// steps on all nodes that live.

#define CAF_SUITE deploys

#include "actors/stepped.hpp"
#include "support/words.hpp"

#include <gd/actors/node/registration.hpp>
#include <gd/actors/sweep/reaper.hpp>

#include <caf/test/dsl.hpp>

namespace deploys_suite {

using namespace gd::test;
using namespace gd::actors;
using namespace std::string_literals;
namespace events = gd::events;

GD_ENUM(longer_step, first, second, third, fourth);
GD_ENUM(turned_step, third, first, second);

namespace {

constexpr auto control = gd::database::control_slot;

/// The probe with other steps, under the same name and version.
template <class Step>
gd::machine_builder<probe_state, Step> other_steps(std::string name = "Probe") {
  auto end = [](probe_context&) -> gd::outcome { return gd::done(); };
  return gd::define<probe_state, Step>(std::move(name), 1)
    .step(Step::first, end)
    .step(Step::second, end)
    .step(Step::third, end);
}

gd::machine longer() {
  return other_steps<longer_step>().step(
    longer_step::fourth,
    [](probe_context&) -> gd::outcome { return gd::done(); });
}

/// The probe whose first step goes nowhere but there.
gd::machine leading_to(gd::step_list to) {
  auto end = [](probe_context&) -> gd::outcome { return gd::done(); };
  return gd::define<probe_state, probe_step>("Probe", 1)
    .step(probe_step::first, {.to = std::move(to)}, end)
    .step(probe_step::second, end)
    .step(probe_step::third, end);
}

/// The probe whose first step rests.
gd::machine resting(std::chrono::microseconds after, gd::step_list to,
                    probe_step then = probe_step::third) {
  auto end = [](probe_context&) -> gd::outcome { return gd::done(); };
  return gd::define<probe_state, probe_step>("Probe", 1)
    .rest(probe_step::first, std::move(to), {.after = after, .then = then})
    .step(probe_step::second, end)
    .final(probe_step::third);
}

struct fixture : engine_fixture {
  probe machine;

  std::string steps() {
    return db.scalar("select array_to_string(steps, '|') from "
                     "gen_durable_machines where fsm = 'Probe'");
  }

  std::string nodes() {
    return db.scalar("select count(*) from gen_durable_nodes");
  }

  /// A node of another process, for as long as its session lasts.
  session add_node(const std::string& incarnation,
                   const std::string& machines) {
    session node{db.conninfo()};
    node.exec("select pg_advisory_lock(hashtext('gen_durable node'), "
              "hashtext($1))",
              {incarnation});
    db.rows("insert into gen_durable_nodes (incarnation, node, host, process, "
            "library, lease, slots, queues, machines) values ($1, 'ghost', "
            "'host-7', 4711, '0', interval '1 min', 1, '[]', $2::jsonb)",
            {incarnation, machines});
    return node;
  }

  std::unique_ptr<gd::pq::connection> connect() {
    auto made = std::make_unique<gd::pq::connection>(db.options());
    CAF_REQUIRE(made->wait_ready());
    return made;
  }
};

const std::string longer_json
  = R"([{"name": "Probe", "version": 1, "steps": ["first", "second", "third", "fourth"]}])";

const std::string machines_lock
  = "select pg_advisory_xact_lock(hashtext('gen_durable machines'), "
    "hashtext('public'))";

} // namespace

CAF_TEST_FIXTURE_SCOPE(deploys_tests, fixture)

CAF_TEST(a node whose steps differ from those of one that lives is refused) {
  auto a = start(options({machine}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto b = start(options({longer()}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  auto why = b.failed();
  CAF_REQUIRE(why);
  CAF_CHECK_EQUAL(why->code, gd::errc::machine_differs);
  for (const auto& part :
       {"Probe v1"s, "only here fourth"s, "only there none"s, "new version"s,
        "host "s + db.scalar("select host from gen_durable_nodes"),
        "process "s + std::to_string(getpid())})
    CAF_CHECK(contains(why->message, part));
  CAF_MESSAGE("and leaves no trace");
  CAF_CHECK_EQUAL(steps(), "first|second|third");
  b.stop();
  CAF_CHECK_EQUAL(nodes(), "1");
  CAF_MESSAGE("while the other goes on");
  insert(1);
  wait_until_count("status = 'done'", 1);
}

CAF_TEST(a node whose declared transitions differ from those of one that lives
           is refused) {
  auto a = start(options({leading_to({probe_step::second})}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto b = start(options({leading_to({probe_step::third})}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  auto why = b.failed();
  CAF_REQUIRE(why);
  CAF_CHECK_EQUAL(why->code, gd::errc::machine_differs);
  CAF_CHECK(contains(why->message, "only here first -> third, only there first "
                                   "-> second"));
  b.stop();
  CAF_CHECK_EQUAL(db.scalar("select transitions ->> 'first' from "
                            "gen_durable_machines"),
                  "[\"second\"]");
}

CAF_TEST(
  a node where instances rest in another way than where one lives is refused) {
  using enum probe_step;
  auto a = start(options({resting(1h, {second})}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  std::size_t refused = 0;
  auto difference = [&](gd::machine x) {
    auto b = start(options({std::move(x)}, "b"));
    CAF_REQUIRE(log.wait_for<events::node_failed>(++refused));
    auto why = b.failed();
    CAF_REQUIRE(why);
    CAF_CHECK_EQUAL(why->code, gd::errc::machine_differs);
    return why->message.substr(why->message.find("only here"));
  };
  CAF_CHECK(contains(difference(resting(2h, {second})),
                     "only here first rests 7200000000 us -> third, only there "
                     "first rests 3600000000 us -> third;"));
  CAF_CHECK(contains(difference(resting(1h, {second, third})),
                     "only here first -> third (outside), only there none;"));
  CAF_CHECK(contains(difference(machine), "only here none, only there "));
  CAF_MESSAGE("and in the same way is let in");
  auto b = start(options({resting(1h, {second, second})}, "b"));
  CAF_CHECK(log.wait_for<events::node_started>(2));
}

CAF_TEST(
  where no node lives that differs another way to rest replaces the old one) {
  using enum probe_step;
  {
    auto a = start(options({resting(1h, {second})}));
    CAF_REQUIRE(log.wait_for<events::node_started>());
  }
  auto b = start(options({resting(2h, {third})}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_started>(2));
  auto told = log.all<events::machine_replaced>();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK(contains(told.front().before,
                     "|first -> second (outside)|first rests 3600000000 us -> "
                     "third|third ends"));
  CAF_CHECK(contains(told.front().now,
                     "|first -> third (outside)|first rests 7200000000 us -> "
                     "third|third ends"));
  CAF_MESSAGE("and who finds its own replaced withdraws the machine");
  db.rows("update gen_durable_machines set outside = outside - 'third'");
  CAF_REQUIRE(log.wait_for<events::machine_withdrawn>()); // by a beat
  auto withdrawn = log.all<events::machine_withdrawn>().front().now;
  CAF_CHECK(contains(withdrawn, "first rests 7200000000 us -> third"));
  CAF_CHECK(!contains(withdrawn, "third ends"));
}

CAF_TEST(a list that is declared and one that is not differ) {
  auto a = start(options({leading_to(gd::nowhere)}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto b = start(options({leading_to({})}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  CAF_CHECK(contains(b.failed()->message,
                     "only here none, only there first -> (nowhere)"));
}

CAF_TEST(the order of declared transitions makes no difference) {
  using enum probe_step;
  auto a = start(options({leading_to({second, third, second})}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto b = start(options({leading_to({third, second})}, "b"));
  CAF_CHECK(log.wait_for<events::node_started>(2));
  CAF_CHECK(log.all<events::machine_replaced>().empty());
}

CAF_TEST(
  where no node lives that differs new transitions replace the old ones) {
  {
    auto a = start(options({leading_to({probe_step::second})}));
    CAF_REQUIRE(log.wait_for<events::node_started>());
  }
  auto b = start(options({leading_to({probe_step::third})}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_started>(2));
  auto told = log.all<events::machine_replaced>();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(told.front().before, "first|second|third|first -> second");
  CAF_CHECK_EQUAL(told.front().now, "first|second|third|first -> third");
  CAF_MESSAGE("and who finds its own replaced withdraws the machine");
  db.rows("update gen_durable_machines set transitions = '{\"first\": []}'");
  CAF_REQUIRE(log.wait_for<events::machine_withdrawn>()); // by a beat
  auto withdrawn = log.all<events::machine_withdrawn>().front();
  CAF_CHECK_EQUAL(withdrawn.now, "first|second|third|first -> (nowhere)");
}

CAF_TEST(a node that tells no transitions does not differ) {
  auto ghost = add_node(
    "ghost/0",
    R"([{"name": "Probe", "version": 1, "steps": ["first", "second", "third"]}])");
  db.rows(
    "insert into gen_durable_machines (fsm, version, initial_step, queue, "
    "steps) values ('Probe', 1, 'first', 'default', "
    "'{first,second,third}')");
  auto a = start(options({leading_to({probe_step::second})}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  CAF_CHECK(log.all<events::machine_replaced>().empty());
  CAF_MESSAGE("also when it registers again");
  db.rows("update gen_durable_machines set transitions = null");
  auto b = start(options({leading_to({probe_step::second})}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_started>(2));
  CAF_CHECK(log.all<events::machine_withdrawn>().empty());
}

CAF_TEST(the order of steps makes no difference) {
  auto a = start(options({machine}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  auto b = start(options({other_steps<turned_step>()}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_started>(2));
  CAF_CHECK(log.all<events::machine_replaced>().empty());
}

CAF_TEST(other steps under a new version are let in) {
  auto a = start(options({machine}));
  auto next = longer();
  next.version = 2;
  auto b = start(options({machine, next}, "b"));
  CAF_CHECK(log.wait_for<events::node_started>(2));
}

CAF_TEST(where no node lives that differs new steps replace the old ones) {
  {
    auto a = start(options({machine}));
    CAF_REQUIRE(log.wait_for<events::node_started>());
  }
  auto b = start(options({longer()}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_started>(2));
  auto told = log.all<events::machine_replaced>();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(told.front().machine, "Probe v1");
  CAF_CHECK_EQUAL(told.front().before, "first|second|third");
  CAF_CHECK_EQUAL(told.front().now, "first|second|third|fourth");
  CAF_CHECK_EQUAL(steps(), "first|second|third|fourth");
  CAF_CHECK(log.all<events::disconnected>().empty());
}

CAF_TEST(who starts at once after a kill waits until the server has noticed) {
  auto killed = std::make_unique<session>(add_node("ghost/0", longer_json));
  auto a = start(options({machine}));
  CAF_REQUIRE(log.wait_for<events::disconnected>());
  CAF_CHECK(contains(log.all<events::disconnected>().front().why.message,
                     "ghost (host host-7, process 4711)"));
  killed.reset();
  CAF_CHECK(log.wait_for<events::node_started>());
  CAF_CHECK(log.all<events::node_failed>().empty());
}

CAF_TEST(
  what anybody writes into the rows of nodes keeps nobody from starting) {
  std::vector<session> ghosts;
  for (const auto& junk :
       {"{}"s, "\"x\""s, "[1, null, [], {\"name\": \"Probe\"}]"s,
        "[{\"name\": \"Probe\", \"version\": 1e1000}]"s,
        "[{\"name\": \"Other\", \"version\": 1, \"steps\": 5}]"s})
    ghosts.push_back(add_node("ghost/" + std::to_string(ghosts.size()), junk));
  auto a = start(options({machine}));
  CAF_CHECK(log.wait_for<events::node_started>());
}

CAF_TEST(of two that start together with different steps one is refused) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec(machines_lock);
  auto a = start(options({machine}));
  auto b = start(options({longer()}, "b"));
  db.wait_until("select count(*) from pg_locks where locktype = 'advisory' and "
                "not granted and database = (select oid from pg_database where "
                "datname = current_database())",
                "2");
  stranger.exec("commit");
  CAF_REQUIRE(log.wait_for<events::node_failed>());
  CAF_REQUIRE(log.wait_for<events::node_started>());
  CAF_CHECK(a.failed().has_value() != b.failed().has_value());
}

CAF_TEST(nothing is picked before the machines are compared) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec(machines_lock);
  insert(1);
  auto a = start(options({machine}));
  stranger.wait_until_someone_is_blocked();
  CAF_CHECK(log.all<events::connected>().empty());
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  stranger.exec("commit");
  wait_until_count("status = 'done'", 1);
}

CAF_TEST(another queue or first step is told and the last start counts) {
  {
    auto a = start(options({machine}));
    CAF_REQUIRE(log.wait_for<events::node_started>());
  }
  gd::machine moved = machine;
  moved.queue = "slow";
  moved.initial_step = "second";
  auto b = start(options({moved}, "b"));
  CAF_REQUIRE(log.wait_for<events::node_started>(2));
  auto told = log.all<events::machine_changed>();
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(told.front().before, "step first, queue default, no history");
  CAF_CHECK_EQUAL(told.front().now, "step second, queue slow, no history");
  CAF_CHECK(log.all<events::machine_replaced>().empty());
  CAF_CHECK_EQUAL(db.scalar("select initial_step || ' ' || queue from "
                            "gen_durable_machines"),
                  "second slow");
}

CAF_TEST(another choice of history is told and the last start counts) {
  auto keeps = [this](gd::history what, std::optional<std::chrono::hours> how) {
    gd::machine x = machine;
    x.history = what;
    x.history_keep = how;
    return x;
  };
  std::size_t starts = 0;
  for (const auto& x :
       {keeps(gd::history::none, {}), keeps(gd::history::steps, {}),
        keeps(gd::history::with_state, 24h), keeps(gd::history::with_state, 2h),
        keeps(gd::history::with_state, 2h)}) {
    auto a = start(options({x}));
    CAF_REQUIRE(log.wait_for<events::node_started>(++starts));
  }
  auto told = log.all<events::machine_changed>();
  std::string all;
  for (const auto& x : told)
    all += x.before.substr(x.before.rfind(", ") + 2) + " -> "
           + x.now.substr(x.now.rfind(", ") + 2) + "\n";
  CAF_CHECK_EQUAL(
    all, "no history -> history of steps\n"
         "history of steps -> history of steps and states for 86400 s\n"
         "history of steps and states for 86400 s -> history of steps "
         "and states for 7200 s\n");
  CAF_CHECK(log.all<events::machine_replaced>().empty());
}

// -- what is served -----------------------------------------------------------

CAF_TEST(a version is served from the start of a node until its stop) {
  const std::string served = "select served from gen_durable_machines";
  {
    auto a = start(options({machine}));
    CAF_REQUIRE(log.wait_for<events::node_started>());
    CAF_CHECK_EQUAL(db.scalar(served), "t");
  }
  CAF_CHECK_EQUAL(db.scalar(served), "f");
  CAF_CHECK_EQUAL(
    db.scalar("select last_served > now() - interval '1 min' from "
              "gen_durable_machines"),
    "t");
}

CAF_TEST(what a node served that has died is not served any more) {
  auto ghost = std::make_unique<session>(add_node(
    "ghost/0", R"([{"name": "Gone", "version": 2, "steps": ["first"]}])"));
  db.rows(
    "insert into gen_durable_machines (fsm, version, initial_step, queue, "
    "steps) values ('Gone', 2, 'first', 'default', '{first}')");
  auto a = start(options({machine}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  const std::string served
    = "select served from gen_durable_machines where fsm = 'Gone'";
  CAF_CHECK_EQUAL(db.scalar(served), "t");
  ghost.reset();
  db.wait_until(served, "f"); // by a sweep
}

CAF_TEST(a start after a kill marks at once what is not served any more) {
  {
    auto ghost = add_node("ghost/0", longer_json);
    db.rows("insert into gen_durable_machines (fsm, version, initial_step, "
            "queue, steps, served) values ('Probe', 2, 'first', 'default', "
            "'{first}', true)");
  }
  auto x = options({machine});
  x.reaper = 1h;
  auto a = start(std::move(x));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  CAF_CHECK_EQUAL(db.scalar("select string_agg(version::text, ' ') from "
                            "gen_durable_machines where served"),
                  "1");
}

CAF_TEST(a queue or version that nobody serves is warned of at the start) {
  insert(1, "Probe", "first", 2);
  auto x = options({machine});
  x.queues = {{.name = "elsewhere"}};
  auto a = start(std::move(x));
  CAF_REQUIRE(log.wait_for<events::queue_not_served>());
  CAF_REQUIRE(log.wait_for<events::version_not_served>());
  auto queue = log.all<events::queue_not_served>().front();
  auto version = log.all<events::version_not_served>().front();
  CAF_CHECK_EQUAL(queue.machine, "Probe v1");
  CAF_CHECK_EQUAL(queue.queue, "default");
  CAF_CHECK_EQUAL(version.machine, "Probe v2");
  CAF_CHECK(gd::level_of(queue) == gd::severity::warning);
}

// -- who comes back -----------------------------------------------------------

CAF_TEST(a node that returns to other steps withdraws the machine) {
  gd::machine other = machine.named("Other", 1);
  auto known = std::make_shared<gd::registry>(
    std::vector<gd::machine>{machine, other});
  int told = 0;
  registration mine{{.incarnation = "a/0",
                     .node = "a",
                     .lease = 60s,
                     .machines = gd::store::known({machine, other})},
                    known,
                    [&told] { ++told; }};
  auto say = [&] {
    std::vector<gd::event> heard;
    auto on = connect();
    CAF_REQUIRE(mine.heard(control, on->run(mine.greeting(control, 1s)),
                           gd::database::clock::now(), heard));
    return heard;
  };
  CAF_CHECK(say().empty());
  CAF_CHECK(say().empty());
  {
    auto b = start(options({longer()}, "b"));
    CAF_REQUIRE(log.wait_for<events::node_started>());
    CAF_CHECK_EQUAL(log.all<events::machine_replaced>().size(), 1u);
  }
  auto heard = say();
  CAF_REQUIRE_EQUAL(heard.size(), 1u);
  auto* what = std::get_if<events::machine_withdrawn>(&heard.front());
  CAF_REQUIRE(what);
  CAF_CHECK_EQUAL(what->machine, "Probe v1");
  CAF_CHECK_EQUAL(what->now, "first|second|third|fourth");
  CAF_CHECK_EQUAL(told, 1);
  CAF_CHECK(!known->find("Probe", 0));
  CAF_CHECK(known->find_any("Probe", 1));
  CAF_CHECK(known->find("Other", 1));
  CAF_MESSAGE("once, and the steps stay as they are");
  CAF_CHECK(say().empty());
  CAF_CHECK_EQUAL(steps(), "first|second|third|fourth");
  CAF_CHECK_EQUAL(db.scalar("select jsonb_array_length(machines) from "
                            "gen_durable_nodes where incarnation = 'a/0'"),
                  "1");
}

CAF_TEST(a withdrawn machine is picked no more and the others are) {
  auto a = start(options({machine, machine.named("Other", 1)}));
  CAF_REQUIRE(log.wait_for<events::node_started>());
  db.rows("update gen_durable_machines set steps = '{first}' where fsm = "
          "'Probe'");
  CAF_REQUIRE(log.wait_for<events::machine_withdrawn>()); // by a beat
  insert(3);
  insert(1, "Other");
  wait_until_count("status = 'done' and fsm = 'Other'", 1);
  CAF_CHECK_EQUAL(count("status = 'runnable' and fsm = 'Probe'"), "3");
  CAF_CHECK(log.exactly<events::machine_withdrawn>(1));
}

CAF_TEST_FIXTURE_SCOPE_END()

CAF_TEST_FIXTURE_SCOPE(withdrawal_tests, picker_fixture)

CAF_TEST(what has not begun of a withdrawn machine goes back) {
  machine.first = [this](probe_context&) {
    sched.clock().current_time += 1s;
    return gd::done();
  };
  insert(50);
  auto picker = spawn_picker({"default", 2, 20});
  db->run_one(); // the pick; its rows wait
  CAF_CHECK_NOT_EQUAL(count("status = 'executing'"), "0");
  home->machines->withdraw("Probe", 1);
  anon(picker, machines_withdrawn{});
  sched.run();
  finish_all();
  CAF_CHECK_EQUAL(count("status = 'executing'"), "0");
  CAF_CHECK_EQUAL(
    count("status = 'runnable' and attempt = 0"),
    std::to_string(50 - log.all<events::step_committed>().size()));
}

CAF_TEST(a version that nobody serves is warned of as long as it is so) {
  prepare();
  home->config.reaper = 10s;
  home->config.jitter = 0;
  db->since = sched.clock().now() - 1h;
  insert(1);
  actors.push_back(sys.spawn<reaper_actor>(home));
  sched.run();
  auto pass_minutes = [this](int count) {
    for (int i = 0; i < 6 * count; ++i)
      pass(10s);
    return log.all<events::version_not_served>().size();
  };
  // At once, and after one, two and four minutes more.
  CAF_CHECK_EQUAL(pass_minutes(1), 1u);
  CAF_CHECK_EQUAL(pass_minutes(1), 2u);
  CAF_CHECK_EQUAL(pass_minutes(2), 3u);
  CAF_CHECK_EQUAL(pass_minutes(4), 4u);
  rows.rows("update gen_durable set status = 'done'");
  CAF_CHECK_EQUAL(pass_minutes(60), 4u);
}

CAF_TEST(a stranger who holds the lock of the machines holds up no sweep) {
  prepare();
  home->config.reaper = 10s;
  home->config.jitter = 0;
  db->since = sched.clock().now() - 1h;
  session stranger{rows.conninfo()};
  stranger.exec("begin");
  stranger.exec(machines_lock);
  insert(1);
  rows.rows("update gen_durable set status = 'executing', locked_by = 'b/0/1', "
            "lease_expires_at = now() - interval '1 s'");
  actors.push_back(sys.spawn<reaper_actor>(home));
  sched.run();
  pass(10s);
  pass(10s);
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  CAF_CHECK(log.all<events::sweep_failed>().empty());
  CAF_CHECK(log.all<events::version_not_served>().empty());
  stranger.exec("rollback");
  pass(10s);
  CAF_CHECK_EQUAL(log.all<events::version_not_served>().size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace deploys_suite
