// A gateway's client beside nodes that are processes of their own, over a network that holds
// and cuts: what it tells of each request is what the tables show.

#define CAF_SUITE reach

#include "actors/network.hpp"
#include "actors/published_node.hpp"
#include "support/plain_socket.hpp"
#include "support/relay.hpp"
#include "support/words.hpp"

#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>

#include <caf/test/unit_test.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace reach_suite {

using namespace gd::test;

namespace {

/// Orders: under TSan a tenth of them takes as long.
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t many = 200;
#else
constexpr std::size_t many = 2'000;
#endif

using gd::errc;
using gd::actors::reach_options;
using gd::actors::send_again;
namespace events = gd::events;

/// A client, its network, and nobody.
struct lonely_fixture {
  event_log log;
  network_config cfg;
  caf::actor_system sys{cfg};
  relay net;
  std::optional<gd::actors::remote_gateway> remote;

  lonely_fixture() {
    std::signal(SIGPIPE, SIG_IGN);
  }

  std::string through() const {
    return "127.0.0.1:" + std::to_string(net.port());
  }

  /// Times that tests can wait for; no gateway is taken for lost because it is slow.
  reach_options quick() {
    return {.secret = port_secret(),
            .patience = patience,
            .answer_within = patience,
            .connect_timeout = 5s,
            .ping = 100ms,
            .silence = patience,
            .longest_pause = 200ms,
            .on_event = log.sink()};
  }

  /// Where one is to be noticed that says nothing.
  reach_options alert() {
    auto how = quick();
    how.silence = 2s;
    return how;
  }

  void reach(std::vector<std::string> addresses, reach_options how) {
    auto found = gd::actors::reach(sys, std::move(addresses), std::move(how));
    CAF_REQUIRE(found);
    remote.emplace(std::move(*found));
  }

  /// Sends a request. Its answer is to be waited for by calling what is returned.
  template <class Answer, class Request>
  std::function<gd::result<Answer>()> ask(Request x) {
    auto self = std::make_shared<caf::scoped_actor>(sys);
    auto sent = (*self)->request(remote->gateway(), patience, std::move(x));
    auto pending = std::make_shared<decltype(sent)>(std::move(sent));
    return [this, self, pending] {
      gd::result<Answer> answer = gd::error{};
      pending->receive([&](Answer& y) { answer = std::move(y); },
                       [&](caf::error& why) {
        if (why == caf::sec::request_timeout)
          answer = gd::error{errc::busy, "no answer at all", {}};
        else
          answer = gd::actors::from_caf(sys, why);
      });
      return answer;
    };
  }

  static gd::insert plain() {
    return {.fsm = "Payment"};
  }
};

/// With a database for nodes.
struct fixture : lonely_fixture {
  using lonely_fixture::reach;

  temporary_database db;

  fixture() {
    db.migrate();
  }

  /// Through the network to this node, which is there.
  void reach(const published_node& node, reach_options how) {
    auto before = log.all<events::gateway_reached>().size();
    net.lead_to(node.port());
    reach({through()}, std::move(how));
    CAF_REQUIRE(log.wait_for<events::gateway_reached>(before + 1));
  }
  void reach(const published_node& node) {
    reach(node, quick());
  }

  gd::result<gd::inserted> insert(gd::insert x) {
    return ask<gd::inserted>(std::move(x))();
  }

  /// A payment that rests, and can be moved and signalled: with a key, so that it is sent
  /// again where a slow machine seems silent.
  std::int64_t payment() {
    auto row = insert(lasting("payment/" + std::to_string(++payments_)));
    CAF_REQUIRE(row);
    return row->id;
  }

  static gd::insert keyed(std::string key) {
    return {.fsm = "Payment", .unique_key = std::move(key)};
  }
  static gd::insert lasting(std::string key) {
    auto x = keyed(std::move(key));
    x.unique_scope = {"runnable", "executing", "awaiting_signal", "done",
                      "failed"};
    return x;
  }

  std::string rows() {
    return db.scalar("select count(*) from gen_durable");
  }

  std::string signals() {
    return db.scalar("select count(*) from gen_durable_signals");
  }

  /// Whose answer is lost: the gateway has done it, and the connection goes before that is
  /// heard. `done`: a query of one cell, whose value it is then. Finds the gateway again.
  template <class Answer, class Request>
  gd::result<Answer> lose_answer(Request x, const std::string& done = {},
                                 const std::string& value = "1") {
    net.hold_answers(true);
    auto answer = ask<Answer>(std::move(x));
    if (done.empty())
      CAF_REQUIRE(net.wait_until_held());
    else
      db.wait_until(done, value);
    cut();
    return answer();
  }

  /// The gateway never sees it.
  template <class Answer, class Request>
  gd::result<Answer> lose_request(Request x) {
    net.hold_requests(true);
    auto answer = ask<Answer>(std::move(x));
    CAF_REQUIRE(net.wait_until_held());
    cut();
    return answer();
  }

  /// And finds it again.
  void cut() {
    auto lost = log.all<events::gateway_lost>().size();
    auto reached = log.all<events::gateway_reached>().size();
    net.cut();
    CAF_REQUIRE(log.wait_for<events::gateway_lost>(lost + 1));
    net.hold_answers(false);
    net.hold_requests(false);
    CAF_REQUIRE(log.wait_for<events::gateway_reached>(reached + 1));
  }

private:
  int payments_ = 0;
};

template <class T>
std::string code_of(const gd::result<T>& x) {
  return x ? "ok" : std::string{to_string(x.error().code)};
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(reach_tests, fixture)

CAF_TEST(requests wait for a gateway that comes later) {
  reach({through()}, quick());
  auto first = ask<gd::inserted>(plain());
  auto second = ask<gd::stats>(gd::stats_query{});
  CAF_REQUIRE(log.wait_for<events::gateway_lost>());
  published_node node{db, "a"};
  net.lead_to(node.port());
  CAF_CHECK_EQUAL(code_of(first()), "ok");
  CAF_CHECK_EQUAL(code_of(second()), "ok");
  CAF_CHECK_EQUAL(rows(), "1");
}

CAF_TEST(what a gateway has done is told truly when its answer was lost) {
  published_node node{db, "a"};
  reach(node);
  auto id = payment();

  CAF_MESSAGE("a signal with a dedup key is sent again and there once");
  gd::signal dedup{.target = id, .name = "x", .dedup_key = "d"};
  auto sent = lose_answer<gd::signalled>(
    dedup, "select count(*) from gen_durable_signals");
  CAF_CHECK_EQUAL(code_of(sent), "ok");
  CAF_CHECK(!sent->duplicate);
  CAF_CHECK_EQUAL(signals(), "1");
  auto again = ask<gd::signalled>(dedup)();
  CAF_CHECK(again && again->duplicate);

  CAF_MESSAGE("one without is not sent again");
  gd::signal bare{.target = id, .name = "x"};
  CAF_CHECK_EQUAL(code_of(lose_answer<gd::signalled>(
                    bare, "select count(*) from gen_durable_signals", "2")),
                  "unknown_fate");

  CAF_MESSAGE("nor is a transition");
  gd::transition move{.target = id, .to = "cancelled", .seq = 0};
  auto moved = lose_answer<gd::transitioned>(
    move, "select count(*) from gen_durable where status = 'done'");
  CAF_CHECK_EQUAL(code_of(moved), "unknown_fate");
  CAF_CHECK_EQUAL(db.scalar("select seq from gen_durable"), "1");

  CAF_MESSAGE("an insert with a unique key is there once");
  auto one = lose_answer<gd::inserted>(keyed("k"),
                                       "select count(*) from gen_durable", "2");
  CAF_CHECK_EQUAL(code_of(one), "ok");
  CAF_REQUIRE(one);
  CAF_CHECK_EQUAL(
    std::to_string(one->id),
    db.scalar("select id from gen_durable where unique_key = 'k'"));
  CAF_CHECK_EQUAL(rows(), "2");

  CAF_MESSAGE("one without is not sent again");
  CAF_CHECK_EQUAL(code_of(lose_answer<gd::inserted>(
                    plain(), "select count(*) from gen_durable", "3")),
                  "unknown_fate");

  CAF_MESSAGE("several are sent again if each has a key");
  gd::insert_all both{{keyed("l"), keyed("m")}};
  auto all = lose_answer<gd::inserted_all>(
    both, "select count(*) from gen_durable", "5");
  CAF_REQUIRE(all);
  CAF_CHECK(all->rows.at(0).id && all->rows.at(1).id);
  gd::insert_all mixed{{keyed("n"), plain()}};
  CAF_CHECK_EQUAL(code_of(lose_answer<gd::inserted_all>(
                    mixed, "select count(*) from gen_durable", "7")),
                  "unknown_fate");

  CAF_MESSAGE("what only asks is asked again");
  auto found = lose_answer<gd::instance>(gd::look_up{id});
  CAF_CHECK(found && found->step == "cancelled");
  CAF_CHECK_EQUAL(code_of(lose_answer<gd::stats>(gd::stats_query{})), "ok");
  auto page = lose_answer<gd::history_page>(gd::history_query{id});
  CAF_CHECK(page && page->rows.size() == 2);
  auto stand = lose_answer<gd::in_step_page>(
    gd::in_step_query{"Payment", "pending"});
  CAF_CHECK(stand && stand->rows.size() == 6);
  CAF_CHECK_EQUAL(rows(), "7");
  CAF_CHECK_EQUAL(signals(), "2");
}

CAF_TEST(an end is awaited over connections and nodes that come and go) {
  std::optional<published_node> node;
  node.emplace(db, "a");
  reach(*node);
  auto id = payment();
  auto other = payment();
  auto first = ask<gd::awaited>(gd::await_result{id});
  auto second = ask<gd::awaited>(gd::await_result{.id = other});
  auto nobody = ask<gd::awaited>(gd::await_result{4'711});
  CAF_CHECK_EQUAL(code_of(nobody()), "no_such_target");
  CAF_MESSAGE("the connection goes");
  cut();
  auto cancel = [&](std::int64_t which) {
    return ask<gd::transitioned>(
      gd::transition{.target = which, .to = "cancelled"})();
  };
  CAF_CHECK_EQUAL(code_of(cancel(id)), "ok");
  auto told = first();
  CAF_REQUIRE(told);
  CAF_CHECK_EQUAL(told->status, "done");
  CAF_CHECK_EQUAL(told->fsm, "Payment");
  CAF_MESSAGE("the node dies, and another one takes its place");
  node->end(SIGKILL);
  node.emplace(db, "b");
  net.lead_to(node->port());
  CAF_CHECK_EQUAL(code_of(cancel(other)), "ok");
  told = second();
  CAF_REQUIRE(told);
  CAF_CHECK_EQUAL(told->id, other);
  CAF_MESSAGE("what was there before is told at once");
  CAF_CHECK_EQUAL(code_of(lose_answer<gd::awaited>(gd::await_result{id})),
                  "ok");
  CAF_MESSAGE("and what takes too long is told as such");
  auto waiting = payment();
  CAF_CHECK_EQUAL(code_of(ask<gd::awaited>(
                    gd::await_result{.id = waiting, .within_us = 200'000})()),
                  "timed_out");
}

CAF_TEST(what a gateway has never seen is sent again or told as unknown) {
  published_node node{db, "a"};
  reach(node);
  auto id = payment();
  gd::signal dedup{.target = id, .name = "x", .dedup_key = "d"};
  CAF_CHECK_EQUAL(code_of(lose_request<gd::signalled>(dedup)), "ok");
  CAF_CHECK_EQUAL(signals(), "1");
  gd::signal bare{.target = id, .name = "x"};
  CAF_CHECK_EQUAL(code_of(lose_request<gd::signalled>(bare)), "unknown_fate");
  gd::transition move{.target = id, .to = "cancelled"};
  CAF_CHECK_EQUAL(code_of(lose_request<gd::transitioned>(move)),
                  "unknown_fate");
  auto one = lose_request<gd::inserted>(keyed("k"));
  CAF_CHECK(one && !one->duplicate);
  CAF_CHECK_EQUAL(code_of(lose_request<gd::inserted>(plain())), "unknown_fate");
  CAF_CHECK_EQUAL(code_of(lose_request<gd::instance>(gd::look_up{id})), "ok");
  CAF_CHECK_EQUAL(rows(), "2");
  CAF_CHECK_EQUAL(signals(), "1");
  CAF_CHECK_EQUAL(db.scalar("select max(seq) from gen_durable"), "0");
}

CAF_TEST(a key that ends with its instance lets an insert happen twice unless
           only lasting ones are trusted) {
  published_node node{db, "a"};
  auto insert_and_end = [this](gd::insert x) {
    net.hold_answers(true);
    auto answer = ask<gd::inserted>(std::move(x));
    db.wait_until("select count(*) from gen_durable where status <> 'done'",
                  "1");
    db.rows("update gen_durable set status = 'done', awaits = null");
    cut();
    return answer();
  };
  reach(node);
  CAF_CHECK_EQUAL(code_of(insert_and_end(keyed("a"))), "ok");
  CAF_CHECK_EQUAL(rows(), "2");
  db.rows("delete from gen_durable");
  CAF_CHECK_EQUAL(code_of(insert_and_end(lasting("b"))), "ok");
  CAF_CHECK_EQUAL(rows(), "1");
  db.rows("delete from gen_durable");
  auto how = quick();
  how.again = send_again::lasting;
  reach(node, how);
  CAF_CHECK_EQUAL(code_of(insert_and_end(keyed("c"))), "unknown_fate");
  CAF_CHECK_EQUAL(rows(), "1");
  db.rows("delete from gen_durable");
  CAF_CHECK_EQUAL(code_of(insert_and_end(lasting("d"))), "ok");
  CAF_CHECK_EQUAL(rows(), "1");
}

CAF_TEST(
  a node that is killed between request and answer has a successor elsewhere) {
  // Nobody is told that the row is locked before the node has gone.
  std::optional<published_node> first{std::in_place, db, "a", patience};
  published_node second{db, "b"};
  reach({first->address(), second.address()}, quick());
  CAF_REQUIRE(log.wait_for<events::gateway_reached>());
  auto id = payment();
  // Whoever holds the row keeps the gateway from answering.
  session stranger{db.conninfo()};
  stranger.exec("begin; select 1 from gen_durable for update");
  auto dedup = ask<gd::signalled>(
    gd::signal{.target = id, .name = "x", .dedup_key = "d"});
  auto bare = ask<gd::signalled>(gd::signal{.target = id, .name = "y"});
  auto move = ask<gd::transitioned>(
    gd::transition{.target = id, .to = "cancelled"});
  // It is answered: what was sent before has arrived.
  CAF_CHECK_EQUAL(code_of(ask<gd::instance>(gd::look_up{id})()), "ok");
  first->end(SIGKILL);
  CAF_CHECK_EQUAL(code_of(bare()), "unknown_fate");
  CAF_CHECK_EQUAL(code_of(move()), "unknown_fate");
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(code_of(dedup()), "ok");
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable_signals where dedup_key = 'd'"),
    "1");
  CAF_CHECK(log.wait_for<events::gateway_reached>(2));
  auto reached = log.all<events::gateway_reached>();
  CAF_CHECK_EQUAL(reached.back().address, second.address());
}

CAF_TEST(a node that is frozen is given up and does no harm when it goes on) {
  published_node first{db, "a"};
  published_node second{db, "b"};
  reach({first.address(), second.address()}, alert());
  CAF_REQUIRE(log.wait_for<events::gateway_reached>());
  auto id = payment();
  first.send(SIGSTOP);
  auto dedup = ask<gd::signalled>(
    gd::signal{.target = id, .name = "x", .dedup_key = "d"});
  auto one = ask<gd::inserted>(lasting("k"));
  auto bare = ask<gd::signalled>(gd::signal{.target = id, .name = "y"});
  CAF_CHECK_EQUAL(code_of(bare()), "unknown_fate");
  CAF_CHECK_EQUAL(code_of(dedup()), "ok");
  CAF_CHECK_EQUAL(code_of(one()), "ok");
  first.send(SIGCONT);
  // It may do what it was sent, or find that the other node has ended its sessions; when
  // it has gone, it has done what it will.
  first.end(SIGTERM);
  CAF_CHECK_EQUAL(
    db.scalar("select count(*) from gen_durable_signals where name = 'x'"),
    "1");
  CAF_CHECK_LESS_OR_EQUAL(std::stoi(signals()), 2);
  CAF_CHECK_EQUAL(rows(), "2");
}

CAF_TEST(a network that holds everything back is noticed and comes back) {
  published_node node{db, "a"};
  reach(node, alert());
  auto id = payment();
  net.hold_requests(true);
  net.hold_answers(true);
  auto dedup = ask<gd::signalled>(
    gd::signal{.target = id, .name = "x", .dedup_key = "d"});
  auto bare = ask<gd::signalled>(gd::signal{.target = id, .name = "y"});
  CAF_CHECK_EQUAL(code_of(bare()), "unknown_fate");
  CAF_CHECK(contains(to_string(log.all<events::gateway_lost>().front().why),
                     "the gateway has said nothing for 2000 ms"));
  net.hold_requests(false);
  net.hold_answers(false);
  CAF_CHECK_EQUAL(code_of(dedup()), "ok");
  db.wait_until("select count(*) from gen_durable_signals where name = 'y'",
                "1");
  CAF_CHECK_EQUAL(signals(), "2");
}

CAF_TEST(an outage of the database behind it is no loss of the gateway) {
  published_node node{db, "a"};
  reach(node);
  auto id = payment();
  // Not in the database that it is about.
  session outside{db.conninfo() + " dbname=postgres"};
  auto admit = [&](const std::string& yes) {
    outside.exec("alter database " + quoted_name(db.name())
                 + " allow_connections " + yes);
  };
  admit("false");
  outside.exec("select pg_terminate_backend(pid, 10000) from "
               "pg_stat_activity where application_name like 'gen_durable%' "
               "and datname = $1",
               {db.name()});
  auto bare = ask<gd::signalled>(gd::signal{.target = id, .name = "y"});
  auto found = ask<gd::instance>(gd::look_up{id});
  // Longer than the gateway's own patience.
  outside.exec("select pg_sleep(2)");
  admit("true");
  CAF_CHECK_EQUAL(code_of(bare()), "ok");
  CAF_CHECK_EQUAL(code_of(found()), "ok");
  CAF_CHECK_EQUAL(signals(), "1");
  CAF_CHECK(log.all<events::gateway_lost>().empty());
}

CAF_TEST(a node that stops hands over to the next) {
  published_node second{db, "b"};
  published_node first{db, "a"};
  reach({first.address(), second.address()}, quick());
  CAF_REQUIRE(log.wait_for<events::gateway_reached>());
  std::vector<std::function<gd::result<gd::inserted>()>> answers;
  for (int i = 0; i < 200; ++i)
    answers.push_back(ask<gd::inserted>(lasting("k" + std::to_string(i))));
  first.end(SIGTERM);
  for (int i = 200; i < 400; ++i)
    answers.push_back(ask<gd::inserted>(lasting("k" + std::to_string(i))));
  for (auto& x : answers)
    CAF_CHECK_EQUAL(code_of(x()), "ok");
  CAF_CHECK_EQUAL(rows(), "400");
}

CAF_TEST(orders of the example outlive the node that they go to) {
  auto worker = [this] {
    return std::vector<std::string>{GD_CHECKOUT_WORKER, "--database",
                                    db.conninfo(), "--publish-port", "0",
                                    "--secret", port_secret(),
                                    // None is finished before it is paid twice.
                                    "--step-time", "5"};
  };
  std::optional<published_node> first{std::in_place, worker()};
  published_node second{worker()};
  process shop{
    {GD_GATEWAY_CLIENT, "--orders=" + std::to_string(many),
     "--secret=" + port_secret(),
     "--gateways=[\"" + first->address() + "\",\"" + second.address() + "\"]"}};
  db.wait_until("select count(*) > " + std::to_string(many / 20)
                  + " from gen_durable_signals",
                "t");
  first->end(SIGKILL);
  CAF_CHECK_EQUAL(shop.end(0), 0);
  auto lines = shop.lines();
  CAF_CHECK_EQUAL(lines.size(), many);
  for (const auto& line : lines)
    if (!line.ends_with(": paid"))
      CAF_ERROR(line);
  CAF_CHECK_EQUAL(rows(), std::to_string(many));
  CAF_CHECK_EQUAL(db.scalar("select count(*) from gen_durable_signals where "
                            "name = 'payment_confirmed'"),
                  std::to_string(many));
}

CAF_TEST(
  whatever happens to nodes and networks what is told is what the tables show) {
  struct told {
    std::string query;
    bool once; ///< not more than that
    std::function<std::string()> code;
  };
  std::mt19937 random{std::random_device{}()};
  std::array<relay, 2> nets;
  std::array<std::optional<published_node>, 2> nodes;
  auto start = [&](std::size_t i) {
    nodes[i].emplace(db, i == 0 ? "a" : "b");
    nets[i].lead_to(nodes[i]->port());
  };
  start(0);
  start(1);
  reach({"127.0.0.1:" + std::to_string(nets[0].port()),
         "127.0.0.1:" + std::to_string(nets[1].port())},
        alert());
  auto target = payment();
  std::vector<told> all;
  auto ask_some = [&](int count) {
    for (int i = 0; i < count; ++i) {
      auto name = "r" + std::to_string(all.size());
      auto signals_of
        = "select count(*) from gen_durable_signals where name = '" + name
          + "'";
      auto rows_of = "select count(*) from gen_durable where queue = '" + name
                     + "'";
      auto kind = random() % 4;
      if (kind < 2) {
        gd::signal x{.target = target, .name = name};
        if (kind == 0)
          x.dedup_key = name;
        all.push_back({signals_of, kind == 0,
                       [y = ask<gd::signalled>(x)] { return code_of(y()); }});
      } else {
        auto x = kind == 2 ? lasting(name) : plain();
        x.queue = name;
        all.push_back(
          {rows_of, true, [y = ask<gd::inserted>(x)] { return code_of(y()); }});
      }
    }
  };
  const auto* more = std::getenv("GD_REACH_ROUNDS");
  for (int round = more ? std::atoi(more) : 4; round > 0; --round) {
    auto i = random() % 2;
    ask_some(static_cast<int>(random() % 40));
    switch (round % 4) {
      case 0:
        nodes[i]->end(SIGKILL);
        ask_some(20);
        start(i);
        break;
      case 1:
        nodes[i]->send(SIGSTOP);
        ask_some(20);
        db.scalar("select pg_sleep(0.8)"); // less than its lease
        nodes[i]->send(SIGCONT);
        break;
      case 2:
        nets[i].hold_answers(true);
        ask_some(20);
        db.scalar("select pg_sleep(0.1)");
        nets[i].cut();
        nets[i].hold_answers(false);
        break;
      default:
        nodes[i]->end(SIGTERM);
        ask_some(20);
        start(i);
    }
    ask_some(20);
  }
  std::vector<std::string> codes;
  for (auto& x : all)
    codes.push_back(x.code());
  remote.reset();
  for (auto& node : nodes) // has done what it was sent
    CAF_CHECK_EQUAL(node->end(SIGTERM), 0);
  std::map<std::string, int> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto count = std::stoi(db.scalar(all[i].query));
    ++ends[codes[i]];
    bool holds = codes[i] == "ok"             ? count >= 1
                 : codes[i] == "unknown_fate" ? true
                                              : count == 0;
    if (!holds || (all[i].once && count > 1))
      CAF_ERROR(all[i].query << " is " << count << ", told was " << codes[i]);
  }
  for (const auto& [code, count] : ends)
    CAF_MESSAGE(code << ": " << count);
  CAF_CHECK(ends["ok"] > 0);
}

CAF_TEST(a stop answers everybody and waits for nobody who says nothing) {
  published_node node{db, "a"};
  {
    plain_socket nobody;
    auto address = "127.0.0.1:" + std::to_string(nobody.listen_anywhere());
    network_config other_cfg;
    caf::actor_system other{other_cfg};
    auto how = quick();
    how.connect_timeout = 300ms;
    auto waiting = gd::actors::reach(other, {address}, how);
    CAF_REQUIRE(waiting);
  }
  reach(node);
  auto id = payment();
  net.hold_requests(true);
  auto sent = ask<gd::signalled>(gd::signal{.target = id, .name = "x"});
  auto read = ask<gd::instance>(gd::look_up{id});
  CAF_REQUIRE(net.wait_until_held());
  remote->stop();
  CAF_CHECK_EQUAL(code_of(sent()), "unknown_fate");
  CAF_CHECK_EQUAL(code_of(read()), "stopped");
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- nobody -------------------------------------------------------------------

CAF_TEST_FIXTURE_SCOPE(lonely_tests, lonely_fixture)

CAF_TEST(what waits is bounded and given up in time) {
  auto how = quick();
  how.patience = 300ms;
  how.requests = 2;
  reach({through()}, how);
  auto first = ask<gd::inserted>(plain());
  auto second = ask<gd::instance>(gd::look_up{1});
  auto third = ask<gd::inserted>(plain());
  auto told = {code_of(first()), code_of(second()), code_of(third())};
  CAF_CHECK_EQUAL(std::count(told.begin(), told.end(), "overloaded"), 1);
  CAF_CHECK_EQUAL(std::count(told.begin(), told.end(), "unavailable"), 2);
  auto late = ask<gd::inserted>(plain())();
  CAF_CHECK_EQUAL(code_of(late), "unavailable");
  CAF_CHECK(contains(late.error().message, "not sent within 300 ms: "));
}

CAF_TEST(what cannot be reached is refused with a sentence) {
  auto refused =
    [this](std::vector<std::string> addresses, reach_options how = {}) {
    auto x = gd::actors::reach(sys, std::move(addresses), std::move(how));
    return x ? "no error" : to_string(x.error());
  };
  CAF_CHECK_EQUAL(refused({}),
                  "gd::invalid_argument: reach: expected at least one address, "
                  "got none");
  for (const auto* text : {"", "4711", "127.0.0.1:", "127.0.0.1:0", ":4711",
                           "127.0.0.1:65536", "127.0.0.1:4711x"})
    CAF_CHECK(
      contains(refused({text}), "gd::invalid_argument: reach: expected "));
  CAF_CHECK_EQUAL(refused({"unix:/nowhere"}, {.ping = 1s, .silence = 1s}),
                  "gd::invalid_argument: reach: silence: expected at least "
                  "2000 ms, got 1000 ms");
  CAF_CHECK_EQUAL(refused({"unix:/nowhere"}, {.open = 0}),
                  "gd::invalid_argument: reach: open: expected at least 1, got "
                  "0");
  CAF_CHECK(contains(refused({"unix:/nowhere"}, {.connect_first = true}),
                     "gd::unavailable: nobody listens at unix:/nowhere"));
  CAF_CHECK_EQUAL(refused({"unix:/nowhere", "127.0.0.1:1"}),
                  "gd::invalid_argument: reach: expected a secret for the port "
                  "127.0.0.1:1, got none: it is the one that the gateway's "
                  "engine has; a socket needs none");
  CAF_CHECK(contains(refused({"127.0.0.1:1"}, {.secret = "/nowhere"}),
                     "gd::invalid_argument: reach: secret /nowhere: cannot be "
                     "read"));
  system_config plain_cfg;
  caf::actor_system other{plain_cfg};
  auto x = gd::actors::reach(other, {"unix:/nowhere"});
  CAF_REQUIRE(!x);
  CAF_CHECK(contains(to_string(x.error()), "add_network_to(cfg)"));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace reach_suite
