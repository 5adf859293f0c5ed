#define CAF_SUITE basp_filter

#include "actors/harness.hpp"
#include "remote_peer/samples.hpp"
#include "support/basp.hpp"

#include <gd/network/wire/basp_filter.hpp>

#include <caf/test/unit_test.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace basp_filter_suite {

using namespace gd::test;

namespace {

using gd::actors::basp_fault;
using gd::actors::basp_filter;
using gd::actors::basp_fit;
using gd::actors::basp_message;
using gd::actors::basp_node;
using gd::actors::basp_rules;

constexpr std::uint64_t portal = 77;
constexpr std::uint64_t sender = 1'234;

basp_node to_node(const std::string& bytes) {
  basp_node x{};
  bytes.copy(x.data(), x.size());
  return x;
}

const std::string self = basp::node(1, 's');
const std::string peer = basp::node(4'711, 'p');
const std::string alias = basp::node(2, 'a');

std::string name_of(std::optional<basp_fault> why) {
  return why ? std::string{to_string(*why)} : "nothing";
}

basp::message request(std::string_view type, std::string_view value,
                      std::uint64_t number = 1) {
  return {.what = basp::direct,
          .data = basp::async | number,
          .source = sender,
          .receiver = portal,
          .payload = basp::content(type, value)};
}

basp::message greeting(const std::string& node = peer, std::uint8_t flags = 0) {
  return {.what = basp::client_handshake, .flags = flags, .payload = node};
}

/// What CAF would write as an error, without its envelope.
std::string an_error(const std::string& types = "@<>",
                     const std::string& values = {}) {
  return basp::number(std::uint8_t{3}) + basp::number(std::uint64_t{99})
         + std::string(2, '\0') + basp::text(types) + values;
}

basp::message down(const std::string& from = peer, const std::string& to = self,
                   std::uint64_t who = sender) {
  return {.what = basp::down, .source = who, .payload = from + to + an_error()};
}

basp::message monitor(const std::string& from = peer,
                      const std::string& to = self,
                      std::uint64_t whom = portal) {
  return {.what = basp::monitor, .receiver = whom, .payload = from + to};
}

const std::string nothing;
/// As CAF writes it.
const std::string empty_insert_all(1, '\0');

/// A filter, and what has come out of it.
struct tried {
  explicit tried(std::shared_ptr<const basp_rules> rules)
    : filter(std::move(rules), [this] {
        ++named;
        return to_node(alias);
      }) {
    // nop
  }

  std::optional<basp_fault> from_peer(const std::string& bytes) {
    return filter.from_peer(bytes, to_caf, to_peer);
  }
  std::optional<basp_fault> from_peer(const basp::message& x) {
    return from_peer(x.bytes());
  }
  void from_caf(const basp::message& x) {
    filter.from_caf(x.bytes(), to_peer);
  }

  /// What has passed since the last time.
  std::string passed() {
    return std::exchange(to_caf, {});
  }
  std::string said() {
    return std::exchange(to_peer, {});
  }

  int named = 0;
  std::string to_caf;
  std::string to_peer;
  basp_filter filter;
};

struct filter_fixture {
  system_config cfg;
  caf::actor_system sys{cfg};
  basp_rules rules{.serves = true,
                   .self = to_node(self),
                   .published = {portal},
                   .messages = gd::actors::gateway_requests(),
                   .answers = {},
                   .most_bytes = 1 << 20,
                   .most_senders = 100,
                   .unknown = "<unknown>",
                   .too_long = "<too long>"};

  tried open() const {
    return tried{std::make_shared<basp_rules>(rules)};
  }

  /// One that has been greeted.
  tried greeted() const {
    auto x = open();
    x.filter = basp_filter{std::make_shared<basp_rules>(rules),
                           [] { return to_node(alias); }};
    CAF_REQUIRE_EQUAL(name_of(x.from_peer(greeting())), "nothing");
    x.passed();
    return x;
  }

  /// The side that asks, connected.
  tried asking() const {
    auto mine = rules;
    mine.serves = false;
    mine.published = {};
    mine.messages = {};
    mine.answers = gd::actors::gateway_answers();
    tried x{std::make_shared<basp_rules>(mine)};
    x.filter = basp_filter{std::make_shared<basp_rules>(mine),
                           [] { return to_node(alias); }};
    x.from_caf(greeting(self));
    CAF_REQUIRE_EQUAL(name_of(x.from_peer(server_greeting())), "nothing");
    x.passed();
    x.said();
    return x;
  }

  static basp::message server_greeting(std::uint64_t version = 3) {
    return {.what = basp::server_handshake,
            .data = version,
            .payload = peer + basp::length(1) + basp::text("generic-caf-app")
                       + basp::number(portal) + basp::length(2)
                       + basp::text("one") + basp::text("two")};
  }

  template <class T>
  std::string as_caf_writes(T x) {
    std::vector<char> bytes;
    caf::binary_serializer to{sys, bytes};
    CAF_REQUIRE(!to(x));
    return {bytes.begin(), bytes.end()};
  }

  template <class T>
  bool caf_reads(const std::string& bytes) {
    T x;
    caf::binary_deserializer from{sys, bytes.data(), bytes.size()};
    return !from(x) && from.remaining() == 0;
  }

  std::string fault_of(const basp::message& x) const {
    auto tried = greeted();
    auto why = name_of(tried.from_peer(x));
    if (why != "nothing")
      CAF_CHECK_EQUAL(tried.passed(), nothing);
    return why;
  }

  static std::string refusal(const basp::message& of, const std::string& why) {
    return basp::message{.what = basp::direct,
                         .data = of.data | basp::response,
                         .source = of.receiver,
                         .receiver = of.source,
                         .payload = basp::content("@error", why)}
      .bytes();
  }

  /// Whether a request was refused, and nothing of it passed.
  bool is_refused(const basp::message& x, const std::string& why) const {
    auto tried = greeted();
    return !tried.from_peer(x) && tried.passed().empty()
           && tried.said() == refusal(x, why);
  }

  bool is_dropped(const basp::message& x) const {
    auto tried = greeted();
    return !tried.from_peer(x) && tried.passed().empty() && tried.said().empty()
           && tried.filter.dropped() == 1;
  }

  // -- every type ---------------------------------------------------------------

  template <class F>
  void for_each_type(F f) {
    f(gd::insert{}, "gd::insert");
    f(gd::insert_all{}, "gd::insert_all");
    f(gd::signal{}, "gd::signal");
    f(gd::transition{}, "gd::transition");
    f(gd::look_up{}, "gd::look_up");
    f(gd::stats_query{}, "gd::stats_query");
    f(gd::history_query{}, "gd::history_query");
    f(gd::in_step_query{}, "gd::in_step_query");
    f(gd::why_query{}, "gd::why_query");
    f(gd::inserted{}, "gd::inserted");
    f(gd::inserted_all{}, "gd::inserted_all");
    f(gd::signalled{}, "gd::signalled");
    f(gd::transitioned{}, "gd::transitioned");
    f(gd::instance{}, "gd::instance");
    f(gd::stats{}, "gd::stats");
    f(gd::history_page{}, "gd::history_page");
    f(gd::in_step_page{}, "gd::in_step_page");
    f(gd::why{}, "gd::why");
  }

  static const basp_message* find(std::string_view type) {
    static const auto all = [] {
      auto xs = gd::actors::gateway_requests();
      auto ys = gd::actors::gateway_answers();
      xs.insert(xs.end(), ys.begin(), ys.end());
      return xs;
    }();
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const auto& x) { return x.type == type; });
    return found != all.end() ? &*found : nullptr;
  }
};

constexpr std::size_t plenty = std::size_t{1} << 30;

} // namespace

CAF_TEST_FIXTURE_SCOPE(basp_filter_tests, filter_fixture)

CAF_TEST(what a node says passes in the name that it is given) {
  auto x = open();
  CAF_CHECK(!x.filter.greeted());
  CAF_CHECK_EQUAL(name_of(x.from_peer(greeting())), "nothing");
  CAF_CHECK(x.filter.greeted());
  CAF_CHECK_EQUAL(x.passed(), greeting(alias).bytes());
  CAF_CHECK_EQUAL(name_of(x.from_peer(greeting(peer, 2))), "nothing");
  CAF_CHECK_EQUAL(x.passed(), greeting(alias, 2).bytes());
  CAF_CHECK_EQUAL(x.named, 1);
  for (const auto& type : rules.messages) {
    // Enough for all of them: nothing but empty lists and texts.
    for (std::uint64_t data :
         {basp::async | 7, std::uint64_t{8}, basp::async, std::uint64_t{0}}) {
      auto one = request("gd::insert_all", empty_insert_all);
      one.data = data;
      CAF_CHECK_EQUAL(name_of(x.from_peer(one)), "nothing");
      CAF_CHECK_EQUAL(x.passed(), one.bytes());
    }
    CAF_CHECK(find(type.type));
  }
  CAF_CHECK_EQUAL(name_of(x.from_peer(monitor())), "nothing");
  CAF_CHECK_EQUAL(x.passed(), monitor(alias).bytes());
  CAF_CHECK_EQUAL(name_of(x.from_peer(down())), "nothing");
  CAF_CHECK_EQUAL(x.passed(), down(alias).bytes());
  CAF_CHECK_EQUAL(name_of(x.from_peer(basp::message{})), "nothing");
  CAF_CHECK_EQUAL(x.passed(), basp::message{}.bytes());
  CAF_CHECK_EQUAL(x.said(), nothing);
  CAF_CHECK_EQUAL(x.filter.dropped(), 0u);
}

CAF_TEST(it does not matter how the bytes come in pieces) {
  auto all = greeting().bytes() + greeting(peer, 2).bytes()
             + request("gd::insert_all", empty_insert_all).bytes()
             + request("gd::nothing", "x").bytes() + monitor().bytes()
             + basp::message{}.bytes() + down().bytes();
  auto at_once = open();
  CAF_CHECK(!at_once.from_peer(all));
  for (std::size_t size : {1, 2, 31, 33}) {
    auto x = open();
    for (std::size_t at = 0; at < all.size(); at += size)
      CAF_CHECK(!x.from_peer(all.substr(at, size)));
    CAF_CHECK_EQUAL(x.passed(), at_once.to_caf);
    CAF_CHECK_EQUAL(x.said(), at_once.to_peer);
  }
}

CAF_TEST(nothing passes before a handshake) {
  for (const auto& first :
       {request("gd::insert_all", empty_insert_all), monitor(), down(),
        basp::message{}, server_greeting(),
        basp::message{.what = basp::routed, .receiver = 1, .payload = "x"},
        basp::message{.what = 99}}) {
    auto x = open();
    CAF_CHECK_EQUAL(name_of(x.from_peer(first)),
                    "something else than a handshake");
    CAF_CHECK_EQUAL(x.passed(), nothing);
    CAF_CHECK(!x.filter.greeted());
  }
}

CAF_TEST(a handshake has one form) {
  auto of = [this](const basp::message& x) {
    auto tried = open();
    auto why = name_of(tried.from_peer(x));
    CAF_CHECK_EQUAL(tried.passed(), nothing);
    CAF_CHECK_EQUAL(tried.named, 0);
    return why;
  };
  const std::string wrong = "a handshake that CAF does not send";
  auto with = [](auto change) {
    auto x = greeting();
    change(x);
    return x;
  };
  // The one that ends a process: 32 bytes, and nothing behind them.
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.payload = {}; })), wrong);
  for (std::size_t n : {1, 31, 33, 64})
    CAF_CHECK_EQUAL(of(with([n](auto& x) { x.payload.resize(n); })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.size = 0xFFFFFFFF; })), wrong);
  for (std::uint8_t flags : {1, 2, 3, 255})
    CAF_CHECK_EQUAL(of(with([flags](auto& x) { x.flags = flags; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.data = 3; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.source = 1; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.receiver = 1; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.padding = 1; })),
                  "a header that CAF does not send");
  // Node ids of other kinds: none, one that is a URI, one without a process or a host.
  CAF_CHECK_EQUAL(of(greeting(std::string(32, '\0'))), wrong);
  CAF_CHECK_EQUAL(of(greeting("x" + peer.substr(1))), wrong);
  CAF_CHECK_EQUAL(of(greeting(basp::node(0))), wrong);
  CAF_CHECK_EQUAL(of(greeting(basp::node(1, '\0'))), wrong);
}

CAF_TEST(a second handshake is the same node and a third is none) {
  auto x = greeted();
  CAF_CHECK_EQUAL(name_of(x.from_peer(greeting(basp::node(9), 2))),
                  "a message in another node's name");
  auto y = greeted();
  CAF_CHECK(!y.from_peer(greeting(peer, 2)));
  CAF_CHECK_EQUAL(name_of(y.from_peer(greeting(peer, 2))),
                  "a handshake that CAF does not send");
  CAF_CHECK_EQUAL(fault_of(greeting()), "a handshake that CAF does not send");
  CAF_CHECK_EQUAL(fault_of(server_greeting()),
                  "a handshake that CAF does not send");
}

CAF_TEST(headers that CAF never writes end the connection) {
  const std::string wrong = "a header that CAF does not send";
  auto with = [](basp::message x, auto change) {
    change(x);
    return x;
  };
  auto one = request("gd::insert_all", empty_insert_all);
  CAF_CHECK_EQUAL(fault_of(with(one, [](auto& x) { x.payload = {}; })), wrong);
  CAF_CHECK_EQUAL(fault_of(with(one, [](auto& x) { x.receiver = 0; })), wrong);
  CAF_CHECK_EQUAL(fault_of(with(one, [](auto& x) { x.source = 0; })), wrong);
  CAF_CHECK_EQUAL(fault_of(with(one, [](auto& x) { x.flags = 2; })), wrong);
  CAF_CHECK_EQUAL(fault_of(with(one, [](auto& x) { x.padding = 256; })), wrong);
  CAF_CHECK_EQUAL(
    fault_of(with(one, [](auto& x) { x.data |= std::uint64_t{1} << 62; })),
    wrong);
  CAF_CHECK_EQUAL(fault_of(with(monitor(), [](auto& x) { x.payload = {}; })),
                  wrong);
  CAF_CHECK_EQUAL(fault_of(with(monitor(), [](auto& x) { x.data = 1; })),
                  wrong);
  CAF_CHECK_EQUAL(
    fault_of(with(monitor(), [](auto& x) { x.size = 0xFFFFFFFF; })), wrong);
  CAF_CHECK_EQUAL(fault_of(with(down(), [](auto& x) { x.payload = {}; })),
                  wrong);
  CAF_CHECK_EQUAL(fault_of(with(down(), [](auto& x) { x.source = 0; })), wrong);
  CAF_CHECK_EQUAL(fault_of(with(down(), [](auto& x) { x.size = 0x7FFFFFFF; })),
                  wrong);
  CAF_CHECK_EQUAL(
    fault_of(with(basp::message{}, [](auto& x) { x.payload = "x"; })), wrong);
  CAF_CHECK_EQUAL(fault_of({.what = 7}), wrong);
  CAF_CHECK_EQUAL(fault_of({.what = 255}), wrong);
}

CAF_TEST(no message is longer than it may be whatever its header says) {
  auto one = request("gd::insert_all", empty_insert_all);
  for (auto size : {0x7FFFFFFFu, 0xFFFFFFF0u, 0xFFFFFFFFu}) {
    one.size = size;
    CAF_CHECK_EQUAL(fault_of(one), "a message that is longer than any may be");
  }
  CAF_MESSAGE(
    "one that is a little too long is refused, and what follows is not");
  auto x = greeted();
  auto longer = request("gd::signal", std::string(rules.most_bytes, 'x'));
  auto next = request("gd::insert_all", empty_insert_all, 2);
  CAF_CHECK(!x.from_peer(longer.bytes() + next.bytes()));
  CAF_CHECK_EQUAL(x.passed(), next.bytes());
  CAF_CHECK_EQUAL(x.said(), refusal(longer, rules.too_long));
}

CAF_TEST(messages of streams end the connection) {
  auto one = request("gd::insert_all", empty_insert_all);
  for (std::uint64_t category : {2, 3}) {
    one.data = category << 60 | 1;
    CAF_CHECK_EQUAL(fault_of(one), "a message of a stream");
    one.data = category << 60;
    CAF_CHECK_EQUAL(fault_of(one), "a message of a stream");
  }
}

CAF_TEST(messages through other actors and for other nodes end the connection) {
  auto one = request("gd::insert_all", empty_insert_all);
  for (char stages : {'\1', '\x7F', '\xFF'}) {
    one.payload.front() = stages;
    CAF_CHECK_EQUAL(fault_of(one),
                    "a message that is to go through other actors");
  }
  CAF_CHECK_EQUAL(
    fault_of({.what = basp::routed,
              .data = basp::async,
              .source = 1,
              .receiver = portal,
              .payload = basp::node(5) + self
                         + basp::content("gd::insert_all", empty_insert_all)}),
    "a message for others");
}

CAF_TEST(nobody forges answers) {
  for (std::uint64_t number : {0, 1, 2, 1'000})
    for (std::uint64_t category : {std::uint64_t{0}, basp::async}) {
      auto one = request("gd::inserted", std::string(9, '\0'));
      one.data = basp::response | category | number;
      CAF_CHECK_EQUAL(fault_of(one), "an answer that nobody waits for");
    }
}

CAF_TEST(nobody speaks in the name of another node) {
  for (const auto& other :
       {self, alias, basp::node(4'712, 'p'), std::string(32, '\0')}) {
    CAF_CHECK_EQUAL(fault_of(monitor(other)),
                    "a message in another node's name");
    CAF_CHECK_EQUAL(fault_of(monitor(peer, other == self ? alias : other)),
                    "a message in another node's name");
    CAF_CHECK_EQUAL(fault_of(down(other)), "a message in another node's name");
    CAF_CHECK_EQUAL(fault_of(down(peer, other == self ? alias : other)),
                    "a message in another node's name");
  }
  CAF_MESSAGE("not even by its greeting: CAF knows it by the name it is given");
  for (const auto& claimed : {self, peer, alias}) {
    auto x = open();
    CAF_CHECK(!x.from_peer(greeting(claimed)));
    CAF_CHECK_EQUAL(x.passed(), greeting(alias).bytes());
  }
}

CAF_TEST(only what is published is reached) {
  auto one = request("gd::insert_all", empty_insert_all);
  for (std::uint64_t other : {1, 2, 76, 78, 1'000'000}) {
    one.receiver = other;
    CAF_CHECK(is_refused(one, rules.unknown));
    auto told = one;
    told.data = basp::async;
    CAF_CHECK(is_dropped(told));
    CAF_CHECK(is_dropped(monitor(peer, self, other)));
  }
  CAF_MESSAGE("CAF's servers for spawning and configuration have names");
  for (const auto* name : {"SpawnServ", "ConfigServ", "PeerServ"}) {
    auto named = request("@atom", "x");
    named.flags = 1;
    named.receiver = static_cast<std::uint64_t>(caf::atom_from_string(name));
    CAF_CHECK(is_dropped(named));
  }
}

CAF_TEST(only messages of the gateway pass) {
  for (const auto* type :
       {"@exit", "@down", "@error", "@message", "@actor", "@addr",
        "@strong_actor_ptr", "@downstream_msg", "@open_stream_msg", "@group",
        "@config_value", "gd::instance", "gd::inserted", "gd::inser",
        "gd::insertt", "", "gd::insert+gd::insert"})
    CAF_CHECK(is_refused(request(type, "anything"), rules.unknown));
  auto empty = request("", "");
  empty.payload = std::string(3, '\0') + basp::text("@<>");
  CAF_CHECK(is_refused(empty, rules.unknown));
  CAF_MESSAGE("types by number, and names that are none");
  auto numbered = empty;
  numbered.payload = std::string{"\0\0\1", 3} + basp::text("@<>+gd::insert");
  CAF_CHECK_EQUAL(fault_of(numbered),
                  "a message that is not what its type says");
  numbered.payload = std::string(3, '\0') + basp::text("gd::insert");
  CAF_CHECK_EQUAL(fault_of(numbered),
                  "a message that is not what its type says");
  for (const auto& length :
       {basp::length(0xFFFFFFFF), basp::length(200), std::string(9, '\xFF')}) {
    numbered.payload = std::string(3, '\0') + length + "@<>+gd::insert";
    CAF_CHECK_EQUAL(fault_of(numbered),
                    "a message that is not what its type says");
  }
}

CAF_TEST(what CAF writes fits and what is cut off or goes on does not ) {
  for_each_type([this](auto type, const char* name) {
    using T = decltype(type);
    const auto* of = find(name);
    CAF_REQUIRE(of);
    for (unsigned seed = 0; seed < samples_of_each; ++seed) {
      auto bytes = as_caf_writes(sample<T>(seed));
      if (of->fits(bytes, plenty) != basp_fit::yes)
        CAF_ERROR(name << " " << seed);
      CAF_CHECK(of->fits(bytes + "x", plenty) == basp_fit::no);
      if (seed < 10 && bytes.size() < 4'096)
        for (std::size_t n = 0; n < bytes.size(); ++n)
          if (of->fits(std::string_view{bytes}.substr(0, n), plenty)
              == basp_fit::yes)
            CAF_ERROR(name << " " << seed << " cut to " << n);
    }
  });
}

CAF_TEST(what passes is read by CAF to its end) {
  std::mt19937 random{19};
  std::size_t passed = 0;
  std::size_t all = 0;
  for_each_type([&](auto type, const char* name) {
    using T = decltype(type);
    const auto* of = find(name);
    std::vector<std::string> samples;
    for (unsigned seed = 0; seed < samples_of_each; ++seed)
      if (auto bytes = as_caf_writes(sample<T>(seed)); bytes.size() < 4'096)
        samples.push_back(std::move(bytes));
    for (unsigned n = 0; n < 2'000; ++n) {
      auto bytes = samples[n % samples.size()];
      for (auto change = random() % 3; change < 3 && !bytes.empty(); ++change) {
        auto at = random() % bytes.size();
        if (random() % 4 == 0)
          bytes.erase(at, random() % 3);
        else
          bytes[at] = static_cast<char>(random() % 2 == 0 ? random()
                                                          : random() % 3);
      }
      ++all;
      if (of->fits(bytes, plenty) != basp_fit::yes)
        continue;
      ++passed;
      if (!caf_reads<T>(bytes))
        CAF_ERROR(name << " " << n);
    }
  });
  CAF_MESSAGE(passed << " of " << all);
  CAF_CHECK_GREATER(passed, all / 20);
  CAF_CHECK_LESS(passed, all);
}

CAF_TEST(no length is believed that the bytes do not bear out) {
  for (const auto& length : {basp::length(0xFFFFFFFF), basp::length(0x7FFFFFFF),
                             basp::length(1'000'000), std::string(5, '\xFF'),
                             std::string(64, '\x80')}) {
    // The list of rows; the machine's name of a row; a text of a signal.
    CAF_CHECK_EQUAL(fault_of(request("gd::insert_all", length)),
                    "a message that is not what its type says");
    CAF_CHECK_EQUAL(
      fault_of(request("gd::insert_all", basp::length(1) + length)),
      "a message that is not what its type says");
    CAF_CHECK_EQUAL(
      fault_of(request("gd::signal", basp::number(std::uint64_t{7}) + length)),
      "a message that is not what its type says");
    CAF_CHECK_EQUAL(
      fault_of(request("gd::look_up", basp::number(std::uint64_t{7}) + length)),
      "a message that is not what its type says");
  }
}

CAF_TEST(a message does not take much more memory than it has bytes) {
  gd::insert_all many;
  many.rows.resize(rules.most_bytes / 60);
  for (auto& row : many.rows)
    row.state = gd::json::raw("");
  auto x = request("gd::insert_all", as_caf_writes(many));
  CAF_MESSAGE(x.payload.size()
              << " bytes, " << many.rows.size() * sizeof(gd::insert)
              << " in memory");
  CAF_REQUIRE_LESS(x.payload.size(), rules.most_bytes);
  CAF_CHECK(is_refused(x, rules.too_long));
  many.rows.resize(1'000);
  CAF_CHECK_EQUAL(fault_of(request("gd::insert_all", as_caf_writes(many))),
                  "nothing");
}

CAF_TEST(
  a node has no more actors here than it may and those that end count no more) {
  auto x = greeted();
  auto one = request("gd::insert_all", empty_insert_all);
  for (std::uint64_t id = 1; id <= rules.most_senders; ++id) {
    one.source = id;
    CAF_REQUIRE(!x.from_peer(one));
  }
  one.source = 1;
  CAF_CHECK(!x.from_peer(one));
  for (std::uint64_t id = 1; id <= 50; ++id)
    CAF_CHECK(!x.from_peer(down(peer, self, id)));
  for (std::uint64_t id = 1'001; id <= 1'050; ++id) {
    one.source = id;
    CAF_CHECK(!x.from_peer(one));
  }
  one.source = 9'999;
  CAF_CHECK_EQUAL(name_of(x.from_peer(one)), "messages of too many actors");
}

CAF_TEST(the end of an actor passes once and with texts at the most) {
  auto of = [this](const std::string& error) {
    auto x = greeted();
    CAF_CHECK(!x.from_peer(request("gd::insert_all", empty_insert_all)));
    x.passed();
    auto end = down();
    end.payload = peer + self + error;
    if (auto why = x.from_peer(end))
      return name_of(why);
    auto got = x.passed();
    CAF_CHECK(!x.from_peer(end));
    CAF_CHECK_EQUAL(x.passed(), nothing); // it is not known any more
    return got.substr(basp::message{}.bytes().size() + 64);
  };
  CAF_CHECK_EQUAL(of(an_error()), an_error());
  auto texts = an_error("@<>+@str+@str", basp::text("why") + basp::text(""));
  CAF_CHECK_EQUAL(of(texts), texts);
  for (const auto& other :
       {an_error("@<>+@message", std::string(1'000, '\0')),
        an_error("@<>+@error", an_error()), an_error("@<>+@str", ""),
        an_error("@<>", "x"), an_error("nonsense"),
        an_error("@<>+@str+@str", basp::text("why"))})
    CAF_CHECK(of(other) == an_error()
              || of(other) == "a message that is not what its type says");
  CAF_CHECK_EQUAL(of("x"), "a message that is not what its type says");
}

CAF_TEST(what waits for an actor is counted until it is taken) {
  auto x = greeted();
  auto one = request("gd::insert_all", empty_insert_all);
  for (int i = 0; i < 10; ++i)
    CAF_CHECK(!x.from_peer(one));
  CAF_CHECK_EQUAL(x.filter.messages_waiting(), 10u);
  CAF_CHECK_EQUAL(x.filter.bytes_waiting(), 10 * one.payload.size());
  x.filter.taken(7);
  x.filter.taken(7);
  CAF_CHECK_EQUAL(x.filter.messages_waiting(), 3u);
  CAF_CHECK_EQUAL(x.filter.bytes_waiting(), 3 * one.payload.size());
}

CAF_TEST(what is said here does not break into what CAF says) {
  auto x = greeted();
  auto answer = basp::message{.what = basp::direct,
                              .data = basp::response | 1,
                              .source = portal,
                              .receiver = sender,
                              .payload = std::string(1'000, 'x')}
                  .bytes();
  auto other = request("@exit", "x");
  x.filter.from_caf(answer.substr(0, 500), x.to_peer);
  CAF_CHECK(!x.from_peer(other));
  x.filter.beat(x.to_peer);
  CAF_CHECK_EQUAL(x.said(), answer.substr(0, 500));
  x.filter.from_caf(answer.substr(500), x.to_peer);
  CAF_CHECK_EQUAL(x.said(), answer.substr(500) + refusal(other, rules.unknown)
                              + basp::message{}.bytes());
}

CAF_TEST(
  what CAF says of a peer is said in the name that this has given itself) {
  auto x = greeted();
  x.from_caf(monitor(self, alias, sender));
  CAF_CHECK_EQUAL(x.said(), monitor(self, peer, sender).bytes());
  x.from_caf(down(self, alias, portal));
  CAF_CHECK_EQUAL(x.said(), down(self, peer, portal).bytes());
  CAF_MESSAGE("and its questions for spawn servers are not said at all");
  auto named = request("@atom", "x");
  named.flags = 1;
  x.from_caf(named);
  CAF_CHECK_EQUAL(x.said(), nothing);
}

// -- the side that asks ---------------------------------------------------------

CAF_TEST(a server says who it is first and in one form) {
  auto of = [this](const basp::message& x) {
    auto mine = rules;
    mine.serves = false;
    tried tried{std::make_shared<basp_rules>(mine)};
    auto why = name_of(tried.from_peer(x));
    if (why == "nothing")
      CAF_CHECK_EQUAL(tried.passed().substr(32, 32), alias);
    return why;
  };
  const std::string wrong = "a handshake that CAF does not send";
  CAF_CHECK_EQUAL(of(server_greeting()), "nothing");
  CAF_CHECK_EQUAL(of(server_greeting(8)), "another version of the protocol");
  CAF_CHECK_EQUAL(of(greeting()), "something else than a handshake");
  CAF_CHECK_EQUAL(of(basp::message{}), "something else than a handshake");
  auto with = [](auto change) {
    auto x = server_greeting();
    change(x);
    return x;
  };
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.payload = {}; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.size = 0xFFFFFFFF; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.payload += "x"; })), wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.payload.pop_back(); })), wrong);
  CAF_CHECK_EQUAL(
    of(with([](auto& x) { x.payload = peer + basp::length(0xFFFFFFFF); })),
    wrong);
  CAF_CHECK_EQUAL(of(with([](auto& x) { x.payload[0] = 'x'; })), wrong);
}

CAF_TEST(a server answers what it was asked once and as it may) {
  auto x = asking();
  auto ask = request("gd::look_up", "anything", 5);
  x.from_caf(ask);
  CAF_CHECK_EQUAL(x.said(), ask.bytes());
  auto answer = basp::message{
    .what = basp::direct,
    .data = ask.data | basp::response,
    .source = portal,
    .receiver = sender,
    .payload = basp::content("gd::inserted", as_caf_writes(gd::inserted{7}))};
  auto forged = answer;
  forged.data += 1;
  CAF_CHECK(!x.from_peer(forged));
  CAF_CHECK_EQUAL(x.passed(), nothing);
  auto to_another = answer;
  to_another.receiver += 1;
  CAF_CHECK(!x.from_peer(to_another));
  CAF_CHECK_EQUAL(x.passed(), nothing);
  CAF_CHECK(!x.from_peer(answer));
  CAF_CHECK_EQUAL(x.passed(), answer.bytes());
  CAF_CHECK(!x.from_peer(answer));
  CAF_CHECK_EQUAL(x.passed(), nothing);
  CAF_MESSAGE("errors come with texts at the most");
  x.from_caf(ask);
  auto error = answer;
  error.payload = basp::content(
    "@error", an_error("@<>+@message", std::string(100, '\0')));
  CAF_CHECK(!x.from_peer(error));
  error.payload = basp::content("@error", an_error());
  CAF_CHECK_EQUAL(x.passed(), error.bytes());
  CAF_MESSAGE("what is no answer ends the connection");
  x.from_caf(ask);
  answer.payload = basp::content("@actor", "x");
  CAF_CHECK_EQUAL(name_of(x.from_peer(answer)),
                  "a message that is not what its type says");
}

CAF_TEST(a server asks nothing and reaches nobody who has not asked it) {
  auto x = asking();
  x.from_caf(request("gd::look_up", "anything", 5));
  auto ask = request("gd::insert_all", empty_insert_all);
  ask.receiver = sender;
  CAF_CHECK(!x.from_peer(ask));
  ask.data = basp::async;
  CAF_CHECK(!x.from_peer(ask));
  CAF_CHECK(!x.from_peer(monitor(peer, self, sender + 1)));
  CAF_CHECK_EQUAL(x.passed(), nothing);
  CAF_CHECK(!x.from_peer(monitor(peer, self, sender)));
  CAF_CHECK_EQUAL(x.passed(), monitor(alias, self, sender).bytes());
  CAF_MESSAGE("also of those that have ended");
  x.from_caf(down(self, alias, sender));
  CAF_CHECK(!x.from_peer(monitor(peer, self, sender)));
  CAF_CHECK_EQUAL(x.passed(), nothing);
}

CAF_TEST(messages of other parts pass where they are added) {
  rules.messages.push_back(basp_message::of<gd::inserted>("gd::inserted"));
  CAF_CHECK_EQUAL(
    fault_of(request("gd::inserted", as_caf_writes(gd::inserted{7}))),
    "nothing");
  CAF_MESSAGE("on the side that asks, unasked, to who has spoken before");
  auto mine = rules;
  mine.serves = false;
  tried x{std::make_shared<basp_rules>(mine)};
  CAF_CHECK(!x.from_peer(server_greeting()));
  x.passed();
  auto told = request("gd::inserted", as_caf_writes(gd::inserted{7}));
  told.data = basp::async;
  told.receiver = sender;
  told.source = portal;
  CAF_CHECK(!x.from_peer(told));
  CAF_CHECK_EQUAL(x.passed(), nothing);
  x.from_caf(request("gd::inserted", "anything"));
  CAF_CHECK(!x.from_peer(told));
  CAF_CHECK_EQUAL(x.passed(), told.bytes());
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace basp_filter_suite
