#define CAF_SUITE remote

#include "actors/network.hpp"
#include "actors/raw_node.hpp"
#include "actors/remote_nodes.hpp"
#include "remote_node/samples.hpp"
#include "support/connect.hpp"
#include "support/words.hpp"

#include <gd/actors/gateway/gateway.hpp>
#include <gd/actors/join.hpp>
#include <gd/actors/node/node.hpp>
#include <gd/actors/remote.hpp>
#include <gd/actors/remote_gateway.hpp>
#include <gd/network/wire/sockets.hpp>

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/test/unit_test.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <future>
#include <list>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace remote_suite {

using namespace gd::test;

namespace {

using gd::actors::gateway;
using gd::actors::to_caf;
namespace events = gd::events;

/// Knows what is sent to it, and what it has to answer.
class sample_gateway : public gateway::base {
public:
  using gateway::base::base;

  behavior_type make_behavior() override {
    return {
      [this](gd::insert& x) { return answer<gd::inserted>(x, seen_[0]); },
      [this](gd::insert_all& x) -> caf::result<gd::inserted_all> {
        if (std::exchange(connected_, true))
          return answer<gd::inserted_all>(x, seen_[1]);
        return gd::inserted_all{}; // what who dials asks
      },
      [this](gd::signal& x) { return answer<gd::signalled>(x, seen_[2]); },
      [this](gd::transition& x) {
      return answer<gd::transitioned>(x, seen_[7]);
      },
      [this](gd::look_up& x) { return answer<gd::instance>(x, seen_[3]); },
      [this](gd::await_result& x) { return answer<gd::awaited>(x, seen_[9]); },
      [this](gd::stats_query& x) { return answer<gd::stats>(x, seen_[4]); },
      [this](gd::history_query& x) {
      return answer<gd::history_page>(x, seen_[5]);
    },
      [this](gd::in_step_query& x) {
      return answer<gd::in_step_page>(x, seen_[6]);
      }, [this](gd::why_query& x) { return answer<gd::why>(x, seen_[8]); },
      };
  }

private:
  template <class Answer, class Request>
  caf::result<Answer> answer(const Request& x, unsigned& seed) {
    auto expected = sample<Request>(seed);
    if (!(x == expected))
      return to_caf({gd::errc::invalid_argument,
                     "expected " + show(expected) + ", got " + show(x),
                     {}});
    return sample<Answer>(seed++);
  }

  bool connected_ = false;
  std::array<unsigned, 10> seen_{};
};

/// The error that a look-up of this id fails with.
gd::error sample_error(std::int64_t id) {
  auto codes = every_code();
  auto n = static_cast<std::size_t>(id);
  const auto& texts = sample_texts();
  return {codes[n % codes.size()], texts[n % texts.size()],
          n % 2 == 0 ? "" : "23505"};
}

class failing_gateway : public gateway::base {
public:
  using gateway::base::base;

  behavior_type make_behavior() override {
    return {
      [](const gd::insert&) -> caf::result<gd::inserted> { return any(); },
      [](const gd::insert_all&) -> caf::result<gd::inserted_all> {
        return any();
      },
      [](const gd::signal&) -> caf::result<gd::signalled> { return any(); },
      [](const gd::transition&) -> caf::result<gd::transitioned> {
        return any();
      },
      [](const gd::look_up& x) -> caf::result<gd::instance> {
        return to_caf(sample_error(x.id));
      },
      [](const gd::await_result&) -> caf::result<gd::awaited> { return any(); },
      [](const gd::stats_query&) -> caf::result<gd::stats> { return any(); },
      [](const gd::history_query&) -> caf::result<gd::history_page> {
        return any();
      },
      [](const gd::in_step_query&) -> caf::result<gd::in_step_page> {
        return any();
      },
      [](const gd::why_query&) -> caf::result<gd::why> { return any(); },
    };
  }

private:
  static caf::error any() {
    return to_caf(sample_error(0));
  }
};

/// A socket whose connections are CAF's alone, all of them.
class bare_socket {
public:
  bare_socket(caf::actor_system& sys, const std::string& path,
              caf::strong_actor_ptr what, std::set<std::string> interface)
    : listener_(std::move(*gd::actors::listen_at({.path = path}))),
      thread_(
        [this, &sys, what = std::move(what), interface = std::move(interface)] {
    pollfd waits{listener_.get(), POLLIN, 0};
    while (poll(&waits, 1, -1) == 1) {
      auto remote_node = accept4(listener_.get(), nullptr, nullptr,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (remote_node < 0)
        return;
      auto broker = sys.middleman().named_broker<caf::io::basp_broker>(
        caf::atom("BASP"));
      caf::anon_send(broker, caf::publish_atom_v,
                     sys.middleman().backend().new_scribe(remote_node),
                     std::uint16_t{2}, what, interface);
    }
      }) {
    // nop
  }

  ~bare_socket() {
    shutdown(listener_.get(), SHUT_RD);
    thread_.join();
  }

private:
  gd::actors::descriptor listener_;
  std::thread thread_;
};

struct remote_fixture {
  temporary_database db;
  socket_folder sockets;
  event_log log;
  network_config cfg;
  caf::actor_system sys{cfg};

  remote_fixture() {
    std::signal(SIGPIPE, SIG_IGN); // processes die while they are spoken to
    db.migrate();
  }

  gd::actors::engine start(std::vector<gd::machine> machines = {probe{}},
                           std::int64_t bytes_waiting = 64 << 20) {
    gd::config x;
    x.bytes_waiting = bytes_waiting;
    x.patience = patience; // no answer depends on how busy this machine is
    x.database = db.conninfo();
    x.node = "a";
    x.machines = std::move(machines);
    x.heartbeat = 100ms;
    x.poll = 50ms;
    x.reaper = 50ms;
    x.on_event = log.sink();
    auto engine = gd::actors::start(sys, std::move(x));
    if (!engine)
      throw std::runtime_error(to_string(engine.error()));
    return std::move(*engine);
  }

  /// At a path of this test's own.
  std::string publish(gd::actors::engine& engine,
                      gd::actors::publish_options options = {}) {
    options.silence = patience;
    if (!options.port)
      options.socket = sockets.next();
    auto endpoint = gd::actors::publish(engine, options);
    if (!endpoint)
      throw std::runtime_error(to_string(endpoint.error()));
    return *endpoint;
  }

  /// Publishes an actor by CAF alone, at a socket.
  std::string publish_bare(caf::strong_actor_ptr what,
                           std::set<std::string> interface) {
    auto path = sockets.next();
    bare.emplace_back(sys, path, std::move(what), std::move(interface));
    return "unix:" + path;
  }

  /// The same of a gateway behind its server.
  template <class Gateway>
  std::string publish_fake() {
    auto home = std::make_shared<gd::actors::node>();
    home->asked.open(64 << 20);
    auto worker = sys.spawn<Gateway>();
    workers.push_back(caf::actor_cast<caf::actor>(worker));
    auto handle = sys.spawn<gd::actors::gateway_server>(home, worker);
    handles.push_back(handle);
    auto published = caf::actor_cast<gateway>(handle);
    return publish_bare(caf::actor_cast<caf::strong_actor_ptr>(published),
                        sys.message_types(published));
  }

  ~remote_fixture() {
    for (auto& handle : handles)
      gd::actors::anon(handle, gd::actors::close_gateway{});
    // CAF itself holds who has spoken to other nodes.
    for (auto& worker : workers)
      caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  }

  template <class Answer, class Request>
  gd::result<Answer> ask(const gateway& to, Request x) {
    caf::scoped_actor self{sys};
    gd::result<Answer> answer = gd::error{gd::errc::unavailable, "", {}};
    self->request(to, patience, std::move(x))
      .receive(
        [&](Answer& y) {
      answer = std::move(y);
      sender = self->current_sender();
        },
        [&](caf::error& why) { answer = gd::actors::from_caf(sys, why); });
    return answer;
  }

  /// Asks as JSON, here and there, and expects the same answer.
  template <class Answer, class Request>
  std::string same(const gd::actors::engine& engine, remote_node& there,
                   const std::string& name, const Request& x) {
    auto here = show(ask<Answer>(engine.gateway(), x));
    auto remote = there.ask(name + " " + gd::to_json(x).text());
    CAF_CHECK_EQUAL(remote, here);
    return remote;
  }

  void wait_until_count(const std::string& condition, int expected) {
    db.wait_until("select count(*) from gen_durable where " + condition,
                  std::to_string(expected));
  }

  bool works(const gd::actors::engine& engine, remote_node& there) {
    return static_cast<bool>(
             ask<gd::inserted>(engine.gateway(), gd::insert{.fsm = "Probe"}))
           && there.ask("insert {\"fsm\": \"Probe\"}").starts_with("= ");
  }

  gd::result<gateway> find(const std::string& endpoint,
                           std::chrono::milliseconds timeout = patience) {
    return gd::test::connect(sys, endpoint, timeout, patience);
  }

  /// Who has sent the last answer.
  caf::strong_actor_ptr sender;
  std::vector<gd::actors::gateway_server_impl> handles;
  std::vector<caf::actor> workers;
  std::list<bare_socket> bare;
};

std::string without_ids(const std::string& text) {
  return std::regex_replace(text, std::regex{"id: [0-9]+"}, "id: some");
}

/// A number behind its name, in a line of those; 0: it is not there.
int number_of(const std::string& line, const std::string& name) {
  auto at = (" " + line).find(" " + name + " ");
  return at == std::string::npos ? 0
                                 : std::stoi(line.substr(at + name.size() + 1));
}

template <class T>
std::string text_of(const gd::result<T>& x) {
  return x ? "no error" : to_string(x.error());
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(remote_tests, remote_fixture)

CAF_TEST(every message and answer arrives in another process as it was sent) {
  auto endpoint = publish_fake<sample_gateway>();
  remote_node there{endpoint};
  CAF_CHECK_EQUAL(there.ask("samples"), "ok");
}

CAF_TEST(every error arrives with its code and text) {
  remote_node there{publish_fake<failing_gateway>()};
  auto many = static_cast<std::int64_t>(every_code().size()
                                        * sample_texts().size());
  for (std::int64_t id = 0; id < many; ++id)
    CAF_CHECK_EQUAL(there.ask("look_up {\"id\": " + std::to_string(id) + "}"),
                    show(sample_error(id)));
}

CAF_TEST(a peer gets the answers that the gateway gives at home) {
  probe x;
  x.first = [](probe_context& ctx) -> gd::outcome {
    if (ctx.state.note == "done")
      return gd::done(word{every_plane()});
    if (ctx.state.note == "failed")
      return gd::stop("because of " + every_plane());
    return gd::await("go", ctx.state).timeout(1h);
  };
  auto engine = start({x});
  remote_node there{publish(engine)};
  for (const auto* note : {"await", "done", "failed"}) {
    gd::insert row{.fsm = "Probe",
                   .state = gd::to_json(probe_state{.note = note}),
                   .priority = -7};
    CAF_CHECK(there.ask("insert " + gd::to_json(row).text()).starts_with("= "));
  }
  wait_until_count("status in ('awaiting_signal', 'done', 'failed')", 3);
  auto id_of = [this](const std::string& status) {
    return std::stoll(db.scalar(
      "select id from gen_durable where status::text = $1", {status}));
  };
  auto waiting = id_of("awaiting_signal");
  auto finished = id_of("done");
  for (const auto* status : {"awaiting_signal", "done", "failed"})
    CAF_CHECK(contains(
      same<gd::instance>(engine, there, "look_up", gd::look_up{id_of(status)}),
      status));
  CAF_CHECK(contains(
    same<gd::stats>(engine, there, "stats_query", gd::stats_query{}), "Probe"));

  // Refused, for different reasons.
  auto fails = [](const std::string& answer, const std::string& code) {
    return answer.starts_with("! " + code + " \"");
  };
  auto insert = [&](const gd::insert& row) {
    return same<gd::inserted>(engine, there, "insert", row);
  };
  auto signal = [&](const gd::signal& one) {
    return same<gd::signalled>(engine, there, "signal", one);
  };
  CAF_CHECK(fails(insert({.fsm = "Other"}), "unknown_machine"));
  CAF_CHECK(fails(insert({.fsm = "Probe", .step = "fourth"}), "unknown_step"));
  CAF_CHECK(fails(
    insert({.fsm = "Probe", .state = gd::json::raw("{\"m\": 1}")}), "codec"));
  CAF_CHECK(
    fails(insert({.fsm = "Probe", .delay_us = -1}), "invalid_argument"));
  CAF_CHECK(fails(same<gd::instance>(engine, there, "look_up", gd::look_up{-1}),
                  "not_found"));
  CAF_CHECK(fails(signal({.target = -1, .name = "go"}), "no_such_target"));
  CAF_CHECK(
    fails(signal({.target = finished, .name = "go"}), "target_finished"));
  CAF_CHECK(fails(signal({.target = waiting, .name = ""}), "invalid_argument"));
  auto move = [&](const gd::transition& one) {
    return same<gd::transitioned>(engine, there, "transition", one);
  };
  CAF_CHECK(fails(move({.target = -1, .to = "second"}), "no_such_target"));
  CAF_CHECK(
    fails(move({.target = finished, .to = "second"}), "transition_conflict"));
  CAF_CHECK(fails(move({.target = waiting, .to = "second"}), "not_allowed"));
  CAF_CHECK(fails(move({.target = waiting, .to = "fourth"}), "unknown_step"));

  // By the unique key that one has.
  CAF_CHECK(there
              .ask("insert "
                   + gd::to_json(gd::insert{.fsm = "Probe",
                                            .state = gd::to_json(
                                              probe_state{.note = "await"}),
                                            .unique_key = every_plane()})
                       .text())
              .starts_with("= "));
  wait_until_count("unique_key is not null and status = 'awaiting_signal'", 1);
  CAF_CHECK(contains(same<gd::instance>(engine, there, "look_up",
                                        gd::look_up{.key = every_plane()}),
                     "awaiting_signal"));
  CAF_CHECK(signal({.name = "other", .key = every_plane()}).starts_with("= "));
  CAF_CHECK(fails(move({.to = "second", .key = every_plane()}), "not_allowed"));
  CAF_CHECK(
    fails(signal({.name = "other", .key = "nobody"}), "no_such_target"));
  CAF_CHECK(fails(signal({.target = waiting, .name = "other", .key = "k"}),
                  "invalid_argument"));

  // One batch with all kinds of rows.
  gd::insert_all all;
  for (const auto* fsm : {"Probe", "Other", "Probe", ""})
    all.rows.push_back({.fsm = fsm});
  auto answer = there.ask("insert_all " + gd::to_json(all).text());
  auto here = ask<gd::inserted_all>(engine.gateway(), all);
  CAF_REQUIRE(here);
  CAF_REQUIRE_EQUAL(here->rows.size(), 4u);
  CAF_CHECK_EQUAL(without_ids(answer),
                  without_ids(show(gd::result<gd::inserted_all>{*here})));
  CAF_CHECK_EQUAL(there.ask("insert_all {\"rows\": []}"), "= {rows: []}");

  // A repeat is told, and is no error.
  gd::signal go{.target = waiting,
                .name = "other",
                .payload = gd::to_json(word{every_plane()}),
                .dedup_key = "evt-7"};
  CAF_CHECK_EQUAL(there.ask("signal " + gd::to_json(go).text()),
                  show(gd::result<gd::signalled>{{.duplicate = false}}));
  CAF_CHECK_EQUAL(signal(go),
                  show(gd::result<gd::signalled>{{.duplicate = true}}));
}

CAF_TEST(a peer learns who runs a row and not the token that ends it) {
  auto engine = start();
  remote_node there{publish(engine)};
  auto id = db.scalar(
    "insert into gen_durable (fsm, step, status, locked_by, lease_expires_at) "
    "values ('Probe', 'first', 'executing', 'other/incarnation/7', "
    "clock_timestamp() + interval '1 hour') returning id");
  auto shown = there.ask("look_up {\"id\": " + id + "}");
  CAF_CHECK(contains(shown, "\"other\""));
  CAF_CHECK(!contains(shown, "incarnation"));
}

CAF_TEST(a document of a mebibyte goes both ways) {
  auto engine = start();
  remote_node there{publish(engine)};
  // With step and queue given, nobody looks into the state before it runs.
  gd::insert row{.fsm = "Unknown",
                 .state = gd::json::raw(mebibyte()),
                 .step = "any",
                 .queue = "nobody's"};
  auto answer = there.ask("insert " + gd::to_json(row).text());
  CAF_REQUIRE(answer.starts_with("= "));
  auto id = std::stoll(db.scalar("select id from gen_durable"));
  CAF_CHECK_EQUAL(
    db.scalar("select state = $1::jsonb from gen_durable", {mebibyte()}), "t");
  auto shown = same<gd::instance>(engine, there, "look_up", gd::look_up{id});
  CAF_CHECK_GREATER(shown.size(), std::size_t{1} << 20);
  // A bit more is refused.
  row.state = gd::json::raw("[" + mebibyte() + "]");
  CAF_CHECK(contains(there.ask("insert " + gd::to_json(row).text()),
                     "! invalid_argument"));
}

CAF_TEST(an engine that has given up keeps nobody waiting who publishes it) {
  db.note_version(99, 98);
  auto engine = start();
  CAF_REQUIRE(log.wait_for<gd::events::node_stopped>());
  publish(engine);
  auto home = gd::actors::inside(engine);
  CAF_CHECK(home->workers.get() == nullptr);
  // Whom nobody ends would keep the actor system for ever.
  CAF_CHECK(!home->children.find(gd::actors::role::hints));
}

CAF_TEST(an engine that has published nothing has nobody for workers) {
  auto engine = start();
  auto home = gd::actors::inside(engine);
  CAF_CHECK(home->workers.get() == nullptr);
  CAF_CHECK(!home->children.find(gd::actors::role::links));
  publish(engine);
  auto first = home->workers.get();
  CAF_CHECK(first != nullptr);
  CAF_CHECK(static_cast<bool>(home->children.find(gd::actors::role::links)));
  publish(engine);
  CAF_CHECK(home->workers.get() == first); // a worker may come to each of them
}

CAF_TEST(nothing that a peer sends ends the gateway) {
  auto engine = start();
  auto endpoint = publish(engine);
  remote_node friendly{endpoint};
  remote_node hostile{endpoint};
  CAF_CHECK(works(engine, hostile));
  CAF_CHECK_EQUAL(hostile.ask("attack"), "ok");
  // It may have ended the worker, whose address is in each answer; not what all hold.
  auto until = std::chrono::steady_clock::now() + patience;
  while (!(works(engine, hostile) && works(engine, friendly))
         && std::chrono::steady_clock::now() < until)
    ; // a worker is being started again
  CAF_CHECK(std::chrono::steady_clock::now() < until);
}

CAF_TEST(a message that the gateway does not know is refused) {
  auto engine = start();
  remote_node there{publish(engine)};
  CAF_CHECK(contains(there.ask("unexpected hello"), "unexpected_message"));
  // Neither is one of a type that this node has never heard of.
  CAF_CHECK(contains(there.ask("stranger"), "unexpected_message"));
  CAF_CHECK(works(engine, there));
}

CAF_TEST(the handle of a peer outlives a crash of the gateway backend) {
  auto engine = start();
  remote_node there{publish(engine)};
  CAF_CHECK(works(engine, there));
  CAF_CHECK(ask<gd::inserted_all>(engine.gateway(), gd::insert_all{}));
  caf::anon_send_exit(caf::actor_cast<caf::actor>(sender),
                      caf::exit_reason::kill);
  sender = nullptr;
  CAF_REQUIRE(log.wait_for<gd::events::actor_restarted>());
  auto refused = there.ask("insert {\"fsm\": \"Probe\"}");
  while (refused.starts_with("! unavailable"))
    refused = there.ask("insert {\"fsm\": \"Probe\"}");
  CAF_CHECK(works(engine, there));
}

CAF_TEST(a peer that is killed in the middle of its requests is no harm) {
  auto engine = start();
  auto endpoint = publish(engine);
  session stranger{db.conninfo()};
  stranger.exec("begin; lock table gen_durable in share mode");
  remote_node doomed{endpoint};
  doomed.tell("flood 200");
  CAF_CHECK_EQUAL(doomed.hear(), "sent");
  stranger.wait_until_someone_is_blocked();
  CAF_CHECK_EQUAL(doomed.end(SIGKILL), -1);
  stranger.exec("commit");
  remote_node there{endpoint};
  CAF_CHECK(works(engine, there));
  CAF_CHECK(log.all<gd::events::actor_restarted>().empty());
}

CAF_TEST(a frozen peer is cut off while others are served and comes back) {
  auto engine = start();
  auto endpoint = gd::actors::publish(
    engine, {.socket = sockets.next(), .silence = 3s});
  CAF_REQUIRE(endpoint);
  remote_node there{*endpoint};
  remote_node frozen{*endpoint};
  frozen.signal(SIGSTOP);
  auto cut_off = [this] {
    return log.all<gd::events::gateway_connection_cut>();
  };
  while (cut_off().empty())
    CAF_REQUIRE(works(engine, there));
  auto told = cut_off();
  CAF_CHECK_EQUAL(told.front().why, "has been silent for too long");
  frozen.signal(SIGCONT);
  // It has to notice first: all that hold this gateway share a connection.
  while (frozen.connect(*endpoint) != "ok"
         || !frozen.ask("insert {\"fsm\": \"Probe\"}").starts_with("= "))
    ; // nop
  CAF_CHECK(works(engine, frozen));
  CAF_CHECK(works(engine, there));
}

CAF_TEST(a peer that does not read gets no more than its share) {
  auto engine = start({probe{}}, 8 << 20);
  db.rows("insert into gen_durable (fsm, step, status, state) values ('Probe', "
          "'first', 'done', jsonb_build_object('note', repeat('x', 1000000)))");
  auto endpoint = publish(engine);
  remote_node silent{endpoint};
  remote_node other{endpoint};
  CAF_MESSAGE("it asks for all of it, and stops before it is answered");
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("lock table gen_durable");
  silent.tell("greedy 300");
  CAF_REQUIRE_EQUAL(silent.hear(), "sent");
  silent.signal(SIGSTOP);
  stranger.exec("rollback");
  CAF_CHECK(contains(other.ask("look_up {\"id\": 1}"), "Probe"));
  // All that it has asked is answered when nobody has any part of the room.
  auto& room = gd::actors::inside(engine)->asked;
  auto end = std::chrono::steady_clock::now() + patience;
  while (!room.take(0, 1 << 30) && std::chrono::steady_clock::now() < end)
    ; // others are being answered
  room.release(0, 1 << 30);
  CAF_CHECK(std::chrono::steady_clock::now() < end);
  CAF_CHECK(works(engine, other));
  CAF_CHECK(log.all<events::gateway_connection_cut>().empty());
  silent.signal(SIGCONT);
  auto ends = silent.hear();
  CAF_MESSAGE(ends);
  // Beside its share, what the sockets hold.
  CAF_CHECK_GREATER(number_of(ends, "found"), 0);
  CAF_CHECK_LESS(number_of(ends, "found"), 40);
  CAF_CHECK_GREATER(number_of(ends, "overloaded"), 200);
  CAF_MESSAGE("and reads again");
  auto until = std::chrono::steady_clock::now() + patience;
  bool served = false;
  while (!served && std::chrono::steady_clock::now() < until)
    served = contains(silent.ask("look_up {\"id\": 1}"), "Probe");
  CAF_CHECK(served);
}

CAF_TEST(a stop answers every request that a peer waits for and closes the port) {
  auto engine = start();
  auto endpoint = publish(engine);
  remote_node there{endpoint};
  CAF_REQUIRE(log.wait_for<gd::events::node_started>());
  // Inserts wait for their ids; nothing else of the engine does.
  session stranger{db.conninfo()};
  stranger.exec("begin; alter sequence gen_durable_id_seq cache 2");
  there.tell("flood 200");
  CAF_CHECK_EQUAL(there.hear(), "sent");
  stranger.wait_until_someone_is_blocked();
  engine.stop();
  auto ends = there.hear();
  CAF_MESSAGE("answers: " << ends);
  CAF_CHECK(contains(ends, "unknown_fate "));
  CAF_CHECK(!contains(ends, "inserted"));
  CAF_CHECK(!contains(ends, "lost"));
  CAF_CHECK(!plain_socket{endpoint}.is_open());
  CAF_CHECK(
    contains(text_of(find(endpoint)), "gd::unavailable: nobody listens"));
  // What is asked of the dead handle ends with its timeout.
  CAF_CHECK_EQUAL(there.ask("timeout 500"), "ok");
  CAF_CHECK(there.ask("insert {\"fsm\": \"Probe\"}").starts_with("! "));
  stranger.exec("rollback");
  CAF_CHECK_EQUAL(there.ask("timeout 60000"), "ok");
  // The next engine of this process may have the place.
  auto next = start();
  auto again = gd::actors::publish(next, {.socket = endpoint.substr(5)});
  CAF_CHECK(again && *again == endpoint);
  CAF_CHECK_EQUAL(there.connect(endpoint), "ok");
  CAF_CHECK(works(next, there));
}

CAF_TEST(answers get out when the actor system goes right after the engine) {
  network_config other_cfg;
  other_cfg.set("scheduler.max-throughput", 1u);
  std::optional<remote_node> there;
  session stranger{db.conninfo()};
  {
    caf::actor_system other{other_cfg};
    gd::config x;
    x.database = db.conninfo();
    x.machines = {probe{}};
    x.on_event = log.sink();
    auto engine = gd::actors::start(other, std::move(x));
    CAF_REQUIRE(engine);
    there.emplace(publish(*engine));
    CAF_REQUIRE(log.wait_for<gd::events::node_started>());
    stranger.exec("begin; alter sequence gen_durable_id_seq cache 2");
    there->tell("flood 20000");
    CAF_CHECK_EQUAL(there->hear(), "sent");
    stranger.wait_until_someone_is_blocked();
  }
  stranger.exec("rollback");
  auto ends = there->hear();
  CAF_MESSAGE("answers: " << ends);
  CAF_CHECK(contains(ends, "unknown_fate "));
  CAF_CHECK(!contains(ends, "lost"));
}

CAF_TEST(a peer of a node that was killed gets an error in time and finds its
           successor at the same place) {
  std::optional<talking_process> node;
  auto path = sockets.next();
  auto endpoint = "unix:" + path;
  auto start_node = [&] {
    node.emplace(std::vector<std::string>{GD_CHECKOUT_WORKER, "--database",
                                          db.conninfo(), "--poll", "0.05",
                                          "--publish", path});
    return node->hear();
  };
  CAF_REQUIRE(start_node() == "published at " + endpoint);
  remote_node there;
  CAF_CHECK_EQUAL(there.connect(endpoint), "ok");
  CAF_CHECK(there.ask("insert {\"fsm\": \"Checkout\"}").starts_with("= "));
  // Stopped first, so that it cannot answer before it is killed.
  node->signal(SIGSTOP);
  CAF_CHECK_EQUAL(there.ask("timeout 2000"), "ok");
  there.tell("insert {\"fsm\": \"Checkout\"}");
  node->end(SIGKILL);
  // At once if the peer knows already, else when its time is over.
  CAF_CHECK(contains(there.hear(), "unknown_fate"));
  CAF_CHECK_EQUAL(there.ask("timeout 60000"), "ok");
  CAF_CHECK(contains(there.connect(endpoint), "nobody listens"));
  CAF_CHECK_EQUAL(start_node(), "published at " + endpoint);
  CAF_CHECK_EQUAL(there.connect(endpoint), "ok");
  CAF_CHECK(there.ask("insert {\"fsm\": \"Checkout\"}").starts_with("= "));
  CAF_CHECK_EQUAL(node->end(SIGTERM), 0);
}

CAF_TEST(what cannot be published is refused with a sentence) {
  auto engine = start();
  auto refused = [&](const gd::actors::publish_options& options) {
    return text_of(gd::actors::publish(engine, options));
  };
  for (const auto* address :
       {"0.0.0.0", "", "::", "10.0.0.1", "localhost", "128.0.0.1", "127.0.0"})
    CAF_CHECK_EQUAL(refused({.port = 0, .address = address}),
                    "gd::invalid_argument: publish: expected a loopback "
                    "address (127.0.0.1), got \""
                      + std::string{address}
                      + "\"; between machines, a tunnel carries the "
                        "connection");
  const std::string neither = "gd::invalid_argument: publish: expected the "
                              "path of a socket or a port, got neither";
  CAF_CHECK_EQUAL(refused({}), neither);
  CAF_CHECK(contains(refused({.socket = sockets.next(), .port = 0}), "both"));
  CAF_CHECK(contains(refused({.port = 0, .connections = 0}),
                     "expected connections from 1 to 10000, got 0"));
  CAF_CHECK(contains(refused({.port = 0, .silence = 1s}),
                     "expected silence (ms) from 3000 to 3600000, got 1000"));
  CAF_CHECK(contains(refused({.port = 0, .bytes = 1'000}), "expected bytes"));
  CAF_CHECK_EQUAL(refused({.port = 0}),
                  "gd::invalid_argument: publish: expected a secret for the "
                  "port, which all users of this machine reach, got none: "
                  "gdctl secret new makes one, and a socket needs none");
  CAF_CHECK(contains(refused({.port = 0, .secret = "/nowhere"}),
                     "publish: secret /nowhere: cannot be read"));
  CAF_CHECK(contains(refused({.socket = sockets.next(), .secret = "x"}),
                     "expected no secret for a socket"));
  plain_socket other;
  auto taken = other.listen_anywhere();
  CAF_CHECK(contains(refused({.port = taken, .secret = port_secret()}),
                     "gd::unavailable: publish: cannot listen at 127.0.0.1:"
                       + std::to_string(taken)));
  CAF_CHECK(contains(refused({.socket = "/nowhere/at/all"}),
                     "cannot listen at unix:/nowhere/at/all"));
  CAF_CHECK(contains(refused({.socket = std::string(200, 'x')}),
                     "expected a socket's path of at most 107 bytes, got 200"));
  CAF_CHECK(contains(refused({.socket = sockets.path()}),
                     "found another kind of file"));
  // None of that has closed what is open, and there may be several.
  auto endpoint = publish(engine);
  CAF_CHECK(contains(refused({.socket = endpoint.substr(5)}),
                     "another process listens at " + endpoint));
  remote_node first{endpoint};
  remote_node second{publish(engine, {.port = 0, .secret = port_secret()})};
  CAF_CHECK(works(engine, first));
  CAF_CHECK(works(engine, second));
  engine.stop();
  CAF_CHECK_EQUAL(refused({}),
                  "gd::stopped: expected a running engine to publish");
}

CAF_TEST(
  a socket is of its user alone and what a dead process has left is taken) {
  auto path = sockets.next();
  {
    // Killed, it would have left the same.
    plain_socket dead;
    dead.listen_at(path);
  }
  auto engine = start();
  auto endpoint = gd::actors::publish(engine, {.socket = path});
  CAF_REQUIRE(endpoint);
  struct stat file {};
  CAF_REQUIRE(stat(path.c_str(), &file) == 0);
  CAF_CHECK(S_ISSOCK(file.st_mode));
  CAF_CHECK_EQUAL(file.st_mode & 07777u, 0600u);
  remote_node there{*endpoint};
  CAF_CHECK(works(engine, there));
  engine.stop();
  CAF_CHECK(stat(path.c_str(), &file) != 0);
}

CAF_TEST(a handle is down at once when its connection ends) {
  auto engine = start();
  auto endpoint = publish(engine);
  auto found = find(endpoint);
  CAF_REQUIRE(found);
  caf::scoped_actor self{sys};
  self->monitor(*found);
  engine.stop();
  bool down = false;
  self->receive([&](const caf::down_msg& x) { down = x.source == *found; },
                caf::after(patience) >> [] {});
  CAF_CHECK(down);
}

CAF_TEST(a process may be its own peer) {
  auto engine = start();
  auto found = find(publish(engine));
  CAF_REQUIRE(found);
  for (int i = 0; i < 100; ++i)
    CAF_CHECK(ask<gd::inserted>(*found, gd::insert{.fsm = "Probe"}));
}

CAF_TEST(a peer that says it is this node does not end it) {
  auto engine = start();
  auto endpoint = publish(engine);
  raw_node stranger{endpoint, basp::node(1)};
  CAF_REQUIRE(stranger.greeted);
  raw_node self{endpoint, stranger.server};
  CAF_CHECK(self.greeted);
  network_config cfg_of_other;
  caf::actor_system other{cfg_of_other};
  auto found = gd::test::connect(other, endpoint, patience, patience);
  CAF_CHECK(found);
  engine.stop();
}

CAF_TEST(all who hold a gateway of a node share a connection until the last has
           let go) {
  auto path = sockets.next();
  talking_process node{{GD_CHECKOUT_WORKER, "--database", db.conninfo(),
                        "--poll", "0.05", "--publish", path}};
  CAF_REQUIRE(node.hear() == "published at unix:" + path);
  auto hold = [&] {
    return gd::actors::hold(sys, "unix:" + path, {}, patience, patience);
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<gd::result<gd::actors::held_gateway>>> attempts;
    for (int i = 0; i < 8; ++i)
      attempts.push_back(std::async(std::launch::async, hold));
    std::vector<gd::actors::held_gateway> held;
    for (auto& x : attempts) {
      auto found = x.get();
      CAF_REQUIRE(found);
      held.push_back(std::move(*found));
    }
    auto handle = held.front().handle;
    for (const auto& x : held)
      CAF_CHECK(x.handle == handle);
    while (held.size() > 1)
      held.pop_back();
    CAF_CHECK(ask<gd::inserted>(handle, gd::insert{.fsm = "Checkout"}));
    caf::scoped_actor self{sys};
    self->monitor(handle);
    held.clear();
    bool down = false;
    self->receive([&](const caf::down_msg&) { down = true; },
                  caf::after(patience) >> [] {});
    CAF_CHECK(down);
  }
}

CAF_TEST(an actor of the user is found over the connection and down with it) {
  using gd::actors::registered_name;
  auto engine = start();
  auto mine = sys.spawn(
    []() -> caf::behavior { return {[](std::int64_t x) { return 2 * x; }}; });
  sys.registry().put(registered_name("twice"),
                     caf::actor_cast<caf::strong_actor_ptr>(mine));
  network_config cfg_of_other;
  caf::actor_system other{cfg_of_other};
  auto remote = gd::actors::reach(
    other, {publish(engine)},
    {.connect_timeout = patience, .silence = patience, .connect_first = true});
  CAF_REQUIRE(remote);
  auto found = other.middleman().remote_lookup(registered_name("twice"),
                                               remote->node());
  CAF_REQUIRE(found);
  auto theirs = caf::actor_cast<caf::actor>(found);
  caf::scoped_actor self{other};
  std::int64_t twice = 0;
  gd::actors::request_from(&*self, theirs, patience, std::int64_t{21})
    .receive([&](std::int64_t x) { twice = x; }, [](const caf::error&) {});
  CAF_CHECK_EQUAL(twice, 42);
  self->monitor(theirs);
  engine.stop();
  bool down = false;
  self->receive([&](const caf::down_msg&) { down = true; },
                caf::after(patience) >> [] {});
  CAF_CHECK(down);
  sys.registry().erase(registered_name("twice"));
  caf::anon_send_exit(mine, caf::exit_reason::user_shutdown);
}

CAF_TEST(a node may be reached at several places at once) {
  auto engine = start();
  auto first = publish(engine);
  auto second = publish(engine, {.port = 0, .secret = port_secret()});
  remote_node there{first};
  remote_node other{second};
  for (const auto& endpoint : {second, first, second}) {
    CAF_CHECK_EQUAL(there.connect(endpoint), "ok");
    CAF_CHECK_EQUAL(other.connect(endpoint), "ok");
    CAF_CHECK(works(engine, there));
    CAF_CHECK(works(engine, other));
  }
}

CAF_TEST(what a configuration lacks is named) {
  system_config plain_cfg;
  caf::actor_system plain{plain_cfg};
  gd::config x;
  x.database = db.conninfo();
  x.machines = {probe{}};
  x.on_event = log.sink();
  auto engine = gd::actors::start(plain, std::move(x));
  CAF_REQUIRE(engine);
  CAF_CHECK(
    contains(text_of(gd::actors::publish(*engine, {.port = 0})),
             "gd::invalid_argument: publish needs CAF's network module, "
             "which this actor system has not loaded: expected "
             "add_network_to(cfg)"));
  auto joined = gd::actors::join(plain, {"unix:/nowhere"}, {});
  CAF_REQUIRE(!joined);
  CAF_CHECK(
    contains(to_string(joined.error()), "join needs CAF's network module"));
  auto reached = gd::actors::reach(plain, {"unix:/nowhere"});
  CAF_REQUIRE(!reached);
  CAF_CHECK(
    contains(to_string(reached.error()), "reach needs CAF's network module"));
}

CAF_TEST(what is no gateway is told from one) {
  auto local = [](const gd::result<gateway>& x) { return text_of(x); };
  CAF_CHECK(contains(
    local(find("example.org:4711")),
    "gd::invalid_argument: reach: expected a loopback address (127.0.0.1) or "
    "localhost, got \"example.org\""));
  for (const auto* where : {"", "unix:", "127.0.0.1", "127.0.0.1:", ":0",
                            "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x"})
    CAF_CHECK(contains(local(find(where)), "expected unix:<path> or"));

  auto path = sockets.next();
  plain_socket silent;
  silent.listen_at(path);
  CAF_CHECK_EQUAL(local(find("unix:" + path, 200ms)),
                  "gd::unavailable: no CAF node has answered at unix:" + path
                    + " within 200 ms");
  plain_socket silent_port;
  auto at = "127.0.0.1:" + std::to_string(silent_port.listen_anywhere());
  CAF_CHECK(contains(local(find(at, 200ms)),
                     "gd::unavailable: no gateway has been reached at " + at
                       + ": the peer has not shown that it has the port's "
                         "secret within "));

  for (std::string_view text :
       {"", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"}) {
    auto answer_of =
      [&](const plain_socket& other, const std::string& endpoint) {
      std::thread server{[&] { other.serve_once(text); }};
      auto found = local(find(endpoint));
      server.join();
      CAF_MESSAGE(found);
      return found;
    };
    plain_socket by_path;
    auto its_path = sockets.next();
    by_path.listen_at(its_path);
    CAF_CHECK(contains(answer_of(by_path, "unix:" + its_path),
                       "gd::unavailable: expected a CAF node of the same "
                       "CAF version at unix:"));
    plain_socket by_port;
    auto its_port = std::to_string(by_port.listen_anywhere());
    CAF_CHECK(contains(answer_of(by_port, "127.0.0.1:" + its_port),
                       text.empty() ? "the peer has hung up: expected one that "
                                      "has the same secret"
                                    : "the peer has sent something else than "
                                      "the greeting (gen_durable/1)"));
  }

  // CAF, but something else: asked by another process, as one cannot connect to
  // oneself over a socket.
  auto echo = sys.spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](int n) { return n; }};
  });
  remote_node there;
  CAF_CHECK(contains(
    there.connect(publish_bare(caf::actor_cast<caf::strong_actor_ptr>(echo),
                               sys.message_types(echo))),
    "! invalid_argument \"expected a gateway of gen_durable at unix:"));
  auto nobody = there.connect(publish_bare(nullptr, {}));
  CAF_MESSAGE(nobody);
  CAF_CHECK(
    contains(nobody, "! invalid_argument \"no actor is published at unix:"));
  caf::anon_send_exit(echo, caf::exit_reason::user_shutdown);
}

CAF_TEST(
  the example of a remote client orders pays and sees its order shipped) {
  talking_process node{{GD_CHECKOUT_WORKER, "--database", db.conninfo(),
                        "--poll", "0.05", "--publish", sockets.next()}};
  auto line = node.hear();
  auto endpoint = line.substr(std::string{"published at "}.size());
  talking_process client{{GD_REMOTE_CLIENT, "--at=" + endpoint, "--order=42"}};
  CAF_CHECK_EQUAL(client.hear(), "order 42 is instance 1");
  CAF_CHECK_EQUAL(client.hear(), "order 42 is shipped: {\"shipped\": true}");
  CAF_CHECK_EQUAL(client.hear(), "(the end)");
  CAF_CHECK_EQUAL(
    db.scalar("select fsm || ' ' || status || ' ' || (state ->> 'order') from "
              "gen_durable"),
    "Checkout done 42");
  CAF_CHECK_EQUAL(node.end(SIGTERM), 0);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace remote_suite
