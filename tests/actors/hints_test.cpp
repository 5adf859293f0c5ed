#define CAF_SUITE hints

// What a node leaves, others hear of at once: step by step on the simulated clock, and
// in engines that find rows by nothing else.

#include "actors/network.hpp"
#include "actors/stepped.hpp"
#include "support/process.hpp"
#include "support/secret.hpp"

#include <gd/actors/remote.hpp>
#include <gd/network/server/hints.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hints_suite {

using namespace std::literals;
using namespace gd::test;
using namespace gd::actors;
namespace events = gd::events;

namespace {

/// Hints that are told, and heard, by a node of which the others are made up.
struct hints_fixture : picker_fixture {
  session others{rows.conninfo()};
  caf::actor hints;
  /// Who answers at an address.
  std::map<std::string, caf::actor> handles;
  /// Addresses that were tried.
  std::vector<std::string> tried;
  /// What has been told, by address.
  std::map<std::string, std::vector<std::string>> heard;
  /// What was not answered.
  std::vector<caf::response_promise> open;

  hints_fixture() {
    home->config.poll = 1h;
    home->config.queues = {{"default", 1, 0}};
    prepare();
    home->known_as = std::make_shared<registration>(gd::store::node_record{
      .incarnation = home->incarnation, .host = "here", .lease = 60s});
    hints = sys.spawn<hints_actor>(
      home, [this](const std::string& address, auto tell) {
        tried.push_back(address);
        auto at = handles.find(address);
        if (at != handles.end() && at->second)
          tell(held_gateway{caf::actor_cast<gateway>(at->second), nullptr});
        else
          tell(gd::error{gd::errc::unavailable, "nobody is there", {}});
      });
    actors.push_back(hints);
    home->children.set(role::hints, {}, hints);
    sched.run();
  }

  ~hints_fixture() {
    home->children.clear();
    handles.clear();
    open.clear();
  }

  /// A node that lives.
  void add_node(const std::string& name, const std::string& address,
                const std::string& queue = "mail",
                const std::string& host = "here") {
    rows.rows("insert into gen_durable_nodes (incarnation, node, host, "
              "process, library, lease, slots, queues, machines, address) "
              "values ($1, $1, $2, 1, '', '1 minute', 1, "
              "jsonb_build_array(jsonb_build_object('name', $3::text)), '[]', "
              "nullif($4, ''))",
              {name, host, queue, address});
    others.exec(
      "select pg_advisory_lock(hashtext('gen_durable node'), hashtext('" + name
      + "'))");
  }

  /// Its gateway, which answers, or says nothing.
  void add_gateway(const std::string& address, bool answers = true) {
    handles[address] = sys.spawn(
      [this, address, answers](caf::event_based_actor* me) -> caf::behavior {
        if (!answers)
          return {[this, me, address](const node_hint&) {
            heard[address].push_back("unanswered");
            open.push_back(me->make_response_promise());
            return open.back();
          }};
        return {[this, address](const node_hint& x) {
          std::string text;
          for (const auto& queue : x.queues)
            text += queue + (x.anywhere ? "* " : " ");
          for (auto id : x.awaited)
            text += x.sender + " awaits " + std::to_string(id) + ' ';
          for (auto id : x.ended)
            text += std::to_string(id) + " has ended ";
          heard[address].push_back(text);
          return hint_noted{};
        }};
      });
    actors.push_back(handles[address]);
    sched.run();
  }

  void finish() {
    sched.run();
    finish_all();
  }

  void leave(const std::string& queue = "mail", bool anywhere = false) {
    home->wake({queue}, anywhere);
    finish();
  }

  std::size_t told(const std::string& address) {
    return heard[address].size();
  }
};

/// Engines that find no rows by themselves.
struct hints_engines : engine_fixture {
  network_config cfg_b;
  caf::actor_system sys_b{cfg_b};
  network_config cfg_a;
  caf::actor_system sys_a{cfg_a};
  event_log log_b;

  gd::config deaf(gd::machine what, const std::string& node,
                  const std::string& queue) {
    auto how = options({std::move(what)}, node);
    how.poll = 1h;
    how.probe = 0ms;
    how.queues = {{queue, 1, 0}};
    return how;
  }

  static engine run(caf::actor_system& where, gd::config how) {
    auto x = gd::actors::start(where, std::move(how));
    if (!x)
      throw std::runtime_error(to_string(x.error()));
    return std::move(*x);
  }

  /// At a port, as the process that a test stops is: by one secret.
  void open(engine& x) {
    auto port = publish(x, {.port = 0, .secret = port_secret()});
    if (!port)
      throw std::runtime_error(to_string(port.error()));
  }

  /// One hint may be lost where the machine is slow; not all of them.
  void wait_until_done(const engine& by, int rows) {
    auto done = [&] {
      return count("status = 'done'") == std::to_string(rows);
    };
    for (auto give_up = std::chrono::steady_clock::now() + patience;
         !done() && std::chrono::steady_clock::now() < give_up;)
      inside(by)->leave_to_others("default", false);
    CAF_REQUIRE(done());
  }

  void wait_until_published(int nodes) {
    db.wait_until("select count(*) from gen_durable_nodes where address like "
                  "'127.0.0.1:%'",
                  std::to_string(nodes));
  }

  gd::result<gd::inserted> insert_by(const engine& x, gd::insert what) {
    caf::scoped_actor self{sys_a};
    gd::result<gd::inserted> answer = gd::error{};
    self->request(x.gateway(), patience, std::move(what))
      .receive([&](gd::inserted& y) { answer = y; },
               [&](caf::error& why) { answer = from_caf(sys_a, why); });
    return answer;
  }
};

} // namespace

// -- step by step -------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE(hint_tests, hints_fixture)

CAF_TEST(what nobody here serves is told to whoever does) {
  add_node("b", "there:1");
  add_node("c", "there:2", "other");
  add_gateway("there:1");
  add_gateway("there:2");
  leave();
  CAF_CHECK_EQUAL(heard["there:1"], std::vector{"mail "s});
  leave("other", true);
  CAF_CHECK_EQUAL(heard["there:2"], std::vector{"other* "s});
  CAF_CHECK_EQUAL(told("there:1"), 1u);
  leave("nobody's");
  CAF_CHECK_EQUAL(told("there:1") + told("there:2"), 2u);
}

CAF_TEST(only nodes that live and say where are told) {
  add_node("a/0", "there:0"); // itself
  add_node("b", "");
  add_node("c", "there:1");
  add_node("d", "there:2", "mail", "elsewhere");
  add_node("e", "there:3\ntunnel:3", "mail", "elsewhere");
  add_node("f", "there:4\ntunnel:4");
  others.exec("select pg_advisory_unlock(hashtext('gen_durable node'), "
              "hashtext('c'))");
  leave();
  for (int i = 0; i < 3; ++i)
    pass(0ms);
  CAF_CHECK_EQUAL((std::set<std::string>{tried.begin(), tried.end()}),
                  (std::set{"tunnel:3"s, "there:4"s}));
}

CAF_TEST(who has nothing to tell asks nothing) {
  add_node("b", "there:1");
  add_gateway("there:1");
  auto before = db->submitted;
  pass(1h);
  CAF_CHECK_EQUAL(db->submitted, before);
  home->wake({"default"}, false); // no picker is there: told to others
  finish();
  CAF_CHECK_EQUAL(db->submitted, before + 1);
  pass(1h);
  CAF_CHECK_EQUAL(db->submitted, before + 1);
  CAF_CHECK_EQUAL(told("there:1"), 0u);
}

CAF_TEST(a storm is told once at once and once when its window is over) {
  add_node("b", "there:1");
  add_gateway("there:1");
  leave();
  pass(hint_window);
  for (int i = 0; i < 1'000; ++i)
    leave();
  CAF_CHECK_EQUAL(told("there:1"), 2u);
  pass(hint_window);
  CAF_CHECK_EQUAL(told("there:1"), 3u);
  pass(1min);
  CAF_CHECK_EQUAL(told("there:1"), 3u);
}

CAF_TEST(a node that does not answer gets one hint and holds up nobody) {
  add_node("b", "there:1");
  add_node("c", "there:2");
  add_gateway("there:1", false);
  add_gateway("there:2");
  for (int i = 0; i < 100; ++i) {
    leave();
    pass(hint_window);
  }
  CAF_CHECK_EQUAL(told("there:2"), 100u);
  CAF_CHECK_EQUAL(told("there:1"), 1u);
  // It is tried again, after longer and longer pauses.
  pass(1s);
  for (int i = 0; i < 200; ++i) {
    leave();
    pass(500ms);
  }
  CAF_CHECK_EQUAL(told("there:2"), 300u);
  CAF_CHECK_GREATER(told("there:1"), 3u);
  CAF_CHECK_LESS(told("there:1"), 10u);
}

CAF_TEST(a dead address is tried less and less and holds up nobody) {
  add_node("b", "there:1");
  add_node("c", "there:2");
  add_gateway("there:2");
  for (int i = 0; i < 200; ++i) {
    leave();
    pass(500ms);
  }
  CAF_CHECK_EQUAL(told("there:2"), 200u);
  auto tries = std::count(tried.begin(), tried.end(), "there:1");
  CAF_CHECK_GREATER(tries, 3);
  CAF_CHECK_LESS(tries, 10);
}

CAF_TEST(nodes come and go) {
  add_node("b", "there:1");
  add_gateway("there:1");
  add_gateway("there:2");
  leave();
  CAF_CHECK_EQUAL(told("there:1"), 1u);
  rows.rows("delete from gen_durable_nodes");
  add_node("c", "there:2");
  pass(5s);
  leave();
  CAF_CHECK_EQUAL(told("there:2"), 1u);
  pass(hint_window);
  auto before = told("there:1");
  leave();
  CAF_CHECK_EQUAL(told("there:1"), before);
  CAF_CHECK_EQUAL(told("there:2"), 2u);
}

CAF_TEST(what is heard costs one pick per window whatever is said) {
  home->children.set(role::picker, "default", spawn_picker({"default", 1, 0}));
  finish();
  auto hear = [this](const std::string& queue) {
    anon(hints, node_hint{{queue, "x", queue}, false});
  };
  auto picks = [this] {
    sched.run();
    std::string units;
    while (db->waiting()) {
      units += db->next();
      turn();
    }
    std::size_t n = 0;
    for (auto at = units.find("gd_pick"); at != units.npos;
         at = units.find("gd_pick", at + 1))
      ++n;
    return n;
  };
  hear("default");
  CAF_CHECK_EQUAL(picks(), 1u);
  for (int i = 0; i < 1'000; ++i)
    hear("default");
  CAF_CHECK_EQUAL(picks(), 0u);
  sched.advance_time(hint_window);
  CAF_CHECK_EQUAL(picks(), 1u);
  sched.advance_time(1min);
  CAF_CHECK_EQUAL(picks(), 0u);
  for (int i = 0; i < 1'000; ++i)
    hear("another");
  CAF_CHECK_EQUAL(picks(), 0u);
  insert(1);
  hear("default");
  picks();
  CAF_CHECK_EQUAL(count("status = 'done'"), "1");
  // What is heard is not told again.
  CAF_CHECK(tried.empty());
}

CAF_TEST(an end that another node awaits is told once by whoever sees it) {
  add_node("b", "there:1");
  add_gateway("there:1");
  caf::anon_send(hints, ends_awaited{{7}});
  finish();
  CAF_CHECK_EQUAL(heard["there:1"],
                  std::vector{home->incarnation + " awaits 7 "});
  pass(10ms);
  caf::anon_send(hints, node_hint{.awaited = {8, 9}, .sender = "b"});
  finish();
  CAF_CHECK(home->anybody_awaits(8) && home->anybody_awaits(9));
  CAF_CHECK(!home->anybody_awaits(7));
  for (int i = 0; i < 2; ++i) {
    home->see_end({.id = 8, .status = "done"});
    finish();
    CAF_CHECK_EQUAL(told("there:1"), 2u);
  }
  CAF_CHECK_EQUAL(heard["there:1"].back(), "8 has ended ");
  CAF_CHECK(!home->anybody_awaits(8));
}

CAF_TEST(ends that are wanted are forgotten when they are old or too many) {
  gd::awaited_ids watched;
  wanted_ends wanted{watched};
  auto now = gd::database::clock::time_point{} + 24h;
  for (int id = 1; id <= 20'000; ++id)
    wanted.add(id, "b", now);
  CAF_CHECK(wanted.take(1).empty());
  CAF_CHECK(!watched.contains(1));
  CAF_CHECK_EQUAL(wanted.take(19'999).size(), 1u);
  wanted.add(20'000, "c", now);
  CAF_CHECK_EQUAL(wanted.take(20'000).size(), 2u);
  wanted.add(1, "b", now += 10min);
  wanted.add(2, "b", now += 10min);
  CAF_CHECK(watched.contains(1) && watched.contains(2));
  wanted.add(3, "b", now += 10min);
  CAF_CHECK(!watched.contains(1));
  CAF_CHECK_EQUAL(wanted.take(2).size(), 1u);
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- engines ------------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE(hint_engine_tests, hints_engines)

CAF_TEST(what one node inserts another runs that finds it by hints alone) {
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  auto b = run(sys_b, deaf(probe{}, "b", "default"));
  open(a);
  open(b);
  wait_until_published(2);
  for (int i = 1; i <= 20; ++i) {
    CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
    wait_until_done(a, i);
  }
  b.stop();
  wait_until_published(1);
}

CAF_TEST(an end at another node is told by a hint alone) {
  probe waits;
  waits.first = [](probe_context& ctx) -> gd::outcome {
    if (!ctx.take<word>("go"))
      return gd::await("go", ctx.state);
    return gd::done(word{"well"});
  };
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  auto b = run(sys_b, deaf(waits, "b", "default"));
  open(a);
  open(b);
  wait_until_published(2);
  std::string how;
  // One hint may be lost where the machine is slow; not all of them.
  for (int id = 1; id <= 20 && how.empty(); ++id) {
    auto made = insert_by(a, {.fsm = "Probe"});
    CAF_REQUIRE(made);
    auto in = [&](const char* status) {
      return count("status = '"s + status
                   + "' and id = " + std::to_string(made->id))
             == "1";
    };
    while (!in("awaiting_signal"))
      inside(b)->wake_all();
    caf::scoped_actor self{sys_a};
    auto end = self->request(
      a.gateway(), patience,
      gd::await_result{.id = made->id, .within_us = 5'000'000});
    auto give_up = std::chrono::steady_clock::now() + 2s;
    while (!inside(b)->anybody_awaits(made->id)
           && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
    self->send(a.gateway(), gd::signal{.target = made->id, .name = "go"});
    while (!in("done"))
      inside(b)->wake_all();
    end.receive([&](gd::awaited& x) { how = x.status + x.result->text(); },
                [](caf::error&) {});
  }
  CAF_CHECK_EQUAL(how, R"(done{"text": "well"})");
}

CAF_TEST(a node whose slots are taken leaves what comes to others) {
  gate busy;
  probe slow;
  slow.first = [&busy](probe_context&) {
    busy.pass();
    return gd::done();
  };
  auto a = run(sys_a, deaf(slow, "a", "default"));
  open(a);
  CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
  CAF_REQUIRE(busy.wait_for(1));
  auto b = run(sys_b, deaf(probe{}, "b", "default"));
  open(b);
  wait_until_published(2);
  for (int i = 1; i <= 5; ++i) {
    CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
    wait_until_done(a, i);
  }
  busy.open();
  wait_until_count("status = 'done'", 6);
}

CAF_TEST(without hints all is found as before) {
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  auto how = deaf(probe{}, "b", "default");
  how.probe = 50ms;
  auto b = run(sys_b, std::move(how));
  open(a);
  open(b);
  wait_until_published(2);
  inside(a)->children.set(role::hints, {}, nullptr); // nobody tells it
  for (int i = 1; i <= 3; ++i) {
    CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
    wait_until_count("status = 'done'", i);
  }
}

CAF_TEST(who exchanges hints is started again when it crashes) {
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  auto b = run(sys_b, deaf(probe{}, "b", "default"));
  open(a);
  open(b);
  wait_until_published(2);
  auto before = inside(a)->children.find(role::hints);
  CAF_REQUIRE(before);
  caf::anon_send_exit(before, caf::exit_reason::kill);
  CAF_REQUIRE(log.wait_for<gd::events::actor_restarted>());
  // It is told when it begins to wait.
  auto give_up = std::chrono::steady_clock::now() + patience;
  while (inside(a)->children.find(role::hints) == before
         && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  CAF_REQUIRE(inside(a)->children.find(role::hints) != before);
  CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
  wait_until_done(a, 1);
}

CAF_TEST(a node that is not published tells and hears nothing) {
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  CAF_CHECK(!inside(a)->children.find(role::hints));
  CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
  CAF_CHECK_EQUAL(db.scalar("select count(address) from gen_durable_nodes"),
                  "0");
}

CAF_TEST(a process that is stopped holds up neither the sender nor the others) {
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  auto b = run(sys_b, deaf(probe{}, "b", "default"));
  open(a);
  open(b);
  process frozen{{GD_TEST_WORKER, db.conninfo(), "c", "published"}};
  wait_until_published(3);
  auto go_round = [&](int from, int to) {
    for (int i = from; i <= to; ++i) {
      CAF_REQUIRE(insert_by(a, {.fsm = "Probe"}));
      wait_until_done(a, i);
    }
  };
  go_round(1, 20);
  frozen.send(SIGSTOP);
  go_round(21, 200);
  frozen.send(SIGCONT);
  go_round(201, 220);
}

CAF_TEST(what is advertised is the end of a tunnel of the same kind) {
  auto a = run(sys_a, deaf(probe{}, "a", "other"));
  for (const auto* bad :
       {"10.0.0.1:4711", "127.0.0.1", "127.0.0.1:0", "x:1",
        "127.0.0.1:1 127.0.0.1:2", "127.0.0.1:65536", "unix:/a"}) {
    auto refused = publish(
      a, {.port = 0, .secret = port_secret(), .advertise = bad});
    CAF_REQUIRE(!refused);
    CAF_CHECK(refused.error().message.find(bad) != std::string::npos);
  }
  for (const auto* bad : {"127.0.0.1:4711", "unix:", "/tmp/a"}) {
    auto refused = publish(a, {.socket = "/nowhere", .advertise = bad});
    CAF_REQUIRE(!refused);
    CAF_CHECK_EQUAL(refused.error().message,
                    "publish: expected unix:<path> to be advertised, the end "
                    "of a tunnel to a socket, got \""
                      + std::string{bad} + "\"");
  }
  CAF_REQUIRE(publish(
    a, {.port = 0, .secret = port_secret(), .advertise = "127.0.0.1:4711"}));
  db.wait_until("select count(*) from gen_durable_nodes where address like "
                "E'127.0.0.1:%\\n127.0.0.1:4711'",
                "1");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace hints_suite
