// Described structs as messages of CAF 0.17: through its binary serializer, its
// renderer and a mailbox.

#define CAF_SUITE state_message

#include <gd/json.hpp>

#include <caf/test/dsl.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace cargo {

GD_ENUM(phase, cart, paid, shipped);

struct empty {
  GD_STATE(empty);
};

struct item {
  std::string sku;
  double price = 0;
  float weight = 0;

  GD_STATE(item, sku, price, weight);
};

struct order {
  std::int64_t id = 0;
  phase status = phase::cart;
  std::vector<item> items;
  std::optional<std::string> note;
  std::optional<item> gift;
  std::map<std::string, std::vector<int>> lots;
  bool express = false;
  empty nothing;
  gd::json payload;

  GD_STATE(order, id, status, items, note, gift, lots, express, nothing,
           payload);
};

/// What CAF 0.17 has no form for, at any depth.
struct odd {
  std::vector<double> samples;
  std::map<std::string, double> rates;
  std::unordered_map<std::string, std::optional<float>> gaps;
  std::array<double, 2> pair{};
  std::set<double> marks;
  std::optional<std::vector<std::optional<std::string>>> deep;
  std::vector<phase> phases;
  std::chrono::milliseconds pause{};
  std::chrono::system_clock::time_point when;

  GD_STATE(odd, samples, rates, gaps, pair, marks, deep, phases, pause, when);
};

template <class T>
struct page {
  T body{};
  int number = 0;

  GD_STATE(page, body, number);
};

struct cached {
  int kept = 0;
  int transient = 0;

  GD_STATE_PARTIAL(cached, kept);
};

} // namespace cargo

CAF_BEGIN_TYPE_ID_BLOCK(cargo, first_custom_type_id)

CAF_ADD_TYPE_ID(cargo, (cargo::order))
CAF_ADD_TYPE_ID(cargo, (cargo::odd))
CAF_ADD_TYPE_ID(cargo, (gd::json))

CAF_END_TYPE_ID_BLOCK(cargo)

namespace state_message_suite {

namespace {

using namespace cargo;

constexpr auto infinity = std::numeric_limits<double>::infinity();

struct fixture {
  fixture() : sys(cfg.add_message_types<caf::id_block::cargo>()) {
    // nop
  }

  template <class T>
  caf::binary_serializer::container_type saved(const T& x) {
    caf::binary_serializer::container_type buffer;
    caf::binary_serializer sink{sys, buffer};
    if (auto err = sink(x))
      CAF_FAIL(sys.render(err));
    return buffer;
  }

  /// What arrives elsewhere of `x`.
  template <class T>
  T sent(const T& x) {
    auto buffer = saved(x);
    T copy;
    caf::binary_deserializer source{sys, buffer};
    if (auto err = source(copy))
      CAF_FAIL(sys.render(err));
    CAF_CHECK_EQUAL(source.remaining(), 0u);
    return copy;
  }

  caf::actor_system_config cfg;
  caf::actor_system sys;
};

order sample() {
  return {.id = 42,
          .status = phase::paid,
          .items = {{"A-1", 9.5, 0.5f}, {"B", 1e100, 2}},
          .note = "leave at door",
          .gift = {},
          .lots = {{"x", {1, -2}}, {"y", {}}},
          .express = true,
          .nothing = {},
          .payload = gd::json::raw("[1]")};
}

odd odd_sample() {
  return {.samples = {1, -infinity, 5e-324, 0.1},
          .rates = {{"a", infinity}, {"b", 0.5}},
          .gaps = {{"x", 1.5f}, {"y", std::nullopt}},
          .pair = {infinity, -0.25},
          .marks = {-infinity, 3},
          .deep = {{std::nullopt, "a", std::nullopt}},
          .phases = {phase::shipped, phase::cart},
          .pause = std::chrono::milliseconds{1500},
          .when = std::chrono::system_clock::time_point{
            std::chrono::microseconds{1709210096123456}}};
}

} // namespace

CAF_TEST_FIXTURE_SCOPE(state_message_tests, fixture)

CAF_TEST(a described struct survives the wire) {
  CAF_CHECK(sent(sample()) == sample());
  CAF_CHECK(sent(order{}) == order{});
  CAF_CHECK(sent(empty{}) == empty{});
  auto x = sample();
  x.note.reset();
  x.gift = item{"G", 0.5, 1};
  CAF_CHECK(sent(x) == x);
  CAF_CHECK((sent(page<double>{infinity, 1}) == page<double>{infinity, 1}));
  CAF_CHECK_EQUAL(sent(cached{1, 2}).kept, 1);
  CAF_CHECK_EQUAL(sent(cached{1, 2}).transient, 0);
}

CAF_TEST(numbers that CAF cannot send survive the wire) {
  for (double x : {infinity, -infinity, -0.0, 5e-324, 1e308, 0.1}) {
    CAF_CHECK(std::bit_cast<std::uint64_t>(sent(item{"", x, 0}).price)
              == std::bit_cast<std::uint64_t>(x));
    auto y = static_cast<float>(x);
    CAF_CHECK(std::bit_cast<std::uint32_t>(sent(item{"", 0, y}).weight)
              == std::bit_cast<std::uint32_t>(y));
  }
  CAF_CHECK(std::isnan(sent(item{"", NAN, 0}).price));
  CAF_CHECK(std::isnan(sent(page<std::vector<float>>{{NAN}, 0}).body.at(0)));
}

CAF_TEST(containers of numbers and optionals survive the wire) {
  CAF_CHECK(sent(odd_sample()) == odd_sample());
  CAF_CHECK(sent(odd{}) == odd{});
}

CAF_TEST(a received value leaves nothing of the old one) {
  auto buffer = saved(odd{});
  auto x = odd_sample();
  caf::binary_deserializer source{sys, buffer};
  CAF_CHECK(!source(x));
  CAF_CHECK(x == odd{});
}

CAF_TEST(a cut off message is an error) {
  auto buffer = saved(odd_sample());
  while (!buffer.empty()) {
    buffer.pop_back();
    odd x;
    caf::binary_deserializer source{sys, buffer};
    if (!source(x))
      CAF_FAIL("accepted the first " << buffer.size() << " bytes");
  }
}

CAF_TEST(a json survives the wire with its failure) {
  auto good = gd::json::raw("{\"a\":1}");
  CAF_CHECK(sent(good) == good);
  auto bad = gd::to_json(item{"", infinity, 0});
  CAF_CHECK(sent(bad) == bad);
  auto copy = sent(bad);
  CAF_CHECK_EQUAL(copy.failure()->message,
                  "$.price: expected finite number, got inf");
}

CAF_TEST(a described struct survives inside a message) {
  auto msg = sent(caf::make_message(sample(), odd_sample(), gd::json{}));
  CAF_REQUIRE((msg.match_elements<order, odd, gd::json>()));
  CAF_CHECK(msg.get_as<order>(0) == sample());
  CAF_CHECK(msg.get_as<odd>(1) == odd_sample());
  CAF_CHECK(msg.get_as<gd::json>(2) == gd::json{});
}

CAF_TEST(a described struct passes a mailbox) {
  caf::scoped_actor self{sys};
  auto echo = sys.spawn([]() -> caf::behavior {
    return {[](order& x) {
      x.express = !x.express;
      return std::move(x);
    }};
  });
  self->request(echo, caf::infinite, sample())
    .receive(
      [&](const order& x) {
    CAF_CHECK_EQUAL(x.id, 42);
    CAF_CHECK(!x.express);
      },
      [&](const caf::error& err) { CAF_FAIL(sys.render(err)); });
}

CAF_TEST(a described struct can be rendered) {
  CAF_CHECK_EQUAL(caf::deep_to_string(item{"a", 0.5, 2}),
                  "\"a\", 0.500000, 2.000000");
  CAF_CHECK_EQUAL(caf::deep_to_string(phase::paid), "paid");
  order x;
  x.note = "n";
  CAF_CHECK_EQUAL(caf::deep_to_string(x), "0, cart, [], \"n\", <null>, {}, "
                                          "false, \"{}\", <unprintable>, "
                                          "\"\"");
  CAF_CHECK(caf::deep_to_string(odd_sample()).starts_with("[1.000000, -inf"));
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace state_message_suite
