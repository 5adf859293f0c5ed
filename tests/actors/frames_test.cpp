#define CAF_SUITE frames

#include "support/basp.hpp"
#include "support/words.hpp"

#include <gd/network/wire/frames.hpp>

#include <caf/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace frames_suite {

using namespace gd::test;

namespace {

using gd::actors::frame_fault;
using gd::actors::frame_kind;
using gd::actors::frame_reader;
using gd::actors::frame_stream;

/// What came of bytes: the frames, each whole, and why it ended.
struct outcome {
  std::vector<std::string> frames{};
  std::optional<frame_fault> fault{};
  bool within = false;

  bool operator==(const outcome&) const = default;
};

struct frames_fixture {
  gd::actors::frame_rules rules{
    .first = frame_kind::client_handshake, .version = 3, .most_bytes = 1'000};

  outcome read(std::string_view bytes, std::size_t piece) const {
    frame_reader reader{rules};
    outcome x;
    while (!bytes.empty() && !x.fault) {
      auto next = bytes.substr(0, piece);
      bytes.remove_prefix(next.size());
      while (!next.empty() && !x.fault) {
        x.fault = reader.take(next);
        if (!x.fault && reader.is_whole())
          x.frames.push_back(reader.bytes());
      }
    }
    x.within = reader.is_within();
    return x;
  }

  /// The same in whatever pieces they come.
  outcome read(const std::string& bytes) const {
    auto whole = read(bytes, bytes.size());
    for (std::size_t piece : {1, 3, 31, 32, 33, 100})
      CAF_CHECK(read(bytes, piece) == whole);
    return whole;
  }

  static std::string greeting(std::uint8_t what = basp::client_handshake,
                              std::uint64_t version = 0) {
    return basp::message{
      .what = what, .data = version, .payload = basp::node(1)}
      .bytes();
  }

  std::optional<frame_fault> fault_of(const basp::message& x) const {
    return read(greeting() + x.bytes()).fault;
  }
};

const std::vector<basp::message> each_kind{
  {.what = basp::server_handshake, .data = 3, .payload = "who"},
  {.what = basp::client_handshake, .flags = 2, .payload = "who"},
  {.what = basp::direct, .data = basp::async, .receiver = 7, .payload = "x"},
  {.what = basp::routed, .receiver = 7, .payload = std::string(900, 'x')},
  {.what = basp::monitor, .receiver = 7, .payload = "x"},
  {.what = basp::down, .source = 7, .payload = "x"},
  {.what = basp::heartbeat},
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(frames_tests, frames_fixture)

CAF_TEST(each kind of message goes by whole and in its order) {
  std::vector<std::string> said{greeting()};
  for (const auto& x : each_kind)
    said.push_back(x.bytes());
  std::string all;
  for (const auto& x : said)
    all += x;
  auto heard = read(all);
  CAF_CHECK(heard.frames == said);
  CAF_CHECK(!heard.fault);
  CAF_CHECK(!heard.within);
}

CAF_TEST(what is cut anywhere is left out) {
  for (const auto& x : each_kind) {
    auto bytes = x.bytes();
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      auto heard = read(greeting() + bytes.substr(0, n), 7);
      CAF_CHECK_EQUAL(heard.frames.size(), 1u);
      CAF_CHECK(!heard.fault);
      CAF_CHECK_EQUAL(heard.within, n > 0);
    }
  }
}

CAF_TEST(a header tells what CAF has written into it) {
  basp::message x{.what = basp::direct,
                  .flags = 1,
                  .data = basp::response | 5,
                  .source = 0x0102030405060708,
                  .receiver = 0xA1A2A3A4A5A6A7A8,
                  .payload = "some"};
  auto header = gd::actors::frame_header::read(x.bytes());
  CAF_CHECK(header.kind == frame_kind::direct_message);
  CAF_CHECK_EQUAL(header.flags, 1);
  CAF_CHECK_EQUAL(header.payload, 4u);
  CAF_CHECK_EQUAL(header.data, basp::response | 5);
  CAF_CHECK(header.is_response());
  CAF_CHECK_EQUAL(header.source, x.source);
  CAF_CHECK_EQUAL(header.receiver, x.receiver);
  x.data = basp::async | 5;
  CAF_CHECK(!gd::actors::frame_header::read(x.bytes()).is_response());
  CAF_CHECK_EQUAL(gd::actors::heartbeat_frame(), basp::message{}.bytes());
}

CAF_TEST(lengths up to four gigabytes are refused by the header alone) {
  for (const auto& x : each_kind)
    for (auto size : {1'001u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
      auto long_one = x;
      long_one.size = size;
      long_one.payload.clear();
      auto expected = x.what == basp::heartbeat ? frame_fault::payload
                                                : frame_fault::too_long;
      CAF_CHECK(fault_of(long_one) == expected);
    }
  CAF_CHECK(
    !fault_of({.what = basp::direct, .payload = std::string(1'000, 'x')}));
}

CAF_TEST(there are no other operations than those of both versions) {
  for (int what = 7; what < 256; ++what)
    CAF_CHECK(fault_of({.what = static_cast<std::uint8_t>(what)})
              == frame_fault::operation);
}

CAF_TEST(what needs a payload has one) {
  for (const auto& x : each_kind) {
    auto bare = x;
    bare.payload.clear();
    CAF_CHECK_EQUAL(fault_of(bare) == frame_fault::payload,
                    x.what != basp::heartbeat);
  }
  CAF_CHECK(fault_of({.payload = "x"}) == frame_fault::payload);
}

CAF_TEST(who comes greets first and who is called too) {
  for (const auto& x : each_kind)
    CAF_CHECK_EQUAL(read(x.bytes()).fault == frame_fault::no_handshake,
                    x.what != basp::client_handshake);
  rules.first = frame_kind::server_handshake;
  for (const auto& x : each_kind)
    CAF_CHECK_EQUAL(read(x.bytes()).fault == frame_fault::no_handshake,
                    x.what != basp::server_handshake);
}

CAF_TEST(a server speaks the version of this CAF) {
  rules.first = frame_kind::server_handshake;
  for (std::uint64_t mine : {3, 8}) {
    rules.version = mine;
    for (std::uint64_t its : {0, 1, 2, 3, 4, 7, 8, 9}) {
      auto heard = read(greeting(basp::server_handshake, its));
      CAF_CHECK_EQUAL(heard.fault == frame_fault::version, its != mine);
    }
  }
}

CAF_TEST(a stream is between frames where the last one has ended) {
  frame_stream stream;
  CAF_CHECK(stream.is_between());
  for (const auto& x : each_kind) {
    auto bytes = x.bytes();
    for (std::size_t n = 1; n <= bytes.size(); ++n) {
      CAF_CHECK_EQUAL(stream.take(std::string_view{bytes}.substr(n - 1, 1)),
                      1u);
      CAF_CHECK_EQUAL(stream.is_between(), n == bytes.size());
    }
  }
}

CAF_TEST(the longest message is remembered and what is kept is not longer) {
  frame_reader reader{rules};
  auto first = greeting();
  auto bytes = first
               + basp::message{.what = basp::direct,
                               .payload = std::string(800, 'x')}
                   .bytes()
               + basp::message{}.bytes();
  for (std::string_view rest{bytes}; !rest.empty();)
    CAF_REQUIRE(!reader.take(rest));
  CAF_CHECK_EQUAL(reader.longest(), 832u);
  CAF_CHECK_EQUAL(reader.bytes().size(), 32u);
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace frames_suite
