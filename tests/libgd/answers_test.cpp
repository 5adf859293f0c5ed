// What a server sends that does not keep to its own protocol: it is refused, or
// read as nothing, and nobody waits for ever.

#define CAF_SUITE answers

#include <gd/engine/intake/target_intake.hpp>
#include <gd/instance.hpp>
#include <gd/pq/connection.hpp>
#include <gd/store/store.hpp>

#include <caf/test/dsl.hpp>

#include <libpq-fe.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace answers_suite {

using namespace std::literals;

using gd::errc;
namespace pq = gd::pq;
namespace store = gd::store;

namespace {

constexpr Oid oid_int8 = 20;
constexpr Oid oid_text = 25;
constexpr Oid oid_text_array = 1009;
constexpr Oid oid_int8_array = 1016;

struct cell {
  Oid type;
  std::string value;
  std::string column = "x";
};

/// Rows with the columns of the first.
pq::rows answer(const std::vector<std::vector<cell>>& rows) {
  auto* raw = PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK);
  std::vector<PGresAttDesc> columns;
  for (const auto& x : rows.front())
    columns.push_back(
      {const_cast<char*>(x.column.c_str()), 0, 0, 1, x.type, -1, -1});
  PQsetResultAttrs(raw, static_cast<int>(columns.size()), columns.data());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < rows[i].size(); ++j)
      PQsetvalue(raw, static_cast<int>(i), static_cast<int>(j),
                 const_cast<char*>(rows[i][j].value.data()),
                 static_cast<int>(rows[i][j].value.size()));
  return pq::rows{raw};
}

std::string be32(std::uint32_t x) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(x >> shift);
  return out;
}

std::string array_of(const std::vector<std::string>& xs, std::uint32_t type,
                     std::uint32_t count) {
  auto out = be32(1) + be32(0) + be32(type) + be32(count) + be32(1);
  for (const auto& x : xs)
    out += be32(static_cast<std::uint32_t>(x.size())) + x;
  return out;
}

std::string text_array(const std::vector<std::string>& xs) {
  return array_of(xs, oid_text, static_cast<std::uint32_t>(xs.size()));
}

/// A server that has no TLS, for one connection.
class plain_server {
public:
  plain_server() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(any);
    auto* address = reinterpret_cast<sockaddr*>(&any);
    if (bind(listener_, address, size) != 0 || listen(listener_, 1) != 0
        || getsockname(listener_, address, &size) != 0)
      throw std::runtime_error{"no port"};
    port_ = ntohs(any.sin_port);
    thread_ = std::thread{[this] {
      std::array<char, 8> request; // for TLS
      auto peer = accept(listener_, nullptr, nullptr);
      if (recv(peer, request.data(), request.size(), MSG_WAITALL) > 0)
        send(peer, "N", 1, MSG_NOSIGNAL);
      close(peer);
    }};
  }

  ~plain_server() {
    shutdown(listener_, SHUT_RDWR); // if nobody has come
    thread_.join();
    close(listener_);
  }

  std::string conninfo() const {
    return "host=localhost hostaddr=127.0.0.1 port=" + std::to_string(port_);
  }

private:
  int listener_;
  int port_ = 0;
  std::thread thread_;
};

std::string number(std::uint32_t x) {
  return be32(0) + be32(x);
}

} // namespace

CAF_TEST(an array is read within its bytes or not at all) {
  auto whole = text_array({"a", "bc"});
  auto empty = be32(0) + be32(0) + be32(oid_text);
  auto null = array_of({}, oid_text, 1) + be32(0xffff'ffff);
  using texts = std::vector<std::string>;
  for (const auto& [bytes, expected] :
       std::vector<std::pair<std::string, texts>>{
         {whole, {"a", "bc"}}, {empty, {}}, {null, {""}}}) {
    auto rows = answer({{{oid_text_array, bytes}}});
    CAF_CHECK(rows.check());
    CAF_CHECK(rows.texts(0, 0) == expected);
  }
  std::vector<std::string> broken{
    whole + "x",
    array_of({"a"}, oid_text, 2),
    array_of({"a"}, oid_text, 0),
    array_of({"a"}, oid_text, 0x7fff'ffff),
    array_of({}, oid_text, 0xffff'ffff),
    array_of({}, oid_text, 1) + be32(0x7fff'ffff) + "a",
    array_of({}, oid_text, 1) + be32(0xffff'fffe),
    be32(2) + whole.substr(4),
    be32(0xffff'ffff) + whole.substr(4),
    empty + be32(0),
  };
  for (std::size_t n = 0; n < whole.size(); ++n)
    broken.push_back(whole.substr(0, n));
  for (const auto& bytes : broken) {
    auto rows = answer({{{oid_text_array, bytes}}});
    CAF_CHECK(!rows.check());
    CAF_CHECK(rows.texts(0, 0).empty());
  }
}

CAF_TEST(a value whose form is not that of its type is refused) {
  for (const auto& x :
       {cell{16, ""}, cell{16, "ab"}, cell{21, "abcd"}, cell{23, "ab"},
        cell{oid_int8, "abcd"},
        cell{oid_int8_array, array_of({"abcd"}, oid_int8, 1)}}) {
    auto rows = answer({{{oid_text, "a"}, x}});
    auto ok = rows.check();
    CAF_REQUIRE(!ok);
    CAF_CHECK(ok.error().code == errc::unavailable);
    CAF_CHECK_EQUAL(ok.error().message,
                    "the server's answer is malformed: column 2 of row 1");
  }
  CAF_CHECK(answer({{{oid_int8, number(7)}, {oid_text, ""}}}).check());
  CAF_CHECK(pq::rows{}.check());
}

CAF_TEST(an inbox whose columns are not equally long shows nothing) {
  auto ids = array_of({number(1), number(2)}, oid_int8, 2);
  auto shown = [&](const std::vector<std::string>& names,
                   const std::vector<std::string>& traces = {"", ""}) {
    return store::read<store::shown_row>(
             answer({{{oid_int8, number(7), "id"},
                      {oid_text, "{}", "state"},
                      {oid_int8_array, ids, "ids"},
                      {oid_text_array, text_array(names), "names"},
                      {oid_text_array, text_array({"{}", "{}"}), "payloads"},
                      {oid_text_array, text_array(traces), "traces"}}}))
      .at(0)
      .inbox.size();
  };
  CAF_CHECK_EQUAL(shown({"a", "b"}), 2u);
  CAF_CHECK_EQUAL(shown({"a"}), 0u);
  CAF_CHECK_EQUAL(shown({"a", "b", "c"}), 0u);
  CAF_CHECK_EQUAL(shown({"a", "b"}, {""}), 0u);
}

CAF_TEST(columns are found by their names) {
  auto rows = answer(
    {{{oid_text, "q", "queue"},
      {oid_text, "ignored", "other"},
      {oid_int8, number(7), "id"}},
     {{oid_text, "r"}, {oid_text, ""}, {oid_int8, number(8)}}});
  auto moved = store::read<store::moved_row>(rows);
  CAF_REQUIRE_EQUAL(moved.size(), 2u);
  CAF_CHECK_EQUAL(moved[0].id, 7);
  CAF_CHECK_EQUAL(moved[0].queue, "q");
  CAF_CHECK_EQUAL(moved[1].id, 8);
  CAF_CHECK_EQUAL(moved[1].queue, "r");
  CAF_MESSAGE("one that is not there is null");
  auto reaped = store::read<store::reaped_row>(rows).front();
  CAF_CHECK_EQUAL(reaped.id, 7);
  CAF_CHECK(!reaped.partition_key);
  CAF_CHECK_EQUAL(reaped.token, "");
  CAF_CHECK(!store::read_one<store::moved_row>(pq::rows{}));
}

CAF_TEST(a signal whose answer is unknown
         or missing is answered with an error) {
  gd::signal_intake intake{{}};
  for (std::uint64_t ticket : {1, 2, 3})
    CAF_REQUIRE(intake.add(ticket, {.target = 7, .name = "paid"}));
  CAF_REQUIRE(intake.begin({}));
  pq::reply reply;
  reply.results.emplace_back();
  reply.results.push_back(answer(
    {{{oid_text, "accepted", "answer"}}, {{oid_text, "postponed", "answer"}}}));
  auto report = intake.finish(std::move(reply), {});
  CAF_REQUIRE_EQUAL(report.answers.size(), 3u);
  CAF_CHECK(report.answers[0].answer);
  for (auto i : {1u, 2u}) {
    CAF_REQUIRE(!report.answers[i].answer);
    CAF_CHECK(report.answers[i].answer.error().code == errc::unknown_fate);
  }
}

CAF_TEST(a server without TLS is refused where a verified one is asked for) {
  plain_server server;
  pq::connection on{{.database = server.conninfo()
                                 + " sslmode=verify-full "
                                   "sslrootcert=/etc/ssl/shop-ca.pem"}};
  auto ready = on.wait_ready();
  CAF_REQUIRE(!ready);
  CAF_CHECK(ready.error().code == errc::unavailable);
  CAF_MESSAGE(ready.error().message);
  CAF_CHECK(ready.error().message.find("does not support SSL, but SSL was "
                                       "required")
            != std::string::npos);
}

CAF_TEST(text for a terminal has nothing that drives it) {
  CAF_CHECK_EQUAL(gd::printable("a\x1b[31m\n\x7f"),
                  R"(a\u001b[31m\u000a\u007f)");
  CAF_CHECK_EQUAL(gd::printable("\xc2\x9b\xe2\x80\xae\xe2\x81\xa9\xd8\x9c"),
                  R"(\u009b\u202e\u2069\u061c)");
  CAF_CHECK_EQUAL(gd::printable("\x9b"
                                "a\xff"),
                  "?a?");
  CAF_CHECK_EQUAL(gd::printable("\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\x93"),
                  "\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\x93");
}

} // namespace answers_suite
