#define CAF_SUITE secret

#include "actors/remote_nodes.hpp"
#include "support/basp.hpp"
#include "support/secret.hpp"
#include "support/words.hpp"

#include <gd/network/wire/relay.hpp>
#include <gd/network/wire/secret.hpp>

#include <caf/test/unit_test.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace secret_suite {

using namespace gd::test;

namespace {

using gd::actors::handshake_fault;
using gd::actors::secret_handshake;
using gd::actors::shared_secret;
using std::chrono::milliseconds;
using role = secret_handshake::role;
using namespace std::chrono_literals;

struct secret_fixture {
  socket_folder files;

  secret_fixture() {
    std::signal(SIGPIPE, SIG_IGN);
  }

  /// A file with that text, of that mode.
  std::string file(const std::string& text, mode_t mode = 0600) {
    auto name = files.next();
    std::ofstream{name} << text;
    chmod(name.c_str(), mode);
    return name;
  }

  shared_secret make() {
    auto name = files.next();
    CAF_REQUIRE(shared_secret::make(name));
    return *shared_secret::read(name);
  }

  static std::string text_of(const std::string& name) {
    std::ifstream in{name};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  static std::string refusal(const std::string& name) {
    auto x = shared_secret::read(name);
    return x ? "none" : x.error().message;
  }
};

const std::string some_text = std::string(64, 'a') + '\n';

/// What one side has said of a handshake, and how that has ended for it.
struct one_side {
  secret_handshake state;
  std::string said;
  std::string rest{};
  std::optional<handshake_fault> fault{};

  one_side(const shared_secret& secret, role mine) : state(secret, mine) {
    if (mine == role::client)
      said = state.greeting();
  }

  /// In pieces of that size. What is said is what comes of them.
  void hear(std::string_view bytes, std::size_t piece) {
    std::string answer;
    while (!bytes.empty() && !fault) {
      auto next = bytes.substr(0, piece);
      bytes.remove_prefix(next.size());
      fault = state.take(next, answer);
      rest += next;
    }
    said = answer;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(secret_tests, secret_fixture)

// -- the file -----------------------------------------------------------------

CAF_TEST(a new secret is 64 random digits that only this user reads) {
  auto umask_before = umask(0);
  auto first = files.next();
  auto second = files.next();
  CAF_REQUIRE(shared_secret::make(first));
  CAF_REQUIRE(shared_secret::make(second));
  umask(umask_before);
  struct stat found {};
  CAF_REQUIRE(stat(first.c_str(), &found) == 0);
  CAF_CHECK_EQUAL(found.st_mode & 07777u, 0600u);
  auto text = text_of(first);
  CAF_CHECK_EQUAL(text.size(), 65u);
  CAF_CHECK_EQUAL(text.find_first_not_of("0123456789abcdef"), 64u);
  CAF_CHECK_EQUAL(text.back(), '\n');
  CAF_CHECK_NOT_EQUAL(text, text_of(second));
  auto read = shared_secret::read(first);
  CAF_REQUIRE(read);
  CAF_CHECK_EQUAL(read->data()[0], std::stoul(text.substr(0, 2), nullptr, 16));
  CAF_CHECK_EQUAL(read->data()[31],
                  std::stoul(text.substr(62, 2), nullptr, 16));
}

CAF_TEST(what is there already is not overwritten whatever it is) {
  auto there = file("mine");
  auto link = files.next();
  CAF_REQUIRE(symlink(files.next().c_str(), link.c_str()) == 0);
  for (const auto& name : {there, link}) {
    auto made = shared_secret::make(name);
    CAF_REQUIRE(!made);
    CAF_CHECK(made.error().code == gd::errc::rejected);
    CAF_CHECK_EQUAL(made.error().message,
                    "secret " + name
                      + ": is there already, and stays as it is");
  }
  CAF_CHECK_EQUAL(text_of(there), "mine");
}

CAF_TEST(a secret that others can get at is refused) {
  for (mode_t mode : {0640, 0604, 0660, 0602, 0610, 0601, 0644, 0777})
    CAF_CHECK(
      contains(refusal(file(some_text, mode)),
               "expected mode 0600, by which nobody else gets at it, found "));
  for (mode_t mode : {0600, 0400})
    CAF_CHECK(shared_secret::read(file(some_text, mode)));
}

CAF_TEST(a secret of another user is refused) {
  if (geteuid() != 0) {
    CAF_MESSAGE("only root can give a file away");
    return;
  }
  auto name = file(some_text);
  CAF_REQUIRE(chown(name.c_str(), 65'534, 65'534) == 0);
  CAF_CHECK_EQUAL(refusal(name),
                  "secret " + name
                    + ": expected a file of user 0 or of root, found one of "
                      "user 65534");
}

CAF_TEST(a secret is a regular file and no link to one) {
  auto link = files.next();
  CAF_REQUIRE(symlink(file(some_text).c_str(), link.c_str()) == 0);
  CAF_CHECK_EQUAL(refusal(link),
                  "secret " + link + ": expected a regular file, found a link");
  auto pipe = files.next();
  CAF_REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CAF_CHECK(contains(refusal(pipe), "expected a regular file, found another"));
  CAF_CHECK(contains(refusal(files.path()), "expected a regular file"));
  CAF_CHECK(contains(refusal(files.next()), "cannot be read: No such file"));
}

CAF_TEST(a file that is no secret is refused and not repeated) {
  for (std::size_t size : {0, 1, 63, 64, 66, 130, 1 << 20}) {
    auto why = refusal(file(std::string(size, 'a')));
    CAF_CHECK(contains(why, "expected 64 hexadecimal digits and a line end"));
    CAF_CHECK(contains(why, ", found " + std::to_string(size) + " bytes"));
  }
  for (auto [at, what] : {std::pair{64u, 'a'},
                          {0u, 'g'},
                          {63u, 'A'},
                          {31u, ' '},
                          {5u, '\0'},
                          {7u, '\xFF'}}) {
    auto text = some_text;
    text[at] = what;
    auto why = refusal(file(text));
    CAF_CHECK(contains(why, "found another text"));
    CAF_CHECK(!contains(why, "aaaa"));
  }
}

// -- the handshake ------------------------------------------------------------

CAF_TEST(both sides of a handshake know each other however its bytes come) {
  auto secret = make();
  for (std::size_t piece : {1, 2, 31, 32, 33, 47, 48, 1'000}) {
    one_side client{secret, role::client};
    one_side server{secret, role::server};
    server.hear(client.said, piece);
    CAF_CHECK_EQUAL(server.said.size(), 48u);
    client.hear(server.said, piece);
    CAF_CHECK_EQUAL(client.said.size(), 32u);
    // Behind its proof, what it wants to say.
    server.hear(client.said + "and more", piece);
    CAF_CHECK_EQUAL(server.said.size(), 32u);
    CAF_CHECK_EQUAL(server.rest, "and more");
    client.hear(server.said + "and back", piece);
    CAF_CHECK_EQUAL(client.said, "");
    CAF_CHECK_EQUAL(client.rest, "and back");
    CAF_CHECK(!client.fault && !server.fault);
    CAF_CHECK(client.state.is_over() && server.state.is_over());
  }
}

CAF_TEST(who has another secret is told nothing and believed nothing) {
  one_side client{make(), role::client};
  one_side server{make(), role::server};
  server.hear(client.said, 48);
  client.hear(server.said, 48);
  auto proof = client.said;
  server.hear(proof, 32);
  CAF_CHECK(server.fault == handshake_fault::proof);
  CAF_CHECK_EQUAL(server.said, "");
  CAF_CHECK(!server.state.is_over());
  // What it could answer itself is no server's proof.
  for (const auto& said : {proof, std::string(32, '\0')}) {
    auto hearing = client;
    hearing.hear(said, 32);
    CAF_CHECK(hearing.fault == handshake_fault::proof);
    CAF_CHECK(!hearing.state.is_over());
  }
}

CAF_TEST(each bit of a proof counts) {
  auto secret = make();
  one_side client{secret, role::client};
  one_side server{secret, role::server};
  server.hear(client.said, 48);
  client.hear(server.said, 48);
  for (std::size_t bit = 0; bit < 256; ++bit) {
    auto proof = client.said;
    proof[bit / 8] = static_cast<char>(proof[bit / 8] ^ (1 << bit % 8));
    auto hearing = server;
    hearing.hear(proof, 32);
    CAF_CHECK(hearing.fault == handshake_fault::proof);
  }
}

CAF_TEST(a proof that was heard once is worth nothing again) {
  auto secret = make();
  one_side client{secret, role::client};
  auto greeting = client.said;
  one_side server{secret, role::server};
  server.hear(greeting, 48);
  client.hear(server.said, 48);
  one_side another{secret, role::server};
  another.hear(greeting, 48);
  another.hear(client.said, 32);
  CAF_CHECK(another.fault == handshake_fault::proof);
}

CAF_TEST(a side that hears itself takes nobody for the other) {
  auto secret = make();
  one_side client{secret, role::client};
  client.hear(client.said, 48);
  client.hear(client.said, 32);
  CAF_CHECK(client.fault == handshake_fault::proof);
  // A server's own greeting, as that of one who connects to it again.
  one_side first{secret, role::server};
  one_side second{secret, role::server};
  first.hear(one_side{secret, role::client}.said, 48);
  second.hear(first.said, 48);
  CAF_CHECK(!second.fault);
  second.hear(std::string(32, 'x'), 32);
  CAF_CHECK(second.fault == handshake_fault::proof);
  CAF_CHECK_EQUAL(second.said, "");
}

CAF_TEST(
  another protocol is known by the first byte that is not as it should be) {
  auto secret = make();
  for (std::string_view text :
       {"GET / HTTP/1.1\r\n", "gen_durable/2", "\x16\x03\x01", "gX"}) {
    one_side server{secret, role::server};
    auto wrong = std::mismatch(text.begin(), text.end(),
                               server.state.greeting().begin())
                   .first;
    auto good = static_cast<std::size_t>(wrong - text.begin());
    server.hear(text.substr(0, good), 100);
    CAF_CHECK(!server.fault);
    server.hear(text.substr(good, 1), 100);
    CAF_CHECK(server.fault == handshake_fault::greeting);
    CAF_CHECK_EQUAL(server.said, "");
  }
}

// A comparison that ends with the first difference takes longer the later that is: the
// same measurement has to see that, and in ours less than a quarter of it.
CAF_TEST(how long a comparison takes tells nothing of how much agrees) {
  gd::actors::secret_proof model{};
  auto early = model;
  early.front() = 'x';
  auto late = model;
  late.back() = 'x';
  auto naive = [](const auto& x, const auto& y) {
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i] != y[i])
        return false;
    return true;
  };
  auto ours = [](const auto& x, const auto& y) {
    return gd::actors::same_proof(x, y);
  };
  bool all_differ = true;
  auto time_of = [&](auto compare, const auto& other) {
    auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 64; ++i)
      all_differ = !compare(model, other) && all_differ;
    return (std::chrono::steady_clock::now() - begun).count();
  };
  auto median = [](std::vector<std::int64_t>& xs) {
    auto middle = xs.begin() + static_cast<std::ptrdiff_t>(xs.size() / 2);
    std::nth_element(xs.begin(), middle, xs.end());
    return *middle;
  };
  /// By how much the late difference takes longer, of 128,000 comparisons of each kind
  /// that take turns.
  auto difference = [&](auto compare) {
    std::vector<std::int64_t> of_early;
    std::vector<std::int64_t> of_late;
    for (int i = 0; i < 2'000; ++i) {
      of_early.push_back(time_of(compare, early));
      of_late.push_back(time_of(compare, late));
    }
    return median(of_late) - median(of_early);
  };
  auto naive_ns = difference(naive);
  auto ours_ns = difference(ours);
  CAF_MESSAGE("64 comparisons: " << naive_ns << " ns where it ends early, "
                                 << ours_ns << " ns");
  CAF_CHECK(all_differ);
  CAF_CHECK_GREATER(naive_ns, 0);
  CAF_CHECK_LESS(4 * std::abs(ours_ns), naive_ns);
}

// -- a client -----------------------------------------------------------------

CAF_TEST(a client refuses a server that has another secret or none) {
  auto name = files.next();
  CAF_REQUIRE(shared_secret::make(name));
  auto secret = *shared_secret::read(name);
  auto meets = [&](const std::function<void(plain_socket&)>& server) {
    plain_socket listener;
    auto port = listener.listen_anywhere();
    std::thread other{[&] {
      auto fd = accept(listener.fd(), nullptr, nullptr);
      plain_socket peer{fd};
      server(peer);
    }};
    auto to = gd::actors::dial({.address = "127.0.0.1", .port = port},
                               patience);
    auto told = to ? gd::actors::show_secret(*to, secret, patience)
                   : gd::result<void>{to.error()};
    if (to)
      to->reset();
    other.join();
    return told ? "none" : told.error().message;
  };
  auto speaks = [](const shared_secret& with) {
    return [&with](plain_socket& peer) {
      secret_handshake state{with, role::server};
      std::string answer;
      while (!state.is_over()) {
        auto heard = peer.read(state.missing());
        std::string_view bytes{heard};
        if (bytes.empty() || state.take(bytes, answer))
          return;
        peer.write_all(std::exchange(answer, {}));
      }
    };
  };
  CAF_CHECK_EQUAL(meets(speaks(secret)), "none");
  auto other = make();
  CAF_CHECK(contains(meets(speaks(other)), "the peer has hung up: expected one "
                                           "that has the same secret"));
  CAF_CHECK(
    contains(meets([&](plain_socket& peer) {
               peer.read(48);
               peer.write_all(secret_handshake{other, role::server}.greeting());
               peer.read(32);
               peer.write_all(std::string(32, 'x'));
             }),
             "the peer has sent no proof of the port's secret"));
  CAF_CHECK(contains(meets([](plain_socket& peer) {
                       peer.read(48);
                       peer.write_all("HTTP/1.1 400 Bad Request\r\n");
                       peer.wait_for_end();
                     }),
                     "the peer has sent something else than the greeting "
                     "(gen_durable/1)"));
}

// -- a port -------------------------------------------------------------------

namespace {

/// A relay at a port, with nobody in the place of CAF but a counter.
struct kept_port {
  std::mutex mutex;
  std::vector<gd::events::gateway_connection_cut> told;
  std::vector<gd::actors::descriptor> let_in;
  std::string endpoint;
  std::optional<gd::actors::relay> between;

  kept_port(const shared_secret& secret, milliseconds handshake) {
    auto listener = gd::actors::listen_at({.address = "127.0.0.1", .port = 0});
    CAF_REQUIRE(listener);
    endpoint = "127.0.0.1:" + std::to_string(gd::actors::port_of(*listener));
    between.emplace(gd::actors::relay_settings{
                      .handshake = handshake,
                      .secret = secret,
                      .hand_over =
                        [this](gd::actors::descriptor fd, const std::string&) {
      std::lock_guard held{mutex};
      let_in.push_back(std::move(fd));
      return std::make_shared<gd::actors::peer_count>();
                      },
                      .tell =
                        [this](const gd::event& what) {
      std::lock_guard held{mutex};
      told.push_back(std::get<gd::events::gateway_connection_cut>(what));
                      }},
      std::move(*listener));
  }

  std::size_t let_in_count() {
    std::lock_guard held{mutex};
    return let_in.size();
  }

  bool was_told(std::string_view why) {
    std::lock_guard held{mutex};
    return std::any_of(told.begin(), told.end(),
                       [why](const auto& x) { return contains(x.why, why); });
  }

  /// Whether a good peer gets in, and CAF its first sentence.
  bool lets_in_a_good_one() {
    auto before = let_in_count();
    plain_socket good{endpoint};
    if (!show_port_secret(good))
      return false;
    good.write_all(
      basp::message{.what = basp::client_handshake, .payload = basp::node(1)}
        .bytes());
    for (auto until = std::chrono::steady_clock::now() + patience;
         let_in_count() == before;)
      if (std::chrono::steady_clock::now() > until)
        return false;
      else
        std::this_thread::yield();
    return true;
  }
};

} // namespace

CAF_TEST(nobody without the secret gets a byte through to CAF) {
  auto secret = *shared_secret::read(port_secret());
  kept_port port{secret, patience};
  auto basp_greeting = basp::message{.what = basp::client_handshake,
                                     .payload = basp::node(1)}
                         .bytes();
  std::string heard_greeting;
  std::string heard_proof;
  {
    one_side client{secret, role::client};
    heard_greeting = client.said;
    plain_socket good{port.endpoint};
    good.write_all(client.said);
    client.hear(good.read(48), 48);
    heard_proof = client.said;
  }
  auto stranger = [&](const std::function<void(plain_socket&)>& attack) {
    plain_socket hostile{port.endpoint};
    attack(hostile);
    hostile.write_all(basp_greeting);
    CAF_CHECK(hostile.wait_for_end());
  };
  stranger(
    [](plain_socket&) {}); // an old one, which begins with CAF's protocol
  stranger([](plain_socket& x) { x.write_all("GET / HTTP/1.1\r\n\r\n"); });
  stranger([](plain_socket& x) { x.write_all(std::string(1'000, '\0')); });
  stranger([&](plain_socket& x) { x.write_all(heard_greeting + heard_proof); });
  stranger([&](plain_socket& x) {
    x.write_all(heard_greeting);
    CAF_CHECK_EQUAL(x.read(48).size(), 48u);
    x.write_all(heard_proof);
  });
  stranger([&](plain_socket& x) { // its own sentences
    x.write_all(heard_greeting);
    x.write_all(x.read(48));
  });
  stranger([&](plain_socket& x) { // another secret
    one_side client{make(), role::client};
    x.write_all(client.said);
    client.hear(x.read(48), 48);
    x.write_all(client.said);
  });
  CAF_CHECK_EQUAL(port.let_in_count(), 0u);
  CAF_CHECK(port.was_told("has sent something else than the greeting "
                          "(gen_durable/1) of a peer that has the port's "
                          "secret"));
  CAF_CHECK(port.was_told("has sent no proof of the port's secret"));
  std::ifstream file{port_secret()};
  std::string text;
  std::getline(file, text);
  CAF_CHECK(!port.was_told(text.substr(0, 8)));
  CAF_CHECK(port.lets_in_a_good_one());
  CAF_CHECK_EQUAL(port.let_in_count(), 1u);
}

CAF_TEST(who does not come to the end of the handshake in time is cut off) {
  kept_port port{*shared_secret::read(port_secret()), 1s};
  one_side client{make(), role::client};
  plain_socket silent{port.endpoint};
  plain_socket half{port.endpoint};
  half.write_all(client.said.substr(0, 20));
  plain_socket greeted{port.endpoint};
  greeted.write_all(client.said);
  plain_socket shown{port.endpoint};
  CAF_CHECK(show_port_secret(shown)); // and not a word of CAF's
  // A byte now and then is no excuse.
  plain_socket slow{port.endpoint};
  std::size_t at = 0;
  for (; at < client.said.size() && !slow.wait_for_end(50ms); ++at)
    slow.write_all(client.said.substr(at, 1));
  CAF_CHECK_LESS(at, client.said.size());
  for (auto* x : {&silent, &half, &greeted, &shown})
    CAF_CHECK(x->wait_for_end());
  CAF_CHECK(port.was_told("has not said who it is in time"));
  CAF_CHECK_EQUAL(port.let_in_count(), 0u);
  CAF_CHECK(port.lets_in_a_good_one());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace secret_suite
