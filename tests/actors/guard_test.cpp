#define CAF_SUITE guard

#include "actors/network.hpp"
#include "actors/peers.hpp"
#include "actors/raw_node.hpp"
#include "support/basp.hpp"
#include "support/connect.hpp"
#include "support/words.hpp"

#include <gd/actors/remote.hpp>
#include <gd/network/wire/guard.hpp>

#include <gd/network/workers/link_codec.hpp>

#include <caf/io/all.hpp>
#include <caf/test/unit_test.hpp>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace guard_suite {

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

std::string error_of(const std::string& types, const std::string& value) {
  return basp::number(std::uint8_t{1}) + basp::number(std::uint64_t{1})
         + std::string(2, '\0') + basp::text(types) + value;
}

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

/// After it.
std::vector<attack> peers_attacks(const raw_node& to) {
  auto me = basp::node(4'711);
  auto other = basp::node(1, 'v');
  std::vector<attack> xs;
  auto add = [&xs](const char* name, const basp::message& x) {
    xs.push_back({name, x.bytes()});
  };
  auto request = [&to](std::string_view type, std::string_view value) {
    return to.request(type, value);
  };
  for (auto category : {2, 3})
    for (const auto* type : {"@downstream_msg", "@upstream_msg",
                             "@open_stream_msg", "gd::insert_all"}) {
      auto x = request(type, nobody_asked);
      x.data = static_cast<std::uint64_t>(category) << 60 | 1;
      add("a message of a stream", x);
    }
  for (std::uint64_t id = 1; id < 20; ++id) {
    auto x = request("gd::inserted", std::string(9, '\1'));
    x.data = basp::response | basp::async | id;
    add("a forged answer", x);
  }
  auto deep = std::string{};
  for (int i = 0; i < 20'000; ++i)
    deep += std::string(2, '\0') + basp::text("@<>+@message");
  add("a deep message", request("@message", deep));
  add("an error with a deep context",
      request("@error", error_of("@<>+@message", deep)));
  add("a deep reason of an end",
      {.what = basp::down,
       .source = 55,
       .payload = me + to.server + error_of("@<>+@message", deep)});
  add("a routed message",
      {.what = basp::routed,
       .data = basp::async,
       .source = 1,
       .receiver = to.portal,
       .payload = other + to.server + basp::content("gd::insert_all", "\0")});
  add("a routed message to another",
      {.what = basp::routed,
       .data = basp::async,
       .source = 1,
       .receiver = to.portal,
       .payload = me + other + basp::content("gd::insert_all", "\0")});
  for (const auto& who : {other, to.server, std::string(32, '\0')}) {
    add("a monitor of another node", {.what = basp::monitor,
                                      .receiver = to.portal,
                                      .payload = who + to.server});
    add("an end in another node's name",
        {.what = basp::down,
         .source = 1,
         .payload = who + to.server + error_of("@<>", "")});
    add("a second handshake",
        {.what = basp::client_handshake, .flags = 2, .payload = who});
  }
  for (auto n : {0xFFFFFFFFu, 0x7FFFFFFFu, 100'000'000u}) {
    add("a list of billions of rows",
        request("gd::insert_all", basp::length(n)));
    add("a text of gigabytes", request("gd::insert", basp::length(n)));
    add("an optional text of gigabytes",
        request("gd::look_up", basp::number(std::uint64_t{1}) + basp::length(1)
                                 + basp::length(n)));
  }
  add("a length without end",
      request("gd::insert_all", std::string(100, '\xFF')));
  for (const auto* type : {"@exit", "@down", "@error", "@group", "@actor",
                           "@config_value", "@u16str", "stranger"})
    add("another type", request(type, std::string(200, '\0')));
  for (std::uint64_t id = 1; id < 100; ++id) {
    auto x = request("@exit", std::string(64, '\0'));
    x.receiver = id;
    add("a message to another actor", x);
  }
  auto named = request("@atom", std::string(8, '\0'));
  named.flags = 1;
  for (const auto* name : {"SpawnServ", "ConfigServ"}) {
    named.receiver = static_cast<std::uint64_t>(caf::atom_from_string(name));
    add("a message to a server of CAF's", named);
  }
  auto staged = request("gd::insert_all", nobody_asked);
  staged.payload.front() = '\x7F';
  add("a message through other actors", staged);
  return xs;
}

/// Messages of all kinds, with a few bytes that are not as they should be.
std::string nonsense(const raw_node& to, std::mt19937& random) {
  auto me = basp::node(4'711);
  std::string bytes;
  for (auto n = 1 + random() % 4; n > 0; --n) {
    basp::message x;
    switch (random() % 6) {
      case 0:
        x = {.what = basp::monitor,
             .receiver = to.portal,
             .payload = me + to.server};
        break;
      case 1:
        x = {.what = basp::down,
             .source = 55,
             .payload = me + to.server
                        + error_of("@<>+@str", basp::text("why"))};
        break;
      case 2:
        x = to.request("gd::signal", std::string(random() % 100, '\0'));
        break;
      case 3:
        x = to.request("gd::look_up", basp::number(random()));
        break;
      case 4:
        x = to.request("gd::stats_query", "");
        break;
      default:
        x = to.request("gd::insert_all", basp::length(random() % 3));
    }
    bytes += x.bytes();
  }
  for (auto n = 1 + random() % 5; n > 0; --n) {
    auto at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes.erase(at, random() % 40);
        break;
      case 1:
        bytes.insert(at, random() % 40, static_cast<char>(random()));
        break;
      default:
        bytes[at] = static_cast<char>(random() % 2 == 0 ? random()
                                                        : random() % 8);
    }
    if (bytes.empty())
      bytes = "x";
  }
  return bytes;
}

struct guard_fixture {
  temporary_database db;
  socket_folder sockets;
  event_log log;
  network_config cfg;
  caf::actor_system sys{cfg};
  std::optional<talking_process> node;
  std::string place;

  guard_fixture() {
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
    place = line.substr(begin.size());
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
    if (!log.wait_for<events::peer_cut_off>())
      return "none";
    auto all = log.all<events::peer_cut_off>();
    return all.front().why;
  }

  gateway find(milliseconds silence = patience) {
    auto x = gd::test::connect(sys, place, patience, silence);
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
      CAF_CHECK(ask<gd::inserted_all>(to, gd::insert_all{}));
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
      raw_node hostile{place};
      hostile.socket.write_all(x.bytes);
      if (!hostile.socket.wait_for_end())
        CAF_ERROR(x.name);
    }
    raw_node model{place, basp::node(4'711)};
    CAF_REQUIRE(model.greeted);
    for (const auto& x : peers_attacks(model)) {
      raw_node hostile{place, basp::node(4'711)};
      if (!hostile.greeted)
        CAF_ERROR(x.name << ": not greeted any more");
      hostile.socket.write_all(x.bytes);
      // What is refused or left out is over when this is answered, or it ends.
      hostile.say(hostile.request("gd::insert_all", nobody_asked, 7));
      if (hostile.socket.read(32).empty())
        CAF_MESSAGE(x.name << ": cut off");
    }
    check_unharmed(friendly);
  }
};

/// A guard between two ends that tests hold: a peer that has been greeted, and CAF's.
struct between_ends {
  gd::actors::guard between;
  gd::actors::descriptor peer;
  gd::actors::descriptor caf;

  /// Its thread stands still for as long as `stall` when the peer greets.
  explicit between_ends(milliseconds silence = patience,
                        milliseconds stall = milliseconds{0}) {
    auto rules = std::make_shared<gd::actors::basp_rules>(
      gd::actors::basp_rules{.serves = true,
                             .self = node(2),
                             .published = {portal},
                             .messages = gd::actors::gateway_requests(),
                             .most_bytes = 1 << 20});
    auto [its_peer, ours] = gd::actors::socket_pair();
    auto [its_caf, theirs] = gd::actors::socket_pair();
    between.adopt(std::move(its_peer), std::move(its_caf),
                  {.messages = rules,
                   .new_alias =
                     [stall] {
      std::this_thread::sleep_for(stall);
      return node(3);
                   },
                   .ended = [](const gd::actors::basp_node&) {},
                   .silence = silence},
                  patience, std::make_shared<std::atomic<bool>>(false));
    peer = std::move(ours);
    caf = std::move(theirs);
    say(peer, {.what = basp::client_handshake, .payload = basp::node(1)});
    CAF_REQUIRE(hears(caf));
  }

  static constexpr std::uint64_t portal = 77;

  static gd::actors::basp_node node(std::uint32_t process) {
    gd::actors::basp_node x{};
    basp::node(process).copy(x.data(), x.size());
    return x;
  }

  static void say(const gd::actors::descriptor& at, const basp::message& x) {
    auto bytes = x.bytes();
    CAF_CHECK_EQUAL(send(at.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                    static_cast<ssize_t>(bytes.size()));
  }

  /// Whether a message comes that is no sign of life.
  static bool hears(const gd::actors::descriptor& at) {
    auto read = [&at](std::size_t most) {
      std::string got(most, '\0');
      std::size_t size = 0;
      for (ssize_t n = 1; n > 0 && size<most; size += n> 0 ? n : 0) {
        pollfd waits{at.get(), POLLIN, 0};
        poll(&waits, 1, static_cast<int>(milliseconds{patience}.count()));
        n = recv(at.get(), got.data() + size, most - size, 0);
      }
      got.resize(size);
      return got;
    };
    for (;;) {
      auto header = read(32);
      if (header.size() < 32)
        return false;
      auto size = raw_node::number_at(header, 4, 4);
      if (read(size).size() < size)
        return false;
      if (header[0] != basp::heartbeat)
        return true;
    }
  }
};

} // namespace

const basp::message a_request{
  .what = basp::direct,
  .data = basp::async | 1,
  .source = 55,
  .receiver = between_ends::portal,
  .payload = basp::content("gd::insert_all", nobody_asked)};

CAF_TEST(a guard that stood still takes nobody for silent) {
  constexpr milliseconds silence{5'000};
  between_ends x{silence, silence + 1s};
  x.say(x.peer, a_request);
  CAF_CHECK(x.hears(x.caf));
}

// Both ends: what takes nothing more is written to again and again, and what it says is
// in between each time.
CAF_TEST(who takes nothing any more is heard to its end) {
  const basp::message answer{
    .what = basp::direct,
    .data = basp::response | basp::async | 1,
    .source = between_ends::portal,
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

CAF_TEST_FIXTURE_SCOPE(guard_tests, guard_fixture)

CAF_TEST(no attack on the socket harms the node or others) {
  start_at_socket();
  attack_it();
}

CAF_TEST(no attack on the port harms the node or others) {
  start_at_port();
  attack_it();
}

CAF_TEST(no nonsense harms the node or others) {
  start_at_socket();
  auto friendly = find();
  std::string model_server;
  for (int seed = 0; seed < times(150); ++seed) {
    std::mt19937 random{static_cast<unsigned>(seed)};
    raw_node hostile{place, basp::node(4'711)};
    if (!hostile.greeted) {
      CAF_ERROR("seed " << seed << ": not greeted any more");
      break;
    }
    hostile.socket.write_all(nonsense(hostile, random));
    if (seed % 10 == 0 && !ask<gd::inserted_all>(friendly, gd::insert_all{}))
      CAF_ERROR("seed " << seed);
  }
  check_unharmed(friendly);
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
    auto& x = silent.emplace_back(place);
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
  place = *opened;
  raw_node silent{place, basp::node(1)};
  raw_node half{place, basp::node(2)};
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
    auto friendly = gd::test::connect(sys, place, patience, patience);
    raw_node other{place, basp::node(n)};
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
    auto& x = slow.emplace_back(place, basp::node(i + 1));
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
    auto& x = greedy.emplace_back(place, basp::node(i + 1));
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
    auto& x = busy.emplace_back(place, basp::node(i + 1));
    CAF_REQUIRE(x.greeted);
    timeval limit{0, 200'000};
    setsockopt(x.socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    std::string all;
    for (std::uint64_t n = 1; n <= 2'000; ++n)
      all += x.request("gd::insert_all", nobody_asked, n).bytes();
    // It reads no answer, and stops when nothing is taken from it any more.
    for (int k = 0; k < times(8); ++k)
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
  raw_node worker{place, basp::node(1)};
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

CAF_TEST(there are as many peers as there may be and no more) {
  auto engine = start();
  auto opened = gd::actors::publish(
    engine, {.socket = sockets.next(), .connections = 3});
  CAF_REQUIRE(opened);
  place = *opened;
  std::vector<raw_node> peers;
  for (std::uint32_t i = 0; i < 3; ++i)
    CAF_CHECK(peers.emplace_back(place, basp::node(i + 1)).greeted);
  raw_node one_too_many{place, basp::node(9)};
  CAF_CHECK(!one_too_many.greeted);
  CAF_CHECK(one_too_many.socket.wait_for_end());
  CAF_REQUIRE(log.wait_for<events::peer_cut_off>());
  CAF_CHECK(contains(first_reason(), "is one too many"));
  peers.pop_back();
  auto until = clock_type::now() + patience;
  while (!raw_node{place, basp::node(9)}.greeted && clock_type::now() < until)
    ; // the node has not seen yet that there is room
  CAF_CHECK(clock_type::now() < until);
}

CAF_TEST(nobody answers in the place of the engine or speaks as another peer) {
  auto engine = start();
  auto opened = gd::actors::publish(engine, {.socket = sockets.next()});
  CAF_REQUIRE(opened);
  place = *opened;
  auto friendly = find();
  session stranger{db.conninfo()};
  stranger.exec("begin; alter sequence gen_durable_id_seq cache 2");
  caf::scoped_actor self{sys};
  auto open = self->request(friendly, patience, gd::insert{.fsm = "Probe"});
  stranger.wait_until_someone_is_blocked();
  std::vector<char> mine;
  caf::binary_serializer to{sys, mine};
  CAF_REQUIRE(!to(sys.node()));
  for (std::uint64_t id = 1; id <= 50; ++id)
    for (const auto& name :
         {basp::node(1), std::string{mine.begin(), mine.end()}}) {
      raw_node hostile{place, name};
      CAF_REQUIRE(hostile.greeted);
      auto forged = hostile.request("gd::inserted",
                                    basp::number(std::uint64_t{666})
                                      + std::string(1, '\0'));
      forged.data = basp::response | basp::async | id;
      hostile.say(forged);
      CAF_CHECK(hostile.socket.wait_for_end());
    }
  stranger.exec("rollback");
  open.receive([](const gd::inserted& x) { CAF_CHECK_NOT_EQUAL(x.id, 666); },
               [&](const caf::error& why) {
    CAF_ERROR(gd::actors::render(sys, why));
  });
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
    peers.emplace_back(place, basp::node(i + 1));
  std::vector<plain_socket> silent;
  for (int i = 0; i < 300; ++i)
    silent.emplace_back(place);
  db.rows("select pg_terminate_backend(pid) from pg_stat_activity where "
          "datname = current_database() and pid <> pg_backend_pid()");
  for (int i = 0; i < 300; ++i)
    silent.emplace_back(place);
  auto until = clock_type::now() + patience;
  bool back = false;
  while (!back && clock_type::now() < until)
    back = works(friendly);
  CAF_CHECK(back);
  silent.clear();
  peers.clear();
  check_unharmed(friendly);
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
  place = "unix:" + path;
  CAF_CHECK(ask<gd::inserted_all>(find(), gd::insert_all{}));
}

CAF_TEST(nodes that come and go leave nothing behind) {
  start_at_socket();
  auto friendly = find();
  auto come_and_go = [this](int how_often) {
    for (int i = 0; i < how_often; ++i) {
      raw_node x{place, basp::node(static_cast<std::uint32_t>(i + 1))};
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

} // namespace guard_suite
