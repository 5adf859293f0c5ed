#define CAF_SUITE relay

#include "actors/network.hpp"
#include "actors/raw_node.hpp"
#include "actors/remote_nodes.hpp"
#include "support/basp.hpp"
#include "support/connect.hpp"
#include "support/words.hpp"

#include <gd/actors/remote.hpp>
#include <gd/network/wire/relay.hpp>

#include <gd/network/workers/link_codec.hpp>

#include <caf/io/all.hpp>
#include <caf/test/unit_test.hpp>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace relay_suite {

using namespace gd::test;

namespace {

using gd::actors::gateway;
using std::chrono::milliseconds;
using clock_type = std::chrono::steady_clock;
namespace events = gd::events;

/// What a sanitizer keeps is not the node's.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool own_memory = false;
#else
constexpr bool own_memory = true;
#endif

/// How often it does what takes long where more is asked for.
int times(int usually) {
  const auto* more = std::getenv("GD_ATTACKS");
  return more != nullptr ? usually * std::max(1, std::atoi(more)) : usually;
}

/// Allows this process as many descriptors as it may have; how many those are.
std::size_t raise_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

/// Of a process, in MiB: the most memory that it has had.
long peak_of(pid_t process) {
  std::ifstream status{"/proc/" + std::to_string(process) + "/status"};
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with("VmHWM:"))
      return std::stol(line.substr(line.find_first_of("0123456789"))) / 1'024;
  return -1;
}

const std::string nobody_asked(1, '\0');

/// What nobody should say, and what it is.
struct attack {
  std::string name;
  std::string bytes;
};

/// Before a handshake, each of them.
std::vector<attack> strangers_attacks() {
  auto me = basp::node(4'711);
  std::vector<attack> xs;
  auto add = [&xs](const char* name, const basp::message& x) {
    xs.push_back({name, x.bytes()});
  };
  add("a handshake of 32 bytes, without payload",
      {.what = basp::client_handshake});
  add("a server's handshake without payload",
      {.what = basp::server_handshake, .data = 3});
  add("a message without payload",
      {.what = basp::direct, .data = basp::async, .receiver = 1});
  for (auto size : {0x7FFFFFFFu, 0xFFFFFFF0u, 0xFFFFFFFFu})
    for (std::uint8_t what = 0; what < 7; ++what)
      add("a payload of gigabytes",
          {.what = what,
           .data = what == 0 ? 3u : 0u,
           .source = what == 5 ? 1u : 0u,
           .receiver = what == 2 || what == 3 ? 1u : 0u,
           .size = size});
  add("a message before the handshake",
      {.what = basp::direct,
       .data = basp::async | 1,
       .source = 1,
       .receiver = 1,
       .payload = basp::content("gd::insert_all", nobody_asked)});
  add("a heartbeat before the handshake", {});
  add("a server's handshake", {.what = basp::server_handshake,
                               .data = 3,
                               .payload = me + basp::length(0xFFFFFFFF)});
  xs.push_back({"HTTP", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"});
  return xs;
}

/// After it: whoever is let in is trusted, and may still be broken.
std::vector<attack> peers_attacks(const raw_node& to) {
  std::vector<attack> xs;
  auto add = [&xs](const char* name, const basp::message& x) {
    xs.push_back({name, x.bytes()});
  };
  for (int what = 7; what < 256; what += 31)
    add("an operation that there is not",
        {.what = static_cast<std::uint8_t>(what)});
  for (std::uint8_t what = 0; what < 6; ++what) {
    add("a message without payload",
        {.what = what, .data = 3, .source = 1, .receiver = to.gateway});
    for (auto size : {64u << 20, 0x7FFFFFFFu, 0xFFFFFFF0u, 0xFFFFFFFFu})
      add("a payload of gigabytes", {.what = what,
                                     .data = 3,
                                     .source = 1,
                                     .receiver = to.gateway,
                                     .size = size});
  }
  add("a sign of life with payload", {.payload = "x"});
  xs.push_back({"HTTP", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"});
  xs.push_back({"bytes without end", std::string(100'000, '\xFF')});
  return xs;
}

struct relay_fixture {
  temporary_database db;
  socket_folder sockets;
  event_log log;
  network_config cfg;
  caf::actor_system sys{cfg};
  std::optional<talking_process> node;
  std::string endpoint;

  relay_fixture() {
    std::signal(SIGPIPE, SIG_IGN);
    db.migrate();
  }

  /// A node in a process of its own.
  void start_node(const std::vector<std::string>& where,
                  std::vector<std::string> before = {}) {
    auto args = std::move(before);
    for (const auto& arg :
         {std::string{GD_CHECKOUT_WORKER}, std::string{"--database"},
          db.conninfo(), std::string{"--poll"}, std::string{"0.05"}})
      args.push_back(arg);
    args.insert(args.end(), where.begin(), where.end());
    node.emplace(args);
    auto line = node->hear();
    const std::string begin = "published at ";
    CAF_REQUIRE(line.starts_with(begin));
    endpoint = line.substr(begin.size());
  }

  void start_at_socket() {
    start_node({"--publish", sockets.next()});
  }

  void start_at_port() {
    start_node({"--publish-port", "0", "--secret", port_secret()});
  }

  gd::actors::engine start() {
    gd::config x;
    x.database = db.conninfo();
    x.patience = patience;
    x.machines = {probe{}};
    x.on_event = log.sink();
    auto engine = gd::actors::start(sys, std::move(x));
    if (!engine)
      throw std::runtime_error(to_string(engine.error()));
    return std::move(*engine);
  }

  /// Why the first peer was cut off.
  std::string first_reason() {
    if (!log.wait_for<events::gateway_connection_cut>())
      return "none";
    auto all = log.all<events::gateway_connection_cut>();
    return all.front().why;
  }

  gateway find(milliseconds silence = patience) {
    auto x = gd::test::connect(sys, endpoint, patience, silence);
    if (!x)
      throw std::runtime_error(to_string(x.error()));
    return *x;
  }

  template <class Answer, class Request>
  gd::result<Answer> ask(const gateway& to, Request x) {
    caf::scoped_actor self{sys};
    gd::result<Answer> answer = gd::error{gd::errc::unavailable, "", {}};
    self->request(to, patience, std::move(x))
      .receive([&](Answer& y) { answer = std::move(y); },
               [&](caf::error& why) {
      answer = gd::actors::from_caf(sys, why);
      });
    return answer;
  }

  /// Whether the database answers through it.
  bool works(const gateway& to) {
    auto answer = ask<gd::inserted>(to, gd::insert{.fsm = "Checkout"});
    // What others have asked for before may take the database longer than patience.
    for (int tries = 0;
         !answer && answer.error().code == gd::errc::unavailable && tries < 5;
         ++tries)
      answer = ask<gd::inserted>(to, gd::insert{.fsm = "Checkout"});
    if (!answer)
      CAF_MESSAGE(to_string(answer.error()));
    return static_cast<bool>(answer);
  }

  /// The median of several questions.
  milliseconds answers_in(const gateway& to) {
    std::vector<milliseconds> xs;
    for (int i = 0; i < 11; ++i) {
      auto begun = clock_type::now();
      auto answer = ask<gd::inserted_all>(to, gd::insert_all{});
      CAF_CHECK_EQUAL(answer ? "" : to_string(answer.error()), "");
      xs.push_back(
        std::chrono::duration_cast<milliseconds>(clock_type::now() - begun));
    }
    std::sort(xs.begin(), xs.end());
    return xs[xs.size() / 2];
  }

  /// It has not died, is not large, and serves others.
  void check_unharmed(const gateway& friendly) {
    auto time = answers_in(friendly);
    auto peak = peak_of(node->id());
    CAF_MESSAGE("answers in " << time.count() << " ms, " << peak << " MiB");
    CAF_CHECK(works(friendly));
    CAF_CHECK_GREATER(peak, 0);
    if (own_memory)
      CAF_CHECK_LESS(peak, 100);
    CAF_CHECK(works(find()));
  }

  void attack_it() {
    auto friendly = find();
    for (const auto& x : strangers_attacks()) {
      raw_node hostile{endpoint};
      hostile.socket.write_all(x.bytes);
      if (!hostile.socket.wait_for_end())
        CAF_ERROR(x.name);
    }
    raw_node model{endpoint, basp::node(4'711)};
    CAF_REQUIRE(model.greeted);
    std::uint32_t number = 10'000;
    auto request = model.request("gd::insert_all", nobody_asked).bytes();
    for (const auto& x : peers_attacks(model)) {
      raw_node hostile{endpoint, basp::node(++number)};
      if (!hostile.greeted)
        CAF_ERROR(x.name << ": not greeted any more");
      hostile.socket.write_all(x.bytes);
      if (!hostile.socket.wait_for_end())
        CAF_ERROR(x.name);
    }
    // Who ends in the middle of a message, wherever that is.
    for (std::size_t n = 1; n < request.size(); n += 7) {
      raw_node half{endpoint, basp::node(++number)};
      half.socket.write_all(request.substr(0, n));
    }
    check_unharmed(friendly);
  }
};

/// A relay between two ends that tests hold: a peer that has been greeted, and CAF's.
struct between_ends {
  std::promise<void> over;
  std::future<void> is_over = over.get_future();
  gd::actors::relay between;
  std::function<void()> end;
  gd::actors::descriptor peer;
  gd::actors::descriptor caf;

  explicit between_ends(milliseconds silence = patience) {
    auto [its_peer, ours] = gd::actors::socket_pair();
    auto [its_caf, theirs] = gd::actors::socket_pair();
    end = between.adopt(
      {.peer = std::move(its_peer),
       .caf = std::move(its_caf),
       .rules = {.frames = {.first = gd::actors::frame_kind::server_handshake,
                            .version = 3,
                            .most_bytes = 1 << 20},
                 .silence = silence},
       .handshake = patience,
       .ends = std::make_shared<std::atomic<bool>>(false),
       .over = std::move(over)});
    peer = std::move(ours);
    caf = std::move(theirs);
    say(peer,
        {.what = basp::server_handshake, .data = 3, .payload = basp::node(1)});
    CAF_REQUIRE(hears(caf));
  }

  static constexpr std::uint64_t gateway = 77;

  static void say(const gd::actors::descriptor& at, const basp::message& x) {
    auto bytes = x.bytes();
    CAF_CHECK_EQUAL(send(at.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                    static_cast<ssize_t>(bytes.size()));
  }

  /// The next message that is no sign of life.
  static std::optional<gd::actors::frame_header>
  next(const gd::actors::descriptor& at, milliseconds within) {
    auto read = [&](std::size_t most) {
      std::string got(most, '\0');
      std::size_t size = 0;
      for (ssize_t n = 1; n > 0 && size < most;) {
        pollfd waits{at.get(), POLLIN, 0};
        poll(&waits, 1, static_cast<int>(within.count()));
        n = recv(at.get(), got.data() + size, most - size, 0);
        size += n > 0 ? static_cast<std::size_t>(n) : 0;
      }
      got.resize(size);
      return got;
    };
    for (;;) {
      auto bytes = read(gd::actors::frame_header::size);
      if (bytes.size() < gd::actors::frame_header::size)
        return std::nullopt;
      auto header = gd::actors::frame_header::read(bytes);
      if (read(header.payload).size() < header.payload)
        return std::nullopt;
      if (header.kind != gd::actors::frame_kind::heartbeat)
        return header;
    }
  }

  static bool hears(const gd::actors::descriptor& at) {
    return next(at, patience).has_value();
  }
};

} // namespace

const basp::message a_request{
  .what = basp::direct,
  .data = basp::async | 1,
  .source = 55,
  .receiver = between_ends::gateway,
  .payload = basp::content("gd::insert_all", nobody_asked)};

// Both ends: what takes nothing more is written to again and again, and what it says is
// in between each time.
CAF_TEST(who takes nothing any more is heard to its end) {
  const basp::message answer{
    .what = basp::direct,
    .data = basp::response | basp::async | 1,
    .source = between_ends::gateway,
    .receiver = 55,
    .payload = basp::content("gd::inserted_all", nobody_asked)};
  for (bool peer_is_deaf : {true, false}) {
    between_ends x;
    shutdown((peer_is_deaf ? x.peer : x.caf).get(), SHUT_RD);
    for (int i = 0; i < 100; ++i) {
      x.say(x.caf, answer);
      x.say(x.peer, a_request);
      CAF_REQUIRE(x.hears(peer_is_deaf ? x.caf : x.peer));
    }
  }
}

CAF_TEST(what nobody wants any more ends and says so) {
  between_ends x;
  CAF_CHECK(x.is_over.wait_for(0s) == std::future_status::timeout);
  x.end();
  CAF_CHECK(!x.hears(x.peer));
  CAF_CHECK(!x.hears(x.caf));
  x.caf.reset();
  CAF_CHECK(x.is_over.wait_for(milliseconds{patience})
            == std::future_status::ready);
}

CAF_TEST(who speaks another version is cut off) {
  gd::actors::relay between;
  auto [its_peer, peer] = gd::actors::socket_pair();
  auto [its_caf, caf] = gd::actors::socket_pair();
  between.adopt(
    {.peer = std::move(its_peer),
     .caf = std::move(its_caf),
     .rules = {.frames = {.first = gd::actors::frame_kind::server_handshake,
                          .version = 3}},
     .handshake = patience,
     .ends = std::make_shared<std::atomic<bool>>(false),
     .over = {}});
  between_ends::say(
    peer,
    {.what = basp::server_handshake, .data = 8, .payload = basp::node(1)});
  CAF_CHECK(!between_ends::hears(caf));
}

namespace {

/// A relay for those that come, with nobody in the place of CAF.
struct bare_place {
  socket_folder sockets;
  std::mutex mutex;
  std::vector<std::string> told;
  struct met {
    std::string node;
    gd::actors::descriptor caf;
    std::shared_ptr<gd::actors::peer_count> count;
  };
  std::vector<met> let_in;
  std::string endpoint;
  std::optional<gd::actors::relay> between;

  explicit bare_place(std::size_t connections = 64) {
    auto path = sockets.next();
    endpoint = "unix:" + path;
    auto listener = gd::actors::listen_at({.path = path});
    CAF_REQUIRE(listener);
    between.emplace(
      gd::actors::relay_settings{
        .rules = {.frames = {.version = 3}, .counts = between_ends::gateway},
        .connections = connections,
        .hand_over =
          [this](gd::actors::descriptor fd, const std::string& node) {
      std::lock_guard held{mutex};
      let_in.push_back(
        {node, std::move(fd), std::make_shared<gd::actors::peer_count>()});
      return let_in.back().count;
        },
        .tell =
          [this](const gd::event& what) {
      std::lock_guard held{mutex};
      told.push_back(std::get<events::gateway_connection_cut>(what).why);
        }},
      std::move(*listener));
  }

  ~bare_place() {
    between.reset();
  }

  plain_socket greet(const std::string& node) const {
    plain_socket x{endpoint};
    x.write_all(
      basp::message{.what = basp::client_handshake, .payload = node}.bytes());
    return x;
  }

  template <class F>
  bool wait_for(F holds) {
    auto until = clock_type::now() + patience;
    while (clock_type::now() < until) {
      {
        std::lock_guard held{mutex};
        if (holds())
          return true;
      }
      std::this_thread::yield();
    }
    return false;
  }

  bool wait_for_count(std::size_t n) {
    return wait_for([&] { return let_in.size() == n; });
  }

  bool was_told(std::string_view why) {
    std::lock_guard held{mutex};
    return std::any_of(told.begin(), told.end(),
                       [why](const auto& x) { return contains(x, why); });
  }
};

} // namespace

CAF_TEST(a peer hears nothing before CAF has said who is here) {
  bare_place x;
  auto first = x.greet(basp::node(1));
  CAF_REQUIRE(x.wait_for_count(1));
  auto second = x.greet(basp::node(2));
  CAF_REQUIRE(x.wait_for_count(2));
  auto frame = [](const plain_socket& from) {
    auto header = from.read(32);
    CAF_REQUIRE_EQUAL(header.size(), 32u);
    from.read(raw_node::number_at(header, 4, 4));
    return static_cast<basp::what>(header[0]);
  };
  basp::message greeting{
    .what = basp::server_handshake, .data = 3, .payload = basp::node(3)};
  between_ends::say(x.let_in[1].caf, greeting);
  CAF_CHECK(frame(second) == basp::server_handshake);
  // By the second sign of life that one gets, the other one would have had its first.
  CAF_CHECK(frame(second) == basp::heartbeat);
  CAF_CHECK(frame(second) == basp::heartbeat);
  between_ends::say(x.let_in[0].caf, greeting);
  CAF_CHECK(frame(first) == basp::server_handshake);
}

CAF_TEST(
  a node that connects anew is let in when its dead connection has gone) {
  bare_place x;
  auto dead = x.greet(
    basp::node(1)); // and nothing more: not even that it lives
  CAF_REQUIRE(x.wait_for_count(1));
  auto other = x.greet(basp::node(2)); // nobody else waits
  CAF_REQUIRE(x.wait_for_count(2));
  auto anew = x.greet(basp::node(1));
  CAF_CHECK(dead.wait_for_end());
  CAF_CHECK(x.was_told("has connected anew"));
  // CAF has not closed its end of the old one.
  CAF_CHECK_EQUAL(x.let_in.size(), 2u);
  x.let_in[0].caf.reset();
  CAF_CHECK(x.wait_for_count(3));
  CAF_CHECK_EQUAL(x.let_in[2].node, basp::node(1));
}

CAF_TEST(a connection that lives is not ended by another one of the same node) {
  bare_place x;
  auto first = x.greet(basp::node(1));
  CAF_REQUIRE(x.wait_for_count(1));
  auto second = x.greet(basp::node(1));
  CAF_CHECK(x.wait_for([&] {
    first.write_all(basp::message{}.bytes()); // it lives
    return x.let_in.size() == 2;
  }));
  CAF_CHECK(!x.was_told("has connected anew"));
  // CAF itself would have closed it on the other side.
  CAF_CHECK(second.wait_for_end());
  CAF_CHECK(x.was_told("has the name of another node, which lives"));
  CAF_CHECK(!first.wait_for_end(50ms));
}

CAF_TEST(where there are as many as may be the idlest makes room) {
  bare_place x{3};
  std::vector<plain_socket> peers;
  for (std::uint32_t i = 0; i < 3; ++i) {
    peers.push_back(x.greet(basp::node(i + 1)));
    CAF_REQUIRE(x.wait_for_count(i + 1));
  }
  // The first one has something to say, the second one only that it lives.
  peers[0].write_all(a_request.bytes());
  peers[1].write_all(basp::message{}.bytes());
  for (auto n : {0, 1})
    CAF_REQUIRE(between_ends::hears(x.let_in[n].caf)); // its greeting
  CAF_REQUIRE(between_ends::hears(x.let_in[0].caf));
  auto another = x.greet(basp::node(4));
  CAF_CHECK(x.wait_for_count(4));
  CAF_CHECK(peers[1].wait_for_end());
  CAF_CHECK(x.was_told("has made room for another, being the idlest"));
  CAF_CHECK(!peers[0].wait_for_end(50ms));
  CAF_CHECK(!peers[2].wait_for_end(50ms));
}

CAF_TEST(
  a connection gets a number that none has had lately however many are open) {
  CAF_REQUIRE(raise_descriptors() >= 8'000);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 8'000;
  setrlimit(RLIMIT_NOFILE, &limit);
  using gd::actors::descriptor;
  std::vector<descriptor> open;
  while (open.empty() || open.back().get() < 1'500)
    open.emplace_back(dup(STDERR_FILENO));
  // Behind the last of those that may be given, it begins anew.
  for (int i = 0; i < 10; ++i)
    open.emplace_back(
      fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, gd::actors::few_left_at() - 10));
  for (int round = 0; round < 10; ++round) {
    std::set<int> had;
    for (int i = 0; i < 2'000; ++i) {
      descriptor given{dup(STDERR_FILENO)};
      given = gd::actors::renumbered(std::move(given));
      had.insert(given.get());
    }
    CAF_CHECK(had.size() >= 1'999);
  }
}

CAF_TEST(who sends more than is taken is not read until it is) {
  bare_place x;
  auto busy = x.greet(basp::node(1));
  CAF_REQUIRE(x.wait_for_count(1));
  auto& caf = x.let_in[0].caf;
  CAF_REQUIRE(between_ends::hears(caf));
  auto answer = a_request;
  answer.data |= basp::response;
  auto to_another = a_request;
  to_another.receiver = 78;
  std::string all;
  for (int i = 0; i < 2'000; ++i)
    all += answer.bytes() + to_another.bytes() + a_request.bytes();
  std::thread writer{[&] { busy.write_all(all); }};
  std::size_t requests = 0;
  auto hear_all = [&](milliseconds within) {
    while (auto header = between_ends::next(caf, within))
      requests += header->receiver == between_ends::gateway
                  && !header->is_response();
  };
  hear_all(1s);
  CAF_MESSAGE(requests << " requests before one was taken");
  CAF_CHECK_GREATER(requests, 1'023u);
  CAF_CHECK_LESS(requests, 2'000u);
  for (auto until = clock_type::now() + patience;
       requests < 2'000 && clock_type::now() < until;) {
    x.let_in[0].count->taken = requests;
    x.between->wake();
    hear_all(50ms);
  }
  CAF_CHECK_EQUAL(requests, 2'000u);
  writer.join();
}

CAF_TEST_FIXTURE_SCOPE(relay_tests, relay_fixture)

CAF_TEST(no attack on the socket harms the node or others) {
  start_at_socket();
  attack_it();
}

CAF_TEST(no attack on the port harms the node or others) {
  start_at_port();
  attack_it();
}

CAF_TEST(ten thousand silent connections harm nobody) {
  auto most = std::min<std::size_t>(10'000, raise_descriptors() - 500);
  start_at_port();
  auto friendly = find();
  gd::actors::secret_handshake half{
    *gd::actors::shared_secret::read(port_secret()),
    gd::actors::secret_handshake::role::client};
  const auto& greeting = half.greeting();
  std::vector<plain_socket> silent;
  std::size_t half_open = 0;
  for (std::size_t i = 0; i < most; ++i) {
    auto& x = silent.emplace_back(endpoint);
    // Every other one begins to greet.
    if (i % 2 == 0 && x.is_open()) {
      ++half_open;
      x.write_all(greeting.substr(0, 40));
    }
  }
  CAF_MESSAGE(silent.size() << " connections, " << half_open << " half open");
  check_unharmed(friendly);
}

CAF_TEST(who says who it is and then nothing or half of it is cut off in time) {
  auto engine = start();
  auto opened = gd::actors::publish(engine,
                                    {.socket = sockets.next(), .silence = 3s});
  CAF_REQUIRE(opened);
  endpoint = *opened;
  raw_node silent{endpoint, basp::node(1)};
  raw_node half{endpoint, basp::node(2)};
  CAF_REQUIRE(silent.greeted && half.greeted);
  half.socket.write_all(
    half.request("gd::insert_all", nobody_asked).bytes().substr(0, 40));
  // Each second they hear that the node lives.
  CAF_CHECK_GREATER(silent.socket.read(96).size(), 32u);
  CAF_CHECK(silent.socket.wait_for_end());
  CAF_CHECK(half.socket.wait_for_end());
  CAF_CHECK_EQUAL(first_reason(), "has been silent for too long");
  // Where the machine stood still for seconds, they have not said it in time: then
  // it is tried again.
  CAF_MESSAGE("the others say nothing either, but that they live");
  auto give_up = clock_type::now() + patience;
  bool outlives = false;
  for (std::uint32_t n = 3; !outlives && clock_type::now() < give_up; ++n) {
    auto friendly = gd::test::connect(sys, endpoint, patience, patience);
    raw_node other{endpoint, basp::node(n)};
    CAF_CHECK(other.socket.wait_for_end());
    outlives = friendly
               && ask<gd::inserted>(*friendly, gd::insert{.fsm = "Probe"});
  }
  CAF_CHECK(outlives);
}

CAF_TEST(a frozen node is noticed in time on the other side) {
  start_at_socket();
  auto found = find(3s);
  caf::scoped_actor self{sys};
  self->monitor(found);
  node->signal(SIGSTOP);
  bool down = false;
  self->receive([&](const caf::down_msg&) { down = true; },
                caf::after(patience) >> [] {});
  CAF_CHECK(down);
  node->signal(SIGCONT);
  CAF_CHECK(works(find()));
}

CAF_TEST(who reads nothing does not make the node grow) {
  start_at_socket();
  auto friendly = find();
  db.rows("insert into gen_durable (fsm, step, status, state) values ('Probe', "
          "'first', 'done', jsonb_build_object('note', repeat('x', 1000000)))");
  auto id = std::stoull(db.scalar("select max(id) from gen_durable"));
  std::vector<raw_node> slow;
  // Where a sanitizer's own memory hides the node's, a few show that it serves others:
  // each mebibyte that CAF, into which TSan does not see, hands from thread to thread is
  // seconds of looking for races there.
  for (std::uint32_t i = 0; i < (own_memory ? 40 : 4); ++i) {
    auto& x = slow.emplace_back(endpoint, basp::node(i + 1));
    CAF_REQUIRE(x.greeted);
    std::string all;
    for (std::uint64_t n = 1; n <= 10; ++n)
      all += x.request("gd::look_up", basp::number(id) + std::string(1, '\0'),
                       n)
               .bytes();
    x.socket.write_all(all);
  }
  check_unharmed(friendly);
}

CAF_TEST(long messages of all peers together take no more than their share) {
  start_at_socket();
  auto friendly = find();
  // A signal to nobody, with a payload of three mebibytes.
  auto value = basp::number(std::uint64_t{1}) + basp::text("name")
               + basp::text(std::string(3 << 20, 'x')) + std::string(1, '\0')
               + basp::text("") + std::string(2, '\0');
  std::vector<raw_node> greedy;
  for (std::uint32_t i = 0; i < 30; ++i) {
    auto& x = greedy.emplace_back(endpoint, basp::node(i + 1));
    CAF_REQUIRE(x.greeted);
    auto bytes = x.request("gd::signal", value).bytes();
    x.socket.write_all(i % 2 == 0 ? bytes : bytes.substr(0, 2 << 20));
  }
  check_unharmed(friendly);
}

CAF_TEST(requests by the million do not make the node grow) {
  start_at_socket();
  auto friendly = find();
  std::vector<raw_node> busy;
  for (std::uint32_t i = 0; i < 4; ++i) {
    auto& x = busy.emplace_back(endpoint, basp::node(i + 1));
    CAF_REQUIRE(x.greeted);
    timeval limit{0, 200'000};
    setsockopt(x.socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    std::string all;
    for (std::uint64_t n = 1; n <= 2'000; ++n)
      all += x.request("gd::insert_all", nobody_asked, n).bytes();
    // It reads no answer, and stops when nothing is taken from it any more.
    // CAF destroys each where TSan looks for races for milliseconds.
    for (int k = 0; k < (own_memory ? times(8) : 1); ++k)
      x.socket.write_all(all);
  }
  check_unharmed(friendly);
}

CAF_TEST(what says it is a worker by the hundred does not make the node grow) {
  start_at_socket();
  auto friendly = find();
  gd::link::join join{.protocols = {gd::link::protocol},
                      .incarnation = "somebody",
                      .node = "somebody"};
  for (std::int64_t id = 0; id < 100'000; ++id) {
    auto& held = join.holds.emplace_back();
    held.id = id;
    held.token = "a token that nobody has";
  }
  auto packet = gd::link::pack(join);
  raw_node worker{endpoint, basp::node(1)};
  CAF_REQUIRE(worker.greeted);
  timeval limit{0, 500'000};
  setsockopt(worker.socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit,
             sizeof(limit));
  auto message = worker.request("gd::actors::link_message",
                                basp::number(packet.type)
                                  + basp::number(packet.version)
                                  + basp::text(packet.bytes));
  message.data = 0;
  auto bytes = message.bytes();
  for (int i = 0; i < 100; ++i)
    worker.socket.write_all(bytes);
  check_unharmed(friendly);
}

CAF_TEST(a database is found again while all descriptors are asked for) {
  raise_descriptors();
  start_node({"--publish-port", "0", "--secret", port_secret(), "--heartbeat",
              "0.5", "--lease", "5"},
             {"/bin/sh", "-c", "ulimit -n 100; exec \"$0\" \"$@\""});
  auto friendly = find();
  CAF_REQUIRE(works(friendly));
  std::vector<raw_node> peers;
  for (std::uint32_t i = 0; i < 40; ++i) // fewer are taken
    peers.emplace_back(endpoint, basp::node(i + 1));
  std::vector<plain_socket> silent;
  for (int i = 0; i < 300; ++i)
    silent.emplace_back(endpoint);
  db.rows("select pg_terminate_backend(pid) from pg_stat_activity where "
          "datname = current_database() and pid <> pg_backend_pid()");
  for (int i = 0; i < 300; ++i)
    silent.emplace_back(endpoint);
  auto until = clock_type::now() + patience;
  bool back = false;
  while (!back && clock_type::now() < until)
    // It may have made room itself.
    if (auto x = gd::test::connect(sys, endpoint, patience, patience))
      back = works(*x);
  CAF_CHECK(back);
  silent.clear();
  peers.clear();
  check_unharmed(find());
}

CAF_TEST(a path that is open to all is not for other users) {
  if (geteuid() != 0) {
    CAF_MESSAGE("only root can be somebody else");
    return;
  }
  auto engine = start();
  auto path = sockets.next();
  CAF_REQUIRE(gd::actors::publish(engine, {.socket = path}));
  chmod(sockets.path().c_str(), 0755);
  chmod(path.c_str(), 0777);
  auto child = ::fork();
  if (child == 0) {
    if (setuid(65'534) != 0)
      _exit(2);
    raw_node hostile{"unix:" + path, basp::node(1)};
    _exit(hostile.socket.is_open() && !hostile.greeted ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CAF_CHECK(WIFEXITED(status));
  CAF_CHECK_EQUAL(WEXITSTATUS(status), 0);
  CAF_CHECK_EQUAL(first_reason(), "is of another user");
  endpoint = "unix:" + path;
  CAF_CHECK(ask<gd::inserted_all>(find(), gd::insert_all{}));
}

CAF_TEST(a link in the place of the socket is neither followed nor removed) {
  auto engine = start();
  auto path = sockets.next();
  auto other = sockets.next();
  CAF_REQUIRE(gd::actors::publish(engine, {.socket = path}));
  std::ofstream{other} << "mine";
  CAF_REQUIRE(rename(path.c_str(), sockets.next().c_str()) == 0);
  CAF_REQUIRE(symlink(other.c_str(), path.c_str()) == 0);
  auto again = gd::actors::publish(engine, {.socket = path});
  CAF_REQUIRE(!again);
  CAF_CHECK(contains(again.error().message, "found another kind of file"));
  engine.stop();
  struct stat found {};
  CAF_CHECK(lstat(path.c_str(), &found) == 0 && S_ISLNK(found.st_mode));
  CAF_CHECK(stat(path.c_str(), &found) == 0 && found.st_size == 4);
}

CAF_TEST(nodes that come and go leave nothing behind) {
  start_at_socket();
  auto friendly = find();
  auto come_and_go = [this](int how_often) {
    for (int i = 0; i < how_often; ++i) {
      raw_node x{endpoint, basp::node(static_cast<std::uint32_t>(i + 1))};
      if (!x.greeted)
        CAF_ERROR("not greeted");
      x.say(x.request("gd::insert_all", nobody_asked));
      CAF_CHECK_EQUAL(x.socket.read(32).size(), 32u);
    }
  };
  come_and_go(300);
  auto before = peak_of(node->id());
  come_and_go(times(1'500));
  auto after = peak_of(node->id());
  CAF_MESSAGE(before << " MiB, " << after << " MiB");
  if (own_memory)
    CAF_CHECK_LESS(after - before, 5);
  check_unharmed(friendly);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace relay_suite
