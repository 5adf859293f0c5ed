#define CAF_SUITE supervisor

#include "actors/harness.hpp"

#include <gd/actors/engine/supervisor.hpp>
#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/node/node.hpp>
#include <gd/pq/reactor.hpp>

#include <caf/test/unit_test.hpp>

#include <future>

namespace supervisor_suite {

using namespace gd::test;
using namespace gd::actors;
namespace events = gd::events;

namespace {

/// An engine taken apart, so that its actors can be got at.
struct supervisor_fixture : engine_fixture {
  gate inside;
  node_ptr home = std::make_shared<node>();
  std::shared_ptr<engine_end> end = std::make_shared<engine_end>();
  gateway backend;
  gateway gateway_handle;
  caf::actor supervisor;

  supervisor_fixture() {
    probe machine;
    machine.second = [this](probe_context&) {
      inside.pass();
      return gd::done();
    };
    home->config = options({machine});
    home->machines = std::make_shared<gd::registry>(home->config.machines);
    home->incarnation = gd::make_incarnation("a");
    home->known_as = std::make_shared<registration>(
      gd::store::node_record{
        .incarnation = home->incarnation, .node = "a", .lease = 60s},
      home->machines);
    home->db = std::make_shared<gd::reactor>(home->config.connection_options(),
                                             4, log.sink(), [](gd::error) {});
    end->on_failure = [](const gd::error&) {};
    auto first = sys.spawn<gateway_backend>(home);
    backend = first;
    gateway_handle = sys.spawn<gateway_server>(home, first);
    supervisor = sys.spawn<supervisor_actor>(
      home, caf::actor_cast<caf::actor>(gateway_handle),
      caf::actor_cast<caf::actor>(first), end);
  }

  ~supervisor_fixture() {
    anon(supervisor, drain{1s});
    supervisor = nullptr;
    end->ended.get_future().wait();
    std::static_pointer_cast<gd::reactor>(home->db)->stop();
    home->children.clear();
    backend = nullptr;
    gateway_handle = nullptr;
  }

  gd::result<gd::inserted> insert_one() {
    caf::scoped_actor self{sys};
    gd::result<gd::inserted> answer = gd::error{};
    self->request(gateway_handle, patience, gd::insert{.fsm = "Probe"})
      .receive([&](gd::inserted x) { answer = x; },
               [&](caf::error& why) { answer = from_caf(sys, why); });
    return answer;
  }

  void kill(const caf::actor& x) {
    caf::anon_send_exit(x, caf::exit_reason::kill);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(supervisor_tests, supervisor_fixture)

CAF_TEST(
  a killed picker is started again and its rows come back with their leases) {
  CAF_REQUIRE(insert_one());
  wait_until_count("status = 'done'", 1);
  kill(home->children.find(role::picker, "default"));
  CAF_REQUIRE(log.wait_for<events::actor_restarted>());
  insert(100);
  wait_until_count("status = 'done'", 101);
}

CAF_TEST(the rows of a pick on its way when its picker is killed are released) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable in access exclusive mode");
  db.wait_until("select count(*) from pg_stat_activity where datname = "
                "current_database() and wait_event_type = 'Lock' and query "
                "like '%Takes a lease on the most urgent%'",
                "1");
  kill(home->children.find(role::picker, "default"));
  CAF_REQUIRE(log.wait_for<events::actor_restarted>());
  stranger.exec("insert into gen_durable (fsm, step) select 'Probe', 'first' "
                "from generate_series(1, 10)");
  stranger.exec("commit");
  wait_until_count("status = 'done' and attempt = 0", 10);
}

CAF_TEST(a killed picker keeps no key and its row comes back with the lease) {
  db.rows("insert into gen_durable (fsm, step, partition_key) values ('Probe', "
          "'second', 'k'), ('Probe', 'first', 'k')");
  CAF_REQUIRE(inside.wait_for(1));
  kill(home->children.find(role::picker, "default"));
  CAF_REQUIRE(log.wait_for<events::actor_restarted>());
  db.wait_until(count_locks, "0");
  inside.open();
  wait_until_count("status = 'executing'", 1);
  wait_until_count("status = 'runnable'", 1); // behind the one that executes
  db.rows("update gen_durable set lease_expires_at = clock_timestamp() where "
          "status = 'executing'");
  wait_until_count("status = 'done'", 2);
  db.wait_until(count_locks, "0");
}

CAF_TEST(a node that stops is not made known again by a beat on its way) {
  const std::string known = "select count(*) from gen_durable_nodes";
  constexpr std::size_t connection_slot = 3;
  auto run = [&](std::size_t on, gd::pq::unit work) {
    home->db->submit(
      on, std::move(work), [](const gd::pq::reply&) {},
      gd::database::clock::duration::max());
  };
  db.rows("insert into gen_durable (fsm, step, eligible_at) values ('Probe', "
          "'first', now() + interval '1 day')");
  run(0, home->known_as->beat(0, 100ms));
  db.wait_until(known, "1");
  // A connection slot has work that a stranger holds up, and a beat waits behind it.
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable for update");
  auto id = std::stoll(db.scalar("select id from gen_durable"));
  run(connection_slot, {{gd::store::lock_timeout(30s), gd::store::lock({id})}});
  stranger.wait_until_someone_is_blocked();
  run(connection_slot, home->known_as->beat(connection_slot, 100ms));
  anon(supervisor, drain{1s});
  db.wait_until(known, "0");
  stranger.exec("rollback");
  std::promise<void> behind;
  home->db->submit(
    connection_slot, {{gd::store::schema_version()}, false},
    [&behind](const gd::pq::reply&) { behind.set_value(); },
    gd::database::clock::duration::max());
  behind.get_future().wait();
  db.wait_until(known, "0");
}

CAF_TEST(a stop answers what has been asked and waits for a lock in the database) {
  db.rows("insert into gen_durable (fsm, step, status, awaits) values ("
          "'Probe', 'first', 'awaiting_signal', 'go')");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable for update");
  auto answer = std::async(std::launch::async, [this] {
    gd::result<gd::signalled> got = gd::error{};
    caf::scoped_actor self{sys};
    self
      ->request(gateway_handle, patience, gd::signal{.target = 1, .name = "go"})
      .receive([&](gd::signalled x) { got = x; },
               [&](caf::error& why) { got = from_caf(sys, why); });
    return got;
  });
  stranger.wait_until_someone_is_blocked();
  anon(supervisor, drain{1s});
  while (auto another = insert_one())
    ;
  stranger.exec("rollback");
  CAF_CHECK(answer.get());
  CAF_CHECK_EQUAL(count("status = 'awaiting_signal'"), "0");
}

CAF_TEST(a killed gateway backend is started again behind the same handle) {
  CAF_REQUIRE(insert_one());
  kill(caf::actor_cast<caf::actor>(backend));
  CAF_REQUIRE(log.wait_for<events::actor_restarted>());
  auto answer = insert_one();
  while (!answer) { // while it is being restarted
    CAF_CHECK(retryable(answer.error().code));
    answer = insert_one();
  }
  wait_until_count("status = 'done'", 2);
}

CAF_TEST(a request that the dying gateway had taken is answered) {
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable in exclusive mode");
  caf::scoped_actor self{sys};
  auto request = self->request(gateway_handle, patience,
                               gd::insert{.fsm = "Probe"});
  stranger.wait_until_someone_is_blocked();
  kill(caf::actor_cast<caf::actor>(backend));
  bool refused = false;
  request.receive([](gd::inserted) {},
                  [&](caf::error& why) {
    refused = from_caf(sys, why).code == gd::errc::unknown_fate;
  });
  CAF_CHECK(refused);
  stranger.exec("rollback");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace supervisor_suite
