#define CAF_SUITE turn

// A queue's transactions: first the state machine alone, with replies made by
// hand, then with a server.

#include <gd/engine/queue/turn.hpp>
#include <gd/pq/connection.hpp>
#include <gd/sql.hpp>

#include <support/opened.hpp>

#include <caf/test/dsl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace turn_suite {

using namespace std::literals;

namespace {

namespace pq = gd::pq;
namespace sql = gd::sql;
namespace store = gd::store;

using gd::test::session;
using store::outcome_row;
using store::write_kind;
using verdict = gd::turn::flushed::verdict;
using clock_type = gd::turn::clock;
using ids = std::vector<std::int64_t>;

gd::turn make_turn(std::size_t rows = 500, std::size_t bytes = 8 << 20,
                   std::size_t transactions = 1) {
  return gd::turn{{.queue = "default",
                   .incarnation = "node/1",
                   .first_pick = 7,
                   .machines = {{"Order", 1}},
                   .lease = 60s,
                   .rows = rows,
                   .bytes = bytes,
                   .transactions = transactions}};
}

outcome_row next_row(std::int64_t id, std::string state = R"({"n": 2})") {
  outcome_row row;
  row.id = id;
  row.token = "node/1/1";
  row.what = write_kind::next;
  row.step = "ship";
  row.state = std::move(state);
  return row;
}

outcome_row done_row(std::int64_t id, std::string token = "node/1/1") {
  outcome_row row;
  row.id = id;
  row.token = std::move(token);
  row.what = write_kind::done;
  row.result = "{}";
  return row;
}

/// The statements of a unit, in order, without pick_summary, which goes behind each pick.
std::string names(const pq::unit& work) {
  std::string out;
  for (const auto& x : work.calls)
    if (x.what != &gd::sql::pick_summary)
      out += (out.empty() ? "" : " ") + std::string{x.what->name.substr(3)};
  return out;
}

std::optional<std::size_t> position(const pq::unit& work,
                                    const sql::statement& what) {
  for (std::size_t i = 0; i < work.calls.size(); ++i)
    if (work.calls[i].what == &what)
      return i;
  return std::nullopt;
}

/// The first parameter of a statement, an array of bigint in binary form.
ids first_parameter(const pq::call& what) {
  const auto& raw = what.args.values().front();
  auto number = [&raw](std::size_t at, std::size_t size) {
    std::uint64_t x = 0;
    for (std::size_t i = 0; i < size; ++i)
      x = x << 8 | static_cast<unsigned char>(raw[at + i]);
    return x;
  };
  ids xs;
  for (std::size_t at = 20; at < raw.size(); at += 12)
    xs.push_back(static_cast<std::int64_t>(number(at + 4, 8)));
  return xs;
}

/// The statement that writes the outcomes, where all of them are of one kind.
std::optional<std::size_t> flush_of(const pq::unit& work) {
  auto at = position(work, sql::flush_next);
  return at ? at : position(work, sql::flush);
}

ids flushed(const pq::unit& work) {
  auto at = flush_of(work);
  return at ? first_parameter(work.calls[*at]) : ids{};
}

/// The token of its pick.
std::string picked_under(const pq::unit& work) {
  auto at = position(work, sql::pick);
  return at ? work.calls[*at].args.values().front() : std::string{};
}

std::string first_text(const pq::unit& work) {
  return work.calls.front().args.values().front();
}

/// A reply in which no statement returned a row: every row was locked.
pq::reply no_rows(const pq::unit& work) {
  pq::reply x;
  x.results.resize(work.calls.size());
  return x;
}

pq::reply failed(gd::errc code, std::size_t call = 0) {
  pq::reply x;
  x.failure = gd::error{code, "made by hand", {}};
  x.failed_call = call;
  return x;
}

/// Without a server.
struct by_hand {
  clock_type::time_point now = clock_type::now();

  pq::unit begin(gd::turn& turn, std::int32_t want = 0) {
    auto work = turn.begin(want, now);
    CAF_REQUIRE(work);
    return std::move(work->work);
  }

  /// Waits as long as the turn wants to.
  pq::unit begin_when_due(gd::turn& turn, std::int32_t want = 0) {
    CAF_REQUIRE(turn.due(now) != clock_type::time_point::max());
    now = std::max(now, turn.due(now));
    return begin(turn, want);
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(turns_by_hand, by_hand)

CAF_TEST(a turn with nothing to do does nothing and waits for nothing) {
  auto turn = make_turn();
  CAF_CHECK(!turn.begin(0, now));
  CAF_CHECK(turn.due(now) == clock_type::time_point::max());
  CAF_CHECK(turn.empty());
}

CAF_TEST(one transaction flushes and rechecks and picks in this order) {
  auto turn = make_turn();
  turn.add(next_row(1));
  auto work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work), "flush_next pick"s);
  CAF_CHECK(work.transaction);
  CAF_CHECK(turn.occupied());
  CAF_CHECK(!turn.begin(5, now));
  CAF_CHECK(turn.due(now) == clock_type::time_point::max());
  turn.finish(0, no_rows(work), now);

  turn = make_turn();
  turn.add(next_row(1));
  auto parked = next_row(2);
  parked.what = write_kind::await;
  turn.add(parked);
  work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work), "flush_next flush recheck pick"s);
  CAF_CHECK(first_parameter(work.calls[0]) == (ids{1}));
  CAF_CHECK(first_parameter(work.calls[1]) == (ids{2}));
  CAF_CHECK(first_parameter(work.calls[2]) == (ids{2}));

  turn = make_turn();
  turn.add(next_row(1));
  turn.add(done_row(2));
  auto goes_on = next_row(3);
  goes_on.what = write_kind::advance;
  turn.add(goes_on);
  turn.add(done_row(4));
  auto consumes = next_row(5);
  consumes.consumed = {7};
  turn.add(consumes);
  work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work),
                  "flush_done flush_next flush flush_advance inbox pick"s);
  CAF_CHECK(first_parameter(work.calls[0]) == (ids{2, 4}));
  CAF_CHECK(first_parameter(work.calls[1]) == (ids{1}));
  CAF_CHECK(first_parameter(work.calls[2]) == (ids{5}));
  CAF_CHECK(first_parameter(work.calls[3]) == (ids{3}));

  turn = make_turn();
  work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work), "pick"s);
  CAF_CHECK(!work.transaction); // a single statement is one anyway

  turn = make_turn();
  turn.add(next_row(1));
  work = begin(turn, 0);
  CAF_CHECK_EQUAL(names(work), "flush_next"s);
  CAF_CHECK(work.transaction);
}

CAF_TEST(a question for candidates that fails holds up no outcome) {
  auto turn = make_turn();
  auto work = begin(turn, 5);
  turn.finish(0, failed(gd::errc::rejected), now);
  work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work), "candidates"s);
  turn.finish(0, failed(gd::errc::unavailable), now);
  turn.add(next_row(1));
  work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work), "flush_next"s);
  turn.finish(0, no_rows(work), now);
  CAF_MESSAGE("and a pick comes a second later");
  now += 999ms;
  work = begin(turn, 5);
  CAF_CHECK_EQUAL(names(work), "flush_next"s);
  turn.finish(0, no_rows(work), now);
  CAF_CHECK(!turn.begin(5, now));
  now += 1ms;
  CAF_CHECK_EQUAL(names(begin(turn, 5)), "pick"s);
}

CAF_TEST(outcomes are not blamed for rows of a lost pick) {
  auto turn = make_turn();
  turn.lose("node/1/3", now);
  turn.add(next_row(1));
  turn.add(next_row(2));
  auto work = begin(turn);
  CAF_CHECK_EQUAL(names(work), "release_lost flush_next"s);
  auto report = turn.finish(0, failed(gd::errc::rejected), now);
  CAF_CHECK(report.failure);
  CAF_CHECK(report.rows.empty());
  work = begin(turn);
  CAF_CHECK_EQUAL(names(work), "flush_next"s);
  CAF_CHECK(flushed(work) == (ids{1, 2}));
  turn.finish(0, no_rows(work), now);
  now += 1s;
  CAF_CHECK(names(begin(turn)).starts_with("release_lost"));
}

CAF_TEST(
  a row that takes all of the time to be shown is told after three tries) {
  auto turn = make_turn();
  for (std::int64_t id : {1, 2})
    turn.show({id, "node/1/1"});
  auto timeout = failed(gd::errc::unavailable);
  timeout.failure->sqlstate = "57014";
  auto work = turn.begin(0, now, 1);
  CAF_REQUIRE(work);
  turn.finish(0, timeout, now);
  int tries = 0;
  std::optional<gd::turn::shown> told;
  for (int i = 0; i < 10 && !told; ++i) {
    work = turn.begin(0, now, 1);
    if (!work) {
      CAF_MESSAGE("outcomes do not wait meanwhile");
      turn.add(next_row(7));
      work = turn.begin(0, now);
      CAF_REQUIRE(work);
      CAF_CHECK(flushed(work->work) == ids{7});
      turn.finish(0, no_rows(work->work), now);
      CAF_REQUIRE(turn.due(now, true) <= now + 1s);
      now += 1s;
      continue;
    }
    auto id = first_parameter(work->work.calls.front());
    if (names(work->work) != "show") {
      turn.finish(0, no_rows(work->work), now);
      continue;
    }
    CAF_REQUIRE_EQUAL(id.size(), 1u);
    if (id.front() == 2) {
      turn.finish(0, no_rows(work->work), now);
      continue;
    }
    ++tries;
    auto report = turn.finish(0, timeout, now);
    if (!report.shown_rows.empty())
      told = report.shown_rows.front();
  }
  CAF_REQUIRE(told);
  CAF_CHECK_EQUAL(told->which.id, 1);
  CAF_REQUIRE(told->why);
  CAF_CHECK_EQUAL(tries, 3);
}

CAF_TEST(every pick has a token of its own) {
  auto turn = make_turn();
  std::set<std::string> tokens;
  for (auto code : {gd::errc::conflict, gd::errc::sql, gd::errc::busy,
                    gd::errc::unavailable}) {
    now += 10s;
    auto work = begin(turn, 1);
    tokens.insert(picked_under(work));
    turn.finish(0, failed(code, work.calls.size() - 1), now);
  }
  now += 10s;
  auto work = begin(turn, 1);
  tokens.insert(picked_under(work));
  CAF_CHECK_EQUAL(tokens.size(), 5u);
  CAF_CHECK(tokens.contains("node/1/7"));
  auto report = turn.finish(0, no_rows(work), now);
  CAF_CHECK_EQUAL(report.token, "node/1/11"s);
}

CAF_TEST(a group holds an id once and the rest in order) {
  auto turn = make_turn();
  for (std::int64_t id : {3, 1, 3, 2, 3})
    turn.add(next_row(id), 10 * static_cast<std::uint64_t>(id));
  auto work = begin(turn);
  CAF_CHECK(flushed(work) == (ids{3, 1, 2}));
  turn.finish(0, failed(gd::errc::unavailable), now); // none has left
  work = begin_when_due(turn);
  CAF_CHECK(flushed(work) == (ids{3, 1, 2}));
}

CAF_TEST(rows and bytes of a group are bounded but one row always goes) {
  auto turn = make_turn(3);
  for (std::int64_t id = 1; id <= 7; ++id)
    turn.add(next_row(id));
  CAF_CHECK(flushed(begin(turn)) == (ids{1, 2, 3}));

  turn = make_turn(500, 10'000);
  for (std::int64_t id = 1; id <= 4; ++id)
    turn.add(next_row(id, std::string(4'000, 'x')));
  turn.add(next_row(5, std::string(50'000, 'x')));
  turn.add(next_row(6));
  CAF_CHECK(flushed(begin(turn)) == (ids{1, 2}));

  turn = make_turn(500, 10'000);
  turn.add(next_row(5, std::string(50'000, 'x')));
  turn.add(next_row(6));
  CAF_CHECK(flushed(begin(turn)) == (ids{5}));
}

CAF_TEST(a pick wants no more rows than a transaction may have) {
  auto turn = make_turn(3);
  auto work = begin(turn, 100);
  const auto& limit = work.calls.front().args.values()[4];
  CAF_CHECK_EQUAL(limit, "\0\0\0\x03"s);
}

CAF_TEST(a failed pick is left out for a while and loses no outcome) {
  for (auto code : {gd::errc::sql, gd::errc::busy, gd::errc::conflict}) {
    auto turn = make_turn();
    turn.add(next_row(1));
    turn.add(next_row(2));
    auto work = begin(turn, 5);
    auto report = turn.finish(0, failed(code, *position(work, sql::pick)), now);
    CAF_CHECK(report.failure && report.failure->code == code);
    CAF_CHECK(report.rows.empty());
    CAF_CHECK(!report.lost_pick);
    work = begin(turn, 5);
    CAF_CHECK_EQUAL(names(work), "flush_next"s);
    CAF_CHECK(flushed(work) == (ids{1, 2}));
    turn.finish(0, no_rows(work), now);
    now += 2s;
    CAF_CHECK_EQUAL(names(begin(turn, 5)), "flush_next pick"s);
  }
}

CAF_TEST(a failure without a culprit is tried again later and later) {
  auto turn = make_turn();
  turn.add(next_row(1), 77);
  clock_type::duration last{0};
  for (int i = 0; i < 12; ++i) {
    auto work = begin_when_due(turn);
    CAF_CHECK(flushed(work) == (ids{1}));
    auto report = turn.finish(0, failed(gd::errc::conflict), now);
    CAF_CHECK(report.failure && report.rows.empty());
    auto wait = turn.due(now) - now;
    CAF_CHECK(!turn.begin(5, now)); // not even to pick
    CAF_CHECK(!turn.begin(5, now + wait - 1ms));
    CAF_CHECK_GREATER_OR_EQUAL(wait.count(), last.count());
    CAF_CHECK(wait <= 5s);
    last = wait;
  }
  CAF_CHECK(last == 5s);
  // Success forgets.
  auto work = begin_when_due(turn);
  turn.finish(0, no_rows(work), now);
  work = begin_when_due(turn);
  turn.finish(0, failed(gd::errc::conflict), now);
  CAF_CHECK(turn.due(now) - now == 20ms);
}

CAF_TEST(of a group that is refused the guilty row alone is told) {
  constexpr std::int64_t guilty = 37;
  auto turn = make_turn();
  for (std::int64_t id = 1; id <= 100; ++id)
    turn.add(next_row(id), static_cast<std::uint64_t>(id) + 1'000);
  ids written;
  std::vector<gd::turn::flushed> told;
  int transactions = 0;
  while (told.empty() || written.size() < 99) {
    CAF_REQUIRE_LESS(transactions, 20);
    ++transactions;
    auto work = begin(turn, 5);
    auto group = flushed(work);
    if (std::find(group.begin(), group.end(), guilty) != group.end()) {
      auto report = turn.finish(0, failed(gd::errc::rejected, *flush_of(work)),
                                now);
      std::move(report.rows.begin(), report.rows.end(),
                std::back_inserter(told));
      // A group that a stranger's row has failed is no failure of the turn.
      CAF_CHECK(!report.failure);
    } else {
      // Under suspicion a group goes without a pick.
      CAF_CHECK_EQUAL(names(work), "flush_next"s);
      written.insert(written.end(), group.begin(), group.end());
      turn.finish(0, no_rows(work), now);
    }
  }
  CAF_CHECK_LESS_OR_EQUAL(transactions, 15);
  CAF_REQUIRE_EQUAL(told.size(), 1u);
  CAF_CHECK_EQUAL(told.front().row->id, guilty);
  CAF_CHECK_EQUAL(told.front().tag, 1'037u);
  CAF_CHECK(told.front().what == verdict::refused);
  CAF_CHECK_EQUAL(told.front().why.message, "made by hand"s);
  CAF_CHECK_EQUAL(told.front().row->state, R"({"n": 2})"s);
}

CAF_TEST(a locked row is tried again soon and then alone without a pick) {
  auto turn = make_turn();
  turn.add(next_row(1), 77);
  clock_type::duration waited{0};
  for (int tries = 0; tries < 5; ++tries) {
    auto work = begin_when_due(turn, 1);
    CAF_CHECK_EQUAL(names(work), "flush_next pick"s);
    auto report = turn.finish(0, no_rows(work), now);
    CAF_CHECK(report.rows.empty() && !report.failure);
    CAF_CHECK(!turn.empty());
    waited += turn.due(now) - now;
  }
  CAF_CHECK(waited < 1s);
  // The lock is not to be had: other work goes in between.
  for (int tries = 0; tries < 20; ++tries) {
    auto work = begin_when_due(turn, 1);
    CAF_REQUIRE_EQUAL(names(work), "lock_timeout lock flush_next"s);
    auto report = turn.finish(0, failed(gd::errc::busy, 1), now);
    CAF_CHECK(report.rows.empty() && !report.failure);
    CAF_CHECK(turn.due(now) - now <= 1s);
    work = begin(turn, 1);
    CAF_CHECK_EQUAL(names(work), "pick"s);
    turn.finish(0, no_rows(work), now);
  }
  // Locked and not there: deleted.
  auto work = begin_when_due(turn);
  auto report = turn.finish(0, no_rows(work), now);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::stale);
  CAF_CHECK_EQUAL(report.rows.front().tag, 77u);
  CAF_CHECK(turn.empty());
}

CAF_TEST(many rows that strangers hold do not starve the others) {
  auto turn = make_turn();
  for (std::int64_t id = 1; id <= 100; ++id)
    turn.add(next_row(id));
  for (int tries = 0; tries < 5; ++tries)
    turn.finish(0, no_rows(begin_when_due(turn)), now);
  now += 10s; // all of them are due, alone
  int picks = 0;
  for (int i = 0; i < 10; ++i) {
    auto work = begin(turn, 1);
    picks += position(work, sql::pick).has_value();
    turn.finish(
      0, position(work, sql::lock) ? failed(gd::errc::busy, 1) : no_rows(work),
      now);
  }
  CAF_CHECK_EQUAL(picks, 5);

  // A new outcome is in one of the next two.
  turn.add(next_row(1'000));
  ids next_two;
  for (int i = 0; i < 2; ++i) {
    auto work = begin(turn);
    for (auto id : flushed(work))
      next_two.push_back(id);
    turn.finish(
      0, position(work, sql::lock) ? failed(gd::errc::busy, 1) : no_rows(work),
      now);
  }
  CAF_CHECK(std::count(next_two.begin(), next_two.end(), 1'000) == 1);
}

CAF_TEST(after an unknown fate outcomes are sent again and the pick is not ) {
  auto turn = make_turn();
  turn.add(next_row(1), 77);
  auto work = begin(turn, 5);
  auto report = turn.finish(0, failed(gd::errc::unknown_fate), now);
  CAF_CHECK(report.lost_pick == "node/1/7");
  CAF_CHECK(report.failure);
  CAF_CHECK(report.rows.empty());

  work = begin_when_due(turn, 5);
  CAF_CHECK_EQUAL(names(work), "release_lost flush_next pick"s);
  CAF_CHECK(flushed(work) == (ids{1}));
  CAF_CHECK_EQUAL(picked_under(work), "node/1/8"s);
  CAF_CHECK(work.calls.front().args.values().front().ends_with("node/1/7"));
  turn.finish(0, no_rows(work), now);

  // Not there or not the lease's any more: nobody knows whether it applied.
  for (int tries = 1; tries < 5; ++tries)
    turn.finish(0, no_rows(begin_when_due(turn)), now);
  gd::turn::report last;
  while (last.rows.empty())
    last = turn.finish(0, no_rows(begin_when_due(turn)), now);
  CAF_CHECK(last.rows.front().what == verdict::unknown);
  CAF_CHECK_EQUAL(last.rows.front().tag, 77u);
}

CAF_TEST(rows of lost picks are looked for until one lease has passed) {
  auto turn = make_turn();
  auto lost_at = now;
  begin(turn, 5);
  turn.finish(0, failed(gd::errc::unknown_fate), now);
  begin_when_due(turn, 5);
  turn.finish(0, failed(gd::errc::unknown_fate), now); // and the next one, too
  int releases = 0;
  while (turn.due(now) != clock_type::time_point::max()) {
    now = std::max(now, turn.due(now));
    auto work = turn.begin(0, now);
    if (!work)
      continue;
    CAF_REQUIRE_EQUAL(names(work->work), "release_lost"s);
    turn.finish(0, no_rows(work->work), now);
    ++releases;
    CAF_REQUIRE_LESS(releases, 1'000);
  }
  CAF_CHECK_GREATER(releases, 100);
  CAF_CHECK(now - lost_at >= 60s);
  CAF_CHECK(now - lost_at < 62s);
}

CAF_TEST(a second transaction goes beside one only if it is worth it) {
  auto turn = make_turn(500, 8 << 20, 2);
  turn.add(next_row(1));
  auto first = turn.begin(5, now);
  CAF_REQUIRE(first);
  CAF_CHECK_EQUAL(first->transaction, 0u);
  CAF_CHECK_EQUAL(turn.wanted(), 5);
  for (std::size_t i = 1; i < gd::turn::settings{}.worth_a_transaction; ++i)
    turn.add(next_row(1 + static_cast<std::int64_t>(i)));
  CAF_CHECK(!turn.begin(5, now));
  CAF_CHECK(turn.due(now) == clock_type::time_point::max());
  turn.add(next_row(1'000));
  CAF_CHECK(turn.due(now) <= now);
  auto second = turn.begin(3, now);
  CAF_REQUIRE(second);
  CAF_CHECK_EQUAL(second->transaction, 1u);
  CAF_CHECK_EQUAL(names(second->work), "flush_next pick"s);
  CAF_CHECK_EQUAL(turn.wanted(), 8);
  CAF_CHECK(!turn.begin(5, now)); // there is no third
  CAF_MESSAGE("each answer belongs to its own transaction");
  auto report = turn.finish(1, failed(gd::errc::unknown_fate), now);
  CAF_REQUIRE(report.lost_pick);
  CAF_CHECK(report.lost_pick->ends_with("node/1/8"));
  CAF_CHECK_EQUAL(turn.wanted(), 5);
  CAF_CHECK(!turn.empty());
  auto rest = turn.abandon();
  CAF_REQUIRE(rest.release.at(0));
  CAF_CHECK(first_text(*rest.release.at(0)).ends_with("node/1/7"));
  CAF_CHECK(!rest.release.at(1));
  report = turn.finish(0, failed(gd::errc::unknown_fate), now);
  CAF_CHECK(report.lost_pick->ends_with("node/1/7"));
}

CAF_TEST(what an abandoned turn has picked is released and nothing else) {
  auto turn = make_turn();
  CAF_CHECK(!turn.abandon().release.front());
  turn.add(next_row(1));
  turn.finish(0, no_rows(begin(turn, 0)), now);
  CAF_CHECK(!turn.abandon().release.front()); // an outcome alone
  begin(turn, 5);
  auto rest = turn.abandon();
  CAF_REQUIRE(rest.release.front());
  CAF_CHECK_EQUAL(names(*rest.release.front()), "release_lost"s);
  CAF_CHECK(first_text(*rest.release.front()).ends_with("node/1/7"));
  CAF_CHECK(!rest.locks);
  turn.unlock({"k", "1"});
  rest = turn.abandon();
  CAF_CHECK_EQUAL(rest.keys, std::vector{"k"s});
  CAF_CHECK(rest.locks);
}

CAF_TEST(a lost transaction without a pick loses no pick) {
  auto turn = make_turn();
  turn.add(next_row(1));
  begin(turn);
  auto report = turn.finish(0, failed(gd::errc::unknown_fate), now);
  CAF_CHECK(!report.lost_pick);
  CAF_CHECK_EQUAL(names(begin_when_due(turn)), "flush_next"s);
}

CAF_TEST_FIXTURE_SCOPE_END()

// -- with a server ------------------------------------------------------------

namespace {

struct with_server : gd::test::engine_database {
  clock_type::time_point now = clock_type::now();
  int transactions = 0;

  ids executing(int n) {
    ids xs;
    for (auto& x : db.rows("insert into gen_durable (fsm, step, status, "
                           "locked_by, lease_expires_at)"
                           " select 'Order', 'collect', 'executing', "
                           "'node/1/1', now() + interval '1 minute'"
                           " from generate_series(1, $1) returning id",
                           {std::to_string(n)}))
      xs.push_back(std::stoll(x.front().value()));
    return xs;
  }

  void runnable(int n) {
    db.rows("insert into gen_durable (fsm, step) select 'Order', 'collect' "
            "from generate_series(1, $1)",
            {std::to_string(n)});
  }

  gd::turn::report once(gd::turn& turn, std::int32_t want = 0) {
    auto due = turn.due(now);
    if (want == 0)
      CAF_REQUIRE(due != clock_type::time_point::max());
    if (due != clock_type::time_point::max())
      now = std::max(now, due);
    auto work = turn.begin(want, now);
    CAF_REQUIRE(work);
    ++transactions;
    auto report = turn.finish(0, engine->run(work->work), now);
    CAF_CHECK(engine->state() == pq::connection::phase::idle);
    return report;
  }

  /// Until nothing waits; the fates by id.
  std::map<std::int64_t, gd::turn::flushed> finish_all(gd::turn& turn) {
    std::map<std::int64_t, gd::turn::flushed> xs;
    while (!turn.empty()) {
      CAF_REQUIRE_LESS(transactions, 500);
      for (auto& x : once(turn).rows) {
        auto id = x.row->id;
        CAF_CHECK(xs.emplace(id, std::move(x)).second); // each once
      }
    }
    return xs;
  }
};

} // namespace

CAF_TEST_FIXTURE_SCOPE(turns_with_a_server, with_server)

CAF_TEST(one poisoned row of a hundred is told and ninety nine commit) {
  for (const auto* poison :
       {R"({"n": "\u0000"})", R"({"n": 1)", "{\"n\": \"\xff\"}"}) {
    auto rows = executing(100);
    auto guilty = rows[61];
    auto turn = make_turn();
    for (auto id : rows)
      turn.add(next_row(id, id == guilty ? poison : R"({"n": 2})"));
    transactions = 0;
    auto fates = finish_all(turn);
    CAF_CHECK_EQUAL(fates.size(), 100u);
    for (const auto& [id, x] : fates)
      CAF_CHECK(x.what == (id == guilty ? verdict::refused : verdict::applied));
    CAF_CHECK(fates[guilty].why.code == gd::errc::rejected);
    CAF_CHECK(!fates[guilty].why.message.empty());
    CAF_CHECK_EQUAL(fates[guilty].row->state, poison);
    CAF_CHECK_LESS_OR_EQUAL(transactions, 15);
    CAF_CHECK_EQUAL(count("step = 'ship' and state = '{\"n\": 2}'"), "99");
    CAF_CHECK_EQUAL(count("status = 'executing' and locked_by = 'node/1/1'"),
                    "1");
    db.rows("delete from gen_durable");
  }
}

CAF_TEST(several poisoned rows are told each and the others commit) {
  auto rows = executing(64);
  std::set<std::int64_t> guilty{rows[0], rows[1], rows[31], rows[63]};
  auto turn = make_turn();
  for (auto id : rows)
    turn.add(next_row(id, guilty.contains(id) ? "{" : "{}"));
  auto fates = finish_all(turn);
  CAF_CHECK_EQUAL(fates.size(), 64u);
  for (const auto& [id, x] : fates)
    CAF_CHECK(x.what
              == (guilty.contains(id) ? verdict::refused : verdict::applied));
}

CAF_TEST(an error in a turn leaves the connection usable and nothing behind) {
  auto rows = executing(2);
  runnable(1);
  auto turn = make_turn();
  turn.add(next_row(rows[0], "{"));
  auto report = once(turn, 5);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::refused);
  CAF_CHECK(report.picked.empty());
  CAF_CHECK_EQUAL(count("status = 'runnable'"), "1");
  CAF_CHECK_EQUAL(db.scalar("select count(*) from pg_stat_activity where pid = "
                            + std::to_string(engine->backend())
                            + " and state = 'idle'"),
                  "1");
  turn.add(next_row(rows[1]));
  report = once(turn, 5);
  CAF_REQUIRE_EQUAL(report.rows.size(), 1u);
  CAF_CHECK(report.rows.front().what == verdict::applied);
  CAF_CHECK_EQUAL(report.picked.size(),
                  2u); // what it has just made runnable, too
}

CAF_TEST(a pick that fails loses no outcome) {
  auto rows = executing(3);
  runnable(3);
  db.rows("create function refuse() returns trigger language plpgsql as"
          " 'begin raise exception using errcode = ''42501'', message = ''no "
          "picks''; end';"
          "create trigger refuse before update on gen_durable for each row"
          " when (new.status = 'executing') execute function refuse()");
  auto turn = make_turn();
  for (auto id : rows)
    turn.add(next_row(id));
  auto report = once(turn, 5);
  CAF_CHECK(report.failure && report.failure->message == "no picks");
  CAF_CHECK(report.rows.empty());
  CAF_CHECK_EQUAL(count("status = 'executing'"), "3");
  report = once(turn, 5);
  CAF_CHECK(!report.failure);
  CAF_CHECK_EQUAL(report.rows.size(), 3u);
  CAF_CHECK_EQUAL(count("step = 'ship'"), "3");
  db.rows("drop trigger refuse on gen_durable");
  now += 2s;
  CAF_CHECK_EQUAL(once(turn, 5).picked.size(), 5u);
}

CAF_TEST(a pick tells whether there may be more) {
  runnable(3);
  auto turn = make_turn();
  auto report = once(turn, 2);
  CAF_CHECK_EQUAL(report.picked.size(), 2u);
  CAF_CHECK(report.full);
  report = once(turn, 2);
  CAF_CHECK_EQUAL(report.picked.size(), 1u);
  CAF_CHECK(!report.full);
  CAF_CHECK_EQUAL(report.token, "node/1/8"s);
  CAF_CHECK_EQUAL(count("locked_by = 'node/1/8'"), "1");
}

CAF_TEST(a second transaction picks beside one while picks take all they want) {
  runnable(8);
  auto turn = make_turn(500, 8 << 20, 2);
  CAF_CHECK(!turn.plenty());
  CAF_CHECK(once(turn, 2).full);
  CAF_CHECK(turn.plenty());
  auto first = turn.begin(3, now);
  CAF_REQUIRE(first);
  auto enough = gd::turn::settings{}.worth_a_pick;
  CAF_CHECK(turn.occupied(enough - 1));
  CAF_CHECK(!turn.begin(enough - 1, now));
  auto second = turn.begin(enough, now);
  CAF_REQUIRE(second);
  CAF_CHECK_EQUAL(second->transaction, 1u);
  CAF_CHECK_EQUAL(names(second->work), "pick"s);
  CAF_CHECK(turn.finish(0, engine->run(first->work), now).full);
  CAF_CHECK_EQUAL(turn.finish(1, engine->run(second->work), now).picked.size(),
                  3u);
  CAF_MESSAGE("not after one that found less, failed, or looked for keys");
  CAF_CHECK(!turn.plenty());
  CAF_REQUIRE(turn.begin(enough, now));
  CAF_CHECK(!turn.begin(enough, now));
  turn.finish(0, failed(gd::errc::unavailable), now);
  now += 1s;
  runnable(3);
  CAF_CHECK(once(turn, 1).full);
  CAF_CHECK(turn.plenty());
  CAF_REQUIRE(turn.begin(1, now));
  turn.finish(0, failed(gd::errc::unavailable), now);
  CAF_CHECK(!turn.plenty());
  now += 1s;
  db.rows("insert into gen_durable (fsm, step, partition_key) values ('Order', "
          "'collect', 'k')");
  CAF_CHECK(once(turn, 1).full);
  CAF_CHECK(!turn.plenty()); // the second could not pick
  CAF_CHECK(once(turn, 1).full);
  CAF_CHECK(!turn.plenty());
}

CAF_TEST(
  picks begin where the last one began unless they are to look everywhere) {
  auto turn = make_turn();
  auto picked = [&](const std::string& row) {
    auto id = db.scalar("insert into gen_durable (fsm, step, priority, "
                        "eligible_at) values ('Order', 'collect', "
                        + row + ") returning id");
    auto rows = once(turn, 5).picked;
    CAF_CHECK(rows.size() < 2);
    return !rows.empty() && std::to_string(rows.front().id) == id;
  };
  CAF_MESSAGE("of a priority: what is as old as the first row was, or younger");
  CAF_CHECK(picked("0, '2026-01-01 00:00:10Z'"));
  CAF_CHECK(!picked("0, '2026-01-01 00:00:09Z'"));
  CAF_CHECK(picked("0, '2026-01-01 00:00:10Z'"));
  CAF_CHECK(picked("0, '2026-01-01 00:00:20Z'"));
  CAF_CHECK(!picked("0, '2026-01-01 00:00:19Z'"));
  CAF_MESSAGE("of another priority: whatever there is, from before 2000, too");
  CAF_CHECK(picked("-1, '2026-01-01 00:00:05Z'"));
  CAF_CHECK(picked("1, '1970-01-01 00:00:00Z'"));
  CAF_CHECK(picked("1, '-infinity'"));
  CAF_CHECK(picked("-32768, '2026-01-01 00:00:05Z'"));
  CAF_CHECK(!picked("-32768, '2026-01-01 00:00:04Z'"));
  CAF_CHECK(picked("32767, '2026-01-01 00:00:05Z'"));
  CAF_MESSAGE("an insert may commit a second after its time");
  CAF_CHECK(picked("0, now()"));
  CAF_CHECK(picked("0, (select max(updated_at) from gen_durable where status "
                   "= 'executing') - interval '0.99 s'"));
  CAF_CHECK(!picked("0, (select max(updated_at) from gen_durable where status "
                    "= 'executing') - interval '3 s'"));
  CAF_MESSAGE("everywhere");
  CAF_CHECK_EQUAL(once(turn, 10).picked.size(), 0u);
  turn.scan_everything();
  CAF_CHECK_EQUAL(once(turn, 10).picked.size(), 4u);
}

CAF_TEST(after a failure or a lost pick the next one looks everywhere) {
  auto insert = [&](const std::string& at) {
    db.rows("insert into gen_durable (fsm, step, eligible_at) values ('Order', "
            "'collect', $1)",
            {at});
  };
  for (auto how : {gd::errc::unavailable, gd::errc::unknown_fate}) {
    auto turn = make_turn();
    insert("2026-01-01 00:00:10Z");
    CAF_CHECK_EQUAL(once(turn, 5).picked.size(), 1u);
    insert("2026-01-01 00:00:05Z");
    CAF_CHECK_EQUAL(once(turn, 5).picked.size(), 0u);
    CAF_REQUIRE(turn.begin(5, now));
    turn.finish(0, failed(how), now);
    now += 1s;
    CAF_CHECK_EQUAL(once(turn, 5).picked.size(), 1u);
  }
}

CAF_TEST(picks that begin where the last one began take what is most urgent) {
  std::mt19937 random{1};
  auto up_to = [&random](unsigned n) { return static_cast<int>(random() % n); };
  gd::turn turn{{.queue = "default",
                 .incarnation = "node/1",
                 .machines = {{"Order", 1}, {"Order", 2}, {"Bill", 1}},
                 .lease = 60s}};
  for (int i = 0; i < 300; ++i) {
    // One machine for a while: its rows are claimed as they are read.
    auto machines = i % 100 < 50 ? 1 : 3;
    for (auto n = up_to(6); n > 0; --n)
      db.rows("insert into gen_durable (fsm, fsm_version, step, priority, "
              "eligible_at) values ((array['Order', 'Order', "
              "'Bill'])[$1::int], $2::int, 'collect', $3::smallint, "
              "clock_timestamp() - $4::int * interval '1 ms')",
              {std::to_string(machines == 1 ? 1 : 1 + n % 3),
               std::to_string(machines == 1 ? 1 : 1 + (n % 3 == 1)),
               std::to_string(up_to(12) - 3), std::to_string(up_to(900))});
    auto want = 1 + up_to(5);
    ids expected, picked;
    for (const auto& row :
         db.rows("select id from gen_durable where status = 'runnable' order "
                 "by priority, eligible_at, id limit $1::int",
                 {std::to_string(want)}))
      expected.push_back(std::stoll(row.front().value()));
    for (const auto& row : once(turn, want).picked)
      picked.push_back(row.id);
    CAF_REQUIRE_EQUAL(picked, expected);
    db.rows("delete from gen_durable where status = 'executing' and id % 2 = "
            "0; update gen_durable set status = 'done' where status = "
            "'executing'");
  }
}

CAF_TEST(
  a locked row is written when its stranger is gone and holds up nobody) {
  auto rows = executing(10);
  session stranger{db.conninfo()};
  stranger.exec("begin");
  stranger.exec("select from gen_durable where id = $1 for update",
                {std::to_string(rows[4])});
  auto turn = make_turn();
  for (auto id : rows)
    turn.add(next_row(id));
  auto report = once(turn);
  CAF_CHECK_EQUAL(report.rows.size(), 9u);
  CAF_CHECK_EQUAL(count("step = 'ship'"), "9");
  for (int i = 0; i < 8; ++i) // beyond those that only look
    CAF_CHECK(once(turn).rows.empty());
  stranger.exec("commit");
  auto fates = finish_all(turn);
  CAF_CHECK_EQUAL(fates.size(), 1u);
  CAF_CHECK(fates[rows[4]].what == verdict::applied);
  CAF_CHECK_EQUAL(count("step = 'ship'"), "10");
}

CAF_TEST(suspects that are picked one by one are no more than may run at once) {
  runnable(6);
  db.rows("update gen_durable set crashes = 2; update gen_durable set step = "
          "'poison' where id in (1, 3); create function refuse() returns "
          "trigger language plpgsql as $$ begin raise exception 'not this "
          "one'; end $$; create trigger refuse before update on gen_durable "
          "for each row when (new.step = 'poison' and new.status = "
          "'executing') execute function refuse()");
  auto quarantine = std::make_shared<gd::quarantine>();
  quarantine->enter("default", 16, 20s, [] {}); // two at once
  auto turn = gd::turn{{.queue = "default",
                        .incarnation = "node/1",
                        .machines = {{"Order", 1}},
                        .suspects = quarantine}};
  ids got;
  std::map<std::int64_t, gd::pick_bisection::fate> told;
  auto run = [&] {
    for (int i = 0; i < 20; ++i) {
      now += 200ms;
      auto work = turn.begin(10, now);
      if (!work)
        continue;
      auto report = turn.finish(0, engine->run(work->work), now);
      CAF_CHECK(!report.on_trial);
      for (const auto& x : report.picked)
        got.push_back(x.id);
      for (const auto& x : report.unpickable)
        told.emplace(x.row.id, x.what);
    }
  };
  run();
  CAF_CHECK_EQUAL(got.size(), 2u);
  CAF_CHECK(!told.empty());
  CAF_CHECK(told.begin()->second == gd::pick_bisection::fate::failed);
  CAF_MESSAGE("others follow when these have ended");
  for (int i = 0; i < 3; ++i) {
    for (auto id : got)
      quarantine->ended(id, false);
    run();
  }
  std::sort(got.begin(), got.end());
  CAF_CHECK_EQUAL(got, (ids{2, 4, 5, 6}));
  CAF_CHECK_EQUAL(told.size(), 2u);
}

CAF_TEST(what is picked by its id has not become a suspect
         or ceased to be one) {
  runnable(5);
  db.rows("update gen_durable set crashes = id - 1");
  auto take = [this](const std::vector<std::int32_t>& most) {
    auto reply = engine->run({{store::pick_these(
      {1, 2, 3, 4, 5}, {.token = "node/1/1", .lease = 60s}, most)}});
    CAF_REQUIRE(reply.ok());
    auto answer = store::read_pick(reply.results.front());
    CAF_CHECK_EQUAL(answer.refused(), 0u);
    ids got;
    for (const auto& x : answer.rows)
      got.push_back(x.id);
    return got;
  };
  CAF_CHECK_EQUAL(take({2, 1}), (ids{3}));
  CAF_CHECK_EQUAL(take({2, 2}), (ids{4, 5}));
  CAF_CHECK_EQUAL(take({}), (ids{1, 2}));
}

CAF_TEST(two outcomes of one row apply once whoever is first) {
  auto id = executing(1).front();
  db.rows("update gen_durable set locked_by = 'node/1/2'");
  auto turn = make_turn();
  auto late = next_row(id);
  auto current = next_row(id);
  current.token = "node/1/2";
  turn.add(late, 1);
  turn.add(current, 2);
  std::map<std::uint64_t, verdict> fates;
  while (!turn.empty())
    for (auto& x : once(turn).rows)
      fates.emplace(x.tag, x.what);
  CAF_CHECK(fates
            == (std::map<std::uint64_t, verdict>{{1, verdict::stale},
                                                 {2, verdict::applied}}));
}

CAF_TEST(in a mixture each outcome gets its own answer and row) {
  auto rows = executing(6);
  db.rows("update gen_durable set locked_by = 'node/1/2' where id in ($1, $2)",
          {std::to_string(rows[0]), std::to_string(rows[1])});
  auto turn = make_turn();
  turn.add(done_row(rows[0]), 0);
  turn.add(next_row(rows[1]), 1);
  turn.add(done_row(rows[2]), 2);
  turn.add(next_row(rows[3]), 3);
  auto goes_on = next_row(rows[4]);
  goes_on.what = write_kind::advance;
  turn.add(goes_on, 4);
  turn.add(done_row(rows[5]), 5);
  turn.add(done_row(1'000'000), 6); // deleted
  auto fates = finish_all(turn);
  CAF_CHECK_EQUAL(fates.size(), 7u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAF_CHECK_EQUAL(fates[rows[i]].tag, i);
    CAF_CHECK(fates[rows[i]].what
              == (i < 2 ? verdict::stale : verdict::applied));
  }
  CAF_CHECK(fates[1'000'000].what == verdict::stale);
  CAF_CHECK_EQUAL(count("status = 'done' and result = '{}'"), "2");
  CAF_CHECK_EQUAL(count("status = 'runnable' and step = 'ship'"), "1");
  CAF_CHECK_EQUAL(count("status = 'executing' and step = 'ship'"), "1");
  CAF_CHECK_EQUAL(count("locked_by = 'node/1/2' and step = 'collect'"), "2");
}

CAF_TEST_FIXTURE_SCOPE_END()

} // namespace turn_suite
