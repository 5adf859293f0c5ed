// What a gateway's client does with requests over connections that come and go. Nothing here
// has a clock or a socket of its own; schedules are drawn from seeds.

#define CAF_SUITE request_queue

#include <gd/network/client/request_queue.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace request_queue_suite {

using namespace std::literals;

namespace {

using gd::asked_twice;
using gd::errc;
using gd::error;
using gd::request_queue;
using gd::sent_request;
using tickets = std::vector<std::uint64_t>;

constexpr gd::pending_request reads{asked_twice::reads, 100};
constexpr gd::pending_request repeats{asked_twice::repeats, 100};
constexpr gd::pending_request acts{asked_twice::acts, 100};

gd::pending_request waits(std::chrono::microseconds time) {
  return {asked_twice::reads, 100, time};
}

const error gone{errc::unavailable, "gone", {}};

struct fixture {
  request_queue box{{}};
  request_queue::time_point now{1h};

  /// Another box, with a connection.
  void reach(request_queue::settings how = {}) {
    box = request_queue{how};
    CAF_REQUIRE(box.step(now).connect);
    box.connected(now);
  }

  std::uint64_t connection() const {
    return box.connection();
  }

  void add(std::uint64_t ticket, gd::pending_request what) {
    CAF_REQUIRE(box.add(ticket, what, now));
  }

  tickets sent() {
    return box.step(now).send;
  }

  /// Those who are told, with what.
  static std::map<std::uint64_t, errc>
  codes(const std::vector<request_queue::ended>& all) {
    std::map<std::uint64_t, errc> out;
    for (const auto& x : all)
      out.emplace(x.ticket, x.why.code);
    return out;
  }

  std::map<std::uint64_t, errc> lose() {
    return codes(box.lost(connection(), gone, now));
  }

  /// The next connection, whenever it is tried.
  void reach_again() {
    now = std::max(now, box.due());
    CAF_REQUIRE(box.step(now).connect);
    box.connected(now);
  }

  std::optional<sent_request> answer(std::uint64_t ticket,
                                     std::optional<error> why = {}) {
    return box.answered(connection(), ticket, why ? &*why : nullptr, now);
  }
};

using told = std::map<std::uint64_t, errc>;

} // namespace

CAF_TEST_FIXTURE_SCOPE(request_queue_tests, fixture)

CAF_TEST(what waits for a connection goes out in the order in which it came) {
  box.step(now);
  for (std::uint64_t i = 1; i <= 5; ++i)
    add(i, i % 2 ? acts : repeats);
  CAF_CHECK_EQUAL(sent(), tickets{});
  box.connected(now);
  CAF_CHECK_EQUAL(sent(), (tickets{1, 2, 3, 4, 5}));
  CAF_CHECK_EQUAL(sent(), tickets{});
}

CAF_TEST(what is lost with its connection is sent again if that does no harm) {
  reach();
  add(1, reads);
  add(2, repeats);
  add(3, acts);
  add(4, acts);
  sent();
  CAF_CHECK(answer(4));
  add(5, acts); // not sent yet
  CAF_CHECK_EQUAL(lose(), (told{{3, errc::unknown_fate}}));
  reach_again();
  CAF_CHECK_EQUAL(sent(), (tickets{1, 2, 5}));
  CAF_CHECK(!answer(1)->sent_before);
  CAF_CHECK(answer(2)->sent_before);
  CAF_CHECK(!answer(5)->sent_before);
  CAF_CHECK_EQUAL(box.unanswered(), 0u);
  CAF_CHECK_EQUAL(box.bytes(), 0u);
}

CAF_TEST(answers of a connection that is gone and second answers are dropped) {
  reach();
  add(1, repeats);
  sent();
  auto old = connection();
  lose();
  CAF_CHECK(!box.answered(old, 1, nullptr, now));
  reach_again();
  sent();
  CAF_CHECK(!box.answered(old, 1, nullptr, now));
  CAF_CHECK(box.lost(old, gone, now).empty());
  CAF_CHECK(connection() != 0);
  CAF_CHECK(answer(1));
  CAF_CHECK(!answer(1));
}

CAF_TEST(what was never sent is unavailable and what was is of unknown fate) {
  reach({.patience = 8s, .answer_within = 60s});
  add(1, reads);
  add(2, repeats);
  sent();
  lose();
  add(3, repeats);
  add(4, acts);
  box.step(now + 8s - 1ms);
  auto ends = codes(box.step(now + 8s).told);
  CAF_CHECK_EQUAL(ends, (told{{1, errc::unavailable},
                              {2, errc::unknown_fate},
                              {3, errc::unavailable},
                              {4, errc::unavailable}}));
}

CAF_TEST(nothing is sent again when its patience is over) {
  reach({.patience = 8s});
  add(1, repeats);
  sent();
  lose();
  now += 8s;
  auto todo = box.step(now);
  CAF_REQUIRE(todo.connect);
  box.connected(now);
  CAF_CHECK_EQUAL(sent(), tickets{});
}

CAF_TEST(an answer that says not now is waited for again) {
  reach();
  add(1, acts);
  add(2, repeats);
  add(3, acts);
  sent();
  error not_now{errc::unavailable, "the gateway is being restarted", {}};
  error unknown{errc::unknown_fate, "the gateway is down", {}};
  CAF_CHECK(!answer(1, not_now));
  CAF_CHECK(!answer(2, unknown));
  CAF_CHECK(answer(3, unknown));
  CAF_CHECK_EQUAL(sent(), tickets{});
  now += 100ms;
  CAF_CHECK_EQUAL(sent(), (tickets{1, 2}));
  CAF_CHECK(!answer(1)->sent_before);
  CAF_CHECK(answer(2)->sent_before);
  CAF_MESSAGE("but not after its time");
  add(4, acts);
  sent();
  now += 8s;
  CAF_CHECK(answer(4, not_now));
}

CAF_TEST(what refuses the second sending says nothing about the first) {
  sent_request again{asked_twice::repeats, true};
  for (auto code : {errc::target_finished, errc::inbox_full, errc::overloaded,
                    errc::unavailable, errc::version_retired})
    CAF_CHECK_EQUAL(gd::corrected({code, "x", {}}, again).code,
                    errc::unknown_fate);
  for (auto code : {errc::invalid_argument, errc::codec})
    CAF_CHECK_EQUAL(gd::corrected({code, "x", {}}, again).code, code);
  CAF_CHECK_EQUAL(
    gd::corrected({errc::inbox_full, "x", {}}, {asked_twice::repeats, false})
      .code,
    errc::inbox_full);
  CAF_CHECK_EQUAL(
    gd::corrected({errc::unknown_fate, "x", {}}, {asked_twice::reads, false})
      .code,
    errc::unavailable);
  gd::signalled own{true};
  gd::correct(own, again);
  CAF_CHECK(!own.duplicate);
  gd::inserted_all all;
  all.rows = {{.id = 7, .duplicate = true},
              {.code = errc::overloaded, .message = "full"}};
  gd::correct(all, again);
  CAF_CHECK(all.rows[0].id == 7 && all.rows[0].duplicate);
  CAF_CHECK_EQUAL(all.rows[1].code, errc::unknown_fate);
}

CAF_TEST(keys make a request one that may be sent again) {
  using gd::keys_trusted;
  auto twice = [](const auto& x, keys_trusted which = keys_trusted::all) {
    return pending_request_of(x, which).twice;
  };
  gd::insert plain{.fsm = "A"};
  gd::insert keyed{.fsm = "A", .unique_key = "k"};
  gd::insert lasting{.fsm = "A",
                     .unique_key = "k",
                     .unique_scope = {"runnable", "executing",
                                      "awaiting_signal", "done", "failed"}};
  CAF_CHECK(twice(plain) == asked_twice::acts);
  CAF_CHECK(twice(keyed) == asked_twice::repeats);
  CAF_CHECK(twice(keyed, keys_trusted::lasting) == asked_twice::acts);
  CAF_CHECK(twice(lasting, keys_trusted::lasting) == asked_twice::repeats);
  CAF_CHECK(twice(gd::insert_all{{keyed, keyed}}) == asked_twice::repeats);
  CAF_CHECK(twice(gd::insert_all{{keyed, plain}}) == asked_twice::acts);
  CAF_CHECK(twice(gd::insert_all{}) == asked_twice::repeats);
  gd::signal hello{.target = 7, .name = "x"};
  CAF_CHECK(twice(hello) == asked_twice::acts);
  hello.dedup_key = "d";
  CAF_CHECK(twice(hello) == asked_twice::repeats);
  CAF_CHECK(twice(hello, keys_trusted::lasting) == asked_twice::repeats);
  hello.key = "k";
  CAF_CHECK(twice(hello) == asked_twice::repeats);
  CAF_CHECK(twice(hello, keys_trusted::lasting) == asked_twice::acts);
  CAF_CHECK(twice(gd::transition{.target = 7, .to = "b", .seq = 3})
            == asked_twice::acts);
  CAF_CHECK(twice(gd::look_up{7}) == asked_twice::reads);
  CAF_CHECK(twice(gd::await_result{7}) == asked_twice::reads);
  CAF_CHECK(twice(gd::stats_query{}) == asked_twice::reads);
  CAF_CHECK(twice(gd::history_query{7}) == asked_twice::reads);
  CAF_CHECK(twice(gd::in_step_query{"A", "b"}) == asked_twice::reads);
}

CAF_TEST(those that wait for long are in the way of nobody) {
  reach({.patience = 8s, .answer_within = 60s, .open = 2});
  for (std::uint64_t i = 1; i <= 5; ++i)
    add(i, waits(1h));
  add(6, acts);
  add(7, acts);
  add(8, acts);
  auto first = sent();
  CAF_CHECK_EQUAL(std::set(first.begin(), first.end()),
                  (std::set<std::uint64_t>{1, 2, 3, 4, 5, 6, 7}));
  CAF_CHECK_EQUAL(box.open(), 2u);
  CAF_CHECK(answer(6));
  CAF_CHECK(answer(7));
  CAF_CHECK_EQUAL(sent(), tickets{8});
  CAF_CHECK(answer(8));
  for (int i = 0; i < 300; ++i) { // longer than any answer may take
    now += 1s;
    CAF_CHECK(box.step(now).told.empty());
    box.heard(connection(), now);
  }
  for (std::uint64_t i = 1; i <= 5; ++i)
    CAF_CHECK(answer(i));
  CAF_CHECK_EQUAL(box.unanswered(), 0u);
  CAF_CHECK_EQUAL(box.bytes(), 0u);
}

CAF_TEST(one that waits for long is sent again with the time that is left) {
  reach({.patience = 8s});
  add(1, waits(60s));
  CAF_CHECK_EQUAL(sent(), tickets{1});
  CAF_CHECK(*box.time_left(1, now) == 60s);
  now += 20s;
  box.heard(connection(), now);
  CAF_CHECK_EQUAL(lose(), told{});
  reach_again();
  CAF_CHECK_EQUAL(sent(), tickets{1});
  CAF_CHECK(*box.time_left(1, now) <= 40s);
  // It is being restarted.
  CAF_CHECK(!answer(1, error{errc::unknown_fate, "down", {}}));
  now += 100ms;
  CAF_CHECK_EQUAL(sent(), tickets{1});
  CAF_CHECK(!answer(1)->sent_before);
}

CAF_TEST(the time of one that waits for long ends at some point) {
  reach({.patience = 8s});
  add(1, waits(0s));
  add(2, waits(60s));
  CAF_CHECK_EQUAL(sent(), (tickets{1, 2}));
  CAF_CHECK(box.step(now).told.empty()); // the gateway tells that
  now += 8s;
  box.heard(connection(), now);
  CAF_CHECK_EQUAL(codes(box.step(now).told), (told{{1, errc::timed_out}}));
  lose();
  now += 60s;
  CAF_CHECK_EQUAL(codes(box.step(now).told), (told{{2, errc::timed_out}}));
  add(3, waits(1s));
  now += 9s;
  CAF_CHECK_EQUAL(codes(box.step(now).told), (told{{3, errc::unavailable}}));
  CAF_CHECK_EQUAL(box.unanswered(), 0u);
}

CAF_TEST(what waits is bounded in number and in bytes) {
  box = request_queue{{.requests = 3, .bytes = 1'000}};
  add(1, {asked_twice::acts, 5'000}); // one alone may have more
  auto full = box.add(2, acts, now);
  CAF_CHECK_EQUAL(full.error().code, errc::overloaded);
  CAF_CHECK_EQUAL(full.error().message,
                  "5000 bytes wait for the gateway already, and 100 more are "
                  "too many: expected at most 1000");
  box = request_queue{{.requests = 3, .bytes = 1'000}};
  for (std::uint64_t i = 1; i <= 3; ++i)
    add(i, acts);
  full = box.add(4, acts, now);
  CAF_CHECK_EQUAL(full.error().message,
                  "3 requests wait for the gateway already: expected at most "
                  "3");
}

CAF_TEST(only so many are at the peer at a time) {
  reach({.open = 2});
  for (std::uint64_t i = 1; i <= 4; ++i)
    add(i, acts);
  CAF_CHECK_EQUAL(sent(), (tickets{1, 2}));
  CAF_CHECK(answer(2));
  CAF_CHECK_EQUAL(sent(), tickets{3});
  now += 8s;
  // A peer that is slow is not one that is gone.
  box.heard(connection(), now);
  CAF_CHECK_EQUAL(codes(box.step(now).told), (told{{4, errc::unavailable}}));
}

CAF_TEST(one attempt at a time and addresses in turn) {
  box = request_queue{{.addresses = 3}};
  std::vector<std::size_t> tried;
  std::vector<request_queue::milliseconds> pauses;
  for (int i = 0; i < 12; ++i) {
    auto todo = box.step(now);
    CAF_REQUIRE(todo.connect);
    tried.push_back(*todo.connect);
    CAF_CHECK(!box.step(now + 1h).connect);
    box.failed(gone, now);
    pauses.push_back(box.retry_in(now));
    now += pauses.back();
  }
  CAF_CHECK_EQUAL(
    tried, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  // The addresses of a round follow each other at once.
  auto longest = 50ms;
  for (std::size_t i = 0; i < pauses.size(); ++i)
    if (i % 3 == 2) {
      CAF_CHECK(pauses[i] >= longest / 2 && pauses[i] <= longest);
      longest *= 2;
    } else {
      CAF_CHECK_EQUAL(pauses[i].count(), 0);
    }
}

CAF_TEST(pauses grow to a bound and differ from client to client) {
  std::set<std::int64_t> after_a_loss;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    reach({.longest_pause = 5s, .seed = seed});
    lose();
    auto pause = box.retry_in(now);
    CAF_CHECK(pause >= 25ms && pause <= 50ms);
    after_a_loss.insert(pause.count());
    for (int i = 0; i < 20; ++i) {
      now += box.retry_in(now);
      CAF_REQUIRE(box.step(now).connect);
      box.failed(gone, now);
      CAF_CHECK(box.retry_in(now) <= 5s);
    }
    CAF_CHECK(box.retry_in(now) >= 2'500ms);
  }
  CAF_CHECK(after_a_loss.size() > 5);
}

CAF_TEST(a connection that is lost at once is no better than none) {
  reach();
  for (int i = 0; i < 10; ++i) {
    lose();
    reach_again();
  }
  lose();
  CAF_CHECK(box.retry_in(now) >= 2'500ms);
  reach_again();
  now += 5s;
  lose();
  CAF_CHECK(box.retry_in(now) <= 50ms);
}

CAF_TEST(a peer that says nothing is asked and then given up) {
  reach({.ping = 1s, .silence = 3s});
  CAF_CHECK(!box.step(now).ping);
  CAF_CHECK(box.due() == now + 1s);
  now += 1s;
  CAF_CHECK(box.step(now).ping);
  CAF_CHECK(!box.step(now).ping);
  box.heard(connection(), now);
  now += 1s;
  CAF_CHECK(box.step(now).ping);
  CAF_CHECK(box.due() == now + 3s);
  add(1, acts);
  CAF_CHECK_EQUAL(sent(), tickets{1});
  now += 3s;
  auto todo = box.step(now);
  CAF_REQUIRE(todo.let_go);
  CAF_CHECK_EQUAL(todo.let_go->message,
                  "the gateway has said nothing for 3000 ms");
  CAF_CHECK_EQUAL(codes(todo.told), (told{{1, errc::unknown_fate}}));
  CAF_CHECK_EQUAL(connection(), 0u);
}

CAF_TEST(a slow request does not end a connection that answers others) {
  reach({.answer_within = 60s});
  add(1, acts);
  sent();
  for (int i = 0; i < 59; ++i) {
    now += 1s;
    auto todo = box.step(now);
    CAF_CHECK(todo.ping);
    CAF_CHECK(!todo.let_go);
    CAF_CHECK(todo.told.empty());
    box.heard(connection(), now);
  }
  now += 1s;
  CAF_CHECK_EQUAL(codes(box.step(now).told), (told{{1, errc::unknown_fate}}));
  CAF_CHECK(connection() != 0);
  CAF_CHECK(!answer(1));
  CAF_CHECK_EQUAL(box.open(), 0u);
}

CAF_TEST(who was stopped himself blames nobody else) {
  reach({.ping = 1s, .silence = 3s});
  now += 1s;
  CAF_CHECK(box.step(now).ping);
  now += 1min;
  CAF_CHECK(!box.step(now).let_go);
  box.heard(connection(), now);
  now += 1s;
  CAF_CHECK(box.step(now).ping);
  now += 3s;
  CAF_CHECK(box.step(now).let_go);
}

CAF_TEST(a stop answers everybody and takes nothing more) {
  reach();
  add(1, acts);
  add(2, repeats);
  add(3, reads);
  sent();
  add(4, acts);
  CAF_CHECK_EQUAL(codes(box.stop()), (told{{1, errc::unknown_fate},
                                           {2, errc::unknown_fate},
                                           {3, errc::stopped},
                                           {4, errc::stopped}}));
  auto late = box.add(5, acts, now);
  CAF_CHECK_EQUAL(late.error().code, errc::stopped);
  CAF_CHECK(box.due() == request_queue::time_point::max());
  CAF_CHECK_EQUAL(box.bytes(), 0u);
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- schedules ----------------------------------------------------------------

namespace {

/// Gateways that do what they are asked now, later, or never, and whose answers arrive or do
/// not; and what has come of each request in the end.
class world {
public:
  explicit world(std::uint64_t seed)
    : seed_(seed),
      random_(seed),
      how_{.patience = pick(200ms, 8s),
           .answer_within = pick(500ms, 60s),
           .ping = 100ms,
           .silence = 300ms,
           .first_pause = 10ms,
           .longest_pause = 400ms,
           .addresses = 1 + random_() % 3,
           .requests = 1 + random_() % 40,
           .bytes = 100 + random_() % 4'000,
           .open = 1 + random_() % 10,
           .seed = seed},
      box_(how_) {
    // nop
  }

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      happen();
      drive();
    }
    if (random_() % 3 == 0) {
      tell(box_.stop());
    } else {
      // All is well from now on.
      for (int i = 0; i < 10'000 && box_.unanswered() > 0; ++i) {
        settle();
        drive();
        now_ = std::min(std::max(now_, box_.due()), now_ + 50ms);
      }
    }
    // Whoever was frozen does at last what he was asked.
    while (!asked_.empty())
      serve(0, false);
    check();
  }

private:
  struct message {
    std::uint64_t connection;
    std::uint64_t ticket; ///< zero: a ping
  };
  struct reply {
    std::uint64_t connection;
    std::uint64_t ticket;
    std::optional<error> why;
  };
  struct request {
    asked_twice twice;
    request_queue::time_point expires;
    int done = 0;
    /// Sendings that were not answered with "nothing has happened".
    int open_ended = 0;
    std::vector<std::optional<errc>> told;
  };

  /// Millions of these: nothing is said of one that holds.
  void must(bool holds, int line = __builtin_LINE()) const {
    if (!holds)
      CAF_FAIL("seed " << seed_ << ": what line " << line << " expects");
  }

  request_queue::milliseconds pick(request_queue::milliseconds x,
                                   request_queue::milliseconds y) {
    return random_() % 2 ? x : y;
  }

  void happen() {
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
        return add();
      case 3:
      case 4:
        if (!asked_.empty())
          serve(random_() % asked_.size(), true);
        return;
      case 5:
      case 6:
        if (!replies_.empty())
          deliver(random_() % replies_.size());
        return;
      case 7:
        if (attempting_)
          end_attempt(random_() % 2 == 0);
        return;
      case 8: // what is under way to a peer may be lost
        if (!asked_.empty() && random_() % 2 == 0)
          asked_.erase(
            asked_.begin()
            + static_cast<std::ptrdiff_t>(random_() % asked_.size()));
        return;
      case 9:
        if (random_() % 3 == 0)
          cut(random_() % 4 == 0 ? box_.connection() - 1 : box_.connection());
        return;
      case 10:
        now_ = std::max(now_, std::min(box_.due(), now_ + 10s));
        return;
      default:
        now_ += std::chrono::milliseconds{random_() % 120};
    }
  }

  /// A peer that answers, and a network that works.
  void settle() {
    if (attempting_)
      end_attempt(true);
    while (!asked_.empty())
      serve(0, true);
    while (!replies_.empty())
      deliver(0);
  }

  void add() {
    auto ticket = ++tickets_;
    auto twice = static_cast<asked_twice>(random_() % 3);
    if (auto ok = box_.add(ticket, {twice, random_() % 500}, now_); !ok) {
      must(ok.error().code == errc::overloaded);
      return;
    }
    requests_[ticket] = {twice, now_ + how_.patience, 0, 0, {}};
  }

  void serve(std::size_t which, bool answers) {
    auto x = asked_[which];
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(which));
    std::optional<error> why;
    if (x.ticket != 0) {
      auto& one = requests_.at(x.ticket);
      auto chance = random_() % 12;
      if (chance == 0) {
        why = {errc::unavailable, "not now", {}};
        --one.open_ended;
      } else if (chance == 1) {
        why = {errc::unknown_fate, "who knows", {}};
        one.done += random_() % 2 ? 1 : 0;
      } else if (chance == 2) {
        // A repeat, too, is refused only if it finds nothing of itself.
        why = {errc::inbox_full, "full", {}};
      } else {
        ++one.done;
      }
    }
    if (answers)
      replies_.push_back({x.connection, x.ticket, why});
  }

  void deliver(std::size_t which) {
    auto x = replies_[which];
    replies_.erase(replies_.begin() + static_cast<std::ptrdiff_t>(which));
    if (x.ticket == 0)
      return box_.heard(x.connection, now_);
    auto of = box_.answered(x.connection, x.ticket, x.why ? &*x.why : nullptr,
                            now_);
    if (!of)
      return;
    must(x.connection == connection_);
    if (x.why)
      note(x.ticket, gd::corrected(*x.why, *of).code);
    else
      note(x.ticket, std::nullopt);
  }

  void end_attempt(bool well) {
    attempting_ = false;
    if (well)
      connection_ = box_.connected(now_);
    else
      box_.failed(gone, now_);
  }

  void cut(std::uint64_t connection) {
    if (connection != 0 && connection == connection_)
      connection_ = 0;
    tell(box_.lost(connection, gone, now_));
  }

  void drive() {
    auto todo = box_.step(now_);
    if (todo.let_go)
      connection_ = 0;
    tell(todo.told);
    if (todo.connect) {
      must(!attempting_ && connection_ == 0);
      must(*todo.connect < how_.addresses);
      attempting_ = true;
    }
    must(box_.connection() == connection_);
    if (todo.ping || !todo.send.empty())
      must(connection_ != 0);
    if (todo.ping)
      asked_.push_back({connection_, 0});
    for (auto ticket : todo.send) {
      auto& x = requests_.at(ticket);
      must(x.told.empty());
      must(now_ < x.expires);
      if (x.twice == asked_twice::acts)
        must(x.open_ended == 0);
      ++x.open_ended;
      asked_.push_back({connection_, ticket});
    }
    must(box_.open() <= how_.open);
    must(box_.unanswered() <= how_.requests);
    must(box_.bytes() <= how_.bytes + 500);
    must(box_.due() > now_);
  }

  void note(std::uint64_t ticket, std::optional<errc> what) {
    requests_.at(ticket).told.push_back(what);
  }

  void tell(const std::vector<request_queue::ended>& all) {
    for (const auto& x : all)
      note(x.ticket, x.why.code);
  }

  void check() const {
    for (const auto& [ticket, x] : requests_) {
      must(x.told.size() == 1u);
      auto what = x.told.front();
      if (x.twice == asked_twice::reads) {
        must(what != errc::unknown_fate);
        continue;
      }
      if (x.twice == asked_twice::acts)
        must(x.done <= 1);
      if (!what)
        must(x.done >= 1);
      else if (*what != errc::unknown_fate)
        must(x.done == 0);
    }
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  request_queue::settings how_;
  request_queue box_;
  request_queue::time_point now_{1h};
  std::uint64_t tickets_ = 0;
  std::uint64_t connection_ = 0;
  bool attempting_ = false;
  /// On their way to a peer, or with one.
  std::vector<message> asked_;
  std::vector<reply> replies_;
  std::map<std::uint64_t, request> requests_;
};

int seeds() {
  const auto* more = std::getenv("GD_REQUEST_QUEUE_SEEDS");
  return more ? std::atoi(more) : 2'000;
}

} // namespace

CAF_TEST(whatever happens each request is answered once and truly) {
  for (int seed = 1; seed <= seeds(); ++seed)
    world{static_cast<std::uint64_t>(seed)}.run(300);
}

} // namespace request_queue_suite
