#define CAF_SUITE json

#include <gd/instance.hpp>
#include <gd/json.hpp>

#include <caf/test/dsl.hpp>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

using namespace std::literals;

namespace shop {

GD_ENUM(phase, cart, paid, shipped);

struct item {
  std::string sku;
  std::uint8_t qty = 1;
  double price = 0;

  GD_STATE(item, sku, qty, price);
};

struct order {
  std::int64_t id = 0;
  phase status = phase::cart;
  std::vector<item> items;
  std::optional<std::string> note;
  std::optional<item> gift;
  std::map<std::string, std::vector<int>> lots;
  bool express = false;

  GD_STATE(order, id, status, items, note, gift, lots, express);
};

} // namespace shop

namespace json_suite {

namespace {

using shop::item;
using shop::order;
using shop::phase;

struct empty {
  GD_STATE(empty);
};

struct outer {
  item first{"preset", 9, 1};

  GD_STATE(outer, first);
};

struct cached {
  int kept = 0;
  int transient = 0;

  GD_STATE_PARTIAL(cached, kept);
};

struct tree {
  int leaf = 0;
  std::vector<tree> below;

  GD_STATE(tree, leaf, below);
};

struct wide {
  int a00 = 0, a01 = 1, a02 = 2, a03 = 3, a04 = 4, a05 = 5, a06 = 6, a07 = 7,
      a08 = 8, a09 = 9, a10 = 10, a11 = 11, a12 = 12, a13 = 13, a14 = 14,
      a15 = 15, a16 = 16, a17 = 17, a18 = 18, a19 = 19, a20 = 20, a21 = 21,
      a22 = 22, a23 = 23, a24 = 24, a25 = 25, a26 = 26, a27 = 27, a28 = 28,
      a29 = 29, a30 = 30, a31 = 31;

  GD_STATE(wide, a00, a01, a02, a03, a04, a05, a06, a07, a08, a09, a10, a11,
           a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25,
           a26, a27, a28, a29, a30, a31);
};

template <class T>
struct page {
  T body{};
  int number = 0;

  GD_STATE(page, body, number);
};

struct containers {
  std::deque<float> samples;
  std::set<std::string> tags;
  std::array<int, 3> triple{};
  std::unordered_map<std::string, double> rates;
  std::vector<bool> bits;
  std::vector<std::optional<int>> gaps;
  std::chrono::seconds pause{};

  GD_STATE(containers, samples, tags, triple, rates, bits, gaps, pause);
};

struct envelope {
  gd::json payload;
  std::optional<gd::json> extra;

  GD_STATE(envelope, payload, extra);
};

/// A type with a JSON form of its own.
struct celsius {
  double degrees = 0;

  bool operator==(const celsius&) const = default;
};

} // namespace

} // namespace json_suite

template <>
struct gd::json_codec<json_suite::celsius> {
  static result<void> write(std::string& out, const json_suite::celsius& x,
                            const json_path& at) {
    return write_json(out, std::to_string(static_cast<int>(x.degrees)) + "C",
                      at);
  }

  static result<void> read(const json_value& in, json_suite::celsius& x) {
    if (in.type() != json_type::string || !in.text().ends_with('C'))
      return in.expected("degrees like \"21C\"");
    x.degrees = std::stod(std::string{in.text()});
    return {};
  }
};

namespace json_suite {

namespace {

/// The JSON text of `x`, or why there is none.
template <class T>
std::string text_of(const T& x) {
  auto res = gd::to_json(x);
  return res.ok() ? res.text() : res.failure()->message;
}

std::string why(const gd::result<void>& res) {
  return res ? "(accepted)" : res.error().message;
}

template <class T>
std::string why(const gd::result<T>& res) {
  if (!res && res.error().code != gd::errc::codec)
    return "(wrong code)";
  return res ? "(accepted)" : res.error().message;
}

template <class T>
std::string why_not(std::string_view text) {
  return why(gd::from_json<T>(text));
}

template <class T>
std::string why_not_strictly(std::string_view text) {
  return why(gd::from_json_strict<T>(text));
}

std::string why_unfit(std::string_view text) {
  return why(gd::check_json(text));
}

/// Whether `x` is the same after a round trip, in either mode, and its text
/// fits a jsonb column.
template <class T>
bool survives(const T& x) {
  auto text = gd::to_json(x);
  if (!text.check())
    return false;
  auto copy = gd::from_json<T>(text);
  auto strict_copy = gd::from_json_strict<T>(text.text());
  return copy && *copy == x && strict_copy && *strict_copy == x;
}

/// The value that a text decodes to; fails the test if it does not.
template <class T>
T decoded(std::string_view text) {
  auto res = gd::from_json<T>(text);
  if (!res)
    CAF_FAIL(res.error().message);
  return *res;
}

std::string utf8(char32_t c) {
  auto byte = [](char32_t x) { return static_cast<char>(x); };
  if (c < 0x80)
    return {byte(c)};
  if (c < 0x800)
    return {byte(0xC0 | (c >> 6)), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000)
    return {byte(0xE0 | (c >> 12)), byte(0x80 | ((c >> 6) & 0x3F)),
            byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | (c >> 18)), byte(0x80 | ((c >> 12) & 0x3F)),
          byte(0x80 | ((c >> 6) & 0x3F)), byte(0x80 | (c & 0x3F))};
}

order sample() {
  return {42,
          phase::paid,
          {{"A-1", 2, 9.5}, {"q\"\\\n\x01 \u00e9", 255, 1e100}},
          "leave at door",
          std::nullopt,
          {{"x", {1, -2}}, {"y", {}}},
          true};
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

} // namespace

// -- describing ---------------------------------------------------------------

CAF_TEST(a described struct has named members in its order) {
  CAF_CHECK_EQUAL(text_of(item{"a", 2, 0.5}),
                  R"({"sku":"a","qty":2,"price":0.5})");
  CAF_CHECK_EQUAL(text_of(empty{}), "{}");
  CAF_CHECK_EQUAL(text_of(cached{1, 2}), R"({"kept":1})");
  CAF_CHECK_EQUAL(text_of(page<std::string>{"b", 3}),
                  R"({"body":"b","number":3})");
}

CAF_TEST(a described struct compares by its fields) {
  auto x = sample();
  CAF_CHECK(x == sample());
  x.items[1].qty = 254;
  CAF_CHECK(x != sample());
  CAF_CHECK(empty{} == empty{});
  CAF_CHECK((cached{1, 2} == cached{1, 3}));
  CAF_CHECK((page<int>{1, 2} == page<int>{1, 2}));
}

CAF_TEST(an enumerator is stored by name) {
  CAF_CHECK_EQUAL(text_of(phase::shipped), "\"shipped\"");
  CAF_CHECK(decoded<phase>("\"paid\"") == phase::paid);
  CAF_CHECK_EQUAL(to_string(phase::cart), "cart");
  CAF_CHECK_EQUAL(to_string(static_cast<phase>(7)), "7");
  CAF_CHECK(gd::enum_from<phase>("shipped") == phase::shipped);
  CAF_CHECK(!gd::enum_from<phase>("Shipped"));
  CAF_CHECK_EQUAL(text_of(static_cast<phase>(7)),
                  "$: expected a declared enumerator, got 7");
  CAF_CHECK_EQUAL(why_not<phase>("1"),
                  "$: expected one of cart|paid|shipped, got number 1");
}

// -- round trips --------------------------------------------------------------

CAF_TEST(a struct survives a round trip) {
  CAF_CHECK(survives(sample()));
  CAF_CHECK(survives(order{}));
  CAF_CHECK(survives(empty{}));
  CAF_CHECK(survives(wide{.a31 = -31}));
  CAF_CHECK(survives(page<page<std::vector<bool>>>{{{true, false}, 1}, 2}));
  CAF_CHECK(survives(tree{1, {{2, {{3, {}}}}, {4, {}}}}));
  CAF_CHECK(survives(containers{{0.1f, -2},
                                {"b", "a"},
                                {1, 2, 3},
                                {{"x", 0.1}},
                                {true, false},
                                {1, std::nullopt},
                                90s}));
  CAF_CHECK(survives(page<celsius>{{21}, 0}));
}

CAF_TEST(integers survive at the edges of their types) {
  auto edges = [](auto x) {
    using limits = std::numeric_limits<decltype(x)>;
    CAF_CHECK(survives(limits::min()));
    CAF_CHECK(survives(limits::max()));
    // Written out, since no wider type is at hand for 64 bits.
    auto above = std::to_string(limits::max());
    auto digit = above.find_last_not_of('9');
    CAF_CHECK_NOT_EQUAL(digit, std::string::npos);
    ++above[digit];
    auto wanted = "$: expected integer in [" + std::to_string(limits::min())
                  + ", " + std::to_string(limits::max()) + "], got number "
                  + above;
    CAF_CHECK_EQUAL(why_not<decltype(x)>(above), wanted);
  };
  edges(std::int8_t{});
  edges(std::uint8_t{});
  edges(std::int16_t{});
  edges(std::uint16_t{});
  edges(std::int32_t{});
  edges(std::uint32_t{});
  edges(std::int64_t{});
  edges(std::uint64_t{});
  CAF_CHECK_EQUAL(why_not<std::int8_t>("-129"),
                  "$: expected integer in [-128, 127], got number -129");
  CAF_CHECK_EQUAL(why_not<std::uint8_t>("-1"),
                  "$: expected integer in [0, 255], got number -1");
  CAF_CHECK_EQUAL(why_not<std::int64_t>("-9223372036854775809"),
                  "$: expected integer in [-9223372036854775808, "
                  "9223372036854775807], got number -9223372036854775809");
}

CAF_TEST(an integer is not read from a fraction or an exponent) {
  CAF_CHECK_EQUAL(why_not<page<int>>(R"({"body": 1.0})"),
                  "$.body: expected integer in [-2147483648, 2147483647], got "
                  "number 1.0");
  CAF_CHECK_EQUAL(why_not<std::uint8_t>("1e2"),
                  "$: expected integer in [0, 255], got number 1e2");
  CAF_CHECK_EQUAL(why_not<std::uint8_t>("\"1\""),
                  "$: expected integer in [0, 255], got string \"1\"");
}

CAF_TEST(floating point numbers survive at the edges of their types) {
  auto edges = [](auto x) {
    using limits = std::numeric_limits<decltype(x)>;
    for (auto y : {limits::min(), limits::max(), limits::lowest(),
                   limits::denorm_min(), limits::epsilon(), x, x / 3})
      CAF_CHECK(survives(y));
  };
  edges(1.0f);
  edges(1.0);
  CAF_CHECK(std::signbit(decoded<double>(text_of(-0.0))));
  CAF_CHECK_EQUAL(text_of(0.1), "0.1");
  CAF_CHECK_EQUAL(text_of(0.1f), "0.1");
}

CAF_TEST(a double is read from the text that jsonb makes of it) {
  CAF_CHECK_EQUAL(decoded<double>("1" + std::string(100, '0')), 1e100);
  CAF_CHECK_EQUAL(decoded<double>("17976931348623157" + std::string(292, '0')),
                  std::numeric_limits<double>::max());
  CAF_CHECK_EQUAL(decoded<double>("0." + std::string(323, '0') + "5"), 5e-324);
  CAF_CHECK_EQUAL(decoded<double>("0." + std::string(390, '0') + "5"), 0.0);
  CAF_CHECK_EQUAL(decoded<double>("1E+2"), 100.0);
  CAF_CHECK_EQUAL(decoded<float>("1e-46"), 0.0f);
  CAF_CHECK_EQUAL(why_not<double>("-1e309"),
                  "$: expected number of magnitude up to "
                  "1.7976931348623157e+308, got number -1e309");
  CAF_CHECK_EQUAL(why_not<float>("1" + std::string(39, '0') + ".5"),
                  "$: expected number of magnitude up to 3.4028235e+38, got "
                  "number 1"
                    + std::string(39, '0') + "...");
}

CAF_TEST(numbers do not depend on the locale) {
  // Absent locales leave the default one in place.
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  CAF_CHECK(survives(1234567.5));
  CAF_CHECK_EQUAL(text_of(1234567.5), "1234567.5");
  std::setlocale(LC_ALL, "C");
}

CAF_TEST(text of every plane survives) {
  std::string all;
  for (char32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 0x3FF) {
    if (c < 0xD800 || c > 0xDFFF) {
      all += utf8(c);
      CAF_REQUIRE(survives(utf8(c)));
    }
  }
  for (char32_t plane = 0; plane <= 16; ++plane)
    all += utf8((plane << 16) + 0xFFFD);
  CAF_CHECK(survives(all));
  CAF_CHECK(survives(std::map<std::string, int>{{all, 1}, {"", 2}}));
  CAF_CHECK(survives(""s));
}

CAF_TEST(escapes are read) {
  CAF_CHECK_EQUAL(
    decoded<std::string>(R"("\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00")"),
    "\"\\/\b\f\n\r\t\u00e9\U0001f600");
  CAF_CHECK_EQUAL(decoded<item>(R"({"s\u006bu":"a\\u0000"})").sku, "a\\u0000");
}

CAF_TEST(random values survive) {
  std::mt19937_64 rng{4711};
  auto any_text = [&rng] {
    std::string text;
    for (auto n = rng() % 12; n > 0; --n) {
      auto c = static_cast<char32_t>(1 + rng() % (rng() % 2 ? 0x7F : 0x10FFFE));
      text += utf8(c >= 0xD800 && c < 0xE000 ? U'\u00df' : c);
    }
    return text;
  };
  auto any_double = [&rng] {
    auto x = std::bit_cast<double>(std::uint64_t{rng()});
    return std::isfinite(x) ? x : 0.0;
  };
  auto any_item = [&] {
    return item{any_text(), static_cast<std::uint8_t>(rng()), any_double()};
  };
  for (int run = 0; run < 2000; ++run) {
    order x;
    x.id = static_cast<std::int64_t>(rng());
    x.status = static_cast<phase>(rng() % 3);
    for (auto n = rng() % 4; n > 0; --n)
      x.items.push_back(any_item());
    if (rng() % 2 == 0)
      x.note = any_text();
    if (rng() % 2 == 0)
      x.gift = any_item();
    for (auto n = rng() % 4; n > 0; --n)
      x.lots[any_text()].push_back(static_cast<int>(rng()));
    CAF_REQUIRE(survives(x));
    auto f = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    CAF_REQUIRE(!std::isfinite(f) || survives(f));
  }
}

CAF_TEST(random text neither decodes by accident nor does harm) {
  std::mt19937 rng{4712};
  constexpr std::string_view letters = "{}[]\",:\\u0dl1.e-+ntrfas \n\x80";
  for (int run = 0; run < 20000; ++run) {
    auto text = text_of(sample());
    for (auto n = 1 + rng() % 3; n > 0; --n)
      text[rng() % text.size()] = letters[rng() % letters.size()];
    text.resize(text.size() - rng() % 2 * (rng() % text.size()));
    auto res = gd::from_json<order>(text);
    if (res && !gd::check_json(text))
      CAF_FAIL(text);
    if (!res && !res.error().message.starts_with('$'))
      CAF_FAIL(res.error().message);
  }
}

// -- evolution and strictness -------------------------------------------------

CAF_TEST(the row of another version decodes) {
  auto old = decoded<order>(R"({"id": 7, "gone": {"a": [1, {}]}})");
  CAF_CHECK_EQUAL(old.id, 7);
  CAF_CHECK(old.status == phase::cart);
  CAF_CHECK_EQUAL(decoded<item>("{}").qty, 1);
  CAF_CHECK(decoded<empty>(R"({"a": 1})") == empty{});
  // A missing key keeps what the outer struct says.
  CAF_CHECK_EQUAL(decoded<outer>(R"({"first": {"qty": 8}})").first,
                  (item{"preset", 8, 1}));
}

CAF_TEST(strict decoding refuses unknown keys) {
  CAF_CHECK_EQUAL(
    why_not_strictly<order>(R"({"items": [{}, {"sku": "a", "colour": 1}]})"),
    "$.items[1].colour: unknown key, expected one of sku|qty|price");
  CAF_CHECK_EQUAL(why_not_strictly<empty>(R"({"a": 1})"),
                  "$.a: unknown key, expected none");
  CAF_CHECK(gd::from_json_strict<order>("{}"));
}

CAF_TEST(strict decoding refuses repeated keys) {
  CAF_CHECK_EQUAL(why_not_strictly<item>(R"({"qty": 1, "q\u0074y": 2})"),
                  "$.qty: expected a key once, got it again");
  CAF_CHECK_EQUAL(why_not_strictly<order>(R"({"lots": {"a": [], "a": []}})"),
                  "$.lots.a: expected a key once, got it again");
}

CAF_TEST(of repeated keys the last one counts) {
  CAF_CHECK_EQUAL(decoded<item>(R"({"qty": "?", "qty": 2})").qty, 2);
  auto gift = decoded<order>(R"({"gift": {"qty": 5}, "gift": {"sku": "a"}})");
  CAF_CHECK_EQUAL(gift.gift->qty, 1);
  using map = std::map<std::string, int>;
  CAF_CHECK((decoded<map>(R"({"a": 1, "a": 2})") == map{{"a", 2}}));
}

// -- errors -------------------------------------------------------------------

CAF_TEST(a decoding error names the path) {
  CAF_CHECK_EQUAL(why_not<order>(R"({"items": [{}, {"qty": 256}]})"),
                  "$.items[1].qty: expected integer in [0, 255], got number "
                  "256");
  CAF_CHECK_EQUAL(why_not<order>(R"({"gift": {"sku": null}})"),
                  "$.gift.sku: expected string, got null");
  CAF_CHECK_EQUAL(why_not<order>(R"({"lots": {"x": [1, true]}})"),
                  "$.lots.x[1]: expected integer in [-2147483648, 2147483647], "
                  "got boolean true");
  CAF_CHECK_EQUAL(why_not<order>(R"({"status": "lost"})"),
                  "$.status: expected one of cart|paid|shipped, got string "
                  "\"lost\"");
  CAF_CHECK_EQUAL(why_not<order>(R"({"items": {"a": 1}})"),
                  "$.items: expected array, got object");
  CAF_CHECK_EQUAL(why_not<order>(R"({"lots": []})"),
                  "$.lots: expected object, got array");
  CAF_CHECK_EQUAL(why_not<order>(R"({"express": 1})"),
                  "$.express: expected boolean, got number 1");
  CAF_CHECK_EQUAL(why_not<order>("[]"), "$: expected object, got array");
  CAF_CHECK_EQUAL(why_not<double>("[1]"), "$: expected number, got array");
  CAF_CHECK_EQUAL(why_not<page<celsius>>(R"({"body": "21F"})"),
                  "$.body: expected degrees like \"21C\", got string \"21F\"");
}

CAF_TEST(an array has the exact length) {
  using triple = std::array<int, 3>;
  CAF_CHECK(survives(triple{1, 2, 3}));
  CAF_CHECK_EQUAL(why_not<triple>("[1,2]"), "$: expected 3 elements, got 2");
  CAF_CHECK_EQUAL(why_not<triple>("[1,2,3,4]"),
                  "$: expected 3 elements, got 4");
  CAF_CHECK_EQUAL(why_not<triple>("[1,2,null]"),
                  "$[2]: expected integer in [-2147483648, 2147483647], got "
                  "null");
}

CAF_TEST(an error repeats no more than a start of the offending token) {
  auto text = "\"" + std::string(1000, 'x') + "\"";
  CAF_CHECK_EQUAL(why_not<bool>(text), "$: expected boolean, got string \""
                                         + std::string(39, 'x') + "...");
  // Not half a character either.
  text = "\"" + std::string(38, 'x') + "\u00e9\u00e9\"";
  CAF_CHECK_EQUAL(why_not<bool>(text), "$: expected boolean, got string \""
                                         + std::string(38, 'x') + "...");
  auto key = std::string(1000, 'k');
  CAF_CHECK_EQUAL((why_not<std::map<std::string, int>>("{\"" + key + "\":[]}")),
                  "$." + key.substr(0, 40)
                    + "...: expected integer in [-2147483648, 2147483647], got "
                      "array");
}

CAF_TEST(an error can be shown and stored whatever the keys are) {
  using map = std::map<std::string, double>;
  CAF_CHECK_EQUAL(text_of(map{{"a\nb\x7f", NAN}}),
                  "$.a?b?: expected finite number, got nan");
  CAF_CHECK_EQUAL(text_of(map{{"a\0b"s, 1}}),
                  "$.a?b: expected text without NUL, got a NUL byte");
  CAF_CHECK_EQUAL(text_of(map{{"a\xff", 1}}),
                  "$.a?: expected UTF-8 text, got invalid bytes");
}

CAF_TEST(an encoding error names the path) {
  auto x = sample();
  x.items[1].price = NAN;
  CAF_CHECK_EQUAL(text_of(x),
                  "$.items[1].price: expected finite number, got nan");
  x.items[1].price = -std::numeric_limits<double>::infinity();
  CAF_CHECK_EQUAL(text_of(x),
                  "$.items[1].price: expected finite number, got -inf");
  x = sample();
  x.items[0].sku = "a\0b"s;
  CAF_CHECK_EQUAL(text_of(x),
                  "$.items[0].sku: expected text without NUL, got a NUL byte");
  x.items[0].sku = "\xc3";
  CAF_CHECK_EQUAL(text_of(x),
                  "$.items[0].sku: expected UTF-8 text, got invalid bytes");
  for (auto bytes : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    CAF_CHECK_EQUAL(text_of(std::string{bytes}),
                    "$: expected UTF-8 text, got invalid bytes");
}

CAF_TEST(a failed json carries its error and no text) {
  auto x = gd::to_json(NAN);
  CAF_CHECK(!x.ok());
  CAF_CHECK_EQUAL(x.text(), "");
  CAF_CHECK(x.failure()->code == gd::errc::codec);
  CAF_CHECK_EQUAL(why(x.check()), "$: expected finite number, got nan");
  CAF_CHECK_EQUAL(gd::json{}.text(), "{}");
  CAF_CHECK(gd::json{}.check());
  CAF_CHECK(gd::json{}.failure() == nullptr);
  CAF_CHECK(gd::json::raw("[1]") == gd::to_json(std::vector{1}));
  CAF_CHECK(gd::json::raw("[1]") != gd::json{});
}

// -- JSON within JSON ---------------------------------------------------------

CAF_TEST(a json member is passed through) {
  envelope x{gd::json::raw(" {\"a\" : [1, \"\\u00e9\"]} "),
             gd::json::raw("null")};
  auto text = text_of(x);
  CAF_CHECK_EQUAL(text, "{\"payload\": {\"a\" : [1, \"\\u00e9\"]} ,"
                        "\"extra\":null}");
  auto copy = decoded<envelope>(text);
  CAF_CHECK_EQUAL(copy.payload.text(), "{\"a\" : [1, \"\\u00e9\"]}");
  CAF_CHECK(!copy.extra);
  for (auto part : {"1", "-1.50e2", "\"a \\\" b\"", "true", "[]", "{ }",
                    "[ {} , [ ] ]", "{\"a\":{\"b\":[1 , 2 ]}}"})
    CAF_CHECK(
      decoded<envelope>("{ \"payload\" : "s + part + " , \"x\" : 1 }").payload
      == gd::json::raw(part));
}

CAF_TEST(a bad json member is refused with its whole path) {
  page<envelope> x;
  x.body.payload = gd::to_json(std::vector{0.5, double{NAN}});
  CAF_CHECK_EQUAL(text_of(x),
                  "$.body.payload[1]: expected finite number, got nan");
  x.body.payload = gd::json::failed({gd::errc::codec, "no luck", {}});
  CAF_CHECK_EQUAL(text_of(x), "$.body.payload: expected a value with a JSON "
                              "form, got no luck");
  x.body.payload = gd::json::raw("{\"a\": [1, 01]}");
  CAF_CHECK_EQUAL(text_of(x), "$.body.payload.a[1]: expected well-formed JSON, "
                              "got number 01");
  x.body.payload = gd::json::raw("1}, {");
  CAF_CHECK_EQUAL(text_of(x), "$.body.payload: expected one JSON document, got "
                              "trailing content");
  x.body.payload = gd::json::raw(nested(511));
  CAF_CHECK(text_of(x).find("expected at most 512 levels")
            != std::string::npos);
}

// -- time ---------------------------------------------------------------------

CAF_TEST(a duration counts its own ticks) {
  CAF_CHECK_EQUAL(text_of(-90s), "-90");
  CAF_CHECK_EQUAL(text_of(1500ms), "1500");
  CAF_CHECK(survives(std::chrono::nanoseconds::max()));
  CAF_CHECK(survives(std::chrono::hours{-1}));
}

CAF_TEST(a time point is RFC 3339 text) {
  using time_point = std::chrono::system_clock::time_point;
  using us_point = std::chrono::sys_time<std::chrono::microseconds>;
  CAF_CHECK_EQUAL(text_of(time_point{}), "\"1970-01-01T00:00:00.000000Z\"");
  CAF_CHECK_EQUAL(text_of(time_point{1709210096123456us}),
                  "\"2024-02-29T12:34:56.123456Z\"");
  CAF_CHECK_EQUAL(text_of(time_point{-1ns}), "\"1969-12-31T23:59:59.999999Z\"");
  CAF_CHECK_EQUAL(text_of(us_point::max()),
                  "$: expected time in the years 0 to 9999, got "
                  "9223372036854775807 microseconds after 1970");
  CAF_CHECK(survives(time_point{1709210096123456us}));
  CAF_CHECK(survives(us_point{-62167219200000000us}));
  for (auto same : {"2024-02-29T12:34:56Z", "2024-02-29T12:34:56.0000009+00:00",
                    "2024-02-29T14:04:56+01:30", "2024-02-28T23:34:56.0-13:00"})
    CAF_CHECK(decoded<us_point>("\""s + same + "\"")
              == us_point{1709210096000000us});
  for (auto bad : {"\"2023-02-29T12:34:56Z\"", "\"2024-02-29 12:34:56Z\"",
                   "\"2024-02-29T24:00:00Z\"", "\"2024-02-29T12:34:56\"",
                   "\"2024-02-29T12:34:56.Z\"", "\"2024-02-29T12:34:56Zulu\"",
                   "\"2024-2-29T12:34:56Z\"", "\"\"", "17",
                   "\"2024-02-29T12:34:56+1:00\""})
    CAF_CHECK_EQUAL(
      why_not<us_point>(bad),
      "$: expected time like \"2024-02-29T12:00:00.000000Z\", got "s
        + (bad[0] == '"' ? "string " : "number ") + bad);
  CAF_CHECK_EQUAL(why_not<time_point>("\"2300-01-01T00:00:00Z\""),
                  "$: expected time within the range of the clock, got string "
                  "\"2300-01-01T00:00:00Z\"");
}

// -- what jsonb takes ---------------------------------------------------------

CAF_TEST(well formed documents are accepted) {
  for (auto text :
       {"1", "-0", "0.5e+10", "\"\"", "true", "false", "null", " [ ] ", "{}",
        "\t\n\r{\"a\" : [1,2,{\"b\":null}]}", "[\"\\u0041\\ud83d\\ude00\"]",
        "[\"\\\\u0000\",\"\\\\ud800\"]", "{\"a\":1,\"a\":2}", "\"\x7f\""})
    CAF_CHECK_EQUAL(why_unfit(text), "(accepted)");
}

CAF_TEST(malformed documents are refused) {
  std::string accepted;
  for (auto text : {"",
                    " ",
                    "tru",
                    "true x",
                    "truefalse",
                    "1 2",
                    "[1",
                    "[[1]",
                    "[1}",
                    "[1,]",
                    "[1 2]",
                    "[,1]",
                    "{\"a\" 1}",
                    "{\"a\":1,}",
                    "{,}",
                    "{\"a\":1 \"b\":2}",
                    "{a:1}",
                    "{1:2}",
                    "{\"a\"",
                    "{\"a\":",
                    "{\"a\":}",
                    "[1],[2]",
                    "[1]]",
                    "\"a\"b",
                    "[\"a\"\"b\"]",
                    "[01]",
                    "[-]",
                    "[1.]",
                    "[.5]",
                    "[1e]",
                    "[+1]",
                    "[0x1]",
                    "[NaN]",
                    "[Infinity]",
                    "\"a",
                    "\"\\x\"",
                    "\"\\u12\"",
                    "[\"\t\"]",
                    "'a'",
                    "]",
                    "}",
                    ",",
                    ":",
                    "\xef\xbb\xbf{}",
                    "\"\xff\"",
                    "// a",
                    "[1/**/]",
                    "[\v1]",
                    "[\"a\":1}]",
                    "{\"a\":\"b\":1}",
                    "[1:2]",
                    "[[]:1]",
                    "{\"a\":{}:1}"})
    if (gd::check_json(text))
      accepted += text + ";"s;
  CAF_CHECK_EQUAL(accepted, "");
  CAF_CHECK(!gd::check_json("[1]\0"sv));
}

CAF_TEST(what jsonb refuses is refused with its path) {
  CAF_CHECK_EQUAL(why_unfit(R"({"a": [1, "x\u0000"]})"),
                  R"($.a[1]: expected text without NUL, got \u0000)");
  CAF_CHECK_EQUAL(why_unfit(R"({"a": {"\u0000": 1}})"),
                  R"($.a: expected text without NUL, got \u0000)");
  for (auto bad :
       {R"(\ud800)", R"(\udc00)", R"(\ud83d\ud83d\ude00)", R"(\ud83d\u0041)",
        R"(\ud83d \ude00)", R"(\uDBFF)", R"(\ud83d\\ude00)"})
    CAF_CHECK_EQUAL(why_unfit("{\"a\": [\""s + bad + "\"]}"),
                    "$.a[0]: expected Unicode text, got a lone surrogate");
  CAF_CHECK_EQUAL(why_unfit(R"({"a": {"\udead": 1}})"),
                  "$.a: expected Unicode text, got a lone surrogate");
  CAF_CHECK_EQUAL(why_unfit("{\"a\": [tru]}"),
                  "$.a[0]: expected well-formed JSON, got tru");
}

CAF_TEST(numbers that PostgreSQL prints at length are refused with their path) {
  for (auto text : {"1e399", "-12345e394", "0.001e402", "1e-398", "-1e-397",
                    "0.0e-397", "0e100000"})
    CAF_CHECK_EQUAL(why_unfit(text), "(accepted)");
  for (auto text :
       {"1e400", "-12345e395", "0.001e403", "1e-399", "-1e-398", "0.0e-398",
        "1e131071", "1e99999999999999999999", "1e-99999999999999999999"})
    CAF_CHECK_EQUAL(why_unfit("[0, "s + text + "]"),
                    "$[1]: expected a number that PostgreSQL prints with at "
                    "most 400 characters, got "s
                      + text);
  CAF_CHECK(gd::check_json(std::string(400, '9')));
  CAF_CHECK(!gd::check_json(std::string(401, '9')));
  CAF_CHECK(gd::check_json("0." + std::string(398, '1')));
  CAF_CHECK(!gd::check_json("0." + std::string(399, '1')));
}

CAF_TEST(the printed size counts what PostgreSQL prints) {
  for (auto [text, size] : std::vector<std::pair<std::string, std::size_t>>{
         {"1e399", 400},
         {"[1e9,-1.5e1,2E-3]", 24},
         {R"({"a":1e5 , "b" : "x\ny"})", 26},
         {" [ true , null ] ", 12}}) {
    auto printed = gd::printed_size(text);
    CAF_REQUIRE(printed);
    CAF_CHECK_EQUAL(*printed, size);
  }
  CAF_CHECK(!gd::printed_size("[1, 1e400]"));
}

CAF_TEST(nesting is bounded in either direction) {
  CAF_CHECK(gd::check_json(nested(512)));
  auto too_deep = "$"s;
  for (int i = 0; i < 8; ++i)
    too_deep += "[0]";
  too_deep += "..." + too_deep.substr(1)
              + ": expected at most 512 levels, got more";
  CAF_CHECK_EQUAL(why_unfit(nested(513)), too_deep);
  CAF_CHECK(!gd::check_json(std::string(1'000'000, '[')));
  CAF_CHECK(!gd::check_json(nested(500'000)));
  auto objects = [](int levels) {
    std::string text = "{}";
    for (; levels > 1; --levels)
      text = "{\"a\":" + text + "}";
    return text;
  };
  CAF_CHECK(gd::check_json(objects(512)));
  CAF_CHECK(!gd::check_json(objects(513)));
  // Unknown keys are no way round, nor are recursive types.
  CAF_CHECK(!gd::from_json<empty>("{\"a\":" + nested(512) + "}"));
  auto grow = [](tree x, int levels) {
    for (; levels > 0; --levels) {
      tree above{levels, {}};
      above.below.push_back(std::move(x));
      x = std::move(above);
    }
    return x;
  };
  CAF_CHECK(survives(grow({}, 255)));
  auto x = grow({}, 1000);
  CAF_CHECK(text_of(x).ends_with("expected at most 512 levels, got more"));
}

CAF_TEST(what an instance holds is decoded or an error says why it cannot be) {
  gd::instance x{
    .id = 7,
    .status = "runnable",
    .state = gd::json::raw(R"({"sku": "a-1", "qty": 2, "more": 3})")};
  auto state = x.state_as<item>();
  CAF_REQUIRE(state);
  CAF_CHECK_EQUAL(state->sku, "a-1");
  auto none = x.result_as<item>();
  CAF_CHECK_EQUAL(none.error().message,
                  "instance 7 has no result: expected done, got runnable");
  x.result = gd::json::raw(R"({"qty": "two"})");
  auto other = x.result_as<item>();
  CAF_CHECK(other.error().code == gd::errc::codec);
  x.result = gd::json::failed({gd::errc::codec, "too long", {}});
  auto failed = x.result_as<item>();
  CAF_CHECK_EQUAL(failed.error().message, "too long");
}

CAF_TEST(a large document decodes) {
  std::vector<std::string> xs(50'000, "a \" quoted text with an \u00e9");
  CAF_CHECK(survives(xs));
  CAF_CHECK(survives(std::string(300'000, '\n')));
}

} // namespace json_suite
